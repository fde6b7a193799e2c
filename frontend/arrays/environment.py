"""The process and what it holds: devices, processes, live arrays, versions; and the types of values."""

from __future__ import annotations

import gc
import platform
import sys
from typing import Any, cast

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.references import AbstractRef
from quire.runtime.array import Array, device_of
from quire.runtime.devices import devices, local_devices
from quire.runtime.processes.current import process

from ..version import __version__
from .key_array import KEY_DTYPE, is_keys
from .key_references import KeyRef
from .placement import as_device


def default_backend() -> str:
    """The platform on which programs run by default: ``"cpu"``, ``"cuda"`` or ``"vulkan"`` (`jax.default_backend`).

    Example:
        >>> import quire
        >>> quire.default_backend()
        'cpu'
    """
    return as_device(None).platform


def local_device_count(backend: str | None = None) -> int:
    """How many devices of a platform (default: the default one) this process has (`jax.local_device_count`).

    Example:
        >>> import quire
        >>> quire.local_device_count()
        1
    """
    return len(local_devices(None, backend))


def process_count(backend: str | None = None) -> int:
    """The number of processes that work together (`jax.process_count`): 1 without `quire.distributed.initialize`."""
    return process().size


def process_index(backend: str | None = None) -> int:
    """The number of this process among them (`jax.process_index`)."""
    return process().rank


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes (`jax.process_indices`)."""
    return list(process().ranks)


def live_arrays(platform: str | None = None) -> list[Array]:
    """All arrays that hold memory, also unreachable ones that Python has not freed yet (`jax.live_arrays`).

    Args:
        platform: only those on devices of this platform.

    It looks through all objects of the process: for finding out what holds memory, not for programs.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> x = qnp.ones(3)
        >>> any(a is x for a in quire.live_arrays())
        True
    """
    found = [x for x in gc.get_objects() if type(x) is Array and not x.is_deleted()]
    return found if platform is None else [x for x in found if device_of(x).platform == platform]


def effects_barrier() -> None:
    """Wait for the side effects of all programs that were called (`jax.effects_barrier`).

    Programs run to their end when they are called, so there is nothing to wait for.
    """


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions and the devices that a report of a problem should name (`jax.print_environment_info`).

    With `return_string` the text is returned instead.

    Example:
        >>> import quire
        >>> print(quire.print_environment_info(return_string=True))
        quire:  ...
        numpy:  ...
    """
    from importlib.metadata import PackageNotFoundError, version

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "(not installed)"

    rows = {
        "quire": __version__,
        **{p: of(p) for p in ("numpy", "scipy", "ml_dtypes", "optree", "iree-base-compiler", "iree-base-runtime")},
        "python": sys.version.replace("\n", " "),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "devices": ", ".join(map(str, devices())),
        "process_count": str(process_count()),
        "options": repr(config.options),
    }
    width = max(map(len, rows)) + 1
    text = "\n".join(f"{name + ':':<{width}} {value}" for name, value in rows.items())
    if return_string:
        return text
    print(text)
    return None


def typeof(x: Any) -> ShapedArray:
    """The type of an array, a traced value or a number: shape, dtype and whether it is weak (`jax.typeof`).

    Of values on a mesh with axes of type Explicit it has a `sharding`. Raises TypeError for anything else.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> quire.typeof(qnp.ones((2, 3))).shape
        (2, 3)
    """
    if type(x) is KeyRef:
        return cast("Any", AbstractRef(ShapedArray(x.shape, cast("Any", KEY_DTYPE))))
    aval = aval_of(x.base if is_keys(x) else x)
    return aval.along(aval.ndim - 1).update(dtype=cast("Any", KEY_DTYPE)) if is_keys(x) else aval

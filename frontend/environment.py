"""The process and what it holds: devices, processes, live arrays, caches, versions; names for parts of programs."""

from __future__ import annotations

import contextlib
import functools
import gc
import platform
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from quire.ir import source
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.references import AbstractRef
from quire.ir.tracing import compile_time
from quire.passes.cache import clear_transforms
from quire.runtime.array import Array, device_of
from quire.runtime.devices import devices, local_devices
from quire.runtime.processes.current import process

from .arrays.key_array import KEY_DTYPE, is_keys
from .arrays.key_references import KeyRef
from .arrays.placement import as_device
from .compiling.compiled_function import clear_compiled_functions
from .eager.evaluation import programs
from .version import __version__

F = TypeVar("F", bound=Callable[..., Any])


# -- devices and processes --------------------------------------------------------------------------------------------


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


def clear_caches() -> None:
    """Forget all traces, compiled programs and transformed jaxprs of this process (`jax.clear_caches`).

    Programs in the cache on the disk stay; they are loaded instead of compiled.

    Example:
        >>> import quire
        >>> f = quire.compile(lambda x: x + 1)
        >>> _ = f(1.0)
        >>> quire.clear_caches()
        >>> f.cache_info().currsize
        0
    """
    clear_compiled_functions()
    programs.clear()
    clear_transforms()


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


# -- values and traces ------------------------------------------------------------------------------------------------


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
    return ShapedArray(x.shape, cast("Any", KEY_DTYPE)) if is_keys(x) else aval_of(x)


def ensure_compile_time_eval() -> contextlib.AbstractContextManager[None]:
    """For a block, compute at once, while a function is traced, instead of recording (`jax.ensure_compile_time_eval`).

    What is known is computed; an operation on a traced value is recorded by that value's trace.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.compile
        ... def f(x):
        ...     with quire.ensure_compile_time_eval():
        ...         n = int(qnp.arange(4).sum())
        ...     return x * n
        >>> float(f(2.0))
        12.0
    """
    return compile_time()


# -- names of parts of programs ---------------------------------------------------------------------------------------


class named_scope(contextlib.ContextDecorator):
    """Operations in the block, or of the decorated function, get a name that dumps and errors show (`jax.named_scope`).

    Blocks nest: ``encoder/attention``. The names are in the source of each equation: ``dumpir --source``, the locations
    of the StableHLO text, and the messages of errors.

    Args:
        name: a string without line breaks; TypeError or ValueError otherwise.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> def f(x):
        ...     with quire.named_scope("rotation"):
        ...         return qnp.cos(x)
        >>> quire.make_jaxpr(f)(1.0).eqns[0].source.scope
        'rotation'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"quire.named_scope: name must be a string, got {name!r} of type {type(name).__name__}")
        if not name or "\n" in name:
            raise ValueError(f"quire.named_scope: name must be a line of text, got {name!r}")
        self.name = name
        self._blocks: list[contextlib.AbstractContextManager[None]] = []

    def _recreate_cm(self) -> named_scope:
        return named_scope(self.name)

    def __enter__(self) -> named_scope:
        block = source.named_scope(self.name)
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._blocks.pop().__exit__(*exc)


def named_call(fun: F, *, name: str | None = None) -> F:
    """The function with its operations in a `named_scope` of its name, or of `name` (`jax.named_call`).

    Raises:
        TypeError: `fun` is not a function.

    Example:
        >>> import quire
        >>> g = quire.named_call(lambda x: x * 2, name="double")
        >>> quire.make_jaxpr(g)(1.0).eqns[0].source.scope
        'double'
    """
    if not callable(fun):
        raise TypeError(f"quire.named_call: fun must be a function, got {fun!r}")
    label = name if name is not None else getattr(fun, "__name__", type(fun).__name__)

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named  # type: ignore[return-value]


class UserContext:
    """A value of the user's that compiled functions depend on; made by `make_user_context`."""

    def __init__(self, default: Any) -> None:
        self.default = default

    @property
    def value(self) -> Any:
        """The value in force."""
        return dict(config.options.user_context).get(self, self.default)

    def get_global(self) -> Any:
        """The value outside all blocks."""
        return dict(config.of_process("user_context")).get(self, self.default)

    def set_global(self, value: Any) -> None:
        """Set the value outside all blocks. Raises TypeError where it is not hashable."""
        others = tuple((c, v) for c, v in config.of_process("user_context") if c is not self)
        config.update("user_context", (*others, (self, self._hashable(value))))

    def _hashable(self, value: Any) -> Any:
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"quire.make_user_context: the value must be hashable, got {value!r}") from None
        return value

    def __call__(self, value: Any) -> contextlib.AbstractContextManager[None]:
        others = tuple((c, v) for c, v in config.options.user_context if c is not self)
        return config.override(user_context=(*others, (self, self._hashable(value))))


def make_user_context(default_value: Any = None) -> UserContext:
    """A context manager whose value is part of every trace's key (`jax.make_user_context`).

    ``with context(value): ...`` sets it for a block, ``context.value`` reads it. A compiled function that is called
    with another value is traced and compiled anew.

    Example:
        >>> import quire
        >>> scale = quire.make_user_context(1)
        >>> f = quire.compile(lambda x: x * scale.value)
        >>> with scale(3):
        ...     float(f(2.0))
        6.0
        >>> float(f(2.0))
        2.0
    """
    return UserContext(default_value)

"""What `import jax` shows beside quire's own names: versions, and blocks that say what the runtime may do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from .version import __version__ as __version__
from .version import __version_info__ as __version_info__

_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")


def _option(name: str, choices: tuple[Any, ...], why: str) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """A context manager for an option of JAX that changes nothing here; a value that JAX refuses is refused.

    An option that is on or off is on without a value.
    """

    @contextlib.contextmanager
    def during(value: Any = True) -> Generator[None]:
        if value not in choices:
            raise ValueError(f"jax.{name}: got {value!r}, expected one of {', '.join(map(repr, choices))}")
        yield

    during.__name__ = during.__qualname__ = name
    during.__doc__ = f"`jax.{name}` for a block. {why} Raises ValueError for an unknown value."
    return during


_NO_TRANSFER = "Arrays on the CPU share memory with NumPy: there is no transfer to guard."
transfer_guard = _option("transfer_guard", _GUARDS, _NO_TRANSFER)
transfer_guard_host_to_device = _option("transfer_guard_host_to_device", _GUARDS, _NO_TRANSFER)
transfer_guard_device_to_host = _option("transfer_guard_device_to_host", _GUARDS, _NO_TRANSFER)
transfer_guard_device_to_device = _option("transfer_guard_device_to_device", _GUARDS, _NO_TRANSFER)
legacy_prng_key = _option("legacy_prng_key", ("allow", "warn", "error"), "Raw keys are always accepted.")
enable_custom_prng = _option("enable_custom_prng", (True, False), "`random.key` gives typed keys, `PRNGKey` raw ones.")


@contextlib.contextmanager
def array_garbage_collection_guard(new_val: str | None = None) -> Generator[None]:
    """`jax.array_garbage_collection_guard`: arrays in circles of references are freed by Python, and nothing tells of it."""
    yield


@contextlib.contextmanager
def thread_guard(new_val: Any = None) -> Generator[None]:
    """`jax.thread_guard`: any thread may use quire."""
    yield

"""What `import jax` shows beside quire's own names: versions, and blocks that say what the runtime may do."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from .version import __version__ as __version__
from .version import __version_info__ as __version_info__

_LEVELS = ("allow", "log", "log_explicit")


class _TransferGuard:
    """A block in which transfers between the host and devices are allowed: they always are."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__doc__ = f'`jax.{name}`: "allow" and "log" change nothing; ValueError for a level that refuses transfers.'

    @contextlib.contextmanager
    def __call__(self, new_val: str | None = "allow") -> Generator[None]:
        if new_val is not None and new_val not in _LEVELS:
            raise ValueError(
                f"jax.{self.__name__}({new_val!r}): quire cannot refuse transfers, since arrays on the CPU share memory with "
                f"NumPy; expected one of {', '.join(_LEVELS)}"
            )
        yield


transfer_guard = _TransferGuard("transfer_guard")
transfer_guard_host_to_device = _TransferGuard("transfer_guard_host_to_device")
transfer_guard_device_to_host = _TransferGuard("transfer_guard_device_to_host")
transfer_guard_device_to_device = _TransferGuard("transfer_guard_device_to_device")


@contextlib.contextmanager
def array_garbage_collection_guard(new_val: str | None = None) -> Generator[None]:
    """`jax.array_garbage_collection_guard`: arrays in circles of references are freed by Python, and nothing tells of it."""
    yield


@contextlib.contextmanager
def thread_guard(new_val: Any = None) -> Generator[None]:
    """`jax.thread_guard`: any thread may use quire."""
    yield

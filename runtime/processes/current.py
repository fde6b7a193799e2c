"""Which rank this is: that of the process, or of the thread that stands for one."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from .communicator import Alone, Communicator


class _Here(threading.local):
    communicator: Communicator | None = None


_here = _Here()
_process: Communicator = Alone()


def communicator() -> Communicator:
    """All ranks, as this one sees them: the thread's, if it stands for a rank, else the process'."""
    return _here.communicator or _process


def process() -> Communicator:
    """All processes, as this one sees them."""
    return _process


def set_process(found: Communicator | None) -> None:
    """Say which process this is; None: the only one."""
    global _process
    _process = Alone() if found is None else found


@contextmanager
def as_rank(found: Communicator) -> Generator[None]:
    """Let this thread stand for a rank for a block."""
    before = _here.communicator
    _here.communicator = found
    try:
        yield
    finally:
        _here.communicator = before


__all__ = ["as_rank", "communicator", "process", "set_process"]

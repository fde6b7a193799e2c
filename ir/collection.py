"""Putting off Python's cyclic garbage collection while a program is transformed.

Passes and lowering make many objects that live until the program is done: a collection goes through all of them, and
through the user's, again and again, and finds nothing to free.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0  # blocks of all threads that are being run
_was_enabled = False


@contextmanager
def collection_put_off() -> Generator[None]:
    """No automatic collection while the block runs, in any thread; afterwards it is on again if it was before."""
    global _inside, _was_enabled
    with _lock:
        if _inside == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _was_enabled:
                gc.enable()


__all__ = ["collection_put_off"]

"""Caching of transformations of jaxprs: a function that is called a hundred times is transformed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ParamSpec, TypeVar

from quire.ir.axes import axes_key
from quire.ir.config import config
from quire.ir.tracing import Tracer

P = ParamSpec("P")
R = TypeVar("R")


_clearers: list[Callable[[], None]] = []  # one for each decorated function, filled at import


def clear_transforms() -> None:
    """Forget the results of all cached transformations."""
    for clear in _clearers:
        clear()


def cached_transform(size: int = 1024) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: remember the results of a transformation by its arguments (jaxprs are equal up to names).

    The options that change what a trace records, and the named axes in scope, are part of the key. A result whose attribute
    `captured` holds traced values is not kept, since those belong to the trace that is going on. Safe for threads.
    """

    def decorate(f: Callable[P, R]) -> Callable[P, R]:
        entries: OrderedDict[Hashable, R] = OrderedDict()
        lock = threading.Lock()
        _clearers.append(entries.clear)

        def transform(*args: P.args, **kwargs: P.kwargs) -> R:
            key = (args, tuple(sorted(kwargs.items())), config.options.trace_key, axes_key())
            with lock:
                found = entries.get(key)
                if found is not None:
                    entries.move_to_end(key)
                    return found
            result = f(*args, **kwargs)
            captured: Iterable[Any] = getattr(result, "captured", ())
            if not any(isinstance(x, Tracer) for x in captured):
                with lock:
                    entries[key] = result
                    if len(entries) > size:
                        entries.popitem(last=False)
            return result

        transform.__name__ = f.__name__
        transform.__qualname__ = f.__qualname__
        transform.__doc__ = f.__doc__
        transform.__module__ = f.__module__
        return transform

    return decorate

"""Tracebacks without quire's own frames: a user sees their lines, and one frame of the function they called.

``config.update("traceback_filtering", False)`` or QUIRE_TRACEBACK_FILTERING=0 shows everything.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

from quire.ir.config import config
from quire.ir.source import is_internal

F = TypeVar("F", bound=Callable[..., Any])

# Set inside the outermost call of the public interface: only that one filters.
_inside: ContextVar[bool] = ContextVar("quire_inside_boundary", default=False)


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of quire itself; all of it if nothing would be left."""
    kept: list[TracebackType] = []
    tb = traceback
    while tb is not None:
        if not is_internal(tb.tb_frame.f_code):
            kept.append(tb)
        tb = tb.tb_next
    result: TracebackType | None = None
    for tb in reversed(kept):
        result = TracebackType(result, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return result


def wraps(fun: Callable[..., Any]) -> Callable[[F], F]:
    """`functools.wraps` for any callable of a user's: what an object says of itself that no function could is left out."""

    def decorate(f: F) -> F:
        for name in functools.WRAPPER_ASSIGNMENTS:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(f, name, getattr(fun, name))
        return functools.wraps(fun, assigned=())(f)  # type: ignore[return-value]

    return decorate


def user_boundary(f: F) -> F:
    """Decorator of public functions that call the user's: exceptions leave without quire's own frames."""

    @functools.wraps(f)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        if _inside.get():
            return f(*args, **kwargs)
        token = _inside.set(True)
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if config.options.traceback_filtering:
                error.__traceback__ = user_frames(error.__traceback__)
            raise
        finally:
            _inside.reset(token)

    return bounded  # type: ignore[return-value]

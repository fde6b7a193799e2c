"""The check for leaks: traced values that something still holds when their function is done."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from . import errors

_SHOWN = 5


def check(is_ours: Callable[[Any], bool], name: str, describe: Callable[[Any], str]) -> None:
    """Raise UnexpectedTracerError if a tracer of a finished trace is still held by something.

    Args:
        is_ours: whether an object is a tracer of the trace.
        name: the trace's name.
        describe: what a tracer stands for and where it was made.
    """
    gc.collect()
    leaked = [o for o in gc.get_objects() if is_ours(o)]
    if leaked:
        shown = [leaked[i] for i in range(min(_SHOWN, len(leaked)))]
        # A list: what the expression of a generator holds would be found instead.
        lines = "\n".join([f"  {t!r}: {describe(t)}{_holder(t, (leaked, shown))}." for t in shown])
        raise errors.UnexpectedTracerError(
            f"{len(leaked)} traced value(s) of {name} leaked:\n{lines}\n"
            "  A traced value must not outlive its function: return it instead of storing it."
        )


def _holder(t: Any, ours: Sequence[Any]) -> str:
    """What holds a leaked tracer, beside our own lists, for messages; empty where it cannot be said."""
    for holder in gc.get_referrers(t):
        if any(holder is x for x in ours) or isinstance(holder, types.FrameType):
            continue
        if isinstance(holder, dict):
            names = cast("dict[Any, Any]", holder)
            key = _key_of(names, t)
            if "__name__" in names and "__builtins__" in names:
                return f"; the global {key} of module {names['__name__']} holds it"
            for owner in gc.get_referrers(names):
                if getattr(owner, "__dict__", None) is names:
                    return f"; the attribute {key} of an object of type {type(owner).__name__} holds it"
            return f"; key {key!r} of a dict holds it"
        if isinstance(holder, types.CellType):
            return "; a variable that an inner function closes over holds it"
        key = _key_of(getattr(holder, "__dict__", {}), t)
        return f"; {f'the attribute {key} of an' if key else 'an'} object of type {type(holder).__name__} holds it"
    return ""


def _key_of(mapping: Mapping[Any, Any], value: Any) -> Any:
    return next((key for key, v in mapping.items() if v is value), None)

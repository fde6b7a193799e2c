"""Helpers for functions that take functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def name_of(f: Callable[..., Any]) -> str:
    """A function's name for messages."""
    return str(getattr(f, "__name__", None) or type(f).__name__)


def check_callable(f: Any, what: str) -> None:
    """Raise TypeError unless f can be called."""
    if not callable(f):
        raise TypeError(f"{what}: expected a function, got {f!r} of type {type(f).__name__}")


def partial_positions(
    argnums: int | Sequence[int], n: int, what: str, too_few: type[Exception] = ValueError
) -> tuple[int, ...]:
    """The positions of the chosen arguments, non-negative. Raises ValueError, or `too_few`, where there are fewer arguments."""
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    out: list[int] = []
    for a in chosen:
        a = int(a)
        if not -n <= a < n:
            raise too_few(
                f"{what}: argnums={argnums} needs at least {a + 1 if a >= 0 else -a} positional arguments, got {n}"
            )
        out.append(a % n)
    if len(set(out)) != len(out):
        raise ValueError(f"{what}: argnums={argnums} names an argument twice")
    return tuple(out)

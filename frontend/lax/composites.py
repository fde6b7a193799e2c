"""Functions that a compiler may know by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from quire.ir.source import named_scope

from ._tracing import check_callable


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function with a name that a compiler may recognise and replace (`jax.lax.composite`).

    Args:
        decomposition: the function: arrays by position, attributes by keyword.
        name, version: what it is called. No compiler that quire uses knows any: the decomposition is what runs, its
            operations in a `named_scope` of that name.

    Raises TypeError unless the decomposition is a function and the name a string that is not empty.

    >>> tangent = quire.lax.composite(lambda x: quire.lax.sin(x) / quire.lax.cos(x), name="my.tangent")
    >>> float(tangent(0.0))
    0.0
    """
    check_callable("composite", "decomposition", decomposition)
    if not isinstance(name, str) or not name:
        raise TypeError(f"composite: name must be a string, got {name!r}")

    @functools.wraps(decomposition)
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name):
            return decomposition(*args, **kwargs)

    return decomposed


__all__ = ["composite"]

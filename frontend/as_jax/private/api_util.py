"""`jax._src.api_util`: the arguments of a function by number and by name."""

from __future__ import annotations

import inspect
from typing import Any


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | tuple[int, ...] | None, argnames: str | tuple[str, ...] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers and the names of the same arguments, where only one of the two is given.

    Args:
        sig: the function's signature.
        argnums: numbers of positional arguments.
        argnames: names of arguments.
    """
    numbers = _tuple(argnums, int)
    names = _tuple(argnames, str)
    if argnums is None and argnames is None:
        return (), ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [(i, name, p.kind) for i, (name, p) in enumerate(sig.parameters.items()) if p.kind in kinds]
    if argnums is None:
        numbers = tuple(i for i, name, kind in positional if kind is kinds[1] and name in names)
    if argnames is None:
        names = tuple(name for i, name, kind in positional if kind is kinds[1] and i in numbers)
    return numbers, names


def _tuple(x: Any, single: type) -> tuple[Any, ...]:
    return () if x is None else (x,) if isinstance(x, single) else tuple(x)


_infer_argnums_and_argnames = infer_argnums_and_argnames

"""Selecting by conditions: where, select, piecewise, choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer, bind
from quire.runtime.array import Array

from ..arrays.operands import (
    Value,
    broadcast_shapes,
    broadcast_to,
    cast,
    check_arraylike,
    ensure,
    known_shape_operand,
    members,
    no_out,
    promote_dtypes,
)
from .arithmetic import remainder
from .elementwise import as_bool
from .positions import nonzero


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """x where the condition holds, y elsewhere; with the condition only, the indices where it holds.

    Args:
        condition: an array; numbers count as true unless they are 0.
        x, y: arrays that broadcast with it; both or neither.
        size, fill_value: without x and y: as in `nonzero`.

    Raises:
        ValueError: only one of x and y is given, or size or fill_value is given with them.

    Follows `numpy.where`.

    >>> quire.numpy.where(quire.numpy.array([True, False]), 1, quire.numpy.array([5, 6]))
    Array([1, 6], dtype=int32)
    """
    if x is None and y is None:
        return nonzero(ensure("where", condition), size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("quire.numpy.where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ValueError("quire.numpy.where: size and fill_value go with the condition alone")
    check_arraylike("where", condition, x, y)
    which = as_bool(ensure("where", condition))
    x, y = promote_dtypes(x, y)
    shapes = [aval_of(v).shape for v in (which, x, y)]
    shape = broadcast_shapes("where", *shapes)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    if which.aval.shape:
        which = broadcast_to(which, shape)
    return bind(ew.select_n_p, (which, y, x), {})


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Value:
    """For each element the choice of the first condition that holds; numbers hold unless they are 0. Follows `numpy.select`.

    Raises ValueError where there are no conditions, or not as many choices.

    >>> x = quire.numpy.arange(3)
    >>> quire.numpy.select([x < 1, x > 1], [x, 10 * x], 7)
    Array([ 0,  7, 20], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"quire.numpy.select: {len(condlist)} conditions and {len(choicelist)} choices")
    if not condlist:
        raise ValueError("quire.numpy.select: at least one condition is required")
    conditions = [ensure("select", c, i) for i, c in enumerate(condlist)]
    *choices, out = promote_dtypes(*choicelist, default)
    for condition, choice in zip(conditions[::-1], choices[::-1]):
        out = where(condition, choice, out)
    return out


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Value:
    """For each element the function of the last condition that holds, applied to x.

    Args:
        x: an array. condlist: boolean arrays of its shape.
        funclist: functions or numbers, one more than conditions for the rest (0 by default).
        args, kw: passed to the functions.

    Raises:
        ValueError: there are neither as many functions as conditions nor one more.

    Follows `numpy.piecewise`.

    >>> x = quire.numpy.array([-1., 2.])
    >>> quire.numpy.piecewise(x, [x < 0], [lambda v: -v, lambda v: 10 * v])
    Array([ 1., 20.], dtype=float32)
    """
    x = ensure("piecewise", x)
    conditions = [condlist] if isinstance(condlist, Array | Tracer) and condlist.ndim == x.ndim else members(condlist)
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"quire.numpy.piecewise: {len(conditions)} conditions take {len(conditions)} or {len(conditions) + 1} functions, "
            f"got {len(functions)}"
        )
    default = functions.pop() if len(functions) > len(conditions) else 0
    dtype = x.aval.dtype

    def value(f: Any) -> Value:
        return cast(ensure("piecewise", f(x, *args, **kw) if callable(f) else f), dtype)

    out = broadcast_to(value(default), x.aval.shape)
    for condition, f in zip(conditions, functions):
        out = where(condition, value(f), out)
    return out


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Value:
    """For each element of an index array, the element of the chosen array. Follows `numpy.choose`.

    Raises ValueError for indices that are no integers, a mode that is not "raise", "wrap" or "clip", and, with
    "raise", an index outside.

    >>> quire.numpy.choose(quire.numpy.array([1, 0]), [quire.numpy.zeros(2), quire.numpy.ones(2)])
    Array([1., 0.], dtype=float32)
    """
    no_out("choose", out)
    index = ensure("choose", a)
    if not dtypes.is_integer(index.aval.dtype):
        raise ValueError(f"quire.numpy.choose: the first argument must be integers, got {index.aval.short()}")
    options = promote_dtypes(*[ensure("choose", c, i) for i, c in enumerate(choices)])
    n = len(options)
    if mode == "raise":
        known = known_shape_operand("choose", index, "give mode='clip' or mode='wrap'")
        if ((known < 0) | (known >= n)).any():
            raise ValueError(f"quire.numpy.choose: invalid entry in choice array: indices must be within [0, {n})")
    elif mode == "wrap":
        index = remainder(index, n)
    elif mode != "clip":
        raise ValueError(f"quire.numpy.choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    index = ew.clamp_p.bind(np.int32(0), cast(index, dtypes.int32), np.int32(n - 1))
    shape = broadcast_shapes("choose", *(aval_of(x).shape for x in (index, *options)))
    index, *options = (broadcast_to(x, shape) for x in (index, *options))  # of any ranks, as in JAX
    out = bind(ew.select_n_p, (index, *options), {}) if n > 1 else options[0]
    return cast(out, aval_of(out).dtype)


__all__ = ["choose", "piecewise", "select", "where"]

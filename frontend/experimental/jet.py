"""`jet`: the Taylor series of a function along a curve, from that of the curve. Follows `jax.experimental.jet`.

The terms are derivatives along the curve's parameter, one of another, so that whatever has a forward derivative has them. The
work doubles with each order: for high orders of large functions it is too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from .. import numpy as qnp
from .. import tree_util
from ..arrays.operands import as_array
from ..transforms.differentiation import jvp
from ..transforms.functions import check_callable, name_of

Value = Any


class ZeroSeries:
    """In the place of an argument's terms: all are zero."""


zero_series = ZeroSeries()


def fact(n: int) -> int:
    """The factorial of n."""
    return math.factorial(n)


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:  # fmt: skip
    """The value of `fun` and the terms of its Taylor series along a curve.

    Args:
        fun: a function of arrays, whose result is an array or a pytree of arrays.
        primals: the curve's point at 0: an array or number for each argument. Integers and bools stay what they are.
        series: for each argument the terms of the curve, of orders 1, 2, ...; as many for each argument, of its shape, or
            `zero_series`.
        factorial_scaled: the terms are derivatives; False: they are coefficients of the powers.

    Returns:
        ``fun(*primals)``, and its tree with a list of terms, as many as were given, in the place of each array.

    Raises:
        ValueError: an argument is no array, the numbers of terms differ, or one has another shape than its argument.

    >>> from quire.experimental.jet import jet
    >>> y, terms = jet(lambda x: x**3, (2.0,), ((1.0, 0.0, 0.0),))
    >>> float(y), [float(t) for t in terms]
    (8.0, [12.0, 12.0, 6.0])
    """
    check_callable(fun, "jet")
    values = [_array(x, i) for i, x in enumerate(primals)]
    curves = [[] if isinstance(terms, ZeroSeries) else [*terms] for terms in series]
    if len(curves) != len(values):
        raise ValueError(f"jet of {name_of(fun)}: {len(values)} primals and {len(curves)} series were given")
    counts = {len(terms) for terms, given in zip(curves, series) if not isinstance(given, ZeroSeries)}
    if len(counts) > 1:
        raise ValueError(
            f"jet of {name_of(fun)}: the series have different numbers of terms, {[len(terms) for terms in curves]}"
        )
    for i, (x, terms) in enumerate(zip(values, curves)):
        for k, term in enumerate(terms):
            if np.shape(term) != aval_of(x).shape:
                raise ValueError(
                    f"jet of {name_of(fun)}: term {k + 1} of argument {i} must have the shape of the argument, "
                    f"{aval_of(x).short()}, got {aval_of(term).short()}"
                )
    order = counts.pop() if counts else 0
    scales = [1 / fact(k) if factorial_scaled else 1.0 for k in range(order + 1)]
    out_tree: Any = None

    def along(t: Any, /) -> list[list[Value]]:
        nonlocal out_tree
        out = fun(*(_point(x, terms, t, scales) for x, terms in zip(values, curves)))
        leaves, out_tree = tree_util.tree_flatten(out)
        return [leaves]

    def derived(terms: Callable[[Any], list[list[Value]]]) -> Callable[[Any], list[list[Value]]]:
        def more(t: Any) -> list[list[Value]]:
            found, tangents = jvp(terms, (t,), (qnp.ones_like(t),))
            return [*found, [_term(x, d) for x, d in zip(found[-1], tangents[-1])]]

        return more

    for _order in range(order):
        along = derived(along)
    parameter = qnp.zeros((), _real_dtype(values))
    ys, *found = along(parameter)
    terms = [[d if factorial_scaled else d / fact(k + 1) for d in leaves] for k, leaves in enumerate(found)]
    by_leaf = [list(of_leaf) for of_leaf in zip(*terms)] if terms else [[] for _ in ys]
    return tree_util.tree_unflatten(out_tree, ys), tree_util.tree_unflatten(out_tree, by_leaf)


def _array(x: Any, position: int) -> Value:
    try:
        aval_of(x)
    except TypeError:
        raise ValueError(f"jet: primal value at position {position} is not an array: {x!r}") from None
    return as_array(x)


def _real_dtype(values: Sequence[Value]) -> Any:
    """A dtype for the parameter: the widest of the arguments'."""
    kinds = {dtypes.real_dtype(d) for d in (aval_of(x).dtype for x in values) if dtypes.is_inexact(d)}
    return max(kinds, key=lambda d: d.itemsize, default=dtypes.float32)


def _point(x: Value, terms: Sequence[Any], t: Value, scales: Sequence[float]) -> Value:
    """The curve at t, of x's dtype: by Horner's rule, exact in all derivatives at 0."""
    aval = aval_of(x)
    if not dtypes.is_inexact(aval.dtype) or not terms:
        return x
    step: Value = qnp.asarray(t, aval.dtype)
    out: Any = 0
    for term, scale in zip(reversed(terms), reversed(scales[: len(terms) + 1])):
        out = (out + qnp.asarray(term, aval.dtype) * aval.dtype.type(scale)) * step
    return x + qnp.asarray(out, aval.dtype)


def _term(x: Value, tangent: Value) -> Value:
    """A derivative as a term; zeros for what has none, such as integers."""
    return qnp.zeros_like(x) if aval_of(tangent).dtype == dtypes.float0 else tangent


__all__ = ["fact", "jet", "zero_series"]

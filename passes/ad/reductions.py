"""Derivative rules of reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .rules import Value, define_jvp, define_linear, define_zero_jvp, instantiate, jvp, transpose


def spread(x: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
    """A reduced value repeated along the dimensions that were reduced."""
    return st.broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i not in axes])


def _sum_back(ct: Value, aval: ShapedArray, *, axes: tuple[int, ...]) -> Value:
    return spread(ct, aval.shape, axes)


define_linear(rd.reduce_sum_p, _sum_back)
define_zero_jvp(rd.reduce_and_p, rd.reduce_or_p, rd.reduce_xor_p, rd.argmax_p, rd.argmin_p)


def _extreme(t: Value, ans: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    """The mean of the tangents of all elements that attain the extreme."""
    aval = aval_of(x)
    attained = ew.convert_element_type(ew.eq(x, spread(ans, aval.shape, axes)), aval.dtype)
    return ew.div(rd.reduce_sum(ew.mul(t, attained), axes), rd.reduce_sum(attained, axes))


define_jvp(rd.reduce_max_p, _extreme)
define_jvp(rd.reduce_min_p, _extreme)


def _product(t: Value, ans: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    """The sum of each tangent times the product of all other elements, without division."""
    shape = aval_of(x).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    order = [*kept, *axes]
    rows = [*(shape[i] for i in kept), math.prod(shape[i] for i in axes)]
    x, t = (st.reshape(st.transpose(a, order), rows) for a in (x, t))
    last = len(rows) - 1
    one = np.ones((), aval_of(x).dtype)[()]
    before = rd.cumprod(st.pad(x, one, _shift(last, last, 1)), last)
    after = rd.cumprod(st.pad(x, one, _shift(last, last, -1)), last, reverse=True)
    return rd.reduce_sum(ew.mul(t, ew.mul(before, after)), (last,))


def _shift(last: int, axis: int, by: int) -> list[tuple[int, int, int]]:
    """The padding that moves elements by some places along an axis (back for a negative number)."""
    return [(by, -by, 0) if i == axis else (0, 0, 0) for i in range(last + 1)]


define_jvp(rd.reduce_prod_p, _product)


# -- generic ----------------------------------------------------------------------------------------------------------


@jvp(rd.reduce_p)
def reduce(
    primals: Sequence[Value], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]
) -> tuple[list[Value], list[Value]]:
    """Halves are combined with each other, log2(n) times, by the derivative of the function."""
    from .jvp import jvp_eval

    if any(e.primitive.family != "elementwise" for e in jaxpr.eqns):
        raise NotImplementedError("reduce: derivatives need a computation of elementwise operations only")
    n = len(primals) // 2
    shape = aval_of(primals[0]).shape
    kept = [i for i in range(len(shape)) if i not in dimensions]
    kept_shape = [shape[i] for i in kept]
    rows = [math.prod(shape[i] for i in dimensions), *kept_shape]

    def matrix(x: Value) -> Value:
        return st.reshape(st.transpose(x, [*dimensions, *kept]), rows)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        """Of pairs of values and tangents, values first."""
        out, out_ts = jvp_eval(jaxpr.jaxpr, [*a[:n], *b[:n]], [*a[n:], *b[n:]])
        return [*(_full(x, y) for x, y in zip(out, a)), *map(instantiate, out_ts)]

    state = [matrix(x) for x in (*primals[:n], *(instantiate(t) for t in tangents[:n]))]
    while (count := aval_of(state[0]).shape[0]) > 1:
        even = count // 2 * 2
        pairs = combine(
            [st.slice_in_dim(x, 0, even, 2) for x in state], [st.slice_in_dim(x, 1, even, 2) for x in state]
        )
        rest = [st.slice_in_dim(x, even, count) for x in state]
        state = [st.concatenate([p, r], 0) if even < count else p for p, r in zip(pairs, rest)]
    inits = [spread(x, kept_shape, range(len(kept_shape))) for x in (*primals[n:], *map(instantiate, tangents[n:]))]
    state = combine(inits, [st.reshape(x, kept_shape) for x in state]) if rows[0] else inits
    return rd.reduce_p.bind(*primals, jaxpr=jaxpr, dimensions=dimensions), state[n:]


def _full(x: Value, like: Value) -> Value:
    return st.broadcast_to(x, aval_of(like).shape)


transpose.absent(
    "not linear", rd.reduce_prod_p, rd.reduce_max_p, rd.reduce_min_p, rd.reduce_and_p, rd.reduce_or_p, rd.reduce_xor_p,
    rd.reduce_p, rd.argmax_p, rd.argmin_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p, rd.cumlogsumexp_p,
)  # fmt: skip


# -- cumulative -------------------------------------------------------------------------------------------------------


def _cumsum_back(ct: Value, aval: ShapedArray, *, axis: int, reverse: bool) -> Value:
    return rd.cumsum(ct, axis, not reverse)


define_linear(rd.cumsum_p, _cumsum_back)

# step(left, left tangent, right, right tangent) -> (combined, its tangent) for neighbouring runs of elements
Step = Callable[[Value, Value, Value, Value], tuple[Value, Value]]


def _define_cumulative(p: Primitive, fill: Callable[[dtypes.DType], Any], step: Step) -> None:
    """Values and tangents are accumulated together by doubling: log2(n) steps, each linear in the tangents."""

    def partial(t: Value, ans: Value, x: Value, *, axis: int, reverse: bool) -> Value:
        aval = aval_of(x)
        last, by = aval.ndim - 1, 1
        first, zero = fill(aval.dtype), np.zeros((), aval.dtype)[()]
        while by < aval.shape[axis]:
            move = _shift(last, axis, -by if reverse else by)
            x, t = step(st.pad(x, first, move), st.pad(t, zero, move), x, t)
            by *= 2
        return t

    define_jvp(p, partial)


def _product_step(a: Value, ta: Value, b: Value, tb: Value) -> tuple[Value, Value]:
    return ew.mul(a, b), ew.add(ew.mul(ta, b), ew.mul(a, tb))


def _extreme_step(combine: Callable[[Value, Value], Value], better: Callable[[Value, Value], Value]) -> Step:
    def step(a: Value, ta: Value, b: Value, tb: Value) -> tuple[Value, Value]:
        tie = ew.mul(ew.add(ta, tb), 0.5)
        return combine(a, b), ew.where(better(a, b), ta, ew.where(ew.eq(a, b), tie, tb))

    return step


def _log_sum_exp_step(a: Value, ta: Value, b: Value, tb: Value) -> tuple[Value, Value]:
    if dtypes.is_complex(aval_of(a).dtype):
        raise NotImplementedError("cumlogsumexp: there is no derivative for complex numbers")
    # The larger one is only what is taken off and put back: derivatives are those of the sum, also where both are equal.
    top = ew.stop_gradient(ew.max(a, b))
    finite = ew.is_finite(top)
    total = ew.where(finite, ew.add(top, ew.log(ew.add(ew.exp(ew.sub(a, top)), ew.exp(ew.sub(b, top))))), top)
    share_a, share_b = (ew.where(finite, ew.exp(ew.sub(x, total)), 0.0) for x in (a, b))
    return total, ew.add(ew.mul(share_a, ta), ew.mul(share_b, tb))


def _one(dtype: dtypes.DType) -> Any:
    return np.ones((), dtype)[()]


_define_cumulative(rd.cumprod_p, _one, _product_step)
_define_cumulative(rd.cummax_p, rd.lowest, _extreme_step(ew.max, ew.gt))
_define_cumulative(rd.cummin_p, rd.highest, _extreme_step(ew.min, ew.lt))
_define_cumulative(rd.cumlogsumexp_p, rd.lowest, _log_sum_exp_step)

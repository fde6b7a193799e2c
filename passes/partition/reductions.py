"""Factors of reductions: what is reduced is divided too, and the parts' results are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .rules import Builder, Factors, alike, emission, factors

Avals = Sequence[ShapedArray]


def _reduction(name: str) -> Any:
    def rule(in_avals: Avals, out_avals: Avals, *, axes: Sequence[int]) -> Factors:
        b = Builder()
        dims = [(b.new(n, reduced=name if d in axes else None),) for d, n in enumerate(in_avals[0].shape)]
        return b.done([dims], [[x for d, x in enumerate(dims) if d not in axes]])

    return rule


for _monoid in rd.MONOIDS.values():
    factors.add(_monoid.reduction, _reduction(_monoid.name))


@factors(rd.argmax_p, rd.argmin_p)
def _arg_reduction(in_avals: Avals, out_avals: Avals, *, axes: Sequence[int], **_: Any) -> Factors:
    b = Builder()
    dims = [(b.new(n, whole=d in axes),) for d, n in enumerate(in_avals[0].shape)]
    return b.done([dims], [[x for d, x in enumerate(dims) if d not in axes]])


@factors(rd.reduce_p)
def _reduce(in_avals: Avals, out_avals: Avals, *, dimensions: Sequence[int], **_: Any) -> Factors:
    b = Builder()
    n = len(in_avals) // 2
    dims = [(b.new(m, whole=d in dimensions),) for d, m in enumerate(in_avals[0].shape)]
    result = [x for d, x in enumerate(dims) if d not in dimensions]
    return b.done([*[dims] * n, *[()] * n], [result] * n)


@factors(rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p)
def _cumulative(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return alike(in_avals, out_avals)


@emission(rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p)
def _emit_cumulative(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    """Each part's own, combined with what the parts before it come to, which all gather."""
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]
    factor = place.factors.operands[0][axis][0]
    if factor not in place.assignment:
        return place.bind()
    name = rd.monoid_by(eqn.primitive)
    neutral = rd.identity_of(name, eqn.outputs[0].aval.dtype)
    x = place.masked(operands[0], 0, axis, neutral)
    out = place.bind(x)[0]
    shape = out.aval.shape
    last = [slice_ if d == axis else (0, n) for d, n in enumerate(shape) for slice_ in [_end(shape[axis], reverse)]]
    total = st.slice(out, [a for a, _ in last], [b for _, b in last])
    all_ = place.gathered(total, factor, axis, "the sums of the parts before it")
    count = all_.aval.shape[axis]
    numbers = st.iota_p.bind(dtype=place.index_dtype, shape=all_.aval.shape, dimension=axis)
    block = place.block(factor)
    before = ew.gt(numbers, block) if reverse else ew.lt(numbers, block)
    assert count
    others = ew.select_n(before, st.full(all_.aval.shape, neutral), all_)
    sum_ = rd.MONOIDS[name].reduction.bind(others, axes=(axis,))
    kept = [d for d in range(len(shape)) if d != axis]
    return [rd.MONOIDS[name].combine.bind(out, st.broadcast_in_dim(sum_, shape, kept))]


def _end(n: int, reverse: bool) -> tuple[int, int]:
    return (0, 1) if reverse else (n - 1, n)


@factors(rd.cumlogsumexp_p)
def _cumlogsumexp(in_avals: Avals, out_avals: Avals, *, axis: int, **_: Any) -> Factors:
    return alike(in_avals, out_avals, (axis,))

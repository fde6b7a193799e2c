"""Factors of reductions: what is reduced is divided too, and the parts' results are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
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
    unordered = dtypes.is_complex(in_avals[0].dtype)  # there is no least number to fill up with
    dims = [(b.new(n, whole=unordered and d in axes),) for d, n in enumerate(in_avals[0].shape)]
    out = out_avals[0]
    size = out.size * (out.dtype.itemsize + in_avals[0].dtype.itemsize)
    for d in axes:
        b.collected[dims[d][0]] = size
    return b.done([dims], [[x for d, x in enumerate(dims) if d not in axes]])


@emission(rd.argmax_p, rd.argmin_p)
def _emit_arg_reduction(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    """Of each part the best element and its number; all gather these, and take the best of them."""
    (axis,) = eqn.params["axes"]
    if not place.operand_specs[0][axis]:
        return place.bind()
    largest = eqn.primitive is rd.argmax_p
    factor = place.factors.operands[0][axis][0]
    dtype = eqn.params["index_dtype"]
    x = operands[0]
    worst = rd.identity_of("max" if largest else "min", aval_of(x).dtype)
    x = place.masked(x, 0, axis, worst)
    local = place.bind(x)[0]
    shape = aval_of(local).shape
    best = _chosen(x, local, axis)
    number = ew.add(local, st.broadcast_in_dim(ew.convert_element_type(place.begin(factor), dtype), shape, ()))

    def all_(value: Any) -> Any:
        value = st.broadcast_in_dim(value, (1, *shape), tuple(range(1, len(shape) + 1)))
        return place.gathered(value, factor, 0, "the best of each part")

    return [_chosen(all_(number), place.bind(all_(best), axes=(0,))[0], 0)]


def _chosen(x: Any, number: Any, axis: int) -> Any:
    """The element of x at a number along an axis."""
    shape = aval_of(x).shape
    dtype = aval_of(number).dtype
    numbers = st.iota_p.bind(dtype=dtype, shape=shape, dimension=axis)
    wanted = st.broadcast_in_dim(number, shape, [d for d in range(len(shape)) if d != axis])
    kind = "or" if dtypes.is_bool(aval_of(x).dtype) else "add"
    zeros = st.full(shape, rd.identity_of(kind, aval_of(x).dtype))
    return rd.MONOIDS[kind].reduction.bind(ew.select_n(ew.eq(numbers, wanted), zeros, x), axes=(axis,))


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

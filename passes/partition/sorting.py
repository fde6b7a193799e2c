"""Factors of sorting: all dimensions but the sorted one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st

from .rules import Builder, Factors, alike, emission, factors

Avals = Sequence[ShapedArray]


@factors(so.sort_p)
def _sort(in_avals: Avals, out_avals: Avals, *, dimension: int, **_: Any) -> Factors:
    return alike(in_avals, out_avals, (dimension,))


@factors(so.top_k_p)
def _top_k(in_avals: Avals, out_avals: Avals, *, k: int, axis: int, **_: Any) -> Factors:
    b = Builder()
    operand = b.dims(in_avals[0].shape)
    results = [list(operand) for _ in out_avals]
    for r, a in zip(results, out_avals):
        r[axis] = (b.new(a.shape[axis], whole=True),)
    b.collected[operand[axis][0]] = sum(a.nbytes for a in out_avals)
    return b.done([operand], results)


@emission(so.top_k_p)
def _emit_top_k(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    """The largest of each part; all gather these, and take the largest of them."""
    axis: int = eqn.params["axis"]
    k: int = eqn.params["k"]
    if not place.operand_specs[0][axis]:
        return place.bind()
    factor = place.factors.operands[0][axis][0]
    x = place.masked(operands[0], 0, axis, _last(aval_of(operands[0]).dtype))
    values, numbers = place.bind(x, k=min(k, aval_of(x).shape[axis]))
    start = ew.convert_element_type(place.begin(factor), aval_of(numbers).dtype)
    numbers = ew.add(numbers, st.broadcast_in_dim(start, aval_of(numbers).shape, ()))
    why = "the largest of each part"
    values, numbers = (place.gathered(v, factor, axis, why) for v in (values, numbers))
    found, chosen = place.bind(values, k=k)
    return [found, _at(numbers, chosen, axis)]


def _last(dtype: Any) -> Any:
    """What comes after all others: -NaN, or the least number."""
    if not dtypes.is_inexact(dtype):
        return rd.identity_of("max", dtype)
    return np.asarray(np.copysign(np.float32(np.nan), np.float32(-1))).astype(dtype)[()]


def _at(x: Any, numbers: Any, axis: int) -> Any:
    """The elements of x at numbers along an axis."""
    shape = aval_of(numbers).shape
    others = [d for d in range(len(shape)) if d != axis]
    index = st.reshape(numbers, (*shape, 1))
    dims = ix.GatherDimensionNumbers((), (axis,), (axis,), tuple(others), tuple(others))
    return ix.gather_p.bind(
        x, index, dimension_numbers=dims, slice_sizes=(1,) * len(shape), unique_indices=False, indices_are_sorted=False,
        mode=ix.GatherScatterMode.CLIP, fill_value=None,
    )  # fmt: skip

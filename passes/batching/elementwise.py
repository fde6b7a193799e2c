"""Batching rules of elementwise primitives: the operation on the batched operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .rules import Axis, Dim, batching, define_elementwise, to_front

Value = Any


@batching(ew.bitcast_convert_type_p)
def _bitcast(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, new_dtype: Any) -> tuple[Value, Dim]:
    # A change of width adds or takes the last dimension, so the batch dimension goes first.
    return ew.bitcast_convert_type_p.bind(to_front(operands[0], dims[0], axis.size), new_dtype=new_dtype), 0


def _with_full_shape(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim]) -> list[Value]:
    """All operands with the batch dimension first, scalars spread to the others' shape."""
    moved = [to_front(x, d, axis.size) for x, d in zip(operands, dims)]
    full = max((aval_of(x).shape for x in moved), key=len)
    return [x if aval_of(x).shape == full else st.broadcast_in_dim(x, full, (0,)) for x in moved]


@batching(ew.select_n_p)
def _select(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim]) -> tuple[Value, Dim]:
    which, *cases = operands
    case_dims = dims[1:]
    if dims[0] is None and not aval_of(which).shape and len(set(case_dims)) == 1:
        return ew.select_n_p.bind(which, *cases), case_dims[0]
    if len(set(dims)) == 1 and aval_of(which).ndim == aval_of(cases[0]).ndim:
        return ew.select_n_p.bind(*operands), dims[0]
    if dims[0] is None and not aval_of(which).shape:
        return ew.select_n_p.bind(which, *_with_full_shape(axis, cases, case_dims)), 0
    return ew.select_n_p.bind(*_with_full_shape(axis, operands, dims)), 0


@batching(ew.clamp_p)
def _clamp(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim]) -> tuple[Value, Dim]:
    low, x, high = operands
    if dims[0] is None and dims[2] is None and not aval_of(low).shape and not aval_of(high).shape:
        return ew.clamp_p.bind(low, x, high), dims[1]
    return ew.clamp_p.bind(*_with_full_shape(axis, operands, dims)), 0


define_elementwise(
    *(p for p in PRIMITIVES.values() if p.family == "elementwise" and p not in batching)
)

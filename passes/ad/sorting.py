"""Derivative rules of sorting: the tangents go where the elements go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st

from .rules import Value, Zero, is_zero, jvp, transpose


@jvp(so.sort_p)
def sort(
    primals: Sequence[Value], tangents: Sequence[Any], *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Value], list[Any]]:
    places = st.broadcasted_iota(dtypes.int32, aval_of(primals[0]).shape, dimension)
    *outs, order = so.sort_p.bind(*primals, places, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    moved = [t if is_zero(t) else ix.take_along_axis(t, order, dimension) for t in tangents]
    return outs, moved


@jvp(so.top_k_p)
def top_k(primals: Sequence[Value], tangents: Sequence[Any], *, k: int, axis: int) -> tuple[list[Value], list[Any]]:
    values, places = so.top_k_p.bind(*primals, k=k, axis=axis)
    return [values, places], [ix.take_along_axis(tangents[0], places, axis), Zero(aval_of(places).tangent())]


transpose.absent("not linear", so.sort_p, so.top_k_p)

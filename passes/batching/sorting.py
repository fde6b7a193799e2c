"""Batching rules of sorting: the same along a dimension beside the batch dimension."""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir.primitives import sorting as so

from .rules import Axis, Dim, Value, batching
from .structural import together


@batching(so.sort_p)
def sort(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Value], list[int]]:
    xs, d = together(operands, dims, lanes.size)
    out = so.sort_p.bind(*xs, dimension=dimension + (dimension >= d), is_stable=is_stable, num_keys=num_keys)
    return out, [d] * len(out)


@batching(so.top_k_p)
def top_k(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[int], *, k: int, axis: int
) -> tuple[list[Value], list[int]]:
    (x,), (d,) = operands, dims
    return so.top_k_p.bind(x, k=k, axis=axis + (axis >= d)), [d, d]

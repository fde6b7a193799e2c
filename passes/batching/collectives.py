"""Batching of collectives: over their own axis they become operations on the batch dimension.

Along another axis the batch dimension passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .rules import Axis, Dim, batching, broadcast_batch, move_dim, to_front

Value = Any


def _reduction(
    p: Primitive, reduce: Callable[[Value, Sequence[int]], Value], unbatched: Callable[[Value, int], Value]
) -> None:
    def rule(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axes: tuple[Any, ...]) -> tuple[Value, Dim]:
        (x,), (d,) = operands, dims
        if axis.name not in axes:
            return p.bind(x, axes=axes), d
        rest = tuple(a for a in axes if a != axis.name)
        out = unbatched(x, axis.size) if d is None else reduce(x, (d,))
        return (p.bind(out, axes=rest) if rest else out), None

    batching.add(p, rule)


_reduction(co.psum_p, rd.reduce_sum, lambda x, n: ew.mul(x, n))
_reduction(co.pmax_p, rd.reduce_max, lambda x, n: x)
_reduction(co.pmin_p, rd.reduce_min, lambda x, n: x)


@batching(co.axis_index_p)
def axis_index(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any) -> tuple[Value, Dim]:
    if axis_name != axis.name:
        return co.axis_index_p.bind(axis_name=axis_name), None
    return st.iota(dtypes.int32, axis.size), 0


@batching(co.ppermute_p)
def ppermute(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, perm: tuple[tuple[int, int], ...]
) -> tuple[Value, Dim]:
    (x,), (d,) = operands, dims
    if axis_name != axis.name:
        return co.ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    x = to_front(x, d, axis.size)
    source = np.zeros(axis.size, np.int32)
    filled = np.zeros(axis.size, bool)
    for a, b in perm:
        source[b], filled[b] = a, True
    out = _take_rows(x, source)
    if not filled.all():
        shape = aval_of(x).shape
        mask = st.broadcast_in_dim(filled, shape, (0,))
        out = ew.where(mask, out, np.zeros((), aval_of(x).dtype)[()])
    return out, 0


def _take_rows(x: Value, rows: np.ndarray[Any, Any]) -> Value:
    """The rows of x in another, constant order: slices, one for each run of neighbours."""
    shape = aval_of(x).shape
    pieces: list[Value] = []
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or rows[i] != rows[i - 1] + 1:
            lo, hi = int(rows[start]), int(rows[i - 1]) + 1
            pieces.append(st.slice(x, (lo, *[0] * (len(shape) - 1)), (hi, *shape[1:])))
            start = i
    return pieces[0] if len(pieces) == 1 else st.concatenate(pieces, 0)


@batching(co.all_gather_p)
def all_gather(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, all_gather_dimension: int,
    axis_size: int, tiled: bool,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    k = all_gather_dimension
    if axis_name != axis.name:
        # The new dimension goes in front of the batch dimension or behind it.
        assert d is not None
        x = move_dim(x, d, 0)
        out = co.all_gather_p.bind(x, axis_name=axis_name, all_gather_dimension=k + 1, axis_size=axis_size, tiled=tiled)
        return out, 0
    x = broadcast_batch(x, axis.size, k) if d is None else move_dim(x, d, k)
    if tiled:
        shape = aval_of(x).shape
        x = st.reshape(x, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
    return x, None


@batching(co.reduce_scatter_p)
def reduce_scatter(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, scatter_dimension: int,
    axis_size: int, tiled: bool,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    k = scatter_dimension
    if axis_name != axis.name:
        assert d is not None
        x = move_dim(x, d, 0)
        out = co.reduce_scatter_p.bind(
            x, axis_name=axis_name, scatter_dimension=k + 1, axis_size=axis_size, tiled=tiled
        )
        return out, 0
    total = ew.mul(x, axis.size) if d is None else rd.reduce_sum(x, (d,))
    if tiled:
        shape = aval_of(total).shape
        total = st.reshape(total, (*shape[:k], axis_size, shape[k] // axis_size, *shape[k + 1 :]))
    return total, k


@batching(co.all_to_all_p)
def all_to_all(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, split_axis: int, concat_axis: int,
    axis_size: int,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    if axis_name != axis.name:
        assert d is not None
        x = move_dim(x, d, 0)
        out = co.all_to_all_p.bind(
            x, axis_name=axis_name, split_axis=split_axis + 1, concat_axis=concat_axis + 1, axis_size=axis_size
        )
        return out, 0
    x = to_front(x, d, axis.size)  # [source, ...]
    shape = aval_of(x).shape
    s = split_axis + 1
    x = st.reshape(
        x, (*shape[:s], axis_size, shape[s] // axis_size, *shape[s + 1 :])
    )  # [source, ..., part, piece, ...]
    x = move_dim(x, s, 0)  # [part = destination, source, ...]
    x = move_dim(x, 1, concat_axis + 1)  # [destination, ..., source, concat, ...]
    shape = aval_of(x).shape
    c = concat_axis + 1
    return st.reshape(x, (*shape[:c], shape[c] * shape[c + 1], *shape[c + 2 :])), 0

"""Batching rules of gather, scatter and dynamic slices.

A batch of operands alone is a further window dimension; a batch of indices alone a further dimension of the gather's
batch; a batch of both a batching dimension of the dimension numbers. A dynamic slice with a batch of positions is a
gather, such an update a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from .rules import Axis, Dim, Value, batching, move_dim, to_front
from .structural import with_entry


def _up(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(d + 1 for d in dims)


@batching(ix.gather_p)
def gather(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...], **params: Any,
) -> tuple[Value, int]:  # fmt: skip
    (x, indices), (dx, di), d = operands, dims, dimension_numbers
    if dx is not None:
        x = move_dim(x, dx, 0)
        d = replace(
            d, collapsed_slice_dims=_up(d.collapsed_slice_dims), start_index_map=_up(d.start_index_map),
            operand_batching_dims=_up(d.operand_batching_dims),
        )  # fmt: skip
    d = replace(d, offset_dims=_up(d.offset_dims))
    if di is None:
        d = replace(d, offset_dims=(0, *d.offset_dims))
        sizes = (lanes.size, *slice_sizes)
    else:
        indices = move_dim(indices, di, 0)
        d = replace(d, start_indices_batching_dims=_up(d.start_indices_batching_dims))
        sizes = slice_sizes
        if dx is not None:
            sizes = (min(1, lanes.size), *slice_sizes)
            d = replace(
                d, operand_batching_dims=(0, *d.operand_batching_dims),
                start_indices_batching_dims=(0, *d.start_indices_batching_dims),
            )  # fmt: skip
    return ix.gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=sizes, **params), 0


def _scatter(p: Primitive) -> None:
    def rule(
        lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> tuple[Value, int]:  # fmt: skip
        (x, indices, updates), (dx, di, du), d = operands, dims, dimension_numbers
        x, updates = to_front(x, dx, lanes.size), to_front(updates, du, lanes.size)
        d = ScatterDimensionNumbers(
            _up(d.update_window_dims), _up(d.inserted_window_dims), _up(d.scatter_dims_to_operand_dims),
            _up(d.operand_batching_dims), d.scatter_indices_batching_dims,
        )  # fmt: skip
        if di is None:
            d = replace(d, update_window_dims=(0, *d.update_window_dims))
        else:
            indices = move_dim(indices, di, 0)
            d = replace(
                d, operand_batching_dims=(0, *d.operand_batching_dims),
                scatter_indices_batching_dims=(0, *_up(d.scatter_indices_batching_dims)),
            )  # fmt: skip
        return p.bind(x, indices, updates, dimension_numbers=d, **params), 0

    batching.add(p, rule)


for _p in (
    ix.scatter_p, ix.scatter_add_p, ix.scatter_sub_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p,
):  # fmt: skip
    _scatter(_p)


# -- dynamic slices ---------------------------------------------------------------------------------------------------


def _index_vectors(
    starts: Sequence[Value], dims: Sequence[Dim], shape: Sequence[int], sizes: Sequence[int], lanes: int
) -> Value:
    """Start indices of which some differ between lanes, as index vectors of shape [lanes, rank], clamped."""
    columns: list[Value] = []
    for start, d, n, size in zip(starts, dims, shape, sizes):
        top = min(n - size, int(np.iinfo(aval_of(start).dtype).max))
        column = ew.convert_element_type(ew.clamp(0, start, top), dtypes.int32 if n < 2**31 else dtypes.int64)
        columns.append(st.reshape(to_front(column, d, lanes), (lanes, 1)))
    return st.concatenate(columns, 1)


@batching(ix.dynamic_slice_p)
def dynamic_slice(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, slice_sizes: tuple[int, ...]
) -> tuple[Value, int]:
    (x, *starts), (dx, *ds) = operands, dims
    if all(d is None for d in ds):
        assert dx is not None
        zero = np.int32(0)
        return ix.dynamic_slice(x, with_entry(starts, dx, zero), with_entry(slice_sizes, dx, lanes.size)), dx
    shape = [n for i, n in enumerate(aval_of(x).shape) if i != dx]
    indices = _index_vectors(starts, ds, shape, slice_sizes, lanes.size)
    every = range(len(shape))
    return gather(
        lanes, (x, indices), (dx, 0), dimension_numbers=GatherDimensionNumbers(tuple(every), (), tuple(every)),
        slice_sizes=slice_sizes, indices_are_sorted=False, unique_indices=False, mode=GatherScatterMode.CLIP,
        fill_value=None,
    )  # fmt: skip


@batching(ix.dynamic_update_slice_p)
def dynamic_update_slice(lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim]) -> tuple[Value, int]:
    (x, update, *starts), (dx, du, *ds) = operands, dims
    if all(d is None for d in ds):
        x, update = to_front(x, dx, lanes.size), to_front(update, du, lanes.size)
        zero = np.int32(0)
        return ix.dynamic_update_slice(x, update, (zero, *starts)), 0
    sizes = [n for i, n in enumerate(aval_of(update).shape) if i != du]
    shape = [n for i, n in enumerate(aval_of(x).shape) if i != dx]
    indices = _index_vectors(starts, ds, shape, sizes, lanes.size)
    every = tuple(range(len(shape)))
    return batching[ix.scatter_p](
        lanes, (x, indices, update), (dx, 0, du), dimension_numbers=ScatterDimensionNumbers(every, (), every),
        indices_are_sorted=True, unique_indices=True, mode=GatherScatterMode.CLIP, update_jaxpr=None,
    )  # fmt: skip

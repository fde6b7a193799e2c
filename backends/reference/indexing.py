"""Reference rules of gather, scatter and dynamic slices: each element's position is computed, clamped or masked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import indexing as ix
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from .reductions import signed_zeros, widened
from .rules import reference
from .scalar_functions import apply_scalar

Array = np.ndarray[Any, Any]


def as_int64(indices: Array) -> Array:
    """Indices as int64; unsigned ones beyond it become its largest value."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64, copy=False)


def _positions(
    x_shape: Sequence[int],
    indices: Array,
    out_shape: Sequence[int],
    window_sizes: Sequence[int],
    offset_dims: Sequence[int],
    window_dims: Sequence[int],
    index_map: Sequence[int],
    operand_batch: Sequence[int],
    indices_batch: Sequence[int],
    clip: bool,
) -> tuple[Array, Array]:
    """The flat position in the operand, and whether its window is inside, for each element of gather's result.

    The same for a scatter, whose updates take the result's place.
    """
    rank = len(out_shape)
    batch_dims = [i for i in range(rank) if i not in offset_dims]
    batch_shape = indices.shape[:-1]
    flat = np.zeros(batch_shape, np.int64)
    inside = np.ones(batch_shape, bool)
    strides = np.cumprod([1, *reversed(x_shape)])[-2::-1] if x_shape else []
    starts = as_int64(indices)
    for c, d in enumerate(index_map):
        last = x_shape[d] - window_sizes[d]
        start = starts[..., c]
        inside = inside & (start >= 0) & (start <= last)
        flat = flat + np.clip(start, 0, max(last, 0)) * strides[d]
    for d, e in zip(operand_batch, indices_batch):
        flat = flat + np.arange(x_shape[d]).reshape([-1 if i == e else 1 for i in range(len(batch_shape))]) * strides[d]
    expanded = [1] * rank
    for i, n in zip(batch_dims, batch_shape):
        expanded[i] = n
    flat, inside = flat.reshape(expanded), inside.reshape(expanded)
    for d, i in zip(window_dims, offset_dims):
        column = [1] * rank
        column[i] = out_shape[i]
        flat = flat + (np.arange(out_shape[i]) * strides[d]).reshape(column)
    if clip:
        inside = np.ones_like(inside)
    return np.broadcast_to(flat, out_shape), np.broadcast_to(inside, out_shape)


def _rows(
    x_shape: Sequence[int],
    indices: Array,
    window_sizes: Sequence[int],
    window_dims: Sequence[int],
    index_map: Sequence[int],
    operand_batch: Sequence[int],
    indices_batch: Sequence[int],
    clip: bool,
) -> tuple[tuple[Any, ...], Array | None] | None:
    """Where windows span their dimensions (rows of a table, single elements): NumPy's index of the other dimensions.

    Returns the index, an entry for each dimension that is not in `window_dims`, and whether each window is inside
    (None: all are). Returns None for other layouts, for which `_positions` is meant.
    """
    for d in window_dims:
        if window_sizes[d] != x_shape[d]:
            return None
    taken = [d for d in range(len(x_shape)) if d not in window_dims]
    if indices.ndim < 2 or not any(d in taken for d in index_map):
        return None
    at: dict[int, Any] = {}
    inside: Array | None = None
    starts = as_int64(indices)
    for c, d in enumerate(index_map):
        start, last = starts[..., c], x_shape[d] - window_sizes[d]
        if start.size and (start.min() < 0 or start.max() > last):
            if not clip:
                here = (start >= 0) & (start <= last)
                inside = here if inside is None else inside & here
            start = np.clip(start, 0, max(last, 0))
        at[d] = start
    for d, e in zip(operand_batch, indices_batch):
        line = np.arange(x_shape[d])
        at[d] = line.reshape([-1 if i == e else 1 for i in range(indices.ndim - 1)])
    return tuple([at.get(d, 0) for d in taken]), inside


def _rows_first(x: Array, window_dims: Sequence[int]) -> Array:
    """A view whose last dimensions are `window_dims`."""
    taken = [d for d in range(x.ndim) if d not in window_dims]
    return x if not taken or not window_dims or taken[-1] < window_dims[0] else x.transpose((*taken, *window_dims))


@reference(ix.gather_p)
def gather(
    x: Array,
    indices: Array,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Array:
    d = dimension_numbers
    window = [i for i in range(x.ndim) if i not in d.collapsed_slice_dims and i not in d.operand_batching_dims]
    batch = iter(indices.shape[:-1])
    sizes = iter(slice_sizes[i] for i in window)
    rank = indices.ndim - 1 + len(window)
    shape = tuple(next(sizes) if i in d.offset_dims else next(batch) for i in range(rank))
    fill = ix.fill_scalar(fill_value, x.dtype)
    if x.size == 0:
        return np.full(shape, fill, x.dtype)
    rows = _rows(
        x.shape, indices, slice_sizes, window, d.start_index_map, d.operand_batching_dims,
        d.start_indices_batching_dims, mode is not GatherScatterMode.FILL_OR_DROP,
    )  # fmt: skip
    if rows is not None:
        index, inside = rows
        out = _rows_first(x, window)[index]
        if inside is not None:
            out[~inside] = fill
        n = indices.ndim - 1
        if not window or d.offset_dims[0] == n:
            return out
        axes, offsets = iter(range(n)), iter(range(n, rank))
        return out.transpose([next(offsets) if i in d.offset_dims else next(axes) for i in range(rank)])
    flat, inside = _positions(
        x.shape, indices, shape, slice_sizes, d.offset_dims, window, d.start_index_map, d.operand_batching_dims,
        d.start_indices_batching_dims, mode is not GatherScatterMode.FILL_OR_DROP,
    )  # fmt: skip
    out = x.reshape(-1)[np.where(inside, flat, 0)]
    return np.where(inside, out, np.asarray(fill, x.dtype))


def _scatter(
    x: Array,
    indices: Array,
    updates: Array,
    d: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    write: Callable[[Array, Any, Array], None],
    elements: bool = False,
) -> Array:
    """The scatter by `write(x, index, values)`; with `elements` its index is one of single elements of flat x."""
    window = ix.window_dims(x.ndim, d)
    sizes = [1] * x.ndim
    for i, j in zip(window, d.update_window_dims):
        sizes[i] = updates.shape[j]
    rows = None if elements or not x.size else _rows(
        x.shape, indices, sizes, window, d.scatter_dims_to_operand_dims, d.operand_batching_dims,
        d.scatter_indices_batching_dims, mode is GatherScatterMode.CLIP,
    )  # fmt: skip
    if rows:
        index, inside = rows
        updates = _rows_first(updates, d.update_window_dims)
        if inside is not None:
            index = tuple([i if isinstance(i, int) else np.broadcast_to(i, inside.shape)[inside] for i in index])
            updates = updates[inside]
        out = x.copy()
        write(_rows_first(out, window), index, updates)
        return out
    flat, inside = _positions(
        x.shape, indices, updates.shape, sizes, d.update_window_dims, window, d.scatter_dims_to_operand_dims,
        d.operand_batching_dims, d.scatter_indices_batching_dims, mode is GatherScatterMode.CLIP,
    )  # fmt: skip
    out = x.copy().reshape(-1)
    if out.size:
        write(out, flat[inside], updates[inside])
    return out.reshape(x.shape)


@reference(ix.scatter_p)
def scatter(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    update_jaxpr: ClosedJaxpr | None,
) -> Array:
    def write(out: Array, at: Any, values: Array) -> None:
        if update_jaxpr is None:
            out[at] = values
            return
        # Equal positions are updated in turns: in each, every position at most once.
        order = np.argsort(at, kind="stable")
        ordered = at[order]
        first = np.searchsorted(ordered, ordered)
        turn = np.empty(len(at), np.int64)
        turn[order] = np.arange(len(at)) - first
        for t in range(int(turn.max(initial=-1)) + 1):
            now = turn == t
            (out[at[now]],) = apply_scalar(update_jaxpr, out[at[now]], values[now])

    return _scatter(x, indices, updates, dimension_numbers, mode, write, elements=update_jaxpr is not None)


def _combining(ufunc: Any) -> Callable[..., Any]:
    def rule(
        x: Array,
        indices: Array,
        updates: Array,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
    ) -> Array:
        x, updates = widened(x), widened(updates)
        out = _scatter(x, indices, updates, dimension_numbers, mode, ufunc.at)
        if ufunc in (np.maximum, np.minimum):

            def anywhere(mask: Array) -> Array:
                more = np.signbit(updates) == (ufunc is np.minimum)
                return _scatter(mask, indices, (updates == 0) & more, dimension_numbers, mode, np.logical_or.at)

            out = signed_zeros(out, x, ufunc is np.maximum, anywhere)
        return out

    return rule


reference.add(ix.scatter_add_p, _combining(np.add))
reference.add(ix.scatter_sub_p, _combining(np.subtract))
reference.add(ix.scatter_mul_p, _combining(np.multiply))
reference.add(ix.scatter_min_p, _combining(np.minimum))
reference.add(ix.scatter_max_p, _combining(np.maximum))


def _window(x: Array, sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    clamped = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, sizes)]
    return tuple(slice(s, s + size) for s, size in zip(clamped, sizes))


@reference(ix.dynamic_slice_p)
def dynamic_slice(x: Array, *start_indices: Array, slice_sizes: tuple[int, ...]) -> Array:
    return x[_window(x, slice_sizes, start_indices)]


@reference(ix.dynamic_update_slice_p)
def dynamic_update_slice(x: Array, update: Array, *start_indices: Array) -> Array:
    out = x.copy()
    out[_window(x, update.shape, start_indices)] = update
    return out

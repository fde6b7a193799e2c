"""Indexing of `quire.lax`: gather, scatter, dynamic slices. Out-of-bounds behaviour is JAX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from ..arrays.explicit import takes_out_sharding

Value = Any


@takes_out_sharding
def gather(
    operand: Value,
    start_indices: Value,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Value:
    """Slices of `operand` at the positions in `start_indices`.

    Args:
        mode: "clip", "fill" (the default: slices outside become `fill_value`, by default NaN, the smallest signed or
            the largest unsigned integer), or "promise_in_bounds".
    """
    return ix.gather(
        operand, start_indices, dimension_numbers, slice_sizes, unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted, mode=mode, fill_value=fill_value,
    )  # fmt: skip


def index_take(src: Value, idxs: Sequence[Value], axes: Sequence[int]) -> Value:
    """The slices of `src` at positions along some axes: the results' first dimension is that of the vectors of positions.

    Args:
        src: an array.
        idxs: a vector of integers for each axis, counted modulo its size.
        axes: the axes, which the result does not have.

    Follows `jax.lax.index_take`.

    >>> quire.lax.index_take(quire.numpy.arange(6).reshape(2, 3), (quire.numpy.array([0, -1]),), (1,))
    Array([[0, 3],
           [2, 5]], dtype=int32)
    """
    shape = aval_of(src).shape
    columns: list[Value] = []
    for index, axis in zip(idxs, axes, strict=True):
        dtype = aval_of(index).dtype
        n = dtype.type(shape[axis])
        left = ew.rem(index, n)  # of the sign of the index
        below = ew.lt_p.bind(left, dtype.type(0))
        columns.append(
            st.expand_dims(ew.select_n(below, left, ew.add(left, st.broadcast_to(n, aval_of(left).shape))), (1,))
        )
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) - len(axes) + 1)),
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=tuple(axes),
    )
    sizes = [1 if i in axes else n for i, n in enumerate(shape)]
    return ix.gather(src, st.concatenate(columns, 1), numbers, sizes, mode="clip")


def _scatter_function(bind: Callable[..., Value], name: str, what: str) -> Callable[..., Value]:
    def apply(
        operand: Value,
        scatter_indices: Value,
        updates: Value,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Value:
        return bind(
            operand, scatter_indices, updates, dimension_numbers, indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices, mode=mode,
        )  # fmt: skip

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"`operand` with windows of `updates` {what} at the positions in `scatter_indices`.\n\n"
        '    `mode` is "drop" (the default: windows outside are dropped), "clip" or "promise_in_bounds".'
    )
    return apply


scatter = _scatter_function(ix.scatter, "scatter", "written")
scatter_add = _scatter_function(ix.scatter_add, "scatter_add", "added")
scatter_sub = _scatter_function(ix.scatter_sub, "scatter_sub", "subtracted")
scatter_mul = _scatter_function(ix.scatter_mul, "scatter_mul", "multiplied")
scatter_min = _scatter_function(ix.scatter_min, "scatter_min", "combined by minimum")
scatter_max = _scatter_function(ix.scatter_max, "scatter_max", "combined by maximum")


def scatter_apply(
    operand: Value,
    scatter_indices: Value,
    func: Callable[[Value], Value],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Value:
    """`operand` with a scalar function applied to the elements at the positions in `scatter_indices`."""
    return ix.scatter_apply(
        operand, scatter_indices, func, dimension_numbers, update_shape=update_shape,
        indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode,
    )  # fmt: skip


def _wrapped(index: Value, size: int) -> Value:
    """An index with negative values counted from the end."""
    if isinstance(index, int | np.integer):
        return np.asarray(int(index) + size if index < 0 else index, _index_dtype())[()]
    dtype = aval_of(index).dtype
    if dtypes.is_unsigned(dtype):
        return index
    if size > np.iinfo(dtype).max:
        index = ew.convert_element_type(index, _index_dtype())
    return ew.where(ew.lt(index, 0), ew.add(index, size), index)


def _index_dtype() -> Any:
    return dtypes.canonicalize(dtypes.int32)


def _starts(operand: Value, start_indices: Any) -> list[Value]:
    shape = aval_of(operand).shape
    if hasattr(start_indices, "ndim") and start_indices.ndim == 1:
        start_indices = [start_indices[i] for i in range(start_indices.shape[0])]
    starts = list(start_indices)
    if len(starts) != len(shape):
        raise TypeError(
            f"dynamic_slice: expected a start index for each dimension of {aval_of(operand).short()}, got {len(starts)}"
        )
    wrapped = [_wrapped(i, n) for i, n in zip(starts, shape)]
    kinds = {aval_of(i).dtype for i in wrapped}
    if len(kinds) > 1:
        wide, _ = dtypes.promote((d, False) for d in kinds)
        wrapped = [ew.convert_element_type(i, wide) for i in wrapped]
    return wrapped


def dynamic_slice(operand: Value, start_indices: Any, slice_sizes: Sequence[int]) -> Value:
    """The slice of static size at scalar indices. Negative ones count from the end; then they are clamped.

    >>> import quire.numpy as qnp
    >>> quire.lax.dynamic_slice(qnp.arange(5), [3], [3]).tolist()
    [2, 3, 4]
    """
    return ix.dynamic_slice(operand, _starts(operand, start_indices), slice_sizes)


def dynamic_update_slice(operand: Value, update: Value, start_indices: Any) -> Value:
    """`operand` with `update` written at scalar indices. Negative ones count from the end; then they are clamped."""
    return ix.dynamic_update_slice(operand, update, _starts(operand, start_indices))


def dynamic_slice_in_dim(operand: Value, start_index: Value, slice_size: int, axis: int = 0) -> Value:
    """`dynamic_slice` along one dimension."""
    axis %= aval_of(operand).ndim
    return ix.dynamic_slice_in_dim(operand, _wrapped(start_index, aval_of(operand).shape[axis]), int(slice_size), axis)


def dynamic_index_in_dim(operand: Value, index: Value, axis: int = 0, keepdims: bool = True) -> Value:
    """The elements at a scalar index along a dimension, clamped; without that dimension unless `keepdims`."""
    axis %= aval_of(operand).ndim
    return ix.dynamic_index_in_dim(operand, _wrapped(index, aval_of(operand).shape[axis]), axis, keepdims)


def dynamic_update_slice_in_dim(operand: Value, update: Value, start_index: Value, axis: int) -> Value:
    """`dynamic_update_slice` along one dimension."""
    axis %= aval_of(operand).ndim
    start = _wrapped(start_index, aval_of(operand).shape[axis])
    return ix.dynamic_update_slice_in_dim(operand, update, start, axis)


def dynamic_update_index_in_dim(operand: Value, update: Value, index: Value, axis: int) -> Value:
    """`operand` with `update` written at a scalar index along a dimension."""
    axis %= aval_of(operand).ndim
    return ix.dynamic_update_index_in_dim(operand, update, _wrapped(index, aval_of(operand).shape[axis]), axis)


__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "dynamic_index_in_dim", "dynamic_slice",
    "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim",
    "gather", "index_take", "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip

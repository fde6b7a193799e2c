"""Reference rules of structural primitives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir.primitives import structural as st

from .rules import reference

slice_of = slice  # the rule of the primitive `slice` takes the name below


@reference(st.broadcast_in_dim_p)
def broadcast_in_dim(x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    expanded = [1] * len(shape)
    for i, d in enumerate(broadcast_dimensions):
        expanded[d] = x.shape[i]
    x = x.reshape(expanded)
    if x.shape == shape:
        return x
    if math.prod(shape) <= 4096:  # a small copy takes less time than NumPy's making of a view
        out = np.empty(shape, x.dtype)
        out[...] = x
        return out
    return np.broadcast_to(x, shape)


@reference(st.reshape_p)
def reshape(x: Any, *, new_sizes: tuple[int, ...]) -> Any:
    return x.reshape(new_sizes)


@reference(st.transpose_p)
def transpose(x: Any, *, permutation: tuple[int, ...]) -> Any:
    return x.transpose(permutation)


@reference(st.squeeze_p)
def squeeze(x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return np.squeeze(x, dimensions)


@reference(st.rev_p)
def rev(x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return np.flip(x, dimensions)


@reference(st.concatenate_p)
def concatenate(*operands: Any, dimension: int) -> Any:
    return np.concatenate(operands, dimension)


@reference(st.pad_p)
def pad(x: Any, padding_value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> Any:
    dilated = [n + max(n - 1, 0) * i for n, (_, _, i) in zip(x.shape, padding_config)]
    spread = np.full(dilated, padding_value, x.dtype)
    spread[tuple(slice_of(0, None, i + 1) for _, _, i in padding_config)] = x
    out = np.full([n + lo + hi for n, (lo, hi, _) in zip(dilated, padding_config)], padding_value, x.dtype)
    source, destination = [], []
    for n, m, (lo, _, _) in zip(dilated, out.shape, padding_config):
        count = max(min(n - max(-lo, 0), m - max(lo, 0)), 0)
        source.append(slice_of(max(-lo, 0), max(-lo, 0) + count))
        destination.append(slice_of(max(lo, 0), max(lo, 0) + count))
    out[tuple(destination)] = spread[tuple(source)]
    return out


@reference(st.slice_p)
def slice(
    x: Any, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...], strides: tuple[int, ...] | None
) -> Any:
    return x[tuple(map(slice_of, start_indices, limit_indices, strides or (1,) * x.ndim))]


@reference(st.iota_p)
def iota(*, dtype: Any, shape: tuple[int, ...], dimension: int) -> Any:
    column = [1] * len(shape)
    column[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(column), shape)


@reference(st.split_p)
def split(x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    return np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else []


@reference(st.tile_p)
def tile(x: Any, *, reps: tuple[int, ...]) -> Any:
    return np.tile(x, reps)


@reference(st.optimization_barrier_p)
def optimization_barrier(*operands: Any) -> Any:
    return operands

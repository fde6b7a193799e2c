"""Batching rules of structural primitives: the batch dimension is left where it is as far as the operation allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .rules import Axis, Dim, Value, batching, broadcast_batch, move_dim, to_front


def shifted(dims: Sequence[int], batch: int) -> tuple[int, ...]:
    """Numbers of dimensions counted beside a batch dimension."""
    return tuple(d + (d >= batch) for d in dims)


def with_entry(values: Sequence[Any], batch: int, entry: Any) -> tuple[Any, ...]:
    """One value for each dimension, with another one for the batch dimension."""
    return (*values[:batch], entry, *values[batch:])


def together(operands: Sequence[Value], dims: Sequence[Dim], size: int) -> tuple[list[Value], int]:
    """Operands of one rank with their batch dimensions at one place, that of the first which has one."""
    at = next(d for d in dims if d is not None)
    return [broadcast_batch(x, size, at) if d is None else move_dim(x, d, at) for x, d in zip(operands, dims)], at


@batching(st.broadcast_in_dim_p)
def broadcast_in_dim(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, shape: tuple[int, ...],
    broadcast_dimensions: tuple[int, ...],
) -> tuple[Value, int]:  # fmt: skip
    (x,), (d,) = operands, dims
    at = broadcast_dimensions[d] if d < len(broadcast_dimensions) else len(shape)
    places = with_entry([b + (b >= at) for b in broadcast_dimensions], d, at)
    return st.broadcast_in_dim(x, with_entry(shape, at, axis.size), places), at


@batching(st.reshape_p)
def reshape(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, new_sizes: tuple[int, ...]
) -> tuple[Value, int]:
    return st.reshape(move_dim(operands[0], dims[0], 0), (axis.size, *new_sizes)), 0


@batching(st.transpose_p)
def transpose(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, permutation: tuple[int, ...]
) -> tuple[Value, int]:
    (d,) = dims
    return st.transpose(operands[0], (d, *shifted(permutation, d))), 0


@batching(st.squeeze_p)
def squeeze(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, dimensions: tuple[int, ...]
) -> tuple[Value, int]:
    (d,) = dims
    gone = shifted(dimensions, d)
    return st.squeeze(operands[0], gone), d - sum(g < d for g in gone)


@batching(st.rev_p)
def rev(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, dimensions: tuple[int, ...]
) -> tuple[Value, int]:
    return st.rev(operands[0], shifted(dimensions, dims[0])), dims[0]


@batching(st.concatenate_p)
def concatenate(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension: int) -> tuple[Value, int]:
    xs, d = together(operands, dims, axis.size)
    return st.concatenate(xs, dimension + (dimension >= d)), d


@batching(st.pad_p)
def pad(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, padding_config: tuple[tuple[int, int, int], ...]
) -> tuple[Value, int]:
    (x, value), (d, dv) = operands, dims
    if dv is None:
        assert d is not None
        return st.pad(x, value, with_entry(padding_config, d, (0, 0, 0))), d
    # A value for each lane: pad with anything, then put the values where the operand is not.
    x = to_front(x, d, axis.size)
    config = ((0, 0, 0), *padding_config)
    padded = st.pad(x, st.zeros((), aval_of(x).dtype), config)
    inside = st.pad(st.full(aval_of(x).shape, True), False, config)
    return ew.select_n(inside, st.broadcast_in_dim(value, aval_of(padded).shape, (0,)), padded), 0


@batching(st.slice_p)
def slice(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...], strides: tuple[int, ...] | None,
) -> tuple[Value, int]:  # fmt: skip
    (x,), (d,) = operands, dims
    steps = None if strides is None else with_entry(strides, d, 1)
    return st.slice(x, with_entry(start_indices, d, 0), with_entry(limit_indices, d, axis.size), steps), d


@batching(st.split_p)
def split(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[int], *, sizes: tuple[int, ...], axis: int
) -> tuple[list[Value], list[int]]:
    (x,), (d,) = operands, dims
    return st.split(x, sizes, axis + (axis >= d)), [d] * len(sizes)


@batching(st.tile_p)
def tile(axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, reps: tuple[int, ...]) -> tuple[Value, int]:
    return st.tile(operands[0], with_entry(reps, dims[0], 1)), dims[0]


@batching(st.optimization_barrier_p)
def optimization_barrier(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim]
) -> tuple[list[Value], Sequence[Dim]]:
    return st.optimization_barrier_p.bind(*operands), dims


batching.absent("it has no operands", st.iota_p)

"""Structural primitives: they move elements and compute none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..avals import ShapedArray, aval_of
from ..primitive import primitive
from .common import check_axes

Value = Any


@primitive("broadcast_in_dim")
def broadcast_in_dim_p(
    x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> ShapedArray:
    """Repeat x along new and size-1 dimensions: dimension i of x becomes ``broadcast_dimensions[i]`` of `shape`."""
    check_axes("broadcast_in_dim", len(shape), broadcast_dimensions)
    if len(broadcast_dimensions) != x.ndim or list(broadcast_dimensions) != sorted(broadcast_dimensions):
        raise ValueError(
            f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} must be increasing and one for each "
            f"dimension of the operand {x.short()}"
        )
    for i, d in enumerate(broadcast_dimensions):
        if x.shape[i] not in (1, shape[d]):
            raise ValueError(
                f"broadcast_in_dim: dimension {i} of the operand {x.short()} must be 1 or {shape[d]} to become "
                f"dimension {d} of shape {shape}"
            )
    return x.update(shape=shape)


@primitive("reshape")
def reshape_p(x: ShapedArray, *, new_sizes: tuple[int, ...]) -> ShapedArray:
    """The elements of x in row-major order, in another shape of the same size."""
    if math.prod(new_sizes) != x.size:
        raise TypeError(f"reshape: cannot reshape {x.short()} of size {x.size} to shape {new_sizes} of size {math.prod(new_sizes)}")
    return x.update(shape=new_sizes)


@primitive("transpose")
def transpose_p(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    """Reorder the dimensions: dimension i of the result is dimension ``permutation[i]`` of x."""
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"transpose: permutation {permutation} must hold each of 0..{x.ndim - 1} once, for operand {x.short()}")
    return x.update(shape=tuple(x.shape[i] for i in permutation))


def broadcast_in_dim(x: Value, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Value:
    """x repeated to `shape`; x itself when the shape is the same."""
    shape, dims = tuple(map(int, shape)), tuple(map(int, broadcast_dimensions))
    if aval_of(x).shape == shape and dims == tuple(range(len(shape))) and hasattr(x, "aval"):
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)


def reshape(x: Value, new_sizes: Sequence[int]) -> Value:
    """x in another shape of the same size; x itself when the shape is the same."""
    sizes = tuple(map(int, new_sizes))
    if aval_of(x).shape == sizes and hasattr(x, "aval"):
        return x
    return reshape_p.bind(x, new_sizes=sizes)


def transpose(x: Value, permutation: Sequence[int]) -> Value:
    """x with its dimensions reordered; x itself for the identity."""
    perm = tuple(map(int, permutation))
    if perm == tuple(range(len(perm))) and len(perm) == aval_of(x).ndim and hasattr(x, "aval"):
        return x
    return transpose_p.bind(x, permutation=perm)


def broadcast_to(x: Value, shape: Sequence[int]) -> Value:
    """x repeated to `shape` by NumPy's rule (aligned at the last dimension)."""
    ndim = aval_of(x).ndim
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim, len(shape))))


def broadcast_scalars(*args: Value, shape: tuple[int, ...] = ()) -> list[Value]:
    """The arguments with scalars among them broadcast to the shape of the others (or `shape`)."""
    for a in args:
        if aval_of(a).shape:
            shape = aval_of(a).shape
    return [broadcast_to(a, shape) if not aval_of(a).shape and shape else a for a in args]

"""Structural primitives: they move elements and compute none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..dtypes import DType
from ..primitive import primitive
from .common import NUMBER, canonical_axes, check_axes, check_dtype, check_same_dtype, match_scalars, scalar_as
from .elementwise import convert_element_type

Value = Any


@primitive("broadcast_in_dim", weight=0)
def broadcast_in_dim_p(x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> ShapedArray:
    """Repeat x along new and size-1 dimensions: dimension i of x becomes ``broadcast_dimensions[i]`` of `shape`.

    Raises:
        TypeError: `broadcast_dimensions` are not increasing, one for each dimension of x and within the rank of
            `shape`, or a dimension of x has neither size 1 nor that of the result.
    """
    rank = len(shape)
    if any(not 0 <= d < rank for d in broadcast_dimensions):
        raise TypeError(f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} must be dimensions of {shape}")
    if len(broadcast_dimensions) != x.ndim or list(broadcast_dimensions) != sorted(set(broadcast_dimensions)):
        raise TypeError(
            f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} must be increasing and one for each "
            f"dimension of the operand {x.short()}"
        )
    for i, d in enumerate(broadcast_dimensions):
        if x.shape[i] not in (1, shape[d]):
            raise TypeError(
                f"broadcast_in_dim: dimension {i} of the operand {x.short()} must be 1 or {shape[d]} to become "
                f"dimension {d} of shape {shape}"
            )
    return x.update(shape=shape)


@primitive("reshape", weight=0)
def reshape_p(x: ShapedArray, *, new_sizes: tuple[int, ...]) -> ShapedArray:
    """The elements of x in row-major order, in another shape of the same size.

    Raises:
        TypeError: the sizes of the two shapes differ.
    """
    if math.prod(new_sizes) != x.size:
        raise TypeError(
            f"reshape: cannot reshape {x.short()} of size {x.size} to shape {new_sizes} of size {math.prod(new_sizes)}"
        )
    return x.update(shape=new_sizes)


@primitive("transpose", weight=0)
def transpose_p(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    """Reorder the dimensions: dimension i of the result is dimension ``permutation[i]`` of x.

    Raises:
        TypeError: `permutation` does not hold each dimension of x once.
    """
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose: permutation {permutation} must hold each of 0..{x.ndim - 1} once, for operand {x.short()}"
        )
    return x.update(shape=tuple(x.shape[i] for i in permutation))


@primitive("squeeze", weight=0)
def squeeze_p(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    """Remove `dimensions`, which have size 1.

    Raises:
        ValueError: one of them is no dimension of x, comes twice or has another size.
    """
    check_axes("squeeze", x.ndim, dimensions)
    for d in dimensions:
        if x.shape[d] != 1:
            raise ValueError(f"squeeze: dimension {d} of the operand {x.short()} must have size 1 to be removed")
    return x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in dimensions))


@primitive("rev")
def rev_p(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    """Reverse the order of the elements along `dimensions`."""
    check_axes("rev", x.ndim, dimensions)
    return x


@primitive("concatenate")
def concatenate_p(*operands: ShapedArray, dimension: int) -> ShapedArray:
    """Join arrays of one dtype along `dimension`; their other dimensions are equal.

    Raises:
        TypeError: there is no operand, or the dtypes or other dimensions differ.
        ValueError: the operands do not have that dimension.
    """
    if not operands:
        raise TypeError("concatenate: expected at least one operand")
    check_same_dtype("concatenate", *operands)
    first = operands[0]
    check_axes("concatenate", first.ndim, (dimension,))
    for x in operands[1:]:
        if x.ndim != first.ndim or any(m != n for i, (m, n) in enumerate(zip(first.shape, x.shape)) if i != dimension):
            given = ", ".join(a.short() for a in operands)
            raise TypeError(
                f"concatenate: the operands' shapes must be equal but for dimension {dimension}, got {given}"
            )
    shape = list(first.shape)
    shape[dimension] = sum(x.shape[dimension] for x in operands)
    return first.update(shape=tuple(shape), weak_type=all(x.weak_type for x in operands))


@primitive("pad")
def pad_p(
    x: ShapedArray, padding_value: ShapedArray, *, padding_config: tuple[tuple[int, int, int], ...]
) -> ShapedArray:
    """Pad each dimension by (low, high, interior) copies of the scalar `padding_value`.

    Interior padding goes between neighbouring elements. A negative low or high removes elements of the dimension
    (after its interior padding).

    Raises:
        TypeError: the dtypes differ.
        ValueError: `padding_value` is no scalar, or `padding_config` has not one triple for each dimension of x, has
            negative interior padding, or removes more than there is.
    """
    check_same_dtype("pad", x, padding_value)
    if padding_value.shape:
        raise ValueError(f"pad: padding_value {padding_value.short()} must be a scalar")
    if len(padding_config) != x.ndim or any(len(c) != 3 for c in padding_config):
        raise ValueError(
            f"pad: padding_config {padding_config} must hold (low, high, interior) for each dimension of {x.short()}"
        )
    if any(interior < 0 for _, _, interior in padding_config):
        raise ValueError(f"pad: interior padding must not be negative, got padding_config {padding_config}")
    shape = tuple(lo + hi + n + max(n - 1, 0) * i for n, (lo, hi, i) in zip(x.shape, padding_config))
    if any(n < 0 for n in shape):
        raise ValueError(f"pad: padding_config {padding_config} removes more than there is of {x.short()}")
    return x.update(shape=shape, weak_type=x.weak_type and padding_value.weak_type)


@primitive("slice", weight=0)
def slice_p(
    x: ShapedArray, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...], strides: tuple[int, ...] | None
) -> ShapedArray:
    """The elements from `start_indices` up to, not including, `limit_indices`, every `strides`-th (1 if None).

    Raises:
        TypeError: there is not one value for each dimension of x, the bounds are not ordered and within x, or a stride
            is not positive.
    """
    steps = (1,) * x.ndim if strides is None else strides
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise TypeError(
            f"slice: start_indices {start_indices}, limit_indices {limit_indices} and strides {strides} must hold one "
            f"value for each dimension of {x.short()}"
        )
    for d, (start, limit, step) in enumerate(zip(start_indices, limit_indices, steps)):
        if not 0 <= start <= limit <= x.shape[d]:
            raise TypeError(
                f"slice: dimension {d} of {x.short()}: expected 0 <= start <= limit <= {x.shape[d]}, "
                f"got start {start}, limit {limit}"
            )
        if step < 1:
            raise TypeError(f"slice: strides must be positive, got {strides}")
    return x.update(shape=tuple(-((a - b) // s) for a, b, s in zip(start_indices, limit_indices, steps)))


@primitive("iota", weight=0)
def iota_p(*, dtype: DType, shape: tuple[int, ...], dimension: int) -> ShapedArray:
    """The index along `dimension` as a value: 0, 1, 2, ... along it, the same along the other dimensions.

    Raises:
        ValueError: `shape` has no such dimension or is negative.
        TypeError: `dtype` is bool.
    """
    if not 0 <= dimension < len(shape):
        raise ValueError(f"iota: dimension {dimension} must be within [0, {len(shape)}), the rank of shape {shape}")
    if any(n < 0 for n in shape):
        raise ValueError(f"iota: shape {shape} must not be negative")
    out = ShapedArray(shape, dtype)
    check_dtype("iota", out, NUMBER, "result")
    return out


@primitive("split", multiple_results=True)
def split_p(x: ShapedArray, *, sizes: tuple[int, ...], axis: int) -> tuple[ShapedArray, ...]:
    """Cut x along `axis` into consecutive pieces of the given sizes.

    Raises:
        ValueError: x does not have that axis, a size is negative, or the sizes do not add up to the axis's.
    """
    check_axes("split", x.ndim, (axis,))
    if any(n < 0 for n in sizes) or sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"split: sizes {sizes} must be non-negative and add up to {x.shape[axis]}, the size of dimension {axis} "
            f"of {x.short()}"
        )
    return tuple(x.update(shape=(*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes)


@primitive("tile")
def tile_p(x: ShapedArray, *, reps: tuple[int, ...]) -> ShapedArray:
    """x repeated ``reps[i]`` times along dimension i.

    Raises:
        ValueError: `reps` does not hold one non-negative number for each dimension of x.
    """
    if len(reps) != x.ndim or any(r < 0 for r in reps):
        raise ValueError(f"tile: reps {reps} must hold one non-negative number for each dimension of {x.short()}")
    return x.update(shape=tuple(n * r for n, r in zip(x.shape, reps)))


@primitive("optimization_barrier", multiple_results=True, apart=True)
def optimization_barrier_p(*operands: ShapedArray) -> tuple[ShapedArray, ...]:
    """The operands unchanged. No compiler pass moves or merges operations across it."""
    return operands


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


def expand_dims(x: Value, dimensions: Sequence[int]) -> Value:
    """x with dimensions of size 1 at these positions of the result."""
    ndim = aval_of(x).ndim + len(dimensions)
    dims = canonical_axes("expand_dims", dimensions, ndim)
    check_axes("expand_dims", ndim, dims)
    if not dims:
        return x
    kept = [i for i in range(ndim) if i not in dims]
    shape = [1] * ndim
    for i, n in zip(kept, aval_of(x).shape):
        shape[i] = n
    return broadcast_in_dim(x, shape, kept)


def squeeze(x: Value, dimensions: Sequence[int]) -> Value:
    """x without the size-1 `dimensions` (negative ones count from the end); x itself for none."""
    dims = canonical_axes("squeeze", dimensions, aval_of(x).ndim)
    return squeeze_p.bind(x, dimensions=dims) if dims or not hasattr(x, "aval") else x


def rev(x: Value, dimensions: Sequence[int]) -> Value:
    """x reversed along `dimensions`."""
    dims = canonical_axes("rev", dimensions, aval_of(x).ndim)
    return rev_p.bind(x, dimensions=dims) if dims or not hasattr(x, "aval") else x


def concatenate(operands: Sequence[Value], dimension: int) -> Value:
    """The operands joined along `dimension`; the operand itself if there is one.

    Raises:
        TypeError: there is no operand.
        ValueError: the first operand does not have that dimension.
    """
    if len(operands) == 1 and hasattr(operands[0], "aval"):
        return operands[0]
    if not operands:
        raise TypeError("concatenate: expected at least one operand")
    (d,) = canonical_axes("concatenate", (dimension,), aval_of(operands[0]).ndim)
    return concatenate_p.bind(*operands, dimension=d)


def pad(x: Value, padding_value: Value, padding_config: Sequence[Sequence[int]]) -> Value:
    """x padded by (low, high, interior) copies of a scalar along each dimension; negative ones remove elements."""
    config = tuple((int(lo), int(hi), int(i)) for lo, hi, i in padding_config)
    x, padding_value = match_scalars(x, padding_value)
    nothing = (
        len(config) == aval_of(x).ndim and all(c == (0, 0, 0) for c in config) and not aval_of(padding_value).shape
    )
    if nothing and hasattr(x, "aval"):
        return x
    return pad_p.bind(x, padding_value, padding_config=config)


def slice(
    x: Value, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Value:
    """The elements between static bounds, every `strides`-th; x itself when that is all of it."""
    starts, limits = tuple(map(int, start_indices)), tuple(map(int, limit_indices))
    steps = None if strides is None or all(s == 1 for s in strides) else tuple(map(int, strides))
    shape = aval_of(x).shape
    if steps is None and limits == shape and not any(starts) and len(starts) == len(shape) and hasattr(x, "aval"):
        return x
    return slice_p.bind(x, start_indices=starts, limit_indices=limits, strides=steps)


def slice_in_dim(x: Value, start: int | None, limit: int | None, stride: int = 1, axis: int = 0) -> Value:
    """`slice` along one dimension; bounds as in Python: None for the ends, negative ones count from the end."""
    shape = aval_of(x).shape
    (axis,) = canonical_axes("slice_in_dim", (axis,), len(shape))
    n = shape[axis]
    start = 0 if start is None else start + n if start < 0 else start
    limit = n if limit is None else limit + n if limit < 0 else limit
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = int(start), int(limit), int(stride)
    return slice(x, starts, limits, strides)


def iota(dtype: Any, size: int) -> Value:
    """The vector 0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Value:
    """An array whose value is the index along `dimension`."""
    sizes = tuple(map(int, shape))
    (d,) = canonical_axes("iota", (dimension,), len(sizes))
    return iota_p.bind(dtype=dtypes.explicit(dtypes.as_dtype(dtype)), shape=sizes, dimension=d)


def split(x: Value, sizes: Sequence[int], axis: int = 0) -> list[Value]:
    """x cut along `axis` into pieces of the given sizes."""
    (a,) = canonical_axes("split", (axis,), aval_of(x).ndim)
    return split_p.bind(x, sizes=tuple(map(int, sizes)), axis=a)


def tile(x: Value, reps: Sequence[int]) -> Value:
    """x repeated along each dimension; fewer reps than dimensions count for the last ones, more add dimensions."""
    shape = aval_of(x).shape
    counts = (1,) * (len(shape) - len(reps)) + tuple(map(int, reps))
    if len(counts) > len(shape):
        x = reshape(x, (1,) * (len(counts) - len(shape)) + shape)
    if all(r == 1 for r in counts) and hasattr(x, "aval"):
        return x
    return tile_p.bind(x, reps=counts)


def optimization_barrier(*operands: Value) -> list[Value]:
    """The operands unchanged; compilers move nothing across."""
    return optimization_barrier_p.bind(*operands) if operands else []


def broadcast(x: Value, sizes: Sequence[int]) -> Value:
    """x repeated along new leading dimensions of these sizes."""
    ndim = aval_of(x).ndim
    shape = (*map(int, sizes), *aval_of(x).shape)
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim, len(shape))))


def full(shape: Sequence[int], fill_value: Value, dtype: Any = None) -> Value:
    """An array with all elements equal to a scalar.

    Raises:
        TypeError: `fill_value` is no scalar, or complex where `dtype` is real.
        ValueError: `shape` is negative.
    """
    if aval_of(fill_value).shape:
        raise TypeError(f"full: fill_value {aval_of(fill_value).short()} must be a scalar")
    sizes = tuple(map(int, shape))
    if any(n < 0 for n in sizes):
        raise ValueError(f"full: shape {sizes} must not be negative")
    if isinstance(fill_value, bool | int | float | complex | np.generic):
        wanted = aval_of(fill_value).dtype if dtype is None else dtypes.explicit(dtypes.as_dtype(dtype))
        weak = dtype is None and aval_of(fill_value).weak_type
        scalar: Value = scalar_as("full", fill_value, wanted)
        if weak:
            scalar = scalar.item()
    else:
        scalar = convert_element_type(fill_value, dtype)
    return broadcast_in_dim(scalar, sizes, ())


def zeros(shape: Sequence[int], dtype: Any) -> Value:
    """An array of zeros (False for bool)."""
    return full(shape, 0, dtype)


def empty(shape: Sequence[int], dtype: Any) -> Value:
    """An array whose elements do not matter (they are zeros)."""
    return full(shape, 0, dtype)


def full_like(x: Value, fill_value: Value) -> Value:
    """`full` of x's shape and dtype."""
    return full(aval_of(x).shape, fill_value, aval_of(x).dtype)

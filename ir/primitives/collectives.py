"""Collectives: communication along a named axis, that of a `vmap` or of a device mesh.

Inside a mapped function a value stands for one slice; a collective combines or moves the slices. Batching over the
axis turns a collective into ordinary operations on the batch dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import ShapedArray
from ..axes import axis_size
from ..primitive import primitive
from .common import NUMBER, ORDERED, check_dtype

Value = Any
AxisName = Any


@primitive("psum")
def psum_p(x: ShapedArray, *, axes: tuple[AxisName, ...]) -> ShapedArray:
    """Sum over the named axes; every slice gets it."""
    check_dtype("psum", x, NUMBER)
    return x


@primitive("pmax")
def pmax_p(x: ShapedArray, *, axes: tuple[AxisName, ...]) -> ShapedArray:
    """Maximum over the named axes; every slice gets it."""
    check_dtype("pmax", x, ORDERED)
    return x


@primitive("pmin")
def pmin_p(x: ShapedArray, *, axes: tuple[AxisName, ...]) -> ShapedArray:
    """Minimum over the named axes; every slice gets it."""
    check_dtype("pmin", x, ORDERED)
    return x


@primitive("ppermute")
def ppermute_p(x: ShapedArray, *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]) -> ShapedArray:
    """The slice at ``source`` goes to ``destination`` for each pair of `perm`; slices that get none are zero."""
    return x


@primitive("all_gather")
def all_gather_p(
    x: ShapedArray, *, axis_name: AxisName, all_gather_dimension: int, axis_size: int, tiled: bool
) -> ShapedArray:
    """All slices along a new dimension, or (tiled) concatenated along that dimension; every slice gets it."""
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return x.update(shape=tuple(shape))


@primitive("reduce_scatter")
def reduce_scatter_p(
    x: ShapedArray, *, axis_name: AxisName, scatter_dimension: int, axis_size: int, tiled: bool
) -> ShapedArray:
    """The sum over the axis, of which each slice gets its part along `scatter_dimension`.

    Raises:
        TypeError: x is bool.
        ValueError: the dimension's size is not divisible by the axis's size (`tiled`), or not equal to it.
    """
    check_dtype("reduce_scatter", x, NUMBER)
    shape = list(x.shape)
    n = shape[scatter_dimension]
    if tiled:
        if n % axis_size:
            raise ValueError(
                f"psum_scatter: dimension {scatter_dimension} of {x.short()} must be divisible by the size {axis_size} "
                f"of axis {axis_name!r}"
            )
        shape[scatter_dimension] = n // axis_size
    else:
        if n != axis_size:
            raise ValueError(
                f"psum_scatter: dimension {scatter_dimension} of {x.short()} must have the size {axis_size} of axis "
                f"{axis_name!r} (or pass tiled=True)"
            )
        del shape[scatter_dimension]
    return x.update(shape=tuple(shape))


@primitive("all_to_all")
def all_to_all_p(
    x: ShapedArray, *, axis_name: AxisName, split_axis: int, concat_axis: int, axis_size: int
) -> ShapedArray:
    """Exchange parts: part j along `split_axis` of slice i becomes part i along `concat_axis` of slice j.

    Raises:
        ValueError: the size of dimension `split_axis` is not divisible by the axis's size.
    """
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(
            f"all_to_all: dimension {split_axis} of {x.short()} must be divisible by the size {axis_size} of axis "
            f"{axis_name!r}"
        )
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return x.update(shape=tuple(shape))


@primitive("axis_index")
def axis_index_p(*, axis_name: AxisName) -> ShapedArray:
    """The index of the slice along the axis, an int32."""
    return ShapedArray((), dtypes.int32)


def axis_names(params: Any) -> tuple[AxisName, ...]:
    """The named axes that a collective's parameters speak of."""
    return params["axes"] if "axes" in params else (params["axis_name"],) if "axis_name" in params else ()


def psum(x: Value, axes: Sequence[AxisName]) -> Value:
    """Sum over named axes."""
    for a in axes:
        axis_size(a)
    return psum_p.bind(x, axes=tuple(axes)) if axes else x


def pmax(x: Value, axes: Sequence[AxisName]) -> Value:
    """Maximum over named axes."""
    for a in axes:
        axis_size(a)
    return pmax_p.bind(x, axes=tuple(axes)) if axes else x


def pmin(x: Value, axes: Sequence[AxisName]) -> Value:
    """Minimum over named axes."""
    for a in axes:
        axis_size(a)
    return pmin_p.bind(x, axes=tuple(axes)) if axes else x

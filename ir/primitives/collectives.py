"""Collectives: communication along named axes, those of a `vmap` or of a device mesh.

Inside a mapped function a value stands for one slice; a collective combines or moves the slices. Batching over the
axis turns a collective into ordinary operations on the batch dimension. `axis_name` is a name, or a tuple of names that
count as one axis, the first one the major. With `axis_index_groups` (a partition of the indices of the axis into tuples)
each group communicates for itself.

Along the axes of a mesh that are checked, types say whether a value varies (`ShapedArray.vma`): what psum, pmax and pmin
give does not, what the others give does. A value that does not vary is cast by `pvary` before it communicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..axes import axis_size, checked_axes
from ..primitive import Primitive, primitive
from .common import NUMBER, ORDERED, check_dtype

Value = Any
AxisName = Any
Groups = tuple[tuple[int, ...], ...] | None


def names_of(axis_name: AxisName) -> tuple[AxisName, ...]:
    """The axes of a parameter `axis_name` as a tuple."""
    if isinstance(axis_name, tuple):
        return axis_name  # pyright: ignore[reportUnknownVariableType]
    return (axis_name,)


def _same_everywhere(x: ShapedArray, axes: tuple[AxisName, ...]) -> ShapedArray:
    return x.update(vma=x.vma.difference(axes)) if x.vma else x


@primitive("psum")
def psum_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Sum over the named axes; every slice gets it."""
    check_dtype("psum", x, NUMBER)
    return x if axis_index_groups is not None else _same_everywhere(x, axes)


@primitive("pmax")
def pmax_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Maximum over the named axes; every slice gets it."""
    check_dtype("pmax", x, ORDERED)
    return x if axis_index_groups is not None else _same_everywhere(x, axes)


@primitive("pmin")
def pmin_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Minimum over the named axes; every slice gets it."""
    check_dtype("pmin", x, ORDERED)
    return x if axis_index_groups is not None else _same_everywhere(x, axes)


@primitive("ppermute")
def ppermute_p(x: ShapedArray, *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]) -> ShapedArray:
    """The slice at ``source`` goes to ``destination`` for each pair of `perm`; slices that get none are zero."""
    return x


@primitive("pbroadcast")
def pbroadcast_p(x: ShapedArray, *, axis_name: AxisName, source: int) -> ShapedArray:
    """Every slice gets the slice at `source`."""
    return x


@primitive("pvary", weight=0)
def pvary_p(x: ShapedArray, *, axes: tuple[AxisName, ...]) -> ShapedArray:
    """x itself, taken for one that varies along the axes; its transpose sums over them.

    Raises:
        ValueError: x varies along one of the axes already.
    """
    twice = x.vma.intersection(axes)
    if twice:
        raise ValueError(f"pvary: {x.short()} varies along {', '.join(sorted(map(repr, twice)))} already")
    return x.update(vma=x.vma.union(axes))


@primitive("all_gather")
def all_gather_p(
    x: ShapedArray, *, axis_name: AxisName, all_gather_dimension: int, axis_size: int, tiled: bool,
    axis_index_groups: Groups = None,
) -> ShapedArray:  # fmt: skip
    """All slices along a new dimension, or (tiled) concatenated along that dimension; every slice gets it.

    `axis_size` is the number of slices that come together: the product over several axes, the size of a group.
    """
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return x.update(shape=tuple(shape))


@primitive("reduce_scatter")
def reduce_scatter_p(
    x: ShapedArray, *, axis_name: AxisName, scatter_dimension: int, axis_size: int, tiled: bool,
    axis_index_groups: Groups = None,
) -> ShapedArray:  # fmt: skip
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
    x: ShapedArray, *, axis_name: AxisName, split_axis: int, concat_axis: int, axis_size: int,
    axis_index_groups: Groups = None,
) -> ShapedArray:  # fmt: skip
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
    return params["axes"] if "axes" in params else names_of(params["axis_name"]) if "axis_name" in params else ()


def vary(x: Value, axes: Sequence[AxisName]) -> Value:
    """x, cast so that it varies along those of the axes that are checked: what a collective over them takes."""
    checked = checked_axes()
    return pvary(x, [a for a in axes if a in checked]) if checked else x


def pvary(x: Value, axes: Sequence[AxisName]) -> Value:
    """x, cast so that it varies along the axes."""
    vma = aval_of(x).vma
    missing = tuple(a for a in axes if a not in vma)
    return pvary_p.bind(x, axes=missing) if missing else x


def axis_index(axis: AxisName) -> Value:
    """The index of the slice along one axis."""
    axis_size(axis)
    return vary(axis_index_p.bind(axis_name=axis), (axis,))


def _reduce(p: Primitive, x: Value, axes: Sequence[AxisName], groups: Groups) -> Value:
    for a in axes:
        axis_size(a)
    if not axes:
        return x
    params: dict[str, Any] = {} if groups is None else {"axis_index_groups": groups}
    return p.bind(vary(x, axes), axes=tuple(axes), **params)


def psum(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Sum over named axes."""
    return _reduce(psum_p, x, axes, groups)


def pmax(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Maximum over named axes."""
    return _reduce(pmax_p, x, axes, groups)


def pmin(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Minimum over named axes."""
    return _reduce(pmin_p, x, axes, groups)

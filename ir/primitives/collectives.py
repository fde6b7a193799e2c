"""Collectives: communication along named axes, those of a `vmap` or of a device mesh.

Inside a mapped function a value stands for one slice; a collective combines or moves the slices. Batching over the
axis turns a collective into ordinary operations on the batch dimension. `axis_name` is a name, or a tuple of names that
count as one axis, the first one the major. With `axis_index_groups` (a partition of the indices of the axis into tuples)
each group communicates for itself.

Along the axes of a mesh that are checked, types say whether a value varies (`ShapedArray.vma`): what psum, pmax and pmin
give does not, what the others give does. A value that does not vary is cast by `pvary` before it communicates. A value may also
be unreduced, the sum of what the devices hold, which psum and reduce_scatter take, or reduced, the same everywhere and with a
cotangent that is unreduced, which all_gather can give (`ir.sums`). `pcast` goes from each of these four kinds to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import NO_AXES, AxisNames, Reduced, ShapedArray, Unreduced, aval_of, axes_marked, marked
from ..axes import axis_size, checked_axes
from ..primitive import Primitive, primitive
from ..sums import refuse_unreduced
from . import elementwise as ew
from . import structural as st
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
    return x.update(vma=x.manual.difference(axes)) if x.manual else x


def _due(name: str, x: ShapedArray, axes: tuple[AxisName, ...], groups: Groups) -> AxisNames:
    """The axes over which a sum that was put off is taken. Raises NotImplementedError where it is to be taken in groups."""
    due = axes_marked(x.manual, Unreduced).intersection(axes)
    if due and groups is not None:
        raise NotImplementedError(
            f"{name}: {x.short()} is unreduced over {sorted(map(str, due))}: its sum is not one of axis_index_groups"
        )
    return due


@primitive("psum")
def psum_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Sum over the named axes; every slice gets it."""
    check_dtype("psum", x, NUMBER)
    due = _due("psum", x, axes, axis_index_groups)
    if due:
        x = x.update(vma=x.manual - marked(due, Unreduced))
    return x if axis_index_groups is not None else _same_everywhere(x, axes)


@primitive("pmax")
def pmax_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Maximum over the named axes; every slice gets it."""
    check_dtype("pmax", x, ORDERED)
    refuse_unreduced("pmax", [x])
    return x if axis_index_groups is not None else _same_everywhere(x, axes)


@primitive("pmin")
def pmin_p(x: ShapedArray, *, axes: tuple[AxisName, ...], axis_index_groups: Groups = None) -> ShapedArray:
    """Minimum over the named axes; every slice gets it."""
    check_dtype("pmin", x, ORDERED)
    refuse_unreduced("pmin", [x])
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
    twice = [a for a in axes if kind(x, a) != "invarying"]
    if twice:
        which = kind(x, twice[0])
        hint = ": take the sum first, by lax.psum" if which == "unreduced" else ""
        raise ValueError(f"pvary: {x.short()} is {which} along {', '.join(sorted(map(repr, twice)))} already{hint}")
    return x.update(vma=x.manual.union(axes))


# What a value may be along an axis, and what it is taken for then. All are the value itself on each device.
CASTS = frozenset(
    (("invarying", "reduced"), ("reduced", "varying"), ("varying", "unreduced"), ("reduced", "invarying"))
)


def kind(x: ShapedArray, axis: AxisName) -> str:
    """What a type says of a value along an axis: "varying", "unreduced", "reduced", or "invarying"."""
    found = [mark for mark, axes in zip(("varying", "unreduced", "reduced"), x.mat) if axis in axes]
    return found[0] if found else "invarying"


def _as(x: ShapedArray, axes: Sequence[AxisName], to: str) -> ShapedArray:
    rest = x.manual.difference(axes) - marked(axes, Reduced) - marked(axes, Unreduced)
    marks = {
        "varying": frozenset(axes), "reduced": marked(axes, Reduced), "unreduced": marked(axes, Unreduced), "invarying": NO_AXES,
    }  # fmt: skip
    return x.update(vma=rest | marks[to])


@primitive("pcast", weight=0)
def pcast_p(x: ShapedArray, *, axes: tuple[AxisName, ...], to: str) -> ShapedArray:
    """x itself, taken for one of another kind along the axes: one of `CASTS`.

    Raises:
        ValueError: there is no such cast of what x is along one of the axes.
    """
    wrong = [a for a in axes if (kind(x, a), to) not in CASTS]
    if wrong:
        raise ValueError(
            f"pcast: {x.short()} is {kind(x, wrong[0])} along {wrong[0]!r} and cannot be cast to={to!r} there"
        )
    return _as(x, axes, to)


@primitive("all_gather")
def all_gather_p(
    x: ShapedArray, *, axis_name: AxisName, all_gather_dimension: int, axis_size: int, tiled: bool,
    axis_index_groups: Groups = None, to: str = "varying",
) -> ShapedArray:  # fmt: skip
    """All slices along a new dimension, or (tiled) concatenated along that dimension; every slice gets it.

    `axis_size` is the number of slices that come together: the product over several axes, the size of a group. `to` is what the
    result is taken for along the axes: "varying", "invarying", or "reduced".
    """
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    out = x.update(shape=tuple(shape))
    return out if to == "varying" else _as(out, names_of(axis_name), to)


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
    out = x.update(shape=tuple(shape))
    due = _due("psum_scatter", x, names_of(axis_name), axis_index_groups)
    return _as(out, names_of(axis_name), "varying") if due else out


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
    aval = aval_of(x)
    missing = tuple(a for a in axes if a not in aval.vma)
    reduced = axes_marked(aval.manual, Reduced).intersection(missing) if aval.manual is not aval.vma else NO_AXES
    if reduced:
        x = pcast_p.bind(x, axes=tuple(a for a in missing if a in reduced), to="varying")
        missing = tuple(a for a in missing if a not in reduced)
    return pvary_p.bind(x, axes=missing) if missing else x


def only_at_first(x: Value, axes: Sequence[AxisName]) -> Value:
    """x on the devices of index 0 along the axes, zeros on the others: a value that varies, of which the sum is x."""
    axes = tuple(axes)
    for name in axes:
        axis_size(name)
    index, x = vary(axis_index_p.bind(axis_name=axes), axes), vary(x, axes)
    aval = aval_of(x)
    first = st.broadcast_in_dim(ew.eq(index, 0), aval.shape, ())  # not a product: infinity times 0 is NaN
    return ew.select_n(first, st.full(aval.shape, 0, aval.dtype), x)


def cast_as(x: Value, aval: ShapedArray, zero: bool = False) -> Value:
    """x, of which no type says anything along manual axes, as a value whose type says what that of `aval` does.

    `zero`: x is zero, so that it is the sum of what the devices hold already.
    """
    if aval.vma:
        x = pvary(x, sorted(aval.vma, key=str))
    if aval.manual is not aval.vma:
        for kind_, axes in (("reduced", aval.mat.reduced), ("unreduced", aval.mat.unreduced)):
            names = tuple(sorted(axes, key=str))
            if names:
                if kind_ == "unreduced":
                    x = pvary(x, names) if zero else only_at_first(x, names)
                x = pcast_p.bind(x, axes=names, to=kind_)
    return x


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
    return p.bind(vary_or_due(x, axes) if p is psum_p else vary(x, axes), axes=tuple(axes), **params)


def vary_or_due(x: Value, axes: Sequence[AxisName]) -> Value:
    """x, cast so that it varies along those of the axes over which it is not unreduced: what a sum takes."""
    due = axes_marked(aval_of(x).manual, Unreduced) if ShapedArray.any_sums else NO_AXES
    return vary(x, [a for a in axes if a not in due])


def psum(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Sum over named axes."""
    return _reduce(psum_p, x, axes, groups)


def pmax(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Maximum over named axes."""
    return _reduce(pmax_p, x, axes, groups)


def pmin(x: Value, axes: Sequence[AxisName], groups: Groups = None) -> Value:
    """Minimum over named axes."""
    return _reduce(pmin_p, x, axes, groups)

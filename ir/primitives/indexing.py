"""Reading and writing at computed positions: gather, scatter, dynamic slices. No index reaches outside an array."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..dtypes import DType
from ..jaxpr import ClosedJaxpr
from ..primitive import Primitive, primitive
from . import elementwise as ew
from .common import ANY, NUMBER, canonical_axes, check_dtype, check_same_dtype, match_scalars
from .reductions import scalar_jaxpr

Value = Any


class GatherScatterMode(enum.Enum):
    """What an index outside the operand means.

    CLIP: the nearest position at which the whole slice is inside. FILL_OR_DROP: gathered slices are filled (see
    `default_fill`), scattered ones are dropped. PROMISE_IN_BOUNDS: the caller promises that there is none; the result
    for such an index is undefined, but memory outside the array is never touched.
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2

    def __repr__(self) -> str:
        return f"GatherScatterMode.{self.name}"

    @staticmethod
    def of(mode: Any) -> GatherScatterMode:
        """The mode for None (fill or drop), a mode, or "clip", "fill", "drop", "promise_in_bounds".

        Raises:
            ValueError: there is no such mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode)
        if found is None:
            raise ValueError(f"unknown index mode {mode!r}: expected clip, fill, drop or promise_in_bounds")
        return found


_MODES: dict[Any, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP, "clip": GatherScatterMode.CLIP, "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP, "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}  # fmt: skip


@dataclass(frozen=True)
class GatherDimensionNumbers:
    """How the dimensions of a gather's operand, indices and result belong together.

    The last dimension of the indices holds one index vector; its other dimensions are the batch of the gather.

    Attributes:
        offset_dims: dimensions of the result along which a slice lies, increasing.
        collapsed_slice_dims: dimensions of the operand, of slice size 1, that the result doesn't have.
        start_index_map: the operand's dimension that each component of an index vector indexes.
        operand_batching_dims: dimensions of the operand, of slice size 1, that go along with dimensions of the indices.
        start_indices_batching_dims: those dimensions of the indices.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _tuples(self)


@dataclass(frozen=True)
class ScatterDimensionNumbers:
    """How the dimensions of a scatter's operand, indices and updates belong together: those of a gather, mirrored.

    Attributes:
        update_window_dims: dimensions of the updates along which a window lies, increasing.
        inserted_window_dims: dimensions of the operand, of window size 1, that the updates don't have.
        scatter_dims_to_operand_dims: the operand's dimension that each component of an index vector indexes.
        operand_batching_dims: dimensions of the operand that go along with dimensions of the indices.
        scatter_indices_batching_dims: those dimensions of the indices.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _tuples(self)


def _tuples(numbers: Any) -> None:
    """Fields given as lists or arrays become tuples of ints, so that the dimension numbers hash."""
    for name in numbers.__dataclass_fields__:
        object.__setattr__(numbers, name, tuple(int(d) for d in getattr(numbers, name)))


def default_fill(dtype: DType) -> Any:
    """What gathering outside the operand gives: NaN, the least signed or the largest unsigned integer, True."""
    if dtypes.is_inexact(dtype):
        return np.asarray(np.nan, dtypes.real_dtype(dtype)).astype(dtype)[()]
    if dtypes.is_bool(dtype):
        return np.bool_(True)
    if dtype in dtypes.NARROW_FLOATS:
        return np.asarray(np.nan, np.float32).astype(dtype)[()]
    info: Any = ml_dtypes.iinfo(dtype)
    return np.asarray(info.min if info.min < 0 else info.max, dtype)[()]


def fill_scalar(fill_value: Any, dtype: DType) -> Any:
    """The `fill_value` parameter as a scalar of the dtype; None means `default_fill`."""
    return default_fill(dtype) if fill_value is None else np.asarray(fill_value).astype(dtype)[()]


# -- checks shared by gather and scatter ------------------------------------------------------------------------


def _check_increasing(name: str, what: str, dims: tuple[int, ...], rank: int) -> None:
    if list(dims) != sorted(set(dims)) or any(not 0 <= d < rank for d in dims):
        raise TypeError(f"{name}: {what} {dims} must be increasing and within [0, {rank})")


def _check_distinct(name: str, what: str, dims: tuple[int, ...], rank: int) -> None:
    if len(set(dims)) != len(dims) or any(not 0 <= d < rank for d in dims):
        raise TypeError(f"{name}: {what} {dims} must be distinct and within [0, {rank})")


def _check_indices(
    name: str,
    x: ShapedArray,
    indices: ShapedArray,
    window: tuple[str, tuple[int, ...]],
    index_map: tuple[str, tuple[int, ...]],
    operand_batch: tuple[int, ...],
    indices_batch: tuple[str, tuple[int, ...]],
) -> None:
    if not dtypes.is_integer(indices.dtype):
        raise TypeError(f"{name}: indices {indices.short()} must have an integer dtype")
    if not indices.ndim:
        raise TypeError(f"{name}: indices {indices.short()} must have a last dimension that holds the index vectors")
    _check_increasing(name, *window, x.ndim)
    _check_increasing(name, "operand_batching_dims", operand_batch, x.ndim)
    if set(window[1]) & set(operand_batch):
        raise TypeError(f"{name}: {window[0]} {window[1]} and operand_batching_dims {operand_batch} must not overlap")
    _check_distinct(name, *index_map, x.ndim)
    if len(index_map[1]) != indices.shape[-1]:
        raise TypeError(
            f"{name}: {index_map[0]} {index_map[1]} must hold one dimension for each of the {indices.shape[-1]} "
            f"components of an index vector of {indices.short()}"
        )
    if set(index_map[1]) & set(operand_batch):
        raise TypeError(
            f"{name}: {index_map[0]} {index_map[1]} and operand_batching_dims {operand_batch} must not overlap"
        )
    _check_distinct(name, *indices_batch, indices.ndim - 1)
    if len(indices_batch[1]) != len(operand_batch):
        raise TypeError(
            f"{name}: operand_batching_dims {operand_batch} and {indices_batch[0]} {indices_batch[1]} must be as many"
        )
    for d, e in zip(operand_batch, indices_batch[1]):
        if x.shape[d] != indices.shape[e]:
            raise TypeError(
                f"{name}: batching dimension {d} of operand {x.short()} and {e} of indices {indices.short()} must have "
                "one size"
            )


@primitive("gather")
def gather_p(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: bool | int | float | complex | None,
) -> ShapedArray:
    """Slices of x of one size, each starting at an index vector of `indices`.

    Semantics as XLA's Gather. An index vector is out of bounds when its slice is not wholly inside x; `mode` tells
    what happens then. `fill_value` None is the dtype's default (`default_fill`).

    Raises:
        TypeError: the indices are no integers, an index vector is not as long as `start_index_map`, `slice_sizes`
            does not hold a size within each dimension of x, is not 1 along a collapsed dimension or above 1 along a
            batching one, or the dimension numbers do not fit x, the indices or each other.
    """
    d = dimension_numbers
    _check_indices(
        "gather", x, indices, ("collapsed_slice_dims", d.collapsed_slice_dims), ("start_index_map", d.start_index_map),
        d.operand_batching_dims, ("start_indices_batching_dims", d.start_indices_batching_dims),
    )  # fmt: skip
    if len(slice_sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape)):
        raise TypeError(
            f"gather: slice_sizes {slice_sizes} must hold, for each dimension of {x.short()}, a size within that "
            "dimension"
        )
    for i in d.collapsed_slice_dims:
        if slice_sizes[i] != 1:
            raise TypeError(f"gather: slice_sizes {slice_sizes} must be 1 along the collapsed dimension {i}")
    for i in d.operand_batching_dims:
        if slice_sizes[i] > 1:
            raise TypeError(f"gather: slice_sizes {slice_sizes} must be at most 1 along the batching dimension {i}")
    gone = set(d.collapsed_slice_dims) | set(d.operand_batching_dims)
    offsets = [s for i, s in enumerate(slice_sizes) if i not in gone]
    rank = len(offsets) + indices.ndim - 1
    _check_increasing("gather", "offset_dims", d.offset_dims, rank)
    if len(offsets) != len(d.offset_dims):
        raise TypeError(
            f"gather: offset_dims {d.offset_dims} must hold one dimension for each of the {len(offsets)} dimensions of "
            f"a slice of {x.short()} that are neither collapsed nor batching"
        )
    batch = iter(indices.shape[:-1])
    window = iter(offsets)
    shape = tuple(next(window) if i in d.offset_dims else next(batch) for i in range(rank))
    return x.update(shape=shape)


def _scatter_rule(name: str, dtypes_allowed: tuple[DType, ...]) -> Callable[..., ShapedArray]:
    def type_rule(
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        dimension_numbers: ScatterDimensionNumbers,
    ) -> ShapedArray:
        d = dimension_numbers
        check_dtype(name, x, dtypes_allowed)
        check_same_dtype(name, x, updates)
        _check_indices(
            name, x, indices, ("inserted_window_dims", d.inserted_window_dims),
            ("scatter_dims_to_operand_dims", d.scatter_dims_to_operand_dims), d.operand_batching_dims,
            ("scatter_indices_batching_dims", d.scatter_indices_batching_dims),
        )  # fmt: skip
        _check_increasing(name, "update_window_dims", d.update_window_dims, updates.ndim)
        window = window_dims(x.ndim, d)
        if len(window) != len(d.update_window_dims):
            raise TypeError(
                f"{name}: update_window_dims {d.update_window_dims} must hold one dimension for each of the "
                f"{len(window)} dimensions of {x.short()} that are neither inserted nor batching"
            )
        batch = tuple(n for i, n in enumerate(updates.shape) if i not in d.update_window_dims)
        if batch != indices.shape[:-1]:
            raise TypeError(
                f"{name}: updates {updates.short()} must have the indices' shape {indices.shape[:-1]} outside "
                f"update_window_dims {d.update_window_dims}, not {batch}"
            )
        for i, j in zip(window, d.update_window_dims):
            if updates.shape[j] > x.shape[i]:
                raise TypeError(
                    f"{name}: dimension {j} of updates {updates.short()} must not be larger than dimension {i} of "
                    f"{x.short()}"
                )
        return x.strong()

    return type_rule


def window_dims(rank: int, d: ScatterDimensionNumbers) -> list[int]:
    """The operand's dimensions along which a scatter's windows lie."""
    return [i for i in range(rank) if i not in d.inserted_window_dims and i not in d.operand_batching_dims]


_scatter_any = _scatter_rule("scatter", ANY)


@primitive("scatter")
def scatter_p(
    x: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    update_jaxpr: ClosedJaxpr | None,
) -> ShapedArray:
    """x with windows of `updates` written at the index vectors of `indices`; the last one of equal positions wins.

    Semantics as XLA's Scatter. A window that is not wholly inside x is handled as `mode` tells. With `update_jaxpr`
    the new element is that function of (old element, update), applied once for each update.

    Raises:
        TypeError: `update_jaxpr` does not take two scalars of x's dtype and return one, the indices are no integers, an
            index vector is not as long as its map of dimensions, the dtypes differ, or the dimension numbers do not fit x,
            the indices, the updates or each other.
    """
    if update_jaxpr is not None:
        want = ShapedArray((), x.dtype)
        if [a.strong() for a in update_jaxpr.in_avals] != [want] * 2 or [
            a.strong() for a in update_jaxpr.out_avals
        ] != [want]:
            got = ", ".join(a.short() for a in update_jaxpr.out_avals)
            raise TypeError(
                f"scatter: the update function must return {want.short()} for {want.short()}, it returns {got}"
            )
    return _scatter_any(x, indices, updates, dimension_numbers)


def _combining(name: str, combine: Primitive, allowed: tuple[DType, ...], doc: str) -> Primitive:
    check = _scatter_rule(name, allowed)

    def type_rule(
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
    ) -> ShapedArray:
        return check(x, indices, updates, dimension_numbers)

    type_rule.__doc__ = doc + " Windows, indices and `mode` as in `scatter`."
    return primitive(name, combine=combine)(type_rule)


scatter_add_p = _combining(
    "scatter-add", ew.add_p, NUMBER, "x with windows of `updates` added; equal positions add up."
)
scatter_sub_p = _combining(
    "scatter-sub", ew.sub_p, NUMBER, "x with windows of `updates` subtracted; equal positions add up."
)
scatter_mul_p = _combining(
    "scatter-mul", ew.mul_p, NUMBER, "x multiplied by windows of `updates`; equal positions multiply."
)
scatter_min_p = _combining("scatter-min", ew.min_p, ANY, "The minimum of x and windows of `updates`.")
scatter_max_p = _combining("scatter-max", ew.max_p, ANY, "The maximum of x and windows of `updates`.")


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        raise TypeError(f"{name}: expected one start index for each dimension of {x.short()}, got {len(starts)}")
    for s in starts:
        if s.shape or not dtypes.is_integer(s.dtype):
            raise TypeError(f"{name}: start indices must be integer scalars, got {s.short()}")


@primitive("dynamic_slice")
def dynamic_slice_p(x: ShapedArray, *start_indices: ShapedArray, slice_sizes: tuple[int, ...]) -> ShapedArray:
    """The slice of x of static size that starts at these scalar indices, clamped so that it lies inside x.

    Raises:
        TypeError: there is not one integer scalar for each dimension of x, or `slice_sizes` does not hold a size within
            each.
    """
    _check_starts("dynamic_slice", x, start_indices)
    if len(slice_sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape)):
        raise TypeError(
            f"dynamic_slice: slice_sizes {slice_sizes} must hold, for each dimension of {x.short()}, a size within "
            "that dimension"
        )
    return x.update(shape=slice_sizes)


@primitive("dynamic_update_slice")
def dynamic_update_slice_p(x: ShapedArray, update: ShapedArray, *start_indices: ShapedArray) -> ShapedArray:
    """x with `update` written at these scalar indices, clamped so that it lies inside x.

    Raises:
        TypeError: there is not one integer scalar for each dimension of x, the dtypes differ, or the update has another
            rank or does not fit into x.
    """
    _check_starts("dynamic_update_slice", x, start_indices)
    check_same_dtype("dynamic_update_slice", x, update)
    if update.ndim != x.ndim or any(u > n for u, n in zip(update.shape, x.shape)):
        raise TypeError(
            f"dynamic_update_slice: the update {update.short()} must have the rank of {x.short()} and fit into it"
        )
    return x.update(weak_type=x.weak_type and update.weak_type)


# -- thin functions ---------------------------------------------------------------------------------------------


def gather(
    x: Value,
    indices: Value,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Value:
    """Slices of x at computed positions; see `gather_p`."""
    m = GatherScatterMode.of(mode)
    return gather_p.bind(
        x, indices, dimension_numbers=dimension_numbers, slice_sizes=tuple(map(int, slice_sizes)),
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices), mode=m,
        fill_value=_fill_param(fill_value, aval_of(x).dtype) if m is GatherScatterMode.FILL_OR_DROP else None,
    )  # fmt: skip


def _fill_param(fill_value: Any, dtype: DType) -> Any:
    """A fill value as a Python number of the dtype's kind; None for the default (so that NaN does not occur)."""
    if fill_value is None:
        return None
    value = np.asarray(fill_value)
    if value.shape:
        raise TypeError(f"gather: fill_value must be a scalar, got an array of shape {value.shape}")
    scalar = value.astype(dtype)[()]
    if scalar != scalar and dtypes.is_float(dtype):
        return None
    if dtypes.is_complex(dtype):
        return complex(scalar)
    if dtypes.is_float(dtype) or dtype in dtypes.NARROW_FLOATS:
        return None if scalar != scalar else float(scalar)
    return bool(scalar) if dtypes.is_bool(dtype) else int(scalar)


def _scatter(
    p: Primitive, x: Value, indices: Value, updates: Value, numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool, unique_indices: bool, mode: Any, **extra: Any,
) -> Value:  # fmt: skip
    return p.bind(
        x, indices, updates, dimension_numbers=numbers, indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices), mode=GatherScatterMode.of(mode), **extra,
    )  # fmt: skip


def scatter(
    x: Value,
    indices: Value,
    updates: Value,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Value:
    """x with windows written at computed positions; see `scatter_p`."""
    return _scatter(
        scatter_p, x, indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode, update_jaxpr=None
    )


def _combine(p: Primitive) -> Callable[..., Value]:
    def apply(
        x: Value,
        indices: Value,
        updates: Value,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Value:
        return _scatter(p, x, indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode)

    apply.__name__ = apply.__qualname__ = p.name.replace("-", "_")
    apply.__doc__ = p.doc
    return apply


scatter_add, scatter_sub, scatter_mul, scatter_min, scatter_max = map(
    _combine, (scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)
)


def scatter_apply(
    x: Value,
    indices: Value,
    func: Callable[[Value], Value],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Value:
    """x with a scalar function applied to the elements of the windows; `update_shape` as updates would have.

    Raises:
        TypeError: the function returns another dtype than x's.
    """
    from .structural import zeros

    dtype = aval_of(x).dtype
    scalar = ShapedArray((), dtype)

    def update(old: Value, _: Value) -> list[Value]:
        return [func(old)]

    jaxpr = scalar_jaxpr("scatter_apply", update, [scalar, scalar], "the function")
    if [a.dtype for a in jaxpr.out_avals] != [dtype]:
        got = ", ".join(a.short() for a in jaxpr.out_avals)
        raise TypeError(
            f"scatter_apply: the function must return {scalar.short()} for {scalar.short()}, it returns {got}"
        )
    return _scatter(
        scatter_p, x, indices, zeros(update_shape, dtype), dimension_numbers, indices_are_sorted, unique_indices, mode,
        update_jaxpr=jaxpr,
    )  # fmt: skip


def dynamic_slice(x: Value, start_indices: Sequence[Value], slice_sizes: Sequence[int]) -> Value:
    """The slice of static size at scalar indices, clamped into x. Negative indices are clamped too."""
    return dynamic_slice_p.bind(x, *start_indices, slice_sizes=tuple(map(int, slice_sizes)))


def dynamic_update_slice(x: Value, update: Value, start_indices: Sequence[Value]) -> Value:
    """x with `update` written at scalar indices, clamped into x. Negative indices are clamped too."""
    return dynamic_update_slice_p.bind(*match_scalars(x, update), *start_indices)


def dynamic_slice_in_dim(x: Value, start_index: Value, slice_size: int, axis: int = 0) -> Value:
    """`dynamic_slice` along one dimension."""
    shape = aval_of(x).shape
    (axis,) = canonical_axes("dynamic_slice_in_dim", (axis,), len(shape))
    starts = [start_index if i == axis else _zero_like(start_index) for i in range(len(shape))]
    sizes = [slice_size if i == axis else n for i, n in enumerate(shape)]
    return dynamic_slice(x, starts, sizes)


def dynamic_update_slice_in_dim(x: Value, update: Value, start_index: Value, axis: int = 0) -> Value:
    """`dynamic_update_slice` along one dimension."""
    ndim = aval_of(x).ndim
    (axis,) = canonical_axes("dynamic_update_slice_in_dim", (axis,), ndim)
    starts = [start_index if i == axis else _zero_like(start_index) for i in range(ndim)]
    return dynamic_update_slice(x, update, starts)


def dynamic_index_in_dim(x: Value, index: Value, axis: int = 0, keepdims: bool = True) -> Value:
    """The elements at one index along a dimension, clamped; without that dimension unless `keepdims`."""
    from .structural import squeeze

    out = dynamic_slice_in_dim(x, index, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_index_in_dim(x: Value, update: Value, index: Value, axis: int = 0) -> Value:
    """x with `update` (with or without that dimension) written at one index along a dimension, clamped."""
    from .structural import expand_dims

    (axis,) = canonical_axes("dynamic_update_index_in_dim", (axis,), aval_of(x).ndim)
    if aval_of(update).ndim != aval_of(x).ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(x, update, index, axis)


def _zero_like(index: Value) -> Value:
    return np.zeros((), aval_of(index).dtype)[()]


def take_along_axis(x: Value, indices: Value, axis: int, *, mode: Any = "promise_in_bounds") -> Value:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]``: other dimensions of both are equal."""
    from .structural import full, reshape

    shape = aval_of(indices).shape
    if 0 in shape:  # from an axis without elements a gather takes no slice
        return full(shape, 0, aval_of(x).dtype)
    (axis,) = canonical_axes("take_along_axis", (axis,), len(shape))
    others = tuple(i for i in range(len(shape)) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(x, reshape(indices, (*shape, 1)), numbers, (1,) * len(shape), mode=mode)

"""Selecting by conditions and indices: where, select, clip, nonzero, take, put, diagonals, insert, delete."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer, bind
from quire.runtime.array import Array

from ..arrays.operands import (
    Value,
    as_axis,
    as_int,
    as_shape,
    broadcast_shapes,
    broadcast_to,
    cast,
    check_arraylike,
    concrete,
    concrete_array,
    eager_here,
    ensure,
    known_shape_operand,
    members,
    no_out,
    promote_all_shapes,
    promote_dtypes,
    user_dtype,
)
from ._ops import add_, lt_, mul_
from ._ops import select as _choice
from .arithmetic import remainder
from .creation import filled
from .elementwise import add, as_bool, maximum, minimum
from .from_values import asarray
from .grids import eye
from .indexing import get
from .joining import concatenate, stack
from .ranges import iota
from .rearranging import resize
from .reductions import cumsum
from .reductions import sum as sum_
from .shapes import moveaxis, ravel, reshape
from .sorting import searchsorted

# -- conditions -----------------------------------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """x where the condition holds, y elsewhere; with the condition only, the indices where it holds.

    Args:
        condition: an array; numbers count as true unless they are 0.
        x, y: arrays that broadcast with it; both or neither.
        size, fill_value: without x and y: as in `nonzero`.

    Raises:
        ValueError: only one of x and y is given, or size or fill_value is given with them.

    Follows `numpy.where`.

    >>> quire.numpy.where(quire.numpy.array([True, False]), 1, quire.numpy.array([5, 6]))
    Array([1, 6], dtype=int32)
    """
    if x is None and y is None:
        return nonzero(ensure("where", condition), size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("quire.numpy.where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ValueError("quire.numpy.where: size and fill_value go with the condition alone")
    check_arraylike("where", condition, x, y)
    which = as_bool(ensure("where", condition))
    x, y = promote_dtypes(x, y)
    shapes = [aval_of(v).shape for v in (which, x, y)]
    shape = broadcast_shapes("where", *shapes)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    if which.aval.shape:
        which = broadcast_to(which, shape)
    return bind(ew.select_n_p, (which, y, x), {})


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Value:
    """For each element the choice of the first condition that holds. Follows `numpy.select`.

    Raises ValueError where there are no conditions, not as many choices, or conditions that are not boolean.

    >>> x = quire.numpy.arange(3)
    >>> quire.numpy.select([x < 1, x > 1], [x, 10 * x], 7)
    Array([ 0,  7, 20], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"quire.numpy.select: {len(condlist)} conditions and {len(choicelist)} choices")
    if not condlist:
        raise ValueError("quire.numpy.select: at least one condition is required")
    conditions = [ensure("select", c, i) for i, c in enumerate(condlist)]
    for c in conditions:
        if not dtypes.is_bool(c.aval.dtype):
            raise ValueError(f"quire.numpy.select: conditions must be boolean, got {c.aval.short()}")
    *choices, out = promote_dtypes(*choicelist, default)
    for condition, choice in zip(conditions[::-1], choices[::-1]):
        out = where(condition, choice, out)
    return out


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Value:
    """For each element the function of the last condition that holds, applied to x.

    Args:
        x: an array. condlist: boolean arrays of its shape.
        funclist: functions or numbers, one more than conditions for the rest (0 by default).
        args, kw: passed to the functions.

    Raises:
        ValueError: there are neither as many functions as conditions nor one more.

    Follows `numpy.piecewise`.

    >>> x = quire.numpy.array([-1., 2.])
    >>> quire.numpy.piecewise(x, [x < 0], [lambda v: -v, lambda v: 10 * v])
    Array([ 1., 20.], dtype=float32)
    """
    x = ensure("piecewise", x)
    conditions = [condlist] if isinstance(condlist, Array | Tracer) and condlist.ndim == x.ndim else members(condlist)
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"quire.numpy.piecewise: {len(conditions)} conditions take {len(conditions)} or {len(conditions) + 1} functions, "
            f"got {len(functions)}"
        )
    default = functions.pop() if len(functions) > len(conditions) else 0
    dtype = x.aval.dtype

    def value(f: Any) -> Value:
        return cast(ensure("piecewise", f(x, *args, **kw) if callable(f) else f), dtype)

    out = broadcast_to(value(default), x.aval.shape)
    for condition, f in zip(conditions, functions):
        out = where(condition, value(f), out)
    return out


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Value:
    """For each element of an index array, the element of the chosen array. Follows `numpy.choose`.

    Raises ValueError for indices that are no integers, a mode that is not "raise", "wrap" or "clip", and, with
    "raise", an index outside.

    >>> quire.numpy.choose(quire.numpy.array([1, 0]), [quire.numpy.zeros(2), quire.numpy.ones(2)])
    Array([1., 0.], dtype=float32)
    """
    no_out("choose", out)
    index = ensure("choose", a)
    if not dtypes.is_integer(index.aval.dtype):
        raise ValueError(f"quire.numpy.choose: the first argument must be integers, got {index.aval.short()}")
    options = promote_dtypes(*[ensure("choose", c, i) for i, c in enumerate(choices)])
    n = len(options)
    if mode == "raise":
        known = known_shape_operand("choose", index, "give mode='clip' or mode='wrap'")
        if ((known < 0) | (known >= n)).any():
            raise ValueError(f"quire.numpy.choose: invalid entry in choice array: indices must be within [0, {n})")
    elif mode == "wrap":
        index = remainder(index, n)
    elif mode != "clip":
        raise ValueError(f"quire.numpy.choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    index = ew.clamp_p.bind(np.int32(0), cast(index, dtypes.int32), np.int32(n - 1))
    index, *options = promote_all_shapes("choose", index, *options)
    out = bind(ew.select_n_p, (index, *options), {}) if n > 1 else options[0]
    return cast(out, aval_of(out).dtype)


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Value:
    """The elements limited to [min, max].

    Args:
        arr: an array. min, max: the limits, arrays that broadcast with it; None for none.

    Raises:
        ValueError: no array is given, or an argument is complex.

    Follows `numpy.clip`.

    >>> quire.numpy.clip(quire.numpy.arange(4), 1, 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if arr is None:
        raise ValueError("quire.numpy.clip: at least the array is required")
    x = ensure("clip", arr)
    if any(v is not None and dtypes.is_complex(aval_of(v).dtype) for v in (x, min, max)):
        raise ValueError("quire.numpy.clip: complex numbers have no order: clip the real and the imaginary part")
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x


# -- indices of true elements -----------------------------------------------------------------------------------------------


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Value, ...]:
    """The indices of the elements that are not 0, one array a dimension.

    Args:
        a: an array.
        size: the result's length, which must be given where the values are traced: excess is cut off.
        fill_value: what missing indices are (0 by default); a tuple gives one a dimension.

    Raises:
        ConcretizationTypeError: the values are traced and no size is given.
        ValueError: fill_value is a tuple and has not as many values as `a` has dimensions.

    Follows `numpy.nonzero`.

    >>> quire.numpy.nonzero(quire.numpy.array([0, 5, 6]))
    (Array([1, 2], dtype=int32),)
    """
    x = ensure("nonzero", a)
    if x.aval.ndim == 0:
        x = st.reshape(x, (1,))
    index = dtypes.canonicalize(dtypes.int64)
    known = concrete(x) if eager_here() or size is None else None
    if size is None:
        known = known_shape_operand("nonzero", x, "give size=n, the number of indices")
        return tuple(concrete_array(v.astype(index)) for v in np.nonzero(known))
    n = as_int("nonzero", size, "size")
    ndim = x.aval.ndim
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim
    if len(fills) != ndim:
        raise ValueError(f"quire.numpy.nonzero: fill_value must hold {ndim} values, got {len(fills)}")
    total = x.aval.size
    shape = x.aval.shape
    if total == 0 or n == 0:
        return tuple(filled((n,), 0 if f is None else f, index) for f in fills)
    mask = st.reshape(as_bool(x), (total,))
    running = cumsum(cast(mask, dtypes.int32))
    ordinal = ew.add_p.bind(iota((n,), 0, dtypes.int32), np.int32(1))
    flat = cast(searchsorted(running, ordinal, side="left"), dtypes.int32)
    inside = lt_(flat, total)
    flat = ew.min_p.bind(flat, np.int32(total - 1))
    out: list[Value] = []
    stride = total
    for k, f in zip(shape, fills):
        stride //= k
        values = ew.rem_p.bind(ew.div_p.bind(flat, np.int32(stride)), np.int32(k))
        out.append(where(inside, cast(values, index), cast(ensure("nonzero", 0 if f is None else f), index)))
    return tuple(out)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The indices of the elements of the flattened array that are not 0; arguments as `nonzero`.

    Follows `numpy.flatnonzero`.

    >>> quire.numpy.flatnonzero(quire.numpy.array([[0, 5], [6, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(ensure("flatnonzero", a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The indices of the elements that are not 0, as rows; arguments as `nonzero`. Follows `numpy.argwhere`.

    >>> quire.numpy.argwhere(quire.numpy.array([[0, 5], [6, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    x = ensure("argwhere", a)
    if x.aval.ndim == 0:
        return filled((sum_(as_bool(x)).item(), 0), 0, dtypes.canonicalize(dtypes.int64))
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Value:
    """The elements where a condition holds, flattened. Follows `numpy.extract`.

    Args:
        condition, arr: arrays of one size.
        size, fill_value: the result's length, needed where the condition is traced, and what missing elements are.

    >>> quire.numpy.extract(quire.numpy.array([True, False]), quire.numpy.array([5, 6]))
    Array([5], dtype=int32)
    """
    return compress(
        ravel(ensure("extract", condition)), ravel(ensure("extract", arr)), size=size, fill_value=fill_value
    )


def compress(
    condition: Any, a: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0, out: None = None
) -> Value:
    """The slices along an axis where a vector is true; arguments as `extract`. Follows `numpy.compress`.

    Raises ValueError for a condition that is not 1-dimensional, or that is true beyond the end of the axis.

    >>> quire.numpy.compress(quire.numpy.array([False, True]), quire.numpy.array([5, 6]))
    Array([6], dtype=int32)
    """
    no_out("compress", out)
    mask = as_bool(asarray(condition) if isinstance(condition, list) else ensure("compress", condition))
    x = ensure("compress", a)
    if mask.aval.ndim != 1:
        raise ValueError(f"quire.numpy.compress: the condition must be 1-dimensional, got {mask.aval.short()}")
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("compress", axis, x.aval.ndim)
    n = x.aval.shape[d]
    length = mask.aval.shape[0]
    if length > n:
        known = known_shape_operand("compress", mask[n:], "the condition is longer than the axis")
        if known.any():
            raise ValueError(f"quire.numpy.compress: the condition selects elements beyond axis {d} of size {n}")
        mask = mask[:n]
    if size is None:
        return take(x, nonzero(mask)[0], axis=d)
    (index,) = nonzero(mask, size=size, fill_value=n)
    return take(x, index, axis=d, mode="fill", fill_value=fill_value)


# -- taking and putting -----------------------------------------------------------------------------------------------------


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Value:
    """The elements (or slices along an axis) at indices.

    Args:
        a: an array.
        indices: an integer array; negative ones count from the end.
        axis: the axis; None for the flattened array.
        mode: what an index outside gives: "fill" (the default: fill_value, or NaN; for integers the least value),
            "clip" (the nearest element, of negative indices the first) or "wrap" (modulo the size).
        unique_indices, indices_are_sorted: promises about the indices.

    Raises:
        TypeError: the indices are no integers.
        ValueError: mode is none of these, or the axis is empty and there are indices.
        NotImplementedError: mode is "raise".

    Follows `numpy.take`.

    >>> quire.numpy.take(quire.numpy.array([5, 6, 7]), quire.numpy.array([2, 0]))
    Array([7, 5], dtype=int32)
    """
    no_out("take", out)
    x, index = ensure("take", a), ensure("take", indices, "indices")
    if axis is None:
        x, d = ravel(x), 0
    else:
        d = as_axis("take", axis, x.aval.ndim)
    if not dtypes.is_integer(index.aval.dtype) and index.aval.size:
        raise TypeError(f"quire.numpy.take: indices must be integers, got {index.aval.short()}")
    n = x.aval.shape[d]
    if mode == "raise":
        raise NotImplementedError("quire.numpy.take: mode 'raise' is not supported: use 'fill', 'clip' or 'wrap'")
    if mode not in (None, "fill", "clip", "wrap", "promise_in_bounds"):
        raise ValueError(f"quire.numpy.take: mode must be 'fill', 'clip' or 'wrap', got {mode!r}")
    if n == 0 and index.aval.size:
        raise ValueError(f"quire.numpy.take: cannot take from the empty axis {d} of {x.aval.short()}")
    from_end = mode not in ("wrap", "clip")
    if mode == "wrap":
        index, mode = remainder(index, n), "promise_in_bounds"

    return get(
        x, (slice(None),) * d + (cast(index, dtypes.int32) if not dtypes.is_integer(index.aval.dtype) else index,),
        mode=mode or "fill", fill_value=fill_value, unique_indices=unique_indices, indices_are_sorted=indices_are_sorted,
        wrap_negative_indices=from_end,
    )  # fmt: skip


def _wrapped(index: Value, n: int) -> Value:
    """Negative indices counted from the end, as int32."""
    index = cast(index, dtypes.int32)
    return _choice(lt_(index, 0), add_(index, n), index)


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None, *,
    wrap_negative_indices: bool | None = None,
) -> Value:  # fmt: skip
    """For each position the element at the index along an axis: ``arr[..., indices[..., i, ...], ...]``.

    Args:
        arr: an array. indices: an integer array whose other dimensions broadcast with those of `arr`.
        axis: the axis; None for the flattened arrays.
        mode: what an index outside gives: "fill" (the default: NaN, for integers the least value), "clip".

    Raises:
        TypeError: the indices are no integers.
        ValueError: indices have not as many dimensions as arr, or, with axis None, not 1.

    Follows `numpy.take_along_axis`.

    >>> x = quire.numpy.array([[3, 1], [2, 4]])
    >>> quire.numpy.take_along_axis(x, quire.numpy.argsort(x, axis=1), axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    x, index = ensure("take_along_axis", arr), ensure("take_along_axis", indices, "indices")
    if not dtypes.is_integer(index.aval.dtype):
        raise TypeError(f"quire.numpy.take_along_axis: indices must be integers, got {index.aval.short()}")
    if axis is None:
        if index.aval.ndim != 1:
            raise ValueError(
                f"quire.numpy.take_along_axis: with axis None indices must be 1-dimensional, got {index.aval.short()}"
            )
        x, axis = ravel(x), 0
    if x.aval.ndim != index.aval.ndim:
        raise ValueError(
            f"quire.numpy.take_along_axis: indices and arr must have the same number of dimensions, got {index.aval.short()} "
            f"and {x.aval.short()}"
        )
    d = as_axis("take_along_axis", axis, x.aval.ndim)
    n = x.aval.shape[d]
    others = broadcast_shapes(
        "take_along_axis", *[tuple(1 if i == d else k for i, k in enumerate(v.aval.shape)) for v in (x, index)]
    )
    x = broadcast_to(x, tuple(n if i == d else k for i, k in enumerate(others)))
    index = broadcast_to(index, tuple(index.aval.shape[d] if i == d else k for i, k in enumerate(others)))
    if 0 in index.aval.shape:
        return filled(index.aval.shape, 0, x.aval.dtype)
    if wrap_negative_indices is not False:
        index = _wrapped(index, n)
    batch = tuple(i for i in range(x.aval.ndim) if i != d)
    numbers = ix.GatherDimensionNumbers((), (d,), (d,), batch, batch)
    return ix.gather(
        x, st.reshape(index, (*index.aval.shape, 1)), numbers, (1,) * x.aval.ndim, mode=mode or "fill",
        fill_value=fill_value,
    )  # fmt: skip


def _no_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"quire.numpy.{name}: arrays are immutable: pass inplace=False and use the returned array, or x.at[...]"
        )


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Value:
    """An array with values put at the indices along an axis: the inverse of `take_along_axis`.

    `inplace` must be False: arrays are immutable. Follows `numpy.put_along_axis`.

    >>> x = quire.numpy.zeros((1, 2), dtype=int)
    >>> quire.numpy.put_along_axis(x, quire.numpy.array([[1]]), 7, axis=1, inplace=False)
    Array([[0, 7]], dtype=int32)
    """
    _no_inplace("put_along_axis", inplace)
    x, index = ensure("put_along_axis", arr), ensure("put_along_axis", indices, "indices")
    shape = x.aval.shape
    if axis is None:
        return reshape(ravel(x).at[index].set(ravel(ensure("put_along_axis", values)), mode=mode), shape)
    d = as_axis("put_along_axis", axis, x.aval.ndim)
    grid = []
    for i, k in enumerate(shape):
        one = [k if j == i else 1 for j in range(len(shape))]
        grid.append(index if i == d else np.arange(k, dtype=np.int32).reshape(one))
    return x.at[tuple(grid)].set(values, mode=mode)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Value:
    """An array with values put at indices of its flattened form; values are repeated as needed.

    `inplace` must be False: arrays are immutable. `mode`: "clip" (the default) or "wrap" for indices outside.

    Raises ValueError where `inplace` is not False, or there are indices but no values; NotImplementedError for mode
    "raise".

    Follows `numpy.put`.

    >>> quire.numpy.put(quire.numpy.zeros(3), quire.numpy.array([1]), 5., inplace=False)
    Array([0., 5., 0.], dtype=float32)
    """
    _no_inplace("put", inplace)
    x, index, values = ensure("put", a), ravel(ensure("put", ind, "ind")), ravel(ensure("put", v, "v"))
    if index.aval.size == 0:
        return x
    if values.aval.size == 0:
        raise ValueError("quire.numpy.put: no values to put")
    if values.aval.size != index.aval.size:
        values = resize(values, (index.aval.size,))
    if mode == "wrap":
        index, mode = remainder(index, x.aval.size), None
    elif mode in (None, "clip"):
        n = x.aval.size
        index, mode = clip(index, -n, n - 1), None
    elif mode == "raise":
        raise NotImplementedError("quire.numpy.put: mode 'raise' is not supported: use 'clip' or 'wrap'")
    return reshape(ravel(x).at[index].set(values, mode="drop" if mode is None else mode), x.aval.shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Value:
    """An array with values put, in order, where a mask is true; values are repeated as needed.

    `inplace` must be False: arrays are immutable. Follows `numpy.place`.

    Raises ValueError where `inplace` is not False, the sizes of arr and mask differ, or vals is empty.

    >>> x = quire.numpy.array([1, 2, 3])
    >>> quire.numpy.place(x, x > 1, 0, inplace=False)
    Array([1, 0, 0], dtype=int32)
    """
    _no_inplace("place", inplace)
    x, which, values = (
        ensure("place", arr),
        as_bool(ensure("place", mask, "mask")),
        ravel(ensure("place", vals, "vals")),
    )
    if x.aval.size != which.aval.size:
        raise ValueError(
            f"quire.numpy.place: arr {x.aval.short()} and mask {which.aval.short()} must have the same size"
        )
    if not x.aval.size:
        return x
    if not values.aval.size:
        raise ValueError("quire.numpy.place: vals must not be empty")
    flat = ravel(which)
    ordinal = ew.sub_p.bind(cumsum(cast(flat, dtypes.int32)), np.int32(1))
    chosen = values[remainder(ordinal, values.aval.size)]
    return reshape(where(flat, cast(chosen, x.aval.dtype), ravel(x)), x.aval.shape)


# -- inserting and deleting -------------------------------------------------------------------------------------------------


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Value:
    """An array without the slices at some indices.

    Args:
        arr: an array.
        obj: an integer, a slice, or an array of integers or bool; its values must be known while tracing, except for a
            single integer.
        axis: the axis; None for the flattened array.

    Raises:
        IndexError: an index is out of bounds.
        TypeError: obj holds other numbers than integers and bool.
        ValueError: obj is of bool, and not a vector of the length of the axis.
        ConcretizationTypeError: obj is traced, and not a single integer.

    Follows `numpy.delete`.

    >>> quire.numpy.delete(quire.numpy.array([5, 6, 7]), 1)
    Array([5, 7], dtype=int32)
    """
    x = ensure("delete", arr)
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("delete", axis, x.aval.ndim)
    n = x.aval.shape[d]
    if isinstance(obj, slice):
        gone: Any = np.arange(n)[obj]
    elif isinstance(obj, Tracer) and obj.concrete() is None and obj.ndim == 0:
        position = _wrapped(obj, n)
        rows = iota((n - 1,), 0, dtypes.int32)
        return take(x, _choice(lt_(rows, position), rows, add_(rows, 1)), axis=d)
    else:
        gone = known_shape_operand("delete", asarray(obj) if isinstance(obj, list) else obj, "give static indices")
    gone = np.asarray(gone)
    if gone.dtype == np.bool_:
        if gone.shape != (n,):
            raise ValueError(f"quire.numpy.delete: a boolean obj must have shape ({n},), got {gone.shape}")
        gone = np.flatnonzero(gone)
    if gone.size and not np.issubdtype(gone.dtype, np.integer):
        raise TypeError(f"quire.numpy.delete: obj must be integers, bools or a slice, got dtype {gone.dtype}")
    if gone.size and (gone.min() < -n or gone.max() >= n):
        raise IndexError(f"quire.numpy.delete: index out of bounds for axis {d} of size {n}")
    kept = np.delete(np.arange(n, dtype=np.int32), gone.reshape(-1).astype(np.int64))
    return take(x, concrete_array(kept), axis=d, mode="promise_in_bounds")


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Value:
    """An array with slices inserted before some indices.

    Args:
        arr: an array.
        obj: an integer, a slice or an array of integers, known while tracing.
        values: what to insert; it broadcasts, and is converted to the dtype of `arr`.
        axis: the axis; None for the flattened array.

    Raises:
        IndexError: an index is below -n or above n, the size of the axis.
        ConcretizationTypeError: obj is traced.

    Follows `numpy.insert`.

    >>> quire.numpy.insert(quire.numpy.array([5, 7]), 1, 6)
    Array([5, 6, 7], dtype=int32)
    """
    x, v = ensure("insert", arr), ensure("insert", values, "values")
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("insert", axis, x.aval.ndim)
    n = x.aval.shape[d]
    v = cast(v, x.aval.dtype)
    v = st.reshape(v, (1,) * (x.aval.ndim - v.aval.ndim) + v.aval.shape) if v.aval.ndim < x.aval.ndim else v
    if isinstance(obj, slice):
        places: Any = np.arange(n)[obj]
    else:
        places = known_shape_operand("insert", asarray(obj) if isinstance(obj, list) else obj, "give static indices")
    scalar = places.ndim == 0
    if places.dtype == np.bool_:
        places, scalar = np.flatnonzero(places), False
    if places.size and (places.min() < -n or places.max() > n):
        raise IndexError(f"quire.numpy.insert: index out of bounds for axis {d} of size {n}")
    places = np.where(places < 0, places + n, places).reshape(-1)
    if scalar:
        # NumPy moves the first axis of the values to the axis of insertion where the index is a number.

        v = moveaxis(v, 0, d)
        places = np.repeat(places, v.aval.shape[d])
    elif places.size == 1:
        places = np.repeat(places, v.aval.shape[d])
    count = places.size
    v = broadcast_to(v, tuple(count if i == d else k for i, k in enumerate(x.aval.shape)))
    order = np.argsort(places, kind="stable")
    targets = np.empty(count, np.int64)
    targets[order] = places[order] + np.arange(count)
    source = np.empty(n + count, np.int32)
    mask = np.ones(n + count, bool)
    mask[targets] = False
    source[mask] = np.arange(n)
    source[targets] = n + np.arange(count)
    return take(concatenate([x, v], axis=d), concrete_array(source), axis=d, mode="promise_in_bounds")


# -- diagonals ------------------------------------------------------------------------------------------------------------


def diag(v: Any, k: int = 0) -> Value:
    """A matrix with a vector as its k-th diagonal; of a matrix, its k-th diagonal. Follows `numpy.diag`.

    Raises ValueError for an array that is neither 1- nor 2-dimensional.

    >>> quire.numpy.diag(quire.numpy.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x = ensure("diag", v)
    k = as_int("diag", k, "k")
    if x.aval.ndim == 2:
        return diagonal(x, k)
    if x.aval.ndim != 1:
        raise ValueError(f"quire.numpy.diag: the input must be 1- or 2-dimensional, got {x.aval.short()}")
    n = x.aval.shape[0] + abs(k)
    row = st.pad(x, x.aval.dtype.type(0), [(max(k, 0), max(-k, 0), 0)])
    mask = eye(n, n, k, bool)
    return where(mask, broadcast_to(row, (n, n)), x.aval.dtype.type(0))


def diagflat(v: Any, k: int = 0) -> Value:
    """A matrix with the flattened input as its k-th diagonal. Follows `numpy.diagflat`.

    >>> quire.numpy.diagflat(quire.numpy.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(ensure("diagflat", v)), k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The diagonals of the matrices of two axes, as the last dimension. Follows `numpy.diagonal`.

    Raises ValueError for an array of fewer than 2 dimensions, or where axis1 is axis2.

    >>> quire.numpy.diagonal(quire.numpy.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = ensure("diagonal", a)
    if x.aval.ndim < 2:
        raise ValueError(f"quire.numpy.diagonal: requires an array of at least two dimensions, got {x.aval.short()}")
    i, j = as_axis("diagonal", axis1, x.aval.ndim, "axis1"), as_axis("diagonal", axis2, x.aval.ndim, "axis2")
    if i == j:
        raise ValueError("quire.numpy.diagonal: axis1 and axis2 must be different")
    x = moveaxis(x, (i, j), (-2, -1))
    k = as_int("diagonal", offset, "offset")
    rows, columns = x.aval.shape[-2:]
    size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    steps = np.arange(size, dtype=np.int32)
    return x[..., steps - min(k, 0), steps + max(k, 0)]


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Value:
    """The sums of the diagonals of the matrices of two axes. Follows `numpy.trace`.

    >>> quire.numpy.trace(quire.numpy.array([[1, 2], [3, 4]])).item()
    5
    """
    no_out("trace", out)
    return sum_(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Value:
    """An array with values on its main diagonal. `inplace` must be False. Follows `numpy.fill_diagonal`.

    Raises ValueError where `inplace` is not False, `a` has fewer than 2 dimensions, or more than 2 and of different
    sizes; NotImplementedError where `wrap` is true.

    >>> quire.numpy.fill_diagonal(quire.numpy.zeros((2, 2)), 1., inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    _no_inplace("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("quire.numpy.fill_diagonal: wrap=True is not supported")
    x, v = ensure("fill_diagonal", a), ensure("fill_diagonal", val, "val")
    if x.aval.ndim < 2:
        raise ValueError(
            f"quire.numpy.fill_diagonal: requires an array of at least two dimensions, got {x.aval.short()}"
        )
    if x.aval.ndim > 2 and len(set(x.aval.shape)) > 1:
        raise ValueError(f"quire.numpy.fill_diagonal: all dimensions must be of equal length, got {x.aval.short()}")
    n = min(x.aval.shape)
    steps = np.arange(n, dtype=np.int32)
    if v.aval.ndim:
        v = resize(ravel(v), (n,))
    return x.at[(steps,) * x.aval.ndim].set(v)


# -- index arithmetic -------------------------------------------------------------------------------------------------------


def unravel_index(indices: Any, shape: Any) -> tuple[Value, ...]:
    """Positions in the flattened array as indices of each dimension; those outside are clamped.

    Raises TypeError for indices that are no integers.

    Follows `numpy.unravel_index`.

    >>> [int(i) for i in quire.numpy.unravel_index(5, (2, 3))]
    [1, 2]
    """
    sizes = as_shape("unravel_index", shape)
    index = ensure("unravel_index", indices)
    if not dtypes.is_integer(index.aval.dtype):
        raise TypeError(f"quire.numpy.unravel_index: indices must be integers, got {index.aval.short()}")
    weak = index.aval.weak_type
    total = functools.reduce(lambda a, b: a * b, sizes, 1)
    index = ew.clamp_p.bind(
        index.aval.dtype.type(-total if dtypes.is_signed(index.aval.dtype) else 0),
        index,
        index.aval.dtype.type(total - 1),
    )
    index = _choice(lt_(index, 0), add_(index, total), index) if dtypes.is_signed(index.aval.dtype) else index
    out: list[Value] = []
    stride = total
    for k in sizes:
        stride //= k
        part = ew.rem_p.bind(ew.div_p.bind(index, index.aval.dtype.type(stride)), index.aval.dtype.type(k))
        out.append(ew.convert_element_type_p.bind(part, new_dtype=part.aval.dtype, weak_type=True) if weak else part)
    return tuple(out)


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Value:
    """Indices of each dimension as positions in the flattened array.

    `mode`: "clip", "wrap", or "raise" (which needs known values). Follows `numpy.ravel_multi_index`.

    Raises ValueError where there are not as many indices as dims, for another mode, and, with "raise", for an index
    outside.

    >>> int(quire.numpy.ravel_multi_index((1, 2), (2, 3)))
    5
    """
    sizes = [as_int("ravel_multi_index", k, "each of dims") for k in dims]
    indices = [ensure("ravel_multi_index", i, n) for n, i in enumerate(multi_index)]
    if len(indices) != len(sizes):
        raise ValueError(f"quire.numpy.ravel_multi_index: {len(indices)} indices for {len(sizes)} dimensions")
    d = dtypes.canonicalize(dtypes.int64) if dtype is None else user_dtype("ravel_multi_index", dtype)
    if mode == "raise":
        for i, k in zip(indices, sizes):
            known = known_shape_operand("ravel_multi_index", i, "give mode='clip' or mode='wrap'")
            if ((known < 0) | (known >= k)).any():
                raise ValueError(f"quire.numpy.ravel_multi_index: invalid entry: indices must be within {tuple(sizes)}")
    elif mode == "clip":
        indices = [clip(i, 0, k - 1) for i, k in zip(indices, sizes)]
    elif mode == "wrap":
        indices = [remainder(i, k) for i, k in zip(indices, sizes)]
    else:
        raise ValueError(f"quire.numpy.ravel_multi_index: mode must be 'raise', 'clip' or 'wrap', got {mode!r}")
    strides = np.cumprod([1, *(sizes[:0:-1] if order == "C" else sizes[:-1])])
    strides = strides[::-1] if order == "C" else strides

    terms = [mul_(cast(i, d), d.type(s)) for i, s in zip(indices, strides)]
    return functools.reduce(add, terms, filled((), 0, d))


__all__ = [
    "argwhere", "choose", "clip", "compress", "delete", "diag", "diagflat", "diagonal", "extract", "fill_diagonal",
    "flatnonzero", "insert", "nonzero", "piecewise", "place", "put", "put_along_axis", "ravel_multi_index", "select", "take",
    "take_along_axis", "trace", "unravel_index", "where",
]  # fmt: skip

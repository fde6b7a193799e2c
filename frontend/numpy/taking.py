"""Taking and putting: by index, by mask, along an axis; inserting and deleting."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer

from ..arrays.operands import (
    Value,
    as_axis,
    broadcast_shapes,
    broadcast_to,
    cast,
    concrete_array,
    ensure,
    known_shape_operand,
    no_out,
)
from . import elementwise, reductions
from ._ops import add_, lt_
from ._ops import select as _choice
from .arithmetic import clip, remainder
from .creation import filled, full
from .elementwise import as_bool
from .indexing import get
from .joining import concatenate
from .positions import nonzero
from .ranges import iota
from .rearranging import resize
from .reductions import cumsum
from .selection import where
from .shapes import moveaxis, ravel, reshape
from .sorting import argsort


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
        indices: an integer array (bools are 0 and 1); negative ones count from the end.
        axis: the axis; None for the flattened array.
        mode: what an index outside gives: "fill" (the default: fill_value, or NaN; for integers the least value),
            "clip" (the nearest element, of negative indices the first) or "wrap" (modulo the size).
        unique_indices, indices_are_sorted: promises about the indices.

    Raises:
        ValueError: the indices are no integers, or mode is none of these.
        IndexError: the axis is empty and there are indices.
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
    if dtypes.is_inexact(index.aval.dtype) and index.aval.size:
        raise ValueError(
            f"quire.numpy.take: indices must be integers, got {index.aval.short()}: convert them by astype(int)"
        )
    n = x.aval.shape[d]
    if mode == "raise":
        raise NotImplementedError("quire.numpy.take: mode 'raise' is not supported: use 'fill', 'clip' or 'wrap'")
    if mode not in (None, "fill", "clip", "wrap"):
        raise ValueError(f"quire.numpy.take: mode must be 'fill', 'clip' or 'wrap', got {mode!r}")
    if n == 0 and index.aval.size:
        raise IndexError(f"quire.numpy.take: cannot take from the empty axis {d} of {x.aval.short()}")
    from_end = mode not in ("wrap", "clip")
    if mode == "wrap":
        index, mode = remainder(index, n), "promise_in_bounds"

    return get(
        x, (slice(None),) * d + (cast(index, dtypes.int32) if not dtypes.is_integer(index.aval.dtype) else index,),
        mode=mode or "fill", fill_value=fill_value, unique_indices=unique_indices, indices_are_sorted=indices_are_sorted,
        wrap_negative_indices=from_end,
    )  # fmt: skip


def _taken(x: Value, index: Value, axis: int) -> Value:
    """The slices along an axis at indices of which none lies outside."""
    return get(x, (slice(None),) * axis + (index,), mode="promise_in_bounds", wrap_negative_indices=False)


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
        mode: what an index outside gives: "fill" (the default: NaN, for integers the least value), "clip", or "one_hot":
            zero.

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
    if mode == "one_hot":  # the sum of no element; JAX computes it as a product with rows of one 1
        mode, fill_value = "fill", 0
    batch = tuple(i for i in range(x.aval.ndim) if i != d)
    numbers = ix.GatherDimensionNumbers((), (d,), (d,), batch, batch)
    return ix.gather(
        x, st.reshape(index, (*index.aval.shape, 1)), numbers, (1,) * x.aval.ndim, mode=mode or "fill",
        fill_value=fill_value,
    )  # fmt: skip


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Value:
    """The elements where a condition holds, flattened. Follows `numpy.extract`.

    Args:
        condition, arr: arrays of one size.
        size, fill_value: the result's length, needed where the condition is traced, and what missing elements are.

    >>> quire.numpy.extract(quire.numpy.array([True, False]), quire.numpy.array([5, 6]))
    Array([5], dtype=int32)
    """
    return compress(
        ravel(ensure("extract", condition)), ravel(ensure("extract", arr, 1)), size=size, fill_value=fill_value
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
    mask = as_bool(ensure("compress", condition))
    x = ensure("compress", a, 1)
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
    if n == 0:  # `take` refuses to take anything from nothing
        shape = (*x.aval.shape[:d], index.aval.shape[0], *x.aval.shape[d + 1 :])
        return full(shape, fill_value, dtype=x.aval.dtype)
    return take(x, index, axis=d, mode="fill", fill_value=fill_value)


def no_inplace(name: str, inplace: bool) -> None:
    """Raise ValueError where a function of NumPy's that changes its operand is asked to: arrays are immutable."""
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
    no_inplace("put_along_axis", inplace)
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

    `inplace` must be False: arrays are immutable. `mode`: "clip", to the first or last element, or "wrap", for indices
    outside; by default -1 is the last element, and what is outside then is clipped.

    Raises ValueError where `inplace` is not False, and for another mode; NotImplementedError for mode "raise".

    Follows `numpy.put`.

    >>> quire.numpy.put(quire.numpy.zeros(3), quire.numpy.array([1]), 5., inplace=False)
    Array([0., 5., 0.], dtype=float32)
    """
    no_inplace("put", inplace)
    x, index, values = ensure("put", a), ravel(ensure("put", ind, "ind")), ravel(ensure("put", v, "v"))
    if index.aval.size == 0 or values.aval.size == 0:
        return x
    if values.aval.size != index.aval.size:
        values = resize(values, (index.aval.size,))
    if mode == "wrap":
        index = remainder(index, x.aval.size)
    elif mode in (None, "clip"):
        n = x.aval.size
        index = clip(index, -n if mode is None else 0, n - 1)
    elif mode == "raise":
        raise NotImplementedError("quire.numpy.put: mode 'raise' is not supported: use 'clip' or 'wrap'")
    else:
        raise ValueError(
            f"quire.numpy.put: mode must be 'clip' or 'wrap', got {mode!r}: x.at[ind].set(v, mode=) has others"
        )
    return reshape(ravel(x).at[index].set(values, mode="drop"), x.aval.shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Value:
    """An array with values put, in order, where a mask is true; values are repeated as needed.

    `inplace` must be False: arrays are immutable. Follows `numpy.place`.

    Raises ValueError where `inplace` is not False, the sizes of arr and mask differ, or vals is empty.

    >>> x = quire.numpy.array([1, 2, 3])
    >>> quire.numpy.place(x, x > 1, 0, inplace=False)
    Array([1, 0, 0], dtype=int32)
    """
    no_inplace("place", inplace)
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
    return reshape(where(flat, cast(chosen, x.aval.dtype, x.aval.weak_type), ravel(x)), x.aval.shape)


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Value:
    """An array without the slices at some indices.

    Args:
        arr: an array.
        obj: an integer, a slice, or an array of integers or bool; its values must be known while tracing, except for a
            single integer.
        axis: the axis; None for the flattened array.
        assume_unique_indices: no index occurs twice, so that obj may be a traced array of integers. (If one does, the last
            elements of the result are wrong.)

    Raises:
        IndexError: an index is out of bounds.
        TypeError: obj is a list.
        ValueError: obj holds other numbers than integers and bool, or is of bool and not a vector of the length of the axis.
        ConcretizationTypeError: obj is traced, and neither a single integer nor of integers that are assumed to be unique.

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
    elif (
        assume_unique_indices
        and isinstance(obj, Tracer)
        and obj.concrete() is None
        and dtypes.is_integer(obj.aval.dtype)
    ):
        # What is kept, in order: sorting by whether a place is deleted keeps the order of the others.
        deleted = filled((n,), False, dtypes.bool_).at[ravel(_wrapped(obj, n))].set(True)
        return _taken(x, argsort(deleted, stable=True)[: n - obj.aval.size], d)
    else:
        gone = known_shape_operand("delete", ensure("delete", obj, "obj"), "give static indices")
    gone = np.asarray(gone)
    if gone.dtype == np.bool_:
        if gone.shape != (n,):
            raise ValueError(f"quire.numpy.delete: a boolean obj must have shape ({n},), got {gone.shape}")
        gone = np.flatnonzero(gone)
    if gone.size and not np.issubdtype(gone.dtype, np.integer):
        raise ValueError(f"quire.numpy.delete: obj must be integers, bools or a slice, got dtype {gone.dtype}")
    if gone.size and (gone.min() < -n or gone.max() >= n):
        raise IndexError(f"quire.numpy.delete: index out of bounds for axis {d} of size {n}")
    kept = np.delete(np.arange(n, dtype=np.int32), gone.reshape(-1).astype(np.int64))
    return _taken(x, concrete_array(kept), d)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Value:
    """An array with slices inserted before some indices.

    Args:
        arr: an array.
        obj: an integer, a slice, an array of integers, or a mask, which must be known while tracing. Integers below -n and above
            n, the size of the axis, count as these.
        values: what to insert; it broadcasts, and is converted to the dtype of `arr`.
        axis: the axis; None for the flattened array.

    Raises:
        ConcretizationTypeError: obj is a traced mask.
        TypeError: obj is a list.
        ValueError: obj holds floats or complex numbers.

    Follows `numpy.insert`.

    >>> quire.numpy.insert(quire.numpy.array([5, 7]), 1, 6)
    Array([5, 6, 7], dtype=int32)
    """
    x, v = ensure("insert", arr), ensure("insert", values, "values")
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("insert", axis, x.aval.ndim)
    n = x.aval.shape[d]
    v = cast(v, x.aval.dtype, x.aval.weak_type)
    v = st.reshape(v, (1,) * (x.aval.ndim - v.aval.ndim) + v.aval.shape) if v.aval.ndim < x.aval.ndim else v
    if isinstance(obj, slice):
        places: Any = np.arange(n)[obj]
    else:
        given = ensure("insert", obj, "obj")
        if dtypes.is_inexact(given.aval.dtype) and given.aval.size:
            raise ValueError(f"quire.numpy.insert: obj must be integers, bools or a slice, got {given.aval.short()}")
        if isinstance(given, Tracer) and dtypes.is_integer(given.aval.dtype):
            return _insert_traced(x, given, v, d)
        places = known_shape_operand("insert", given, "give static indices")
    scalar = places.ndim == 0
    if places.dtype == np.bool_:
        places, scalar = np.flatnonzero(places), False
    places = np.clip(places.astype(np.int64), -n, n)  # as _insert_traced has it
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
    return _taken(concatenate([x, v], axis=d), concrete_array(source), d)


def _insert_traced(x: Value, obj: Value, v: Value, d: int) -> Value:
    """`insert` where the places are known when the program runs, from -n to n; others are clamped to these."""
    n = x.aval.shape[d]
    scalar = obj.aval.ndim == 0
    places = ravel(cast(obj, dtypes.int32))
    if scalar:
        v = moveaxis(v, 0, d)
    count = v.aval.shape[d] if scalar or places.aval.size == 1 else places.aval.size
    places = broadcast_to(clip(_choice(lt_(places, 0), add_(places, np.int32(n)), places), 0, n), (count,))
    v = broadcast_to(v, tuple(count if i == d else k for i, k in enumerate(x.aval.shape)))
    if not count:
        return x
    # A value's position: its place, and the values that come before it.
    mine, other = st.expand_dims(places, (1,)), st.expand_dims(places, (0,))
    earlier = np.tril(np.ones((count, count), bool), -1)
    before = elementwise.logical_or(
        elementwise.less(other, mine), elementwise.logical_and(elementwise.equal(other, mine), earlier)
    )
    targets = add_(places, cast(reductions.sum(before, axis=1), dtypes.int32))
    position = iota((n + count, count), 0, dtypes.int32)
    here = elementwise.equal(position, st.expand_dims(targets, (0,)))
    passed = cast(reductions.sum(elementwise.less(st.expand_dims(targets, (0,)), position), axis=1), dtypes.int32)
    kept = add_(iota((n + count,), 0, dtypes.int32), ew.neg_p.bind(passed))
    new = add_(cast(reductions.argmax(here, axis=1), dtypes.int32), np.int32(n))
    source = _choice(reductions.any(here, axis=1), new, kept)
    return take(concatenate([x, v], axis=d), source, axis=d, mode="clip")


__all__ = ["compress", "delete", "extract", "insert", "place", "put", "put_along_axis", "take", "take_along_axis"]

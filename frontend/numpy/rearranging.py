"""Elements repeated, reversed, rolled and trimmed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st

from ..arrays import operands as u
from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import Value, as_axes, as_axis, as_int, as_shape, cast, ensure
from .arithmetic import remainder
from .creation import filled
from .ranges import iota
from .reductions import cumsum
from .shapes import ravel, swapaxes
from .sorting import searchsorted


def _shape(x: Value) -> tuple[int, ...]:
    return x.aval.shape


def tile(A: Any, reps: Any) -> Value:
    """An array repeated as a whole along each dimension. Follows `numpy.tile`.

    >>> quire.numpy.tile(quire.numpy.arange(2), 2)
    Array([0, 1, 0, 1], dtype=int32)
    """
    x = ensure("tile", A)
    counts = as_shape("tile", reps, "reps")
    return st.tile(x, counts)


@takes_out_sharding
def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None
) -> Value:
    """Each element (or slice along an axis) repeated.

    Args:
        a: an array.
        repeats: how often: a number or an array with one for each slice.
        axis: the axis; None repeats the elements of the flattened array.
        total_repeat_length: the result's length, needed where `repeats` is traced: excess is cut off, and what is
            missing is filled with the last slice; where there is none, the result is `a`.

    Raises:
        TypeError: repeats is a list.
        ValueError: repeats is negative, or there is neither one for all slices nor one for each.
        ConcretizationTypeError: repeats is traced and no total_repeat_length is given.

    Follows `numpy.repeat`.

    >>> quire.numpy.repeat(quire.numpy.arange(2), 2)
    Array([0, 0, 1, 1], dtype=int32)
    """
    x = ensure("repeat", a)
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("repeat", axis, x.ndim)
    n = _shape(x)[d]
    if n == 0 and total_repeat_length is not None:
        return x
    u.check_arraylike("repeat", x, repeats)
    known = u.concrete(repeats)
    if total_repeat_length is None and known is None:
        u.known_shape_operand("repeat", repeats, "give total_repeat_length")
    if known is not None and known.size == 1 and total_repeat_length is None:
        k = as_int("repeat", known.reshape(())[()], "repeats")
        if k < 0:
            raise ValueError(f"quire.numpy.repeat: repeats must not be negative, got {k}")
        wide = st.broadcast_in_dim(
            x, (*_shape(x)[: d + 1], k, *_shape(x)[d + 1 :]), tuple(i + (i > d) for i in range(x.ndim))
        )
        return st.reshape(wide, (*_shape(x)[:d], n * k, *_shape(x)[d + 1 :]))
    if known is not None:
        counts = np.broadcast_to(known, (n,)) if known.size == 1 else known.reshape(-1)
        if counts.shape != (n,):
            raise ValueError(f"quire.numpy.repeat: repeats of shape {known.shape} do not fit axis {d} of size {n}")
        index = np.repeat(np.arange(n, dtype=np.int32), counts)
        if total_repeat_length is not None:
            index = np.concatenate([index, np.full(max(0, total_repeat_length - index.size), max(n - 1, 0), np.int32)])
            index = index[:total_repeat_length]
        return _take_rows(x, u.lift(index), d)

    assert total_repeat_length is not None
    ends = cumsum(u.broadcast_to(cast(ensure("repeat", repeats), dtypes.int32), (n,)))
    positions = iota((total_repeat_length,), 0, dtypes.int32)
    index = ew.min_p.bind(cast(searchsorted(ends, positions, side="right"), dtypes.int32), np.int32(n - 1))
    return _take_rows(x, index, d)


def _take_rows(x: Value, index: Value, axis: int) -> Value:
    """The slices of x at in-bounds indices along an axis."""
    shape = _shape(x)
    k = aval_of(index).shape[0]
    offset = tuple(i for i in range(len(shape)) if i != axis)
    numbers = ix.GatherDimensionNumbers(offset, (axis,), (axis,))
    sizes = [1 if i == axis else n for i, n in enumerate(shape)]
    return ix.gather(x, st.reshape(index, (k, 1)), numbers, sizes, mode="promise_in_bounds")


def flip(m: Any, axis: int | Sequence[int] | None = None) -> Value:
    """The order of the elements reversed along some axes, by default all. Follows `numpy.flip`.

    >>> quire.numpy.flip(quire.numpy.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = ensure("flip", m)
    return st.rev(x, as_axes("flip", axis, x.ndim))


def fliplr(m: Any) -> Value:
    """`flip` along the second axis. Follows `numpy.fliplr`.

    >>> quire.numpy.fliplr(quire.numpy.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: Any) -> Value:
    """`flip` along the first axis. Follows `numpy.flipud`.

    >>> quire.numpy.flipud(quire.numpy.arange(2))
    Array([1, 0], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Value:
    """Rotated by k quarter turns in the plane of two axes. Follows `numpy.rot90`.

    Raises ValueError for axes that are the same.

    >>> quire.numpy.rot90(quire.numpy.array([[1, 2]]))
    Array([[2],
           [1]], dtype=int32)
    """
    x = ensure("rot90", m)
    i, j = (as_axis("rot90", a, x.ndim, "axes") for a in axes)
    if i == j:
        raise ValueError(f"quire.numpy.rot90: axes must be different, got {axes}")
    k = k % 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if k == 1 else flip(swapaxes(x, i, j), j)


def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Value:
    """The elements moved along axes, those that leave one end entering at the other.

    Args:
        a: an array.
        shift: by how much, integers; may be traced; one for each axis or one for all.
        axis: the axes; None rolls the flattened array and restores the shape.

    Raises:
        TypeError: a shift is no integer.
        ValueError: there are several shifts and several axes, but not as many.

    Follows `numpy.roll`.

    >>> quire.numpy.roll(quire.numpy.arange(3), 1)
    Array([2, 0, 1], dtype=int32)
    """
    x = ensure("roll", a)
    if axis is None:
        return st.reshape(roll(ravel(x), shift, 0), _shape(x))
    listed = [axis] if not isinstance(axis, Sequence) else list(axis)
    axes = [as_axis("roll", i, x.ndim) for i in listed]
    shifts = list(shift) if isinstance(shift, list | tuple) else None
    if shifts is None:
        value = ensure("roll", shift, "shift")
        shifts = [value] * len(axes) if value.ndim == 0 else list(value)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"quire.numpy.roll: {len(shifts)} shifts for {len(axes)} axes")
    for s, d in zip(shifts, axes):
        moved = aval_of(s)
        if not (dtypes.is_integer(moved.dtype) or dtypes.is_bool(moved.dtype)):
            raise TypeError(f"quire.numpy.roll: shift must be integers, got {moved.short()}: convert it by astype(int)")
        n = _shape(x)[d]
        if n == 0:
            continue
        known = u.concrete(s)
        if known is not None:
            k = int(known[()]) % n
            if k:
                x = st.concatenate([st.slice_in_dim(x, n - k, n, axis=d), st.slice_in_dim(x, 0, n - k, axis=d)], d)
            continue

        # The size may be more than a narrow shift's dtype holds.
        s = s if moved.dtype.itemsize >= 4 else cast(s, dtypes.int32)
        start = ew.sub_p.bind(np.int32(n), cast(remainder(s, n), dtypes.int32))
        x = ix.dynamic_slice_in_dim(st.concatenate([x, x], d), start, n, axis=d)
    return x


def resize(a: Any, new_shape: Any) -> Value:
    """The elements repeated or cut to fill a shape. Follows `numpy.resize`.

    >>> quire.numpy.resize(quire.numpy.arange(2), (3,))
    Array([0, 1, 0], dtype=int32)
    """
    sizes = as_shape("resize", new_shape)
    flat = ravel(ensure("resize", a))
    total = math.prod(sizes)
    if flat.size == 0 or total == 0:
        return filled(sizes, 0, flat.aval.dtype)
    repeats = -(-total // flat.size)
    return st.reshape(st.slice_in_dim(st.tile(flat, (repeats,)), 0, total), sizes)


def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Value:
    """An array without the zeros at its ends.

    Args:
        filt: an array; its values must be known.
        trim: "f" for the front, "b" for the back, "fb" for both.
        axis: the axes from whose ends slices of zeros are taken, by default all.

    Follows `numpy.trim_zeros`.

    >>> quire.numpy.trim_zeros(quire.numpy.array([0, 1, 0]))
    Array([1], dtype=int32)
    """
    x = ensure("trim_zeros", filt)
    value = u.known_shape_operand("trim_zeros", x, "trim before tracing")
    front, back = "f" in trim.lower(), "b" in trim.lower()
    for d in as_axes("trim_zeros", axis, x.ndim) if front or back else ():
        n = _shape(x)[d]
        used = np.flatnonzero(value.any(axis=tuple(i for i in range(x.ndim) if i != d)))
        first, last = (used[0] if front else 0, used[-1] + 1 if back else n) if used.size else (0, 0)
        x = st.slice_in_dim(x, int(first), int(last), axis=d)
    return x


__all__ = ["flip", "fliplr", "flipud", "repeat", "resize", "roll", "rot90", "tile", "trim_zeros"]

"""`pad`: an array with borders, by every rule of NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.operands import Value, broadcast_to, cast, ensure, known_shape_operand
from . import reductions as rd
from .gufunc import apply_along_axis
from .parts import round
from .ranges import linspace
from .statistics import median

Pairs = list[tuple[Any, Any]]
_EXTENSIONS = ("edge", "wrap", "reflect", "symmetric")  # the modes whose border repeats elements
_STATISTICS: dict[str, Callable[..., Value]] = {
    "maximum": rd.max, "minimum": rd.min, "mean": rd.mean, "median": median,
}  # fmt: skip
_ARGUMENTS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",), "edge": (), "wrap": (), "empty": (), **dict.fromkeys(_STATISTICS, ("stat_length",)),
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Value:
    """An array with a border.

    Args:
        array: an array.
        pad_width: how many elements go before and after each dimension: one number, a pair for all dimensions, or a
            pair for each.
        mode: what the border holds: "constant" (`constant_values`, 0 by default), "edge" (the nearest element),
            "wrap" (the other end), "reflect" and "symmetric" (the mirror image without and with the edge;
            `reflect_type` "odd" mirrors the values at the edge too), "linear_ramp" (a line to `end_values`, 0 by
            default), "maximum", "minimum", "mean" and "median" (of the `stat_length` elements next to the border, by
            default all), "empty" (zeros); or a function of a padded vector, its pad widths, the axis and the other
            arguments that returns the vector.
        constant_values, end_values, stat_length: given like `pad_width`.

    Raises:
        NotImplementedError: the mode is unknown.
        ValueError: a negative width, an argument that does not belong to the mode, or an empty dimension to extend.

    Follows `numpy.pad`.

    >>> quire.numpy.pad(quire.numpy.array([1, 2, 3]), 2, mode="reflect")
    Array([3, 2, 1, 2, 3, 2, 1], dtype=int32)
    """
    x = ensure("pad", array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    if mode not in _ARGUMENTS:
        raise NotImplementedError(f"quire.numpy.pad: unknown mode {mode!r}: expected {', '.join(_ARGUMENTS)}")
    for name in kwargs:
        if name not in _ARGUMENTS[mode]:
            takes = ", ".join(_ARGUMENTS[mode]) or "no further argument"
            raise ValueError(f"quire.numpy.pad: mode {mode!r} takes {takes}, got {name}")
    if mode == "constant":
        return _constant(x, widths, ensure("pad", _as_value(kwargs.get("constant_values", 0)), "constant_values"))
    if mode == "empty":
        return _constant(x, widths, ensure("pad", 0))
    odd = _is_odd(kwargs.get("reflect_type", "even"))
    ends = _pairs("end_values", kwargs.get("end_values", 0), x.ndim)
    lengths = _pairs("stat_length", kwargs.get("stat_length", -1), x.ndim)
    for axis, (before, after) in enumerate(widths):
        if mode in _EXTENSIONS:
            x = _extended(x, axis, before, after, mode, odd)
            continue
        if mode == "linear_ramp":
            borders = _ramps(x, axis, before, after, ends[axis])
        else:
            borders = _statistics(x, axis, before, after, mode, None if "stat_length" not in kwargs else lengths[axis])
        x = st.concatenate([borders[0], x, borders[1]], axis)
    return x


def _as_value(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, list | tuple) else x


def _pairs(name: str, given: Any, ndim: int) -> Pairs:
    """A pair for each dimension, of an argument given as a number, a pair or pairs."""
    try:
        values = np.asarray(known_shape_operand("pad", _as_value(given), f"give {name} as numbers"))
    except ValueError:
        raise TypeError(f"quire.numpy.pad: the entries of {name} must have one shape, got {given!r}") from None
    if values.dtype == object:
        raise TypeError(f"quire.numpy.pad: {name} must hold numbers, got {given!r}")
    if values.shape not in ((), (1,), (2,), (1, 2), (ndim, 2)):
        raise ValueError(
            f"quire.numpy.pad: {name} of shape {values.shape} does not fit {ndim} dimensions: expected a number, a pair, "
            f"or {ndim} pairs"
        )
    return [(low, high) for low, high in np.broadcast_to(values, (ndim, 2))]


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    pairs = _pairs("pad_width", given, ndim)
    for pair in pairs:
        if any(not np.issubdtype(type(n), np.integer) for n in pair):
            raise TypeError(f"quire.numpy.pad: pad_width must hold integers, got {given!r}")
        if min(pair) < 0:
            raise ValueError(f"quire.numpy.pad: pad_width must not be negative, got {given!r}")
    return [(int(low), int(high)) for low, high in pairs]


def _is_odd(kind: Any) -> bool:
    if kind not in ("even", "odd"):
        raise ValueError(f"quire.numpy.pad: reflect_type must be 'even' or 'odd', got {kind!r}")
    return kind == "odd"


def _constant(x: Value, widths: Sequence[tuple[int, int]], values: Value) -> Value:
    aval = x.aval
    if values.ndim > 2 or values.ndim and values.aval.shape[-1] not in (1, 2):
        raise ValueError(
            f"quire.numpy.pad: constant_values {values.aval.short()} must be a number, a pair, or a pair for each dimension"
        )
    values = cast(values, aval.dtype, aval.weak_type)
    if values.aval.size == 1:
        return st.pad(x, st.reshape(values, ()), [(low, high, 0) for low, high in widths])
    values = broadcast_to(values, (x.ndim, 2))
    for axis, pair in enumerate(widths):
        for side, n in enumerate(pair):
            if n:
                config = [(0, 0, 0)] * x.ndim
                config[axis] = (0, n, 0) if side else (n, 0, 0)
                x = st.pad(x, values[axis, side], config)
    return x


def _extended(x: Value, axis: int, before: int, after: int, mode: str, odd: bool) -> Value:
    n = x.aval.shape[axis]
    if not before and not after:
        return x
    if n == 0:
        raise ValueError(
            f"quire.numpy.pad: mode {mode!r} cannot extend dimension {axis} of {x.aval.short()}, which is empty"
        )
    if odd:
        skip = 1 if mode == "reflect" and n > 1 else 0
        x = _mirrored(x, axis, n - skip, before, skip)
        return st.rev(_mirrored(st.rev(x, (axis,)), axis, n - skip, after, skip), (axis,))
    return _runs(x, np.pad(np.arange(n), (before, after), mode=mode), axis)  # type: ignore[call-overload]


def _mirrored(x: Value, axis: int, most: int, count: int, skip: int) -> Value:
    """x extended to the front by its point reflections at its first element, at most `most` elements at a time."""
    while count > 0:
        k = min(count, most)
        edge = st.slice_in_dim(x, 0, 1, axis=axis)
        image = st.rev(st.slice_in_dim(x, skip, skip + k, axis=axis), (axis,))
        x = st.concatenate([ew.sub_p.bind(broadcast_to(edge + edge, image.aval.shape), image), x], axis)
        count -= k
    return x


def _runs(x: Value, index: np.ndarray[Any, Any], axis: int) -> Value:
    """The slices of x at known indices along an axis, as few slices, reversed slices and repetitions."""
    steps = np.diff(index)
    parts: list[Value] = []
    i = 0
    while i < len(index):
        step = int(steps[i]) if i < len(steps) and abs(steps[i]) <= 1 else 1
        j = i + 1
        while j < len(index) and steps[j - 1] == step:
            j += 1
        first, last = int(index[i]), int(index[j - 1])
        part = st.slice_in_dim(x, min(first, last), max(first, last) + 1, axis=axis)
        if step < 0:
            part = st.rev(part, (axis,))
        elif step == 0:
            part = broadcast_to(part, (*x.aval.shape[:axis], j - i, *x.aval.shape[axis + 1 :]))
        parts.append(part)
        i = j
    return st.concatenate(parts, axis)


def _ramps(x: Value, axis: int, before: int, after: int, ends: tuple[Any, Any]) -> list[Value]:
    aval, out = x.aval, []
    for side, count in enumerate((before, after)):
        at = aval.shape[axis] - 1 if side else 0
        edge = st.squeeze(st.slice_in_dim(x, at, at + 1, axis=axis), (axis,))
        ramp = linspace(ends[side], edge, count, endpoint=False, dtype=aval.dtype, axis=axis)
        ramp = cast(ramp, aval.dtype, aval.weak_type)
        out.append(st.rev(ramp, (axis,)) if side else ramp)
    return out


def _statistics(
    x: Value, axis: int, before: int, after: int, mode: str, lengths: tuple[Any, Any] | None
) -> list[Value]:
    aval, out = x.aval, []
    n = aval.shape[axis]
    for side, count in enumerate((before, after)):
        length = n if lengths is None else min(int(lengths[side]), n)
        if length <= 0:
            raise ValueError(f"quire.numpy.pad: stat_length must be positive, dimension {axis} not empty, got {length}")
        near = st.slice_in_dim(x, n - length if side else 0, n if side else length, axis=axis)
        value = _STATISTICS[mode](near, axis=axis, keepdims=True)
        if dtypes.is_integer(aval.dtype):
            value = round(value)
        value = cast(value, aval.dtype, aval.weak_type)
        out.append(broadcast_to(value, (*aval.shape[:axis], count, *aval.shape[axis + 1 :])))
    return out


def _by_function(x: Value, widths: list[tuple[int, int]], f: Callable[..., Value], keywords: dict[str, Any]) -> Value:
    x = _constant(x, widths, ensure("pad", 0))
    for axis in range(x.ndim):
        x = apply_along_axis(f, axis, x, widths[axis], axis, keywords)
    return x


__all__ = ["pad"]

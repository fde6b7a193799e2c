"""Sequences of samples: convolution, correlation, slopes, unwrapped phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .. import lax
from ..arrays.operands import Value, as_axes, as_axis, cast, ensure, promote_dtypes, promote_inexact, user_dtype
from ._ops import select
from .arithmetic import remainder
from .parts import conj
from .reductions import cumsum


def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The convolution of two vectors: ``sum over m of a[m] * v[n - m]``.

    Args:
        a, v: vectors; integers become the default float unless `preferred_element_type` is given.
        mode: "full" (every overlap, n + m - 1 elements), "same" (max(n, m) in the middle) or "valid" (complete
            overlaps).
        precision, preferred_element_type: as in `quire.lax.conv_general_dilated`.

    Raises:
        ValueError: an argument is no vector or empty, or the mode is unknown.

    Follows `numpy.convolve`.

    >>> quire.numpy.convolve(quire.numpy.array([1., 2., 3.]), quire.numpy.array([0., 1.]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    x, y = _vectors("convolve", a, v, mode, preferred_element_type)
    if x.aval.size < y.aval.size:
        x, y = y, x
    return _slide(x, st.rev(y, (0,)), mode, precision, preferred_element_type)


def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> Value:
    """The cross-correlation of two vectors: ``sum over n of a[n + k] * conj(v[n])``; arguments as `convolve`'s.

    Follows `numpy.correlate`.

    >>> quire.numpy.correlate(quire.numpy.array([1., 2., 3.]), quire.numpy.array([0., 1.]))
    Array([2., 3.], dtype=float32)
    """
    x, y = _vectors("correlate", a, v, mode, preferred_element_type)
    y = conj(y)
    if x.aval.size < y.aval.size:
        return st.rev(_slide(y, x, mode, precision, preferred_element_type), (0,))
    return _slide(x, y, mode, precision, preferred_element_type)


def _vectors(name: str, a: Any, v: Any, mode: str, preferred: Any) -> list[Value]:
    x, y = ensure(name, a), ensure(name, v, 1)
    for given in (x, y):
        if given.ndim != 1 or not given.aval.size:
            raise ValueError(
                f"quire.numpy.{name}: takes vectors with elements, got {x.aval.short()} and {y.aval.short()}"
            )
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"quire.numpy.{name}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    return promote_inexact(x, y) if preferred is None else promote_dtypes(x, y)


def _slide(x: Value, y: Value, mode: str, precision: Any, preferred: Any) -> Value:
    """The products of y with every window of x."""
    n = y.aval.size
    padding = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1, n - 1)}[mode]
    out = lax.conv_general_dilated(
        st.reshape(x, (1, 1, x.aval.size)), st.reshape(y, (1, 1, n)), (1,), [padding], precision=precision,
        preferred_element_type=None if preferred is None else user_dtype("convolve", preferred),
    )  # fmt: skip
    return st.reshape(out, (out.aval.size,))


def gradient(
    f: Any, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Value | list[Value]:
    """The slope along each axis: central differences inside, one-sided differences at the ends.

    Args:
        f: an array with at least 2 elements along each of the axes.
        varargs: the spacing: nothing for 1, a number or the coordinates for all axes, or one of these for each axis.
        axis: the axes, by default all.
        edge_order: not supported; the ends are of first order.

    Returns:
        An array of f's shape and an inexact dtype; a list of them for several axes.

    Raises:
        NotImplementedError: edge_order is given.
        ValueError: f has fewer than 2 elements along one of the axes.
        TypeError: there are several spacings, and not one for each axis.

    Follows `numpy.gradient`.

    >>> quire.numpy.gradient(quire.numpy.array([1., 2., 4., 7.]))
    Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError("quire.numpy.gradient: the argument edge_order is not supported: leave it out")
    x, *spacings = promote_inexact(*[ensure("gradient", v, i) for i, v in enumerate((f, *varargs))])
    axes = as_axes("gradient", axis, x.ndim)
    if not axes:
        return []
    for d in axes:
        if x.aval.shape[d] < 2:
            raise ValueError(f"quire.numpy.gradient: needs 2 elements along axis {d}, got {x.aval.short()}")
    if len(spacings) not in (0, 1, len(axes)):
        raise TypeError(
            f"quire.numpy.gradient: {len(spacings)} spacings for {len(axes)} axes: give none, one or one each"
        )
    steps = spacings * len(axes) if len(spacings) == 1 else spacings or [None] * len(axes)
    slopes = [_slope(x, h, d) for d, h in zip(axes, steps)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(x: Value, h: Value | None, axis: int) -> Value:
    n = x.aval.shape[axis]

    def cut(v: Value, low: int, high: int) -> Value:
        return st.slice_in_dim(v, low, high, axis=axis)

    rises = cut(x, 1, n) - cut(x, 0, n - 1)
    if h is None or aval_of(h).ndim == 0:
        inner = (cut(x, 2, n) - cut(x, 0, n - 2)) * 0.5
        slope = st.concatenate([cut(rises, 0, 1), inner, cut(rises, n - 2, n - 1)], axis)
        return slope if h is None else slope / h
    if h.ndim != 1 or h.aval.size != n:
        raise ValueError(
            f"quire.numpy.gradient: a spacing must be a number or {n} coordinates, one for each position of axis {axis}, got "
            f"{h.aval.short()}"
        )
    widths = st.reshape(h[1:] - h[:-1], tuple(n - 1 if d == axis else 1 for d in range(x.ndim)))
    slopes = rises / widths
    left, right = cut(widths, 0, n - 2), cut(widths, 1, n - 1)
    inner = (right * cut(slopes, 0, n - 2) + left * cut(slopes, 1, n - 1)) / (left + right)
    return st.concatenate([cut(slopes, 0, 1), inner, cut(slopes, n - 2, n - 1)], axis)


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Value:
    """A periodic signal without its jumps: neighbours differ by at most half a period.

    Args:
        p: an array, not complex.
        discont: jumps below this stay; by default half a period.
        axis: the axis along which the signal runs.
        period: the period.

    Raises:
        ValueError: p or period is complex.

    Follows `numpy.unwrap`.

    >>> quire.numpy.unwrap(quire.numpy.array([0, 2, 5, 1]), period=6)
    Array([0, 2, 5, 7], dtype=int32)
    """
    x, cycle = promote_dtypes(ensure("unwrap", p), period)
    dtype = aval_of(x).dtype
    if dtypes.is_complex(dtype):
        raise ValueError(f"quire.numpy.unwrap: not defined for complex numbers, got {x.aval.short()}")
    x = ensure("unwrap", x)
    d = as_axis("unwrap", axis, x.ndim)
    n = x.aval.shape[d]
    if n == 0:
        return x
    half = cycle // 2 if dtypes.is_integer(dtype) else cycle / 2
    jumps = st.slice_in_dim(x, 1, n, axis=d) - st.slice_in_dim(x, 0, n - 1, axis=d)
    wrapped = remainder(jumps + half, cycle) - half
    low, high = wrapped == -half, jumps > 0
    wrapped = select(low & high, half + 0 * wrapped, wrapped)
    limit = cycle / 2 if discont is None else discont
    correction = select(ew.abs_p.bind(jumps) < limit, 0 * wrapped, wrapped - jumps)
    total = cast(cumsum(correction, axis=d), dtype)
    return st.concatenate([st.slice_in_dim(x, 0, 1, axis=d), st.slice_in_dim(x, 1, n, axis=d) + total], d)


__all__ = ["convolve", "correlate", "gradient", "unwrap"]

"""Statistics: averages, quantiles, covariance, differences, interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import (
    Value,
    as_axes,
    as_axis,
    as_int,
    broadcast_to,
    cast,
    concrete,
    ensure,
    no_out,
    promote_dtypes,
    promote_inexact,
    user_dtype,
)
from . import reductions as rd
from ._ops import add_, div_, mul_, select, sub_
from .arithmetic import remainder
from .creation import filled
from .diagonals import diag
from .dtype_info import finfo
from .elementwise import greater, less, multiply
from .joining import concatenate
from .linear import dot
from .selection import where
from .shapes import moveaxis, ravel, squeeze
from .sorting import argsort, searchsorted, sort
from .taking import take_along_axis


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The weighted mean over some axes.

    Args:
        a: an array. axis: an axis, several, or None for all.
        weights: an array of a's shape, or a vector for one axis; None for equal weights.
        returned: also return the sum of the weights.
        keepdims: whether the reduced dimensions stay, with size 1.

    Raises:
        ValueError: weights have not a's shape, and are no vector of the length of one axis.

    Follows `numpy.average`.

    >>> quire.numpy.average(quire.numpy.array([1., 3.]), weights=quire.numpy.array([3., 1.])).item()
    1.5
    """
    x = ensure("average", a)
    if weights is None:
        out = rd.mean(x, axis=axis, keepdims=keepdims)
        n = math.prod(x.aval.shape[i] for i in as_axes("average", axis, x.aval.ndim))
        total = filled(out.aval.shape, float(n), out.aval.dtype)
        return (out, total) if returned else out
    w = ensure("average", weights, "weights")
    x, w = promote_inexact(x, w)
    if w.aval.shape != x.aval.shape:
        w = _along_axes("average", x, w, axis)
    total = rd.sum(w, axis=axis, keepdims=keepdims)
    out = div_(rd.sum(mul_(x, w), axis=axis, keepdims=keepdims), total)
    return (out, total) if returned else out


def _along_axes(name: str, x: Value, w: Value, axis: Any) -> Value:
    """Weights that have x's dimensions of the axes, in their order, broadcast to x's shape."""
    given = () if axis is None else tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    dims = tuple(as_axis(name, d, x.aval.ndim) for d in given)
    if axis is None or w.aval.shape != tuple(x.aval.shape[d] for d in dims):
        raise ValueError(
            f"quire.numpy.{name}: weights {w.aval.short()} must have the shape of {x.aval.short()}, or that of its axes (axis={axis})"
        )
    order = sorted(range(len(dims)), key=dims.__getitem__)
    return st.broadcast_in_dim(st.transpose(w, order), x.aval.shape, sorted(dims))


# -- quantiles --------------------------------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _quantile(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool, scale: float = 1.0,
    weights: Any = None,
) -> Value:  # fmt: skip
    if method not in _METHODS:
        raise ValueError(f"quire.numpy.{name}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    x, fraction = ensure(name, a), ensure(name, q, "q")
    if dtypes.is_complex(x.aval.dtype):
        raise ValueError(f"quire.numpy.{name}: complex numbers have no quantiles")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(f"quire.numpy.{name}: weights need method='inverted_cdf', got {method!r}")
    (x,), (fraction,) = promote_inexact(x), promote_inexact(fraction)
    if weights is not None:
        w = ensure(name, weights, "weights")
        if dtypes.is_complex(w.aval.dtype):
            raise ValueError(f"quire.numpy.{name}: weights must be real, got {w.aval.short()}")
        x, w = promote_inexact(x, w)
        weights = w if w.aval.shape == x.aval.shape else _along_axes(name, x, w, axis)
    x, fraction = cast(x, x.aval.dtype), cast(fraction, fraction.aval.dtype)
    if fraction.aval.ndim > 1:
        raise ValueError(f"quire.numpy.{name}: q must have at most 1 dimension, got {fraction.aval.short()}")
    if scale != 1.0:
        fraction = div_(fraction, scale)
    axes = as_axes(name, axis, x.aval.ndim)
    kept_shape = tuple(1 if i in axes else n for i, n in enumerate(x.aval.shape))
    rest = [i for i in range(x.aval.ndim) if i not in axes]
    n = math.prod(x.aval.shape[i] for i in axes)
    rows = st.reshape(st.transpose(x, [*rest, *axes]), (*[x.aval.shape[i] for i in rest], n))
    if n == 0:
        raise ValueError(f"quire.numpy.{name}: {x.aval.short()} has no elements over axes {axes}")
    bad = bind(ew.ne_p, (rows, rows), {})
    if method == "inverted_cdf":
        heavy = (
            None
            if weights is None
            else st.reshape(st.transpose(cast(weights, rows.aval.dtype), [*rest, *axes]), rows.aval.shape)
        )
        out = _inverted_cdf(rows, bad, heavy, ravel(fraction), skip_nan)
        return st.reshape(out, (*fraction.aval.shape, *(kept_shape if keepdims else rows.aval.shape[:-1])))
    rows = sort(rows)  # NaN comes last
    shape = rows.aval.shape[:-1]
    float_ = x.aval.dtype
    # Elements are weighted in the dtype of q, places are counted in one that holds them.
    weighted = fraction.aval.dtype
    wide = dtypes.float32 if weighted in (dtypes.float16, dtypes.bfloat16) else weighted
    qs = cast(ravel(fraction), wide)
    k = qs.aval.shape[0]
    if skip_nan:
        counts = rd.sum(ew.not_p.bind(bad), axis=-1, dtype=np.int32)
        last = sub_(cast(counts, wide), 1.0)  # of the row's numbers
        last = bind(ew.max_p, (last, wide.type(0)), {})
    else:
        counts = None
        last = filled(shape, float(n - 1), wide)
    full = (k, *shape)
    position = mul_(st.broadcast_in_dim(qs, full, (0,)), st.broadcast_in_dim(last, full, tuple(range(1, len(full)))))
    low, high = ew.floor_p.bind(position), ew.ceil_p.bind(position)
    weight = sub_(position, low)
    # Fractions below 0 and above 1 are those of the least and the largest element, as in JAX; NumPy refuses them.
    ends = wide.type(0), st.broadcast_in_dim(last, full, tuple(range(1, len(full))))
    low, high = (bind(ew.min_p, (bind(ew.max_p, (place, ends[0]), {}), ends[1]), {}) for place in (low, high))
    values = moveaxis(rows, -1, 0)  # n, *shape
    v_low, v_high = (_pick(values, cast(p, dtypes.int32), n) for p in (low, high))
    if method == "linear":
        parts = zip((v_low, v_high), (sub_(1.0, weight), weight))
        out = add_(*(mul_(cast(v, weighted), cast(w, weighted)) for v, w in parts))
        out = select(bind(ew.eq_p, (low, high), {}), v_low, cast(out, float_))
    elif method == "lower":
        out = v_low
    elif method == "higher":
        out = v_high
    elif method == "nearest":
        # In the middle the lower one, as in JAX; NumPy rounds the place to an even number.
        out = select(bind(ew.le_p, (weight, weight.aval.dtype.type(0.5)), {}), v_low, v_high)
    else:
        out = select(bind(ew.eq_p, (low, high), {}), v_low, mul_(add_(v_low, v_high), 0.5))
    if counts is None:
        spoiled = st.broadcast_in_dim(rd.any(bad, axis=-1), full, tuple(range(1, len(full))))
    else:
        spoiled = st.broadcast_in_dim(bind(ew.eq_p, (counts, np.int32(0)), {}), full, tuple(range(1, len(full))))
    out = select(spoiled, math.nan, out)
    lead = fraction.aval.shape
    return st.reshape(out, (*lead, *(kept_shape if keepdims else shape)))


def _inverted_cdf(rows: Value, bad: Value, weights: Value | None, qs: Value, skip_nan: bool) -> Value:
    """For each of (k,) fractions and each row, the least element up to which the share of the weight reaches it: (k, ...)."""
    wide = dtypes.float32 if rows.aval.dtype in (dtypes.float16, dtypes.bfloat16) else rows.aval.dtype
    weight = filled(rows.aval.shape, 1.0, wide) if weights is None else cast(weights, wide)
    if skip_nan:
        weight = select(bad, 0.0, weight)
    order = argsort(rows, axis=-1)  # NaN comes last
    rows, weight = take_along_axis(rows, order, axis=-1), take_along_axis(weight, order, axis=-1)
    reached = rd.cumsum(weight, axis=-1)
    n, lead = rows.aval.shape[-1], rows.aval.shape[:-1]
    full = (qs.aval.shape[0], *rows.aval.shape)
    total = rd.max(reached, axis=-1)
    wanted = mul_(
        st.broadcast_in_dim(cast(qs, wide), full, (0,)),
        st.broadcast_in_dim(total, full, tuple(range(1, len(full) - 1))),
    )
    so_far = st.broadcast_in_dim(reached, full, tuple(range(1, len(full))))
    # What weighs nothing, before all that weighs something, is never reached.
    before = bind(ew.or_p, (bind(ew.lt_p, (so_far, wanted), {}), bind(ew.eq_p, (so_far, wide.type(0)), {})), {})
    place = rd.sum(cast(before, dtypes.int32), axis=-1)
    place = bind(ew.min_p, (place, np.int32(n - 1)), {})
    out = _pick(moveaxis(rows, -1, 0), place, n)
    spoiled = bind(ew.eq_p, (total, wide.type(0)), {}) if skip_nan else rd.any(bad, axis=-1)
    return select(st.broadcast_in_dim(spoiled, (full[0], *lead), tuple(range(1, len(full) - 1))), math.nan, out)


def _pick(values: Value, positions: Value, n: int) -> Value:
    """Along the first axis of `values`, the elements at positions of shape (k, *rest)."""
    return take_along_axis(values, positions, axis=0, mode="clip") if n else values


def quantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Value:  # fmt: skip
    """The q-quantiles of the elements over some axes; NaN if there is a NaN.

    Args:
        a: an array.
        q: a number or vector of numbers in [0, 1]; its dimension comes first in the result.
        axis: an axis, several, or None for all.
        method: between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; or "inverted_cdf": the least element
            up to which at least this share of the elements lies.
        keepdims: whether the reduced dimensions stay, with size 1.
        weights: how much each element counts, of a's shape or that of its axes; with "inverted_cdf" alone.

    Raises:
        NotImplementedError: weights with another method.

    Follows `numpy.quantile`.

    >>> quire.numpy.quantile(quire.numpy.array([1., 2., 4.]), 0.5).item()
    2.0
    """
    no_out("quantile", out)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights=weights)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Value:  # fmt: skip
    """`quantile` of the elements that are not NaN. Follows `numpy.nanquantile`.

    >>> quire.numpy.nanquantile(quire.numpy.array([1., float("nan"), 3.]), 0.5).item()
    2.0
    """
    no_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights=weights)


@takes_out_sharding
def percentile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None, out_sharding: Any = None,
) -> Value:  # fmt: skip
    """`quantile` with q in percent. Follows `numpy.percentile`.

    >>> quire.numpy.percentile(quire.numpy.array([1., 2., 4.]), 50).item()
    2.0
    """
    no_out("percentile", out)
    return _quantile("percentile", a, q, axis, method, keepdims, False, 100.0, weights=weights)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Value:  # fmt: skip
    """`percentile` of the elements that are not NaN. Follows `numpy.nanpercentile`.

    >>> quire.numpy.nanpercentile(quire.numpy.array([1., float("nan"), 3.]), 50).item()
    2.0
    """
    no_out("nanpercentile", out)
    return _quantile("nanpercentile", a, q, axis, method, keepdims, True, 100.0, weights=weights)


def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Value:
    """The middle of the elements over some axes. Follows `numpy.median`.

    >>> quire.numpy.median(quire.numpy.array([1., 9., 4.])).item()
    4.0
    """
    no_out("median", out)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


def nanmedian(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Value:
    """The middle of the elements that are not NaN. Follows `numpy.nanmedian`.

    >>> quire.numpy.nanmedian(quire.numpy.array([1., float("nan"), 3.])).item()
    2.0
    """
    no_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


# -- covariance -------------------------------------------------------------------------------------------------------------


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, dtype: Any = None,
) -> Value:  # fmt: skip
    """The covariance matrix of variables.

    Args:
        m: a matrix whose rows are variables and whose columns are observations (the other way if not rowvar).
        y: more variables.
        bias, ddof: the divisor is the number of observations (less 1 unless bias), or less ddof.
        fweights, aweights: how often each observation counts, and its weight.

    Raises:
        TypeError: fweights are no integers.
        ValueError: m or y has more than 2 dimensions, dtype is not inexact, or fweights or aweights are not one for each observation.

    Follows `numpy.cov`.

    >>> quire.numpy.cov(quire.numpy.array([[1., 2., 3.], [1., 2., 3.]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    x = ensure("cov", m)
    if x.aval.ndim > 2:
        raise ValueError(f"quire.numpy.cov: m has more than 2 dimensions: {x.aval.short()}")
    wanted = None if dtype is None else user_dtype("cov", dtype)
    if wanted is not None and not dtypes.is_inexact(wanted):
        raise ValueError(f"quire.numpy.cov: dtype must be a float or complex dtype, got {wanted}")
    if x.aval.ndim < 2:
        x = st.reshape(x, (1, x.aval.size))
    elif not rowvar:
        x = st.transpose(x, (1, 0))
    if y is not None:
        other = ensure("cov", y, "y")
        if other.aval.ndim > 2:
            raise ValueError(f"quire.numpy.cov: y has more than 2 dimensions: {other.aval.short()}")
        if other.aval.ndim < 2:
            other = st.reshape(other, (1, other.aval.size))
        elif not rowvar:
            other = st.transpose(other, (1, 0))
        x = concatenate([*promote_dtypes(x, other)], axis=0)
    (x,) = promote_inexact(x)
    if wanted is not None:
        x = cast(x, wanted)
    x = cast(x, x.aval.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    n = x.aval.shape[1]
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            w = ensure("cov", given, name)
            if name == "fweights" and not dtypes.is_integer(w.aval.dtype):
                raise TypeError(
                    f"quire.numpy.cov: fweights must be integers, got {w.aval.short()}: aweights may be floats"
                )
            if w.aval.shape != (n,):
                raise ValueError(
                    f"quire.numpy.cov: {name} {w.aval.short()} must have shape ({n},), one for each observation"
                )
            w = cast(w, dtypes.real_dtype(x.aval.dtype))
            weights = w if weights is None else mul_(weights, w)
    if weights is None:
        center = rd.mean(x, axis=1)
        factor: Any = n - ddof
        centered = sub_(x, st.broadcast_in_dim(center, x.aval.shape, (0,)))
        weighted = centered
    else:
        total = rd.sum(weights)
        wide = broadcast_to(cast(weights, x.aval.dtype), x.aval.shape)
        center = div_(rd.sum(mul_(x, wide), axis=1), cast(total, x.aval.dtype))
        if ddof == 0 or aweights is None:
            factor = sub_(total, float(ddof))
        else:
            aw = cast(ensure("cov", aweights), weights.aval.dtype)
            factor = sub_(total, div_(mul_(rd.sum(mul_(weights, aw)), float(ddof)), total))
        centered = sub_(x, st.broadcast_in_dim(center, x.aval.shape, (0,)))
        weighted = mul_(centered, wide)
    other = ew.conj_p.bind(weighted) if dtypes.is_complex(x.aval.dtype) else weighted
    out = dot(centered, st.transpose(other, (1, 0)))
    if isinstance(factor, int) and n == 0:
        factor = 0  # of no observations: 0 / 0
    out = div_(out, x.aval.dtype.type(factor)) if isinstance(factor, int) else div_(out, cast(factor, x.aval.dtype))

    return squeeze(out)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Value:
    """The matrix of correlation coefficients; arguments as those of `cov`. Follows `numpy.corrcoef`.

    >>> quire.numpy.corrcoef(quire.numpy.array([[1., 2., 3.], [3., 2., 1.]]))[0, 1].item()
    -1.0
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.aval.ndim == 0:
        return div_(c, c)

    deviation = ew.sqrt_p.bind(ew.real(diag(c)))
    deviation = cast(deviation, c.aval.dtype)
    c = div_(c, st.broadcast_in_dim(deviation, c.aval.shape, (0,)))
    c = div_(c, st.broadcast_in_dim(deviation, c.aval.shape, (1,)))
    if dtypes.is_complex(c.aval.dtype):
        return ew.complex_p.bind(_limited(ew.real_p.bind(c)), _limited(ew.imag_p.bind(c)))
    return _limited(c)


def _limited(x: Value) -> Value:
    return ew.clamp_p.bind(x.aval.dtype.type(-1), x, x.aval.dtype.type(1))


# -- differences ------------------------------------------------------------------------------------------------------------


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Value:
    """The n-th differences of neighbours along an axis.

    Args:
        a: an array. n: how many times. axis: the axis.
        prepend, append: values joined to the ends first.

    Raises:
        ValueError: n is negative, or is not 0 and a is 0-dimensional.

    Follows `numpy.diff`.

    >>> quire.numpy.diff(quire.numpy.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = ensure("diff", a)
    n = as_int("diff", n, "n")
    if n < 0:
        raise ValueError(f"quire.numpy.diff: order must be non-negative, got {n}")
    if n == 0:
        return x
    if x.aval.ndim == 0:
        raise ValueError("quire.numpy.diff: requires an input of at least one dimension, got a scalar")
    d = as_axis("diff", axis, x.aval.ndim)
    parts = [x]
    for value, place in ((prepend, 0), (append, len(parts))):
        if value is not None:
            v = ensure("diff", value)
            if v.aval.ndim == 0:
                v = broadcast_to(v, tuple(1 if i == d else k for i, k in enumerate(x.aval.shape)))
            parts.insert(0 if place == 0 else len(parts), v)
    if len(parts) > 1:
        x = concatenate(parts, axis=d)
    for _ in range(n):
        k = x.aval.shape[d]
        if k == 0:
            return x
        high, low = st.slice_in_dim(x, 1, k, axis=d), st.slice_in_dim(x, 0, k - 1, axis=d)
        x = bind(ew.ne_p if dtypes.is_bool(x.aval.dtype) else ew.sub_p, (high, low), {})
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Value:
    """The differences of neighbours of the flattened array, with values joined to the ends. Follows `numpy.ediff1d`.

    >>> quire.numpy.ediff1d(quire.numpy.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    x = ravel(ensure("ediff1d", ary))
    parts = [sub_(x[1:], x[:-1])]
    if to_begin is not None:
        parts.insert(0, cast(ravel(ensure("ediff1d", to_begin)), x.aval.dtype))
    if to_end is not None:
        parts.append(cast(ravel(ensure("ediff1d", to_end)), x.aval.dtype))
    return concatenate(parts) if len(parts) > 1 else parts[0]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Value:
    """The integral along an axis by the trapezoidal rule. Follows `numpy.trapezoid`.

    `x` holds the points, a vector or one for each value; without it `dx` is the distance of two of them, a number or an array
    that broadcasts with the intervals.

    >>> quire.numpy.trapezoid(quire.numpy.array([1., 2., 3.])).item()
    4.0
    """
    values, points = ensure("trapezoid", y), None if x is None else ensure("trapezoid", x, "x")
    if points is None:
        (values,), steps = promote_inexact(values), ensure("trapezoid", dx, "dx")
    else:
        values, points = promote_inexact(values, points)
        along = points if points.aval.ndim < 2 else moveaxis(points, axis, -1)
        steps = sub_(along[..., 1:], along[..., :-1])
    d = as_axis("trapezoid", axis, values.aval.ndim)
    if points is not None and points.aval.ndim == 1:
        steps = st.expand_dims(steps, range(1, values.aval.ndim - d))
    elif steps.ndim:  # one for each interval, of dimensions that broadcast from the last one on
        if points is None:
            steps = moveaxis(st.expand_dims(steps, range(values.aval.ndim - steps.ndim)), axis, -1)
        values, d = moveaxis(values, d, -1), values.aval.ndim - 1
    before = (slice(None),) * d
    middle = mul_(add_(values[(*before, slice(1, None))], values[(*before, slice(-1))]), 0.5)
    return rd.sum(multiply(steps, middle), axis=d)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Value:
    """Linear interpolation between points.

    Args:
        x: where to interpolate.
        xp, fp: the points' abscissas, increasing, and values.
        left, right: the values outside; by default the first and the last one; "extrapolate" continues the line.
        period: the period of the abscissas, which need not be sorted then.

    Raises:
        ValueError: xp and fp are not vectors of one size, left or right is another string than "extrapolate", or
            period is 0 or no scalar.

    Follows `numpy.interp`.

    >>> quire.numpy.interp(0.5, quire.numpy.array([0., 1.]), quire.numpy.array([10., 20.])).item()
    15.0
    """
    v, points, heights = ensure("interp", x), ensure("interp", xp, "xp"), ensure("interp", fp, "fp")
    if points.aval.shape != heights.aval.shape or points.aval.ndim != 1:
        raise ValueError(
            f"quire.numpy.interp: xp {points.aval.short()} and fp {heights.aval.short()} must be vectors of one size"
        )
    v, points = promote_inexact(v, points)
    heights = promote_inexact(v, *promote_inexact(heights))[1]  # the result has the dtype of both
    v, points, heights = ensure("interp", v), ensure("interp", points), ensure("interp", heights)
    if period is not None:
        cycle = absolute_scalar(period, points)
        v, points = remainder(v, cycle), remainder(points, cycle)

        order = argsort(points)
        points, heights = points[order], heights[order]
        points = concatenate([sub_(points[-1:], cycle), points, add_(points[:1], cycle)])
        heights = concatenate([heights[-1:], heights, heights[:1]])
    n = points.aval.shape[0]
    if n == 1:
        out = broadcast_to(st.reshape(heights, ()), v.aval.shape)
    else:
        i = ew.clamp_p.bind(np.int32(1), cast(searchsorted(points, v, side="right"), dtypes.int32), np.int32(n - 1))
        low = sub_(i, 1)
        x0, x1, f0, f1 = points[low], points[i], heights[low], heights[i]
        width = sub_(x1, x0)
        # As in JAX: points closer than this count as one, so that the gradient by them is finite.
        least = np.spacing(finfo(width.aval.dtype).eps)
        tiny = bind(ew.le_p, (ew.abs_p.bind(width), broadcast_to(width.aval.dtype.type(least), width.aval.shape)), {})
        ratio = div_(sub_(v, x0), select(tiny, 1.0, width))
        out = select(tiny, f0, add_(f0, mul_(cast(ratio, heights.aval.dtype), sub_(f1, f0))))
    if period is None:
        outside = ((left, 0, "left", less), (right, -1, "right", greater))
        for given, end, name, beyond in outside:
            if isinstance(given, str):
                if given != "extrapolate":
                    raise ValueError(f"quire.numpy.interp: {name} must be a value or 'extrapolate', got {given!r}")
                continue  # the formula of the first or last piece holds outside too
            value = heights[end] if given is None else ensure("interp", given, name)
            out = where(beyond(v, points[end]), value, out)
    return out


def absolute_scalar(value: Any, like: Value) -> Value:
    """The absolute value of a period, in the dtype of the abscissas.

    Raises ValueError for a period whose value is known and is 0 or no scalar.
    """
    known = concrete(value)
    if known is not None and known.ndim:
        raise ValueError(f"quire.numpy.interp: period must be a scalar, got shape {known.shape}")
    if known is not None and known == 0:
        raise ValueError("quire.numpy.interp: period must not be 0")
    return ew.abs_p.bind(cast(ensure("interp", value, "period"), like.aval.dtype))


__all__ = [
    "average", "corrcoef", "cov", "diff", "ediff1d", "interp",
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile", "trapezoid",
]  # fmt: skip

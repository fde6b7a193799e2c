"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st

from .. import lax
from ..arrays.operands import (
    Value,
    as_int,
    broadcast_shapes,
    broadcast_to,
    cast,
    ensure,
    known_shape_operand,
    promote_dtypes,
    promote_inexact,
    weak_where_all_are,
)
from ._ops import select
from .creation import filled, ones
from .from_values import array, asarray
from .grids import vander
from .joining import concatenate
from .linear import dot, outer
from .parts import absolute, conj
from .ranges import iota
from .rearranging import roll, trim_zeros
from .reductions import all as all_
from .reductions import argmin
from .reductions import sum as sum_
from .shapes import atleast_1d
from .signals import convolve
from .sorting import argsort


def _vector(name: str, x: Any, what: str = "p") -> Value:
    v = ensure(name, x, what)
    if v.ndim != 1:
        raise ValueError(f"quire.numpy.{name}: {what} must be a vector of coefficients, got {v.aval.short()}")
    return v


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Value:
    """The value of a polynomial, by Horner's scheme.

    Args:
        p: coefficients, the highest power first, along the first dimension; further ones broadcast against x.
        x: where to evaluate.
        unroll: how many steps of the loop become one.

    Raises:
        ValueError: p is 0-dimensional.

    Follows `numpy.polyval`.

    >>> quire.numpy.polyval(quire.numpy.array([1., 0., 2.]), 3.).item()
    11.0
    """
    p, x = ensure("polyval", p), ensure("polyval", x, "x")
    c, at = promote_dtypes(p, x)
    if c.ndim == 0:
        raise ValueError(f"quire.numpy.polyval: p must have a dimension of coefficients, got {c.aval.short()}")
    shape = broadcast_shapes("polyval", c.aval.shape[1:], at.aval.shape)
    at, zero = broadcast_to(at, shape), filled(shape, 0, at.aval.dtype, at.aval.weak_type)
    if c.aval.shape[0] <= unroll:
        out = zero
        for i in range(c.aval.shape[0]):
            out = out * at + c[i]
        return weak_where_all_are(out, p, x)

    def step(held: Value, coefficient: Value) -> tuple[Value, None]:
        return held * at + coefficient, None

    return weak_where_all_are(lax.scan(step, zero, c, unroll=as_int("polyval", unroll, "unroll"))[0], p, x)


def polyadd(a1: Any, a2: Any) -> Value:
    """The sum of two polynomials. Follows `numpy.polyadd`.

    >>> quire.numpy.polyadd(quire.numpy.array([1, 2]), quire.numpy.array([3, 0, 1]))
    Array([3, 1, 3], dtype=int32)
    """
    return _sum("polyadd", a1, a2, ew.add_p)


def polysub(a1: Any, a2: Any) -> Value:
    """The difference of two polynomials. Follows `numpy.polysub`.

    >>> quire.numpy.polysub(quire.numpy.array([1, 2]), quire.numpy.array([3, 0, 1]))
    Array([-3,  1,  1], dtype=int32)
    """
    return _sum("polysub", a1, a2, ew.sub_p)


def _sum(name: str, a1: Any, a2: Any, p: Any) -> Value:
    x, y = promote_dtypes(_vector(name, a1, "a1"), _vector(name, a2, "a2"))
    n = max(x.aval.size, y.aval.size)
    zero = filled((), 0, x.aval.dtype)
    x, y = (st.pad(v, cast(zero, v.aval.dtype, v.aval.weak_type), [(n - v.aval.size, 0, 0)]) for v in (x, y))
    return p.bind(x, y)


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Value:
    """The product of two polynomials.

    Args:
        a1, a2: coefficients, the highest power first.
        trim_leading_zeros: drop leading zeros first, as NumPy does; their values must be known then.

    Follows `numpy.polymul`.

    >>> quire.numpy.polymul(quire.numpy.array([1., 1.]), quire.numpy.array([1., -1.]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    x, y = promote_inexact(_vector("polymul", a1, "a1"), _vector("polymul", a2, "a2"))
    if trim_leading_zeros and (x.aval.size > 1 or y.aval.size > 1):
        x, y = trim_zeros(x, trim="f"), trim_zeros(y, trim="f")
    x, y = (v if v.aval.size else filled((1,), 0, v.aval.dtype) for v in (x, y))
    return convolve(x, y)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Value, Value]:
    """The quotient and the remainder of two polynomials.

    Args:
        u, v: coefficients of the dividend and the divisor.
        trim_leading_zeros: drop the remainder's leading coefficients that are nearly 0; its values must be known then.

    Returns:
        The quotient, and the remainder with as many coefficients as u.

    Raises:
        ValueError: u or v is not 1-dimensional, or v is empty.

    Follows `numpy.polydiv`.

    >>> quire.numpy.polydiv(quire.numpy.array([1., 0., -1.]), quire.numpy.array([1., 1.]))[0]
    Array([ 1., -1.], dtype=float32)
    """
    rest, divisor = promote_inexact(_vector("polydiv", u, "u"), _vector("polydiv", v, "v"))
    if not divisor.aval.size:
        raise ValueError("quire.numpy.polydiv: the divisor has no coefficients")
    n, steps = divisor.aval.size, rest.aval.size - divisor.aval.size + 1
    quotient = []
    for k in range(steps):
        factor = rest[k] / divisor[0]
        quotient.append(st.reshape(factor, (1,)))
        rest = rest.at[k : k + n].add(-factor * divisor)
    q = concatenate(quotient) if quotient else filled((1,), 0, rest.aval.dtype)
    if trim_leading_zeros:
        known = known_shape_operand("polydiv", rest, "trim before tracing")
        large = np.flatnonzero(np.abs(known) > np.sqrt(np.finfo(rest.aval.dtype).eps))
        rest = rest[int(large[0]) if large.size else known.size :]
    return q, rest


def polyder(p: Any, m: Any = 1) -> Value:
    """The m-th derivative of a polynomial, in an inexact dtype. Follows `numpy.polyder`.

    Raises ValueError for a p that is not 1-dimensional, or a negative m.

    >>> quire.numpy.polyder(quire.numpy.array([1., 2., 3.]))
    Array([2., 2.], dtype=float32)
    """
    (v,) = promote_inexact(_vector("polyder", p))
    times = as_int("polyder", m, "m")
    if times < 0:
        raise ValueError(f"quire.numpy.polyder: m must not be negative, got {times}: see polyint")
    if not times:
        return v
    n = max(v.aval.size - times, 0)
    powers = np.arange(v.aval.size - 1, times - 1, -1, dtype=np.float64)
    factors = np.prod([powers - i for i in range(times)], axis=0)
    return st.slice_in_dim(v, 0, n) * array(factors[:n].astype(v.aval.dtype))


def polyint(p: Any, m: Any = 1, k: Any = None) -> Value:
    """The m-th integral of a polynomial.

    Args:
        p: coefficients.
        m: how many times to integrate.
        k: the constants of integration, the first one first: a number for all, or m of them; 0 by default.

    Raises:
        ValueError: p is not 1-dimensional, m is negative, or k is neither one number nor m of them.

    Follows `numpy.polyint`.

    >>> quire.numpy.polyint(quire.numpy.array([2., 2.]))
    Array([1., 2., 0.], dtype=float32)
    """
    times = as_int("polyint", m, "m")
    v, constants = promote_inexact(_vector("polyint", p), ensure("polyint", 0 if k is None else k, "k"))
    if times < 0:
        raise ValueError(f"quire.numpy.polyint: m must not be negative, got {times}: see polyder")
    constants = atleast_1d(constants)
    if constants.aval.shape == (1,):
        constants = broadcast_to(constants, (times,))
    if constants.aval.shape != (times,):
        raise ValueError(f"quire.numpy.polyint: k must be a number or {times} numbers, got {constants.aval.short()}")
    if not times:
        return v
    powers = np.arange(v.aval.size + times - 1, -1, -1, dtype=np.float64)
    factors = np.prod([np.maximum(powers - i, 1) for i in range(times)], axis=0)
    return concatenate([v, constants]) / array(factors.astype(dtypes.real_dtype(v.aval.dtype)))


def poly(seq_of_zeros: Any) -> Value:
    """The polynomial with given roots, or the characteristic polynomial of a matrix; its leading coefficient is 1.

    Raises ValueError for an array of several dimensions that is no square matrix, or one without elements.

    Follows `numpy.poly`.

    >>> quire.numpy.poly(quire.numpy.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promote_inexact(ensure("poly", seq_of_zeros))
    zeros = atleast_1d(zeros)
    shape = zeros.aval.shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros = _eigenvalues(zeros)
    if zeros.ndim != 1:
        raise ValueError(f"quire.numpy.poly: takes a vector of roots or a square matrix, got {zeros.aval.short()}")
    if not zeros.aval.size:
        return ones((), zeros.aval.dtype)
    out = ones((1,), zeros.aval.dtype)
    for i in range(zeros.aval.size):
        shifted = concatenate([out, filled((1,), 0, out.aval.dtype)])
        out = shifted - concatenate([filled((1,), 0, out.aval.dtype), out * zeros[i]])
    return out


def _eigenvalues(x: Value) -> Value:
    return la.eig(cast(x, x.aval.dtype), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def roots(p: Any, *, strip_zeros: bool = True) -> Value:
    """The roots of a polynomial, as eigenvalues of its companion matrix.

    Args:
        p: coefficients, the highest power first.
        strip_zeros: drop leading zeros, whose number must be known then; without it, a root that they take away is NaN.

    Returns:
        A complex vector.

    Raises:
        ValueError: p has more than 1 dimension.
        ConcretizationTypeError: p is traced and strip_zeros is not False.

    Follows `numpy.roots`.

    >>> quire.numpy.sort(quire.numpy.roots(quire.numpy.array([1., -3., 2.])).real)
    Array([1., 2.], dtype=float32)
    """
    (v,) = promote_inexact(ensure("roots", p))
    v = atleast_1d(v)
    if v.ndim != 1:
        raise ValueError(f"quire.numpy.roots: p must be a vector of coefficients, got {v.aval.short()}")
    n = v.aval.size
    if n < 2:
        return filled((0,), 0, _complex(v.aval.dtype))
    if strip_zeros:
        known = known_shape_operand("roots", v, "give strip_zeros=False, which makes the missing roots NaN")
        first = np.flatnonzero(known)
        return _companion_roots(v[int(first[0]) :] if first.size else v[:0])
    zero = v == 0
    count = select(all_(zero), np.int32(n), cast(argmin(zero), np.dtype(np.int32)))
    v = select(broadcast_to(all_(zero), (n,)), filled((n,), 1, v.aval.dtype), v)
    found = _companion_roots(roll(v, -count))
    # The zeros rolled to the end made roots of 0: those go to the end, and become NaN as far as leading zeros made them.
    order = _zeros_last(found)
    nan = filled(found.aval.shape, complex(np.nan, np.nan), found.aval.dtype)
    return select(iota((n - 1,), 0, np.dtype(np.int32)) < (n - 1) - count, order, nan)


def _zeros_last(x: Value) -> Value:
    return x[argsort(cast(x == 0, np.dtype(np.int32)))]


def _companion_roots(v: Value) -> Value:
    n = v.aval.size
    if n < 2:
        return filled((0,), 0, _complex(v.aval.dtype))
    row = st.reshape(-v[1:] / v[0], (1, n - 1))
    below = array(np.eye(n - 2, n - 1).astype(v.aval.dtype))
    return _eigenvalues(concatenate([row, below], axis=0))


def _complex(dtype: Any) -> Any:
    return dtypes.complex128 if dtypes.real_dtype(dtype) == dtypes.float64 else dtypes.complex64


def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """The polynomial of least squared distance to points.

    Args:
        x: a vector of abscissas.
        y: the values there, a vector or a matrix with a column for each polynomial.
        deg: the degree.
        rcond: singular values below this share of the largest one count as 0; by default len(x) * eps.
        full: also return the residuals, the rank, the singular values and rcond.
        w: a weight for each point, applied to the distances (not their squares).
        cov: also return the covariance of the coefficients, scaled by the residuals, or "unscaled".

    Returns:
        The coefficients, the highest power first (for a matrix y, a column for each); or a tuple.

    Raises:
        TypeError, ValueError: the shapes do not fit, deg is negative, or the points are too few to scale by.

    Follows `numpy.polyfit`.

    >>> x = quire.numpy.arange(4.)
    >>> quire.numpy.allclose(quire.numpy.polyfit(x, 2 * x + 1, 1), quire.numpy.array([2., 1.]), atol=1e-4).item()
    True
    """
    at, values = promote_inexact(ensure("polyfit", x), ensure("polyfit", y, "y"))
    order = as_int("polyfit", deg, "deg") + 1
    if order < 1:
        raise ValueError(f"quire.numpy.polyfit: deg must not be negative, got {order - 1}")
    if at.ndim != 1 or not at.aval.size:
        raise TypeError(f"quire.numpy.polyfit: x must be a vector with elements, got {at.aval.short()}")
    n = at.aval.size
    if values.ndim not in (1, 2) or values.aval.shape[0] != n:
        raise TypeError(f"quire.numpy.polyfit: y must have {n} elements or rows as x has, got {values.aval.short()}")
    dtype = at.aval.dtype
    tolerance = (
        n * float(np.finfo(dtype).eps)
        if rcond is None
        else float(known_shape_operand("polyfit", rcond, "give a number"))
    )
    powers = vander(at, order)
    if w is not None:
        weights = cast(ensure("polyfit", w, "w"), dtype)
        if weights.aval.shape != (n,):
            raise TypeError(
                f"quire.numpy.polyfit: w must be {n} weights, one for each point, got {weights.aval.short()}"
            )
        column = st.reshape(weights, (n, 1))
        powers, values = powers * column, values * (weights if values.ndim == 1 else column)
    scale = ew.sqrt_p.bind(sum_(powers * powers, axis=0))
    scaled = powers / st.reshape(scale, (1, order))
    s, u, vh = la.svd(scaled, full_matrices=False)
    columns = values if values.ndim == 2 else st.reshape(values, (n, 1))
    c, rank = _least_squares(u, s, vh, columns, tolerance)
    distance = absolute(columns - dot(scaled, c))
    residuals = sum_(distance * distance, axis=0)
    c = c / st.reshape(scale, (order, 1))
    if values.ndim == 1:
        c = st.reshape(c, (order,))
    if full:
        return c, residuals, rank, s, asarray(tolerance)
    if not isinstance(cov, str) and not cov:
        return c
    inverse = dot(vh.mT / st.reshape(s * s, (1, s.aval.shape[0])), vh) / outer(scale, scale)
    factor = ones((1,), dtype)
    if cov != "unscaled":
        if n <= order:
            raise ValueError(
                f"quire.numpy.polyfit: {n} points are too few to scale the covariance of {order} coefficients: give "
                'cov="unscaled"'
            )
        factor = residuals / (n - order)
    if values.ndim == 1:
        return c, inverse * factor
    return c, st.reshape(inverse, (order, order, 1)) * st.reshape(factor, (1, 1, factor.aval.size))


def _least_squares(u: Value, s: Value, vh: Value, b: Value, rcond: float) -> tuple[Value, Value]:
    """The solution of least norm by the singular value decomposition of a matrix, and the rank."""
    large = (s > 0) & (s >= s[0] * rcond)
    safe = select(large, s, ones(s.aval.shape, s.aval.dtype))
    inverse = select(large, 1 / safe, filled(s.aval.shape, 0, s.aval.dtype))
    coordinates = dot(conj(u.mT), b) * cast(st.reshape(inverse, (s.aval.size, 1)), b.aval.dtype)
    return dot(conj(vh.mT), coordinates), sum_(cast(large, np.dtype(np.int32)))


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots"]

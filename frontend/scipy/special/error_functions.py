"""The error functions, the normal distribution's integrals, and their inverses."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, cast, float_operands, is_double, operands, strong, widened
from ...transforms.custom_derivatives import custom_jvp, define_partials
from .series import Chebyshev

_SQRT2 = math.sqrt(2.0)
_SQRT_PI = math.sqrt(math.pi)
_2_SQRT_PI = 2 / _SQRT_PI


def _scipy() -> Any:
    import scipy.special

    return scipy.special


def erf(x: Any) -> Value:
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    Args:
        x: a real array or number.

    Returns:
        An array of x's shape; integers and bool become the default float.

    Follows `scipy.special.erf`.

    >>> quire.scipy.special.erf(0.5).item()  # doctest: +ELLIPSIS
    0.520...
    """
    return ew.erf(*operands("special.erf", x))


def erfc(x: Any) -> Value:
    """1 - erf(x), accurate for large x. Follows `scipy.special.erfc`.

    >>> quire.scipy.special.erfc(0.0).item()
    1.0
    """
    return ew.erfc(*operands("special.erfc", x))


def erfinv(x: Any) -> Value:
    """The inverse of erf: inf at 1, NaN outside of [-1, 1]. Follows `scipy.special.erfinv`.

    >>> quire.scipy.special.erfinv(1.0).item()
    inf
    """
    return ew.erf_inv(*operands("special.erfinv", x))


# -- erfcx, dawsn, wofz -----------------------------------------------------------------------------------------------


def _erfcx_of_t(t: Any) -> Any:
    x = 4.0 / t - 4.0
    return _scipy().erfcx(x) * (x + 1.0)


_ERFCX = Chebyshev(_erfcx_of_t, 0.0, 1.0, 30)


def _erfcx_positive(x: Value) -> Value:
    """erfcx for x >= 0: in t = 4 / (4 + x), as Numerical Recipes 6.2.2 does for erfc."""
    return _ERFCX(4.0 / (4.0 + x)) / (1.0 + x)


def _exp_of_square(x: Value, factor: float) -> Value:
    """exp(factor x**2): the rounded square would lose digits, but x = high + low, and high**2 is exact."""
    high = qnp.round(x * 16.0) / 16.0
    value = ew.exp(factor * high * high) * ew.exp(factor * (x - high) * (x + high))
    return qnp.where(qnp.abs(x) > 64.0, np.inf if factor > 0 else 0.0, value)


@custom_jvp
def erfcx_real(x: Value) -> Value:
    """exp(x^2) erfc(x) of a real array."""
    positive = _erfcx_positive(qnp.abs(x))
    square = _exp_of_square(x, 1.0)
    return qnp.where(x < 0, 2.0 * square - positive, positive)


@erfcx_real.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value = erfcx_real(x)
    far = x > 50.0
    # For large x the two terms cancel: the derivative of the asymptotic series 1/(x sqrt pi) (1 - 1/(2 x**2) ...).
    inverse = _inverse_square(qnp.where(far, x, 1.0))
    tail = -inverse / _SQRT_PI * (1.0 - 1.5 * inverse * (1.0 - 2.5 * inverse))
    slope = qnp.where(far, tail, 2.0 * qnp.where(far, 0.0, x) * value - _2_SQRT_PI)
    return value, t * slope


def _inverse_square(x: Value) -> Value:
    """1 / x**2, whose derivative by an infinite x is 0: that of the quotient by the square is 0 times infinity."""
    inverse = 1.0 / x
    return inverse * inverse


def erfcx(x: Any) -> Value:
    """exp(x**2) erfc(x), also where erfc is too small for the dtype.

    Args:
        x: an array or number, real or complex.

    Returns:
        An array of x's shape; integers and bool become the default float. Chebyshev series in 4/(4 + x) (Numerical
        Recipes 6.2.2); `wofz` (i x) for complex x.

    Follows `scipy.special.erfcx`.

    >>> round(quire.scipy.special.erfcx(100.0).item(), 6)
    0.005642
    """
    (z,) = operands("special.erfcx", x, complex_ok=True)
    if dtypes.is_complex(aval_of(z).dtype):
        return _wofz(1j * z)
    return widened(erfcx_real, *strong([z]))


def _dawson_of_square(q: Any) -> Any:
    x = np.sqrt(q)
    return _scipy().dawsn(x) / x * (1.0 + 2.0 * q)


def _dawson_of_inverse(r: Any) -> Any:
    x = 4.0 / np.sqrt(r)
    return _scipy().dawsn(x) * 2.0 * x


_DAWSON_LOW = Chebyshev(_dawson_of_square, 0.0, 16.0, 45)
_DAWSON_HIGH = Chebyshev(_dawson_of_inverse, 0.0, 1.0, 30)


@custom_jvp
def dawson_real(x: Value) -> Value:
    """Dawson's integral of a real array: two series, which meet at abs(x) = 4."""
    size = qnp.abs(x)
    near = size < 4.0
    square = qnp.where(near, x, 1.0) * qnp.where(near, x, 1.0)
    low = x * _DAWSON_LOW(square) / (1.0 + 2.0 * square)
    inverse = 1.0 / qnp.where(near, 4.0, x)
    high = 0.5 * inverse * _DAWSON_HIGH(16.0 * inverse * inverse)
    return qnp.where(near, low, qnp.where(qnp.isnan(x), x, high))


@dawson_real.defjvp
def _dawson_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value = dawson_real(x)
    far = qnp.abs(x) > 50.0
    inverse = _inverse_square(qnp.where(far, x, 1.0))
    tail = -0.5 * inverse * (1.0 + 1.5 * inverse * (1.0 + 2.5 * inverse))
    return value, t * qnp.where(far, tail, 1.0 - 2.0 * qnp.where(far, 0.0, x) * value)


def dawsn(x: Any) -> Value:
    """Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Args:
        x: a real array or number.

    Returns:
        An array of x's shape; integers and bool become the default float. Chebyshev series in x**2 and 1/x**2.

    Follows `scipy.special.dawsn`; NIST DLMF 7.2.5.

    >>> round(quire.scipy.special.dawsn(1.0).item(), 5)
    0.53808
    """
    return widened(dawson_real, *strong(operands("special.dawsn", x)))


@functools.cache
def _weideman(n: int) -> tuple[float, tuple[float, ...]]:
    """L and the coefficients of Weideman's rational series for w(z), highest power first."""
    m = 2 * n
    size = math.sqrt(n / math.sqrt(2.0))
    theta = np.arange(-m + 1, m) * np.pi / m
    t = size * np.tan(theta / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (size * size + t * t)])
    a = np.real(np.fft.fft(np.fft.fftshift(values))) / (2 * m)
    return size, tuple(float(c) for c in a[n:0:-1])


def _wofz_upper(z: Value) -> Value:
    """w(z) for Im z >= 0 (J.A.C. Weideman, SIAM J. Numer. Anal. 31, 1994)."""
    size, series = _weideman(44 if is_double(z) else 20)
    below = size - 1j * z
    ratio = (size + 1j * z) / below
    total: Any = series[0]
    for c in series[1:]:
        total = total * ratio + c
    return 2.0 * total / (below * below) + (1.0 / _SQRT_PI) / below


@custom_jvp
def _wofz(z: Value) -> Value:
    x, y = ew.real(z), ew.imag(z)
    lower = y < 0
    up = qnp.where(lower, -z, z)
    # Beyond, the series' powers lose digits: the continued fraction of DLMF 7.9.3, one step.
    far = qnp.abs(x) + qnp.abs(y) > (1e5 if is_double(z) else 2e3)
    safe = qnp.where(far, 1.0 + 1j, up)
    distant = qnp.where(far, up, 1.0 + 1j)
    value = qnp.where(far, (1j / _SQRT_PI) / (distant - 0.5 / distant), _wofz_upper(safe))
    on_axis = y == 0
    real_axis = ew.complex(ew.exp(-x * x), _2_SQRT_PI * dawson_real(x))
    value = qnp.where(on_axis, real_axis, value)
    return qnp.where(lower, 2.0 * ew.exp(-z * z) - value, value)


@_wofz.defjvp
def _wofz_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    value = _wofz(z)
    return value, t * (_2_SQRT_PI * 1j - 2.0 * z * value)


def wofz(z: Any) -> Value:
    """The Faddeeva function w(z) = exp(-z**2) erfc(-i z).

    Args:
        z: an array or number.

    Returns:
        A complex array of z's shape. Weideman's rational series (SIAM J. Numer. Anal. 31, 1994); on the real axis
        exp(-x**2) and Dawson's integral.

    Follows `scipy.special.wofz`; NIST DLMF 7.2.3.

    >>> quire.scipy.special.wofz(0.0).item()
    (1+0j)
    """
    (x,) = operands("special.wofz", z, complex_ok=True)
    dtype = aval_of(x).dtype
    wide = dtypes.complex128 if dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
    return _wofz(cast(x, wide))


# -- normal distribution ----------------------------------------------------------------------------------------------


def _upper_tail(x: Value) -> Value:
    """The chance that a standard normal variable exceeds x, accurate for large x."""
    far = x > 1.0
    y = qnp.where(far, x, 1.0)
    tail = 0.5 * _erfcx_positive(y * (1 / _SQRT2)) * _exp_of_square(y, -0.5)
    return qnp.where(far, tail, 0.5 * ew.erfc(qnp.where(far, 1.0, x) * (1 / _SQRT2)))


@custom_jvp
def ndtr_(x: Value) -> Value:
    """The distribution function of the normal distribution, of a real array."""
    return _upper_tail(-x)


@ndtr_.defjvp
def _ndtr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return ndtr_(x), t * ew.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def ndtr(x: Any) -> Value:
    """The distribution function of the standard normal distribution.

    Args:
        x: an array of float32 or float64, or a number; TypeError for other dtypes.

    Follows `scipy.special.ndtr`.

    >>> quire.scipy.special.ndtr(0.0).item()
    0.5
    """
    return ndtr_(*strong(float_operands("special.ndtr", x)))


def _central_quantile(q: Any) -> Any:
    y = np.sqrt(q)
    return _scipy().ndtri(0.5 + y) / y


def _tail_quantile(z: Any) -> Any:
    return z * (z + _scipy().ndtri_exp(-z * z / 2))


# In (p - 1/2)**2, and for the tails in sqrt(-2 log p).
_CENTRE = Chebyshev(_central_quantile, 0.0, 0.4**2, 30)
_TAIL = Chebyshev(_tail_quantile, 2.0, 8.0, 34)
_FAR_TAIL = Chebyshev(_tail_quantile, 8.0, 40.0, 34)


@custom_jvp
def ndtri_(p: Value) -> Value:
    """The inverse of `ndtr_`, of a real array; NaN outside [0, 1]."""
    upper = p > 0.5
    small = qnp.where(upper, 1.0 - p, p)
    central = small > 0.125
    y = p - 0.5
    middle = y * _CENTRE(qnp.where(central, y, 0.25) * qnp.where(central, y, 0.25))
    inside = (small > 0) & ~central
    z = qnp.sqrt(-2.0 * ew.log(qnp.where(inside, small, 0.1)))
    far = z > 8.0
    tail = -z + qnp.where(far, _FAR_TAIL(qnp.where(far, z, 9.0)), _TAIL(qnp.where(far, 7.0, z))) / z
    value = qnp.where(central, middle, qnp.where(upper, -tail, tail))
    value = qnp.where(p == 0, -np.inf, qnp.where(p == 1, np.inf, value))
    return qnp.where((p >= 0) & (p <= 1), value, np.nan)


@ndtri_.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    (p,), (t,) = primals, tangents
    value = ndtri_(p)
    return value, t * math.sqrt(2 * math.pi) * ew.exp(0.5 * value * value)


def ndtri(p: Any) -> Value:
    """The inverse of `ndtr`: the quantile of the standard normal distribution, NaN outside of [0, 1].

    Args:
        p: an array of float32 or float64, or a number; TypeError for other dtypes.

    Returns:
        An array of p's shape: Chebyshev series in p - 1/2, and for the tails in sqrt(-2 log p).

    Follows `scipy.special.ndtri`.

    >>> round(quire.scipy.special.ndtri(0.975).item(), 4)
    1.96
    """
    return ndtri_(*strong(float_operands("special.ndtri", p)))


@custom_jvp
def log_ndtr_(x: Value) -> Value:
    """The logarithm of `ndtr_`, of a real array, accurate in both tails."""
    low = x < -1.0
    below = qnp.where(low, x, -1.0)
    tail = ew.log(0.5 * _erfcx_positive(below * (-1 / _SQRT2))) - 0.5 * below * below
    tail = qnp.where(qnp.isneginf(x), x, tail)
    return qnp.where(low, tail, ew.log1p(-_upper_tail(qnp.where(low, -1.0, x))))


@log_ndtr_.defjvp
def _log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log_ndtr_(x), t * _slope_of_log_ndtr(x)


@custom_jvp
def _slope_of_log_ndtr(x: Value) -> Value:
    """The normal density over its distribution function: the inverse Mills ratio of -x."""
    return math.sqrt(2 / math.pi) / erfcx_real(x * (-1 / _SQRT2))


@_slope_of_log_ndtr.defjvp
def _slope_of_log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    """r' = -r (x + r). Far below 0 the sum cancels: with y = -x it is the continued fraction 1/(y + 2/(y + 3/(y + ...)))
    (NIST DLMF 7.9.1)."""
    (x,), (t,) = primals, tangents
    r = _slope_of_log_ndtr(x)
    low = x < -6.0
    y = qnp.where(low, -x, 6.0)
    fraction = y
    for k in range(20 if is_double(x) else 10, 1, -1):
        fraction = y + k / fraction
    rate = r * qnp.where(low, 1 / fraction, x + r)
    rate = qnp.where(r == 0, 0.0, qnp.where(qnp.isneginf(x), 1.0, rate))
    return r, -t * rate


def log_ndtr(x: Any, series_order: int = 3) -> Value:
    """The logarithm of `ndtr`, and its derivative, accurate in both tails.

    Args:
        x: an array of float32 or float64, or a number; TypeError for other dtypes.
        series_order: an integer from 0 to 30, for compatibility: the tail is not computed by a series of that order
            but by `erfcx`, to full precision.

    Raises:
        TypeError: x has another dtype, or `series_order` is no Python integer.
        ValueError: `series_order` is not from 0 to 30.

    Follows `scipy.special.log_ndtr`.

    >>> round(quire.scipy.special.log_ndtr(-10.0).item(), 4)
    -53.2313
    """
    if not isinstance(series_order, int):
        raise TypeError(f"quire.scipy.special.log_ndtr: series_order must be a Python integer, got {series_order!r}")
    if not 0 <= series_order <= 30:
        raise ValueError(f"quire.scipy.special.log_ndtr: series_order must be from 0 to 30, got {series_order}")
    return log_ndtr_(*strong(float_operands("special.log_ndtr", x)))


# -- Owen's T ---------------------------------------------------------------------------------------------------------


def _owens_integral(h: Value, a: Value) -> Value:
    """T(h, a) for h >= 0 and 0 <= a <= 1: Gauss's quadrature over the part where exp(-(h t)**2 / 2) is not negligible."""
    nodes, weights = np.polynomial.legendre.leggauss(30 if is_double(h) else 16)
    reach = 9.0 if is_double(h) else 6.5
    end = qnp.minimum(a, reach / qnp.maximum(h, 1e-3))
    total: Any = 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2):
        t = end * float(node)
        total = total + float(weight) * ew.exp(-0.5 * h * h * t * t) / (1.0 + t * t)
    return _exp_of_square(h, -0.5) * end * total * (1 / (2 * math.pi))


@custom_jvp
def _owens_t(h: Value, a: Value) -> Value:
    h, size = qnp.abs(h), qnp.abs(a)
    steep = size > 1.0
    unlimited = qnp.isinf(size)
    bounded = qnp.where(unlimited, 2.0, size)
    hs = qnp.where(steep, h * bounded, h)
    value = _owens_integral(qnp.minimum(hs, 1e4), qnp.where(steep, 1.0 / bounded, size))
    q1, q2 = _upper_tail(h), _upper_tail(hs)
    reflected = 0.5 * (q1 + q2) - q1 * q2 - value
    value = qnp.where(steep, reflected, value)
    value = qnp.where(unlimited, 0.5 * q1, value)
    value = qnp.where(qnp.isnan(h) | qnp.isnan(size), np.nan, value)
    return qnp.where(a < 0, -value, qnp.where(a == 0, a * 0.0, value))


define_partials(
    _owens_t,
    lambda t, value, h, a: t * (-0.5 / math.sqrt(2 * math.pi) * ew.exp(-0.5 * h * h) * ew.erf(a * h / _SQRT2)),
    lambda t, value, h, a: t * (ew.exp(-0.5 * h * h * (1.0 + a * a)) / (1.0 + a * a) * (1 / (2 * math.pi))),
)


def owens_t(h: Any, a: Any) -> Value:
    """Owen's T function: the chance that X > h and 0 < Y < a X for independent standard normal X and Y.

    Args:
        h, a: real arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape. Gauss-Legendre quadrature of Owen's integral, with his reflection for
        abs(a) > 1 (Patefield and Tandy, J. Stat. Softw. 5, 2000).

    Follows `scipy.special.owens_t`.

    >>> quire.scipy.special.owens_t(0.0, 1.0).item()
    0.125
    """
    return widened(_owens_t, *strong(operands("special.owens_t", h, a)))

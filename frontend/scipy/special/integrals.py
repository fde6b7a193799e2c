"""Exponential, sine and cosine integrals, Fresnel's integrals and the dilogarithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, epsilon, float_operands, is_double, operands, strong, widened
from ...transforms.custom_derivatives import custom_jvp
from .series import Chebyshev, horner

_GAMMA = float(np.euler_gamma)


def _scipy() -> Any:
    import scipy.special

    return scipy.special


# -- exponential integrals --------------------------------------------------------------------------------------------

# The zero of Ei in two parts: Ei is log(x / zero) and (x - zero) times a smooth function (Cody and Thacher 1969).
_ZERO = 0.37250741078136663446
_ZERO_HIGH = 0.37109375
_ZERO_LOW = 0.0014136607813666344620


@functools.cache
def _expi_low_coefficients() -> tuple[float, ...]:
    """Of (Ei(x) - log(x/zero)) / (x - zero) as a power series in x, highest power first, exactly from Ei's series.

    The sum of x**k / (k k!) less its value at the zero, divided by x - zero: synthetic division.
    """
    n = 44
    series = [1 / (k * math.factorial(k)) for k in range(n, 0, -1)]
    quotient: list[float] = []
    carry = 0.0
    for c in series:
        carry = c + carry * _ZERO
        quotient.append(carry)
    return tuple(quotient)


def _expi_scaled(x: Any) -> Any:
    return x * np.exp(-x) * _scipy().expi(x)


def _expi_far(r: Any) -> Any:
    # exp(x), and so SciPy's value, overflows for the largest x, for which the asymptotic series is exact.
    x = 24.0 / r
    series = sum(math.factorial(k) / x**k for k in range(20))
    return np.where(x > 600.0, series, _expi_scaled(np.minimum(x, 600.0)))


_EXPI_END = 24.0 / 720.0  # Ei is infinite before 720


_EXPI_6 = Chebyshev(_expi_scaled, 6.0, 12.0, 26)
_EXPI_12 = Chebyshev(_expi_scaled, 12.0, 24.0, 26)
_EXPI_24 = Chebyshev(_expi_far, _EXPI_END, 1.0, 26)


def _expi_positive(x: Value) -> Value:
    near, middle = x < 6.0, x < 12.0
    small = qnp.where(near, x, 1.0)
    from_zero = (small - _ZERO_HIGH) - _ZERO_LOW
    close = qnp.abs(from_zero) < 0.1
    log = qnp.where(close, ew.log1p(qnp.where(close, from_zero, 0.0) / _ZERO), ew.log(small / _ZERO))
    terms = _expi_low_coefficients()
    terms = terms if is_double(x) else terms[16:]
    low = log + from_zero * horner(small, terms)
    table = qnp.where(middle, _EXPI_6(qnp.clip(x, 6.0, 12.0)), _EXPI_12(qnp.clip(x, 12.0, 24.0)))
    far = qnp.maximum(x, 24.0)
    table = qnp.where(x < 24.0, table, _EXPI_24(qnp.maximum(24.0 / far, _EXPI_END)))
    # exp(x) / x in two factors: it is finite for some x for which exp(x) is not
    half = ew.exp(0.5 * qnp.maximum(x, 1.0))
    high = half / qnp.maximum(x, 1.0) * half * table
    return qnp.where(near, low, qnp.where(qnp.isposinf(x), x, high))


def _e1_series(x: Value, n: int) -> Value:
    """The sum of (-1)**(k+1) x**k / (k k!): E1(x) + gamma + log(x)."""
    coefficients = tuple((-1) ** (k + 1) / (k * math.factorial(k)) for k in range(n, 0, -1))
    return x * horner(x, coefficients)


def _continued_fraction(n: Value | float, x: Value, steps: int) -> Value:
    """exp(x) E_n(x) for x > 1 or so, from below: the even part of NIST DLMF 8.19.17."""
    tail: Any = x + n + 2.0 * steps
    for k in range(steps, 0, -1):
        tail = x + n + (2.0 * k - 2.0) - (n + (k - 1.0)) * float(k) / tail
    return 1.0 / tail


def _e1_positive(x: Value) -> Value:
    double = is_double(x)
    split = 2.0 if double else 1.5
    small = qnp.where(x < split, x, 1.0)
    near = _e1_series(small, 24 if double else 13) - _GAMMA - ew.log(small)
    big = qnp.where(x < split, split, x)
    far = ew.exp(-big) * _continued_fraction(1.0, big, 52 if double else 18)
    return qnp.where(x < split, near, qnp.where(qnp.isposinf(x), 0.0, far))


@custom_jvp
def _expi(x: Value) -> Value:
    negative = x < 0
    size = qnp.abs(x)
    zero = x == 0
    safe = qnp.where(zero, 1.0, size)
    value = qnp.where(negative, -_e1_positive(safe), _expi_positive(safe))
    return qnp.where(zero, -np.inf, qnp.where(qnp.isnan(x), x, value))


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _expi(x), t * ew.exp(x) / x


def expi(x: Any) -> Value:
    """The exponential integral Ei(x), the principal value of the integral of exp(t)/t from -inf to x.

    Args:
        x: a real array or number.

    Returns:
        An array of x's shape; integers and bool become the default float. Power series about the zero, as Cody and
        Thacher (Math. Comp. 23, 1969), and Chebyshev series of x exp(-x) Ei(x); -E1(-x) for negative x.

    Follows `scipy.special.expi`.

    >>> round(quire.scipy.special.expi(1.0).item(), 4)
    1.8951
    """
    return widened(_expi, *strong(operands("special.expi", x)))


@custom_jvp
def _exp1(x: Value) -> Value:
    value = _e1_positive(qnp.where(x > 0, x, 1.0))
    return qnp.where(x > 0, value, qnp.where(x == 0, np.inf, np.nan))


@_exp1.defjvp
def _exp1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _exp1(x), -t * ew.exp(-x) / x


def exp1(x: Any) -> Value:
    """The exponential integral E1(x), the integral of exp(-t)/t from x to inf: NaN for negative x.

    Args:
        x: a real array or number.

    Returns:
        An array of x's shape; integers and bool become the default float. Power series and continued fraction (NIST
        DLMF 6.6.2, 8.19.17).

    Follows `scipy.special.exp1`.

    >>> round(quire.scipy.special.exp1(1.0).item(), 4)
    0.2194
    """
    return widened(_exp1, *strong(operands("special.exp1", x)))


def _expn_series(n: Value, x: Value, terms: int) -> Value:
    """E_n(x) for integers n >= 1 and small x > 0 (NIST DLMF 8.19.8)."""
    total: Any = 0.0
    power: Any = 1.0
    for m in range(terms):
        singular = n == m + 1.0
        total = total - qnp.where(singular, 0.0, power / qnp.where(singular, 1.0, m + 1.0 - n))
        power = power * (-x) / (m + 1.0)
    odd = n * 0.5 != qnp.floor(n * 0.5)
    size = ew.exp((n - 1.0) * ew.log(x) - ew.lgamma(n))
    return total + qnp.where(odd, size, -size) * (ew.digamma(n) - ew.log(x))


@custom_jvp
def _expn(n: Value, x: Value) -> Value:
    double = is_double(x)
    split = 2.0 if double else 1.5
    valid = (x > 0) & (n >= 1.0)
    order = qnp.where(valid, n, 1.0)
    y = qnp.where(valid, x, 1.0)
    near = _expn_series(order, qnp.where(y < split, y, 1.0), 30 if double else 18)
    big = qnp.where(y < split, split, y)
    far = ew.exp(-big) * _continued_fraction(order, big, 52 if double else 18)
    value = qnp.where(y < split, near, far)
    value = qnp.where(n == 0, ew.exp(-x) / x, value)
    value = qnp.where(qnp.isposinf(x), 0.0, value)
    at_zero = qnp.where(n > 1.0, 1.0 / qnp.where(n > 1.0, n - 1.0, 1.0), np.inf)
    value = qnp.where(x == 0, at_zero, value)
    return qnp.where((x >= 0) & (n >= 0), value, np.nan)


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (_, t) = primals, tangents
    first = -ew.exp(-x) * (1.0 + 1.0 / x) / x
    return _expn(n, x), t * qnp.where(n == 0, first, -_expn(n - 1.0, x))


def expn(n: Any, x: Any) -> Value:
    """The exponential integral E_n(x), the integral of exp(-x t)/t**n from 1 to inf.

    Args:
        n: integers of at least 0. x: a real array or number of at least 0; elsewhere the result is NaN.

    Returns:
        An array of the broadcast shape; its derivative by n is 0, as JAX's. Power series and continued fraction (NIST
        DLMF 8.19.8, 8.19.17).

    Follows `scipy.special.expn`.

    >>> round(quire.scipy.special.expn(2, 1.0).item(), 4)
    0.1485
    """
    return widened(_expn, *strong(operands("special.expn", n, x)))


# -- sine and cosine integrals ----------------------------------------------------------------------------------------


def _si_auxiliary(x: Any) -> Any:
    """g(x) - i f(x) of NIST DLMF 6.2.17, 6.2.18."""
    return np.exp(1j * x) * _scipy().exp1(1j * x)


def _f_of_inverse(r: Any) -> Any:
    x = 4.0 / np.sqrt(r)
    return -_si_auxiliary(x).imag * x


def _g_of_inverse(r: Any) -> Any:
    x = 4.0 / np.sqrt(r)
    return _si_auxiliary(x).real * x * x


_F = Chebyshev(_f_of_inverse, 0.0, 1.0, 36)
_G = Chebyshev(_g_of_inverse, 0.0, 1.0, 40)
_SI = tuple((-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(17, -1, -1))
_CIN = tuple((-1) ** (k + 1) / (2 * k * math.factorial(2 * k)) for k in range(17, 0, -1))


@custom_jvp
def _sici(x: Value) -> tuple[Value, Value]:
    size = qnp.abs(x)
    near = size < 4.0
    y = qnp.where(near, size, 1.0)
    square = y * y
    si_near = y * horner(square, _SI)
    ci_near = _GAMMA + ew.log(y) - square * horner(square, _CIN)
    big = qnp.where(near, 4.0, size)
    inverse = 1.0 / big
    r = 16.0 * inverse * inverse
    f, g = inverse * _F(r), inverse * inverse * _G(r)
    angle = qnp.where(qnp.isinf(big), 0.0, big)
    sine, cosine = ew.sin(angle), ew.cos(angle)
    si = qnp.where(near, si_near, 0.5 * math.pi - f * cosine - g * sine)
    ci = qnp.where(near, ci_near, f * sine - g * cosine)
    si = qnp.where(x < 0, -si, qnp.where(x == 0, x, si))
    bad = qnp.isnan(x)
    return qnp.where(bad, x, si), qnp.where(bad, x, ci)


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    zero = x == 0
    sinc = qnp.where(zero, 1.0, ew.sin(x) / qnp.where(zero, 1.0, x))
    return _sici(x), (t * sinc, t * ew.cos(x) / x)


def sici(x: Any) -> tuple[Value, Value]:
    """The sine and the cosine integral.

    Args:
        x: a real array or number.

    Returns:
        (Si, Ci), two arrays of x's shape; Ci(-x) is the real part, Ci(x). Power series, and beyond 4 Chebyshev series of the
        auxiliary functions f and g (NIST DLMF 6.2).

    Follows `scipy.special.sici`.

    >>> [round(v.item(), 4) for v in quire.scipy.special.sici(1.0)]
    [0.9461, 0.3374]
    """
    return widened(_sici, *strong(operands("special.sici", x)))


# -- Fresnel's integrals ----------------------------------------------------------------------------------------------

_START = 1.6


def _fresnel_auxiliary(x: Any) -> Any:
    """g(x) + i f(x) of NIST DLMF 7.2.10, 7.2.11 from the Faddeeva function (7.5.3)."""
    return (1 + 1j) / 2 * _scipy().wofz(math.sqrt(math.pi) / 2 * (1 + 1j) * x)


def _fresnel_f(r: Any) -> Any:
    x = _START * r**-0.25
    return _fresnel_auxiliary(x).imag * x


def _fresnel_g(r: Any) -> Any:
    x = _START * r**-0.25
    return _fresnel_auxiliary(x).real * x**3


# Where r is small, g is the difference of numbers that are nearly equal: its asymptotic value takes over there.
_FRESNEL_F = Chebyshev(_fresnel_f, 1e-6, 1.0, 30)
_FRESNEL_G = Chebyshev(_fresnel_g, 1e-6, 1.0, 34)
_HALF_PI = 0.5 * math.pi
_C = tuple((-1) ** k * _HALF_PI ** (2 * k) / (math.factorial(2 * k) * (4 * k + 1)) for k in range(15, -1, -1))
_S = tuple((-1) ** k * _HALF_PI ** (2 * k + 1) / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in range(15, -1, -1))


def _half_pi_square(x: Value) -> Value:
    """pi/2 x**2 less a multiple of 2 pi: x = 2 n + r, and 2 n r is reduced before it is rounded off."""
    n = qnp.round(0.5 * x)
    r = x - 2.0 * n
    cross = n * r
    return _HALF_PI * (4.0 * (cross - qnp.round(cross)) + r * r)


@custom_jvp
def _fresnel(x: Value) -> tuple[Value, Value]:
    size = qnp.abs(x)
    near = size < _START
    y = qnp.where(near, size, 1.0)
    fourth = y * y * y * y
    s_near, c_near = y * y * y * horner(fourth, _S), y * horner(fourth, _C)
    big = qnp.clip(size, _START, 1e4)
    scaled = _START / big
    r = scaled * scaled * scaled * scaled
    inside = qnp.maximum(r, 1e-6)
    ratio = r * (1 / (math.pi * _START**2) ** 2)  # 1 / (pi x**2)**2, the asymptotic series' variable
    f = qnp.where(r > 1e-6, _FRESNEL_F(inside), (1.0 - 3.0 * ratio * (1.0 - 35.0 * ratio)) / math.pi) / big
    g = qnp.where(r > 1e-6, _FRESNEL_G(inside), (1.0 - 15.0 * ratio) / math.pi**2) / big / (big * big)
    angle = _half_pi_square(big)
    sine, cosine = ew.sin(angle), ew.cos(angle)
    c = qnp.where(near, c_near, 0.5 + f * sine - g * cosine)
    s = qnp.where(near, s_near, 0.5 - f * cosine - g * sine)
    far = size > 1e4
    safe = qnp.where(far & qnp.isfinite(size), size, 1e4)
    angle = _half_pi_square(safe)
    c = qnp.where(far, 0.5 + ew.sin(angle) / (math.pi * safe), c)
    s = qnp.where(far, 0.5 - ew.cos(angle) / (math.pi * safe), s)
    c, s = (qnp.where(qnp.isinf(size), 0.5, v) for v in (c, s))
    c, s = (qnp.where(x < 0, -v, v) for v in (c, s))
    bad = qnp.isnan(x)
    return qnp.where(bad, x, s), qnp.where(bad, x, c)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    angle = _half_pi_square(x)
    return _fresnel(x), (t * ew.sin(angle), t * ew.cos(angle))


def fresnel(x: Any) -> tuple[Value, Value]:
    """Fresnel's integrals, those of sin(pi t**2 / 2) and of cos(pi t**2 / 2) from 0 to x.

    Args:
        x: a real array or number.

    Returns:
        (S, C), two arrays of x's shape. Power series, and beyond 1.6 Chebyshev series of the auxiliary functions f and
        g (NIST DLMF 7.2, 7.5).

    Follows `scipy.special.fresnel`.

    >>> [round(v.item(), 4) for v in quire.scipy.special.fresnel(1.0)]
    [0.4383, 0.7799]
    """
    return widened(_fresnel, *strong(operands("special.fresnel", x)))


# -- dilogarithm ------------------------------------------------------------------------------------------------------


def _spence_ratio(w: Any) -> Any:
    return -_scipy().spence(1 + w) / w


_SPENCE = Chebyshev(_spence_ratio, -0.5, 0.5, 27)


@custom_jvp
def _spence(x: Value) -> Value:
    """As Cephes: everything is brought to 1/2 <= x <= 3/2."""
    valid = (x > 0) & qnp.isfinite(x)
    y = qnp.where(valid, x, 1.0)
    beyond = y > 2.0
    z = qnp.where(beyond, 1.0 / y, y)
    large, small = z > 1.5, z < 0.5
    w = qnp.where(large, 1.0 / z - 1.0, qnp.where(small, -z, z - 1.0))
    value = -w * _SPENCE(w)
    value = qnp.where(small, math.pi**2 / 6 - ew.log(z) * ew.log1p(-qnp.where(small, z, 0.0)) - value, value)
    log = ew.log(y)
    value = qnp.where(beyond | large, -0.5 * log * log - value, value)
    value = qnp.where(x == 0, math.pi**2 / 6, value)
    return qnp.where(valid | (x == 0), value, np.nan)


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    close = qnp.abs(x - 1.0) < 3 * epsilon(x)
    safe = qnp.where(close, 2.0, x)
    return _spence(x), t * qnp.where(close, -1.0, ew.log(safe) / (1.0 - safe))


def spence(x: Any) -> Value:
    """Spence's function, the integral of log(t)/(1 - t) from 1 to x: the dilogarithm of 1 - x.

    Args:
        x: an array of float32 or float64, or a number; TypeError for other dtypes. NaN for negative x.

    Returns:
        An array of x's shape: a Chebyshev series on [1/2, 3/2], to which Cephes' formulas lead from elsewhere.

    Follows `scipy.special.spence`.

    >>> round(quire.scipy.special.spence(0.0).item(), 4)
    1.6449
    """
    return _spence(*strong(float_operands("special.spence", x)))

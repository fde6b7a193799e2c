"""Reference rules of transcendental and special functions, by NumPy and SciPy in double precision.

Narrower dtypes are computed in float64 (complex64 in complex128) and rounded once, so that these rules are an oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitive import PRIMITIVES, Primitive
from quire.ir.primitives import elementwise as ew

from ..gamma_coefficients import ABOVE, BELOW, LEAST, STIRLING, coefficients
from .rules import reference

Array = Any


def special() -> Any:
    """scipy.special, imported at its first use: it takes a third of a second."""
    import scipy.special

    return scipy.special


def by_special(name: str) -> Callable[[Array], Array]:
    """The function of scipy.special of that name, looked up when it is called."""

    def rule(x: Array) -> Array:
        return getattr(special(), name)(x)

    rule.__name__ = name
    return rule


def in_double(f: Callable[..., Array]) -> Callable[..., Array]:
    """The rule that computes in float64 or complex128; the engine rounds the result to its dtype."""

    def rule(*operands: Array, **params: Any) -> Array:
        wide = np.complex128 if dtypes.is_complex(operands[0].dtype) else np.float64
        return f(*(np.asarray(x, wide) for x in operands), **params)

    rule.__name__ = f.__name__
    return rule


def quotient(x: Array, y: Array) -> Array:
    """x / y; of complex numbers that are zero or infinite as annex G of C99, where NumPy gives NaN."""
    out: Array = np.divide(x, y)
    if out.dtype.kind != "c" or np.isfinite(out).all():
        return out
    out = np.array(out)
    x, y = np.broadcast_arrays(x, y)
    inf_x, inf_y = np.isinf(x), np.isinf(y)  # of either part
    zero_y = (y == 0) & np.isfinite(y)
    # An infinite number is a direction: its infinite parts are 1, its others 0.
    ux, uy = _direction(x), _direction(y)
    infinity = np.copysign(np.inf, y.real)
    cases = (
        (zero_y, infinity * x.real, infinity * x.imag),
        (
            inf_x & np.isfinite(y) & ~zero_y,
            np.inf * (ux.real * y.real + ux.imag * y.imag),
            np.inf * (ux.imag * y.real - ux.real * y.imag),
        ),
        (
            np.isfinite(x) & inf_y,
            0.0 * (x.real * uy.real + x.imag * uy.imag),
            0.0 * (x.imag * uy.real - x.real * uy.imag),
        ),
    )
    for where, re, im in cases:
        out.real, out.imag = np.where(where, re, out.real), np.where(where, im, out.imag)
    return out


def _direction(x: Array) -> Array:
    out = np.empty_like(x)
    out.real = np.copysign(np.isinf(x.real), x.real)
    out.imag = np.copysign(np.isinf(x.imag), x.imag)
    return out


def exp(x: Array) -> Array:
    """e to the power x; 0 for complex128 whose real part is -inf, whatever the imaginary part."""
    if x.dtype != np.complex128:
        return np.exp(x)
    out = np.exp(x)
    # exp(-inf + i nan) is 0, exp(x + 0i) is real.
    return np.where(np.isneginf(x.real), 0, out)


def expm1(x: Array) -> Array:
    """e to the power x, less 1; the axis of real numbers and -inf as `exp`."""
    out = np.expm1(x)
    if x.dtype == np.complex128:
        left, real = np.isneginf(x.real), x.imag == 0
        out.real = np.where(left, -1.0, np.where(real, np.expm1(x.real), out.real))
        out.imag = np.where(left, exp(x).imag, np.where(real, x.imag, out.imag))
    return out


def exp2(x: Array) -> Array:
    """2 to the power x."""
    return exp(x * np.log(2)) if x.dtype == np.complex128 else np.exp2(x)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return quotient(np.ones_like(x), 1 + exp(-x)) if x.dtype == np.complex128 else special().expit(x)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return quotient(np.ones_like(x), np.sqrt(x))


def pow_(x: Array, y: Array) -> Array:
    """x to the power y, in double precision."""
    y = y.astype(x.dtype)
    wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
    x, y = x.astype(wide), y.astype(wide)
    if wide is np.float64:
        # NumPy takes the square root where one exponent of 0.5 is for all, which is another number at -inf and at -0.
        root = y == 0.5
        out = np.power(x, y)
        return np.where(root, np.where(np.isneginf(x), np.inf, out + 0.0), out)
    log = np.log(x)
    exponent = np.empty(np.broadcast_shapes(x.shape, y.shape), wide)
    exponent.real = _times(log.real, y.real) - _times(log.imag, y.imag)
    exponent.imag = _times(log.real, y.imag) + _times(log.imag, y.real)
    out = exp(exponent)
    out = np.where(exponent.imag == 0, np.exp(exponent.real), out)
    # As JAX: a power of 0 is 0 for positive real exponents only; 1 to any power is 1, even to NaN.
    out = np.where(x == 0, np.where((y.real > 0) & (y.imag == 0), 0, complex(np.nan, np.nan)), out)
    return np.where((y == 0) | (x == 1), 1, out)


def _times(x: Array, y: Array) -> Array:
    """The product, in which 0 times infinity is 0."""
    return np.where((x == 0) & np.isinf(y) | (y == 0) & np.isinf(x), 0.0, x * y)


def atan2(y: Array, x: Array) -> Array:
    """The angle of the point (x, y)."""
    if x.dtype != np.complex128:
        return np.arctan2(y, x)
    # -i log((x + i y) / sqrt(x^2 + y^2))
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def lgamma(x: Array) -> Array:
    """log |Gamma(x)|."""
    return np.where(np.isinf(x), np.inf, special().gammaln(x))


def digamma(x: Array) -> Array:
    """The derivative of `lgamma`; NaN at its poles."""
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole, np.nan, special().digamma(x))


def erf_inv(x: Array) -> Array:
    """The inverse of the error function; the sign of zero stays."""
    return np.where(x == 0, x, special().erfinv(x))


def bessel_i1e(x: Array) -> Array:
    """exp(-|x|) I1(x); the sign of zero stays."""
    return np.where(x == 0, x, special().i1e(x))


def _log_excess(mu: Array) -> Array:
    """mu - log(1 + mu), by s = mu / (2 + mu) where they are nearly one: log(1 + mu) is 2 artanh(s), and mu - 2s is mu s."""
    near = np.abs(mu) < 0.4
    m = np.where(near, mu, 0.0)
    s = m / (2 + m)
    series = np.polynomial.polynomial.polyval(s * s, [0.0, *(1 / (2 * k + 1) for k in range(1, 16))])
    return np.where(near, s * (m - 2 * series), mu - np.log1p(mu))


def _stirling(a: Array) -> Array:
    """log gamma(a) less (a - 1/2) log a - a + log(2 pi)/2."""
    return np.polynomial.polynomial.polyval(1 / (a * a), [float(c) for c in STIRLING]) / a


def _expands(a: Array, mu: Array) -> Array:
    """Where the expansion for large a holds; SciPy's own ends a few deviations from a, and its series too early."""
    return (a >= LEAST) & (mu > BELOW) & (mu < ABOVE)


def _smaller_expansion(a: Array, mu: Array) -> Array:
    """P(a, a (1 + mu)) for negative mu, else Q, by the expansion of `gamma_coefficients`."""
    half_square = _log_excess(mu)
    eta = np.where(mu < 0, -1.0, 1.0) * np.sqrt(2 * half_square)
    sums = sum(np.polynomial.polynomial.polyval(eta, row) / a**k for k, row in enumerate(coefficients()))
    share = np.where(mu < 0, -1.0, 1.0) * sums / np.sqrt(2 * np.pi * a)
    return np.exp(-a * half_square) * (0.5 * special().erfcx(np.abs(eta) * np.sqrt(a / 2)) + share)


def _gamma_ratio(a: Array, x: Array, lower: bool) -> Array:
    """P(a, x) if `lower`, else Q(a, x); NaN outside their domain."""
    mu = (x - a) / np.where(a >= LEAST, a, 1.0)
    expands = _expands(a, mu)
    smaller = _smaller_expansion(np.where(expands, a, LEAST), np.where(expands, mu, 0.0))
    expanded = np.where((mu < 0) == lower, smaller, 1 - smaller)
    value = (special().gammainc if lower else special().gammaincc)(a, x)
    return np.where((x < 0) | (a < 0) | (np.isinf(a) & np.isinf(x)), np.nan, np.where(expands, expanded, value))


def igamma(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x); NaN outside its domain."""
    return _gamma_ratio(a, x, True)


def igammac(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x); NaN outside its domain."""
    return _gamma_ratio(a, x, False)


def _slope_series(a: Array, x: Array) -> Array:
    """The sum of x^n / ((a+1) ... (a+n)) (log x - digamma(a+n+1)): P's series differentiated term by term."""
    term, slope = np.ones_like(x), np.log(x) - special().digamma(a + 1)
    total = slope.copy()
    for n in range(1, 4000):
        term = term * (x / (a + n))
        slope = slope - 1 / (a + n)
        total = total + term * slope
        if n % 16 == 0 and np.all((np.abs(term * slope) <= 1e-17 * np.abs(total)) & (a + n > x)):
            break
    return total


def _slope_tail(a: Array, x: Array) -> Array:
    """The asymptotic series of Q over its density (NIST DLMF 8.11.2), differentiated term by term."""
    terms, slopes = [np.ones_like(x)], [np.zeros_like(x)]
    for k in range(1, 31):
        slopes.append((slopes[-1] * (a - k) + terms[-1]) / x)
        terms.append(terms[-1] * (a - k) / x)
    return (np.log(x) - special().digamma(a)) * np.sum(terms, axis=0) + np.sum(slopes, axis=0)


def _slope_expansion(a: Array, mu: Array) -> Array:
    """The derivative of a sample a (1 + mu) over the sample for large a, by the expansion of `gamma_coefficients`."""
    polyval = np.polynomial.polynomial.polyval
    eta, logarithm = np.sign(mu) * np.sqrt(2 * _log_excess(mu)), np.log1p(mu)
    safe = np.where(eta == 0, 1.0, eta)
    log_by_eta, mu_by_eta = np.where(eta == 0, 1.0, logarithm / safe), np.where(eta == 0, 1.0, mu / safe)
    total, inverse = log_by_eta, 1 / a
    for k, row in enumerate(coefficients()):
        value, rise = polyval(eta, row), polyval(eta, [i * c for i, c in enumerate(row)][1:] or [0.0])
        slope = value * (logarithm - (k + 0.5) * inverse) - rise * mu_by_eta * inverse
        total = total + slope * inverse**k
    return total * np.exp(_stirling(a)) / a


def _density(a: Array, x: Array) -> Array:
    """x^(a-1) e^-x / gamma(a); a log x, x and log gamma(a) are large where a is, their sum is not."""
    large = a >= 20
    few, small = np.where(large, 1.0, a), np.where(large, 1.0, x)
    many, near = np.where(large, a, 20.0), np.where(large, x, 20.0)
    direct = np.exp((few - 1) * np.log(small) - small - special().gammaln(few))
    exponent = many * _log_excess((near - many) / many) + _stirling(many)
    return np.where(large, np.sqrt(many / (2 * np.pi)) * np.exp(-exponent) / near, direct)


def random_gamma_grad(a: Array, x: Array) -> Array:
    """-(dP/da) / (dP/dx): the implicit derivative of a sample."""
    a, x = np.broadcast_arrays(a, x)
    invalid = (x < 0) | (a <= 0) | np.isnan(a) | np.isnan(x) | np.isinf(a)
    flat = (x == 0) | (np.abs(x - a) > 40 * np.sqrt(np.maximum(a, x)) + 700)
    a, x = np.where(invalid | flat, 1.0, a), np.where(invalid | flat, 1.0, x)
    mu, tail = (x - a) / a, x > 30 + 1.7 * a
    expands = _expands(a, mu)
    other = tail | expands
    near = -_slope_series(np.where(other, 1.0, a), np.where(other, 1.0, x)) * x / a
    value = np.where(tail, _slope_tail(a, np.where(tail, x, 1000.0)), near)
    value = np.where(expands, _slope_expansion(np.where(expands, a, LEAST), np.where(expands, mu, 0.0)) * x, value)
    return np.where(invalid, np.nan, np.where(flat, 0.0, value))


def igamma_grad_a(a: Array, x: Array) -> Array:
    """The derivative of a sample times minus its density x^(a-1) e^-x / gamma(a)."""
    value = random_gamma_grad(a, x)
    return np.where(value == 0, 0.0, -value * _density(a, x))


def zeta(x: Array, q: Array) -> Array:
    """The Hurwitz zeta function: the sum of (q + k)^-x for k = 0, 1, ..."""
    pole = (q <= 0) & (q == np.floor(q))
    value = np.where((q < 0) & ~pole & (x != np.floor(x)), np.nan, special().zeta(x, q))
    value = np.where(pole, np.where(x % 2 == 0, np.inf, np.nan), value)
    value = np.where(x == 1, np.inf, value)
    return np.where(np.isnan(x) | np.isnan(q) | np.isinf(x) | (np.isinf(q) & (x != 1)), np.nan, value)


def polygamma(m: Array, x: Array) -> Array:
    """The m-th derivative of `digamma`."""
    n = m + 1
    value = np.where(n % 2 == 0, 1.0, -1.0) * special().gamma(n) * zeta(n, x)
    value = np.where(m == 0, digamma(x), value)
    return np.where((m < 0) | (m != np.floor(m)), np.nan, value)


def betainc(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function I_x(a, b); NaN outside its domain."""
    invalid = ~(a >= 0) | ~(b >= 0) | (x < 0) | (x > 1) | ((a == b) & ((a == 0) | np.isinf(a)))
    low, high = (x == 0) | (b == 0) | np.isinf(a), (x == 1) | (a == 0) | np.isinf(b)
    value = np.where(low & (x != 1), 0.0, np.where(high, 1.0, special().betainc(a, b, x)))
    return np.where(invalid | np.isnan(x), np.nan, value)


# What NumPy computes as JAX does is found by the name that the declaration gives; these need care, or are SciPy's.
_CAREFUL: dict[Primitive, Callable[..., Array]] = {
    ew.exp_p: exp, ew.expm1_p: expm1, ew.exp2_p: exp2, ew.logistic_p: logistic, ew.rsqrt_p: rsqrt, ew.erf_p: by_special("erf"),
    ew.erfc_p: by_special("erfc"), ew.erf_inv_p: erf_inv, ew.lgamma_p: lgamma, ew.digamma_p: digamma,
    ew.bessel_i0e_p: by_special("i0e"), ew.bessel_i1e_p: bessel_i1e, ew.atan2_p: atan2, ew.igamma_p: igamma,
    ew.igammac_p: igammac, ew.igamma_grad_a_p: igamma_grad_a, ew.random_gamma_grad_p: random_gamma_grad,
    ew.zeta_p: zeta, ew.polygamma_p: polygamma, ew.regularized_incomplete_beta_p: betainc,
}  # fmt: skip
_NUMPY: dict[Primitive, Callable[..., Array]] = {
    p: getattr(np, p.numpy)
    for p in PRIMITIVES.values()
    if p.family == "elementwise" and p.numpy and (p.rounding == "approximate" or p is ew.sqrt_p)
}
for _p, _f in (_NUMPY | _CAREFUL).items():
    reference.add(_p, in_double(_f))
reference.add(ew.pow_p, pow_)

#: NumPy's own float32 loops, within 4 units in the last place and several times quicker than rounding from float64:
#: for eager calls, which are no oracle.
SINGLE = _NUMPY

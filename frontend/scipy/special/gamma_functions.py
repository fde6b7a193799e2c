"""The gamma, beta and zeta functions and their kin."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.errors import ConcretizationTypeError
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import INEXACT, Value, array, cast, concrete, is_double, operands, strong, widened
from ...transforms.custom_derivatives import custom_jvp, define_partials
from ...transforms.differentiation import jvp
from .series import Chebyshev, horner

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _bernoulli_numbers(n: int) -> list[Fraction]:
    """B_0 ... B_n by the Akiyama-Tanigawa transform, exactly; B_1 = -1/2."""
    out: list[Fraction] = []
    row = [Fraction(0)] * (n + 1)
    for m in range(n + 1):
        row[m] = Fraction(1, m + 1)
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
        out.append(row[0])
    if n:
        out[1] = Fraction(-1, 2)
    return out


_B = tuple(_bernoulli_numbers(20))
# Of 1/x, 1/x**3, ...: the Stirling series of log gamma less its leading terms (NIST DLMF 5.11.1), highest first.
_STIRLING = tuple(float(_B[2 * k] / (2 * k * (2 * k - 1))) for k in range(8, 0, -1))


def bernoulli(n: int) -> Value:
    """The Bernoulli numbers B_0, ..., B_n, with B_1 = -1/2.

    Args:
        n: a Python integer of at least 0.

    Returns:
        A vector of n + 1 numbers of the default float dtype: exact fractions, rounded once.

    Raises:
        TypeError: n is no Python integer.
        ValueError: n is negative.

    Follows `scipy.special.bernoulli`.

    >>> quire.scipy.special.bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333334],      dtype=float32)
    """
    if not isinstance(n, int | np.integer):
        raise TypeError(f"quire.scipy.special.bernoulli: n must be a Python integer, got {n!r}")
    if n < 0:
        raise ValueError(f"quire.scipy.special.bernoulli: n must be at least 0, got {n}")
    numbers = _bernoulli_numbers(int(n))
    with np.errstate(over="ignore"):
        values = np.array([_as_float(b) for b in numbers], dtype=dtypes.canonicalize(dtypes.float64))
    return qnp.asarray(values)


def _as_float(b: Fraction) -> float:
    try:
        return float(b)
    except OverflowError:
        return math.inf if b > 0 else -math.inf


def gammaln(x: Any) -> Value:
    """log(abs(gamma(x))): inf at 0, -1, -2, ...

    Args:
        x: a real array or number.

    Returns:
        An array of x's shape; integers and bool become the default float.

    Follows `scipy.special.gammaln`.

    >>> quire.scipy.special.gammaln(1.0).item()
    0.0
    """
    return ew.lgamma(*operands("special.gammaln", x))


def gammasgn(x: Any) -> Value:
    """The sign of gamma(x): NaN at the negative integers, -1 at -0. Follows `scipy.special.gammasgn`.

    >>> quire.scipy.special.gammasgn(-0.5).item()
    -1.0
    """
    (x,) = operands("special.gammasgn", x)
    return _gammasgn(x)


def _gammasgn(x: Value) -> Value:
    below = qnp.floor(x)
    odd = below * 0.5 != qnp.floor(below * 0.5)
    negative = qnp.where(below == x, np.nan, qnp.where(odd, -1.0, 1.0))
    sign = qnp.where(x < 0, negative, qnp.where(qnp.signbit(x), -1.0, 1.0))
    return cast(qnp.where(qnp.isnan(x) | qnp.isneginf(x), np.nan, sign), aval_of(x).dtype)


def _stirling_correction(x: Value) -> Value:
    """log gamma(x) less (x - 1/2) log x - x + log(2 pi)/2, for x of 10 or more."""
    inverse = 1.0 / x
    return horner(inverse * inverse, _STIRLING) * inverse


def _gamma_table(x: Any) -> Any:
    import scipy.special

    return scipy.special.gamma(x)


_GAMMA = Chebyshev(_gamma_table, 2.0, 3.0, 18)


def _gamma_positive(x: Value) -> Value:
    """gamma(x) for x >= 1/2, as Cephes does: products of x - 1, x - 2, ... below 33, beyond them Stirling's formula."""
    large = x > 33.0
    small = qnp.where(large, 2.0, x)
    product: Any = 1.0
    steps = qnp.floor(small) - 2.0  # small - steps is in [2, 3), where the series in x - 2 holds
    for k in range(1, 32):
        product = product * qnp.where(k <= steps, small - float(k), 1.0)
    rest = small - steps
    # 1/2 <= x < 2: gamma(x) = gamma(x + 1) / x
    product = qnp.where(steps < -0.5, 1.0 / small, product)
    product = qnp.where(steps < -1.5, product / (small + 1.0), product)
    near = product * _GAMMA(rest)
    big = qnp.where(large, x, 34.0)
    half = qnp.power(big, 0.5 * big - 0.25)  # in two factors, so that a finite result does not overflow
    far = (half * ew.exp(-big)) * half * (math.sqrt(2 * math.pi) * ew.exp(_stirling_correction(big)))
    limit = 171.7 if is_double(x) else 35.1
    return qnp.where(large, qnp.where(x > limit, np.inf, far), near)


@custom_jvp
def _gamma(x: Value) -> Value:
    mirrored = x < 0.5
    value = _gamma_positive(qnp.where(mirrored, 1.0 - x, x))
    # gamma(x) = pi / (sin(pi x) gamma(1 - x)), the sine of the distance from the nearest integer
    nearest = qnp.round(x)
    odd = nearest * 0.5 != qnp.floor(nearest * 0.5)
    sine = ew.sin(math.pi * (x - nearest))
    reflected = math.pi / (qnp.where(odd, -sine, sine) * value)
    # 1 - x is inexact next to 0, where gamma(x) = gamma(x + 1) / x
    close = qnp.abs(x) < 0.5
    reflected = qnp.where(close, _gamma_positive(qnp.where(close, x + 1.0, 1.0)) / x, reflected)
    value = qnp.where(mirrored, reflected, value)
    pole = ((x < 0) & (x == nearest)) | qnp.isnan(x)
    return qnp.where(pole, np.nan, value)


@_gamma.defjvp
def _gamma_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value = _gamma(x)
    return value, t * value * ew.digamma(x)


def gamma(x: Any) -> Value:
    """The gamma function: inf at 0, NaN at the negative integers.

    Args:
        x: an array or number, real or complex.

    Returns:
        An array of x's shape; integers and bool become the default float. For real x products, a series on [2, 3] and
        Stirling's formula, as in Cephes; for complex x exp(loggamma(x)).

    Follows `scipy.special.gamma`.

    >>> quire.scipy.special.gamma(quire.numpy.array([1., 4., 6.]))
    Array([  1.,   6., 120.], dtype=float32)
    """
    (z,) = operands("special.gamma", x, complex_ok=True)
    if dtypes.is_complex(aval_of(z).dtype):
        return ew.exp(_loggamma(z))
    return widened(_gamma, *strong([z]))


@custom_jvp
def _loggamma(z: Value) -> Value:
    """log gamma for complex z: D.E.G. Hare, J. Algorithms 25 (1997): recurrence, reflection and Stirling's series."""
    x, y = ew.real(z), ew.imag(z)
    direct = (x > 7.0) | (qnp.abs(y) > 7.0)
    mirrored = ~direct & (x < 0.1)
    w = qnp.where(mirrored, 1.0 - z, z)
    logs: Any = 0.0
    shifted = w
    for _ in range(8):
        low = ~direct & (ew.real(shifted) <= 7.0)
        logs = logs + ew.log(qnp.where(low, shifted, 1.0))
        shifted = qnp.where(low, shifted + 1.0, shifted)
    series = (shifted - 0.5) * ew.log(shifted) - shifted + _HALF_LOG_2PI + _stirling_correction(shifted)
    value = series - logs
    turns = qnp.copysign(2 * math.pi, y) * qnp.floor(0.5 * x + 0.25)
    safe = qnp.where(mirrored, z, 0.5)
    nearest = qnp.round(ew.real(safe))
    odd = nearest * 0.5 != qnp.floor(nearest * 0.5)
    # sin(pi z); the cosine of its real part must not become negative, which would change the branch of the logarithm.
    rest, height = ew.real(safe) - nearest, math.pi * ew.imag(safe)
    real = ew.sin(math.pi * rest) * ew.cosh(height)
    imaginary = ew.sin(math.pi * (0.5 - qnp.abs(rest))) * ew.sinh(height)
    sine = ew.complex(qnp.where(odd, -real, real), qnp.where(odd, -imaginary, imaginary))
    reflected = ew.complex(qnp.full_like(x, math.log(math.pi)), cast(turns, aval_of(x).dtype)) - ew.log(sine) - value
    return qnp.where(mirrored, reflected, value)


@_loggamma.defjvp
def _loggamma_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    return _loggamma(z), t * _complex_digamma(z)


def _complex_digamma(z: Value) -> Value:
    x = ew.real(z)
    mirrored = x < 0.5
    w = qnp.where(mirrored, 1.0 - z, z)
    total: Any = 0.0
    for _ in range(10):
        low = ew.real(w) < 10.0
        total = total - qnp.where(low, 1.0 / w, 0.0)
        w = qnp.where(low, w + 1.0, w)
    inverse = 1.0 / (w * w)
    series = tuple(float(_B[2 * k] / (2 * k)) for k in range(8, 0, -1))
    value = total + ew.log(w) - 0.5 / w - horner(inverse, series) * inverse
    return qnp.where(mirrored, value - math.pi / ew.tan(math.pi * qnp.where(mirrored, z, 0.25)), value)


def loggamma(x: Any) -> Value:
    """The principal branch of log(gamma(x)): NaN for real x of 0 or less, where it is complex.

    Args:
        x: an array or number, real or complex.

    Returns:
        An array of x's shape; integers and bool become the default float. For complex x the algorithm of D.E.G. Hare,
        J. Algorithms 25 (1997).

    Follows `scipy.special.loggamma`.

    >>> quire.scipy.special.loggamma(2.0).item()
    0.0
    """
    (z,) = operands("special.loggamma", x, complex_ok=True)
    if dtypes.is_complex(aval_of(z).dtype):
        return _loggamma(z)
    beyond = qnp.where(z > 0, 0.0, z)
    nan = qnp.sqrt(qnp.where(z > 0, 1.0, -1.0 - beyond * beyond))  # and so is its derivative
    return qnp.where(z > 0, ew.lgamma(qnp.where(z > 0, z, 1.0)), nan)


def digamma(x: Any) -> Value:
    """The derivative of log(gamma(x)): NaN at 0, -1, -2, ... Follows `scipy.special.digamma`.

    >>> round(quire.scipy.special.digamma(1.0).item(), 4)
    -0.5772
    """
    return ew.digamma(*operands("special.digamma", x))


def polygamma(n: Any, x: Any) -> Value:
    """The n-th derivative of digamma at x.

    Args:
        n: integers of at least 0. x: a real array or number.

    Raises:
        ValueError: n is not of an integer dtype.

    Follows `scipy.special.polygamma`.

    >>> round(quire.scipy.special.polygamma(1, 1.0).item(), 4)
    1.6449
    """
    order = array("special.polygamma", n)
    if not dtypes.is_integer(aval_of(order).dtype):
        raise ValueError(f"quire.scipy.special.polygamma: n must be integers, got {aval_of(order).short()}")
    y = array("special.polygamma", x, 1)
    if aval_of(y).dtype in INEXACT:
        order = cast(order, aval_of(y).dtype, True)
    return ew.polygamma(*operands("special.polygamma", order, y))


def gammainc(a: Any, x: Any) -> Value:
    """The regularised lower incomplete gamma function P(a, x).

    Args:
        a, x: real arrays or numbers, of shapes that broadcast; NaN where one is negative.

    Follows `scipy.special.gammainc`.

    >>> round(quire.scipy.special.gammainc(1.0, 1.0).item(), 4)
    0.6321
    """
    return ew.igamma(*operands("special.gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Value:
    """The regularised upper incomplete gamma function, 1 - P(a, x). Follows `scipy.special.gammaincc`.

    >>> round(quire.scipy.special.gammaincc(1.0, 1.0).item(), 4)
    0.3679
    """
    return ew.igammac(*operands("special.gammaincc", a, x))


# -- beta function ----------------------------------------------------------------------------------------------------


def _log_sine(x: Value) -> Value:
    """log(abs(sin(pi x)))."""
    return ew.log(qnp.abs(_sin_half_pi(2.0 * x)))


def _log_gamma_quotient(x: Value, d: Value, end: Value) -> Value:
    """log(gamma(x) / gamma(end)) for end = x + d, both of 10 or more, without a difference of their logarithms."""
    corrections = _stirling_correction(x) - _stirling_correction(end)
    return corrections - (x - 0.5) * ew.log1p(d / x) - d * (ew.log(end) - 1.0)


@custom_jvp
def betaln_(a: Value, b: Value) -> Value:
    """As TOMS 708 (Didonato and Morris 1992): where b is large, differences of large logarithms are never formed.

    Where the sum is negative, gamma(a) / gamma(a + b) is gamma(1 - a - b) sin(pi (a + b)) / (gamma(1 - a) sin(pi a)).
    """
    least, most = qnp.minimum(a, b), qnp.maximum(a, b)
    mirrored = (least < 0) & (a + b <= 0) & qnp.isfinite(least)
    image = 1.0 - (a + b)
    low = qnp.where(mirrored, qnp.minimum(most, image), least)
    high = qnp.where(mirrored, qnp.maximum(most, image), most)
    total = qnp.where(mirrored, 1.0 - least, a + b)
    sines = qnp.where(
        mirrored, _log_sine(qnp.where(mirrored, 1.0 - image, 0.5)) - _log_sine(qnp.where(mirrored, least, 0.5)), 0.0
    )

    log_low = ew.lgamma(low)
    plain = log_low + (ew.lgamma(high) - ew.lgamma(total))
    finite = qnp.isfinite(high)
    large = finite & (high >= 10.0) & (total >= 10.0)
    # Of opposite signs and nearly one size: gamma(low) is pi / (sin(pi low) gamma(1 - low)), and 1 - low near to high.
    opposite = finite & (high >= 10.0) & (total < 10.0) & (low <= -9.0)
    q = qnp.where(large | opposite, high, 10.0)
    p = qnp.where(opposite, 1.0 - total, qnp.where(large, low, 1.0))
    end = qnp.where(opposite, 1.0 - low, qnp.where(large, total, 11.0))
    quotient = _log_gamma_quotient(q, p, end)
    pole = _log_sine(qnp.where(opposite, low, 0.5))
    across = math.log(math.pi) - pole - ew.lgamma(qnp.where(opposite, total, 1.0)) + quotient
    both = qnp.where(p >= 10.0, p, 10.0)
    r = both / q
    two = (
        _HALF_LOG_2PI - 0.5 * ew.log(q) + (_stirling_correction(q) - _stirling_correction(both + q) + _stirling_correction(both))
        + (both - 0.5) * ew.log(r / (1.0 + r)) - q * ew.log1p(r)
    )  # fmt: skip
    value = qnp.where(large, qnp.where(p >= 10.0, two, log_low + quotient), qnp.where(opposite, across, plain))
    return qnp.where(qnp.isposinf(high) & (low > 0), -np.inf, value + sines)


# Of 1/x**2, 1/x**4, ...: log x - 1/(2 x) - digamma(x) (NIST DLMF 5.11.2), highest first.
_DIGAMMA = tuple(float(_B[2 * k] / (2 * k)) for k in range(8, 0, -1))


def _digamma_rise(x: Value, d: Value) -> Value:
    """digamma(x + d) - digamma(x), without their difference where both are positive, or both negative."""
    negative = (x < 0) & (x + d < 0)
    alike = negative | ((x > 0) & (x + d > 0)) & qnp.isfinite(x) & qnp.isfinite(d)
    # From the mirror image 1 - x - d to 1 - x, where both are negative.
    start = qnp.where(alike, qnp.where(negative, 1.0 - (x + d), x), 1.0)
    step = qnp.where(alike, d, 0.0)
    total: Any = 0.0
    for k in range(10):
        total = total + step / (start + float(k)) / (start + step + float(k))  # the product of tiny numbers is 0
    start = start + 10.0
    end = start + step
    u, v = 1.0 / (start * start), 1.0 / (end * end)
    # The rise of a polynomial of 1/x**2 is that of 1/x**2 times its divided difference.
    value, divided = qnp.zeros_like(u), qnp.zeros_like(u)
    for c in (*_DIGAMMA, 0.0):
        divided = divided * v + value
        value = value * u + c
    reciprocals = step / (start * end)
    rise = total + ew.log1p(step / start) + reciprocals * (0.5 + divided * (1.0 / start + 1.0 / end))
    poles = _sin_half_pi(2.0 * qnp.where(negative, x, 0.5)) * _sin_half_pi(2.0 * qnp.where(negative, x + d, 0.5))
    rise = qnp.where(negative, math.pi * _sin_half_pi(2.0 * step) / poles - rise, rise)
    other_x, other_end = qnp.where(alike, 1.0, x), qnp.where(alike, 1.0, x + d)
    return qnp.where(alike, rise, ew.digamma(other_end) - ew.digamma(other_x))


define_partials(
    betaln_,
    lambda t, value, a, b: -t * _digamma_rise(a, b),
    lambda t, value, a, b: -t * _digamma_rise(b, a),
)


def betaln(a: Any, b: Any) -> Value:
    """log(abs(beta(a, b))).

    Args:
        a, b: real arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape. Accurate for large arguments: TOMS algorithm 708 (Didonato and Morris 1992).

    Follows `scipy.special.betaln`.

    >>> quire.scipy.special.betaln(1.0, 1.0).item()
    0.0
    """
    return widened(betaln_, *operands("special.betaln", a, b))


def beta(a: Any, b: Any) -> Value:
    """The beta function, gamma(a) gamma(b) / gamma(a + b). Follows `scipy.special.beta`.

    >>> round(quire.scipy.special.beta(2.0, 3.0).item(), 5)
    0.08333
    """
    return widened(_beta, *operands("special.beta", a, b))


def _beta(a: Value, b: Value) -> Value:
    return _gammasgn(a) * _gammasgn(b) * _gammasgn(a + b) * ew.exp(betaln_(a, b))


def betainc(a: Any, b: Any, x: Any) -> Value:
    """The regularised incomplete beta function I_x(a, b).

    Args:
        a, b, x: real arrays or numbers, of shapes that broadcast; NaN where a or b is negative or x outside of [0, 1].

    Follows `scipy.special.betainc`.

    >>> quire.scipy.special.betainc(1.0, 1.0, 0.25).item()
    0.25
    """
    return ew.regularized_incomplete_beta(*operands("special.betainc", a, b, x))


# -- products ---------------------------------------------------------------------------------------------------------


def factorial(n: Any, exact: bool = False) -> Value:
    """gamma(n + 1): the product 1 * 2 * ... * n; 0 for negative n.

    Args:
        n: a real array or number.
        exact: must be False: arrays hold no integers of any size.

    Raises:
        NotImplementedError: `exact` is true.

    Follows `scipy.special.factorial`.

    >>> quire.scipy.special.factorial(5).item()
    120.0
    """
    if exact:
        raise NotImplementedError(
            "quire.scipy.special.factorial: exact=True is not supported, arrays hold no integers of any size: "
            "use math.factorial"
        )
    (x,) = operands("special.factorial", n)
    return qnp.where(x < 0, 0.0, widened(_gamma, qnp.where(x < 0, 0.0, x) + 1.0))


# With up to so many factors, products of integers are formed as such: they are then exact.
_FACTORS = 20


@custom_jvp
def _poch(z: Value, m: Value) -> Value:
    whole = (m == qnp.round(m)) & (qnp.abs(m) <= _FACTORS)
    up: Any = 1.0
    down: Any = 1.0
    for k in range(_FACTORS):
        up = up * qnp.where(k < m, z + float(k), 1.0)
        down = down * qnp.where(k < -m, z - float(k + 1), 1.0)
    product = qnp.where(m < 0, qnp.where(down == 0, np.inf, 1.0 / down), up)
    large = (z >= 10.0) & (z + m >= 10.0) & qnp.isfinite(z) & qnp.isfinite(m)
    far, by = qnp.where(large, z, 10.0), qnp.where(large, m, 1.0)
    logarithm = qnp.where(large, -_log_gamma_quotient(far, by, far + by), ew.lgamma(z + m) - ew.lgamma(z))
    ratio = ew.exp(logarithm) * _gammasgn(z + m) * _gammasgn(z)
    return qnp.where(whole, product, ratio)


define_partials(
    _poch,
    lambda t, value, z, m: t * (value * _digamma_rise(z, m)),
    lambda t, value, z, m: t * (value * ew.digamma(z + m)),
)


def poch(z: Any, m: Any) -> Value:
    """The rising factorial, gamma(z + m) / gamma(z).

    Args:
        z, m: real arrays or numbers, of shapes that broadcast.

    Follows `scipy.special.poch`.

    >>> quire.scipy.special.poch(2.0, 3.0).item()
    24.0
    """
    return widened(_poch, *operands("special.poch", z, m))


@custom_jvp
def _binomial(n: Value, k: Value) -> Value:
    least = qnp.minimum(k, n - k)
    few = (least == qnp.round(least)) & (least <= _FACTORS)
    product: Any = 1.0
    for i in range(1, _FACTORS + 1):
        # Each quotient is exact for integers: the products of i neighbours are multiples of i.
        product = qnp.where(i <= least, product * (n - least + float(i)) / float(i), product)
    general = ew.exp(-betaln_(1.0 + n - k, 1.0 + k)) / (n + 1.0)
    return qnp.where(few, product, general)


define_partials(
    _binomial,
    lambda t, value, n, k: t * (value * _digamma_rise(n - k + 1.0, k)),
    lambda t, value, n, k: t * (value * _digamma_rise(k + 1.0, n - 2.0 * k)),
)


def comb(N: Any, k: Any, *, repetition: bool = False) -> Value:
    """The number of ways to choose k of N things; 0 for k > N and where one is negative.

    Args:
        N, k: real arrays or numbers, of shapes that broadcast.
        repetition: whether a thing may be chosen more than once.

    Follows `scipy.special.comb`.

    >>> quire.scipy.special.comb(5, 2).item()
    10.0
    """
    n, k = operands("special.comb", N, k)
    valid = (k >= 0) & (n >= 0)
    if repetition:
        nothing = valid & (n == 0) & (k == 0)
        n = qnp.where(nothing, 0.0, n + k - 1.0)
    valid = valid & (k <= n)
    value = widened(_binomial, qnp.where(valid, n, 1.0), qnp.where(valid, k, 0.0))
    value = qnp.where(valid, value, 0.0)
    return qnp.where(qnp.isnan(n) | qnp.isnan(k), np.nan, value)


def multigammaln(a: Any, d: Any) -> Value:
    """The logarithm of the multivariate gamma function of dimension d.

    Args:
        a: a real array or number, greater than (d - 1)/2.
        d: an integer known while tracing.

    Returns:
        An array of a's shape: the sum of gammaln(a - j/2) for j < d, and d (d - 1)/4 log(pi).

    Raises:
        ConcretizationTypeError: d is traced.
        TypeError: d is not one integer.

    Follows `scipy.special.multigammaln`.

    >>> round(quire.scipy.special.multigammaln(3.0, 2).item(), 4)
    1.5502
    """
    value = concrete(d)
    if value is None:
        raise ConcretizationTypeError(
            "quire.scipy.special.multigammaln: the dimension d must be known while tracing: give a Python integer, "
            "or mark the argument as static"
        )
    if value.shape or value != np.floor(value):
        raise TypeError(f"quire.scipy.special.multigammaln: d must be one integer, got {d!r}")
    n = int(value)
    (x,) = operands("special.multigammaln", a)
    total: Any = n * (n - 1) / 4 * math.log(math.pi)
    for j in range(n):
        total = total + ew.lgamma(x - j / 2)
    return total if n else qnp.zeros_like(x)


# -- zeta -------------------------------------------------------------------------------------------------------------


def _euler_maclaurin(x: Value, q: Value) -> Value:
    """Hurwitz's zeta function for x > 1, q > 0 (NIST DLMF 25.11.5), to be differentiated by x."""
    total: Any = 0.0
    for k in range(10):
        total = total + ew.exp(-x * ew.log(q + float(k)))
    end = q + 10.0
    power = ew.exp(-x * ew.log(end))
    total = total + power * end / (x - 1.0) + 0.5 * power
    term = power * (x / end)
    for j in range(1, 9):
        total = total + float(_B[2 * j] / math.factorial(2 * j)) * term
        # One by one, from the power on: products of the factors alone overflow for large x, where the power is 0.
        term = term * ((x + (2.0 * j - 1.0)) / end) * ((x + 2.0 * j) / end)
    return total


@custom_jvp
def _hurwitz(x: Value, q: Value) -> Value:
    return ew.zeta(x, q)


def _hurwitz_by_x(t: Value, value: Value, x: Value, q: Value) -> Value:
    return t * jvp(lambda s: _euler_maclaurin(s, q), (x,), (qnp.ones_like(x),))[1]


def _hurwitz_by_q(t: Value, value: Value, x: Value, q: Value) -> Value:
    # As s goes to 0, so does s zeta(s + 1, q) to 1: the residue at the pole.
    return -t * qnp.where(x == 0, 1.0, x * _hurwitz(qnp.where(x == 0, 2.0, x + 1.0), q))


define_partials(_hurwitz, _hurwitz_by_x, _hurwitz_by_q)


def _alternating(x: Value) -> Value:
    """Riemann's zeta function for -1/2 <= x < 1: P. Borwein's algorithm 2 (CMS Conf. Proc. 27, 2000)."""
    n = 22 if is_double(x) else 10
    terms = [
        Fraction(math.factorial(n + i - 1) * 4**i, math.factorial(n - i) * math.factorial(2 * i)) for i in range(n + 1)
    ]
    sums = [n * sum(terms[: k + 1]) for k in range(n + 1)]
    total: Any = 0.0
    for k in range(n):
        weight = float((-1) ** k * (sums[k] / sums[n] - 1))
        total = total + weight * ew.exp(-x * math.log(k + 1.0))
    return -total / -ew.expm1((1.0 - x) * math.log(2.0))


def _riemann(x: Value) -> Value:
    right, inner = x > 1.0, (x >= -0.5) & (x < 1.0)
    negative = x < 0
    y = qnp.where(negative, 1.0 - x, qnp.where(right, x, 2.0))
    above = _hurwitz(y, qnp.ones_like(y))
    # DLMF 25.4.1
    low = qnp.where(negative, x, -1.0)
    moderate = qnp.power(2 * math.pi, low - 1.0) * _gamma(1.0 - low)
    factor = qnp.where(low > -25.0, moderate, ew.exp(ew.lgamma(1.0 - low) + (low - 1.0) * math.log(2 * math.pi)))
    sine = _sin_half_pi(low)
    left = qnp.where(sine == 0, 0.0, 2.0 * factor * sine * above)
    value = qnp.where(inner, _alternating(qnp.where(inner, x, 0.5)), qnp.where(negative, left, above))
    value = qnp.where(x == 1, np.inf, qnp.where(qnp.isposinf(x), 1.0, value))
    return qnp.where(qnp.isnan(x) | qnp.isneginf(x), np.nan, value)


def _sin_half_pi(x: Value) -> Value:
    """sin(pi x / 2), exactly 0 at even x."""
    turns = qnp.round(0.5 * x)
    sine = ew.sin(0.5 * math.pi * (x - 2.0 * turns))
    return qnp.where(turns * 0.5 != qnp.floor(turns * 0.5), -sine, sine)


def zeta(x: Any, q: Any = None) -> Value:
    """Hurwitz's zeta function, the sum of (k + q)**-x over k = 0, 1, ...; Riemann's for q=None.

    Args:
        x: a real array or number; with q greater than 1, else NaN.
        q: a real array or number, of a shape that broadcasts with x's.

    Returns:
        An array of the broadcast shape. Riemann's function is continued to x <= 1 (JAX has no form without q).

    Follows `scipy.special.zeta`.

    >>> round(quire.scipy.special.zeta(2.0).item(), 5)
    1.64493
    """
    if q is None:
        return widened(_riemann, *operands("special.zeta", x))
    return widened(_hurwitz, *operands("special.zeta", x, q))

"""StableHLO lowering of transcendental functions of real operands.

IREE's own operation is used where its values are within a few ulp of the truth and its special values are JAX's;
elsewhere a formula stands in. The coefficients of sine, cosine, tangent and their inverses for float32 are those of
the Cephes library (S. Moshier), whose errors are 1-2 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew

from . import hlo
from .elementwise_complex import COMPLEX_RULES
from .formulas import (
    Num,
    by_dtype,
    const,
    direct,
    exp,
    expm1,
    floor,
    formula,
    has_libm,
    is_nan,
    libm,
    log,
    log1p,
    of_float64,
    polynomial,
    round_,
    signbit,
    sqrt,
    target_has_libm,
    where,
    with_sign,
)  # fmt: skip
from .lowering import FORMULAS, Ctx, LoweringRule

PI = math.pi


def odd(f: Callable[[Num], Num]) -> LoweringRule:
    """The formula of an odd function, from one for x >= 0; keeps -0."""

    def whole(x: Num) -> Num:
        return with_sign(f(abs(x)), x)

    whole.__name__ = f.__name__
    return formula(whole)


def keeps_zero(build: Callable[[Any], Any], wrap: Callable[..., LoweringRule] = direct) -> LoweringRule:
    """A direct operation that is x at x = 0, whose zero has lost its sign in IREE."""

    def corrected(x: Any) -> Any:
        element = np.dtype(np.float64) if "f64" in str(x.type) else np.dtype(np.float32)
        return hlo.select(hlo.compare(x, hlo.full_like(x, 0, element), "EQ"), x, build(x))

    return wrap(corrected)


def chlo(name: str) -> Callable[..., Any]:
    """An operation of the chlo dialect, with the operand's type."""

    def build(*operands: Any) -> Any:
        return hlo.op1("chlo." + name, list(operands), operands[0].type)

    return build


# -- sine, cosine, tangent --------------------------------------------------------------------------------------------

# 2/pi in three parts whose products with a float32 of the given range are exact in float64 (Payne and Hanek): leading
# bits, which only add multiples of four to the product, are left out. Rows: |x| below 2^31, 2^63, 2^95, 2^128.
_TWO_OVER_PI = tuple(
    tuple(map(float.fromhex, row))
    for row in (
        ("0x1.45f306dp-1", "0x1.9391054p-30", "0x1.4fe13abe8fa9ap-59"),
        ("0x1.7cc1b72p-7", "0x1.c882a52p-37", "0x1.f84eafa3ea69bp-65"),
        ("0x1.220a94fp-39", "0x1.c2757d1p-68", "0x1.ea69bb81b6c52p-97"),
        ("0x1.3abe8fp-75", "0x1.534ddcp-100", "0x1.b6c52b3278872p-129"),
    )
)


def quadrant(x: Num) -> tuple[Num, Num, Num]:
    """Of a float32 x: whether its quadrant is odd, whether it is the 2nd or 3rd, and |x| - quadrant * pi/2.

    Exact for every float32, in float64 additions and multiplications.
    """
    a = abs(x).astype(dtypes.float64)

    def part(i: int) -> Num:
        rows = [row[i] for row in _TWO_OVER_PI]
        out = where(a < 2.0**31, const(rows[0], a), const(rows[1], a))
        return where(a < 2.0**63, out, where(a < 2.0**95, const(rows[2], a), const(rows[3], a)))

    def modulo4(p: Num) -> Num:
        return p - 4.0 * floor(0.25 * p)

    first, second, third = modulo4(a * part(0)), modulo4(a * part(1)), a * part(2)
    q = round_(first + second + third)
    rest = ((first - q) + second) + third
    r = (rest * (PI / 2)).astype(dtypes.float32)
    q = modulo4(q)
    return (q - 2.0 * floor(0.5 * q)).eq(1.0), q >= 2.0, r


def sine_cosine(r: Num) -> tuple[Num, Num]:
    """sin and cos on [-pi/4, pi/4]."""
    z = r * r
    s = r + r * z * polynomial(z, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
    c = polynomial(z, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2))
    return s, 1.0 - 0.5 * z + z * z * c


@formula
def sin32(x: Num) -> Num:
    """sin of float32."""
    swapped, lower, r = quadrant(x)
    s, c = sine_cosine(r)
    y = where(swapped, c, s)
    return with_sign_flipped(where(lower, -y, y), x)


def with_sign_flipped(y: Num, x: Num) -> Num:
    """y, negated where x is negative."""
    return where(signbit(x), -y, y)


@formula
def cos32(x: Num) -> Num:
    """cos of float32."""
    swapped, lower, r = quadrant(x)
    s, c = sine_cosine(r)
    y = where(swapped, s, c)
    return where(swapped ^ lower, -y, y)


@formula
def tan32(x: Num) -> Num:
    """tan of float32."""
    swapped, _, r = quadrant(x)
    s, c = sine_cosine(r)
    return with_sign_flipped(where(swapped, -c, s) / where(swapped, s, c), x)


# -- their inverses -----------------------------------------------------------------------------------------------------

_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def asin_core(a: Num) -> tuple[Num, Num]:
    """For 0 <= a: whether a > 1/2, and asin(a) or else asin(sqrt((1 - a) / 2)). NaN for a > 1."""
    big = a > 0.5
    z = where(big, 0.5 * (1.0 - a), a * a)
    s = where(big, sqrt(z), a)
    return big, s + s * z * polynomial(z, _ASIN)


@odd
def asin32(a: Num) -> Num:
    """asin of float32."""
    big, p = asin_core(a)
    return where(big, PI / 2 - 2.0 * p, p)


@formula
def acos32(x: Num) -> Num:
    """acos of float32."""
    big, p = asin_core(abs(x))
    negative = x < 0
    small = PI / 2 - with_sign_flipped(p, x)
    return where(big, where(negative, PI - 2.0 * p, 2.0 * p), small)


def atan_positive(a: Num) -> Num:
    """atan for a >= 0."""
    high, middle = a > 2.414213562373095, a > 0.4142135623730950
    t = where(high, -1.0 / a, where(middle, (a - 1.0) / (a + 1.0), a))
    start = where(high, const(PI / 2, a), where(middle, const(PI / 4, a), const(0, a)))
    z = t * t
    return start + (t + t * z * polynomial(z, _ATAN))


atan32 = odd(atan_positive)


def _atan2(atan: Callable[[Num], Num]) -> LoweringRule:
    def atan2(y: Num, x: Num) -> Num:
        ax, ay = abs(x), abs(y)
        steep = ay > ax
        large, small = where(steep, ay, ax), where(steep, ax, ay)
        ratio = where(large.eq(0), small, where(small.eq(np.inf), const(1, x), small / large))
        a = atan(ratio)
        a = where(steep, PI / 2 - a, a)
        a = where(signbit(x), PI - a, a)
        return where(is_nan(x) | is_nan(y), const(np.nan, x), with_sign(a, y))

    return formula(atan2)


# -- exponentials and powers ----------------------------------------------------------------------------------------------


# Added to a small number it leaves no bits for a fraction; the lowest ones are then the nearest integer.
_SHIFTER = 1.5 * 2.0**23


def _nearest(x: Num) -> tuple[Num, Num]:
    """The integer nearest to a float32 x below 2^21, and bits whose lowest ones are that integer."""
    shifted = x + _SHIFTER
    return shifted - _SHIFTER, shifted.bits()


def _power_of_two(n: Num) -> Num:
    """2^n in float32, by the exponent's bits, for an int32 n whose lowest bits are the exponent of a normal number."""
    return Num(ew.bitcast_convert_type(((n + np.int32(127)) << np.int32(23)).value, dtypes.float32))


def _between(low: float, x: Num, high: float) -> Num:
    """x within bounds; NaN stays NaN."""
    return where(x > high, const(high, x), where(x < low, const(low, x), x))


# (e^r - 1 - r) / r^2 by r, the highest power first: Taylor's series, to 2e-8 of e^r - 1 up to log(2) / 2.
_EXPM1 = tuple(1 / math.factorial(k) for k in range(7, 1, -1))
_EXP2 = tuple(math.log(2) ** k / math.factorial(k) for k in range(7, -1, -1))
# log(2) in two parts, of which the first one's product with a small integer is exact.
_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440054690583e-4


@formula
def expm1_32(x: Num) -> Num:
    """2^n (e^r - 1) + (2^n - 1) for x = n log 2 + r; half of both, so that 2^n does not overflow before the result."""
    clean = _between(-30.0, x, 88.9)
    n, bits = _nearest(clean * (1 / math.log(2)))
    r = (clean - n * _LOG2_HIGH) - n * _LOG2_LOW
    half = _power_of_two(bits - np.int32(1))
    y = 2.0 * (half * (r + r * r * polynomial(r, _EXPM1)) + (half - 0.5))
    return where(abs(x) < 1e-8, x, y)  # -0 too, and what would be subnormal on the way


@formula
def exp2_32(x: Num) -> Num:
    """2^n 2^r for the nearest integer n, the first in two factors, which reach the subnormal numbers."""
    clean = _between(-150.0, x, 129.0)
    n, bits = _nearest(clean)
    _, part = _nearest(0.5 * n)
    # _SHIFTER's bits are in both: the difference has none.
    return polynomial(clean - n, _EXP2) * _power_of_two(part) * _power_of_two(bits - part)


# Added to a float64 below 2^51 it leaves no bits for a fraction; as bits its own low ones are zero.
_SHIFTER64 = 1.5 * 2.0**52
# (e^r - 1 - r) / r^2 by r, the highest power first: Taylor's series, to 4e-18 of e^r up to log(2) / 2.
_EXPM1_64 = tuple(1 / math.factorial(k) for k in range(14, 1, -1))
# log(2) in two parts, of which the first one's product with an integer below 2^20 is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def _scale64(n: Num) -> Num:
    """2^n by the exponent's bits, for a whole float64 n of a normal number."""
    word = (n + (_SHIFTER64 + 1023.0)).bits() << np.int64(52)
    return Num(ew.bitcast_convert_type(word.value, dtypes.float64))


def _reduced64(x: Num) -> tuple[Num, Num]:
    """(n, r) with x = n log(2) + r for the nearest integer n."""
    n = (x * (1 / math.log(2)) + _SHIFTER64) - _SHIFTER64
    return n, (x - n * _LN2_HIGH) - n * _LN2_LOW


def _scaled64(y: Num, n: Num) -> Num:
    """2^n y, by two factors, which reach the subnormal numbers and infinity."""
    half = (0.5 * n + _SHIFTER64) - _SHIFTER64
    return y * _scale64(half) * _scale64(n - half)


@formula
def exp_64(x: Num) -> Num:
    """2^n e^r for x = n log(2) + r."""
    n, r = _reduced64(_between(-746.0, x, 710.0))
    return _scaled64(1.0 + (r + r * r * polynomial(r, _EXPM1_64)), n)


@formula
def exp2_64(x: Num) -> Num:
    """2^n e^(f log 2) for the nearest integer n."""
    clean = _between(-1076.0, x, 1025.0)
    n = (clean + _SHIFTER64) - _SHIFTER64
    r = (clean - n) * math.log(2)
    return _scaled64(1.0 + (r + r * r * polynomial(r, _EXPM1_64)), n)


@formula
def expm1_64(x: Num) -> Num:
    """2^n (e^r - 1) + (2^n - 1) for x = n log(2) + r; half of both, so that 2^n does not overflow before the result."""
    n, r = _reduced64(_between(-60.0, x, 709.9))
    half = _scale64(n - 1.0)
    y = 2.0 * (half * (r + r * r * polynomial(r, _EXPM1_64)) + (half - 0.5))
    return where(abs(x) < 1e-16, x, y)  # -0 too, and what would be subnormal on the way


# 2 / 3, 2 / 5, ..., the highest power first: log(m) = 2 atanh(s) for s = (m - 1) / (m + 1), to |s| <= 0.172.
_LOG_64 = tuple(2 / (2 * k + 1) for k in range(10, 0, -1))


def _split64(x: Num) -> tuple[Num, Num]:
    """(e, m - 1) with x = 2^e m, m between sqrt(1/2) and sqrt(2), for a positive x."""
    small = x < 2.0**-1022
    word = where(small, x * 2.0**54, x).bits()
    mantissa = (word & np.int64((1 << 52) - 1)) | np.int64(1023 << 52)
    m = Num(ew.bitcast_convert_type(mantissa.value, dtypes.float64))
    # As the low bits of 2^52 the exponent is a number that needs no conversion, which AVX2 has not.
    biased = (word >> np.int64(52)) | np.int64(1075 << 52)
    e = Num(ew.bitcast_convert_type(biased.value, dtypes.float64)) - (2.0**52 + 1023.0)
    high = m > math.sqrt(2)
    m, e = where(high, 0.5 * m, m), where(high, e + 1.0, e) - where(small, const(54, x), const(0, x))
    return e, m - 1.0


def _log64(x: Num, lost: Num | None = None) -> Num:
    """log of x >= 0, or of x + lost: e log(2) + log(1 + f) for x = 2^e (1 + f).

    The sum is FDLIBM's (Sun Microsystems): f - (f^2 / 2 - s (f^2 / 2 + R)).
    """
    e, f = _split64(x)
    s = f / (2.0 + f)
    z, square = s * s, 0.5 * f * f
    series = s * (square + z * polynomial(z, _LOG_64)) + e * _LN2_LOW
    correction = series if lost is None else series + lost
    return e * _LN2_HIGH - ((square - correction) - f)


@formula
def log_64(x: Num) -> Num:
    """As `_log64`; of 0 and infinity, and NaN of what is below 0."""
    y = where(x.eq(0), const(-np.inf, x), where(x < 0, const(np.nan, x), _log64(x)))
    return where(x < np.inf, y, x)


@formula
def log1p_64(x: Num) -> Num:
    """log(u) for u = 1 + x, and what the sum has lost, over u."""
    u = 1.0 + x
    lost = where(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    y = where(u.eq(0), const(-np.inf, x), where(u < 0, const(np.nan, x), _log64(u, lost)))
    return where(abs(x) < 1e-17, x, where(x < np.inf, y, x))


# Of the Cephes library: tanh(x) = x + x^3 P(x^2) / Q(x^2), to |x| <= 0.625.
_TANH_P = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
_TANH_Q = (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3)


def tanh_positive(a: Num) -> Num:
    """tanh for a >= 0 in float64."""
    z, near = a * a, a < 0.625
    # One quotient for both: that of the series, and that of 1 - 2 / (e^2a + 1).
    over = where(near, a * z * polynomial(z, _TANH_P), const(-2, a))
    under = where(near, polynomial(z, _TANH_Q), exp(2.0 * where(a > 22.0, const(22, a), a)) + 1.0)
    return where(near, a, const(1, a)) + over / under


# 1 / 3, 1 / 5, ..., the highest power first: log(1 + x) = 2 atanh(s) for s = x / (2 + x), to |s| <= 1/5.
_ATANH = (1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3)


@formula
def log1p_without_error_terms(x: Num) -> Num:
    """log1p of float32 by a series near 0, where others correct log(1 + x) by what the sum has lost."""
    near = (x > -0.25) & (x < 0.5)
    s = where(near, x, const(0, x)) / (2.0 + where(near, x, const(0, x)))
    z = s * s
    series = 2.0 * (s + s * z * polynomial(z, _ATANH))
    return where(x.eq(0), x, where(near, series, log(1.0 + x)))


_log1p_operation = keeps_zero(hlo.log_plus_one)


def log1p_32(ctx: Ctx, x: Any) -> Any:
    """IREE's own, but for drivers that take out its error term."""
    return (log1p_without_error_terms if ctx.target.reassociates else _log1p_operation)(ctx, x)


FORMULAS[log1p_32] = lambda target, p, avals, params: (
    FORMULAS[log1p_without_error_terms](target, p, avals, params) if target.reassociates else None
)


def sinh_positive(a: Num) -> Num:
    """sinh for a >= 0."""
    e = expm1(where(a > 20.0, const(20, a), a))
    half = exp(0.5 * a)
    return where(a > 20.0, 0.5 * half * half, 0.5 * (e + e / (e + 1.0)))


@formula
def cosh(x: Num) -> Num:
    """cosh, without overflow before its result."""
    a = abs(x)
    t = exp(where(a > 20.0, const(20, a), a))
    half = exp(0.5 * a)
    return where(a > 20.0, 0.5 * half * half, 0.5 * t + 0.5 / t)


def asinh_positive(a: Num) -> Num:
    """asinh for a >= 0."""
    large = a > 1e8 if a.dtype == dtypes.float64 else a > 1e4
    b = where(large, const(1, a), a)
    return where(large, log(a) + math.log(2), log1p(b + b * b / (1.0 + sqrt(b * b + 1.0))))


@formula
def acosh(x: Num) -> Num:
    """acosh, for x >= 1."""
    large = x > 1e8 if x.dtype == dtypes.float64 else x > 1e4
    t = where(large, const(1, x), x) - 1.0
    y = where(large, log(x) + math.log(2), log1p(t + sqrt(2.0 * t + t * t)))
    return where(x < 1.0, const(np.nan, x), y)


def atanh_positive(a: Num) -> Num:
    """atanh for 0 <= a <= 1."""
    return 0.5 * log1p(2.0 * a / (1.0 - a))


def cbrt_positive(a: Num) -> Num:
    """exp(log(a) / 3), and a step of Newton's method. Of what is too small to be normal, which other operations flush, itself."""
    end = (a < float(np.finfo(a.dtype).tiny)) | a.eq(np.inf)
    b = where(end, const(1, a), a)
    r = exp(log(b) * (1 / 3))
    return where(end, a, r - (r - b / (r * r)) * (1 / 3))


def powers(x: Num, y: Num, absolute: Callable[[Num, Num], Num]) -> Num:
    """IEEE 754 pow, from `absolute`, the power of |x| as exp(y log|x|)."""
    one = const(1, x)
    infinite = abs(y).eq(np.inf)
    whole = floor(y).eq(y)
    half = 0.5 * y
    is_odd = whole & floor(half).ne(half) & ~infinite
    size = absolute(abs(x), y)
    value = where(signbit(x) & is_odd, -size, size)
    value = where((x < 0) & x.ne(-np.inf) & ~whole, const(np.nan, x), value)
    value = where(x.eq(-1.0) & infinite, one, value)
    return where(y.eq(0) | x.eq(1.0), one, value)


# 2^f by f, and log2(m) / s by s^2 for s = (m - 1) / (m + 1), the highest power first: to 1e-11 and 4e-14 of the truth.
_EXP2_WIDE = tuple(math.log(2) ** k / math.factorial(k) for k in range(9, -1, -1))
_LOG2_WIDE = tuple(2 / math.log(2) / (2 * k + 1) for k in range(7, -1, -1))


def _log2_wide(a: Num) -> Num:
    """log2 of a float32 a >= 0 in float64. The exponent is found in 32 bits: AVX2 has no shifts with signs of 64."""
    small = a < 2.0**-126
    word = where(small, a * 2.0**24, a).bits()
    above = word - np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
    e = Num(ew.shift_right_arithmetic(above.value, np.int32(23)))
    m = Num(ew.bitcast_convert_type((word - (e << np.int32(23))).value, dtypes.float32)).astype(dtypes.float64)
    e = e.astype(dtypes.float64) - where(small, const(24, m), const(0, m))
    s = (m - 1.0) / (m + 1.0)
    y = e + s * polynomial(s * s, _LOG2_WIDE)
    return where(a.eq(0), const(-np.inf, m), where(a < np.inf, y, a.astype(dtypes.float64)))


@formula
def pow_in_double(x: Num, y: Num) -> Num:
    """float32 through float64, which leaves the rounding of the result only: 2^(y log2(x))."""

    def absolute(a: Num, b: Num) -> Num:
        t = _between(-300.0, b.astype(dtypes.float64) * _log2_wide(a), 300.0)
        n = (t + _SHIFTER64) - _SHIFTER64
        return (polynomial(t - n, _EXP2_WIDE) * _scale64(n)).astype(a.dtype)

    return powers(x, y.astype(x.dtype), absolute)


@formula
def pow_plain(x: Num, y: Num) -> Num:
    """x to the power y as exp(y log x), with the special cases of `powers`."""
    return powers(x, y.astype(x.dtype), lambda a, b: exp(b * log(a)))


# 2 / (3 log 2), the first part with 26 bits; log(2) likewise.
_CP, _CP_TOP, _CP_REST = 2 / (3 * math.log(2)), 0.9617966860532761, 7.872699542894897e-09
_LN2, _LN2_TOP, _LN2_REST = math.log(2), 0.6931471675634384, 1.2996506893889889e-08
# 3 / 5, 3 / 7, ..., the highest power first: log(m) = (2 / 3) s (3 + z + z^2 (3 / 5 + 3 z / 7 + ...)), z = s^2.
_POW_64 = tuple(3 / (2 * k + 1) for k in range(10, 1, -1))


def _top(x: Num) -> Num:
    """The first 26 bits of a float64: products of two such numbers are exact."""
    return Num(ew.bitcast_convert_type((x.bits() & np.int64(-1 << 27)).value, dtypes.float64))


def _log2_in_two(a: Num) -> tuple[Num, Num]:
    """log2 of a positive float64, as a number of 26 bits and the rest, to some 2^-64 of it.

    The way of FDLIBM's pow (Sun Microsystems): s = (m - 1) / (m + 1), its square and their product each in two parts.
    """
    e, f = _split64(a)
    d = 2.0 + f
    s = f / d
    s_top, d_top = _top(s), _top(d)
    s_rest = ((f - s_top * d_top) - s_top * ((d - d_top) + (f - (d - 2.0)))) / d
    z = s * s
    rest = s_rest * (s_top + s) + z * z * polynomial(z, _POW_64)
    square = s_top * s_top
    t_top = _top(3.0 + square + rest)
    t_rest = rest - ((t_top - 3.0) - square)
    u, v = s_top * t_top, s_rest * t_top + t_rest * s
    p_top = _top(u + v)
    q_top, q_rest = _CP_TOP * p_top, _CP_REST * p_top + (v - (p_top - u)) * _CP
    top = _top((q_top + q_rest) + e)
    return top, q_rest - ((top - e) - q_top)


@formula
def pow_64(x: Num, y: Num) -> Num:
    """2^(y log2(x)) in float64, where logarithm and product have more bits than one number, to some 1 ulp."""

    def absolute(a: Num, b: Num) -> Num:
        end = a.eq(0) | ~(a < np.inf)
        log_top, log_rest = _log2_in_two(where(end, const(2, a), a))
        clean = _between(-(2.0**70), b, 2.0**70)
        b_top = _top(clean)
        p_top, p_rest = log_top * b_top, (clean - b_top) * log_top + clean * log_rest
        p = p_top + p_rest
        n = (_between(-1100.0, p, 1100.0) + _SHIFTER64) - _SHIFTER64
        inside = abs(p) < 1100.0
        whole = where(inside, p_top - n, const(0, a))
        rest = where(inside, p_rest, const(0, a))
        t_top = _top(whole + rest)
        u, v = t_top * _LN2_TOP, (rest - (t_top - whole)) * _LN2 + t_top * _LN2_REST
        r = u + v
        lost = v - (r - u)
        value = _scaled64(1.0 + (r + (lost + r * r * polynomial(r, _EXPM1_64))), n)
        value = where(end, where(b > 0, a, 1.0 / a), value)
        return where(b.ne(b), b, value)

    return powers(x, y.astype(x.dtype), absolute)


def pow32(ctx: Ctx, x: Any, y: Any) -> Any:
    """Targets without float64 functions lose digits in proportion to the result's exponent."""
    return (pow_in_double if has_libm(ctx) else pow_plain)(ctx, x, y)


FORMULAS[pow32] = lambda target, p, avals, params: FORMULAS[pow_in_double if target_has_libm(target) else pow_plain](
    target, p, avals, params
)


@formula
def logistic(x: Num) -> Num:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


def _f64(build: Callable[..., Any]) -> LoweringRule:
    return libm(build)


# primitive: float32 rule, float64 rule
_REAL: dict[Any, tuple[LoweringRule, LoweringRule]] = {
    ew.exp_p: (direct(hlo.exponential), of_float64(exp_64)),
    ew.exp2_p: (exp2_32, of_float64(exp2_64)),
    ew.expm1_p: (expm1_32, of_float64(expm1_64)),
    ew.log_p: (direct(hlo.log), of_float64(log_64)),
    ew.log1p_p: (log1p_32, of_float64(log1p_64)),
    ew.logistic_p: (logistic, logistic),
    ew.sin_p: (sin32, _f64(hlo.same_type("sine"))),
    ew.cos_p: (cos32, _f64(hlo.same_type("cosine"))),
    ew.tan_p: (tan32, _f64(hlo.same_type("tan"))),
    ew.asin_p: (asin32, keeps_zero(chlo("asin"), libm)),
    ew.acos_p: (acos32, _f64(chlo("acos"))),
    ew.atan_p: (atan32, _f64(chlo("atan"))),
    ew.sinh_p: (odd(sinh_positive), odd(sinh_positive)),
    ew.cosh_p: (cosh, cosh),
    ew.tanh_p: (direct(hlo.same_type("tanh")), odd(tanh_positive)),
    ew.asinh_p: (odd(asinh_positive), odd(asinh_positive)),
    ew.acosh_p: (acosh, acosh),
    ew.atanh_p: (odd(atanh_positive), odd(atanh_positive)),
    ew.sqrt_p: (direct(hlo.sqrt), direct(hlo.sqrt)),
    ew.rsqrt_p: (direct(hlo.rsqrt), direct(hlo.rsqrt)),
    ew.cbrt_p: (odd(cbrt_positive), odd(cbrt_positive)),
    ew.atan2_p: (_atan2(atan_positive), _atan2(lambda a: Num(ew.atan(a.value)))),
    ew.pow_p: (pow32, of_float64(pow_64)),
}  # fmt: skip
for _p, (_f32, _f64_rule) in _REAL.items():
    by_dtype(_p, f32=_f32, f64=_f64_rule, complex=COMPLEX_RULES.get(_p))

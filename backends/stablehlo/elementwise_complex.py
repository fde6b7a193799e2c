"""StableHLO lowering of functions of complex operands, made of real ones.

Branch cuts, signed zeros and infinities follow C99's annex G; the formulas of the inverse functions are Kahan's
("Branch cuts for complex elementary functions", 1987).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew

from .formulas import (
    Num,
    asinh,
    atan2,
    complex_,
    const,
    cos,
    cosh,
    exp,
    formula,
    is_finite,
    log,
    log1p,
    maximum,
    minimum,
    signbit,
    sin,
    sinh,
    sqrt,
    tan,
    where,
    with_sign,
)  # fmt: skip
from .lowering import LoweringRule

PI = math.pi


def parts(z: Num) -> tuple[Num, Num]:
    """The real and the imaginary part."""
    return z.real, z.imag


def times(s: Num, v: Num) -> Num:
    """s * v, and 0 where v is zero even for an infinite s."""
    return where(v.eq(0), v, s * v)


def exp_parts(x: Num, y: Num) -> tuple[Num, Num]:
    """e^x cos y, e^x sin y: in two factors, so that a finite result does not overflow."""
    half = exp(0.5 * x)
    c, s = cos(y), sin(y)
    re, im = times(half, c) * half, where(y.eq(0), y, half * s * half)
    vanished = x.eq(-np.inf)
    re = where(vanished, const(0, x), where(x.eq(np.inf) & ~is_finite(y), const(np.inf, x), re))
    return re, where(vanished, const(0, x), im)


def cexp(z: Num) -> Num:
    """exp of a complex number."""
    return complex_(*exp_parts(*parts(z)))


def log_abs(x: Num, y: Num) -> Num:
    """log |x + iy|: by log1p near the unit circle, scaled by the larger part elsewhere."""
    a, b = abs(x), abs(y)
    large, small = maximum(a, b), minimum(a, b)
    ratio = where(large.eq(0) | large.eq(np.inf), const(0, x), small / large)
    far = log(large) + 0.5 * log1p(ratio * ratio)
    near = 0.5 * log1p((large - 1.0) * (large + 1.0) + small * small)
    return where((large > 0.5) & (large < 2.0), near, where(large.eq(0), const(-np.inf, x), far))


def clog(z: Num) -> Num:
    """The principal logarithm: log |z| and the angle."""
    x, y = parts(z)
    infinite = abs(x).eq(np.inf) | abs(y).eq(np.inf)
    return complex_(where(infinite, const(np.inf, x), log_abs(x, y)), atan2(y, x))


def csqrt(z: Num) -> Num:
    """The principal square root."""
    x, y = parts(z)
    # Scaled by 1/4 (and 4 for tiny ones) so that neither |z| nor its half overflows or vanishes.
    size = maximum(abs(x), abs(y))
    small = size < 1e-30
    k = where(small, const(2.0**64, x), const(0.25, x))
    back = where(small, const(2.0**-32, x), const(2.0, x))
    u, v = k * x, k * y
    a = abs(u)
    t = sqrt(0.5 * (a + abs_parts(u, v)))
    safe = where(t.eq(0), const(1, x), t)
    other = 0.5 * abs(v) / safe
    left = signbit(x)
    re, im = where(left, other, t) * back, where(left, t, other) * back
    zero = size.eq(0)
    re, im = where(zero, const(0, x), re), where(zero, const(0, x), im)
    # Infinite parts: sqrt(x + i inf) = inf + i inf; sqrt(inf + iy) = inf + 0i; sqrt(-inf + iy) = 0 + i inf.
    vertical = abs(y).eq(np.inf)
    nan_y = y.ne(y)
    re = where(vertical | x.eq(np.inf), const(np.inf, x), where(x.eq(-np.inf), where(nan_y, y, const(0, x)), re))
    im = where(vertical | x.eq(-np.inf), const(np.inf, x), where(x.eq(np.inf), where(nan_y, y, const(0, x)), im))
    return complex_(re, with_sign(im, y))


def abs_parts(x: Num, y: Num) -> Num:
    """hypot."""
    a, b = abs(x), abs(y)
    large, small = maximum(a, b), minimum(a, b)
    ratio = small / where(large.eq(0), const(1, x), large)
    size = large * sqrt(1.0 + ratio * ratio)
    return where(a.eq(np.inf) | b.eq(np.inf), const(np.inf, x), size)


def multiply_i(z: Num) -> Num:
    """i z, without a product."""
    return complex_(-z.imag, z.real)


def divide_i(z: Num) -> Num:
    """z / i, without a quotient."""
    return complex_(z.imag, -z.real)


def csinh(z: Num) -> Num:
    """sinh of a complex number."""
    x, y = parts(z)
    large = abs(x) > 20.0
    half = exp(0.5 * abs(x))
    c, s = cos(y), sin(y)
    re = where(large, with_sign(const(0.5, x) * half, x) * c * half, sinh(x) * c)
    im = where(large, 0.5 * half * s * half, cosh(x) * s)
    re = where(x.eq(0), x, where(abs(x).eq(np.inf) & ~is_finite(y), x, re))
    return complex_(re, where(y.eq(0), y, im))


def ccosh(z: Num) -> Num:
    """cosh of a complex number."""
    x, y = parts(z)
    large = abs(x) > 20.0
    half = exp(0.5 * abs(x))
    c, s = cos(y), sin(y)
    re = where(large, 0.5 * half * c * half, cosh(x) * c)
    im = where(large, with_sign(const(0.5, x) * half, x) * s * half, sinh(x) * s)
    re = where(abs(x).eq(np.inf) & ~is_finite(y), abs(x), re)
    zero = where(signbit(x), -y, y)
    return complex_(re, where(x.eq(0) | y.eq(0), where(y.eq(0), zero, with_sign(const(0, x) * abs(x), x) * s), im))


def ctanh(z: Num) -> Num:
    """tanh of a complex number."""
    x, y = parts(z)
    large = abs(x) > (44.0 if x.dtype == dtypes.float64 else 22.0)
    u = where(large, const(0, x), x)
    t = tan(y)
    beta, s = 1.0 + t * t, sinh(u)
    rho = sqrt(1.0 + s * s)
    below = 1.0 + beta * s * s
    pole = abs(t).eq(np.inf)
    re = where(pole, rho / where(s.eq(0), const(1, x), s), beta * rho * s / below)
    im = where(pole, 1.0 / t, t / below)
    tail = exp(-2.0 * abs(where(large, x, const(0, x))))
    far = where(abs(x).eq(np.inf) & ~is_finite(y), const(0, x), 4.0 * sin(y) * cos(y) * tail)
    limit = where(is_finite(x) & ~is_finite(y), y - y, with_sign(where(large, const(1, x), const(1, x)), x))
    re = where(large, limit, where(x.eq(0), x, re))
    return complex_(re, where(y.eq(0), y, where(large, far, im)))


def csin(z: Num) -> Num:
    """sin z = sinh(i z) / i."""
    return divide_i(csinh(multiply_i(z)))


def ccos(z: Num) -> Num:
    """cos z = cosh(i z)."""
    return ccosh(multiply_i(z))


def ctan(z: Num) -> Num:
    """tan z = tanh(i z) / i."""
    return divide_i(ctanh(multiply_i(z)))


def cexpm1(z: Num) -> Num:
    """e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2)."""
    x, y = parts(z)
    s = sin(0.5 * y)
    _, im = exp_parts(x, y)
    re = Num(ew.expm1(x.value)) * where(y.eq(0), const(1, x), cos(y)) - 2.0 * s * s
    return complex_(where(x.eq(-np.inf), const(-1, x), re), im)


def clog1p(z: Num) -> Num:
    """Real part 1/2 log1p(2x + x^2 + y^2) where that does not cancel or overflow."""
    x, y = parts(z)
    small = (abs(x) < 0.5) & (abs(y) < 0.5)
    u, v = where(small, x, const(0, x)), where(small, y, const(0, x))
    near = 0.5 * log1p(u * (2.0 + u) + v * v)
    one = 1.0 + x
    infinite = abs(x).eq(np.inf) | abs(y).eq(np.inf)
    far = where(infinite, const(np.inf, x), log_abs(one, y))
    return complex_(where(small, near, far), atan2(y, one))


def _plus(z: Num, value: float) -> Num:
    """z + value, with the sign of the imaginary zero."""
    return complex_(z.real + value, z.imag)


def _conj_times(a: Num, b: Num) -> tuple[Num, Num]:
    """The parts of conj(a) * b."""
    return a.real * b.real + a.imag * b.imag, a.real * b.imag - a.imag * b.real


def _minus_from_one(z: Num) -> Num:
    return complex_(1.0 - z.real, -z.imag)


def _huge(z: Num) -> Num:
    limit = 1e150 if z.real.dtype == dtypes.float64 else 1e15
    return (abs(z.real) > limit) | (abs(z.imag) > limit)


def _log_twice(z: Num) -> Num:
    """log |2 z|, without overflow."""
    x, y = parts(z)
    infinite = abs(x).eq(np.inf) | abs(y).eq(np.inf)
    return where(infinite, const(np.inf, x), log_abs(x, y)) + math.log(2)


def casin(z: Num) -> Num:
    """The principal inverse sine (Kahan)."""
    x, y = parts(z)
    a, b = csqrt(_minus_from_one(z)), csqrt(_plus(z, 1.0))
    re = atan2(x, a.real * b.real - a.imag * b.imag)
    im = asinh(_conj_times(a, b)[1])
    huge = _huge(z)
    re = where(huge, atan2(x, abs(y)), re)
    return complex_(re, where(huge, with_sign(_log_twice(z), y), with_sign(abs(im), y)))


def cacos(z: Num) -> Num:
    """The principal inverse cosine (Kahan)."""
    x, y = parts(z)
    a, b = csqrt(_minus_from_one(z)), csqrt(_plus(z, 1.0))
    re = 2.0 * atan2(a.real, b.real)
    im = asinh(_conj_times(b, a)[1])
    huge = _huge(z)
    re = where(huge, atan2(abs(y), x), re)
    return complex_(re, where(huge, with_sign(_log_twice(z), -y), with_sign(abs(im), -y)))


def cacosh(z: Num) -> Num:
    """The principal inverse hyperbolic cosine (Kahan)."""
    x, y = parts(z)
    a, b = csqrt(_plus(z, -1.0)), csqrt(_plus(z, 1.0))
    re = asinh(_conj_times(a, b)[0])
    im = 2.0 * atan2(a.imag, b.real)
    huge = _huge(z)
    return complex_(where(huge, _log_twice(z), re), where(huge, atan2(y, x), im))


def casinh(z: Num) -> Num:
    """asinh z = asin(i z) / i."""
    return divide_i(casin(multiply_i(z)))


def catanh(z: Num) -> Num:
    """Kahan's: real part log1p(4x / ((1 - x)^2 + y^2)) / 4, odd in x and y."""
    x0, y0 = parts(z)
    x, y = abs(x0), abs(y0)
    huge = _huge(z)
    u, v = where(huge, const(2, x), x), where(huge, const(0, x), y)
    gap = (1.0 - u) * (1.0 - u) + v * v
    re = 0.25 * log1p(4.0 * u / gap)
    im = 0.5 * atan2(2.0 * v, (1.0 - u) * (1.0 + u) - v * v)
    # 1/z for huge z: its real part is x / |z|^2, by Smith's division.
    big, small = where(x > y, x, y), where(x > y, y, x)
    t = where(big.eq(np.inf), const(0, x), small / big)
    inverse = where(big.eq(np.inf), const(0, x), 1.0 / (big * (1.0 + t * t)))
    re = where(huge, where(x > y, inverse, inverse * t), re)
    re = where(x.eq(np.inf) | y.eq(np.inf), const(0, x), re)
    im = where(huge & y.eq(y), const(PI / 2, x), im)
    re = where(x.eq(0), x, re)
    return complex_(with_sign(re, x0), with_sign(im, y0))


def catan(z: Num) -> Num:
    """atan z = atanh(i z) / i."""
    return divide_i(catanh(multiply_i(z)))


def crsqrt(z: Num) -> Num:
    """1 / sqrt(z)."""
    return const(1, z) / csqrt(z)


def clogistic(z: Num) -> Num:
    """1 / (1 + exp(-z))."""
    return const(1, z) / (const(1, z) + cexp(-z))


def cexp2(z: Num) -> Num:
    """2 to a complex power."""
    x, y = parts(z)
    return complex_(*exp_parts(x * math.log(2), y * math.log(2)))


def cpow(z: Num, w: Num) -> Num:
    """exp(w log z); as JAX, 0^w is 0 for real w > 0 and else NaN, z^0 is 1, and 1^w is 1 (even for NaN)."""
    w = w.astype(z.dtype)
    x, y = parts(z)
    a, b = parts(w)
    zero = x.eq(0) & y.eq(0)
    size, angle = log_abs(where(zero, const(1, x), x), y), atan2(y, x)
    re, im = exp_parts(times(size, a) - times(b, angle), times(size, b) + times(a, angle))
    power_of_zero = where((a > 0) & b.eq(0), const(0, x), const(np.nan, x))
    re, im = where(zero, power_of_zero, re), where(zero, power_of_zero, im)
    one = (a.eq(0) & b.eq(0)) | (x.eq(1) & y.eq(0))
    return complex_(where(one, const(1, x), re), where(one, const(0, x), im))


def catan2(y: Num, x: Num) -> Num:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    return divide_i(clog((x + multiply_i(y)) / csqrt(x * x + y * y)))


COMPLEX_RULES: dict[Any, LoweringRule] = {
    p: formula(f)
    for p, f in {
        ew.exp_p: cexp, ew.exp2_p: cexp2, ew.expm1_p: cexpm1, ew.log_p: clog, ew.log1p_p: clog1p,
        ew.logistic_p: clogistic, ew.sin_p: csin, ew.cos_p: ccos, ew.tan_p: ctan, ew.asin_p: casin,
        ew.acos_p: cacos, ew.atan_p: catan, ew.sinh_p: csinh, ew.cosh_p: ccosh, ew.tanh_p: ctanh,
        ew.asinh_p: casinh, ew.acosh_p: cacosh, ew.atanh_p: catanh, ew.sqrt_p: csqrt, ew.rsqrt_p: crsqrt,
        ew.pow_p: cpow, ew.atan2_p: catan2,
    }.items()
}  # fmt: skip

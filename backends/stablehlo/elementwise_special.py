"""StableHLO lowering of special functions of real operands.

The incomplete gamma and beta functions are series and continued fractions, iterated until every element has
converged. On targets with float64 functions they are computed in float64, since their factors x^a e^-x / gamma(a)
cancel.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.tracing import trace_flat

from . import hlo
from .elementwise_math import chlo, keeps_zero
from .formulas import (
    Num,
    by_dtype,
    const,
    digamma,
    direct,
    exp,
    floor,
    formula,
    has_libm,
    lgamma,
    libm,
    log,
    log1p,
    polynomial,
    raw,
    round_,
    sqrt,
    tan,
    where,
)  # fmt: skip
from .gamma_expansion import STIRLING_LEAST, Expansion, chebyshev, gamma_factor
from .lowering import FORMULAS, Ctx, LoweringRule


def loop(carry: Sequence[Num], running: Callable[..., Num], step: Callable[..., Sequence[Num]]) -> list[Num]:
    """``while any(running(*carry)): carry = step(*carry)``; `running` is elementwise."""
    avals = [aval_of(x.value) for x in carry]

    def condition(*xs: Any) -> list[Any]:
        going = raw(running(*map(Num, xs)))
        return [rd.reduce_or(going, tuple(range(aval_of(going).ndim)))]

    cond_jaxpr, _, _ = trace_flat(condition, avals, name="condition")
    body_jaxpr, _, _ = trace_flat(lambda *xs: [raw(y) for y in step(*map(Num, xs))], avals, name="step")
    out = cf.while_p.bind(
        *(x.value for x in carry), cond_jaxpr=ClosedJaxpr(cond_jaxpr, ()), body_jaxpr=ClosedJaxpr(body_jaxpr, ()),
        cond_nconsts=0, body_nconsts=0,
    )  # fmt: skip
    return [Num(x) for x in out]


def spread_all(*xs: Num) -> list[Num]:
    """Scalars beside arrays, made arrays: the carries of a loop have one shape."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    zero = total.ne(total) & total.eq(total)  # false everywhere, in the full shape
    return [where(zero, x + 0.0 * total, x) if x.aval.shape != total.aval.shape else x for x in xs]


def computed_in_double(rule: LoweringRule) -> LoweringRule:
    """The float32 rule that computes in float64, where the target can."""

    def narrow(ctx: Ctx, *operands: Any) -> Any:
        if not has_libm(ctx):
            return rule(ctx, *operands)
        wide = dtypes.float64
        inner = dataclasses.replace(
            ctx, avals_in=[a.update(dtype=wide) for a in ctx.avals_in],
            avals_out=[a.update(dtype=wide) for a in ctx.avals_out],
        )  # fmt: skip
        out = rule(inner, *(hlo.convert(x, wide) for x in operands))
        return hlo.convert(out[0] if isinstance(out, list) else out, dtypes.float32)

    if rule in FORMULAS:
        FORMULAS[narrow] = FORMULAS[rule]
    return narrow


# -- error functions, gamma functions of one argument -----------------------------------------------------------------

for _p, _name in {ew.erf_p: "erf", ew.erfc_p: "erfc", ew.lgamma_p: "lgamma"}.items():
    by_dtype(_p, f32=direct(chlo(_name)), f64=libm(chlo(_name)))
by_dtype(ew.bessel_i1e_p, f32=keeps_zero(chlo("bessel_i1e")), f64=keeps_zero(chlo("bessel_i1e"), libm))

# Giles, "Approximating the erfinv function" (2010): erf_inv(x) / x by w = -ln(1 - x^2), in w - 2.5 below 5 and in
# sqrt(w) - 3 above. The highest power comes first.
_ERF_INV_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_ERF_INV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
# Cephes: ln(1 + f) = f - f^2 / 2 + f^3 times this, for 1 + f between the square roots of 1/2 and 2.
_LOG1P = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def _log_of_normal(x: Num) -> Num:
    """ln x of a float32 x that is a positive normal number: IREE's own checks for all others."""
    shifted = x.bits() - np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
    exponent = Num(ew.shift_right_arithmetic(shifted.value, np.int32(23)))
    f = Num(ew.bitcast_convert_type((x.bits() - (exponent << np.int32(23))).value, dtypes.float32)) - 1.0
    n = exponent.astype(dtypes.float32)
    rest = polynomial(f, _LOG1P) * f * (f * f) + n * -2.12194440e-4
    return (f - 0.5 * (f * f) + rest) + n * 0.693359375


@formula
def erf_inv(x: Num) -> Num:
    """Faster than IREE's, whose log1p costs it up to 64 units in the last place near 1; here 4."""
    a = abs(x)
    w = -_log_of_normal((1.0 - x) * (1.0 + x))
    centre = w < 5.0
    t = where(centre, w - 2.5, sqrt(w) - 3.0)
    p: Any = None
    for c, d in zip(_ERF_INV_CENTRE, _ERF_INV_TAIL):
        chosen = where(centre, const(c, x), const(d, x))
        p = chosen if p is None else p * t + chosen
    return where(a < 1.0, p * x, where(a.eq(1.0), x * np.float32(np.inf), const(np.nan, x)))


by_dtype(ew.erf_inv_p, f32=erf_inv, f64=keeps_zero(chlo("erf_inv"), libm))


def _digamma(positive: LoweringRule) -> LoweringRule:
    """digamma, with `positive` for x >= 1/2: reflected elsewhere, where IREE's loses its sign next to the poles."""

    @formula
    def argument(x: Num) -> Num:
        return where(x < 0.5, 1.0 - x, x)

    @formula
    def reflected(x: Num, value: Num) -> Num:
        fraction = x - round_(x)
        pole = (x <= 0) & floor(x).eq(x)
        return where(pole, const(np.nan, x), where(x < 0.5, value - math.pi / tan(math.pi * fraction), value))

    def rule(ctx: Ctx, x: Any) -> Any:
        (y,) = argument(ctx, x)
        aval = ctx.avals_in[0]
        return reflected(dataclasses.replace(ctx, avals_in=[aval, aval]), x, positive(ctx, y))

    return rule


by_dtype(ew.digamma_p, f32=_digamma(direct(chlo("digamma"))), f64=_digamma(libm(chlo("digamma"))))

# Chebyshev series, computed with 40 digits by the discrete cosine transform: of e^-x I0(x) on [0, 8] in x/2 - 2, and
# of sqrt(x) e^-x I0(x) on [8, inf] in 32/x - 2. The highest order comes first.
_I0_SMALL = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877, -0.3046826723431984,
    0.6767952744094761,
)  # fmt: skip
_I0_LARGE = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15, 3.8116806693526224e-15,
    -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13,
    7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11, -3.1499165279632416e-11,
    1.1889147107846439e-11, 4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08,
    2.0489185894690638e-07, 2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943, 0.8044904110141088,
)  # fmt: skip


@formula
def bessel_i0e(x: Num) -> Num:
    """exp(-|x|) I0(x)."""
    a = abs(x)
    big = a > 8.0
    inverse = 32.0 / where(big, a, const(8, a))
    large = chebyshev(inverse - 2.0, _I0_LARGE) / sqrt(where(big, a, const(8, a)))
    return where(big, large, chebyshev(0.5 * where(big, const(8, a), a) - 2.0, _I0_SMALL))


by_dtype(ew.bessel_i0e_p, f32=bessel_i0e)


# -- zeta, polygamma ----------------------------------------------------------------------------------------------------


# (2j)! / B_2j, from the Bernoulli numbers
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798),
    (-174611, 330), (854513, 138), (-236364091, 2730),
)  # fmt: skip
_EULER_MACLAURIN = tuple(math.factorial(2 * j) * q / p for j, (p, q) in enumerate(_BERNOULLI, 1))


@formula
def zeta(x0: Num, q0: Num) -> Num:
    """The sum of (q + k)^-x until q + k > 9, and Euler and Maclaurin's formula for the rest (as in Cephes)."""
    x0, q0 = spread_all(x0, q0)
    pole = (q0 <= 0) & floor(q0).eq(q0)
    nan = x0.ne(x0) | q0.ne(q0) | abs(x0).eq(np.inf) | (abs(q0).eq(np.inf) & x0.ne(1.0))
    undefined = nan | pole | (x0 <= 1.0) | ((q0 < 0) & floor(x0).ne(x0))
    x, q = where(undefined, const(2, x0), x0), where(undefined, const(1, q0), q0)

    def term(a: Num, x: Num) -> Num:
        return Num(ew.pow(a.value, (-x).value))

    def running(k: Num, a: Num, total: Num, x: Num) -> Num:
        return (k < 9.0) | ((a <= 9.0) & (k < 1000.0))

    def step(k: Num, a: Num, total: Num, x: Num) -> list[Num]:
        going = running(k, a, total, x)
        return [where(going, k + 1.0, k), where(going, a + 1.0, a), where(going, total + term(a, x), total), x]

    _, w, total, x = loop([0.0 * q, q, 0.0 * q, x], running, step)
    b = term(w, x)
    total = total + b * w / (x - 1.0) + 0.5 * b
    rising, power = x, b / w
    for j, divisor in enumerate(_EULER_MACLAURIN):
        total = total + rising * power / divisor
        rising = rising * ((x + (2.0 * j + 1.0)) * (x + (2.0 * j + 2.0)))
        power = power / (w * w)
    even = floor(0.5 * x0).eq(0.5 * x0)
    inf, none = const(np.inf, x0), const(np.nan, x0)
    total = where(undefined, where(pole & even, inf, none), total)
    return where(nan, none, where(x0.eq(1.0), inf, total))


@formula
def polygamma(m: Num, x: Num) -> Num:
    """(-1)^(m+1) m! zeta(m + 1, x), and digamma for m = 0."""
    n = m + 1.0
    even = floor(0.5 * n).eq(0.5 * n)
    size = exp(lgamma(n)) * Num(ew.zeta(n.value, x.value))
    value = where(m.eq(0), digamma(x), where(even, size, -size))
    return where((m < 0) | m.ne(floor(m)), const(np.nan, value), value)


for _p, _rule in {ew.zeta_p: zeta, ew.polygamma_p: polygamma}.items():
    by_dtype(_p, f32=computed_in_double(_rule), f64=_rule)


# -- incomplete gamma functions -------------------------------------------------------------------------------------------


def epsilon(x: Num) -> float:
    """The distance from 1 to the next number of x's dtype."""
    return float(np.finfo(x.dtype).eps)


def gamma_series(a: Num, x: Num) -> Num:
    """The sum of x^n / ((a+1) ... (a+n)); P(a, x) = x^a e^-x / gamma(a+1) times it."""
    one = where(x.eq(x), const(1, x), const(1, x))

    def running(n: Num, term: Num, total: Num, a: Num, x: Num) -> Num:
        return (term > epsilon(x) * total) & (n < 2000.0)

    def step(n: Num, term: Num, total: Num, a: Num, x: Num) -> list[Num]:
        n = n + 1.0
        term = term * (x / (a + n))
        return [n, term, total + term, a, x]

    return loop([0.0 * one, one, one, a, x], running, step)[2]


def gamma_fraction(a: Num, x: Num) -> Num:
    """The continued fraction of Q(a, x) gamma(a) x^-a e^x, by the recurrence of its convergents."""
    eps, big = epsilon(x), 1.0 / epsilon(x)
    one = where(x.eq(x), const(1, x), const(1, x))

    def running(c: Num, y: Num, z: Num, value: Num, change: Num, *rest: Num) -> Num:
        return (change > eps) & (c < 2000.0)

    def step(c: Num, y: Num, z: Num, value: Num, change: Num, p2: Num, p1: Num, q2: Num, q1: Num) -> list[Num]:
        c, y, z = c + 1.0, y + 1.0, z + 2.0
        yc = y * c
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        ratio = p / where(q.eq(0), const(1, q), q)
        moved = where(q.eq(0), const(1, q), abs((value - ratio) / ratio))
        settled = change <= eps
        value, change = where(q.eq(0) | settled, value, ratio), where(settled, change, moved)
        scale = where(abs(p) > big, const(eps, p), const(1, p))
        return [c, y, z, value, change, p1 * scale, p * scale, q1 * scale, q * scale]

    y = 1.0 - a
    z = x + y + 1.0
    # Convergents are ratios: numerators and denominators are divided by z x, which may be as large as x^2.
    p2, q2 = 1.0 / x / z, 1.0 / z
    p1 = p2 + q2
    return loop([0.0 * one, y, z, p1, one, p2, p1, q2, one], running, step)[3]


def _factor(a: Num, x: Num) -> Num:
    """x^a e^-x / gamma(a)."""
    large = a >= STIRLING_LEAST
    small, one = where(large, const(1, a), a), const(1, a)
    direct_ = exp(small * log(where(large, one, x)) - where(large, one, x) - lgamma(small))
    return where(large, gamma_factor(where(large, a, const(STIRLING_LEAST, a)), where(large, x, one)), direct_)


def _gamma_ratio(lower: bool) -> LoweringRule:
    @formula
    def rule(a0: Num, x0: Num) -> Num:
        a0, x0 = spread_all(a0, x0)
        nan = a0.ne(a0) | x0.ne(x0)
        invalid = nan | (x0 < 0) | (a0 < 0) | (a0.eq(np.inf) & x0.eq(np.inf)) | (a0.eq(0) & x0.eq(0))
        zero, full = (x0.eq(0) & (a0 > 0)) | a0.eq(np.inf), x0.eq(np.inf) | a0.eq(0)
        skip = invalid | zero | full
        a, x = where(skip, const(1, a0), a0), where(skip, const(1, x0), x0)
        expansion = Expansion(a, x)
        below = (x <= 1.0) | (x <= a)
        by_series, by_fraction = below & ~expansion.applies, ~(below | expansion.applies)
        factor = _factor(a, x)
        one = const(1, a)
        p = gamma_series(where(by_series, a, one), where(by_series, x, const(0, x))) * factor / a
        q = gamma_fraction(where(by_fraction, a, one), where(by_fraction, x, const(2, a))) * factor
        smaller = where(expansion.applies, expansion.smaller(), where(below, p, q))
        below = where(expansion.applies, ~expansion.above, below)
        value = where(below, smaller, 1.0 - smaller) if lower else where(below, 1.0 - smaller, smaller)
        at_zero, at_full = (0.0, 1.0) if lower else (1.0, 0.0)
        value = where(zero, const(at_zero, a), where(full, const(at_full, a), value))
        return where(invalid, const(np.nan, a), value)

    return rule


def gamma_slope(a: Num, x: Num) -> Num:
    """The sum of x^n / ((a+1) ... (a+n)) (log x - digamma(a+n+1)): dP/da is x^a e^-x / gamma(a+1) times it."""
    one = where(x.eq(x), const(1, x), const(1, x))
    slope = log(x) - digamma(a + 1.0)

    def running(n: Num, term: Num, slope: Num, total: Num, a: Num, x: Num) -> Num:
        return ((abs(term * slope) > epsilon(x) * abs(total)) | (a + n < x)) & (n < 4000.0)

    def step(n: Num, term: Num, slope: Num, total: Num, a: Num, x: Num) -> list[Num]:
        n = n + 1.0
        term = term * (x / (a + n))
        slope = slope - 1.0 / (a + n)
        return [n, term, slope, total + term * slope, a, x]

    return loop([0.0 * one, one, slope, slope, a, x], running, step)[3]


def tail_slope(a: Num, x: Num, slope: Num) -> Num:
    """dQ/da over the density, for x > 30 + 1.7 a, from the asymptotic series of NIST DLMF 8.11.2.

    Q is the density times sum (a-1) ... (a-k) / x^k; `slope` is log x - digamma(a).
    """
    term: Any = 1.0
    derivative: Any = 0.0
    total: Any = 1.0
    total_derivative: Any = 0.0
    for k in range(1, 31):
        derivative = (derivative * (a - float(k)) + term) / x
        term = (a - float(k)) / x * term
        total, total_derivative = term + total, derivative + total_derivative
    return slope * total + total_derivative


def _gamma_derivative(of_sample: bool) -> LoweringRule:
    @formula
    def rule(a0: Num, x0: Num) -> Num:
        a0, x0 = spread_all(a0, x0)
        invalid = (x0 < 0) | (a0 <= 0) | a0.ne(a0) | x0.ne(x0) | a0.eq(np.inf)
        # The derivative is 0 or below the smallest number there; a sample would be outside of any distribution.
        flat = x0.eq(0) | (abs(x0 - a0) > 40.0 * sqrt(where(a0 > x0, a0, x0)) + 700.0)
        skip = invalid | flat
        a, x = where(skip, const(1, a0), a0), where(skip, const(1, x0), x0)
        expansion = Expansion(a, x)
        tail = x > 30.0 + 1.7 * a
        other = tail | expansion.applies
        total = gamma_slope(where(other, const(1, a), a), where(other, const(1, x), x))
        far = tail_slope(a, where(tail, x, const(1000, x)), log(x) - digamma(a))
        value = where(expansion.applies, expansion.sample_slope() * x, where(tail, far, -total * (x / a)))
        if not of_sample:
            value = -value * (_factor(a, x) / x)
        return where(invalid, const(np.nan, a), where(flat, const(0, a), value))

    return rule


_IGAMMA: dict[Any, LoweringRule] = {
    ew.igamma_p: _gamma_ratio(True), ew.igammac_p: _gamma_ratio(False),
    ew.igamma_grad_a_p: _gamma_derivative(False), ew.random_gamma_grad_p: _gamma_derivative(True),
}  # fmt: skip
for _p, _rule in _IGAMMA.items():
    by_dtype(_p, f32=computed_in_double(_rule), f64=_rule)


# -- incomplete beta function -----------------------------------------------------------------------------------------------


def beta_fraction(a: Num, b: Num, x: Num) -> Num:
    """The continued fraction of NIST DLMF 8.17.22 by the modified Lentz method."""
    one = where(x.eq(x), const(1, x), const(1, x))
    tiny = float(np.finfo(x.dtype).tiny) / epsilon(x)

    def nonzero(v: Num) -> Num:
        return where(abs(v) < tiny, const(tiny, v), v)

    def running(m: Num, c: Num, d: Num, value: Num, change: Num, a: Num, b: Num, x: Num) -> Num:
        return (change > epsilon(x)) & (m < 2000.0)

    def step(m: Num, c: Num, d: Num, value: Num, change: Num, a: Num, b: Num, x: Num) -> list[Num]:
        m = m + 1.0
        settled = change <= epsilon(x)
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d1 = 1.0 / nonzero(1.0 + even * d)
        c1 = nonzero(1.0 + even / c)
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d2 = 1.0 / nonzero(1.0 + odd * d1)
        c2 = nonzero(1.0 + odd / c1)
        factor = d2 * c2
        grown = value * (d1 * c1) * factor
        return [m, c2, d2, where(settled, value, grown), where(settled, change, abs(factor - 1.0)), a, b, x]

    d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0))
    return loop([0.0 * one, one, d, d, one, a, b, x], running, step)[3]


@formula
def betainc(a0: Num, b0: Num, x0: Num) -> Num:
    """The regularised incomplete beta function I_x(a, b); NaN outside its domain."""
    a0, b0, x0 = spread_all(a0, b0, x0)
    nan = a0.ne(a0) | b0.ne(b0) | x0.ne(x0)
    none = (a0.eq(0) & b0.eq(0)) | (a0.eq(np.inf) & b0.eq(np.inf))
    invalid = nan | none | (a0 < 0) | (b0 < 0) | (x0 < 0) | (x0 > 1.0)
    end = x0.eq(0) | x0.eq(1.0) | a0.eq(0) | b0.eq(0)
    skip = invalid | end | a0.eq(np.inf) | b0.eq(np.inf)
    a, b, x = (where(skip, const(v, w), w) for v, w in ((1.0, a0), (1.0, b0), (0.5, x0)))
    # I_x(a, b) = 1 - I_(1-x)(b, a), where the fraction converges faster
    mirrored = x > (a + 1.0) / (a + b + 2.0)
    p, q, y = where(mirrored, b, a), where(mirrored, a, b), where(mirrored, 1.0 - x, x)
    log_y, log_z = where(mirrored, log1p(-x), log(x)), where(mirrored, log(x), log1p(-x))
    factor = exp(lgamma(p + q) - lgamma(p) - lgamma(q) + p * log_y + q * log_z)
    value = factor * beta_fraction(p, q, y) / p
    value = where(mirrored, 1.0 - value, value)
    # All mass is at 0 for a = 0 or infinite b, at 1 for b = 0 or infinite a.
    low, high = x0.eq(0) | b0.eq(0) | a0.eq(np.inf), x0.eq(1.0) | a0.eq(0) | b0.eq(np.inf)
    value = where(high, const(1, x0), value)
    value = where(low & x0.ne(1.0), const(0, x0), value)
    return where(invalid, const(np.nan, x0), value)


by_dtype(ew.regularized_incomplete_beta_p, f32=computed_in_double(betainc), f64=betainc)

"""Confluent and Gauss's hypergeometric functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import lax
from ... import numpy as qnp
from ...arrays.operands import Value, epsilon, is_double, operands, widened
from ...transforms.custom_derivatives import custom_jvp, define_partials
from ...transforms.differentiation import jvp
from .gamma_functions import _gammasgn

_LIMIT = 5000


def _series(
    upper: Sequence[Value], lower: Sequence[Value], x: Value, partials: bool = False, first: Value | None = None
) -> tuple[Value, list[Value]]:
    """The sum of (u1)_k ... / ((l1)_k ...) x**k / k!, and with `partials` its derivatives by the parameters.

    All is multiplied by `first`, the first term.

    The derivatives' terms follow from the terms without a division, so that they are right where a term is zero.
    """
    small = epsilon(x) / 4
    parameters = [*upper, *lower]
    zero, one = qnp.zeros_like(x), qnp.ones_like(x)
    # A denominator that passes next to zero makes later terms large again.
    least = qnp.max(-qnp.minimum(_smallest(lower), 0.0), initial=0.0) + 3.0

    def running(state: Any) -> Value:
        k, term, total, terms, totals = state
        alive = qnp.abs(term) > small * qnp.abs(total)
        for t, s in zip(terms, totals):
            alive = alive | (qnp.abs(t) > small * qnp.abs(s))
        return (k < _LIMIT) & (qnp.any(alive) | (k < least))

    def step(state: Any) -> Any:
        k, term, total, terms, totals = state
        ratio = x / (k + 1.0)
        for u in upper:
            ratio = ratio * (u + k)
        for v in lower:
            ratio = ratio / (v + k)
        grown = [t * ratio for t in terms]
        if partials:
            for i, p in enumerate(parameters):
                if i < len(upper):
                    rest = x / (k + 1.0)
                    for j, u in enumerate(upper):
                        rest = rest if i == j else rest * (u + k)
                    for v in lower:
                        rest = rest / (v + k)
                else:
                    rest = -ratio / (p + k)
                grown[i] = grown[i] + term * rest
        term = term * ratio
        return k + 1.0, term, total + term, grown, [s + t for s, t in zip(totals, grown)]

    nothing = [zero for _ in parameters] if partials else []
    first = one if first is None else first
    start = (qnp.asarray(0.0, dtype=x.dtype), first, first, nothing, nothing)
    _, _, total, _, totals = lax.while_loop(running, step, start)
    return total, totals


def _smallest(values: Sequence[Value]) -> Value:
    out = values[0]
    for v in values[1:]:
        out = qnp.minimum(out, v)
    return out


def _nonpositive_integer(x: Value) -> Value:
    return (x <= 0) & (x == qnp.round(x))


def _gamma_ratio(upper: Sequence[Value], lower: Sequence[Value], log: Any = 0.0) -> Value:
    """A quotient of products of gamma functions, times exp(log); 0 where one below has a pole."""
    sign: Any = 1.0
    pole: Any = False
    for x in upper:
        log, sign = log + ew.lgamma(x), sign * _gammasgn(x)
    for x in lower:
        at = _nonpositive_integer(x)
        safe = qnp.where(at, 1.0, x)
        log, sign, pole = log - ew.lgamma(safe), sign * _gammasgn(safe), pole | at
    return qnp.where(pole, 0.0, sign * ew.exp(log))


# -- confluent --------------------------------------------------------------------------------------------------------


def _confluent_far(a: Value, b: Value, x: Value) -> Value:
    """M(a, b, x) for large positive x (NIST DLMF 13.7.1), without the factor exp(x)."""
    total: Any = 1.0
    term: Any = 1.0
    alive: Any = True
    for k in range(40):
        following = term * (b - a + float(k)) * (1.0 - a + float(k)) / ((k + 1.0) * x)
        alive = alive & (qnp.abs(following) <= qnp.abs(term))
        term = qnp.where(alive, following, 0.0)
        total = total + term
    return _gamma_ratio([b], [a], (a - b) * ew.log(x)) * total


def _confluent_parts(a: Value, b: Value, x: Value, slopes: bool = False) -> Any:
    """How M(a, b, x) is computed: whether Kummer's transformation applies, whether x is large, and safe arguments.

    The series of `slopes`, derivatives by a, do not end where that of the value does.
    """
    polynomial = _nonpositive_integer(a)
    mirrored = (x < 0) & (~polynomial | (slopes & (x < -1.0)))
    upper = qnp.where(mirrored, b - a, a)
    size = qnp.where(mirrored, -x, x)
    # The asymptotic expansion's terms fall from the first on, or else the power series is taken while it cannot overflow.
    falling = size > 2.0 * (qnp.abs(b - upper) + 1.0) * (qnp.abs(1.0 - upper) + 1.0)
    least, most = (100.0, 1000.0) if is_double(x) else (50.0, 120.0)
    far = (size > least) & (falling | (size > most))
    far = far & ~(polynomial & ~mirrored) & ~_nonpositive_integer(upper)
    bad = _nonpositive_integer(b) | qnp.isnan(x) | qnp.isnan(a) | qnp.isnan(b)
    return mirrored, upper, size, far, bad


def _confluent_scale(mirrored: Value, size: Value) -> tuple[Value, Value]:
    """The power series' first term, and a factor to multiply its sum by twice: the sum may overflow where the product does not."""
    whole, limit = (2.0**-900, 400.0) if is_double(size) else (2.0**-100, 40.0)
    large = size > limit
    half = ew.exp(qnp.where(mirrored, -0.5 * size, 0.0))
    return qnp.where(large, whole, qnp.ones_like(size)), qnp.where(large, whole**-0.5, 1.0) * half


@custom_jvp
def _hyp1f1(a: Value, b: Value, x: Value) -> Value:
    mirrored, upper, size, far, bad = _confluent_parts(a, b, x)
    skip = far | bad
    first, root = _confluent_scale(mirrored, size)
    arguments = qnp.where(skip, 1.0, upper), qnp.where(skip, 1.0, b), qnp.where(skip, 0.0, size)
    near, _ = _series([arguments[0]], [arguments[1]], arguments[2], first=first)
    distant = _confluent_far(qnp.where(far, upper, 1.0), qnp.where(far & ~bad, b, 1.0), qnp.where(far, size, 100.0))
    half = ew.exp(0.5 * size)  # the whole factor may overflow where the product does not
    value = qnp.where(far, qnp.where(mirrored, distant, half * distant * half), near * root * root)
    value = qnp.where(_nonpositive_integer(b), np.inf, value)
    return qnp.where(qnp.isnan(x) | qnp.isnan(a) | qnp.isnan(b), np.nan, value)


def _hyp1f1_by_parameters(a: Value, b: Value, x: Value) -> tuple[Value, Value]:
    mirrored, upper, size, far, bad = _confluent_parts(a, b, x, slopes=True)
    skip = far | bad
    arguments = qnp.where(skip, 1.0, upper), qnp.where(skip, 1.0, b), qnp.where(skip, 0.0, size)
    first, root = _confluent_scale(mirrored, size)
    _, (by_upper, by_lower) = _series([arguments[0]], [arguments[1]], arguments[2], True, first)
    distant = qnp.where(far, upper, 1.0), qnp.where(far & ~bad, b, 1.0), qnp.where(far, size, 100.0)
    half = qnp.where(mirrored, 1.0, ew.exp(qnp.where(far, 0.5 * size, 0.0)))
    one = qnp.ones_like(x)
    far_upper = jvp(lambda u: _confluent_far(u, *distant[1:]), (distant[0],), (one,))[1] * half * half
    far_lower = jvp(lambda v: _confluent_far(distant[0], v, distant[2]), (distant[1],), (one,))[1] * half * half
    by_upper = qnp.where(far, far_upper, by_upper * root * root)
    by_lower = qnp.where(far, far_lower, by_lower * root * root)
    by_a = qnp.where(mirrored, -by_upper, by_upper)
    by_b = qnp.where(mirrored, by_lower + by_upper, by_lower)
    return by_a, qnp.where(a == 0, 0.0, by_b)


define_partials(
    _hyp1f1,
    lambda t, value, *args: t * _hyp1f1_by_parameters(*args)[0],
    lambda t, value, *args: t * _hyp1f1_by_parameters(*args)[1],
    lambda t, value, a, b, x: t * (a / b) * _hyp1f1(a + 1.0, b + 1.0, x),
)


def hyp1f1(a: Any, b: Any, x: Any) -> Value:
    """The confluent hypergeometric function 1F1(a; b; x).

    Args:
        a, b, x: real arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape: inf where b is 0, -1, -2, ... The power series, Kummer's transformation for
        negative x, and the asymptotic expansion for large ones (NIST DLMF 13.2.2, 13.2.39, 13.7.1).

    Follows `scipy.special.hyp1f1`.

    >>> round(quire.scipy.special.hyp1f1(1.0, 2.0, 1.0).item(), 4)
    1.7183
    """
    return widened(_hyp1f1, *operands("special.hyp1f1", a, b, x))


# -- Gauss's ----------------------------------------------------------------------------------------------------------


def _near_one(a: Value, b: Value, c: Value, x: Value) -> Value:
    """2F1 for x next to 1 from the series in 1 - x (NIST DLMF 15.8.4; 15.8.10 where c - a - b is an integer)."""
    s = 1.0 - x
    d = c - a - b
    nearest = qnp.round(d)
    whole = qnp.abs(d - nearest) < 1e-3 if not is_double(x) else qnp.abs(d - nearest) < 1e-9
    shifted = qnp.where(whole, nearest + 0.5, d)
    first, _ = _series([a, b], [1.0 - shifted], s)
    second, _ = _series([c - a, c - b], [1.0 + shifted], s)
    general = _gamma_ratio([c, shifted], [c - a, c - b]) * first
    general = general + ew.exp(shifted * ew.log(s)) * _gamma_ratio([c, -shifted], [a, b]) * second
    return qnp.where(whole, _logarithmic(a, b, c, qnp.where(whole, nearest, 0.0), s), general)


def _logarithmic(a: Value, b: Value, c: Value, d: Value, s: Value) -> Value:
    """2F1 where c - a - b is the integer d: the finite sum of abs(d) terms and the series with a logarithm."""
    e = qnp.abs(d)
    up, down = qnp.maximum(d, 0.0), qnp.minimum(d, 0.0)
    log = ew.log(s)
    a1, b1 = a + up, b + up

    def running(state: Any) -> Value:
        k, term, psi, total, added = state
        return (k < 400.0) & qnp.any(qnp.abs(added) > epsilon(s) / 4 * qnp.abs(total))

    def step(state: Any) -> Any:
        k, term, psi, total, _ = state
        added = term * (psi - log)
        grown = term * (a1 + k) * (b1 + k) / ((k + 1.0) * (e + k + 1.0)) * s
        psi = psi + 1.0 / (k + 1.0) + 1.0 / (e + k + 1.0) - 1.0 / (a1 + k) - 1.0 / (b1 + k)
        return k + 1.0, grown, psi, total + added, added

    psi = -float(np.euler_gamma) + ew.digamma(e + 1.0) - ew.digamma(a1) - ew.digamma(b1)
    first = ew.exp(-ew.lgamma(e + 1.0))
    start = (qnp.asarray(0.0, dtype=s.dtype), first, psi, qnp.zeros_like(s), qnp.ones_like(s))
    infinite = lax.while_loop(running, step, start)[3]
    finite: Any = 0.0
    term: Any = qnp.ones_like(s)
    for k in range(12):
        inside = float(k) < e
        finite = finite + qnp.where(inside, term, 0.0)
        safe = qnp.where(inside & (e != k + 1.0), 1.0 - e + float(k), 1.0)
        term = term * (a + down + float(k)) * (b + down + float(k)) / ((k + 1.0) * safe) * s
    odd = e * 0.5 != qnp.floor(e * 0.5)
    finite = finite * _gamma_ratio([qnp.maximum(e, 1.0), c], [a1, b1])
    infinite = qnp.where(odd, -infinite, infinite) * _gamma_ratio([c], [a + down, b + down])
    power = ew.exp(d * log)
    return qnp.where(d >= 0, finite + power * infinite, power * finite + infinite)


class _Gauss(NamedTuple):
    """2F1 as a factor times the series of other parameters in another argument."""

    first: Value
    second: Value
    argument: Value
    factor: Value
    polynomial: Value  # whether the series ends
    mirrored: Value  # by Pfaff's transformation
    swapped: Value  # by that for the second parameter
    opposite: Value  # by Euler's transformation


def _gauss_parts(a: Value, b: Value, c: Value, x: Value) -> _Gauss:
    """Pfaff's transformation brings x < -1/2 to (1/3, 1), of the two forms by the one that ends if one does.

    Euler's transformation is for x > 1 where its series ends: there the series in x diverges, and others have no real terms.
    """
    polynomial = _nonpositive_integer(a) | _nonpositive_integer(b)
    mirrored = (x < -0.5) & ~polynomial
    ends_a, ends_b = _nonpositive_integer(c - a), _nonpositive_integer(c - b)
    excess = c - a - b
    opposite = (x > 1.0) & ~polynomial & (ends_a | ends_b) & (excess == qnp.round(excess))
    swapped = mirrored & ends_a & ~(ends_b & (a >= b))  # of two that end, by the shorter
    first, other = qnp.where(swapped, b, a), qnp.where(swapped, a, b)
    second = qnp.where(mirrored | opposite, c - other, b)
    safe = qnp.where(mirrored, x, -1.0)
    y = qnp.where(mirrored, safe / (safe - 1.0), x)
    odd = excess * 0.5 != qnp.floor(excess * 0.5)
    power = ew.exp(qnp.where(opposite, excess * ew.log(qnp.where(opposite, x - 1.0, 1.0)), 0.0))
    factor = qnp.where(opposite, qnp.where(odd, -power, power), 1.0)
    factor = qnp.where(mirrored, ew.exp(-first * ew.log1p(-safe)), factor)
    first = qnp.where(opposite, c - a, first)
    polynomial = polynomial | opposite | (mirrored & (ends_a | ends_b))
    return _Gauss(first, second, y, factor, polynomial, mirrored, swapped, opposite)


def _terminates_before(a: Value, c: Value) -> Value:
    """Whether (a)_k vanishes before (c)_k does, c being 0, -1, ..."""
    return _nonpositive_integer(a) & (a >= c)


@custom_jvp
def _hyp2f1(a: Value, b: Value, c: Value, x: Value) -> Value:
    first, second, y, factor, polynomial, *_ = _gauss_parts(a, b, c, x)
    pole = _nonpositive_integer(c) & ~(_terminates_before(a, c) | _terminates_before(b, c))
    nan = qnp.isnan(a) | qnp.isnan(b) | qnp.isnan(c) | qnp.isnan(x)
    outside = (y >= 1.0) & ~polynomial
    skip = pole | nan | outside
    close = (y > 0.9) & ~polynomial & ~skip
    idle = skip | close
    arguments = [qnp.where(idle, v, w) for v, w in ((1.0, first), (1.0, second), (1.0, c), (0.0, y))]
    value, _ = _series(arguments[:2], [_off_poles(arguments[2])], arguments[3])
    arguments = [qnp.where(close, v, w) for v, w in ((first, 0.25), (second, 0.25), (c, 1.0), (y, 0.95))]
    value = qnp.where(close, _near_one(*arguments), value) * factor
    excess = c - first - second
    infinite = _gammasgn(a) * _gammasgn(b) * _gammasgn(c) * np.inf
    at_one = _gamma_ratio([c, qnp.where(excess > 0, excess, 1.0)], [c - first, c - second])
    at_one = qnp.where(excess > 0, at_one, infinite)
    value = qnp.where((y == 1.0) & ~polynomial, at_one * factor, value)
    value = qnp.where((x == 0) & ~nan, 1.0, value)
    value = qnp.where((pole & (x != 0)) | ((x > 1.0) & ~polynomial), np.inf, value)
    return qnp.where(nan, np.nan, value)


def _off_poles(c: Value) -> Value:
    """c moved a little off 0, -1, ...: a polynomial ends before the denominator vanishes, but 0/0 would follow it."""
    return qnp.where(_nonpositive_integer(c), c + epsilon(c) * qnp.maximum(-c, 1.0), c)


def _hyp2f1_by_parameters(a: Value, b: Value, c: Value, x: Value) -> tuple[Value, ...]:
    of = _gauss_parts(a, b, c, x)
    y = of.argument
    # By the parameters Euler's form has no real derivative: there is none but where its exponent is whole.
    idle = ((y >= 1.0) & ~of.polynomial) | of.opposite
    arguments = [qnp.where(idle, v, w) for v, w in ((1.0, of.first), (1.0, of.second), (1.0, c), (0.0, y))]
    total, (by_first, by_second, by_c) = _series(arguments[:2], arguments[2:3], arguments[3], partials=True)
    mirrored = of.mirrored
    by_first = qnp.where(mirrored, by_first - ew.log1p(-qnp.where(mirrored, x, 0.0)) * total, by_first) * of.factor
    by_other = qnp.where(mirrored, -by_second, by_second) * of.factor
    by_c = qnp.where(mirrored, by_c + by_second, by_c) * of.factor
    by_a, by_b = qnp.where(of.swapped, by_other, by_first), qnp.where(of.swapped, by_first, by_other)
    by_a, by_b, by_c = (qnp.where(idle, np.nan, v) for v in (by_a, by_b, by_c))
    return _past_the_end(by_a, a, b, c, x), _past_the_end(by_b, b, a, c, x), by_c


def _past_the_end(slope: Value, a: Value, b: Value, c: Value, x: Value) -> Value:
    """The derivative by a, where the series ends at a = 0, -1, ... but the derivative's series goes on: by Pfaff's transformation
    for x < -1/2. For x > 1 there is none, as the function is real for these a alone. Elsewhere it is `slope`.
    """
    ends = _nonpositive_integer(a) & ~_nonpositive_integer(b) & ~_nonpositive_integer(c)
    here = ends & (x < -0.5)
    u, v, w, far = (qnp.where(here, given, idle) for given, idle in ((a, 1.0), (c - b, 1.0), (c, 1.0), (x, 0.0)))
    total, (by_u, *_) = _series([u, v], [w], far / (far - 1.0), partials=True)
    log = ew.log1p(-far)
    return qnp.where(here, (by_u - log * total) * ew.exp(-u * log), qnp.where(ends & (x > 1.0), np.nan, slope))


def _hyp2f1_by_x(t: Value, value: Value, a: Value, b: Value, c: Value, x: Value) -> Value:
    # The constant of a = 0 has the slope 0 for x > 1 too, where the other function is infinite.
    flat = (a * b == 0) & (x > 1.0)
    return t * (a * b / c) * _hyp2f1(a + 1.0, b + 1.0, c + 1.0, qnp.where(flat, 0.0, x))


define_partials(
    _hyp2f1,
    lambda t, value, *args: t * _hyp2f1_by_parameters(*args)[0],
    lambda t, value, *args: t * _hyp2f1_by_parameters(*args)[1],
    lambda t, value, *args: t * _hyp2f1_by_parameters(*args)[2],
    _hyp2f1_by_x,
)


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Value:
    """Gauss's hypergeometric function 2F1(a, b; c; x).

    Args:
        a, b, c, x: real arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape: inf where c is 0, -1, ... and for x > 1 unless the function is a polynomial,
        or one over a whole power of 1 - x. The power series, Pfaff's transformation for negative x, Euler's for x > 1, and
        the series in 1 - x next to 1 (NIST DLMF 15.2.1, 15.8.1, 15.8.4, 15.8.10).

    Follows `scipy.special.hyp2f1`.

    >>> round(quire.scipy.special.hyp2f1(1.0, 1.0, 2.0, 0.5).item(), 4)
    1.3863
    """
    return widened(_hyp2f1, *operands("special.hyp2f1", a, b, c, x))

"""Bessel functions and spherical harmonics."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.errors import ConcretizationTypeError
from quire.ir.primitives import elementwise as ew
from quire.passes.ad.elementwise import i1_slope

from ... import lax
from ... import numpy as qnp
from ...arrays.operands import Value, array, cast, concrete, inexact, operands, promote_all_shapes
from ...transforms.custom_derivatives import custom_jvp


def i0e(x: Any) -> Value:
    """exp(-abs(x)) i0(x), which does not overflow. Follows `scipy.special.i0e`.

    >>> quire.scipy.special.i0e(0.0).item()
    1.0
    """
    return ew.bessel_i0e(*operands("special.i0e", x))


def i1e(x: Any) -> Value:
    """exp(-abs(x)) i1(x), which does not overflow. Follows `scipy.special.i1e`.

    >>> quire.scipy.special.i1e(0.0).item()
    0.0
    """
    return ew.bessel_i1e(*operands("special.i1e", x))


@custom_jvp
def _i0(x: Value) -> Value:
    half = ew.exp(0.5 * qnp.abs(x))
    return half * ew.bessel_i0e(x) * half


@custom_jvp
def _i1(x: Value) -> Value:
    half = ew.exp(0.5 * qnp.abs(x))
    return half * ew.bessel_i1e(x) * half


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _i0(x), t * _i1(x)


@_i1.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value = _i1(x)
    near = qnp.abs(x) < 1  # where the quotient's derivatives cancel
    far = _i0(x) - value / qnp.where(near, 1.0, x)
    return value, t * qnp.where(near, i1_slope(qnp.where(near, x, 0.0)), far)


def i0(x: Any) -> Value:
    """The modified Bessel function of the first kind of order 0.

    Args:
        x: a real array or number.

    Follows `scipy.special.i0`.

    >>> round(quire.scipy.special.i0(1.0).item(), 4)
    1.2661
    """
    return _i0(*operands("special.i0", x))


def i1(x: Any) -> Value:
    """The modified Bessel function of the first kind of order 1. Follows `scipy.special.i1`.

    >>> round(quire.scipy.special.i1(1.0).item(), 4)
    0.5652
    """
    return _i1(*operands("special.i1", x))


# -- Bessel functions of the first kind -------------------------------------------------------------------------------

_LARGE = 1e10


def _downward(z: Value, k: Value | float, upper: Value, here: Value, total: Value) -> tuple[Value, ...]:
    """One step of J[k-1] = 2 k / z J[k] - J[k+1] on multiples of the J; all are scaled down before they overflow."""
    below = (2.0 * k) / z * here - upper
    scale = qnp.where(qnp.abs(below) > _LARGE, 1 / _LARGE, 1.0)
    return here * scale, below * scale, total * scale, scale


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _bessel(z: Value, v: int, n_iter: int) -> Value:
    """J_0 ... J_v by J.C.P. Miller's backward recurrence, normalised by J_0 + 2 J_2 + 2 J_4 + ... = 1."""
    tiny = qnp.abs(z) < 1e-4
    safe = qnp.where(tiny, 1.0, z)
    start = max(n_iter, v + 2)
    start += start % 2
    zero = qnp.zeros_like(safe)

    def step(carry: Any, k: Value) -> Any:
        upper, here, total, even = carry
        upper, here, total, _ = _downward(safe, k, upper, here, total)
        total = total + qnp.where(even, 0.0, 2.0) * here
        return (upper, here, total, ~even), None

    first = qnp.full_like(safe, 1e-10)
    orders = np.arange(start, v + 1, -1)
    carry = (zero, first, 2.0 * first, qnp.asarray(True))
    real = dtypes.real_dtype(aval_of(safe).dtype)
    (upper, here, total, _), _ = lax.scan(step, carry, qnp.asarray(orders.astype(real)))
    kept: list[Value] = []  # here is J[v + 1]
    for k in range(v + 1, 0, -1):
        upper, here, total, scale = _downward(safe, float(k), upper, here, total)
        kept = [x * scale for x in kept] + [here]
        if (k - 1) % 2 == 0:
            total = total + (2.0 if k > 1 else 1.0) * here
    out: list[Value] = []
    power: Any = qnp.ones_like(z)
    half, square = 0.5 * z, 0.25 * z * z
    for n, x in enumerate(reversed(kept)):
        out.append(qnp.where(tiny, power * (1.0 - square / (n + 1.0)), x / total))
        power = power * half / (n + 1.0)
    return qnp.stack(out)


@_bessel.defjvp
def _bessel_jvp(v: int, n_iter: int, primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    values = _bessel(z, v + 1, n_iter)
    slope = 0.5 * (qnp.concatenate([-values[1:2], values[:v]]) - values[1:])
    return values[: v + 1], t * slope


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Value:
    """The Bessel functions of the first kind of orders 0, 1, ..., v.

    Args:
        z: an array or number. v: the last order, a Python integer of at least 0.
        n_iter: the order at which the recurrence begins; it must exceed abs(z) by some 20.

    Returns:
        An array of shape (v + 1, *z.shape): Miller's backward recurrence (NIST DLMF 3.6(v)), scaled so that it does not
        overflow for small z either.

    Raises:
        TypeError: v or `n_iter` is no Python integer.
        ValueError: v or `n_iter` is negative.

    Follows `jax.scipy.special.bessel_jn`.

    >>> [round(x, 4) for x in quire.scipy.special.bessel_jn(1.0, v=2).tolist()]
    [0.7652, 0.4401, 0.1149]
    """
    for name, value in (("v", v), ("n_iter", n_iter)):
        if not isinstance(value, int | np.integer):
            raise TypeError(f"quire.scipy.special.bessel_jn: {name} must be a Python integer, got {value!r}")
        if value < 0:
            raise ValueError(f"quire.scipy.special.bessel_jn: {name} must be at least 0, got {value}")
    (x,) = operands("special.bessel_jn", z, complex_ok=True)
    dtype = aval_of(x).dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return cast(_bessel(cast(x, dtypes.float32), int(v), int(n_iter)), dtype)
    return _bessel(x, int(v), int(n_iter))


# -- spherical harmonics ----------------------------------------------------------------------------------------------


def _normalised_legendre(n: Value, m: Value, x: Value, sine: Value, n_max: int) -> Value:
    """P[n, m] for 0 <= m <= n <= n_max, normalised on the sphere: upward in n from P[m, m] (NIST DLMF 14.10.3)."""
    current: Any = qnp.full_like(x, math.sqrt(1 / (4 * math.pi)))
    for k in range(1, n_max + 1):
        current = current * qnp.where(k <= m, sine * -math.sqrt((2 * k + 1) / (2 * k)), 1.0)
    before = qnp.zeros_like(x)
    result = qnp.where(n == m, current, 0.0)
    for l in range(1, n_max + 1):
        above = m < l
        order = qnp.where(above, m, 0.0)
        scale = qnp.sqrt((4.0 * l * l - 1.0) / (float(l * l) - order * order))
        least = qnp.maximum((l - 1.0) ** 2 - order * order, 0.0)
        weight = qnp.sqrt(least / (4.0 * (l - 1) ** 2 - 1.0)) if l > 1 else 0.0
        following = scale * (x * current - weight * before)
        before, current = qnp.where(above, current, before), qnp.where(above, following, current)
        result = qnp.where(above & (n == l), current, result)
    return result


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None) -> Value:
    """The spherical harmonics Y of degree n and order m.

    Args:
        n: integers of at least 0. m: integers with abs(m) <= n; elsewhere the result is 0.
        theta: the polar angle, in [0, pi]. phi: the azimuth.
        diff_n: must be None: take derivatives with `quire.jvp` or `quire.grad`.
        n_max: the largest n; it must be given where n is traced.

    Returns:
        A complex array of the broadcast shape.

    Raises:
        NotImplementedError: `diff_n` is given.
        TypeError: n or m has no integer dtype.
        ConcretizationTypeError: n is traced and `n_max` is not given.

    Follows `scipy.special.sph_harm_y`.

    >>> quire.scipy.special.sph_harm_y(0, 0, 0.3, 0.1).item()  # doctest: +ELLIPSIS
    (0.282...+0j)
    """
    if diff_n is not None:
        raise NotImplementedError(
            "quire.scipy.special.sph_harm_y: diff_n is not supported: take derivatives with quire.jvp or quire.grad"
        )
    degree, order = array("special.sph_harm_y", n), array("special.sph_harm_y", m, 1)
    for name, value in (("n", degree), ("m", order)):
        if not dtypes.is_integer(aval_of(value).dtype):
            raise TypeError(f"quire.scipy.special.sph_harm_y: {name} must be integers, got {aval_of(value).short()}")
    if n_max is None:
        known = concrete(degree)
        if known is None:
            raise ConcretizationTypeError(
                "quire.scipy.special.sph_harm_y: the largest degree must be known while tracing: give it as n_max"
            )
        n_max = int(known.max(initial=0))
    polar, azimuth = operands("special.sph_harm_y", theta, phi)
    dtype = inexact(aval_of(polar).dtype)
    dtype = dtype if dtype == dtypes.float64 else dtypes.float32
    degree, order, polar, azimuth = promote_all_shapes(
        "special.sph_harm_y", *(cast(v, dtype) for v in (degree, order, polar, azimuth))
    )
    size = qnp.abs(order)
    legendre = _normalised_legendre(degree, size, ew.cos(polar), ew.abs_p.bind(ew.sin(polar)), int(n_max))
    odd = size * 0.5 != qnp.floor(size * 0.5)
    legendre = qnp.where((order < 0) & odd, -legendre, legendre)
    legendre = qnp.where(size <= degree, legendre, 0.0)
    angle = order * azimuth
    return ew.complex(legendre * ew.cos(angle), legendre * ew.sin(angle))

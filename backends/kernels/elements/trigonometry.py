"""Sine and cosine of float32 in kernels: a short reduction where all lanes are moderate, else the exact formula.

StableHLO has no branch inside an elementwise operation, so its formula (stablehlo/elementwise_math.py) reduces every
argument in the way that the largest ones need. A kernel can test its lanes: up to 2^20 two fused multiply-adds of
float64 leave an error far below float32's. The polynomials are the same (Cephes, S. Moshier).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..core.builder import KernelBuilder
from ..core.values import Value, lanes

#: Arguments below this are reduced by the short way.
MODERATE = 2.0**20
_HALF_PI = float.fromhex("0x1.921fb54442d18p+0")
_HALF_PI_LOW = float.fromhex("0x1.1a62633145c07p-54")
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def sine(b: KernelBuilder, x: Value, exact: Callable[[], Value]) -> Value:
    """sin(x); `exact` emits the formula that is right for every x."""
    return _either(b, x, lambda: _moderate(b, x, 0), exact)


def cosine(b: KernelBuilder, x: Value, exact: Callable[[], Value]) -> Value:
    """cos(x), the sine of a quadrant more."""
    return _either(b, x, lambda: _moderate(b, x, 1), exact)


def _either(b: KernelBuilder, x: Value, short: Callable[[], Value], exact: Callable[[], Value]) -> Value:
    moderate = b.cmp("olt", b.math("absf", x), MODERATE)
    if lanes(x.type):
        moderate = b.reduce("and", moderate)
    with b.if_(moderate, [x.type]) as arm:
        arm.yield_(short())
        arm.else_()
        arm.yield_(exact())
    return arm.results[0]


_WHOLE = 1.5 * 2.0**52


def _moderate(b: KernelBuilder, x: Value, more: int) -> Value:
    wide = b.cast(x, "f64")
    q = (wide * (2 / math.pi) + _WHOLE) - _WHOLE  # the nearest integer: numbers of this size have no bits for fractions
    r = b.fma(q, -_HALF_PI, wide)
    r = b.cast(b.fma(q, -_HALF_PI_LOW, r), "f32")
    quadrant = b.convert("fptosi", q, "i32") + more
    z = r * r
    s = b.fma(r * z, _polynomial(b, z, _SINE), r)
    c = b.fma(z * z, _polynomial(b, z, _COSINE), b.fma(z, -0.5, b.const(1.0, z.type)))
    y = b.select(b.cmp("eq", quadrant & 1, 0), s, c)
    sign = (quadrant & 2) << 30
    y = b.bitcast(b.bitcast(y, "i32") ^ sign, "f32")
    # -0 stays: the reduction has lost its sign.
    return y if more else b.select(b.cmp("oeq", x, 0.0), x, y)


def _polynomial(b: KernelBuilder, x: Value, coefficients: tuple[float, ...]) -> Value:
    total = b.const(coefficients[0], x.type)
    for c in coefficients[1:]:
        total = b.fma(total, x, b.const(c, x.type))
    return total

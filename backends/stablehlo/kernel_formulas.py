"""Formulas, for kernels, of special functions that StableHLO lowering leaves to operations of the chlo dialect.

Gamma functions by Lanczos' approximation (g = 7, 9 terms) as those are, the complementary error function as in Cephes
(S. Moshier); float32 functions that StableHLO lowering computes in float64 are so in kernels too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.jaxpr import Jaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import trace_flat

from ..targets import Target
from .elementwise_math import sine_cosine
from .formulas import Num, const, exp, floor, formula, log, log1p, polynomial, round_, sin, tan, target_has_libm, where
from .lowering import FORMULAS, LoweringRule, lowering

_G = 7.0
_BASE = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def _log_of_shifted(z: Num) -> Num:
    """log(z + g + 1/2)."""
    return math.log(_G + 0.5) + log1p(z * (1 / (_G + 0.5)))


def _sine_of_pi_times(r: Num) -> Num:
    """sin(pi r) for 0 <= r <= 1/2."""
    if r.dtype != dtypes.float32:
        return sin(math.pi * r)
    large = r > 0.25
    s, c = sine_cosine(math.pi * where(large, 0.5 - r, r))
    return where(large, c, s)


@formula
def lgamma(x: Num) -> Num:
    """log |Gamma(x)| of float32."""
    a = abs(x)
    small = x < 0.5
    z = where(small, -x, x - 1.0)
    total: Any = const(_BASE, x)
    for i, c in enumerate(_LANCZOS):
        total = total + c / (z + (i + 1.0))
    log_t = _log_of_shifted(z)
    t = z + (_G + 0.5)
    value = 0.5 * math.log(2 * math.pi) + ((z + 0.5) - t / log_t) * log_t + log(total)
    fraction = a - floor(a)
    sine = log(_sine_of_pi_times(where(fraction > 0.5, 1.0 - fraction, fraction)))
    reflected = where(abs(sine) < np.inf, math.log(math.pi) - sine - value, -sine)
    return where(a.eq(np.inf), const(np.inf, x), where(small, reflected, value))


@formula
def digamma(x: Num) -> Num:
    """The derivative of `lgamma`, of float32."""
    small = x < 0.5
    z = where(small, -x, x - 1.0)
    below: Any = const(_BASE, x)
    above: Any = const(0, x)
    for i, c in enumerate(_LANCZOS):
        term = c / (z + (i + 1.0))
        above, below = above - term / (z + (i + 1.0)), below + term
    value = _log_of_shifted(z) + above / below - _G / (z + (_G + 0.5))
    pole = (x <= 0) & floor(x).eq(x)
    reflected = value - math.pi / tan(math.pi * (x - round_(x)))
    return where(pole, const(np.nan, x), where(small, reflected, value))


# erf(x) = x P(x^2) / Q(x^2) up to where it is 1 in float32: the rational function that chlo.erf is expanded to.
_ERF_END = 3.7439211627767994
_ERF_ABOVE = (
    2.2905065861350646e-4,
    3.4082910107109506e-3,
    5.0955695062380861e-2,
    0.18520832239976145,
    1.128379143519084,
)
_ERF_BELOW = (
    -1.1791602954361697e-7, 2.3547966471313185e-5, 1.0179625278914885e-3, 1.4070470171167667e-2, 0.11098505178285362,
    0.49746925110067538, 1.0,
)  # fmt: skip


@formula
def erf(x: Num) -> Num:
    """The error function, of float32."""
    bounded = Num(ew.clamp(np.float32(-_ERF_END), x.value, np.float32(_ERF_END)))
    z = bounded * bounded
    return bounded * polynomial(z, _ERF_ABOVE) / polynomial(z, _ERF_BELOW)


# erfc(x) e^(x^2) x by 1 / x^2, for 1 <= x < 2 and above; erf(x) / x by x^2 below. The highest power comes first.
_ERFC_NEAR = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1, 6.210004621745983e-1,
    -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1, 5.638259427386472e-1,
)  # fmt: skip
_ERFC_FAR = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786, -1.015265279202700,
    4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip
_ERF = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1,
    -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip


@formula
def erfc(x: Num) -> Num:
    """1 - erf(x) of float32, exact to its last digits where it is small."""
    a = abs(x)
    inner = a < 1.0
    bounded = where(inner, const(1, x), where(a > 12.0, const(12, x), a))
    # e^(-a^2) in two factors: the first one's exponent is exact.
    head = Num(ew.bitcast_convert_type((bounded.bits() & np.int32(-4096)).value, dtypes.float32))
    tail = exp(-(head * head)) * exp((head - bounded) * (head + bounded))
    w = 1.0 / bounded
    v = w * w
    outer = tail * w * where(bounded < 2.0, polynomial(v, _ERFC_NEAR), polynomial(v, _ERFC_FAR))
    outer = where(x < 0, 2.0 - outer, outer)
    value = where(inner, 1.0 - x * polynomial(x * x, _ERF), outer)
    return where(x.ne(x), x, value)


def _for_kernels(p: Primitive, f32: LoweringRule | None = None, f64: LoweringRule | None = None) -> None:
    """Give a primitive formulas for kernels, where lowering to StableHLO goes another way."""
    rule = lowering.rules[p]
    known = FORMULAS.get(rule)

    def formula_for(target: Target, p: Primitive, avals: Sequence[ShapedArray], params: Mapping[str, Any]) -> Any:
        chosen = {dtypes.float32: f32, dtypes.float64: f64}.get(avals[0].dtype)
        if chosen is not None:
            return FORMULAS[chosen](target, p, avals, params)
        return None if known is None else known(target, p, avals, params)

    FORMULAS[rule] = formula_for


def _in_double(p: Primitive) -> None:
    rule = lowering.rules[p]
    known = FORMULAS[rule]

    def formula_for(target: Target, p: Primitive, avals: Sequence[ShapedArray], params: Mapping[str, Any]) -> Any:
        if avals[0].dtype == dtypes.float32 and target_has_libm(target):
            return _converted(p, len(avals))
        return known(target, p, avals, params)

    FORMULAS[rule] = formula_for


@functools.cache
def _converted(p: Primitive, operands: int) -> Jaxpr:
    """A float32 function of scalars by the float64 one."""

    def f(*xs: Any) -> list[Any]:
        wide = [ew.convert_element_type(x, dtypes.float64) for x in xs]
        return [ew.convert_element_type(p.bind(*wide), dtypes.float32)]

    with config.override(enable_x64=True):
        jaxpr, _, _ = trace_flat(f, [ShapedArray((), dtypes.float32)] * operands, name=f"{p.name} in double")
    return jaxpr


_for_kernels(ew.lgamma_p, lgamma, lgamma)
_for_kernels(ew.digamma_p, digamma, digamma)
_for_kernels(ew.erf_p, erf)
_for_kernels(ew.erfc_p, erfc)
for _p in (
    ew.zeta_p, ew.polygamma_p, ew.igamma_p, ew.igammac_p, ew.igamma_grad_a_p, ew.random_gamma_grad_p,
    ew.regularized_incomplete_beta_p,
):  # fmt: skip
    _in_double(_p)

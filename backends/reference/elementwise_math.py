"""Reference rules of transcendental and special functions, by NumPy and SciPy in double precision.

Narrower dtypes are computed in float64 (complex64 in complex128) and rounded once, so that these rules are an oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew

from .rules import reference

Array = Any


def in_double(f: Callable[..., Array]) -> Callable[..., Array]:
    """The rule that computes in float64 or complex128; the engine rounds the result to its dtype."""

    def rule(*operands: Array, **params: Any) -> Array:
        wide = np.complex128 if dtypes.is_complex(operands[0].dtype) else np.float64
        return f(*(np.asarray(x, wide) for x in operands), **params)

    rule.__name__ = f.__name__
    return rule


def exp(x: Array) -> Array:
    if x.dtype != np.complex128:
        return np.exp(x)
    out = np.exp(x)
    # exp(-inf + i nan) is 0, exp(x + 0i) is real.
    return np.where(np.isneginf(x.real), 0, out)


def exp2(x: Array) -> Array:
    return exp(x * np.log(2)) if x.dtype == np.complex128 else np.exp2(x)


def logistic(x: Array) -> Array:
    return 1 / (1 + exp(-x)) if x.dtype == np.complex128 else sp.expit(x)


def rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def pow_(x: Array, y: Array) -> Array:
    y = y.astype(x.dtype)
    wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
    x, y = x.astype(wide), y.astype(wide)
    if wide is np.float64:
        return np.power(x, y)
    out = exp(y * np.log(x))
    out = np.where(x == 0, np.where(y.real > 0, 0, np.nan), out)
    return np.where(y == 0, 1, out)


def atan2(y: Array, x: Array) -> Array:
    if x.dtype != np.complex128:
        return np.arctan2(y, x)
    # -i log((x + i y) / sqrt(x^2 + y^2))
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def lgamma(x: Array) -> Array:
    return np.where(np.isinf(x), np.inf, sp.gammaln(x))


def digamma(x: Array) -> Array:
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole, np.nan, sp.digamma(x))


def erf_inv(x: Array) -> Array:
    return np.where(x == 0, x, sp.erfinv(x))


def bessel_i1e(x: Array) -> Array:
    return np.where(x == 0, x, sp.i1e(x))


def igamma(a: Array, x: Array) -> Array:
    return np.where((x < 0) | (a <= 0), np.nan, sp.gammainc(a, x))


def igammac(a: Array, x: Array) -> Array:
    return np.where((x < 0) | (a <= 0), np.nan, sp.gammaincc(a, x))


def igamma_grad_a(a: Array, x: Array) -> Array:
    """The series of P(a, x) = x^a e^-x sum x^n / gamma(a + n + 1), differentiated term by term."""
    a, x = np.broadcast_arrays(a, x)
    invalid = (x < 0) | (a <= 0) | np.isnan(a) | np.isnan(x)
    # P is 0 or 1 to double precision there, and the derivative vanishes
    trivial = (x == 0) | np.isinf(a) | (np.abs(x - a) > 40 * np.sqrt(np.maximum(a, x)) + 700)
    a, x = np.where(invalid | trivial, 1.0, a), np.where(invalid | trivial, 1.0, x)
    term = np.exp(a * np.log(x) - x - sp.gammaln(a + 1))
    slope = np.log(x) - sp.digamma(a + 1)
    total = term * slope
    for n in range(1, 4000):
        term = term * x / (a + n)
        slope = slope - 1 / (a + n)
        total = total + term * slope
        if n % 16 == 0 and np.all((np.abs(term * slope) <= 1e-17 * np.abs(total)) & (a + n > x)):
            break
    return np.where(invalid, np.nan, np.where(trivial, 0.0, total))


def random_gamma_grad(a: Array, x: Array) -> Array:
    """-(dP/da) / (dP/dx): the implicit derivative of a sample."""
    density = np.exp((a - 1) * np.log(x) - x - sp.gammaln(a))
    return -igamma_grad_a(a, x) / density


def zeta(x: Array, q: Array) -> Array:
    return sp.zeta(x, q)


def polygamma(m: Array, x: Array) -> Array:
    n = m + 1
    value = np.where(n % 2 == 0, 1.0, -1.0) * sp.gamma(n) * sp.zeta(n, x)
    value = np.where(m == 0, digamma(x), value)
    return np.where((m < 0) | (m != np.floor(m)), np.nan, value)


def betainc(a: Array, b: Array, x: Array) -> Array:
    invalid = ~(a > 0) | ~(b > 0) | (x < 0) | (x > 1)
    return np.where(invalid, np.nan, sp.betainc(a, b, x))


_DOUBLE: dict[Any, Callable[..., Array]] = {
    ew.exp_p: exp, ew.exp2_p: exp2, ew.expm1_p: np.expm1, ew.log_p: np.log, ew.log1p_p: np.log1p,
    ew.logistic_p: logistic, ew.sin_p: np.sin, ew.cos_p: np.cos, ew.tan_p: np.tan, ew.asin_p: np.arcsin,
    ew.acos_p: np.arccos, ew.atan_p: np.arctan, ew.sinh_p: np.sinh, ew.cosh_p: np.cosh, ew.tanh_p: np.tanh,
    ew.asinh_p: np.arcsinh, ew.acosh_p: np.arccosh, ew.atanh_p: np.arctanh, ew.sqrt_p: np.sqrt, ew.rsqrt_p: rsqrt,
    ew.cbrt_p: np.cbrt, ew.erf_p: sp.erf, ew.erfc_p: sp.erfc, ew.erf_inv_p: erf_inv, ew.lgamma_p: lgamma,
    ew.digamma_p: digamma, ew.bessel_i0e_p: sp.i0e, ew.bessel_i1e_p: bessel_i1e, ew.atan2_p: atan2,
    ew.igamma_p: igamma, ew.igammac_p: igammac, ew.igamma_grad_a_p: igamma_grad_a,
    ew.random_gamma_grad_p: random_gamma_grad, ew.zeta_p: zeta, ew.polygamma_p: polygamma,
    ew.regularized_incomplete_beta_p: betainc,
}  # fmt: skip
for _p, _f in _DOUBLE.items():
    reference.add(_p, in_double(_f))
reference.add(ew.pow_p, pow_)

"""The normal distribution cut off at a and b. Follows `scipy.stats.truncnorm`."""

from __future__ import annotations

import math

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special import error_functions as ef
from ._family import Family, functions, log1mexp


def _difference(larger: Value, smaller: Value) -> Value:
    """log(exp(larger) - exp(smaller))."""
    gap = larger - smaller
    none = ~(gap > 0)
    return qnp.where(none, -np.inf, larger + log1mexp(qnp.where(none, 1.0, gap)))


def _below(x: Value) -> Value:
    """The chance of a value below x. An infinite x has no part in derivatives: the second ones are 0 times infinity."""
    nothing = qnp.isneginf(x)
    return qnp.where(nothing, 0.0, ef.ndtr_(qnp.where(nothing, -1.0, x)))


def _log_mass(a: Value, b: Value) -> Value:
    """The logarithm of the chance that a standard normal variable lies between a and b."""
    right = a > 0
    low, high = qnp.where(right, -b, a), qnp.where(right, -a, b)  # by symmetry: both are in the left tail, or astride
    astride = high > 0
    whole, cut = qnp.isneginf(low), qnp.isneginf(low) | astride
    up_to = ef.log_ndtr_(qnp.where(astride, -0.5, high))
    between = _difference(qnp.where(cut, -0.5, up_to), ef.log_ndtr_(qnp.where(cut, -1.0, low)))
    middle = ew.log1p(-_below(qnp.where(astride, low, -1.0)) - _below(-qnp.where(astride, high, 1.0)))
    return qnp.where(astride, middle, qnp.where(whole, up_to, between))


def _share(part: Value, rest: Value, whole: Value) -> Value:
    """part - whole; where that is near 0, from the rest."""
    value = part - whole
    large = value > -0.5
    return qnp.where(large, log1mexp(qnp.where(large, whole - rest, 1.0)), value)


def _logpdf(y: Value, a: Value, b: Value) -> Value:
    return -0.5 * (y * y + math.log(2 * math.pi)) - _log_mass(a, b)


def _logcdf(y: Value, a: Value, b: Value) -> Value:
    return _share(_log_mass(a, y), _log_mass(y, b), _log_mass(a, b))


def _logsf(y: Value, a: Value, b: Value) -> Value:
    return _share(_log_mass(y, b), _log_mass(a, y), _log_mass(a, b))


def _valid(a: Value, b: Value) -> Value:
    return a < b


def _low(a: Value, b: Value) -> Value:
    return a


def _high(a: Value, b: Value) -> Value:
    return b


def _inside(a: Value, b: Value) -> Value:
    return qnp.clip(0.0, a, b)


_family = Family(
    name="truncnorm",
    what="the normal distribution cut off at a and b",
    shapes={"a": "the least value of the standard variable.", "b": "its largest value, greater than a."},
    valid=_valid,
    low=_low,
    high=_high,
    inside=_inside,
    infinite={"logpdf": (-np.inf, np.inf)},
    formulas={"logpdf": _logpdf, "logcdf": _logcdf, "logsf": _logsf},
    example="0.5, -1.0, 2.0",
    results={
        "logpdf": "-0.8438",
        "pdf": "0.4301",
        "cdf": "0.6509",
        "sf": "0.3491",
        "logcdf": "-0.4294",
        "logsf": "-1.0523",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

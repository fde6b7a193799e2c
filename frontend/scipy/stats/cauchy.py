"""The Cauchy distribution. Follows `scipy.stats.cauchy`."""

from __future__ import annotations

import math

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ._family import Family, functions


def _logpdf(y: Value) -> Value:
    size = qnp.maximum(qnp.abs(y), 1.0)  # the square of a large y may overflow
    inverse, small = 1.0 / size, y / size
    return -math.log(math.pi) - 2.0 * ew.log(size) - ew.log(inverse * inverse + small * small)


def _cdf(y: Value) -> Value:
    return ew.atan2(qnp.ones_like(y), -y) * (1 / math.pi)


def _sf(y: Value) -> Value:
    return ew.atan2(qnp.ones_like(y), y) * (1 / math.pi)


def _ppf(q: Value) -> Value:
    """tan(pi (q - 1/2)), from the nearer end for small and large q."""
    low = q < 0.5
    middle = qnp.abs(q - 0.5) < 0.25
    tail = qnp.where(middle, 0.1, qnp.where(low, q, 1.0 - q))
    # The sign is in the quotient: at an end the slope is infinite, and nothing times that is what a branch not taken would get.
    far = qnp.where(low, -1.0, 1.0) / ew.tan(math.pi * tail)
    return qnp.where(middle, ew.tan(math.pi * (qnp.where(middle, q, 0.5) - 0.5)), far)


def _isf(q: Value) -> Value:
    return -_ppf(q)


_family = Family(
    name="cauchy",
    what="the Cauchy distribution",
    formulas={"logpdf": _logpdf, "cdf": _cdf, "sf": _sf, "ppf": _ppf, "isf": _isf},
    example="0.5",
    results={
        "logpdf": "-1.3679",
        "pdf": "0.2546",
        "cdf": "0.6476",
        "sf": "0.3524",
        "logcdf": "-0.4345",
        "logsf": "-1.0429",
        "ppf": "-1.0",
        "isf": "1.0",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf, isf = functions(_family)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

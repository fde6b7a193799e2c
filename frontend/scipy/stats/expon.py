"""The exponential distribution. Follows `scipy.stats.expon`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ._family import Family, functions, log1mexp


def _negative(y: Value) -> Value:
    return -y


def _cdf(y: Value) -> Value:
    return -ew.expm1(-y)


def _ppf(q: Value) -> Value:
    return -ew.log1p(-q)


_family = Family(
    name="expon",
    what="the exponential distribution",
    low=0.0,
    infinite={"logpdf": (np.inf,), "logsf": (np.inf,)},
    formulas={"logpdf": _negative, "cdf": _cdf, "logcdf": log1mexp, "logsf": _negative, "ppf": _ppf},
    example="0.5",
    results={
        "logpdf": "-0.5",
        "pdf": "0.6065",
        "cdf": "0.3935",
        "sf": "0.6065",
        "logcdf": "-0.9328",
        "logsf": "-0.5",
        "ppf": "0.2877",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

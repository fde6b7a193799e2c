"""The normal distribution. Follows `scipy.stats.norm`."""

from __future__ import annotations

import math

import numpy as np

from ...arrays.operands import Value
from ..special import error_functions as ef
from ._family import Family, functions


def _logpdf(y: Value) -> Value:
    return -0.5 * (y * y + math.log(2 * math.pi))


def _sf(y: Value) -> Value:
    return ef.ndtr_(-y)


def _logsf(y: Value) -> Value:
    return ef.log_ndtr_(-y)


def _isf(q: Value) -> Value:
    return -ef.ndtri_(q)


_family = Family(
    name="norm",
    what="the normal distribution",
    infinite={"logpdf": (-np.inf, np.inf), "logcdf": (-np.inf,), "logsf": (np.inf,)},
    formulas={
        "logpdf": _logpdf,
        "cdf": ef.ndtr_,
        "sf": _sf,
        "logcdf": ef.log_ndtr_,
        "logsf": _logsf,
        "ppf": ef.ndtri_,
        "isf": _isf,
    },
    example="0.5",
    results={
        "logpdf": "-1.0439",
        "pdf": "0.3521",
        "cdf": "0.6915",
        "sf": "0.3085",
        "logcdf": "-0.3689",
        "logsf": "-1.1759",
        "ppf": "-0.6745",
        "isf": "0.6745",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf, isf = functions(_family)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

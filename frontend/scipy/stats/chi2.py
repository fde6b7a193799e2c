"""The chi-squared distribution. Follows `scipy.stats.chi2`."""

from __future__ import annotations

import math

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ..special.entropy import xlogy_
from ._family import Family, functions


def _logpdf(y: Value, df: Value) -> Value:
    half = 0.5 * y
    return xlogy_(0.5 * df - 1.0, half) - half - ew.lgamma(0.5 * df) - math.log(2.0)


def _cdf(y: Value, df: Value) -> Value:
    return ew.igamma(0.5 * df, 0.5 * y)


def _sf(y: Value, df: Value) -> Value:
    return ew.igammac(0.5 * df, 0.5 * y)


def _valid(df: Value) -> Value:
    return df > 0


_family = Family(
    name="chi2",
    what="the chi-squared distribution",
    shapes={"df": "the degrees of freedom, greater than 0."},
    valid=_valid,
    low=0.0,
    formulas={"logpdf": _logpdf, "cdf": _cdf, "sf": _sf},
    example="1.5, 2.0",
    results={
        "logpdf": "-1.4431",
        "pdf": "0.2362",
        "cdf": "0.5276",
        "sf": "0.4724",
        "logcdf": "-0.6394",
        "logsf": "-0.75",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

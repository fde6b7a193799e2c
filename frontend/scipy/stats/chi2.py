"""The chi-squared distribution. Follows `scipy.stats.chi2`."""

from __future__ import annotations

import math

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import xlogy_
from ._family import Family, functions


def _logpdf(y: Value, df: Value) -> Value:
    # At infinity y is what counts: its logarithm would make NaN of the difference.
    half = 0.5 * y
    far = qnp.isposinf(y)
    near = qnp.where(far, 1.0, half)
    return qnp.where(far, -half, xlogy_(0.5 * df - 1.0, near) - near - ew.lgamma(0.5 * df) - math.log(2.0))


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
    infinite={"logpdf": (np.inf,)},
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

"""The beta distribution. Follows `scipy.stats.beta`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew
from quire.passes.ad.elementwise import log_beta_density

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import xlog1py_, xlogy_
from ..special.gamma_functions import betaln_
from ._family import Family, functions


def _logpdf(y: Value, a: Value, b: Value) -> Value:
    far, large = log_beta_density(a, b, y)
    return qnp.where(large, far, xlogy_(a - 1.0, y) + xlog1py_(b - 1.0, -y) - betaln_(a, b))


def _cdf(y: Value, a: Value, b: Value) -> Value:
    return ew.regularized_incomplete_beta(a, b, y)


def _sf(y: Value, a: Value, b: Value) -> Value:
    return ew.regularized_incomplete_beta(b, a, 1.0 - y)


def _valid(a: Value, b: Value) -> Value:
    return (a > 0) & (b > 0)


_family = Family(
    name="beta",
    what="the beta distribution",
    shapes={"a": "the first shape, greater than 0.", "b": "the second shape, greater than 0."},
    valid=_valid,
    low=0.0,
    high=1.0,
    formulas={"logpdf": _logpdf, "cdf": _cdf, "sf": _sf},
    example="0.25, 2.0, 3.0",
    results={
        "logpdf": "0.5232",
        "pdf": "1.6875",
        "cdf": "0.2617",
        "sf": "0.7383",
        "logcdf": "-1.3405",
        "logsf": "-0.3034",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

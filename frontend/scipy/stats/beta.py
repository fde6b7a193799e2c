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
    # 1 - y loses what is below its rounding, and the mirrored chance the density times that. Where this is more than the rounding of
    # 1 - cdf the chance is not mirrored: a small a puts much of it at points that 1 - y takes for 0.
    direct = (y < 0.5) & (ew.stop_gradient(_logpdf(y, a, b)) > 0.0)
    first, second = qnp.where(direct, a, b), qnp.where(direct, b, a)
    chance = ew.regularized_incomplete_beta(first, second, qnp.where(direct, y, 1.0 - y))
    return qnp.where(direct, 1.0 - chance, chance)


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

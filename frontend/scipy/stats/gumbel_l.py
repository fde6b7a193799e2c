"""The Gumbel distribution of smallest values. Follows `scipy.stats.gumbel_l`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ._family import Family, by_density, functions, log1mexp


def _logpdf(y: Value) -> Value:
    return y - ew.exp(y)


def _logsf(y: Value) -> Value:
    return -ew.exp(y)


def _cdf(y: Value) -> Value:
    return -ew.expm1(-ew.exp(y))


def _logcdf(y: Value) -> Value:
    # Far down 1 - exp(-t) is t = exp(y), which may be too small for a number
    far = y < -40.0
    return qnp.where(far, y, log1mexp(ew.exp(qnp.where(far, 0.0, y))))


def _ppf(q: Value) -> Value:
    return ew.log(-ew.log1p(-q))


def _ppf_slope(value: Value, q: Value) -> Value:
    """1 / (-(1 - q) log(1 - q)), which is infinite at both ends."""
    one = q == 1
    return qnp.where(one, np.inf, 1.0 / ((1.0 - q) * qnp.abs(ew.log1p(-qnp.where(one, 0.5, q)))))


_family = Family(
    name="gumbel_l",
    what="the Gumbel distribution of smallest values",
    points={"ppf": "p"},
    infinite={"logpdf": (-np.inf,), "logcdf": (-np.inf,), "logsf": (np.inf,)},
    formulas={"logpdf": _logpdf, "cdf": _cdf, "logcdf": _logcdf, "logsf": _logsf, "ppf": by_density(_ppf, _ppf_slope)},
    example="0.5",
    results={
        "logpdf": "-1.1487",
        "pdf": "0.317",
        "cdf": "0.8077",
        "sf": "0.1923",
        "logcdf": "-0.2136",
        "logsf": "-1.6487",
        "ppf": "-1.2459",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

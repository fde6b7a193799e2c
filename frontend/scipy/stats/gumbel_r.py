"""The Gumbel distribution of largest values. Follows `scipy.stats.gumbel_r`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ._family import Family, by_density, functions, log1mexp


def _logpdf(y: Value) -> Value:
    return -(y + ew.exp(-y))


def _logcdf(y: Value) -> Value:
    return -ew.exp(-y)


def _sf(y: Value) -> Value:
    return -ew.expm1(-ew.exp(-y))


def _logsf(y: Value) -> Value:
    # Far up 1 - exp(-t) is t = exp(-y), which may be too small for a number
    far = y > 40.0
    return qnp.where(far, -y, log1mexp(ew.exp(-qnp.where(far, 0.0, y))))


def _ppf(q: Value) -> Value:
    return -ew.log(-ew.log(q))


def _ppf_slope(value: Value, q: Value) -> Value:
    """1 / (-q log(q)), which is infinite at both ends."""
    zero = q == 0
    return qnp.where(zero, np.inf, 1.0 / (q * qnp.abs(ew.log(qnp.where(zero, 1.0, q)))))


_family = Family(
    name="gumbel_r",
    what="the Gumbel distribution of largest values",
    points={"ppf": "p"},
    infinite={"logpdf": (np.inf,), "logcdf": (-np.inf,), "logsf": (np.inf,)},
    formulas={"logpdf": _logpdf, "logcdf": _logcdf, "sf": _sf, "logsf": _logsf, "ppf": by_density(_ppf, _ppf_slope)},
    example="0.5",
    results={
        "logpdf": "-1.1065",
        "pdf": "0.3307",
        "cdf": "0.5452",
        "sf": "0.4548",
        "logcdf": "-0.6065",
        "logsf": "-0.788",
        "ppf": "-0.3266",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

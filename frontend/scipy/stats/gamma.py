"""The gamma distribution. Follows `scipy.stats.gamma`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import xlogy_
from ._family import Family, functions


def _logpdf(y: Value, a: Value) -> Value:
    # At infinity y is what counts: its logarithm would make NaN of the difference.
    far = qnp.isposinf(y)
    near = qnp.where(far, 1.0, y)
    return qnp.where(far, -y, xlogy_(a - 1.0, near) - near - ew.lgamma(a))


def _cdf(y: Value, a: Value) -> Value:
    return ew.igamma(a, y)


def _sf(y: Value, a: Value) -> Value:
    return ew.igammac(a, y)


def _valid(a: Value) -> Value:
    return a > 0


_family = Family(
    name="gamma",
    what="the gamma distribution",
    shapes={"a": "the shape, greater than 0."},
    valid=_valid,
    low=0.0,
    infinite={"logpdf": (np.inf,)},
    formulas={"logpdf": _logpdf, "cdf": _cdf, "sf": _sf},
    example="1.5, 2.0",
    results={
        "logpdf": "-1.0945",
        "pdf": "0.3347",
        "cdf": "0.4422",
        "sf": "0.5578",
        "logcdf": "-0.8161",
        "logsf": "-0.5837",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

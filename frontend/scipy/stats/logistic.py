"""The logistic distribution. Follows `scipy.stats.logistic`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import logit_
from ._family import Family, functions


def _logpdf(y: Value) -> Value:
    size = qnp.abs(y)
    return -size - 2.0 * ew.log1p(ew.exp(-size))


def _sf(y: Value) -> Value:
    return ew.logistic(-y)


def _isf(q: Value) -> Value:
    return -logit_(q)


_family = Family(
    name="logistic",
    what="the logistic distribution",
    points={"ppf": "x", "isf": "x"},
    infinite={"logpdf": (-np.inf, np.inf)},
    formulas={"logpdf": _logpdf, "cdf": ew.logistic, "sf": _sf, "ppf": logit_, "isf": _isf},
    example="0.5",
    results={"logpdf": "-1.4482", "pdf": "0.235", "cdf": "0.6225", "sf": "0.3775", "ppf": "-1.0986", "isf": "1.0986"},
)
logpdf, pdf, cdf, sf, ppf, isf = functions(_family)

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

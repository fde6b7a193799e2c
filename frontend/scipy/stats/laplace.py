"""The Laplace distribution. Follows `scipy.stats.laplace`."""

from __future__ import annotations

import math

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ._family import Family, functions


def _logpdf(y: Value) -> Value:
    return -qnp.abs(y) - math.log(2.0)


def _cdf(y: Value) -> Value:
    half = 0.5 * ew.exp(-qnp.abs(y))
    return qnp.where(y < 0, half, 1.0 - half)


_family = Family(
    name="laplace",
    what="the Laplace distribution",
    infinite={"logpdf": (-np.inf, np.inf)},
    formulas={"logpdf": _logpdf, "cdf": _cdf},
    example="0.5",
    results={"logpdf": "-1.1931", "pdf": "0.3033", "cdf": "0.6967"},
)
logpdf, pdf, cdf = functions(_family)

__all__ = ["cdf", "logpdf", "pdf"]

"""The generalised normal distribution. Follows `scipy.stats.gennorm`."""

from __future__ import annotations

import numpy as np

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ._family import Family, by_density, functions


def _logpdf(y: Value, beta: Value) -> Value:
    return ew.log(0.5 * beta) - ew.lgamma(1.0 / beta) - _power(y, beta)


def _power(y: Value, beta: Value) -> Value:
    """abs(y)**beta, with derivative 0 by y at 0."""
    zero = y == 0
    return qnp.where(zero, 0.0, qnp.power(qnp.abs(qnp.where(zero, 1.0, y)), beta))


def _cdf(y: Value, beta: Value) -> Value:
    tail = 0.5 * ew.igammac(1.0 / beta, _power(y, beta))
    return qnp.where(y > 0, 1.0 - tail, tail)


def _valid(beta: Value) -> Value:
    return beta > 0


_family = Family(
    name="gennorm",
    what="the generalised normal distribution",
    shapes={"beta": "the exponent, greater than 0."},
    valid=_valid,
    located=(),
    infinite={"logpdf": (-np.inf, np.inf)},
    formulas={"logpdf": _logpdf, "cdf": by_density(_cdf, lambda _, y, beta: ew.exp(_logpdf(y, beta)))},
    example="0.5, 1.5",
    results={"logpdf": "-0.9444", "pdf": "0.3889", "cdf": "0.7417"},
)
logpdf, pdf, cdf = functions(_family)

__all__ = ["cdf", "logpdf", "pdf"]

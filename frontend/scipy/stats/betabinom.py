"""The beta-binomial distribution. Follows `scipy.stats.betabinom`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ..special.gamma_functions import betaln_
from ._family import Family, functions


def _logpmf(k: Value, n: Value, a: Value, b: Value) -> Value:
    ways = -betaln_(n - k + 1.0, k + 1.0) - ew.log1p(n)
    return ways + betaln_(k + a, n - k + b) - betaln_(a, b)


def _valid(n: Value, a: Value, b: Value) -> Value:
    return (n >= 0) & (a > 0) & (b > 0)


def _high(n: Value, a: Value, b: Value) -> Value:
    return n


_family = Family(
    name="betabinom",
    what="the beta-binomial distribution",
    shapes={
        "n": "the number of trials, of at least 0.",
        "a": "the first shape of the chance's beta distribution, greater than 0.",
        "b": "the second one.",
    },
    valid=_valid,
    low=0.0,
    high=_high,
    inside=0.0,
    located=("loc",),
    discrete=True,
    formulas={"logpmf": _logpmf},
    example="2, 5, 2.0, 3.0",
    results={"logpmf": "-1.4351", "pmf": "0.2381"},
)
logpmf, pmf = functions(_family)

__all__ = ["logpmf", "pmf"]

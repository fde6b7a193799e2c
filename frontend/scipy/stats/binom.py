"""The binomial distribution. Follows `scipy.stats.binom`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ..special.entropy import xlog1py_, xlogy_
from ..special.gamma_functions import betaln_
from ._family import Family, functions


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = -betaln_(n - k + 1.0, k + 1.0) - ew.log1p(n)
    return ways + xlogy_(k, p) + xlog1py_(n - k, -p)


def _valid(n: Value, p: Value) -> Value:
    return (n >= 0) & (p >= 0) & (p <= 1)


def _high(n: Value, p: Value) -> Value:
    return n


_family = Family(
    name="binom",
    what="the binomial distribution",
    shapes={"n": "the number of trials, of at least 0.", "p": "the chance of a success, in [0, 1]."},
    valid=_valid,
    low=0.0,
    high=_high,
    inside=0.0,
    located=("loc",),
    discrete=True,
    formulas={"logpmf": _logpmf},
    example="2, 5, 0.25",
    results={"logpmf": "-1.333", "pmf": "0.2637"},
)
logpmf, pmf = functions(_family)

__all__ = ["logpmf", "pmf"]

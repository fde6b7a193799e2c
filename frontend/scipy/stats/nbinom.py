"""The negative binomial distribution. Follows `scipy.stats.nbinom`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ..special.entropy import xlog1py_
from ..special.gamma_functions import betaln_
from ._family import Family, functions


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = -betaln_(n, k + 1.0) - ew.log(n + k)
    return ways + n * ew.log(p) + xlog1py_(k, -p)


def _valid(n: Value, p: Value) -> Value:
    return (n > 0) & (p > 0) & (p <= 1)


_family = Family(
    name="nbinom",
    what="the negative binomial distribution",
    shapes={"n": "the number of successes waited for, greater than 0.", "p": "the chance of a success, in (0, 1]."},
    valid=_valid,
    low=0.0,
    inside=0.0,
    located=("loc",),
    discrete=True,
    formulas={"logpmf": _logpmf},
    example="2, 5.0, 0.25",
    results={"logpmf": "-4.7988", "pmf": "0.0082"},
)
logpmf, pmf = functions(_family)

__all__ = ["logpmf", "pmf"]

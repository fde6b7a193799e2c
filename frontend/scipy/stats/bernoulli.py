"""The Bernoulli distribution. Follows `scipy.stats.bernoulli`."""

from __future__ import annotations

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import xlog1py_, xlogy_
from ._family import Family, functions


def _logpmf(k: Value, p: Value) -> Value:
    return xlogy_(k, p) + xlog1py_(1.0 - k, -p)


def _cdf(k: Value, p: Value) -> Value:
    return qnp.where(k < 1.0, 1.0 - p, 1.0)


def _ppf(q: Value, p: Value) -> Value:
    return qnp.where(q <= 1.0 - p, 0.0, 1.0)


def _valid(p: Value) -> Value:
    return (p >= 0) & (p <= 1)


_family = Family(
    name="bernoulli",
    what="the Bernoulli distribution",
    shapes={"p": "the chance of a success, in [0, 1]."},
    valid=_valid,
    low=0.0,
    high=1.0,
    inside=0.0,
    located=("loc",),
    unlocated=("cdf", "ppf"),
    discrete=True,
    formulas={"logpmf": _logpmf, "cdf": _cdf, "ppf": _ppf},
    example="1, 0.25",
    results={"logpmf": "-1.3863", "pmf": "0.25", "cdf": "1.0", "ppf": "0.0"},
)
logpmf, pmf, cdf, ppf = functions(_family)

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

"""The Poisson distribution. Follows `scipy.stats.poisson`."""

from __future__ import annotations

import math

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.entropy import xlogy_
from ._family import Family, functions


def _logpmf(k: Value, mu: Value) -> Value:
    return xlogy_(k, mu) - ew.lgamma(k + 1.0) - mu


def _cdf(k: Value, mu: Value) -> Value:
    return ew.igammac(k + 1.0, mu)


def _entropy(mu: Value) -> Value:
    """The sum of -p log(p) for mu up to 100, the asymptotic expansion beyond (Evans and Boersma 1988)."""
    large = mu > 100.0
    small = qnp.where(large, 1.0, mu)[..., None]
    k = qnp.arange(220, dtype=mu.dtype)
    k, small = qnp.broadcast_arrays(k, small)
    logs = _logpmf(k, small)
    direct = -qnp.sum(ew.exp(logs) * qnp.maximum(logs, -1e4), axis=-1)  # -inf for mu = 0
    inverse = 1.0 / qnp.where(large, mu, 101.0)
    tail = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360 + inverse * (9 / 80))))
    far = 0.5 * (math.log(2 * math.pi * math.e) - ew.log(inverse)) - tail
    return qnp.where(large, far, direct)


def _valid(mu: Value) -> Value:
    return mu >= 0


_family = Family(
    name="poisson",
    what="the Poisson distribution",
    shapes={"mu": "the mean, of at least 0."},
    valid=_valid,
    low=0.0,
    inside=0.0,
    located=("loc",),
    discrete=True,
    formulas={"logpmf": _logpmf, "cdf": _cdf, "entropy": _entropy},
    example="2, 3.0",
    results={"logpmf": "-1.4959", "pmf": "0.224", "cdf": "0.4232", "entropy": "1.9315"},
)
logpmf, pmf, cdf, entropy = functions(_family)

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

"""The wrapped Cauchy distribution. Follows `scipy.stats.wrapcauchy`."""

from __future__ import annotations

import math

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ._family import Family, functions


def _logpdf(y: Value, c: Value) -> Value:
    return ew.log((1.0 - c * c) / (2 * math.pi * (1.0 + c * c - 2.0 * c * ew.cos(y))))


def _valid(c: Value) -> Value:
    return (c > 0) & (c < 1)


_family = Family(
    name="wrapcauchy",
    what="the wrapped Cauchy distribution on [0, 2 pi]",
    shapes={"c": "the concentration, between 0 and 1."},
    valid=_valid,
    low=0.0,
    high=2 * math.pi,
    located=(),
    formulas={"logpdf": _logpdf},
    example="0.5, 0.25",
    results={"logpdf": "-1.4303", "pdf": "0.2392"},
)
logpdf, pdf = functions(_family)

__all__ = ["logpdf", "pdf"]

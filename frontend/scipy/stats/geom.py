"""The geometric distribution on 1, 2, ... Follows `scipy.stats.geom`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ..special.entropy import xlog1py_
from ._family import Family, functions


def _logpmf(k: Value, p: Value) -> Value:
    return xlog1py_(k - 1.0, -p) + ew.log(p)


def _valid(p: Value) -> Value:
    return (p > 0) & (p <= 1)


_family = Family(
    name="geom",
    what="the geometric distribution on 1, 2, ...",
    shapes={"p": "the chance of a success, in (0, 1]."},
    valid=_valid,
    low=1.0,
    inside=1.0,
    located=("loc",),
    discrete=True,
    formulas={"logpmf": _logpmf},
    example="2, 0.25",
    results={"logpmf": "-1.674", "pmf": "0.1875"},
)
logpmf, pmf = functions(_family)

__all__ = ["logpmf", "pmf"]

"""The uniform distribution on [loc, loc + scale]. Follows `scipy.stats.uniform`."""

from __future__ import annotations

from ...arrays.operands import Value
from ._family import Family, functions


def _logpdf(y: Value) -> Value:
    return 0.0 * y


def _same(y: Value) -> Value:
    return y


_family = Family(
    name="uniform",
    what="the uniform distribution on [loc, loc + scale]",
    low=0.0,
    high=1.0,
    formulas={"logpdf": _logpdf, "cdf": _same, "ppf": _same},
    example="0.5",
    results={"logpdf": "0.0", "pdf": "1.0", "cdf": "0.5", "ppf": "0.25"},
)
logpdf, pdf, cdf, ppf = functions(_family)

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

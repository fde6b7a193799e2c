"""The Pareto distribution. Follows `scipy.stats.pareto`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ._family import Family, functions, log1mexp


def _logpdf(y: Value, b: Value) -> Value:
    return ew.log(b) - (b + 1.0) * ew.log(y)


def _logsf(y: Value, b: Value) -> Value:
    return -b * ew.log(y)


def _cdf(y: Value, b: Value) -> Value:
    return -ew.expm1(-b * ew.log(y))


def _logcdf(y: Value, b: Value) -> Value:
    return log1mexp(b * ew.log(y))


def _ppf(q: Value, b: Value) -> Value:
    return ew.exp(-ew.log1p(-q) / b)


def _valid(b: Value) -> Value:
    return b > 0


_family = Family(
    name="pareto",
    what="the Pareto distribution",
    shapes={"b": "the exponent, greater than 0."},
    valid=_valid,
    low=1.0,
    inside=1.5,
    formulas={"logpdf": _logpdf, "cdf": _cdf, "logcdf": _logcdf, "logsf": _logsf, "ppf": _ppf},
    example="1.5, 2.0",
    results={
        "logpdf": "-0.5232",
        "pdf": "0.5926",
        "cdf": "0.5556",
        "sf": "0.4444",
        "logcdf": "-0.5878",
        "logsf": "-0.8109",
        "ppf": "1.1547",
    },
)
logpdf, pdf, cdf, sf, logcdf, logsf, ppf = functions(_family)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

"""The von Mises distribution. Follows `scipy.stats.vonmises`."""

from __future__ import annotations

import math

from quire.ir.primitives import elementwise as ew

from ...arrays.operands import Value
from ._family import Family, functions


def _logpdf(y: Value, kappa: Value) -> Value:
    return kappa * (ew.cos(y) - 1.0) - ew.log(2 * math.pi * ew.bessel_i0e(kappa))


def _valid(kappa: Value) -> Value:
    return kappa >= 0


_family = Family(
    name="vonmises",
    what="the von Mises distribution",
    shapes={"kappa": "the concentration, of at least 0."},
    valid=_valid,
    located=(),
    formulas={"logpdf": _logpdf},
    example="0.5, 2.0",
    results={"logpdf": "-0.9067", "pdf": "0.4039"},
)
logpdf, pdf = functions(_family)

__all__ = ["logpdf", "pdf"]

"""Student's t distribution. Follows `scipy.stats.t`."""

from __future__ import annotations

from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value
from ..special.gamma_functions import betaln_
from ._family import Family, functions


def _logpdf(y: Value, df: Value) -> Value:
    normalisation = 0.5 * ew.log(df) + betaln_(qnp.full_like(df, 0.5), 0.5 * df)
    return -normalisation - 0.5 * (df + 1.0) * ew.log1p(y * y / df)


def _valid(df: Value) -> Value:
    return df > 0


_family = Family(
    name="t",
    what="Student's t distribution",
    shapes={"df": "the degrees of freedom, greater than 0."},
    valid=_valid,
    formulas={"logpdf": _logpdf},
    example="0.5, 3.0",
    results={"logpdf": "-1.161", "pdf": "0.3132"},
)
logpdf, pdf = functions(_family)

__all__ = ["logpdf", "pdf"]

"""StableHLO lowering of special functions of real operands."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from quire.ir.primitives import elementwise as ew

from .elementwise_math import chlo, keeps_zero
from .formulas import Num, by_dtype, const, direct, floor, formula, libm, round_, tan, where
from .lowering import Ctx

for _p, _name in {
    ew.erf_p: "erf", ew.erfc_p: "erfc", ew.lgamma_p: "lgamma",
    ew.zeta_p: "zeta", ew.polygamma_p: "polygamma",
}.items():  # fmt: skip
    by_dtype(_p, f32=direct(chlo(_name)), f64=libm(chlo(_name)))
for _p, _name in {ew.erf_inv_p: "erf_inv", ew.bessel_i1e_p: "bessel_i1e"}.items():
    by_dtype(_p, f32=keeps_zero(chlo(_name)), f64=keeps_zero(chlo(_name), libm))


def _digamma(positive: Any) -> Any:
    """digamma, with `positive` for x >= 1/2: reflected elsewhere, where IREE's loses its sign next to the poles."""

    @formula
    def argument(x: Num) -> Num:
        return where(x < 0.5, 1.0 - x, x)

    @formula
    def reflected(x: Num, value: Num) -> Num:
        fraction = x - round_(x)
        pole = (x <= 0) & floor(x).eq(x)
        return where(pole, const(np.nan, x), where(x < 0.5, value - math.pi / tan(math.pi * fraction), value))

    def rule(ctx: Ctx, x: Any) -> Any:
        (y,) = argument(ctx, x)
        aval = ctx.avals_in[0]
        inner = dataclasses.replace(ctx, avals_in=[aval, aval])
        return reflected(inner, x, positive(ctx, y))

    return rule


by_dtype(ew.digamma_p, f32=_digamma(direct(chlo("digamma"))), f64=_digamma(libm(chlo("digamma"))))

"""StableHLO lowering of reductions."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives import reductions as rd

from . import hlo
from .lowering import Ctx, lowering


@lowering(rd.reduce_sum_p)
def reduce_sum(ctx: Ctx, x: Any, *, axes: tuple[int, ...]) -> Any:
    zero = hlo.constant(0, ctx.avals_in[0].dtype)
    return hlo.reduce([x], [zero], axes, lambda a, b: [hlo.add(a, b)])[0]

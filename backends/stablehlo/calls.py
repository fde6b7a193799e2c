"""StableHLO lowering of calls: nested jaxprs are emitted in place."""

from __future__ import annotations

from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls

from .lowering import Ctx, lower_jaxpr, lowering


@lowering(calls.jit_p)
def jit(
    ctx: Ctx, *operands: Any, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]
) -> Any:
    return lower_jaxpr(ctx.module, jaxpr.jaxpr, (), operands, ctx.eqn.source)

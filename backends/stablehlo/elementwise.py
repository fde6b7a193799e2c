"""StableHLO lowering of elementwise primitives, with the corrections that IREE needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.ir.primitives import elementwise as ew

from . import hlo
from .lowering import Ctx, lowering


def spread(ctx: Ctx, *operands: Any) -> list[Any]:
    """Scalar operands broadcast to the result's shape."""
    shape = ctx.avals_out[0].shape
    return [x if a.shape == shape else hlo.broadcast(x, shape, ()) for x, a in zip(operands, ctx.avals_in)]


def direct(build: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of an operation that StableHLO has and IREE does right."""

    def rule(ctx: Ctx, *operands: Any) -> Any:
        return build(*spread(ctx, *operands))

    return rule


_DIRECT = {
    ew.neg_p: hlo.negate, ew.floor_p: hlo.floor, ew.ceil_p: hlo.ceil, ew.add_p: hlo.add, ew.sub_p: hlo.subtract,
    ew.mul_p: hlo.multiply, ew.exp_p: hlo.exponential, ew.log_p: hlo.log, ew.tanh_p: hlo.tanh,
    ew.sin_p: hlo.sine, ew.cos_p: hlo.cosine,
}  # fmt: skip
for _p, _build in _DIRECT.items():
    lowering.add(_p, direct(_build))

"""StableHLO lowering of structural primitives."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives import structural as st

from . import hlo
from .lowering import Ctx, lowering


@lowering(st.broadcast_in_dim_p)
def broadcast_in_dim(ctx: Ctx, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    return hlo.broadcast(x, shape, broadcast_dimensions)


@lowering(st.reshape_p)
def reshape(ctx: Ctx, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
    return hlo.reshape(x, new_sizes)


@lowering(st.transpose_p)
def transpose(ctx: Ctx, x: Any, *, permutation: tuple[int, ...]) -> Any:
    return hlo.transpose(x, permutation)

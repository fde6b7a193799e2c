"""StableHLO lowering of what concerns shardings: modules are those of one device, or of one rank."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.sharding import NamedSharding

from .lowering import Ctx, lowering


@lowering(sharding_constraint_p)
def sharding_constraint(ctx: Ctx, x: Any, *, sharding: NamedSharding) -> Any:
    return x

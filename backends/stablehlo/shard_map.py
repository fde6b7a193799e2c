"""shard_map has no stablehlo rule: the pass emulate-spmd makes ordinary equations of it."""

from __future__ import annotations

from quire.ir.primitives.shard_map import shard_map_p

from .lowering import lowering

lowering.absent("the pass emulate-spmd makes ordinary equations on whole arrays of it", shard_map_p)

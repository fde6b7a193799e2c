"""shard_map has no reference rule: a program with it is compiled, after the pass emulate-spmd."""

from __future__ import annotations

from quire.ir.primitives.shard_map import shard_map_p

from .rules import reference

reference.absent("the pass emulate-spmd makes ordinary equations on whole arrays of it", shard_map_p)

"""shard_map: its program interpreted on each device of the mesh."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives.shard_map import shard_map_p

from .ranks import eval_shard_map
from .rules import reference


@reference(shard_map_p)
def shard_map(*operands: Any, **params: Any) -> list[Any]:
    return eval_shard_map(operands, **params)

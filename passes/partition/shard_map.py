"""shard_map is partitioned already: its operands are divided as its specs say, and its program runs as it is."""

from __future__ import annotations

from quire.ir.primitives.shard_map import shard_map_p

from .rules import factors

factors.absent("its specs say how it is divided, its program is that of a device", shard_map_p)

"""Collectives of named axes that are no axes of the mesh, as of `vmap`, are gone before a program is partitioned."""

from __future__ import annotations

from quire.ir.primitive import PRIMITIVES

from .rules import factors

factors.absent(
    "it belongs to a named axis: a program that is partitioned sees whole arrays",
    *(p for p in PRIMITIVES.values() if p.family == "collectives"),
)

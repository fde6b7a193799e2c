"""Lowering of references: there is none, as programs are lowered after their references became values."""

from __future__ import annotations

from quire.ir.primitives.refs import REF_PRIMITIVES

from .lowering import lowering

lowering.absent("the pass discharge comes before lowering, and turns references into values", *REF_PRIMITIVES)

"""Batching of references: there is none, as functions are batched after their references became values."""

from __future__ import annotations

from quire.ir.primitives.refs import REF_PRIMITIVES

from .rules import batching

batching.absent("the pass discharge comes before batching, and turns references into values", *REF_PRIMITIVES)

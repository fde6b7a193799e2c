"""Partitioning of references: there is none, as programs are partitioned after their references became values."""

from __future__ import annotations

from quire.ir.primitives.refs import REF_PRIMITIVES

from .rules import factors

factors.absent("the pass discharge comes before partitioning, and turns references into values", *REF_PRIMITIVES)

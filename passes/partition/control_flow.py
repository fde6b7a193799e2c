"""Control flow has no factors of its own: the partitioner goes into its programs (`propagation.py`, `nested.py`)."""

from __future__ import annotations

from quire.ir.primitives import control_flow as cf

from .rules import factors

factors.absent("the partitioner goes into its programs", cf.cond_p, cf.while_p, cf.bounded_while_p, cf.scan_p)

"""Derivatives of references: there are none, as functions are differentiated after their references became values."""

from __future__ import annotations

from quire.ir.primitives.refs import REF_PRIMITIVES

from .rules import jvp, transpose

_WHY = "the pass discharge comes before derivatives, and turns references into values"
jvp.absent(_WHY, *REF_PRIMITIVES)
transpose.absent(_WHY, *REF_PRIMITIVES)

"""Partitioning of programs over a mesh of devices: each device's program, with the collectives between them.

`rules` holds the one declaration a primitive (which dimensions are the same), in files named as the families.
`propagation` finds how each value is divided, `choice` how each equation is computed, `moves` how a value gets from one
division to another, `emission` and `nested` write the program, `notes` say why.
"""

from __future__ import annotations

from quire.ir.primitives import load_rules

from .costs import MACHINE, Machine
from .liveness import Peak, peak
from .notes import Note, annotated, describe, totals
from .partition import Partitioned, partition
from .propagation import propagate

load_rules(__name__)

__all__ = [
    "MACHINE", "Machine", "Note", "Partitioned", "Peak", "annotated", "describe", "partition", "peak", "propagate", "totals",
]  # fmt: skip

"""Factors of what a program says of shardings: constraints move no dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import sharding as sh

from .rules import Factors, alike, factors


@factors(sh.sharding_constraint_p)
def _constraint(in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], **_: Any) -> Factors:
    return alike(in_avals, out_avals)

"""Factors of elementwise primitives: each dimension is one; scalars have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import elementwise as ew

from .rules import Builder, Factors, alike, factors

Avals = Sequence[ShapedArray]


def _alike(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return alike(in_avals, out_avals)


@factors(ew.bitcast_convert_type_p)
def _bitcast(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    # A change of width adds or takes the last dimension.
    b = Builder()
    shared = b.dims(min(in_avals[0].shape, out_avals[0].shape, key=len))

    def one(a: ShapedArray) -> list[tuple[int, ...]]:
        return [*shared, *b.dims(a.shape[len(shared) :], whole=True)]

    return b.done([one(in_avals[0])], [one(out_avals[0])])


for _p in PRIMITIVES.values():
    if _p.family == "elementwise" and _p not in factors:
        factors.add(_p, _alike)

"""Factors of sorting: all dimensions but the sorted one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import sorting as so

from .rules import Builder, Factors, alike, factors

Avals = Sequence[ShapedArray]


@factors(so.sort_p)
def _sort(in_avals: Avals, out_avals: Avals, *, dimension: int, **_: Any) -> Factors:
    return alike(in_avals, out_avals, (dimension,))


@factors(so.top_k_p)
def _top_k(in_avals: Avals, out_avals: Avals, *, axis: int, **_: Any) -> Factors:
    b = Builder()
    shared = b.dims(in_avals[0].shape)

    def one(a: ShapedArray) -> list[tuple[int, ...]]:
        return [x if d != axis else (b.new(a.shape[d], whole=True),) for d, x in enumerate(shared)]

    return b.done([one(a) for a in in_avals], [one(a) for a in out_avals])

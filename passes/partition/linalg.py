"""Factors of linear algebra: the batch; and the right-hand sides of triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import linalg as la

from .rules import Builder, Factors, factors, leading

Avals = Sequence[ShapedArray]


@factors(la.triangular_solve_p)
def _triangular_solve(in_avals: Avals, out_avals: Avals, *, left_side: bool, **_: Any) -> Factors:
    a, x = in_avals
    b = Builder()
    batch = b.dims(x.shape[:-2])
    free = (b.new(x.shape[-1 if left_side else -2]),)
    other = (b.new(x.shape[-2 if left_side else -1], whole=True),)
    matrix = [*batch, other, free] if left_side else [*batch, free, other]
    return b.done([[*batch, *b.dims(a.shape[-2:], whole=True)], matrix], [matrix])


@factors(la.lu_pivots_to_permutation_p)
def _pivots(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return leading(in_avals[0].ndim - 1, in_avals, out_avals)


@factors(la.householder_product_p, la.tridiagonal_solve_p)
def _batched(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return leading(max(a.ndim for a in in_avals) - 2, in_avals, out_avals)


def _decomposition(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return leading(in_avals[0].ndim - 2, in_avals, out_avals)


for _p in PRIMITIVES.values():
    if _p.family == "linalg" and _p not in factors:
        factors.add(_p, _decomposition)

"""Batching rules of linear algebra: leading dimensions are batch dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st

from .rules import Axis, BatchRule, Dim, Value, batching, move_dim, to_front


def _leading(p: Primitive) -> BatchRule:
    def rule(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        out = p.bind(*(to_front(x, d, axis.size) for x, d in zip(operands, dims)), **params)
        return out, [0] * len(out) if p.multiple_results else 0

    return rule


for _p in (
    la.cholesky_p, la.lu_p, la.lu_pivots_to_permutation_p, la.qr_p, la.geqrf_p, la.householder_product_p, la.eigh_p,
    la.eig_p, la.svd_p, la.schur_p, la.hessenberg_p, la.tridiagonal_p, la.tridiagonal_solve_p,
):  # fmt: skip
    batching.add(_p, _leading(_p))


@batching(la.triangular_solve_p)
def triangular_solve(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, left_side: bool, **params: Any
) -> tuple[Value, int]:
    (a, b), (da, db) = operands, dims
    if da is not None or aval_of(a).ndim > 2:
        a, b = to_front(a, da, axis.size), to_front(b, db, axis.size)
        return la.triangular_solve_p.bind(a, b, left_side=left_side, **params), 0
    # One matrix, many right-hand sides: more columns (rows) for one solution.
    assert db is not None
    at = 1 if left_side else 0
    b = move_dim(b, db, at)
    shape = aval_of(b).shape
    b = st.reshape(b, (shape[0], shape[1] * shape[2]) if left_side else (shape[0] * shape[1], shape[2]))
    return st.reshape(la.triangular_solve_p.bind(a, b, left_side=left_side, **params), shape), at

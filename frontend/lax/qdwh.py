"""The polar decomposition by QDWH iterations: QR and Cholesky decompositions and products only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

Array = Any


def _weights(rounding: float, accuracy: float, most: int) -> list[tuple[float, float, float]]:
    """(a, b, c) of each iteration, until the smallest singular value, at first that of rounding, is 1."""
    low, out = rounding, []
    while abs(low - 1) > 4 * accuracy and len(out) < most:
        d = (4 * max(1 - low * low, 0) / low**4) ** (1 / 3)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(max(8 - 4 * d + 8 * (2 - low * low) / (low * low * root), 0)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        out.append((a, b, c))
        low = min(low * (a + b * low * low) / (1 + c * low * low), 1.0)
    return out


def _scaled(x: Array, factor: float) -> Array:
    return ew.mul(x, np.asarray(factor, aval_of(x).dtype)[()])


def _step(x: Array, a: float, b: float, c: float) -> Array:
    """``x (a + b x^H x) / (1 + c x^H x)``: by QR decomposition while ``1 + c x^H x`` is ill-conditioned."""
    *batch, m, n = aval_of(x).shape
    identity = st.broadcast_to(la.eye(n, n, aval_of(x).dtype), (*batch, n, n))
    if c > 100:
        q, _ = la.qr(st.concatenate([_scaled(x, math.sqrt(c)), identity], len(batch)), full_matrices=False)
        top, bottom = (st.slice_in_dim(q, i, j, axis=len(batch)) for i, j in ((0, m), (m, m + n)))
        other = _scaled(ct.matmul(top, la.transpose_last(bottom, True)), (a - b / c) / math.sqrt(c))
    else:
        l = la.cholesky(ew.add(identity, _scaled(ct.matmul(la.transpose_last(x, True), x), c)))
        y = la.triangular_solve(l, x, lower=True, transpose_a=True, conjugate_a=True)
        other = _scaled(la.triangular_solve(l, y, lower=True), a - b / c)
    return ew.add(_scaled(x, b / c), other)


def _frobenius(x: Array) -> Array:
    size = ew.abs(x)
    n = aval_of(x).ndim
    return ew.sqrt(rd.reduce_sum(ew.mul(size, size), (n - 2, n - 1)))


def qdwh(
    x: Array, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """The polar decomposition of (..., m, n), m >= n: ``x == u @ h``, u with orthonormal columns, h Hermitian.

    Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition" (2010).
    The weights depend on the dtype only, so that the iterations (six or so) are written out and differentiable.

    Args:
        is_hermitian: x is; nothing depends on it.
        max_iterations: at most so many, 10 by default.
        eps: the accuracy; that of the dtype by default.

    Returns (u, h, the number of iterations, whether they converged). Raises ValueError for m < n,
    NotImplementedError for a dynamic_shape.
    """
    la.qr_p.infer([aval_of(x)], {"pivoting": False, "full_matrices": False})  # errors about x
    aval = aval_of(x)
    m, n = aval.shape[-2:]
    if m < n:
        raise ValueError(f"qdwh: x {aval.short()} must have at least as many rows as columns: use its transpose")
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh: dynamic_shape is not supported: slice x to its shape")
    real = dtypes.real_dtype(aval.dtype)
    rounding = float(np.finfo(real).eps)
    eps = rounding if eps is None else max(float(eps), rounding)
    size = ew.abs(x)
    rank = aval.ndim
    # The largest singular value is at most the root of the product of the 1-norm and the infinity norm.
    norms = [rd.reduce_max(rd.reduce_sum(size, (rank - 2 + i,)), (rank - 2,)) for i in range(2)] if aval.size else []
    if not norms:
        h = st.full((*aval.shape[:-2], n, n), 0, aval.dtype)
        return x, h, st.full((), 0, dtypes.int32), st.full(aval.shape[:-2], True, dtypes.bool_)
    bound = ew.sqrt(ew.mul(*norms))
    bound = ew.select_n(ew.gt(bound, st.full(aval.shape[:-2], 0, real)), st.full(aval.shape[:-2], 1, real), bound)
    scale = st.broadcast_in_dim(ew.convert_element_type(bound, aval.dtype), aval.shape, range(rank - 2))
    u = before = ew.div(x, scale)
    weights = _weights(rounding, eps, 10 if max_iterations is None else max_iterations)
    for a, b, c in weights:
        before, u = u, _step(u, a, b, c)
    h = ct.matmul(la.transpose_last(u, True), x)
    h = _scaled(ew.add(h, la.transpose_last(h, True)), 0.5)
    change = _frobenius(ew.sub(u, before))
    # Convergence is cubic: the next change is about the cube of this one.
    converged = ew.le(change, st.full(aval.shape[:-2], (4 * eps) ** (1 / 3) * math.sqrt(n), real))
    return u, h, st.full((), len(weights), dtypes.int32), converged

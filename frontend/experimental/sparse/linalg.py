"""Linear equations of sparse matrices."""

from __future__ import annotations

from typing import Any

from ... import numpy as qnp
from ...compiling.api import jit
from .csr import _csr_todense

Value = Any


@jit
def _solve(data: Value, indices: Value, indptr: Value, b: Value) -> Value:
    n = b.shape[0]
    return qnp.linalg.solve(_csr_todense(data, indices, indptr, shape=(n, n)), b)


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1) -> Value:
    """The solution x of ``A x = b``, where A is a square matrix in CSR.

    The matrix is made whole and solved by LU factorization, so that the solution is part of the compiled program, works on every
    device, and has derivatives with respect to `data` and `b`. The memory is that of the whole matrix: for large ones use
    `quire.scipy.sparse.linalg.cg` or another iterative method with ``lambda x: A @ x``.

    Args:
        data, indices, indptr: the buffers of A, of n rows.
        b: the right side, of shape (n,).
        tol: accepted: whether A is singular is not looked at.
        reorder: accepted: the order of the elimination is that of the factorization.

    Raises:
        ValueError: the shapes do not fit.
        TypeError: the dtypes of data and b differ.
    """
    data, indices, indptr, b = (qnp.asarray(x) for x in (data, indices, indptr, b))
    n = indptr.shape[0] - 1
    if b.ndim != 1 or b.shape[0] != n or data.shape != indices.shape:
        raise ValueError(
            f"spsolve: data of shape {tuple(data.shape)}, indices of shape {tuple(indices.shape)} and {n} rows for b of shape "
            f"{tuple(b.shape)}"
        )
    if data.dtype != b.dtype:
        raise TypeError(f"data types do not match: data.dtype={data.dtype} b.dtype={b.dtype}")
    return _solve(data, indices, indptr, b)


__all__ = ["spsolve"]

"""Cholesky factors and what is computed with them, for the distributions in several dimensions."""

from __future__ import annotations

from typing import Any

from quire.ir.avals import aval_of

from ... import lax
from ... import numpy as qnp
from ...arrays.operands import Value


def cholesky(matrix: Value) -> Value:
    """The lower Cholesky factor."""
    return lax.linalg.cholesky(matrix)


def log_determinant(factor: Value) -> Value:
    """The logarithm of the factor's determinant: half that of the matrix."""
    return qnp.sum(qnp.log(qnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def solved(factor: Value, vectors: Value) -> Value:
    """The inverse of the factor times vectors, which lie along the last dimension; leading dimensions broadcast."""
    n = aval_of(vectors).shape[-1]
    if aval_of(factor).ndim == 2:
        rows = qnp.reshape(vectors, (-1, n))
        out = lax.linalg.triangular_solve(factor, rows.T, left_side=True, lower=True)
        return qnp.reshape(out.T, aval_of(vectors).shape)
    lead = qnp.broadcast_shapes(aval_of(factor).shape[:-2], aval_of(vectors).shape[:-1])
    factor = qnp.broadcast_to(factor, (*lead, n, n))
    columns = qnp.broadcast_to(vectors, (*lead, n))[..., None]
    return lax.linalg.triangular_solve(factor, columns, left_side=True, lower=True)[..., 0]


def inverse(factor: Value) -> Any:
    """The inverse of the matrix with this factor."""
    half = solved(factor, qnp.eye(aval_of(factor).shape[-1], dtype=aval_of(factor).dtype))
    return qnp.matmul(half, half.T)  # rows of `half` are the inverse factor's columns

"""Normal vectors with a covariance, and random orthogonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from .. import lax
from .. import numpy as qnp
from .continuous import normal
from .keys import as_float, dtype_of, float_dtype, sampler, shape_of

Array = Any


@sampler
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky",
    *, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Normal vectors of a mean and a covariance matrix. Follows `jax.random.multivariate_normal`.

    Args:
        mean: (..., n).
        cov: (..., n, n), symmetric and positive (semi)definite.
        shape: that of the result without its last dimension; None: the common batch shape of mean and cov.
        method: how the covariance is factored: "cholesky", "eigh" or "svd" (these two also for semidefinite ones).

    Raises ValueError for shapes that do not fit or another method.

    >>> quire.random.multivariate_normal(quire.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    name = "quire.random.multivariate_normal"
    dt = float_dtype("multivariate_normal", dtype)
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"{name}: unknown method {method!r}, expected 'cholesky', 'eigh' or 'svd'")
    mean, cov = qnp.asarray(as_float(mean, dt)), qnp.asarray(as_float(cov, dt))
    if mean.ndim < 1:
        raise ValueError(f"{name}: mean must be at least 1-dimensional, got {aval_of(mean).short()}")
    n = mean.shape[-1]
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(f"{name}: cov must have shape (..., {n}, {n}) for a mean of {n}, got {aval_of(cov).short()}")
    try:
        batch = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
        full = batch if shape is None else shape_of("multivariate_normal", shape)
        if np.broadcast_shapes(batch, full) != full:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{name}: mean {aval_of(mean).short()} and cov {aval_of(cov).short()} do not broadcast to the shape {shape}"
        ) from None
    if method == "cholesky":
        factor = lax.linalg.cholesky(cov)
    elif method == "eigh":
        vectors, values = lax.linalg.eigh(cov)
        factor = vectors * qnp.sqrt(values[..., None, :])
    else:
        vectors, values, _ = lax.linalg.svd(cov)
        factor = vectors * qnp.sqrt(values[..., None, :])
    return mean + qnp.einsum("...ij,...j->...i", factor, normal(key, (*full, n), dt))


@sampler
def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None, *, out_sharding: Any = None
) -> Array:
    """Random matrices with orthonormal columns or rows, uniform by the Haar measure. Follows `jax.random.orthogonal`.

    Args:
        n, m: rows and columns; m is n if None. The result has shape (*shape, n, m).
        dtype: a float or complex dtype; the matrices are unitary for a complex one.

    >>> q = quire.random.orthogonal(quire.random.key(0), 3)
    >>> bool(abs(q @ q.T - np.eye(3, dtype=np.float32)).max() < 1e-5)
    True
    """
    dt = dtype_of("orthogonal", dtype, dtypes.float64, (*dtypes.FLOATS, *dtypes.COMPLEX), "a float or complex")
    shape = shape_of("orthogonal", shape)
    columns = n if m is None else m
    tall, wide = max(n, columns), min(n, columns)
    z = normal(key, (*shape, tall, wide), dt)
    q, r = lax.linalg.qr(z, full_matrices=False)
    d = qnp.diagonal(r, axis1=-2, axis2=-1)
    q = q * (d / qnp.abs(d).astype(dt))[..., None, :]
    return q if n >= columns else qnp.conj(qnp.swapaxes(q, -1, -2))

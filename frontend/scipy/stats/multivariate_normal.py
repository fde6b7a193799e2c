"""The normal distribution in several dimensions. Follows `scipy.stats.multivariate_normal`."""

from __future__ import annotations

import math
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, array, promote_inexact
from ._factor import cholesky, log_determinant, solved


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Value:
    """The logarithm of the density of the normal distribution in n dimensions.

    Args:
        x: points, along the last dimension. mean: a vector of n numbers, or vectors along the last dimension.
        cov: the covariance, matrices of shape (..., n, n), symmetric and positive definite; or a number, times the
            identity. With a scalar mean x holds numbers and n is 1.
        allow_singular: must be None.

    Returns:
        An array of the shape to which the leading dimensions broadcast.

    Raises:
        NotImplementedError: `allow_singular` is given.
        ValueError: the sizes of x, `mean` and `cov` do not fit.

    Follows `scipy.stats.multivariate_normal.logpdf`.

    >>> q = quire.numpy
    >>> round(quire.scipy.stats.multivariate_normal.logpdf(q.array([1., 2.]), q.zeros(2), q.eye(2)).item(), 4)
    -4.3379
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "quire.scipy.stats.multivariate_normal.logpdf: allow_singular is not supported: the covariance must be "
            "positive definite"
        )
    name = "stats.multivariate_normal.logpdf"
    point, centre, spread = promote_inexact(*(array(name, v, i) for i, v in enumerate((x, mean, cov))))
    log_2pi = math.log(2 * math.pi)
    if aval_of(centre).ndim == 0:
        y = point - centre
        return -0.5 * (y * y / spread + log_2pi + ew.log(spread))
    n = aval_of(centre).shape[-1]
    if aval_of(point).ndim and aval_of(point).shape[-1] not in (1, n):
        raise _unfit(point, centre, spread)
    y = point - centre
    if aval_of(spread).ndim == 0:
        return -0.5 * (qnp.sum(y * y, axis=-1) / spread + n * (log_2pi + ew.log(spread)))
    if aval_of(spread).ndim < 2 or aval_of(spread).shape[-2:] != (n, n):
        raise _unfit(point, centre, spread)
    factor = cholesky(spread)
    z = solved(factor, y)
    return -0.5 * (qnp.sum(z * z, axis=-1) + n * log_2pi) - log_determinant(factor)


def _unfit(point: Value, centre: Value, spread: Value) -> ValueError:
    shown = ", ".join(aval_of(v).short() for v in (point, centre, spread))
    return ValueError(
        f"quire.scipy.stats.multivariate_normal.logpdf: x, mean and cov do not fit, got {shown}: with a mean of n "
        "numbers x has n numbers along its last dimension and cov the shape (..., n, n)"
    )


def pdf(x: Any, mean: Any, cov: Any) -> Value:
    """The density of the normal distribution in n dimensions; arguments as those of `logpdf`.

    Follows `scipy.stats.multivariate_normal.pdf`.

    >>> q = quire.numpy
    >>> round(quire.scipy.stats.multivariate_normal.pdf(q.array([0., 0.]), q.zeros(2), q.eye(2)).item(), 4)
    0.1592
    """
    return ew.exp(logpdf(x, mean, cov))


__all__ = ["logpdf", "pdf"]

"""The Dirichlet distribution. Follows `scipy.stats.dirichlet`."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, array, promote_inexact
from ..special.entropy import xlogy_


def logpdf(x: Any, alpha: Any) -> Value:
    """The logarithm of the density of the Dirichlet distribution.

    Args:
        x: an array whose first dimension runs over the k chances, which sum to 1; or over k - 1 of them, the last one
            being what is left. -inf elsewhere.
        alpha: a vector of k concentrations, greater than 0.

    Returns:
        An array of x's shape without the first dimension.

    Raises:
        ValueError: `alpha` is not a vector, or x's first dimension is neither k nor k - 1.

    Follows `scipy.stats.dirichlet.logpdf`.

    >>> round(quire.scipy.stats.dirichlet.logpdf(quire.numpy.array([0.2, 0.8]), quire.numpy.array([2., 3.])).item(), 4)
    0.4292
    """
    point, a = promote_inexact(array("stats.dirichlet.logpdf", x), array("stats.dirichlet.logpdf", alpha, 1))
    if aval_of(a).ndim != 1:
        raise ValueError(f"quire.scipy.stats.dirichlet.logpdf: alpha must be a vector, got {aval_of(a).short()}")
    (k,) = aval_of(a).shape
    shape = aval_of(point).shape
    if not shape or shape[0] not in (k, k - 1):
        raise ValueError(
            f"quire.scipy.stats.dirichlet.logpdf: the first dimension of x must be {k} or {k - 1} for {k} "
            f"concentrations, got {aval_of(point).short()}"
        )
    if shape[0] == k - 1:
        point = qnp.concatenate([point, 1.0 - qnp.sum(point, axis=0, keepdims=True)])
    a = qnp.reshape(a, (k, *(1 for _ in shape[1:])))
    tolerance = 1e-6 if aval_of(point).dtype.itemsize >= 4 else 1e-2
    inside = qnp.all(point > 0, axis=0) & (qnp.abs(qnp.sum(point, axis=0) - 1.0) < tolerance) & qnp.all(a > 0)
    safe = qnp.where(point > 0, point, 1.0)
    logs = qnp.sum(xlogy_(*qnp.broadcast_arrays(a - 1.0, safe)), axis=0)
    value = logs + ew.lgamma(qnp.sum(a)) - qnp.sum(ew.lgamma(a))
    return qnp.where(inside, value, -np.inf)


def pdf(x: Any, alpha: Any) -> Value:
    """The density of the Dirichlet distribution; arguments as those of `logpdf`. Follows `scipy.stats.dirichlet.pdf`.

    >>> round(quire.scipy.stats.dirichlet.pdf(quire.numpy.array([0.2, 0.8]), quire.numpy.array([2., 3.])).item(), 4)
    1.536
    """
    return ew.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]

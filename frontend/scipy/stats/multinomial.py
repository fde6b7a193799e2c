"""The multinomial distribution. Follows `scipy.stats.multinomial`."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, array, cast, promote_inexact
from ..special.entropy import xlogy_


def logpmf(x: Any, n: Any, p: Any) -> Value:
    """The logarithm of the chance of the counts x under the multinomial distribution.

    Args:
        x: integers, how often each outcome occurred; the last dimension runs over the outcomes. -inf unless they sum
            to n.
        n: integers, the number of trials.
        p: the chances of the outcomes, along the last dimension.

    Returns:
        An array of the broadcast shape of n and of x and p without their last dimension.

    Raises:
        ValueError: x or n is not of an integer dtype.

    Follows `scipy.stats.multinomial.logpmf`.

    >>> q = quire.numpy
    >>> round(quire.scipy.stats.multinomial.logpmf(q.array([1, 2]), 3, q.array([0.25, 0.75])).item(), 4)
    -0.863
    """
    counts, trials = array("stats.multinomial.logpmf", x), array("stats.multinomial.logpmf", n, 1)
    for name, value in (("x", counts), ("n", trials)):
        if not dtypes.is_integer(aval_of(value).dtype):
            raise ValueError(
                f"quire.scipy.stats.multinomial.logpmf: {name} must be integers, got {aval_of(value).short()}"
            )
    (chances,) = promote_inexact(array("stats.multinomial.logpmf", p, 2))
    dtype = aval_of(chances).dtype
    total = qnp.sum(counts, axis=-1)
    common = qnp.promote_types(aval_of(total).dtype, aval_of(trials).dtype)
    right = cast(total, common) == cast(trials, common)
    counts, trials = cast(counts, dtype), cast(trials, dtype)
    fits = qnp.all(counts >= 0, axis=-1) & right
    counts = qnp.maximum(counts, 0.0)
    terms = xlogy_(*qnp.broadcast_arrays(counts, chances)) - ew.lgamma(counts + 1.0)
    return qnp.where(fits, ew.lgamma(trials + 1.0) + qnp.sum(terms, axis=-1), -np.inf)


def pmf(x: Any, n: Any, p: Any) -> Value:
    """The chance of the counts x; arguments as those of `logpmf`. Follows `scipy.stats.multinomial.pmf`.

    >>> q = quire.numpy
    >>> round(quire.scipy.stats.multinomial.pmf(q.array([1, 2]), 3, q.array([0.25, 0.75])).item(), 4)
    0.4219
    """
    return ew.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]

"""Summaries of samples: the mode, ranks, the standard error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from ... import lax
from ... import numpy as qnp
from ...arrays.operands import INEXACT, Value, array, as_axis, cast
from ...numpy import reductions as rd
from ...numpy.nan_functions import nanstd


class ModeResult(NamedTuple):
    """The most frequent values, and how often they occur."""

    mode: Any
    count: Any


def _policy(name: str, nan_policy: str, known: tuple[str, ...]) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(
            f"quire.scipy.stats.{name}: nan_policy must be one of 'propagate', 'omit', 'raise', got {nan_policy!r}"
        )
    if nan_policy not in known:
        raise NotImplementedError(
            f"quire.scipy.stats.{name}: nan_policy={nan_policy!r} is not supported: use {' or '.join(map(repr, known))}"
        )


def _along_last(name: str, a: Any, axis: Any) -> tuple[Value, int | None]:
    x = array(f"stats.{name}", a)
    if axis is None:
        return qnp.ravel(x), None
    x = qnp.atleast_1d(x)
    d = as_axis(f"quire.scipy.stats.{name}", axis, aval_of(x).ndim)
    return qnp.moveaxis(x, d, -1), d


def _runs(rows: Value, equal_nan: bool = False) -> tuple[Value, Value, Value]:
    """Of sorted rows: where a new value begins, and the first and last position of each element's value."""
    n = aval_of(rows).shape[-1]
    position = qnp.broadcast_to(qnp.arange(n, dtype=np.int32), aval_of(rows).shape)
    changes = rows[..., 1:] != rows[..., :-1]
    if equal_nan and aval_of(rows).dtype in INEXACT:
        changes &= ~(qnp.isnan(rows[..., 1:]) & qnp.isnan(rows[..., :-1]))
    edge = qnp.ones((*aval_of(rows).shape[:-1], 1), dtype=bool)
    begins = qnp.concatenate([edge, changes], axis=-1)
    ends = qnp.concatenate([changes, edge], axis=-1)
    axis = aval_of(rows).ndim - 1
    first = lax.cummax(qnp.where(begins, position, 0), axis=axis)
    last = lax.cummin(qnp.where(ends, position, n), axis=axis, reverse=True)
    return begins, first, last


def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value along an axis, the least one of several.

    Args:
        a: an array. axis: an axis, or None for all elements.
        nan_policy: must be "propagate": NaN is a value as others, the greatest one.
        keepdims: whether the reduced dimension stays, with size 1.

    Returns:
        A named tuple (mode, count).

    Follows `scipy.stats.mode`.

    >>> quire.scipy.stats.mode(quire.numpy.array([1, 3, 3, 2]))
    ModeResult(mode=Array(3, dtype=int32), count=Array(2, dtype=int32))
    """
    _policy("mode", nan_policy, ("propagate",))
    rows, d = _along_last("mode", a, axis)
    shape = aval_of(rows).shape
    if shape[-1] == 0:
        float_ = dtypes.canonicalize(dtypes.float64)
        value, count = qnp.full(shape[:-1], np.nan, dtype=float_), qnp.zeros(shape[:-1], dtype=float_)
    else:
        rows = qnp.sort(rows, axis=-1)
        _, first, last = _runs(rows, equal_nan=True)
        size = last - first + 1
        best = qnp.argmax(size, axis=-1, keepdims=True)
        value = qnp.take_along_axis(rows, best, axis=-1)[..., 0]
        count = cast(qnp.take_along_axis(size, best, axis=-1)[..., 0], dtypes.canonicalize(dtypes.int64))
    if keepdims:
        ndim = np.ndim(a) if d is None else aval_of(rows).ndim
        new = tuple(1 for _ in range(ndim)) if d is None else (*shape[:d], 1, *shape[d:-1])
        value, count = qnp.reshape(value, new), qnp.reshape(count, new)
    return ModeResult(value, count)


_METHODS = ("average", "min", "max", "dense", "ordinal")


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Value:  # fmt: skip
    """The ranks of the elements along an axis, from 1.

    Args:
        a: an array.
        method: of equal elements: "average", "min" or "max" of their ranks, "dense" ranks without gaps, or "ordinal",
            in the order in which they occur.
        axis: an axis, or None for the flattened array.
        nan_policy: must be "propagate": where there is a NaN, all ranks are NaN.

    Returns:
        An array of the default float dtype and of a's shape, or flat for axis=None.

    Raises:
        ValueError: `method` is none of these, or `nan_policy` none of SciPy's.
        NotImplementedError: `nan_policy` is "omit" or "raise".

    Follows `scipy.stats.rankdata`.

    >>> quire.scipy.stats.rankdata(quire.numpy.array([3, 1, 3, 2]))
    Array([3.5, 1. , 3.5, 2. ], dtype=float32)
    """
    _policy("rankdata", nan_policy, ("propagate",))
    if method not in _METHODS:
        raise ValueError(
            f"quire.scipy.stats.rankdata: unknown method {method!r}: it must be one of {', '.join(_METHODS)}"
        )
    rows, d = _along_last("rankdata", a, axis)
    float_ = dtypes.canonicalize(dtypes.float64)
    if aval_of(rows).size == 0:
        out = qnp.zeros(aval_of(rows).shape, dtype=float_)
        return out if d is None else qnp.moveaxis(out, -1, d)
    order = qnp.argsort(rows, axis=-1)
    back = qnp.argsort(order, axis=-1)
    if method == "ordinal":
        ranks = back + 1
    else:
        begins, first, last = _runs(qnp.take_along_axis(rows, order, axis=-1))
        if method == "dense":
            ranks = qnp.cumsum(begins, axis=-1, dtype=np.int32)
        elif method == "average":
            ranks = cast(first + last, float_) * 0.5 + 1.0
        else:
            ranks = (first if method == "min" else last) + 1
        ranks = qnp.take_along_axis(ranks, back, axis=-1)
    ranks = cast(ranks, float_)
    if aval_of(rows).dtype in INEXACT:
        ranks = qnp.where(qnp.any(qnp.isnan(rows), axis=-1, keepdims=True), np.nan, ranks)
    return ranks if d is None else qnp.moveaxis(ranks, -1, d)


def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Value:
    """The standard error of the mean along an axis: the standard deviation over the root of the number of elements.

    Args:
        a: an array. axis: an axis, or None for all elements.
        ddof: what is subtracted from the number of elements in the deviation's divisor.
        nan_policy: "propagate", or "omit" to leave NaN out.
        keepdims: whether the reduced dimension stays, with size 1.

    Follows `scipy.stats.sem`.

    >>> round(quire.scipy.stats.sem(quire.numpy.array([1., 2., 4.])).item(), 4)
    0.8819
    """
    _policy("sem", nan_policy, ("propagate", "omit"))
    x = array("stats.sem", a)
    if axis is None:
        found = sem(qnp.ravel(x), 0, ddof, nan_policy)
        return qnp.reshape(found, (1,) * aval_of(x).ndim) if keepdims else found
    d = as_axis("quire.scipy.stats.sem", axis, aval_of(x).ndim)
    if nan_policy == "omit" and aval_of(x).dtype in INEXACT:
        count = rd.sum(~qnp.isnan(x), axis=d, keepdims=keepdims)
        deviation = nanstd(x, axis=d, ddof=ddof, keepdims=keepdims)
        return deviation / qnp.sqrt(cast(count, dtypes.real_dtype(aval_of(deviation).dtype)))
    return rd.std(x, axis=d, ddof=ddof, keepdims=keepdims) / math.sqrt(max(aval_of(x).shape[d], 1))

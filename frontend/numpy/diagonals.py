"""Diagonals: taken, made, filled and summed."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.primitives import structural as st

from ..arrays.operands import (
    Value,
    as_axis,
    as_int,
    broadcast_to,
    ensure,
    no_out,
)
from .grids import eye
from .rearranging import resize
from .reductions import sum as sum_
from .selection import where
from .shapes import moveaxis, ravel
from .taking import no_inplace


def diag(v: Any, k: int = 0) -> Value:
    """A matrix with a vector as its k-th diagonal; of a matrix, its k-th diagonal. Follows `numpy.diag`.

    Raises ValueError for an array that is neither 1- nor 2-dimensional.

    >>> quire.numpy.diag(quire.numpy.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x = ensure("diag", v)
    k = as_int("diag", k, "k")
    if x.aval.ndim == 2:
        return diagonal(x, k)
    if x.aval.ndim != 1:
        raise ValueError(f"quire.numpy.diag: the input must be 1- or 2-dimensional, got {x.aval.short()}")
    n = x.aval.shape[0] + abs(k)
    row = st.pad(x, x.aval.dtype.type(0), [(max(k, 0), max(-k, 0), 0)])
    mask = eye(n, n, k, bool)
    return where(mask, broadcast_to(row, (n, n)), x.aval.dtype.type(0))


def diagflat(v: Any, k: int = 0) -> Value:
    """A matrix with the flattened input as its k-th diagonal. Follows `numpy.diagflat`.

    >>> quire.numpy.diagflat(quire.numpy.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(ensure("diagflat", v)), k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The diagonals of the matrices of two axes, as the last dimension. Follows `numpy.diagonal`.

    Raises ValueError for an array of fewer than 2 dimensions, or where axis1 is axis2.

    >>> quire.numpy.diagonal(quire.numpy.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = ensure("diagonal", a)
    if x.aval.ndim < 2:
        raise ValueError(f"quire.numpy.diagonal: requires an array of at least two dimensions, got {x.aval.short()}")
    i, j = as_axis("diagonal", axis1, x.aval.ndim, "axis1"), as_axis("diagonal", axis2, x.aval.ndim, "axis2")
    if i == j:
        raise ValueError("quire.numpy.diagonal: axis1 and axis2 must be different")
    x = moveaxis(x, (i, j), (-2, -1))
    k = as_int("diagonal", offset, "offset")
    rows, columns = x.aval.shape[-2:]
    size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    steps = np.arange(size, dtype=np.int32)
    return x[..., steps - min(k, 0), steps + max(k, 0)]


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Value:
    """The sums of the diagonals of the matrices of two axes. Follows `numpy.trace`.

    >>> quire.numpy.trace(quire.numpy.array([[1, 2], [3, 4]])).item()
    5
    """
    no_out("trace", out)
    return sum_(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Value:
    """An array with values on its main diagonal. `inplace` must be False. Follows `numpy.fill_diagonal`.

    Raises ValueError where `inplace` is not False, `a` has fewer than 2 dimensions, or more than 2 and of different
    sizes; NotImplementedError where `wrap` is true.

    >>> quire.numpy.fill_diagonal(quire.numpy.zeros((2, 2)), 1., inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    no_inplace("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("quire.numpy.fill_diagonal: wrap=True is not supported")
    x, v = ensure("fill_diagonal", a), ensure("fill_diagonal", val, "val")
    if x.aval.ndim < 2:
        raise ValueError(
            f"quire.numpy.fill_diagonal: requires an array of at least two dimensions, got {x.aval.short()}"
        )
    if x.aval.ndim > 2 and len(set(x.aval.shape)) > 1:
        raise ValueError(f"quire.numpy.fill_diagonal: all dimensions must be of equal length, got {x.aval.short()}")
    n = min(x.aval.shape)
    steps = np.arange(n, dtype=np.int32)
    if v.aval.ndim:
        v = resize(ravel(v), (n,))
    return x.at[(steps,) * x.aval.ndim].set(v)


__all__ = ["diag", "diagflat", "diagonal", "fill_diagonal", "trace"]

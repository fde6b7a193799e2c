"""Arrays whose elements depend on their position: identities, triangles, grids of indices, Vandermonde matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer

from ..arrays.operands import (
    Value,
    as_int,
    as_shape,
    broadcast_to,
    cast,
    concrete_array,
    eager_here,
    ensure,
    user_dtype,
)
from ..arrays.placement import device_put
from .arithmetic import power
from .creation import filled
from .joining import stack
from .ranges import iota


@reports_memory
def eye(N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Value:
    """A matrix with ones on its k-th diagonal and zeros elsewhere; k may be traced. Follows `numpy.eye`.

    Raises ValueError for a negative N or M.

    >>> quire.numpy.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n = as_int("eye", N, "N")
    m = n if M is None else as_int("eye", M, "M")
    if n < 0 or m < 0:
        raise ValueError(f"quire.numpy.eye: negative dimensions are not allowed, got {n} and {m}")
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype("eye", dtype)
    traced = isinstance(k, Tracer) and k.concrete() is None and dtypes.is_integer(k.aval.dtype) and not k.ndim
    k = cast(k, dtypes.int32) if traced else as_int("eye", k, "k")
    if eager_here() and not traced:
        x: Value = concrete_array(np.eye(n, m, k).astype(d))
    else:
        rows, columns = iota((n, m), 0, dtypes.int32), iota((n, m), 1, dtypes.int32)
        offset = broadcast_to(k, (n, m)) if traced else np.int32(k)
        x = cast(ew.eq_p.bind(ew.add_p.bind(rows, offset), columns), d)
    return x if device is None else device_put(x, device)


def identity(n: int, dtype: Any = None) -> Value:
    """The n-by-n identity matrix. Follows `numpy.identity`.

    >>> quire.numpy.identity(2, dtype=int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Value:
    """A matrix with ones at and below the k-th diagonal. Follows `numpy.tri`.

    Raises TypeError for a negative size.

    >>> quire.numpy.tri(2, dtype=int)
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    n, m = as_int("tri", N, "N"), as_int("tri", N if M is None else M, "M")
    if n < 0 or m < 0:
        raise TypeError(f"quire.numpy.tri: negative dimensions are not allowed, got {n} and {m}")
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype("tri", dtype)
    return cast(_below(n, m, k if isinstance(k, Tracer) else as_int("tri", k, "k")), d)


@reports_memory
def _below(n: int, m: int, k: int) -> Value:
    """Whether an element of an n-by-m matrix lies at or below the k-th diagonal."""
    if eager_here() and not isinstance(k, Tracer):
        return concrete_array(np.tri(n, m, k, dtype=bool))
    rows, columns = iota((n, m), 0, dtypes.int32), iota((n, m), 1, dtypes.int32)
    below = cast(k, dtypes.int32) if isinstance(k, Tracer) else np.int32(k)
    return ew.ge_p.bind(ew.add_p.bind(rows, below), columns)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Value:
    x = ensure(name, m)
    aval = aval_of(x)
    if aval.ndim < 2:
        raise ValueError(f"quire.numpy.{name}: the argument must be at least 2-dimensional, got {aval.short()}")
    mask = broadcast_to(_below(aval.shape[-2], aval.shape[-1], as_int(name, k, "k") - (0 if lower else 1)), aval.shape)
    zero = filled(aval.shape, 0, aval.dtype, aval.weak_type)
    return ew.select_n_p.bind(mask, zero, x) if lower else ew.select_n_p.bind(mask, x, zero)


def tril(m: Any, k: int = 0) -> Value:
    """The matrices of the last two dimensions with zeros above the k-th diagonal. Follows `numpy.tril`.

    >>> quire.numpy.tril(quire.numpy.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Value:
    """The matrices of the last two dimensions with zeros below the k-th diagonal. Follows `numpy.triu`.

    >>> quire.numpy.triu(quire.numpy.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k, False)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Value]:
    """Grids of coordinates from vectors of them.

    Args:
        *xi: scalars or 1-dimensional arrays.
        copy: must be True: arrays have no views.
        sparse: whether to return arrays of size 1 along all but their own dimension.
        indexing: "xy" (the first two dimensions swapped) or "ij".

    Raises:
        ValueError: copy is False, indexing is neither "xy" nor "ij", or an argument has more than 1 dimension.

    Follows `numpy.meshgrid`.

    >>> quire.numpy.meshgrid(quire.numpy.arange(2), quire.numpy.arange(1))
    [Array([[0, 1]], dtype=int32), Array([[0, 0]], dtype=int32)]
    """
    if not copy:
        raise ValueError("quire.numpy.meshgrid: copy=False is not supported: arrays have no views")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"quire.numpy.meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    xs = [ensure("meshgrid", x, i) for i, x in enumerate(xi)]
    for i, x in enumerate(xs):
        if x.ndim > 1:
            raise ValueError(f"quire.numpy.meshgrid: argument {i} must be 0- or 1-dimensional, got {x.aval.short()}")
    n = len(xs)
    order = list(range(n))
    if indexing == "xy" and n >= 2:
        order[0], order[1] = 1, 0
    sizes = [x.size for x in xs]
    shape = tuple(sizes[i] for i in order)
    out = []
    for i, x in enumerate(xs):
        one = [1] * n
        one[order.index(i)] = sizes[i]
        x = st.reshape(x, one)
        out.append(x if sparse else broadcast_to(x, shape))
    return out


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: an array with a leading dimension of one entry a dimension. Follows `numpy.indices`.

    >>> quire.numpy.indices((1, 2))
    Array([[[0, 0]],
    <BLANKLINE>
           [[0, 1]]], dtype=int32)
    """
    d = dtypes.canonicalize(dtypes.int64) if dtype is None else user_dtype("indices", dtype)
    shape = as_shape("indices", dimensions, "dimensions")
    out = []
    for i, n in enumerate(shape):
        one = tuple(n if j == i else 1 for j in range(len(shape)))
        out.append(iota(one if sparse else shape, i, d))
    if sparse:
        return tuple(out)
    return stack(out) if out else filled((0,), 0, d)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """An array of the values of a function of the indices. Follows `numpy.fromfunction`.

    >>> quire.numpy.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    sizes = as_shape("fromfunction", shape)
    d = user_dtype("fromfunction", dtype)
    return function(*[iota(sizes, i, d) for i in range(len(sizes))], **kwargs)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Value:
    """The Vandermonde matrix of a vector: its powers as columns, highest first. Follows `numpy.vander`.

    Raises ValueError for an x that is not 1-dimensional, or a negative N.

    >>> quire.numpy.vander(quire.numpy.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    x = ensure("vander", x)
    if x.ndim != 1:
        raise ValueError(f"quire.numpy.vander: x must be 1-dimensional, got {aval_of(x).short()}")
    n = x.shape[0] if N is None else as_int("vander", N, "N")
    if n < 0:
        raise ValueError(f"quire.numpy.vander: N must be non-negative, got {n}")
    exponents = iota((n,), 0, dtypes.int32)
    if not increasing:
        exponents = ew.sub_p.bind(np.int32(n - 1), exponents)
    # Weak exponents leave the dtype of x as it is.
    weak = ew.convert_element_type_p.bind(st.reshape(exponents, (1, n)), new_dtype=dtypes.int32, weak_type=True)
    return power(st.reshape(x, (x.shape[0], 1)), weak)


__all__ = ["eye", "fromfunction", "identity", "indices", "meshgrid", "tri", "tril", "triu", "vander"]

"""Grids and joined ranges written as indices (mgrid, ogrid, r_, c_), and the indices of diagonals and triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import structural as st

from ..arrays.operands import Value, as_int, ensure, known_shape_operand, promote_dtypes
from .creation import filled, ones
from .from_values import asarray
from .grids import meshgrid
from .joining import concatenate, stack
from .positions import nonzero
from .ranges import arange, iota, linspace
from .shapes import expand_dims, transpose


def _range(name: str, s: slice) -> Value:
    """The values that a slice names: a step of 5j stands for 5 values, the last one included."""
    start, stop, step = [
        v if v is None else known_shape_operand(name, v, "give numbers")[()] for v in (s.start, s.stop, s.step)
    ]
    start = 0 if start is None else start
    if step is not None and np.iscomplexobj(step):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, 1 if step is None else step)


class Grid:
    """``mgrid`` and ``ogrid``: the coordinates of a grid, from slices.

    ``start:stop:step`` is `arange`; ``start:stop:5j`` is `linspace` with 5 values. One slice gives a vector; several give
    one array of all coordinates (mgrid) or a list of arrays that broadcast to them (ogrid).

    Follows `numpy.mgrid` and `numpy.ogrid`.

    >>> quire.numpy.mgrid[:2, :3].shape
    (2, 2, 3)
    >>> [x.shape for x in quire.numpy.ogrid[:2, 0:1:3j]]
    [(2, 1), (1, 3)]
    """

    def __init__(self, name: str, sparse: bool) -> None:
        self._name, self._sparse = name, sparse

    def __repr__(self) -> str:
        return f"quire.numpy.{self._name}"

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _range(self._name, key)
        ranges = promote_dtypes(*[_range(self._name, k) for k in key]) if key else []
        grids = meshgrid(*ranges, indexing="ij", sparse=self._sparse)
        if self._sparse:
            return grids
        return stack(grids, 0) if grids else arange(0)


class Joined:
    """``r_`` and ``c_``: arrays, numbers and slices joined, along the first axis or as columns.

    A slice stands for a range as in `mgrid`. A first entry "axis,ndmin,trans1d" says along which axis to join, how many
    dimensions each entry has at least, and where the dimensions of an entry with fewer go; "r" and "c" make a row or
    column of vectors.

    Follows `numpy.r_` and `numpy.c_`.

    >>> quire.numpy.r_[0:3, 9, quire.numpy.array([4, 5])]
    Array([0, 1, 2, 9, 4, 5], dtype=int32)
    >>> quire.numpy.c_[quire.numpy.array([1, 2]), quire.numpy.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self._name, self._defaults = name, (axis, ndmin, trans1d)

    def __repr__(self) -> str:
        return f"quire.numpy.{self._name}"

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Value:
        entries = key if isinstance(key, tuple) else (key,)
        (axis, ndmin, trans1d), matrix = self._defaults, None
        if entries and isinstance(entries[0], str):
            directive, entries = entries[0], entries[1:]
            if directive in ("r", "c"):
                matrix = "rc".index(directive)
            else:
                axis, ndmin, trans1d = self._directive(directive)
        if not entries:
            raise ValueError(f"quire.numpy.{self._name}: needs at least one array, number or slice")
        out = concatenate([self._entry(e, ndmin, trans1d) for e in entries], axis=axis)
        return out if matrix is None or out.ndim > 1 else expand_dims(out, matrix)

    def _directive(self, text: str) -> tuple[int, ...]:
        try:
            numbers = [int(v) for v in text.split(",")]
        except ValueError:
            raise ValueError(
                f"quire.numpy.{self._name}: unknown directive {text!r}: expected 'r', 'c' or up to three integers "
                "'axis,ndmin,trans1d'"
            ) from None
        return tuple([*numbers, *self._defaults[len(numbers) :]][:3])

    def _entry(self, entry: Any, ndmin: int, trans1d: int) -> Value:
        if isinstance(entry, str):
            raise ValueError(f"quire.numpy.{self._name}: the directive {entry!r} must come first")
        x = _range(self._name, entry) if isinstance(entry, slice) else asarray(entry)
        new = ndmin - x.ndim
        if new <= 0:
            return x
        x = st.reshape(x, (1,) * new + x.aval.shape)
        at = trans1d + new + 1 if trans1d < 0 else trans1d  # where the entry's own dimensions begin
        axes = list(range(ndmin))
        return transpose(x, axes[:at] + axes[new:] + axes[at:new])


mgrid, ogrid = Grid("mgrid", False), Grid("ogrid", True)
r_, c_ = Joined("r_", 0, 1, -1), Joined("c_", -1, 2, 0)
s_, index_exp = np.s_, np.index_exp


def ix_(*args: Any) -> tuple[Value, ...]:
    """Vectors as index arrays that select every combination: ``x[ix_(rows, columns)]`` is a submatrix.

    Args:
        args: vectors of integers.

    Raises:
        ValueError: an argument is no vector.
        NotImplementedError: a boolean vector, whose number of indices depends on its values.

    Follows `numpy.ix_`.

    >>> [x.shape for x in quire.numpy.ix_(quire.numpy.array([0, 2]), quire.numpy.array([1, 2, 3]))]
    [(2, 1), (1, 3)]
    """
    out = []
    for i, a in enumerate(args):
        x = ensure("ix_", a, i)
        if x.ndim != 1:
            raise ValueError(f"quire.numpy.ix_: arguments must be 1-dimensional, got {x.aval.short()} at position {i}")
        if dtypes.is_bool(x.aval.dtype):
            raise NotImplementedError(
                f"quire.numpy.ix_: boolean arguments are not supported, got one at position {i}: take its indices with "
                "quire.numpy.flatnonzero(mask, size=n)"
            )
        shape = tuple(x.aval.size if d == i else 1 for d in range(len(args)))
        empty = not x.aval.size
        out.append(filled(shape, 0, dtypes.canonicalize(dtypes.int64)) if empty else st.reshape(x, shape))
    return tuple(out)


def diag_indices(n: Any, ndim: Any = 2) -> tuple[Value, ...]:
    """The indices of the main diagonal of an array of `ndim` dimensions of size n. Follows `numpy.diag_indices`.

    Raises ValueError for a negative n or ndim.

    >>> quire.numpy.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    size, count = as_int("diag_indices", n, "n"), as_int("diag_indices", ndim, "ndim")
    for name, value in (("n", size), ("ndim", count)):
        if value < 0:
            raise ValueError(f"quire.numpy.diag_indices: {name} must not be negative, got {value}")
    return (iota((size,), 0, dtypes.canonicalize(dtypes.int64)),) * count


def diag_indices_from(arr: Any) -> tuple[Value, ...]:
    """The indices of the main diagonal of a square array. Follows `numpy.diag_indices_from`.

    Raises ValueError for an array of fewer than 2 dimensions, or of different sizes.

    >>> len(quire.numpy.diag_indices_from(quire.numpy.zeros((2, 2, 2))))
    3
    """
    x = ensure("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.aval.shape)) != 1:
        raise ValueError(
            f"quire.numpy.diag_indices_from: takes an array of 2 or more dimensions of one size, got {x.aval.short()}"
        )
    return diag_indices(x.aval.shape[0], x.ndim)


def _triangle(name: str, select: Callable[..., Any], n: Any, k: Any, m: Any) -> tuple[Value, Value]:
    rows = as_int(name, n, "n")
    columns = rows if m is None else as_int(name, m, "m")
    index = dtypes.canonicalize(dtypes.int64)
    i, j = select(rows, as_int(name, k, "k"), columns)
    return asarray(i.astype(index)), asarray(j.astype(index))


def tril_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Value, Value]:
    """The indices of the lower triangle of an n by m matrix (m is n by default), up to the k-th diagonal.

    Follows `numpy.tril_indices`.

    >>> quire.numpy.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _triangle("tril_indices", np.tril_indices, n, k, m)


def triu_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Value, Value]:
    """The indices of the upper triangle of an n by m matrix (m is n by default), from the k-th diagonal.

    Follows `numpy.triu_indices`.

    >>> quire.numpy.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _triangle("triu_indices", np.triu_indices, n, k, m)


def tril_indices_from(arr: Any, k: Any = 0) -> tuple[Value, Value]:
    """The indices of the lower triangle of a matrix. Follows `numpy.tril_indices_from`.

    >>> quire.numpy.tril_indices_from(quire.numpy.zeros((2, 1)))
    (Array([0, 1], dtype=int32), Array([0, 0], dtype=int32))
    """
    return tril_indices(*_matrix("tril_indices_from", arr, k))


def triu_indices_from(arr: Any, k: Any = 0) -> tuple[Value, Value]:
    """The indices of the upper triangle of a matrix. Follows `numpy.triu_indices_from`.

    >>> quire.numpy.triu_indices_from(quire.numpy.zeros((1, 2)))
    (Array([0, 0], dtype=int32), Array([0, 1], dtype=int32))
    """
    return triu_indices(*_matrix("triu_indices_from", arr, k))


def _matrix(name: str, arr: Any, k: Any) -> tuple[int, Any, int]:
    x = ensure(name, arr)
    if x.ndim != 2:
        raise ValueError(f"quire.numpy.{name}: takes a matrix, got {x.aval.short()}")
    return x.aval.shape[0], k, x.aval.shape[1]


def mask_indices(n: Any, mask_func: Callable[..., Any], k: Any = 0, *, size: int | None = None) -> tuple[Value, Value]:
    """The indices that a mask function selects of an n by n matrix.

    Args:
        n: the size of the matrix.
        mask_func: a function like `triu`: of a matrix of ones and k.
        k: its second argument.
        size: how many indices there are; needed where the mask is traced.

    Follows `numpy.mask_indices`.

    >>> quire.numpy.mask_indices(2, quire.numpy.triu, 1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    size_ = as_int("mask_indices", n, "n")
    i, j = nonzero(mask_func(ones((size_, size_)), k), size=size)
    return i, j


__all__ = [
    "c_", "diag_indices", "diag_indices_from", "index_exp", "ix_", "mask_indices", "mgrid", "ogrid", "r_", "s_",
    "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
]  # fmt: skip

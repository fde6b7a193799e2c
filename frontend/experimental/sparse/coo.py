"""`COO`: matrices as lists of rows, columns and elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import lax, tree_util
from ... import numpy as qnp
from ...numpy import result_type
from .base import JAXSparse
from .bcoo_array import _buffer
from .layout import _bcoo_fromdense
from .util import _count_stored_elements, known_count

Value = Any


class COOInfo(NamedTuple):
    """A matrix's metadata: its shape, and what is known of the order of its elements."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


def check_matrix(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """The shape of a matrix. Raises ValueError for one of other dimensions."""
    shape = tuple(int(n) for n in shape)
    if len(shape) != 2:
        raise ValueError(f"{name} must have ndim=2; got shape={shape}")
    return shape


class COO(JAXSparse):
    """A matrix as `data`, `row` and `col`, each of shape (nse,).

    Args:
        args: data, rows and columns. Those outside of the matrix stand for nothing.
        shape: the matrix's.
        rows_sorted, cols_sorted: whether the elements are known to be in the order of rows, or of columns.
    """

    data: Value
    row: Value
    col: Value

    def __init__(
        self, args: Sequence[Any], *, shape: Sequence[int], rows_sorted: bool = False, cols_sorted: bool = False
    ) -> None:
        self.data, self.row, self.col = (_buffer(x) for x in args)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return self.data.size

    @property
    def _info(self) -> COOInfo:
        return COOInfo(self.shape, self._rows_sorted, self._cols_sorted)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """`coo_fromdense`: a matrix's elements that are not zero. Raises ConcretizationTypeError where it is traced without `nse`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        shape = check_matrix("COO", shape)
        none = qnp.zeros(0, index_dtype)
        return cls((qnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        count = max(0, min(N + min(k, 0), M - max(k, 0)))
        rows = np.arange(count) + max(-k, 0)
        row, col = (qnp.asarray(x.astype(index_dtype)) for x in (rows, rows + k))
        return cls((qnp.ones(count, dtype), row, col), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        """The same matrix with its elements in the order of rows, and of columns in each."""
        if self._rows_sorted:
            return self
        number = lax.iota(qnp.int32, self.nse)
        row, col, order = lax.sort((self.row, self.col, number), num_keys=2)
        return COO((self.data[order], row, col), shape=self.shape, rows_sorted=True)

    def todense(self) -> Value:
        """The whole matrix."""
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transpose. Raises NotImplementedError for `axes`."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def __matmul__(self, other: Any) -> Value:
        return times(self, other, coo_matvec, coo_matmat)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data, rows and columns are the children, the rest is the structure."""
        return (self.data, self.row, self.col), tuple(self._info)

    @classmethod
    def tree_unflatten(cls, metadata: Any, children: Any) -> COO:
        """The matrix that was flattened; its children may be anything."""
        self = object.__new__(cls)
        self.data, self.row, self.col = children
        self.shape, self._rows_sorted, self._cols_sorted = metadata
        return self


tree_util.register_pytree_node_class(COO)


def times(mat: Any, other: Any, matvec: Any, matmat: Any) -> Value:
    """A sparse matrix times a vector or a matrix, in their joint dtype. Raises NotImplementedError for others."""
    if isinstance(other, JAXSparse):
        raise NotImplementedError("matmul between two sparse objects.")
    other = qnp.asarray(other)
    if other.ndim not in (1, 2):
        raise NotImplementedError(f"matmul with object of shape {tuple(other.shape)}")
    dtype = result_type(mat.dtype, other)
    _, metadata = mat.tree_flatten()
    buffers = (mat.data.astype(dtype), *tree_util.tree_leaves(mat)[1:])
    return (matvec if other.ndim == 1 else matmat)(type(mat).tree_unflatten(metadata, buffers), other.astype(dtype))


def _coo_todense(data: Value, row: Value, col: Value, *, spinfo: COOInfo) -> Value:
    data = qnp.asarray(data)
    if not data.size:
        return qnp.zeros(spinfo.shape, data.dtype)
    return qnp.zeros(spinfo.shape, data.dtype).at[row, col].add(data, mode="drop")


def coo_todense(mat: COO) -> Value:
    """The whole matrix."""
    return _coo_todense(mat.data, mat.row, mat.col, spinfo=mat._info)


def _coo_fromdense(mat: Value, *, nse: int, index_dtype: Any = np.int32) -> tuple[Value, Value, Value]:
    mat = qnp.asarray(mat)
    data, indices = _bcoo_fromdense(mat, nse=int(nse), index_dtype=index_dtype)
    row, col = indices[:, 0], indices[:, 1]
    inside = row < mat.shape[0]  # the places that are left have zeros, at the first place
    return data, qnp.where(inside, row, 0), qnp.where(inside, col, 0)


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """A matrix's elements that are not zero, row by row, `nse` of them.

    Raises:
        ValueError: `mat` is no matrix.
        ConcretizationTypeError: it is traced, and `nse` is not given.
    """
    mat = qnp.asarray(mat)
    check_matrix("COO", mat.shape)
    nse = known_count(_count_stored_elements(mat) if nse is None else nse, "coo_fromdense: nse argument")
    buffers = _coo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return COO(buffers, shape=mat.shape, rows_sorted=True)


def _coo_matmat(data: Value, row: Value, col: Value, B: Value, *, spinfo: COOInfo, transpose: bool = False) -> Value:
    data, B = qnp.asarray(data), qnp.asarray(B)
    (n, m), (to, of) = spinfo.shape, (row, col)
    if transpose:
        (n, m), (to, of) = (m, n), (col, row)
    if B.shape[0] != m:
        raise TypeError(
            f"quire.experimental.sparse: a {'transposed ' if transpose else ''}sparse matrix of shape {tuple(spinfo.shape)} times "
            f"an array of shape {tuple(B.shape)}: expected {m} rows"
        )
    dtype = result_type(data.dtype, B.dtype)
    if not data.size or not B.size:
        return qnp.zeros((n, *B.shape[1:]), dtype)
    rows = qnp.asarray(B).at[of].get(mode="fill", fill_value=0).astype(dtype)
    terms = data.reshape((-1, *(1,) * (B.ndim - 1))).astype(dtype) * rows
    return qnp.zeros((n, *B.shape[1:]), dtype).at[to].add(terms, mode="drop")


def _coo_matvec(data: Value, row: Value, col: Value, v: Value, *, spinfo: COOInfo, transpose: bool = False) -> Value:
    return _coo_matmat(data, row, col, v, spinfo=spinfo, transpose=transpose)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Value:
    """The matrix, or its transpose, times a vector. Raises TypeError where the sizes do not fit."""
    return _coo_matvec(mat.data, mat.row, mat.col, v, spinfo=mat._info, transpose=transpose)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Value:
    """The matrix, or its transpose, times a matrix. Raises TypeError where the sizes do not fit."""
    return _coo_matmat(mat.data, mat.row, mat.col, B, spinfo=mat._info, transpose=transpose)


__all__ = ["COO", "COOInfo", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense"]

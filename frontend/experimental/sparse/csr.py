"""`CSR` and `CSC`: matrices whose elements are listed row by row, or column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as qnp
from ... import tree_util
from .base import JAXSparse
from .bcoo_array import _buffer
from .bcsr_array import _bcsr_fromdense
from .coo import COOInfo, _coo_matmat, _coo_todense, check_matrix, times
from .util import _count_stored_elements, known_count, rows_of

Value = Any


class _Compressed(JAXSparse):
    data: Value
    indices: Value
    indptr: Value

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = (_buffer(x) for x in args)
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return self.data.size

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The transpose: of CSR it is CSC, and the reverse. Raises NotImplementedError for `axes`."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        other = CSC if isinstance(self, CSR) else CSR
        return other((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data, indices and pointers are the children, the shape is the structure."""
        return (self.data, self.indices, self.indptr), (self.shape,)

    @classmethod
    def tree_unflatten(cls, metadata: Any, children: Any) -> Any:
        """The matrix that was flattened; its children may be anything."""
        self = object.__new__(cls)
        self.data, self.indices, self.indptr = children
        (self.shape,) = metadata[:1]
        return self

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        shape = check_matrix(cls.__name__, shape)
        n = shape[0] if cls is CSR else shape[1]
        return cls((qnp.zeros(0, dtype), qnp.zeros(0, index_dtype), qnp.zeros(n + 1, index_dtype)), shape=shape)


class CSR(_Compressed):
    """A matrix as `data` and `indices`, the columns, of shape (nse,), and `indptr`, of shape (rows + 1,): where each row begins.

    Args:
        args: data, columns and pointers.
        shape: the matrix's.
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """`csr_fromdense`: a matrix's elements that are not zero. Raises ConcretizationTypeError where it is traced without `nse`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        count = max(0, min(N + min(k, 0), M - max(k, 0)))
        first = max(-k, 0)
        cols = (np.arange(count) + first + k).astype(index_dtype)
        pointers = np.clip(np.arange(N + 1) - first, 0, count).astype(index_dtype)
        return cls((qnp.ones(count, dtype), qnp.asarray(cols), qnp.asarray(pointers)), shape=(N, M))

    def todense(self) -> Value:
        """The whole matrix."""
        return csr_todense(self)

    def __matmul__(self, other: Any) -> Value:
        return times(self, other, csr_matvec, csr_matmat)


class CSC(_Compressed):
    """A matrix as `data` and `indices`, the rows, of shape (nse,), and `indptr`, of shape (columns + 1,): where each begins.

    Args:
        args: data, rows and pointers.
        shape: the matrix's.
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """A matrix's elements that are not zero. Raises ConcretizationTypeError where it is traced, and `nse` is not given."""
        return csr_fromdense(qnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    def todense(self) -> Value:
        """The whole matrix."""
        return csr_todense(self.transpose()).T

    def __matmul__(self, other: Any) -> Value:
        return times(self, other, _csc_times, _csc_times)


tree_util.register_pytree_node_class(CSR)
tree_util.register_pytree_node_class(CSC)


def _csc_times(mat: CSC, other: Value) -> Value:
    return csr_matmat(mat.transpose(), other, transpose=True)


def _csr_todense(data: Value, indices: Value, indptr: Value, *, shape: Sequence[int]) -> Value:
    data, indices, indptr = (qnp.asarray(x) for x in (data, indices, indptr))
    rows = rows_of(indptr, indices.shape[0], indices.dtype)
    return _coo_todense(data, rows, indices, spinfo=COOInfo(tuple(shape)))


def csr_todense(mat: CSR) -> Value:
    """The whole matrix."""
    return _csr_todense(mat.data, mat.indices, mat.indptr, shape=mat.shape)


def _csr_fromdense(mat: Value, *, nse: int, index_dtype: Any = np.int32) -> tuple[Value, Value, Value]:
    mat = qnp.asarray(mat)
    data, cols, pointers = _bcsr_fromdense(mat, nse=int(nse), index_dtype=index_dtype)
    return data, qnp.where(cols < mat.shape[1], cols, 0), pointers


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A matrix's elements that are not zero, row by row, `nse` of them.

    Raises:
        ValueError: `mat` is no matrix.
        ConcretizationTypeError: it is traced, and `nse` is not given.
    """
    mat = qnp.asarray(mat)
    check_matrix("CSR", mat.shape)
    nse = known_count(_count_stored_elements(mat) if nse is None else nse, "csr_fromdense: nse argument")
    return CSR(_csr_fromdense(mat, nse=nse, index_dtype=index_dtype), shape=mat.shape)


def _csr_matmat(
    data: Value, indices: Value, indptr: Value, B: Value, *, shape: Sequence[int], transpose: bool = False
) -> Value:
    indices, indptr = qnp.asarray(indices), qnp.asarray(indptr)
    rows = rows_of(indptr, indices.shape[0], indices.dtype)
    return _coo_matmat(data, rows, indices, B, spinfo=COOInfo(tuple(shape)), transpose=transpose)


def _csr_matvec(
    data: Value, indices: Value, indptr: Value, v: Value, *, shape: Sequence[int], transpose: bool = False
) -> Value:
    return _csr_matmat(data, indices, indptr, v, shape=shape, transpose=transpose)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Value:
    """The matrix, or its transpose, times a vector. Raises TypeError where the sizes do not fit."""
    return _csr_matvec(mat.data, mat.indices, mat.indptr, v, shape=mat.shape, transpose=transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Value:
    """The matrix, or its transpose, times a matrix. Raises TypeError where the sizes do not fit."""
    return _csr_matmat(mat.data, mat.indices, mat.indptr, B, shape=mat.shape, transpose=transpose)


__all__ = ["CSC", "CSR", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense"]

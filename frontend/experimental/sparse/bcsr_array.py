"""`BCSR`: sparse arrays whose elements are listed row by row, with batch and dense dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import numpy as qnp
from ... import tree_util
from .base import METHODS, JAXSparse
from .bcoo_array import BCOO, _buffer
from .util import SparseInfo, _count_stored_elements, check_counts, known_count, positions, rows_of

Value = Any


class BCSRProperties(NamedTuple):
    """The numbers of dimensions of each kind, and of the stored elements."""

    n_batch: int
    n_dense: int
    nse: int


def bcsr_layout(data: Value, indices: Value, indptr: Value, shape: tuple[int, ...]) -> BCSRProperties:
    """The layout of BCSR's buffers. Raises ValueError where their shapes, or the whole shape, do not fit."""
    n_batch, n_dense = np.ndim(indices) - 1, len(shape) - np.ndim(indices) - 1
    given = f"data.shape={np.shape(data)}, indices.shape={np.shape(indices)}, indptr.shape={np.shape(indptr)}, shape={shape}"
    if n_batch < 0 or n_dense < 0:
        raise ValueError(
            f"BCSR: expected indices (*batch, nse) of an array (*batch, rows, columns, *dense); got {given}"
        )
    nse, batch = np.shape(indices)[-1], shape[:n_batch]
    want = ((nse, *shape[n_batch + 2 :]), (nse,), (shape[n_batch] + 1,))
    for x, rest in zip((data, indices, indptr), want):
        sizes = tuple(np.shape(x))
        lead = sizes[:n_batch]
        if len(sizes) < n_batch or sizes[n_batch:] != rest or any(n not in (1, m) for n, m in zip(lead, batch)):
            raise ValueError(f"BCSR: the buffers do not fit; got {given}")
    return BCSRProperties(n_batch, n_dense, nse)


class BCSR(JAXSparse):
    """A sparse array of the shape (*batch, rows, columns, *dense), row by row.

    Args:
        args: `data` (*batch, nse, *dense), `indices` (*batch, nse), the column of each element, and `indptr` (*batch, rows + 1):
            the elements of row i are those from indptr[i] on, to indptr[i + 1]. What is after the last row stands for nothing.
        shape: the whole array's.
        indices_sorted, unique_indices: what is known of the indices; it is kept where it stays true.

    Raises:
        ValueError: the shapes do not fit.

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.experimental import sparse
        >>> m = sparse.BCSR.fromdense(qnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> m, m.indptr, m @ qnp.array([1.0, 10.0])
        (BCSR(float32[2, 2], nse=2), Array([0, 1, 2], dtype=int32), Array([20.,  3.], dtype=float32))
    """

    data: Value
    indices: Value
    indptr: Value
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self, args: Sequence[Any], *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        self.data, self.indices, self.indptr = (_buffer(x) for x in args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        bcsr_layout(self.data, self.indices, self.indptr, self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements of each batch entry."""
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """2: rows and columns."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dimensions of a stored element."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def _sparse_shape(self) -> tuple[int, ...]:
        return self.shape[self.n_batch : self.n_batch + 2]

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _described(self) -> str:
        bcsr_layout(self.data, self.indices, self.indptr, self.shape)
        more = "".join(f", {n}={v}" for n, v in (("n_batch", self.n_batch), ("n_dense", self.n_dense)) if v)
        return super()._described() + more

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """`bcsr_fromdense`: an array's elements that are not zero.

        Raises:
            ValueError: the array has not two dimensions that are neither batches nor dense.
            ConcretizationTypeError: the array is traced and `nse` is not given.
        """
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """A BCOO with two sparse dimensions, its elements in order. Raises NotImplementedError for other BCOOs."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BSCR.from_bcoo requires n_sparse=2; got n_sparse={arr.n_sparse}")
        if not arr.indices_sorted:
            arr = arr.sort_indices()
        indices, indptr = _bcoo_to_bcsr(arr.indices, shape=arr.shape, index_dtype=arr.indices.dtype)
        return cls(
            (arr.data, indices, indptr),
            shape=arr.shape,
            indices_sorted=arr.indices_sorted,
            unique_indices=arr.unique_indices,
        )

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """A sparse matrix of SciPy. Raises NotImplementedError for dense or batch dimensions."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse with nonzero n_dense/n_batch.")
        csr = mat.tocsr()
        index_dtype = index_dtype or csr.indices.dtype
        buffers = (csr.data, csr.indices.astype(index_dtype), csr.indptr.astype(index_dtype))
        return cls([qnp.asarray(x) for x in buffers], shape=csr.shape, indices_sorted=bool(csr.has_sorted_indices))

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32", n_dense: int = 0, n_batch: int = 0, nse: int = 0
    ) -> BCSR:  # fmt: skip
        shape = tuple(shape)
        if check_counts("BCSR", len(shape), n_batch, n_dense) != 2:
            raise ValueError(
                f"BCSR sparse.empty: must have 2 sparse dimensions; got shape={shape}, {n_batch=}, {n_dense=}"
            )
        batch, dense = shape[:n_batch], shape[n_batch + 2 :]
        data = qnp.zeros((*batch, nse, *dense), dtype)
        indices = qnp.full((*batch, nse), shape[n_batch + 1], index_dtype)
        return cls((data, indices, qnp.zeros((*batch, shape[n_batch] + 1), index_dtype)), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._eye(N, M, k, **options))

    def to_bcoo(self) -> BCOO:
        """The same array as a BCOO."""
        indices = _bcsr_to_bcoo(self.indices, self.indptr, shape=self.shape)
        return BCOO(
            (self.data, indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Value:
        """The whole array, of shape `shape`."""
        return self.to_bcoo().todense()

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same array with each place listed once, in order; see `BCOO.sum_duplicates`.

        Raises:
            ValueError: the array is traced and `nse` is not given.
        """
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))

    def __matmul__(self, other: Any) -> Any:
        return METHODS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return METHODS["matmul"](other, self)

    def __getitem__(self, item: Any) -> Any:
        return METHODS["getitem"](self, item)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data, indices and pointers are the children, the rest is the structure."""
        return (self.data, self.indices, self.indptr), (self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, metadata: Any, children: Any) -> BCSR:
        """The array that was flattened; its children may be anything."""
        self = object.__new__(cls)
        self.data, self.indices, self.indptr = children
        self.shape, self.indices_sorted, self.unique_indices = metadata
        return self


tree_util.register_pytree_node_class(BCSR)


def counts_to_pointers(rows: Value, n: int, dtype: Any) -> Value:
    """How many elements there are before each row, of the rows of all elements, (*batch, nse): (*batch, n + 1)."""
    batch = tuple(rows.shape[:-1])
    within = positions(batch, len(batch) + 1)
    counts = qnp.zeros((*batch, n + 1), dtype).at[(*within, rows + 1)].add(1, mode="drop")
    return qnp.cumsum(counts, axis=-1, dtype=dtype)


def _bcoo_to_bcsr(indices: Value, *, shape: Sequence[int], index_dtype: Any) -> tuple[Value, Value]:
    """The columns and pointers of sorted indices. Raises ValueError unless there are two sparse dimensions."""
    if indices.shape[-1] != 2:
        raise ValueError(f"expected indices of 2 sparse dimensions; got shape {tuple(indices.shape)}")
    n_batch = indices.ndim - 2
    pointers = counts_to_pointers(indices[..., 0], shape[n_batch], index_dtype)
    return indices[..., 1].astype(index_dtype), pointers


def _bcsr_to_bcoo(indices: Value, indptr: Value, *, shape: Sequence[int]) -> Value:
    """The indices of a BCOO, of columns and pointers."""
    rows = rows_of(indptr, indices.shape[-1], indices.dtype)
    batch = np.broadcast_shapes(rows.shape[:-1], indices.shape[:-1])
    both = [qnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (rows, indices)]
    return qnp.stack(both, axis=-1)


def _bcsr_fromdense(
    mat: Value, *, nse: int, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> tuple[Value, Value, Value]:
    """Data, columns and pointers of an array's first `nse` elements that are not zero."""
    m = BCOO.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return (m.data, *_bcoo_to_bcsr(m.indices, shape=m.shape, index_dtype=index_dtype))


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:
    """An array's elements that are not zero, row by row; see `bcoo_fromdense`.

    Raises:
        ValueError: the array has not two dimensions that are neither batches nor dense.
        ConcretizationTypeError: the array is traced and `nse` is not given.
    """
    mat = qnp.asarray(mat)
    if check_counts("bcsr_fromdense", mat.ndim, n_batch, n_dense) != 2:
        raise ValueError(
            f"bcsr_fromdense: must have 2 sparse dimensions; got shape {tuple(mat.shape)}, {n_batch=}, {n_dense=}"
        )
    message = (
        "The error arose for the nse argument of bcsr_fromdense. In order for BCSR.fromdense() to be used in traced/compiled "
        "code, you must pass a concrete value to the nse (number of stored elements) argument"
    )
    nse = known_count(_count_stored_elements(mat, n_batch, n_dense) if nse is None else nse, message)
    buffers = _bcsr_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcsr_todense(mat: BCSR) -> Value:
    """The whole array."""
    return mat.todense()


__all__ = ["BCSR", "BCSRProperties", "bcsr_fromdense", "bcsr_todense"]

"""`BCOO`: sparse arrays as lists of elements and their places, with batch and dense dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from quire.ir.errors import ConcretizationTypeError

from ... import numpy as qnp
from ... import tree_util
from .base import METHODS, JAXSparse
from .layout import Layout, _bcoo_fromdense, _bcoo_todense, layout_of
from .util import SparseInfo, _count_stored_elements, check_counts, known_count

Value = Any


class BCOOProperties(NamedTuple):
    """The numbers of dimensions of each kind, and of the stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def _buffer(x: Any) -> Value:
    return x if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray) else qnp.asarray(x)


class BCOO(JAXSparse):
    """A sparse array: `data`, of shape (*batch, nse, *dense), and `indices`, of shape (*batch, nse, n_sparse).

    The whole array has the shape (*batch, *sparse, *dense). A batch dimension of data or of indices may be 1, which stands for
    all. Elements that are listed twice are summed; indices outside of the array stand for nothing.

    Args:
        args: data and indices.
        shape: the whole array's.
        indices_sorted, unique_indices: what is known of the indices; it is kept where it stays true.

    Raises:
        ValueError: their shapes do not fit.

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.experimental import sparse
        >>> m = sparse.BCOO.fromdense(qnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> m, m @ qnp.array([1.0, 10.0])
        (BCOO(float32[2, 2], nse=2), Array([20.,  3.], dtype=float32))
    """

    data: Value
    indices: Value
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self, args: Sequence[Any], *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        data, indices = args
        self.data, self.indices = _buffer(data), _buffer(indices)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        layout_of(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements of each batch entry."""
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of dimensions that the indices have."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dimensions of a stored element."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def layout(self) -> Layout:
        """The numbers of dimensions of each kind, and of the stored elements."""
        return Layout(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _described(self) -> str:
        layout_of(self.data, self.indices, self.shape)
        more = "".join(f", {n}={v}" for n, v in (("n_batch", self.n_batch), ("n_dense", self.n_dense)) if v)
        return super()._described() + more

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """`bcoo_fromdense`: an array's elements that are not zero.

        Raises:
            ValueError: n_batch or n_dense do not fit the array.
            ConcretizationTypeError: the array is traced and `nse` is not given.
        """
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """A sparse matrix of SciPy, its elements in the order of its own. Raises NotImplementedError for dense or batch dimensions."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse with nonzero n_dense/n_batch")
        coo = mat.tocoo()
        indices = qnp.asarray(np.stack([coo.row, coo.col], axis=-1).astype(index_dtype or coo.row.dtype))
        return cls((qnp.asarray(coo.data), indices), shape=coo.shape)

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32", n_dense: int = 0, n_batch: int = 0, nse: int = 0
    ) -> BCOO:  # fmt: skip
        shape = tuple(shape)
        n_sparse = check_counts("BCOO", len(shape), n_batch, n_dense)
        layout = Layout(n_batch, n_sparse, n_dense, nse)
        batch, sizes, dense = layout.split(shape)
        data = qnp.zeros((*batch, nse, *dense), dtype)
        indices = qnp.broadcast_to(qnp.asarray(sizes, index_dtype), (*batch, nse, n_sparse))
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32", n_batch: int = 0, n_dense: int = 0
    ) -> BCOO:  # fmt: skip
        check_counts("BCOO", 2, n_batch, n_dense)
        count = max(0, min(N + min(k, 0), M - max(k, 0)))
        if n_batch or n_dense:  # the rows, or all, are blocks
            nse = min(count, 1) if n_batch else count if n_dense == 1 else min(count, 1)
            whole = qnp.eye(N, M, k, dtype)
            return bcoo_fromdense(whole, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
        rows = np.arange(count) + max(-k, 0)
        indices = qnp.asarray(np.stack([rows, rows + k], axis=-1).astype(index_dtype))
        return cls((qnp.ones(count, dtype), indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    def todense(self) -> Value:
        """The whole array, of shape `shape`."""
        return _bcoo_todense(self.data, self.indices, spinfo=self._info)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> BCOO:
        """`bcoo_update_layout`: the array with other numbers of batch and dense dimensions.

        Raises:
            ValueError: the numbers do not fit.
            SparseEfficiencyError: one grows, and `on_inefficient` is "error".
        """
        return METHODS["update_layout"](self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """`bcoo_transpose`: the dimensions in another order, reversed by default.

        Raises:
            TypeError: `axes` is no permutation.
            NotImplementedError: it mixes dimensions of different kinds.
        """
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(int(a) % self.ndim for a in axes)
        return METHODS["transpose"](self, permutation=order)

    def sort_indices(self) -> BCOO:
        """The same array, the elements in the order of their places."""
        return METHODS["sort_indices"](self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with each place listed once, in order.

        Args:
            nse: how many elements are stored; as many as are needed by default, which a traced array does not know.
            remove_zeros: whether stored zeros are left out.

        Raises:
            ValueError: the array is traced and `nse` is not given.
        """
        return METHODS["eliminate_zeros" if remove_zeros else "sum_duplicates"](self, nse=nse)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum of all elements, an array, or along some axes: sparse. Raises ValueError for an axis that is not there."""
        return METHODS["sum"](self, axis=axis, dtype=dtype, keepdims=keepdims)

    def astype(self, dtype: Any) -> BCOO:
        """The array with elements of another dtype."""
        return METHODS["astype"](self, dtype)

    def reshape(self, *args: Any, **kwargs: Any) -> BCOO:
        """The array with another shape, of as many elements.

        Raises:
            TypeError: the sizes do not fit.
            ValueError: dimensions of different kinds would be mixed.
        """
        return METHODS["reshape"](self, args[0] if len(args) == 1 else args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, item: Any) -> Any:
        return METHODS["getitem"](self, item)

    def __neg__(self) -> BCOO:
        return METHODS["neg"](self)

    def __pos__(self) -> BCOO:
        return METHODS["pos"](self)

    def __abs__(self) -> BCOO:
        return METHODS["abs"](self)

    def __add__(self, other: Any) -> Any:
        return METHODS["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return METHODS["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        return METHODS["sub"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return METHODS["sub"](other, self)

    def __mul__(self, other: Any) -> Any:
        return METHODS["mul"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return METHODS["mul"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return METHODS["truediv"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return METHODS["truediv"](other, self)

    def __pow__(self, other: Any) -> Any:
        return METHODS["pow"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return METHODS["pow"](other, self)

    def __matmul__(self, other: Any) -> Any:
        return METHODS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return METHODS["matmul"](other, self)

    def __eq__(self, other: object) -> Any:
        return METHODS["eq"](self, other)

    __hash__ = None  # type: ignore[assignment]

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data and indices are the children, the rest is the structure."""
        return (self.data, self.indices), (self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, metadata: Any, children: Any) -> BCOO:
        """The array that was flattened; its children may be anything."""
        self = object.__new__(cls)
        self.data, self.indices = children
        self.shape, self.indices_sorted, self.unique_indices = metadata
        return self


tree_util.register_pytree_node_class(BCOO)


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """An array's elements that are not zero, in their order.

    Args:
        mat: the array.
        nse: how many elements are stored for each batch entry; as many as the fullest has by default. Places that are left have
            zeros, and indices outside of the array.
        n_batch: the number of leading dimensions that are batches.
        n_dense: the number of trailing dimensions that are stored whole.
        index_dtype: the dtype of the indices.

    Raises:
        ValueError: n_batch or n_dense do not fit the array.
        ConcretizationTypeError: the array is traced and `nse` is not given.
    """
    mat = qnp.asarray(mat)
    check_counts("bcoo_fromdense", mat.ndim, n_batch, n_dense)
    if nse is None:
        nse = known_count(_count_stored_elements(mat, n_batch, n_dense), _NSE)
    data, indices = _bcoo_fromdense(
        mat, nse=known_count(nse, _NSE), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


_NSE = (
    "The error arose for the nse argument of bcoo_fromdense. In order for BCOO.fromdense() to be used in traced/compiled code, "
    "you must pass a concrete value to the nse (number of stored elements) argument"
)


def bcoo_todense(mat: BCOO) -> Value:
    """The whole array."""
    return mat.todense()


__all__ = ["BCOO", "BCOOProperties", "ConcretizationTypeError", "bcoo_fromdense", "bcoo_todense"]

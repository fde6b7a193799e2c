"""Sparse arrays as lists of elements and their places: `BCOO`, under the names of `jax.experimental.sparse`.

Products of a sparse array and an array gather, multiply and scatter, so they are compiled, mapped and differentiated like
anything else. Of JAX's forms there is this one, without batch dimensions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as qnp
from .. import tree_util
from ..absent_names import module_getattr


class JAXSparse:
    """The base of sparse arrays."""

    data: Any
    shape: tuple[int, ...]
    # NumPy's arrays leave products with these to them.
    __array_ufunc__ = None
    __array_priority__ = 1000

    @property
    def dtype(self) -> Any:
        """The elements' dtype."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, those that are not stored included."""
        return math.prod(self.shape)


class BCOO(JAXSparse):
    """A sparse array: `data`, of shape (nse, *dense), and `indices`, of shape (nse, n_sparse), the place of each.

    Elements that are listed twice are summed; indices outside of the array stand for nothing.

    Args:
        args: data and indices.
        shape: the whole array's.
        indices_sorted, unique_indices: what is known of the indices; it is kept.

    Raises:
        NotImplementedError: the arrays have batch dimensions.
        ValueError: their shapes do not fit.

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.experimental import sparse
        >>> m = sparse.BCOO.fromdense(qnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> m.nse, m @ qnp.array([1.0, 10.0])
        (2, Array([20.,  3.], dtype=float32))
    """

    def __init__(
        self, args: Sequence[Any], *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        self.data, self.indices = (qnp.asarray(x) for x in args)
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        if self.indices.ndim != 2:
            raise NotImplementedError(
                f"quire.experimental.sparse.BCOO: indices of shape {self.indices.shape}, expected (nse, n_sparse): there are no "
                "batch dimensions; use quire.vmap"
            )
        dense = self.shape[self.n_sparse :]
        if self.data.shape != (self.nse, *dense):
            raise ValueError(
                f"quire.experimental.sparse.BCOO: data of shape {self.data.shape}, expected {(self.nse, *dense)} for "
                f"{self.nse} indices of {self.n_sparse} dimensions in {self.shape}"
            )

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return self.indices.shape[0]

    @property
    def n_batch(self) -> int:
        """0."""
        return 0

    @property
    def n_sparse(self) -> int:
        """The number of dimensions that the indices have."""
        return self.indices.shape[1]

    @property
    def n_dense(self) -> int:
        """The number of dimensions of a stored element."""
        return self.ndim - self.n_sparse

    def __repr__(self) -> str:
        return f"BCOO({self.dtype}{list(self.shape)}, nse={self.nse}, n_dense={self.n_dense})"

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """An array's elements that are not zero; `nse` of them, which a traced array needs. Raises NotImplementedError for n_batch."""
        if n_batch:
            raise NotImplementedError("quire.experimental.sparse.BCOO.fromdense: expected n_batch=0; use quire.vmap")
        mat = qnp.asarray(mat)
        sparse = mat.shape[: mat.ndim - n_dense]
        kept = mat != 0 if not n_dense else qnp.any(mat != 0, axis=tuple(range(len(sparse), mat.ndim)))
        places = qnp.nonzero(kept, size=nse, fill_value=sparse if nse is not None else None)
        indices = qnp.stack(places, axis=-1).astype(index_dtype)
        data = mat.at[tuple(indices[:, i] for i in range(len(sparse)))].get(mode="fill", fill_value=0)
        return cls((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """A sparse matrix of SciPy. Raises NotImplementedError for dense or batch dimensions."""
        if n_dense or n_batch:
            raise NotImplementedError("quire.experimental.sparse.BCOO.from_scipy_sparse: expected n_dense=0, n_batch=0")
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], axis=-1).astype(index_dtype or np.int32)
        return cls((qnp.asarray(coo.data), qnp.asarray(indices)), shape=coo.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32, nse: int = 0) -> BCOO:
        data = qnp.zeros(nse, dtype)
        return cls((data, qnp.zeros((nse, len(shape)), index_dtype) + qnp.array(shape, index_dtype)), shape=shape)

    def _places(self) -> tuple[Any, ...]:
        return tuple(self.indices[:, i] for i in range(self.n_sparse))

    def todense(self) -> Any:
        """The whole array."""
        if not self.n_sparse:
            return self.data.sum(0, dtype=self.dtype)
        return qnp.zeros(self.shape, self.dtype).at[self._places()].add(self.data, mode="drop")

    def _with(self, data: Any, indices: Any = None, shape: Sequence[int] | None = None) -> BCOO:
        same = indices is None
        return BCOO(
            (data, self.indices if same else indices), shape=self.shape if shape is None else shape,
            indices_sorted=same and self.indices_sorted, unique_indices=self.unique_indices,
        )  # fmt: skip

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its dimensions in another order. Raises NotImplementedError if dense ones move."""
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(a % self.ndim for a in axes)
        if self.n_dense and order[self.n_sparse :] != tuple(range(self.n_sparse, self.ndim)):
            raise NotImplementedError(
                "quire.experimental.sparse.BCOO.transpose: dense dimensions must stay where they are"
            )
        indices = self.indices[:, qnp.array(order[: self.n_sparse])]
        return self._with(self.data, indices, [self.shape[i] for i in order])

    @property
    def T(self) -> BCOO:  # noqa: N802 - NumPy's name
        """The transpose."""
        return self.transpose()

    def astype(self, dtype: Any) -> BCOO:
        """The array with elements of another dtype."""
        return self._with(self.data.astype(dtype))

    def sort_indices(self) -> BCOO:
        """The same array, its elements in the order of their places."""
        order = qnp.lexsort(self._places()[::-1])
        out = self._with(self.data[order], self.indices[order])
        out.indices_sorted = True
        return out

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with each place listed once; with `nse` of them, which a traced array needs."""
        fill = qnp.array(self.shape[: self.n_sparse], self.indices.dtype)
        found, where = qnp.unique(self.indices, axis=0, return_inverse=True, size=nse, fill_value=fill if nse else None)
        data = qnp.zeros((found.shape[0], *self.data.shape[1:]), self.dtype).at[where.ravel()].add(self.data)
        return BCOO((data, found), shape=self.shape, indices_sorted=True, unique_indices=True)

    def sum(self, axis: Any = None) -> Any:
        """The sum of all elements, an array, or along some axes: sparse. Raises ValueError for an axis that is not there."""
        given = range(self.ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
        if any(not -self.ndim <= a < self.ndim for a in given):
            raise ValueError(f"quire.experimental.sparse.BCOO.sum: axis {axis} of an array of {self.ndim} dimensions")
        axes = {a % self.ndim for a in given}
        if len(axes) == self.ndim:
            return self.data.sum()
        data = self.data.sum(tuple(1 + d - self.n_sparse for d in sorted(axes) if d >= self.n_sparse))
        kept = [d for d in range(self.n_sparse) if d not in axes]
        shape = [n for d, n in enumerate(self.shape) if d not in axes]
        return BCOO((data, self.indices[:, qnp.array(kept, int)]), shape=shape)

    def __neg__(self) -> BCOO:
        return self._with(-self.data)

    def __mul__(self, other: Any) -> Any:
        """Times a number, or an array that broadcasts to this one's shape: sparse again."""
        if isinstance(other, JAXSparse):
            return self * other.todense()  # type: ignore[attr-defined]
        whole = qnp.asarray(other)
        if whole.ndim == 0:
            return self._with(self.data * whole)
        factors = qnp.broadcast_to(whole, self.shape).at[self._places()].get(mode="fill", fill_value=0)
        return self._with(self.data * factors)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> BCOO:
        return self._with(self.data / other)

    def __add__(self, other: Any) -> Any:
        """Plus a sparse array of the same shape: sparse; plus an array: an array."""
        if isinstance(other, BCOO) and other.shape == self.shape and other.n_sparse == self.n_sparse:
            data = qnp.concatenate([self.data, other.data])
            return BCOO((data, qnp.concatenate([self.indices, other.indices])), shape=self.shape)
        return self.todense() + _dense(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __matmul__(self, other: Any) -> Any:
        """Times a vector or a matrix, as an array. Raises ValueError where the sizes do not fit."""
        x = _dense(other)
        if self.ndim not in (1, 2) or self.n_dense or x.ndim not in (1, 2) or x.shape[0] != self.shape[-1]:
            raise ValueError(
                f"quire.experimental.sparse: a sparse array of shape {self.shape} times one of shape {x.shape}: expected a "
                "matrix or a vector without dense dimensions, and as many rows"
            )
        rows = x.at[self.indices[:, -1]].get(mode="fill", fill_value=0)
        products = self.data.reshape(-1, *(1,) * (x.ndim - 1)) * rows
        if self.ndim == 1:
            return products.sum(0)
        out = qnp.zeros((self.shape[0], *x.shape[1:]), products.dtype)
        return out.at[self.indices[:, 0]].add(products, mode="drop")

    def __rmatmul__(self, other: Any) -> Any:
        """A vector or a matrix times this one, as an array."""
        x = qnp.asarray(other)
        return self @ x if self.ndim == 1 and x.ndim == 1 else (self.T @ x.T).T

    def __getitem__(self, index: Any) -> Any:
        """A part of the array: sparse for integers, slices, None and an ellipsis, an array for other indices.

        Raises IndexError for an integer outside of a sparse dimension.
        """
        given = index if isinstance(index, tuple) else (index,)
        if not all(i is None or i is ... or isinstance(i, int | slice) for i in given):
            return self.todense()[index]
        left, right = (given[: given.index(...)], given[given.index(...) + 1 :]) if ... in given else (given, ())
        rest = self.ndim - sum(i is not None for i in (*left, *right))
        if rest < 0 or ... in right:
            return self.todense()[index]  # which tells what is wrong
        whole = (*left, *(slice(None),) * rest, *right)
        columns: list[Any] = []
        shape: list[int] = []
        inside: Any = qnp.ones(self.nse, bool)
        for at, i in enumerate(whole):
            d = sum(j is not None for j in whole[:at])
            if d == self.n_sparse:  # the others are of the elements themselves
                break
            if i is None:
                columns.append(qnp.zeros(self.nse, self.indices.dtype))
                shape.append(1)
                continue
            places = self.indices[:, d]
            if isinstance(i, int):
                if not -self.shape[d] <= i < self.shape[d]:
                    raise IndexError(
                        f"quire.experimental.sparse.BCOO: index {i} is outside of dimension {d} of an array of shape {self.shape}"
                    )
                inside &= places == i % self.shape[d]
                continue
            start, _, step = i.indices(self.shape[d])
            n = len(range(*i.indices(self.shape[d])))
            moved = (places - start) * (1 if step > 0 else -1)
            found = (moved >= 0) & (moved % abs(step) == 0) & (moved < n * abs(step)) & (places < self.shape[d])
            inside &= found
            columns.append(qnp.where(found, moved // abs(step), n))
            shape.append(n)
        else:
            at = len(whole)
        data = self.data[(slice(None), *whole[at:])]
        data = qnp.where(inside.reshape(-1, *(1,) * (data.ndim - 1)), data, 0)
        indices = qnp.stack(columns, 1) if columns else qnp.zeros((self.nse, 0), self.indices.dtype)
        return BCOO((data, indices), shape=(*shape, *data.shape[1:]))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data and indices are the children."""
        return (self.data, self.indices), (self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, metadata: Any, children: Any) -> BCOO:
        """The array that was flattened; its children may be anything."""
        self = object.__new__(cls)
        self.data, self.indices = children
        self.shape, self.indices_sorted, self.unique_indices = metadata
        return self


tree_util.register_pytree_node_class(BCOO)


def _dense(x: Any) -> Any:
    return x.todense() if isinstance(x, BCOO) else qnp.asarray(x)


def todense(arr: Any) -> Any:
    """A sparse array as an array; others as they are."""
    return _dense(arr) if isinstance(arr, BCOO) else arr


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of arrays as one that takes sparse arrays, too: it is given whole ones, and its results are whole.

    JAX's computes on the stored elements where it can; the numbers are the same.
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        is_sparse = lambda x: isinstance(x, BCOO)  # noqa: E731
        args, kwargs = tree_util.tree_map(todense, (args, kwargs), is_leaf=is_sparse)
        return f(*args, **kwargs)

    return wrapped


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """`BCOO.fromdense`."""
    return BCOO.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcoo_todense(mat: BCOO) -> Any:
    """`BCOO.todense`."""
    return mat.todense()


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = np.int32, sparse_format: str = "bcoo", nse: int = 0
) -> BCOO:
    """A sparse array of zeros, with place for `nse` elements. Raises NotImplementedError for another format than bcoo."""
    if sparse_format != "bcoo":
        raise NotImplementedError(f"quire.experimental.sparse.empty: sparse_format {sparse_format!r}, expected 'bcoo'")
    return BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, nse=nse)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = np.int32,
    sparse_format: str = "bcoo",
) -> BCOO:
    """Ones along a diagonal. Raises NotImplementedError for another format than bcoo."""
    if sparse_format != "bcoo":
        raise NotImplementedError(f"quire.experimental.sparse.eye: sparse_format {sparse_format!r}, expected 'bcoo'")
    columns = N if M is None else M
    count = max(0, min(N + min(k, 0), columns - max(k, 0)))
    rows = np.arange(count) + max(-k, 0)
    indices = np.stack([rows, rows + k], axis=-1).astype(index_dtype)
    return BCOO((qnp.ones(count, dtype), indices), shape=(N, columns), indices_sorted=True, unique_indices=True)


__all__ = ["BCOO", "JAXSparse", "bcoo_fromdense", "bcoo_todense", "empty", "eye", "sparsify", "todense"]

__getattr__ = module_getattr("quire.experimental.sparse", globals())

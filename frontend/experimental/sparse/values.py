"""The values of a sparsified program: arrays, sparse ones among them, as buffers and references to these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of

from ... import tree_util
from .base import JAXSparse
from .bcoo_array import BCOO
from .bcsr_array import BCSR

Value = Any


@dataclass(frozen=True)
class SparsifyValue:
    """One value: which buffers it is made of. Arrays have no indices; values with the same `indices_ref` share their places.

    Attributes:
        shape: the whole array's.
        data_ref, indices_ref, indptr_ref: the numbers of the buffers in a `SparsifyEnv`; None where there is none.
        indices_sorted, unique_indices: what is known of the indices.
    """

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool = field(default=False, kw_only=True)
    unique_indices: bool = field(default=False, kw_only=True)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def is_sparse(self) -> bool:
        """Whether the array is sparse."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Whether it is an ordinary array."""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """Whether it is a BCOO."""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """Whether it is a BCSR."""
        return self.indptr_ref is not None


class SparsifyEnv:
    """The buffers of a sparsified program."""

    def __init__(self, bufs: Sequence[Value] = ()) -> None:
        self._buffers: list[Value] = list(bufs)

    def _push(self, x: Value) -> int:
        self._buffers.append(x)
        return len(self._buffers) - 1

    def _get(self, ref: int | None) -> Value:
        assert ref is not None
        return self._buffers[ref]

    def data(self, v: SparsifyValue) -> Value:
        """The data of a value, or the array that it is."""
        return self._get(v.data_ref)

    def indices(self, v: SparsifyValue) -> Value:
        """The indices of a sparse value."""
        return self._get(v.indices_ref)

    def indptr(self, v: SparsifyValue) -> Value:
        """The row pointers of a value in BCSR."""
        return self._get(v.indptr_ref)

    def dense(self, data: Value = None, *, data_ref: int | None = None) -> SparsifyValue:
        """An ordinary array as a value."""
        ref = self._push(data) if data_ref is None else data_ref
        return SparsifyValue(tuple(np.shape(self._buffers[ref])), ref)

    def sparse(
        self, shape: Sequence[int], data: Value = None, indices: Value = None, indptr: Value = None, *,
        data_ref: int | None = None, indices_ref: int | None = None, indptr_ref: int | None = None,
        indices_sorted: bool = False, unique_indices: bool = False,
    ) -> SparsifyValue:  # fmt: skip
        """A sparse array as a value, of buffers or of references to them."""
        data_ref = self._push(data) if data_ref is None else data_ref
        indices_ref = self._push(indices) if indices_ref is None else indices_ref
        indptr_ref = self._push(indptr) if indptr is not None else indptr_ref
        return SparsifyValue(
            tuple(shape),
            data_ref,
            indices_ref,
            indptr_ref,
            indices_sorted=indices_sorted,
            unique_indices=unique_indices,
        )

    def array(self, v: SparsifyValue) -> Any:
        """The array that a value is: a BCOO, a BCSR or an ordinary one."""
        flags = {"shape": v.shape, "indices_sorted": v.indices_sorted, "unique_indices": v.unique_indices}
        if v.is_bcsr():
            return BCSR((self.data(v), self.indices(v), self.indptr(v)), **flags)
        return BCOO((self.data(v), self.indices(v)), **flags) if v.is_sparse() else self.data(v)

    def value(self, x: Any) -> SparsifyValue:
        """An array, sparse or not, as a value. Raises NotImplementedError for the forms without batches."""
        if isinstance(x, BCOO | BCSR):
            pointers = x.indptr if isinstance(x, BCSR) else None
            return self.sparse(
                x.shape, x.data, x.indices, pointers, indices_sorted=x.indices_sorted, unique_indices=x.unique_indices
            )
        if isinstance(x, JAXSparse):
            raise NotImplementedError(f"sparsify: arrays of type {type(x).__name__}; expected BCOO or BCSR")
        return self.dense(x)

    def with_data(self, v: SparsifyValue, data: Value) -> SparsifyValue:
        """A sparse value with other data in the same places."""
        return replace(v, data_ref=self._push(data))

    def aval(self, v: SparsifyValue) -> ShapedArray:
        """The type of the whole array."""
        aval = aval_of(self.data(v))
        return aval if v.is_dense() else ShapedArray(v.shape, aval.dtype)


def is_sparse(x: Any) -> bool:
    """Whether x is a sparse array: where trees of arrays end."""
    return isinstance(x, JAXSparse)


def is_value(x: Any) -> bool:
    """Whether x is a value of a sparsified program."""
    return isinstance(x, SparsifyValue)


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """A tree of arrays as one of values, whose buffers are added. Raises NotImplementedError for forms without batches."""
    return tree_util.tree_map(spenv.value, args, is_leaf=is_sparse)


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """A tree of values as one of arrays."""
    return tree_util.tree_map(spenv.array, spvalues, is_leaf=is_value)


__all__ = ["SparsifyEnv", "SparsifyValue", "arrays_to_spvalues", "spvalues_to_arrays"]

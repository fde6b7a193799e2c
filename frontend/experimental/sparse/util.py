"""What the forms of sparse arrays share: their metadata, warnings, and the number of elements that an array needs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from quire.ir.errors import ConcretizationTypeError

from ... import numpy as qnp

Value = Any


class SparseInfo(NamedTuple):
    """A sparse array's metadata: its shape, and what is known of its indices."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class SparseEfficiencyError(ValueError):
    """A layout that was asked for stores far more than the array has."""


class SparseEfficiencyWarning(UserWarning):
    """A layout that was asked for stores far more than the array has."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Exists for code that filters it: quire's programs call no library of sparse matrices."""


def stored(mat: Value, n_batch: int, n_dense: int) -> Value:
    """Which of an array's elements (blocks, with dense dimensions) are stored: of shape (*batch, *sparse)."""
    mat = qnp.asarray(mat)
    mask = mat != 0
    return mask if not n_dense else qnp.any(mask, axis=tuple(range(mat.ndim - n_dense, mat.ndim)))


def _count_stored_elements_per_batch(mat: Value, n_batch: int = 0, n_dense: int = 0) -> Value:
    """How many elements each batch entry needs, of shape (*batch,)."""
    mask = stored(mat, n_batch, n_dense)
    return mask.sum(tuple(range(n_batch, mask.ndim)), dtype=qnp.int32)


def _count_stored_elements(mat: Value, n_batch: int = 0, n_dense: int = 0) -> Value:
    """How many elements are stored for each batch entry: as many as the fullest needs."""
    return _count_stored_elements_per_batch(mat, n_batch, n_dense).max(initial=0)


def known_count(count: Value, message: str, error: type[Exception] | None = None) -> int:
    """A number of elements as a Python integer; what raises where it is traced says `message`.

    Raises:
        ConcretizationTypeError: the number is traced, or `error` where that is given.
    """
    try:
        return int(count)
    except ConcretizationTypeError as found:
        if error is not None:
            raise error(message) from None
        raise ConcretizationTypeError(f"{message}: {found}") from None


def check_counts(name: str, ndim: int, n_batch: int, n_dense: int) -> int:
    """The number of sparse dimensions that are left. Raises ValueError where there are too many others, or fewer than 0."""
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > ndim:
        raise ValueError(f"{name}: n_batch={n_batch} and n_dense={n_dense} of an array of {ndim} dimensions")
    return ndim - n_batch - n_dense


def positions(sizes: tuple[int, ...], rank: int) -> list[Value]:
    """The coordinates along the first dimensions of an array of `rank` dimensions, shaped so that they broadcast."""
    return [
        qnp.arange(n, dtype=qnp.int32).reshape((1,) * i + (n,) + (1,) * (rank - i - 1)) for i, n in enumerate(sizes)
    ]


def along(x: Value, order: Value, n_batch: int) -> Value:
    """The elements of x along dimension n_batch at the positions `order`, of shape (*batch, n); batches of size 1 are repeated."""
    return x[(*positions(tuple(x.shape[:n_batch]), n_batch + 1), order)]


def size_of(shape: tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)


def rows_of(indptr: Value, nse: int, dtype: Any) -> Value:
    """The row of each element, of pointers (*batch, n + 1): (*batch, nse); n for those after the last row."""
    batch = tuple(indptr.shape[:-1])
    ends = indptr[..., 1:]
    within = positions(batch, len(batch) + 1)
    ended = qnp.zeros((*batch, nse), dtype).at[(*within, ends)].add(1, mode="drop")
    return qnp.cumsum(ended, axis=-1, dtype=dtype)


def _csr_to_coo(indices: Value, indptr: Value) -> tuple[Value, Value]:
    """The rows and columns of a matrix in CSR."""
    indices, indptr = qnp.asarray(indices), qnp.asarray(indptr)
    return rows_of(indptr, indices.shape[-1], indices.dtype), indices

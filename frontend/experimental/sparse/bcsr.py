"""BCSR arrays and their functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import numpy as qnp
from .bcoo_array import BCOO
from .bcsr_array import (
    BCSR,
    BCSRProperties,
    _bcoo_to_bcsr,
    _bcsr_fromdense,
    _bcsr_to_bcoo,
    bcsr_fromdense,
    bcsr_todense,
)
from .layout import _bcoo_extract
from .order import bcoo_eliminate_zeros, bcoo_sum_duplicates
from .products import bcoo_dot_general
from .shapes import bcoo_broadcast_in_dim, bcoo_concatenate

Value = Any


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Value:
    """An array's elements at the places of columns and pointers: data (*batch, nse, *dense). Raises ValueError for other ranks."""
    indices, indptr, mat = qnp.asarray(indices), qnp.asarray(indptr), qnp.asarray(mat)
    return _bcoo_extract(_bcsr_to_bcoo(indices, indptr, shape=mat.shape), mat)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array with each place listed once, in order. Raises ValueError where it is traced and `nse` is not given."""
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse=nse))


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """`bcsr_sum_duplicates` without the stored zeros. Raises ValueError where the array is traced and `nse` is not given."""
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse=nse))


def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Value:  # fmt: skip
    """A product as `lax.dot_general` of a BCSR and an array.

    Args:
        lhs: a BCSR, or an array.
        rhs: an array.
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``.
        precision: accepted; products are computed in the operands' dtype.
        preferred_element_type: the result's dtype.
        out_sharding: None.

    Raises:
        TypeError: the sizes do not fit.
        NotImplementedError: the right operand is sparse, a dense dimension is contracted, or a sparse one is a batch.
    """
    if isinstance(rhs, BCSR | BCOO):
        raise NotImplementedError("bcsr_dot_general not implemented for sparse right operands.")
    a = lhs.to_bcoo() if isinstance(lhs, BCSR) else lhs
    return bcoo_dot_general(
        a, rhs, dimension_numbers=dimension_numbers, precision=precision, preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )  # fmt: skip


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array with more batch or dense dimensions; see `bcoo_broadcast_in_dim`.

    Raises:
        ValueError: the dimensions do not fit.
        NotImplementedError: a dimension would be sparse, or `sharding` is given.
    """
    out = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
    )
    if out.n_sparse != 2:
        raise NotImplementedError("bcsr_broadcast_in_dim: adding sparse dimensions.")
    indices, indptr = _bcoo_to_bcsr(out.indices, shape=out.shape, index_dtype=out.indices.dtype)
    return BCSR((out.data, indices, indptr), shape=out.shape)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays behind one another along a batch or a sparse dimension; see `bcoo_concatenate`, which says what it raises.

    Raises:
        TypeError: the sizes, or the dimension, do not fit.
    """
    return BCSR.from_bcoo(bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))


__all__ = [
    "BCSR", "BCSRProperties", "_bcoo_to_bcsr", "_bcsr_fromdense", "_bcsr_to_bcoo", "bcsr_broadcast_in_dim", "bcsr_concatenate",
    "bcsr_dot_general", "bcsr_eliminate_zeros", "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense",
]  # fmt: skip

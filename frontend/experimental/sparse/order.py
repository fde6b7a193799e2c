"""The order of a BCOO's elements: sorting, the sum of those that share a place, and those at the places of another array."""

from __future__ import annotations

from typing import Any

from ... import numpy as qnp
from .base import METHODS
from .bcoo_array import BCOO
from .layout import _bcoo_extract, merge_parts, sort_parts

Value = Any


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same array, the elements of each batch entry in the order of their places; those of one place keep theirs."""
    data, indices = sort_parts(mat.data, mat.indices)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array with each place listed once, in order; stored zeros stay, indices outside of the array do not.

    Args:
        mat: the array.
        nse: how many elements are stored; as many as are needed by default, which a traced array does not know.

    Raises:
        ValueError: the array is traced and `nse` is not given.
    """
    data, indices = merge_parts(mat.data, mat.indices, mat.shape, nse=nse, name="bcoo_sum_duplicates")
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """`bcoo_sum_duplicates` without the stored zeros. Raises ValueError where the array is traced and `nse` is not given."""
    data, indices = merge_parts(
        mat.data, mat.indices, mat.shape, nse=nse, remove_zeros=True, name="bcoo_sum_duplicates"
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """An array's elements at the places of a sparse array: of its layout, zeros for indices outside.

    Args:
        sparr: the places.
        arr: an array of the same shape.
        assume_unique: whether no place is listed twice; if not, the first one has the element. By default what the array knows.

    Raises:
        TypeError: `sparr` is no BCOO.
        ValueError: the shapes differ.
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"First argument to bcoo_extract should be a BCOO array. Got type(sparr)={type(sparr)}")
    a = qnp.asarray(arr)
    if tuple(a.shape) != sparr.shape:
        raise ValueError(f"shape mismatch: sparr.shape={sparr.shape} a.shape={tuple(a.shape)}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    data = _bcoo_extract(sparr.indices, a, assume_unique=unique)
    return BCOO(
        (data, sparr.indices),
        shape=sparr.shape,
        indices_sorted=sparr.indices_sorted,
        unique_indices=sparr.unique_indices,
    )


METHODS.update(sort_indices=bcoo_sort_indices, eliminate_zeros=bcoo_eliminate_zeros, sum_duplicates=bcoo_sum_duplicates)

__all__ = ["bcoo_eliminate_zeros", "bcoo_extract", "bcoo_sort_indices", "bcoo_sum_duplicates"]

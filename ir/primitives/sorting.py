"""Sorting and selection of the largest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..primitive import primitive
from .common import ORDERED, canonical_axes, check_axes, check_dtype

Value = Any


@primitive("sort", multiple_results=True)
def sort_p(*operands: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> tuple[ShapedArray, ...]:
    """Sort arrays of one shape along `dimension` by the first `num_keys` of them, lexicographically.

    -0 and 0 are equal, NaNs are equal and come last, complex numbers compare lexicographically (real part first).
    Equal elements keep their order when `is_stable`; quire keeps it always.

    Raises:
        TypeError: there is no operand, or the shapes differ.
        ValueError: the operands do not have that dimension, or `num_keys` is not within [1, the number of operands].
    """
    if not operands:
        raise TypeError("sort: expected at least one operand")
    first = operands[0]
    for x in operands[1:]:
        if x.shape != first.shape:
            raise TypeError("sort: the operands must have one shape, got " + ", ".join(a.short() for a in operands))
    check_axes("sort", first.ndim, (dimension,))
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort: num_keys must be within [1, {len(operands)}], the number of operands, got {num_keys}")
    return operands


@primitive("top_k", multiple_results=True)
def top_k_p(x: ShapedArray, *, k: int, axis: int) -> tuple[ShapedArray, ShapedArray]:
    """The k largest elements along `axis` in descending order, and their int32 indices.

    The order is total: NaN, inf, ..., 0, -0, ..., -inf, -NaN. Equal elements come in the order of their indices.

    Raises:
        ValueError: x does not have that axis, or k is not within [0, its size].
        TypeError: x is complex.
    """
    check_dtype("top_k", x, ORDERED)
    check_axes("top_k", x.ndim, (axis,))
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(
            f"top_k: k must be within [0, {x.shape[axis]}], the size of dimension {axis} of {x.short()}, got {k}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return x.update(shape=shape), ShapedArray(shape, dtypes.int32)


# -- thin functions ---------------------------------------------------------------------------------------------


def sort(operands: Sequence[Value], dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> list[Value]:
    """Sort arrays together by the first `num_keys` of them; see `sort_p`."""
    (d,) = canonical_axes("sort", (dimension,), aval_of(operands[0]).ndim if operands else 0)
    return sort_p.bind(*operands, dimension=d, is_stable=bool(is_stable), num_keys=int(num_keys))


def argsort(x: Value, axis: int = -1) -> Value:
    """The int32 indices that sort x along `axis`, equal elements in order."""
    from .structural import broadcasted_iota

    shape = aval_of(x).shape
    (d,) = canonical_axes("argsort", (axis,), len(shape))
    return sort([x, broadcasted_iota(dtypes.int32, shape, d)], d)[1]


def top_k(x: Value, k: int, axis: int = -1) -> tuple[Value, Value]:
    """The k largest elements along `axis`, descending, and their indices."""
    (d,) = canonical_axes("top_k", (axis,), aval_of(x).ndim)
    values, indices = top_k_p.bind(x, k=int(k), axis=d)
    return values, indices

"""Sorting of `quire.lax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import sorting

Value = Any


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort an array along a dimension, or a tuple of arrays together by the first `num_keys` of them.

    NaN comes last, -0 and 0 are equal, complex numbers are ordered by real, then imaginary part.

    Raises TypeError for an empty tuple, ValueError unless num_keys is between 1 and the number of arrays.

    >>> import quire.numpy as qnp
    >>> [x.tolist() for x in quire.lax.sort((qnp.array([2, 1, 2]), qnp.array([0, 1, 2])))]
    [[1, 2, 2], [1, 0, 2]]
    """
    if isinstance(operand, Sequence):
        if not operand:
            raise TypeError("sort: requires at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(f"sort: num_keys {num_keys} must be between 1 and the number of operands {len(operand)}")
        return tuple(sorting.sort(operand, dimension, is_stable, num_keys))
    return sorting.sort([operand], dimension, is_stable, 1)[0]


def sort_key_val(keys: Value, values: Value, dimension: int = -1, is_stable: bool = True) -> tuple[Value, Value]:
    """Sort `keys` along a dimension and reorder `values` alike."""
    k, v = sorting.sort([keys, values], dimension, is_stable, 1)
    return k, v


def top_k(operand: Value, k: int, *, axis: int = -1) -> list[Value]:
    """A list: the k largest elements along an axis, descending, and their int32 indices; NaN counts as largest.

    Raises ValueError where k is negative or above the size, or the size is more than an int32 counts.
    """
    n = aval_of(operand).shape[axis] if aval_of(operand).ndim else 0
    if not 0 <= k <= n:
        raise ValueError(f"top_k: k={k} must be between 0 and the size {n} of the axis of {aval_of(operand).short()}")
    if n > 2**31:
        raise ValueError(
            f"top_k: its indices are int32, which cannot count the {n} elements of {aval_of(operand).short()}"
        )
    return [*sorting.top_k(operand, k, axis)]


def _approx(name: str, operand: Value, k: int, dimension: int, sign: int) -> list[Value]:
    aval = aval_of(operand)
    if not dtypes.is_float(aval.dtype):
        raise TypeError(f"{name}: operand must be an array of floats, got {aval.short()}")
    values, indices = top_k(operand if sign > 0 else ew.neg(operand), k, axis=dimension)
    return [values if sign > 0 else ew.neg(values), indices]


def approx_max_k(
    operand: Value, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> list[Value]:  # fmt: skip
    """The k largest elements along a dimension and their indices; exact, as `top_k` (`jax.lax.approx_max_k`).

    `recall_target` and what follows it trade exactness for speed in JAX, and change nothing here.

    Raises TypeError for other dtypes than floats, ValueError where k is above the size.

    >>> import quire.numpy as qnp
    >>> [x.tolist() for x in quire.lax.approx_max_k(qnp.array([1., 3., 2.]), 2)]
    [[3.0, 2.0], [1, 2]]
    """
    return _approx("approx_max_k", operand, k, reduction_dimension, 1)


def approx_min_k(
    operand: Value, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> list[Value]:  # fmt: skip
    """The k smallest elements along a dimension, ascending, and their indices; exact (`jax.lax.approx_min_k`).

    >>> import quire.numpy as qnp
    >>> [x.tolist() for x in quire.lax.approx_min_k(qnp.array([1., 3., 2.]), 2)]
    [[1.0, 2.0], [0, 2]]
    """
    return _approx("approx_min_k", operand, k, reduction_dimension, -1)


__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]

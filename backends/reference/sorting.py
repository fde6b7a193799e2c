"""Reference rules of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import sorting as so

from .reductions import widened
from .rules import reference

Array = np.ndarray[Any, Any]


def _keys(x: Array) -> list[Array]:
    """Arrays whose lexicographic order is that of x: complex by real, then imaginary part; NaN last, -0 equal to 0."""
    if dtypes.is_complex(x.dtype):
        return [x.real, x.imag]
    return [x.astype(np.uint8) if dtypes.is_bool(x.dtype) else widened(x)]


@reference(so.sort_p)
def sort(*operands: Array, dimension: int, is_stable: bool, num_keys: int) -> list[Array]:
    keys = [k for x in operands[:num_keys] for k in _keys(x)]
    order = np.lexsort(keys[::-1], axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in operands]


def total_order(x: Array) -> Array:
    """Integers ordered as the elements in IEEE's total order: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if dtypes.is_bool(x.dtype):
        return x.astype(np.uint8)
    if not dtypes.is_float(x.dtype):
        return x
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(signed)
    return np.where(bits < 0, bits ^ np.asarray(np.iinfo(signed).max, signed), bits)


@reference(so.top_k_p)
def top_k(x: Array, *, k: int, axis: int) -> list[Array]:
    order = np.argsort(~total_order(x), axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return [np.take_along_axis(x, order, axis), order]

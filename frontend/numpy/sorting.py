"""Sorting and searching in sorted arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind
from quire.runtime.array import Array, host_value

from ..arrays.operands import (
    Value,
    as_axis,
    as_int,
    broadcast_to,
    cast,
    concrete_array,
    eager_here,
    ensure,
    promote_dtypes,
    user_dtype,
)
from ._ops import add_, select, sub_
from .creation import filled
from .elementwise import less, less_equal
from .ranges import iota
from .reductions import sum as sum_
from .shapes import ravel


def _axis(name: str, x: Value, axis: int | None) -> tuple[Value, int]:
    if axis is None:
        return ravel(x), 0
    return x, as_axis(name, axis, x.aval.ndim)


def _no_kind(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(f"quire.numpy.{name}: the argument kind is not supported, give stable=True or False")
    if order is not None:
        raise TypeError(f"quire.numpy.{name}: the argument order is not supported: there are no structured arrays")


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Value:
    """The elements in ascending order along an axis; NaN comes last.

    Args:
        a: an array; complex numbers are ordered by real, then imaginary part.
        axis: the axis; None for the flattened array.
        stable: whether equal elements keep their order (they always do).
        descending: the opposite order.

    Follows `numpy.sort`.

    >>> quire.numpy.sort(quire.numpy.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _no_kind("sort", kind, order)
    x, d = _axis("sort", ensure("sort", a), axis)
    out = so.sort([x], d, stable, 1)[0]
    return st.rev(out, (d,)) if descending else out


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Value:
    """The indices that sort an array along an axis; arguments as `sort`. Follows `numpy.argsort`.

    >>> quire.numpy.argsort(quire.numpy.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    _no_kind("argsort", kind, order)
    x, d = _axis("argsort", ensure("argsort", a), axis)
    index = dtypes.canonicalize(dtypes.int64) if dtype is None else user_dtype("argsort", dtype)
    positions = iota(x.aval.shape, d, index)
    if not descending:
        return so.sort([x, positions], d, stable, 1)[1]
    # Reversed twice, so that equal elements keep their order.
    out = so.sort([st.rev(x, (d,)), st.rev(positions, (d,))], d, stable, 1)[1]
    return st.rev(out, (d,))


def sort_complex(a: Any) -> Value:
    """The elements along the last axis, as complex numbers in ascending order. Follows `numpy.sort_complex`.

    >>> quire.numpy.sort_complex(quire.numpy.array([2., 1.]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x = sort(a)
    return cast(x, dtypes.complex_dtype(x.aval.dtype))


def lexsort(keys: Any, axis: int = -1) -> Value:
    """The indices that sort by several keys, the last one first. Follows `numpy.lexsort`.

    Raises TypeError where there are no keys, ValueError for keys of different shapes.

    >>> quire.numpy.lexsort((quire.numpy.array([2, 1, 1]), quire.numpy.array([0, 1, 0])))
    Array([2, 0, 1], dtype=int32)
    """
    arrays = [ensure("lexsort", k, i) for i, k in enumerate(keys)]
    if not arrays:
        raise TypeError("quire.numpy.lexsort: need at least one key")
    if len({k.aval.shape for k in arrays}) > 1:
        raise ValueError(
            f"quire.numpy.lexsort: all keys need to be the same shape, got {', '.join(k.aval.short() for k in arrays)}"
        )
    index = dtypes.canonicalize(dtypes.int64)
    if arrays[0].aval.ndim == 0:
        return filled((), 0, index)
    d = as_axis("lexsort", axis, arrays[0].aval.ndim)
    positions = iota(arrays[0].aval.shape, d, index)
    return so.sort([*arrays[::-1], positions], d, True, len(arrays))[-1]


def partition(a: Any, kth: int, axis: int = -1) -> Value:
    """The array sorted so that the element at `kth` is in its place, with none larger before it.

    (All elements are sorted.) Follows `numpy.partition`.

    >>> quire.numpy.partition(quire.numpy.array([3, 1, 2]), 1)[1].item()
    2
    """
    x = ensure("partition", a)
    _check_kth("partition", x, kth, axis)
    return sort(x, axis=axis)


def argpartition(a: Any, kth: int, axis: int = -1) -> Value:
    """The int32 indices of `partition`. Follows `numpy.argpartition`.

    >>> quire.numpy.argpartition(quire.numpy.array([3, 1, 2]), 1)[1].item()
    2
    """
    x = ensure("argpartition", a)
    _check_kth("argpartition", x, kth, axis)
    return cast(argsort(x, axis=axis), dtypes.int32)


def _check_kth(name: str, x: Value, kth: int, axis: int) -> None:
    k = as_int(name, kth, "kth")
    if dtypes.is_complex(x.aval.dtype):
        raise NotImplementedError(f"quire.numpy.{name}: complex dtypes are not supported")
    n = x.aval.shape[as_axis(name, axis, x.aval.ndim)]
    if not -n <= k < n:
        raise ValueError(f"quire.numpy.{name}: kth {k} is out of bounds for axis of size {n}")


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Value:
    """Where values would be inserted into a sorted vector to keep it sorted.

    Args:
        a: a sorted vector. v: the values, of any shape.
        side: "left": before equal elements, "right": after them.
        sorter: indices that sort `a`, if it is not sorted.
        method: accepted for compatibility: few comparisons are made at once, many by bisection.

    Returns:
        An array of indices of the shape of `v`.

    Raises:
        ValueError: a is not 1-dimensional, side is neither "left" nor "right", or there is no such method.

    Follows `numpy.searchsorted`.

    >>> quire.numpy.searchsorted(quire.numpy.array([1, 3, 5]), quire.numpy.array([2, 3]))
    Array([1, 1], dtype=int32)
    """
    x, values = ensure("searchsorted", a), ensure("searchsorted", v, "v")
    if side not in ("left", "right"):
        raise ValueError(f"quire.numpy.searchsorted: side must be 'left' or 'right', got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"quire.numpy.searchsorted: method must be 'scan', 'scan_unrolled', 'sort' or 'compare_all', got {method!r}"
        )
    if x.aval.ndim != 1:
        raise ValueError(f"quire.numpy.searchsorted: a must be 1-dimensional, got {x.aval.short()}")
    if sorter is not None:
        x = x[sorter]
    x, values = promote_dtypes(x, values)
    index = dtypes.int32 if x.aval.shape[0] < 2**31 else dtypes.int64
    n = x.aval.shape[0]
    if isinstance(x, Array) and isinstance(values, Array) and eager_here() and x.aval.dtype.kind in "biufc":
        return concrete_array(np.searchsorted(host_value(x), host_value(values), side), index)
    if n == 0:
        return filled(values.aval.shape, 0, index)
    if method == "compare_all" or n * values.aval.size <= 4096:
        return cast(_count_smaller(x, values, side), index)
    return cast(_bisect(x, values, side), index)


def _before(x: Value, v: Value, side: str) -> Value:
    """Whether elements of the sorted vector come before the values; NaN after everything else."""
    smaller = less(x, v) if side == "left" else less_equal(x, v)
    if not dtypes.is_float(x.aval.dtype):
        return smaller
    v_nan = bind(ew.ne_p, (v, v), {})
    x_nan = bind(ew.ne_p, (x, x), {})
    after = bind(ew.not_p, (x_nan,), {}) if side == "left" else filled(x_nan.aval.shape, True, dtypes.bool_)
    return bind(ew.or_p, (smaller, bind(ew.and_p, (v_nan, after), {})), {})


def _count_smaller(x: Value, values: Value, side: str) -> Value:
    shape = (*values.aval.shape, x.aval.shape[0])
    wide = st.broadcast_in_dim(values, shape, tuple(range(values.aval.ndim)))
    before = _before(broadcast_to(x, shape), wide, side)
    return sum_(before, axis=-1, dtype=np.int32)


def _bisect(x: Value, values: Value, side: str) -> Value:
    n = x.aval.shape[0]
    low = filled(values.aval.shape, 0, dtypes.int32)
    high = filled(values.aval.shape, n, dtypes.int32)
    for _ in range(math.ceil(math.log2(n + 1))):
        middle = add_(low, ew.shift_right_logical_p.bind(sub_(high, low), np.int32(1)))
        element = x.at[middle].get(mode="clip")
        go_right = bind(ew.and_p, (_before(element, values, side), bind(ew.lt_p, (low, high), {})), {})
        low, high = select(go_right, add_(middle, 1), low), select(go_right, high, middle)
    return low


__all__ = [
    "argpartition", "argsort", "lexsort", "partition", "searchsorted", "sort", "sort_complex",
]  # fmt: skip

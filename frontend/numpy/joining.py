"""Arrays joined and cut: concatenate, stack, block, split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer
from quire.runtime.array import Array

from ..arrays import operands as u
from ..arrays.operands import Value, as_axis, as_int, cast, ensure
from .shapes import atleast_1d, atleast_2d, atleast_3d, ravel


def _shape(x: Value) -> tuple[int, ...]:
    return x.aval.shape


# -- joining ------------------------------------------------------------------------------------------------------------


def _sequence(name: str, arrays: Any) -> list[Value]:
    if isinstance(arrays, Array | Tracer):
        if arrays.ndim == 0:
            raise ValueError(f"quire.numpy.{name}: zero-dimensional arrays cannot be joined, got {arrays.aval.short()}")
        items: list[Any] = u.members(arrays)
    else:
        try:
            items = list(arrays)
        except TypeError:
            raise TypeError(f"quire.numpy.{name}: expected a sequence of arrays, got {type(arrays).__name__}") from None
    if not items:
        raise ValueError(f"quire.numpy.{name}: need at least one array")
    return [ensure(name, a, i) for i, a in enumerate(items)]


def _joined(xs: list[Value], dtype: Any, name: str) -> list[Value]:
    if dtype is not None:
        d = u.user_dtype(name, dtype)
        return [cast(x, d) for x in xs]
    return u.promote_dtypes(*xs) if len(xs) > 1 else xs


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Value:
    """Arrays joined along an existing axis.

    Args:
        arrays: a sequence of arrays whose other dimensions are equal, or an array (its rows).
        axis: the axis; None joins the flattened arrays.
        dtype: the result's dtype; by default the promoted one.

    Raises:
        TypeError, ValueError: no arrays, scalars, or shapes that do not fit.

    Follows `numpy.concatenate`.

    >>> quire.numpy.concatenate([quire.numpy.array([1]), quire.numpy.array([2, 3])])
    Array([1, 2, 3], dtype=int32)
    """
    xs = _sequence("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    n = xs[0].ndim
    if n == 0:
        raise ValueError("quire.numpy.concatenate: zero-dimensional arrays cannot be concatenated: use stack")
    d = as_axis("concatenate", axis, n)
    first = _shape(xs[0])
    for x in xs[1:]:
        s = _shape(x)
        if len(s) != n or any(a != b for i, (a, b) in enumerate(zip(s, first)) if i != d):
            given = ", ".join(v.aval.short() for v in xs)
            raise TypeError(f"quire.numpy.concatenate: shapes must be equal but along axis {d}, got {given}")
    return st.concatenate(_joined(xs, dtype, "concatenate"), d)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Value:
    """`concatenate` under the array API's name.

    >>> quire.numpy.concat([quire.numpy.array([1]), quire.numpy.array([2])])
    Array([1, 2], dtype=int32)
    """
    return concatenate(arrays, axis=axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Value:
    """Arrays of one shape joined along a new axis.

    Args:
        arrays: a sequence of arrays of one shape, or an array (its rows).
        axis: where the new dimension goes.
        dtype: the result's dtype; by default the promoted one.

    Raises:
        ValueError: the arrays' shapes differ, or the result has no such axis.

    Follows `numpy.stack`.

    >>> quire.numpy.stack([quire.numpy.array([1]), quire.numpy.array([2])])
    Array([[1],
           [2]], dtype=int32)
    """
    u.no_out("stack", out)
    if isinstance(arrays, Array | Tracer | np.ndarray) and not np.ndim(arrays) == 0 and dtype is None and axis == 0:
        return ensure("stack", arrays)
    xs = _sequence("stack", arrays) if not isinstance(arrays, Array | Tracer) else u.members(arrays)
    if len({_shape(x) for x in xs}) > 1:
        raise ValueError(
            f"quire.numpy.stack: all arrays must have the same shape, got {', '.join(x.aval.short() for x in xs)}"
        )
    d = as_axis("stack", axis, xs[0].ndim + 1)
    return st.concatenate([st.expand_dims(x, (d,)) for x in _joined(xs, dtype, "stack")], d)


def vstack(tup: Any, dtype: Any = None) -> Value:
    """Arrays joined as rows. Follows `numpy.vstack`.

    >>> quire.numpy.vstack([quire.numpy.arange(2), quire.numpy.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    xs = [atleast_2d(x) for x in _sequence("vstack", tup)]
    return concatenate(xs, axis=0, dtype=dtype)


def hstack(tup: Any, dtype: Any = None) -> Value:
    """Arrays joined along the second axis (the first, for vectors). Follows `numpy.hstack`.

    >>> quire.numpy.hstack([quire.numpy.arange(2), quire.numpy.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    xs = [atleast_1d(x) for x in _sequence("hstack", tup)]
    return concatenate(xs, axis=0 if xs[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Any, dtype: Any = None) -> Value:
    """Arrays joined along the third axis. Follows `numpy.dstack`.

    >>> quire.numpy.dstack([quire.numpy.arange(2), quire.numpy.arange(2)]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _sequence("dstack", tup)], axis=2, dtype=dtype)


def column_stack(tup: Any) -> Value:
    """Vectors joined as columns. Follows `numpy.column_stack`.

    >>> quire.numpy.column_stack([quire.numpy.arange(2), quire.numpy.arange(2)])
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    xs = _sequence("column_stack", tup)
    return concatenate([st.reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in xs], axis=1)


def append(arr: Any, values: Any, axis: int | None = None) -> Value:
    """Values joined to the end of an array. Follows `numpy.append`.

    >>> quire.numpy.append(quire.numpy.arange(2), 5)
    Array([0, 1, 5], dtype=int32)
    """
    x, v = ensure("append", arr, "arr"), ensure("append", values, "values")
    if axis is None:
        return concatenate([ravel(x), ravel(v)])
    return concatenate([x, v], axis=axis)


def block(arrays: Any) -> Value:
    """An array made of nested lists of blocks. Follows `numpy.block`.

    >>> quire.numpy.block([[quire.numpy.ones((1, 1)), quire.numpy.zeros((1, 2))]])
    Array([[1., 0., 0.]], dtype=float32)
    """
    out, depth = _block(arrays, 1, _depth(arrays))
    return out if depth else ensure("block", out)


def _depth(v: Any) -> int:
    return 1 + max(map(_depth, v), default=0) if isinstance(v, list) else 0


def _block(v: Any, level: int, depth: int) -> tuple[Value, int]:
    if isinstance(v, tuple):
        raise TypeError("quire.numpy.block: tuples are not accepted, nest lists")
    if isinstance(v, list):
        if not v:
            raise ValueError("quire.numpy.block: empty lists are not accepted")
        if any(isinstance(x, list) for x in v) and not all(isinstance(x, list) for x in v):
            raise ValueError("quire.numpy.block: lists must be nested to the same depth everywhere")
        parts = [_block(x, level + 1, depth)[0] for x in v]
        n = max(depth, *[p.ndim for p in parts])
        parts = [st.reshape(p, (1,) * (n - p.ndim) + _shape(p)) for p in parts]
        return concatenate(parts, axis=-(depth - level + 1)), depth
    x = ensure("block", v)
    return (st.reshape(x, (1,) * (depth - x.ndim) + _shape(x)) if x.ndim < depth else x), depth


# -- splitting ----------------------------------------------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """An array cut along an axis.

    Args:
        ary: an array.
        indices_or_sections: a number of equal parts, or the indices at which to cut.
        axis: the axis.

    Raises:
        ValueError: the axis cannot be divided into so many equal parts.

    Follows `numpy.split`.

    >>> quire.numpy.split(quire.numpy.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, equal=True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """`split` whose parts may differ in size by one. Follows `numpy.array_split`.

    >>> [p.size for p in quire.numpy.array_split(quire.numpy.arange(5), 3)]
    [2, 2, 1]
    """
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


def _split(name: str, ary: Any, sections: Any, axis: int, equal: bool) -> list[Value]:
    x = ensure(name, ary)
    d = as_axis(name, axis, x.ndim)
    n = _shape(x)[d]
    if isinstance(sections, Sequence) or (isinstance(sections, np.ndarray | Array) and sections.ndim):
        cuts = [_clipped(as_int(name, i, "each index"), n) for i in sections]
        bounds = [0, *cuts, n]
    else:
        k = as_int(name, sections, "indices_or_sections")
        if k <= 0:
            raise ValueError(f"quire.numpy.{name}: the number of sections must be positive, got {k}")
        if n % k and equal:
            raise ValueError(f"quire.numpy.{name}: dimension {d} of size {n} cannot be divided into {k} equal parts")
        sizes = [n // k + (i < n % k) for i in range(k)]
        bounds = [0]
        for size in sizes:
            bounds.append(bounds[-1] + size)
    if all(a <= b for a, b in zip(bounds, bounds[1:])):
        return st.split(x, [b - a for a, b in zip(bounds, bounds[1:])], d)
    return [st.slice_in_dim(x, a, max(a, b), axis=d) for a, b in zip(bounds, bounds[1:])]


def _clipped(i: int, n: int) -> int:
    return max(0, i + n) if i < 0 else min(i, n)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    """`split` along the second axis (the first, for vectors). Follows `numpy.hsplit`.

    >>> len(quire.numpy.hsplit(quire.numpy.zeros((2, 4)), 2))
    2
    """
    x = ensure("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, equal=True)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    """`split` along the first axis. Follows `numpy.vsplit`.

    >>> len(quire.numpy.vsplit(quire.numpy.zeros((2, 4)), 2))
    2
    """
    return _split("vsplit", ary, indices_or_sections, 0, equal=True)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Value]:
    """`split` along the third axis. Follows `numpy.dsplit`.

    >>> len(quire.numpy.dsplit(quire.numpy.zeros((2, 4, 2)), 2))
    2
    """
    return _split("dsplit", ary, indices_or_sections, 2, equal=True)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Value, ...]:
    """The subarrays along an axis. Follows `numpy.unstack`.

    Raises ValueError for a 0-dimensional array, or an axis that it does not have.

    >>> quire.numpy.unstack(quire.numpy.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    x = ensure("unstack", x)
    if x.ndim == 0:
        raise ValueError("quire.numpy.unstack: the array has no dimensions")
    d = as_axis("unstack", axis, x.ndim)
    return tuple(st.squeeze(st.slice_in_dim(x, i, i + 1, axis=d), (d,)) for i in range(_shape(x)[d]))


__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack",
    "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip

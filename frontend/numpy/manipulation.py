"""Shapes and order: reshape, transpose, join, split, repeat, pad, roll, broadcast."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer
from quire.runtime.array import Array

from . import _util as u
from ._util import Value, as_axes, as_axis, as_int, as_shape, cast, ensure
from .creation import filled, iota


def _shape(x: Value) -> tuple[int, ...]:
    return x.aval.shape


# -- shape --------------------------------------------------------------------------------------------------------------


def shape(a: Any) -> tuple[int, ...]:
    """The length of each dimension. Follows `numpy.shape`.

    >>> quire.numpy.shape(quire.numpy.zeros((2, 3)))
    (2, 3)
    """
    return _shape(ensure("shape", a))


def ndim(a: Any) -> int:
    """The number of dimensions. Follows `numpy.ndim`.

    >>> quire.numpy.ndim(quire.numpy.zeros((2, 3)))
    2
    """
    return ensure("ndim", a).aval.ndim


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or along some axes. Follows `numpy.size`.

    >>> quire.numpy.size(quire.numpy.zeros((2, 3)), 1)
    3
    """
    x = ensure("size", a)
    return math.prod(_shape(x)[i] for i in as_axes("size", axis, x.ndim))


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Value:
    """The elements in another shape of the same size.

    Args:
        a: an array.
        shape: the new shape, an integer or a sequence; one size may be -1: what remains.
        order: "C" (row-major) or "F" (column-major): the order in which elements are taken and placed.
        copy: must not be False.

    Raises:
        TypeError: the sizes differ.

    Follows `numpy.reshape`.

    >>> quire.numpy.reshape(quire.numpy.arange(4), (2, -1))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    x = ensure("reshape", a)
    if copy is False:
        raise ValueError("quire.numpy.reshape: copy=False is not supported: arrays have no views")
    sizes = _new_shape(x, shape)
    if order == "C":
        return st.reshape(x, sizes)
    if order != "F":
        raise NotImplementedError(f"quire.numpy.reshape: order must be 'C' or 'F', got {order!r}")
    rows = st.reshape(st.transpose(x, tuple(range(x.ndim))[::-1]), sizes[::-1])
    return st.transpose(rows, tuple(range(len(sizes)))[::-1])


def _new_shape(x: Value, shape: Any) -> tuple[int, ...]:
    kind = type(shape)
    if kind is not tuple and kind is not list:
        if isinstance(shape, np.ndarray | Array) and shape.ndim:
            shape = tuple(shape)
        elif isinstance(shape, Tracer) or not isinstance(shape, Sequence):
            shape = (shape,)
    sizes = tuple([n if type(n) is int else as_int("reshape", n, "each size of shape") for n in shape])
    total = x.aval.size
    if -1 in sizes:
        if sizes.count(-1) > 1:
            raise ValueError(f"quire.numpy.reshape: at most one size may be -1, got shape {sizes}")
        rest = -math.prod(sizes)
        if rest == 0 or total % rest:
            raise TypeError(f"quire.numpy.reshape: cannot reshape {x.aval.short()} of size {total} into shape {sizes}")
        return tuple([total // rest if n == -1 else n for n in sizes])
    if math.prod(sizes) != total or any(n < 0 for n in sizes):
        raise TypeError(
            f"quire.numpy.reshape: cannot reshape {x.aval.short()} of size {total} into shape {sizes} of size "
            f"{math.prod(sizes)}"
        )
    return sizes


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Value:
    """The elements as one dimension. Follows `numpy.ravel`.

    >>> quire.numpy.ravel(quire.numpy.ones((2, 1)))
    Array([1., 1.], dtype=float32)
    """
    if order not in ("C", "F"):
        raise NotImplementedError(f"quire.numpy.ravel: order must be 'C' or 'F', got {order!r}")
    return reshape(ensure("ravel", a), (-1,) if aval_of(a).size else (0,), order)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Value:
    """The dimensions reordered, by default reversed.

    Args:
        a: an array.
        axes: for each dimension of the result, the dimension of `a` that it is.

    Follows `numpy.transpose`.

    >>> quire.numpy.transpose(quire.numpy.array([[1, 2]]))
    Array([[1],
           [2]], dtype=int32)
    """
    x = ensure("transpose", a)
    n = x.ndim
    if axes is None:
        return st.transpose(x, tuple(range(n))[::-1])
    perm = tuple(as_axis("transpose", i, n, "axes") for i in axes)
    if sorted(perm) != list(range(n)):
        raise ValueError(f"quire.numpy.transpose: axes {tuple(axes)} must name each dimension of {x.aval.short()} once")
    return st.transpose(x, perm)


permute_dims = transpose


def matrix_transpose(x: Any, /) -> Value:
    """The last two dimensions exchanged. Follows `numpy.matrix_transpose`.

    >>> quire.numpy.matrix_transpose(quire.numpy.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = ensure("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"quire.numpy.matrix_transpose: expected at least 2 dimensions, got {x.aval.short()}")
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Value:
    """Two dimensions exchanged. Follows `numpy.swapaxes`.

    >>> quire.numpy.swapaxes(quire.numpy.zeros((1, 2, 3)), 0, 2).shape
    (3, 2, 1)
    """
    x = ensure("swapaxes", a)
    i, j = as_axis("swapaxes", axis1, x.ndim, "axis1"), as_axis("swapaxes", axis2, x.ndim, "axis2")
    perm = list(range(x.ndim))
    perm[i], perm[j] = j, i
    return st.transpose(x, perm)


def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """Dimensions moved to other places; the rest keep their order. Follows `numpy.moveaxis`.

    >>> quire.numpy.moveaxis(quire.numpy.zeros((1, 2, 3)), 0, -1).shape
    (2, 3, 1)
    """
    x = ensure("moveaxis", a)
    src = as_axes("moveaxis", source, x.ndim, "source")
    dst = as_axes("moveaxis", destination, x.ndim, "destination")
    if len(src) != len(dst):
        raise ValueError(f"quire.numpy.moveaxis: source {source} and destination {destination} differ in length")
    perm = [i for i in range(x.ndim) if i not in src]
    for d, s in sorted(zip(dst, src)):
        perm.insert(d, s)
    return st.transpose(x, perm)


def rollaxis(a: Any, axis: int, start: int = 0) -> Value:
    """A dimension moved before another. Follows `numpy.rollaxis`.

    >>> quire.numpy.rollaxis(quire.numpy.zeros((1, 2, 3)), 2).shape
    (3, 1, 2)
    """
    x = ensure("rollaxis", a)
    i = as_axis("rollaxis", axis, x.ndim)
    s = start + x.ndim if start < 0 else start
    if not 0 <= s <= x.ndim:
        raise ValueError(f"quire.numpy.rollaxis: start {start} is out of bounds for array of dimension {x.ndim}")
    return moveaxis(x, i, s - 1 if i < s else s)


def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Value:
    """Without dimensions of size 1: all of them, or those of `axis`. Follows `numpy.squeeze`.

    >>> quire.numpy.squeeze(quire.numpy.zeros((1, 3, 1))).shape
    (3,)
    """
    x = ensure("squeeze", a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(_shape(x)) if n == 1)
    else:
        axes = as_axes("squeeze", axis, x.ndim)
        for i in axes:
            if _shape(x)[i] != 1:
                raise ValueError(
                    f"quire.numpy.squeeze: dimension {i} of {x.aval.short()} has size {_shape(x)[i]}, not 1"
                )
    return st.squeeze(x, axes)


def expand_dims(a: Any, axis: int | Sequence[int]) -> Value:
    """With new dimensions of size 1 at these positions of the result. Follows `numpy.expand_dims`.

    >>> quire.numpy.expand_dims(quire.numpy.zeros(3), 0).shape
    (1, 3)
    """
    x = ensure("expand_dims", a)
    n = x.ndim + (len(axis) if isinstance(axis, Sequence) else 1)
    return st.expand_dims(x, as_axes("expand_dims", axis, n))


def atleast_1d(*arys: Any) -> Any:
    """Each array with at least 1 dimension; a list for several. Follows `numpy.atleast_1d`.

    >>> quire.numpy.atleast_1d(3.)
    Array([3.], dtype=float32, weak_type=True)
    """
    return _atleast("atleast_1d", arys, lambda x: st.reshape(x, (1,)) if x.ndim == 0 else x)


def atleast_2d(*arys: Any) -> Any:
    """Each array with at least 2 dimensions, new ones in front; a list for several. Follows `numpy.atleast_2d`.

    >>> quire.numpy.atleast_2d(quire.numpy.zeros(3)).shape
    (1, 3)
    """
    return _atleast("atleast_2d", arys, lambda x: st.reshape(x, (1,) * (2 - x.ndim) + _shape(x)) if x.ndim < 2 else x)


def atleast_3d(*arys: Any) -> Any:
    """Each array with at least 3 dimensions, as NumPy adds them; a list for several. Follows `numpy.atleast_3d`.

    >>> quire.numpy.atleast_3d(quire.numpy.zeros(3)).shape
    (1, 3, 1)
    """

    def three(x: Value) -> Value:
        s = _shape(x)
        if len(s) >= 3:
            return x
        return st.reshape(x, {0: (1, 1, 1), 1: (1, *s, 1), 2: (*s, 1)}[len(s)])

    return _atleast("atleast_3d", arys, three)


def _atleast(name: str, arys: Sequence[Any], f: Callable[[Value], Value]) -> Any:
    out = [f(ensure(name, a, i)) for i, a in enumerate(arys)]
    return out[0] if len(out) == 1 else out


# -- broadcasting -------------------------------------------------------------------------------------------------------


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Value:
    """An array repeated to a shape by NumPy's rule. Follows `numpy.broadcast_to`.

    >>> quire.numpy.broadcast_to(quire.numpy.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    x = ensure("broadcast_to", array)
    sizes = as_shape("broadcast_to", shape)
    s = _shape(x)
    if len(s) > len(sizes) or any(m not in (1, n) for m, n in zip(s[::-1], sizes[::-1])):
        raise ValueError(f"quire.numpy.broadcast_to: {x.aval.short()} does not broadcast to shape {sizes}")
    return u.broadcast_to(x, sizes)


def broadcast_arrays(*args: Any) -> list[Value]:
    """The arrays repeated to their common shape. Follows `numpy.broadcast_arrays`.

    >>> [x.shape for x in quire.numpy.broadcast_arrays(quire.numpy.zeros(3), 1.)]
    [(3,), (3,)]
    """
    xs = [ensure("broadcast_arrays", a, i) for i, a in enumerate(args)]
    shape = u.broadcast_shapes("broadcast_arrays", *[_shape(x) for x in xs])
    return [u.broadcast_to(x, shape) for x in xs]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which shapes broadcast together. Follows `numpy.broadcast_shapes`.

    >>> quire.numpy.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    try:
        return u.broadcast_shapes("broadcast_shapes", *[as_shape("broadcast_shapes", s) for s in shapes])
    except TypeError as error:
        raise ValueError(*error.args) from None


# -- joining ------------------------------------------------------------------------------------------------------------


def _sequence(name: str, arrays: Any) -> list[Value]:
    if isinstance(arrays, Array | Tracer):
        if arrays.ndim == 0:
            raise ValueError(f"quire.numpy.{name}: zero-dimensional arrays cannot be joined, got {arrays.aval.short()}")
        return u.members(arrays)
    if isinstance(arrays, np.ndarray):
        return [u.lift(a) for a in arrays]
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
    if isinstance(sections, Sequence | np.ndarray) or (isinstance(sections, Array) and sections.ndim):
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

    >>> quire.numpy.unstack(quire.numpy.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    x = ensure("unstack", x)
    if x.ndim == 0:
        raise ValueError("quire.numpy.unstack: the array has no dimensions")
    d = as_axis("unstack", axis, x.ndim)
    return tuple(st.squeeze(st.slice_in_dim(x, i, i + 1, axis=d), (d,)) for i in range(_shape(x)[d]))


# -- repeating, reversing, rolling, padding -------------------------------------------------------------------------------


def tile(A: Any, reps: Any) -> Value:
    """An array repeated as a whole along each dimension. Follows `numpy.tile`.

    >>> quire.numpy.tile(quire.numpy.arange(2), 2)
    Array([0, 1, 0, 1], dtype=int32)
    """
    x = ensure("tile", A)
    counts = as_shape("tile", reps, "reps")
    return st.tile(x, counts)


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None
) -> Value:
    """Each element (or slice along an axis) repeated.

    Args:
        a: an array.
        repeats: how often: a number or one for each slice.
        axis: the axis; None repeats the elements of the flattened array.
        total_repeat_length: the result's length, needed where `repeats` is traced: excess is cut off, and what is
            missing is filled with the last slice.

    Follows `numpy.repeat`.

    >>> quire.numpy.repeat(quire.numpy.arange(2), 2)
    Array([0, 0, 1, 1], dtype=int32)
    """
    x = ensure("repeat", a)
    if axis is None:
        x, axis = ravel(x), 0
    d = as_axis("repeat", axis, x.ndim)
    n = _shape(x)[d]
    known = u.concrete(repeats) if not isinstance(repeats, list | tuple) else np.asarray(repeats)
    if total_repeat_length is None and known is None:
        u.known_shape_operand("repeat", repeats, "give total_repeat_length")
    if known is not None and known.size == 1 and total_repeat_length is None:
        k = as_int("repeat", known.reshape(())[()], "repeats")
        if k < 0:
            raise ValueError(f"quire.numpy.repeat: repeats must not be negative, got {k}")
        wide = st.broadcast_in_dim(
            x, (*_shape(x)[: d + 1], k, *_shape(x)[d + 1 :]), tuple(i + (i > d) for i in range(x.ndim))
        )
        return st.reshape(wide, (*_shape(x)[:d], n * k, *_shape(x)[d + 1 :]))
    if known is not None:
        counts = np.broadcast_to(known, (n,)) if known.size == 1 else known.reshape(-1)
        if counts.shape != (n,):
            raise ValueError(f"quire.numpy.repeat: repeats of shape {known.shape} do not fit axis {d} of size {n}")
        index = np.repeat(np.arange(n, dtype=np.int32), counts)
        if total_repeat_length is not None:
            index = np.concatenate([index, np.full(max(0, total_repeat_length - index.size), max(n - 1, 0), np.int32)])
            index = index[:total_repeat_length]
        return _take_rows(x, u.lift(index), d)
    from .reductions import cumsum
    from .sorting import searchsorted

    assert total_repeat_length is not None
    ends = cumsum(u.broadcast_to(cast(ensure("repeat", repeats), dtypes.int32), (n,)))
    positions = iota((total_repeat_length,), 0, dtypes.int32)
    index = ew.min_p.bind(cast(searchsorted(ends, positions, side="right"), dtypes.int32), np.int32(n - 1))
    return _take_rows(x, index, d)


def _take_rows(x: Value, index: Value, axis: int) -> Value:
    """The slices of x at in-bounds indices along an axis."""
    shape = _shape(x)
    k = aval_of(index).shape[0]
    offset = tuple(i for i in range(len(shape)) if i != axis)
    numbers = ix.GatherDimensionNumbers(offset, (axis,), (axis,))
    sizes = [1 if i == axis else n for i, n in enumerate(shape)]
    return ix.gather(x, st.reshape(index, (k, 1)), numbers, sizes, mode="promise_in_bounds")


def flip(m: Any, axis: int | Sequence[int] | None = None) -> Value:
    """The order of the elements reversed along some axes, by default all. Follows `numpy.flip`.

    >>> quire.numpy.flip(quire.numpy.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = ensure("flip", m)
    return st.rev(x, as_axes("flip", axis, x.ndim))


def fliplr(m: Any) -> Value:
    """`flip` along the second axis. Follows `numpy.fliplr`.

    >>> quire.numpy.fliplr(quire.numpy.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: Any) -> Value:
    """`flip` along the first axis. Follows `numpy.flipud`.

    >>> quire.numpy.flipud(quire.numpy.arange(2))
    Array([1, 0], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Value:
    """Rotated by k quarter turns in the plane of two axes. Follows `numpy.rot90`.

    >>> quire.numpy.rot90(quire.numpy.array([[1, 2]]))
    Array([[2],
           [1]], dtype=int32)
    """
    x = ensure("rot90", m)
    i, j = (as_axis("rot90", a, x.ndim, "axes") for a in axes)
    if i == j:
        raise ValueError(f"quire.numpy.rot90: axes must be different, got {axes}")
    k = k % 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if k == 1 else flip(swapaxes(x, i, j), j)


def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Value:
    """The elements moved along axes, those that leave one end entering at the other.

    Args:
        a: an array.
        shift: by how much; may be traced; one for each axis or one for all.
        axis: the axes; None rolls the flattened array and restores the shape.

    Follows `numpy.roll`.

    >>> quire.numpy.roll(quire.numpy.arange(3), 1)
    Array([2, 0, 1], dtype=int32)
    """
    x = ensure("roll", a)
    if axis is None:
        return st.reshape(roll(ravel(x), shift, 0), _shape(x))
    listed = [axis] if not isinstance(axis, Sequence) else list(axis)
    axes = [as_axis("roll", i, x.ndim) for i in listed]
    shifts = list(shift) if isinstance(shift, list | tuple) else None
    if shifts is None:
        value = ensure("roll", shift, "shift")
        shifts = [value] * len(axes) if value.ndim == 0 else list(value)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"quire.numpy.roll: {len(shifts)} shifts for {len(axes)} axes")
    for s, d in zip(shifts, axes):
        n = _shape(x)[d]
        if n == 0:
            continue
        known = u.concrete(s)
        if known is not None:
            k = operator.index(known[()]) % n
            if k:
                x = st.concatenate([st.slice_in_dim(x, n - k, n, axis=d), st.slice_in_dim(x, 0, n - k, axis=d)], d)
            continue
        from .arithmetic import remainder

        start = ew.sub_p.bind(np.int32(n), cast(remainder(s, n), dtypes.int32))
        x = ix.dynamic_slice_in_dim(st.concatenate([x, x], d), start, n, axis=d)
    return x


def resize(a: Any, new_shape: Any) -> Value:
    """The elements repeated or cut to fill a shape. Follows `numpy.resize`.

    >>> quire.numpy.resize(quire.numpy.arange(2), (3,))
    Array([0, 1, 0], dtype=int32)
    """
    sizes = as_shape("resize", new_shape)
    flat = ravel(ensure("resize", a))
    total = math.prod(sizes)
    if flat.size == 0 or total == 0:
        return filled(sizes, 0, flat.aval.dtype)
    repeats = -(-total // flat.size)
    return st.reshape(st.slice_in_dim(st.tile(flat, (repeats,)), 0, total), sizes)


def trim_zeros(filt: Any, trim: str = "fb") -> Value:
    """A vector without its leading and trailing zeros; its values must be known. Follows `numpy.trim_zeros`.

    >>> quire.numpy.trim_zeros(quire.numpy.array([0, 1, 0]))
    Array([1], dtype=int32)
    """
    x = ensure("trim_zeros", filt)
    value = u.known_shape_operand("trim_zeros", x, "trim before tracing")
    nonzero = np.flatnonzero(value)
    first = nonzero[0] if nonzero.size and "f" in trim.lower() else (0 if nonzero.size else value.size)
    last = nonzero[-1] + 1 if nonzero.size and "b" in trim.lower() else value.size
    return st.slice_in_dim(x, int(first), int(last))


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Value:
    """The elements converted to a dtype: floats to integers truncate, complex to real drops the imaginary part.

    Args:
        x: an array. dtype: the new dtype. copy: whether the result must have memory of its own.

    Follows `numpy.astype`.

    >>> quire.numpy.astype(quire.numpy.array([1.5]), int)
    Array([1], dtype=int32)
    """
    x = ensure("astype", x)
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else u.user_dtype("astype", dtype)
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(d) and not dtypes.is_bool(d):
        x = ew.real_p.bind(x)
    out = cast(x, d)
    if copy and out is x and isinstance(x, Array):
        out = x.copy()
    if device is None:
        return out
    from quire.api import device_put

    return device_put(out, device)


def bit_view(x: Any, dtype: Any = None, type: None = None) -> Value:
    """The bits of the elements as another dtype; the last dimension changes where the widths differ.

    Follows `numpy.ndarray.view`.
    """
    if type is not None:
        raise NotImplementedError("quire.Array.view: the argument type is not supported")
    x = ensure("view", x)
    if dtype is None:
        return x
    d, old = u.user_dtype("view", dtype), x.dtype
    if d == old:
        return x
    if dtypes.is_bool(d) or dtypes.is_bool(old):
        return _bool_view(x, d)
    if dtypes.is_complex(old):
        parts = stack([ew.real_p.bind(x), ew.imag_p.bind(x)], axis=-1)
        return bit_view(st.reshape(parts, (*_shape(x)[:-1], 2 * _shape(x)[-1])) if x.ndim else parts, d)
    if dtypes.is_complex(d):
        floats = bit_view(x, dtypes.real_dtype(d))
        if floats.ndim == 0 or _shape(floats)[-1] % 2:
            raise ValueError(f"quire.Array.view: the last dimension of {x.aval.short()} does not divide into {d}")
        pairs = st.reshape(floats, (*_shape(floats)[:-1], _shape(floats)[-1] // 2, 2))
        return ew.complex_p.bind(pairs[..., 0], pairs[..., 1])
    if d.itemsize == old.itemsize:
        return ew.bitcast_convert_type_p.bind(x, new_dtype=d)
    if x.ndim == 0:
        raise ValueError(f"quire.Array.view: a scalar {x.aval.short()} has no dimension to change for dtype {d}")
    s = _shape(x)
    if d.itemsize < old.itemsize:
        wide = ew.bitcast_convert_type_p.bind(x, new_dtype=d)
        return st.reshape(wide, (*s[:-1], s[-1] * (old.itemsize // d.itemsize)))
    k = d.itemsize // old.itemsize
    if s[-1] % k:
        raise ValueError(f"quire.Array.view: the last dimension of {x.aval.short()} must be a multiple of {k} for {d}")
    return ew.bitcast_convert_type_p.bind(st.reshape(x, (*s[:-1], s[-1] // k, k)), new_dtype=d)


def _bool_view(x: Value, d: Any) -> Value:
    if dtypes.is_bool(d):
        return ew.ne_p.bind(bit_view(x, dtypes.uint8), np.uint8(0))
    return bit_view(cast(x, dtypes.uint8), d)

"""Shapes: reshape, the order and the number of dimensions, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer
from quire.runtime.array import Array

from ..arrays import operands as u
from ..arrays.explicit import takes_out_sharding
from ..arrays.key_array import is_keys
from ..arrays.operands import Value, as_axes, as_axis, as_int, as_shape, ensure


def _shape(x: Value) -> tuple[int, ...]:
    return x.aval.shape


# -- shape --------------------------------------------------------------------------------------------------------------


def shape(a: Any) -> tuple[int, ...]:
    """The length of each dimension. Follows `numpy.shape`.

    >>> quire.numpy.shape(quire.numpy.zeros((2, 3)))
    (2, 3)
    """
    if a is None:  # as in JAX, and for `ndim` and `size`
        return ()
    return a.shape if is_keys(a) else _shape(ensure("shape", a))


def ndim(a: Any) -> int:
    """The number of dimensions. Follows `numpy.ndim`.

    >>> quire.numpy.ndim(quire.numpy.zeros((2, 3)))
    2
    """
    return a.ndim if is_keys(a) else ensure("ndim", a).aval.ndim


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or along some axes. Follows `numpy.size`.

    >>> quire.numpy.size(quire.numpy.zeros((2, 3)), 1)
    3
    """
    x = a if is_keys(a) else ensure("size", a)
    return math.prod(x.shape[i] for i in as_axes("size", axis, x.ndim))


@takes_out_sharding
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Value:
    """The elements in another shape of the same size.

    Args:
        a: an array.
        shape: the new shape, an integer or a sequence; one size may be -1: what remains.
        order: "C" (row-major) or "F" (column-major): the order in which elements are taken and placed.
        copy: without effect: arrays are immutable, and may share memory.

    Raises:
        TypeError: the sizes differ.
        NotImplementedError: order is neither "C" nor "F".

    Follows `numpy.reshape`.

    >>> quire.numpy.reshape(quire.numpy.arange(4), (2, -1))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    x = ensure("reshape", a)
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
        elif isinstance(shape, Tracer | np.ndarray | np.generic | Array) or not hasattr(shape, "__getitem__"):
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


@takes_out_sharding
def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Value:
    """The elements as one dimension. Follows `numpy.ravel`.

    Raises NotImplementedError for an order that is neither "C" nor "F".

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

    Raises:
        ValueError: an axis that `a` does not have.
        TypeError: axes does not name each dimension of `a` once.

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
        raise TypeError(f"quire.numpy.transpose: axes {tuple(axes)} must name each dimension of {x.aval.short()} once")
    return st.transpose(x, perm)


def permute_dims(a: Any, /, axes: Sequence[int]) -> Value:
    """`transpose` under the array API's name; the axes must be given. Follows `numpy.permute_dims`.

    >>> quire.numpy.permute_dims(quire.numpy.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Value:
    """The last two dimensions exchanged. Follows `numpy.matrix_transpose`.

    Raises ValueError for an array of fewer than 2 dimensions.

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

    Raises ValueError where source and destination differ in length, or name an axis twice or one that `a` does not
    have.

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

    Raises ValueError for an axis that `a` does not have, or a start outside [-a.ndim, a.ndim].

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

    Raises ValueError for an axis whose size is not 1.

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

    Raises TypeError for axis None.

    >>> quire.numpy.expand_dims(quire.numpy.zeros(3), 0).shape
    (1, 3)
    """
    x = ensure("expand_dims", a)
    if axis is None:
        raise TypeError("quire.numpy.expand_dims: axis must be an integer or integers, got None")
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


@takes_out_sharding
def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Value:
    """An array repeated to a shape by NumPy's rule. Follows `numpy.broadcast_to`.

    Raises ValueError for a shape to which the array does not broadcast.

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

    Raises ValueError for shapes that do not broadcast together.

    >>> quire.numpy.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    try:
        return u.broadcast_shapes("broadcast_shapes", *[as_shape("broadcast_shapes", s) for s in shapes])
    except TypeError as error:
        raise ValueError(*error.args) from None


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims",
    "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "rollaxis", "shape", "size", "squeeze",
    "swapaxes", "transpose",
]  # fmt: skip

"""Shapes: functions of `quire.lax` that move elements and compute none, with JAX's names and signatures."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.collectives import cast_as
from quire.ir.tracing import current_trace

from .. import tree_util
from ..arrays.explicit import beside, placed_as, takes_out_sharding
from ..arrays.operands import as_array, eager_here, lax_dtype
from ..arrays.placement import device_put, place_beside

Value = Any


@takes_out_sharding
def broadcast(operand: Value, sizes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """`operand` repeated along new leading dimensions of these sizes."""
    return st.broadcast(operand, sizes) if len(sizes) else as_array(operand)


@takes_out_sharding
def broadcast_in_dim(
    operand: Value, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Value:
    """`operand` repeated to `shape`; its dimension i becomes dimension ``broadcast_dimensions[i]``.

    Raises ValueError where a size is neither 1 nor the new one.

    >>> import quire.numpy as qnp
    >>> quire.lax.broadcast_in_dim(qnp.arange(2), (2, 3), (0,)).tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    return st.broadcast_in_dim(operand, shape, broadcast_dimensions)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together by NumPy's rule.

    Raises:
        ValueError: there is none.
        TypeError: a shape is no sequence of integers, or a size is negative.
    """
    for s in shapes:
        if isinstance(s, str) or not all(hasattr(n, "__index__") for n in s):
            raise TypeError(f"broadcast_shapes: shapes must be sequences of integers, got {s!r}")
        if any(n < 0 for n in s):
            raise TypeError(f"broadcast_shapes: sizes must not be negative, got {tuple(s)}")
    shapes = tuple(tuple(map(operator.index, s)) for s in shapes)
    ndim = max((len(s) for s in shapes), default=0)
    out = [1] * ndim
    for s in shapes:
        for i, n in enumerate(s, ndim - len(s)):
            if n != 1 and out[i] not in (1, n):
                raise ValueError(f"broadcast_shapes: incompatible shapes {', '.join(str(tuple(t)) for t in shapes)}")
            out[i] = n if out[i] == 1 else out[i]
    return tuple(out)


def broadcast_to_rank(x: Value, rank: int) -> Value:
    """x with dimensions of size 1 added in front, up to `rank`."""
    return expand_dims(x, range(rank - aval_of(x).ndim))


@takes_out_sharding
def reshape(
    operand: Value, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *, out_sharding: Any = None
) -> Value:
    """The elements in row-major order in another shape; `dimensions` reorders the operand's dimensions first."""
    if dimensions is not None:
        operand = st.transpose(operand, dimensions)
    return st.reshape(operand, new_sizes)


def transpose(operand: Value, permutation: Sequence[int]) -> Value:
    """`operand` with its dimensions reordered: dimension i of the result is ``permutation[i]``."""
    return st.transpose(operand, permutation)


def squeeze(array: Value, dimensions: Sequence[int]) -> Value:
    """`array` without these dimensions of size 1."""
    return st.squeeze(array, dimensions)


def expand_dims(array: Value, dimensions: Sequence[int]) -> Value:
    """`array` with dimensions of size 1 at these positions of the result."""
    return st.expand_dims(array, tuple(dimensions))


def collapse(operand: Value, start_dimension: int, stop_dimension: int | None = None) -> Value:
    """`operand` with dimensions start to stop (excluded) merged into one. ValueError for a start after the stop."""
    shape = aval_of(operand).shape
    lo, hi, _ = slice_type(start_dimension, stop_dimension, 1).indices(len(shape))
    if hi < lo:
        raise ValueError(f"collapse: start_dimension {start_dimension} is after stop_dimension {stop_dimension}")
    size = 1
    for n in shape[lo:hi]:
        size *= n
    return st.reshape(operand, (*shape[:lo], size, *shape[hi:]))


slice_type = slice


def rev(operand: Value, dimensions: Sequence[int]) -> Value:
    """`operand` reversed along these dimensions."""
    return st.rev(operand, dimensions)


def concatenate(operands: Sequence[Value], dimension: int) -> Value:
    """Arrays of one dtype joined along a dimension; the other sizes are equal."""
    return st.concatenate(operands, dimension)


def pad(operand: Value, padding_value: Value, padding_config: Sequence[tuple[int, int, int]]) -> Value:
    """`operand` padded by (low, high, interior) copies of a scalar along each dimension; negative ones crop.

    >>> import quire.numpy as qnp
    >>> quire.lax.pad(qnp.arange(3), 9, [(1, 0, 1)]).tolist()
    [9, 0, 9, 1, 9, 2]
    """
    return st.pad(operand, padding_value, padding_config)


def iota(dtype: Any, size: int) -> Value:
    """The vector 0, 1, ..., size - 1."""
    return st.iota(lax_dtype("iota", dtype), size)


@takes_out_sharding
def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Value:
    """An array of that shape whose value is the index along `dimension`."""
    return st.broadcasted_iota(lax_dtype("broadcasted_iota", dtype), shape, dimension)


def split(operand: Value, sizes: Sequence[int], axis: int = 0) -> Sequence[Value]:
    """`operand` cut along `axis` into pieces of the given sizes."""
    return st.split(operand, sizes, axis)


def tile(operand: Value, reps: Sequence[int]) -> Value:
    """`operand` repeated along each dimension."""
    return st.tile(operand, reps)


def full(shape: Sequence[int], fill_value: Value, dtype: Any = None, *, sharding: Any = None) -> Value:
    """An array with all elements equal to a scalar; divided as `sharding` says."""
    return placed_as(st.full(shape, fill_value, lax_dtype("full", dtype)), sharding, "full")


def full_like(
    x: Value, fill_value: Value, dtype: Any = None, shape: Sequence[int] | None = None, sharding: Any = None
) -> Value:
    """`full` with x's shape and dtype, unless they are given; divided as `sharding` says, else as x is where the shape is its.

    In a `shard_map` it varies as x does.
    """
    aval = aval_of(x)
    dtype = aval.dtype if dtype is None else lax_dtype("full_like", dtype)
    sizes = aval.shape if shape is None else tuple(shape)
    out = st.full(sizes, fill_value, dtype)
    if sharding is None and (beside_x := place_beside(x, sizes)) is not None and eager_here():
        return device_put(out, beside_x)
    out = cast_as(out, aval) if aval.manual else out
    return beside(out, aval) if sharding is None else placed_as(out, sharding, "full_like")


def zeros_like_array(x: Value) -> Value:
    """Zeros of x's shape and dtype."""
    return full_like(x, 0)


@takes_out_sharding
def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Value:
    """An array whose elements do not matter."""
    return st.empty(shape, lax_dtype("empty", dtype))


def optimization_barrier(operand: Any, /) -> Any:
    """A pytree unchanged, across which compilers move nothing."""
    leaves, tree = tree_util.flatten_arrays(operand)
    return tree_util.tree_unflatten(tree, st.optimization_barrier(*leaves))


def shape_as_value(shape: Sequence[int]) -> Value:
    """A shape as an int32 vector."""
    import numpy as np

    return st.broadcast_in_dim(np.asarray(shape, dtypes.int32), (len(shape),), (0,))


def _static(indices: Sequence[int], what: str) -> list[int]:
    try:
        return [operator.index(i) for i in indices]
    except TypeError:
        raise TypeError(f"slice: {what} must be integers known when tracing, got {tuple(indices)}") from None


def slice(  # noqa: A001 - JAX's name
    operand: Value, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Value:
    """The elements between static bounds, every `strides`-th along each dimension.

    Raises TypeError for bounds outside the array. Outside of traces a negative start is moved to 0, with the limit, as
    `dynamic_slice` does: JAX evaluates it so.
    """
    starts, limits = _static(start_indices, "start_indices"), _static(limit_indices, "limit_indices")
    shape = aval_of(operand).shape
    if (
        current_trace() is None
        and len(starts) == len(limits) == len(shape)
        and (strides is None or all(s == 1 for s in strides))
    ):
        for d, (start, limit, n) in enumerate(zip(starts, limits, shape)):
            if start < 0 <= limit - start <= n:
                starts[d], limits[d] = 0, limit - start
    return st.slice(operand, starts, limits, strides)


def slice_in_dim(
    operand: Value, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Value:
    """`slice` along one dimension; None and negative bounds as in Python."""
    return st.slice_in_dim(operand, start_index, limit_index, stride, axis)


def index_in_dim(operand: Value, index: int, axis: int = 0, keepdims: bool = True) -> Value:
    """The elements at a static index along a dimension; negative ones count from the end.

    Raises ValueError for an index outside.
    """
    aval = aval_of(operand)
    axis %= aval.ndim
    n = aval.shape[axis]
    if not -n <= index < n:
        raise ValueError(f"index_in_dim: index {index} is out of bounds for axis {axis} of size {n}")
    index %= n
    out = st.slice_in_dim(operand, index, index + 1, 1, axis)
    return out if keepdims else st.squeeze(out, (axis,))


def broadcast_like(arr: Value, like_arr: Value) -> Value:
    """`arr` repeated to the shape of another array, by NumPy's rule (`jax.lax.broadcast_like`).

    Raises ValueError where the shapes do not fit.

    >>> import quire.numpy as qnp
    >>> quire.lax.broadcast_like(qnp.arange(3), qnp.ones((2, 3))).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    shape, wanted = aval_of(arr).shape, aval_of(like_arr).shape
    if broadcast_shapes(shape, wanted) != wanted:
        raise ValueError(f"broadcast_like: an array of shape {shape} cannot be repeated to {wanted}")
    fitting = [i for i, n in enumerate(shape) if n == wanted[len(wanted) - len(shape) + i]]
    kept = st.reshape(arr, tuple(shape[i] for i in fitting))
    return beside(
        st.broadcast_in_dim(kept, wanted, tuple(len(wanted) - len(shape) + i for i in fitting)), aval_of(like_arr)
    )


def stack(operands: Sequence[Value], axis: int = 0) -> Value:
    """Arrays of one shape and dtype along a new dimension (`jax.lax.stack`).

    Raises ValueError for no operands or shapes that differ.

    >>> import quire.numpy as qnp
    >>> quire.lax.stack([qnp.arange(2), qnp.arange(2)], axis=1).tolist()
    [[0, 0], [1, 1]]
    """
    operands = list(operands)
    if not operands:
        raise ValueError("stack: expected at least one operand")
    avals = [aval_of(x) for x in operands]
    if any(a.shape != avals[0].shape for a in avals):
        raise ValueError(f"stack: all operands must have one shape, got {', '.join(str(a.shape) for a in avals)}")
    n = avals[0].ndim
    if not -n - 1 <= axis <= n:
        raise ValueError(f"stack: axis {axis} is out of range for a result of rank {n + 1}")
    axis %= n + 1
    return st.concatenate([st.expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: Value, axis: int = 0) -> tuple[Value, ...]:
    """The slices of an array along a dimension, without it (`jax.lax.unstack`).

    Raises ValueError for an axis that x does not have.

    >>> import quire.numpy as qnp
    >>> [part.tolist() for part in quire.lax.unstack(qnp.arange(4).reshape(2, 2), axis=1)]
    [[0, 2], [1, 3]]
    """
    aval = aval_of(x)
    if not -aval.ndim <= axis < aval.ndim:
        raise ValueError(f"unstack: axis {axis} is out of range for {aval.short()}")
    return tuple(index_in_dim(x, i, axis, keepdims=False) for i in range(aval.shape[axis]))


def stage(x: Value, /) -> Value:
    """x as an array; inside a traced function as a traced value, recorded there (`jax.lax.stage`).

    >>> quire.lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return ew.copy_p.bind(x)


__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank", "broadcasted_iota", "collapse",
    "concatenate", "empty", "expand_dims", "full", "full_like", "index_in_dim", "iota", "optimization_barrier", "pad",
    "reshape", "rev", "shape_as_value", "slice", "slice_in_dim", "split", "squeeze", "stack", "stage", "tile", "transpose",
    "unstack", "zeros_like_array",
]  # fmt: skip

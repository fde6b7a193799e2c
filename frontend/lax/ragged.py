"""Products whose rows belong to groups of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import user_dtype
from .contraction import dot_general
from .control_flow import scan

Value = Any


@takes_out_sharding
def ragged_dot(
    lhs: Value, rhs: Value, group_sizes: Value, precision: Any = None, preferred_element_type: Any = None,
    group_offset: Value | None = None, out_sharding: Any = None,
) -> Value:  # fmt: skip
    """Each row of `lhs` times the matrix of its group: the product of mixtures of experts (`jax.lax.ragged_dot`).

    Args:
        lhs: shape (m, k).
        rhs: shape (g, k, n), a matrix for each group.
        group_sizes: g integers: the first ``group_sizes[0]`` rows belong to group 0, and so on. Rows beyond their sum
            give zeros.
        precision, preferred_element_type: as for `dot_general`.
        group_offset, out_sharding: must be None.

    Returns shape (m, n). It is a loop over the groups, each a product of all rows with those of others made zero.

    Raises TypeError or ValueError when shapes or dtypes do not fit, NotImplementedError for a group_offset or an
    out_sharding.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> y = quire.lax.ragged_dot(qnp.ones((3, 2)), qnp.arange(4.).reshape(2, 2, 1), qnp.array([1, 2]))
        >>> y.ravel().tolist()
        [1.0, 5.0, 5.0]
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported, expected None")
    a, b, g = aval_of(lhs), aval_of(rhs), aval_of(group_sizes)
    if a.ndim != 2 or b.ndim != 3 or g.ndim != 1 or a.shape[1] != b.shape[1] or b.shape[0] != g.shape[0]:
        raise ValueError(
            f"ragged_dot: expected lhs (m, k), rhs (g, k, n) and group_sizes (g,), got {a.short()}, {b.short()} and "
            f"{g.short()}"
        )
    if not dtypes.is_integer(g.dtype):
        raise TypeError(f"ragged_dot: group_sizes must be integers, got {g.short()}")
    rows = RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
    return ragged_dot_general(lhs, rhs, group_sizes, rows, precision, preferred_element_type)


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """What the dimensions of a ragged product are.

    Attributes:
        dot_dimension_numbers: those of `dot_general`.
        lhs_ragged_dimensions: the one dimension of lhs whose places belong to groups.
        rhs_group_dimensions: the dimension of rhs with a part for each group, where the ragged one is free; else none.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


@takes_out_sharding
def ragged_dot_general(
    lhs: Value, rhs: Value, group_sizes: Value, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Value | None = None, out_sharding: Any = None,
) -> Value:  # fmt: skip
    """Products of parts of a dimension of `lhs`, one part for each group (`jax.lax.ragged_dot_general`).

    With batch dimensions b, free ones m and n, contracted ones k and g groups:

    - the ragged dimension is free in lhs (m): (b, m, k), (g, b, k, n) give (b, m, n), each place of m by its group's part of rhs;
    - it is contracted: (b, m, k), (b, k, n) give (g, b, m, n), the sums over each group's places of k;
    - it is a batch dimension: the product of `dot_general`, of which groups change nothing.

    Args:
        lhs, rhs: arrays.
        group_sizes: integers (g,), or one list for each place of the dimensions before the ragged one: those of the batch and,
            unless the ragged one is of the batch, those of its kind. The first places belong to group 0, and so on; places
            beyond the sum give zeros.
        ragged_dot_dimension_numbers: what the dimensions are.
        precision, preferred_element_type: as for `dot_general`.
        group_offset, out_sharding: must be None.

    Raises TypeError when dimensions or shapes do not fit, NotImplementedError for a group_offset or an out_sharding.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> parts = quire.lax.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [1], [])
        >>> quire.lax.ragged_dot_general(qnp.ones((1, 3)), qnp.arange(3.)[:, None], qnp.array([1, 2]), parts).ravel().tolist()
        [0.0, 3.0]
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot_general: group_offset is not supported, expected None")
    numbers = ragged_dot_dimension_numbers
    (contracted, rhs_contracted), (batch, rhs_batch) = [
        tuple(map(list, pair)) for pair in numbers.dot_dimension_numbers
    ]
    a, b, g = aval_of(lhs), aval_of(rhs), aval_of(group_sizes)
    dim, prefix = _ragged(a, g, numbers, contracted, batch)
    free = dim not in contracted and dim not in batch
    of_group = _group_dimension(a, b, g, numbers, free, (contracted, rhs_contracted), (batch, rhs_batch))

    def product(x: Value, y: Value, rhs_dims: tuple[list[int], list[int]]) -> Value:
        dims = ((contracted, rhs_dims[0]), (batch, rhs_dims[1]))
        return dot_general(x, y, dims, precision=precision, preferred_element_type=preferred_element_type)

    if dim in batch:
        return product(lhs, rhs, (rhs_contracted, rhs_batch))
    sizes = ew.convert_element_type(group_sizes, np.int32)
    if g.ndim == 1:
        prefix = []
    ends = rd.cumsum(sizes, g.ndim - 1)
    starts = ew.sub(ends, sizes)
    order = sorted([*prefix, dim])
    shape = tuple(a.shape[d] for d in order)
    place = st.broadcasted_iota(np.int32, shape, order.index(dim))

    def spread(limit: Value) -> Value:
        """A limit (prefix...) beside each place of the ragged dimension."""
        if not prefix:
            return limit
        wanted = sorted(range(len(prefix)), key=prefix.__getitem__)
        return st.broadcast_in_dim(st.transpose(limit, wanted), shape, [order.index(prefix[i]) for i in wanted])

    def of(start: Value, end: Value) -> Value:
        """lhs, zero where another group's places are."""
        inside = ew.bitwise_and(ew.ge(place, spread(start)), ew.lt(place, spread(end)))
        return ew.select_n(st.broadcast_in_dim(inside, a.shape, order), st.full(a.shape, 0, a.dtype), lhs)

    first = (g.ndim - 1, *range(g.ndim - 1))
    limits = st.transpose(starts, first) if g.ndim > 1 else starts, st.transpose(ends, first) if g.ndim > 1 else ends
    if not free:
        return scan(lambda c, at: (c, product(of(*at), rhs, (rhs_contracted, rhs_batch))), None, limits)[1]
    own = ([d - (d > of_group) for d in rhs_contracted], [d - (d > of_group) for d in rhs_batch])
    parts = rhs if of_group == 0 else st.transpose(rhs, (of_group, *(d for d in range(b.ndim) if d != of_group)))

    def add_group(total: Value, group: tuple[Value, Value, Value]) -> tuple[Value, None]:
        part, start, end = group
        return ew.add(total, product(of(start, end), part, own)), None

    dtype = dtypes.promote([(a.dtype, False), (b.dtype, False)])[0]
    if preferred_element_type is not None:
        dtype = user_dtype("quire.lax.ragged_dot", preferred_element_type)
    rest = [b.shape[d] for d in range(b.ndim) if d not in (*rhs_contracted, *rhs_batch, of_group)]
    rows = [a.shape[d] for d in range(a.ndim) if d not in (*contracted, *batch)]
    zero = st.full((*(a.shape[d] for d in batch), *rows, *rest), 0, dtype)
    return scan(add_group, zero, (parts, *limits))[0]


def _ragged(
    a: ShapedArray, g: ShapedArray, numbers: RaggedDotDimensionNumbers, contracted: list[int], batch: list[int]
) -> tuple[int, list[int]]:
    """The ragged dimension of lhs, and those before it for whose places there may be groups of their own."""
    name = "ragged_dot_general"
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(f"{name} expects exactly one lhs ragged dimension, got {tuple(numbers.lhs_ragged_dimensions)}.")
    (dim,) = numbers.lhs_ragged_dimensions
    if not 0 <= dim < a.ndim:
        raise TypeError(
            f"{name} requires lhs ragged dimension numbers to be nonnegative and less than the number of axes of the lhs value, "
            f"got {dim} for lhs of rank {a.ndim}."
        )
    if not dtypes.is_integer(g.dtype):
        raise TypeError(f"{name}: group_sizes must be integers, got {g.short()}")
    if not g.ndim:
        raise TypeError(f"{name}: expected rank of group_sizes to be >=1.")
    rest = [d for d in range(a.ndim) if d not in contracted and d not in batch]
    kind = batch if dim in batch else contracted if dim in contracted else rest
    prefix = [*([] if dim in batch else batch), *kind[: kind.index(dim)]]
    expected = (*(a.shape[d] for d in prefix), g.shape[-1])
    if g.ndim > 1 and g.shape != expected:
        raise TypeError(f"{name}: expected group_sizes to have shape {expected}, got {g.shape}.")
    return dim, prefix


def _group_dimension(
    a: ShapedArray, b: ShapedArray, g: ShapedArray, numbers: RaggedDotDimensionNumbers, free: bool,
    contracted: tuple[list[int], list[int]], batch: tuple[list[int], list[int]],
) -> int:  # fmt: skip
    """The dimension of rhs with a part for each group; -1 where there is none to be."""
    name, dims = "ragged_dot_general", numbers.rhs_group_dimensions
    if not free:
        if len(dims):
            raise TypeError(
                f"{name} requires zero group dimensions in the rhs when lhs ragged dimension is contracting or batch, got "
                f"{tuple(dims)}."
            )
        return -1
    if len(dims) != 1:
        raise TypeError(
            f"{name} requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, got {tuple(dims)}."
        )
    (dim,) = dims
    if not 0 <= dim < b.ndim:
        raise TypeError(
            f"{name} requires rhs group dimension numbers to be nonnegative and less than the number of axes of the rhs value, "
            f"got {dim} for rhs of rank {b.ndim}."
        )
    for what, own in (("batch", batch[1]), ("contracting", contracted[1])):
        if dim in own:
            raise TypeError(
                f"{name} requires rhs group dimension numbers to be distinct from rhs {what} dimensions, got {dim} in {own}."
            )
    if b.shape[dim] != g.shape[-1]:
        raise TypeError(f"{name}: expected rhs group dimension size to be {g.shape[-1]}, got {b.shape[dim]}.")
    return dim


__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]

"""Products whose rows belong to groups of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import user_dtype
from .contraction import dot
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
    m = a.shape[0]
    sizes = ew.convert_element_type(group_sizes, np.int32)
    ends = rd.cumsum(sizes, 0)
    row = st.iota(np.int32, m)

    def add_group(total: Value, group: tuple[Value, Value, Value]) -> tuple[Value, None]:
        matrix, start, end = group
        inside = ew.bitwise_and(ew.ge(row, start), ew.lt(row, end))
        rows = ew.select_n(st.broadcast_in_dim(inside, a.shape, (0,)), st.full(a.shape, 0, a.dtype), lhs)
        return ew.add(
            total, dot(rows, matrix, precision=precision, preferred_element_type=preferred_element_type)
        ), None

    dtype = dtypes.promote([(a.dtype, False), (b.dtype, False)])[0]
    if preferred_element_type is not None:
        dtype = user_dtype("quire.lax.ragged_dot", preferred_element_type)
    zero = st.full((m, b.shape[2]), 0, dtype)
    return scan(add_group, zero, (rhs, ew.sub(ends, sizes), ends))[0]


__all__ = ["ragged_dot"]

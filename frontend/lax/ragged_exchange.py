"""Exchange of parts of different sizes between the slices of a named axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .indexing import index_take
from .parallel import all_gather, all_to_all

Value = Any


def ragged_all_to_all(
    operand: Value,
    output: Value,
    input_offsets: Value,
    send_sizes: Value,
    output_offsets: Value,
    recv_sizes: Value,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Value:
    """Send ranges of rows to the slices of a named axis, which write them into their `output`.

    Range i, ``operand[input_offsets[i] : input_offsets[i] + send_sizes[i]]``, goes to slice ``i // (k / size)`` of the axis, which
    writes it from its row ``output_offsets[i]`` on. Ranges that overlap at a receiver give either's rows.

    Args:
        operand: shape (n, ...).
        output: shape (m, ...), of the same dtype: what rows are that nobody writes.
        input_offsets, send_sizes, output_offsets: k integers each, k a multiple of the axis's size.
        recv_sizes: k integers, how many rows come: what the senders' `send_sizes` say.
        axis_name, axis_index_groups: as for `all_to_all`.

    Returns shape (m, ...). All rows are gathered, and each slice picks those that are meant for it.

    Raises ValueError for offsets or sizes that are no vectors of integers of one length, a multiple of the axis's size;
    TypeError where operand and output differ in dtype or in the shape of a row.
    """
    a, b = aval_of(operand), aval_of(output)
    if not a.ndim or a.shape[1:] != b.shape[1:] or a.dtype != b.dtype:
        raise TypeError(
            f"ragged_all_to_all: operand and output must hold rows of one shape and dtype, got {a.short()} and {b.short()}"
        )
    given = {
        "input_offsets": input_offsets, "send_sizes": send_sizes, "output_offsets": output_offsets, "recv_sizes": recv_sizes,
    }  # fmt: skip
    for name, x in given.items():
        aval = aval_of(x)
        if not dtypes.is_integer(aval.dtype):
            raise ValueError(f"ragged_all_to_all {name} must be integer type, got {aval.short()}")
        if aval.ndim != 1 or not aval.shape[0]:
            raise ValueError(
                f"ragged_all_to_all {name} must be rank 1 with positive dimension size, but got shape {aval.shape}"
            )
    lengths = {name: aval_of(x).shape[0] for name, x in given.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"ragged_all_to_all: offsets and sizes must have one length, got {lengths}")
    rows = all_gather(operand, axis_name, axis_index_groups=axis_index_groups)
    size = aval_of(rows).shape[0]
    if lengths["send_sizes"] % size:
        raise ValueError(
            f"ragged_all_to_all: {lengths['send_sizes']} ranges cannot be shared out among the {size} slices of {axis_name!r}"
        )

    def come(x: Value) -> Value:
        x = ew.convert_element_type(x, np.int32)
        return all_to_all(x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)

    first, count, target = come(input_offsets), come(send_sizes), come(output_offsets)
    k, m, n = lengths["send_sizes"], b.shape[0], a.shape[0]
    sender = np.repeat(np.arange(size, dtype=np.int32), k // size)
    # For each row of the output and each range that comes, whether and where in all rows it is found.
    row = st.broadcasted_iota(np.int32, (m, k), 0)

    def each(x: Value) -> Value:
        return st.broadcast_in_dim(x, (m, k), (1,))

    at = ew.sub(row, each(target))
    inside = ew.bitwise_and(ew.ge(at, np.int32(0)), ew.lt(at, each(count)))
    source = ew.add(at, each(ew.add(first, sender * np.int32(n))))
    source = rd.reduce_max(ew.select_n(inside, st.full((m, k), -1, np.int32), source), (1,))
    written = st.broadcast_in_dim(ew.ge(source, np.int32(0)), b.shape, (0,))
    flat = st.reshape(rows, (size * n, *a.shape[1:]))
    if not size * n:
        return output
    found = index_take(flat, (ew.max(source, np.int32(0)),), (0,))
    return ew.select_n(written, output, found)


__all__ = ["ragged_all_to_all"]

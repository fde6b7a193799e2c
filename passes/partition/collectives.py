"""Factors of collectives of named axes: other axes may divide their operands, as those of type Explicit do within `shard_map`.

Such collectives are gone before a program is partitioned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import collectives as co

from .rules import Builder, Factors, alike, factors

Avals = Sequence[ShapedArray]


@factors(co.psum_p, co.pmax_p, co.pmin_p, co.ppermute_p, co.pbroadcast_p, co.pvary_p, co.pcast_p)
def _same(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return alike(in_avals, out_avals)


@factors(co.axis_index_p)
def _index(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return alike(in_avals, out_avals)


def _apart(x: ShapedArray, out: ShapedArray, operand_only: Sequence[int], result_only: Sequence[int]) -> Factors:
    """All dimensions are the same but for some of each, which are whole."""
    b = Builder()
    operand = [(b.new(n, whole=d in operand_only),) for d, n in enumerate(x.shape)]
    rest = iter([ids for d, ids in enumerate(operand) if d not in operand_only])
    result = [(b.new(n, whole=True),) if d in result_only else next(rest) for d, n in enumerate(out.shape)]
    return b.done([operand], [result])


@factors(co.all_gather_p)
def _gather(in_avals: Avals, out_avals: Avals, *, all_gather_dimension: int, tiled: bool, **_: Any) -> Factors:
    return _apart(in_avals[0], out_avals[0], (all_gather_dimension,) if tiled else (), (all_gather_dimension,))


@factors(co.reduce_scatter_p)
def _scatter(in_avals: Avals, out_avals: Avals, *, scatter_dimension: int, tiled: bool, **_: Any) -> Factors:
    return _apart(in_avals[0], out_avals[0], (scatter_dimension,), (scatter_dimension,) if tiled else ())


@factors(co.all_to_all_p)
def _exchange(in_avals: Avals, out_avals: Avals, *, split_axis: int, concat_axis: int, **_: Any) -> Factors:
    return _apart(in_avals[0], out_avals[0], (split_axis, concat_axis), (split_axis, concat_axis))

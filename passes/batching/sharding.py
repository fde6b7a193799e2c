"""Batching of sharding constraints: the mapped dimension is divided over `spmd_axis_name`, or as the partitioner likes."""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir.avals import aval_of
from quire.ir.primitives.sharding import sharding_constraint, sharding_constraint_p
from quire.ir.sharding import UNCONSTRAINED, NamedSharding, PartitionSpec

from .rules import Axis, Value, batching


def with_batch_entry(spec: PartitionSpec, dim: int, axis: Axis) -> PartitionSpec:
    """The spec of a value with a mapped dimension at `dim`, from that of a lane."""
    entries = [*spec, *[None] * (dim - len(spec))]
    entries.insert(dim, UNCONSTRAINED if axis.spmd_name is None else axis.spmd_name)
    return spec.update(partitions=entries)


@batching(sharding_constraint_p)
def _sharding_constraint(
    axis: Axis, operands: Sequence[Value], dims: Sequence[int], *, sharding: NamedSharding
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    own = aval_of(x).division
    if axis.spmd_name is None and own is not None:  # it is divided as it is
        entries = [*sharding.spec, *[None] * (d - len(sharding.spec))]
        entries.insert(d, own.spec[d])
        return sharding_constraint(x, sharding.update(spec=sharding.spec.update(partitions=entries))), d
    return sharding_constraint(x, sharding.update(spec=with_batch_entry(sharding.spec, d, axis))), d

"""Batching of shard_map: its jaxpr is batched on each device; the mapped dimension is not divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import AxisNames
from quire.ir.axes import mesh_axes
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.shard_map import shard_map, shard_map_p
from quire.ir.sharding import PartitionSpec

from .batch import batch_jaxpr
from .rules import Axis, Dim, batching

Value = Any


def _with_entry(spec: PartitionSpec, dim: Dim) -> PartitionSpec:
    """The spec with an entry None for a new dimension."""
    if dim is None or dim >= len(spec):
        return spec
    entries = list(spec)
    entries.insert(dim, None)
    return spec.update(partitions=entries)


@batching(shard_map_p)
def _shard_map(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, mesh: Any, in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec], jaxpr: ClosedJaxpr, check_vma: bool, manual_axes: AxisNames,
) -> tuple[Any, Any]:  # fmt: skip
    with mesh_axes({a: mesh.shape[a] for a in mesh.axis_names if a in manual_axes}, check_vma):
        b = batch_jaxpr(jaxpr, axis, tuple(dims))
    specs = [_with_entry(s, d) for s, d in zip(in_specs, dims, strict=True)]
    out = shard_map(
        [*b.captured, *operands], mesh=mesh, in_specs=[*[PartitionSpec()] * len(b.captured), *specs],
        out_specs=[_with_entry(s, d) for s, d in zip(out_specs, b.out_dims, strict=True)], jaxpr=b.closed,
        check_vma=check_vma, manual_axes=manual_axes,
    )  # fmt: skip
    return out, b.out_dims

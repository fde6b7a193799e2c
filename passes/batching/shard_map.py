"""Batching of shard_map: its jaxpr is batched on each device; the mapped dimension is divided over
`spmd_axis_name` at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import AxisNames, aval_of
from quire.ir.axes import mesh_axes
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, all_eqns
from quire.ir.primitives.collectives import axis_names
from quire.ir.primitives.shard_map import part_division, shard_map, shard_map_p
from quire.ir.sharding import AxisType, PartitionSpec
from quire.ir.tracing import eval_jaxpr, trace_flat

from .batch import batch_jaxpr
from .rules import Axis, Dim, batching

Value = Any


def _with_entry(spec: PartitionSpec, dim: Dim, entry: Any = None) -> PartitionSpec:
    """The spec with an entry for a new dimension."""
    if dim is None or dim >= len(spec) and entry is None:
        return spec
    entries = [*spec, *[None] * (dim - len(spec))]
    entries.insert(dim, entry)
    return spec.update(partitions=entries)


def _divides_lanes(
    axis: Axis, mesh: Any, specs: Sequence[PartitionSpec], jaxpr: ClosedJaxpr, manual: AxisNames
) -> bool:
    """Whether each device along `spmd_axis_name` can have lanes of its own: the function uses that axis for nothing else."""
    name = axis.spmd_name
    if axis.name is not None or name not in manual or axis.size % mesh.shape[name]:
        return False
    return not any(name in s.axes for s in specs) and not any(
        name in axis_names(e.params) for e in all_eqns(jaxpr.jaxpr) if e.primitive.family == "collectives"
    )


def _varying(jaxpr: ClosedJaxpr, name: Any, which: Sequence[bool]) -> ClosedJaxpr:
    """The jaxpr, of which some arguments vary along one more axis."""
    avals = [a.update(vma=a.vma | {name}) if v else a for a, v in zip(jaxpr.in_avals, which, strict=True)]
    traced, captured, _ = trace_flat(lambda *xs: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, xs), avals, name="shard_map")
    assert not captured, "a jaxpr within an equation captures nothing"
    return ClosedJaxpr(traced)


def _typed(mesh: Any, body: ClosedJaxpr, operands: Sequence[Value], manual: AxisNames) -> ClosedJaxpr:
    """The jaxpr, in which types say how parts are divided along axes that are explicit still, as the operands are."""
    inner = mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    avals = [part_division(inner, aval_of(x), a) for x, a in zip(operands, body.in_avals, strict=True)]
    if all(a is b for a, b in zip(avals, body.in_avals)):
        return body
    with config.override(mesh=inner):
        traced, captured, _ = trace_flat(lambda *xs: eval_jaxpr(body.jaxpr, body.consts, xs), avals, name="shard_map")
    assert not captured, "a jaxpr within an equation captures nothing"
    return ClosedJaxpr(traced)


@batching(shard_map_p)
def _shard_map(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, mesh: Any, in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec], jaxpr: ClosedJaxpr, check_vma: bool, manual_axes: AxisNames,
) -> tuple[Any, Any]:  # fmt: skip
    entry = axis.spmd_name if _divides_lanes(axis, mesh, (*in_specs, *out_specs), jaxpr, manual_axes) else None
    lanes = axis if entry is None else Axis(axis.size // mesh.shape[entry])
    with mesh_axes({a: mesh.shape[a] for a in mesh.axis_names if a in manual_axes}, check_vma):
        b = batch_jaxpr(jaxpr, lanes, tuple(dims))
        body = b.closed
        if entry is not None and check_vma:
            body = _varying(body, entry, [*[False] * len(b.captured), *(d is not None for d in dims)])
        body = _typed(mesh, body, [*b.captured, *operands], manual_axes)
    specs = [_with_entry(s, d, entry) for s, d in zip(in_specs, dims, strict=True)]
    out = shard_map(
        [*b.captured, *operands], mesh=mesh, in_specs=[*[PartitionSpec()] * len(b.captured), *specs],
        out_specs=[_with_entry(s, d, entry) for s, d in zip(out_specs, b.out_dims, strict=True)], jaxpr=body,
        check_vma=check_vma, manual_axes=manual_axes,
    )  # fmt: skip
    return out, b.out_dims

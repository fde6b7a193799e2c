"""shard_map: a function of one device's parts, applied on every device of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..avals import NO_AXES, AxisNames, ShapedArray
from ..jaxpr import ClosedJaxpr
from ..primitive import primitive
from ..sharding import AbstractMesh, AxisName, Mesh, NamedSharding, PartitionSpec, axes_of
from .calls import check_call, nested_effects

Value = Any
AnyMesh = Mesh | AbstractMesh


def parts(mesh: AnyMesh, spec: PartitionSpec, ndim: int) -> list[int]:
    """Into how many parts each dimension is divided. Raises TypeError where the spec is longer than `ndim`."""
    if len(spec) > ndim:
        raise TypeError(f"shard_map: {spec} has {len(spec)} entries for a value of rank {ndim}")
    found = [math.prod(mesh.shape[a] for a in axes_of(e)) for e in spec]
    return [*found, *[1] * (ndim - len(found))]


def shard_aval(mesh: AnyMesh, spec: PartitionSpec, aval: ShapedArray, check_vma: bool) -> ShapedArray:
    """The type of one device's part of a value. Raises TypeError where a dimension does not divide evenly."""
    counts = parts(mesh, spec, aval.ndim)
    if any(n % k for n, k in zip(aval.shape, counts)):
        raise TypeError(f"shard_map: {aval.short()} does not divide evenly by {spec} over {mesh.abstract_mesh}")
    vma = aval.vma.union(spec.axes) if check_vma else aval.vma
    return aval.undivided().update(shape=tuple(n // k for n, k in zip(aval.shape, counts)), vma=vma)


def part_division(mesh: AbstractMesh, aval: ShapedArray, part: ShapedArray) -> ShapedArray:
    """The type of a part with how it is divided along the axes of `mesh` that are explicit still, as the whole is."""
    if aval.division is None or not mesh.explicit_axes:
        return part
    spec = PartitionSpec(*(tuple(a for a in axes_of(e) if a in mesh.explicit_axes) for e in aval.division.spec))
    return part.update(sharding=NamedSharding(mesh, spec))


def unshard_aval(mesh: AnyMesh, spec: PartitionSpec, aval: ShapedArray, manual_axes: AxisNames) -> ShapedArray:
    """The type of a value of which each device holds such a part."""
    counts = parts(mesh, spec, aval.ndim)
    shape = tuple(n * k for n, k in zip(aval.shape, counts))
    sharding = None
    if mesh.explicit_axes:  # along its own axes it is divided as the spec says, along others as the part is
        own = list(map(axes_of, spec)) + [()] * (aval.ndim - len(spec))
        part = [()] * aval.ndim if aval.division is None else list(map(axes_of, aval.division.spec))
        entries = [(*a, *(x for x in b if x not in a)) for a, b in zip(own, part, strict=True)]
        sharding = NamedSharding(mesh, spec.update(partitions=entries))
    return aval.undivided().update(shape=shape, vma=aval.vma - manual_axes, sharding=sharding)


def unmentioned(mesh: AnyMesh, spec: PartitionSpec, manual_axes: AxisNames) -> tuple[AxisName, ...]:
    """The manual axes that divide no dimension, in the mesh's order."""
    used = spec.axes
    return tuple(a for a in mesh.axis_names if a in manual_axes and a not in used)


@primitive("shard_map", multiple_results=True, effects=nested_effects)
def shard_map_p(
    *operands: ShapedArray,
    mesh: AnyMesh,
    in_specs: tuple[PartitionSpec, ...],
    out_specs: tuple[PartitionSpec, ...],
    jaxpr: ClosedJaxpr,
    check_vma: bool,
    manual_axes: frozenset[AxisName],
) -> tuple[ShapedArray, ...]:
    """Apply a jaxpr on each device of a mesh to the device's parts of the operands, and put its results together.

    A spec says which mesh axes divide each dimension. A result whose spec lacks an axis is that of index 0 along it. With
    `check_vma` the types in the jaxpr say along which axes each value varies, so that such a result is known to be equal
    along the axes. The other axes of the mesh than `manual_axes` are the partitioner's.

    Raises:
        TypeError: an operand does not divide evenly, its part has not the type of the jaxpr's input, or (`check_vma`) a
            result varies along an axis that its spec lacks.
    """
    local = [shard_aval(mesh, s, a, check_vma) for s, a in zip(in_specs, operands, strict=True)]
    check_call("shard_map", jaxpr, tuple(local))
    out: list[ShapedArray] = []
    for i, (spec, aval) in enumerate(zip(out_specs, jaxpr.out_avals, strict=True)):
        wrong = aval.vma.intersection(unmentioned(mesh, spec, manual_axes)) if check_vma else NO_AXES
        if wrong:
            raise TypeError(f"shard_map: result {i} varies along {sorted(map(str, wrong))}, which {spec} does not name")
        out.append(unshard_aval(mesh, spec, aval, manual_axes))
    return tuple(out)


def shard_map(
    operands: Sequence[Value],
    *,
    mesh: AnyMesh,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    jaxpr: ClosedJaxpr,
    check_vma: bool,
    manual_axes: frozenset[AxisName],
) -> list[Value]:
    """Bind `shard_map_p`."""
    return shard_map_p.bind(
        *operands, mesh=mesh, in_specs=tuple(in_specs), out_specs=tuple(out_specs), jaxpr=jaxpr, check_vma=check_vma,
        manual_axes=manual_axes,
    )  # fmt: skip

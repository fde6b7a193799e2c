"""Where the results of a program lie whose arguments lie on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from quire.ir.source import current_source, where
from quire.runtime.devices import Device
from quire.runtime.placements import Place, Placement, devices_of, mesh_of, placement_of


def check_together(given: Sequence[tuple[str, Any, Place]]) -> None:
    """Raise ValueError unless all of these values lie on the same devices, in the same order.

    Args:
        given: what each value is called (``argument x of f``), its aval (None for a result), and its place; None: anywhere.
    """
    fixed = [(name, aval, place) for name, aval, place in given if place is not None]
    for name, aval, place in fixed[1:]:
        if place is not fixed[0][2] and devices_of(place) != devices_of(fixed[0][2]):
            first = _described(*fixed[0])
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got {first} and {_described(name, aval, place)}"
                f"{where(current_source())}. Move them to one place with quire.device_put"
            )


def _described(name: str, aval: Any, place: Place) -> str:
    devices = devices_of(place)
    shape = "" if aval is None else f" with shape {aval.dtype.name}[{','.join(map(str, aval.shape))}] and"
    return f"{name}{shape} with device ids {[d.id for d in devices]} on platform {devices[0].platform.upper()}"


def mesh_among(places: Sequence[Place]) -> Mesh | None:
    """The first mesh that some place is on; None where all are single devices."""
    return next((m for p in places if (m := mesh_of(p)) is not None), None)


def spec_of(place: Place, mesh: Mesh) -> PartitionSpec | None:
    """How a value is divided over a mesh; None where nothing is said, or it is divided over another one."""
    return place.sharding.spec if type(place) is Placement and place.sharding.mesh == mesh else None


def even(spec: PartitionSpec, shape: Sequence[int], mesh: Mesh) -> PartitionSpec:
    """The spec without the divisions that are not even, and without trailing entries that say nothing."""
    entries: list[Any] = []
    for entry, n in zip(spec, shape):
        parts = 1
        for a in axes_of(entry):
            parts *= mesh.shape[a]
        entries.append(entry if n % parts == 0 else None)
    while entries and not axes_of(entries[-1]) and not mesh.explicit_axes:  # types have an entry for each dimension
        entries.pop()
    return PartitionSpec(*(e if axes_of(e) else None for e in entries))


def result_places(
    closed: ClosedJaxpr, mesh: Mesh, in_specs: Sequence[PartitionSpec | None], wanted: Sequence[Place | None]
) -> list[Device | Placement]:
    """The place of each result: the one that is wanted, or the one that follows from how the arguments are divided."""
    if all(w is not None for w in wanted):
        return list(wanted)  # type: ignore[arg-type]
    from quire.passes.partition import propagate  # takes its time to import

    if mesh.are_all_axes_explicit:
        return [a if w is None else w for a, w in zip(explicit_places(closed.out_avals, mesh), wanted, strict=True)]
    specs = propagate(closed, mesh, in_specs)
    if mesh.explicit_axes:
        specs = [_with_types(s, a, mesh) for s, a in zip(specs, closed.out_avals, strict=True)]
    return [
        _in_boxes(placement_of(NamedSharding(mesh, even(s, a.shape, mesh))), a.shape) if w is None else w
        for s, a, w in zip(specs, closed.out_avals, wanted, strict=True)
    ]


def explicit_places(avals: Sequence[ShapedArray], mesh: Mesh) -> list[Device | Placement]:
    """The places of results on a mesh of explicit axes, as their types say."""
    return [
        _in_boxes(
            placement_of(
                NamedSharding(mesh, PartitionSpec(*[None] * a.ndim))
                if a.division is None
                else a.division.update(mesh=_named_so(mesh, a.division.mesh))
            ),
            a.shape,
        )
        for a in avals
    ]


def _named_so(mesh: Mesh, axes: Any) -> Mesh:
    """The devices of a mesh under the axes that a part of a program gave them (`use_abstract_mesh`)."""
    if mesh.shape_tuple == axes.shape_tuple:
        return mesh
    return Mesh(mesh.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)


def _with_types(spec: PartitionSpec, aval: ShapedArray, mesh: Mesh) -> PartitionSpec:
    """What was found along axes of type Auto, with what the type says along explicit ones."""
    typed = [()] * aval.ndim if aval.division is None else list(map(axes_of, aval.division.spec))
    found = [axes_of(e) for e in spec]
    found += [()] * (aval.ndim - len(found))
    said = {a for t in typed for a in t}
    entries = [
        (*t, *(a for a in f if a not in mesh.explicit_axes and a not in said))
        for t, f in zip(typed, found, strict=True)
    ]
    return PartitionSpec(*entries)


def _in_boxes(place: Any, shape: tuple[int, ...]) -> Any:
    """The place, if each process holds a contiguous box there; else without the divisions over several axes."""
    if type(place) is not Placement or place.grid is None:
        return place
    try:
        place.box(shape)
    except ValueError:
        spec = PartitionSpec(*(e if len(axes_of(e)) < 2 else None for e in place.sharding.spec))
        return placement_of(place.sharding.update(spec=spec))
    return place


__all__ = ["check_together", "even", "explicit_places", "mesh_among", "result_places", "spec_of"]

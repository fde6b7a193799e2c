"""Where an array lies whose devices are several: a sharding, and the device that simulates them all.

The devices of a process on the CPU are simulated: the array is one buffer that holds the whole of it, and its sharding only says
which part each device would hold. So a program for one device computes what the devices would compute together. Of an array
whose devices are of several processes each process holds its devices' box.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.ranks import Box, RankGrid, rank_grid
from quire.ir.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

from .devices import Device, first_cpu
from .processes.current import process


class Placement:
    """A sharding over several devices, beside the device whose memory holds the array; made by `placement_of`.

    There is one object for equal shardings, so that they are told apart by identity.

    Attributes:
        sharding: how the array is divided.
        base: the device of this process whose memory holds what this process has of it.
        grid: the processes on the mesh; None where all devices are this process'.
        is_host: whether this process' memory holds all of it, whatever its shape.
    """

    __slots__ = ("_boxes", "_explicit", "base", "grid", "is_host", "sharding")
    platform = "cpu"

    def __init__(self, sharding: NamedSharding) -> None:
        self.sharding = sharding
        self.base = first_cpu()
        self.grid: RankGrid | None = None
        mesh: Any = sharding.mesh
        if mesh.is_multi_process:
            self.grid = process_grid(mesh)
        self.is_host = self.grid is None
        self._boxes: dict[tuple[int, ...], Box] = {}
        self._explicit = bool(mesh.explicit_axes)

    def typed(self, aval: ShapedArray) -> ShapedArray:
        """The type of an array that lies here: it says how it is divided along explicit axes."""
        return aval.update(sharding=self.sharding) if self._explicit else aval.undivided()

    def box(self, shape: tuple[int, ...]) -> Box:
        """The part of an array that this process holds.

        Raises:
            ValueError: it is no contiguous box.
        """
        found = self._boxes.get(shape)
        if found is None:
            if self.grid is None:
                found = tuple(slice(0, n) for n in shape)
            else:
                found = self.grid.box(process().rank, self.sharding.spec, shape)
            self._boxes[shape] = found
        return found

    def box_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of that part. Raises as `box` does."""
        return shape if self.grid is None else tuple(s.stop - s.start for s in self.box(shape))

    def __repr__(self) -> str:
        return repr(self.sharding)


def process_grid(mesh: Mesh) -> RankGrid:
    """The processes on a mesh.

    Raises:
        ValueError: the devices of some process are no contiguous box of it, the boxes differ, or this process has none.
    """
    grid = rank_grid(mesh, np.array([d.process_index for d in mesh.devices.flat]))
    here = process().rank
    if here not in grid.positions:
        raise ValueError(
            f"process {here} has no device of {mesh!s}, whose devices are of the processes {sorted(grid.positions)}: a "
            "process can place arrays and run programs on meshes with devices of its own only"
        )
    return grid


Place: TypeAlias = Device | Placement | None
"""What an array knows of where it lies: None for the first CPU device, where nobody asked for it by name."""

_known: dict[NamedSharding, Placement] = {}
_lock = threading.Lock()


def placement_of(sharding: Sharding) -> Device | Placement:
    """Where an array with this sharding lies.

    Raises:
        ValueError: the mesh has no devices, or devices that are not simulated on the CPU.
        TypeError: a sharding of another class.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return next(iter(sharding.device_set))
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"expected a NamedSharding or a SingleDeviceSharding, got {sharding!r}")
    if not isinstance(sharding.mesh, Mesh):
        raise ValueError(
            f"an array cannot be placed by {sharding}: its mesh has no devices, give a quire.sharding.Mesh"
        )
    found = _known.get(sharding)
    if found is None:
        wrong = [d for d in sharding.mesh.devices.flat if d.platform != "cpu"]
        if wrong:
            raise ValueError(
                f"arrays are divided over simulated CPU devices only, and {sharding} has {wrong[0]}: make the mesh of "
                'quire.devices("cpu"), and set QUIRE_NUM_CPU_DEVICES'
            )
        with _lock:
            found = _known.setdefault(sharding, Placement(sharding))
    return found


def sharding_of(place: Place) -> Sharding:
    """The sharding of an array that lies there."""
    if type(place) is Placement:
        return place.sharding
    device: Any = first_cpu() if place is None else place
    return SingleDeviceSharding(device)


def mesh_of(place: Place) -> Mesh | None:
    """The mesh of a place; None where it is one device."""
    return place.sharding.mesh if type(place) is Placement else None  # pyright: ignore[reportReturnType]


def devices_of(place: Place) -> tuple[Any, ...]:
    """The devices of a place, in their order."""
    if type(place) is Placement:
        return tuple(place.sharding.mesh.devices.flat)  # pyright: ignore[reportAttributeAccessIssue]
    return (first_cpu() if place is None else place,)


__all__ = ["Place", "Placement", "devices_of", "mesh_of", "placement_of", "process_grid", "sharding_of"]

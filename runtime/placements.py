"""Where an array lies whose devices are several: a sharding, and the device that simulates them all.

The devices of a process on the CPU are simulated: the array is one buffer that holds the whole of it, and its sharding only says
which part each device would hold. So a program for one device computes what the devices would compute together.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

from quire.ir.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

from .devices import Device, first_cpu


class Placement:
    """A sharding over several devices, beside the device whose memory holds the array; made by `placement_of`.

    There is one object for equal shardings, so that they are told apart by identity.
    """

    __slots__ = ("base", "sharding")
    is_host = True
    platform = "cpu"

    def __init__(self, sharding: NamedSharding) -> None:
        self.sharding = sharding
        self.base = first_cpu()

    def __repr__(self) -> str:
        return repr(self.sharding)


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


__all__ = ["Place", "Placement", "devices_of", "mesh_of", "placement_of", "sharding_of"]

"""Where arrays lie, and where programs run whose arguments name no device."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.primitives.elementwise import copy_p
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer, current_trace
from quire.runtime.array import (
    Array,
    device_view,
    from_box,
    from_numpy,
    from_view,
    host_value,
    memory_of,
    own_device,
    placed,
)
from quire.runtime.devices import Device, devices, local_devices
from quire.runtime.placements import Placement, placement_of
from quire.runtime.processes.communicator import Communicator
from quire.runtime.processes.current import process

from .. import tree_util
from .key_array import is_keys
from .layouts import Format
from .meshes import as_sharding, is_sharding


def as_device(device: Device | str | None) -> Device:
    """A device from a device, the name of a platform, or None for the default.

    The default is that of ``quire.default_device(...)`` or ``config.default_device``, else the platform's first.
    Raises RuntimeError where the platform has no device, TypeError for anything else.
    """
    if device is None:
        device = config.options.default_device
    if device is None:
        return local_devices()[0]
    if isinstance(device, str):
        return local_devices(None, device)[0]
    if isinstance(device, Device):
        return device
    raise TypeError(f"expected a quire.Device or the name of a platform (cpu, vulkan, cuda), got {device!r}")


def place_beside(x: Any, shape: tuple[int, ...]) -> Sharding | None:
    """Where an array of a shape lies that is made like x: as x if that was put somewhere; None for anywhere.

    One of another shape lies on x's device, and is not divided as x is.
    """
    if type(x) is not Array or x._device is None or (type(x._device) is Placement and shape != x.aval.shape):
        return None
    return x.sharding


@reports_memory
def device_put(x: Any, device: Any = None, *, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Copy a pytree of arrays to a device (when None, to the default one what was not put anywhere yet).

    `device` is a `Device`, the name of a platform, a sharding, a `PartitionSpec` on the mesh in force, or a pytree of these,
    whose structure is a prefix of that of x. An array that is there already is returned as it is, unless `may_alias` is
    False: then it is copied.

    Raises:
        IndivisibleError: a dimension is no multiple of the number of parts into which a sharding divides it.
        ValueError: an array has fewer dimensions than its spec entries, a spec is given and no mesh is in force, or `may_alias`
            and `donate` are both True.
    """
    if donate and may_alias:
        raise ValueError(
            "may_alias and donate cannot be True at the same time: the array would be given away, and be that of the result"
        )
    leaves, tree = tree_util.flatten_arrays(x)
    wheres = [device] * len(leaves) if is_sharding(device) else sharding_leaves(device, x, "device_put")
    check_keys(x, wheres, "device_put args")
    out = list(map(_put, leaves, wheres))
    if may_alias is False:
        out = [copy_p.bind(y) if y is leaf and type(y) is Array else y for y, leaf in zip(out, leaves, strict=True)]
    return tree_util.tree_unflatten(tree, out)


def _put(leaf: Any, where: Any) -> Any:
    if isinstance(where, Format):
        where = where.sharding
    if isinstance(where, Sharding | PartitionSpec):
        return put_sharded(leaf, as_sharding(where, "device_put"))
    target = as_device(where)
    if isinstance(leaf, Tracer):
        return copy_p.bind(leaf)
    if type(leaf) is Array and not leaf.is_fully_addressable:
        if where is None:
            return leaf
        raise ValueError(
            "When the second argument to `device_put` is a Device, the first argument must be a fully addressable array or a "
            f"non-addressable array with a single device sharding. Got value with devices {leaf.devices()}"
        )
    if not target.is_local:
        raise ValueError(
            f"device_put: {target} is a device of process {target.process_index}: arrays are put on a process' own devices, "
            "quire.local_devices(), or divided over a mesh"
        )
    aval = aval_of(leaf)
    # One CPU device is where arrays are anyway; among several the user has chosen one.
    place = target if where is not None and len(devices("cpu")) > 1 else own_device(target)
    if type(leaf) is Array:
        if leaf._device is place or where is None and leaf._device is not None:  # where the user put it
            return leaf
        if memory_of(leaf) is target.base:
            return placed(leaf, place)
        return from_view(device_view(leaf, target), aval, place)
    array = from_numpy(_host_copy(leaf, aval), aval, place)
    if not target.is_host:
        device_view(array, target)
    return array


def put_sharded(leaf: Any, sharding: Sharding, what: str = "device_put args") -> Any:
    """An array or traced value with a sharding. Raises as `device_put` does."""
    aval = aval_of(leaf)
    check_divides(sharding, aval.shape, what)
    if isinstance(leaf, Tracer):
        return sharding_constraint(leaf, sharding) if isinstance(sharding, NamedSharding) else copy_p.bind(leaf)
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        if current_trace() is not None:
            return sharding_constraint(leaf, sharding)
        own = leaf._device.sharding.mesh if type(leaf) is Array and type(leaf._device) is Placement else None
        sharding = on_devices(sharding, own) or sharding
    place = placement_of(sharding)
    if type(place) is not Placement:
        return _put(leaf, place)
    if place.grid is not None and (type(leaf) is not Array or leaf.is_fully_addressable):
        return _box_of(leaf, aval, place)
    if type(leaf) is not Array:
        return from_numpy(_host_copy(leaf, aval), aval, place)
    if leaf._device is place:
        return leaf
    if not leaf.is_fully_addressable:
        return _moved(leaf, place)
    if memory_of(leaf) is place.base:
        return placed(leaf, place)
    return from_view(device_view(leaf, place.base), aval, place)


def on_devices(sharding: Any, beside: Any = None) -> Any:
    """A sharding over the axes of a mesh, on the devices of the mesh in force, or of the one `beside`; None where neither fits.

    Other shardings are given back as they are.
    """
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, AbstractMesh):
        return sharding
    for mesh in (config.options.mesh, beside):
        if isinstance(mesh, Mesh) and mesh.shape_tuple == sharding.mesh.shape_tuple:
            if mesh.axis_types != sharding.mesh.axis_types:
                mesh = mesh.update(axis_types=sharding.mesh.axis_types)
            return sharding.update(mesh=mesh)
    return None


def _moved(leaf: Array, place: Placement) -> Any:
    """An array over several processes, divided otherwise: a program moves it."""
    own = leaf._device.sharding
    if place.grid is None or place.sharding.mesh == own.mesh:
        return sharding_constraint(leaf, place.sharding)
    if own.is_equivalent_to(place.sharding, leaf.aval.ndim):
        return placed(leaf, place)
    # A program speaks of one mesh. What each process has whole lies on all meshes.
    whole = sharding_constraint(leaf, own.update(spec=PartitionSpec()))
    return from_box(_host_copy(host_value(whole)[place.box(leaf.aval.shape)], leaf.aval), leaf.aval, place)


def _box_of(leaf: Any, aval: ShapedArray, place: Placement) -> Array:
    """What this process holds of a value that all processes have.

    Raises AssertionError, as JAX does, where they have different ones.
    """
    value = host_value(leaf) if type(leaf) is Array else np.asarray(leaf, aval.dtype)
    same_on_all(value, place, f"{type(leaf)} passed to device_put is not the same on each process. Make sure you are "
                f"passing the same value of {type(leaf)} on each process.")  # fmt: skip
    return from_box(_host_copy(value[place.box(aval.shape)], aval), aval, place)


def same_on_all(value: np.ndarray[Any, Any], place: Placement, message: str) -> None:
    """Raise AssertionError with a message where the processes of a mesh have different values."""
    assert place.grid is not None
    digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    found = processes_of(place).exchange((value.shape, str(value.dtype), digest), "device_put")
    other = next((i for i, f in enumerate(found) if f != found[0]), None)
    if other is not None:
        raise AssertionError(f"{message} Processes {place.grid.ranks[0]} and {place.grid.ranks[other]} differ")


def processes_of(place: Placement) -> Communicator:
    """The processes on the mesh of a place."""
    here = process()
    assert place.grid is not None
    return here.group([here.ranks.index(r) for r in place.grid.ranks])


def _host_copy(leaf: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    value = np.array(leaf, dtype=aval.dtype)
    value.setflags(write=False)
    return value


def check_divides(sharding: Sharding, shape: tuple[int, ...], what: str) -> None:
    """Raise for an array that a sharding does not divide evenly; `what` names the arrays in question.

    Raises:
        IndivisibleError: a dimension is no multiple of the number of its parts.
        ValueError: there are more entries than dimensions.
    """
    if not isinstance(sharding, NamedSharding):
        return
    try:
        sharding.check_compatible_aval(shape)
    except ValueError as error:
        raise ValueError(f"One of {what} is incompatible with its sharding annotation {sharding}: {error}") from None
    sharding.shard_shape(shape)


def check_keys(x: Any, shardings: Sequence[Any], what: str) -> None:
    """Raise ValueError for an array of keys among those of x whose sharding has more entries than the keys have dimensions."""
    for leaf, wanted in zip(tree_util.flatten_arrays(x, is_keys)[0], shardings):
        spec = getattr(wanted, "spec", wanted)
        if is_keys(leaf) and isinstance(spec, PartitionSpec) and len(spec) > leaf.ndim:
            raise ValueError(
                f"One of {what} is incompatible with its sharding annotation {wanted}: it has {len(spec)} entries, and "
                f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}] has {leaf.ndim} dimensions: a key's words are not divided"
            )


def sharding_leaves(prefix: Any, x: Any, what: str) -> list[Any]:
    """A tree prefix of shardings as one for each array of x; None where none is given.

    Raises:
        ValueError: it is no prefix of the structure of x; `what` names the argument.
        TypeError: a leaf is no sharding.
    """
    for leaf in tree_util.tree_leaves(prefix, is_leaf=is_sharding):
        if not is_sharding(leaf):
            as_sharding(leaf, what)
    try:
        return tree_util.broadcast_prefix(prefix, x, tree_util.flatten_arrays)
    except ValueError as error:
        where = next(tree_util.structure_differences(prefix, x), None)
        at = f" at {where[0] or 'the root'}: {where[1]}" if where else f": {error}"
        raise ValueError(
            f"{what}: the structure of the shardings is no prefix of that of the values; they differ{at}"
        ) from None


def device_get(x: Any) -> Any:
    """Copy a pytree of arrays to host memory, as NumPy arrays. Python's numbers stay what they are."""
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, list(map(_fetched, leaves)))


def _fetched(leaf: Any) -> Any:
    if type(leaf) is Array:
        return host_value(leaf)
    return leaf if type(leaf) in (bool, int, float, complex) else np.asarray(leaf)


def copy_to_host_async(x: Any) -> Any:
    """Start the copies of a pytree's arrays to the host; returns it. What else it holds is left alone."""
    for leaf in tree_util.flatten_arrays(x)[0]:
        start = getattr(leaf, "copy_to_host_async", None)
        if start is not None:
            start()
    return x


@contextmanager
def default_device(device: Device | str | None) -> Generator[None]:
    """Run programs on this device for a block, where their arguments name no device.

    ``config.update("default_device", device)`` does so for the whole process.
    """
    with config.override(default_device=None if device is None else as_device(device)):
        yield


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed; returns it. (Programs run to their end when they are called.)"""
    tree_util.flatten_arrays(x)
    return x

"""Values of several processes: brought together, compared, sent to all (`jax.experimental.multihost_utils`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.ranks import RankGrid
from quire.ir.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from quire.runtime.array import Array, from_box, from_numpy, host_value, local_value
from quire.runtime.placements import Placement, placement_of
from quire.runtime.processes.current import process

from .. import tree_util
from ..arrays.placement import processes_of


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes, as NumPy arrays on each.

    Args:
        in_tree: arrays. Of what a process alone knows, the processes' values are put together along a new dimension 0, or
            (tiled) joined along dimension 0. An array over several processes is fetched whole.
        tiled: see there.

    Raises ValueError for an array over several processes without `tiled`.
    """
    return _map(lambda x: _gathered(x, tiled), in_tree)


def _gathered(x: Any, tiled: bool) -> np.ndarray[Any, Any]:
    if type(x) is Array and not x.is_fully_addressable:
        if not tiled:
            raise ValueError("Gathering global non-fully-addressable arrays only supports tiled=True")
        return _fetched(x)
    here = process()
    value = _host(x)
    parts = np.empty((here.size, *value.shape), value.dtype)
    here.all_gather(np.ascontiguousarray(value), parts)
    if not tiled:
        return parts if here.size > 1 else value[None]
    return np.concatenate(list(parts) if value.ndim else [parts])


def _fetched(x: Array) -> np.ndarray[Any, Any]:
    """All elements of an array over several processes."""
    place: Any = x._device
    grid: RankGrid = place.grid
    box = np.ascontiguousarray(local_value(x)).reshape(place.box_shape(x.aval.shape))
    parts = np.empty((len(grid.ranks), *box.shape), box.dtype)
    processes_of(place).all_gather(box, parts)
    out = np.empty(x.aval.shape, x.aval.dtype)
    for i, rank in enumerate(grid.ranks):
        out[grid.box(rank, place.sharding.spec, x.aval.shape)] = parts[i]
    return out


def _host(x: Any) -> np.ndarray[Any, Any]:
    return host_value(x) if type(x) is Array else np.asarray(x, aval_of(x).dtype)


def _map(f: Any, tree: Any) -> Any:
    leaves, structure = tree_util.flatten_arrays(tree)
    return tree_util.tree_unflatten(structure, [f(x) for x in leaves])


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process, as NumPy arrays on all.

    Args:
        in_tree: arrays, of the same shapes and dtypes on every process.
        is_source: whether they are this process' values that all get; None: those of process 0.

    Raises ValueError unless one process is the source.
    """
    here = process()
    sources = here.exchange(here.rank == 0 if is_source is None else bool(is_source), "broadcast_one_to_all")
    if sum(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all: one process must be the source, got is_source={sources} on the processes"
        )

    def one(x: Any) -> np.ndarray[Any, Any]:
        value = np.ascontiguousarray(_host(x)).reshape(np.shape(x))
        out = np.empty_like(value)
        here.broadcast(value, out, sources.index(True))
        return out

    return _map(one, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    Raises AssertionError where they are at different names.
    """
    found = process().exchange(name, "sync_global_devices")
    if any(n != name for n in found):
        raise AssertionError(f"sync_global_devices name mismatch ('{name}'): the processes are at {found}")


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have equal values."""
    here = process()
    values = [_host(x) for x in tree_util.flatten_arrays(in_tree)[0]]
    for i, value in enumerate(values):
        found = here.exchange(value, "assert_equal")
        for rank, other in enumerate(found):
            if other.shape != found[0].shape or not np.array_equal(other, found[0], equal_nan=value.dtype.kind in "fc"):
                raise AssertionError(
                    f"{fail_message}. Expected: {found[0]}; got: {found[rank]} on process {rank} (leaf {i})."
                )


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over all devices of a mesh, of which each process gives its part.

    Args:
        local_inputs: what this process has: along what a spec divides, the parts of its devices; the whole else.
        global_mesh: the devices.
        pspecs: how the arrays are divided: a pytree prefix of PartitionSpecs.

    Raises ValueError where the parts of a process are no contiguous box.
    """
    return _with_specs(lambda x, place: _global(x, place), local_inputs, global_mesh, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """What this process holds of arrays over all devices of a mesh: the reverse of `host_local_array_to_global_array`."""
    from ..arrays.placement import device_put

    def local(x: Any, place: Placement) -> Array:
        value = local_value(device_put(x, place.sharding))
        return from_numpy(value, ShapedArray(value.shape, value.dtype))

    return _with_specs(local, global_inputs, global_mesh, pspecs)


def _with_specs(f: Any, tree: Any, mesh: Mesh, pspecs: Any) -> Any:
    leaves, structure = tree_util.flatten_arrays(tree)
    indices = tree_util.tree_unflatten(structure, list(range(len(leaves))))
    specs = tree_util.tree_leaves(tree_util.tree_broadcast(pspecs, indices, is_leaf=_is_spec), is_leaf=_is_spec)
    places: list[Any] = [placement_of(NamedSharding(mesh, s or PartitionSpec())) for s in specs]
    return tree_util.tree_unflatten(structure, [f(x, p) for x, p in zip(leaves, places, strict=True)])


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _global(x: Any, place: Placement) -> Array:
    value = np.array(_host(x))
    value.setflags(write=False)
    grid = place.grid
    if grid is None:
        return from_numpy(value, ShapedArray(value.shape, value.dtype), place)
    shape = list(value.shape)
    for d, entry in enumerate(place.sharding.spec):
        shape[d] *= math.prod(grid.outer_size(a) for a in axes_of(entry))
    place.sharding.shard_shape(shape)
    place.box(tuple(shape))
    return from_box(value, ShapedArray(tuple(shape), value.dtype), place)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the machine is about to be taken away and all processes are to save at this step: nothing tells of that here.

    Follows `jax.experimental.multihost_utils.reached_preemption_sync_point`.
    """
    return False


__all__ = ["reached_preemption_sync_point", 
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
    "process_allgather", "sync_global_devices",
]  # fmt: skip

"""Arrays put together of their devices' parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import UnexpectedTracerError
from quire.ir.sharding import Sharding, axes_of
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_box, from_numpy, host_value
from quire.runtime.placements import Placement, devices_of, placement_of

from .. import tree_util
from .key_array import PRNGKeyArray, is_keys
from .meshes import as_sharding, is_sharding


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[tuple[slice, ...]], Any], dtype: Any = None
) -> Any:
    """An array whose parts a function gives (`jax.make_array_from_callback`).

    Args:
        shape: of the whole array.
        sharding: which part each device holds; a PartitionSpec on the mesh in force.
        data_callback: takes the part's index, a slice for each dimension, and gives its elements, or keys. It is called once for each
            different part.
        dtype: that of the parts, or None.

    Raises:
        IndivisibleError: a dimension does not divide evenly.
        ValueError: a part has another shape than the sharding says, or another dtype than is given.
        UnexpectedTracerError: a part is a traced value, since arrays are made outside of transformed functions.
    """
    whole = tuple(int(n) for n in shape)
    wanted = as_sharding(sharding, "make_array_from_callback")
    parts: dict[Any, Any] = {}
    found: list[Any] = []
    for index in wanted.addressable_devices_indices_map(whole).values():
        key = tuple((s.start, s.stop) for s in index)
        if key not in parts:
            part = data_callback(index)
            if isinstance(part, Tracer):
                raise UnexpectedTracerError(
                    "jax.make_array_from_callback cannot be called within a traced context: expected the part's elements of "
                    f"data_callback, got the traced value {part.aval.short()}. Use quire.lax.with_sharding_constraint there"
                )
            parts[key] = part
        found.append(parts[key])
    return _assembled(whole, wanted, found, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """An array of the parts that its devices hold already (`jax.make_array_from_single_device_arrays`).

    Args:
        shape: of the whole array.
        sharding: which part each device holds.
        arrays: one on each device of the sharding, in any order.
        dtype: that of the parts, or None.

    Raises:
        IndivisibleError: a dimension does not divide evenly.
        ValueError: there is not one array on each device, or one has another shape than the
            sharding says, or another dtype than is given, or is a traced value.
        TypeError: `arrays` is no sequence.
    """
    whole = tuple(int(n) for n in shape)
    if not isinstance(arrays, Sequence):
        raise TypeError(f"make_array_from_single_device_arrays: arrays must be a list or a tuple, got {type(arrays)}")
    wanted = as_sharding(sharding, "make_array_from_single_device_arrays")
    order = [d for d in devices_of(placement_of(wanted)) if d.is_local]
    if len(arrays) != len(order):
        raise ValueError(
            f"Expected {len(order)} per-device arrays (this is how many devices are addressable by the sharding), but got "
            f"{len(arrays)}"
        )
    traced = [a.aval.short() for a in arrays if isinstance(a, Tracer)]
    if traced:
        raise ValueError(
            f"jax.make_array_from_single_device_arrays requires a list of concrete arrays, got traced values {', '.join(traced)}: "
            "inside of a transformed function use quire.lax.with_sharding_constraint"
        )
    by_device = {a.device: a for a in arrays if len(a.devices()) == 1}
    if len(by_device) != len(arrays):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from distinct devices, but got device "
            f"IDs {[sorted(d.id for d in a.devices()) if len(a.devices()) > 1 else a.device.id for a in arrays]}"
        )
    if set(by_device) != set(order):
        raise ValueError(
            f"make_array_from_single_device_arrays: expected arrays on the devices {sorted(d.id for d in order)}, got "
            f"{sorted(d.id for d in by_device)}"
        )
    return _assembled(whole, wanted, [by_device[d] for d in wanted.addressable_devices_indices_map(whole)], dtype)


@dataclass(frozen=True)
class _Shape:
    """A shape as a leaf of a tree."""

    sizes: Sequence[int | None]


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Arrays of what each process holds of them; with one process, all (`jax.make_array_from_process_local_data`).

    Args:
        sharding: which part each device holds, or a tree of these whose structure is a prefix of that of the data.
        local_data: an array, or a tree of arrays.
        global_shape: the whole array's shape, or a tree of shapes likewise; None where the data tell it.

    Raises ValueError where `global_shape` is another than that of the data, or is for other data, and as `device_put` does.
    """
    from .placement import sharding_leaves

    name = "make_array_from_process_local_data"
    leaves, tree = tree_util.tree_flatten(local_data)
    given = tree_util.tree_map(_Shape, global_shape, is_leaf=lambda x: type(x) in (tuple, list))
    shapes = [s and s.sizes for s in tree_util.broadcast_prefix(given, local_data)]
    wheres = [sharding] * len(leaves) if is_sharding(sharding) else sharding_leaves(sharding, local_data, name)
    made = [_from_local(as_sharding(w, name), x, n) for w, x, n in zip(wheres, leaves, shapes, strict=True)]
    return tree_util.tree_unflatten(tree, made)


def _from_local(sharding: Any, local_data: Any, global_shape: Any) -> Array:
    from .placement import put_sharded

    shape = aval_of(local_data).shape
    place = placement_of(sharding)
    if type(place) is Placement and place.grid is not None:
        return _of_processes(local_data, place, global_shape)
    if global_shape is not None and tuple(global_shape) != shape:
        raise ValueError(
            "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or equal to "
            f"local_data.shape. Got global_shape={tuple(global_shape)} and local_data.shape={shape}."
        )
    return put_sharded(local_data, sharding)


def _of_processes(local_data: Any, place: Placement, global_shape: Any) -> Array:
    """An array over several processes, of which this one gives its box, or (of that shape) the whole.

    A dimension of `global_shape` that is None is as large as the processes' boxes together.
    """
    value = host_value(local_data) if type(local_data) is Array else np.array(local_data, aval_of(local_data).dtype)
    entries = [*place.sharding.spec, *[None] * (value.ndim - len(place.sharding.spec))]
    outer = [math.prod(place.grid.outer_size(a) for a in axes_of(e)) for e in entries] if place.grid else []
    given = [None] * value.ndim if global_shape is None else list(global_shape)
    if len(given) != value.ndim:
        raise ValueError(
            f"make_array_from_process_local_data: global_shape={tuple(given)} has another number of dimensions than the local "
            f"data, of shape {value.shape}"
        )
    shape = tuple(n * k if g is None else int(g) for n, k, g in zip(value.shape, outer, given))
    place.sharding.shard_shape(shape)
    box = place.box(shape)
    if value.shape == shape:
        value = value[box]
    wanted = tuple(b.stop - b.start for b in box)
    if value.shape != wanted:
        raise ValueError(
            f"make_array_from_process_local_data: of global_shape={shape} divided as {place.sharding.spec} this process holds "
            f"{wanted}, got local data of shape {value.shape}"
        )
    value = np.array(value)
    value.setflags(write=False)
    return from_box(value, ShapedArray(shape, value.dtype), place)


def _assembled(shape: tuple[int, ...], sharding: Sharding, parts: Sequence[Any], dtype: Any) -> Any:
    """The whole of this process' parts, in the order of the sharding's devices."""
    if is_keys(parts[0]):
        if dtype is not None and dtype != parts[0].dtype:
            raise ValueError(
                f"make_array: if dtype is given, it must match the dtype of the parts, {parts[0].dtype}; got {dtype}"
            )
        words = [x.base for x in parts]
        return PRNGKeyArray(_assembled((*shape, words[0].shape[-1]), sharding, words, None), parts[0].impl)
    local = sharding.shard_shape(shape)
    values = [host_value(x) if type(x) is Array else np.asarray(x) for x in parts]
    kind = dtypes.canonicalize(values[0].dtype)
    if dtype is not None and dtypes.canonicalize(dtypes.as_dtype(dtype)) != kind:
        raise ValueError(
            f"make_array: if dtype is given, it must match the dtype of the parts. Got dtype={dtypes.as_dtype(dtype)} and "
            f"shard dtype={kind}"
        )
    aval = ShapedArray(shape, kind)
    place = placement_of(sharding)
    box = place.box(shape) if type(place) is Placement else tuple(slice(0, n) for n in shape)
    held = np.empty([b.stop - b.start for b in box], kind)
    for value, index in zip(values, sharding.addressable_devices_indices_map(shape).values(), strict=True):
        if value.shape != local:
            raise ValueError(
                f"Expected shard shape {local} doesn't match the single device array shape {value.shape}. Shape of Array is "
                f"{kind}{list(shape)} with sharding {sharding}"
            )
        starts = [s.indices(n)[:2] for s, n in zip(index, shape)]
        held[tuple(slice(i - b.start, j - b.start) for (i, j), b in zip(starts, box))] = value
    held.setflags(write=False)
    return from_box(held, aval, place) if type(place) is Placement else from_numpy(held, aval, place)


__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays"]

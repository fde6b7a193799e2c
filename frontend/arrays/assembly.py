"""Arrays put together of their devices' parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.sharding import Sharding
from quire.runtime.array import Array, from_numpy, host_value
from quire.runtime.placements import devices_of, placement_of

from .meshes import as_sharding


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[tuple[slice, ...]], Any], dtype: Any = None
) -> Array:
    """An array whose parts a function gives (`jax.make_array_from_callback`).

    Args:
        shape: of the whole array.
        sharding: which part each device holds; a PartitionSpec on the mesh in force.
        data_callback: takes the part's index, a slice for each dimension, and gives its elements. It is called once for each
            different part.
        dtype: that of the parts, or None.

    Raises:
        IndivisibleError: a dimension does not divide evenly.
        ValueError: a part has another shape than the sharding says, or another dtype than is given.
    """
    whole = tuple(int(n) for n in shape)
    wanted = as_sharding(sharding, "make_array_from_callback")
    parts: dict[Any, Any] = {}
    found: list[Any] = []
    for index in wanted.devices_indices_map(whole).values():
        key = tuple((s.start, s.stop) for s in index)
        if key not in parts:
            parts[key] = data_callback(index)
        found.append(parts[key])
    return _assembled(whole, wanted, found, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array of the parts that its devices hold already (`jax.make_array_from_single_device_arrays`).

    Args:
        shape: of the whole array.
        sharding: which part each device holds.
        arrays: one on each device of the sharding, in any order.
        dtype: that of the parts, or None.

    Raises:
        IndivisibleError: a dimension does not divide evenly.
        ValueError: there is not one array on each device, or one has another shape than the
            sharding says, or another dtype than is given.
        TypeError: `arrays` is no sequence.
    """
    whole = tuple(int(n) for n in shape)
    if not isinstance(arrays, Sequence):
        raise TypeError(f"make_array_from_single_device_arrays: arrays must be a list or a tuple, got {type(arrays)}")
    wanted = as_sharding(sharding, "make_array_from_single_device_arrays")
    order = devices_of(placement_of(wanted))
    if len(arrays) != len(order):
        raise ValueError(
            f"Expected {len(order)} per-device arrays (this is how many devices are addressable by the sharding), but got "
            f"{len(arrays)}"
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
    return _assembled(whole, wanted, [by_device[d] for d in wanted.devices_indices_map(whole)], dtype)


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Array:
    """An array of what each process holds of it; with one process, all (`jax.make_array_from_process_local_data`).

    Raises ValueError where `global_shape` is another than that of the data, and as `device_put` does.
    """
    from .placement import put_sharded

    shape = aval_of(local_data).shape
    if global_shape is not None and tuple(global_shape) != shape:
        raise ValueError(
            "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or equal to "
            f"local_data.shape. Got global_shape={tuple(global_shape)} and local_data.shape={shape}."
        )
    return put_sharded(local_data, as_sharding(sharding, "make_array_from_process_local_data"))


def _assembled(shape: tuple[int, ...], sharding: Sharding, parts: Sequence[Any], dtype: Any) -> Array:
    """The whole of parts in the order of the sharding's devices."""
    local = sharding.shard_shape(shape)
    values = [host_value(x) if type(x) is Array else np.asarray(x) for x in parts]
    kind = dtypes.canonicalize(values[0].dtype)
    if dtype is not None and dtypes.canonicalize(dtypes.as_dtype(dtype)) != kind:
        raise ValueError(
            f"make_array: if dtype is given, it must match the dtype of the parts. Got dtype={dtypes.as_dtype(dtype)} and "
            f"shard dtype={kind}"
        )
    aval = ShapedArray(shape, kind)
    whole = np.empty(shape, kind)
    for value, index in zip(values, sharding.devices_indices_map(shape).values(), strict=True):
        if value.shape != local:
            raise ValueError(
                f"Expected shard shape {local} doesn't match the single device array shape {value.shape}. Shape of Array is "
                f"{kind}{list(shape)} with sharding {sharding}"
            )
        whole[index] = value
    whole.setflags(write=False)
    return from_numpy(whole, aval, placement_of(sharding))


__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays"]

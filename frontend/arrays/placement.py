"""Where arrays lie, and where programs run whose arguments name no device."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.primitives.elementwise import copy_p
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, device_of, device_view, from_numpy, from_view, host_value, own_device
from quire.runtime.devices import Device, devices

from .. import tree_util


def as_device(device: Device | str | None) -> Device:
    """A device from a device, the name of a platform, or None for the default.

    The default is that of ``quire.default_device(...)`` or ``config.default_device``, else the platform's first.
    Raises RuntimeError where the platform has no device, TypeError for anything else.
    """
    if device is None:
        device = config.options.default_device
    if device is None:
        return devices()[0]
    if isinstance(device, str):
        return devices(device)[0]
    if isinstance(device, Device):
        return device
    raise TypeError(f"expected a quire.Device or the name of a platform (cpu, vulkan, cuda), got {device!r}")


@reports_memory
def device_put(x: Any, device: Any = None, *, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Copy a pytree of arrays to a device (the default one when None).

    `device` is a `Device` or the name of a platform. An array that is there already is returned as it is.
    """
    target = as_device(device)

    def put(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
            return copy_p.bind(leaf)
        aval = aval_of(leaf)
        if type(leaf) is Array:
            if device_of(leaf) is target:
                return leaf
            return from_view(device_view(leaf, target), aval, own_device(target))
        value = np.array(leaf, dtype=aval.dtype)
        value.setflags(write=False)
        array = from_numpy(value, aval, own_device(target))
        if not target.is_host:
            device_view(array, target)
        return array

    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [put(leaf) for leaf in leaves])


def device_get(x: Any) -> Any:
    """Copy a pytree of arrays to host memory, as NumPy arrays."""
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(
        tree, [host_value(leaf) if type(leaf) is Array else np.asarray(leaf) for leaf in leaves]
    )


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

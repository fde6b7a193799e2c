"""`Array`: an immutable n-dimensional array, in host memory or on a device.

Two representations, made from each other on demand and without a copy where the memory is shared (CPU): a NumPy array
and a HAL buffer view. The operators and methods of NumPy are attached by `quire` (frontend/operators.py), to this
class and to the tracer alike.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from quire.ir.avals import ShapedArray

from . import buffers
from .buffers import to_numpy
from .devices import Device, devices


class Array:
    """An immutable array of one dtype.

    Make one with `quire.numpy.array`, `quire.device_put`, or as the result of an operation; not with this class.
    """

    __slots__ = ("aval", "_signature", "_host", "_view", "_device", "_shared", "__weakref__")
    aval: ShapedArray
    # What a compiled function's variants are told apart by: the aval, for a device other than the default CPU the
    # pair (aval, device). Compared by identity or hash: kept beside the value to be looked up without any work.
    _signature: Any
    _host: np.ndarray[Any, Any] | None  # the elements as a read-only NumPy array
    _view: Any | None  # the elements as a HAL buffer view
    _device: Any  # a runtime Device; None for the default CPU device
    _shared: bool  # whether another Array may hold the same buffer: then it cannot be donated
    __array_priority__ = 100

    def __init__(self) -> None:
        raise TypeError("quire.Array is not made by calling it: use quire.numpy.array or quire.device_put")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type


_new = object.__new__


def from_numpy(value: np.ndarray[Any, Any], aval: ShapedArray, device: Any = None) -> Array:
    """An Array of a NumPy array that nobody writes any more; dtype and shape are the aval's."""
    self = _new(Array)
    self.aval = aval
    self._signature = aval if device is None else (aval, device)
    self._host = value
    self._view = None
    self._device = device
    self._shared = False
    return self


def from_view(view: Any, aval: ShapedArray, device: Any = None) -> Array:
    """An Array of a HAL buffer view."""
    self = _new(Array)
    self.aval = aval
    self._signature = aval if device is None else (aval, device)
    self._host = None
    self._view = view
    self._device = device
    self._shared = False
    return self


def default_device() -> Device:
    """The device that `_device` None means: the first CPU device."""
    return devices("cpu")[0]


def device_of(a: Array) -> Device:
    """Where the array lives."""
    return default_device() if a._device is None else a._device


def own_device(device: Device) -> Device | None:
    """How an array on this device says so: None on the first CPU device."""
    return None if device is default_device() else device


def host_value(a: Array) -> np.ndarray[Any, Any]:
    """The elements as a read-only NumPy array; the same memory on the CPU, fetched once from other devices.

    Raises RuntimeError if the array was donated or deleted.
    """
    host = a._host
    if host is None:
        if a._view is None:
            raise_deleted(a)
        host = a._host = to_numpy(a._view, device_of(a), a.aval.dtype, a.aval.shape)
    return host


def device_view(a: Array, device: Device) -> Any:
    """The elements as a buffer view on `device`, kept for later calls where that is the array's own device."""
    own = device_of(a)
    if a._view is not None and own is device:
        return a._view
    if a._host is None and a._view is None:
        raise_deleted(a)
    view = from_host(host_value(a), device)
    if own is device:
        a._view = view
    return view


def from_host(value: np.ndarray[Any, Any], device: Device) -> Any:
    """A buffer view of a NumPy array."""
    return buffers.from_numpy(value, device)


def raise_deleted(a: Array) -> NoReturn:
    """Raise the error of an array whose memory was given away."""
    raise RuntimeError(
        f"this array, {a.aval.short()}, has no memory any more: it was donated to a compiled function (donate_argnums) "
        "or deleted; use the function's result, or do not donate it"
    )


def is_deleted(a: Array) -> bool:
    """Whether the array was donated or deleted."""
    return a._host is None and a._view is None


def delete(a: Array) -> None:
    """Give the memory away."""
    a._host = a._view = None

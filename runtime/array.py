"""`Array`: an immutable n-dimensional array, in host memory or on a device.

Two representations, made from each other on demand and without a copy where the memory is shared (CPU): a NumPy array
and a HAL buffer view. The operators and methods of NumPy are attached by `quire` (frontend/operators.py), to this
class and to the tracer alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from quire.ir.avals import ShapedArray


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

"""`Array`: an immutable n-dimensional array, in host memory or on a device.

Two representations, made from each other on demand and without a copy where the memory is shared (CPU): a NumPy array
and a HAL buffer view. This file holds what needs the memory itself: conversions to Python and NumPy, the protocols,
copies and printing. The operators and methods that compute are attached by `quire` (frontend/numpy/operators.py), to this
class and to the tracer alike.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import HasAval, ShapedArray
from quire.ir.sharding import Sharding

from . import buffers
from .buffers import COPY_BELOW, shares_memory, to_numpy
from .devices import Device, first_cpu
from .placements import Placement, devices_of, sharding_of
from .shards import Shard, shards_of

Host = np.ndarray[Any, Any]


class Array(HasAval):
    """An immutable array of one dtype.

    Make one with `quire.numpy.array`, `quire.device_put`, or as the result of an operation; not with this class.
    """

    __slots__ = ("aval", "_signature", "_host", "_view", "_device", "_shared", "__weakref__")
    aval: ShapedArray
    # What a compiled function's variants are told apart by: the aval, for a device other than the default CPU the
    # pair (aval, device). Compared by identity or hash: kept beside the value to be looked up without any work.
    _signature: Any
    _host: Host | None  # the elements as a NumPy array that nobody writes
    _view: Any | None  # the elements as a HAL buffer view
    _device: Any  # a Device, or a Placement over several; None for the default CPU device
    _shared: bool  # whether another Array may hold the same buffer: then it cannot be donated
    __array_priority__ = 100

    def __init__(self) -> None:
        raise TypeError("quire.Array is not made by calling it: use quire.numpy.array or quire.device_put")

    # -- facts ----------------------------------------------------------------------------------------------------

    def on_device_size_in_bytes(self) -> int:
        """The bytes that the elements take in memory."""
        return self.aval.nbytes

    # -- place ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        """The device that holds the elements; of an array on several devices its sharding."""
        return self._device.sharding if type(self._device) is Placement else device_of(self)

    @property
    def sharding(self) -> Sharding:
        """Which part of the array each device holds."""
        return sharding_of(self._device)

    def devices(self) -> set[Any]:
        """The set of devices that hold the elements."""
        return set(devices_of(self._device))

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device explicitly."""
        return self._device is not None

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices of the array are this process'."""
        return type(self._device) is not Placement or self._device.grid is None

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of the array's devices holds all of the elements."""
        return type(self._device) is not Placement or self._device.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array on the devices of this process."""
        return [s for s in self.global_shards if s.device.is_local]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on all of its devices; those of other processes have no data."""
        self._check_alive()
        return shards_of(self.sharding, self.aval.shape, functools.partial(part_of, self))

    def addressable_data(self, index: int) -> Array:
        """The part of the array on its `index`-th device of this process. Raises IndexError where there are not so many."""
        self._check_alive()
        devices = [d for d in devices_of(self._device) if d.is_local]
        if not -len(devices) <= index < len(devices):
            raise IndexError(
                f"Array.addressable_data: index {index} is out of range, the array lies on {len(devices)} "
                f"device{'s' * (len(devices) > 1)} of this process"
            )
        if type(self._device) is not Placement:
            return self
        device, part = list(self.sharding.addressable_devices_indices_map(self.aval.shape).items())[index]
        data = part_of(self, device, part)
        assert data is not None, "devices of this process only"
        return data

    def block_until_ready(self) -> Array:
        """Wait until the elements have been computed; returns the array."""
        if self._device is None or self._device.base.is_host:  # calls return when they are done
            self._check_alive()
        else:
            host_value(self)
        return self

    def is_ready(self) -> bool:
        """Whether the elements have been computed."""
        self._check_alive()
        return True

    def copy_to_host_async(self) -> None:
        """Start the copy of the elements to the host; on the CPU there is none to make."""
        self._check_alive()

    def delete(self) -> None:
        """Free the memory now. Any later use of the array raises RuntimeError."""
        self._host = self._view = None

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated."""
        return self._host is None and self._view is None

    def _check_alive(self) -> None:
        if self._host is None and self._view is None:
            raise_deleted(self)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements in host memory; valid as long as the array lives."""
        device = device_of(self)
        if device.is_host:
            device_view(self, device)  # a call that takes the array must not move its elements afterwards
        return int(host_value(self).ctypes.data)

    # -- conversions to Python and NumPy ----------------------------------------------------------------------------

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            if self.aval.size == 0:
                raise ValueError(
                    "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
                )
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(host_value(self).reshape(())[()])

    def __int__(self) -> int:
        return int(_scalar(self, real="int"))

    def __float__(self) -> float:
        return float(_scalar(self, real="float"))

    def __complex__(self) -> complex:
        return complex(_scalar(self))

    def __index__(self) -> int:
        if self.aval.ndim or self.aval.dtype.kind not in "iu":
            raise TypeError(f"Only integer scalar arrays can be converted to a scalar index, got {self.aval.short()}")
        return int(host_value(self)[()])

    # Python then says that arrays are not `collections.abc.Hashable`, by which libraries tell static values from arrays.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object: the array is 0-dimensional")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Any]:
        aval = self.aval
        if not aval.shape:
            raise TypeError("iteration over a 0-d array")
        if type(self._device) is Placement and self.is_fully_replicated:  # each row is where the array is
            whole: Any = self
            return iter([whole[i] for i in range(aval.shape[0])])
        value = host_value(self)
        row = ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)
        place = None if type(self._device) is Placement else self._device
        return iter([from_numpy(value[i, ...], row, place) for i in range(aval.shape[0])])

    def __reversed__(self) -> Iterator[Any]:
        return iter(list(self)[::-1])

    def item(self, *args: Any) -> Any:
        """The only element, or the one at the given index, as a Python scalar.

        Raises ValueError for an array of several elements, or of none, and no index; IndexError for an index outside it.
        """
        if not args and self.aval.size != 1:
            raise ValueError(f"can only convert an array of size 1 to a Python scalar, got {self.aval.short()}")
        return host_value(self).item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return host_value(self).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements' bytes in row-major order."""
        return host_value(self).tobytes(order)

    def __format__(self, spec: str) -> str:
        if not self.aval.shape:
            return format(host_value(self)[()], spec)
        return format(host_value(self), spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Host:
        value = host_value(self)
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"cannot convert {self.aval.short()} to {np.dtype(dtype)} without a copy")
            return value.astype(dtype)
        return value.copy() if copy else _read_only(value)

    @property
    def __numpy_dtype__(self) -> Any:  # what np.dtype(x) asks for, from NumPy 2.4 on
        text = (
            "Implicit conversion of an array to a dtype is deprecated; rather than dtype=arr use dtype=arr.dtype, here "
            f"dtype={self.aval.dtype.name!r}"
        )
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.aval.dtype

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # An AttributeError makes NumPy take __array__: other platforms' dtypes have no code in this protocol.
        if self.aval.dtype.kind not in "biufc" or self.aval.dtype in dtypes.NARROW:
            raise AttributeError(f"dtype {self.aval.dtype} has no __array_interface__")
        value = host_value(self)
        if not value.flags.c_contiguous:
            raise AttributeError("elements with strides have no __array_interface__: use __array__")
        # The memory is given as an object, which NumPy then keeps: of an address it would keep this Array, whose memory
        # may be another one later (it is deleted, donated, or taken by a compiled function).
        return {**value.__array_interface__, "data": _read_only(value)}

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later (PEP 688)
        if self.aval.dtype.kind not in "biufc" or self.aval.dtype in dtypes.NARROW:
            raise BufferError(f"dtype {self.aval.dtype} has no code in the buffer protocol")
        if flags & 1:
            raise BufferError("quire.Array is immutable: a writable buffer of it cannot be had")
        host: Any = host_value(self)
        return memoryview(host).toreadonly()

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._device is not None and not self._device.is_host:
            raise BufferError(f"arrays on {self._device} have no DLPack form: put the array on the CPU first")
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array as a DLPack capsule: the same memory, which the consumer must not write."""
        self.__dlpack_device__()
        if self.aval.dtype.kind not in "biufc" or self.aval.dtype in dtypes.NARROW:
            raise BufferError(f"dtype {self.aval.dtype} has no DLPack form here: convert it to float32 first")
        value = host_value(self)
        if copy:
            value = value.copy()
        elif max_version is None or max_version[0] < 1:
            value = _writable_alias(value)  # before version 1.0 the protocol could not say "read-only"
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    # -- copies -----------------------------------------------------------------------------------------------------

    def copy(self) -> Array:
        """A copy in memory of its own; of an array of several processes each copies what it holds."""
        if not holds_all(self):
            return from_box(local_value(self).copy(), self.aval, self._device)
        return from_numpy(host_value(self).copy(), self.aval, self._device)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickle, (np.array(host_value(self)), self.aval.weak_type))

    # -- printing ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return _text(self)

    def __str__(self) -> str:
        return str(host_value(self)) if holds_all(self) else _text(self)


_new = object.__new__


def from_numpy(value: np.ndarray[Any, Any], aval: ShapedArray, device: Any = None) -> Array:
    """An Array of a NumPy array that nobody writes any more; dtype and shape are the aval's."""
    self = _new(Array)
    if type(device) is Placement:
        aval = device.typed(aval)
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
    if type(device) is Placement:
        aval = device.typed(aval)
    self.aval = aval
    self._signature = aval if device is None else (aval, device)
    self._host = None
    self._view = view
    self._device = device
    self._shared = False
    return self


default_device = first_cpu  # the device that `_device` None means


def device_of(a: Array) -> Device:
    """Where the array lives; for one on several devices the one that simulates them."""
    place = a._device
    return default_device() if place is None else place.base if type(place) is Placement else place


def memory_of(a: Array) -> Device:
    """The device whose memory holds the elements."""
    return default_device() if a._device is None else a._device.base


def holds_all(a: Array) -> bool:
    """Whether this process holds all elements, those of an array of several processes included."""
    place = a._device
    return type(place) is not Placement or place.grid is None or place.box_shape(a.aval.shape) == a.aval.shape


def local_value(a: Array) -> np.ndarray[Any, Any]:
    """What this process holds of the elements, read-only: the box of its devices. Raises as `host_value` for no memory."""
    if holds_all(a):
        return host_value(a)
    if a._view is None:
        raise_deleted(a)
    return to_numpy(a._view, memory_of(a), a.aval.dtype, a._device.box_shape(a.aval.shape))


def part_of(a: Array, device: Device, index: tuple[slice, ...]) -> Array | None:
    """A part of an array as an array on one device; None where that is of another process."""
    if not device.is_local:
        return None
    value = local_value(a)
    if type(a._device) is Placement and a._device.sharding.spec.unreduced and not a._device.sharding.is_first(device):
        value = np.broadcast_to(
            np.zeros((), value.dtype), value.shape
        )  # the sum is held by the first one of those that share it
    if value.shape != a.aval.shape:
        box = a._device.box(a.aval.shape)
        index = tuple(
            slice(s.indices(n)[0] - b.start, s.indices(n)[1] - b.start) for s, b, n in zip(index, box, a.aval.shape)
        )
    part = value[index] if index else value
    return from_numpy(part, ShapedArray(part.shape, a.aval.dtype, a.aval.weak_type), device)


def placed(a: Array, place: Any) -> Array:
    """The same elements in the same memory as an array of another place in that memory; neither may be donated."""
    a._shared = True
    out = from_numpy(a._host, a.aval, place)  # type: ignore[arg-type]
    out._view = a._view
    out._shared = True
    return out


def declare(a: Array, place: Any) -> None:
    """Say of an array that nobody has seen yet where it lies, in the memory that it is in."""
    if type(place) is Placement:
        a.aval = place.typed(a.aval)
    a._device, a._signature = place, a.aval if place is None else (a.aval, place)


def from_box(value: np.ndarray[Any, Any], aval: ShapedArray, place: Placement) -> Array:
    """An array of several devices, of which this process holds the box `value`, which nobody writes any more."""
    if value.shape == aval.shape:
        return from_numpy(value, aval, place)
    # As a buffer only: what reads arrays as NumPy arrays looks for the elements of the whole.
    return from_view(buffers.from_numpy(value, place.base), aval, place)


def own_device(device: Device) -> Device | None:
    """How an array on this device says so: None on the first CPU device."""
    return None if device is default_device() else device


def host_value(a: Array) -> np.ndarray[Any, Any]:
    """The elements as a read-only NumPy array; the same memory on the CPU, fetched once from other devices.

    Raises RuntimeError if the array was donated or deleted, or if other processes hold some of the elements.
    """
    host = a._host
    if host is None:
        if a._view is None:
            raise_deleted(a)
        if type(a._device) is Placement and not holds_all(a):
            raise_not_addressable()
        host = a._host = to_numpy(a._view, memory_of(a), a.aval.dtype, a.aval.shape)
    return host


def peek(a: Array) -> np.ndarray[Any, Any]:
    """The elements as `host_value` gives them, without the array keeping them: it can still be donated."""
    host = a._host
    if host is None:
        if a._view is None:
            raise_deleted(a)
        if type(a._device) is Placement and not holds_all(a):
            raise_not_addressable()
        host = to_numpy(a._view, memory_of(a), a.aval.dtype, a.aval.shape)
    return host


def device_view(a: Array, device: Device) -> Any:
    """The elements as a buffer view on `device`, kept for later calls where that is the array's own device."""
    own = memory_of(a)
    device = device.base
    if a._view is not None and own is device:
        return a._view
    if a._host is None and a._view is None:
        raise_deleted(a)
    host = host_value(a)
    view = buffers.from_numpy(host, device)
    if own is device:
        a._view = view
        if host.nbytes >= COPY_BELOW and device.is_host and not shares_memory(host):
            a._host = None  # the view is a copy: NumPy can have its memory, so that two need not be kept
    return view


def from_host(value: Any, dtype: Any, device: Device, borrow: bool = True) -> Any:
    """A buffer view of an argument that is no Array, with `borrow` for a call during which the argument lives."""
    host = np.asarray(value, dtype)
    return buffers.from_numpy(host, device, borrow=borrow and host is value)


def raise_not_addressable() -> NoReturn:
    """Raises RuntimeError, as JAX does, for an array of which other processes hold some elements."""
    raise RuntimeError(
        "Fetching value for `quire.Array` that spans non-addressable (non process local) devices is not possible. You can "
        "use `quire.experimental.multihost_utils.process_allgather` to print the global array or use `.addressable_shards` "
        "method of quire.Array to inspect the addressable (process local) shards."
    )


def raise_deleted(a: Array) -> NoReturn:
    """Raises RuntimeError, which says that an array's memory was given away or deleted, and what to do."""
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


def _scalar(x: Array, real: str = "") -> Any:
    """The only element of a 0-dimensional array; with `real`, the name of a conversion, it must not be complex."""
    if real and x.aval.dtype.kind == "c":
        raise TypeError(f"{real}() argument must be a string or a real number, not 'complex' ({x.aval.short()})")
    if x.aval.shape:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; got arr.ndim={x.aval.ndim} ({x.aval.short()})"
        )
    return host_value(x)[()]


def _unpickle(value: Host, weak_type: bool) -> Array:
    dtype = dtypes.explicit(value.dtype)  # of 32 bits where those of 64 are off now
    return from_numpy(value.astype(dtype, copy=False), ShapedArray(value.shape, dtype, weak_type))


def _read_only(value: Host) -> Host:
    """The same memory as an array that cannot be written, keeping the owner alive."""
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def _writable_alias(value: Host) -> Host:
    """The same memory as an array that calls itself writable, keeping the owner alive."""
    if value.flags.writeable:
        return value
    if not value.flags.c_contiguous or not value.size:
        return value.copy()
    memory: Any = (ctypes.c_char * value.nbytes).from_address(value.ctypes.data)
    memory._owner = value
    return np.frombuffer(memory, dtype=value.dtype).reshape(value.shape)


def _text(x: Array) -> str:
    aval = x.aval
    tail = f"dtype={aval.dtype.name}{', weak_type=True' if aval.weak_type else ''})"
    if x.is_deleted():
        return f"Array(<deleted>, shape={aval.shape}, {tail}"
    if not holds_all(x):
        return f"Array(shape={aval.shape}, {tail}"
    if aval.size == 0:
        body = f"[], shape={aval.shape}"
    else:
        body = np.array2string(host_value(x), prefix="Array(", suffix=",", separator=", ")
    wide = len(body) - body.rfind("\n") + len(tail) + 2 > np.get_printoptions()["linewidth"]
    return f"Array({body},{' ' * 6 if wide else ' '}{tail}"  # six spaces and no new line: JAX's form

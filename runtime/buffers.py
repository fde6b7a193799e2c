"""Buffers: NumPy memory to IREE's buffer views and back.

On the CPU both directions are free of copies where memory allows it: IREE needs addresses that are multiples of 64,
NumPy gives multiples of 16. `aligned_empty` therefore takes memory from the device's caching allocator, which also
spares the page faults of fresh memory.

Measured (ns, 16 bytes): allocate and copy 830, import of aligned memory 765, view as NumPy 600, read-only 1100.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.errors import OutOfMemoryError, size_text
from quire.ir.source import current_source, where
from quire.runtime.devices import Device, binding, first_cpu, free_memory, vm_instance

_E = binding().HalElementType

ELEMENT_TYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.bool_): int(_E.BOOL_8),
    np.dtype(np.int8): int(_E.SINT_8),
    np.dtype(np.int16): int(_E.SINT_16),
    np.dtype(np.int32): int(_E.SINT_32),
    np.dtype(np.int64): int(_E.SINT_64),
    np.dtype(np.uint8): int(_E.UINT_8),
    np.dtype(np.uint16): int(_E.UINT_16),
    np.dtype(np.uint32): int(_E.UINT_32),
    np.dtype(np.uint64): int(_E.UINT_64),
    np.dtype(np.float16): int(_E.FLOAT_16),
    np.dtype(ml_dtypes.bfloat16): int(_E.BFLOAT_16),
    np.dtype(np.float32): int(_E.FLOAT_32),
    np.dtype(np.float64): int(_E.FLOAT_64),
    np.dtype(np.complex64): int(_E.COMPLEX_64),
    np.dtype(np.complex128): int(_E.COMPLEX_128),
}
"""NumPy dtype to IREE's element type."""

_BYTE = int(_E.UINT_8)
NARROW = dict.fromkeys(dtypes.NARROW, _BYTE)
"""Dtypes of which a device has the bytes alone."""

DTYPES: dict[int, np.dtype[Any]] = {
    **{code: dtype for dtype, code in ELEMENT_TYPES.items()},
    # Programs give integers without a sign: the signed dtype stands for them where nothing else is known.
    int(_E.INT_8): np.dtype(np.int8),
    int(_E.INT_16): np.dtype(np.int16),
    int(_E.INT_32): np.dtype(np.int32),
    int(_E.INT_64): np.dtype(np.int64),
}
"""IREE's element type to NumPy dtype."""

_M, _U = binding().MemoryType, binding().BufferUsage
_HOST_MEMORY = int(_M.DEVICE_LOCAL) | int(_M.HOST_VISIBLE)
_DEVICE_MEMORY = int(_M.DEVICE_LOCAL)
_STAGING_MEMORY = int(_M.HOST_LOCAL) | int(_M.DEVICE_VISIBLE)
_USAGE = int(_U.DEFAULT)
_STAGING_USAGE = int(_U.TRANSFER) | int(_U.MAPPING)
_View = binding().HalBufferView
_BFLOAT16 = int(_E.BFLOAT_16)

COPY_BELOW = 64 * 1024
"""Host arrays of fewer bytes are copied: that costs no more than an import, and the copy aliases nothing."""


def element_type(dtype: np.dtype[Any]) -> int:
    """IREE's element type for a dtype; TypeError naming the dtype where there is none."""
    try:
        return ELEMENT_TYPES[dtype]
    except KeyError:
        raise TypeError(
            f"dtype {dtype} has no device representation; use one of {', '.join(map(str, ELEMENT_TYPES))}"
        ) from None


def _address(array: np.ndarray[Any, Any]) -> int:
    """Where a contiguous array with elements begins; for a writable one in a fifth of the time of NumPy's ways."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, or of a dtype without the buffer protocol
        return array.__array_interface__["data"][0]


def is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether IREE can use the array's memory as it is: contiguous, native, at an address that is a multiple of 64."""
    return array.flags.c_contiguous and array.ctypes.data % 64 == 0


def aligned_empty(shape: Sequence[int], dtype: Any, device: Device | None = None) -> np.ndarray[Any, Any]:
    """An uninitialised NumPy array that a CPU device uses without a copy. Its memory is recycled."""
    return allocate(tuple(shape), np.dtype(dtype), device or first_cpu())[1]


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in C order; a large one at an address that a CPU device uses without another copy.

    Its memory is NumPy's own, so that no device is made for an array that none may ever see.

    Raises OutOfMemoryError, with the bytes that were asked for and the user's line.
    """
    if array.nbytes < COPY_BELOW:
        return array.copy(order="C")
    try:
        memory = np.empty(array.nbytes + 64, np.uint8)
    except MemoryError:
        raise OutOfMemoryError(
            f"out of memory: a copy of an array {array.dtype}{list(array.shape)} of {size_text(array.nbytes)} was asked "
            f"for{where(current_source(2))}; {free_memory()}"
        ) from None
    start = -memory.ctypes.data % 64
    copy = np.ndarray(array.shape, array.dtype, memory.data, start)
    np.copyto(copy, array)
    return copy


def shares_memory(array: np.ndarray[Any, Any]) -> bool:
    """Whether `from_numpy` uses an array of a CPU device as it is."""
    flags = array.flags
    return array.nbytes >= COPY_BELOW and flags.c_contiguous and flags.writeable and not _address(array) % 64


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> tuple[Any, np.ndarray[Any, Any]]:
    """A buffer view of a host device and the NumPy array (writable, uninitialised) over the same memory.

    Raises TypeError for a device whose memory NumPy cannot reach.
    """
    if not device.is_host:
        raise TypeError(f"{device} has no memory that NumPy can reach")
    view = uninitialised(shape, dtype, device)
    return view, np.ndarray(shape, dtype, view.map())


def uninitialised(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Any:
    """A buffer view of a device over memory from its allocator: what it holds is to be written."""
    code = element_type(dtype)
    memory = _HOST_MEMORY if device.is_host else _DEVICE_MEMORY
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        buffer = device.allocator.allocate_buffer(memory, _USAGE, nbytes)
    except RuntimeError as error:
        _refused(error, nbytes, shape, dtype, device)
    return _View(buffer, shape, code)


def _refused(error: Exception, nbytes: int, shape: Sequence[int], dtype: Any, device: Device) -> NoReturn:
    """Raise what an allocator's error means."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise error
    raise OutOfMemoryError(
        f"out of memory: an array {np.dtype(dtype).name}{list(shape)} of {size_text(nbytes)} was asked for on "
        f"{device}{where(current_source(2))}; {free_memory(device)}"
    ) from None


def from_numpy(array: Any, device: Device, *, copy: bool | None = None, borrow: bool = False) -> Any:
    """A HalBufferView on `device` with the array's values.

    Args:
        array: anything NumPy makes an array of; its dtype must be one of `ELEMENT_TYPES`.
        copy: True: never shares memory. None: on the CPU, a large aligned writable array is used as it is (and kept
            alive as long as the buffer); all else is copied. False: like None, but ValueError instead of a copy.
        borrow: the caller keeps the array until the buffer is no longer used: it need not be kept alive.

    Raises:
        TypeError: the dtype has no device representation.
    """
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.dtype in NARROW:
        array = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    dtype = array.dtype
    code = ELEMENT_TYPES.get(dtype)
    if code is None:
        array = array.astype(dtype := dtype.newbyteorder("="))
        code = element_type(dtype)
    nbytes = array.nbytes
    if device.is_host:
        flags = array.flags
        contiguous = flags.c_contiguous
        if copy is not True and (copy is False or nbytes >= COPY_BELOW):
            if contiguous and nbytes and flags.writeable and not _address(array) % 64:
                return _borrow(array, device, code) if borrow else _import(array, device, code)
            if copy is False:
                raise ValueError(
                    "this array cannot be used without a copy: that needs a writable C-contiguous array at an "
                    "address that is a multiple of 64; make it with quire.runtime.buffers.aligned_empty"
                )
        if contiguous and nbytes:
            return _copy(array, device, code)
        view, target = allocate(array.shape, dtype, device)
        np.copyto(target, array)
        return view
    if not array.size:
        return _View(device.allocator.allocate_buffer(_DEVICE_MEMORY, _USAGE, 0), array.shape, code)
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    data = contiguous.reshape(-1).view(np.uint8)  # ml_dtypes have no buffer protocol
    try:
        buffer = device.allocator.allocate_buffer_copy(_DEVICE_MEMORY, _USAGE, device.hal(), data)
    except RuntimeError as error:
        _refused(error, nbytes, array.shape, dtype, device)
    return _View(buffer, array.shape, code)


def _copy(array: np.ndarray[Any, Any], device: Device, code: int) -> Any:
    hal, allocator = device.memory
    try:
        if code == _BFLOAT16:  # has no buffer protocol
            data = array.reshape(-1).view(np.uint8)
            return _View(allocator.allocate_buffer_copy(_HOST_MEMORY, _USAGE, hal, data), array.shape, code)
        return allocator.allocate_buffer_copy(_HOST_MEMORY, _USAGE, hal, array, code)
    except RuntimeError as error:
        _refused(error, array.nbytes, array.shape, array.dtype, device)


def _import(array: np.ndarray[Any, Any], device: Device, code: int) -> Any:
    """The memory of an array (aligned, contiguous, writable) as a buffer view that keeps the array alive.

    By way of DLPack: `import_host_allocation` forgets the array as soon as Python's buffer object goes.
    """
    capsule = array.reshape(-1).view(np.uint8).__dlpack__()
    buffer = device.hal().from_dlpack_capsule(capsule).get_buffer()
    return _View(buffer, array.shape, code)


def _borrow(array: np.ndarray[Any, Any], device: Device, code: int) -> Any:
    """The same for as long as the array lives."""
    data = array.reshape(-1).view(np.uint8) if code == _BFLOAT16 else array
    return _View(device.memory[1].import_host_allocation(data, _HOST_MEMORY, _USAGE), array.shape, code)


def to_numpy(
    view: Any, device: Device, dtype: np.dtype[Any] | None = None, shape: tuple[int, ...] | None = None
) -> np.ndarray[Any, Any]:
    """The values of a buffer view as a read-only NumPy array: the same memory on the CPU, else a copy.

    `dtype` and `shape` need not be given; where they are known this is quicker, and unsigned integers keep their sign.
    """
    if shape is None:
        shape = tuple(view.shape)
    if dtype is None:
        dtype = DTYPES[view.element_type]
    if 0 in shape:
        array = np.empty(shape, dtype)
    else:
        array = np.ndarray(shape, dtype, (view if device.is_host else _to_host(view, device)).map())
    array.setflags(write=False)
    return array


def _to_host(view: Any, device: Device) -> Any:
    """A host-visible copy of a device's buffer."""
    hal = device.hal()
    staging = hal.allocator.allocate_buffer(_STAGING_MEMORY, _STAGING_USAGE, view.byte_length)
    done = hal.create_semaphore(0)
    hal.queue_copy(view.get_buffer(), staging, wait_semaphores=[], signal_semaphores=[(done, 1)])
    done.wait(1)
    return staging


def instance() -> Any:
    """The VmInstance buffers belong to."""
    return vm_instance()

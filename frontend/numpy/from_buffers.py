"""Arrays from memory, files, text, iterators and other libraries' arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import TracerArrayConversionError
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_numpy

from ..arrays.placement import device_put
from .from_values import asarray


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the bytes of a buffer. Follows `numpy.frombuffer`.

    >>> quire.numpy.frombuffer(b"\\x01\\x02", dtype="uint8")
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Array:
    """An array of the values of an iterator. Follows `numpy.fromiter`.

    >>> quire.numpy.fromiter((i * i for i in range(3)), dtype=int)
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers in a text. Follows `numpy.fromstring`.

    >>> quire.numpy.fromstring("1 2", dtype=int, sep=" ")
    Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Not implemented, as in JAX: read with `numpy.fromfile` and convert with `quire.numpy.asarray`.

    Raises NotImplementedError, whatever the arguments.
    """
    raise NotImplementedError(
        "quire.numpy.fromfile: reading files is NumPy's task: quire.numpy.asarray(numpy.fromfile(...))"
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of an object with `__dlpack__` (NumPy, PyTorch, ...), on the CPU without a copy.

    Args:
        x: the object; it must not be written while the array is in use.
        device: the device on which the result lies.
        copy: True for memory of its own; False raises BufferError where a copy would be needed.

    Raises:
        TypeError: x has no method `__dlpack__`.
        TracerArrayConversionError: x is a traced value.
        BufferError: copy is False where a dtype of 64 bits becomes one of 32.

    Follows `numpy.from_dlpack`.

    >>> import numpy
    >>> quire.numpy.from_dlpack(numpy.arange(2, dtype="int32"))
    Array([0, 1], dtype=int32)
    """
    if isinstance(x, Array):
        return x.copy() if copy else x
    if isinstance(x, Tracer):
        raise TracerArrayConversionError("quire.numpy.from_dlpack: a traced value has no memory to share")
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"quire.numpy.from_dlpack: {type(x).__name__} has no method __dlpack__")
    host = np.from_dlpack(x)
    d = dtypes.canonicalize(host.dtype)
    if d != host.dtype:
        if copy is False:
            raise BufferError(
                f"quire.numpy.from_dlpack: {host.dtype} becomes {d}, which needs a copy: enable_x64 or copy=True"
            )
        host = host.astype(d)
    elif copy:
        host = host.copy()
    y = from_numpy(host, ShapedArray(host.shape, d))
    return y if device is None else device_put(y, device)


__all__ = ["from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring"]

"""Exchange of arrays with other libraries by the DLPack protocol, as jax.dlpack."""

from __future__ import annotations

from typing import Any

from quire.ir import dtypes

from . import numpy as jnp
from .absent_names import module_getattr
from .arrays.operands import Value


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Value:
    """An array of another library's (one with `__dlpack__` and `__dlpack_device__`), on the CPU without a copy.

    Args:
        external_array: it must not be written while the result is in use.
        device: the device on which the result lies.
        copy: True for memory of its own; False raises BufferError where a copy would be needed.

    Raises:
        TypeError: the object does not have these methods.

    The other way there is no function: give a quire array to the other library's own ``from_dlpack``.

    Follows `jax.dlpack.from_dlpack`.

    >>> quire.dlpack.from_dlpack(np.arange(2, dtype=np.int32))
    Array([0, 1], dtype=int32)
    >>> np.from_dlpack(quire.numpy.arange(2))
    array([0, 1], dtype=int32)
    """
    if not hasattr(external_array, "__dlpack__") or not hasattr(external_array, "__dlpack_device__"):
        raise TypeError(
            "quire.dlpack.from_dlpack: the array must have the methods __dlpack__ and __dlpack_device__, got "
            f"{type(external_array).__name__}"
        )
    return jnp.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of that dtype can be exchanged: all that quire has.

    Follows `jax.dlpack.is_supported_dtype`.

    >>> quire.dlpack.is_supported_dtype("float32"), quire.dlpack.is_supported_dtype("datetime64[s]")
    (True, False)
    """
    try:
        return dtypes.as_dtype(dtype) in dtypes.ALL
    except TypeError:
        return False


__all__ = ["from_dlpack", "is_supported_dtype"]

__getattr__ = module_getattr("quire.dlpack", globals())

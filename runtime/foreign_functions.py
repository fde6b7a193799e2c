"""Functions of shared libraries that compiled programs call: their table, and the call itself.

The C interface is `frontend/ffi/include/quire_ffi.h`; the structures here are its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.errors import UnsupportedError

VERSION = 1

_DTYPES: dict[np.dtype[Any], int] = {
    np.dtype(d): i + 1
    for i, d in enumerate(
        (
            np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
            dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
        )
    )
}  # fmt: skip
_STRING = 16


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("size", ctypes.c_int64),
        ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32),
    )  # fmt: skip


class _Attr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("count", ctypes.c_int64), ("dtype", ctypes.c_int32),
    )  # fmt: skip


class _Call(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int32), ("num_args", ctypes.c_int32), ("args", ctypes.POINTER(_Buffer)),
        ("num_results", ctypes.c_int32), ("num_attrs", ctypes.c_int32), ("results", ctypes.POINTER(_Buffer)),
        ("attrs", ctypes.POINTER(_Attr)),
    )  # fmt: skip


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Call))


@dataclass(frozen=True)
class ForeignFunction:
    """A function of a shared library; `owner` keeps the library loaded."""

    address: int
    owner: Any


_functions: dict[str, dict[str, ForeignFunction]] = {}


class ForeignFunctionError(RuntimeError):
    """A function of a shared library said that something went wrong; the message is its own."""


def register(name: str, platform: str, function: ForeignFunction) -> None:
    """Put a function into the table.

    Raises ValueError where the name is another function's on that platform.
    """
    table = _functions.setdefault(name, {})
    found = table.get(platform)
    if found is not None and found.address != function.address:
        raise ValueError(f"ffi: a target named {name!r} is registered for {platform} already, with another function")
    table[platform] = function


def find(name: str, platform: str) -> ForeignFunction:
    """The function of that name.

    Raises:
        KeyError: there is none; the message has the nearest names.
        UnsupportedError: there is none for this platform.
    """
    table = _functions.get(name)
    if table is None:
        known = ", ".join(sorted(_functions)) or "none"
        raise KeyError(
            f"ffi: no target is named {name!r}; registered are {known}. Register it with "
            "quire.ffi.register_ffi_target(name, function)"
        )
    if platform not in table:
        raise UnsupportedError(f"ffi: target {name!r} is registered for {', '.join(table)}, not for {platform}")
    return table[platform]


@dataclass(frozen=True)
class Attribute:
    """A named number, array or text of a call; equal for equal contents."""

    name: str
    dtype: int
    count: int
    data: bytes
    text: str

    def __repr__(self) -> str:
        return f"{self.name}={self.text}"


def attribute(name: str, value: Any) -> Attribute:
    """An attribute of a Python or NumPy value.

    Raises TypeError for one that has no form in C.
    """
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        return Attribute(name, _STRING, len(data), data + b"\0", repr(value))
    try:
        array = np.ascontiguousarray(value)
    except (TypeError, ValueError):
        array = np.empty((), object)
    if isinstance(value, int) and not isinstance(value, bool | np.generic):
        array = np.asarray(value, np.int64)
    code = _DTYPES.get(array.dtype)
    if code is None:
        raise TypeError(f"ffi: attribute {name} must be a number, a text or a NumPy array, got {value!r}")
    return Attribute(name, code, array.size, array.tobytes(), repr(value))


def _buffers(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, list[Any]]:
    """The structures of some arrays, and what must live as long as they."""
    kept: list[Any] = []
    out = (_Buffer * len(arrays))()
    for buffer, array in zip(out, arrays):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        kept.append(shape)
        buffer.data, buffer.size, buffer.rank = array.ctypes.data, array.size, array.ndim
        buffer.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        buffer.dtype = _DTYPES[array.dtype]
    return out, kept


@dataclass(frozen=True)
class ForeignCall:
    """A function by its name with its attributes, called on NumPy arrays: the operands, then the results, which it writes.

    `aliases` are pairs of an operand and a result: the function finds the operand in the result's memory.
    """

    name: str
    attributes: tuple[Attribute, ...]
    num_results: int
    aliases: tuple[tuple[int, int], ...] = ()

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.attributes))})"

    def check(self, platform: str) -> None:
        """Raises as `find` where the function cannot be called on a platform."""
        find(self.name, platform)

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> None:
        """Call the function.

        Raises:
            ForeignFunctionError: it returned a text.
            KeyError, UnsupportedError: it is not there any more, or not for this platform.
        """
        function = find(self.name, "cpu")
        n = len(arrays) - self.num_results
        results = list(arrays[n:])
        args = [np.ascontiguousarray(x) for x in arrays[:n]]
        for operand, result in self.aliases:
            np.copyto(results[result], args[operand])
            args[operand] = results[result]
        in_buffers, kept_in = _buffers(args)
        out_buffers, kept_out = _buffers(results)
        attrs = (_Attr * len(self.attributes))()
        kept: list[Any] = [*kept_in, *kept_out]
        for attr, given in zip(attrs, self.attributes):
            data = ctypes.create_string_buffer(given.data, max(len(given.data), 1))
            kept.append(data)
            attr.name, attr.data = given.name.encode(), ctypes.addressof(data)
            attr.count, attr.dtype = given.count, given.dtype
        call = _Call(VERSION, n, in_buffers, self.num_results, len(attrs), out_buffers, attrs)
        message = _FUNCTION(function.address)(ctypes.byref(call))
        del kept
        if message is not None:
            raise ForeignFunctionError(f"{self.name}: {message.decode(errors='replace')}")


__all__ = [
    "Attribute", "ForeignCall", "ForeignFunction", "ForeignFunctionError", "VERSION", "attribute", "find", "register",
]  # fmt: skip

"""Operators, methods and attributes of arrays, attached to `Array` and to the tracer alike.

Python's operators go to the functions of `quire.numpy` directly; a method is the function of the same name with the
array as its first argument.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.source import current_source, is_internal, where
from quire.ir.tracing import Tracer
from quire.runtime.array import Array

from .. import lax
from .. import numpy as qnp
from ..arrays.placement import device_put
from .at import IndexHelper
from .conversion import bit_view
from .indexing import getitem

_OPERAND = (Array, Tracer, int, float, complex, np.ndarray, np.generic)


def _accepted(x: Any) -> bool:
    return isinstance(x, _OPERAND) or hasattr(x, "__jax_array__")


def _refuse(symbol: str, x: Any, y: Any) -> NoReturn:
    other = y if isinstance(x, Array | Tracer) else x
    fix = "; make it an array first: quire.numpy.array(...)" if isinstance(other, list | tuple) else ""
    names = [("Array" if isinstance(v, Array | Tracer) else type(v).__name__) for v in (x, y)]
    raise TypeError(f"unsupported operand type(s) for {symbol}: {names[0]!r} and {names[1]!r}{fix}")


_REFUSED = (list, tuple, set, dict, str)  # could only be meant as an operand: say what to do


def _binary(f: Callable[[Any, Any], Any], symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The method of an operator and its reflected form."""
    f = f.func if isinstance(f, qnp.ufunc) else f

    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, _OPERAND) or hasattr(other, "__jax_array__"):
            return f(self, other)
        if isinstance(other, _REFUSED):
            _refuse(symbol, self, other)
        return NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        if isinstance(other, _OPERAND) or hasattr(other, "__jax_array__"):
            return f(other, self)
        if isinstance(other, _REFUSED):
            _refuse(symbol, other, self)
        return NotImplemented

    return forward, reflected


def _compared(f: Callable[[Any, Any], Any], symbol: str) -> Callable[..., Any]:
    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, (list, tuple, set, dict)):
            _refuse(symbol, self, other)
        return f(self, other) if _accepted(other) else NotImplemented

    return forward


_ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add": (qnp.add, "+"), "sub": (qnp.subtract, "-"), "mul": (qnp.multiply, "*"), "truediv": (qnp.divide, "/"),
    "floordiv": (qnp.floor_divide, "//"), "mod": (qnp.remainder, "%"), "divmod": (qnp.divmod, "divmod()"),
    "pow": (qnp.power, "**"), "and": (qnp.bitwise_and, "&"), "or": (qnp.bitwise_or, "|"),
    "xor": (qnp.bitwise_xor, "^"), "lshift": (qnp.left_shift, "<<"), "rshift": (qnp.right_shift, ">>"),
}  # fmt: skip
_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS = {
    "eq": qnp.equal, "ne": qnp.not_equal, "lt": qnp.less, "le": qnp.less_equal, "gt": qnp.greater, "ge": qnp.greater_equal,
}  # fmt: skip
_UNARY = {"neg": qnp.negative.func, "pos": qnp.positive, "abs": qnp.absolute, "invert": qnp.invert}


# -- item assignment ----------------------------------------------------------------------------------------------------

_METHOD_OF = {
    "=": "set", "+=": "add", "-=": "subtract", "*=": "multiply", "/=": "divide", "**=": "power",
}  # fmt: skip


def _assignment_text(frame: FrameType | None) -> tuple[str, str, str, str] | None:
    """The user's array, index, operator and value, from the text of the statement that assigns to an item."""
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return None
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, start, end = positions
    if first is None or first != last or start is None or end is None:
        return None
    line = linecache.getline(frame.f_code.co_filename, first).encode()
    target, rest = line[start:end].decode(), line[end:].decode()
    match = re.match(r"\s*([^\s=\w]*=)\s*(.*?)\s*(#.*)?$", rest)
    if not match or not target.endswith("]"):
        return None
    depth = 0
    for i in range(len(target) - 1, -1, -1):
        depth += {"]": 1, "[": -1}.get(target[i], 0)
        if depth == 0:
            return target[:i], target[i + 1 : -1], match[1], match[2]
    return None


def _setitem(self: Any, index: Any, value: Any) -> NoReturn:
    name, idx, how, v = _assignment_text(sys._getframe(1)) or ("x", "idx", "=", "y")
    method = _METHOD_OF.get(how, "set")
    if how not in _METHOD_OF:
        v = f"{name}[{idx}] {how[:-1]} {v}"
    raise TypeError(
        f"quire arrays are immutable and do not support item assignment: instead of {name}[{idx}] {how} ... write\n"
        f"  {name} = {name}.at[{idx}].{method}({v})"
    )


def _delitem(self: Any, index: Any) -> NoReturn:
    raise TypeError("quire arrays are immutable: use quire.numpy.delete(x, index, axis), which returns a new array")


# -- methods and attributes ---------------------------------------------------------------------------------------------

# Methods that are the function of quire.numpy of the same name.
_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "conj",
    "conjugate", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel",
    "repeat", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    f = getattr(qnp, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return f(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Array.{name}"
    method.__doc__ = (
        f"``quire.numpy.{name}(self, ...)``: {(f.__doc__ or '').strip().splitlines()[0] if f.__doc__ else ''}"
    )
    method.__wrapped__ = f  # type: ignore[attr-defined]
    return method


def _reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Any:
    """``quire.numpy.reshape(self, shape)``: the elements in another shape; sizes may be separate arguments."""
    return qnp.reshape(self, args[0] if len(args) == 1 else args, order=order, copy=copy, out_sharding=out_sharding)


def _transpose(self: Any, *args: Any) -> Any:
    """``quire.numpy.transpose(self, axes)``: reordered dimensions; axes may be separate arguments."""
    if not args:
        return qnp.transpose(self)
    if len(args) == 1 and (args[0] is None or not isinstance(args[0], int | np.integer)):
        return qnp.transpose(self, args[0])
    return qnp.transpose(self, args)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in row-major order, as one dimension."""
    return qnp.ravel(self, order, out_sharding=out_sharding)


def _compress(self: Any, condition: Any, axis: int | None = None, *, out: None = None, **sizes: Any) -> Any:
    """``quire.numpy.compress(condition, self, axis)``: the slices along an axis where a vector is true."""
    return qnp.compress(condition, self, axis, out=out, **sizes)


def _byteswap(self: Any, inplace: bool = False) -> Any:
    """The array with the bytes of each element in reverse order."""
    if inplace:
        raise ValueError("byteswap: arrays are immutable: pass inplace=False and use the returned array")
    dtype = self.aval.dtype
    if dtype.kind == "c":
        return lax.complex(_byteswap(self.real), _byteswap(self.imag))
    if dtype.itemsize == 1:
        return self
    # The bytes of an element side by side in a new last dimension.
    return lax.bitcast_convert_type(qnp.flip(lax.bitcast_convert_type(self, np.uint8), -1), dtype)


def _view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The bits of the elements as another dtype: the last dimension changes where the widths differ."""
    return bit_view(self, dtype, type)


def _at(self: Any) -> Any:
    """``x.at[index]``: updates that return a new array: set, add, multiply, ..., get."""
    return IndexHelper(self)


_PROPERTIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "T": (lambda self: qnp.transpose(self), "The array with its dimensions reversed."),
    "mT": (lambda self: qnp.matrix_transpose(self), "The matrices of the last two dimensions, transposed."),
    "real": (lambda self: qnp.real(self), "The real part."),
    "imag": (lambda self: qnp.imag(self), "The imaginary part."),
    "nbytes": (lambda self: self.aval.nbytes, "The bytes that the elements take."),
    "itemsize": (lambda self: self.aval.dtype.itemsize, "The bytes of one element."),
    "flat": (lambda self: iter(qnp.ravel(self)), "An iterator over the elements in row-major order."),
}


def _iter(self: Any) -> Any:
    """The subarrays along the first dimension."""
    if not self.aval.shape:
        raise TypeError("iteration over a 0-d array")
    return iter([getitem(self, i) for i in range(self.aval.shape[0])])


def _len(self: Any) -> int:
    if not self.aval.shape:
        raise TypeError("len() of unsized object: the array is 0-dimensional")
    return self.aval.shape[0]


def _format(self: Any, spec: str) -> str:
    if not spec:
        return repr(self)
    value = self.concrete()
    if value is None:
        raise TypeError(
            f"a traced value {self.aval.short()} has no number to format as {spec!r}{where(current_source(2))}: its value is "
            f"not known while {self.owner.name} is traced; quire.debug.print formats it when the program runs"
        )
    return format(value, spec)


def _itself(self: Any, memo: Any = None) -> Any:
    """A traced value is immutable, and belongs to its trace: a copy is the value itself."""
    return self


def _to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The array on another device: ``quire.device_put(self, device)``. `stream` must be None."""
    if stream is not None:
        raise NotImplementedError(
            "Array.to_device: the argument stream is not supported, copies are ordered without it"
        )
    return device_put(self, device)


def _rounded(self: Any, ndigits: int | None = None) -> Any:
    """`round(x)`: integers, as Python's; `round(x, ndigits)` keeps the dtype."""
    if ndigits is not None:
        return qnp.round(self, ndigits)
    return qnp.round(self).astype(int)


def _contains(self: Any, value: Any) -> bool:
    """``value in x``: whether an element equals the value. Raises ValueError for other than vectors, as in JAX."""
    if self.ndim != 1:
        raise ValueError(
            f"value in x: x must have one dimension, got {aval_of(self).short()}: write (x == value).any()"
        )
    return bool(qnp.any(self == value))


def attach() -> None:
    """Give `Array` and the tracer their operators, methods and attributes."""
    members: dict[str, Any] = {}
    for name, (f, symbol) in _ARITHMETIC.items():
        members[f"__{name}__"], members[f"__r{name}__"] = _binary(f, symbol)
    members["__matmul__"], members["__rmatmul__"] = _binary(qnp.matmul, "@")
    for name, f in _COMPARISONS.items():
        members[f"__{name}__"] = _compared(f, _SYMBOLS[name])
    for name, f in _UNARY.items():
        members[f"__{name}__"] = f
    members["__round__"], members["__contains__"] = _rounded, _contains
    members |= {"__getitem__": getitem, "__setitem__": _setitem, "__delitem__": _delitem}
    members |= {name: _method(name) for name in _METHODS if hasattr(qnp, name)}
    members |= {"reshape": _reshape, "transpose": _transpose, "flatten": _flatten, "view": _view}
    members |= {"compress": _compress, "byteswap": _byteswap}
    members |= {name: property(f, doc=doc) for name, (f, doc) in _PROPERTIES.items()}
    members["at"] = property(_at, doc=_at.__doc__)
    members["__array_namespace__"], members["to_device"] = _namespace, _to_device
    for name, member in members.items():
        setattr(Array, name, member)
        setattr(Tracer, name, member)
    for name, member in (("__iter__", _iter), ("__len__", _len), ("__format__", _format), ("copy", qnp.copy),
                         ("__copy__", _itself), ("__deepcopy__", _itself)):  # fmt: skip
        setattr(Tracer, name, member)
    doc = "None: a traced value is where the program will run."
    Tracer.device = property(lambda self: None, doc=doc)  # type: ignore[attr-defined]
    for name in ("block_until_ready", "copy_to_host_async"):
        if not hasattr(Tracer, name):
            setattr(Tracer, name, lambda self: self)


def _namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the array API version {api_version!r} is not known: expected '2024.12' or an earlier one")
    return qnp


attach()

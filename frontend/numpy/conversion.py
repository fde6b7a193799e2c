"""The elements as another dtype: converted, or their bits read anew, packed and unpacked."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.runtime.array import Array

from ..arrays import operands as u
from ..arrays.operands import Value, as_axis, cast, ensure
from ..arrays.placement import device_put
from .elementwise import as_bool
from .joining import stack
from .shapes import moveaxis, ravel


def _shape(x: Value) -> tuple[int, ...]:
    return x.aval.shape


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Value:
    """The elements converted to a dtype: floats to integers truncate, complex to real drops the imaginary part.

    Args:
        x: an array. dtype: the new dtype. copy: whether the result must have memory of its own.

    Follows `numpy.astype`.

    >>> quire.numpy.astype(quire.numpy.array([1.5]), int)
    Array([1], dtype=int32)
    """
    x = ensure("astype", x)
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else u.user_dtype("astype", dtype)
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(d) and not dtypes.is_bool(d):
        x = ew.real_p.bind(x)
    out = cast(x, d)
    if copy and out is x and isinstance(x, Array):
        out = x.copy()
    if device is None:
        return out
    return device_put(out, device)


def bit_view(x: Any, dtype: Any = None, type: None = None) -> Value:
    """The bits of the elements as another dtype; the last dimension changes where the widths differ.

    Raises:
        NotImplementedError: `type` is given.
        ValueError: the elements of dtype have another width, and the last dimension does not divide into them, or
            there is none.

    Follows `numpy.ndarray.view`.
    """
    if type is not None:
        raise NotImplementedError("quire.Array.view: the argument type is not supported")
    x = ensure("view", x)
    if dtype is None:
        return x
    d, old = u.user_dtype("view", dtype), x.dtype
    if d == old:
        return x
    if dtypes.is_bool(d) or dtypes.is_bool(old):
        return _bool_view(x, d)
    if dtypes.is_complex(old):
        parts = stack([ew.real_p.bind(x), ew.imag_p.bind(x)], axis=-1)
        return bit_view(st.reshape(parts, (*_shape(x)[:-1], 2 * _shape(x)[-1])) if x.ndim else parts, d)
    if dtypes.is_complex(d):
        floats = bit_view(x, dtypes.real_dtype(d))
        if floats.ndim == 0 or _shape(floats)[-1] % 2:
            raise ValueError(f"quire.Array.view: the last dimension of {x.aval.short()} does not divide into {d}")
        pairs = st.reshape(floats, (*_shape(floats)[:-1], _shape(floats)[-1] // 2, 2))
        return ew.complex_p.bind(pairs[..., 0], pairs[..., 1])
    if d.itemsize == old.itemsize:
        return ew.bitcast_convert_type_p.bind(x, new_dtype=d)
    if x.ndim == 0:
        raise ValueError(f"quire.Array.view: a scalar {x.aval.short()} has no dimension to change for dtype {d}")
    s = _shape(x)
    if d.itemsize < old.itemsize:
        wide = ew.bitcast_convert_type_p.bind(x, new_dtype=d)
        return st.reshape(wide, (*s[:-1], s[-1] * (old.itemsize // d.itemsize)))
    k = d.itemsize // old.itemsize
    if s[-1] % k:
        raise ValueError(f"quire.Array.view: the last dimension of {x.aval.short()} must be a multiple of {k} for {d}")
    return ew.bitcast_convert_type_p.bind(st.reshape(x, (*s[:-1], s[-1] // k, k)), new_dtype=d)


def _bool_view(x: Value, d: Any) -> Value:
    if dtypes.is_bool(d):
        return ew.ne_p.bind(bit_view(x, dtypes.uint8), np.uint8(0))
    return bit_view(cast(x, dtypes.uint8), d)


def _bit_order(name: str, bitorder: Any) -> np.ndarray[Any, Any]:
    if bitorder not in ("big", "little"):
        raise ValueError(f"quire.numpy.{name}: bitorder must be 'big' or 'little', got {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts if bitorder == "little" else shifts[::-1].copy()


def packbits(a: Any, axis: Any = None, bitorder: str = "big") -> Value:
    """Truth values as bits of bytes, eight in one; missing ones are 0.

    Args:
        a: an array of integers or bool; what is not 0 counts as true.
        axis: the axis that shrinks; None for the flattened array.
        bitorder: whether the first of eight becomes the highest bit ("big") or the lowest ("little").

    Raises:
        TypeError: a holds floats or complex numbers.
        ValueError: bitorder is neither "big" nor "little", or a has no such axis.

    Follows `numpy.packbits`.

    >>> quire.numpy.packbits(quire.numpy.array([1, 0, 0, 0, 0, 0, 1, 1]))
    Array([131], dtype=uint8)
    """
    x = ensure("packbits", a)
    if dtypes.is_inexact(x.dtype):
        raise TypeError(f"quire.numpy.packbits: takes integers or bool, got {x.aval.short()}")
    shifts = _bit_order("packbits", bitorder)
    x, d = (ravel(x), 0) if axis is None else (x, as_axis("packbits", axis, x.ndim))
    bits = moveaxis(cast(as_bool(x), dtypes.uint8), d, -1)
    *rest, n = _shape(bits)
    bits = st.pad(bits, np.uint8(0), [(0, 0, 0)] * len(rest) + [(0, -n % 8, 0)])
    bits = st.reshape(bits, (*rest, -(-n // 8), 8))
    weights = st.broadcast_in_dim(u.lift(np.uint8(1) << shifts), _shape(bits), (len(rest) + 1,))
    packed = rd.reduce_sum_p.bind(ew.mul_p.bind(bits, weights), axes=(len(rest) + 1,))
    return moveaxis(packed, -1, d)


def unpackbits(a: Any, axis: Any = None, count: Any = None, bitorder: str = "big") -> Value:
    """The bits of bytes as numbers 0 and 1.

    Args:
        a: an array of uint8.
        axis: the axis that grows; None for the flattened array.
        count: how many bits to keep; from the end, if negative; more than there are are 0.
        bitorder: whether the highest bit ("big") or the lowest ("little") comes first.

    Raises:
        TypeError: a is not of uint8.
        ValueError: bitorder is neither "big" nor "little", or a has no such axis.

    Follows `numpy.unpackbits`.

    >>> quire.numpy.unpackbits(quire.numpy.array([131], dtype="uint8"))
    Array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    x = ensure("unpackbits", a)
    if x.dtype != dtypes.uint8:
        raise TypeError(f"quire.numpy.unpackbits: takes uint8, got {x.aval.short()}")
    shifts = _bit_order("unpackbits", bitorder)
    x, d = (ravel(x), 0) if axis is None else (x, as_axis("unpackbits", axis, x.ndim))
    x = moveaxis(x, d, -1)
    *rest, n = _shape(x)
    wide = (*rest, n, 8)
    shifted = ew.shift_right_logical_p.bind(
        st.broadcast_in_dim(x, wide, tuple(range(len(wide) - 1))),
        st.broadcast_in_dim(u.lift(shifts), wide, (len(rest) + 1,)),
    )
    bits = st.reshape(ew.and_p.bind(shifted, np.uint8(1)), (*rest, 8 * n))
    if count is not None:
        k = u.as_int("unpackbits", count, "count")
        keep = k if k >= 0 else max(8 * n + k, 0)
        bits = st.slice_in_dim(bits, 0, min(keep, 8 * n), axis=len(rest))
        bits = st.pad(bits, np.uint8(0), [(0, 0, 0)] * len(rest) + [(0, max(keep - 8 * n, 0), 0)])
    return moveaxis(bits, -1, d)


__all__ = ["astype", "packbits", "unpackbits"]

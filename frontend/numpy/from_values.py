"""Arrays from Python numbers, nested sequences, NumPy arrays and what has a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of, refuse_masked
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_numpy, host_value
from quire.runtime.buffers import aligned_copy

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import SCALARS, Value, cast, eager_here, ensure, user_dtype
from ..arrays.placement import device_put
from .creation import filled
from .joining import stack


@takes_out_sharding
def array(
    object: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Value:
    """An array of the elements of `object`.

    Args:
        object: an array, a number, or nested sequences of them (traced values included).
        dtype: the dtype; by default that of the elements, with 64-bit types made 32-bit unless enable_x64 is on.
        copy: whether memory of its own is needed; NumPy arrays are copied unless False or None.
        order: "K" or "C" only: arrays have no other memory order.
        ndmin: leading dimensions of size 1 are added up to this rank.
        device: the device on which the result lies.

    Raises:
        TypeError: elements that are not numbers. ValueError: sequences of different lengths.
        NotImplementedError: order is anything but "K", "C", "A" and None.

    Follows `numpy.array`.

    >>> quire.numpy.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(f"quire.numpy.array: order {order!r} is not supported, arrays are in C order")
    target = None if dtype is None else user_dtype("array", dtype)
    x = _array(object, target, copy)
    ndim = aval_of(x).ndim
    if ndmin > ndim:
        x = st.reshape(x, (1,) * (ndmin - ndim) + aval_of(x).shape)
    return x if device is None else device_put(x, device)


def _array(value: Any, dtype: DType | None, copy: bool | None) -> Value:
    if isinstance(value, Array | Tracer):
        if dtype is not None:
            value = cast(value, dtype) if value.aval.dtype != dtype or value.aval.weak_type else value
        return value.copy() if copy and isinstance(value, Array) and eager_here() else value
    if value is None:
        raise ValueError("quire.numpy.array: None is not a valid value, expected numbers or arrays")
    if type(value) in SCALARS:
        aval = aval_of(value) if dtype is None else ShapedArray((), dtype)
        with np.errstate(all="ignore"):
            return from_numpy(_of_python(value, aval.dtype), aval)
    if hasattr(value, "__jax_array__"):
        return _array(value.__jax_array__(), dtype, copy)
    if isinstance(value, np.ndarray | np.generic):
        refuse_masked(value)
        return _from_host(np.asarray(value), dtype, copy)
    if isinstance(value, list | tuple):
        return _from_sequence(value, dtype)
    if hasattr(value, "__array__") or _has_buffer(value):
        return _from_host(np.asarray(value), dtype, copy)
    kinds: tuple[Any, ...] = (int, float, complex)
    for kind in kinds:  # classes of numbers of a user's own, such as IntEnum
        if isinstance(value, kind):
            return _array(kind(value), dtype, copy)
    raise TypeError(
        f"quire.numpy.array: {value!r} of type {type(value).__name__} is not a number, an array or a sequence of them"
    )


def _of_python(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Python numbers, also nested lists of them, as an array.

    Raises OverflowError for an integer that the dtype does not hold, TypeError for a complex number where a real one is
    expected, ValueError or OverflowError for a NaN or an infinity where an integer is.
    """
    if dtype.kind in "iufc":
        return np.array(value, dtype=dtype)
    host = np.asarray(value)
    if host.dtype.kind == "c" and dtype.kind != "b":
        raise TypeError(f"quire.numpy.array: expected real numbers for {dtype}, got the complex {value!r}")
    return host.astype(dtype)


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return not isinstance(value, str | bytes)


def _from_host(value: np.ndarray[Any, Any], dtype: DType | None, copy: bool | None) -> Value:
    if value.dtype not in dtypes.SHORT or value.dtype == dtypes.float0:
        raise TypeError(
            f"quire.numpy.array: elements of dtype {value.dtype} are not numbers that quire has: expected bool, "
            "integer, float or complex elements"
        )
    target = dtypes.canonicalize(value.dtype) if dtype is None else dtype
    with np.errstate(all="ignore"):
        if target != value.dtype:
            if dtype is not None and value.dtype.kind == "c" and target.kind != "c" and target != dtypes.bool_:
                value = value.real
            value = value.astype(target)
        elif copy:
            value = aligned_copy(value)
    return from_numpy(value, ShapedArray(value.shape, target))


def _leaf_tracer(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_leaf_tracer(v) for v in value)
    return isinstance(value, Tracer)


def _from_sequence(value: Sequence[Any], dtype: DType | None) -> Value:
    if _leaf_tracer(value):
        return _stack_traced(value, dtype)
    plain, avals = _plain(value)
    try:
        host = np.array(plain)
    except (ValueError, OverflowError) as error:
        error.args = (f"quire.numpy.array: {error}", *error.args[1:])
        raise
    if host.dtype.kind in "OUSV" and host.dtype not in dtypes.SHORT:
        large = [x for x in host.flat if type(x) is int and not -(2**63) <= x < 2**64]
        if large and all(isinstance(x, int | float) for x in host.flat):
            raise OverflowError(f"quire.numpy.array: Python int too large to convert: {large[0]} has more than 64 bits")
        raise TypeError(
            f"quire.numpy.array: {_not_number(value)!r} is not a number: expected nested sequences of numbers or arrays"
        )
    if dtype is not None and not avals and host.size:
        with np.errstate(all="ignore"):
            return from_numpy(_of_python(plain, dtype), ShapedArray(host.shape, dtype))
    if dtype is None:
        if avals:
            dtype = dtypes.promote(avals)[0]
        elif not host.size:
            dtype = dtypes.canonicalize(dtypes.float64)
        else:
            dtype = dtypes.canonicalize(host.dtype)
            if host.dtype.kind in "iu" and dtype != host.dtype:
                info = np.iinfo(dtype)
                if host.dtype.kind == "u":
                    dtype = dtypes.canonicalize(dtypes.uint64)
                elif host.min() < info.min or host.max() > info.max:
                    raise OverflowError(
                        f"quire.numpy.array: Python int {host.max() if host.max() > info.max else host.min()} is too "
                        f"large for {dtype}; enable_x64 gives 64-bit integers"
                    )
    with np.errstate(all="ignore"):
        return from_numpy(host.astype(dtype), ShapedArray(host.shape, dtype))


def _plain(value: Any) -> tuple[Any, list[tuple[DType, bool]]]:
    """Nested sequences with Arrays as NumPy arrays, and the kinds of the leaves if any is not a Python scalar."""
    kinds: set[tuple[DType, bool]] = set()
    typed = False

    def walk(v: Any) -> Any:
        nonlocal typed
        kind = type(v)
        if kind in SCALARS:
            kinds.add((dtypes.canonicalize(dtypes.as_dtype(kind)), kind is not bool))
            return v
        if isinstance(v, list | tuple):
            return [walk(u) for u in v]
        if hasattr(v, "__jax_array__"):
            v = v.__jax_array__()
        if isinstance(v, Array):
            typed = True
            kinds.add((v.aval.dtype, v.aval.weak_type))
            return host_value(v)
        if isinstance(v, np.ndarray | np.generic) and v.dtype in dtypes.SHORT:
            typed = True
            kinds.add((dtypes.canonicalize(v.dtype), False))
        return v

    plain = walk(value)
    return plain, list(kinds) if typed else []


def _not_number(value: Any) -> Any:
    for v in value:
        if isinstance(v, list | tuple):
            found = _not_number(v)
            if found is not None:
                return found
        elif not isinstance(v, Array | Tracer | np.ndarray | np.generic | bool | int | float | complex):
            return v
    return None


def _stack_traced(value: Any, dtype: DType | None) -> Value:
    if isinstance(value, list | tuple):
        rows = [_stack_traced(v, dtype) for v in value]
        if not rows:
            return filled((0,), 0.0, dtype or dtypes.canonicalize(dtypes.float64))
        return stack(rows) if dtype is None else stack(rows, dtype=dtype)
    return _array(value, dtype, False)


@takes_out_sharding
def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
    out_sharding: Any = None,
) -> Value:  # fmt: skip
    """`a` as an array: itself if it is one already.

    Args:
        a, dtype, order, device: as in `quire.numpy.array`.
        copy: True for memory of its own; False raises ValueError where a copy would be needed.

    Follows `numpy.asarray`.

    >>> quire.numpy.asarray(range(3))
    Array([0, 1, 2], dtype=int32)
    """
    if copy is False and not isinstance(a, Array | Tracer | np.ndarray):
        raise ValueError(f"quire.numpy.asarray: {type(a).__name__} cannot become an array without a copy")
    if isinstance(a, range):
        a = np.arange(a.start, a.stop, a.step)
    if isinstance(a, np.ndarray) and copy is None:
        copy = True  # the NumPy array may change later, arrays never do
    return array(a, dtype=dtype, copy=bool(copy), order=order, device=device)


def copy(a: Any, order: str | None = None) -> Value:
    """A copy of an array in memory of its own. Follows `numpy.copy`.

    >>> quire.numpy.copy(quire.numpy.arange(2))
    Array([0, 1], dtype=int32)
    """
    x = ensure("copy", a)
    return x.copy() if isinstance(x, Array) and eager_here() else ew.copy_p.bind(x)


__all__ = ["array", "asarray", "copy"]

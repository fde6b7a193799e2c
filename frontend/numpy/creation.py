"""Arrays filled with one value."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.collectives import cast_as
from quire.ir.primitives.common import scalar_as
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_numpy, host_value

from ..arrays.explicit import beside, takes_out_sharding
from ..arrays.key_array import KeyDType, PRNGKeyArray
from ..arrays.operands import (
    SCALARS,
    Value,
    as_shape,
    broadcast_shapes,
    broadcast_to,
    cast,
    eager_here,
    ensure,
    user_dtype,
)
from ..arrays.placement import device_put, place_beside


@reports_memory
def filled(shape: tuple[int, ...], value: Any, dtype: DType, weak: bool = False) -> Value:
    """`value` (a scalar) repeated: made at once outside a trace, recorded as a broadcast in one."""
    if eager_here() and not isinstance(value, Tracer):
        host = host_value(value) if isinstance(value, Array) else value
        if type(host) in SCALARS or dtype.kind not in "fc":
            host = scalar_as("full", host if type(host) in SCALARS else np.asarray(host)[()], dtype)
        with np.errstate(all="ignore"):
            return from_numpy(np.full(shape, host, dtype), ShapedArray(shape, dtype, weak))
    if dtype == dtypes.float0:  # tangents of integers hold nothing to compute
        return np.zeros(shape, dtypes.float0)
    scalar = cast(value, dtype, weak)
    if not shape:
        return (
            scalar
            if hasattr(scalar, "aval")
            else ew.convert_element_type_p.bind(scalar, new_dtype=dtype, weak_type=weak)
        )
    return st.broadcast_in_dim_p.bind(scalar, shape=shape, broadcast_dimensions=())


def _fill(name: str, shape: Any, value: Any, dtype: Any, device: Any = None) -> Value:
    if isinstance(dtype, KeyDType):
        return _keys(name, dtype, as_shape(name, shape), value, device)
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype(name, dtype)
    x = filled(as_shape(name, shape), value, d)
    return x if device is None else device_put(x, device)


@takes_out_sharding
def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of zeros; float32 (float64 with enable_x64) by default. Follows `numpy.zeros`.

    >>> quire.numpy.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill("zeros", shape, 0, dtype, device)


@takes_out_sharding
def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of ones; float32 (float64 with enable_x64) by default. Follows `numpy.ones`.

    >>> quire.numpy.ones((2,), dtype=int)
    Array([1, 1], dtype=int32)
    """
    return _fill("ones", shape, 1, dtype, device)


@takes_out_sharding
def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of zeros: quire has no uninitialised arrays. Follows `numpy.empty`.

    >>> quire.numpy.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill("empty", shape, 0, dtype, device)


@takes_out_sharding
def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array filled with a value, which broadcasts to the shape; its dtype by default. Follows `numpy.full`.

    Raises ValueError for a value that does not broadcast to the shape, TypeError for a complex number and a real dtype.

    >>> quire.numpy.full(2, 7., dtype="float32")
    Array([7., 7.], dtype=float32)
    """
    sizes = as_shape("full", shape)
    if isinstance(dtype, KeyDType):
        return _keys("full", dtype, sizes, fill_value, device)
    return _full("full", sizes, fill_value, None if dtype is None else user_dtype("full", dtype), device)


def _full(name: str, shape: tuple[int, ...], value: Any, dtype: DType | None, device: Any) -> Value:
    if type(value) not in SCALARS:
        value = ensure(name, value, "fill_value")
    aval = aval_of(value) if dtype is None or type(value) not in SCALARS else ShapedArray((), dtype)
    d, weak = (aval.dtype, aval.weak_type) if dtype is None else (dtype, False)
    if aval.shape:
        value = cast(value, d, weak)

        if broadcast_shapes(name, aval.shape, shape) != shape:
            raise ValueError(f"quire.numpy.{name}: fill_value of shape {aval.shape} does not broadcast to {shape}")
        x = broadcast_to(value, shape)
    else:
        x = filled(shape, value, d, weak)
    return x if device is None else device_put(x, device)


def _keys(name: str, dtype: KeyDType, shape: tuple[int, ...], value: Any, device: Any) -> PRNGKeyArray:
    """Keys of a shape, each of them a key, or all of whose words are a number."""
    words = value.base if isinstance(value, PRNGKeyArray) else value
    return PRNGKeyArray(_full(name, (*shape, dtype.words), words, dtypes.uint32, device), dtype.impl)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any) -> Value:
    if isinstance(dtype, KeyDType) or (dtype is None and isinstance(getattr(a, "dtype", None), KeyDType)):
        sizes = tuple(a.shape) if shape is None else as_shape(name, shape)
        return _keys(name, a.dtype if dtype is None else dtype, sizes, value, device)
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        a = ensure(name, a)
    weak = dtype is None and getattr(a, "weak_type", False)
    d = dtypes.explicit(a.dtype) if dtype is None else user_dtype(name, dtype)
    sizes = tuple(a.shape) if shape is None else as_shape(name, shape)
    if device is None:
        device = place_beside(a, sizes)
    x = filled(sizes, value, d, weak) if type(value) in SCALARS else _full(name, sizes, value, d, device)
    if type(a) is Tracer and device is None:
        x = cast_as(x, a.aval) if a.aval.manual else x
        return beside(x, a.aval)
    if type(value) not in SCALARS:
        return x
    return x if device is None else device_put(x, device)


@takes_out_sharding
def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """Zeros of the shape and dtype of `a`, or of those given. Follows `numpy.zeros_like`.

    >>> quire.numpy.zeros_like(quire.numpy.arange(2))
    Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device)


@takes_out_sharding
def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """Ones of the shape and dtype of `a`, or of those given. Follows `numpy.ones_like`.

    >>> quire.numpy.ones_like(quire.numpy.arange(2))
    Array([1, 1], dtype=int32)
    """
    return _like("ones_like", a, 1, dtype, shape, device)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Value:
    """Zeros of the shape and dtype of `prototype`, or of those given. Follows `numpy.empty_like`.

    >>> quire.numpy.empty_like(quire.numpy.arange(2))
    Array([0, 0], dtype=int32)
    """
    return _like("empty_like", prototype, 0, dtype, shape, device)


@takes_out_sharding
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Value:
    """An array filled with a value, of the shape and dtype of `a` or of those given. Follows `numpy.full_like`.

    Raises ValueError for a value that does not broadcast to the shape, TypeError for a complex number and a real dtype.

    >>> quire.numpy.full_like(quire.numpy.arange(2), 5)
    Array([5, 5], dtype=int32)
    """
    return _like("full_like", a, fill_value, dtype, shape, device)


__all__ = ["empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

"""Arrays of evenly spaced values: arange, linspace, logspace, geomspace, and iota for use inside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_numpy, host_value

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import (
    Value,
    as_int,
    cast,
    eager_here,
    ensure,
    inexact,
    known_shape_operand,
    promote_all_shapes,
    promote_inexact,
    result_type,
    user_dtype,
)
from ..arrays.placement import device_put
from . import arithmetic as ar
from .arithmetic import power
from .creation import filled
from .dtype_info import finfo
from .elementwise import divide, exp, log, multiply, subtract
from .joining import concatenate
from .shapes import expand_dims, moveaxis, reshape


@takes_out_sharding
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Value:
    """Evenly spaced values in [start, stop).

    Args:
        start, stop, step: numbers known while tracing; with one argument it is the stop, and the start is 0.
        dtype: the dtype; by default that of the arguments.

    Raises:
        ConcretizationTypeError: an argument is traced: the result's shape would be unknown.
        TypeError: dtype is bool.
        ValueError: an argument is no scalar or a complex number, or step is 0.

    Follows `numpy.arange`.

    >>> quire.numpy.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    if stop is None and step is not None:
        start, stop = 0, start
    given = [x for x in (start, stop, step) if x is not None]
    for x in given:
        if isinstance(x, Tracer):
            known_shape_operand("arange", x, "use static numbers, or linspace with a static number of values")
    if len({type(x) for x in given}) == 1 and type(start) is int and (dtype is None or dtype is int):
        d = dtypes.canonicalize(dtypes.int64)
    elif dtype is None:
        d = result_type(*given)[0]
    else:
        d = user_dtype("arange", dtype)
    if dtype is not None and dtypes.is_bool(d):
        raise TypeError(
            "quire.numpy.arange: dtype must be of numbers, got bool: compare the result of another dtype with 0"
        )
    values = [np.asarray(host_value(x) if isinstance(x, Array) else x) for x in given]
    if any(v.ndim for v in values):
        raise ValueError("quire.numpy.arange: start, stop and step must be scalars")
    if any(v.dtype.kind == "c" for v in values):
        raise ValueError("quire.numpy.arange: start, stop and step must be real, got a complex number: use linspace")
    if step is not None and values[-1] == 0:
        raise ValueError("quire.numpy.arange: the step must not be 0")
    with np.errstate(all="ignore"):
        host = _arange_host([v[()] for v in values], d)
    if eager_here():
        x = from_numpy(host, ShapedArray(host.shape, d))
    elif len(given) == 1 and type(start) is int:
        x = iota(host.shape, 0, d)
    else:
        x = _arange_traced(values, host, d)
    return x if device is None else device_put(x, device)


@reports_memory
def _arange_host(values: list[Any], d: DType) -> np.ndarray[Any, Any]:
    if d.kind in "iufc" and d.itemsize >= 4:
        return np.arange(*values, dtype=d)
    return np.arange(*values).astype(d)


def _arange_traced(values: list[Any], host: np.ndarray[Any, Any], d: DType) -> Value:
    """start + iota * step in the trace, where that gives the very values; else a constant."""
    start, step = (values[0], values[2] if len(values) > 2 else 1) if len(values) > 1 else (0, 1)
    n = host.shape[0]
    if dtypes.is_integer(d) and all(np.asarray(v).dtype.kind in "iu" for v in values):
        x = iota((n,), 0, d)
        if step != 1:
            x = ew.mul_p.bind(x, d.type(step))
        return ew.add_p.bind(x, d.type(start)) if start != 0 else x
    return ew.copy_p.bind(from_numpy(host, ShapedArray(host.shape, d)))


def iota(shape: tuple[int, ...], dimension: int, dtype: DType) -> Value:
    """0, 1, 2, ... along one dimension of a shape."""
    if eager_here():
        view = [1] * len(shape)
        view[dimension] = shape[dimension]
        host = np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(view), shape)
        return from_numpy(host, ShapedArray(shape, dtype))
    return st.iota_p.bind(dtype=dtype, shape=shape, dimension=dimension)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0,
    *, device: Any = None,
) -> Any:  # fmt: skip
    """`num` evenly spaced values from start to stop.

    Args:
        start, stop: numbers or arrays that broadcast.
        num: how many values; an integer known while tracing.
        endpoint: whether stop is the last value.
        retstep: also return the spacing, which is the number NaN where fewer than two values span it.
        dtype: the dtype; by default inexact.
        axis: where the new dimension goes.

    Raises:
        ValueError: num is negative.

    Follows `numpy.linspace`.

    >>> quire.numpy.linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = as_int("linspace", num, "num")
    if num < 0:
        raise ValueError(f"quire.numpy.linspace: num must be non-negative, got {num}")
    ends = [x for x in (start, stop) if type(x) is int or type(x) is float]
    start, stop = ensure("linspace", start, "start"), ensure("linspace", stop, "stop")
    d = inexact(result_type(start, stop)[0]) if dtype is None else user_dtype("linspace", dtype)
    compute = inexact(d)
    compute = dtypes.float32 if compute in (dtypes.float16, dtypes.bfloat16) else compute
    div = (num - 1) if endpoint else num
    # Rounded once, by the division, where the ends are whole numbers: 0 to 200 in steps of 1 are these.
    once = len(ends) == 2 and max(map(abs, ends)) * div < float(finfo(compute).max) / 4
    if once and num > 1 and axis == 0 and device is None and not retstep and not dtypes.is_complex(d) and eager_here():
        host = _between(ends[0], ends[1], num, div, compute)
        host = np.floor(host) if dtypes.is_integer(d) else host
        return from_numpy(host.astype(d), ShapedArray((num,), d))
    start, stop = cast(start, compute), cast(stop, compute)

    start, stop = promote_all_shapes("linspace", start, stop)
    shape = aval_of(start).shape
    real = dtypes.real_dtype(compute)
    if num > 1:
        delta = divide(subtract(stop, start), compute.type(div))
        column = (div if endpoint else num,) + (1,) * len(shape)
        place = st.reshape(iota((column[0],), 0, real), column)
        first, last = st.reshape(start, (1, *shape)), st.reshape(stop, (1, *shape))
        if once:
            place = cast(place, compute)
            weighted = ar.add_(multiply(first, subtract(compute.type(div), place)), multiply(last, place))
            out = divide(weighted, compute.type(div))
        else:
            step = cast(divide(place, real.type(div)), compute)
            out = ar.add_(multiply(first, subtract(compute.type(1), step)), multiply(last, step))
        if endpoint:
            out = concatenate([out, expand_dims(stop, 0)], axis=0)
    elif num == 1:
        delta = filled((), math.nan, compute) if endpoint else subtract(stop, start)
        out = st.reshape(start, (1, *shape))
    else:
        delta = filled((), math.nan, compute)
        out = filled((0, *shape), 0, compute)
    if dtypes.is_integer(d) and not dtypes.is_integer(compute):
        out = ew.floor(out)
    out = cast(out, d)
    if axis != 0:
        out = moveaxis(out, 0, axis)
    out = out if device is None else device_put(out, device)
    return (out, cast(delta, inexact(d))) if retstep else out


def _between(start: float, stop: float, num: int, div: int, dtype: DType) -> np.ndarray[Any, Any]:
    """What `linspace` computes of two numbers, in host memory; the last value is `stop`."""
    place, scale = np.arange(num, dtype=dtype), dtype.type(div)
    out = (dtype.type(start) * (scale - place) + dtype.type(stop) * place) / scale
    if div < num:
        out[-1] = stop
    return out


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Value:
    """`num` values evenly spaced in the exponent: base**start to base**stop. Follows `numpy.logspace`.

    >>> quire.numpy.logspace(0, 2, 3, base=2.)
    Array([1., 2., 4.], dtype=float32)
    """
    d = None if dtype is None else user_dtype("logspace", dtype)
    out = power(base, linspace(start, stop, num, endpoint=endpoint, dtype=None, axis=axis))
    return out if d is None else cast(out, d)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Value:
    """`num` values in geometric progression from start to stop. Follows `numpy.geomspace`.

    >>> quire.numpy.geomspace(1, 4, 3).round(4)
    Array([1., 2., 4.], dtype=float32)
    """
    d = inexact(result_type(start, stop)[0]) if dtype is None else user_dtype("geomspace", dtype)
    start, stop = promote_inexact(ensure("geomspace", start, "start"), ensure("geomspace", stop, "stop"))
    steps = linspace(0, 1, num, endpoint=endpoint, dtype=aval_of(start).dtype)
    shape = (-1,) + (1,) * max(aval_of(start).ndim, aval_of(stop).ndim)

    out = multiply(start, exp(multiply(reshape(steps, shape), log(divide(stop, start)))))
    out = cast(out, d)
    return moveaxis(out, 0, axis) if axis != 0 else out


__all__ = ["arange", "geomspace", "linspace", "logspace"]

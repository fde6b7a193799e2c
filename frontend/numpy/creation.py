"""Creation of arrays: from Python and NumPy values, filled, in ranges, as grids and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of, refuse_masked
from quire.ir.dtypes import DType
from quire.ir.errors import TracerArrayConversionError
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, from_numpy, host_value
from quire.runtime.buffers import aligned_copy

from ._util import (
    SCALARS,
    Value,
    as_int,
    as_shape,
    broadcast_to,
    cast,
    concrete_array,
    eager_here,
    ensure,
    inexact,
    known_shape_operand,
    promote_inexact,
    result_type,
    user_dtype,
)


@reports_memory
def filled(shape: tuple[int, ...], value: Any, dtype: DType, weak: bool = False) -> Value:
    """`value` (a scalar) repeated: made at once outside a trace, recorded as a broadcast in one."""
    if eager_here() and not isinstance(value, Tracer):
        host = host_value(value) if isinstance(value, Array) else value
        with np.errstate(all="ignore"):
            if type(host) is int:
                host = np.asarray(host).astype(dtype)
            return from_numpy(np.full(shape, host, dtype), ShapedArray(shape, dtype, weak))
    scalar = cast(value, dtype, weak)
    if not shape:
        return (
            scalar
            if hasattr(scalar, "aval")
            else ew.convert_element_type_p.bind(scalar, new_dtype=dtype, weak_type=weak)
        )
    return st.broadcast_in_dim_p.bind(scalar, shape=shape, broadcast_dimensions=())


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
    return x if device is None else _put(x, device)


def _put(x: Value, device: Any) -> Value:
    from quire import device_put  # type: ignore[attr-defined]

    return device_put(x, device)


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
    from .joining import stack

    if isinstance(value, list | tuple):
        rows = [_stack_traced(v, dtype) for v in value]
        if not rows:
            return filled((0,), 0.0, dtype or dtypes.canonicalize(dtypes.float64))
        return stack(rows) if dtype is None else stack(rows, dtype=dtype)
    return _array(value, dtype, False)


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


def _fill(name: str, shape: Any, value: Any, dtype: Any, device: Any = None) -> Value:
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype(name, dtype)
    x = filled(as_shape(name, shape), value, d)
    return x if device is None else _put(x, device)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of zeros; float32 (float64 with enable_x64) by default. Follows `numpy.zeros`.

    >>> quire.numpy.zeros(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill("zeros", shape, 0, dtype, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of ones; float32 (float64 with enable_x64) by default. Follows `numpy.ones`.

    >>> quire.numpy.ones((2,), dtype=int)
    Array([1, 1], dtype=int32)
    """
    return _fill("ones", shape, 1, dtype, device)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array of zeros: quire has no uninitialised arrays. Follows `numpy.empty`.

    >>> quire.numpy.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _fill("empty", shape, 0, dtype, device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """An array filled with a value, which broadcasts to the shape; its dtype by default. Follows `numpy.full`.

    >>> quire.numpy.full(2, 7., dtype="float32")
    Array([7., 7.], dtype=float32)
    """
    sizes = as_shape("full", shape)
    return _full("full", sizes, fill_value, None if dtype is None else user_dtype("full", dtype), device)


def _full(name: str, shape: tuple[int, ...], value: Any, dtype: DType | None, device: Any) -> Value:
    if type(value) not in SCALARS:
        value = ensure(name, value, "fill_value")
    aval = aval_of(value)
    d, weak = (aval.dtype, aval.weak_type) if dtype is None else (dtype, False)
    if aval.shape:
        value = cast(value, d, weak)
        from ._util import broadcast_shapes

        if broadcast_shapes(name, aval.shape, shape) != shape:
            raise ValueError(f"quire.numpy.{name}: fill_value of shape {aval.shape} does not broadcast to {shape}")
        x = broadcast_to(value, shape)
    else:
        x = filled(shape, value, d, weak)
    return x if device is None else _put(x, device)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any) -> Value:
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        a = ensure(name, a)
    weak = dtype is None and getattr(a, "weak_type", False)
    d = dtypes.canonicalize(a.dtype) if dtype is None else user_dtype(name, dtype)
    sizes = tuple(a.shape) if shape is None else as_shape(name, shape)
    if type(value) not in SCALARS:
        return _full(name, sizes, value, d, device)
    x = filled(sizes, value, d, weak)
    return x if device is None else _put(x, device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Value:
    """Zeros of the shape and dtype of `a`, or of those given. Follows `numpy.zeros_like`.

    >>> quire.numpy.zeros_like(quire.numpy.arange(2))
    Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device)


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


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Value:
    """An array filled with a value, of the shape and dtype of `a` or of those given. Follows `numpy.full_like`.

    >>> quire.numpy.full_like(quire.numpy.arange(2), 5)
    Array([5, 5], dtype=int32)
    """
    return _like("full_like", a, fill_value, dtype, shape, device)


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Value:
    """Evenly spaced values in [start, stop).

    Args:
        start, stop, step: numbers known while tracing; with one argument it is the stop, and the start is 0.
        dtype: the dtype; by default that of the arguments.

    Raises:
        ConcretizationTypeError: an argument is traced: the result's shape would be unknown.

    Follows `numpy.arange`.

    >>> quire.numpy.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
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
    return x if device is None else _put(x, device)


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
        retstep: also return the spacing.
        dtype: the dtype; by default inexact.
        axis: where the new dimension goes.

    Follows `numpy.linspace`.

    >>> quire.numpy.linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    from . import arithmetic as ar
    from .elementwise import divide, multiply, subtract
    from .joining import concatenate
    from .shapes import expand_dims, moveaxis

    num = as_int("linspace", num, "num")
    if num < 0:
        raise ValueError(f"quire.numpy.linspace: num must be non-negative, got {num}")
    start, stop = ensure("linspace", start, "start"), ensure("linspace", stop, "stop")
    d = inexact(result_type(start, stop)[0]) if dtype is None else user_dtype("linspace", dtype)
    compute = inexact(dtypes.promote([(result_type(start, stop)[0], False), (d, False)])[0])
    start, stop = cast(start, compute), cast(stop, compute)
    from ._util import promote_all_shapes

    start, stop = promote_all_shapes("linspace", start, stop)
    shape = aval_of(start).shape
    div = (num - 1) if endpoint else num
    real = dtypes.real_dtype(compute)
    if num > 1:
        delta = divide(subtract(stop, start), real.type(div))
        column = (div if endpoint else num,) + (1,) * len(shape)
        step = divide(st.reshape(iota((column[0],), 0, real), column), real.type(div))
        out = ar.add_(
            multiply(st.reshape(start, (1, *shape)), subtract(real.type(1), step)),
            multiply(st.reshape(stop, (1, *shape)), step),
        )
        if endpoint:
            out = concatenate([out, expand_dims(stop, 0)], axis=0)
    elif num == 1:
        delta = filled(shape, math.nan, compute) if endpoint else subtract(stop, start)
        out = st.reshape(start, (1, *shape))
    else:
        delta = filled(shape, math.nan, compute)
        out = filled((0, *shape), 0, compute)
    if dtypes.is_integer(d) and not dtypes.is_integer(compute):
        out = ew.floor(out)
    out = cast(out, d)
    if axis != 0:
        out = moveaxis(out, 0, axis)
    out = out if device is None else _put(out, device)
    return (out, delta) if retstep else out


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Value:
    """`num` values evenly spaced in the exponent: base**start to base**stop. Follows `numpy.logspace`.

    >>> quire.numpy.logspace(0, 2, 3, base=2.)
    Array([1., 2., 4.], dtype=float32)
    """
    from .arithmetic import power

    d = None if dtype is None else user_dtype("logspace", dtype)
    out = power(base, linspace(start, stop, num, endpoint=endpoint, dtype=None, axis=axis))
    return out if d is None else cast(out, d)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Value:
    """`num` values in geometric progression from start to stop. Follows `numpy.geomspace`.

    >>> quire.numpy.geomspace(1, 4, 3).round(4)
    Array([1., 2., 4.], dtype=float32)
    """
    from .elementwise import divide, exp, log, multiply

    d = inexact(result_type(start, stop)[0]) if dtype is None else user_dtype("geomspace", dtype)
    start, stop = promote_inexact(ensure("geomspace", start, "start"), ensure("geomspace", stop, "stop"))
    steps = linspace(0, 1, num, endpoint=endpoint, dtype=aval_of(start).dtype)
    shape = (-1,) + (1,) * max(aval_of(start).ndim, aval_of(stop).ndim)
    from .shapes import moveaxis, reshape

    out = multiply(start, exp(multiply(reshape(steps, shape), log(divide(stop, start)))))
    out = cast(out, d)
    return moveaxis(out, 0, axis) if axis != 0 else out


@reports_memory
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Value:
    """A matrix with ones on its k-th diagonal and zeros elsewhere. Follows `numpy.eye`.

    >>> quire.numpy.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n = as_int("eye", N, "N")
    m = n if M is None else as_int("eye", M, "M")
    if n < 0 or m < 0:
        raise ValueError(f"quire.numpy.eye: negative dimensions are not allowed, got {n} and {m}")
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype("eye", dtype)
    k = as_int("eye", k, "k")
    if eager_here():
        x: Value = concrete_array(np.eye(n, m, k).astype(d))
    else:
        rows, columns = iota((n, m), 0, dtypes.int32), iota((n, m), 1, dtypes.int32)
        x = cast(ew.eq_p.bind(ew.add_p.bind(rows, np.int32(k)), columns), d)
    return x if device is None else _put(x, device)


def identity(n: int, dtype: Any = None) -> Value:
    """The n-by-n identity matrix. Follows `numpy.identity`.

    >>> quire.numpy.identity(2, dtype=int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Value:
    """A matrix with ones at and below the k-th diagonal. Follows `numpy.tri`.

    >>> quire.numpy.tri(2, dtype=int)
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    n, m = as_int("tri", N, "N"), as_int("tri", N if M is None else M, "M")
    d = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype("tri", dtype)
    return cast(_below(n, m, as_int("tri", k, "k")), d)


@reports_memory
def _below(n: int, m: int, k: int) -> Value:
    """Whether an element of an n-by-m matrix lies at or below the k-th diagonal."""
    if eager_here():
        return concrete_array(np.tri(n, m, k, dtype=bool))
    rows, columns = iota((n, m), 0, dtypes.int32), iota((n, m), 1, dtypes.int32)
    return ew.ge_p.bind(ew.add_p.bind(rows, np.int32(k)), columns)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Value:
    x = ensure(name, m)
    aval = aval_of(x)
    if aval.ndim < 2:
        raise ValueError(f"quire.numpy.{name}: the argument must be at least 2-dimensional, got {aval.short()}")
    mask = broadcast_to(_below(aval.shape[-2], aval.shape[-1], as_int(name, k, "k") - (0 if lower else 1)), aval.shape)
    zero = filled(aval.shape, 0, aval.dtype, aval.weak_type)
    return ew.select_n_p.bind(mask, zero, x) if lower else ew.select_n_p.bind(mask, x, zero)


def tril(m: Any, k: int = 0) -> Value:
    """The matrices of the last two dimensions with zeros above the k-th diagonal. Follows `numpy.tril`.

    >>> quire.numpy.tril(quire.numpy.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, True)


def triu(m: Any, k: int = 0) -> Value:
    """The matrices of the last two dimensions with zeros below the k-th diagonal. Follows `numpy.triu`.

    >>> quire.numpy.triu(quire.numpy.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k, False)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Value]:
    """Grids of coordinates from vectors of them.

    Args:
        *xi: scalars or 1-dimensional arrays.
        copy: must be True: arrays have no views.
        sparse: whether to return arrays of size 1 along all but their own dimension.
        indexing: "xy" (the first two dimensions swapped) or "ij".

    Follows `numpy.meshgrid`.

    >>> quire.numpy.meshgrid(quire.numpy.arange(2), quire.numpy.arange(1))
    [Array([[0, 1]], dtype=int32), Array([[0, 0]], dtype=int32)]
    """
    if not copy:
        raise ValueError("quire.numpy.meshgrid: copy=False is not supported: arrays have no views")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"quire.numpy.meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    xs = [ensure("meshgrid", x, i) for i, x in enumerate(xi)]
    for i, x in enumerate(xs):
        if x.ndim > 1:
            raise ValueError(f"quire.numpy.meshgrid: argument {i} must be 0- or 1-dimensional, got {x.aval.short()}")
    n = len(xs)
    order = list(range(n))
    if indexing == "xy" and n >= 2:
        order[0], order[1] = 1, 0
    sizes = [x.size for x in xs]
    shape = tuple(sizes[i] for i in order)
    out = []
    for i, x in enumerate(xs):
        one = [1] * n
        one[order.index(i)] = sizes[i]
        x = st.reshape(x, one)
        out.append(x if sparse else broadcast_to(x, shape))
    return out


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: an array with a leading dimension of one entry a dimension. Follows `numpy.indices`.

    >>> quire.numpy.indices((1, 2))
    Array([[[0, 0]],
    <BLANKLINE>
           [[0, 1]]], dtype=int32)
    """
    from .joining import stack

    d = dtypes.canonicalize(dtypes.int64) if dtype is None else user_dtype("indices", dtype)
    shape = as_shape("indices", dimensions, "dimensions")
    out = []
    for i, n in enumerate(shape):
        one = tuple(n if j == i else 1 for j in range(len(shape)))
        out.append(iota(one if sparse else shape, i, d))
    if sparse:
        return tuple(out)
    return stack(out) if out else filled((0,), 0, d)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """An array of the values of a function of the indices. Follows `numpy.fromfunction`.

    >>> quire.numpy.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    sizes = as_shape("fromfunction", shape)
    d = user_dtype("fromfunction", dtype)
    return function(*[iota(sizes, i, d) for i in range(len(sizes))], **kwargs)


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
    """Not implemented, as in JAX: read with `numpy.fromfile` and convert with `quire.numpy.asarray`."""
    raise NotImplementedError(
        "quire.numpy.fromfile: reading files is NumPy's task: quire.numpy.asarray(numpy.fromfile(...))"
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of an object with `__dlpack__` (NumPy, PyTorch, ...), on the CPU without a copy.

    Args:
        x: the object; it must not be written while the array is in use.
        device: the device on which the result lies.
        copy: True for memory of its own; False raises BufferError where a copy would be needed.

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
    return y if device is None else _put(y, device)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Value:
    """The Vandermonde matrix of a vector: its powers as columns, highest first. Follows `numpy.vander`.

    >>> quire.numpy.vander(quire.numpy.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    from .arithmetic import power

    x = ensure("vander", x)
    if x.ndim != 1:
        raise ValueError(f"quire.numpy.vander: x must be 1-dimensional, got {aval_of(x).short()}")
    n = x.shape[0] if N is None else as_int("vander", N, "N")
    if n < 0:
        raise ValueError(f"quire.numpy.vander: N must be non-negative, got {n}")
    exponents = iota((n,), 0, dtypes.int32)
    if not increasing:
        exponents = ew.sub_p.bind(np.int32(n - 1), exponents)
    # Weak exponents leave the dtype of x as it is.
    weak = ew.convert_element_type_p.bind(st.reshape(exponents, (1, n)), new_dtype=dtypes.int32, weak_type=True)
    return power(st.reshape(x, (x.shape[0], 1)), weak)

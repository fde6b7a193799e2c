"""What every function of quire.numpy begins with: checks of its arguments, promotion of dtypes and shapes."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of, check_int_range
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.errors import ConcretizationTypeError
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.tracing import Tracer, current_trace
from quire.runtime.array import Array, from_numpy, host_value

Value = Any
F = TypeVar("F", bound=Callable[..., Any])
SCALARS = (bool, int, float, complex)
_ARRAYS = (Array, Tracer, np.ndarray, np.generic, bool, int, float, complex)


def is_arraylike(x: Any) -> bool:
    """Whether x is an array or a number, as the functions of quire.numpy take them; a list is not."""
    return isinstance(x, _ARRAYS) or hasattr(x, "__jax_array__")


def not_arraylike(name: str, x: Any, position: int | str = 0) -> TypeError:
    """The error of an argument that is no array; it names the fix."""
    where = f"at position {position}" if isinstance(position, int) else f"for argument {position}"
    fix = ""
    why = getattr(x, "why_no_array", None)
    if why is not None:
        return TypeError(f"quire.numpy.{name}: does not accept dtype {x.dtype} {where}: {why}")
    if isinstance(x, list | tuple):
        fix = f": convert it first, quire.numpy.{name}(quire.numpy.array(...))"
    return TypeError(f"quire.numpy.{name}: requires ndarray or scalar arguments, got {type(x)} {where}{fix}")


def check_arraylike(name: str, *args: Any) -> None:
    """Raise TypeError unless every argument is an array or a number."""
    for i, x in enumerate(args):
        if not is_arraylike(x):
            raise not_arraylike(name, x, i)
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSUMmV" and x.dtype not in dtypes.SHORT:
            raise TypeError(f"quire.numpy.{name}: argument {i} has dtype {x.dtype}, which quire does not have")


def ensure(name: str, x: Any, position: int | str = 0) -> Value:
    """The argument as an Array or a tracer."""
    kind = type(x)
    if kind is Array or kind is Tracer:
        return x
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if not is_arraylike(x):
        raise not_arraylike(name, x, position)
    return lift(x)


def lift(x: Any) -> Value:
    """A number or a NumPy array as an Array (of a copy, because NumPy arrays may change); arrays as they are."""
    if isinstance(x, Array | Tracer):
        return x
    aval = aval_of(x)
    return from_numpy(np.array(x, dtype=aval.dtype), aval)


def concrete(x: Any) -> Any | None:
    """The value as a NumPy array, where it is known: None for a tracer without one."""
    if isinstance(x, Tracer):
        x = x.concrete()
        if x is None:
            return None
    return host_value(x) if isinstance(x, Array) else np.asarray(x)


def known_shape_operand(name: str, x: Any, advice: str) -> Any:
    """The value of an argument that decides the result's shape; ConcretizationTypeError where it is traced."""
    value = concrete(x)
    if value is None:
        raise ConcretizationTypeError(
            f"quire.numpy.{name}: the result's shape depends on the values of {aval_of(x).short()}, which are not known "
            f"while {x.owner.name} is traced: {advice}"
        )
    return value


def eager_here() -> bool:
    """Whether an operation on concrete values is evaluated at once (and not recorded) here."""
    trace = current_trace()
    return trace is None or not trace.staging


# -- dtypes -----------------------------------------------------------------------------------------------------------

INEXACT = frozenset((*dtypes.FLOATS, *dtypes.COMPLEX))


def user_dtype(name: str, dtype: Any) -> DType:
    """A dtype argument as quire stores it: a warning where a 64-bit one becomes 32-bit, TypeError for unknown ones."""
    try:
        wanted = dtypes.as_dtype(dtype)
        result = dtypes.canonicalize(wanted)
    except TypeError as error:
        raise TypeError(
            f"quire.numpy.{name}: {dtype!r} is not a dtype that quire has: bool, int8..int64, uint8..uint64, float16, "
            "bfloat16, float32, float64, complex64, complex128"
        ) from error
    if result != wanted and dtype not in SCALARS:
        warnings.warn(
            f"quire.numpy.{name}: explicitly requested dtype {wanted} is not available and becomes {result}; "
            "quire.config.update('enable_x64', True) enables 64-bit dtypes",
            UserWarning,
            stacklevel=3,
        )
    return result


def kind_of(x: Any) -> tuple[DType, bool]:
    """The (dtype, weak_type) pair that promotion takes."""
    aval = aval_of(x)
    return aval.dtype, aval.weak_type


def result_type(*args: Any) -> tuple[DType, bool]:
    """The dtype and weak type of an operation on these values."""
    return dtypes.promote([kind_of(x) for x in args])


def weak_where_all_are(result: Value, *operands: Value) -> Value:
    """`result`, of weak type only if all operands are.

    An operation's result is of weak type too where that of a Python number prevails (an array of integers and 2.5). JAX
    forgets it in functions that choose between values.
    """
    return result if all(kind_of(x)[1] for x in operands) else cast(result, aval_of(result).dtype)


def inexact(d: DType) -> DType:
    """The dtype of inexact operations on operands of dtype d: float32 for bool and integers, float64 for 64-bit ones."""
    if d in INEXACT:
        return d
    return dtypes.float64 if d in (dtypes.int64, dtypes.uint64) else dtypes.float32


def cast(x: Value, dtype: DType, weak: bool = False) -> Value:
    """x with that dtype; a Python scalar becomes a scalar of that dtype, or stays one of Python if weak."""
    kind = type(x)
    if kind in SCALARS:
        return _cast_scalar(x, dtype, weak)
    aval = aval_of(x)
    if aval.dtype == dtype and (weak or not aval.weak_type):
        return x
    return ew.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def _cast_scalar(x: Any, dtype: DType, weak: bool) -> Any:
    if weak:
        if dtypes.is_complex(dtype):
            return complex(x)
        return float(x) if dtype in INEXACT else x
    if type(x) is int and dtypes.is_integer(dtype):
        try:
            return dtype.type(x)
        except OverflowError:  # wraps, as the conversion of an array does
            check_int_range(x)
            return np.asarray(x).astype(dtype)[()]
    if -6e4 < abs(x) < 6e4:
        return dtype.type(x)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)[()]


def promote_dtypes(*args: Value) -> list[Value]:
    """The arguments with one dtype, by the promotion lattice."""
    dtype, weak = result_type(*args)
    return [cast(x, dtype, weak) for x in args]


def promote_inexact(*args: Value) -> list[Value]:
    """The arguments with one inexact dtype; bool and integers become float32, those of 64 bits float64."""
    dtype, weak = result_type(*args)
    dtype = inexact(dtype)
    return [cast(x, dtype, weak) for x in args]


# -- shapes -----------------------------------------------------------------------------------------------------------


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which the shapes broadcast by NumPy's rule; TypeError names them if they do not."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    ndim = max(map(len, shapes), default=0)
    out: list[int] = []
    for i in range(-ndim, 0):
        sizes = {s[i] for s in shapes if len(s) >= -i} - {1}
        if len(sizes) > 1:
            raise TypeError(
                f"quire.numpy.{name}: incompatible shapes for broadcasting: {', '.join(map(str, shapes))}: "
                "dimensions, aligned at the last, must be equal or 1"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def check_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Apply `config.numpy_rank_promotion` to operands of these shapes; scalars are always accepted."""
    mode = config.options.numpy_rank_promotion
    if mode == "allow":
        return
    ranks = {len(s) for s in shapes if s}
    if len(ranks) > 1:
        message = (
            f"quire.numpy.{name}: operands have different ranks, {', '.join(map(str, shapes))}, and "
            f"config.numpy_rank_promotion is {mode!r}: write the new dimensions, for example x[None, :]"
        )
        if mode == "raise":
            raise ValueError(message)
        warnings.warn(message, stacklevel=4)


def promote_shapes(name: str, *args: Value) -> list[Value]:
    """The arguments broadcast to one shape; scalars stay scalars."""
    shapes = [aval_of(x).shape for x in args]
    arrays = {s for s in shapes if s}
    if len(arrays) < 2:
        return list(args)
    check_rank_promotion(name, shapes)
    shape = broadcast_shapes(name, *shapes)
    return [x if not s else broadcast_to(x, shape) for x, s in zip(args, shapes)]


def promote_all_shapes(name: str, *args: Value) -> list[Value]:
    """The arguments broadcast to one shape, scalars too."""
    shapes = [aval_of(x).shape for x in args]
    if len(set(shapes)) > 1:
        check_rank_promotion(name, shapes)
    shape = broadcast_shapes(name, *shapes)
    return [broadcast_to(x, shape) for x in args]


def broadcast_to(x: Value, shape: tuple[int, ...]) -> Value:
    """x repeated to a shape to which it is known to broadcast."""
    aval = aval_of(x)
    if aval.shape == shape:
        return x
    n = len(shape)
    return st.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=tuple(range(n - aval.ndim, n)))


def as_int(name: str, value: Any, what: str) -> int:
    """An integer argument; TypeError names it."""
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        raise TypeError(f"quire.numpy.{name}: {what} must be an integer, got {value!r}") from None


def as_shape(name: str, shape: Any, what: str = "shape") -> tuple[int, ...]:
    """A shape argument (an integer or a sequence of them) as a tuple; negative sizes raise ValueError."""
    sizes: Iterable[Any]
    if isinstance(shape, Array | np.ndarray):
        sizes = [shape] if shape.ndim == 0 else list(shape)
    elif isinstance(shape, Tracer) or not isinstance(shape, Iterable):
        sizes = [shape]
    else:
        sizes = shape
    out = tuple([as_int(name, n, f"each size of {what}") for n in sizes])
    if any(n < 0 for n in out):
        raise ValueError(f"quire.numpy.{name}: {what} {out} has a negative size")
    return out


def as_axis(name: str, axis: Any, ndim: int, what: str = "axis") -> int:
    """An axis within [0, ndim), from one in [-ndim, ndim)."""
    a = as_int(name, axis, what)
    if not -ndim <= a < ndim:
        raise ValueError(f"quire.numpy.{name}: {what} {a} is out of bounds for array of dimension {ndim}")
    return a + ndim if a < 0 else a


def as_axes(name: str, axis: Any, ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Axes as a sorted tuple: of None (all), an integer, or a sequence; duplicates raise ValueError."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, Sequence | np.ndarray) and not isinstance(axis, str):
        axes = tuple([as_axis(name, a, ndim, what) for a in axis])
        if len(set(axes)) != len(axes):
            raise ValueError(f"quire.numpy.{name}: duplicate value in {what} {tuple(axis)}")
        return axes
    return (as_axis(name, axis, ndim, what),)


def no_out(name: str, out: Any) -> None:
    """Raise NotImplementedError for an `out` argument: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"quire.numpy.{name}: the 'out' argument is not supported, arrays are immutable: use the returned array"
        )


def scalar_like(value: Any, x: Value) -> Any:
    """A Python or NumPy scalar of the dtype of x (weak if x is)."""
    aval: ShapedArray = aval_of(x)
    return cast(value, aval.dtype, aval.weak_type) if type(value) in SCALARS else value


def concrete_array(value: Any, dtype: Any = None) -> Array:
    """A fresh NumPy result as an Array."""
    array = np.asarray(value, dtype=dtype)
    return from_numpy(array, ShapedArray(array.shape, array.dtype))


def members(x: Any) -> list[Value]:
    """The subarrays of an array along its first dimension, or the items of a sequence."""
    return list(x)

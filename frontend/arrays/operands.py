"""What every function of the library begins with: its arguments as arrays of one dtype and one shape, numbers, axes.

`name` is the full name of the function as a user writes it, ``quire.nn.relu``; a name without ``quire.`` is one of
quire.numpy. Errors begin with it.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of, check_int_range
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.errors import ConcretizationTypeError
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st
from quire.ir.primitives.common import scalar_as
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer, current_trace
from quire.runtime.array import Array, from_numpy, host_value

Value = Any
F = TypeVar("F", bound=Callable[..., Any])
SCALARS = (bool, int, float, complex)
HALF = (dtypes.float16, dtypes.bfloat16)
_ARRAYS = (Array, Tracer, np.ndarray, np.generic, bool, int, float, complex)


def full_name(name: str) -> str:
    """The name of a function as a user writes it."""
    return name if name.startswith("quire.") else f"quire.numpy.{name}"


def is_arraylike(x: Any) -> bool:
    """Whether x is an array or a number, as the functions of quire.numpy take them; a list is not."""
    return isinstance(x, _ARRAYS) or hasattr(x, "__jax_array__")


def not_arraylike(name: str, x: Any, position: int | str = 0) -> TypeError:
    """The error of an argument that is no array; it names the fix."""
    where = f"at position {position}" if isinstance(position, int) else f"for argument {position}"
    fix = ""
    why = getattr(x, "why_no_array", None)
    if why is not None:
        return TypeError(f"{full_name(name)}: does not accept dtype {x.dtype} {where}: {why}")
    if isinstance(x, list | tuple):
        fix = f": convert it first, {full_name(name)}(quire.numpy.array(...))"
    return TypeError(f"{full_name(name)}: requires ndarray or scalar arguments, got {type(x)} {where}{fix}")


def check_arraylike(name: str, *args: Any) -> None:
    """Raise TypeError unless every argument is an array or a number."""
    for i, x in enumerate(args):
        if not is_arraylike(x):
            raise not_arraylike(name, x, i)
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSUMmV" and x.dtype not in dtypes.SHORT:
            raise TypeError(f"{full_name(name)}: argument {i} has dtype {x.dtype}, which quire does not have")


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


class WeakNumber(np.ndarray[Any, Any]):
    """A number of weak type with an array's attributes. What NumPy computes of it is an array as any other."""

    @property
    def aval(self) -> ShapedArray:
        """Its type."""
        return ShapedArray(self.shape, dtypes.canonicalize(self.dtype), True)

    @property
    def weak_type(self) -> bool:
        """True: its dtype gives way to that of other operands."""
        return True

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()] if return_scalar else np.asarray(array)


def as_array(x: Any) -> Any:
    """A number or a NumPy array as an Array; inside a trace a scalar stays a literal, with an array's attributes."""
    if isinstance(x, Array | Tracer):
        return x
    aval = aval_of(x)
    if aval.dtype.itemsize == 0 or not isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        return x
    if current_trace() is not None and not aval.shape:
        return np.asarray(x, aval.dtype).view(WeakNumber) if aval.weak_type else np.asarray(x, aval.dtype)
    return from_numpy(np.array(x, aval.dtype), aval)


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
            f"{full_name(name)}: the result's shape depends on the values of {aval_of(x).short()}, which are not known "
            f"while {x.owner.name} is traced: {advice}"
        )
    return value


def eager_here() -> bool:
    """Whether an operation on concrete values is evaluated at once (and not recorded) here."""
    trace = current_trace()
    return trace is None or not trace.staging


def array_of(name: str, x: Any, what: str = "x") -> Value:
    """An argument as an Array or a tracer; TypeError for what is no array and no number."""
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if not is_arraylike(x):
        fix = ": convert it first, quire.numpy.array(...)" if isinstance(x, list | tuple) else ""
        raise TypeError(f"{name}: {what} must be an array or a number, got {type(x).__name__}{fix}")
    try:
        return lift(x)
    except TypeError as error:
        raise TypeError(f"{name}: {what}: {error}") from None


# -- dtypes -----------------------------------------------------------------------------------------------------------

# Of the narrow ones too, which no primitive computes with: what is asked of them says so.
INEXACT = frozenset((*dtypes.FLOATS, *dtypes.NARROW_FLOATS, *dtypes.COMPLEX))


def user_dtype(name: str, dtype: Any) -> DType:
    """A dtype argument as quire stores it: a warning where a 64-bit one becomes 32-bit, TypeError for unknown ones.

    ValueError for an array, which JAX took once and does not any more.
    """
    if isinstance(dtype, Array | Tracer):
        raise ValueError(
            f"{full_name(name)}: Passing an array as a dtype argument is no longer supported, got {dtype.aval.short()}; "
            "instead of dtype=arr use dtype=arr.dtype"
        )
    try:
        wanted = dtypes.as_dtype(dtype)
        pythons = _is_pythons(dtype)
        result = dtypes.canonicalize(wanted) if pythons else dtypes.explicit(wanted)
    except TypeError as error:
        raise TypeError(
            f"{full_name(name)}: {dtype!r} is not a dtype that quire has: bool, int8..int64, uint8..uint64, float16, "
            "bfloat16, float32, float64, complex64, complex128"
        ) from error
    if result != wanted and not pythons:
        _narrowed(full_name(name), wanted, result)
    return result


def lax_dtype(name: str, dtype: Any) -> DType | None:
    """`user_dtype` of an argument of a function of `quire.lax`; None stays None."""
    return None if dtype is None else user_dtype(f"quire.lax.{name}", dtype)


def _is_pythons(dtype: Any) -> bool:
    """Whether it is one of Python's types, which have no width. (NumPy's dtype of 64 bits equals it.)"""
    return isinstance(dtype, type) and dtype in SCALARS


def _narrowed(name: str, wanted: DType, result: DType) -> None:
    """Say that a 64-bit dtype that was asked for is not available, as `config.explicit_x64_dtypes` has it.

    The text begins as JAX's does: libraries filter the warning by it.
    """
    text = "quire.config.update('enable_x64', True) enables 64-bit dtypes"
    if config.options.explicit_x64_dtypes == "error":
        raise ValueError(
            f"Explicitly requested dtype {wanted} of {name} is not available{where(current_source(3))}: {text}"
        )
    message = f"Explicitly requested dtype {wanted} of {name} is not available and becomes {result}: {text}"
    warnings.warn(message, UserWarning, stacklevel=4)


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


def strong(xs: Sequence[Value]) -> list[Value]:
    """The values with strong types: those of Python numbers do not reach the results of most special functions in JAX."""
    return [cast(x, aval_of(x).dtype) for x in xs]


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
    if aval.dtype == dtype and weak == aval.weak_type:
        return x
    return ew.convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def _cast_scalar(x: Any, dtype: DType, weak: bool) -> Any:
    if weak:
        if dtypes.is_complex(dtype):
            return complex(x)
        # True among integers of weak type is 1.
        value = float(x) if dtype in INEXACT else x if dtypes.is_bool(dtype) else int(x)
        if aval_of(value).dtype != dtype:
            return ew.convert_element_type_p.bind(value, new_dtype=dtype, weak_type=True)
        return value
    if type(x) is int and dtypes.is_integer(dtype):
        try:
            return dtype.type(x)
        except OverflowError:  # wraps, as the conversion of an array does
            check_int_range(x)
            return np.asarray(x).astype(dtype)[()]
    if dtypes.is_inexact(dtype) and type(x) is not complex and -6e4 < x < 6e4:
        return dtype.type(x)
    return scalar_as("convert_element_type", x, dtype)


def promote_dtypes(*args: Value) -> list[Value]:
    """The arguments with one dtype, by the promotion lattice."""
    dtype, weak = result_type(*args)
    return [cast(x, dtype, weak) for x in args]


def promote_inexact(*args: Value) -> list[Value]:
    """The arguments with one inexact dtype; bool and integers become float32, those of 64 bits float64."""
    dtype, weak = result_type(*args)
    dtype = inexact(dtype)
    return [cast(x, dtype, weak) for x in args]


def inexact_of(name: str, x: Any, what: str = "x", *, weak: bool = False) -> Value:
    """An argument as a float or complex array; integers and bool become the default float (of weak type if `weak`)."""
    x = array_of(name, x, what)
    aval = aval_of(x)
    return cast(x, inexact(aval.dtype), aval.weak_type or (weak and not dtypes.is_inexact(aval.dtype)))


def float_only(name: str, x: Any, what: str = "x") -> Value:
    """An argument that must be a float or complex array: TypeError for integers and bool."""
    x = array_of(name, x, what)
    if not dtypes.is_inexact(aval_of(x).dtype):
        raise TypeError(
            f"{name}: {what} must be a float or complex array, got {aval_of(x).short()}: convert it, .astype(float)"
        )
    return x


def no_bool(name: str, x: Any, what: str = "x") -> Value:
    """An argument that must be an array of numbers: TypeError for bool."""
    x = array_of(name, x, what)
    if dtypes.is_bool(aval_of(x).dtype):
        raise TypeError(f"{name}: {what} must be numbers, got {aval_of(x).short()}: convert it, .astype(float)")
    return x


def common_inexact(name: str, **arguments: Any) -> list[Value]:
    """Arguments with the one inexact dtype to which they promote."""
    return promote_inexact(*(array_of(name, x, what) for what, x in arguments.items()))


def real_only(name: str, x: Value, what: str = "x") -> Value:
    """x; TypeError if it is complex."""
    if dtypes.is_complex(aval_of(x).dtype):
        raise TypeError(f"{name}: {what} must be real, got {aval_of(x).short()}")
    return x


def float_dtype(name: str, dtype: Any, *, complex_too: bool = True) -> DType:
    """A dtype argument as quire stores it, the default float for None; TypeError unless it is inexact."""
    wanted = dtypes.float64 if dtype is None else None
    try:
        wanted = wanted or dtypes.as_dtype(dtype)
        result = dtypes.canonicalize(wanted) if dtype is None or _is_pythons(dtype) else dtypes.explicit(wanted)
    except TypeError:
        raise TypeError(f"{name}: {dtype!r} is not a dtype that quire has") from None
    if not (dtypes.is_inexact(result) and (complex_too or not dtypes.is_complex(result))):
        kinds = "a float or complex dtype" if complex_too else "a float dtype"
        raise TypeError(f"{name}: dtype must be {kinds}, got {result}")
    if dtype is not None and not _is_pythons(dtype) and result != wanted:
        _narrowed(name, wanted, result)
    return result


def widened(f: Callable[..., Any], *args: Value) -> Any:
    """``f(*args)``, with float16 and bfloat16 computed in float32 and rounded at the end."""
    dtype = aval_of(args[0]).dtype
    if dtype not in HALF:
        return f(*args)
    out = f(*(cast(x, dtypes.float32) for x in args))
    return tuple(cast(x, dtype) for x in out) if isinstance(out, tuple) else cast(out, dtype)


def epsilon(x: Value) -> float:
    """The relative spacing of the numbers of x's dtype (of its parts for a complex x)."""
    return float(np.finfo(dtypes.real_dtype(aval_of(x).dtype)).eps)


def is_double(x: Value) -> bool:
    """Whether x is of float64 or complex128."""
    return dtypes.real_dtype(aval_of(x).dtype) == dtypes.float64


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
                f"{full_name(name)}: incompatible shapes for broadcasting: {', '.join(map(str, shapes))}: "
                "dimensions, aligned at the last, must be equal or 1"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def usual_promotion(f: F) -> F:
    """Decorates what computes of operands that are checked: within, operands of any ranks and dtypes may meet.

    `config.numpy_dtype_promotion` and `config.numpy_rank_promotion` are about the user's operations, not ours.
    """

    @functools.wraps(f)
    def usual(*args: Any, **kwargs: Any) -> Any:
        options = config.options
        if options.numpy_dtype_promotion == "standard" and options.numpy_rank_promotion == "allow":
            return f(*args, **kwargs)
        with config.override(numpy_dtype_promotion="standard", numpy_rank_promotion="allow"):
            return f(*args, **kwargs)

    return usual  # type: ignore[return-value]


def check_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Apply `config.numpy_rank_promotion` to operands of these shapes; scalars are always accepted.

    Raises ValueError where their ranks differ and the option is "raise".
    """
    mode = config.options.numpy_rank_promotion
    if mode == "allow":
        return
    ranks = {len(s) for s in shapes if s}
    if len(ranks) > 1:
        message = (
            f"{full_name(name)}: operands have different ranks, {', '.join(map(str, shapes))}, and "
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


# -- numbers, axes, options -------------------------------------------------------------------------------------------


def as_int(name: str, value: Any, what: str) -> int:
    """An integer argument; TypeError names it."""
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        raise TypeError(f"{full_name(name)}: {what} must be an integer, got {value!r}") from None


def as_shape(name: str, shape: Any, what: str = "shape") -> tuple[int, ...]:
    """A shape argument (an integer or a sequence of them) as a tuple; negative sizes raise ValueError."""
    sizes: Iterable[Any]
    if isinstance(shape, Array | np.ndarray):
        sizes = [shape] if shape.ndim == 0 else list(shape)
    elif isinstance(shape, Tracer | np.generic) or not (isinstance(shape, Iterable) or hasattr(shape, "__getitem__")):
        sizes = [shape]
    else:
        sizes = shape
    out = tuple([as_int(name, n, f"each size of {what}") for n in sizes])
    if any(n < 0 for n in out):
        raise ValueError(f"{full_name(name)}: {what} {out} has a negative size")
    return out


def as_axis(name: str, axis: Any, ndim: int, what: str = "axis") -> int:
    """An axis within [0, ndim), from one in [-ndim, ndim); others raise ValueError."""
    a = as_int(name, axis, what)
    if not -ndim <= a < ndim:
        raise ValueError(f"{full_name(name)}: {what} {a} is out of bounds for array of dimension {ndim}")
    return a + ndim if a < 0 else a


def as_axes(name: str, axis: Any, ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Axes as a sorted tuple: of None (all), an integer, or a sequence; duplicates raise ValueError."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, Sequence | np.ndarray) and not isinstance(axis, str) and np.ndim(axis):
        axes = tuple([as_axis(name, a, ndim, what) for a in axis])
        if len(set(axes)) != len(axes):
            raise ValueError(f"{full_name(name)}: duplicate value in {what} {tuple(axis)}")
        return axes
    return (as_axis(name, axis, ndim, what),)


def no_out(name: str, out: Any) -> None:
    """Raise NotImplementedError for an `out` argument: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"{full_name(name)}: the 'out' argument is not supported, arrays are immutable: use the returned array"
        )


def one_of(name: str, value: Any, what: str, choices: Collection[Any]) -> Any:
    """The value; ValueError unless it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: {what} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


# -- results ----------------------------------------------------------------------------------------------------------


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


# -- linear algebra ---------------------------------------------------------------------------------------------------

NUMPY, SCIPY = "quire.numpy.linalg", "quire.scipy.linalg"


def plain(name: str, *args: Any, module: str = NUMPY) -> list[Value]:
    """The arguments as arrays; TypeError for lists and other objects."""
    out: list[Value] = []
    for i, x in enumerate(args):
        if not is_arraylike(x):
            fix = ": convert it first with quire.numpy.array" if isinstance(x, list | tuple) else ""
            raise TypeError(
                f"{module}.{name}: requires ndarray or scalar arguments, got {type(x)} at position {i}{fix}"
            )
        out.append(lift(x.__jax_array__() if hasattr(x, "__jax_array__") else x))
    return out


def arrays(name: str, *args: Any, module: str = NUMPY) -> list[Value]:
    """The arguments as arrays of one inexact dtype."""
    return [cast(x, x.aval.dtype) for x in promote_inexact(*plain(name, *args, module=module))]


def matrices(
    name: str, *args: Any, square: bool = False, half: Callable[[ShapedArray], bool] | None = None, module: str = NUMPY
) -> list[Value]:
    """The arguments as arrays of one dtype of LAPACK; the first must hold matrices (square ones if asked).

    `half`: for which avals of the first the argument's dtype may be float16 or bfloat16 too.

    Raises ValueError where the first has fewer than 2 dimensions, or matrices that are not square though `square` asks
    for such, TypeError for a dtype that LAPACK does not have.
    """
    values = arrays(name, *args, module=module)
    aval = values[0].aval
    if aval.ndim < 2 or (square and aval.shape[-1] != aval.shape[-2]):
        kind = "square matrices, shape (..., n, n)" if square else "matrices, shape (..., m, n)"
        raise ValueError(f"{module}.{name}: the argument must hold {kind}, got {aval.short()}")
    if half is not None and aval.dtype in (dtypes.float16, dtypes.bfloat16) and half(aval):
        return values
    if aval.dtype not in la.LAPACK:
        raise TypeError(
            f"{module}.{name}: {aval.dtype} is not supported, the argument must be float32, float64, complex64 or "
            "complex128: convert it with .astype('float32')"
        )
    return values


def dagger(x: Value) -> Value:
    """The matrices transposed and conjugated."""
    return la.transpose_last(x, conjugate=dtypes.is_complex(x.aval.dtype))


def identity_like(x: Value, n: int | None = None) -> Value:
    """Identity matrices with the leading dimensions and the dtype of x, and its number of rows or n."""
    *batch, rows, _ = x.aval.shape
    size = rows if n is None else n
    return st.broadcast_to(la.eye(size, size, x.aval.dtype), (*batch, size, size))


# -- quire.scipy ------------------------------------------------------------------------------------------------------


def array(name: str, x: Any, position: int | str = 0) -> Value:
    """An argument of quire.scipy.`name` as an array."""
    return ensure(f"quire.scipy.{name}", x, position)


def operands(name: str, *args: Any, complex_ok: bool = False, integers: bool = False) -> list[Value]:
    """The arguments as arrays of one dtype and shape: inexact unless `integers`, and real unless `complex_ok`.

    Raises ValueError for complex arguments unless `complex_ok`.
    """
    xs = [array(name, x, i) for i, x in enumerate(args)]
    xs = promote_dtypes(*xs) if integers else promote_inexact(*xs)
    if not complex_ok and dtypes.is_complex(aval_of(xs[0]).dtype):
        raise ValueError(f"quire.scipy.{name}: takes real numbers, got {_listed(args)}")
    return promote_all_shapes(f"quire.scipy.{name}", *xs)


def _listed(args: tuple[Any, ...]) -> str:
    return ", ".join(aval_of(x).short() for x in args)


def float_operands(name: str, *args: Any) -> list[Value]:
    """The arguments as arrays of one shape that are float32 or float64 already, as JAX demands for some functions.

    Raises TypeError where the dtype to which they promote is another.
    """
    xs = promote_dtypes(*[array(name, x, i) for i, x in enumerate(args)])
    dtype = aval_of(xs[0]).dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"quire.scipy.{name}: takes float32 or float64, got {_listed(args)}: convert it with astype")
    return promote_all_shapes(f"quire.scipy.{name}", *xs)

"""What the functions of quire.nn, quire.image, quire.ops and quire.scipy begin with: checks of arguments that name the function.

The functions themselves are written with `quire.numpy` and `quire.lax`. `function` is always the full name that a user
writes, for example ``quire.nn.relu``.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType

from .numpy._util import Value, cast, inexact, is_arraylike, lift, result_type


def array_of(function: str, x: Any, what: str = "x") -> Value:
    """An argument as an Array or a tracer; TypeError for what is no array and no number."""
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if not is_arraylike(x):
        fix = ": convert it first, quire.numpy.array(...)" if isinstance(x, list | tuple) else ""
        raise TypeError(f"{function}: {what} must be an array or a number, got {type(x).__name__}{fix}")
    try:
        return lift(x)
    except TypeError as error:
        raise TypeError(f"{function}: {what}: {error}") from None


def inexact_of(function: str, x: Any, what: str = "x", *, weak: bool = False) -> Value:
    """An argument as a float or complex array; integers and bool become the default float (of weak type if `weak`)."""
    x = array_of(function, x, what)
    aval = aval_of(x)
    return cast(x, inexact(aval.dtype), aval.weak_type or (weak and not dtypes.is_inexact(aval.dtype)))


def float_only(function: str, x: Any, what: str = "x") -> Value:
    """An argument that must be a float or complex array: TypeError for integers and bool."""
    x = array_of(function, x, what)
    if not dtypes.is_inexact(aval_of(x).dtype):
        raise TypeError(
            f"{function}: {what} must be a float or complex array, got {aval_of(x).short()}: convert it, .astype(float)"
        )
    return x


def no_bool(function: str, x: Any, what: str = "x") -> Value:
    """An argument that must be an array of numbers: TypeError for bool."""
    x = array_of(function, x, what)
    if dtypes.is_bool(aval_of(x).dtype):
        raise TypeError(f"{function}: {what} must be numbers, got {aval_of(x).short()}: convert it, .astype(float)")
    return x


def common_inexact(function: str, **arguments: Any) -> list[Value]:
    """Arguments with the one inexact dtype to which they promote."""
    values = [array_of(function, x, what) for what, x in arguments.items()]
    dtype, weak = result_type(*values)
    return [cast(x, inexact(dtype), weak) for x in values]


def real_only(function: str, x: Value, what: str = "x") -> Value:
    """x; TypeError if it is complex."""
    if dtypes.is_complex(aval_of(x).dtype):
        raise TypeError(f"{function}: {what} must be real, got {aval_of(x).short()}")
    return x


def float_dtype(function: str, dtype: Any, *, complex_too: bool = True) -> DType:
    """A dtype argument as quire stores it, the default float for None; TypeError unless it is inexact."""
    wanted = dtypes.float64 if dtype is None else None
    try:
        wanted = wanted or dtypes.as_dtype(dtype)
        result = dtypes.canonicalize(wanted)
    except TypeError:
        raise TypeError(f"{function}: {dtype!r} is not a dtype that quire has") from None
    if not (dtypes.is_inexact(result) and (complex_too or not dtypes.is_complex(result))):
        kinds = "a float or complex dtype" if complex_too else "a float dtype"
        raise TypeError(f"{function}: dtype must be {kinds}, got {result}")
    if dtype is not None and dtype not in (float, complex) and result != wanted:
        warnings.warn(
            f"{function}: explicitly requested dtype {wanted} is not available and becomes {result}; "
            "quire.config.update('enable_x64', True) enables 64-bit dtypes",
            UserWarning,
            stacklevel=3,
        )
    return result


def integer(function: str, value: Any, what: str) -> int:
    """An integer argument; TypeError names it."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{function}: {what} must be an integer known when tracing, got {value!r}") from None


def axis_of(function: str, axis: Any, ndim: int, what: str = "axis") -> int:
    """An axis within [0, ndim); ValueError if it is outside of [-ndim, ndim)."""
    a = integer(function, axis, what)
    if not -ndim <= a < ndim:
        raise ValueError(f"{function}: {what} {a} is out of bounds for an array of dimension {ndim}")
    return a % ndim


def one_of(function: str, value: Any, what: str, choices: Collection[Any]) -> Any:
    """The value; ValueError unless it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{function}: {what} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def no_sharding(function: str, out_sharding: Any) -> None:
    """Raise NotImplementedError for an `out_sharding` argument."""
    if out_sharding is not None:
        raise NotImplementedError(f"{function}: out_sharding is not supported, expected None")

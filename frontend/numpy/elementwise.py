"""Elementwise functions that are one primitive after promotion: tables of names, primitives and docs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer, bind
from quire.runtime.array import Array

from ..arrays.operands import (
    INEXACT,
    Value,
    _cast_scalar,
    cast,
    check_arraylike,
    ensure,
    promote_dtypes,
    promote_inexact,
    promote_shapes,
    scalar_like,
)
from ..eager.programs import eager_program

_KIND = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}  # ml_dtypes' floats have kind V
# A bool is no number without a width: it takes part in promotion (`numpy_dtype_promotion="strict"` refuses it).
_SCALAR_KIND = {int: 1, float: 2, complex: 3}
# The dtypes of numbers without a width. Others of weak type are rare: of arrays that were converted to them.
_WEAK = frozenset((dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


def operands(name: str, x: Any, y: Any) -> list[Value] | tuple[Value, Value]:
    """Two operands with one dtype, and one shape or scalar. The common cases are decided without the lattice."""
    kx, ky = type(x), type(y)
    if kx is Array or kx is Tracer:
        a = x.aval
        if ky is Array or ky is Tracer:
            b = y.aval
            if a.weak_type and b.weak_type and a.dtype.kind == "b":
                return promote_shapes(name, *promote_dtypes(x, y))  # a bool has no weak type in promotion
            if a is b or (a.dtype == b.dtype and (a.shape == b.shape or not a.shape or not b.shape)):
                return x, y
            if a.dtype == b.dtype:
                return promote_shapes(name, x, y)
        elif (
            ky in _SCALAR_KIND
            and _SCALAR_KIND[ky] <= _KIND[a.dtype.kind]
            and not (a.weak_type and a.dtype not in _WEAK)
        ):
            return x, _cast_scalar(y, a.dtype, a.weak_type)
    elif (ky is Array or ky is Tracer) and kx in _SCALAR_KIND:
        b = y.aval
        if _SCALAR_KIND[kx] <= _KIND[b.dtype.kind] and not (b.weak_type and b.dtype not in _WEAK):
            return _cast_scalar(x, b.dtype, b.weak_type), y
    x, y = unwrap(x), unwrap(y)
    check_arraylike(name, x, y)
    return promote_shapes(name, *promote_dtypes(x, y))


def unwrap(x: Any) -> Any:
    """An object with `__jax_array__` as the array it gives."""
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def inexact_operands(name: str, x: Any, y: Any) -> list[Value] | tuple[Value, Value]:
    """Two operands as `operands` gives them, of an inexact dtype.

    Integers and bool are converted as they were given: a number without a width need not be one of the other's integer dtype.
    """
    a, b = operands(name, x, y)
    if aval_of(a).dtype in INEXACT:
        return a, b
    return promote_shapes(name, *promote_inexact(unwrap(x), unwrap(y)))


def inexact_operand(name: str, x: Any) -> Value:
    """The operand with an inexact dtype: integers and bool become the default float."""
    kind = type(x)
    if kind is Array or kind is Tracer:
        if x.aval.dtype in INEXACT:
            return x
    else:
        x = unwrap(x)
        check_arraylike(name, x)
    return promote_inexact(x)[0]


def named(error: Exception, name: str) -> Exception:
    """Begin the error's message with the function that the user called."""
    if error.args and isinstance(error.args[0], str) and not error.args[0].startswith("quire.numpy."):
        error.args = (f"quire.numpy.{name}: {error.args[0]}", *error.args[1:])
    return error


# Two-argument functions whose parameters are x1 and x2 in JAX, those of the others are x and y.
_X1_X2 = ("divide", "arctan2", "right_shift")
_NUMBERED = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in ("x1", "x2")])


def _finish(f: Any, name: str, doc: str) -> Any:
    if name in _X1_X2:
        f.__signature__ = _NUMBERED
    f.__name__ = f.__qualname__ = name
    f.__module__ = "quire.numpy"
    f.__doc__ = doc
    return f


def _unary(name: str, p: Primitive, doc: str, prepare: Callable[[str, Any], Value]) -> Callable[[Any], Value]:
    def apply(x: Any, /) -> Value:
        try:
            return bind(p, (prepare(name, x),), {})
        except (TypeError, ValueError) as error:
            named(error, name)
            raise

    return _finish(apply, name, doc)


def _binary(name: str, p: Primitive, doc: str, prepare: Callable[[str, Any, Any], Any]) -> Callable[[Any, Any], Value]:
    def general(x: Any, y: Any, /) -> Value:
        try:
            return bind(p, prepare(name, x, y), {})
        except (TypeError, ValueError) as error:
            named(error, name)
            raise

    return _finish(_broadcasting(general), name, doc)


def _broadcasting(general: Callable[[Any, Any], Value]) -> Callable[[Any, Any], Value]:
    """The function of two operands; arrays of different shapes, which are several primitives, as an eager program."""
    program = eager_program(2)(general)

    def apply(x: Any, y: Any, /) -> Value:
        if type(x) is Array and type(y) is Array and x.aval.shape != y.aval.shape:
            return program(x, y)
        return general(x, y)

    return apply


def _doc1(what: str, dtype: str, example: str, name: str) -> str:
    return f"""{what}

    Args:
        x: an array or a number.

    Returns:
        An array of x's shape; {dtype}.

    Follows `numpy.{name}`.

    {example}
    """


_INEXACT = "integers and bool become the default float"
_SAME = "of x's dtype"

# name: (primitive, what it computes, an example: argument and result)
_UNARY_INEXACT: dict[str, tuple[Primitive, str, str, str]] = {
    "exp": (ew.exp_p, "The exponential e**x, element by element.", "0.0", "1.0"),
    "exp2": (ew.exp2_p, "2**x, element by element.", "3.0", "8.0"),
    "expm1": (ew.expm1_p, "exp(x) - 1, accurate for small x.", "0.0", "0.0"),
    "log": (ew.log_p, "The natural logarithm, element by element; NaN for negative real x.", "1.0", "0.0"),
    "log1p": (ew.log1p_p, "log(1 + x), accurate for small x.", "0.0", "0.0"),
    "sin": (ew.sin_p, "The sine of x radians.", "0.0", "0.0"),
    "cos": (ew.cos_p, "The cosine of x radians.", "0.0", "1.0"),
    "tan": (ew.tan_p, "The tangent of x radians.", "0.0", "0.0"),
    "arcsin": (ew.asin_p, "The inverse sine, in [-pi/2, pi/2].", "0.0", "0.0"),
    "arctan": (ew.atan_p, "The inverse tangent, in [-pi/2, pi/2].", "0.0", "0.0"),
    "arccos": (ew.acos_p, "The inverse cosine, in [0, pi].", "1.0", "0.0"),
    "sinh": (ew.sinh_p, "The hyperbolic sine.", "0.0", "0.0"),
    "cosh": (ew.cosh_p, "The hyperbolic cosine.", "0.0", "1.0"),
    "tanh": (ew.tanh_p, "The hyperbolic tangent.", "0.0", "0.0"),
    "arcsinh": (ew.asinh_p, "The inverse hyperbolic sine.", "0.0", "0.0"),
    "arccosh": (ew.acosh_p, "The inverse hyperbolic cosine.", "1.0", "0.0"),
    "arctanh": (ew.atanh_p, "The inverse hyperbolic tangent.", "0.0", "0.0"),
    "sqrt": (ew.sqrt_p, "The square root; NaN for negative real x.", "9.0", "3.0"),
    "cbrt": (ew.cbrt_p, "The cube root; real for negative x.", "-1.0", "-1.0"),
}
_made: dict[str, Any] = {
    name: _unary(
        name, p, _doc1(what, _INEXACT, f">>> float(quire.numpy.{name}({arg}))\n    {result}", name), inexact_operand
    )
    for name, (p, what, arg, result) in _UNARY_INEXACT.items()
}
exp, exp2, expm1, log, log1p = (_made[n] for n in ("exp", "exp2", "expm1", "log", "log1p"))
sin, cos, tan, sinh, cosh, tanh = (_made[n] for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh"))
arcsin, arccos, arctan = asin, acos, atan = [_made[n] for n in ("arcsin", "arccos", "arctan")]
arcsinh, arccosh, arctanh = asinh, acosh, atanh = [_made[n] for n in ("arcsinh", "arccosh", "arctanh")]
sqrt, cbrt = _made["sqrt"], _made["cbrt"]

negative = _unary(
    "negative", ew.neg_p, _doc1("The negative, -x; integers wrap; not for bool.", _SAME,
    ">>> quire.numpy.negative(quire.numpy.array([1, -2]))\n    Array([-1,  2], dtype=int32)", "negative"), ensure,
)  # fmt: skip
sign = _unary(
    "sign", ew.sign_p, _doc1("-1, 0 or 1 by the sign of x; x/abs(x) for complex x; not for bool.", _SAME,
    ">>> quire.numpy.sign(quire.numpy.array([-5., 0., 2.]))\n    Array([-1.,  0.,  1.], dtype=float32)", "sign"), ensure,
)  # fmt: skip


def _doc2(what: str, dtype: str, example: str, name: str) -> str:
    return f"""{what}

    Args:
        x, y: arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape; {dtype}.

    Raises:
        TypeError: a list was given, the shapes do not broadcast, or the operation has no meaning for the dtype.

    Follows `numpy.{name}`.

    {example}
    """


_PROMOTED = "of the promoted dtype"
_BINARY: dict[str, tuple[Primitive, Callable[[str, Any, Any], Any], str, str, str, str]] = {
    "add": (ew.add_p, operands, "x + y; logical or for bool.", _PROMOTED, "2, 3", "5"),
    "subtract": (ew.sub_p, operands, "x - y; not for bool.", _PROMOTED, "2, 3", "-1"),
    "multiply": (ew.mul_p, operands, "x * y; logical and for bool.", _PROMOTED, "2, 3", "6"),
    "divide": (ew.div_p, inexact_operands, "x / y, true division.", "inexact", "3, 2", "1.5"),
    "maximum": (ew.max_p, operands, "The larger of x and y; NaN if either is NaN.", _PROMOTED, "2, 3", "3"),
    "minimum": (ew.min_p, operands, "The smaller of x and y; NaN if either is NaN.", _PROMOTED, "2, 3", "2"),
    "equal": (ew.eq_p, operands, "x == y.", "bool", "2, 3", "False"),
    "not_equal": (ew.ne_p, operands, "x != y.", "bool", "2, 3", "True"),
    "bitwise_and": (ew.and_p, operands, "Bitwise and; logical for bool.", _PROMOTED, "6, 3", "2"),
    "bitwise_or": (ew.or_p, operands, "Bitwise or; logical for bool.", _PROMOTED, "6, 3", "7"),
    "bitwise_xor": (ew.xor_p, operands, "Bitwise exclusive or; logical for bool.", _PROMOTED, "6, 3", "5"),
    "nextafter": (ew.nextafter_p, inexact_operands, "The next float after x toward y.", "inexact", "0., 0.", "0.0"),
    "arctan2": (
        ew.atan2_p,
        inexact_operands,
        "The angle of the point (y, x): first argument y.",
        "inexact",
        "0., 1.",
        "0.0",
    ),
}
_made2: dict[str, Any] = {
    name: _binary(name, p, _doc2(what, dtype, f">>> quire.numpy.{name}({args}).item()\n    {result}", name), prepare)
    for name, (p, prepare, what, dtype, args, result) in _BINARY.items()
}
add, subtract, multiply, divide = (_made2[n] for n in ("add", "subtract", "multiply", "divide"))
true_divide = divide
maximum, minimum = _made2["maximum"], _made2["minimum"]
equal, not_equal = _made2["equal"], _made2["not_equal"]
bitwise_and, bitwise_or, bitwise_xor = _made2["bitwise_and"], _made2["bitwise_or"], _made2["bitwise_xor"]
nextafter = _made2["nextafter"]
arctan2 = atan2 = _made2["arctan2"]


def _comparison(name: str, p: Primitive, what: str, example: str) -> Callable[[Any, Any], Value]:
    def general(x: Any, y: Any, /) -> Value:
        try:
            x, y = operands(name, x, y)
            if dtypes.is_complex(aval_of(x).dtype):
                return _lexicographic(p, x, y)
            return bind(p, (x, y), {})
        except (TypeError, ValueError) as error:
            named(error, name)
            raise

    return _finish(
        _broadcasting(general),
        name,
        _doc2(what, "bool; complex numbers are ordered by real, then imaginary part", example, name),
    )


def _lexicographic(p: Primitive, x: Value, y: Value) -> Value:
    xr, yr, xi, yi = ew.real(x), ew.real(y), ew.imag(x), ew.imag(y)
    strict = {ew.le_p: ew.lt_p, ew.ge_p: ew.gt_p}.get(p, p)
    equal_real = bind(ew.eq_p, (xr, yr), {})
    return bind(ew.or_p, (bind(strict, (xr, yr), {}), bind(ew.and_p, (equal_real, bind(p, (xi, yi), {})), {})), {})


less = _comparison("less", ew.lt_p, "x < y.", ">>> quire.numpy.less(2, 3).item()\n    True")
less_equal = _comparison("less_equal", ew.le_p, "x <= y.", ">>> quire.numpy.less_equal(2, 3).item()\n    True")
greater = _comparison("greater", ew.gt_p, "x > y.", ">>> quire.numpy.greater(2, 3).item()\n    False")
greater_equal = _comparison(
    "greater_equal", ew.ge_p, "x >= y.", ">>> quire.numpy.greater_equal(2, 3).item()\n    False"
)


def as_bool(x: Value) -> Value:
    """x != 0, or x itself for bool."""
    dtype = aval_of(x).dtype
    if dtypes.is_bool(dtype):
        return x if hasattr(x, "aval") else cast(x, dtypes.bool_)
    return bind(ew.ne_p, (x, scalar_like(0, x)), {})


def _logical(name: str, p: Primitive, what: str, example: str) -> Callable[[Any, Any], Value]:
    def apply(x: Any, y: Any, /) -> Value:
        x, y = unwrap(x), unwrap(y)
        check_arraylike(name, x, y)
        return bind(p, tuple(promote_shapes(name, as_bool(x), as_bool(y))), {})

    return _finish(apply, name, _doc2(what, "bool; numbers count as true unless they are 0", example, name))


logical_and = _logical(
    "logical_and", ew.and_p, "Whether x and y are both true.", ">>> quire.numpy.logical_and(2, 0).item()\n    False"
)
logical_or = _logical(
    "logical_or", ew.or_p, "Whether x or y is true.", ">>> quire.numpy.logical_or(2, 0).item()\n    True"
)
logical_xor = _logical(
    "logical_xor", ew.xor_p, "Whether one of x and y is true.", ">>> quire.numpy.logical_xor(2, 1).item()\n    False"
)


def logical_not(x: Any, /) -> Value:
    """Whether x is 0 or False.

    Args:
        x: an array or a number.

    Returns:
        A bool array of x's shape.

    Follows `numpy.logical_not`.

    >>> quire.numpy.logical_not(quire.numpy.array([0, 2]))
    Array([ True, False], dtype=bool)
    """
    x = unwrap(x)
    check_arraylike("logical_not", x)
    if dtypes.is_bool(aval_of(x).dtype):
        return bind(ew.not_p, (x,), {})
    return bind(ew.eq_p, (x, scalar_like(0, x)), {})


def invert(x: Any, /) -> Value:
    """Bitwise not; logical not for bool.

    Args:
        x: an array or a number of an integer dtype or bool.

    Returns:
        An array of x's shape and dtype.

    Follows `numpy.invert`.

    >>> quire.numpy.invert(quire.numpy.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    try:
        return bind(ew.not_p, (ensure("invert", x),), {})
    except TypeError as error:
        named(error, "invert")
        raise


bitwise_not = bitwise_invert = invert


def _shift(name: str, what: str, example: str, left: bool) -> Callable[[Any, Any], Value]:
    def apply(x: Any, y: Any, /) -> Value:
        try:
            x, y = operands(name, x, y)
            dtype = aval_of(x).dtype
            if dtypes.is_bool(dtype):
                dtype = dtypes.int32
                x, y = cast(x, dtype), cast(y, dtype)
            p = (
                ew.shift_left_p
                if left
                else (ew.shift_right_logical_p if dtypes.is_unsigned(dtype) else ew.shift_right_arithmetic_p)
            )
            return bind(p, (x, y), {})
        except (TypeError, ValueError) as error:
            named(error, name)
            raise

    return _finish(apply, name, _doc2(what, "of the promoted integer dtype", example, name))


left_shift = bitwise_left_shift = _shift(
    "left_shift", "x << y; 0 for y at or beyond the width of the dtype.",
    ">>> quire.numpy.left_shift(3, 2).item()\n    12", True,
)  # fmt: skip
right_shift = bitwise_right_shift = _shift(
    "right_shift", "x >> y, filling with the sign for signed dtypes.",
    ">>> quire.numpy.right_shift(12, 2).item()\n    3", False,
)  # fmt: skip


def isnan(x: Any, /) -> Value:
    """Whether x is NaN, in its real or imaginary part.

    Args:
        x: an array or a number; an integer or bool is never NaN.

    Returns:
        A bool array of x's shape.

    Follows `numpy.isnan`.

    >>> quire.numpy.isnan(quire.numpy.array([1., float("nan")]))
    Array([False,  True], dtype=bool)
    """
    x = ensure("isnan", x)
    return bind(ew.ne_p, (x, x), {})


__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_right_shift", "cbrt", "cos",
    "cosh", "divide", "equal", "exp", "exp2", "expm1", "greater", "greater_equal", "invert", "isnan", "left_shift",
    "less", "less_equal", "log", "log1p", "logical_not", "nextafter", "not_equal", "right_shift", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "true_divide",
]  # fmt: skip

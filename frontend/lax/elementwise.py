"""Elementwise functions of `quire.lax`, with JAX's names: operands of one dtype, no promotion.

Operands have one shape, or equal ranks with sizes of 1 that are repeated, or are scalars. Python numbers take the
dtype of the other operand.
"""

from __future__ import annotations

import builtins
import enum
import operator
from collections.abc import Callable
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.common import COMPLEX, NUMBER, check_dtype, match_scalars

from .. import tree_util
from ..arrays.operands import SCALARS, as_array, cast, user_dtype

Value = Any


class AccuracyMode(enum.Enum):
    """The accuracy of functions that are approximated (`accuracy=` of `exp` and others): there is one, which is both."""

    HIGHEST = 1
    DEFAULT = 2


class RoundingMethod(enum.IntEnum):
    """Ties of `round`: away from zero, or to even."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _aligned(*operands: Value) -> list[Value]:
    """Operands of equal rank with sizes of 1 repeated; Python numbers of the others' dtype."""
    xs = match_scalars(*operands)
    shapes = [aval_of(x).shape for x in xs]
    full = [s for s in shapes if s]
    if len({len(s) for s in full}) != 1 or len(set(full)) == 1:
        return xs  # the type rule speaks of what does not fit
    target = tuple(builtins.max(sizes) if 0 not in sizes else 0 for sizes in zip(*full))
    if any(n not in (1, t) for s in full for n, t in zip(s, target)):
        return xs
    return [
        st.broadcast_in_dim(x, target, tuple(range(len(target)))) if s and s != target else x
        for x, s in zip(xs, shapes)
    ]


# Functions that take fewer dtypes than their primitives, through which quire.numpy adds and multiplies bools and takes
# the real part of what is real: the dtypes, and what to use for others.
_NARROWER: dict[str, tuple[tuple[dtypes.DType, ...], str]] = {
    "abs": ((*dtypes.SIGNED, *dtypes.FLOATS, *dtypes.COMPLEX), "what is unsigned is its own absolute value"),
    "add": (NUMBER, "use lax.bitwise_or, or quire.numpy.add, which is the logical or of bools"),
    "conj": ((dtypes.float32, dtypes.float64, *COMPLEX), "use quire.numpy.conj, which takes any dtype"),
    "imag": (COMPLEX, "use quire.numpy.imag, which takes any dtype"),
    "integer_pow": (NUMBER, "convert with lax.convert_element_type"),
    "mul": (NUMBER, "use lax.bitwise_and, or quire.numpy.multiply, which is the logical and of bools"),
    "real": (COMPLEX, "use quire.numpy.real, which takes any dtype"),
}


def _check_narrower(name: str, *operands: Value) -> None:
    """Raise TypeError for an operand that the primitive takes and `lax.<name>` does not."""
    allowed, instead = _NARROWER[name]
    for i, x in enumerate(operands):
        try:
            check_dtype(f"lax.{name}", aval_of(x), allowed, "operand" if len(operands) == 1 else f"operand {i}")
        except TypeError as error:
            raise TypeError(f"{error}: {instead}") from None


# JAX's functions with a keyword `accuracy`.
_TUNABLE = frozenset("cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split())


def _tunable(f: Callable[..., Value], name: str) -> Callable[..., Value]:
    def apply(x: Value, accuracy: Any = None) -> Value:
        if accuracy is not None and not isinstance(accuracy, AccuracyMode):
            raise NotImplementedError(
                f"lax.{name}: the accuracy cannot be chosen, got {accuracy!r}: leave it None, or give a lax.AccuracyMode"
            )
        return f(x)

    return apply


def _nary(f: Callable[..., Value], name: str, arity: int) -> Callable[..., Value]:
    if name in _TUNABLE:
        apply: Callable[..., Value] = _tunable(f, name)
    elif arity == 1:

        def unary(x: Value) -> Value:
            if name in _NARROWER:
                _check_narrower(name, x)
            return f(x)

        apply = unary
    elif arity == 2:

        def binary(x: Value, y: Value) -> Value:
            x, y = _aligned(x, y)
            if name in _NARROWER:
                _check_narrower(name, x, y)
            return f(x, y)

        apply = binary
    else:

        def ternary(a: Value, b: Value, x: Value) -> Value:
            return f(*_aligned(a, b, x))

        apply = ternary
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{f.__doc__}\n\nElementwise; see `jax.lax.{name}`."
    return apply


_UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz cos cosh digamma erf "
    "erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg population_count real rsqrt sign "
    "sin sinh sqrt square tan tanh"
).split()
_BINARY = (
    "add atan2 bitwise_and bitwise_or bitwise_xor complex div eq ge gt igamma igamma_grad_a igammac le lt max min mul "
    "mulhi ne nextafter polygamma random_gamma_grad rem shift_left shift_right_arithmetic shift_right_logical sub zeta"
).split()

(
    abs, acos, acosh, asin, asinh, atan, atanh, bessel_i0e, bessel_i1e, bitwise_not, cbrt, ceil, clz, cos, cosh,
    digamma, erf, erf_inv, erfc, exp, exp2, expm1, floor, imag, is_finite, lgamma, log, log1p, logistic, neg,
    population_count, real, rsqrt, sign, sin, sinh, sqrt, square, tan, tanh,
) = (_nary(getattr(ew, name), name, 1) for name in _UNARY)  # fmt: skip
(
    add, atan2, bitwise_and, bitwise_or, bitwise_xor, complex, div, eq, ge, gt, igamma, igamma_grad_a, igammac, le, lt,
    max, min, mul, mulhi, ne, nextafter, polygamma, random_gamma_grad, rem, shift_left, shift_right_arithmetic,
    shift_right_logical, sub, zeta,
) = (_nary(getattr(ew, name), name, 2) for name in _BINARY)  # fmt: skip
_mul = mul


def mul(x: Value, y: Value, *, out_dtype: Any = None) -> Value:
    """``x * y``, in the operands' dtype, or in `out_dtype`, to which they are converted first.

    Elementwise; see `jax.lax.mul`. Raises TypeError for operands of several dtypes, or of one that is not numeric.
    """
    if out_dtype is None:
        return _mul(x, y)
    dtype = user_dtype("quire.lax.mul", out_dtype)
    _check_narrower("mul", x, y)
    return _mul(*(ew.convert_element_type(a, dtype) for a in _aligned(x, y)))


betainc = _nary(ew.regularized_incomplete_beta, "betainc", 3)


def conj(x: Value) -> Value:
    """The complex conjugate; of float32 and float64 the complex number with that real part."""
    _check_narrower("conj", x)
    aval = aval_of(x)
    if dtypes.is_complex(aval.dtype):
        return ew.conj(x)
    return ew.convert_element_type(x, dtypes.complex_dtype(aval.dtype), weak_type=aval.weak_type)


def bessel_i1(x: Value) -> Value:
    """The modified Bessel function of order 1."""
    return ew.mul(ew.exp(ew.abs(x)), ew.bessel_i1e(x))


def pow(x: Value, y: Value) -> Value:  # noqa: A001 - JAX's name
    """``x ** y`` for an inexact x and a y of its dtype or an integer; special values are IEEE 754's."""
    return ew.pow(x, y) if type(y) is int else ew.pow(*_pow_operands(x, y))


def _pow_operands(x: Value, y: Value) -> list[Value]:
    if dtypes.is_integer(aval_of(y).dtype):
        return [x, y]
    return _aligned(x, y)


def integer_pow(x: Value, y: int) -> Value:
    """``x ** y`` for a constant integer y, by repeated squaring.

    Raises TypeError unless y is an integer that is known while tracing, and for an x of a dtype that is not
    supported.
    """
    try:
        y = operator.index(y)
    except TypeError:
        raise TypeError(f"integer_pow: y must be an integer known when tracing, got {y!r}: use lax.pow") from None
    _check_narrower("integer_pow", x)
    return ew.integer_pow(x, y)


def reciprocal(x: Value) -> Value:
    """``1 / x``."""
    return ew.integer_pow(x, -1)


def round(x: Value, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Value:  # noqa: A001
    """The nearest integer; ties away from zero or to even."""
    return ew.round(x, int(rounding_method))


def clamp(min: Value, x: Value, max: Value) -> Value:  # noqa: A002 - JAX's names
    """``minimum(maximum(x, min), max)``; the bounds are scalars or have x's shape.

    >>> import quire.numpy as qnp
    >>> quire.lax.clamp(0.0, qnp.array([-1.0, 0.5, 2.0]), 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    return ew.clamp(min, x, max)


def select(pred: Value, on_true: Value, on_false: Value) -> Value:
    """`on_true` where pred, else `on_false`: cases of one shape and dtype."""
    return ew.select_n(pred, *match_scalars(on_false, on_true))


def select_n(which: Value, *cases: Value) -> Value:
    """The case that `which` (bool or an integer) selects: ``select_n(pred, on_false, on_true)``."""
    if dtypes.is_integer(aval_of(which).dtype):
        which = ew.convert_element_type(which, dtypes.int32)
    return ew.select_n(which, *cases)


def convert_element_type(operand: Value, new_dtype: Any) -> Value:
    """`operand` with another dtype; floats beyond an integer dtype's range saturate, NaN becomes 0."""
    dtype = user_dtype("quire.lax.convert_element_type", new_dtype)
    if type(operand) in SCALARS:
        return as_array(cast(operand, dtype))
    aval = aval_of(operand)
    if aval.dtype == dtype and not aval.weak_type:
        return as_array(operand)
    if dtypes.is_bool(dtype):
        operand = ew.real(operand)  # as in JAX; quire.numpy's astype compares both parts with zero
    return ew.convert_element_type(operand, dtype)


def made_inexact(x: Value) -> Value:
    """x, in float32 if it holds integers or bools, in float64 if those have 64 bits."""
    dtype = aval_of(x).dtype
    if dtypes.is_inexact(dtype):
        return x
    return ew.convert_element_type(x, dtypes.float64 if dtype in (dtypes.int64, dtypes.uint64) else dtypes.float32)


def bitcast_convert_type(operand: Value, new_dtype: Any) -> Value:
    """`operand` with its bits read as another dtype; a change of width adds or takes the last dimension."""
    dtype = user_dtype("quire.lax.bitcast_convert_type", new_dtype)
    if dtype == aval_of(operand).dtype:
        return ew.convert_element_type(operand, dtype)  # any dtype has its own bits
    return ew.bitcast_convert_type(operand, dtype)


def reduce_precision(operand: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """`operand` rounded to a float format of fewer bits, in its own dtype."""
    return ew.reduce_precision(operand, exponent_bits, mantissa_bits)


def stop_gradient(x: Any) -> Any:
    """A pytree unchanged, whose derivative is zero."""
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [ew.stop_gradient(leaf) for leaf in leaves])


__all__ = [
    "AccuracyMode", "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
    "bessel_i1", "bessel_i1e", "betainc", "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "cbrt", "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "cos", "cosh",
    "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma",
    "igamma_grad_a", "igammac", "imag", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic",
    "lt", "max", "min", "mul", "mulhi", "ne", "neg", "nextafter", "polygamma", "population_count", "pow",
    "random_gamma_grad", "real", "reciprocal", "reduce_precision", "rem", "round", "rsqrt", "select", "select_n",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "zeta",
]  # fmt: skip

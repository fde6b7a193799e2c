"""Elementwise primitives: one value of the result depends on the values of the operands at the same index.

Operands have one dtype and one shape; scalars go with any shape. The thin functions bind the primitive and give
Python scalars the dtype of the other operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..dtypes import DType
from ..primitive import Primitive, primitive
from .common import (
    ANY,
    BITS,
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    ORDERED,
    REAL,
    check_dtype,
    check_same_dtype,
    elementwise,
    elementwise_shape,
    match_scalars,
    to_bool,
)

Value = Any


def _unary(p: Primitive) -> Callable[[Value], Value]:
    def apply(x: Value) -> Value:
        return p.bind(x)

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


def _binary(p: Primitive) -> Callable[[Value, Value], Value]:
    def apply(x: Value, y: Value) -> Value:
        return p.bind(*match_scalars(x, y))

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


def _ternary(p: Primitive) -> Callable[[Value, Value, Value], Value]:
    def apply(x: Value, y: Value, z: Value) -> Value:
        return p.bind(*match_scalars(x, y, z))

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


# -- arithmetic ---------------------------------------------------------------------------------------------------

neg_p = elementwise(
    "neg", 1, NUMBER, "Negation, ``-x``; integers wrap.", complex_weight=2, numpy="negative", stablehlo="negate"
)
sign_p = elementwise(
    "sign",
    1,
    NUMBER,
    "Sign: -1, 0 or 1; x/|x| for complex; zeros keep their sign, NaN stays.",
    complex_weight=20,
    stablehlo="sign",
)
abs_p = elementwise(
    "abs", 1, NUMBER, "Absolute value; real for complex operands; INT_MIN stays.", result=dtypes.real_dtype,
    complex_weight=15, numpy="abs", stablehlo="abs",
)  # fmt: skip
floor_p = elementwise("floor", 1, FLOAT, "The largest integer not above x.", numpy="floor", stablehlo="floor")
ceil_p = elementwise("ceil", 1, FLOAT, "The smallest integer not below x.", numpy="ceil", stablehlo="ceil")
add_p = elementwise(
    "add", 2, ANY, "Sum, ``x + y``; integers wrap; logical or for bool.", complex_weight=2, rounding="nearest",
    commutative=True, numpy="add", stablehlo="add",
)  # fmt: skip
sub_p = elementwise(
    "sub",
    2,
    NUMBER,
    "Difference, ``x - y``; integers wrap.",
    complex_weight=2,
    rounding="nearest",
    numpy="subtract",
    stablehlo="subtract",
)
mul_p = elementwise(
    "mul", 2, ANY, "Product, ``x * y``; integers wrap; logical and for bool.", complex_weight=6, rounding="nearest",
    commutative=True, numpy="multiply", stablehlo="multiply",
)  # fmt: skip
div_p = elementwise(
    "div", 2, NUMBER, "Quotient ``x / y``; integers round toward zero, x / 0 is -1 (all bits set).", weight=4,
    complex_weight=30, rounding="nearest", stablehlo="divide",
)  # fmt: skip
rem_p = elementwise(
    "rem", 2, REAL, "Remainder with the sign of x; x for integer y = 0.", weight=8, stablehlo="remainder"
)
pow_p_doc = (
    "Power ``x ** y`` of inexact x with y of the same dtype, or of any integer dtype; IEEE 754 pow's special values."
)
max_p = elementwise(
    "max",
    2,
    ANY,
    "Maximum; NaN if either is NaN; complex compares lexicographically.",
    commutative=True,
    stablehlo="maximum",
)
min_p = elementwise(
    "min",
    2,
    ANY,
    "Minimum; NaN if either is NaN; complex compares lexicographically.",
    commutative=True,
    stablehlo="minimum",
)
mulhi_p = elementwise("mulhi", 2, INTEGER, "The high half of the product of double width.", weight=4)
nextafter_p = elementwise(
    "nextafter", 2, FLOAT, "The next representable value after x toward y.", weight=10, stablehlo="chlo.next_after"
)


@primitive("pow", weight=60, rounding="approximate")
def pow_p(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    """The type of ``x ** y``."""
    check_dtype("pow", x, INEXACT, "base")
    if not dtypes.is_integer(y.dtype):
        check_same_dtype("pow", x, y)
    return ShapedArray(elementwise_shape("pow", x, y), x.dtype, x.weak_type and y.weak_type)


pow_p.doc = pow_p_doc


@primitive("integer_pow", weight=3, rounding="nearest")
def integer_pow_p(x: ShapedArray, *, y: int) -> ShapedArray:
    """Power ``x ** y`` with a constant integer exponent, by repeated squaring. Negative y needs an inexact x.

    Raises:
        TypeError: x is bool, or y is negative and x an integer.
    """
    check_dtype("integer_pow", x, NUMBER)
    if y < 0 and not dtypes.is_inexact(x.dtype):
        raise TypeError(
            f"integer_pow: integers cannot be raised to the negative power {y}: convert {x.short()} to a float dtype"
        )
    return x


@primitive("square", complex_weight=5, rounding="nearest", numpy="square", stablehlo="chlo.square")
def square_p(x: ShapedArray) -> ShapedArray:
    """Square, ``x * x``; of complex numbers (re - im) (re + im) + 2 re im i."""
    check_dtype("square", x, NUMBER)
    return x


# -- exponentials, trigonometry, special functions ------------------------------------------------------------------


def _function(
    name: str, doc: str, weight: int, numpy: str = "", *, operands: tuple[DType, ...] = INEXACT, nearest: bool = False,
    complex_weight: int | None = None, stablehlo: str = "",
) -> Primitive:  # fmt: skip
    """A function of one number, which is approximated unless it is the `nearest` to the exact value."""
    return elementwise(
        name, 1, operands, doc, weight=weight, complex_weight=complex_weight,
        rounding="nearest" if nearest else "approximate", numpy=numpy, stablehlo=stablehlo,
    )  # fmt: skip


exp_p = _function("exp", "Exponential e^x.", 12, "exp", stablehlo="exponential")
exp2_p = _function("exp2", "2^x.", 30, "exp2")
expm1_p = _function("expm1", "e^x - 1, accurate near 0.", 20, "expm1", stablehlo="exponential_minus_one")
log_p = _function("log", "Natural logarithm.", 18, "log", stablehlo="log")
log1p_p = _function("log1p", "log(1 + x), accurate near 0.", 20, "log1p", stablehlo="log_plus_one")
logistic_p = _function("logistic", "The logistic sigmoid 1 / (1 + e^-x).", 16, complex_weight=60, stablehlo="logistic")
sin_p = _function("sin", "Sine of x in radians.", 40, "sin", stablehlo="sine")
cos_p = _function("cos", "Cosine of x in radians.", 40, "cos", stablehlo="cosine")
tan_p = _function("tan", "Tangent of x in radians.", 60, "tan", stablehlo="tan")
asin_p = _function("asin", "Inverse sine, in radians.", 20, "arcsin", stablehlo="chlo.asin")
acos_p = _function("acos", "Inverse cosine, in radians.", 20, "arccos", stablehlo="chlo.acos")
atan_p = _function("atan", "Inverse tangent, in radians.", 25, "arctan", stablehlo="chlo.atan")
sinh_p = _function("sinh", "Hyperbolic sine.", 40, "sinh", stablehlo="chlo.sinh")
cosh_p = _function("cosh", "Hyperbolic cosine.", 30, "cosh", stablehlo="chlo.cosh")
tanh_p = _function("tanh", "Hyperbolic tangent.", 16, "tanh", complex_weight=60, stablehlo="tanh")
asinh_p = _function("asinh", "Inverse hyperbolic sine.", 40, "arcsinh", stablehlo="chlo.asinh")
acosh_p = _function("acosh", "Inverse hyperbolic cosine.", 40, "arccosh", stablehlo="chlo.acosh")
atanh_p = _function("atanh", "Inverse hyperbolic tangent.", 25, "arctanh", stablehlo="chlo.atanh")
sqrt_p = _function("sqrt", "Square root.", 4, "sqrt", nearest=True, stablehlo="sqrt")
rsqrt_p = _function("rsqrt", "Reciprocal square root.", 5, stablehlo="rsqrt")
cbrt_p = _function("cbrt", "Cube root.", 40, "cbrt", operands=FLOAT, stablehlo="cbrt")
erf_p = _function("erf", "The error function.", 20, operands=FLOAT, stablehlo="chlo.erf")
erfc_p = _function("erfc", "1 - erf(x).", 30, operands=FLOAT, stablehlo="chlo.erfc")
erf_inv_p = _function("erf_inv", "Inverse of erf, on (-1, 1).", 45, operands=FLOAT, stablehlo="chlo.erf_inv")
lgamma_p = _function("lgamma", "log |gamma(x)|.", 60, operands=FLOAT, stablehlo="chlo.lgamma")
digamma_p = _function("digamma", "Derivative of lgamma.", 80, operands=FLOAT, stablehlo="chlo.digamma")
bessel_i0e_p = _function("bessel_i0e", "Exponentially scaled modified Bessel function of order 0.", 60, operands=FLOAT)
bessel_i1e_p = _function(
    "bessel_i1e",
    "Exponentially scaled modified Bessel function of order 1.",
    60,
    operands=FLOAT,
    stablehlo="chlo.bessel_i1e",
)

atan2_p = elementwise(
    "atan2",
    2,
    INEXACT,
    "The angle of the point (y, x) = (operand 0, operand 1), in (-pi, pi].",
    weight=40,
    rounding="approximate",
    stablehlo="atan2",
)
igamma_p = elementwise(
    "igamma", 2, FLOAT, "Regularised lower incomplete gamma function P(a, x).", weight=2000, rounding="approximate"
)
igammac_p = elementwise(
    "igammac", 2, FLOAT, "Regularised upper incomplete gamma function Q(a, x).", weight=2000, rounding="approximate"
)
igamma_grad_a_p = elementwise(
    "igamma_grad_a", 2, FLOAT, "Derivative of igamma(a, x) by a.", weight=2000, rounding="approximate"
)
random_gamma_grad_p = elementwise(
    "random_gamma_grad", 2, FLOAT, "Derivative of a gamma(a, 1) sample x by a.", weight=2000, rounding="approximate"
)
polygamma_p = elementwise(
    "polygamma",
    2,
    FLOAT,
    "The m-th derivative of digamma at x, operands (m, x).",
    weight=2000,
    rounding="approximate",
    stablehlo="chlo.polygamma",
)
zeta_p = elementwise(
    "zeta", 2, FLOAT, "The Hurwitz zeta function of (x, q).", weight=2000, rounding="approximate", stablehlo="chlo.zeta"
)
regularized_incomplete_beta_p = elementwise(
    "regularized_incomplete_beta",
    3,
    FLOAT,
    "The regularised incomplete beta function I_x(a, b), operands (a, b, x).",
    weight=2000,
    rounding="approximate",
)

# -- complex ----------------------------------------------------------------------------------------------------------

real_p = elementwise(
    "real", 1, COMPLEX, "Real part.", result=dtypes.real_dtype, weight=0, numpy="real", stablehlo="real"
)
imag_p = elementwise(
    "imag", 1, COMPLEX, "Imaginary part.", result=dtypes.real_dtype, weight=0, numpy="imag", stablehlo="imag"
)
conj_p = elementwise("conj", 1, COMPLEX, "Complex conjugate.", weight=0, numpy="conj", stablehlo="chlo.conj")
complex_p = elementwise(
    "complex",
    2,
    (dtypes.float32, dtypes.float64),
    "The complex number with these parts.",
    result=dtypes.complex_dtype,
    weight=0,
    stablehlo="complex",
)

# -- comparisons, logic, bits -----------------------------------------------------------------------------------------

eq_p = elementwise("eq", 2, ANY, "x == y; NaN equals nothing.", result=to_bool, commutative=True, numpy="equal")
ne_p = elementwise("ne", 2, ANY, "x != y.", result=to_bool, commutative=True, numpy="not_equal")
lt_p = elementwise("lt", 2, ORDERED, "x < y.", result=to_bool, numpy="less")
le_p = elementwise("le", 2, ORDERED, "x <= y.", result=to_bool, numpy="less_equal")
gt_p = elementwise("gt", 2, ORDERED, "x > y.", result=to_bool, numpy="greater")
ge_p = elementwise("ge", 2, ORDERED, "x >= y.", result=to_bool, numpy="greater_equal")
is_finite_p = elementwise(
    "is_finite",
    1,
    FLOAT,
    "Whether x is neither infinite nor NaN.",
    result=to_bool,
    numpy="isfinite",
    stablehlo="is_finite",
)
not_p = elementwise("not", 1, BITS, "Bitwise (logical for bool) not.", numpy="invert", stablehlo="not")
and_p = elementwise(
    "and", 2, BITS, "Bitwise (logical for bool) and.", commutative=True, numpy="bitwise_and", stablehlo="and"
)
or_p = elementwise(
    "or", 2, BITS, "Bitwise (logical for bool) or.", commutative=True, numpy="bitwise_or", stablehlo="or"
)
xor_p = elementwise(
    "xor", 2, BITS, "Bitwise (logical for bool) exclusive or.", commutative=True, numpy="bitwise_xor", stablehlo="xor"
)
shift_left_p = elementwise("shift_left", 2, INTEGER, "x << y; 0 for y at or beyond the width.", stablehlo="shift_left")
shift_right_logical_p = elementwise(
    "shift_right_logical",
    2,
    INTEGER,
    "x >> y filling with zeros; 0 for y at or beyond the width.",
    stablehlo="shift_right_logical",
)
shift_right_arithmetic_p = elementwise(
    "shift_right_arithmetic",
    2,
    INTEGER,
    "x >> y filling with the sign; all signs for y at or beyond the width.",
    stablehlo="shift_right_arithmetic",
)
population_count_p = elementwise("population_count", 1, INTEGER, "The number of set bits.", stablehlo="popcnt")
clz_p = elementwise("clz", 1, INTEGER, "The number of leading zero bits.", stablehlo="count_leading_zeros")


@primitive("round", weight=2, rounding="exact")
def round_p(x: ShapedArray, *, rounding_method: int) -> ShapedArray:
    """Nearest integer; ties away from zero (rounding_method 0) or to even (1)."""
    check_dtype("round", x, FLOAT)
    return x


# -- selection ----------------------------------------------------------------------------------------------------------


@primitive("select_n", complex_weight=2, rounding="exact")
def select_n_p(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    """The case that `which` (bool, or int32 below the number of cases) selects, element by element.

    `which` is a scalar or has the shape of the cases, which have one shape and dtype.

    Raises:
        TypeError: there is no case, `which` is neither bool nor int32 or is bool for more than 2 cases, or the dtypes
            or shapes do not fit.
    """
    if not cases:
        raise TypeError("select_n: expected at least one case")
    first = cases[0]
    check_dtype("select_n", which, (dtypes.bool_, dtypes.int32), "which")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise TypeError(f"select_n: a bool which selects among 2 cases, got {len(cases)}: give an int32 which")
    check_same_dtype("select_n", *cases)
    shapes = {c.shape for c in cases}
    if len(shapes) > 1 or (which.shape and which.shape not in shapes):
        raise TypeError(
            f"select_n: the cases must have one shape, and which that shape or (), got which {which.short()}, cases "
            + ", ".join(c.short() for c in cases)
        )
    return ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))


@primitive("clamp", rounding="exact")
def clamp_p(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    """``min(max(x, low), high)``; the bounds are scalars or have x's shape; NaN stays.

    Raises:
        TypeError: x is complex, the dtypes differ, or a bound is no scalar and has another shape than x.
    """
    check_dtype("clamp", x, ORDERED)
    check_same_dtype("clamp", low, x, high)
    for name, bound in (("min", low), ("max", high)):
        if bound.shape and bound.shape != x.shape:
            raise TypeError(f"clamp: {name} {bound.short()} must be a scalar or have the operand's shape {x.shape}")
    return x


# -- conversions --------------------------------------------------------------------------------------------------------


@primitive("convert_element_type", rounding="nearest")
def convert_element_type_p(x: ShapedArray, *, new_dtype: DType, weak_type: bool) -> ShapedArray:
    """Convert to another dtype.

    float to integer truncates, saturates and maps NaN to 0; complex to real drops the imaginary part; to bool is
    ``x != 0``; integers wrap.
    """
    return ShapedArray(x.shape, new_dtype, weak_type)


@primitive("bitcast_convert_type", rounding="exact")
def bitcast_convert_type_p(x: ShapedArray, *, new_dtype: DType) -> ShapedArray:
    """Reinterpret the bits. A narrower dtype adds a trailing dimension, a wider one takes the trailing dimension away.

    Raises:
        TypeError: one of the two dtypes is bool or complex, or of fewer than 8 bits.
        ValueError: the dtype becomes wider and the last dimension is not the ratio of the widths.
    """
    for what, d in (("operand", x.dtype), ("new_dtype", new_dtype)):
        if dtypes.is_bool(d) or dtypes.is_complex(d) or d in dtypes.NARROW_INTEGERS or d == dtypes.float4_e2m1fn:
            raise TypeError(
                f"bitcast_convert_type: {what} dtype {d} has no defined bits, expected an integer or float dtype"
            )
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return ShapedArray(x.shape, new_dtype)
    if old > new:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        raise ValueError(
            f"bitcast_convert_type: to widen {x.dtype} to {new_dtype} the last dimension must be {new // old}, got {x.short()}"
        )
    return ShapedArray(x.shape[:-1], new_dtype)


@primitive("reduce_precision", weight=8, rounding="exact")
def reduce_precision_p(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    """Round to a float format with that many bits of exponent and mantissa, keeping the dtype.

    Raises:
        TypeError: x is not a float array.
        ValueError: `exponent_bits` is below 1 or `mantissa_bits` negative.
    """
    check_dtype("reduce_precision", x, FLOAT)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: exponent_bits {exponent_bits} must be >= 1 and mantissa_bits {mantissa_bits} >= 0"
        )
    return x


@primitive("copy", weight=0, rounding="exact", apart=True, numpy="copy")
def copy_p(x: ShapedArray) -> ShapedArray:
    """A copy of x in memory of its own."""
    return x


@primitive("stop_gradient", weight=0, rounding="exact")
def stop_gradient_p(x: ShapedArray) -> ShapedArray:
    """x itself, with a derivative of zero."""
    return x


# -- thin functions -----------------------------------------------------------------------------------------------------

neg, sign, abs, floor, ceil, square = map(_unary, (neg_p, sign_p, abs_p, floor_p, ceil_p, square_p))
add, sub, mul, div, rem = map(_binary, (add_p, sub_p, mul_p, div_p, rem_p))
max, min, nextafter, atan2, mulhi = map(_binary, (max_p, min_p, nextafter_p, atan2_p, mulhi_p))
exp, exp2, expm1, log, log1p, logistic = map(_unary, (exp_p, exp2_p, expm1_p, log_p, log1p_p, logistic_p))
sin, cos, tan, asin, acos, atan = map(_unary, (sin_p, cos_p, tan_p, asin_p, acos_p, atan_p))
sinh, cosh, tanh, asinh, acosh, atanh = map(_unary, (sinh_p, cosh_p, tanh_p, asinh_p, acosh_p, atanh_p))
sqrt, rsqrt, cbrt = map(_unary, (sqrt_p, rsqrt_p, cbrt_p))
erf, erfc, erf_inv, lgamma, digamma = map(_unary, (erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p))
bessel_i0e, bessel_i1e = map(_unary, (bessel_i0e_p, bessel_i1e_p))
igamma, igammac, igamma_grad_a = map(_binary, (igamma_p, igammac_p, igamma_grad_a_p))
random_gamma_grad, polygamma, zeta = map(_binary, (random_gamma_grad_p, polygamma_p, zeta_p))
regularized_incomplete_beta = _ternary(regularized_incomplete_beta_p)
eq, ne, lt, le, gt, ge = map(_binary, (eq_p, ne_p, lt_p, le_p, gt_p, ge_p))
is_finite, bitwise_not, population_count, clz = map(_unary, (is_finite_p, not_p, population_count_p, clz_p))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, (and_p, or_p, xor_p))
shift_left, shift_right_logical, shift_right_arithmetic = map(
    _binary, (shift_left_p, shift_right_logical_p, shift_right_arithmetic_p)
)
complex = _binary(complex_p)
copy = _unary(copy_p)


def stop_gradient(x: Value) -> Value:
    """x with a derivative of zero; x itself for dtypes that have no derivative."""
    return stop_gradient_p.bind(x) if dtypes.is_inexact(aval_of(x).dtype) else x


def real(x: Value) -> Value:
    """The real part; x itself for real dtypes."""
    return real_p.bind(x) if dtypes.is_complex(aval_of(x).dtype) else x


def imag(x: Value) -> Value:
    """The imaginary part; zeros for real dtypes."""
    aval = aval_of(x)
    if dtypes.is_complex(aval.dtype):
        return imag_p.bind(x)
    from .structural import broadcast_in_dim

    return broadcast_in_dim(np.zeros((), aval.dtype)[()], aval.shape, ())


def conj(x: Value) -> Value:
    """The complex conjugate; x itself for real dtypes."""
    return conj_p.bind(x) if dtypes.is_complex(aval_of(x).dtype) else x


def pow(x: Value, y: Value) -> Value:
    """``x ** y``; an `int` y becomes `integer_pow`."""
    if type(y) is int:
        return integer_pow(x, y)
    if dtypes.is_integer(aval_of(y).dtype):
        return pow_p.bind(x, y)
    return pow_p.bind(*match_scalars(x, y))


def integer_pow(x: Value, y: int) -> Value:
    """``x ** y`` for a constant integer y."""
    return x if y == 1 else integer_pow_p.bind(x, y=int(y))


def round(x: Value, rounding_method: int = 0) -> Value:
    """Nearest integer; ties away from zero (0) or to even (1)."""
    return round_p.bind(x, rounding_method=int(rounding_method))


def select_n(which: Value, *cases: Value) -> Value:
    """The case that `which` selects: ``select_n(pred, on_false, on_true)``."""
    return select_n_p.bind(which, *match_scalars(*cases))


def where(pred: Value, on_true: Value, on_false: Value) -> Value:
    """``select_n(pred, on_false, on_true)`` with scalar cases broadcast to the other's shape."""
    from .structural import broadcast_scalars

    on_true, on_false = match_scalars(on_true, on_false)
    on_true, on_false = broadcast_scalars(on_true, on_false, shape=aval_of(pred).shape)
    return select_n_p.bind(pred, on_false, on_true)


def clamp(low: Value, x: Value, high: Value) -> Value:
    """``min(max(x, low), high)``."""
    x_dtype = aval_of(x).dtype
    low, high = (np.asarray(b, x_dtype)[()] if type(b) in (int, float, bool) else b for b in (low, high))
    return clamp_p.bind(low, x, high)


def convert_element_type(x: Value, new_dtype: Any = None, weak_type: bool = False) -> Value:
    """x with another dtype; x itself when nothing changes."""
    aval = aval_of(x)
    dtype = aval.dtype if new_dtype is None else dtypes.explicit(dtypes.as_dtype(new_dtype))
    if dtypes.is_bool(dtype):
        weak_type = False
    if dtype == aval.dtype and weak_type == aval.weak_type and hasattr(x, "aval"):
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def bitcast_convert_type(x: Value, new_dtype: Any) -> Value:
    """x with its bits reinterpreted as another dtype."""
    return bitcast_convert_type_p.bind(x, new_dtype=dtypes.explicit(dtypes.as_dtype(new_dtype)))


def reduce_precision(x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """x rounded to a smaller float format."""
    return reduce_precision_p.bind(x, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits))

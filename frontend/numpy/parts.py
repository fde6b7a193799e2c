"""The parts of numbers: sign and magnitude, real and imaginary part, rounding, mantissa and exponent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import bind

from ..arrays.operands import (
    INEXACT,
    Value,
    as_int,
    broadcast_to,
    cast,
    check_arraylike,
    ensure,
    no_out,
    promote_inexact,
    promote_shapes,
    scalar_like,
    strong,
    weak_where_all_are,
)
from ..transforms.custom_derivatives import custom_jvp
from ._ops import add_, div_, eq_, ge_, gt_, lt_, mul_, ne_, no_complex, or_, select, sub_
from .creation import filled
from .elementwise import inexact_operand, inexact_operands, named

# -- sign and absolute value, complex parts ---------------------------------------------------------------------------


def absolute(x: Any, /) -> Value:
    """The absolute value; real for complex x. Follows `numpy.absolute`.

    >>> quire.numpy.absolute(3 + 4j).item()
    5.0
    """
    x = ensure("absolute", x)
    dtype = aval_of(x).dtype
    return x if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype) else ew.abs_p.bind(x)


abs = absolute


def fabs(x: Any, /) -> Value:
    """The absolute value in a float dtype. Follows `numpy.fabs`.

    Raises TypeError for complex numbers.

    >>> quire.numpy.fabs(-3).item()
    3.0
    """
    x = inexact_operand("fabs", x)
    if dtypes.is_complex(aval_of(x).dtype):
        raise TypeError("quire.numpy.fabs: complex numbers are not supported, use quire.numpy.abs")
    return ew.abs_p.bind(x)


def positive(x: Any, /) -> Value:
    """+x: the array itself. Follows `numpy.positive`.

    >>> quire.numpy.positive(3).item()
    3
    """
    return ensure("positive", x)


def real(val: Any, /) -> Value:
    """The real part. Follows `numpy.real`.

    >>> quire.numpy.real(1 + 2j).item()
    1.0
    """
    x = ensure("real", val)
    return ew.real_p.bind(x) if dtypes.is_complex(aval_of(x).dtype) else x


def imag(val: Any, /) -> Value:
    """The imaginary part; zeros for real dtypes. Follows `numpy.imag`.

    >>> quire.numpy.imag(1 + 2j).item()
    2.0
    """
    x = ensure("imag", val)
    aval = aval_of(x)
    if dtypes.is_complex(aval.dtype):
        return ew.imag_p.bind(x)

    return filled(aval.shape, 0, aval.dtype, aval.weak_type)


def conjugate(x: Any, /) -> Value:
    """The complex conjugate; x itself for real dtypes. Follows `numpy.conjugate`.

    >>> quire.numpy.conjugate(1 + 2j).item()
    (1-2j)
    """
    x = ensure("conjugate", x)
    return ew.conj_p.bind(x) if dtypes.is_complex(aval_of(x).dtype) else x


conj = conjugate


def copysign(x1: Any, x2: Any, /) -> Value:
    """The magnitude of x1 with the sign of x2 (that of -0 included). Follows `numpy.copysign`.

    Raises TypeError for complex numbers.

    >>> quire.numpy.copysign(3., -0.).item()
    -3.0
    """
    x, y = inexact_operands("copysign", x1, x2)
    if dtypes.is_complex(aval_of(x).dtype):
        raise TypeError("quire.numpy.copysign: complex numbers have no sign bit")
    magnitude = ew.abs_p.bind(x)
    return select(signbit(y), ew.neg_p.bind(magnitude), magnitude)


_BITS = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def signbit(x: Any, /) -> Value:
    """Whether the sign bit is set: true for negative numbers, -0.0 and negative NaN. Follows `numpy.signbit`.

    Raises TypeError for complex numbers.

    >>> quire.numpy.signbit(quire.numpy.array([-0., 0.]))
    Array([ True, False], dtype=bool)
    """
    x = ensure("signbit", x)
    dtype = aval_of(x).dtype
    if dtypes.is_complex(dtype):
        raise TypeError("quire.numpy.signbit: complex numbers have no sign bit")
    if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype):
        return filled(aval_of(x).shape, False, dtypes.bool_)
    if dtypes.is_float(dtype):
        x = ew.bitcast_convert_type_p.bind(x, new_dtype=_BITS[dtype.itemsize])
    return lt_(x, 0)


def heaviside(x1: Any, x2: Any, /) -> Value:
    """0 for negative x1, x2 at 0, 1 for positive x1. Follows `numpy.heaviside`.

    >>> quire.numpy.heaviside(quire.numpy.array([-1., 0., 1.]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = inexact_operands("heaviside", x1, x2)
    shape = max(aval_of(x).shape, aval_of(y).shape, key=len)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    x, y = ensure("heaviside", x), ensure("heaviside", y)
    step = select(gt_(x, 0.0), 1.0, x)  # keeps NaN
    return weak_where_all_are(select(lt_(x, 0.0), 0.0, select(eq_(x, 0.0), y, step)), x1)


# -- rounding ---------------------------------------------------------------------------------------------------------


def _rounding(name: str, p: Any, what: str, example: str) -> Any:
    def apply(x: Any, /) -> Value:
        x = ensure(name, x)
        dtype = aval_of(x).dtype
        if dtypes.is_integer(dtype) or dtypes.is_bool(dtype):
            return x
        try:
            return p.bind(x)
        except TypeError as error:
            named(error, name)
            raise

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "quire.numpy"
    apply.__doc__ = f"""{what}

    Args:
        x: an array or a number; integers and bool are returned as they are.

    Follows `numpy.{name}`.

    {example}
    """
    return apply


floor = _rounding(
    "floor", ew.floor_p, "The largest integer not above x.", ">>> quire.numpy.floor(-1.5).item()\n    -2.0"
)
ceil = _rounding("ceil", ew.ceil_p, "The smallest integer not below x.", ">>> quire.numpy.ceil(-1.5).item()\n    -1.0")


def trunc(x: Any) -> Value:
    """x rounded toward zero. Follows `numpy.trunc`.

    >>> quire.numpy.trunc(-1.5).item()
    -1.0
    """
    x = ensure("trunc", x)
    dtype = aval_of(x).dtype
    if dtypes.is_integer(dtype) or dtypes.is_bool(dtype):
        return x
    no_complex("trunc", dtype)
    return select(lt_(x, 0.0), ew.ceil_p.bind(x), ew.floor_p.bind(x))


fix = trunc


def rint(x: Any, /) -> Value:
    """The nearest integer, ties to even; integers and bool as the default float. Follows `numpy.rint`.

    >>> quire.numpy.rint(2.5).item()
    2.0
    """
    x = ensure("rint", x)
    if aval_of(x).dtype not in INEXACT:
        return cast(x, dtypes.canonicalize(dtypes.float64))
    if dtypes.is_complex(aval_of(x).dtype):
        return ew.complex_p.bind(rint(real(x)), rint(imag(x)))
    return ew.round_p.bind(x, rounding_method=1)


def round(a: Any, decimals: int = 0, out: None = None) -> Value:
    """a rounded to a number of decimals, ties to even.

    Args:
        a: an array or a number.
        decimals: digits after the point; negative for float dtypes only.

    Raises:
        NotImplementedError: decimals is negative for integers or bool.

    Follows `numpy.round`.

    >>> quire.numpy.round(2.345, 1).item()
    2.299999952316284
    """
    no_out("round", out)
    x = ensure("round", a)
    places = as_int("round", decimals, "decimals")
    dtype = aval_of(x).dtype
    if dtypes.is_integer(dtype) or dtypes.is_bool(dtype):
        if places < 0:
            raise NotImplementedError(
                "quire.numpy.round: integers cannot be rounded to negative decimals: convert to float"
            )
        return x
    if dtypes.is_complex(dtype):
        return ew.complex_p.bind(round(real(x), places), round(imag(x), places))
    if places == 0:
        return ew.round_p.bind(x, rounding_method=1)
    small = dtype in (dtypes.float16, dtypes.bfloat16)
    y = cast(x, dtypes.float32) if small else x
    factor = 10.0**places
    y = div_(ew.round_p.bind(mul_(y, factor), rounding_method=1), factor)
    return cast(y, dtype) if small else y


around = round


# -- the parts of floats ----------------------------------------------------------------------------------------------


def modf(x: Any, /, out: None = None) -> tuple[Value, Value]:
    """The fractional and the integral part, both with the sign of x. Follows `numpy.modf`.

    >>> [float(v) for v in quire.numpy.modf(2.5)]
    [0.5, 2.0]
    """
    x = ensure("modf", inexact_operand("modf", x))
    whole = select(ge_(x, 0.0), ew.floor_p.bind(x), ew.ceil_p.bind(x))
    fraction = select(eq_(ew.abs_p.bind(x), math.inf), 0.0, sub_(x, whole))
    return fraction, whole


def frexp(x: Any, /) -> tuple[Value, Value]:
    """Mantissa in [0.5, 1) and int32 exponent, so that ``x = mantissa * 2**exponent``. Follows `numpy.frexp`.

    >>> [v.item() for v in quire.numpy.frexp(8.)]
    [0.5, 4]
    """
    x = ensure("frexp", inexact_operand("frexp", x))
    dtype = aval_of(x).dtype
    no_complex("frexp", dtype)
    return _frexp(cast(x, dtype))


@custom_jvp
def _frexp(x: Value) -> tuple[Value, Value]:
    dtype = aval_of(x).dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        mantissa, exponent = _frexp(cast(x, dtypes.float32))
        return cast(mantissa, dtype), exponent
    bits_dtype, mantissa_bits, bias, mask = _layout(dtype)
    # Subnormal numbers are scaled into the normal range first.
    smallest = np.finfo(dtype).tiny
    subnormal = lt_(ew.abs_p.bind(x), float(smallest))
    scaled = select(subnormal, mul_(x, 2.0 ** (mantissa_bits + 1)), x)
    bits = ew.bitcast_convert_type_p.bind(scaled, new_dtype=bits_dtype)
    field = bind(
        ew.and_p, (ew.shift_right_logical_p.bind(bits, bits_dtype.type(mantissa_bits)), bits_dtype.type(mask)), {}
    )
    exponent = sub_(field, bias - 1)
    exponent = select(subnormal, sub_(exponent, mantissa_bits + 1), exponent)
    cleared = bind(ew.and_p, (bits, bits_dtype.type(~(mask << mantissa_bits))), {})
    mantissa = ew.bitcast_convert_type_p.bind(
        bind(ew.or_p, (cleared, bits_dtype.type((bias - 1) << mantissa_bits)), {}), new_dtype=dtype
    )
    special = or_(eq_(x, 0.0), or_(ne_(x, x), eq_(ew.abs_p.bind(x), math.inf)))
    return select(special, x, mantissa), cast(select(special, 0, exponent), dtypes.int32)


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> Any:
    """The mantissa is x times a power of two that is the same around x."""
    mantissa, exponent = _frexp(*primals)
    return (mantissa, exponent), (
        ldexp(tangents[0], ew.neg_p.bind(exponent)),
        np.zeros(aval_of(exponent).shape, dtypes.float0),
    )


def _layout(dtype: DType) -> tuple[DType, int, int, int]:
    """The integer dtype of a float's width, its mantissa bits, exponent bias and exponent mask."""
    if dtype == dtypes.float64:
        return dtypes.int64, 52, 1023, 0x7FF
    return dtypes.int32, 23, 127, 0xFF


def ldexp(x1: Any, x2: Any, /) -> Value:
    """x1 * 2**x2, without an overflow on the way. Follows `numpy.ldexp`.

    Raises ValueError for an x2 of floats or complex numbers, TypeError for a complex x1.

    >>> quire.numpy.ldexp(3., 2).item()
    12.0
    """
    check_arraylike("ldexp", x1, x2)
    exponent_dtype = aval_of(x2).dtype
    if exponent_dtype in INEXACT:
        raise ValueError(f"quire.numpy.ldexp: x2 must be integers, got dtype {exponent_dtype}")
    x = promote_inexact(x1)[0]
    no_complex("ldexp", aval_of(x).dtype)
    dtype = aval_of(x).dtype
    wide = cast(x, dtypes.float32) if dtype in (dtypes.float16, dtypes.bfloat16) else x
    compute = aval_of(wide).dtype
    wide, n = promote_shapes("ldexp", wide, _exponents(ensure("ldexp", x2, 1), 4 * int(np.finfo(compute).maxexp)))
    for _ in range(4):  # four factors, each a power of two that the dtype holds
        part = ew.div_p.bind(n, np.int32(4)) if _ < 3 else n
        if _ < 3:
            n = sub_(n, part) if _ == 0 else sub_(n, part)
        wide = mul_(wide, _exact_power_of_two(part, compute))
    return cast(wide, dtype)


def _exponents(n: Value, limit: int) -> Value:
    """Integers from -limit to limit as int32: limited in their own dtype, as what int32 does not hold would wrap."""
    if aval_of(n).dtype not in (dtypes.uint32, dtypes.int64, dtypes.uint64):
        n = cast(n, dtypes.int32)  # which holds them all
    dtype = aval_of(n).dtype
    limited = bind(ew.min_p, (n, dtype.type(limit)), {})
    if not dtypes.is_unsigned(dtype):
        limited = bind(ew.max_p, (limited, dtype.type(-limit)), {})
    return cast(limited, dtypes.int32)


def _exact_power_of_two(n: Value, dtype: DType) -> Value:
    bits_dtype, mantissa_bits, bias, _ = _layout(dtype)
    n = cast(n, bits_dtype)
    low, high = bits_dtype.type(1 - bias), bits_dtype.type(bias)
    n = bind(ew.max_p, (bind(ew.min_p, (n, high), {}), low), {})
    bits = ew.shift_left_p.bind(add_(n, bias), bits_dtype.type(mantissa_bits))
    return ew.bitcast_convert_type_p.bind(bits, new_dtype=dtype)


def spacing(x: Any, /) -> Value:
    """The distance to the next representable float away from zero; of float16 to the next larger one. Follows `numpy.spacing`.

    Raises ValueError for complex numbers.

    >>> quire.numpy.spacing(1.).item() == 2**-23
    True
    """
    (x,) = strong([ensure("spacing", inexact_operand("spacing", x))])
    if dtypes.is_complex(aval_of(x).dtype):
        raise ValueError(
            f"quire.numpy.spacing: complex numbers have no spacing, got {aval_of(x).short()}: take that of each part"
        )
    toward = broadcast_to(scalar_like(math.inf, x), aval_of(x).shape)
    if aval_of(x).dtype != dtypes.float16:
        toward = select(signbit(x), -math.inf, toward)
    step = sub_(ew.nextafter_p.bind(x, toward), x)
    return select(eq_(ew.abs_p.bind(x), math.inf), math.nan, step)


__all__ = [
    "abs", "absolute", "around", "ceil", "conj", "conjugate", "copysign", "fabs", "fix", "floor", "frexp", "heaviside",
    "imag", "ldexp", "modf", "positive", "real", "rint", "round", "signbit", "spacing", "trunc",
]  # fmt: skip

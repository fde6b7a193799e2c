"""Arithmetic composed of several primitives: integer division, remainders, powers, logarithms, angles, divisors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer, bind
from quire.runtime.array import Array

from .. import lax
from ..arrays.operands import (
    INEXACT,
    SCALARS,
    Value,
    broadcast_to,
    cast,
    check_arraylike,
    concrete,
    concrete_array,
    ensure,
    promote_dtypes,
    promote_shapes,
    result_type,
    scalar_like,
    strong,
    weak_where_all_are,
)
from ..transforms.custom_derivatives import custom_jvp
from ._ops import add_, and_, div_, eq_, lt_, mul_, ne_, no_bool_ints, no_complex, or_, rem_, select, sub_
from .creation import filled
from .elementwise import greater, inexact_operand, inexact_operands, maximum, minimum, named, operands, unwrap
from .parts import absolute, imag, real
from .reductions import any as any_

# -- division ---------------------------------------------------------------------------------------------------------


def floor_divide(x1: Any, x2: Any, /) -> Value:
    """x1 / x2 rounded toward minus infinity.

    Args:
        x1, x2: arrays or numbers of integer, bool or float dtypes, of shapes that broadcast.

    Returns:
        An array of the promoted dtype. An integer divided by zero gives -1 or -2 (as in JAX), a float inf or NaN.

    Follows `numpy.floor_divide`.

    >>> quire.numpy.floor_divide(-7, 2).item()
    -4
    """
    try:
        x, y = no_bool_ints(*operands("floor_divide", x1, x2))
        dtype = aval_of(x).dtype
        no_complex("floor_divide", dtype)
        if dtypes.is_unsigned(dtype):
            return bind(ew.div_p, (x, y), {})
        if dtypes.is_integer(dtype):
            quotient = bind(ew.div_p, (x, y), {})
            down = and_(
                bind(ew.ne_p, (ew.sign_p.bind(x), ew.sign_p.bind(y)), {})
                if aval_of(x).shape == aval_of(y).shape
                else ne_(ew.sign_p.bind(x), ew.sign_p.bind(y)),
                ne_(rem_(x, y), 0),
            )
            return select(down, sub_(quotient, 1), quotient)
        return _float_divmod(x, y)[0]
    except (TypeError, ValueError) as error:
        named(error, "floor_divide")
        raise


def _float_divmod(x: Value, y: Value) -> tuple[Value, Value]:
    mod = rem_(x, y)
    div = div_(sub_(x, mod), y)
    off = and_(ne_(mod, 0), ne_(ew.sign_p.bind(y), ew.sign_p.bind(mod)))
    mod = select(off, add_(mod, y), mod)
    div = select(off, sub_(div, 1), div)
    div = select(eq_(y, 0), div_(x, y), div)
    return ew.round_p.bind(div, rounding_method=0), mod


def remainder(x1: Any, x2: Any, /) -> Value:
    """The remainder of x1 / x2 with the sign of x2: ``x1 - floor_divide(x1, x2) * x2``.

    Args:
        x1, x2: arrays or numbers of integer, bool or float dtypes, of shapes that broadcast.

    Returns:
        An array of the promoted dtype; of integers, 0 where x2 is 0.

    Follows `numpy.remainder`.

    >>> quire.numpy.remainder(-7, 2).item()
    1
    """
    try:
        x, y = no_bool_ints(*operands("remainder", x1, x2))
        dtype = aval_of(x).dtype
        no_complex("remainder", dtype)
        if dtypes.is_integer(dtype):
            y = select(eq_(y, 0), 1, y)
            shape = max(aval_of(x).shape, aval_of(y).shape, key=len)
            x, y = broadcast_to(x, shape), broadcast_to(y, shape)
        trunc = rem_(x, y)
        nonzero = ne_(trunc, 0)
        other_sign = ne_(lt_(trunc, 0), lt_(y, 0))
        return select(and_(other_sign, nonzero), add_(trunc, y), trunc)
    except (TypeError, ValueError) as error:
        named(error, "remainder")
        raise


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Value:
    """The remainder of x1 / x2 with the sign of x1. Follows `numpy.fmod`.

    >>> quire.numpy.fmod(-7, 2).item()
    -1
    """
    try:
        x, y = operands("fmod", x1, x2)
        no_complex("fmod", aval_of(x).dtype)
        x, y = no_bool_ints(x, y)
        if dtypes.is_integer(aval_of(x).dtype):
            y = select(eq_(y, 0), 1, y)
        return rem_(x, y)
    except (TypeError, ValueError) as error:
        named(error, "fmod")
        raise


def divmod(x1: Any, x2: Any, /) -> tuple[Value, Value]:
    """``(floor_divide(x1, x2), remainder(x1, x2))``. Follows `numpy.divmod`.

    >>> quire.numpy.divmod(7, 2)[1].item()
    1
    """
    x, y = no_bool_ints(*operands("divmod", x1, x2))
    if dtypes.is_integer(aval_of(x).dtype):
        return floor_divide(x, y), remainder(x, y)
    no_complex("divmod", aval_of(x).dtype)
    return _float_divmod(x, y)


# -- powers -----------------------------------------------------------------------------------------------------------


def power(x1: Any, x2: Any, /) -> Value:
    """x1 ** x2.

    Args:
        x1, x2: arrays or numbers, of shapes that broadcast. An integer base with a negative integer number as
            exponent is an error; a Python integer exponent is a repeated product.

    Returns:
        An array of the promoted dtype.

    Raises:
        TypeError: x1 are integers or bool, and x2 is a negative Python integer.

    Follows `numpy.power`.

    >>> quire.numpy.power(quire.numpy.array([2., 3.]), 2)
    Array([4., 9.], dtype=float32)
    """
    x1, x2 = unwrap(x1), unwrap(x2)
    check_arraylike("power", x1, x2)
    try:
        static = _static_exponent(x2)
        if static is not None:
            x, x2 = ensure("power", x1), static
            if dtypes.is_bool(aval_of(x).dtype):
                x = cast(x, dtypes.int32)
            if x2 < 0 and dtypes.is_integer(aval_of(x).dtype):
                raise TypeError(
                    f"quire.numpy.power: integers cannot be raised to the negative power {x2}: convert "
                    f"{aval_of(x).short()} to a float dtype"
                )
            if x2 == 0:
                return filled(aval_of(x).shape, 1, aval_of(x).dtype, aval_of(x).weak_type)
            return ew.integer_pow_p.bind(x, y=x2)
        if dtypes.is_integer(aval_of(x2).dtype) and aval_of(x1).dtype in INEXACT and type(x2) is not int:
            dtype, weak = result_type(x1, x2)
            x, y = promote_shapes("power", cast(x1, dtype, weak), x2)
            return bind(ew.pow_p, (x, y), {})
        x, y = promote_shapes("power", *promote_dtypes(x1, x2))
        dtype = aval_of(x).dtype
        if dtypes.is_bool(dtype):
            x, y, dtype = cast(x, dtypes.int32), cast(y, dtypes.int32), dtypes.int32
        if dtype in INEXACT:
            return bind(ew.pow_p, (x, y), {})
        return weak_where_all_are(_integer_power(x, y), x1, x2)
    except (TypeError, ValueError) as error:
        named(error, "power")
        raise


pow = power


def _static_exponent(x: Any) -> int | None:
    """An exponent that is known as an integer: one of Python's or NumPy's, or of an array without dimensions."""
    if isinstance(x, int):
        return int(x)
    if isinstance(x, np.integer | np.ndarray | Array) and not x.shape and dtypes.is_integer(x.dtype):
        return int(x)
    return None


def _integer_power(x: Value, y: Value) -> Value:
    """x ** y of integers by repeated squaring: six steps hold every power that does not overflow, but those of 0."""
    aval = aval_of(x)
    shape = max(aval.shape, aval_of(y).shape, key=len)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    base, exponent = x, y
    weak = aval.weak_type and aval_of(y).weak_type
    result = filled(shape, 1, aval.dtype, weak)
    shift = ew.shift_right_logical_p if dtypes.is_unsigned(aval.dtype) else ew.shift_right_arithmetic_p
    for step in range(6):
        odd = ne_(bind(ew.and_p, (y, scalar_like(1, y)), {}), 0)
        result = select(odd, mul_(result, x), result)
        if step < 5:
            x = mul_(x, x)
            y = bind(shift, (y, scalar_like(1, y)), {})
    return select(and_(eq_(base, 0), ne_(exponent, 0)), 0, result)


def float_power(x: Any, y: Any, /) -> Value:
    """x ** y in an inexact dtype. Follows `numpy.float_power`.

    >>> quire.numpy.float_power(2, -1).item()
    0.5
    """
    x, y = inexact_operands("float_power", x, y)
    return bind(ew.pow_p, (x, y), {})


def square(x: Any, /) -> Value:
    """x * x. Follows `numpy.square`.

    >>> quire.numpy.square(3).item()
    9
    """
    x = ensure("square", x)
    return ew.square_p.bind(no_bool_ints(x)[0])


def reciprocal(x: Any, /) -> Value:
    """1 / x. Follows `numpy.reciprocal`.

    >>> quire.numpy.reciprocal(4.).item()
    0.25
    """
    x = inexact_operand("reciprocal", x)
    return div_(1.0, x) if type(x) not in SCALARS else div_(1.0, ensure("reciprocal", x))


def hypot(x1: Any, x2: Any, /) -> Value:
    """sqrt(x1**2 + x2**2), without overflow. Follows `numpy.hypot`.

    Raises ValueError for complex numbers.

    >>> quire.numpy.hypot(3., 4.).item()
    5.0
    """
    x, y = inexact_operands("hypot", x1, x2)
    if dtypes.is_complex(aval_of(x).dtype):
        raise ValueError("quire.numpy.hypot: not defined for complex numbers: take their absolute values first")
    x, y = ew.abs_p.bind(x), ew.abs_p.bind(y)
    infinite = or_(eq_(x, math.inf), eq_(y, math.inf))
    small, large = bind(ew.min_p, (x, y), {}), bind(ew.max_p, (x, y), {})
    safe = select(eq_(large, 0), 1.0, large)
    ratio = div_(small, safe)
    result = select(eq_(large, 0), large, mul_(large, ew.sqrt_p.bind(add_(ew.square_p.bind(ratio), 1.0))))
    return weak_where_all_are(select(infinite, math.inf, result), x1, x2)


def logaddexp(x1: Any, x2: Any, /) -> Value:
    """log(exp(x1) + exp(x2)), without overflow. Follows `numpy.logaddexp`.

    >>> round(quire.numpy.logaddexp(0., 0.).item(), 4)
    0.6931
    """
    x, y = inexact_operands("logaddexp", x1, x2)
    out = _logaddexp(x, y) if isinstance(x, Tracer) or isinstance(y, Tracer) else _logaddexp.fun(x, y)
    return weak_where_all_are(out, x1, x2) if dtypes.is_complex(aval_of(out).dtype) else out


@custom_jvp
def _logaddexp(x: Value, y: Value) -> Value:
    if dtypes.is_complex(aval_of(x).dtype):
        larger = select(greater(ew.real(x), ew.real(y)), x, y)
        smaller = select(greater(ew.real(x), ew.real(y)), y, x)
        out = add_(larger, ew.log1p_p.bind(ew.exp_p.bind(sub_(smaller, larger))))
        angle_ = sub_(remainder(add_(ew.imag_p.bind(out), math.pi), 2 * math.pi), math.pi)
        return ew.complex_p.bind(ew.real_p.bind(out), angle_)
    delta = sub_(x, y)
    stable = add_(bind(ew.max_p, (x, y), {}), ew.log1p_p.bind(ew.exp_p.bind(ew.neg_p.bind(ew.abs_p.bind(delta)))))
    return select(ne_(delta, delta), add_(x, y), stable)  # inf - inf


@_logaddexp.defjvp
def _logaddexp_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    # Not the derivative of the formula above, which has a kink where the operands are equal.
    x, y = primals
    out = _logaddexp(x, y)
    parts = [mul_(t, ew.exp_p.bind(sub_(_finite(v), _finite(out)))) for v, t in zip((x, y), tangents)]
    return out, add_(*parts)


def _finite(x: Value) -> Value:
    """x with 0 for infinity."""
    return x if dtypes.is_complex(aval_of(x).dtype) else select(eq_(x, math.inf), 0.0, x)


def logaddexp2(x1: Any, x2: Any, /) -> Value:
    """log2(2**x1 + 2**x2), without overflow. Follows `numpy.logaddexp2`.

    >>> quire.numpy.logaddexp2(1., 1.).item()
    2.0
    """
    x, y = inexact_operands("logaddexp2", x1, x2)
    ln2 = math.log(2)
    return weak_where_all_are(div_(_logaddexp(mul_(x, ln2), mul_(y, ln2)), ln2), x1, x2)


# -- other logarithms and angles --------------------------------------------------------------------------------------


def log2(x: Any, /) -> Value:
    """The base-2 logarithm. Follows `numpy.log2`.

    >>> quire.numpy.log2(8.).item()
    3.0
    """
    return _log_to_base("log2", x, 2.0)


def log10(x: Any, /) -> Value:
    """The base-10 logarithm. Follows `numpy.log10`.

    >>> quire.numpy.log10(100.).item()
    2.0
    """
    return _log_to_base("log10", x, 10.0)


def _log_to_base(name: str, x: Any, base: float) -> Value:
    (x,) = strong([ensure(name, inexact_operand(name, x))])
    y = ew.log_p.bind(x)
    if dtypes.is_complex(aval_of(x).dtype):  # part by part: a complex division would make NaN of infinities
        return ew.complex_p.bind(div_(ew.real_p.bind(y), math.log(base)), div_(ew.imag_p.bind(y), math.log(base)))
    return div_(y, ew.log_p.bind(scalar_like(base, x)))


def deg2rad(x: Any, /) -> Value:
    """Degrees to radians. Follows `numpy.deg2rad`.

    >>> round(quire.numpy.deg2rad(180.).item(), 4)
    3.1416
    """
    x = ensure("deg2rad", inexact_operand("deg2rad", x))
    return mul_(x, math.pi / 180)


def rad2deg(x: Any, /) -> Value:
    """Radians to degrees. Follows `numpy.rad2deg`.

    >>> quire.numpy.rad2deg(0.).item()
    0.0
    """
    x = ensure("rad2deg", inexact_operand("rad2deg", x))
    return mul_(x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def sinc(x: Any, /) -> Value:
    """sin(pi x) / (pi x), 1 at 0. Follows `numpy.sinc`.

    >>> quire.numpy.sinc(0.).item()
    1.0
    """
    x = mul_(ensure("sinc", inexact_operand("sinc", x)), math.pi)
    zero = eq_(x, 0.0)
    safe = select(zero, 1.0, x)
    return select(zero, _derivative_of_sinc(0, select(zero, x, 0.0)), div_(ew.sin_p.bind(safe), safe))


@partial(custom_jvp, nondiff_argnums=(0,))
def _derivative_of_sinc(k: int, x: Value) -> Value:
    """The k-th derivative of sin(x) / x at 0, from its series: (-1)^(k/2) / (k + 1), and 0 for odd k."""
    # x is 0 here; as a sum the result has its shape and type.
    return add_(mul_(x, 0.0), 0.0 if k % 2 else (-1) ** (k // 2) / (k + 1))


@_derivative_of_sinc.defjvp
def _derivative_of_sinc_jvp(k: int, primals: Any, tangents: Any) -> tuple[Value, Value]:
    return _derivative_of_sinc(k, *primals), mul_(_derivative_of_sinc(k + 1, *primals), *tangents)


def angle(z: Any, deg: bool = False) -> Value:
    """The angle of a complex number in the plane, in radians or degrees. Follows `numpy.angle`.

    >>> round(quire.numpy.angle(1j).item(), 4)
    1.5708
    """
    z = ensure("angle", z)
    aval = aval_of(z)
    if not dtypes.is_complex(aval.dtype) and (aval.ndim == 0 or not dtypes.is_float(aval.dtype)):
        z = cast(z, dtypes.canonicalize(dtypes.float64))  # JAX's: the default float
    result = bind(ew.atan2_p, (imag(z), real(z)), {})
    return rad2deg(result) if deg else result


# -- integers ---------------------------------------------------------------------------------------------------------


def bitwise_count(x: Any, /) -> Value:
    """The number of set bits of abs(x), as uint8. Follows `numpy.bitwise_count`.

    Raises TypeError for numbers that are neither integers nor bool.

    >>> quire.numpy.bitwise_count(7).item()
    3
    """
    x = ensure("bitwise_count", x)
    dtype = aval_of(x).dtype
    if dtypes.is_bool(dtype):
        return cast(x, dtypes.uint8)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"quire.numpy.bitwise_count: expected integers, got dtype {dtype}")
    return cast(ew.population_count_p.bind(absolute(x)), dtypes.uint8)


def _integer_operands(name: str, x1: Any, x2: Any) -> list[Value]:
    check_arraylike(name, x1, x2)
    x, y = promote_shapes(name, *promote_dtypes(x1, x2))
    if not dtypes.is_integer(aval_of(x).dtype):
        raise ValueError(f"quire.numpy.{name}: arguments must be integers, got dtype {aval_of(x).dtype}")
    shape = max(aval_of(x).shape, aval_of(y).shape, key=len)
    return [absolute(broadcast_to(x, shape)), absolute(broadcast_to(y, shape))]


def gcd(x1: Any, x2: Any) -> Value:
    """The greatest common divisor of integers; gcd(0, 0) is 0. Follows `numpy.gcd`.

    >>> quire.numpy.gcd(12, 18).item()
    6
    """
    a, b = _integer_operands("gcd", x1, x2)

    known_a, known_b = concrete(a), concrete(b)
    if known_a is not None and known_b is not None and not isinstance(a, Tracer) and not isinstance(b, Tracer):
        return concrete_array(np.gcd(known_a, known_b))
    return weak_where_all_are(_euclid(a, b), x1, x2)


def _euclid(a: Value, b: Value) -> Value:
    def step(pair: tuple[Value, Value]) -> tuple[Value, Value]:
        a, b = pair
        done = eq_(b, 0)
        return select(done, a, b), select(done, b, rem_(a, select(done, 1, b)))

    # Of the least integer, whose magnitude its dtype does not hold, remainders are negative.
    return absolute(lax.while_loop(lambda pair: any_(ne_(pair[1], 0)), step, (a, b))[0])


def lcm(x1: Any, x2: Any) -> Value:
    """The least common multiple of integers; 0 if either is 0. Follows `numpy.lcm`.

    >>> quire.numpy.lcm(4, 6).item()
    12
    """
    a, b = _integer_operands("lcm", x1, x2)
    divisor = gcd(a, b)
    zero = eq_(divisor, 0)
    return weak_where_all_are(select(zero, 0, mul_(a, floor_divide(b, select(zero, 1, divisor)))), x1, x2)


# -- limits -----------------------------------------------------------------------------------------------------------


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Value:
    """The elements limited to [min, max].

    Args:
        arr: an array. min, max: the limits, arrays that broadcast with it; None for none.

    Raises:
        ValueError: no array is given, or an argument is complex.

    Follows `numpy.clip`.

    >>> quire.numpy.clip(quire.numpy.arange(4), 1, 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if arr is None:
        raise ValueError("quire.numpy.clip: at least the array is required")
    x = ensure("clip", arr)
    if any(v is not None and dtypes.is_complex(aval_of(v).dtype) for v in (x, min, max)):
        raise ValueError("quire.numpy.clip: complex numbers have no order: clip the real and the imaginary part")
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x


__all__ = [
    "angle", "bitwise_count", "clip", "deg2rad", "degrees", "divmod", "float_power", "floor_divide", "fmod", "gcd", "hypot",
    "lcm", "log10", "log2", "mod", "pow", "power", "rad2deg", "radians", "reciprocal", "remainder", "sinc", "square",
]  # fmt: skip

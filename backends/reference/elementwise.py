"""Reference rules of elementwise primitives: arithmetic, comparisons, bits, selection, conversions.

Transcendental and special functions are in `elementwise_math`. float16 and bfloat16 are computed in float32 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew

from . import elementwise_math
from .elementwise_math import quotient
from .rules import reference

__all__ = ["elementwise_math"]  # imported for its rules

Array = Any
HALF = (dtypes.float16, dtypes.bfloat16)


def through_float32(f: Callable[..., Array]) -> Callable[..., Array]:
    """The rule that computes half-precision operands in float32."""

    def rule(*operands: Array, **params: Any) -> Array:
        if operands[0].dtype in HALF:
            return f(*(x.astype(np.float32) if x.dtype in HALF else x for x in operands), **params)
        return f(*operands, **params)

    rule.__name__ = getattr(f, "__name__", "rule")
    return rule


# -- arithmetic -------------------------------------------------------------------------------------------------------


def sign(x: Array) -> Array:
    """x / |x|, and 0 (or NaN) as it is."""
    if x.dtype in dtypes.COMPLEX:
        size = np.abs(x)
        out = np.empty_like(x)
        out.real, out.imag = (part / np.where(size == 0, 1, size) for part in (x.real, x.imag))
        return np.where(size == 0, x, out)
    if x.dtype in dtypes.FLOATS:
        return np.where(x == 0, x, np.sign(x))  # keeps the sign of zero
    return np.sign(x)


def div(x: Array, y: Array) -> Array:
    """x / y; of integers the quotient towards zero, and all bits set by zero."""
    if x.dtype.kind not in "iu":
        return quotient(x, y)
    zero = y == 0
    y = np.where(zero, y.dtype.type(1), y)
    if x.dtype.kind == "u":
        return np.where(zero, np.iinfo(x.dtype).max, x // y)
    minus = y == -1  # INT_MIN / -1 wraps to INT_MIN
    whole = x // np.where(minus, x.dtype.type(1), y)
    inexact = (x - whole * y != 0) & ((x < 0) != (y < 0))
    return np.where(zero, -1, np.where(minus, np.negative(x), whole + inexact)).astype(x.dtype)


def rem(x: Array, y: Array) -> Array:
    """What x / y towards zero leaves, with the sign of x; of integers x itself by zero."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    safe = np.where((y == 0) | (y == x.dtype.type(-1) if x.dtype.kind == "i" else y == 0), x.dtype.type(1), y)
    return np.where(y == 0, x, np.fmod(x, safe))


def extremum(real: Callable[..., Array], after: Callable[..., Array]) -> Callable[..., Array]:
    """The larger or the smaller of two numbers: complex ones by their real, then by their imaginary parts."""

    def rule(x: Array, y: Array) -> Array:
        if x.dtype in dtypes.COMPLEX:
            first = np.where(x.real == y.real, after(x.imag, y.imag), after(x.real, y.real))
            return np.where(first, x, y)
        out = real(x, y)
        if x.dtype in dtypes.FLOATS and not out.all():  # of two zeros the positive one is larger
            zeros = x + y if real is np.maximum else -(-x - y)
            out = np.where((x == 0) & (y == 0), zeros, out)
        return out

    return rule


def integer_pow(x: Array, *, y: int) -> Array:
    """x to a power that is a Python integer, by repeated squaring."""
    n, result = abs(y), None
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        x = x * x if n else x
    if result is None:
        return np.ones_like(x)
    return result if y >= 0 else quotient(np.ones_like(x), result)


def round_(x: Array, *, rounding_method: int) -> Array:
    """The nearest whole number, ties away from zero (`rounding_method` 0) or to even (1)."""
    if rounding_method == 1:
        return np.rint(x)
    whole = np.trunc(x)
    away = whole + np.copysign(1, x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, away, whole), x)


def nextafter(x: Array, y: Array) -> Array:
    """The next number after x in the direction of y."""
    return np.where(x == y, y, np.nextafter(x, y))  # NumPy's of float16 keeps the sign of x


def mulhi(x: Array, y: Array) -> Array:
    """The upper half of the bits of an exact product."""
    bits = 8 * x.dtype.itemsize
    return ((x.astype(object) * y.astype(object)) >> bits).astype(x.dtype)


def square(x: Array) -> Array:
    """x * x; of complex numbers (re - im) (re + im) + 2 re im i, which is exact where the parts are equal."""
    if x.dtype.kind != "c":
        return np.square(x)
    re, im = x.real, x.imag
    out = np.empty(x.shape, x.dtype)
    equal = np.isfinite(re) & (np.abs(re) == np.abs(im))
    with np.errstate(over="ignore", invalid="ignore"):
        out.real = np.where(equal, 0, (re - im) * (re + im))
        part = re * im
        out.imag = part + part
    return out


def _of_numpy(p: Primitive) -> Callable[..., Array]:
    return getattr(np, p.numpy)


for _p in (ew.neg_p, ew.abs_p, ew.floor_p, ew.ceil_p, ew.add_p, ew.sub_p, ew.mul_p, ew.is_finite_p):
    reference.add(_p, through_float32(_of_numpy(_p)))
_HALF_SAFE: dict[Primitive, Callable[..., Array]] = {
    ew.sign_p: sign, ew.square_p: square, ew.div_p: div, ew.rem_p: rem, ew.max_p: extremum(np.maximum, np.greater),
    ew.min_p: extremum(np.minimum, np.less), ew.integer_pow_p: integer_pow, ew.round_p: round_,
}  # fmt: skip
for _p, _f in _HALF_SAFE.items():
    reference.add(_p, through_float32(_f))
reference.add(ew.nextafter_p, nextafter)
reference.add(ew.mulhi_p, mulhi)


@reference(ew.clamp_p)
@through_float32
def clamp(low: Array, x: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


# -- comparisons, logic, bits -----------------------------------------------------------------------------------------

for _p in (
    ew.eq_p, ew.ne_p, ew.lt_p, ew.le_p, ew.gt_p, ew.ge_p, ew.not_p, ew.and_p, ew.or_p, ew.xor_p, ew.real_p, ew.imag_p,
    ew.conj_p, ew.copy_p,
):  # fmt: skip
    reference.add(_p, _of_numpy(_p))


@reference(ew.stop_gradient_p)
def stop_gradient(x: Array) -> Array:
    return x


def unsigned(x: Array) -> Array:
    """The same bits as an unsigned integer."""
    return np.ascontiguousarray(x).reshape(x.shape).view(f"u{x.dtype.itemsize}")


def _shift(x: Array, y: Array, shifted: Callable[..., Array], beyond: Callable[..., Array]) -> Array:
    x, y = np.broadcast_arrays(x, y)
    amount, bits = unsigned(y), 8 * x.dtype.itemsize
    inside = amount < bits
    return np.where(inside, shifted(x, np.where(inside, amount, amount.dtype.type(0)).astype(x.dtype)), beyond(x))


@reference(ew.shift_left_p)
def shift_left(x: Array, y: Array) -> Array:
    return _shift(x, y, np.left_shift, np.zeros_like)


@reference(ew.shift_right_arithmetic_p)
def shift_right_arithmetic(x: Array, y: Array) -> Array:
    # Also for unsigned dtypes: their highest bit is taken for a sign.
    signed = np.ascontiguousarray(x).reshape(x.shape).view(f"i{x.dtype.itemsize}")
    out = _shift(signed, y, np.right_shift, lambda a: np.where(a < 0, -1, 0))
    return out.astype(signed.dtype).view(x.dtype)


@reference(ew.shift_right_logical_p)
def shift_right_logical(x: Array, y: Array) -> Array:
    return _shift(unsigned(x), y, np.right_shift, np.zeros_like).astype(unsigned(x).dtype).view(x.dtype)


@reference(ew.population_count_p)
def population_count(x: Array) -> Array:
    return np.bitwise_count(unsigned(x))


@reference(ew.clz_p)
def clz(x: Array) -> Array:
    u, bits = unsigned(x), 8 * x.dtype.itemsize
    shift = 1
    while shift < bits:  # all bits below the highest one become set
        u = u | (u >> u.dtype.type(shift))
        shift *= 2
    return bits - np.bitwise_count(u).astype(np.int32)


# -- complex, selection -------------------------------------------------------------------------------------------------


@reference(ew.complex_p)
def complex_(re: Array, im: Array) -> Array:
    out = np.empty(np.broadcast_shapes(re.shape, im.shape), dtypes.complex_dtype(re.dtype))
    out.real, out.imag = re, im
    return out


@reference(ew.select_n_p)
def select_n(which: Array, *cases: Array) -> Array:
    if len(cases) == 1:
        return cases[0]
    if len(cases) == 2:
        return np.where(which == which.dtype.type(0), cases[0], cases[1])
    which = np.clip(np.broadcast_to(which, cases[0].shape), 0, len(cases) - 1)
    out = cases[0].copy()
    for i, case in enumerate(cases[1:], 1):
        out = np.where(which == i, case, out)
    return out


# -- conversions ----------------------------------------------------------------------------------------------------------


@reference(ew.convert_element_type_p)
def convert_element_type(x: Array, *, new_dtype: Any, weak_type: bool = False) -> Array:
    if x.dtype in dtypes.NARROW:
        x = x.astype(np.int32 if x.dtype in dtypes.NARROW_INTEGERS else np.float32)
    if new_dtype in dtypes.NARROW:
        middle = dtypes.int32 if new_dtype in dtypes.NARROW_INTEGERS else dtypes.float32
        y = convert_element_type(x, new_dtype=middle)
        if new_dtype in dtypes.NARROW_INTEGERS and dtypes.is_inexact(x.dtype):
            info = ml_dtypes.iinfo(new_dtype)
            y = np.clip(y, info.min, info.max)
        return y.astype(new_dtype)
    if dtypes.is_bool(new_dtype):
        return x != x.dtype.type(0)
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(new_dtype):
        x = x.real
    if dtypes.is_integer(new_dtype) and dtypes.is_float(x.dtype):
        return _saturate(x, new_dtype)
    if new_dtype in HALF and dtypes.is_integer(x.dtype):
        return x.astype(np.float32).astype(new_dtype)
    return x.astype(new_dtype)


def _saturate(x: Array, new_dtype: Any) -> Array:
    """Toward zero, clamped to the range of the integer dtype, NaN to 0."""
    info = np.iinfo(new_dtype)
    if x.size and info.min <= float(x.min()) and float(x.max()) < min(info.max + 1, 1 << 63):  # false for NaN
        return x.astype(np.int64).astype(new_dtype)
    x = np.trunc(np.where(np.isnan(x), x.dtype.type(0), x).astype(np.float64))
    low, beyond = float(info.min), float(info.max + 1)
    inside = (x >= low) & (x < beyond)
    clean = np.where(inside, x, 0.0)
    if info.min == 0:  # NumPy converts floats to unsigned integers through signed ones on some machines
        top = clean >= 2.0**63
        out = np.where(top, clean - 2.0**63, clean).astype(np.int64).astype(np.uint64)
        out = np.where(top, out + np.uint64(2**63), out).astype(new_dtype)
    else:
        out = clean.astype(new_dtype)
    return np.where(inside, out, np.where(x < low, info.min, info.max).astype(new_dtype))


@reference(ew.bitcast_convert_type_p)
def bitcast_convert_type(x: Array, *, new_dtype: Any) -> Array:
    x = np.ascontiguousarray(x).reshape(x.shape)
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return x.view(new_dtype)
    if old > new:
        return x.reshape(*x.shape, 1).view(new_dtype).reshape(*x.shape, old // new)
    return x.view(new_dtype).reshape(x.shape[:-1])


# dtype: its bits as an integer dtype, bits of the mantissa, bits of the exponent
_LAYOUT = {
    dtypes.float16: (np.uint16, 10, 5), dtypes.bfloat16: (np.uint16, 7, 8),
    dtypes.float32: (np.uint32, 23, 8), dtypes.float64: (np.uint64, 52, 11),
}  # fmt: skip


@reference(ew.reduce_precision_p)
def reduce_precision(x: Array, *, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round the mantissa to nearest even on the bits; then what is too big is inf and what is too small is 0."""
    bits_type, mantissa, exponent = _LAYOUT[x.dtype]
    word = bits_type
    bits = np.ascontiguousarray(x).reshape(x.shape).view(bits_type)
    sign_mask = word(1 << (mantissa + exponent))
    magnitude = bits & ~sign_mask
    infinity = word(((1 << exponent) - 1) << mantissa)
    nan = magnitude > infinity
    if mantissa_bits < mantissa:
        drop = mantissa - mantissa_bits
        last = (magnitude >> word(drop)) & word(1)
        magnitude = (magnitude + (word((1 << (drop - 1)) - 1) + last)) & ~word((1 << drop) - 1)
    if exponent_bits < exponent:
        bias, small = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        largest = word(((bias + small) << mantissa) | ((1 << mantissa) - 1))
        tiniest = word((bias - small + 1) << mantissa)
        magnitude = np.where(magnitude > largest, infinity, np.where(magnitude < tiniest, word(0), magnitude))
    out = ((magnitude | (bits & sign_mask)).astype(bits_type)).view(x.dtype)
    return np.where(nan, x, out)

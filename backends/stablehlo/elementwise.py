"""StableHLO lowering of elementwise primitives: arithmetic, comparisons, bits, selection, conversions.

Transcendental functions are in `elementwise_math`, complex ones in `elementwise_complex`, special functions in
`elementwise_special`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew

from . import elementwise_math, elementwise_special, error_free, hlo, kernel_formulas, types
from .formulas import (
    HALF,
    Num,
    arithmetic,
    by_dtype,
    complex_,
    const,
    direct,
    floor,
    formula,
    is_finite,
    libm,
    maximum,
    minimum,
    spread,
    sqrt,
    where,
    with_sign,
)
from .lowering import FORMULAS, Ctx, LoweringRule, lowering

__all__ = ["elementwise_math", "elementwise_special", "error_free", "kernel_formulas"]  # imported for their rules

# -- arithmetic -------------------------------------------------------------------------------------------------------

for _p, _build in {
    ew.floor_p: hlo.floor, ew.ceil_p: hlo.ceil, ew.mul_p: hlo.multiply,
    ew.is_finite_p: hlo.is_finite,
}.items():  # fmt: skip
    lowering.add(_p, arithmetic(_build))

for _p, _build in {
    ew.neg_p: hlo.negate, ew.not_p: hlo.not_, ew.and_p: hlo.and_, ew.or_p: hlo.or_, ew.xor_p: hlo.xor,
    ew.shift_left_p: hlo.shift_left, ew.shift_right_logical_p: hlo.shift_right_logical,
    ew.population_count_p: hlo.popcnt, ew.real_p: hlo.real, ew.imag_p: hlo.imag,
    ew.complex_p: hlo.complex, ew.copy_p: lambda x: x, ew.stop_gradient_p: lambda x: x,
}.items():  # fmt: skip
    lowering.add(_p, direct(_build))


@lowering(ew.shift_right_arithmetic_p)
def shift_right_arithmetic(ctx: Ctx, x: Any, y: Any) -> Any:
    # The sign of an unsigned operand is its highest bit: shifted as a signed integer.
    dtype = ctx.avals_in[0].dtype
    signed = np.dtype(f"i{dtype.itemsize}")
    x, y = (hlo.bitcast(v, signed) for v in spread(ctx, x, y))
    return hlo.bitcast(hlo.shift_right_arithmetic(x, y), dtype)


@formula
def complex_sign(z: Num) -> Num:
    """z / |z|, and 0 as it is."""
    size = abs(z)
    safe = where(size.eq(0), 1.0, size)
    return where(size.eq(0), z, complex_(z.real / safe, z.imag / safe))


@formula
def integer_sign(x: Num) -> Num:
    """-1, 0 or 1."""
    positive = (x > 0).astype(x.dtype)
    return positive if dtypes.is_unsigned(x.dtype) else positive - (x < 0).astype(x.dtype)


by_dtype(ew.sign_p, f32=direct(hlo.sign), complex=complex_sign, other=integer_sign)


@formula
def complex_square(z: Num) -> Num:
    """(x - y) (x + y) + 2 x y i, whose real part is exact where the parts are equal, and finite where squares overflow."""
    x, y = z.real, z.imag
    part = x * y
    real = where(is_finite(x) & abs(x).eq(abs(y)), const(0, x), (x - y) * (x + y))
    return complex_(real, part + part)


_squared = arithmetic(lambda x: hlo.multiply(x, x))
by_dtype(ew.square_p, f32=_squared, half=_squared, complex=complex_square, other=_squared)


@formula
def complex_abs(z: Num) -> Num:
    """hypot: the larger part times sqrt(1 + ratio^2), inf where either part is."""
    x, y = abs(z.real), abs(z.imag)
    large, small = maximum(x, y), minimum(x, y)
    ratio = small / where(large.eq(0), const(1, x), large)
    size = where(large.eq(0), large, large * sqrt(1.0 + ratio * ratio))
    return where(x.eq(np.inf) | y.eq(np.inf), np.inf, size)


def _absolute(ctx: Ctx, x: Any) -> Any:
    return x if dtypes.is_unsigned(ctx.avals_in[0].dtype) else hlo.abs(x)


by_dtype(ew.abs_p, f32=direct(hlo.abs), half=direct(hlo.abs), complex=complex_abs, other=_absolute)


def _divide(a: Num, b: Num, c: Num, d: Num) -> tuple[Num, Num]:
    """(a + bi) / (c + di) by Smith's method: the larger part of the divisor is factored out."""
    wide = abs(c) >= abs(d)
    big, small = where(wide, c, d), where(wide, d, c)
    t = small / big
    r = 1.0 / (big + small * t)
    re = where(wide, a + b * t, a * t + b) * r
    im = where(wide, b - a * t, b * t - a) * r
    return re, im


@formula
def complex_div(x: Num, y: Num) -> Num:
    """Smith's method; division by zero and infinite operands as C99's annex G."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    re, im = _divide(a, b, c, d)
    by_zero = c.eq(0) & d.eq(0)
    infinity = with_sign(where(is_finite(c), np.inf, c), c)
    re, im = where(by_zero, infinity * a, re), where(by_zero, infinity * b, im)
    inf_x, inf_y = abs(a).eq(np.inf) | abs(b).eq(np.inf), abs(c).eq(np.inf) | abs(d).eq(np.inf)
    finite_x, finite_y = is_finite(a) & is_finite(b), is_finite(c) & is_finite(d)

    def unit(v: Num) -> Num:  # 1 for an infinite part, 0 for a finite one, with its sign
        return with_sign(where(abs(v).eq(np.inf), const(1, v), const(0, v)), v)

    ua, ub, uc, ud = unit(a), unit(b), unit(c), unit(d)
    grows, vanishes = inf_x & finite_y & ~by_zero, finite_x & inf_y
    re = where(grows, np.inf * (ua * c + ub * d), where(vanishes, 0.0 * (a * uc + b * ud), re))
    im = where(grows, np.inf * (ub * c - ua * d), where(vanishes, 0.0 * (b * uc - a * ud), im))
    return complex_(re, im)


def _quotient(build: Callable[..., Any]) -> LoweringRule:
    """The rule of an integer division; of 16 bits it is computed in 32 for CUDA.

    LLVM multiplies by the reciprocal of a constant divisor, which for 16 bits ends IREE's process.
    """
    plain = direct(build)

    def rule(ctx: Ctx, x: Any, y: Any) -> Any:
        dtype = ctx.avals_out[0].dtype
        if not (ctx.target.backend == "cuda" and dtype.itemsize == 2):
            return plain(ctx, x, y)
        wide = dtypes.uint32 if dtypes.is_unsigned(dtype) else dtypes.int32
        x, y = (hlo.convert(v, wide) for v in spread(ctx, x, y))
        # An odd square is 1 modulo 8. That the bit of four is 0 no compiler sees, so none finds that 16 bits would do.
        number = hlo.or_(x, hlo.full_like(x, 1, wide))
        zero = hlo.and_(hlo.multiply(number, number), hlo.full_like(x, 4, wide))
        x = hlo.xor(x, hlo.shift_left(zero, hlo.full_like(x, 16, wide)))
        return hlo.convert(build(x, y), dtype)

    return rule


by_dtype(ew.div_p, f32=direct(hlo.divide), complex=complex_div, other=_quotient(hlo.divide))


@formula
def rem_by_parts(x: Num, y: Num) -> Num:
    """The exact remainder of float32 for quotients below 2^33: the quotient is found 11 bits at a time.

    SPIR-V's remainder is rounded twice, and its division may be wrong in the last places. Here a part of the quotient is
    multiplied with the divisor's halves of 12 bits, which is exact, and a part that is one off is corrected.
    """
    r, b = abs(x), abs(y)
    for shift in (2.0**22, 2.0**11, 1.0):
        t = b * shift
        high = Num(ew.bitcast_convert_type((t.bits() & np.int32(-4096)).value, x.dtype))
        low = t - high
        q = floor(r / where(t.eq(0), const(1, t), t))
        rest = (r - q * high) - error_free.opaque_number(q) * low
        rest = where(rest < 0, rest + t, rest)
        rest = where(rest >= t, rest - t, rest)
        r = where((t < np.inf) & (r >= t), rest, r)
    r = where(is_finite(x) & y.ne(0), with_sign(r, x), const(np.nan, x))
    return where(y.ne(y), y, r)


def remainder_32(ctx: Ctx, x: Any, y: Any) -> Any:
    """StableHLO's, which is exact on processors and on CUDA."""
    return (rem_by_parts if ctx.target.reassociates else direct(hlo.remainder))(ctx, x, y)


FORMULAS[remainder_32] = lambda target, p, avals, params: (
    FORMULAS[rem_by_parts](target, p, avals, params) if target.reassociates else None
)


def _integer_remainder(ctx: Ctx, x: Any, y: Any) -> Any:
    """StableHLO's; of signed integers by their quotient in SPIR-V, where IREE makes it of magnitudes: the least integer has none."""
    if not ctx.target.spirv or dtypes.is_unsigned(ctx.avals_out[0].dtype):
        return _REMAINDER(ctx, x, y)
    x, y = spread(ctx, x, y)
    return hlo.subtract(x, hlo.multiply(hlo.divide(x, y), y))


_REMAINDER = _quotient(hlo.remainder)
by_dtype(ew.rem_p, f32=remainder_32, f64=libm(hlo.remainder), other=_integer_remainder)


@lowering(ew.clz_p)
def leading_zeros(ctx: Ctx, x: Any) -> Any:
    """StableHLO's; SPIR-V has it for 32 bits: others are widened, or computed by halves."""
    dtype = ctx.avals_out[0].dtype
    bits, word = 8 * dtype.itemsize, dtypes.uint32
    if not ctx.target.spirv or bits == 32:
        return hlo.clz(x)
    unsigned = dtypes.UNSIGNED[dtypes.SIGNED.index(dtype)] if dtype in dtypes.SIGNED else dtype
    x = x if unsigned == dtype else hlo.bitcast(x, unsigned)
    if bits < 32:
        return hlo.convert(hlo.subtract(hlo.clz(hlo.convert(x, word)), hlo.full_like(x, 32 - bits, word)), dtype)
    high, low = (hlo.convert(v, word) for v in (hlo.shift_right_logical(x, hlo.full_like(x, 32, unsigned)), x))
    none = hlo.compare(high, hlo.full_like(x, 0, word), "EQ")
    return hlo.convert(hlo.select(none, hlo.add(hlo.clz(low), hlo.full_like(x, 32, word)), hlo.clz(high)), dtype)


@formula
def complex_max(x: Num, y: Num) -> Num:
    """The larger of two complex numbers, by their real parts first."""
    return where(where(x.real.eq(y.real), x.imag > y.imag, x.real > y.real), x, y)


@formula
def complex_min(x: Num, y: Num) -> Num:
    """The smaller of two complex numbers, by their real parts first."""
    return where(where(x.real.eq(y.real), x.imag < y.imag, x.real < y.real), x, y)


for _p, _build, _complex in ((ew.max_p, hlo.maximum, complex_max), (ew.min_p, hlo.minimum, complex_min)):
    by_dtype(_p, f32=direct(_build), half=direct(_build), complex=_complex, other=direct(_build))


@lowering(ew.clamp_p)
def clamp(ctx: Ctx, low: Any, x: Any, high: Any) -> Any:
    low, x, high = spread(ctx, low, x, high)
    return hlo.minimum(hlo.maximum(x, low), high)


@formula
def integer_pow(x: Num, *, y: int) -> Num:
    """Repeated squaring."""
    n, power, result = abs(y), x, None
    while n:
        if n & 1:
            result = power if result is None else result * power
        n >>= 1
        power = power * power if n else power
    if result is None:
        return where(x.eq(x), const(1, x), const(1, x))
    return const(1, x) / result if y < 0 else result


by_dtype(ew.integer_pow_p, f32=integer_pow, complex=integer_pow, other=integer_pow)


def _round(ctx: Ctx, x: Any, *, rounding_method: int) -> Any:
    return hlo.round_even(x) if rounding_method == 1 else hlo.round_away(x)


by_dtype(ew.round_p, f32=_round)


@formula
def conj(z: Num) -> Num:
    """The conjugate of a complex number."""
    return complex_(z.real, -z.imag)


lowering.add(ew.conj_p, conj)


@formula
def nextafter(x: Num, y: Num) -> Num:
    """A step on the integers that order floats: their bits, or the lowest integer minus them for negative ones."""
    bits = np.dtype(f"i{x.dtype.itemsize}")
    lowest = bits.type(np.iinfo(bits).min)
    nan = np.abs(np.array(np.nan, x.dtype)).view(bits)[()]
    infinity = np.array(np.inf, x.dtype).view(bits)[()]
    xb, yb = x.bits(), y.bits()

    def flip(k: Num) -> Num:
        return where(k < 0, lowest - k, k)

    kx, ky = flip(xb), flip(yb)
    stepped = kx + where(kx < ky, bits.type(1), bits.type(-1))
    zero = where(xb < 0, lowest, bits.type(0))  # reached from below: -0
    moved = where(stepped.eq(0), zero, flip(stepped))
    magnitude = bits.type(np.iinfo(bits).max)
    is_nan = ((xb & magnitude) > infinity) | ((yb & magnitude) > infinity)
    out = where(is_nan, nan, where(kx.eq(ky), yb, moved))
    return Num(ew.bitcast_convert_type(out.value, x.dtype))


lowering.add(ew.nextafter_p, nextafter)


@formula
def mulhi(x: Num, y: Num) -> Num:
    """By a product of double width; 64-bit operands by their halves."""
    dtype, bits = x.dtype, 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        product = x.astype(wide) * y.astype(wide)
        shift = ew.shift_right_arithmetic if dtype.kind == "i" else ew.shift_right_logical
        return Num(shift(product.value, wide.type(bits))).astype(dtype)
    unsigned = dtypes.uint64
    a, b = (Num(ew.bitcast_convert_type(v.value, unsigned)) for v in (x, y))
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = (middle & low) + a0 * b1
    high = a1 * b1 + (middle >> half) + (carry >> half)
    if dtype == unsigned:
        return high
    # The high half of signed factors: minus the other factor for each negative one.
    zero = np.uint64(0)
    return Num(ew.bitcast_convert_type((high - where(x < 0, b, zero) - where(y < 0, a, zero)).value, dtype))


lowering.add(ew.mulhi_p, mulhi)

# -- comparisons ------------------------------------------------------------------------------------------------------


def _comparison(direction: str) -> Any:
    def build(x: Any, y: Any) -> Any:
        return hlo.compare(hlo.widened(x), hlo.widened(y), direction)

    return direct(build)


for _p, _direction in (
    (ew.eq_p, "EQ"), (ew.ne_p, "NE"), (ew.lt_p, "LT"), (ew.le_p, "LE"), (ew.gt_p, "GT"), (ew.ge_p, "GE"),
):  # fmt: skip
    lowering.add(_p, _comparison(_direction))

# -- selection ----------------------------------------------------------------------------------------------------------


@lowering(ew.select_n_p)
def select_n(ctx: Ctx, which: Any, *cases: Any) -> Any:
    """Nested selects; an index outside [0, n) selects the first or the last case."""
    aval = ctx.avals_in[0]
    if dtypes.is_bool(aval.dtype):
        return cases[0] if len(cases) == 1 else hlo.select(which, cases[1], cases[0])
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = hlo.select(hlo.compare(which, hlo.full_like(which, i, aval.dtype), "GE"), case, out)
    return out


# -- conversions ----------------------------------------------------------------------------------------------------------


@lowering(ew.convert_element_type_p)
def convert_element_type(ctx: Ctx, x: Any, *, new_dtype: Any, weak_type: bool = False) -> Any:
    return converted(x, ctx.avals_in[0].dtype, new_dtype)


def converted(x: Any, old: Any, new: Any) -> Any:
    """x of dtype `old` as `new`, with JAX's values where StableHLO leaves them open."""
    if old == new:
        return x
    if old == dtypes.bfloat16:
        x, old = hlo.widened(x), dtypes.float32
        return converted(x, old, new)
    if dtypes.is_complex(old):
        part = dtypes.real_dtype(old)
        if dtypes.is_complex(new):
            wide = dtypes.real_dtype(new)
            return hlo.complex(hlo.convert(hlo.real(x), wide), hlo.convert(hlo.imag(x), wide))
        if dtypes.is_bool(new):
            return hlo.or_(converted(hlo.real(x), part, new), converted(hlo.imag(x), part, new))
        return converted(hlo.real(x), part, new)
    if dtypes.is_bool(new):
        return hlo.compare(x, hlo.full_like(x, 0, old), "NE")
    if dtypes.is_complex(new):
        part = dtypes.real_dtype(new)
        re = converted(x, old, part)
        return hlo.complex(re, hlo.full_like(re, 0, part))
    if dtypes.is_float(old) and dtypes.is_integer(new):
        return saturated(x, old, new)
    if new == dtypes.float16 and old == dtypes.float64:
        return hlo.convert(_rounded_to_odd(x), new)
    if new == dtypes.float16 and not dtypes.is_float(old):
        return hlo.convert(hlo.convert(x, dtypes.float32), new)
    return hlo.convert(x, new)


def _rounded_to_odd(x: Any) -> Any:
    """A float64 as float32: if it is none, that of its two neighbours whose last bit is set.

    Rounded once more, to less than 23 bits, it is x rounded once. IREE's own conversion of float64 to float16 makes numbers below the
    normal ones zero.

    Source: S. Boldo and G. Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd (2008).
    """
    near = hlo.convert(x, dtypes.float32)
    back = hlo.convert(near, dtypes.float64)
    bits = hlo.bitcast(near, dtypes.uint32)
    one, none = hlo.full_like(bits, 1, dtypes.uint32), hlo.full_like(bits, 0, dtypes.uint32)
    beyond = hlo.compare(hlo.abs(back), hlo.abs(x), "GT")
    toward_zero = hlo.subtract(bits, hlo.select(beyond, one, none))
    inexact = hlo.compare(back, x, "NE")
    return hlo.bitcast(hlo.select(inexact, hlo.or_(toward_zero, one), bits), dtypes.float32)


def saturated(x: Any, old: Any, new: Any) -> Any:
    """float to integer: toward zero, clamped to the range, NaN to 0. The plain convert wraps."""
    if old in HALF:
        x, old = hlo.convert(x, dtypes.float32), dtypes.float32
    bits, signed = 8 * new.itemsize, dtypes.is_signed(new)
    x = hlo.select(hlo.compare(x, x, "NE"), hlo.full_like(x, 0, old), x)
    if bits < 32:  # exact in int32: clamp, convert, narrow
        info = np.iinfo(new)
        y = hlo.clamp(hlo.full(info.min, (), old), x, hlo.full(info.max, (), old))
        return hlo.convert(hlo.convert(y, dtypes.int32), new)
    same = np.dtype(f"i{new.itemsize}")
    half = 2.0 ** (bits - 1)
    below = float(np.nextafter(np.array(half, old), np.array(0, old)))

    def to_signed(v: Any, low: float) -> Any:
        return hlo.convert(hlo.clamp(hlo.full(low, (), old), v, hlo.full(below, (), old)), same)

    at_half = hlo.compare(x, hlo.full_like(x, half, old), "GE")
    if signed:
        return hlo.select(at_half, hlo.full_like(x, np.iinfo(new).max, new), to_signed(x, -half))
    rest = to_signed(hlo.subtract(x, hlo.full_like(x, half, old)), 0.0)
    upper = hlo.xor(rest, hlo.full_like(x, np.iinfo(same).min, same))
    out = hlo.bitcast(hlo.select(at_half, upper, to_signed(x, 0.0)), new)
    beyond = hlo.compare(x, hlo.full_like(x, 2.0 * half, old), "GE")
    return hlo.select(beyond, hlo.full_like(x, np.iinfo(new).max, new), out)


@lowering(ew.bitcast_convert_type_p)
def bitcast_convert_type(ctx: Ctx, x: Any, *, new_dtype: Any) -> Any:
    return hlo.op1("stablehlo.bitcast_convert", [x], types.aval_type(ctx.avals_out[0]))


@lowering(ew.reduce_precision_p)
def reduce_precision(ctx: Ctx, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return hlo.op1(
        "stablehlo.reduce_precision", [x], x.type,
        exponent_bits=hlo.i32(exponent_bits), mantissa_bits=hlo.i32(mantissa_bits),
    )  # fmt: skip

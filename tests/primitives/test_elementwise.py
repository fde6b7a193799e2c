"""Arithmetic, comparisons, bits, selection, conversions: compiled against the reference against JAX, bit for bit."""

from __future__ import annotations

import itertools

import jax.lax as jl
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import elementwise as ew
from tests.helpers import Case, check, thinned
from tests.primitives.oracles import under_jax

INTEGERS = {"signed": dtypes.SIGNED, "unsigned": dtypes.UNSIGNED}
# Ends of the ranges of integers, ties of rounding, zeros, infinities.
REALS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, -1.5, 3.0, np.inf, -np.inf, np.nan, 1e-3, 126.9, 127.0, 127.5,
    128.0, 255.0, 255.5, 256.0, -128.0, -128.7, -129.0, 32767.0, 32768.0, -32768.0, -32769.0, 65535.0, 65536.0,
    2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967296.0, 9.2233715e18, 9.223372e18,
    -9.223372e18, -9.3e18, 1.8446743e19, 1.8446744e19, 1e30, -1e30, 300.7,
)  # fmt: skip
# Reciprocals and squares of half floats are rounded once here and at each step by JAX.
HALF_RTOL = {dtypes.float16: 2e-3, dtypes.bfloat16: 1.6e-2}
# Compiled code and XLA flush denormal numbers to zero.
DENORMAL = {dtypes.float16: 6.2e-5, dtypes.bfloat16: 1.2e-38, dtypes.float32: 1.2e-38}


def values(dtype):
    """Edge values of a dtype."""
    dtype = np.dtype(dtype)
    if dtypes.is_bool(dtype):
        return np.array([True, False])
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        some = {info.min, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100}
        if info.min:
            some |= {-1, -2, -7, info.min + 1}
        return np.array(sorted(some), object).astype(dtype)
    if dtypes.is_complex(dtype):
        return np.array([complex(a, b) for a in REALS for b in (0.0, 1.5, np.nan)], dtype)
    with np.errstate(over="ignore"):
        return np.array(REALS).astype(dtype)


def pairs(dtype):
    v = values(dtype)
    return tuple(a.ravel() for a in np.meshgrid(v, v))


def case(name, dtype, args, *, f=None, expect=None, exact=True, rtol=None, atol=None):
    f = getattr(ew, name) if f is None else f
    expect = under_jax(getattr(jl, name) if expect is None else expect)
    return Case(f"{name} {dtype}", f, args, expect, exact=exact, rtol=rtol, atol=atol)


@pytest.mark.parametrize("group", INTEGERS.values(), ids=INTEGERS)
def test_integers(group, x64):
    cases = []
    for dtype in group:
        v, xy = values(dtype), pairs(dtype)
        cases += [case(n, dtype, (v,)) for n in ("neg", "sign", "square", "population_count", "clz", "bitwise_not")]
        names = (
            "add", "sub", "mul", "div", "rem", "max", "min", "mulhi", "shift_left", "shift_right_logical",
            "shift_right_arithmetic", "bitwise_and", "bitwise_or", "bitwise_xor", "lt", "ge", "eq",
        )  # fmt: skip
        cases += [case(n, dtype, xy) for n in names]
        for k in (0, 3):
            cases.append(case("integer_pow", dtype, (v,), f=lambda x, k=k: ew.integer_pow(x, k),
                              expect=lambda x, k=k: jl.integer_pow(x, k)))  # fmt: skip
        cases.append(case("clamp", dtype, (v[1], v, v[-3])))
        if dtypes.is_signed(dtype):
            cases.append(case("abs", dtype, (v,)))
        else:
            cases.append(case("abs", dtype, (v,), expect=lambda x: x))
    check(thinned(cases, 2))


def test_floats(x64):
    cases = []
    for dtype in dtypes.FLOATS:
        v, xy = values(dtype), pairs(dtype)
        if dtype.itemsize == 2:
            v, xy = v[:24], tuple(a[:400] for a in xy)
        rtol = HALF_RTOL.get(dtype)
        cases += [case(n, dtype, (v,)) for n in ("neg", "sign", "abs", "floor", "ceil", "is_finite", "square")]
        cases += [case(n, dtype, xy) for n in ("add", "sub", "mul", "div", "rem", "max", "min")]
        cases += [case(n, dtype, xy) for n in ("nextafter", "eq", "ne", "lt", "le", "gt", "ge")]
        for e, m in ((5, 10), (5, 3), (3, 0)):
            # Without a mantissa the oracle's compiler, set as it is in conftest.py, makes NaN infinite.
            cases.append(case("reduce_precision", dtype, (v,), f=lambda x, e=e, m=m: ew.reduce_precision(x, e, m),
                              expect=lambda x, e=e, m=m: jl.select(x != x, x, jl.reduce_precision(x, e, m))))  # fmt: skip
        for m in (0, 1):
            cases.append(case("round", dtype, (v,), f=lambda x, m=m: ew.round(x, m),
                              expect=lambda x, m=m: jl.round(x, jl.RoundingMethod(m))))  # fmt: skip
        for k in (0, 3, -2):
            cases.append(case("integer_pow", dtype, (v,), f=lambda x, k=k: ew.integer_pow(x, k),
                              expect=lambda x, k=k: jl.integer_pow(x, k), exact=False, rtol=rtol,
                              atol=DENORMAL.get(dtype, 1e-307)))  # fmt: skip
        cases.append(case("clamp", dtype, (v[3], v, v[10])))
    check(thinned(cases, 2))


def test_bool():
    xy = pairs(np.bool_)
    names = ("max", "min", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor")
    check([*(case(n, "bool", xy) for n in names), case("bitwise_not", "bool", (xy[0],))])


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # JAX's
def test_conversions_between_all_dtypes(x64):
    """Floats saturate and NaN is 0 for integers; complex numbers lose their imaginary part."""
    cases = []
    for old, new in itertools.product(dtypes.ALL, dtypes.ALL):
        v = values(old)
        expect = lambda x, new=new: jl.convert_element_type(x, new)  # noqa: E731
        if dtypes.is_complex(old) and dtypes.is_bool(new):
            expect = lambda x: x != 0  # noqa: E731  (jl takes the real part first)
        cases.append(case(f"convert to {new}", old, (v,), f=lambda x, new=new: ew.convert_element_type(x, new),
                          expect=expect))  # fmt: skip
    check(thinned(cases, 3))


def test_bitcasts_narrow_and_widen(x64):
    have_bits = [d for d in dtypes.ALL if not dtypes.is_bool(d) and not dtypes.is_complex(d)]
    cases = []
    for old, new in itertools.product(have_bits, have_bits):
        x = np.random.default_rng(0).integers(0, 256, 64).astype(np.uint8).view(old)
        x = np.where(np.isnan(x), x.dtype.type(1), x) if dtypes.is_float(old) else x  # NaN may become quiet
        if new.itemsize > old.itemsize:
            x = x.reshape(-1, new.itemsize // old.itemsize)
        bits = np.dtype(f"u{new.itemsize}")
        cases.append(case(f"bitcast to {new}", old, (x,),
            f=lambda x, new=new, bits=bits: ew.bitcast_convert_type(ew.bitcast_convert_type(x, new), bits),
            expect=lambda x, new=new, bits=bits: jl.bitcast_convert_type(jl.bitcast_convert_type(x, new), bits),
        ))  # fmt: skip
    check(thinned(cases, 3))


def test_select_n(x64):
    which = np.array([0, 1, 2, 1, 2, 0], np.int32)
    cases = []
    for dtype in dtypes.ALL:
        v = np.resize(values(dtype), 6)
        three = (v, v[::-1].copy(), np.roll(v, 2))
        cases.append(case("select_n", dtype, (which, *three)))
        cases.append(case("select_n", dtype, (which > 0, *three[:2])))
        cases.append(case("select_n", dtype, (np.array(True), *three[:2])))
        cases.append(case("select_n", dtype, (which[2], *three)))
    check(cases)


def test_shapes():
    """Scalars beside arrays, empty and size-1 arrays."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    empty = np.zeros((0, 4), np.float32)
    cases = [
        case("add", "scalar", (x, np.float32(2))), case("max", "scalar", (np.float32(2), x)),
        case("atan2", "scalar", (np.float32(2), x), exact=False), case("pow", "scalar", (x, np.float32(2)), exact=False),
        case("sin", "empty", (empty,)), case("mul", "empty", (empty, empty)), case("sin", "0-d", (np.float32(0.5),)),
        case("nextafter", "size 1", (x[:1, :1], x[:1, 1:2])),
        case("convert", "empty", (empty,), f=lambda a: ew.convert_element_type(a, np.int8), expect=lambda a: a.astype("i1")),
    ]  # fmt: skip
    check(cases)


F32, I32, U8, C64 = (ShapedArray((3,), d) for d in (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.complex64))


@pytest.mark.parametrize(
    ("p", "avals", "params", "text"),
    [
        (ew.add_p, (F32, I32), {}, r"add: the operands must have one dtype, got f32\[3\], i32\[3\].*quire.numpy"),
        (ew.add_p, (F32, F32.update(shape=(4,))), {}, r"add: the operands must have one shape or be scalars"),
        (ew.add_p, (F32,), {}, "add: expected 2 operands, got 1"),
        (ew.sin_p, (I32,), {}, r"sin: operand i32\[3\] has dtype int32, expected a float or complex dtype"),
        (ew.lt_p, (C64, C64), {}, r"lt: operand 0 c64\[3\].*expected a bool, integer or float dtype"),
        (ew.not_p, (F32,), {}, r"not: operand f32\[3\].*expected a bool or integer dtype"),
        (ew.integer_pow_p, (I32,), {"y": -1}, "integers cannot be raised to the negative power -1"),
        (ew.pow_p, (I32, I32), {}, r"pow: base i32\[3\].*expected a float or complex dtype"),
        (ew.clamp_p, (F32.update(shape=(2,)), F32, F32), {}, r"clamp: min f32\[2\] must be a scalar or have"),
        (ew.select_n_p, (F32, F32, F32), {}, r"select_n: which f32\[3\] has dtype float32, expected one of bool, i32"),
        (ew.select_n_p, (F32.update(dtype=dtypes.bool_), F32, F32, F32), {}, "a bool which selects among 2 cases, got 3"),
        (ew.select_n_p, (I32,), {}, "select_n: expected at least one case"),
        (ew.bitcast_convert_type_p, (C64,), {"new_dtype": dtypes.int32}, "complex64 has no defined bits"),
        (ew.bitcast_convert_type_p, (U8,), {"new_dtype": dtypes.int32}, r"the last dimension must be 4, got u8\[3\]"),
        (ew.reduce_precision_p, (F32,), {"exponent_bits": 0, "mantissa_bits": 3}, "exponent_bits 0 must be >= 1"),
    ],
)  # fmt: skip
def test_errors(p, avals, params, text):
    with pytest.raises((TypeError, ValueError), match=text):
        p.infer(avals, params)

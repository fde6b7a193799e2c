"""Programs with numbers of 8 bits and fewer as programs of bytes: what is compiled.

What moves such numbers moves bytes. Conversions are the arithmetic of the format: rounding to nearest, ties to even, as
ml_dtypes has it. A number of 4 or 2 bits lies in the low bits of its byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Literal
from quire.ir.narrow import is_narrow
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives.calls import debug_callback_p, io_callback_p, jit_p, pure_callback_p
from quire.ir.primitives.indexing import default_fill, gather_p
from quire.ir.source import where
from quire.ir.tracing import trace_flat

from .retyping import retyped

Value = Any
_BYTE = dtypes.uint8


def as_bytes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with bytes for narrow numbers; the same object where it has none.

    Raises UnsupportedError for an operation that no byte stands for, with the user's line.
    """
    if not ShapedArray.any_narrow:
        return closed
    jaxpr = retyped(closed.jaxpr, _byte_type, _byte_equation, _byte_literal)
    if jaxpr is closed.jaxpr:
        return closed
    consts = [_byte_values(c) if is_narrow(aval_of(c)) else c for c in closed.consts]
    return ClosedJaxpr(jaxpr, consts)


def _byte_values(x: Any) -> np.ndarray[Any, Any]:
    host = np.asarray(x)
    return np.ascontiguousarray(host).view(np.uint8).reshape(host.shape)


def _byte_aval(aval: ShapedArray) -> ShapedArray:
    return aval.update(dtype=_BYTE, weak_type=False)


def _byte_type(aval: Any) -> ShapedArray | None:
    return _byte_aval(aval) if is_narrow(aval) else None


def _byte_literal(a: Literal) -> Literal:
    return Literal(_byte_values(a.value), _byte_aval(a.aval)) if is_narrow(a.aval) else a


def _byte_equation(eqn: Eqn, params: Any) -> Eqn:
    if any(is_narrow(a.aval) for a in (*eqn.inputs, *eqn.outputs)):
        return _of_bytes(eqn, params)
    return eqn if params is eqn.params else eqn.replace(params=params)


def _of_bytes(eqn: Eqn, params: Any) -> Eqn:
    """The equation of bytes for one of narrow numbers, whose operands and results are renamed by the caller."""
    p = eqn.primitive
    if p is ew.convert_element_type_p:
        return _call(eqn, _conversion(eqn.inputs[0].aval, params["new_dtype"], params["weak_type"]))
    if p is ew.bitcast_convert_type_p:
        new = params["new_dtype"]
        return eqn.replace(params={"new_dtype": _BYTE if new in dtypes.NARROW else new})
    if p is gather_p:
        dtype, fill = eqn.inputs[0].aval.dtype, params["fill_value"]
        scalar = default_fill(dtype) if fill is None else np.asarray(fill).astype(dtype)
        params = {**params, "fill_value": int(np.asarray(scalar).view(np.uint8))}
    if p in _CALLBACKS:
        return eqn.replace(params=_callback_of_bytes(eqn, params))
    if any(_names_narrow(value) for value in params.values()):
        raise UnsupportedError(f"{p.name} of numbers of {eqn.inputs[0].aval.dtype if eqn.inputs else '8 bits'}{where(eqn.source)}: "
                               "convert them to bytes first, x.view('uint8')")  # fmt: skip
    return eqn.replace(params=params)


_CALLBACKS = (pure_callback_p, io_callback_p, debug_callback_p)


@dataclass(frozen=True)
class _OfBytes:
    """A function of the user's that is given numbers of the dtypes it was traced for, and whose results are bytes."""

    function: Any
    given: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, *arrays: Any) -> list[Any]:
        own = [np.asarray(x).view(d) if d in dtypes.NARROW else x for x, d in zip(arrays, self.given, strict=True)]
        return [_byte_values(y) if is_narrow(aval_of(y)) else y for y in self.function(*own)]


def _callback_of_bytes(eqn: Eqn, params: Any) -> dict[str, Any]:
    params = {**params, "callback": _OfBytes(params["callback"], tuple(a.aval.dtype for a in eqn.inputs))}
    if "result_avals" in params:
        params["result_avals"] = tuple(_byte_aval(a) if is_narrow(a) else a for a in params["result_avals"])
    return params


def _names_narrow(value: Any) -> bool:
    if isinstance(value, np.dtype):
        return value in dtypes.NARROW
    return isinstance(value, tuple) and any(map(is_narrow, cast("tuple[Any, ...]", value)))


def _call(eqn: Eqn, body: ClosedJaxpr) -> Eqn:
    params = {"name": "convert", "jaxpr": body, "inline": True, "donated_invars": (False,)}
    return eqn.replace(primitive=jit_p, params=params)


# -- conversions ------------------------------------------------------------------------------------------------------


def _conversion(aval: ShapedArray, new: Any, weak: bool) -> ClosedJaxpr:
    """A jaxpr of one conversion, of which one side at least is narrow."""
    given = _byte_aval(aval) if is_narrow(aval) else aval

    def convert(x: Value) -> list[Value]:
        if is_narrow(aval):
            x = _decoded(x, aval.dtype)
        if new in dtypes.NARROW:
            return [_encoded(x, new)]
        return [ew.convert_element_type_p.bind(x, new_dtype=new, weak_type=weak)]

    jaxpr, captured, _ = trace_flat(convert, [given], name="convert", staging=True)
    assert not captured, "a conversion is made of numbers"
    return ClosedJaxpr(jaxpr)


@dataclass(frozen=True)
class _Format:
    """A narrow float.

    Attributes:
        mantissa: its bits.
        bias: of the exponent.
        sign: the sign's bit; 0 for a format without one.
        largest: the code of the largest finite number.
        beyond: the code of what is larger, of a positive number.
        infinite: that of an infinity.
        nan: that of NaN.
        is_nan: the codes without a sign that are NaN, from this one on; None: the sign's bit alone is NaN.
    """

    mantissa: int
    bias: int
    sign: int
    largest: int
    beyond: int
    infinite: int
    nan: int
    is_nan: int | None


@cache
def _format(dtype: Any) -> _Format:
    def code(x: Any) -> int:
        with np.errstate(all="ignore"):
            return int(np.asarray(x, np.float32).astype(dtype).view(np.uint8))

    info = cast("Any", ml_dtypes.finfo)(dtype)
    bits = 4 if dtype == dtypes.float4_e2m1fn else 8
    sign = 0 if dtype == dtypes.float8_e8m0fnu else 1 << (bits - 1)
    codes = np.arange(1 << bits, dtype=np.uint8)
    with np.errstate(all="ignore"):
        values = codes.view(dtype).astype(np.float32)
    is_nan = np.isnan(values)
    nans = np.flatnonzero(is_nan[: sign or 256])
    one = code(1)  # the exponent's field is the bias, the mantissa's is zero
    return _Format(
        info.nmant, one >> info.nmant, sign, code(float(info.max)), code(1e38) if sign else 255, code(np.inf), code(np.nan),
        int(nans[0]) if nans.size else None if is_nan[sign] else 256,
    )  # fmt: skip


def _u32(x: int) -> Value:
    return np.uint32(x)


def _decoded(x: Value, dtype: Any) -> Value:
    """The numbers that bytes stand for, as float32 or int32."""
    code = ew.convert_element_type(x, dtypes.uint32)
    if dtype in dtypes.NARROW_INTEGERS:
        bits = ml_dtypes.iinfo(dtype).bits
        word = ew.bitcast_convert_type(ew.shift_left(code, _u32(32 - bits)), dtypes.int32)
        if dtype in dtypes.NARROW_SIGNED:
            return ew.shift_right_arithmetic(word, np.int32(32 - bits))
        return ew.shift_right_logical(word, np.int32(32 - bits))
    f = _format(dtype)
    magnitude = ew.bitwise_and(code, _u32((f.sign or 256) - 1))
    exponent = ew.shift_right_logical(magnitude, _u32(f.mantissa))
    fraction = ew.bitwise_and(magnitude, _u32((1 << f.mantissa) - 1))
    word = ew.bitwise_or(
        ew.shift_left(ew.add(exponent, _u32(127 - f.bias)), _u32(23)), ew.shift_left(fraction, _u32(23 - f.mantissa))
    )
    value = ew.bitcast_convert_type(word, dtypes.float32)
    if f.sign:
        small = ew.mul(ew.convert_element_type(fraction, dtypes.float32), np.float32(2.0 ** (1 - f.bias - f.mantissa)))
        value = _select(ew.eq(exponent, _u32(0)), small, value)
    else:  # of powers of two alone: the least one is below float32's normal numbers
        value = _select(ew.eq(code, _u32(0)), np.float32(2.0**-127), value)
    if f.infinite == f.largest + 1 and f.is_nan is not None and f.is_nan > f.infinite:
        value = _select(ew.eq(magnitude, _u32(f.infinite)), np.float32(np.inf), value)
    if f.sign:
        value = _select(ew.ge(code, _u32(f.sign)), ew.neg(value), value)
    nan = (
        ew.eq(code, _u32(f.sign)) if f.is_nan is None else ew.ge(magnitude, _u32(f.is_nan)) if f.is_nan < 256 else None
    )
    return value if nan is None else _select(nan, np.float32(np.nan), value)


def _encoded(x: Value, dtype: Any) -> Value:
    """The bytes of numbers of any other dtype."""
    if dtype in dtypes.NARROW_INTEGERS:
        info = ml_dtypes.iinfo(dtype)
        number = ew.convert_element_type(x, dtypes.int32)
        if dtypes.is_inexact(aval_of(x).dtype):  # as for wider integers: what is beyond the range is its end
            number = ew.clamp(np.int32(info.min), number, np.int32(info.max))
        word = ew.bitcast_convert_type(number, dtypes.uint32)
        mask = _u32((1 << info.bits) - 1)
        return ew.convert_element_type(ew.bitwise_and(word, mask), _BYTE)
    f = _format(dtype)
    x = ew.convert_element_type(x, dtypes.float32)
    word = ew.bitcast_convert_type(x, dtypes.uint32)
    magnitude = ew.bitwise_and(word, _u32(0x7FFFFFFF))
    drop = 23 - f.mantissa
    odd = (
        ew.bitwise_and(ew.shift_right_logical(magnitude, _u32(drop)), _u32(1)) if f.sign else _u32(1)
    )  # powers of two: up
    rounded = ew.shift_right_logical(ew.add(magnitude, ew.add(odd, _u32((1 << (drop - 1)) - 1))), _u32(drop))
    code = ew.sub(rounded, _u32((127 - f.bias) << f.mantissa))
    if f.sign:
        scaled = ew.mul(
            ew.bitcast_convert_type(magnitude, dtypes.float32), np.float32(2.0 ** (f.bias - 1 + f.mantissa))
        )
        small = ew.convert_element_type(ew.round(scaled, 1), dtypes.uint32)
        normal = np.float32(2.0 ** (1 - f.bias)).view(np.uint32)
        code = _select(ew.lt(magnitude, _u32(int(normal))), small, code)
    code = _select(ew.gt(code, _u32(f.largest)), _u32(f.beyond), code)
    code = _select(ew.eq(magnitude, _u32(0x7F800000)), _u32(f.infinite), code)
    negative = ew.ge(word, _u32(0x80000000))
    if not f.sign:  # negative numbers and zero have no code; what is not larger than 2**-127 is the least one
        code = _select(ew.lt(magnitude, _u32(0x400001)), _u32(0), code)
        code = _select(ew.bitwise_or(negative, ew.eq(magnitude, _u32(0))), _u32(255), code)
    elif f.is_nan is None:  # nor has a negative zero, whose code is NaN's
        signed = ew.bitwise_and(negative, ew.ne(code, _u32(0)))
        code = _select(signed, ew.bitwise_or(code, _u32(f.sign)), code)
    else:
        code = _select(negative, ew.bitwise_or(code, _u32(f.sign)), code)
    is_nan = ew.gt(magnitude, _u32(0x7F800000))
    signed_nan = (
        _select(negative, _u32(f.nan | f.sign), _u32(f.nan)) if f.is_nan is not None and f.is_nan < 256 else _u32(f.nan)
    )
    return ew.convert_element_type(_select(is_nan, signed_nan, code), _BYTE)


def _select(which: Value, yes: Value, no: Value) -> Value:
    return ew.where(which, yes, no)

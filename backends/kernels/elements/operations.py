"""Elementwise primitives on the values of a kernel: scalars or vectors, one element (of each lane) at a time.

An element is a :class:`Value`, a :class:`Cx` for complex dtypes, or a Python number for a literal that has not met a
value. A bool is an i1. float16 and bfloat16 are computed in float32 and rounded after each operation. What is not in
the table of operations is written by its formula, a jaxpr of scalars (``expand``): the one that StableHLO lowering
uses, so that numbers are the same in a kernel and outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Jaxpr, Literal
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import random as rn
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.values import Value, lanes, vector
from . import threefry as rounds
from .loops import while_loop
from .trigonometry import cosine, sine

#: The formula of a primitive for operands of these dtypes, or None: (primitive, dtypes, params) -> jaxpr of scalars.
Expand = Callable[[Primitive, tuple[DType, ...], Mapping[str, Any]], "Jaxpr | None"]


@dataclass(frozen=True, eq=False)
class Cx:
    """A complex element."""

    re: Value
    im: Value


Element = Value | Cx | bool | int | float | complex

HALF = (dtypes.float16, dtypes.bfloat16)
CALLS = (calls.jit_p, calls.fusion_p, calls.checkpoint_p, calls.custom_jvp_call_p, calls.custom_vjp_call_p)


def called(params: Mapping[str, Any]) -> Jaxpr:
    """The jaxpr that a call primitive applies to its operands."""
    closed = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
    return closed.jaxpr


def value_type(dtype: DType) -> str:
    """The MLIR type of one real number of a dtype while it is computed with."""
    if dtypes.is_bool(dtype):
        return "i1"
    if dtype not in dtypes.SHORT:
        raise NoKernel(f"a kernel has no element type for {dtype}")
    return dtype_of(dtypes.real_dtype(dtype)).scalar


def literal(a: Literal) -> Element:
    """A literal's value as a Python number."""
    return a.value.astype(np.float64).item() if a.aval.dtype in HALF else a.value.item()


def is_number(x: Element) -> bool:
    """Whether an element is a number known while the kernel is built."""
    return not isinstance(x, Value | Cx)


def width_of(x: Element) -> int:
    """Lanes of an element, 0 for a scalar or number."""
    if isinstance(x, Cx):
        return lanes(x.re.type)
    return lanes(x.type) if isinstance(x, Value) else 0


class Elements:
    """Emits elementwise primitives through a builder."""

    def __init__(self, b: KernelBuilder, expand: Expand) -> None:
        self.b = b
        self.expand = expand

    # -- elements --------------------------------------------------------------------------------------------

    def lift(self, x: Element, dtype: DType, width: int = 0) -> Value | Cx:
        """An element as values with this many lanes (0: a scalar)."""
        if isinstance(x, Cx):
            return Cx(self._spread(x.re, width), self._spread(x.im, width))
        if isinstance(x, Value):
            return self._spread(x, width)
        elem = value_type(dtype)
        to = vector(width, elem) if width else elem
        if dtypes.is_complex(dtype):
            z = complex(x)
            return Cx(self.b.const(z.real, to), self.b.const(z.imag, to))
        number: Any = x.real if isinstance(x, complex) else x
        return self.b.const(number, to)

    def _spread(self, x: Value, width: int) -> Value:
        return self.b.broadcast(x, width) if width and not lanes(x.type) else x

    def parts(self, x: Element, dtype: DType, width: int = 0) -> list[Value]:
        """The values an element consists of."""
        lifted = self.lift(x, dtype, width)
        return [lifted.re, lifted.im] if isinstance(lifted, Cx) else [lifted]

    @staticmethod
    def joined(parts: Sequence[Value]) -> Value | Cx:
        """The element of these parts."""
        return parts[0] if len(parts) == 1 else Cx(parts[0], parts[1])

    # -- primitives ------------------------------------------------------------------------------------------

    def apply(
        self,
        p: Primitive,
        params: Mapping[str, Any],
        in_dtypes: Sequence[DType],
        out_dtype: DType,
        xs: Sequence[Element],
    ) -> Element:
        """One elementwise primitive. Raises :class:`NoKernel` for others."""
        if p in _SAME:
            return xs[0]
        if p is st.broadcast_in_dim_p or p is st.reshape_p:  # in formulas, whose arrays are scalars here
            return xs[0]
        if p is rd.reduce_or_p and not params["axes"]:  # in the conditions of their loops
            return xs[0]
        if not xs:  # what depends on an element's place, such as iota
            raise NoKernel(f"{p.name} takes no operands: its elements differ by where they are")
        dtype = in_dtypes[-1] if p is ew.select_n_p else in_dtypes[0]
        width = max((width_of(x) for x in xs), default=0)
        if p is ew.select_n_p:
            return self._select_n(in_dtypes, xs, width)
        if p is ew.round_p:
            rule: Rule | None = _round_even if params["rounding_method"] == 1 else _real("round")
        else:
            rule = _RULES.get(p)
        if p is ew.convert_element_type_p:
            return self.convert(self.lift(xs[0], dtype, width), dtype, params["new_dtype"])
        if p is ew.bitcast_convert_type_p:
            return self._bitcast(self.lift(xs[0], dtype, width), dtype, params["new_dtype"])
        if dtype in HALF and p not in _ON_BITS:
            return self._through_float32(p, params, in_dtypes, out_dtype, xs, width)
        if rule is not None:
            out = rule(self.b, dtype, *(self.lift(x, d, width) for x, d in zip(xs, in_dtypes)))
            if out is not None:
                return out
        if p.family != "elementwise":  # others are traced operations too, but not on single elements
            raise NoKernel(p.name)
        jaxpr = self.expand(p, tuple(in_dtypes), params)
        if jaxpr is None:
            raise NoKernel(f"{p.name} of {dtypes.SHORT[dtype]}")
        if p in BRANCHING and dtype == dtypes.float32 and self.b.target.vector_bytes >= 32:  # with AVX2 there is FMA
            x = self.lift(xs[0], dtype, width)
            assert isinstance(x, Value)
            return BRANCHING[p](self.b, x, lambda: self.lift(self.evaluate(jaxpr, [x])[0], dtype, width))
        return self.evaluate(jaxpr, xs)[0]

    def binary(self, p: Primitive, dtype: DType, x: Element, y: Element) -> Any:
        """A primitive of two elements of one dtype that gives a third of it: how elements are combined."""
        return self.apply(p, {}, (dtype, dtype), dtype, (x, y))

    def evaluate(self, jaxpr: Jaxpr, xs: Sequence[Element]) -> list[Element]:
        """A jaxpr of elementwise primitives."""
        env: dict[Any, Element] = dict(zip(jaxpr.invars, xs, strict=True))

        def read(a: Any) -> Element:
            return literal(a) if isinstance(a, Literal) else env[a]

        for eqn in jaxpr.eqns:
            args = [read(a) for a in eqn.inputs]
            if eqn.primitive in CALLS:
                out = self.evaluate(called(eqn.params), args)
            elif eqn.primitive is cf.while_p:
                out = while_loop(self, eqn, args, max((width_of(x) for x in (*args, *xs)), default=0))
            else:
                in_dtypes = [a.aval.dtype for a in eqn.inputs]
                if len(eqn.outputs) != 1:
                    raise NoKernel(f"{eqn.primitive.name} inside a formula")
                out = [self.apply(eqn.primitive, eqn.params, in_dtypes, eqn.outputs[0].aval.dtype, args)]
            env.update(zip(eqn.outputs, out, strict=True))
        return [read(a) for a in jaxpr.outvars]

    def _through_float32(
        self, p: Primitive, params: Mapping[str, Any], in_dtypes: Sequence[DType], out_dtype: DType,
        xs: Sequence[Element], width: int,
    ) -> Element:  # fmt: skip
        wide = [dtypes.float32 if d in HALF else d for d in in_dtypes]
        out = self.apply(
            p, params, wide, dtypes.float32 if out_dtype in HALF else out_dtype,
            [self.convert(self.lift(x, d, width), d, w) for x, d, w in zip(xs, in_dtypes, wide)],
        )  # fmt: skip
        return self.convert(out, dtypes.float32, out_dtype) if out_dtype in HALF else out

    def _select_n(self, in_dtypes: Sequence[DType], xs: Sequence[Element], width: int) -> Element:
        b, cases = self.b, [self.lift(x, d, width) for x, d in zip(xs[1:], in_dtypes[1:])]
        if dtypes.is_bool(in_dtypes[0]):
            if len(cases) == 1:
                return cases[0]
            # A condition of fewer lanes than the cases is one for all of them.
            return choose(b, self.lift(xs[0], in_dtypes[0]), cases[1], cases[0])
        which = self.lift(xs[0], in_dtypes[0], width)
        assert isinstance(which, Value)
        out = cases[0]
        for i, case in enumerate(cases[1:], 1):
            out = choose(b, b.cmp("sge", which, i), case, out)
        return out

    def _bitcast(self, x: Value | Cx, old: DType, new: DType) -> Value:
        if isinstance(x, Cx) or dtypes.is_complex(new) or old.itemsize != new.itemsize:
            raise NoKernel(f"bitcast_convert_type from {dtypes.SHORT[old]} to {dtypes.SHORT[new]}")
        if dtypes.is_bool(old) or dtypes.is_bool(new):
            raise NoKernel("bitcast_convert_type of bool")
        return self.b.bitcast(x, value_type(new))

    # -- conversions -----------------------------------------------------------------------------------------

    def convert(self, x: Element, old: DType, new: DType) -> Element:
        """An element of dtype `old` as `new`: saturated from float to integer, NaN to 0."""
        if old == new:
            return x
        b = self.b
        lifted = self.lift(x, old, width_of(x))
        if isinstance(lifted, Cx):
            part, wide = dtypes.real_dtype(old), dtypes.real_dtype(new)
            re, im = self.convert(lifted.re, part, wide), self.convert(lifted.im, part, wide)
            assert isinstance(re, Value) and isinstance(im, Value)
            if dtypes.is_complex(new):
                return Cx(re, im)
            return re | im if dtypes.is_bool(new) else re
        if dtypes.is_complex(new):
            re = self.convert(lifted, old, dtypes.real_dtype(new))
            assert isinstance(re, Value)
            return Cx(re, b.const(0.0, re.type))
        if dtypes.is_bool(new):
            return b.cmp("une" if dtypes.is_float(old) else "ne", lifted, 0)
        to = value_type(new)
        if dtypes.is_float(old):
            if dtypes.is_float(new):
                return self._float_to_float(lifted, old, new)
            return self._saturated(lifted, old, new)
        if dtypes.is_float(new):
            via = dtypes.float32 if new in HALF else new
            unsigned = dtypes.is_bool(old) or dtypes.is_unsigned(old)
            out = b.convert("uitofp" if unsigned else "sitofp", lifted, value_type(via))
            return self._float_to_float(out, via, new)
        return b.cast(lifted, to, signed=dtypes.is_signed(old))

    def _float_to_float(self, x: Value, old: DType, new: DType) -> Value:
        b = self.b
        if old == new:
            return x
        if {old, new} == set(HALF):
            return self._float_to_float(b.cast(x, "f32"), dtypes.float32, new)
        if old == dtypes.float64 and new in HALF:  # not at once: LLVM has no code for it, or joins it with what follows
            x = b.cast(x, "f32") if new == dtypes.bfloat16 else self._rounded_to_odd(x)
            return self._float_to_float(x, dtypes.float32, new)
        if new == dtypes.bfloat16 and old == dtypes.float32:
            return self._to_bfloat16(x)
        return b.cast(x, value_type(new))

    def _rounded_to_odd(self, x: Value) -> Value:
        """A float64 as float32, or that of its two neighbours whose last bit is set; see `backends.stablehlo.elementwise`."""
        b = self.b
        near = b.cast(x, "f32")
        back, bits = b.cast(near, "f64"), b.bitcast(near, "i32")
        beyond = b.cmp("ogt", b.math("absf", back), b.math("absf", x))
        toward_zero = b.select(beyond, bits - 1, bits)
        return b.bitcast(b.select(b.cmp("une", back, x), toward_zero | 1, bits), "f32")

    def _to_bfloat16(self, x: Value) -> Value:
        """float32 rounded to even by its bits: LLVM would call a function that is not linked."""
        b = self.b
        bits = b.bitcast(x, "i32")
        even = (bits >> 16) & 1
        rounded = (bits + even + 0x7FFF) >> 16
        quiet = (bits >> 16) | 0x40
        word = b.cast(b.select(b.cmp("uno", x, x), quiet, rounded), "i16")
        return b.bitcast(word, "bf16")

    def _saturated(self, x: Value, old: DType, new: DType) -> Value:
        b = self.b
        if old in HALF:
            x, old = b.cast(x, "f32"), dtypes.float32
        bits, info = 8 * new.itemsize, np.iinfo(new)
        x = b.select(b.cmp("uno", x, x), 0.0, x)
        if bits < 32:
            y = b.fmin(b.fmax(x, float(info.min)), float(info.max))
            return b.cast(b.convert("fptosi", y, "i32"), value_type(new))
        half = 2.0 ** (bits - 1)
        below = float(np.nextafter(np.array(half, old), np.array(0, old)))
        elem = value_type(new)

        def to_signed(v: Value, low: float) -> Value:
            return b.convert("fptosi", b.fmin(b.fmax(v, low), below), elem)

        at_half = b.cmp("oge", x, half)
        if dtypes.is_signed(new):
            return b.select(at_half, info.max, to_signed(x, -half))
        upper = to_signed(x - half, 0.0) ^ (1 << (bits - 1))
        out = b.select(at_half, upper, to_signed(x, 0.0))
        return b.select(b.cmp("oge", x, 2.0 * half), info.max, out)


def choose(b: KernelBuilder, condition: Value | Cx, x: Element, y: Element) -> Element:
    """x where the condition holds, else y."""
    assert isinstance(condition, Value)
    if isinstance(x, Cx) and isinstance(y, Cx):
        return Cx(b.select(condition, x.re, y.re), b.select(condition, x.im, y.im))
    assert isinstance(x, Value) and isinstance(y, Value)
    return b.select(condition, x, y)


def across(e: Elements, x: Element, dtype: DType, combine: Callable[[Element, Element], Element]) -> Element:
    """All lanes of an element combined, by halves."""

    def merge(low: Sequence[Value], high: Sequence[Value]) -> list[Value]:
        return e.parts(combine(e.joined(low), e.joined(high)), dtype)

    return e.joined(e.b.across(e.parts(x, dtype), merge)) if width_of(x) else x


def precedes(e: Elements, dtype: DType, order: Primitive, x: Element, than: Element) -> Value:
    """Whether x goes before an element met earlier in an argmax (`order`: gt) or argmin (lt); NaN goes first."""
    pair, flag = (dtype, dtype), dtypes.bool_
    before = e.lift(e.apply(order, {}, pair, flag, (x, than)), flag)
    assert isinstance(before, Value)
    if dtypes.is_float(dtype):
        nan = e.lift(e.apply(ew.ne_p, {}, pair, flag, (x, x)), flag)
        number = e.lift(e.apply(ew.eq_p, {}, pair, flag, (than, than)), flag)
        assert isinstance(nan, Value) and isinstance(number, Value)
        before = before | (nan & number)
    return before


def threefry(e: Elements, xs: Sequence[Element]) -> tuple[Value, Value]:
    """Threefry 2x32 with 20 rounds of (key, key, x, x)."""
    width = max(map(width_of, xs))
    k1, k2, x1, x2 = (e.lift(x, dtypes.uint32, width) for x in xs)
    assert isinstance(k1, Value) and isinstance(k2, Value) and isinstance(x1, Value) and isinstance(x2, Value)
    return rounds.threefry(e.b, (k1, k2), [x1 + k1], [x2 + k2])[0]


def bits_of(e: Elements, xs: Sequence[Element], dtype: DType) -> Value:
    """Random bits of an unsigned dtype from (key, key, 0, counter)."""
    high, low = threefry(e, xs)
    if dtype.itemsize == 8:
        return (e.b.cast(high, "i64", signed=False) << 32) | e.b.cast(low, "i64", signed=False)
    return e.b.cast(high ^ low, value_type(dtype))


# -- the table of operations ------------------------------------------------------------------------------------------
# A rule takes the builder, the first operand's dtype and lifted operands; None: there is a formula for this dtype.

Rule = Callable[..., "Value | Cx | None"]


def _add(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
    if isinstance(x, Cx):
        return Cx(x.re + y.re, x.im + y.im)
    return x | y if dtypes.is_bool(d) else x + y


def _sub(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
    return Cx(x.re - y.re, x.im - y.im) if isinstance(x, Cx) else x - y


def _mul(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
    if isinstance(x, Cx):
        return Cx(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)
    return x & y if dtypes.is_bool(d) else x * y


def _square(b: KernelBuilder, d: DType, x: Any) -> Any:
    if not isinstance(x, Cx):
        return _mul(b, d, x, x)
    # Exact where the parts are equal, and finite where their squares overflow.
    part, zero = x.re * x.im, b.const(0.0, x.re.type)
    re, im = b.math("absf", x.re), b.math("absf", x.im)
    equal = b.cmp("oeq", re, im) & b.cmp("olt", re, float("inf"))
    return Cx(b.select(equal, zero, (x.re - x.im) * (x.re + x.im)), part + part)


def _neg(b: KernelBuilder, d: DType, x: Any) -> Any:
    if isinstance(x, Cx):
        return Cx(b.negf(x.re), b.negf(x.im))
    return b.negf(x) if dtypes.is_float(d) else b.const(0, x.type) - x


def _div(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
    if dtypes.is_complex(d):
        return None
    return b.div(x, y) if dtypes.is_float(d) else _integer_quotient(b, d, x, y)[0]


def _rem(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
    return b.frem(x, y) if dtypes.is_float(d) else _integer_quotient(b, d, x, y)[1]


def _integer_quotient(b: KernelBuilder, d: DType, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder; x / 0 is -1 with remainder x, INT_MIN / -1 is INT_MIN with remainder 0."""
    zero = b.cmp("eq", y, 0)
    if dtypes.is_unsigned(d):
        safe = b.select(zero, 1, y)
        return b.select(zero, -1, b.udiv(x, safe)), b.select(zero, x, b.urem(x, safe))
    over = b.cmp("eq", x, int(np.iinfo(d).min)) & b.cmp("eq", y, -1)
    safe = b.select(zero | over, 1, y)
    inside = b.sdiv(x, safe)
    quotient = b.select(zero, -1, b.select(over, x, inside))
    # In SPIR-V IREE makes a remainder of magnitudes, and the least integer has none.
    rest = x - inside * safe if b.target.reassociates else b.srem(x, safe)
    return quotient, b.select(zero, x, b.select(over, 0, rest))


def _extreme(integer: str, unsigned: str, floating: str) -> Rule:
    def rule(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
        if dtypes.is_complex(d):
            return None
        if dtypes.is_float(d):
            return getattr(b, floating)(x, y)
        return getattr(b, unsigned if dtypes.is_bool(d) or dtypes.is_unsigned(d) else integer)(x, y)

    return rule


_max, _min = _extreme("smax", "umax", "fmax"), _extreme("smin", "umin", "fmin")


def _clamp(b: KernelBuilder, d: DType, low: Any, x: Any, high: Any) -> Any:
    bounded = _max(b, d, x, low)
    return None if bounded is None else _min(b, d, bounded, high)


def _compare(order: str) -> Rule:
    def rule(b: KernelBuilder, d: DType, x: Any, y: Any) -> Any:
        if isinstance(x, Cx):
            re, im = rule(b, dtypes.real_dtype(d), x.re, y.re), rule(b, dtypes.real_dtype(d), x.im, y.im)
            return {"eq": lambda: re & im, "ne": lambda: re | im}[order]()
        if dtypes.is_float(d):
            return b.cmp("une" if order == "ne" else "o" + order, x, y)
        if order in ("eq", "ne"):
            return b.cmp(order, x, y)
        return b.cmp(("s" if dtypes.is_signed(d) else "u") + order, x, y)

    return rule


def _not(b: KernelBuilder, d: DType, x: Value) -> Value:
    return x ^ (1 if dtypes.is_bool(d) else -1)


def _shift(name: str) -> Rule:
    def rule(b: KernelBuilder, d: DType, x: Value, y: Value) -> Value:
        bits = 8 * d.itemsize
        inside = b.cmp("ult", y, bits)
        if name == "shra":
            return b.shra(x, b.select(inside, y, bits - 1))
        return b.select(inside, getattr(b, name)(x, b.select(inside, y, 0)), 0)

    return rule


def _sign(b: KernelBuilder, d: DType, x: Any) -> Any:
    if not dtypes.is_float(d):
        return None
    negative = b.select(b.cmp("olt", x, 0.0), -1.0, x)
    return b.select(b.cmp("ogt", x, 0.0), 1.0, negative)


def _abs(b: KernelBuilder, d: DType, x: Any) -> Any:
    if dtypes.is_complex(d):
        return None
    if dtypes.is_float(d):
        return b.math("absf", x)
    return x if dtypes.is_unsigned(d) else b.smax(x, b.const(0, x.type) - x)


def _is_finite(b: KernelBuilder, d: DType, x: Value) -> Value:
    return b.cmp("olt", b.math("absf", x), float("inf"))


def _real(name: str, *, keeps_zero: bool = False, wide: bool = True) -> Rule:
    """A function of the math dialect, of real floats; `wide`: of float64 too."""

    def rule(b: KernelBuilder, d: DType, x: Any) -> Any:
        if not dtypes.is_float(d) or (d == dtypes.float64 and not wide):
            return None
        y = b.math(name, x)
        return b.select(b.cmp("oeq", x, 0.0), x, y) if keeps_zero else y

    return rule


def _round_even(b: KernelBuilder, d: DType, x: Any) -> Any:
    """The nearest integer, of two the even one. On CPUs by a sum that has no bits for fractions, which IREE's expansion of
    the math dialect's function takes 2.5 times as long as."""
    if not dtypes.is_float(d):
        return None
    if b.target.kind != "cpu":
        return b.math("roundeven", x)
    whole = 2.0**23 if d == dtypes.float32 else 2.0**52
    word = "i32" if d == dtypes.float32 else "i64"
    size = b.math("absf", x)
    y = b.select(b.cmp("olt", size, whole), (size + whole) - whole, size)
    sign = b.bitcast(x, word) & -(1 << (8 * d.itemsize - 1))
    return b.bitcast(b.bitcast(y, word) | sign, value_type(d))


def _only_wide(name: str) -> Rule:
    """A function that has a formula for float32, and the math dialect's for float64."""

    def rule(b: KernelBuilder, d: DType, x: Any) -> Any:
        return b.math(name, x) if d == dtypes.float64 else None

    return rule


_SAME = frozenset((ew.copy_p, ew.stop_gradient_p, calls.name_p, rn.use_key_p))
_ON_BITS = frozenset((ew.neg_p, ew.nextafter_p))

_RULES: dict[Primitive, Rule] = {
    ew.add_p: _add, ew.sub_p: _sub, ew.mul_p: _mul, ew.square_p: _square, ew.neg_p: _neg, ew.div_p: _div,
    ew.rem_p: _rem, ew.max_p: _max, ew.min_p: _min, ew.clamp_p: _clamp,
    ew.eq_p: _compare("eq"), ew.ne_p: _compare("ne"), ew.lt_p: _compare("lt"), ew.le_p: _compare("le"),
    ew.gt_p: _compare("gt"), ew.ge_p: _compare("ge"),
    ew.not_p: _not, ew.and_p: lambda b, d, x, y: x & y, ew.or_p: lambda b, d, x, y: x | y,
    ew.xor_p: lambda b, d, x, y: x ^ y,
    ew.shift_left_p: _shift("shl"), ew.shift_right_logical_p: _shift("shrl"),
    ew.shift_right_arithmetic_p: _shift("shra"),
    ew.population_count_p: lambda b, d, x: b.math("ctpop", x), ew.clz_p: lambda b, d, x: b.math("ctlz", x),
    ew.sign_p: _sign, ew.abs_p: _abs, ew.floor_p: _real("floor"), ew.ceil_p: _real("ceil"),
    ew.is_finite_p: _is_finite, ew.real_p: lambda b, d, x: x.re, ew.imag_p: lambda b, d, x: x.im,
    ew.complex_p: lambda b, d, x, y: Cx(x, y), ew.conj_p: lambda b, d, x: Cx(x.re, b.negf(x.im)),
    ew.exp_p: _real("exp", wide=False), ew.log_p: _real("log", wide=False), ew.tanh_p: _real("tanh", wide=False),
    ew.sqrt_p: _real("sqrt"),
    ew.rsqrt_p: _real("rsqrt"), ew.expm1_p: _real("expm1", keeps_zero=True, wide=False),
    ew.log1p_p: _real("log1p", keeps_zero=True, wide=False),
    ew.sin_p: _only_wide("sin"), ew.cos_p: _only_wide("cos"), ew.tan_p: _only_wide("tan"),
    ew.acos_p: _only_wide("acos"), ew.atan_p: _only_wide("atan"),
}  # fmt: skip

#: Functions with a short form for moderate operands and the formula for others.
BRANCHING: dict[Primitive, Callable[..., Value]] = {ew.sin_p: sine, ew.cos_p: cosine}

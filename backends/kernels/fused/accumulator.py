"""The running value of a reduction while a kernel goes over the places of its cluster."""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import reductions as rd

from ..core.errors import NoKernel
from ..core.values import Value, lanes
from ..elements.monoids import REDUCTIONS, neutral
from ..elements.operations import HALF, Element
from .cluster import ARG, ReductionCluster
from .values import Frame, Values


class Accumulator:
    """The running value of one reduction: one element, or a value and its index for argmax and argmin."""

    def __init__(self, emitter: Values[ReductionCluster], e: Eqn) -> None:
        self.emitter, self.e = emitter, e
        self.b, self.elements = emitter.b, emitter.elements
        self.arg = e.primitive in ARG
        self.combine = ARG[e.primitive] if self.arg else REDUCTIONS[e.primitive]
        dtype = e.inputs[0].aval.dtype
        self.wide = dtypes.float32 if dtype in HALF else dtypes.int8 if self.arg and dtypes.is_bool(dtype) else dtype
        self.source = dtype
        self.rounds = e.primitive is rd.reduce_sum_p and dtypes.is_inexact(dtype)
        """Whether the order matters in which it is computed: a sum of floats."""
        self.out = e.outputs[0].aval.dtype
        if self.arg and dtypes.is_complex(dtype):
            raise NoKernel(f"{e.primitive.name} of {dtypes.SHORT[dtype]}")
        if dtypes.is_complex(dtype) and e.primitive is not rd.reduce_sum_p:
            raise NoKernel(f"{e.primitive.name} of complex numbers")

    def start(self, width: int) -> list[Value]:
        """The values before the first element."""
        parts = self.elements.parts(neutral(self.combine, self.wide), self.wide, width)
        if self.arg:
            index = self.elements.parts(2**31 - 1, dtypes.int32, width)
            return [*parts, *index]
        return parts

    def add(self, state: Sequence[Value], at: Frame) -> list[Value]:
        """With the operand's value at a place."""
        x = self.elements.lift(self.emitter.value(self.e.inputs[0], at), self.source, at.width)
        if self.source != self.wide:
            x = self.elements.convert(x, self.source, self.wide)
        if not self.arg:
            return self.merge(state, self._new(self.elements.parts(x, self.wide, at.width), at))
        i = self.b.cast(self.b.index(at.reduced), "i32")
        if at.width:
            i = self.b.broadcast(i, at.width)
            if self.emitter.cluster.space.inner == 1 and not at.across:
                i = i + self.b.const_vector(range(at.width), "i32")
        return self.merge(state, self._new([*self.elements.parts(x, self.wide, at.width), i], at))

    def _new(self, parts: list[Value], at: Frame) -> list[Value]:
        """Vectors at a place whose lanes that are counted already are neutral."""
        if not at.counted:
            return parts
        lanes = [*range(at.counted), *range(at.width + at.counted, 2 * at.width)]
        return [self.b.shuffle(none, x, lanes) for none, x in zip(self.start(at.width), parts)]

    def merge(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        """Of two parts of the data."""
        if not self.arg:
            e = self.elements
            out = e.binary(self.combine, self.wide, e.joined(list(x)), e.joined(list(y)))
            return self.elements.parts(out, self.wide, lanes(x[0].type))
        (v, i), (w, j) = x, y
        b = self.b
        is_float = dtypes.is_float(self.wide)
        more = "gt" if self.e.primitive is rd.argmax_p else "lt"
        kind = "o" if is_float else "u" if dtypes.is_unsigned(self.wide) else "s"
        better = b.cmp(kind + more, w, v)
        same = b.cmp("oeq" if is_float else "eq", w, v)
        if is_float:  # NaN is the most extreme of all
            w_nan, v_nan = b.cmp("uno", w, w), b.cmp("uno", v, v)
            not_nan = b.cmp("oeq", v, v)
            better = b.or_(b.and_(better, not_nan), b.and_(w_nan, not_nan))
            same = b.or_(same, b.and_(w_nan, v_nan))
        better = b.or_(better, b.and_(same, b.cmp("slt", j, i)))
        return [b.select(better, w, v), b.select(better, j, i)]

    def across(self, state: Sequence[Value]) -> list[Value]:
        """All lanes as one."""
        return self.b.across(state, self.merge)

    def result(self, state: Sequence[Value]) -> Element:
        """The reduction's value."""
        if self.arg:
            return self.elements.convert(state[1], dtypes.int32, self.out)
        x = self.elements.joined(list(state))
        return self.elements.convert(x, self.wide, self.out) if self.wide != self.out else x

"""How elements are combined by cumulative operations and scatter: loaded, accumulated and stored as vectors.

Integers wrap. Maximum and minimum compare integer keys (denormals are kept); -0 < 0, and a NaN, once met,
stays; complex numbers are ordered by real, then imaginary part. 16-bit floats are computed in f32 and rounded
when stored. A bool adds as "or" and multiplies as "and".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from quire.ir.primitives.reductions import identity_of

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.values import Buffer, Value, lanes, vector, width
from .keys import from_ordered, ordered

Op = Literal["sum", "prod", "max", "min", "logsumexp"]

#: The IR's names of the monoids whose numbers are combined as they are.
_MONOIDS = {"sum": "add", "prod": "mul"}

#: One accumulated vector: its values, or for complex products and extremes real and imaginary parts.
State = list[Value]


@dataclass(frozen=True)
class Combiner:
    """``op`` on elements of ``dtype``; states are vectors of any number of lanes."""

    b: KernelBuilder
    op: Op
    dtype: DType

    @property
    def ordering(self) -> bool:
        """Whether states are integer keys."""
        return self.op in ("max", "min")

    @property
    def memory(self) -> str:
        """Element type under which memory is to be viewed (``dtype.parts`` of them an element)."""
        return f"i{self.dtype.bits}" if self.ordering else self.dtype.scalar

    @property
    def elem(self) -> str:
        """Element type of a state."""
        return self.memory if self.ordering else self.dtype.accumulator

    def identity(self, n: int) -> State:
        """The state of no elements."""
        if self.ordering:  # of the keys
            bits = width(self.elem)
            parts: list[float] = [-(1 << (bits - 1)) if self.op == "max" else (1 << (bits - 1)) - 1] * self.dtype.parts
        else:
            number = -math.inf if self.op == "logsumexp" else identity_of(_MONOIDS[self.op], self.dtype.numpy()).item()
            parts = [number.real, number.imag] if self.dtype.parts == 2 else [number]
        return [self.b.const(part, vector(n, self.elem)) for part in parts]

    def load(self, n: int, memory: Buffer, at: Value, count: int | None = None) -> State:
        """The states of ``n`` elements from flat ``at`` on; lanes from ``count`` on are the identity."""
        b, parts = self.b, self.dtype.parts
        mask = None if count is None else b.mask(n * parts, count * parts)
        raw = b.vload(n * parts, memory, at * parts, mask=mask)
        loaded = [b.shuffle(raw, raw, range(p, 2 * n, 2)) for p in range(2)] if parts == 2 else [raw]
        state = [self.lift(x) for x in loaded]
        if count is None:
            return state
        inside = b.mask(n, count)
        return [b.select(inside, x, y) for x, y in zip(state, self.identity(n))]

    def store(self, state: State, memory: Buffer, at: Value, count: int | None = None) -> None:
        """Write the states as elements from flat place ``at`` on, only the first ``count`` if given."""
        b, parts, n = self.b, self.dtype.parts, lanes(state[0].type)
        lowered = [self.lower(x) for x in state]
        mask = None if count is None else b.mask(n * parts, count * parts)
        value = b.interleave(*lowered) if parts == 2 else lowered[0]
        b.vstore(value, memory, at * parts, mask=mask)

    def lift(self, x: Value) -> Value:
        """What states hold, of numbers as memory does."""
        if self.ordering:
            return ordered(self.b, self.dtype, x, signed=True, zeros_equal=False, nan_low=self.op == "min")
        return self.b.cast(x, self.elem)

    def lower(self, x: Value) -> Value:
        """The opposite of `lift`."""
        return from_ordered(self.b, self.dtype, x) if self.ordering else self.b.cast(x, self.memory)

    def combine(self, x: State, y: State) -> State:
        """The state of x's elements followed by y's."""
        b = self.b
        if self.op == "sum":
            return [p | q if self.dtype.kind == "bool" else p + q for p, q in zip(x, y)]
        if self.op == "logsumexp":
            return [_logaddexp(b, x[0], y[0])]
        if self.op == "prod":
            if len(x) == 1:
                return [x[0] & y[0] if self.dtype.kind == "bool" else x[0] * y[0]]
            return [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]
        if len(x) == 1:
            return [(b.smax if self.op == "max" else b.smin)(x[0], y[0])]
        order = "sgt" if self.op == "max" else "slt"
        first = b.cmp(order, x[0], y[0]) | (b.cmp("eq", x[0], y[0]) & b.cmp(order, x[1], y[1]))
        return [b.select(first, p, q) for p, q in zip(x, y)]


def _logaddexp(b: KernelBuilder, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)); x + y where the difference is NaN (equal infinities, NaN)."""
    difference = x - y
    small = b.math("log1p", b.math("exp", b.negf(b.math("absf", difference))))
    return b.select(b.cmp("uno", difference, difference), x + y, b.fmax(x, y) + small)

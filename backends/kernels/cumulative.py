"""Cumulative sum, product, maximum, minimum and logsumexp along one dimension, either way.

- At least one vector of neighbouring elements that do not depend on each other (the scanned dimension is not the
  last): a strip of columns is scanned at once, its running state in memory of the workgroup.
- 1, 2 or 4 interleaved rows (the scanned dimension is last, or next to last of a small one): vectors are scanned
  in the register by shifts of 1, 2, 4, ... rows, and one carry goes from vector to vector.

Integers wrap; maximum and minimum compare integer keys (denormals are kept), -0 < 0 and NaN, once met, stays;
16-bit floats are accumulated in f32 and rounded when stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .builder import KernelBuilder
from .dtypes import DType
from .kernel import Kernel, Spec
from .keys import divmod_, from_ordered, ordered
from .sort import Rows
from .target import KernelTarget
from .values import Buffer, Value, vector, width
from .values import lanes as lanes_of

Op = Literal["sum", "prod", "max", "min", "logsumexp"]
State = list[Value]

#: Columns of a strip: its state stays in the first-level cache and its rows are whole cache lines.
STRIP = 512


def applies(op: Op, dtype: DType, target: KernelTarget) -> str | None:
    """None where the kernel can do ``op`` on ``dtype``, else why not."""
    if target.kind != "cpu":
        return "the cumulative kernels are for CPUs"
    if dtype.kind == "bool":
        return "bool has no cumulative operations"
    if op == "logsumexp" and dtype.kind != "float":
        return "logsumexp is for real floats"
    return None


@dataclass(frozen=True)
class Scan:
    """What is accumulated: how elements are loaded, combined and stored, as vectors of ``n`` lanes."""

    b: KernelBuilder
    op: Op
    dtype: DType
    source: Buffer
    destination: Buffer

    @staticmethod
    def of(b: KernelBuilder, op: Op, spec: Spec) -> Scan:
        """The scan of a builder whose only operand and only result are ``spec``."""
        dtype = spec.dtype
        ordering = op in ("max", "min")
        elem = f"i{dtype.bits}" if ordering else dtype.scalar
        flat = (spec.size * dtype.parts,)
        return Scan(b, op, dtype, b.operand(0, flat, elem), b.result(0, flat, elem))

    @property
    def elem(self) -> str:
        """Type of a part of the running state."""
        return self.source.elem if self.op in ("max", "min") else self.dtype.accumulator

    def identity(self, n: int) -> State:
        """The state of no elements."""
        bits = width(self.elem)
        number: float = {
            "sum": -0.0 if self.dtype.signed and self.dtype.kind != "int" else 0,
            "prod": 1,
            "max": -(1 << (bits - 1)),
            "min": (1 << (bits - 1)) - 1,
            "logsumexp": -math.inf,
        }[self.op]
        state = [self.b.const(number, vector(n, self.elem))]
        if self.dtype.parts == 2:
            state.append(self.b.const(0.0 if self.op == "prod" else number, vector(n, self.elem)))
        return state

    def load(self, n: int, at: Value, count: int | None = None) -> State:
        """The states of ``n`` elements from flat place ``at`` on; lanes from ``count`` on are the identity."""
        b, parts = self.b, self.dtype.parts
        mask = None if count is None else b.mask(n * parts, count * parts)
        raw = b.vload(n * parts, self.source, at * parts, mask=mask)
        loaded = [b.shuffle(raw, raw, range(p, 2 * n, 2)) for p in range(2)] if parts == 2 else [raw]
        state = [self._lift(x) for x in loaded]
        if count is None:
            return state
        inside = b.mask(n, count)
        return [b.select(inside, x, y) for x, y in zip(state, self.identity(n))]

    def store(self, state: State, at: Value, count: int | None = None) -> None:
        """Write the states as elements from flat place ``at`` on."""
        b, parts, n = self.b, self.dtype.parts, lanes_of(state[0].type)
        lowered = [self._lower(x) for x in state]
        mask = None if count is None else b.mask(n * parts, count * parts)
        value = b.interleave(*lowered) if parts == 2 else lowered[0]
        b.vstore(value, self.destination, at * parts, mask=mask)

    def _lift(self, x: Value) -> Value:
        if self.op in ("max", "min"):
            return ordered(
                self.b, self.dtype, x, signed=True, zeros_equal=False, nan_low=self.op == "min"
            )
        return self.b.cast(x, self.elem)

    def _lower(self, x: Value) -> Value:
        if self.op in ("max", "min"):
            return from_ordered(self.b, self.dtype, x)
        return self.b.cast(x, self.destination.elem)

    def combine(self, x: State, y: State) -> State:
        """The state of x's elements followed by y's."""
        b = self.b
        if self.op == "sum":
            return [p + q for p, q in zip(x, y)]
        if self.op == "logsumexp":
            return [_logaddexp(b, x[0], y[0])]
        if self.op == "prod":
            if len(x) == 1:
                return [x[0] * y[0]]
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


def cumulative(op: Op, operand: Spec, dimension: int, target: KernelTarget, *, reverse: bool = False) -> Kernel:
    """The kernel of a cumulative operation along ``dimension``; the result has the operand's shape and dtype.

    ``reverse`` accumulates from the last element to the first. Raises ``ValueError`` where :func:`applies` says.
    """
    why = applies(op, operand.dtype, target)
    if why is not None:
        raise ValueError(f"cumulative {op} of {operand}: {why}")
    rows = Rows.of(operand.shape, dimension)
    if operand.size == 0:
        return Kernel.nothing(f"cum{op}", [operand], [operand], [0], "no elements")
    if op == "sum" and operand.dtype.kind == "complex":
        # Real and imaginary parts are two independent rows.
        part = Spec.of((*operand.shape, 2), operand.dtype.scalar)
        return _cumulative(op, operand, part, Rows(rows.outer, rows.n, rows.inner * 2), target, reverse)
    return _cumulative(op, operand, operand, rows, target, reverse)


def _cumulative(
    op: Op, operand: Spec, view: Spec, rows: Rows, target: KernelTarget, reverse: bool
) -> Kernel:
    b = KernelBuilder(f"cum{op}", [operand], [operand], target)
    scan = Scan.of(b, op, view)
    bits = max(16, width(scan.elem))
    lanes = target.lanes(bits)
    if rows.inner in (1, 2, 4) and rows.inner < lanes:
        return _in_register(b, scan, rows, lanes, target, reverse)
    return _strips(b, scan, rows, min(lanes, rows.inner), target, reverse)


def _strips(
    b: KernelBuilder, scan: Scan, rows: Rows, lanes: int, target: KernelTarget, reverse: bool
) -> Kernel:
    strip = min(STRIP, rows.inner) // lanes * lanes
    strips = -(-rows.inner // strip)
    pieces = rows.outer * strips
    groups = max(1, min(pieces, target.workgroups, rows.outer * rows.n * rows.inner // 2048))
    state = [b.stack((strip,), scan.elem) for _ in scan.identity(1)]
    with b.spread(pieces, groups) as piece:
        l, s = divmod_(b, piece, strips)
        # The last strip is moved back inside: some columns are computed twice, none needs a mask.
        column = b.smin(s * strip, b.index(rows.inner - strip))
        start = l * (rows.n * rows.inner) + column
        with b.for_(0, strip, lanes) as loop:
            for memory, value in zip(state, scan.identity(lanes)):
                b.vstore(value, memory, loop.index)
        with b.for_(0, rows.n) as step:
            i = b.index(rows.n - 1) - step.index if reverse else step.index
            row = start + i * rows.inner
            with b.for_(0, strip, lanes) as loop:
                j = loop.index
                total = scan.combine([b.vload(lanes, m, j) for m in state], scan.load(lanes, row + j))
                for memory, value in zip(state, total):
                    b.vstore(value, memory, j)
                scan.store(total, row + j)
    return b.build((groups,), f"cumulative {scan.op}: strips of {strip} independent columns")


def _in_register(
    b: KernelBuilder, scan: Scan, rows: Rows, lanes: int, target: KernelTarget, reverse: bool
) -> Kernel:
    length = rows.n * rows.inner
    whole, tail = length // lanes, length % lanes
    groups = max(1, min(rows.outer, target.workgroups, rows.outer * length // 2048))

    def shifted(state: State, by: int) -> State:
        if reverse:
            order = range(by, lanes + by)  # the lanes that enter at the end are the identity's
            return [b.shuffle(x, e, order) for x, e in zip(state, scan.identity(lanes))]
        order = range(lanes - by, 2 * lanes - by)
        return [b.shuffle(e, x, order) for x, e in zip(state, scan.identity(lanes))]

    def piece(at: Value, carry: Sequence[Value], count: int | None) -> State:
        state = scan.load(lanes, at, count)
        by = rows.inner
        while by < lanes:
            state = scan.combine(shifted(state, by), state)
            by *= 2
        last = 0 if reverse else lanes - rows.inner
        ends = [b.shuffle(x, x, [last + i % rows.inner for i in range(lanes)]) for x in state]
        scan.store(scan.combine(list(carry), state), at, count)
        return scan.combine(list(carry), ends)

    with b.spread(rows.outer, groups) as row:
        start = row * length
        with b.for_(0, whole, 1, scan.identity(lanes)) as loop:
            at = loop.index * lanes
            if reverse:
                at = b.index(length - lanes) - at
            loop.yield_(*piece(start + at, loop.carried, None))
        if tail:
            piece(start if reverse else start + whole * lanes, loop.results, tail)
    return b.build((groups,), f"cumulative {scan.op}: vectors scanned in the register")


"""Cumulative sum, product, maximum, minimum and logsumexp along one dimension, either way.

- At least one vector of neighbouring elements that do not depend on each other (the scanned dimension is not
  the last): a strip of columns is scanned at once, its running state in memory of the workgroup.
- 1, 2 or 4 interleaved rows (the scanned dimension is last, or next to last of a small one): vectors are
  scanned in the register by shifts of 1, 2, 4, ... rows, and one carry goes from vector to vector.

On GPUs: block_scan.py. The numbers are those of elements/combiner.py; 16-bit floats stay in f32 from element to element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Kernel, KernelChain, Spec
from ..core.shapes import GROUP_ELEMENTS, Rows
from ..core.target import KernelTarget
from ..core.values import Buffer, Value, width
from ..elements.combiner import Combiner, Op, State
from .block_scan import block_scan

#: Columns of a strip: its state stays in the first-level cache and its rows are whole cache lines.
STRIP = 512


def check(op: Op, dtype: DType) -> None:
    """Raise :class:`NoKernel` unless the kernel can do ``op`` on ``dtype``."""
    if dtype.kind == "bool":
        raise NoKernel("bool has no cumulative operations")
    if op == "logsumexp" and dtype.kind != "float":
        raise NoKernel("logsumexp is for real floats")


def cumulative(
    op: Op, operand: Spec, dimension: int, target: KernelTarget, *, reverse: bool = False
) -> Kernel | KernelChain:
    """The kernel of a cumulative operation along ``dimension``; the result has the operand's shape and dtype.

    ``reverse`` accumulates from the last element to the first. Raises :class:`NoKernel`.
    """
    check(op, operand.dtype)
    rows = Rows.of(operand.shape, dimension)
    if operand.size == 0:
        return Kernel.nothing(f"cum{op}", [operand], [operand], [0], "no elements")
    if op == "sum" and operand.dtype.kind == "complex":
        # Real and imaginary parts are two independent rows.
        part = Spec.of((*operand.shape, 2), operand.dtype.scalar)
        return _cumulative(op, operand, part, Rows(rows.outer, rows.n, rows.inner * 2), target, reverse)
    return _cumulative(op, operand, operand, rows, target, reverse)


@dataclass(frozen=True)
class Scan:
    """One cumulative operation: what is combined, from where to where, along which rows."""

    b: KernelBuilder
    combiner: Combiner
    source: Buffer
    destination: Buffer
    rows: Rows
    reverse: bool


def _cumulative(
    op: Op, operand: Spec, view: Spec, rows: Rows, target: KernelTarget, reverse: bool
) -> Kernel | KernelChain:
    if target.kind == "gpu":
        return block_scan(op, operand, view, rows, target, reverse)
    b = KernelBuilder(f"cum{op}", [operand], [operand], target)
    combiner = Combiner(b, op, view.dtype)
    flat = (view.size * view.dtype.parts,)
    memory = b.operand(0, flat, combiner.memory), b.result(0, flat, combiner.memory)
    scan = Scan(b, combiner, *memory, rows, reverse)
    lanes = target.lanes(max(16, width(combiner.elem)))
    if rows.inner in (1, 2, 4) and rows.inner < lanes:
        return _in_register(scan, lanes)
    return _strips(scan, min(lanes, rows.inner))


def _strips(scan: Scan, lanes: int) -> Kernel:
    b, combiner, rows = scan.b, scan.combiner, scan.rows
    strip = min(STRIP, rows.inner) // lanes * lanes
    strips = -(-rows.inner // strip)
    pieces = rows.outer * strips
    groups = b.target.groups(rows.outer * rows.n * rows.inner, GROUP_ELEMENTS, pieces)
    state = [b.stack((strip,), combiner.elem) for _ in combiner.identity(1)]
    with b.distributed(pieces, groups) as piece:
        l, s = b.divmod(piece, strips)
        # The last strip is moved back inside: some columns are computed twice, none needs a mask.
        column = b.smin(s * strip, b.index(rows.inner - strip))
        start = l * (rows.n * rows.inner) + column
        with b.for_(0, strip, lanes) as loop:
            for memory, value in zip(state, combiner.identity(lanes)):
                b.vstore(value, memory, loop.index)
        with b.for_(0, rows.n) as step:
            i = b.index(rows.n - 1) - step.index if scan.reverse else step.index
            row = start + i * rows.inner
            with b.for_(0, strip, lanes) as loop:
                j = loop.index
                total = combiner.combine(
                    [b.vload(lanes, m, j) for m in state], combiner.load(lanes, scan.source, row + j)
                )
                for memory, value in zip(state, total):
                    b.vstore(value, memory, j)
                combiner.store(total, scan.destination, row + j)
    return b.build((groups,), f"cumulative {combiner.op}: strips of {strip} independent columns")


def _in_register(scan: Scan, lanes: int) -> Kernel:
    b, combiner, rows, reverse = scan.b, scan.combiner, scan.rows, scan.reverse
    length = rows.n * rows.inner
    whole, tail = length // lanes, length % lanes
    groups = b.target.groups(rows.outer * length, GROUP_ELEMENTS, rows.outer)

    def shifted(state: State, by: int) -> State:
        pairs = zip(state, combiner.identity(lanes))
        if reverse:
            return [b.shuffle(x, e, range(by, lanes + by)) for x, e in pairs]
        return [b.shuffle(e, x, range(lanes - by, 2 * lanes - by)) for x, e in pairs]

    def piece(at: Value, carry: Sequence[Value], count: int | None) -> State:
        """Scan one vector and store it; the carry after it."""
        state = combiner.load(lanes, scan.source, at, count)
        by = rows.inner
        while by < lanes:
            state = combiner.combine(shifted(state, by), state)
            by *= 2
        last = 0 if reverse else lanes - rows.inner
        ends = [b.shuffle(x, x, [last + i % rows.inner for i in range(lanes)]) for x in state]
        combiner.store(combiner.combine(list(carry), state), scan.destination, at, count)
        return combiner.combine(list(carry), ends)

    with b.distributed(rows.outer, groups) as row:
        start = row * length
        with b.for_(0, whole, 1, combiner.identity(lanes)) as loop:
            at = loop.index * lanes
            if reverse:
                at = b.index(length - lanes) - at
            loop.yield_(*piece(start + at, loop.carried, None))
        if tail:
            piece(start if reverse else start + whole * lanes, loop.results, tail)
    return b.build((groups,), f"cumulative {combiner.op}: vectors scanned in the register")

"""Cumulative operations on GPUs: many rows by a thread each, long rows by blocks.

A workgroup scans a block: each thread its own few elements, then the threads' totals in shared memory, in log2(threads)
steps (Hillis and Steele 1986). Rows of several blocks take three dispatches: the totals of all blocks, their scan by one
workgroup a row, and the scan of each block from there. So elements are read twice and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import GRID, KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.kernel import Kernel, KernelChain, Spec, Step
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value
from ..elements.combiner import Combiner, Op, State

#: Elements of one thread in a block.
ITEMS = 4
#: From so many rows on each has a thread of its own; so have rows of up to `SHORT` elements.
MANY_ROWS = 4096
SHORT = 16

Load = Callable[[Value], State]
Store = Callable[[State, Value], None]


@dataclass(frozen=True)
class Scan:
    """One cumulative operation: ``view`` is the array as numbers, in ``rows`` that are scanned one by one."""

    op: Op
    operand: Spec
    view: Spec
    rows: Rows
    target: KernelTarget
    reverse: bool

    @property
    def block(self) -> int:
        """Elements of a block."""
        return self.target.threads * ITEMS

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.rows.n // self.block)

    def totals(self, combiner: Combiner) -> Spec:
        """The array of the blocks' totals."""
        return Spec((self.rows.count * self.blocks,), dtype_of(combiner.elem))

    def combiner(self, b: KernelBuilder) -> Combiner:
        """How elements are combined in a kernel."""
        return Combiner(b, self.op, self.view.dtype)

    def memory(self, b: KernelBuilder, *, result: bool = False) -> Buffer:
        """The operand, or the result, as flat numbers."""
        shape, elem = (self.view.size,), self.combiner(b).memory
        return b.result(0, shape, elem) if result else b.operand(0, shape, elem)

    def place(self, b: KernelBuilder, start: Value, i: Value) -> Value:
        """Where the i-th element that is met lies, in the row that begins at ``start``."""
        i = b.index(self.rows.n - 1) - i if self.reverse else i
        return start + i * self.rows.inner

    def load(self, b: KernelBuilder, start: Value, i: Value) -> State:
        """The i-th element of a row; neutral beyond its end."""
        combiner, last = self.combiner(b), self.rows.n - 1
        read = combiner.load(1, self.memory(b), self.place(b, start, b.smin(i, b.index(last))))
        inside = b.cmp("sle", i, last)
        return [b.select(inside, x, y) for x, y in zip(read, combiner.identity(1))]

    def store(self, b: KernelBuilder, state: State, start: Value, i: Value) -> None:
        """Write the i-th element of a row, unless it is beyond its end."""
        with b.if_(b.cmp("slt", i, self.rows.n)):
            self.combiner(b).store(state, self.memory(b, result=True), self.place(b, start, i))


def block_scan(
    op: Op, operand: Spec, view: Spec, rows: Rows, target: KernelTarget, reverse: bool
) -> Kernel | KernelChain:
    """The kernels of a cumulative operation on a GPU; see `quire.backends.kernels.scans.cumulative`.

    Raises :class:`NoKernel` for products and extremes of complex numbers.
    """
    if view.dtype.parts > 1:
        raise NoKernel("complex numbers are scanned on CPUs only, but for sums")
    scan = Scan(op, operand, view, rows, target, reverse)
    if rows.n <= SHORT or rows.count >= MANY_ROWS:
        return _by_rows(scan)
    if scan.blocks == 1:
        return _blocks(scan, offsets=False)
    sums = _totals(scan)
    totals = sums.results[0]
    # The operand is value 0, the totals 1, their scan 2.
    steps = (Step(sums, (0,)), Step(_scan_totals(scan, totals), (1,)), Step(_blocks(scan, offsets=True), (0, 2)))
    return KernelChain(steps, (operand,), (operand,), (3,), f"cumulative {op}: blocks of {scan.block}, 3 dispatches")


def _by_rows(scan: Scan) -> Kernel:
    b = KernelBuilder(f"cum{scan.op}_rows", [scan.operand], [scan.operand], scan.target)
    combiner, rows = scan.combiner(b), scan.rows
    with b.spread_threads(rows.count) as row:
        start = rows.start(b, row)
        with b.for_(0, rows.n, 1, combiner.identity(1)) as loop:
            total = combiner.combine(loop.carried, scan.load(b, start, loop.index))
            combiner.store(total, scan.memory(b, result=True), scan.place(b, start, loop.index))
            loop.yield_(*total)
    return b.build((b.thread_groups(rows.count),), f"cumulative {scan.op}: {rows.count} rows, a thread each")


def _scan_block(b: KernelBuilder, combiner: Combiner, shared: Buffer, load: Load, store: Store, before: State) -> State:
    """Scan one block after ``before``: the state after it, in all threads."""
    thread = b.thread_id()
    states: list[State] = []
    for k in range(ITEMS):
        state = load(thread * ITEMS + k)
        states.append(combiner.combine(states[-1], state) if states else state)
    last = b.target.threads - 1
    mine = states[-1]
    _store(b, mine, shared, thread)
    b.barrier()
    distance = 1
    while distance <= last:
        other = _load(b, shared, b.smax(thread - distance, b.index(0)))
        inside = b.cmp("sge", thread, distance)
        mine = combiner.combine([b.select(inside, x, y) for x, y in zip(other, combiner.identity(1))], mine)
        b.barrier()
        _store(b, mine, shared, thread)
        b.barrier()
        distance *= 2
    left = _load(b, shared, b.smax(thread - 1, b.index(0)))
    first = b.cmp("eq", thread, 0)
    prefix = combiner.combine(before, [b.select(first, x, y) for x, y in zip(combiner.identity(1), left)])
    for k, state in enumerate(states):
        store(combiner.combine(prefix, state), thread * ITEMS + k)
    after = combiner.combine(before, _load(b, shared, b.index(last)))
    b.barrier()
    return after


def _load(b: KernelBuilder, memory: Buffer, at: Operand) -> State:
    """A state that was stored as it is."""
    return [b.vload(1, memory, at)]


def _store(b: KernelBuilder, state: State, memory: Buffer, at: Operand) -> None:
    """Store a state of one value as it is."""
    b.vstore(state[0], memory, at)


def _ignored(state: State, i: Value) -> None:
    """What is scanned is not stored."""


def _totals(scan: Scan) -> Kernel:
    probe = KernelBuilder("cum", [scan.operand], [scan.operand], scan.target)
    totals = scan.totals(scan.combiner(probe))
    b = KernelBuilder(f"cum{scan.op}_totals", [scan.operand], [totals], scan.target)
    combiner, count = scan.combiner(b), scan.rows.count * scan.blocks
    shared = b.shared((scan.target.threads,), combiner.elem)
    with b.pieces(count) as piece:
        row, number = b.divmod(piece, scan.blocks)
        start = scan.rows.start(b, row)
        total = _scan_block(
            b, combiner, shared, lambda i: scan.load(b, start, number * scan.block + i), _ignored, combiner.identity(1)
        )
        with b.if_(b.cmp("eq", b.thread_id(), 0)):
            _store(b, total, b.result(0), piece)
    return b.build((min(count, GRID),), f"cumulative {scan.op}: totals of {count} blocks")


def _scan_totals(scan: Scan, totals: Spec) -> Kernel:
    """What comes before each block of a row, from the blocks' totals."""
    b = KernelBuilder(f"cum{scan.op}_before", [totals], [totals], scan.target)
    combiner, rows, blocks = scan.combiner(b), scan.rows, scan.blocks
    shared = b.shared((scan.target.threads,), combiner.elem)
    with b.pieces(rows.count) as row:
        start = row * blocks
        with b.for_(0, -(-blocks // scan.block), 1, combiner.identity(1)) as loop:

            def load(i: Value, at: Value = loop.index * scan.block) -> State:
                # Each is met one place later: the first block has nothing before it.
                place = at + i - 1
                read = _load(b, b.operand(0), start + b.smin(b.smax(place, b.index(0)), b.index(blocks - 1)))
                inside = b.cmp("sge", place, 0)
                return [b.select(inside, x, y) for x, y in zip(read, combiner.identity(1))]

            def store(state: State, i: Value, at: Value = loop.index * scan.block) -> None:
                with b.if_(b.cmp("slt", at + i, blocks)):
                    _store(b, state, b.result(0), start + at + i)

            loop.yield_(*_scan_block(b, combiner, shared, load, store, loop.carried))
    return b.build((min(rows.count, GRID),), f"cumulative {scan.op}: what comes before each of {blocks} blocks")


def _blocks(scan: Scan, *, offsets: bool) -> Kernel:
    operands: Sequence[Spec] = [scan.operand]
    if offsets:
        operands = [scan.operand, _totals(scan).results[0]]
    b = KernelBuilder(f"cum{scan.op}_blocks", operands, [scan.operand], scan.target)
    combiner, count = scan.combiner(b), scan.rows.count * scan.blocks
    shared = b.shared((scan.target.threads,), combiner.elem)
    with b.pieces(count) as piece:
        row, number = b.divmod(piece, scan.blocks)
        start, first = scan.rows.start(b, row), number * scan.block
        before = _load(b, b.operand(1), piece) if offsets else combiner.identity(1)
        _scan_block(
            b, combiner, shared, lambda i: scan.load(b, start, first + i),
            lambda state, i: scan.store(b, state, start, first + i), before,
        )  # fmt: skip
    return b.build((min(count, GRID),), f"cumulative {scan.op}: {count} blocks of {scan.block}")

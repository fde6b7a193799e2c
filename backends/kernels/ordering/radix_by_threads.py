"""Radix sort of long rows on GPUs: passes of four bits over keys and places, from the least significant on.

Each pass is stable and takes three steps. A workgroup counts the digits of its block, each thread those of its own
neighbouring elements, so that nothing has to be atomic. The counts of all blocks of a row, in the order of (digit, block),
are summed up. Then a workgroup counts again, now from where the first of its elements with each digit goes, and
moves each element to its place. (Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import GRID, KernelBuilder
from ..core.kernel import ChainOf, Kernel, KernelChain, Spec
from ..core.values import Buffer, Value
from ..scans.cumulative import cumulative
from .rows_by_threads import Finish, Sorting, finished

#: Bits of a digit, and the elements of a thread.
BITS, ITEMS = 4, 16
DIGITS = 1 << BITS


def run(s: Sorting, results: Sequence[Spec], count: int, finish: Finish, what: str) -> KernelChain:
    """The kernels that sort, and hand the first `count` elements of each row to `finish`."""
    chain, passes = ChainOf(s.operands), _Passes(s)
    arrays = chain.then(_unfolded(s), range(len(s.operands)))
    scan = cumulative("sum", passes.counts, 1, s.target)
    for k in reversed(range(len(s.keys))):
        count_digits, move = _counted(passes, k), _moved(passes, k)
        for shift in range(0, s.keys[k].bits, BITS):
            counts = chain.then(count_digits, [arrays[k]], [shift])
            arrays = chain.then(move, [*arrays, *chain.then(scan, counts)], [shift])
    out = chain.then(finished(s, s.rows.n, results, count, finish, what), [*range(len(s.operands)), arrays[-1]])
    return chain.finished(out, f"{what}: radix passes of {BITS} bits, {len(chain.steps)} dispatches")


@dataclass(frozen=True)
class _Passes:
    """How rows are cut into blocks."""

    sorting: Sorting

    @property
    def block(self) -> int:
        """Elements of a block."""
        return self.sorting.target.threads * ITEMS

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.sorting.rows.n // self.block)

    @property
    def pieces(self) -> int:
        """Blocks of all rows."""
        return self.sorting.rows.count * self.blocks

    @property
    def specs(self) -> list[Spec]:
        """Keys and places of all rows."""
        return self.sorting.specs(self.sorting.rows.n)

    @property
    def counts(self) -> Spec:
        """How often each digit is in each block of a row, in the order of (digit, block)."""
        return Spec.of((self.sorting.rows.count, DIGITS * self.blocks), "i32")

    def digit(self, b: KernelBuilder, k: int, key: Value) -> Value:
        """The digit of a key, as an index; the scalar of the kernel says where it begins."""
        # The least of the signed keys becomes 0.
        shifted = (key + (1 << (self.sorting.keys[k].bits - 1))) >> b.cast(b.scalar(0), key.type)
        return b.cast(shifted & (DIGITS - 1), "index")

    def each(self, b: KernelBuilder, number: Value, body: Callable[[Value], None]) -> None:
        """Each element of this thread in a block of a row, by its number in the row."""
        first = number * self.block + b.thread_id() * ITEMS
        with b.for_(first, b.smin(first + ITEMS, b.index(self.sorting.rows.n))) as loop:
            body(loop.index)


def _unfolded(s: Sorting) -> Kernel:
    """Keys and places of all elements, row by row."""
    b = KernelBuilder("radix_keys", s.operands, s.specs(s.rows.n), s.target)
    with b.spread_threads(s.rows.count * s.rows.n) as flat:
        row, place = b.divmod(flat, s.rows.n)
        for k, value in enumerate([*s.load(b, s.rows.start(b, row), place), b.cast(place, "i32")]):
            b.store(value, b.result(k), flat)
    return b.build((b.thread_groups(s.rows.count * s.rows.n),), "radix sort: keys and places")


def _count(b: KernelBuilder, p: _Passes, k: int, keys: Buffer, row: Value, number: Value, counts: Buffer) -> None:
    """How often each digit is among the elements of each thread, into ``counts[digit * threads + thread]``."""
    threads, n = p.sorting.target.threads, p.sorting.rows.n
    for d in range(DIGITS):
        b.store(b.const(0, "i32"), counts, b.thread_id() + d * threads)

    def count(i: Value) -> None:
        at = p.digit(b, k, b.load(keys, row * n + i)) * threads + b.thread_id()
        b.store(b.load(counts, at) + 1, counts, at)

    p.each(b, number, count)
    b.barrier()


def _counted(p: _Passes, k: int) -> Kernel:
    """The digits of each block."""
    s = p.sorting
    b = KernelBuilder("radix_count", [p.specs[k]], [p.counts], s.target, scalars=1)
    threads = s.target.threads
    counts, totals = b.shared((DIGITS * threads,), "i32"), b.result(0, (p.counts.size,))
    with b.pieces(p.pieces) as piece:
        row, number = b.divmod(piece, p.blocks)
        _count(b, p, k, b.operand(0), row, number, counts)
        with b.threads(DIGITS) as digit:
            with b.for_(0, threads, 1, [b.const(0, "i32")]) as loop:
                loop.yield_(loop.carried[0] + b.load(counts, digit * threads + loop.index))
            b.store(loop.results[0], totals, (row * DIGITS + digit) * p.blocks + number)
    return b.build((min(p.pieces, GRID),), "radix sort: digits of blocks")


def _moved(p: _Passes, k: int) -> Kernel:
    """All elements, in the order of the digit."""
    s = p.sorting
    b = KernelBuilder("radix_move", [*p.specs, p.counts], p.specs, s.target, scalars=1)
    threads, n = s.target.threads, s.rows.n
    sources, to = ([view(i) for i in range(len(p.specs))] for view in (b.operand, b.result))
    counts, summed = b.shared((DIGITS * threads,), "i32"), b.operand(len(p.specs), (p.counts.size,))
    with b.pieces(p.pieces) as piece:
        row, number = b.divmod(piece, p.blocks)
        _count(b, p, k, sources[k], row, number, counts)
        with b.threads(DIGITS) as digit:
            at = digit * p.blocks + number  # of the sums of this row; those before it say where the block's first goes
            before = b.load(summed, row * (DIGITS * p.blocks) + b.smax(at - 1, b.index(0)))
            first = b.select(b.cmp("eq", at, 0), b.const(0, "i32"), before)
            with b.for_(digit * threads, digit * threads + threads, 1, [first]) as loop:
                mine = b.load(counts, loop.index)
                b.store(loop.carried[0], counts, loop.index)
                loop.yield_(loop.carried[0] + mine)

        def move(i: Value, row: Value = row) -> None:
            values = [b.load(source, row * n + i) for source in sources]
            at = p.digit(b, k, values[k]) * threads + b.thread_id()
            place = b.load(counts, at)
            b.store(place + 1, counts, at)
            for value, target in zip(values, to):
                b.store(value, target, row * n + b.cast(place, "index"))

        p.each(b, number, move)
        b.barrier()
    return b.build((min(p.pieces, GRID),), f"radix sort: elements moved, {BITS} bits")

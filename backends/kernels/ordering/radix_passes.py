"""Least-significant-digit radix passes over arrays in scratch memory, shared by sort and top_k.

Values travel in double-buffered arrays: ``memory[base + side * n + i]``. Passes whose digit is the same for
all elements are skipped at run time, so the side on which the data ends is a run-time value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.kernel import Spec
from ..core.values import Buffer, Operand, Value, width


@dataclass(frozen=True)
class Lane:
    """One double-buffered array: a flat buffer and where this workgroup's 2*n elements begin."""

    memory: Buffer
    base: Value

    @staticmethod
    def of(b: KernelBuilder, dtype: str, n: int, groups: int) -> Lane:
        """New scratch memory for an array of n elements, twice, of each workgroup."""
        base = b.workgroup_id() * (2 * n)
        return Lane(b.more_scratch(Spec.of((groups * 2 * n,), dtype)), base)


@dataclass(frozen=True)
class Digits:
    """How a key is cut: ``passes`` digits of ``bits`` bits, the lowest first."""

    bits: int
    passes: int

    @property
    def buckets(self) -> int:
        """Values of one digit."""
        return 1 << self.bits

    @staticmethod
    def of(key_bits: int, n: int) -> Digits:
        """Small arrays take 8 bits (short prefix sums); large ones of 32-bit keys 11: a pass less."""
        bits = 11 if key_bits == 32 and n >= LARGE else 8
        return Digits(bits, -(-key_bits // bits))


#: From this many elements on three passes of 11 bits beat four of 8.
LARGE = 1 << 14

#: Elements a turn of the inner loops (IREE does not unroll; 1M f32: 9.9 ms by 1, 7.5 by 4, 7.1 by 8).
UNROLL = 8

#: Maps the word of the first lane to its unsigned key.
KeyOf = Callable[[Value], Value]


def count_buffer(b: KernelBuilder, digits: Sequence[Digits]) -> Buffer:
    """The histograms of one workgroup for any one of several keys, on its stack."""
    return b.stack((max(d.passes * d.buckets for d in digits),), "i32")


def clear(b: KernelBuilder, counts: Buffer, digits: Digits) -> None:
    """Zero the counts of all passes (a flat i32 buffer of passes * buckets)."""
    lanes = b.target.lanes(32)
    zero = b.const(0, f"vector<{lanes}xi32>")
    with b.for_(0, digits.passes * digits.buckets, lanes) as loop:
        b.vstore(zero, counts, loop.index)


def digit(b: KernelBuilder, key: Value, shift: Operand, digits: Digits) -> Value:
    """One digit as an index."""
    if isinstance(shift, int) and shift + digits.bits >= width(key.type):
        cut = b.shrl(key, shift)
    else:
        cut = b.shrl(key, shift) & (digits.buckets - 1)
    return b.cast(cut, "index", signed=False)


def count(b: KernelBuilder, counts: Buffer, key: Value, digits: Digits) -> None:
    """Count ``key`` in the histograms of all passes."""
    for p in range(digits.passes):
        place = digit(b, key, p * digits.bits, digits) + p * digits.buckets
        b.store(b.load(counts, place) + 1, counts, place)


def passes(
    b: KernelBuilder,
    lanes: Sequence[Lane],
    n: int,
    counts: Buffer,
    digits: Digits,
    key_of: KeyOf,
    side: Value,
) -> Value:
    """Sort stably by the key of the first lane; ``side`` (an index, 0 or n) tells where the data is.

    ``counts`` hold the histograms and are used up. Returns the side on which the sorted data is.
    """
    first = lanes[0]
    with b.for_(0, digits.passes, init=[side]) as loop:
        (source,) = loop.carried
        row = loop.index * digits.buckets
        key0 = key_of(b.load(first.memory, first.base + source))
        shift = b.cast(loop.index * digits.bits, key0.type)
        same = b.load(counts, row + digit(b, key0, shift, digits))
        target = b.index(n) - source
        with b.if_(b.cmp("eq", same, n), ["index"]) as branch:
            branch.yield_(source)
            branch.else_()
            _prefix_sums(b, counts, row, digits)

            def move(i: Value) -> None:
                words = [b.load(lane.memory, lane.base + source + i) for lane in lanes]
                place = row + digit(b, key_of(words[0]), shift, digits)
                at = b.load(counts, place)
                b.store(at + 1, counts, place)
                to = b.cast(at, "index") + target
                for lane, word in zip(lanes, words):
                    b.store(word, lane.memory, lane.base + to)

            b.unrolled(n, UNROLL, move)
            branch.yield_(target)
        loop.yield_(*branch.results)
    return loop.results[0]


def _prefix_sums(b: KernelBuilder, counts: Buffer, row: Value, digits: Digits) -> None:
    """Turn the counts of one pass into the place of each bucket's first element."""
    with b.for_(0, digits.buckets, init=[b.const(0, "i32")]) as loop:
        (total,) = loop.carried
        here = b.load(counts, row + loop.index)
        b.store(total, counts, row + loop.index)
        loop.yield_(total + here)

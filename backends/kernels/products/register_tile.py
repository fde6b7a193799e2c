"""The inner loop of contractions: a block of results kept in registers while both operands stream past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.values import Buffer, Operand, Value, vector


@dataclass(frozen=True)
class Level:
    """One loop over summed elements: how many, and the distance of neighbours in the left and in the right operand."""

    count: Operand
    left: int
    right: int


@dataclass(frozen=True)
class Source:
    """Where an operand of the inner loop lies: its memory and the place of the first element."""

    memory: Buffer
    at: Value


def strip_masks(b: KernelBuilder, lanes: int, vectors: int, columns: int, column: Value | None) -> list[Value | None]:
    """The masks of the vectors of a strip that begins at a column, of so many columns; None for whole vectors.

    Where ``column`` is None there is no other strip, and it is known which vectors are whole.
    """
    left = [columns - v * lanes for v in range(vectors)]
    if column is None:
        return [None if n >= lanes else b.mask(lanes, max(n, 0)) for n in left]
    return [b.mask(lanes, b.smax(b.index(n) - column, 0)) for n in left]


@dataclass(frozen=True)
class Tile:
    """``mr`` rows x ``nv`` vectors of sums.

    Each step multiplies ``mr`` single numbers of the left operand, ``row`` apart, with ``nv`` neighbouring vectors of
    the right one.
    """

    b: KernelBuilder
    mr: int
    nv: int
    lanes: int
    elem: str
    unroll: int

    @property
    def type(self) -> str:
        """The type of one vector of sums."""
        return vector(self.lanes, self.elem)

    def zeros(self) -> list[Value]:
        """Sums of nothing."""
        return [self.b.const(0, self.type)] * (self.mr * self.nv)

    def store(
        self, sums: Sequence[Value], memory: Buffer, at: Value, row: int, masks: Sequence[Value | None] | None = None,
        rows: range | None = None,
    ) -> None:  # fmt: skip
        """Write sums, or those of some ``rows``, from a place on: rows are ``row`` apart, ``masks`` are those of a row's vectors."""
        for r in range(self.mr) if rows is None else rows:
            for v in range(self.nv):
                place = at + (r * row + v * self.lanes)
                self.b.vstore(sums[r * self.nv + v], memory, place, mask=masks[v] if masks else None)

    def run(
        self, levels: Sequence[Level], left: Source, row: int, right: Source, masks: Sequence[Value | None],
        sums: list[Value],
    ) -> list[Value]:  # fmt: skip
        """The sums after all steps of nested loops, the last of which is unrolled."""
        b, level = self.b, levels[0]
        if len(levels) > 1:
            with b.for_(0, level.count, 1, sums) as loop:
                inner = (
                    Source(left.memory, left.at + loop.index * level.left),
                    Source(right.memory, right.at + loop.index * level.right),
                )
                loop.yield_(*self.run(levels[1:], inner[0], row, inner[1], masks, list(loop.carried)))
            return loop.results

        def step(x_at: Value, y_at: Value, sums: list[Value]) -> None:
            ys = [
                b.cast(b.vload(self.lanes, right.memory, y_at + v * self.lanes, mask=masks[v]), self.elem)
                for v in range(self.nv)
            ]
            for r in range(self.mr):
                x = b.broadcast(b.cast(b.load(left.memory, x_at + r * row), self.elem), self.lanes)
                for v in range(self.nv):
                    i = r * self.nv + v
                    sums[i] = b.multiply_add(x, ys[v], sums[i])

        def turn(first: Operand, stop: Operand, unroll: int, sums: list[Value]) -> list[Value]:
            with b.for_(first, stop, unroll, sums) as loop:
                carried = list(loop.carried)
                x_at, y_at = left.at + loop.index * level.left, right.at + loop.index * level.right
                for u in range(unroll):
                    step(x_at + u * level.left, y_at + u * level.right, carried)
                loop.yield_(*carried)
            return loop.results

        unroll = self.unroll
        if isinstance(level.count, int):
            if level.count <= 3 * unroll:
                sums = list(sums)
                for u in range(level.count):
                    step(left.at + u * level.left, right.at + u * level.right, sums)
                return sums
            whole = level.count // unroll * unroll
            sums = turn(0, whole, unroll, sums)
            return turn(whole, level.count, 1, sums) if whole < level.count else sums
        whole = b.udiv(level.count, unroll) * unroll
        return turn(whole, level.count, 1, turn(0, whole, unroll, sums))

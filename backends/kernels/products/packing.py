"""Copying parts of matrices into the order in which a product's inner loop reads them.

A strip of the right operand is stored ``[k][columns]``, a panel of the left one ``[k][rows]``; elements are
converted to the type in which they are multiplied. Rows that lie along ``k`` are turned in registers, a square of
vectors at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.squares import transposed
from ..core.values import Buffer, Operand, Value

#: How far the copying loops are unrolled.
UNROLL = 4


def copy_rows(
    b: KernelBuilder,
    count: Operand,
    load: Callable[[Operand], list[Value]],
    store: Callable[[Operand, list[Value]], None],
) -> None:
    """Move ``count`` rows, a few of them a turn."""
    if isinstance(count, int):
        b.unrolled(count, UNROLL, lambda k: store(k, load(k)))
        return
    with b.for_(0, count) as loop:
        store(loop.index, load(loop.index))


class Turner:
    """Stores ``lines`` (each along k in ``source``) as ``[k][line]`` from ``offset`` on in ``destination``.

    ``starts`` gives where each line begins, ``width`` is the distance of neighbouring k in the destination; up to a
    vector less one element is written behind the last one.
    """

    def __init__(self, b: KernelBuilder, source: Buffer, destination: Buffer, lanes: int, elem: str) -> None:
        self.b, self.source, self.destination = b, source, destination
        self.lanes, self.elem = lanes, elem

    def turn(self, starts: Sequence[Value], count: Operand, offset: Operand, width: int) -> None:
        """Move ``count`` elements of each line."""
        b, lanes = self.b, self.lanes
        whole = count // lanes * lanes if isinstance(count, int) else b.udiv(count, lanes) * lanes
        with b.for_(0, whole, lanes) as loop:
            groups: list[list[Value]] = []
            for first in range(0, len(starts), lanes):
                part = list(starts[first : first + lanes])
                square = [b.cast(b.vload(lanes, self.source, s + loop.index), self.elem) for s in part]
                square += [square[0]] * (lanes - len(square))
                groups.append(transposed(b, square))
            at = loop.index * width + offset
            for lane in range(lanes):
                for g, square in enumerate(groups):
                    b.vstore(square[lane], self.destination, at + (lane * width + g * lanes))
        if whole is count or (isinstance(count, int) and whole == count):
            return
        with b.for_(whole, count) as loop:
            at = loop.index * width + offset
            for i, s in enumerate(starts):
                b.store(b.cast(b.load(self.source, s + loop.index), self.elem), self.destination, at + i)


@dataclass(frozen=True)
class Strips:
    """Packs strips of ``width`` columns of a matrix as ``[k][column]``; columns beyond the last one hold anything.

    ``row`` and ``column`` are the strides of the matrix ``k x columns`` in ``source``. Where columns lie side by side
    vectors of ``vector`` columns are copied, else so many are turned at a time, in squares of ``lanes`` x ``lanes``. A
    panel of rows of a left operand is a strip of its transpose.
    """

    b: KernelBuilder
    source: Buffer
    row: int
    column: int
    columns: int
    target: Buffer
    width: int
    vector: int
    lanes: int
    elem: str

    def pack(
        self, start: Value, length: Operand, first: Operand, at: Value, masks: Sequence[Value | None] | None
    ) -> None:
        """The strip from column ``first`` on, of a matrix at ``start``, to ``at``.

        ``masks`` are those of the strip's vectors; None where all its columns are in the matrix.
        """
        b, vector = self.b, self.vector
        if self.column == 1:
            copy_rows(
                b, length,
                lambda k: self._load(start + first + b.index(k) * self.row, masks),
                lambda k, values: self._store(at + b.index(k) * self.width, values),
            )  # fmt: skip
            return
        columns = [first + i if masks is None else b.smin(first + i, self.columns - 1) for i in range(self.width)]
        starts = [start + c * self.column for c in columns]
        if self.row == 1:
            turner = Turner(b, self.source, self.target, self.lanes, self.elem)
            for v in range(0, self.width, vector):
                turner.turn(starts[v : v + vector], length, at + v, self.width)
            return
        copy_elements(b, self.source, starts, self.row, length, self.target, at, self.elem)

    def pack_pairs(
        self, start: Value, length: Operand, first: Value, at: Value, masks: Sequence[Value | None] | None
    ) -> None:
        """A strip of complex numbers: each row of pairs ``r s``, and after it the row of pairs ``-s r``.

        ``length`` counts both rows of a pair, and ``row`` is half the distance of complex rows; columns lie side by
        side.
        """
        b, lanes = self.b, self.lanes
        turned = [lanes + i + 1 if i % 2 == 0 else i - 1 for i in range(lanes)]

        def store(k: Operand, values: list[Value]) -> None:
            row = at + b.index(k) * (2 * self.width)
            self._store(row, values)
            self._store(row + self.width, [b.shuffle(x, b.negf(x), turned) for x in values])

        count = length // 2 if isinstance(length, int) else b.udiv(length, 2)
        copy_rows(b, count, lambda k: self._load(start + first + b.index(k) * (2 * self.row), masks), store)

    def _load(self, at: Value, masks: Sequence[Value | None] | None) -> list[Value]:
        b, n = self.b, self.vector
        each: Sequence[Value | None] = [None] * (self.width // n) if masks is None else masks
        return [b.cast(b.vload(n, self.source, at + v * n, mask=m), self.elem) for v, m in enumerate(each)]

    def _store(self, at: Value, values: Sequence[Value]) -> None:
        for v, x in enumerate(values):
            self.b.vstore(x, self.target, at + v * self.vector)


def copy_elements(
    b: KernelBuilder, source: Buffer, starts: Sequence[Value], step: int, length: Operand, target: Buffer, at: Value,
    elem: str,
) -> None:  # fmt: skip
    """Move ``length`` elements, ``step`` apart, from each start: as ``[k][start]``."""
    with b.for_(0, length) as k:
        for i, s in enumerate(starts):
            value = b.cast(b.load(source, s + k.index * step), elem)
            b.store(value, target, at + (k.index * len(starts) + i))

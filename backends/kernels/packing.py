"""Copying parts of matrices into the order in which a product's inner loop reads them.

A strip of the right operand is stored ``[k][columns]``, a panel of the left one ``[k][rows]``; elements are
converted to the type in which they are multiplied. Rows that lie along ``k`` are turned in registers, a square of
vectors at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import KernelBuilder
from .values import Buffer, Operand, Value

#: How far the copying loops are unrolled.
UNROLL = 4


def transposed(b: KernelBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors: n vectors of n lanes, n a power of two."""
    rows = list(rows)
    n = len(rows)
    h = n // 2
    while h:
        low = [lane if not lane & h else lane - h + n for lane in range(n)]
        high = [lane + h if not lane & h else lane + n for lane in range(n)]
        for i in range(n):
            if not i & h:
                x, y = rows[i], rows[i + h]
                rows[i], rows[i + h] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        h //= 2
    return rows


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

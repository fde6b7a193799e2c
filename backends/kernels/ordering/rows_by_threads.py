"""What the sorts on GPUs have in common: keys and places of rows, and what is made of the places in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.builder import GRID, KernelBuilder
from ..core.kernel import Kernel, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.keys import Key
from .radix_sort import Order, load_key

#: Called with builder, row, a number and the place of the element that comes as this number in the row's order.
Finish = Callable[[KernelBuilder, Value, Value, Value], None]


@dataclass(frozen=True)
class Sorting:
    """What is sorted: rows of operands by some keys. With its keys an element has its place in the row."""

    operands: tuple[Spec, ...]
    rows: Rows
    keys: tuple[Key, ...]
    order: Order
    target: KernelTarget

    @property
    def elements(self) -> list[str]:
        """Types of what an element consists of: its keys and its place."""
        return [*("i64" if key.bits == 64 else "i32" for key in self.keys), "i32"]

    def specs(self, length: int) -> list[Spec]:
        """The arrays of keys and places, of rows of this length, in global memory."""
        return [Spec.of((self.rows.count * length,), e) for e in self.elements]

    def load(self, b: KernelBuilder, start: Value, place: Value) -> list[Value]:
        """The keys, under signed comparison, of the element at a place of the row that begins at `start`."""
        keys: list[Value] = []
        for key, elem in zip(self.keys, self.elements):
            word = load_key(b, self.operands[key.operand], key, start + place * self.rows.inner)
            keys.append(b.cast(self.order.signed(b, key.dtype, word), elem))
        return keys


def finished(s: Sorting, length: int, results: Sequence[Spec], count: int, finish: Finish, what: str) -> Kernel:
    """The last dispatch: `finish` of the first `count` elements of each row, by places in rows of this length."""
    places = s.specs(length)[-1]
    b = KernelBuilder("sort_finish", [*s.operands, places], results, s.target)
    memory = b.operand(len(s.operands))
    share = 4 * s.target.threads
    shares = -(-count // share)
    with b.pieces(s.rows.count * shares) as piece:
        row, number = b.divmod(piece, shares)
        with b.threads(share) as thread:
            i = number * share + thread
            with b.if_(b.cmp("ult", i, count)):
                finish(b, row, i, b.cast(b.load(memory, row * length + i), "index"))
    return b.build((min(s.rows.count * shares, GRID),), what)

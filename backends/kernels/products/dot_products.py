"""Products with few columns whose operands both lie along k: dot products of rows, a few of each operand at a time.

Vectors run along k, so nothing is packed or turned: the form of a matrix times a vector, where each element of the
matrix is read once. Sums of vectors are added up at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Operand, Value, vector
from .matrices import Product


@dataclass(frozen=True)
class DotProductsPlan:
    """``mr`` rows by ``nr`` columns at a time, ``parts`` shares of the rows, ``groups`` workgroups; ``chain`` vectors are added
    one after the other, and longer sums are sums of such sums."""

    mr: int
    nr: int
    parts: int
    groups: int
    chain: int

    def __str__(self) -> str:
        return f"dot products of {self.mr} rows and {self.nr} columns, {self.groups} workgroups"


def dot_products(
    p: Product, total: DType, plan: DotProductsPlan, target: KernelTarget, specs: Sequence[Spec], reason: str
) -> Kernel:
    """The kernel of a product with ``lhs.column == rhs.row == 1``; operands and result as in ``specs``."""
    b = KernelBuilder("dots", specs[:2], specs[2:], target)
    lhs, rhs = (b.operand(i, (specs[i].size,)) for i in p.operands)
    out = b.result(0, (specs[2].size,))
    elem, lanes = total.scalar, target.lanes(total.bits)
    kind = vector(lanes, elem)
    mr, nr = plan.mr, plan.nr
    blocks = -(-p.m // mr)
    share = -(-blocks // plan.parts)

    def step(
        sums: Sequence[Value], rows: list[Value], columns: list[Value], k: Operand, mask: Value | None
    ) -> list[Value]:
        ys = [b.cast(b.vload(lanes, rhs, c + k, mask=mask), elem) for c in columns]
        out: list[Value] = []
        for i, row in enumerate(rows):
            x = b.cast(b.vload(lanes, lhs, row + k, mask=mask), elem)
            out += [b.multiply_add(x, y, sums[i * len(ys) + j]) for j, y in enumerate(ys)]
        return out

    def tile(row: Value, column: Value, at: list[Value]) -> None:
        rows = [at[0] + row * p.lhs.row + i * p.lhs.row for i in range(mr)]
        columns = [at[1] + column * p.rhs.column + j * p.rhs.column for j in range(nr)]
        whole = p.k // lanes * lanes
        sums = [b.const(0, kind)] * (mr * nr)

        def run(start: Operand, end: Operand, sums: list[Value]) -> list[Value]:
            with b.for_(start, end, lanes, sums) as loop:
                loop.yield_(*step(loop.carried, rows, columns, loop.index, None))
            return loop.results

        chain = plan.chain * lanes
        if whole <= chain:
            sums = run(0, whole, sums)
        else:
            with b.for_(0, whole, chain, sums) as loop:
                part = run(loop.index, b.smin(loop.index + chain, b.index(whole)), sums)
                loop.yield_(*(x + y for x, y in zip(loop.carried, part)))
            sums = loop.results
        if whole < p.k:
            sums = step(sums, rows, columns, b.index(whole), b.mask(lanes, p.k - whole))
        start = at[2] + row * p.out.row + column * p.out.column
        for i in range(mr):
            for j in range(nr):
                (value,) = b.across([sums[i * nr + j]], lambda x, y: [x[0] + y[0]])
                b.store(value, out, start + (i * p.out.row + j * p.out.column))

    with b.distributed(p.batches * plan.parts, plan.groups) as piece:
        number, part = b.divmod(piece, plan.parts)
        at = p.origins(b, number)
        first = part * share
        with b.for_(first, b.smin(first + share, b.index(blocks))) as block:
            row = b.moved_inside(block.index * mr, mr, p.m)
            with b.for_(0, -(-p.n // nr)) as strip:
                tile(row, b.moved_inside(strip.index * nr, nr, p.n), at)
    return b.build((plan.groups,), reason)

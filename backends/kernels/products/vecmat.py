"""A row vector times a matrix that is stored row by row: rows are added up as they lie in memory.

The sums of a workgroup's columns stay in the first-level cache while a few whole rows at a time stream past. Reading
down the columns instead would touch another page with each load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Value, vector
from .matrices import Product


@dataclass(frozen=True)
class VecmatPlan:
    """``rows`` of the matrix at a time, columns in ``parts`` shares of ``share`` vectors, ``groups`` workgroups; about ``chain``
    rows are added one after the other, and longer sums are sums of such sums."""

    rows: int
    share: int
    parts: int
    groups: int
    chain: int

    def __str__(self) -> str:
        return f"{self.rows} rows at a time added to {self.share} vectors of sums, {self.groups} workgroups"


def vecmat(
    p: Product, total: DType, plan: VecmatPlan, target: KernelTarget, specs: Sequence[Spec], reason: str
) -> Kernel:
    """The kernel of a product with ``m == 1`` and ``rhs.column == out.column == 1``."""
    b = KernelBuilder("vecmat", specs[:2], specs[2:], target)
    lhs, rhs = (b.operand(i, (specs[i].size,)) for i in p.operands)
    out = b.result(0, (specs[2].size,))
    elem, lanes = total.scalar, target.lanes(total.bits)
    kind = vector(lanes, elem)
    width = plan.share * lanes

    def add_rows(sums: Buffer, sums_at: Value, source: Value, numbers: list[Value], first: bool, row: int) -> None:
        with b.for_(0, width, lanes) as loop:
            added = b.const(0, kind) if first else b.vload(lanes, sums, sums_at + loop.index)
            for i, x in enumerate(numbers):
                y = b.cast(b.vload(lanes, rhs, source + i * row + loop.index), elem)
                added = b.multiply_add(x, y, added)
            b.vstore(added, sums, sums_at + loop.index)

    chain = plan.chain // plan.rows * plan.rows
    chained = b.stack((width,), elem) if p.k > chain else out

    def add_chains(sums_at: Value, source: Value, left: Value) -> None:
        """The rows after the first ones: each chain by itself, then added to the sums."""
        none = b.index(0)
        with b.for_(first, p.k, chain) as start:
            with b.for_(0, width, lanes) as loop:
                b.vstore(b.const(0, kind), chained, loop.index)
            with b.for_(start.index, b.smin(start.index + chain, b.index(p.k)), plan.rows) as k:
                xs = numbers(left + k.index * p.lhs.column, plan.rows)
                add_rows(chained, none, source + k.index * p.rhs.row, xs, False, p.rhs.row)
            with b.for_(0, width, lanes) as loop:
                at = sums_at + loop.index
                b.vstore(b.vload(lanes, out, at) + b.vload(lanes, chained, loop.index), out, at)

    def numbers(at: Value, count: int) -> list[Value]:
        return [b.broadcast(b.cast(b.load(lhs, at + i * p.lhs.column), elem), lanes) for i in range(count)]

    first = (p.k - 1) % plan.rows + 1
    with b.distributed(p.batches * plan.parts, plan.groups) as piece:
        number, part = b.divmod(piece, plan.parts)
        left, right, result = p.origins(b, number)
        column = part * width
        source, sums = right + column, result + column
        add_rows(out, sums, source, numbers(left, first), True, p.rhs.row)
        if p.k > chain:
            add_chains(sums, source, left)
        else:
            with b.for_(first, p.k, plan.rows) as k:
                xs = numbers(left + k.index * p.lhs.column, plan.rows)
                add_rows(out, sums, source + k.index * p.rhs.row, xs, False, p.rhs.row)
    return b.build((plan.groups,), reason)

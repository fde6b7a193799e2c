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
from ..core.values import Value, vector
from .matrices import Product


@dataclass(frozen=True)
class VecmatPlan:
    """``rows`` of the matrix at a time, columns in ``parts`` shares of ``share`` vectors, ``groups`` workgroups."""

    rows: int
    share: int
    parts: int
    groups: int

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

    def add_rows(sums_at: Value, source: Value, numbers: list[Value], first: bool, row: int) -> None:
        with b.for_(0, width, lanes) as loop:
            added = b.const(0, kind) if first else b.vload(lanes, out, sums_at + loop.index)
            for i, x in enumerate(numbers):
                y = b.cast(b.vload(lanes, rhs, source + i * row + loop.index), elem)
                added = b.multiply_add(x, y, added)
            b.vstore(added, out, sums_at + loop.index)

    def numbers(at: Value, count: int) -> list[Value]:
        return [b.broadcast(b.cast(b.load(lhs, at + i * p.lhs.column), elem), lanes) for i in range(count)]

    first = (p.k - 1) % plan.rows + 1
    with b.distributed(p.batches * plan.parts, plan.groups) as piece:
        number, part = b.divmod(piece, plan.parts)
        left, right, result = p.origins(b, number)
        column = part * width
        source, sums = right + column, result + column
        add_rows(sums, source, numbers(left, first), True, p.rhs.row)
        with b.for_(first, p.k, plan.rows) as k:
            xs = numbers(left + k.index * p.lhs.column, plan.rows)
            add_rows(sums, source + k.index * p.rhs.row, xs, False, p.rhs.row)
    return b.build((plan.groups,), reason)

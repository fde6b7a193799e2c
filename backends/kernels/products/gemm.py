"""Matrix products: blocks of the result kept in registers, operands packed as the plan says.

One loop nest serves all forms. A workgroup owns column strips times row blocks of one product; inside, from the
outside in: parts of ``k``, blocks of rows, column strips, row blocks of ``mr`` rows, and the inner loop over k, which
holds ``mr x nv`` vectors of the result. Which loops are there, and what is packed, is the plan's business.

Tails need no second inner loop: a last block that does not fit is moved back inside the matrix and computes some
elements twice. Where sums are continued in memory (several parts of k), elements computed twice are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value
from .epilogue import Epilogue, EpilogueWriter
from .matrices import Product
from .packing import Strips
from .register_tile import Level, Source, Tile, strip_masks


@dataclass(frozen=True)
class Plan:
    """How a product is computed.

    ``mr`` rows x ``nv`` vectors are kept in registers. ``kc`` is the length of a part of k, ``ko`` how many turns of
    the outer summed dimensions a part takes (one, unless ``kc`` is all of k); ``mc`` the row blocks of a block of
    rows. ``rhs`` is read where it is, or packed in strips (on the stack, by each strip) or blocks (in scratch memory,
    for all strips of a workgroup). ``columns`` x ``rows`` are the parts that each product is split into, ``groups``
    the workgroups that share the parts.
    """

    mr: int
    nv: int
    unroll: int
    kc: int
    mc: int
    rhs: Literal["direct", "strip", "block"]
    pack_lhs: bool
    columns: int
    rows: int
    groups: int
    ko: int = 1

    def __str__(self) -> str:
        packed = {"direct": "operands read in place", "strip": "strips of rhs packed", "block": "blocks of rhs packed"}
        lhs = ", lhs packed" if self.pack_lhs else ""
        return (
            f"{self.mr}x{self.nv} vectors, k by {self.kc * self.ko}, {packed[self.rhs]}{lhs}, {self.groups} workgroups"
        )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class _Part:
    """A part of the summed elements: where in k it begins, how long it is, and the first and number of outer turns."""

    k0: Value
    length: Operand
    turns: tuple[Value, Operand] | None

    @property
    def total(self) -> Operand:
        """Summed elements of the part."""
        if self.turns is None:
            return self.length
        count = self.turns[1]
        if isinstance(count, int) and isinstance(self.length, Value):
            return self.length * count
        return count * self.length  # type: ignore[return-value]


def _memory(memory: Buffer | None) -> Buffer:
    """Memory of a packed operand or of sums, which there is where the plan has it."""
    assert memory is not None
    return memory


class Gemm:
    """The writing of one product's kernel."""

    def __init__(
        self, problem: Product, total: DType, plan: Plan, target: KernelTarget, specs: Sequence[Spec],
        epilogue: Epilogue | None = None, *, pairs: bool = False,
    ) -> None:  # fmt: skip
        """``pairs``: of complex numbers as real ones (see `complex_gemm`)."""
        self.p, self.plan, self.pairs = problem, plan, pairs
        self.elem = total.scalar
        self.lanes = target.lanes(total.bits)
        self.nr = plan.nv * self.lanes
        self.strips = _ceil(problem.n, self.nr)
        self.blocks = _ceil(problem.m, plan.mr)
        self.turns = problem.sums // problem.k
        self.parts = _ceil(problem.k, plan.kc) * _ceil(self.turns, plan.ko)
        self.longest = plan.kc * plan.ko
        self.strip_share = _ceil(self.strips, plan.columns)
        self.block_share = _ceil(self.blocks, plan.rows)
        scratch: list[Spec] = []
        pad = self.lanes
        self.rhs_size = self.strip_share * self.longest * self.nr if plan.rhs == "block" else 0
        self.lhs_size = min(plan.mc, self.block_share) * self.longest * plan.mr + pad if plan.pack_lhs else 0
        if self.rhs_size:
            scratch.append(Spec.of((plan.groups * self.rhs_size + pad,), total))
        if self.lhs_size:
            scratch.append(Spec.of((plan.groups * self.lhs_size,), total))
        operands, results = list(specs[:2]), list(specs[2:])
        sums: int | None = 0  # the result that holds the sums of early parts
        if epilogue is not None:
            operands, results, sums = operands + epilogue.operands, epilogue.results, epilogue.holding(total)
            if sums is None and self.parts > 1:
                sums = len(results) + len(scratch)
                scratch.append(specs[2])
        self.b = KernelBuilder("gemm", operands, results, target, scratch=scratch)
        numbers = [spec.size * spec.dtype.parts for spec in specs[:3]]
        self.lhs, self.rhs = (self.b.operand(i, (numbers[i],)) for i in problem.operands)
        self.out = self.b.result(sums or 0, (numbers[2],)) if epilogue is None or self.parts > 1 else None
        packed = len(results)
        self.packed_rhs = self.b.result(packed, scratch[0].shape) if self.rhs_size else None
        self.packed_lhs = None
        if self.lhs_size:
            packed += bool(self.rhs_size)
            self.packed_lhs = self.b.result(packed, self.b.results[packed].shape)
        if plan.rhs == "strip":
            self.packed_rhs = self.b.stack((self.longest * self.nr,), self.elem)
        self.tile = Tile(self.b, plan.mr, plan.nv, self.lanes, self.elem, plan.unroll)
        # where the last strip is not whole and cannot be moved back, its vectors are masked
        self.column_tail = self.strips * self.nr - problem.n
        self.moves_columns = self.column_tail > 0 and self.strips > 1 and self.parts == 1
        self.row_tail = self.blocks * plan.mr - problem.m
        self.epilogue = None
        if epilogue is not None:
            self.epilogue = EpilogueWriter(self.b, epilogue, total, problem.n, (plan.mr, self.nr), plan.groups)

    # -- the loop nest -----------------------------------------------------------------------------------------------

    def build(self, reason: str) -> Kernel:
        """The finished kernel."""
        b, p, plan = self.b, self.p, self.plan
        pieces = p.batches * plan.columns * plan.rows
        with b.distributed(pieces, plan.groups) as piece:
            rest, part = b.divmod(piece, plan.columns * plan.rows)
            column_part, row_part = b.divmod(part, plan.rows)
            self.origins = p.origins(b, rest)
            strips = self._range(column_part, self.strip_share, self.strips, plan.columns)
            blocks = self._range(row_part, self.block_share, self.blocks, plan.rows)
            group = b.workgroup_id() if pieces > 1 else b.index(0)
            self.rhs_at = group * self.rhs_size if self.rhs_size else b.index(0)
            self.lhs_at = group * self.lhs_size if self.lhs_size else b.index(0)
            if self.turns == 1:
                self._lengths(None, strips, blocks)
            elif plan.kc < p.k:
                with b.for_(0, self.turns) as loop:
                    self._lengths((loop.index, 1), strips, blocks)
            else:
                with b.for_(0, self.turns, plan.ko) as loop:
                    count: Operand = plan.ko
                    if self.turns % plan.ko:
                        count = b.smin(b.index(self.turns) - loop.index, plan.ko)
                    self._lengths((loop.index, count), strips, blocks)
        return b.build((plan.groups,), reason)

    def _lengths(
        self, turns: tuple[Value, Operand] | None, strips: tuple[Value, Value], blocks: tuple[Value, Value]
    ) -> None:
        """The parts of k in these turns of the outer summed dimensions."""
        b, p, kc = self.b, self.p, self.plan.kc
        if kc >= p.k:
            self._part(_Part(b.index(0), p.k, turns), strips, blocks)
            return
        with b.for_(0, p.k, kc) as loop:
            length: Operand = kc
            if p.k % kc:
                length = b.smin(b.index(p.k) - loop.index, kc)
            self._part(_Part(loop.index, length, turns), strips, blocks)

    def _range(self, part: Value, share: int, count: int, parts: int) -> tuple[Value, Value]:
        b = self.b
        if parts == 1:
            return b.index(0), b.index(count)
        start = part * share
        end = start + share
        return start, end if parts * share == count else b.smin(end, count)

    def _part(self, part: _Part, strips: tuple[Value, Value], blocks: tuple[Value, Value]) -> None:
        """One part of k for all strips and row blocks of a workgroup."""
        b, plan = self.b, self.plan
        if plan.rhs == "block":
            with b.for_(*strips) as s:
                self._pack_rhs(part, s.index, self.rhs_at + (s.index - strips[0]) * (self.longest * self.nr))
        if plan.mc >= self.block_share:
            self._rows(part, strips, blocks)
        else:
            with b.for_(*blocks, plan.mc) as m:
                self._rows(part, strips, (m.index, b.smin(m.index + plan.mc, blocks[1])))

    def _rows(self, part: _Part, strips: tuple[Value, Value], blocks: tuple[Value, Value]) -> None:
        b, plan = self.b, self.plan
        size = self.longest * plan.mr
        if plan.pack_lhs:
            with b.for_(*blocks) as r:
                self._pack_lhs(part, r.index, self.lhs_at + (r.index - blocks[0]) * size)
        with b.for_(*strips) as s:
            column = self._column(s.index)
            if plan.rhs == "strip":
                self._pack_rhs(part, s.index, b.index(0))
                rhs, row = _memory(self.packed_rhs), self.nr
                at = b.index(0)
            elif plan.rhs == "block":
                rhs, row = _memory(self.packed_rhs), self.nr
                at = self.rhs_at + (s.index - strips[0]) * (self.longest * self.nr)
            else:
                rhs, row = self.rhs, self.p.rhs.row
                at = self.origins[1] + part.k0 * row + column
            with b.for_(*blocks) as r:
                if plan.pack_lhs:
                    lhs, steps = _memory(self.packed_lhs), (1, plan.mr)
                    start = self.lhs_at + (r.index - blocks[0]) * size
                else:
                    lhs, steps = self.lhs, (self.p.lhs.row, self.p.lhs.column)
                    start = self.origins[0] + self._row(r.index) * steps[0] + part.k0 * steps[1]
                results = self._inner(part.total, Source(lhs, start), steps, Source(rhs, at), row, column)
                self._finish(part, s.index, column, r.index, results)

    # -- places --------------------------------------------------------------------------------------------------------

    def _row(self, block: Value) -> Value:
        row = block * self.plan.mr
        return self.b.moved_inside(row, self.plan.mr, self.p.m)

    def _column(self, strip: Value) -> Value:
        column = strip * self.nr
        return self.b.smin(column, self.p.n - self.nr) if self.moves_columns else column

    def _masks(self, column: Value) -> list[Value | None]:
        """The masks of a strip's vectors; None for whole vectors."""
        if not self.column_tail or self.moves_columns:
            return [None] * self.plan.nv
        return strip_masks(self.b, self.lanes, self.plan.nv, self.p.n, None if self.strips == 1 else column)

    # -- packing -------------------------------------------------------------------------------------------------------

    def _each_turn(self, part: _Part, width: int, at: Value, side: int, pack: Callable[[Value, Value], None]) -> None:
        """Call ``pack(offset in the operand, place in the packed memory)`` for each outer turn of a part."""
        b = self.b
        if part.turns is None:
            pack(b.index(0), at)
            return
        first, count = part.turns
        with b.for_(0, count) as loop:
            number, offset = first + loop.index, b.index(0)
            for d, (size, *steps) in reversed(list(enumerate(self.p.outer))):
                i = number
                if d:
                    number, i = b.divmod(number, size)
                offset = offset + i * steps[side]
            pack(offset, at + loop.index * (self.plan.kc * width))

    def _pack_rhs(self, part: _Part, strip: Value, at: Value) -> None:
        column = self._column(strip)
        start = self.origins[1] + part.k0 * self.p.rhs.row
        self._each_turn(part, self.nr, at, 1, lambda o, to: self._pack_strip(start + o, part.length, column, to))

    def _pack_strip(self, start: Value, length: Operand, column: Value, at: Value) -> None:
        p, memory = self.p, _memory(self.packed_rhs)
        strips = Strips(
            self.b, self.rhs, p.rhs.row, p.rhs.column, p.n, memory, self.nr, self.lanes, self.lanes, self.elem
        )
        masks = None if not self.column_tail or self.moves_columns else self._masks(column)
        if self.pairs:
            strips.pack_pairs(start, length, column, at, masks)
        else:
            strips.pack(start, length, column, at, masks)

    def _pack_lhs(self, part: _Part, block: Value, at: Value) -> None:
        steps = self.p.lhs
        start = self.origins[0] + self._row(block) * steps.row + part.k0 * steps.column
        self._each_turn(part, self.plan.mr, at, 0, lambda o, to: self._pack_panel(start + o, part.length, to))

    def _pack_panel(self, start: Value, length: Operand, at: Value) -> None:
        mr, steps = self.plan.mr, self.p.lhs
        memory = _memory(self.packed_lhs)
        panel = Strips(self.b, self.lhs, steps.column, steps.row, mr, memory, mr, mr, self.lanes, self.elem)
        panel.pack(start, length, 0, at, None)

    def _inner(
        self, length: Operand, left: Source, steps: tuple[int, int], right: Source, row: int, column: Value
    ) -> list[Value]:
        """``mr x nv`` vectors of sums over a part of k."""
        plan, tile = self.plan, self.tile
        masks = self._masks(column) if plan.rhs == "direct" else [None] * plan.nv
        return tile.run([Level(length, steps[1], row)], left, steps[0], right, masks, tile.zeros())

    # -- storing -------------------------------------------------------------------------------------------------------

    def _finish(self, part: _Part, strip: Value, column: Value, block: Value, results: list[Value]) -> None:
        """Store a block of results, or add it to what earlier parts of k have stored."""
        if self.epilogue is not None:
            self._finish_epilogue(self.epilogue, part, strip, column, block, results)
        elif self.column_tail and not self.moves_columns and self.strips > 1:
            with self.b.if_(self.b.cmp("ne", strip, self.strips - 1)) as whole:
                self._put(part, column, block, [None] * self.plan.nv, results)
                whole.else_()
                self._put(part, column, block, self._masks(column), results)
        else:
            self._put(part, column, block, self._masks(column), results)

    def _put(self, part: _Part, column: Value, block: Value, masks: list[Value | None], results: list[Value]) -> None:
        at = self._result_place(column, block)
        if self.parts == 1:
            self._store_rows(range(self.plan.mr), at, masks, results)
        else:
            self._store_once(block, at, masks, self._continued(part, at, masks, results))

    def _finish_epilogue(
        self, epilogue: EpilogueWriter, part: _Part, strip: Value, column: Value, block: Value, results: list[Value]
    ) -> None:
        """Store what the epilogue makes of a block of results, or the sums while they are not complete."""
        b, p = self.b, self.p
        row = self._row(block)
        skipped = (
            block * self.plan.mr - row if self.row_tail else 0,
            strip * self.nr - column if self.moves_columns else 0,
        )
        number = b.udiv(self.origins[2] + row * p.out.row, p.n)
        place = number, max(1, p.out.row // p.n), column, skipped
        if self.parts == 1:
            epilogue.store(results, self.lanes, *place)
            return
        at, masks = self._result_place(column, block), self._masks(column)
        results = self._continued(part, at, masks, results)
        last = b.cmp("sge", part.k0 + self.plan.kc, p.k)
        if part.turns is not None:
            last = b.and_(last, b.cmp("sge", part.turns[0] + self.plan.ko, self.turns))
        with b.if_(last) as complete:
            epilogue.store(results, self.lanes, *place)
            complete.else_()
            self._store_once(block, at, masks, results)

    def _result_place(self, column: Value, block: Value) -> Value:
        return self.origins[2] + self._row(block) * self.p.out.row + column

    def _store_rows(self, rows: range, at: Value, masks: Sequence[Value | None], values: Sequence[Value]) -> None:
        self.tile.store(values, _memory(self.out), at, self.p.out.row, masks, rows)

    def _store_once(self, block: Value, at: Value, masks: Sequence[Value | None], values: Sequence[Value]) -> None:
        """Store a tile without the rows of an earlier one."""
        if self.row_tail:
            with self.b.if_(self.b.cmp("ne", block, self.blocks - 1)):
                self._store_rows(range(self.row_tail), at, masks, values)
        self._store_rows(range(self.row_tail, self.plan.mr), at, masks, values)

    def _continued(
        self, part: _Part, at: Value, masks: Sequence[Value | None], results: Sequence[Value]
    ) -> list[Value]:
        """The sums with those of earlier parts of k."""
        b, plan = self.b, self.plan
        place = part.k0 if part.turns is None else part.k0 + part.turns[0]
        with b.if_(b.cmp("eq", place, 0), [self.tile.type] * len(results)) as first:
            first.yield_(*results)
            first.else_()
            old = [
                b.vload(self.lanes, _memory(self.out), at + (r * self.p.out.row + v * self.lanes), mask=masks[v])
                for r in range(plan.mr)
                for v in range(plan.nv)
            ]
            first.yield_(*(x + y for x, y in zip(old, results)))
        return first.results

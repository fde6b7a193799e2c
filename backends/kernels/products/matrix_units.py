"""Matrix products on the matrix units of a GPU (CUDA's tensor cores): float32 rounded to tf32, and 8-bit integers.

A workgroup has a block of the result. Blocks of both operands go to shared memory, where they lie in panels: as many columns
as a fragment has, row by row, so that each fragment begins at an address of 32 bytes as the units want it. Each of its
subgroups (warps) multiplies fragments of 16 x 16 numbers, whose elements lie in the registers of its threads in an order that
only the hardware knows; so the sums go through shared memory too on their way out.

tf32 is float32 with 10 bits of mantissa. The units leave the others out; they are rounded to nearest, ties away from zero,
on the way in. Products are exact and sums are float32, so the error of a sum of n products is that of the operands, 2^-11 of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import GRID, KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value
from .matrices import Product, Strides

#: Rows and columns of a fragment.
FRAGMENT = 16
#: Rows and columns of a workgroup's block, and of a subgroup's part of it.
BLOCK, PART = 64, 32
#: The depth of the blocks of operands that are in shared memory.
DEPTH = 32
SUBGROUP = 32


@dataclass(frozen=True)
class Unit:
    """What the units multiply: elements of the operands, of the sums, and the depth of a fragment."""

    name: str
    elem: str
    total: str
    depth: int
    kind: str  # the element of a fragment as MLIR names it

    def zero(self, b: KernelBuilder) -> list[Value]:
        """The sums of a fragment before the first product."""
        kind = self._matrix(FRAGMENT, FRAGMENT, self.total, "COp")
        return [b.emit(f"gpu.subgroup_mma_constant_matrix {b.const(0, self.total)} : {kind}", kind)]

    def product(
        self, b: KernelBuilder, sums: Sequence[Value], left: tuple[Buffer, Value], right: tuple[Buffer, Value]
    ) -> list[Value]:  # fmt: skip
        """The sums with the product of two fragments; lines of the left one have its depth, of the right one its width."""
        x = self._load(b, *left, self.depth, self._matrix(FRAGMENT, self.depth, self.kind, "AOp"))
        y = self._load(b, *right, FRAGMENT, self._matrix(self.depth, FRAGMENT, self.kind, "BOp"))
        (z,) = sums
        types = f"{x.type}, {y.type} -> {z.type}"
        return [b.emit(f"gpu.subgroup_mma_compute {x}, {y}, {z} : {types}", z.type)]

    def store(self, b: KernelBuilder, sums: Sequence[Value], memory: Buffer, at: Value) -> None:
        """Write the sums of a fragment, in lines of its width."""
        (z,) = sums
        b.effect(
            f'"gpu.subgroup_mma_store_matrix"({z}, {memory.name}, {at}) <{{leadDimension = {FRAGMENT} : index}}> : '
            f"({z.type}, {memory.type}, index) -> ()"
        )

    @staticmethod
    def _matrix(rows: int, columns: int, elem: str, operand: str) -> str:
        return f'!gpu.mma_matrix<{rows}x{columns}x{elem}, "{operand}">'

    @staticmethod
    def _load(b: KernelBuilder, memory: Buffer, at: Value, line: int, kind: str) -> Value:
        text = f'"gpu.subgroup_mma_load_matrix"({memory.name}, {at}) <{{leadDimension = {line} : index}}> : '
        return b.emit(f"{text}({memory.type}, index) -> {kind}", kind)


TF32 = Unit("tf32", "f32", "f32", 8, "f32")
I8 = Unit("i8", "i8", "i32", 16, "si8")


def unit_of(lhs: DType, rhs: DType, total: DType, coarse: bool, target: KernelTarget) -> Unit:
    """The unit that multiplies operands of these dtypes; ``coarse`` allows float32 to be rounded. Raises :class:`NoKernel`."""
    units = {("f32", "f32", "f32"): TF32, ("i8", "i8", "i32"): I8}
    unit = units.get((lhs.name, rhs.name, total.name))
    if unit is None:
        raise NoKernel(f"no matrix unit for {lhs.name} @ {rhs.name} in {total.name} has a kernel")
    if unit.name not in target.matrix_units:
        raise NoKernel(f"the target has no matrix units for {unit.name}")
    if unit is TF32 and not coarse:
        raise NoKernel("the default precision is float32 in full; precision='tensorfloat32' would use matrix units")
    return unit


def by_matrix_units(p: Product, unit: Unit, specs: Sequence[Spec], target: KernelTarget) -> Kernel:
    """The kernel of a product; ``specs`` are those of its operands and result. Raises :class:`NoKernel`."""
    if p.outer:
        raise NoKernel(f"{p}: sums over dimensions that are not one")
    if max(spec.size for spec in specs) >= 1 << 31:
        raise NoKernel(f"{p}: arrays of more than 2^31 elements")
    if target.threads != (BLOCK // PART) ** 2 * SUBGROUP:
        raise NoKernel(f"workgroups of {target.threads} threads")
    return _Writer(p, unit, specs, target).build()


class _Writer:
    def __init__(self, p: Product, unit: Unit, specs: Sequence[Spec], target: KernelTarget) -> None:
        self.p, self.unit = p, unit
        self.b = b = KernelBuilder(f"gemm_{unit.name}", specs[:2], specs[2:], target)
        self.arrays = [b.operand(i, (specs[i].size,)) for i in range(2)]
        self.out = b.result(0, (specs[2].size,))
        self.left, self.right = (b.shared((BLOCK * DEPTH,), unit.elem) for _ in range(2))
        self.sums = b.shared((BLOCK * BLOCK,), unit.total)

    def build(self) -> Kernel:
        """The finished kernel."""
        b, p = self.b, self.p
        rows, columns = -(-p.m // BLOCK), -(-p.n // BLOCK)
        pieces = p.batches * rows * columns
        warp_row, warp_column = b.divmod(b.udiv(b.thread_id(), SUBGROUP), BLOCK // PART)
        with b.pieces(pieces) as piece:
            number, block = b.divmod(piece, rows * columns)
            i, j = (x * BLOCK for x in b.divmod(block, columns))
            origins = p.origins(b, number)
            zeros = [z for _ in self._fragments() for z in self.unit.zero(b)]
            with b.for_(0, p.k, DEPTH, zeros) as loop:
                self._read(0, self.left, origins[0], p.lhs, i, loop.index)
                self._read(1, self.right, origins[1], p.rhs, loop.index, j)
                b.barrier()
                loop.yield_(*self._multiplied(loop.carried, warp_row * PART, warp_column * PART))
                b.barrier()
            self._write(loop.results, warp_row * PART, warp_column * PART, origins[2], i, j)
        unit = f"{self.unit.name} units, blocks of {BLOCK}x{BLOCK} by {DEPTH}"
        return b.build((min(pieces, GRID),), f"{p} {self.unit.elem}: {unit}, {pieces} blocks")

    @staticmethod
    def _fragments() -> list[tuple[int, int]]:
        """Where the fragments of a subgroup's part begin in it."""
        return [(r, c) for r in range(0, PART, FRAGMENT) for c in range(0, PART, FRAGMENT)]

    def _read(self, side: int, memory: Buffer, origin: Value, strides: Strides, i: Value, j: Value) -> None:
        """A block of an operand, from row i and column j on, into its panels; zeros beyond its ends."""
        b, p = self.b, self.p
        rows, columns = (BLOCK, DEPTH) if side == 0 else (DEPTH, BLOCK)
        sizes = (p.m, p.k) if side == 0 else (p.k, p.n)
        panel = self.unit.depth if side == 0 else FRAGMENT
        by_rows = strides.column <= strides.row
        with b.for_(b.thread_id(), rows * columns, b.target.threads) as loop:
            # Neighbouring threads read neighbours in memory.
            r, c = b.divmod(loop.index, columns) if by_rows else b.divmod(loop.index, rows)[::-1]
            row, column = i + r, j + c
            at = b.smin(row, sizes[0] - 1) * strides.row + b.smin(column, sizes[1] - 1) * strides.column
            x = b.load(self.arrays[side], origin + at)
            inside = self._inside([(row, sizes[0], rows), (column, sizes[1], columns)])
            if inside is not None:
                x = b.select(inside, x, b.const(0, self.unit.elem))
            if self.unit.name == TF32.name:
                x = rounded_to_tf32(b, x)
            number, within = b.divmod(c, panel)
            b.store(x, memory, (number * rows + r) * panel + within)

    def _inside(self, places: Sequence[tuple[Value, int, int]]) -> Value | None:
        """Whether places are inside their dimensions; None where blocks divide these."""
        b, inside = self.b, None
        for place, size, block in places:
            if size % block:
                one = b.cmp("slt", place, size)
                inside = one if inside is None else inside & one
        return inside

    def _multiplied(self, sums: Sequence[Value], row: Value, column: Value) -> list[Value]:
        """The sums of a subgroup's fragments with those of the blocks in shared memory."""
        b, unit = self.b, self.unit
        each = len(sums) // len(self._fragments())
        out = [list(sums[k : k + each]) for k in range(0, len(sums), each)]
        for depth in range(0, DEPTH, unit.depth):
            for k, (r, c) in enumerate(self._fragments()):
                left = ((row + r) + (depth // unit.depth) * BLOCK) * unit.depth
                right = b.udiv(column + c, FRAGMENT) * (DEPTH * FRAGMENT) + depth * FRAGMENT
                out[k] = unit.product(b, out[k], (self.left, left), (self.right, right))
        return [x for values in out for x in values]

    def _write(self, sums: Sequence[Value], row: Value, column: Value, origin: Value, i: Value, j: Value) -> None:
        """A block of the result."""
        b, p, unit = self.b, self.p, self.unit
        each = len(sums) // len(self._fragments())
        for k, (r, c) in enumerate(self._fragments()):
            at = (b.udiv(column + c, FRAGMENT) * BLOCK + (row + r)) * FRAGMENT
            unit.store(b, sums[k * each : (k + 1) * each], self.sums, at)
        b.barrier()
        by_rows = p.out.column <= p.out.row
        with b.threads(BLOCK * BLOCK) as at:
            r, c = b.divmod(at, BLOCK) if by_rows else b.divmod(at, BLOCK)[::-1]
            panel, within = b.divmod(c, FRAGMENT)
            x = b.load(self.sums, (panel * BLOCK + r) * FRAGMENT + within)
            place = origin + (i + r) * p.out.row + (j + c) * p.out.column
            inside = self._inside([(i + r, p.m, BLOCK), (j + c, p.n, BLOCK)])
            if inside is None:
                b.store(x, self.out, place)
            else:
                with b.if_(inside):
                    b.store(x, self.out, place)


def rounded_to_tf32(b: KernelBuilder, x: Value) -> Value:
    """A float32 with 10 bits of mantissa, rounded to nearest, ties away from zero; NaN stays NaN."""
    bits = b.bitcast(x, "i32")
    rounded = b.and_(b.add(bits, 0x1000), ~0x1FFF)
    nan: Operand = 0x7FC00000
    return b.bitcast(b.select(b.cmp("uno", x, x), b.const(nan, "i32"), rounded), "f32")

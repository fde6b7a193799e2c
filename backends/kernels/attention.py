"""Attention: a product, a reduction cluster over its rows, and the product that sums over those rows, in one kernel.

A workgroup takes the rows (queries) of a product a block at a time, as many as a tile of sums has. The block's rows of
the first product go to memory of its own that fits the cache, the cluster (a softmax, with whatever scales, masks and
biases it) is computed there row by row, and the block is multiplied with the second right operand. Nothing of the size
of the first product is stored. Both right operands are packed once for a run of blocks.

The idea, never to store the scores, is that of Dao et al., FlashAttention (2022); whole rows are kept, as they fit the
caches of a CPU, so any cluster of the fuse pass will do and numbers are those of the unfused program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Jaxpr, Var

from .builder import KernelBuilder
from .dtypes import DType, dtype_of
from .elements import Expand, NotSupported
from .gemm_plan import GROUP_FLOPS, UNROLL, tile, tiles
from .kernel import Kernel, Spec
from .keys import divmod_
from .matrices import Product
from .packing import Strips
from .reduction_space import Cluster, Space
from .reduction_values import Emitter
from .reductions import keep, passes_over, vector_lanes
from .target import KernelTarget
from .tile import Level, Source, Tile
from .values import Value

#: Rows of a part: packing both right operands again is a small part of its work.
LEAST_ROWS = 128
#: Fewer rows than this are not worth packing them for.
FEWEST_ROWS = 8
#: Rows shorter than this many vectors are mostly ends.
LEAST_VECTORS = 2


@dataclass(frozen=True)
class Rows:
    """The cluster between the products: of its inputs, the one of this number is the first product (``scores``); the
    others are operands."""

    jaxpr: Jaxpr
    number: int
    expand: Expand

    @property
    def scores(self) -> Var:
        """The first product."""
        return self.jaxpr.invars[self.number]

    @property
    def others(self) -> list[Var]:
        """The inputs that are operands of the kernel, after the three of the products."""
        return [v for v in self.jaxpr.invars if v is not self.scores]

    @property
    def result(self) -> Var:
        """What the second product sums over."""
        (v,) = self.jaxpr.outvars
        if not isinstance(v, Var):
            raise NotSupported("rows that are a literal")
        return v


@dataclass(frozen=True)
class _Side:
    """A right operand in strips of ``nv`` vectors, for tiles of so many rows."""

    nv: int
    lanes: int
    columns: int
    depth: int

    @property
    def width(self) -> int:
        return self.nv * self.lanes

    @property
    def strips(self) -> int:
        return -(-self.columns // self.width)

    @property
    def size(self) -> int:
        """Numbers of the packed operand; turning writes up to a vector more."""
        return self.strips * self.depth * self.width + self.lanes


def attention(
    first: Product, second: Product, rows: Rows, total: DType, specs: Sequence[Spec], target: KernelTarget
) -> Kernel:
    """The kernel of ``second(cluster(first(x, y)), z)``; operands x, y, z and the cluster's others, as in ``specs``.

    ``specs`` are those of x, y, z and the result. Sums have the dtype ``total``. Raises :class:`NotSupported`.
    """
    return _Writer(first, second, rows, total, specs, target).build()


class _Writer:
    def __init__(
        self, first: Product, second: Product, rows: Rows, total: DType, specs: Sequence[Spec], target: KernelTarget
    ) -> None:
        self.first, self.second, self.rows = first, second, rows
        self.space = rows.scores.aval.shape
        self.queries, self.keys = self.space[-2:]
        self._check(total, specs, target)
        self.lanes = lanes = target.lanes(total.bits)
        self.mr, nv = tile(self.queries, self.keys, lanes, target)
        widest = min(
            (n for m, n in tiles(target) if m == self.mr),
            key=lambda n: -(-second.n // (n * lanes)) * (max(self.mr * n / 2, 4.0) + 0.7),
        )
        self.right = _Side(nv, lanes, self.keys, first.k), _Side(widest, lanes, second.n, self.keys)
        self.line = self.right[0].strips * self.right[0].width
        self.blocks = -(-self.queries // self.mr)
        batches = first.batches
        wanted = max(1, min(target.workgroups, (first.flops + second.flops) // GROUP_FLOPS))
        parts = max(1, min(-(-wanted // batches), self.queries // LEAST_ROWS))
        self.share = -(-self.blocks // parts)
        self.parts = -(-self.blocks // self.share)
        self.groups = min(wanted, batches * self.parts)
        self.pieces = batches * self.parts
        others = [Spec.of(v.aval.shape, v.aval.dtype) for v in rows.others]
        scratch = [Spec.of((self.groups * side.size,), total) for side in self.right]
        scratch += [Spec.of((self.groups * self.mr * self.line,), v.aval.dtype) for v in (rows.scores, rows.result)]
        self.b = b = KernelBuilder("attention", [*specs[:3], *others], specs[3:], target, scratch=scratch)
        self.operands = [b.operand(i, (specs[i].size,)) for i in range(3)]
        self.out = b.result(0, (specs[3].size,))
        self.packed = [b.result(1 + i, scratch[i].shape) for i in range(2)]
        self.block = [b.result(3 + i, scratch[2 + i].shape) for i in range(2)]
        self.tiles = [Tile(b, self.mr, side.nv, lanes, total.scalar, UNROLL) for side in self.right]
        axis = len(self.space) - 1
        cluster = Cluster(rows.jaxpr, Space.of(self.space, (axis,)))
        numbers = {v: 3 + i for i, v in enumerate(rows.others)}
        own = {rows.scores: self.block[0], rows.result: self.block[1]}
        self.emitter = Emitter(cluster, b, rows.expand, numbers, own)
        self.width = vector_lanes(cluster, target, self.keys, LEAST_VECTORS)
        keep(self.emitter, cluster)
        self.strips = [
            Strips(b, self.operands[1 + i], p.rhs.row, p.rhs.column, side.columns, self.packed[i], side.width, lanes,
                   total.scalar)
            for i, (p, side) in enumerate(zip((first, second), self.right))
        ]  # fmt: skip

    def _check(self, total: DType, specs: Sequence[Spec], target: KernelTarget) -> None:
        first, second = self.first, self.second
        scores, result = (dtype_of(v.aval.dtype) for v in (self.rows.scores, self.rows.result))
        if target.kind != "cpu":
            raise NotSupported("attention kernels are for CPUs")
        if total.kind != "float" or total.bits < 32 or scores != total or specs[3].dtype != total:
            raise NotSupported(f"sums in {total.name} of {scores.name} scores and {specs[3].dtype.name} results")
        if result.kind != "float" or any(s.dtype.kind != "float" or s.dtype.bits > total.bits for s in specs[:3]):
            raise NotSupported("operands of other kinds than the sums")
        if self.queries < FEWEST_ROWS:
            raise NotSupported(f"{self.queries} rows are not worth packing the right operands for")
        if self.keys < LEAST_VECTORS * target.lanes(total.bits) // 2:
            raise NotSupported(f"rows of {self.keys} elements")
        batches = math.prod(self.space[:-2])
        whole = (first.m, first.n, second.m, second.k) == (self.queries, self.keys, self.queries, self.keys)
        if not whole or first.outer or second.outer or not first.batches == second.batches == batches:
            raise NotSupported(f"products {first} and {second} of other forms than rows by columns")
        if second.out.column != 1:
            raise NotSupported("a result that is not stored by rows")

    def build(self) -> Kernel:
        """The finished kernel."""
        b, mr = self.b, self.mr
        with b.spread(self.pieces, self.groups) as piece:
            number, part = divmod_(b, piece, self.parts)
            x, y, _ = self.first.origins(b, number)
            _, z, out = self.second.origins(b, number)
            group = b.workgroup_id() if self.pieces > 1 else b.index(0)
            packed = [group * side.size for side in self.right]
            block = group * (mr * self.line)
            for i, start in enumerate((y, z)):
                self._pack(i, start, packed[i])
            first = part * self.share
            with b.for_(first, b.smin(first + self.share, b.index(self.blocks))) as loop:
                row = loop.index * mr
                if self.queries % mr:
                    row = b.smin(row, self.queries - mr)
                self._scores(x + row * self.first.lhs.row, packed[0], block)
                with b.for_(0, mr) as r:
                    for memory in self.emitter.starts:
                        self.emitter.starts[memory] = block + r.index * self.line
                    passes_over(self.emitter, number * self.queries + row + r.index, self.width)
                self._results(packed[1], block, out + row * self.second.out.row)
        cluster = self.emitter.cluster
        names = "+".join(dict.fromkeys(e.primitive.name for e in cluster.reductions))
        right = " and ".join(f"{mr}x{side.nv}" for side in self.right)
        reason = (
            f"{self.first}, {names} of its rows, times {self.keys}x{self.second.n}: blocks of {mr} rows kept, "
            f"{right} vectors, {self.groups} workgroups"
        )
        return b.build((self.groups,), reason)

    def _pack(self, i: int, start: Value, at: Value) -> None:
        """A right operand in strips."""
        b, side = self.b, self.right[i]
        with b.for_(0, side.strips) as s:
            column = s.index * side.width
            masks = self._masks(side, column) if side.columns % side.width else None
            self.strips[i].pack(start, side.depth, column, at + s.index * (side.depth * side.width), masks)

    def _masks(self, side: _Side, column: Value) -> list[Value | None]:
        b, lanes = self.b, self.lanes
        return [b.mask(lanes, b.smax(b.index(side.columns - v * lanes) - column, 0)) for v in range(side.nv)]

    def _sums(self, i: int, left: Source, row: int, step: int, strip: Value, packed: Value) -> list[Value]:
        """A tile of a product."""
        side, tile_ = self.right[i], self.tiles[i]
        right = Source(self.packed[i], packed + strip * (side.depth * side.width))
        levels = [Level(side.depth, step, side.width)]
        return tile_.run(levels, left, row, right, [None] * side.nv, tile_.zeros())

    def _scores(self, x: Value, packed: Value, block: Value) -> None:
        """The rows of the first product; behind their ends is anything."""
        b, side, lhs = self.b, self.right[0], self.first.lhs
        with b.for_(0, side.strips) as s:
            sums = self._sums(0, Source(self.operands[0], x), lhs.row, lhs.column, s.index, packed)
            for i, value in enumerate(sums):
                r, v = divmod(i, side.nv)
                b.vstore(value, self.block[0], block + s.index * side.width + (r * self.line + v * self.lanes))

    def _results(self, packed: Value, block: Value, out: Value) -> None:
        b, side = self.b, self.right[1]
        with b.for_(0, side.strips) as s:
            sums = self._sums(1, Source(self.block[1], block), self.line, 1, s.index, packed)
            column = s.index * side.width
            masks = self._masks(side, column) if side.columns % side.width else [None] * side.nv
            for i, value in enumerate(sums):
                r, v = divmod(i, side.nv)
                at = out + column + (r * self.second.out.row + v * self.lanes)
                b.vstore(value, self.out, at, mask=masks[v])

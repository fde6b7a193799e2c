"""Attention: products, a reduction cluster over their rows, and a product that sums over those rows, in one kernel.

A workgroup takes the rows (queries) of a product a block at a time, as many as a tile of sums has. The block's rows of
the first product go to memory of its own that fits the cache, the cluster (a softmax, with whatever scales, masks and
biases it) is computed there row by row, and the block is multiplied with the second right operand. Nothing of the size
of the first product is stored. Both right operands are packed once for a run of blocks.

There may be several first products of one form, as in the gradient, whose cluster reads the scores and the gradient by
the weights; rows that others read too are stored, and multiplied while the cache has them.

The idea, never to store the scores, is that of Dao et al., FlashAttention (2022); whole rows are kept, as they fit the
caches of a CPU, so any cluster of the fuse pass will do and numbers are those of the unfused program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Value
from ..fused.cluster import ReductionCluster, Space
from ..fused.passes import keep, passes_over
from ..fused.reductions import vector_lanes
from ..fused.values import Values
from .attention_by_threads import attention_by_threads
from .attention_rows import AttentionRows, check
from .matrices import Product
from .packing import Strips
from .plans import GROUP_FLOPS, UNROLL, tile, tiles
from .register_tile import Level, Source, Tile, strip_masks

#: Rows of a part: packing both right operands again is a small part of its work.
LEAST_ROWS = 128
#: Fewer rows than this are not worth packing them for.
FEWEST_ROWS = 8
#: Rows shorter than this many vectors are mostly ends.
LEAST_VECTORS = 2


@dataclass(frozen=True)
class _Side:
    """A right operand in strips of ``nv`` vectors, for tiles of so many rows."""

    nv: int
    lanes: int
    columns: int
    depth: int

    @property
    def width(self) -> int:
        """Columns of a strip."""
        return self.nv * self.lanes

    @property
    def strips(self) -> int:
        """Strips of the operand: the last may have fewer columns."""
        return -(-self.columns // self.width)

    @property
    def size(self) -> int:
        """Numbers of the packed operand; turning writes up to a vector more."""
        return self.strips * self.depth * self.width + self.lanes


def attention(
    products: Sequence[Product], rows: AttentionRows, total: DType, specs: Sequence[Spec], target: KernelTarget
) -> Kernel:
    """The kernel of ``second(cluster(first(x, y), ...), z)``; operands x, y of each first product, z and the cluster's
    others, as in ``specs``; results the rows that are stored, and what the second product makes.

    ``products`` are the first ones and the second one, ``specs`` those of their operands and of the second one's result.
    Sums have the dtype ``total``. Raises :class:`NoKernel`.
    """
    check(products, rows, total, specs)
    if target.kind == "gpu":
        return attention_by_threads(products, rows, total, specs, target)
    return _Writer(products, rows, total, specs, target).build()


class _Writer:
    def __init__(
        self,
        products: Sequence[Product],
        rows: AttentionRows,
        total: DType,
        specs: Sequence[Spec],
        target: KernelTarget,
    ) -> None:
        self.rows = rows
        *self.firsts, self.second = products
        self.space = rows.scores[0].aval.shape
        self.queries, self.keys = self.space[-2:]
        *operands, out = specs
        self.total = total
        self._check(target)
        self.lanes = lanes = target.lanes(total.bits)
        self.mr, nv = tile(self.queries, self.keys, lanes, target)
        widest = min(
            (n for m, n in tiles(target) if m == self.mr),
            key=lambda n: -(-self.second.n // (n * lanes)) * (max(self.mr * n / 2, 4.0) + 0.7),
        )
        self.right = [_Side(nv, lanes, self.keys, p.k) for p in self.firsts]
        self.right.append(_Side(widest, lanes, self.second.n, self.keys))
        self.line = self.right[0].strips * self.right[0].width
        self.blocks = -(-self.queries // self.mr)
        batches = self.firsts[0].batches
        wanted = target.groups(sum(p.flops for p in products), GROUP_FLOPS)
        parts = max(1, min(-(-wanted // batches), self.queries // LEAST_ROWS))
        self.share = -(-self.blocks // parts)
        self.parts = -(-self.blocks // self.share)
        self.groups = min(wanted, batches * self.parts)
        self.pieces = batches * self.parts
        others = [Spec.of(v.aval.shape, v.aval.dtype) for v in rows.others]
        results = [*(Spec.of(v.aval.shape, v.aval.dtype) for v in rows.results), out]
        # Rows of the workgroup's own: the first products, and what is multiplied if nobody else reads it.
        summed = rows.output(rows.summed)
        self.shared = rows.summed in rows.stored
        kept = [*rows.scores, *([] if self.shared else [summed])]
        scratch = [Spec.of((self.groups * side.size,), total) for side in self.right]
        scratch += [Spec.of((self.groups * self.mr * self.line,), v.aval.dtype) for v in kept]
        self.b = b = KernelBuilder("attention", [*operands, *others], results, target, scratch=scratch)
        self.operands = [b.operand(i, (spec.size,)) for i, spec in enumerate(operands)]
        memory = [b.result(len(results) + i, spec.shape) for i, spec in enumerate(scratch)]
        self.packed = memory[: len(self.right)]
        own = dict(zip(kept, memory[len(self.right) :]))
        self.own = [own[v] for v in rows.scores]
        self.tiles = [Tile(b, self.mr, side.nv, lanes, total.scalar, UNROLL) for side in self.right]
        axis = len(self.space) - 1
        cluster = ReductionCluster(rows.jaxpr, Space.of(self.space, (axis,)))
        numbers = {v: len(operands) + i for i, v in enumerate(rows.others)}
        self.emitter = Values(cluster, b, rows.expand, numbers, own)
        self.width = vector_lanes(cluster, target, self.keys, LEAST_VECTORS)
        keep(self.emitter, cluster)
        # The right operands: the second of each first product's two, and the last one.
        right = [*self.operands[1::2], *self.operands[-1:]]
        self.strips = [
            Strips(b, x, p.rhs.row, p.rhs.column, side.columns, memory, side.width, lanes, lanes, total.scalar)
            for x, p, side, memory in zip(right, products, self.right, self.packed)
        ]
        self.out = b.result(len(results) - 1, (out.size,))
        self.left = b.result(rows.stored.index(rows.summed), (summed.aval.size,)) if self.shared else own[summed]

    def _check(self, target: KernelTarget) -> None:
        if self.queries < FEWEST_ROWS:
            raise NoKernel(f"{self.queries} rows are not worth packing the right operands for")
        if self.keys < LEAST_VECTORS * target.lanes(self.total.bits) // 2:
            raise NoKernel(f"rows of {self.keys} elements")

    def build(self) -> Kernel:
        """The finished kernel."""
        b, mr, products = self.b, self.mr, [*self.firsts, self.second]
        with b.distributed(self.pieces, self.groups) as piece:
            number, part = b.divmod(piece, self.parts)
            origins = [p.origins(b, number) for p in products]
            group = b.workgroup_id() if self.pieces > 1 else b.index(0)
            packed = [group * side.size for side in self.right]
            block = group * (mr * self.line)
            for i, (_, start, _) in enumerate(origins):
                self._pack(i, start, packed[i])
            first = part * self.share
            with b.for_(first, b.smin(first + self.share, b.index(self.blocks))) as loop:
                row = b.moved_inside(loop.index * mr, mr, self.queries)
                for i, p in enumerate(self.firsts):
                    self._scores(i, origins[i][0] + row * p.lhs.row, packed[i], block)
                line = number * self.queries + row
                with b.for_(0, mr) as r:
                    for memory in self.emitter.starts:
                        self.emitter.starts[memory] = block + r.index * self.line
                    passes_over(self.emitter, line + r.index, self.width)
                left = Source(self.left, line * self.keys if self.shared else block)
                self._results(packed[-1], left, origins[-1][2] + row * self.second.out.row)
        names = "+".join(dict.fromkeys(e.primitive.name for e in self.emitter.cluster.reductions))
        right = " and ".join(f"{mr}x{side.nv}" for side in self.right)
        firsts = f"{' and '.join(map(str, self.firsts))}, {names} of {'its' if len(self.firsts) == 1 else 'their'} rows"
        stored = f"{len(self.rows.stored)} arrays of rows stored, " if self.rows.stored else ""
        reason = (
            f"{firsts}, times {self.keys}x{self.second.n}: {stored}blocks of {mr} rows kept, {right} vectors, "
            f"{self.groups} workgroups"
        )
        return b.build((self.groups,), reason)

    def _pack(self, i: int, start: Value, at: Value) -> None:
        """A right operand in strips."""
        b, side = self.b, self.right[i]
        with b.for_(0, side.strips) as s:
            column = s.index * side.width
            place = at + s.index * (side.depth * side.width)
            self.strips[i].pack(start, side.depth, column, place, self._masks(side, column))

    def _masks(self, side: _Side, column: Value) -> list[Value | None] | None:
        """The masks of a strip's vectors; None where all strips are whole."""
        whole = side.columns % side.width == 0
        return None if whole else strip_masks(self.b, self.lanes, side.nv, side.columns, column)

    def _sums(self, i: int, left: Source, row: int, step: int, strip: Value, packed: Value) -> list[Value]:
        """A tile of a product."""
        side, tile_ = self.right[i], self.tiles[i]
        right = Source(self.packed[i], packed + strip * (side.depth * side.width))
        levels = [Level(side.depth, step, side.width)]
        return tile_.run(levels, left, row, right, [None] * side.nv, tile_.zeros())

    def _scores(self, number: int, x: Value, packed: Value, block: Value) -> None:
        """The rows of a first product; behind their ends is anything."""
        b, side, lhs = self.b, self.right[number], self.firsts[number].lhs
        with b.for_(0, side.strips) as s:
            left = Source(self.operands[2 * number], x)
            sums = self._sums(number, left, lhs.row, lhs.column, s.index, packed)
            self.tiles[number].store(sums, self.own[number], block + s.index * side.width, self.line)

    def _results(self, packed: Value, left: Source, out: Value) -> None:
        b, side = self.b, self.right[-1]
        line = self.keys if self.shared else self.line
        with b.for_(0, side.strips) as s:
            sums = self._sums(len(self.right) - 1, left, line, 1, s.index, packed)
            column = s.index * side.width
            self.tiles[-1].store(sums, self.out, out + column, self.second.out.row, self._masks(side, column))

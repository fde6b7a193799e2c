"""Attention on GPUs: a workgroup has some rows (queries) and goes over the columns (keys) a tile at a time.

For each level of the cluster it goes over all tiles: a tile of the first products is computed into shared memory, where each row
has as many threads as the others; they reduce it, and at the end combine what they have in shared memory. At the level
of the rows that are multiplied, the tile of these is multiplied with its part of the last right operand, into sums in registers.
So rows may be of any length, and the numbers are those of the unfused program, but for the order of sums.

What is computed again at each level is the first products, unless one tile holds whole rows. Online softmax (Dao et al.,
FlashAttention, 2022) would compute them once; it is a form of softmax alone, and this is one of any cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Var

from ..core.builder import GRID, KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Value
from ..elements.memory import Memory
from ..fused.accumulator import Accumulator
from ..fused.cluster import ReductionCluster, Space
from ..fused.passes import folded, keep
from ..fused.values import Frame, Values
from .attention_rows import AttentionRows
from .matrices import Product

#: Columns of a tile where rows do not fit as a whole.
TILE = 64
#: The most rows of a workgroup, and the fewest for which whole rows are better than tiles.
MOST_ROWS, WHOLE_ROWS = 32, 16
#: With fewer rows what is read of the right operands serves too little.
LEAST_ROWS = 4
#: A thread's own part of a product: so many rows and columns, or fewer where the product is small.
PART = 4
#: Sums of the last product that a thread may keep in registers.
MOST_SUMS = 64
#: What lines of shared memory are longer than what is in them: neighbouring rows begin in different banks.
PAD = 4

Sums = list[Value]


def attention_by_threads(
    products: Sequence[Product], rows: AttentionRows, total: DType, specs: Sequence[Spec], target: KernelTarget
) -> Kernel:
    """The kernel of attention on a GPU; see `quire.backends.kernels.products.attention.attention`. Raises :class:`NoKernel`."""
    return _Writer(products, rows, total, specs, target).build()


@dataclass(frozen=True)
class _Parts:
    """How a product of some rows and columns is parted among threads: ``each`` rows and columns of one."""

    rows: int
    columns: int
    each: tuple[int, int]

    @staticmethod
    def of(rows: int, columns: int, threads: int) -> _Parts:
        """Parts as large as leave none of the threads without one, if any do."""
        sizes = [(r, c) for c in (4, 2, 1) for r in (4, 2, 1) if r <= rows and c <= columns]
        sizes.sort(key=lambda each: -each[0] * each[1])
        return next(
            (p for e in sizes if (p := _Parts(rows, columns, e)).count >= threads), _Parts(rows, columns, (1, 1))
        )

    @property
    def across(self) -> int:
        """Parts beside each other."""
        return -(-self.columns // self.each[1])

    @property
    def count(self) -> int:
        """All parts."""
        return self.rows // self.each[0] * self.across


class _Writer:
    def __init__(
        self, products: Sequence[Product], rows: AttentionRows, total: DType, specs: Sequence[Spec], target: KernelTarget
    ) -> None:  # fmt: skip
        self.rows, self.total = rows, total
        *self.firsts, self.second = products
        *operands, out = specs
        if any(spec.dtype != total for spec in operands):
            raise NoKernel("products of 16-bit floats are for matrix units, which its kernel does not use")
        space = rows.scores[0].aval.shape
        self.queries, self.keys = space[-2:]
        others = [Spec.of(v.aval.shape, v.aval.dtype) for v in rows.others]
        results = [*(Spec.of(v.aval.shape, v.aval.dtype) for v in rows.results), out]
        self.b = b = KernelBuilder("attention", [*operands, *others], results, target)
        self.operands = [b.operand(i, (spec.size,)) for i, spec in enumerate(operands)]
        self.out = b.result(len(results) - 1, (out.size,))
        self.cluster = ReductionCluster(rows.jaxpr, Space.of(space, (len(space) - 1,)))
        self.summed = rows.output(rows.summed)
        whole = self._fitting(self.keys, self.cluster.kept())
        self.width = self.keys if whole >= min(WHOLE_ROWS, self.queries) else min(TILE, self.keys)
        self.block = min(whole if self.width == self.keys else self._fitting(self.width, ()), self._most())
        if self.block < min(LEAST_ROWS, self.queries):
            raise NoKernel(
                f"{LEAST_ROWS} rows do not fit into the {target.most_shared_bytes} bytes of shared memory, or registers"
            )
        self.tiles = -(-self.keys // self.width)
        self.line = _line(self.width)
        self.own = {v: self._shared_rows(v) for v in (*rows.scores, self.summed)}
        self.left = [b.shared((self.block * _line(p.k),), total.scalar) for p in self.firsts]
        self.exchange: dict[tuple[int, str], Buffer] = {}
        numbers = {v: len(operands) + i for i, v in enumerate(rows.others)}
        stored = [i for i, n in enumerate(rows.stored) if n != rows.summed]
        self.emitter = Values(self.cluster, b, rows.expand, numbers, self.own, results=stored)
        if self.tiles == 1:
            keep(self.emitter, self.cluster, self._row_memory)

    # -- memory ----------------------------------------------------------------------------------------------

    def _fitting(self, width: int, kept: Sequence[Var]) -> int:
        """Rows of a workgroup with so many columns at a time: a power of two; 0 where not one fits."""
        target = self.b.target
        rows = {v: v.aval.dtype.itemsize for v in (*self.rows.scores, self.summed, *kept)}
        each = _line(width) * sum(rows.values()) + sum(_line(p.k) for p in self.firsts) * self.total.nbytes
        exchanged = 16 * target.threads * max(1, len(self.cluster.reductions))
        fitting = min(max(0, target.most_shared_bytes - exchanged) // each, self.queries, MOST_ROWS)
        return 1 << (fitting.bit_length() - 1) if fitting else 0

    def _most(self) -> int:
        """Rows of which a thread can keep its sums of the last product."""
        fitting = max(1, MOST_SUMS * self.b.target.threads // self.second.n)
        return 1 << (fitting.bit_length() - 1)

    def _shared_rows(self, v: Var) -> Buffer:
        return self.b.shared((self.block * self.line * Memory.numbers(v.aval.dtype),), Memory.element(v.aval.dtype))

    def _row_memory(self, v: Var) -> Memory:
        """Rows for a value that later passes read."""
        memory = Memory(self.emitter.elements, self._shared_rows(v), v.aval.dtype)
        self.emitter.starts[memory] = 0
        return memory

    # -- the kernel ------------------------------------------------------------------------------------------

    def build(self) -> Kernel:
        """The finished kernel."""
        b, products = self.b, [*self.firsts, self.second]
        blocks = -(-self.queries // self.block)
        pieces = self.firsts[0].batches * blocks
        with b.pieces(pieces) as piece:
            number, block = b.divmod(piece, blocks)
            origins = [p.origins(b, number) for p in products]
            row = b.moved_inside(block * self.block, self.block, self.queries)
            self.emitter.rows = {}
            for i, p in enumerate(self.firsts):
                self._read_left(i, origins[i][0] + row * p.lhs.row)
            right = [origin[1] for origin in origins]
            if self.tiles == 1:
                for i in range(len(self.firsts)):
                    self._scores(i, right[i], b.index(0))
            for level in range(self.cluster.levels):
                sums = self._level(level, number * self.queries + row, right)
                if sums is not None:
                    self._store(sums, origins[-1][2] + row * self.second.out.row)
        names = "+".join(dict.fromkeys(e.primitive.name for e in self.cluster.reductions))
        firsts = f"{' and '.join(map(str, self.firsts))}, {names} of {'its' if len(self.firsts) == 1 else 'their'} rows"
        stored = f"{len(self.rows.stored)} arrays of rows stored, " if self.rows.stored else ""
        columns = "whole rows" if self.tiles == 1 else f"{self.width} columns at a time"
        reason = f"{firsts}, times {self.keys}x{self.second.n}: {stored}{self.block} rows a workgroup, {columns}"
        return b.build((min(pieces, GRID),), reason)

    def _level(self, level: int, line: Value, right: Sequence[Value]) -> list[Sums] | None:
        """One level: the reductions' values, and the sums of the last product if its rows are of this level."""
        b, cluster, emitter = self.b, self.cluster, self.emitter
        todo = [Accumulator(emitter, e) for e in cluster.reductions if cluster.level[e.outputs[0]] == level + 1]
        multiplied = cluster.level[self.summed] == level
        full = [v for v in (*cluster.outvars, *emitter.saved) if cluster.full(v) and cluster.level[v] == level]
        if not todo and not full:
            return None
        each = b.target.threads // self.block
        r, lane = b.divmod(b.thread_id(), each)
        at = Frame(line + r, 0, 0, 0, level)
        emitter.prepare(at)
        scores = self._read_at([*full, *(a for t in todo for a in t.e.inputs)])
        parts = _Parts.of(self.block, self.second.n, b.target.threads)
        turns = -(-parts.count // b.target.threads) if multiplied else 0
        size = parts.each[0] * parts.each[1]
        zeros = [b.const(0, self.total.scalar)] * (turns * size)
        sizes = [len(t.start(0)) for t in todo]
        init = [x for t in todo for x in t.start(0)]

        def tile(first: Value, carried: Sequence[Value]) -> list[Value]:
            rest = iter(carried)
            states = [[next(rest) for _ in range(n)] for n in sizes]
            sums = list(rest)
            if self.tiles > 1:
                for i in scores:
                    self._scores(i, right[i], first)
            stop = b.smin(first + self.width, self.keys)
            for memory in emitter.starts:
                emitter.starts[memory] = r * self.line - first
            span = (first + lane, stop, each)
            fresh = [[t.start(0) for t in todo]]
            (found,) = folded(emitter, todo, span, fresh, lambda i: [at.along(i, 0)], -(-self.width // each))
            states = [t.merge(x, y) for t, x, y in zip(todo, states, found)]
            b.barrier()
            if multiplied:
                self._store_summed(line, first, stop)
                shares = [sums[k : k + size] for k in range(0, len(sums), size)]
                done = (self._multiplied(parts, t, right[-1], first, stop - first, s) for t, s in enumerate(shares))
                sums = [x for share in done for x in share]
                b.barrier()
            return [x for state in states for x in state] + sums

        if self.tiles == 1:
            after = tile(b.index(0), [*init, *zeros])
        else:
            with b.for_(0, self.keys, self.width, [*init, *zeros]) as loop:
                loop.yield_(*tile(loop.index, loop.carried))
            after = loop.results
        rest = iter(after)
        states = self._combined(todo, [[next(rest) for _ in range(n)] for n in sizes], each)
        emitter.rows.update({t.e.outputs[0]: t.result(s) for t, s in zip(todo, states)})
        sums = list(rest)
        return [sums[k : k + size] for k in range(0, len(sums), size)] if multiplied else None

    def _read_at(self, wanted: Sequence[object]) -> list[int]:
        """The first products of which full values are computed."""
        seen: set[object] = set()
        stack = [v for v in wanted if isinstance(v, Var)]
        while stack:
            v = stack.pop()
            if v not in seen and (self.cluster.full(v)):
                seen.add(v)
                e = self.cluster.producer.get(v)
                stack += [a for a in (e.inputs if e is not None else ()) if isinstance(a, Var)]
        return [i for i, v in enumerate(self.rows.scores) if v in seen]

    # -- products --------------------------------------------------------------------------------------------

    def _read_left(self, i: int, x: Value) -> None:
        """The rows of a first product's left operand, into shared memory."""
        b, p = self.b, self.firsts[i]
        with b.threads(self.block * p.k) as at:
            r, l = b.divmod(at, p.k)
            b.store(
                b.load(self.operands[2 * i], x + r * p.lhs.row + l * p.lhs.column), self.left[i], r * _line(p.k) + l
            )

    def _scores(self, i: int, y: Value, first: Value) -> None:
        """A tile of a first product: what is beyond the last column is that column again."""
        b, p = self.b, self.firsts[i]
        rows = self.own[self.rows.scores[i]]
        parts = _Parts.of(self.block, self.width, b.target.threads)
        with b.threads(parts.count) as at:
            group, c = b.divmod(at, parts.across)
            row = group * parts.each[0]
            # Neighbouring threads have neighbouring columns.
            columns = [b.smin(c + k * parts.across, self.width - 1) for k in range(parts.each[1])]
            starts = [y + b.smin(first + c, self.keys - 1) * p.rhs.column for c in columns]
            sums = self._product_sums(i, row, starts, parts.each)
            for k, value in enumerate(sums):
                b.store(value, rows, (row + k // parts.each[1]) * self.line + columns[k % parts.each[1]])

    def _product_sums(self, i: int, row: Value, starts: Sequence[Value], each: tuple[int, int]) -> Sums:
        """The sums of a first product for some rows from one on and the columns that start there."""
        p, zero = self.firsts[i], self.b.const(0, self.total.scalar)
        vectors = p.rhs.row == 1 and _aligned(p.rhs.batch, p.rhs.column)

        def added(l: Value, count: int, sums: Sequence[Value]) -> Sums:
            left = [self._along(self.left[i], (row + k) * _line(p.k) + l, 1, count, True) for k in range(each[0])]
            right = [
                self._along(self.operands[2 * i + 1], at + l * p.rhs.row, p.rhs.row, count, vectors) for at in starts
            ]
            return self._added(sums, left, right)

        return self._over(self.b.index(p.k), p.k, [zero] * (each[0] * each[1]), added)

    def _multiplied(self, parts: _Parts, turn: int, z: Value, first: Value, count: Value, sums: Sums) -> Sums:
        """The sums of a part of the last product with those of a tile of its rows."""
        b, p, rows, (height, width) = self.b, self.second, self.own[self.summed], parts.each
        row, columns = self._part(parts, turn)
        vectors = self._neighbours(parts) and p.rhs.column == 1 and _aligned(p.rhs.batch, p.rhs.row)

        def added(l: Value, n: int, sums: Sequence[Value]) -> Sums:
            left = [self._along(rows, (row + k) * self.line + l, 1, n, True) for k in range(height)]
            starts = [z + (first + l + u) * p.rhs.row for u in range(n)]
            if vectors:
                lines = [self._along(self.operands[-1], at + columns[0], 1, width, True) for at in starts]
            else:
                lines = [[b.load(self.operands[-1], at + c * p.rhs.column) for c in columns] for at in starts]
            return self._added(sums, left, list(zip(*lines)))

        return self._over(count, self.keys if self.tiles == 1 else None, sums, added)

    def _neighbours(self, parts: _Parts) -> bool:
        """Whether a thread's columns of the result are neighbours: the last ones are moved back inside."""
        return parts.columns % parts.each[1] == 0

    def _part(self, parts: _Parts, turn: int) -> tuple[Value, list[Value]]:
        """The first row and the columns of one of this thread's parts; the last part again where there are none left."""
        b, threads = self.b, self.b.target.threads
        number = b.thread_id() + turn * threads
        number = b.smin(number, parts.count - 1) if (turn + 1) * threads > parts.count else number
        group, c = b.divmod(number, parts.across)
        if self._neighbours(parts):
            return group * parts.each[0], [c * parts.each[1] + k for k in range(parts.each[1])]
        columns = [b.smin(c + k * parts.across, parts.columns - 1) for k in range(parts.each[1])]
        return group * parts.each[0], columns

    def _over(
        self, count: Value, depth: int | None, sums: Sums, added: Callable[[Value, int, Sums], Sums]
    ) -> Sums:  # fmt: skip
        """The sums after all of a depth: `count` numbers, which are not known before the last of several tiles (None)."""
        b = self.b
        whole = b.index(depth // PART * PART) if depth is not None else b.udiv(count, PART) * PART
        if depth is None or depth >= PART:
            with b.for_(0, whole, PART, sums) as loop:
                loop.yield_(*added(loop.index, PART, loop.carried))
            sums = loop.results
        left = depth % PART if depth is not None else self.keys % self.width % PART
        if left:
            with b.for_(whole, count, 1, sums) as loop:
                loop.yield_(*added(loop.index, 1, loop.carried))
            sums = loop.results
        return sums

    def _added(self, sums: Sequence[Value], left: Sequence[Sequence[Value]], right: Sequence[Sequence[Value]]) -> Sums:
        """The sums with the products of each row on the left and each column on the right."""
        out = list(sums)
        for u in range(len(left[0])):
            for k in range(len(out)):
                out[k] = self.b.fma(left[k // len(right)][u], right[k % len(right)][u], out[k])
        return out

    def _along(self, memory: Buffer, at: Value, step: int, count: int, vectors: bool) -> Sums:
        """Elements a step apart, in the dtype of the sums."""
        b, wide = self.b, self.total.scalar
        if count == PART and vectors:
            read = b.vload(count, memory, at)
            values = [b.extract(read, u) for u in range(count)]
        else:
            values = [b.load(memory, at + u * step) for u in range(count)]
        return [x if x.type == wide else b.cast(x, wide) for x in values]

    def _store(self, sums: Sequence[Sums], out: Value) -> None:
        b, p = self.b, self.second
        parts = _Parts.of(self.block, p.n, b.target.threads)
        for t, values in enumerate(sums):
            row, columns = self._part(parts, t)
            for k, value in enumerate(values):
                r, c = divmod(k, parts.each[1])
                b.store(value, self.out, out + (row + r) * p.out.row + columns[c] * p.out.column)

    # -- the cluster -----------------------------------------------------------------------------------------

    def _combined(self, todo: Sequence[Accumulator], states: Sequence[Sums], each: int) -> list[Sums]:
        """The states of the threads of a row as one, which all of them have."""
        distance, out = each // 2, [list(s) for s in states]
        while distance and todo:
            others = self._exchanged(out, distance)
            out = [a.merge(x, y) for a, x, y in zip(todo, out, others)]
            distance //= 2
        return out

    def _exchanged(self, states: Sequence[Sums], distance: int) -> list[Sums]:
        """The states of the threads so far away."""
        b, thread = self.b, self.b.thread_id()
        places = [[self._exchange(i, x.type) for i, x in enumerate(state, 2 * k)] for k, state in enumerate(states)]
        for state, buffers in zip(states, places):
            for x, buffer in zip(state, buffers):
                b.store(b.cast(x, buffer.elem, signed=False) if x.type == "i1" else x, buffer, thread)
        b.barrier()
        partner = b.cast(b.xor(b.cast(thread, "i32"), distance), "index")
        read = [[b.load(buffer, partner) for buffer in buffers] for buffers in places]
        b.barrier()
        return [[b.cmp("ne", y, 0) if x.type == "i1" else y for x, y in zip(*pair)] for pair in zip(states, read)]

    def _exchange(self, number: int, kind: str) -> Buffer:
        """Shared memory with a number of each thread."""
        key = number, "i8" if kind == "i1" else kind
        if key not in self.exchange:
            self.exchange[key] = self.b.shared((self.b.target.threads,), key[1])
        return self.exchange[key]

    def _store_summed(self, line: Value, first: Value, stop: Value) -> None:
        """A tile of the rows that are multiplied, where they are a result too."""
        b, rows = self.b, self.rows
        if rows.summed not in rows.stored:
            return
        result = b.result(rows.stored.index(rows.summed), (self.summed.aval.size,))
        with b.threads(self.block * self.width) as at:
            r, j = b.divmod(at, self.width)
            with b.if_(b.cmp("slt", first + j, stop)):
                b.store(b.load(self.own[self.summed], r * self.line + j), result, (line + r) * self.keys + first + j)


def _line(width: int) -> int:
    """The length of a line of shared memory: vectors are aligned in it."""
    return -(-width // PART) * PART + PAD


def _aligned(*strides: int | tuple[int, ...]) -> bool:
    """Whether what begins at multiples of these strides begins at a multiple of a vector."""
    return all(s % PART == 0 for group in strides for s in (group if isinstance(group, tuple) else (group,)))

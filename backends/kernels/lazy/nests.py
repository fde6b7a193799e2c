"""Loop nests: storing lazy arrays to memory, reducing them, contracting two of them.

The innermost loop runs over vectors along one dimension, several of them a turn so that they overlap; what is left of
the dimension is written out in shorter vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew

from ..core.builder import STACK_BYTES
from ..core.errors import NoKernel
from ..core.shapes import shorter
from ..core.squares import transposed
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.monoids import accumulated, neutral
from ..elements.operations import Element, Elements, across, choose, precedes, width_of
from .nodes import Array, Elementwise, Index, Ix, Node, Reader, Vec, joined

Combine = Callable[[Element, Element], Element]

#: Squares that are turned in registers have so many rows at most, and so many operations: each row has a text of its own.
SQUARE, MOST_IN_SQUARE = 16, 1500
#: The copy of a strip of a matrix: half of the first-level cache.
PACK_BYTES = 16384


@dataclass(frozen=True)
class Piece:
    """Some neighbouring vectors of a dimension: where the first begins, and their width (0: a scalar)."""

    start: Ix
    width: int
    count: int = 1


class Nests:
    """Emits loop nests. ``work`` adds up the operations of what was emitted, in vectors."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.b = elements.b
        self.work = 0.0
        self.trips = 1.0

    def lanes(self, nodes: Sequence[Node]) -> int:
        """Elements of a vector for some results: no more than of 32 bits, but of 16 where all are integers or masks."""
        widest = max((n.dtype.itemsize // (2 if dtypes.is_complex(n.dtype) else 1) for n in nodes), default=4)
        whole = bool(nodes) and all(dtypes.is_integer(n.dtype) or dtypes.is_bool(n.dtype) for n in nodes)
        return self.b.target.lanes(8 * max(2 if whole else 4, widest))

    @contextmanager
    def loops(self, shape: Sequence[int], order: Sequence[int]) -> Iterator[list[Ix]]:
        """Loops over the dimensions in `order`, a list of indices of all dimensions (0 where there is no loop)."""
        index = [Ix() for _ in shape]
        with ExitStack() as stack:
            for d in order:
                if shape[d] != 1:
                    index[d] = Ix.of(stack.enter_context(self.b.for_(0, shape[d])).index)
            yield index

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """What is emitted within is done so often: its work counts so."""
        before, self.trips = self.trips, self.trips * times
        yield
        self.trips = before

    def pieces(self, size: int, lanes: int, unroll: int, emit: Callable[[Piece], None]) -> None:
        """Call `emit` for all of a dimension: in a loop of `unroll` vectors, then for the rest of it."""
        if size == 1:
            emit(Piece(Ix(), 0))
            return
        whole = size // (lanes * unroll)
        if whole == 1:
            emit(Piece(Ix(), lanes, unroll))
        elif whole:
            with self.b.for_(0, whole * lanes * unroll, lanes * unroll) as loop:
                emit(Piece(Ix.of(loop.index), lanes, unroll))
        at = whole * lanes * unroll
        vectors = (size - at) // lanes
        if vectors:
            emit(Piece(Ix((), at), lanes, vectors))
        for start, n in shorter(at + vectors * lanes, size, lanes):
            emit(Piece(Ix((), start), n if n > 1 else 0))

    def runs(self, start: int, stop: int, step: int, emit: Callable[[Ix, int], None]) -> None:
        """`emit(first, count)` for runs of `step` numbers from `start` to `stop`, in a loop, and for what is left of them."""
        whole = stop - (stop - start) % step
        if whole > start:
            with self.b.for_(start, whole, step) as loop:
                emit(Ix.of(loop.index), step)
        if start <= whole < stop:
            emit(Ix((), whole), stop - whole)

    def columns(self, x: Node, axis: int, body: Callable[[list[Ix], Vec | None, int], None]) -> None:
        """`body(index, vec, width)` for what lies along a dimension, at all indices of the others: for vectors along the last
        of these."""
        others = [d for d in range(len(x.shape)) if d != axis]
        along = others[-1] if others and x.shape[others[-1]] > 1 else None
        size = 1 if along is None else x.shape[along]
        lanes = min(self.lanes([x]), 1 << (size.bit_length() - 1))
        self.work += self.trips * (x.cost + 4) * x.size / lanes
        with self.loops(x.shape, [d for d in others if d != along]) as index:

            def emit(piece: Piece) -> None:
                for k in range(piece.count):
                    at = list(index)
                    if along is not None:
                        at[along] = piece.start + k * piece.width
                    body(at, Vec(along, piece.width) if along is not None and piece.width else None, piece.width)

            self.pieces(size, lanes, 1, emit)

    # -- stores ----------------------------------------------------------------------------------------------

    def store(self, outs: Sequence[tuple[Node, Array]]) -> None:
        """Compute nodes of one shape together, each into memory."""
        outs = [(n, to) for n, to in outs if not self._same_memory(n, to)]
        if not outs:
            return
        shape = outs[0][0].shape
        nodes, places = _joined([n for n, _ in outs], [to for _, to in outs])
        outs, shape = list(zip(nodes, places)), places[0].shape
        if not shape:
            reader = Reader(self.elements)
            for n, to in outs:
                to.write(self.elements, reader(n, (), None), (), None)
            return
        cost = sum(n.cost + 1 for n, _ in outs)
        axis = self._vector_axis(shape, [to for _, to in outs], cost)
        if axis is None:
            self.work += self.trips * cost * math.prod(shape)
            with self.loops(shape, range(len(shape))) as index:
                self._elements(outs, tuple(index), None)
            return
        lanes = min(self.lanes([n for n, _ in outs]), 1 << (shape[axis].bit_length() - 1))
        self.work += self.trips * cost * math.prod(shape) / lanes
        side, across = min(lanes, SQUARE), _turned_axis(outs, axis)
        if across is not None and min(shape[axis], shape[across]) >= side > 1 and cost * side <= MOST_IN_SQUARE:
            self._store_squares(outs, axis, across, side)
            return
        unroll = max(1, min(4, int(24 // cost), shape[axis] // lanes))
        with self.loops(shape, [d for d in range(len(shape)) if d != axis]) as index:

            def emit(piece: Piece) -> None:
                for k in range(piece.count):
                    at = list(index)
                    at[axis] = piece.start + k * piece.width
                    self._elements(outs, tuple(at), Vec(axis, piece.width) if piece.width else None)

            self.pieces(shape[axis], lanes, unroll, emit)

    def _store_squares(self, outs: Sequence[tuple[Node, Array]], axis: int, across: int, side: int) -> None:
        """Compute nodes in squares along two dimensions: what lies along the other one is read in vectors along it, and turned.

        The last squares are moved back inside: some elements are computed twice.
        """
        b, e, shape = self.b, self.elements, outs[0][1].shape
        arrays = [x for x in _arrays_of([n for n, _ in outs]) if _turned(x, axis) == across]
        vec = Vec(axis, side)
        with self.loops(shape, [d for d in range(len(shape)) if d not in (axis, across)]) as index:
            with b.for_(0, shape[across], side) as rows, b.for_(0, shape[axis], side) as columns:
                first, begin = (
                    Ix.of(b.moved_inside(loop.index, side, shape[d])) for loop, d in ((rows, across), (columns, axis))
                )

                def at(row: Ix, column: Ix) -> Index:
                    return tuple(row if d == across else column if d == axis else i for d, i in enumerate(index))

                seen: dict[Any, Element] = {}
                for x in arrays:
                    lines = [Reader(e)(x, at(first, begin + k), Vec(across, side)) for k in range(side)]
                    parts = zip(*(e.parts(line, x.dtype, side) for line in lines))
                    columns_of = zip(*(transposed(b, part) for part in parts))
                    seen.update({(x, at(first + k, begin), vec): e.joined(part) for k, part in enumerate(columns_of)})
                for k in range(side):
                    place = at(first + k, begin)
                    reader = Reader(e, dict(seen))
                    values = [reader(n, place, vec) for n, _ in outs]
                    for x, (_, to) in zip(values, outs):
                        to.write(e, x, place, vec)

    def interleave(self, nodes: Sequence[Node], to: Array) -> None:
        """Compute nodes of one shape into memory side by side: along the last dimension of `to` lies an element of each."""
        e, b, k = self.elements, self.b, len(nodes)
        places = [
            Array(n.shape, to.dtype, to.memory, to.strides[:-1], to.base + Ix((), j), to.owner) for j, n in enumerate(nodes)
        ]  # fmt: skip
        nodes, places = _joined(nodes, places)
        shape = nodes[0].shape
        if not shape or to.strides[-1] != 1 or places[0].strides[-1] != k:
            for n, place in zip(nodes, places):
                self.store([(n, place)])
            return
        axis, cost = len(shape) - 1, sum(n.cost + 1 for n in nodes)
        lanes = min(self.lanes(nodes), 1 << (shape[axis].bit_length() - 1))
        self.work += self.trips * cost * math.prod(shape) / lanes

        def side_by_side(values: Sequence[Value], width: int) -> Value:
            row = values[0]
            for j, x in enumerate(values[1:], 1):
                row = b.shuffle(row, x, range((j + 1) * width))
            return b.shuffle(row, row, [p % k * width + p // k for p in range(k * width)])

        def element(at: Index, width: int) -> None:
            reader, vec = Reader(e), Vec(axis, width) if width else None
            values = [reader(n, at, vec) for n in nodes]
            if vec is None:
                for x, place in zip(values, places):
                    place.write(e, x, at, None)
                return
            columns = zip(*(e.parts(x, n.dtype, width) for x, n in zip(values, nodes)))
            row = e.joined([side_by_side(column, width) for column in columns])
            to.memory.store(row, places[0].place(at).emit(b), k * width)

        with self.loops(shape, range(axis)) as index:

            def emit(piece: Piece) -> None:
                for i in range(piece.count):
                    element((*index[:axis], piece.start + i * piece.width), piece.width)

            self.pieces(shape[axis], lanes, 1, emit)

    @staticmethod
    def _same_memory(node: Node, to: Array) -> bool:
        return (
            isinstance(node, Array) and node.memory.buffer is to.memory.buffer
            and node.base == to.base and node.strides == to.strides
        )  # fmt: skip

    def _elements(self, outs: Sequence[tuple[Node, Array]], index: Index, vec: Vec | None) -> None:
        # All is read before anything is written: a result may be an operand's memory.
        reader = Reader(self.elements)
        values = [reader(n, index, vec) for n, _ in outs]
        for x, (_, to) in zip(values, outs):
            to.write(self.elements, x, index, vec)

    def _vector_axis(self, shape: Sequence[int], to: Sequence[Array], cost: float) -> int | None:
        """The dimension of vectors: the last long one along which results are contiguous.

        Where there is none, vectors are worth it for what is expensive to compute only.
        """
        lanes = self.b.target.lanes(32)
        along = [d for d in range(len(shape)) if shape[d] > 1 and all(t.strides[d] == 1 for t in to)]
        if along and shape[along[-1]] >= lanes:
            return along[-1]
        long = [d for d in range(len(shape)) if shape[d] >= lanes]
        if long and cost > 16:
            return long[-1]
        return along[-1] if along else None

    # -- reductions ------------------------------------------------------------------------------------------

    def reduce(
        self, p: Primitive, x: Node, axes: Sequence[int], to: Array | None, result: DType | None = None
    ) -> Element | None:
        """Combine a node over some dimensions, into memory, or to an element if nothing is left of its shape.

        `result` is the dtype of the result; None: the node's.
        """
        e, dtype = self.elements, x.dtype
        result = dtype if result is None else result
        wide = accumulated(p, dtype)
        combine = partial(e.binary, p, wide)

        def read(reader: Reader, index: Index, vec: Vec | None) -> Element:
            width = vec.width if vec is not None else 0
            return e.convert(e.lift(reader(x, index, vec), dtype, width), dtype, wide)

        if dtypes.is_complex(wide) and p in (ew.max_p, ew.min_p):
            raise NoKernel("extremes of complex numbers")
        identity = neutral(p, wide)
        kept = [d for d in range(len(x.shape)) if d not in axes]
        axis = self._reduced_vector_axis(x, axes, to)
        lanes = min(self.lanes([x]), 1 << (x.shape[axis].bit_length() - 1))
        self.work += self.trips * (x.cost + 1) * x.size / lanes
        outer = [d for d in kept if d != axis]
        inner = [d for d in axes if d != axis]
        with self.loops(x.shape, outer) as index:
            if axis in axes:
                total = self._across(x, index, axis, inner, lanes, identity, wide, combine, read)
                out = e.convert(total, wide, result)
                if to is None:
                    return out
                to.write(e, out, tuple(index[d] for d in kept), None)
                return None
            assert to is not None
            place = kept.index(axis)

            def emit(piece: Piece) -> None:
                starts = [piece.start + k * piece.width for k in range(piece.count)]
                vec = Vec(axis, piece.width) if piece.width else None
                init = [v for _ in starts for v in e.parts(identity, wide, piece.width)]

                def step(at: list[Ix], totals: list[Element]) -> list[Element]:
                    out: list[Element] = []
                    for start, total in zip(starts, totals):
                        at[axis] = start
                        out.append(combine(total, read(Reader(e), tuple(at), vec)))
                    return out

                for start, total in zip(starts, self._folded(x.shape, inner, index, init, len(starts), step)):
                    at = [index[d] for d in kept]
                    at[place] = start
                    to.write(e, e.convert(total, wide, result), tuple(at), Vec(place, piece.width) if vec else None)

            unroll = max(1, min(4, int(24 // (x.cost + 1)), x.shape[axis] // lanes))
            self.pieces(x.shape[axis], lanes, unroll, emit)
        return None

    def _folded(
        self, shape: Sequence[int], dims: Sequence[int], index: Sequence[Ix], init: Sequence[Value], count: int,
        step: Callable[[list[Ix], list[Element]], list[Element]],
    ) -> list[Element]:  # fmt: skip
        """`step` for all indices of some dimensions, with `count` totals that go from one to the next."""
        e = self.elements
        n = len(init) // count

        def joined(values: Sequence[Value]) -> list[Element]:
            return [e.joined(values[k * n : k * n + n]) for k in range(count)]

        def nest(at: list[Ix], dims: Sequence[int], values: Sequence[Value]) -> list[Value]:
            if not dims:
                out = step(list(at), joined(values))
                return [v for x in out for v in ([x.re, x.im] if hasattr(x, "re") and n == 2 else [x])]  # type: ignore[union-attr, list-item]
            d, rest = dims[0], dims[1:]
            if shape[d] <= 4 and not rest:  # short: written out
                for i in range(shape[d]):
                    at[d] = Ix((), i)
                    values = nest(at, rest, values)
                return list(values)
            with self.b.for_(0, shape[d], 1, list(values)) as loop:
                at[d] = Ix.of(loop.index)
                loop.yield_(*nest(at, rest, loop.carried))
            return loop.results

        return joined(nest(list(index), list(dims), list(init)))

    def _across(
        self, x: Node, index: list[Ix], axis: int, inner: Sequence[int], lanes: int, identity: Element, wide: DType,
        combine: Combine, read: Callable[[Reader, Index, Vec | None], Element],
    ) -> Element:  # fmt: skip
        """All elements along a vectorised dimension and some others combined."""
        e, size = self.elements, x.shape[axis]
        unroll = max(1, min(4, size // lanes, int(24 // (x.cost + 1)) or 1))
        whole = size // (lanes * unroll) * lanes * unroll
        vec = Vec(axis, lanes) if lanes > 1 else None
        init = [v for _ in range(unroll) for v in e.parts(identity, wide, lanes if lanes > 1 else 0)]
        rest = [Piece(Ix((), at), n if n > 1 else 0) for at, n in shorter(whole, size, lanes)]

        def along(at: list[Ix], totals: list[Element]) -> list[Element]:
            def step(here: list[Ix], totals: list[Element]) -> list[Element]:
                start = here[axis]
                out: list[Element] = []
                for k, total in enumerate(totals):
                    here[axis] = start + k * lanes
                    out.append(combine(total, read(Reader(e), tuple(here), vec)))
                return out

            values = [v for t in totals for v in e.parts(t, wide)]
            if whole == lanes * unroll:
                at[axis] = Ix()
                totals = step(list(at), totals)
            elif whole:
                with self.b.for_(0, whole, lanes * unroll, values) as loop:
                    at[axis] = Ix.of(loop.index)
                    n = len(values) // unroll
                    out = step(list(at), [e.joined(loop.carried[k * n : k * n + n]) for k in range(unroll)])
                    loop.yield_(*(v for t in out for v in e.parts(t, wide)))
                totals = [e.joined(loop.results[k * n : k * n + n]) for k in range(unroll)]
            for piece in rest:
                at[axis] = piece.start
                item = read(Reader(e), tuple(at), Vec(axis, piece.width) if piece.width else None)
                totals = [combine(totals[0], self._padded(item, identity, wide, lanes)), *totals[1:]]
            return totals

        totals = self._folded(x.shape, inner, index, init, unroll, along)
        total = totals[0]
        for t in totals[1:]:
            total = combine(total, t)
        return across(e, total, wide, combine)

    def _padded(self, x: Element, identity: Element, dtype: DType, lanes: int) -> Element:
        """A short vector, or a scalar, as one of all lanes, the others neutral."""
        width = width_of(x)
        if lanes <= 1 or width == lanes:
            return x
        e, b = self.elements, self.b
        out: list[Value] = []
        for v, n in zip(e.parts(x, dtype), e.parts(identity, dtype, max(width, 1) if width else 0)):
            if not width:
                wide = e.parts(identity, dtype, lanes)[len(out)]
                out.append(b.emit(f"vector.insert {v}, {wide}[0] : {v.type} into {wide.type}", wide.type))
            else:
                out.append(b.shuffle(v, n, [*range(width), *[width] * (lanes - width)]))
        return e.joined(out)

    def _reduced_vector_axis(self, x: Node, axes: Sequence[int], to: Array | None) -> int:
        lanes = self.b.target.lanes(32)
        long = [d for d in range(len(x.shape)) if x.shape[d] >= lanes]
        if long:
            return long[-1]
        return max(axes, key=lambda d: x.shape[d]) if to is None or not x.shape else len(x.shape) - 1

    # -- positions of extremes -------------------------------------------------------------------------------

    def arg(self, order: Primitive, x: Node, axis: int, index_dtype: DType, to: Array | None) -> Element | None:
        """The position of the first largest (`order` gt) or smallest (lt) element along a dimension."""
        e, b = self.elements, self.b
        kept = [d for d in range(len(x.shape)) if d != axis]
        place = "i64" if index_dtype.itemsize == 8 else "i32"
        results: list[Element] = []

        def column(at: list[Ix], vec: Vec | None, width: int) -> None:
            first = e.lift(Reader(e)(x, tuple(at), vec), x.dtype, width)
            number = e.lift(0, dtypes.int64 if place == "i64" else dtypes.int32, width)
            assert isinstance(first, Value) and isinstance(number, Value)
            with b.for_(1, x.shape[axis], 1, [first, number]) as loop:
                here = list(at)
                here[axis] = Ix.of(loop.index)
                item = e.lift(Reader(e)(x, tuple(here), vec), x.dtype, width)
                wins = precedes(self.elements, x.dtype, order, item, loop.carried[0])
                new = e.lift(b.cast(loop.index, place), x.dtype, width)
                best, where = choose(b, wins, item, loop.carried[0]), choose(b, wins, new, loop.carried[1])
                assert isinstance(best, Value) and isinstance(where, Value)
                loop.yield_(best, where)
            found = e.convert(loop.results[1], dtypes.int64 if place == "i64" else dtypes.int32, index_dtype)
            if to is None:
                results.append(found)
                return
            out = None if vec is None else Vec(kept.index(vec.axis), vec.width)
            to.write(e, found, tuple(at[d] for d in kept), out)

        self.columns(x, axis, column)
        return results[0] if results else None

    # -- contractions ----------------------------------------------------------------------------------------

    def contract(self, x: Node, y: Node, batch: int, free_x: int, free_y: int, to: Array) -> None:
        """``to[b, m, n] = sum of x[b, m, k] * y[b, n, k] over k``: operands viewed with their dimensions in this order.

        Vectors run along the last n; blocks of rows m and vectors n are held in registers.
        """
        e = self.elements
        dtype = to.dtype
        wide = accumulated(ew.add_p, dtype)
        shape = to.shape
        inner = x.shape[batch + free_x :]
        axis = len(shape) - 1
        lanes = min(self.lanes([to]), 1 << (shape[axis].bit_length() - 1))
        self.work += self.trips * to.size * math.prod(inner) / lanes
        row = batch + free_x - 1 if free_x else None
        rows = 1 if row is None else shape[row]
        height = 6 if rows >= 18 or rows == 6 else min(rows, 4)
        vectors = 8 if height == 1 else 4 if height == 2 else 2
        if shape[axis] < vectors * lanes:
            vectors = max(1, shape[axis] // lanes)
        outer = [d for d in range(len(shape)) if d not in (axis, row)]
        if height == 1 and wide == dtype and len(inner) == 1 and shape[axis] >= 8 * lanes:
            with self.loops(shape, [d for d in range(len(shape)) if d != axis]) as index:
                self._streamed(x, y, batch, free_x, free_y, to, index, inner[0], lanes)
            return

        packed = self._pack_size(y, rows, inner, vectors * lanes) if wide == dtype else 0
        pack: Array | None = None
        if packed:
            memory = Memory.on_stack(e, packed * vectors * lanes, dtype)
            pack = Array((packed, lanes * vectors), dtype, memory, (lanes * vectors, 1))

        def block(index: list[Ix], row_at: Ix, count: int, piece: Piece) -> None:
            vec = Vec(axis, piece.width) if piece.width else None
            starts = [piece.start + k * piece.width for k in range(piece.count)]
            init = [v for _ in range(count * len(starts)) for v in e.parts(0, wide, piece.width)]
            full = [*shape, *inner]
            dims = list(range(len(shape), len(full)))

            def step(at: list[Ix], totals: list[Element]) -> list[Element]:
                k = at[len(shape) :]
                readers = Reader(e)
                y_vec = None if vec is None else Vec(batch + free_y - 1, vec.width)
                columns = []
                for start in starts:
                    n = [*at[batch + free_x : axis], start]
                    columns.append(self._wide(readers(y, (*at[:batch], *n, *k), y_vec), y.dtype, wide))
                out: list[Element] = []
                for r in range(count):
                    m = list(at[batch : batch + free_x])
                    if row is not None:
                        m[-1] = row_at + r
                    left = self._wide(readers(x, (*at[:batch], *m, *k), None), x.dtype, wide)
                    for j, column in enumerate(columns):
                        out.append(self._multiply_add(wide, left, column, totals[r * len(columns) + j]))
                return out

            # Loops over k carry the block.
            extended = [*index, *(Ix() for _ in inner)]
            totals = self._folded(full, dims, extended, init, count * len(starts), step)
            for r in range(count):
                for j, start in enumerate(starts):
                    place = list(index)
                    if row is not None:
                        place[row] = row_at + r
                    place[axis] = start
                    to.write(e, e.convert(totals[r * len(starts) + j], wide, dtype), tuple(place), vec)

        with self.loops(shape, outer) as index:

            def strip(piece: Piece) -> None:
                if pack is not None and piece.width == lanes and piece.count == vectors:
                    self._packed(x, y, batch, free_x, free_y, to, index, inner[0], piece, pack, height)
                    return
                if height <= rows < 2 * height:  # no loop of one turn
                    block(index, Ix(), height, piece)
                    self.runs(height, rows, height, lambda at, count: block(index, at, count, piece))
                else:
                    self.runs(0, rows, height, lambda at, count: block(index, at, count, piece))

            self.pieces(shape[axis], lanes, vectors, strip)

    def _pack_size(self, y: Node, rows: int, inner: Sequence[int], columns: int) -> int:
        """How many rows of a strip of columns are copied together before they are used; 0: none."""
        size = y.dtype.itemsize * columns
        if rows < 8 or len(inner) != 1 or inner[0] < 32:
            return 0
        room = (PACK_BYTES if self.b.stack_bytes + PACK_BYTES <= STACK_BYTES else 0) // size
        return min(inner[0], room)

    def _packed(
        self, x: Node, y: Node, batch: int, free_x: int, free_y: int, to: Array, index: Sequence[Ix], size: int,
        piece: Piece, pack: Array, height: int,
    ) -> None:  # fmt: skip
        """A strip of columns of a product, from copies of the strip of y that lie together in the cache."""
        e, b, dtype = self.elements, self.b, to.dtype
        axis, row = len(to.shape) - 1, batch + free_x - 1
        rows, depth = to.shape[row], pack.shape[0]
        vec, y_vec = Vec(axis, piece.width), Vec(batch + free_y - 1, piece.width)
        starts = [piece.start + j * piece.width for j in range(piece.count)]

        def place(r: Ix, start: Ix) -> Index:
            at = list(index)
            at[row], at[axis] = r, start
            return tuple(at)

        def block(first: Ix, k: Ix, count: int, deep: int, fresh: bool) -> None:
            pairs = [(r, j) for r in range(count) for j in range(len(starts))]
            init = [
                v for r, j in pairs
                for v in e.parts(0 if fresh else to.read(Reader(e), place(first + r, starts[j]), vec), dtype, piece.width)
            ]  # fmt: skip
            n = Memory.numbers(dtype)
            turns = 2 if deep % 2 == 0 else 1
            with b.for_(0, deep, turns, init) as loop:
                totals: list[Element] = [e.joined(loop.carried[i * n : i * n + n]) for i in range(len(pairs))]
                for turn in range(turns):
                    reader, at = Reader(e), Ix.of(loop.index) + turn
                    columns = [
                        reader(pack, (at, Ix((), j * piece.width)), Vec(1, piece.width)) for j in range(len(starts))
                    ]
                    for i, (r, j) in enumerate(pairs):
                        m = (*index[:batch], *index[batch : batch + free_x - 1], first + r, k + at)
                        left = self._wide(reader(x, m, None), x.dtype, dtype)
                        totals[i] = self._multiply_add(dtype, left, columns[j], totals[i])
                loop.yield_(*(v for t in totals for v in e.parts(t, dtype)))
            for i, (r, j) in enumerate(pairs):
                to.write(e, e.joined(loop.results[i * n : i * n + n]), place(first + r, starts[j]), vec)

        def part(k: Ix, deep: int, fresh: bool) -> None:
            with b.for_(0, deep) as loop:
                at, reader = Ix.of(loop.index), Reader(e)
                for j, start in enumerate(starts):
                    columns = (*index[:batch], *index[batch + free_x : axis], start)
                    item = self._wide(reader(y, (*columns, k + at), y_vec), y.dtype, dtype)
                    pack.write(e, item, (at, Ix((), j * piece.width)), Vec(1, piece.width))
            self.runs(0, rows, height, lambda at, count: block(at, k, count, deep, fresh))

        part(Ix(), depth, True)
        self.runs(depth, size, depth, lambda at, deep: part(at, deep, False))

    def _streamed(
        self, x: Node, y: Node, batch: int, free_x: int, free_y: int, to: Array, index: Sequence[Ix], size: int, lanes: int
    ) -> None:  # fmt: skip
        """One row of a product, by some rows of y at a time: memory is read in order, the row stays in the cache."""
        e, dtype = self.elements, to.dtype
        axis = len(to.shape) - 1

        def rows(k: Ix, count: int, first: bool) -> None:
            reader = Reader(e)
            left = [
                self._wide(reader(x, (*index[: batch + free_x], k + r), None), x.dtype, dtype) for r in range(count)
            ]

            def emit(piece: Piece) -> None:
                for j in range(piece.count):
                    start = piece.start + j * piece.width
                    vec = Vec(axis, piece.width) if piece.width else None
                    place = (*index[:axis], start)
                    here = Reader(e)
                    total: Element | None = None if first else here(to, place, vec)
                    columns = (*index[:batch], *index[batch + free_x : axis], start)
                    y_vec = None if vec is None else Vec(batch + free_y - 1, vec.width)
                    for r in range(count):
                        item = self._wide(here(y, (*columns, k + r), y_vec), y.dtype, dtype)
                        total = self._multiply_add(dtype, left[r], item, total)
                    assert total is not None
                    to.write(e, total, place, vec)

            self.pieces(to.shape[axis], lanes, 2, emit)

        block = 8
        rows(Ix(), min(block, size), True)
        self.runs(block, size, block, lambda at, count: rows(at, count, False))

    def _multiply_add(self, dtype: DType, x: Element, y: Element, total: Element | None) -> Element:
        """x * y, added to a total if there is one."""
        product = self.elements.binary(ew.mul_p, dtype, x, y)
        return product if total is None else self.elements.binary(ew.add_p, dtype, total, product)

    def _wide(self, x: Element, dtype: DType, wide: DType) -> Element:
        return self.elements.convert(self.elements.lift(x, dtype, width_of(x)), dtype, wide)


def _joined(nodes: Sequence[Node], places: Sequence[Array]) -> tuple[list[Node], list[Array]]:
    """Nodes of one shape and where they go, with their last dimensions as one as far as these lie in memory like one."""
    while len(places[0].shape) > 1:
        known: dict[Node, Node | None] = {}
        pairs = [(joined(n, known), to.joined()) for n, to in zip(nodes, places)]
        found = [(n, to) for n, to in pairs if n is not None and to is not None]
        if len(found) < len(pairs):
            break
        nodes, places = [n for n, _ in found], [to for _, to in found]
    return list(nodes), list(places)


def product(x: Node, y: Node) -> Node:
    """The elementwise product of two nodes of one shape."""
    return Elementwise(x.shape, x.dtype, ew.mul_p, {}, (x, y))


def _arrays_of(nodes: Sequence[Node]) -> list[Array]:
    """The arrays of the nodes' shape in memory whose elements they are computed of at their own places."""
    found: dict[Node, None] = {}
    pending = list(nodes)
    while pending:
        x = pending.pop()
        if x not in found:
            found[x] = None
            pending += x.operands if isinstance(x, Elementwise) else ()
    return [x for x in reversed(found) if isinstance(x, Array) and x.shape]


def _turned(x: Array, axis: int) -> int | None:
    """The dimension along which an array's elements are neighbours, where those along `axis` are far apart."""
    if x.strides[axis] in (0, 1) or dtypes.is_bool(x.dtype):
        return None
    return next((d for d, s in enumerate(x.strides) if s == 1 and x.shape[d] > 1), None)


def _turned_axis(outs: Sequence[tuple[Node, Array]], axis: int) -> int | None:
    """The dimension along which squares are read to be turned; None where nothing is, or what is written may be read."""
    nodes = [n for n, _ in outs]
    found = next((d for x in _arrays_of(nodes) if (d := _turned(x, axis)) is not None), None)
    if found is None or any(to.strides[axis] != 1 for _, to in outs):
        return None
    written = {to.memory.buffer for _, to in outs}
    return None if any(x.memory.buffer in written for x in _memory_of(nodes)) else found


def _memory_of(nodes: Sequence[Node]) -> Iterator[Array]:
    """All arrays in memory that nodes are computed of, at whatever places."""
    seen: set[Node] = set()
    pending = list(nodes)
    while pending:
        x = pending.pop()
        if x in seen:
            continue
        seen.add(x)
        pending += x.inputs
        if isinstance(x, Array):
            yield x

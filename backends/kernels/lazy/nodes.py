"""Lazy arrays: an array as an expression of its elements.

A :class:`Node` says what an array's elements are. Some are read from memory (:class:`Array`), some are an operation on the
elements of other nodes (:class:`Elementwise`), some are the elements of another node at other places (:class:`View`,
:class:`Gather`). Making a node writes nothing. Text is written when a nest of loops (`nests.py`) stores a node to memory or
reduces it: the nest asks the node for one element, the node asks its operands for theirs, and so on down to memory. No
array in between exists.

An :class:`Ix` is the place of an element along one dimension, a sum of loop indices. A :class:`Vec` says that a read takes a
vector of neighbours. A :class:`Reader` belongs to one turn of the innermost loop and keeps what was read in it, so that an
element with two readers is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.shapes import row_major
from ..core.values import Operand, Value
from ..elements.memory import Memory
from ..elements.operations import Element, Elements, width_of
from ..elements.places import both, moved_inside, where

# -- places -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ix:
    """An index: a sum of values times numbers, and a number. Equal sums are equal indices."""

    terms: tuple[tuple[Value, int], ...] = ()
    const: int = 0

    @staticmethod
    def of(x: Operand | Ix) -> Ix:
        """A value or number as an index."""
        if isinstance(x, Ix):
            return x
        return Ix(((x, 1),)) if isinstance(x, Value) else Ix((), int(x))

    def __add__(self, other: Ix | int) -> Ix:
        if isinstance(other, int):
            return Ix(self.terms, self.const + other)
        if not other.terms:
            return Ix(self.terms, self.const + other.const)
        total: dict[Value, int] = dict(self.terms)
        for v, c in other.terms:
            total[v] = total.get(v, 0) + c
        terms = tuple(sorted(((v, c) for v, c in total.items() if c), key=lambda t: t[0].name))
        return Ix(terms, self.const + other.const)

    def __mul__(self, n: int) -> Ix:
        return Ix(tuple((v, c * n) for v, c in self.terms), self.const * n) if n else Ix()

    def emit(self, b: KernelBuilder) -> Value | int:
        """The index as an operand."""
        out: Value | None = None
        for v, c in self.terms:
            out = v * c if out is None else out + v * c
        return self.const if out is None else out + self.const


ZERO = Ix()
Index = tuple[Ix, ...]
#: The first and the number of an array's dimensions that are the lanes of a loop (see `registers/`), if any are.
Lane = tuple[int, int] | None


@dataclass(frozen=True)
class Vec:
    """Which elements a read takes: `width` ones `step` apart along a dimension."""

    axis: int
    width: int
    step: int = 1


# -- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Node:
    """An array of a shape and dtype."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose elements its elements are made of."""
        return ()

    @property
    def cost(self) -> float:
        """Operations an element, roughly: what it costs to compute it again."""
        return sum(x.cost for x in self.inputs)

    @property
    def lane(self) -> Lane:
        """The dimensions that are lanes. Raises NoKernel where operands differ in them."""
        lanes = {x.lane for x in self.inputs} - {None}
        if len(lanes) > 1:
            raise NoKernel("operands have different dimensions as lanes")
        return lanes.pop() if lanes else None

    def varies(self, d: int) -> bool:
        """Whether elements differ along a dimension, as far as it is known."""
        return True

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        """The elements at a place."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads nodes at places of one loop iteration; what was read stays known."""

    elements: Elements
    seen: dict[Any, Element] = field(default_factory=dict[Any, Element])

    def __call__(self, node: Node, index: Index, vec: Vec | None) -> Element:
        key = (node, index, vec)
        found = self.seen.get(key)
        if found is None:
            found = self.seen[key] = node.read(self, index, vec)
        return found


@dataclass(frozen=True, eq=False)
class Number(Node):
    """A scalar: a number, or an element of the kernel."""

    element: Element

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        return self.element


@dataclass(frozen=True, eq=False)
class Array(Node):
    """An array in memory. ``owner`` tells the carried array that it is, if it is one."""

    memory: Memory
    strides: tuple[int, ...]
    base: Ix = ZERO
    owner: object = None
    own_lane: Lane = None

    @staticmethod
    def of(elements: Elements, number: int, aval: ShapedArray, *, result: bool = False, lane: Lane = None) -> Array:
        """An operand of the kernel, or a result."""
        memory = Memory.of(elements, number, aval, result=result)
        return Array(aval.shape, aval.dtype, memory, row_major(aval.shape), own_lane=lane)

    @property
    def lane(self) -> Lane:
        return self.own_lane

    def varies(self, d: int) -> bool:
        return self.strides[d] != 0

    @property
    def contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        return all(n == 1 or s == t for n, s, t in zip(self.shape, self.strides, row_major(self.shape)))

    def place(self, index: Index) -> Ix:
        """The flat place of an element."""
        at = self.base
        for i, s in zip(index, self.strides):
            at = at + i * s
        return at

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        at = self.place(index).emit(reader.elements.b)
        if vec is None:
            return self.memory.load(at)
        stride = self.strides[vec.axis] * vec.step
        return self.memory.load(at) if stride == 0 else self.memory.load(at, vec.width, stride)

    def write(self, elements: Elements, x: Element, index: Index, vec: Vec | None) -> None:
        """Store elements at a place."""
        at = self.place(index).emit(elements.b)
        if vec is None:
            self.memory.store(x, at)
        else:
            self.memory.store(x, at, vec.width, self.strides[vec.axis] * vec.step)

    def part(self, starts: Sequence[Ix], shape: tuple[int, ...]) -> Array:
        """The part from some places on."""
        return Array(shape, self.dtype, self.memory, self.strides, self.place(tuple(starts)), self.owner)

    def joined(self) -> Array | None:
        """The array with its last two dimensions as one, if their elements are all one distance apart."""
        (m, n), (step, stride) = self.shape[-2:], self.strides[-2:]
        if m != 1 != n and step != stride * n:
            return None
        strides = (*self.strides[:-2], step if n == 1 else stride)
        return Array((*self.shape[:-2], m * n), self.dtype, self.memory, strides, self.base, self.owner)

    def viewed(self, shape: tuple[int, ...]) -> Array:
        """A contiguous array in another shape."""
        return Array(shape, self.dtype, self.memory, row_major(shape), self.base, self.owner)


@dataclass(frozen=True, eq=False)
class Elementwise(Node):
    """An elementwise primitive; operands have the node's shape or are scalars."""

    primitive: Primitive
    params: Mapping[str, Any]
    operands: tuple[Node, ...]
    own_cost: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        # Shared operands are counted once more: what is used twice is cheap, or in memory.
        object.__setattr__(self, "own_cost", self.primitive.weight + sum(x.cost for x in self.operands))

    def check(self, elements: Elements) -> None:
        """Raise NoKernel where its elements cannot be computed."""
        in_dtypes = [x.dtype for x in self.operands]
        with elements.b.discarded():
            xs = [elements.lift(0, d) for d in in_dtypes]
            elements.apply(self.primitive, self.params, in_dtypes, self.dtype, xs)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def cost(self) -> float:
        return self.own_cost

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        xs = [reader(x, index if x.shape else (), vec if x.shape else None) for x in self.operands]
        in_dtypes = [x.dtype for x in self.operands]
        return reader.elements.apply(self.primitive, self.params, in_dtypes, self.dtype, xs)


@dataclass(frozen=True, eq=False)
class View(Node):
    """Another node at other places: source dimension d is at ``offset[d] + step[d] * index[axis[d]]``.

    ``axis[d]`` is None where the index does not depend on the view's.
    """

    source: Node
    axis: tuple[int | None, ...]
    step: tuple[int, ...]
    offset: tuple[Ix, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.source,)

    @property
    def lane(self) -> Lane:
        return _lane_of_view(self.source, self.shape, self.axis, self.step, self.offset)

    def varies(self, d: int) -> bool:
        return any(a == d and self.source.varies(k) for k, a in enumerate(self.axis))

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        at = tuple(o if a is None else o + index[a] * s for a, s, o in zip(self.axis, self.step, self.offset))
        inner = None
        if vec is not None:
            for d, (a, s) in enumerate(zip(self.axis, self.step)):
                if a == vec.axis:
                    inner = Vec(d, vec.width, vec.step * s)
        return reader(self.source, at, inner)


@dataclass(frozen=True, eq=False)
class Iota(Node):
    """The index along a dimension."""

    dimension: int

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        b, e = reader.elements.b, reader.elements
        at = index[self.dimension].emit(b)
        number: Element = at if isinstance(at, int) else b.cast(at, "i32")
        if vec is not None and vec.axis == self.dimension:
            lifted = e.lift(number, dtypes.int32, vec.width)
            assert isinstance(lifted, Value)
            number = lifted + b.const_vector([k * vec.step for k in range(vec.width)], "i32")
        return e.convert(e.lift(number, dtypes.int32, width_of(number)), dtypes.int32, self.dtype)


@dataclass(frozen=True, eq=False)
class Gather(Node):
    """Elements of a source at places that other elements say.

    ``starts[d]`` is a node of index numbers whose index is ``batch`` of the view's dimensions, or None; ``window[d]`` is
    the view's dimension along which source dimension d runs, or None. Places are clamped to ``limits``.
    """

    source: Node
    starts: tuple[Node | None, ...]
    batch: tuple[int, ...]
    window: tuple[int | None, ...]
    limits: tuple[int, ...]
    #: Where indices are out of bounds: None, moved inside; a number, it.
    fill: Element | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.source, *(s for s in self.starts if s is not None))

    @property
    def cost(self) -> float:
        return 6.0 + sum(x.cost for x in self.inputs)

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        if vec is not None and vec.axis in self.batch:
            return self._lanes(reader, index, vec)
        b = reader.elements.b
        at: list[Ix] = []
        inner, inside = None, None
        places = tuple(index[k] for k in self.batch)
        for d, (start, w, limit) in enumerate(zip(self.starts, self.window, self.limits)):
            place = ZERO if w is None else index[w]
            if start is not None:
                first, fits = self._moved_inside(reader, start, limit, places, None)
                inside = both(inside, fits)
                place = place + Ix.of(b.cast(first, "index", signed=False))
            at.append(place)
            if vec is not None and w == vec.axis:
                inner = Vec(d, vec.width, vec.step)
        return where(reader.elements, inside, reader(self.source, tuple(at), inner), self.fill, self.dtype)

    def _moved_inside(
        self, reader: Reader, start: Node, limit: int, at: Index, vec: Vec | None
    ) -> tuple[Value, Value | None]:
        """Where windows begin along a dimension, moved inside, and whether they were."""
        e = reader.elements
        number = e.lift(reader(start, at, vec), start.dtype, vec.width if vec is not None else 0)
        assert isinstance(number, Value)
        if isinstance(start, Iota) and start.shape[start.dimension] <= limit + 1:
            return e.b.cast(number, "i32"), None
        return moved_inside(e, number, start.dtype, limit, self.fill is not None)

    def _lanes(self, reader: Reader, index: Index, vec: Vec) -> Element:
        """The elements at several places: the places are computed as vectors, the elements are read one by one."""
        e, b = reader.elements, reader.elements.b
        at, along = tuple(index[k] for k in self.batch), Vec(self.batch.index(vec.axis), vec.width, vec.step)
        strides = self.source.strides if isinstance(self.source, Array) else None
        last = 0 if strides is None else sum(n * s for n, s in zip(self.limits, strides))
        firsts: list[Value | None] = []
        flat, inside = None, None
        for d, (start, limit) in enumerate(zip(self.starts, self.limits)):
            first = None
            if start is not None:
                first, fits = self._moved_inside(reader, start, limit, at, along)
                inside = both(inside, fits)
                if strides is not None:
                    term = b.cast(first, "i64" if last >= 1 << 31 else "i32") * strides[d]
                    flat = term if flat is None else flat + term
            firsts.append(first)
        window = [ZERO if w is None else index[w] for w in self.window]
        single: list[list[Value]] = []
        for k in range(vec.width):
            if isinstance(self.source, Array) and flat is not None:
                place = self.source.place(tuple(window)) + Ix.of(b.cast(b.extract(flat, k), "index", signed=False))
                x = self.source.memory.load(place.emit(b))
            else:
                there = [
                    i if first is None else i + Ix.of(b.cast(b.extract(first, k), "index"))
                    for i, first in zip(window, firsts)
                ]
                x = reader(self.source, tuple(there), None)
            single.append(e.parts(x, self.dtype))
        x = e.joined([b.from_elements(column) for column in zip(*single)])
        return where(e, inside, x, self.fill, self.dtype)


# -- views ------------------------------------------------------------------------------------------------------------


def view(
    source: Node,
    shape: tuple[int, ...],
    axis: Sequence[int | None],
    step: Sequence[int] | None = None,
    offset: Sequence[Ix] | None = None,
) -> Node:
    """A view; of memory it is memory with other strides."""
    steps = tuple(step or (1,) * len(axis))
    offsets = tuple(offset or (ZERO,) * len(axis))
    if not source.shape:
        return View(shape, source.dtype, source, (), (), ())
    if isinstance(source, Array) and all(a is None or list(axis).count(a) == 1 for a in axis):
        strides = [0] * len(shape)
        for a, s, k in zip(axis, steps, source.strides):
            if a is not None:
                strides[a] = s * k
        lane = _lane_of_view(source, shape, axis, steps, offsets)
        return Array(shape, source.dtype, source.memory, tuple(strides), source.place(offsets), source.owner, lane)
    if isinstance(source, View):
        inner_axis = tuple(None if a is None else axis[a] for a in source.axis)
        inner_step = tuple(1 if a is None else s * steps[a] for a, s in zip(source.axis, source.step))
        inner_offset = tuple(
            o if a is None else o + offsets[a] * s for a, s, o in zip(source.axis, source.step, source.offset)
        )
        return View(shape, source.dtype, source.source, inner_axis, inner_step, inner_offset)
    return View(shape, source.dtype, source, tuple(axis), steps, offsets)


def row(x: Node, i: Ix) -> Node:
    """The view at an index of the first dimension."""
    rank = len(x.shape)
    return view(x, x.shape[1:], [None, *range(rank - 1)], None, [i, *[ZERO] * (rank - 1)])


def without_ones(x: Node, shape: tuple[int, ...]) -> Node | None:
    """The view in a shape that differs by dimensions of one only; None for other shapes."""
    if x.shape and [n for n in x.shape if n != 1] != [n for n in shape if n != 1]:
        return None
    places = iter(d for d, n in enumerate(shape) if n != 1)
    return view(x, shape, [None if n == 1 else next(places) for n in x.shape])


def _lane_of_view(
    source: Node, shape: Sequence[int], axis: Sequence[int | None], step: Sequence[int], offset: Sequence[Ix]
) -> Lane:
    """The dimensions of a view that are its source's lanes. Raises NoKernel unless these are taken whole and in order."""
    lane = source.lane
    if lane is None:
        return None
    first, count = lane
    to = axis[first]
    for k, d in enumerate(range(first, first + count)):
        whole = (step[d], offset[d]) == (1, ZERO)
        if to is None or axis[d] != to + k or not whole or shape[to + k] != source.shape[d]:
            raise NoKernel("lanes are taken in part, repeated, or in another order")
    assert to is not None
    return to, count


def leaves(node: Node, same: bool = True) -> Iterator[tuple[object, bool]]:
    """The carried arrays that a node reads: (owner, whether only the element at the very place that is computed)."""
    seen: set[tuple[Node, bool]] = set()
    pending = [(node, same)]
    while pending:
        x, same = pending.pop()
        if (x, same) in seen:
            continue
        seen.add((x, same))
        if isinstance(x, Array):
            if x.owner is not None:
                yield x.owner, same and x.contiguous and x.shape == getattr(x.owner, "shape", None)
        else:
            inner = same and isinstance(x, Elementwise)
            pending += [(y, inner) for y in x.inputs]


def joined(node: Node, known: dict[Node, Node | None]) -> Node | None:
    """The node with its last two dimensions as one, where that is only another name for the same elements."""
    if node in known:
        return known[node]
    out: Node | None = None
    if not node.shape:
        out = node
    elif isinstance(node, Array):
        out = node.joined()
    elif isinstance(node, View) and not node.source.shape:
        out = View((*node.shape[:-2], node.shape[-2] * node.shape[-1]), node.dtype, node.source, (), (), ())
    elif isinstance(node, Elementwise):
        operands = [joined(x, known) for x in node.operands]
        if all(x is not None for x in operands):
            shape = (*node.shape[:-2], node.shape[-2] * node.shape[-1])
            out = Elementwise(shape, node.dtype, node.primitive, node.params, tuple(operands))  # type: ignore[arg-type]
    known[node] = out
    return out

"""Jaxprs on small arrays held in registers: every element is a value of the kernel, structure costs nothing.

A :class:`RegisterArray` is an array of elements, taken apart along all of its dimensions but those that are *lanes*: a run of
neighbouring dimensions, the same in all arrays of a program, whose elements are cut into vectors. Without lanes
elements are scalars (an ODE of three unknowns); with them they are vectors (1000 such ODEs, the pixels of an image, a
state of 16 numbers). Slices, transposes, stacks and the like of other dimensions are rearrangements while the kernel
is built. Along the lanes there are elementwise operations and, where one workgroup has them all, reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Jaxpr, Literal

from ..core.errors import NoKernel
from ..core.values import Operand, Value, vector
from ..elements.memory import Memory
from ..elements.operations import Element, Elements, value_type, width_of
from ..lazy.nodes import ZERO, Array, Index, Ix, Lane, Node, Reader, Vec
from ..lazy.random import RANDOM
from ..lazy.schedule import Rules, Schedule, number
from ..lazy.views import VIEWS


@dataclass(frozen=True)
class Chunk:
    """A vector of lanes: its first lane and their number (0: one lane, as a scalar)."""

    start: Operand
    width: int


@dataclass(frozen=True)
class Space:
    """The lanes: the dimensions they are, and the chunks that this workgroup computes (all of them unless `partial`)."""

    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    partial: bool = False

    @property
    def size(self) -> int:
        """The number of lanes."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class RegisterArray(Node):
    """An array of elements.

    ``data`` has an axis for each dimension, or 1 where all elements along it are the same; the dimensions that are
    lanes are one axis, of chunks.
    """

    data: Any
    own_lane: Lane = None

    @property
    def lane(self) -> Lane:
        return self.own_lane

    @property
    def scalar(self) -> Element:
        """The element of an array of one."""
        return self.data.reshape(-1)[0]

    def varies(self, d: int) -> bool:
        return self.data.shape[axis_of(d, self.lane)] > 1

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        assert isinstance(reader, LaneReader)
        lane, at = self.lane, [i.const for i in index]
        if lane is not None:
            at[lane[0] : sum(lane)] = [reader.chunk]
        return self.data[tuple(i if n > 1 else 0 for i, n in zip(at, self.data.shape))]


@dataclass(frozen=True)
class Form:
    """What a carried array is made of."""

    shape: tuple[int, ...]
    dtype: DType
    lane: Lane

    @staticmethod
    def of(x: Node) -> Form:
        """The form of an array."""
        return Form(x.shape, x.dtype, x.lane)


@dataclass(frozen=True, eq=False)
class LaneReader(Reader):
    """Reads nodes at a chunk of the lanes, of this number."""

    chunk: int = 0


#: A tile is read from memory as a whole only up to so many elements.
MOST_ELEMENTS = 256


def objects(shape: Sequence[int]) -> Any:
    """An array of Python objects: of elements."""
    return np.empty(tuple(shape), object)


def lane_of(shape: tuple[int, ...], lanes: tuple[int, ...] | None) -> Lane:
    """The first run of dimensions that are the lanes."""
    if lanes is None:
        return None
    n = len(lanes)
    return next(((k, n) for k in range(len(shape) - n + 1) if shape[k : k + n] == lanes), None)


def full_shape(shape: Sequence[int], lane: Lane, space: Space | None) -> tuple[int, ...]:
    """The shape of a tile's data with no axis shortened."""
    if lane is None:
        return tuple(shape)
    assert space is not None
    return (*shape[: lane[0]], len(space.chunks), *shape[lane[0] + lane[1] :])


def axis_of(d: int, lane: Lane) -> int:
    """The axis of a dimension in a tile's data."""
    if lane is None or d < lane[0]:
        return d
    return max(lane[0], d - lane[1] + 1)


#: How primitives that are not elementwise are done in registers.
RULES = Rules({**VIEWS, **RANDOM})
rule = RULES.of


class Interpreter(Schedule):
    """Emits jaxprs on arrays in registers, and on parts of arrays in memory that are read where they are used."""

    rules = RULES

    def __init__(self, elements: Elements, space: Space | None) -> None:
        super().__init__(elements)
        self.space = space
        #: Whether "any lane" may mean those of this workgroup: see loops.ends_by_lane.
        self.any_of_own = False

    def run(self, jaxpr: Jaxpr, args: Sequence[Node]) -> list[Node]:
        """The outputs of a jaxpr."""
        env: dict[Any, Node] = dict(zip(jaxpr.invars, args, strict=True))

        def read(a: Any) -> Node:
            return number(a) if isinstance(a, Literal) else env[a]

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outputs, self.equation(eqn, [read(a) for a in eqn.inputs]), strict=True))
        return [read(a) for a in jaxpr.outvars]

    # -- forms -----------------------------------------------------------------------------------------------

    def in_registers(self, x: Node) -> RegisterArray:
        """An array's elements: read from memory, or from where they are in other arrays, or computed."""
        if isinstance(x, RegisterArray):
            return x
        lane = x.lane
        sizes = [n if x.varies(d) else 1 for d, n in enumerate(x.shape)]
        if lane is not None and self.space is not None:
            over = slice(lane[0], sum(lane))
            sizes[over] = [len(self.space.chunks) if math.prod(sizes[over]) > 1 else 1]
        if math.prod(sizes) > (MOST_ELEMENTS if isinstance(x, Array) else 4 * MOST_ELEMENTS):
            raise NoKernel(f"{dtypes.SHORT[x.dtype]}{list(x.shape)} has too many elements for registers")
        data, seen = objects(sizes), dict[Any, Element]()
        for index, at, vec in self.places(sizes, lane):
            reader = LaneReader(self.elements, seen, index[lane[0]] if lane is not None else 0)
            data[index] = reader(x, at, vec)
        return RegisterArray(x.shape, x.dtype, data, lane)

    def computed(self, node: Node) -> Node:
        """The array in registers: elements are computed once, before they are used."""
        return self.in_registers(node)

    def steady(self, node: Node) -> Node:
        """The array in registers."""
        return self.in_registers(node)

    def element(self, node: Node) -> Element:
        """The element of a scalar."""
        return self.in_registers(node).scalar

    def lane_of(self, shape: tuple[int, ...]) -> Lane:
        """The first run of dimensions that are the space's."""
        return lane_of(shape, None if self.space is None else self.space.shape)

    def places(self, sizes: Sequence[int], lane: Lane) -> Iterator[tuple[tuple[int, ...], Index, Vec | None]]:
        """The index in data of these sizes of each element, its place in the array, and the vector that it is."""
        for index in np.ndindex(*sizes):
            at = [Ix((), i) for i in index]
            if lane is None:
                yield index, tuple(at), None
                continue
            assert self.space is not None
            (first, count), chunk = lane, self.space.chunks[index[lane[0]]]
            # The lanes are counted along the last of their dimensions.
            at[first : first + 1] = [*[ZERO] * (count - 1), Ix.of(chunk.start)]
            yield index, tuple(at), Vec(first + count - 1, chunk.width) if chunk.width else None

    def store(self, node: Node, to: Array) -> None:
        """Write an array to memory, in lanes if it, or the memory, has them."""
        tile = self.in_registers(node)
        lane = to.lane if tile.lane is None else tile.lane
        if lane is not None:
            tile = self.in_lanes(tile, lane)
        data = self.full(tile)
        for index, at, vec in self.places(data.shape, lane):
            x = self.elements.lift(data[index], tile.dtype, self.width_at(index, lane))
            to.write(self.elements, x, at, vec)

    def in_lanes(self, tile: RegisterArray, lane: tuple[int, int]) -> RegisterArray:
        """The tile with these dimensions as its lanes."""
        if tile.lane == lane:
            return tile
        first, count = lane
        if tile.lane is not None:
            raise NoKernel("two dimensions of one array would be the lanes")
        if self.space is None or math.prod(tile.shape[first : first + count]) != self.space.size:
            raise NoKernel("an array has another size along the lanes")  # joined to others, for one
        rest = (*tile.data.shape[:first], -1, *tile.data.shape[first + count :])
        merged = tile.data.shape[first : first + count]
        if math.prod(merged) == 1:
            return RegisterArray(tile.shape, tile.dtype, tile.data.reshape(rest), lane)
        space = self.space
        assert space is not None
        if space.partial or space.size > MOST_ELEMENTS:
            raise NoKernel("single elements would be put into lanes")
        flat = np.broadcast_to(
            tile.data, (*tile.data.shape[:first], *tile.shape[first : first + count], *tile.data.shape[first + count :])
        ).reshape(rest)
        data = objects((*flat.shape[:first], len(space.chunks), *flat.shape[first + 1 :]))
        for index in np.ndindex(data.shape):
            chunk = space.chunks[index[first]]
            assert isinstance(chunk.start, int)
            items = [
                self.elements.parts(flat[(*index[:first], chunk.start + l, *index[first + 1 :])], tile.dtype)
                for l in range(max(1, chunk.width))
            ]
            columns = zip(*items)
            parts = [self.b.from_elements(c) if chunk.width else c[0] for c in columns]
            data[index] = self.elements.joined(parts)
        return RegisterArray(tile.shape, tile.dtype, data, lane)

    def out_of_lanes(self, tile: RegisterArray) -> RegisterArray:
        """The tile's elements as scalars."""
        if tile.lane is None:
            return tile
        space, (first, count) = self.space, tile.lane
        assert space is not None
        if space.partial or space.size > 64:
            raise NoKernel("lanes would be used one by one")
        shape = (*tile.data.shape[:first], space.size, *tile.data.shape[first + 1 :])
        data = objects(shape)
        source = np.broadcast_to(
            tile.data, (*tile.data.shape[:first], len(space.chunks), *tile.data.shape[first + 1 :])
        )
        for index in np.ndindex(source.shape):
            chunk = space.chunks[index[first]]
            assert isinstance(chunk.start, int)
            x: Any = source[index]
            for l in range(max(1, chunk.width)):
                single = x
                if width_of(x):
                    parts = self.elements.parts(x, tile.dtype)
                    single = self.elements.joined([self.b.extract(p, l) for p in parts])
                data[(*index[:first], chunk.start + l, *index[first + 1 :])] = single
        split = (*shape[:first], *tile.shape[first : first + count], *shape[first + 1 :])
        return RegisterArray(tile.shape, tile.dtype, data.reshape(split))

    def together(self, nodes: Sequence[Node]) -> list[RegisterArray]:
        """Arrays of one shape (scalars aside) with the same dimensions as lanes."""
        return self.same_lanes(list(map(self.in_registers, nodes)))[0]

    def same_lanes(self, tiles: Sequence[RegisterArray]) -> tuple[list[RegisterArray], Lane]:
        """Tiles of one shape with the same lanes, and these."""
        lanes = {t.lane for t in tiles if t.lane is not None}
        if not lanes:
            return list(tiles), None
        if len(lanes) > 1:
            raise NoKernel("operands have different dimensions as lanes")
        lane = lanes.pop()
        return [t if not t.shape else self.in_lanes(t, lane) for t in tiles], lane

    # -- elementwise -----------------------------------------------------------------------------------------

    def elementwise(self, eqn: Eqn, nodes: Sequence[Node]) -> RegisterArray:
        """An elementwise equation."""
        if eqn.primitive.family != "elementwise":
            raise NoKernel(eqn.primitive.name)
        aval, tiles = eqn.outputs[0].aval, [self.in_registers(x) for x in nodes]
        in_dtypes = [a.aval.dtype for a in eqn.inputs]
        out = self.map(
            lambda *xs: self.elements.apply(eqn.primitive, eqn.params, in_dtypes, aval.dtype, xs), tiles, aval.dtype
        )
        if out.shape != aval.shape:
            raise NoKernel(f"{eqn.primitive.name}")
        return out

    def map(self, f: Callable[..., Element], tiles: Sequence[RegisterArray], dtype: DType) -> RegisterArray:
        """A function of elements on tiles of one shape, or scalars."""
        tiles, lane = self.same_lanes(tiles)
        arrays = np.broadcast_arrays(*(t.data for t in tiles)) if tiles else []
        shape = max((t.shape for t in tiles), key=len)
        out = objects(arrays[0].shape)
        for index in np.ndindex(out.shape):
            out[index] = f(*(a[index] for a in arrays))
            self.b.check_length()
        if shape and not out.shape:
            raise NoKernel("a scalar stands for an array")
        return RegisterArray(shape, dtype, out, lane)

    def full(self, tile: RegisterArray) -> Any:
        """The tile's data with no axis shortened."""
        shape = full_shape(tile.shape, tile.lane, self.space)
        if math.prod(shape) > 4 * MOST_ELEMENTS:
            raise NoKernel(f"{dtypes.SHORT[tile.dtype]}{list(tile.shape)} has too many elements for registers")
        return np.broadcast_to(tile.data, shape)

    def lane_numbers(self, chunk: Chunk, elem: str) -> Value:
        """The numbers of a chunk's lanes."""
        b, start = self.b, chunk.start
        if isinstance(start, int):
            numbers = range(start, start + max(1, chunk.width))
            return b.const_vector(numbers, elem) if chunk.width else b.const(start, elem)
        assert isinstance(start, Value)
        scalar = b.cast(start, elem)
        if not chunk.width:
            return scalar
        return b.broadcast(scalar, chunk.width) + b.const_vector(range(chunk.width), elem)

    # -- flat lists of values, for loops ---------------------------------------------------------------------

    def values_of(self, tile: RegisterArray, lane: Lane) -> list[Value]:
        """The values that a tile consists of, in the form :meth:`types_of` says."""
        if lane is not None:
            tile = self.in_lanes(tile, lane)
        elif tile.lane is not None:
            raise NoKernel("an array's lanes differ between iterations")
        out: list[Value] = []
        data = self.full(tile)
        for index in np.ndindex(data.shape):
            out += self.elements.parts(data[index], tile.dtype, self.width_at(index, lane))
        return out

    def width_at(self, index: Sequence[int], lane: Lane) -> int:
        """Lanes of the element of a tile's data at an index."""
        if lane is None:
            return 0
        assert self.space is not None
        return self.space.chunks[index[lane[0]]].width

    def types_of(self, form: Form) -> list[str]:
        """The types of the values that an array of a form consists of."""
        sizes = full_shape(form.shape, form.lane, self.space)
        if math.prod(sizes) > 4 * MOST_ELEMENTS:
            raise NoKernel(f"{dtypes.SHORT[form.dtype]}{list(form.shape)} has too many elements for registers")
        elem, numbers = value_type(form.dtype), Memory.numbers(form.dtype)
        widths = (self.width_at(index, form.lane) for index in np.ndindex(*sizes))
        return [vector(w, elem) if w else elem for w in widths for _ in range(numbers)]

    def tile_of(self, values: Iterator[Value], form: Form) -> RegisterArray:
        """The tile of a form that consists of the next of these values."""
        data = objects(full_shape(form.shape, form.lane, self.space))
        for index in np.ndindex(data.shape):
            data[index] = self.elements.joined([next(values) for _ in range(Memory.numbers(form.dtype))])
        return RegisterArray(form.shape, form.dtype, data, form.lane)

    def placeholder(self, form: Form) -> RegisterArray:
        """A tile of values that are not there, to find out what is done with them."""
        return self.tile_of((Value(self.b, "%none", t) for t in self.types_of(form)), form)

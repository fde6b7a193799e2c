"""Jaxprs on small arrays held in registers: every element is a value of the kernel, structure costs nothing.

A :class:`RegisterArray` is an array of elements, taken apart along all of its dimensions but those that are *lanes*: a run of
neighbouring dimensions, the same in all arrays of a program, whose elements are cut into vectors. Without lanes
elements are scalars (an ODE of three unknowns); with them they are vectors (1000 such ODEs, the pixels of an image, a
state of 16 numbers). Slices, transposes, stacks and the like of other dimensions are rearrangements while the kernel
is built. Along the lanes there are elementwise operations and, where one workgroup has them all, reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Jaxpr, Literal
from quire.ir.primitive import Primitive

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.values import Operand, Value, like, vector
from ..elements.memory import Memory
from ..elements.operations import CALLS, Element, Elements, called, is_number, literal, width_of

Lane = "tuple[int, int] | None"


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
class RegisterArray:
    """An array of elements.

    ``data`` has an axis for each dimension, or 1 where all elements along it are the same; the dimensions that are
    lanes, ``lane = (first, count)``, are one axis, of chunks.
    """

    shape: tuple[int, ...]
    dtype: DType
    data: Any
    lane: tuple[int, int] | None = None

    @property
    def scalar(self) -> Element:
        """The element of an array of one."""
        return self.data.reshape(-1)[0]


@dataclass(frozen=True, eq=False)
class Stored:
    """An array in memory that the kernel only reads, or only writes: the elements from flat place `base` on."""

    shape: tuple[int, ...]
    dtype: DType
    memory: Memory
    strides: tuple[int, ...]
    base: Operand = 0
    lane: tuple[int, int] | None = None

    def row(self, elements: Elements, i: Operand) -> Stored:
        """The array at index i of the first dimension."""
        lane = self.lane and (self.lane[0] - 1, self.lane[1])
        base = moved(elements.b, self.base, i, self.strides[0])
        return Stored(self.shape[1:], self.dtype, self.memory, self.strides[1:], base, lane)


def moved(b: KernelBuilder, base: Operand, steps: Operand, stride: int) -> Operand:
    """The flat place ``base + steps * stride``."""
    if isinstance(steps, Value):
        return steps * stride if isinstance(base, int) and base == 0 else steps * stride + base
    return base + int(steps) * stride if steps else base


Array = RegisterArray | Stored
Lanes = "tuple[int, int] | None"

#: A tile is read from memory as a whole only up to so many elements.
MOST_ELEMENTS = 256


def objects(shape: Sequence[int]) -> Any:
    """An array of Python objects: of elements."""
    return np.empty(tuple(shape), object)


def lane_of(shape: tuple[int, ...], lanes: tuple[int, ...] | None) -> tuple[int, int] | None:
    """The first run of dimensions that are the lanes."""
    if lanes is None:
        return None
    n = len(lanes)
    return next(((k, n) for k in range(len(shape) - n + 1) if shape[k : k + n] == lanes), None)


def full_shape(shape: Sequence[int], lane: tuple[int, int] | None, space: Space | None) -> tuple[int, ...]:
    """The shape of a tile's data with no axis shortened."""
    if lane is None:
        return tuple(shape)
    assert space is not None
    return (*shape[: lane[0]], len(space.chunks), *shape[lane[0] + lane[1] :])


def axis_of(d: int, lane: tuple[int, int] | None) -> int:
    """The axis of a dimension in a tile's data."""
    if lane is None or d < lane[0]:
        return d
    return max(lane[0], d - lane[1] + 1)


Rule = Callable[..., "Sequence[Array]"]
RULES: dict[Primitive, Rule] = {}


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """Register how a primitive is done on tiles: ``rule(interpreter, eqn, *arrays)``."""

    def register(f: Rule) -> Rule:
        for p in primitives:
            RULES[p] = f
        return f

    return register


class Interpreter:
    """Emits jaxprs on tiles."""

    def __init__(self, elements: Elements, space: Space | None) -> None:
        self.elements = elements
        self.space = space
        #: Whether "any lane" may mean those of this workgroup: see loops.ends_by_lane.
        self.any_of_own = False

    @property
    def b(self) -> KernelBuilder:
        """The builder."""
        return self.elements.b

    def run(self, jaxpr: Jaxpr, args: Sequence[Array]) -> list[Array]:
        """The outputs of a jaxpr."""
        env: dict[Any, Array] = dict(zip(jaxpr.invars, args, strict=True))

        def read(a: Any) -> Array:
            return self.number(a) if isinstance(a, Literal) else env[a]

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outputs, self.equation(eqn, [read(a) for a in eqn.inputs]), strict=True))
        return [read(a) for a in jaxpr.outvars]

    def number(self, a: Literal) -> RegisterArray:
        """A literal as a tile."""
        data = objects(())
        data[()] = literal(a)
        return RegisterArray((), a.aval.dtype, data)

    def equation(self, eqn: Eqn, args: Sequence[Array]) -> Sequence[Array]:
        """One equation's outputs."""
        self.b.check_length()
        if eqn.effects:
            raise NoKernel(f"{eqn.primitive.name} has an effect")
        if eqn.primitive in CALLS:
            return self.run(called(eqn.params), args)
        found = RULES.get(eqn.primitive)
        if found is not None:
            return found(self, eqn, *args)
        if eqn.primitive.family != "elementwise":
            raise NoKernel(eqn.primitive.name)
        return [self.elementwise(eqn, [self.in_registers(x) for x in args])]

    # -- forms -----------------------------------------------------------------------------------------------

    def in_registers(self, x: Array) -> RegisterArray:
        """An array's elements, read where they are in memory."""
        if isinstance(x, RegisterArray):
            return x
        shape = full_shape(x.shape, x.lane, self.space)
        if math.prod(shape) > MOST_ELEMENTS:
            raise NoKernel(f"{dtypes.SHORT[x.dtype]}{list(x.shape)} has too many elements for registers")
        data = objects(shape)
        for index in np.ndindex(shape):
            at, width, stride = self.place(x, index)
            data[index] = x.memory.load(at, width, stride)
        return RegisterArray(x.shape, x.dtype, data, x.lane)

    def place(self, x: Stored, index: Sequence[int]) -> tuple[Operand, int, int]:
        """Where an element (by its index in a tile's data) is in memory: flat place, width, stride."""
        at: Operand = x.base
        constant, chunk, stride = 0, None, 1
        for axis, i in enumerate(index):
            if x.lane is not None and axis == x.lane[0]:
                assert self.space is not None
                chunk, stride = self.space.chunks[i], x.strides[x.lane[0] + x.lane[1] - 1]
            else:
                d = axis if x.lane is None or axis < x.lane[0] else axis + x.lane[1] - 1
                constant += i * x.strides[d]
        if chunk is not None:
            at = moved(self.b, at, chunk.start, stride)
        return moved(self.b, at, constant, 1), 0 if chunk is None else chunk.width, stride

    def store(self, tile: RegisterArray, to: Stored) -> None:
        """Write a tile to memory, in lanes if it, or the memory, has them."""
        lane = to.lane if tile.lane is None else tile.lane
        if lane is not None:
            tile = self.in_lanes(tile, lane)
        to = replace(to, lane=lane)
        data: Any = np.broadcast_to(tile.data, full_shape(tile.shape, lane, self.space))
        if data.size > 4 * MOST_ELEMENTS:
            raise NoKernel(f"{dtypes.SHORT[tile.dtype]}{list(tile.shape)} has too many elements for registers")
        for index in np.ndindex(data.shape):
            at, width, stride = self.place(to, index)
            to.memory.store(self.elements.lift(data[index], tile.dtype, width), at, width, stride)

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

    def same_lanes(self, tiles: Sequence[RegisterArray]) -> tuple[list[RegisterArray], tuple[int, int] | None]:
        """Tiles of one shape (scalars aside) with the same dimensions as lanes."""
        lanes = {t.lane for t in tiles if t.lane is not None}
        if not lanes:
            return list(tiles), None
        if len(lanes) > 1:
            raise NoKernel("operands have different dimensions as lanes")
        lane = lanes.pop()
        return [t if not t.shape else self.in_lanes(t, lane) for t in tiles], lane

    # -- elementwise -----------------------------------------------------------------------------------------

    def elementwise(self, eqn: Eqn, tiles: Sequence[RegisterArray]) -> RegisterArray:
        """An elementwise equation."""
        if len(eqn.outputs) != 1 or eqn.primitive.multiple_results:
            raise NoKernel(f"{eqn.primitive.name}")
        aval = eqn.outputs[0].aval
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

    def values_of(self, tile: RegisterArray, lane: tuple[int, int] | None) -> list[Value]:
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

    def width_at(self, index: Sequence[int], lane: tuple[int, int] | None) -> int:
        """Lanes of the element of a tile's data at an index."""
        if lane is None:
            return 0
        assert self.space is not None
        return self.space.chunks[index[lane[0]]].width

    def tile_of(
        self, values: Sequence[Value], shape: tuple[int, ...], dtype: DType, lane: tuple[int, int] | None
    ) -> RegisterArray:
        """The tile that consists of these values."""
        data = objects(full_shape(shape, lane, self.space))
        n = Memory.numbers(dtype)
        for k, index in enumerate(np.ndindex(data.shape)):
            data[index] = self.elements.joined(values[k * n : k * n + n])
        return RegisterArray(shape, dtype, data, lane)

    def placeholder(self, shape: tuple[int, ...], dtype: DType, lane: tuple[int, int] | None) -> RegisterArray:
        """A tile of values that are not there, to find out what is done with them."""
        data = objects(full_shape(shape, lane, self.space))
        if data.size > 4 * MOST_ELEMENTS:
            raise NoKernel(f"{dtypes.SHORT[dtype]}{list(shape)} has too many elements for registers")
        for index in np.ndindex(data.shape):
            lifted = self.elements.parts(0, dtype, self.width_at(index, lane))
            data[index] = self.elements.joined([Value(self.b, "%none", v.type) for v in lifted])
        return RegisterArray(shape, dtype, data, lane)


def numbers_only(tile: RegisterArray) -> bool:
    """Whether all elements are known numbers."""
    return all(is_number(x) for x in tile.data.reshape(-1))


__all__ = [
    "Array",
    "Chunk",
    "Interpreter",
    "RULES",
    "Space",
    "Stored",
    "RegisterArray",
    "lane_of",
    "like",
    "rule",
    "vector",
]

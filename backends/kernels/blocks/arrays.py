"""The arrays of a user-written kernel: operands, results and scratch memory, read and written by places and spans."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.dtypes import DType

from ..core.values import Value
from ..elements.memory import Memory
from ..elements.operations import Element
from .indices import Index, Span
from .tiles import Place, Tile, reads_of

_NO = object()


@dataclass(frozen=True, eq=False)
class Access:
    """Which elements of an array a load or store means.

    Attributes:
        array: of which array.
        places: for each of its dimensions one place, or a span of them, which is a dimension of the tile.
        mask: where elements are meant at all; None: everywhere.
        guarded: places may lie outside of the array, where nothing is read or written.
    """

    array: Ref
    places: tuple[Index | Span, ...]
    mask: Tile | None
    guarded: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tile."""
        return tuple(p.size for p in self.places if isinstance(p, Span))

    @property
    def may_precede(self) -> bool:
        """Whether a vector of it may begin before the array, with some lanes inside: no pointer may point there."""
        last = next((p for p in reversed(self.places) if isinstance(p, Span)), None)
        return self.guarded and last is not None and last.low < 0

    def pointed(self, flat: Value) -> Value:
        """A flat place within the array, for a vector of which no lane is inside where the place is not."""
        b = self.array.block.builder
        return b.smax(b.smin(flat, self.array.memory.buffer.shape[0] - 1), 0) if self.guarded else flat

    def like(self, other: Access) -> bool:
        """Whether it means the same elements, in the same order, as another one."""
        return (
            self.array is other.array
            and len(self.places) == len(other.places)
            and all(
                (p.start.value.name, p.size) == (q.start.value.name, q.size)
                if isinstance(p, Span) and isinstance(q, Span)
                else isinstance(p, Index) and isinstance(q, Index) and p.value.name == q.value.name
                for p, q in zip(self.places, other.places)
            )
        )

    def at(self, place: Place) -> tuple[Value, int, Value | None]:
        """The flat place of an element, the step to the next one along the tile's last dimension, and where there is one.

        The last is a bool, or a vector of them for a vector of elements; None: everywhere.
        """
        block, b = self.array.block, self.array.block.builder
        dims = iter(place.indices)
        inside: Value | None = None
        flat, step = self.array.offset, 1
        last = max((d for d, p in enumerate(self.places) if isinstance(p, Span)), default=-1)
        for d, (p, n) in enumerate(zip(self.places, self.array.shape)):
            start = p.start if isinstance(p, Span) else p
            block.check_scope(start.scope, None)
            at = b.add(start.value, next(dims)) if isinstance(p, Span) else start.value
            stride = self.array.strides[d]
            flat = b.add(flat, b.mul(at, stride))
            if d == last:
                step = stride
            if not self.guarded:
                continue
            for outside, predicate, bound in ((p.low < 0, "sge", 0), (p.high >= n, "slt", n)):
                if not outside:
                    continue
                if d == last and place.width:
                    lanes = b.add(
                        b.broadcast(b.cast(at, "i64"), place.width), b.const_vector(range(place.width), "i64")
                    )
                    inside = _both(b, inside, b.cmp(predicate, lanes, bound), place.width)
                else:
                    inside = _both(b, inside, b.cmp(predicate, at, bound), place.width)
        if self.mask is not None:
            asked = block.elements.lift(self.mask.at(place), dtypes.bool_, place.width)
            inside = _both(b, inside, asked, place.width)
        return flat, step, inside


def _both(b: Any, x: Value | None, y: Value, width: int) -> Value:
    from ..core.values import lanes

    y = b.broadcast(y, width) if width and not lanes(y.type) else y
    return y if x is None else b.and_(x, y)


class Load(Tile):
    """The elements of an access, read where they are needed."""

    def __init__(self, access: Access, other: Any) -> None:
        super().__init__(
            access.array.block, access.shape, access.array.dtype, () if access.mask is None else (access.mask,)
        )
        self.access = access
        self.other = other
        self.kept: Tile | None = None  # what was read, where the array was about to be written
        self.stale = False
        if access.array.written:
            access.array.pending[id(self)] = self

    def element(self, place: Place) -> Element:
        """Read from memory, or the other value outside of the array or the mask."""
        if self.kept is not None:
            return self.kept.element(place)
        if self.stale:
            raise self.block.error(
                f"a tile was read from {self.access.array.name} before it was written there, and is used after it: put k.keep "
                "around the load"
            )
        flat, step, inside = self.access.at(place)
        memory = self.access.array.memory
        if inside is None:
            return memory.load(flat, place.width, step)
        return self._guarded(memory, flat, step, inside, place.width)

    def _guarded(self, memory: Memory, flat: Value, step: int, inside: Value, width: int) -> Element:
        b, elements = self.block.builder, self.block.elements
        if width and step == 1 and self.access.may_precede:
            kind = elements.lift(self.other, self.dtype, width).type
            with b.if_(b.cmp("sge", flat, 0), [kind]) as branch:
                branch.yield_(self._vector(memory, flat, inside, width))
                branch.else_()
                branch.yield_(self._lanes(memory, flat, step, inside, width))
            return branch.results[0]
        if width:
            return (
                self._vector(memory, flat, inside, width)
                if step == 1
                else self._lanes(memory, flat, step, inside, width)
            )
        other = elements.lift(self.other, self.dtype)
        with b.if_(inside, [other.type]) as branch:
            branch.yield_(memory.load(flat))
            branch.else_()
            branch.yield_(other)
        return branch.results[0]

    def _vector(self, memory: Memory, flat: Value, inside: Value, width: int) -> Value:
        """Neighbours of which those outside are not read; where none is inside, the place is moved into the array."""
        b, elements = self.block.builder, self.block.elements
        raw = b.vload(width, memory.buffer, self.access.pointed(flat), mask=inside)
        value = b.cmp("ne", raw, 0) if dtypes.is_bool(self.dtype) else raw
        return value if self.other == 0 else b.select(inside, value, elements.lift(self.other, self.dtype, width))

    def _lanes(self, memory: Memory, flat: Value, step: int, inside: Value, width: int) -> Value:
        """The same, one by one."""
        b = self.block.builder
        places = ((b.add(flat, lane * step), b.extract(inside, lane)) for lane in range(width))
        return b.from_elements([self._guarded(memory, at, 1, within, 0) for at, within in places])


class Ref:
    """An array of the kernel's: an operand, which is read, a result, or scratch memory of the workgroup's own.

    ``x[i, span]`` reads a tile whose dimensions are those of the spans; ``:`` is all of a dimension, ``2:6`` a part known while the
    kernel is written. ``x[i, span] = tile`` writes one. What may lie outside of the array is an error, unless `load` and
    `store` are told what to do there.
    """

    def __init__(self, block: Any, name: str, shape: tuple[int, ...], dtype: DType, memory: Memory, offset: Value,
                 *, written: bool) -> None:  # fmt: skip
        self.block = block
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.memory = memory
        self.offset = offset
        self.written = written  # whether it may be written
        self.stored = False
        self.pending: weakref.WeakValueDictionary[int, Load] = weakref.WeakValueDictionary()
        strides = [1]
        for n in shape[:0:-1]:
            strides.append(strides[-1] * n)
        self.strides = tuple(strides[::-1]) if shape else ()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.name} {dtypes.SHORT[self.dtype]}[{','.join(map(str, self.shape))}]"

    def load(self, *places: Any, mask: Any = None, other: Any = _NO) -> Tile:
        """The tile at some places.

        Args:
            places: for each dimension an index, a span, or a slice.
            mask: a tile of bools: elsewhere nothing is read.
            other: a number for what the mask leaves out (0 by default), and for what lies outside of the array.

        Raises KernelError where elements may lie outside, and no `other` is given.
        """
        guarded = other is not _NO
        access = self._access(places, mask, guarded, "reads")
        return Load(access, other if guarded else 0)

    def __getitem__(self, key: Any) -> Tile:
        return self.load(*(key if isinstance(key, tuple) else (key,)))

    def store(self, *places: Any, value: Any, mask: Any = None, inside: bool = False) -> None:
        """Write a tile.

        Args:
            places: as for `load`.
            value: a tile that can be broadcast to the places' shape, of the array's dtype, or a number.
            mask: a tile of bools: elsewhere nothing is written.
            inside: leave out what lies outside of the array, which is an error otherwise.

        Raises KernelError for an operand, another dtype or shape, or places that may lie outside.
        """
        if not self.written:
            raise self.block.error(f"{self.name} is an operand, and is written: only results and scratch memory are")
        self.block.store(self._access(places, mask, inside, "writes"), value)
        self.stored = True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.store(*(key if isinstance(key, tuple) else (key,)), value=value)

    def prepare_store(self, value: Tile, access: Access) -> list[Load]:
        """Keep what was read and is not yet used; returns the loads that the store itself may read in passing."""
        own = {id(t) for t in reads_of(value, Load) if t.access.like(access) and t.shape == value.shape}
        for load in list(self.pending.values()):
            if id(load) not in own:
                load.kept = self.block.keep(load) if load.kept is None else load.kept
        return [t for t in self.pending.values() if id(t) in own]

    def _access(self, places: Sequence[Any], mask: Any, guarded: bool, does: str) -> Access:
        block = self.block
        given = list(places)
        if any(p is Ellipsis for p in given):
            at = next(i for i, p in enumerate(given) if p is Ellipsis)
            given[at : at + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        if len(given) != self.ndim:
            raise block.error(f"{self} is indexed by {len(given)} place(s), expected {self.ndim}")
        found = tuple(self._place(p, n, d) for d, (p, n) in enumerate(zip(given, self.shape)))
        for d, (p, n) in enumerate(zip(found, self.shape)):
            if not guarded and (p.low < 0 or p.high >= n):
                outside = p.low if p.low < 0 else p.high
                advice = "load(..., other=0)" if does == "reads" else "store(..., inside=True)"
                raise block.error(
                    f"the kernel {does} {self} at {outside} along dimension {d}, which has the places 0 to {n - 1}: change the "
                    f"grid or the span, or say what is to happen there ({advice})"
                )
        asked = None if mask is None else block.as_tile(mask, dtypes.bool_)
        access = Access(self, found, asked, guarded)
        if asked is not None:
            if asked.dtype != dtypes.bool_:
                raise block.error(f"the mask is of {asked.dtype}, expected bool")
            block.check_broadcast(asked.shape, access.shape, "the mask")
        return access

    def _place(self, p: Any, n: int, d: int) -> Index | Span:
        block = self.block
        if isinstance(p, Index | Span):
            return p
        if isinstance(p, slice):
            if not (p.step is None or (isinstance(p.step, int) and p.step == 1)) or not all(
                v is None or isinstance(v, int) for v in (p.start, p.stop)
            ):
                raise block.error(
                    f"{self.name} is indexed by {p}: a slice has Python numbers and no step; use k.span(start, size)"
                )
            start, stop, _ = p.indices(n)
            return block.span(start, max(stop - start, 0))
        if isinstance(p, int) and not isinstance(p, bool):
            return block.as_index(p + n if p < 0 else p)
        raise block.error(
            f"dimension {d} of {self.name} is indexed by {type(p).__name__}, expected an index, a span, a slice or a Python int"
        )


__all__ = ["Access", "Load", "Ref"]

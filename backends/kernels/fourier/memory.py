"""Where the stages of a Fourier transform read and write vectors of complex numbers.

Places are numbers of elements, from wherever the transform that is being computed begins. An inverse transform is the
forward one with real and imaginary parts exchanged, before and after: ``swap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..core.builder import KernelBuilder
from ..core.values import Buffer, Operand, Value
from .butterflies import Complex


class Memory(Protocol):
    """Vectors of complex numbers; ``pitch`` is the distance of consecutive elements of one transform."""

    pitch: int

    def load(self, at: Value) -> Complex:
        """The vector that begins at ``at``."""
        ...

    def store(self, at: Value, y: Complex) -> None:
        """Write a vector."""
        ...


@dataclass(eq=False)
class Planes:
    """Real parts at ``start`` of a buffer, imaginary parts ``distance`` behind them."""

    b: KernelBuilder
    buffer: Buffer
    start: Value
    distance: int
    lanes: int
    pitch: int

    def __post_init__(self) -> None:
        self.starts = (self.start, self.start + self.distance)

    def load(self, at: Value) -> Complex:
        """The vector of ``lanes`` numbers from place ``at`` on."""
        re, im = (self.b.vload(self.lanes, self.buffer, s + at) for s in self.starts)
        return re, im

    def store(self, at: Value, y: Complex) -> None:
        """Write a vector from place ``at`` on."""
        for s, v in zip(self.starts, y, strict=True):
            self.b.vstore(v, self.buffer, s + at)

    def store_part(self, at: Value, y: Complex, lanes: Sequence[int]) -> None:
        """Write some lanes of a vector to neighbouring places."""
        for s, v in zip(self.starts, y, strict=True):
            self.b.vstore(self.b.shuffle(v, v, lanes), self.buffer, s + at)

    def at(self, at: Value) -> tuple[Value, Value]:
        """One complex number."""
        re, im = (self.b.load(self.buffer, s + at) for s in self.starts)
        return re, im


@dataclass(eq=False)
class _End:
    """An operand or result: complex (``parts`` 2) or real (1). What is stored is scaled."""

    b: KernelBuilder
    buffer: Buffer
    parts: int
    pitch: int
    swap: bool
    scale: float

    def exchanged(self, re: Value, im: Value | None) -> Complex:
        """The two parts, exchanged if need be; imaginary parts of real memory are 0."""
        im = self.b.const(0, re.type) if im is None else im
        return (im, re) if self.swap else (re, im)

    def scaled(self, y: Complex) -> Complex:
        """What is stored of a vector: its two parts, exchanged if need be, and scaled."""
        re, im = y[::-1] if self.swap else y
        if self.scale == 1.0:
            return re, im
        return re * self.b.const(self.scale, re.type), im * self.b.const(self.scale, im.type)


@dataclass(eq=False)
class Interleaved(_End):
    """An operand or result, a vector being neighbouring elements from ``start`` on."""

    start: Value
    lanes: int

    def load(self, at: Value) -> Complex:
        """The vector of ``lanes`` numbers from place ``at`` on."""
        b, n = self.b, self.lanes
        place = (self.start + at) * self.parts
        low = b.vload(n, self.buffer, place)
        if self.parts == 1:
            return self.exchanged(low, None)
        high = b.vload(n, self.buffer, place + n)
        re, im = (b.shuffle(low, high, range(i, 2 * n, 2)) for i in range(2))
        return self.exchanged(re, im)

    def store(self, at: Value, y: Complex) -> None:
        """Write a vector from place ``at`` on; of real memory the real parts."""
        b, n = self.b, self.lanes
        re, im = self.scaled(y)
        place = (self.start + at) * self.parts
        if self.parts == 1:
            b.vstore(re, self.buffer, place)
            return
        for half in range(2):
            order = [lane // 2 + n * (lane % 2) for lane in range(half * n, (half + 1) * n)]
            b.vstore(b.shuffle(re, im, order), self.buffer, place + half * n)

    def store_one(self, at: Operand, re: Value, im: Value | None) -> None:
        """Write one element of a forward transform (scalars); ``im`` None: a real number in a complex array."""
        b = self.b
        place = (self.start + at) * self.parts
        b.store(re, self.buffer, place)
        b.store(b.const(0, re.type) if im is None else im, self.buffer, place + 1)


@dataclass(eq=False)
class Gathered(_End):
    """An operand or result, each lane an element of another transform: ``firsts`` are the lanes' first elements."""

    firsts: Value
    mask: Value

    def __post_init__(self) -> None:
        self.places = self.firsts * self.parts

    def load(self, at: Value) -> Complex:
        """Element ``at`` of each lane's transform; lanes off in the mask are 0."""
        place = at * self.parts
        re, *im = (self.b.gather(self.buffer, place + i, self.places, self.mask) for i in range(self.parts))
        return self.exchanged(re, im[0] if im else None)

    def store(self, at: Value, y: Complex) -> None:
        """Write element ``at`` of each lane's transform where the mask is on."""
        values, place = self.scaled(y), at * self.parts
        for i in range(self.parts):
            self.b.scatter(values[i], self.buffer, place + i, self.places, self.mask)

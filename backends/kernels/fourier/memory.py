"""Where the stages of a Fourier transform read and write vectors of complex numbers.

Places are numbers of elements, from wherever the transform that is being computed begins. An inverse transform is the
forward one with real and imaginary parts exchanged, before and after: ``swap``.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Planes:
    """Real parts at ``start`` of a buffer, imaginary parts ``distance`` behind them."""

    def __init__(self, b: KernelBuilder, buffer: Buffer, start: Value, distance: int, lanes: int, pitch: int) -> None:
        self.b, self.buffer, self.lanes, self.pitch = b, buffer, lanes, pitch
        self.starts = (start, start + distance)

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


def _scaled(b: KernelBuilder, y: Complex, scale: float) -> Complex:
    return y if scale == 1.0 else (y[0] * b.const(scale, y[0].type), y[1] * b.const(scale, y[1].type))


class Interleaved:
    """An operand or result, a vector being neighbouring elements: complex (``parts`` 2) or real (1)."""

    def __init__(
        self,
        b: KernelBuilder,
        buffer: Buffer,
        start: Value,
        parts: int,
        lanes: int,
        pitch: int,
        swap: bool,
        scale: float,
    ) -> None:
        self.b, self.buffer, self.start, self.parts, self.lanes, self.pitch = b, buffer, start, parts, lanes, pitch
        self.swap, self.scale = swap, scale

    def load(self, at: Value) -> Complex:
        """The vector of ``lanes`` numbers from place ``at`` on; imaginary parts of real memory are 0."""
        b, n = self.b, self.lanes
        place = (self.start + at) * self.parts
        low = b.vload(n, self.buffer, place)
        if self.parts == 1:
            re, im = low, b.const(0, low.type)
        else:
            high = b.vload(n, self.buffer, place + n)
            re, im = (b.shuffle(low, high, range(i, 2 * n, 2)) for i in range(2))
        return (im, re) if self.swap else (re, im)

    def store(self, at: Value, y: Complex) -> None:
        """Write a vector, scaled, from place ``at`` on; of real memory the real parts."""
        b, n = self.b, self.lanes
        re, im = _scaled(b, y[::-1] if self.swap else y, self.scale)  # type: ignore[arg-type]
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


class Gathered:
    """An operand or result, each lane an element of another transform: ``places`` are the lanes' first elements."""

    def __init__(
        self,
        b: KernelBuilder,
        buffer: Buffer,
        places: Value,
        parts: int,
        pitch: int,
        swap: bool,
        scale: float,
        mask: Value,
    ) -> None:
        self.b, self.buffer, self.parts, self.pitch, self.mask = b, buffer, parts, pitch, mask
        self.swap, self.scale = swap, scale
        self.places = places * parts

    def load(self, at: Value) -> Complex:
        """Element ``at`` of each lane's transform; lanes off in the mask are 0."""
        b = self.b
        place = at * self.parts
        re = b.gather(self.buffer, place, self.places, self.mask)
        im = b.gather(self.buffer, place + 1, self.places, self.mask) if self.parts == 2 else b.const(0, re.type)
        return (im, re) if self.swap else (re, im)

    def store(self, at: Value, y: Complex) -> None:
        """Write element ``at`` of each lane's transform, scaled, where the mask is on."""
        b = self.b
        values = _scaled(b, y[::-1] if self.swap else y, self.scale)  # type: ignore[arg-type]
        place = at * self.parts
        for i in range(self.parts):
            b.scatter(values[i], self.buffer, place + i, self.places, self.mask)

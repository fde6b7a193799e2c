"""What a device's part of a result needs of an operand beside its own part: the borders of its neighbours' parts.

Along a dimension that is divided, the r-th device needs the elements from `Window.start(r)` on, so many for every device.
What it does not have comes from the devices at each distance, one message (ppermute) a distance, of which
only those take part that need something. What lies outside of the array is left to the caller to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st


@dataclass(frozen=True)
class Window:
    """Where the r-th device begins to read: ``scale * ((step * r + first) // divisor) + shift``."""

    step: int
    first: int
    divisor: int = 1
    scale: int = 1
    shift: int = 0

    def start(self, r: int) -> int:
        """The first index that the r-th device reads; it may lie outside of the array."""
        return self.scale * ((self.step * r + self.first) // self.divisor) + self.shift

    def traced(self, r: Any, count: int) -> Any:
        """The same for a traced number of one of `count` devices, an int32."""
        value = _affine(r, self.step, self.first)
        if self.divisor != 1:
            least = min(self.step * i + self.first for i in (0, count - 1))
            turns = max(0, -(least // self.divisor))  # division is towards zero: of what is positive it is the floor
            value = ew.add(value, np.int32(turns * self.divisor))
            value = ew.sub(ew.div(value, np.int32(self.divisor)), np.int32(turns))
        return _affine(value, self.scale, self.shift)


def _affine(x: Any, scale: int, shift: int) -> Any:
    x = x if scale == 1 else ew.mul(x, np.int32(scale))
    return x if shift == 0 else ew.add(x, np.int32(shift))


@dataclass(frozen=True)
class Border:
    """What comes from the devices at one distance.

    Attributes:
        distance: the sender's number less the receiver's; 0: the device's own part.
        low, high: the elements of the sender's part.
        pairs: (sender, receiver).
    """

    distance: int
    low: int
    high: int
    pairs: tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def borders(count: int, block: int, window: Window, length: int, low: int, high: int) -> tuple[Border, ...]:
    """What `count` devices that hold `block` elements each need, by distance; only indices in [low, high) exist."""
    found: dict[int, tuple[int, int, list[tuple[int, int]]]] = {}
    for r in range(count):
        start = window.start(r)
        first, last = max(start, low), min(start + length, high)
        for q in range(first // block, (last - 1) // block + 1) if first < last else ():
            a, b = max(first - q * block, 0), min(last - q * block, block)
            known = found.get(q - r)
            found[q - r] = (min(known[0], a), max(known[1], b), known[2]) if known else (a, b, [])
            found[q - r][2].append((q, r))
    return tuple(Border(d, a, b, tuple(pairs)) for d, (a, b, pairs) in sorted(found.items()))


@dataclass(frozen=True)
class Slide:
    """That an operand's dimension is read in windows where a factor is divided.

    Attributes:
        operand, dim, factor: of the equation.
        low, high: the indices that exist, or are wanted.
        spans: the number of devices to the window, and its length.
    """

    operand: int
    dim: int
    factor: int
    low: int
    high: int
    spans: Callable[[int], tuple[Window, int]]

    def borders(self, count: int, block: int) -> tuple[Border, ...]:
        """What comes from which distance."""
        window, length = self.spans(count)
        return borders(count, block, window, length, self.low, self.high)


Sent = tuple[int, int, tuple[tuple[int, int], ...]]
"""A message: the elements of the sender's part, from one number up to another, and the pairs (sender, receiver)."""


def messages(slides: Sequence[Slide], slide: Slide, count: int, block: int) -> dict[int, Sent]:
    """The messages by which a slide's borders come, by distance.

    Slides of one dimension share messages that send the same elements where nobody would get two or send two: the one
    row that goes around a ring is one message. What a device gets for another slide is outside of what exists.
    """
    groups: list[tuple[int, int, list[tuple[int, int]]]] = []
    mine: dict[int, tuple[int, int, list[tuple[int, int]]]] = {}
    for s in slides:
        if (s.operand, s.dim, s.factor) != (slide.operand, slide.dim, slide.factor):
            continue
        for b in s.borders(count, block):
            if not b.distance:
                continue
            for group in groups:
                if group[:2] == (b.low, b.high) and not (
                    {q for q, _ in group[2]} & {q for q, _ in b.pairs}
                    or {r for _, r in group[2]} & {r for _, r in b.pairs}
                ):
                    group[2].extend(b.pairs)
                    break
            else:
                group = (b.low, b.high, list(b.pairs))
                groups.append(group)
            if s == slide:
                mine[b.distance] = group
    return {d: (low, high, tuple(sorted(pairs))) for d, (low, high, pairs) in mine.items()}


def extended(place: Any, x: Any, slide: Slide, fill: Any = None) -> Any:
    """What a device reads of an operand; with `fill` that is in place of what does not exist, else anything is."""
    axes = place.assignment[slide.factor]
    count = place.count(slide.factor)
    window, length = slide.spans(count)
    x = _read(place, x, slide, count, window, length, axes)
    return x if fill is None else filled(place, x, slide, fill)


def _read(place: Any, x: Any, slide: Slide, count: int, window: Window, length: int, axes: Any) -> Any:
    dim = slide.dim
    shape = aval_of(x).shape
    block = shape[dim]
    found = slide.borders(count, block)
    sends = messages(place.factors.slides, slide, count, block)
    zero = aval_of(x).dtype.type(0)

    def sized(n: int) -> tuple[int, ...]:
        return (*shape[:dim], n, *shape[dim + 1 :])

    def cut(value: Any, a: int, b: int) -> Any:
        n = aval_of(value).shape
        return st.slice(
            value, [a if d == dim else 0 for d in range(len(n))], [b if d == dim else m for d, m in enumerate(n)]
        )

    def padded(value: Any, before: int, after: int) -> Any:
        if not before and not after:
            return value
        return st.pad(value, zero, [(before, after, 0) if d == dim else (0, 0, 0) for d in range(len(shape))])

    if not found:
        return st.full(sized(length), zero)
    by = {b.distance: b for b in found}
    least, most = found[0].distance, found[-1].distance
    pieces: list[Any] = []
    for distance in range(least, most + 1):
        border = by.get(distance)
        if distance == 0:
            begin, end = (border.low if border and least == 0 else 0), (border.high if border and most == 0 else block)
            pieces.append(cut(x, begin, end))
        elif border is None:
            pieces.append(st.full(sized(block), zero))
        else:
            low, high, pairs = sends[distance]
            key = (id(x), dim, low, high, pairs)
            if key not in place.sent:
                why = f"{place.eqn.primitive.name}: borders of neighbouring parts"
                place.sent[key] = (place.emitter.ppermute(cut(x, low, high), axes, pairs, why), x)
            sent = place.sent[key][0]
            pieces.append(
                padded(sent, 0 if distance == least else border.low, 0 if distance == most else block - border.high)
            )
    joined = st.concatenate(pieces, dim) if len(pieces) > 1 else pieces[0]
    begins = [(r + least) * block + by[least].low for r in range(count)]
    offsets = [window.start(r) - b for r, b in enumerate(begins)]
    size = aval_of(joined).shape[dim]
    before = max(0, -min(offsets))
    joined = padded(joined, before, max(0, max(offsets) + length - size))
    if len(set(offsets)) == 1:
        return cut(joined, offsets[0] + before, offsets[0] + before + length)
    r = place.block(slide.factor)
    offset = ew.sub(window.traced(r, count), ew.mul(r, np.int32(block)))
    offset = ew.add(offset, np.int32(before - least * block - by[least].low))
    starts = [offset if d == dim else np.int32(0) for d in range(len(shape))]
    return ix.dynamic_slice_p.bind(joined, *starts, slice_sizes=sized(length))


def filled(place: Any, x: Any, slide: Slide, fill: Any) -> Any:
    """What was read, with `fill` (a scalar) in place of what does not exist."""
    n = place.eqn.inputs[slide.operand].aval.shape[slide.dim]
    alone = sum((s.operand, s.dim) == (slide.operand, slide.dim) for s in place.factors.slides) == 1
    even = n % place.count(slide.factor) == 0 and (slide.low, slide.high) == (0, n)
    if alone and even and isinstance(fill, np.generic) and fill == 0:
        return x  # what nobody sends is zero
    inside = exists(place, x, slide)
    shape = aval_of(x).shape
    return x if inside is None else ew.select_n(inside, st.broadcast_in_dim(fill, shape, ()), x)


def exists(place: Any, x: Any, slide: Slide) -> Any:
    """Which elements of what was read exist, an array of its shape; None: all of them on all devices."""
    count = place.count(slide.factor)
    window, length = slide.spans(count)
    starts = [window.start(r) for r in range(count)]
    if min(starts) >= slide.low and max(starts) + length <= slide.high:
        return None
    numbers = st.iota_p.bind(dtype=dtypes.int32, shape=aval_of(x).shape, dimension=slide.dim)
    start = window.traced(place.block(slide.factor), count)
    after = ew.ge(numbers, ew.sub(np.int32(slide.low), start))
    return ew.bitwise_and(after, ew.lt(numbers, ew.sub(np.int32(slide.high), start)))


def dilated(count: int, step: int, first: int, length: int, dilation: int) -> tuple[Window, int]:
    """What is read of an array so that, with ``dilation - 1`` elements between its own, `length` are there.

    The r-th device's begin at ``step * r + first`` of the array with the elements between.
    """
    window = Window(step, first, dilation)
    most = max((step * r + first + length - 1) // dilation - window.start(r) + 1 for r in range(count))
    return window, most


def offset_within(place: Any, factor: int, step: int, first: int, dilation: int) -> Any:
    """How far behind the first element that is read what is wanted begins: a number, or where devices differ an int32."""
    count = place.count(factor)
    found = {(step * r + first) % dilation for r in range(count)}
    if len(found) == 1:
        return found.pop()
    wanted = Window(step, first).traced(place.block(factor), count)
    return ew.sub(wanted, ew.mul(Window(step, first, dilation).traced(place.block(factor), count), np.int32(dilation)))


def spread_out(place: Any, x: Any, slide: Slide, spans: tuple[int, int, int], dilation: int, fill: Any) -> Any:
    """An operand as a device reads it, with `fill` between its elements and where nothing exists.

    Args:
        spans: (step, first, length): the r-th device reads `length` elements from ``step * r + first`` on.
    """
    step, first, length = spans
    x = extended(place, x, slide, fill)
    dim = slide.dim
    shape = aval_of(x).shape
    size = (shape[dim] - 1) * dilation + 1
    offset = offset_within(place, slide.factor, step, first, dilation)
    if isinstance(offset, int):
        config = [(-offset, length + offset - size, dilation - 1) if d == dim else (0, 0, 0) for d in range(len(shape))]
        return st.pad(x, fill, config)
    high = max(0, dilation - 1 + length - size)
    x = st.pad(x, fill, [(0, high, dilation - 1) if d == dim else (0, 0, 0) for d in range(len(shape))])
    starts = [offset if d == dim else np.int32(0) for d in range(len(shape))]
    return ix.dynamic_slice_p.bind(x, *starts, slice_sizes=(*shape[:dim], length, *shape[dim + 1 :]))

"""The gradient of pooling by a maximum or minimum: each window adds its value at the place of its first extreme element.

Windows are gone over in order, twice: first for the number of the extreme element, then to add the value there. Lanes
are the channels of a place where these fill vectors. Else they are windows of a row: as in ``pooling.py`` the rows of
the windows are first combined into one row on the stack, and then its neighbours; what is added to a row is, for each
place of it, the sum of the windows over it.

The array is shared among workgroups by its outer dimensions and by blocks of the first dimension with windows; windows
over the ends of blocks are gone over for both. Numbers of 16 bits are added in 32. Where windows lie apart nothing is
added: each place is written once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.shapes import row_major
from ..core.target import KernelTarget
from ..core.values import Buffer, Value, lanes, vector, width
from .window_loops import GROUP_ELEMENTS, ROW_BYTES, Op, Range, WindowLoops, Windows, check_windows, vector_lanes

#: Vectors of channels that go over a window together, each with its numbers.
TOGETHER = 4
#: The number of what is no element: larger than all, also times a window's length.
NOWHERE = 1 << 16
#: Blocks of the first dimension have so many windows at least: those over their ends are gone over twice.
LEAST_WINDOWS = 8

Block = tuple[Value, Value]


def check(operand: Spec, windows: Windows, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless the kernel can do the windows."""
    dims, inner = windows.channels(operand.shape)
    if any(windows.dilation[d] > 1 or windows.apart(d) > 1 for d in range(dims)):
        raise NoKernel("gaps in the windows or between the elements")
    check_windows(operand, windows, target)
    if operand.dtype.kind != "float":
        raise NoKernel("the kernel of pooling's gradient is for floats")
    lanes = vector_lanes(operand.dtype, target)
    if inner < lanes and _row_block(operand, windows, dims - 1, inner, lanes // inner) < lanes // inner:
        raise NoKernel(f"windows of {windows.lengths[dims - 1]} along a row")


def _row_block(operand: Spec, windows: Windows, last: int, inner: int, places: int) -> int:
    """Windows of a row that are done together: whole vectors of ``places``, and as many as the stack holds."""
    length, stride = windows.lengths[last], windows.strides[last]
    needed = -(-operand.shape[last] // stride)
    more = (length // stride + 2 + places) * (1 + stride) + length + places * stride
    most = (ROW_BYTES * 8 // (2 * width(operand.dtype.accumulator) * inner) - more) // (1 + stride)
    return min(-(-needed // places) * places, most // places * places)


def pooling_grad(op: Op, operand: Spec, windows: Windows, target: KernelTarget) -> Kernel:
    """The kernel of (values of the windows, the array that they select in); sums of 16-bit floats are float32.

    ``op`` is max or min. The first element wins a tie, the first NaN wins over numbers. Raises :class:`NoKernel`.
    """
    check(operand, windows, target)
    values = Spec(windows.results(operand.shape), operand.dtype)
    result = Spec.of(operand.shape, operand.dtype.accumulator)
    b = KernelBuilder(f"pooling_{op}_grad", [values, operand], [result], target)
    dims, inner = windows.channels(operand.shape)
    if inner >= vector_lanes(operand.dtype, target):
        how, form = f"vectors of {inner} channels", _Channels(b, op, operand, values.shape, windows, dims, inner)
    else:
        how, form = "along rows", _Rows(b, op, operand, values.shape, windows, dims - 1, inner)
    groups = form.write_all(min(target.workgroups, values.size * windows.size // GROUP_ELEMENTS))
    return b.build((groups,), f"gradient of pooling: {op} of windows of {windows.size}, {how}")


@dataclass(frozen=True)
class _Grad(WindowLoops, ABC):
    """Windows are gone over one by one along the first ``count`` dimensions; ``inner`` channels are last."""

    count: int
    inner: int

    @cached_property
    def values(self) -> Buffer:
        """What the windows add, flat."""
        return self.b.operand(0, (math.prod(self.results),), self.dtype.scalar)

    @cached_property
    def source(self) -> Buffer:
        """The array that windows select in, flat."""
        return self.b.operand(1, (self.operand.size,), self.dtype.scalar)

    @cached_property
    def target(self) -> Buffer:
        """The gradient, flat."""
        return self.b.result(0, (self.operand.size,), self.elem)

    @property
    def elem(self) -> str:
        """The type of sums."""
        return self.dtype.accumulator

    @property
    def number(self) -> str:
        """The type of elements' numbers: of the same width, so that masks serve both."""
        return f"i{width(self.elem)}"

    @property
    def parts(self) -> int:
        """Into how many parts the windows at one place of the first dimensions are divided."""
        return 1

    @abstractmethod
    def window(self, place: dict[int, Value], part: Value, block: Block | None) -> None:
        """A part of the windows at a place of the first dimensions; of the first one of :attr:`added` only the places of
        the block are written."""

    def load(self, n: int, memory: Buffer, at: Value) -> Value:
        """Elements of an operand, as they are computed with."""
        return self.b.cast(self.b.vload(n, memory, at), self.elem)

    def better(self, x: Value, best: Value) -> Value:
        """Where x is more extreme than the best so far."""
        b = self.b
        return b.and_(b.cmp("ult" if self.op == "min" else "ugt", x, best), b.cmp("ord", best, best))

    def zeros(self, n: int) -> Value:
        """Numbers of first elements."""
        return self.b.const(0, vector(n, self.number))

    # -- places that are written -----------------------------------------------------------------------------

    @cached_property
    def added(self) -> list[int]:
        """The dimensions along which windows are gone over one by one."""
        return [d for d in range(self.count) if self.windows.moves(d)]

    @cached_property
    def alone(self) -> bool:
        """Whether no place is written by two windows."""
        return all(self.windows.lengths[d] <= self.windows.strides[d] for d in self.added)

    @cached_property
    def covered(self) -> bool:
        """Whether each place is written by just one window."""
        w, shape = self.windows, self.operand.shape
        ends = [self.results[d] * w.strides[d] - w.padding[d][0] >= shape[d] for d in self.added]
        return all(ends) and all(w.lengths[d] == w.strides[d] for d in self.added)

    def write(self, x: Value, at: Value, mask: Value | None = None) -> None:
        """Add to the gradient."""
        if not self.alone:
            x = x + self.b.vload(lanes(x.type), self.target, at, mask=mask)
        self.b.vstore(x, self.target, at, mask=mask)

    def clear(self, start: Value, stop: Value) -> None:
        """Zeros where windows will add."""
        b = self.b
        if self.covered:
            return
        whole = start + b.udiv(stop - start, self.lanes) * self.lanes
        for first, last, n in ((start, whole, self.lanes), (whole, stop, 1)):
            with b.for_(first, last, n) as loop:
                b.vstore(b.const(0, vector(n, self.elem)), self.target, loop.index)

    def counted(self, ranges: list[Range], block: Block | None, n: int) -> tuple[list[Range], Value]:
        """The ranges of a window inside a block, and the number of its first element there, in n lanes."""
        b = self.b
        if block is None:
            return ranges, self.zeros(n)
        here, *others = ranges
        inside = here.inside or (b.index(0), b.index(self.windows.lengths[self.added[0]]))
        start, stop = b.smax(inside[0], block[0] - here.first), b.smin(inside[1], block[1] - here.first)
        before = start - inside[0]
        for d, other in zip(self.added[1:], others):
            before = before * (other.inside[1] - other.inside[0] if other.inside else self.windows.lengths[d])
        return [Range(here.first, 1, (start, stop)), *others], b.broadcast(b.cast(before, self.number), n)

    # -- all of it -------------------------------------------------------------------------------------------

    def write_all(self, wanted: int) -> int:
        """The whole gradient, by about as many workgroups as wanted; how many they are."""
        dims = list(range(self.count))
        if not self.added:
            pieces = math.prod(self.results[: self.count]) * self.parts
            groups = max(1, min(pieces, wanted))
            with self.b.distributed(pieces, groups) as piece:
                place = self.place(self.b.udiv(piece, self.parts), dims)
                self.window(place, self.b.urem(piece, self.parts), None)
            return groups
        first = self.added[0]
        outer, n, stride = math.prod(self.results[:first]), self.operand.shape[first], self.windows.strides[first]
        blocks = max(1, min(-(-wanted // outer), self.results[first] // LEAST_WINDOWS))
        share = -(-n // (blocks * stride)) * stride
        blocks = -(-n // share)
        groups = max(1, min(outer * blocks, wanted))
        with self.b.distributed(outer * blocks, groups) as piece:
            place = self.place(self.b.udiv(piece, blocks), dims[:first])
            self._block(place, self.b.urem(piece, blocks) * share, share, blocks)
        return groups

    def _block(self, outer: dict[int, Value], start: Value, share: int, blocks: int) -> None:
        """The places from ``start`` on along the first dimension with windows."""
        b, w, first = self.b, self.windows, self.added[0]
        n, row = self.operand.shape[first], row_major(self.operand.shape)[first]
        lo, length, stride = w.padding[first][0], w.lengths[first], w.strides[first]
        others = list(range(first + 1, self.count))
        base = b.index(0)
        for d, at in outer.items():
            base = base + at * row_major(self.operand.shape)[d]
        block, windows = None, (b.index(0), b.index(self.results[first]))
        stop = b.index(n)
        if blocks > 1:
            stop = b.smin(start + share, n)
            block = start, stop
            # Those that end behind the block's start and begin before its end.
            windows = (
                b.udiv(b.smax(start + (lo - length + stride), 0), stride),
                b.smin(b.udiv(stop + (lo + stride - 1), stride), self.results[first]),
            )
        with b.for_(*windows, init=[start]) as loop:
            (cleared,) = loop.carried
            end = b.smax(b.smin(loop.index * stride + (length - lo), stop), cleared)
            self.clear(base + cleared * row, base + end * row)
            with b.for_(0, math.prod(self.results[d] for d in others) * self.parts) as inner:
                place = outer | {first: loop.index} | self.place(b.udiv(inner.index, self.parts), others)
                self.window(place, b.urem(inner.index, self.parts), block)
            loop.yield_(end)
        self.clear(base + loop.results[0] * row, base + stop * row)


@dataclass(frozen=True)
class _Channels(_Grad):
    """Lanes are channels."""

    def window(self, place: dict[int, Value], part: Value, block: Block | None) -> None:
        """The windows of all channels at a place."""
        b = self.b
        moving, ranges, at, to = self.start(list(range(self.count)), place)

        def group(start: Value, places: list[int], n: int) -> None:
            def find(place: Value, found: list[Value]) -> list[Value]:
                number, *pairs = found
                bests, numbers = pairs[: len(places)], pairs[len(places) :]
                for i, v in enumerate(places):
                    x = self.load(n, self.source, place + v)
                    take = self.better(x, bests[i])
                    bests[i], numbers[i] = b.select(take, x, bests[i]), b.select(take, number, numbers[i])
                return [number + 1, *bests, *numbers]

            init = [self.zeros(n), *[self.identity(n)] * len(places), *[self.zeros(n)] * len(places)]
            numbers = self.over(moving, ranges, at + start, init, find)[1 + len(places) :]
            values = [self.load(n, self.values, to + start + v) for v in places]
            inside, number = self.counted(ranges, block, n)

            def add(place: Value, counted: list[Value]) -> list[Value]:
                (number,) = counted
                for v, found, x in zip(places, numbers, values):
                    self.write(b.select(b.cmp("eq", found, number), x, b.const(0, x.type)), place + v)
                return [number + 1]

            self.over(moving, inside, at + start, [number], add)

        self.groups(self.inner, TOGETHER, group)


@dataclass(frozen=True)
class _Rows(_Grad):
    """Lanes are windows along a row, with all their channels."""

    @cached_property
    def places(self) -> int:
        """Windows of a vector."""
        return self.vector_places(self.inner)

    @cached_property
    def block(self) -> int:
        """Windows whose own places are written together: window i has the places i * stride to (i + 1) * stride."""
        return _row_block(self.operand, self.windows, self.count, self.inner, self.places)

    @property
    def parts(self) -> int:
        """Blocks of a row."""
        return -(-self.operand.shape[self.count] // (self.block * self.windows.strides[self.count]))

    @cached_property
    def over_before(self) -> int:
        """How many windows before a place's own one may reach it."""
        return (self.windows.lengths[self.count] - 1) // self.windows.strides[self.count]

    @cached_property
    def held(self) -> int:
        """Windows that reach the places of a block, in whole vectors."""
        return -(-(self.block + self.over_before + 1) // self.places) * self.places

    @cached_property
    def columns_held(self) -> int:
        """Elements of a row that those windows go over."""
        last = self.count
        return ((self.held - 1) * self.windows.strides[last] + self.windows.lengths[last]) * self.inner

    @cached_property
    def stacks(self) -> tuple[Buffer, Buffer, Buffer, Buffer]:
        """Of the windows the values and the numbers of the extreme elements; of the columns these elements and numbers."""
        b, windows = self.b, (self.held * self.inner,)
        columns = (self.columns_held + self.places * self.inner * self.windows.strides[self.count],)
        return (
            b.stack(windows, self.elem), b.stack(windows, self.number),
            b.stack(columns, self.elem), b.stack(columns, self.number),
        )  # fmt: skip

    def window(self, place: dict[int, Value], part: Value, block: Block | None) -> None:
        """The windows of a part of the rows at a place."""
        b, w, last, inner = self.b, self.windows, self.count, self.inner
        length, stride, lo, n = w.lengths[last], w.strides[last], w.padding[last][0], self.operand.shape[last]
        values, numbers, _, _ = self.stacks
        moving, ranges, at, to = self.start(list(range(last)), place)
        first = part * self.block + (lo // stride - self.over_before)

        def value(n: int, t: Value) -> None:
            b.vstore(self.load(n, self.values, to + first * inner + t), values, t)

        # Windows before the first and behind the last add nothing.
        self.columns(
            first * inner, self.results[last] * inner, self.held * inner, value,
            lambda t: b.vstore(b.const(0, vector(1, self.elem)), values, t),
        )  # fmt: skip
        self._combine(moving, ranges, at, (first * stride - lo) * inner)
        with b.for_(0, self.held * inner, self.places * inner) as loop:
            b.vstore(self._extreme(loop.index), numbers, loop.index)

        inside, number = self.counted(ranges, block, self.places * inner)
        start = part * (self.block * stride)
        columns = b.smin(b.index(n) - start, self.block * stride)
        vectors = b.udiv(columns, self.places * stride) * (self.places * stride)

        def add(row: Value, counted: list[Value]) -> list[Value]:
            (number,) = counted
            base, scaled = row + start * inner, number * length
            with b.for_(0, vectors, self.places * stride) as loop:
                self.write(self._sums(b.udiv(loop.index, stride) * inner, scaled), base + loop.index * inner)
            if n % (self.places * stride):
                with b.for_(vectors, columns, self.places * stride) as loop:
                    sums = self._sums(b.udiv(loop.index, stride) * inner, scaled)
                    mask = b.mask(lanes(sums.type), (columns - loop.index) * inner)
                    self.write(sums, base + loop.index * inner, mask)
            return [number + 1]

        self.over(moving, inside, at, [number], add)

    def _combine(self, moving: list[int], ranges: list[Range], at: Value, first: Value) -> None:
        """The rows of the windows from a column on: of each column the extreme element and its number."""
        b = self.b
        _, _, bests, numbers = self.stacks

        def column(n: int, t: Value) -> None:
            def find(place: Value, found: list[Value]) -> list[Value]:
                number, best, at = found
                x = self.load(n, self.source, place)
                take = self.better(x, best)
                return [number + 1, b.select(take, x, best), b.select(take, number, at)]

            if moving:
                init = [self.zeros(n), self.identity(n), self.zeros(n)]
                _, best, number = self.over(moving, ranges, at + first + t, init, find)
            else:
                best, number = self.load(n, self.source, at + first + t), self.zeros(n)
            b.vstore(best, bests, t)
            b.vstore(number, numbers, t)

        def outside(t: Value) -> None:
            b.vstore(self.identity(1), bests, t)
            b.vstore(b.const(NOWHERE, vector(1, self.number)), numbers, t)

        self.columns(first, self.operand.shape[self.count] * self.inner, self.columns_held, column, outside)

    def _extreme(self, t: Value) -> Value:
        """Of a vector of windows the numbers of their extreme elements: that in its column times the windows' length along
        the row, and the column's."""
        b, inner, w = self.b, self.inner, self.windows
        _, _, bests, numbers = self.stacks
        length, stride = w.lengths[self.count], w.strides[self.count]

        def pair(k: int) -> tuple[Value, Value]:
            at = t * stride + k * inner
            number = self.strided(numbers, at, self.places, stride, inner) * length
            return self.strided(bests, at, self.places, stride, inner), number + k

        best, number = pair(0)
        for k in range(1, length):
            x, other = pair(k)
            earlier = b.and_(b.cmp("slt", other, number), b.xor(self.better(best, x), 1))
            take = b.or_(self.better(x, best), earlier)
            best, number = b.select(take, x, best), b.select(take, other, number)
        return number

    def _sums(self, t: Value, scaled: Value) -> Value:
        """What windows add to their own places in a row, whose elements have these numbers and on in the windows."""
        b, w, last, n = self.b, self.windows, self.count, self.places * self.inner
        length, stride, lo = w.lengths[last], w.strides[last], w.padding[last][0]
        values, numbers, _, _ = self.stacks
        phases: list[Value] = []
        for p in range(stride):
            after, k = divmod(lo % stride + p, stride)
            total: Value | None = None
            for before, j in enumerate(range(k, length, stride)):
                at = t + (after + self.over_before - before) * self.inner
                hit = b.cmp("eq", b.vload(n, numbers, at), scaled + j)
                x = b.select(hit, b.vload(n, values, at), b.const(0, vector(n, self.elem)))
                total = x if total is None else total + x
            phases.append(b.const(0, vector(n, self.elem)) if total is None else total)
        return self.interleaved(phases, self.inner)

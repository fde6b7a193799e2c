"""Pooling: the sum, maximum or minimum of windows, by vectors of neighbouring results.

Of arrays whose last dimensions have no windows (channels last), results are made one place after another: vectors of
channels go over the window. Else, or if the channels do not fill a vector, windows go along a row: for a block of
results in a row, the rows of the window are first combined, vector by vector, into a row on the stack, with the identity
where the padding is; then its neighbours are combined there. Where the operand's elements lie apart in the row (the
gradient of a sum), results of one distance from them are vectors, which are interleaved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Value, width
from .window_loops import GROUP_ELEMENTS, MOST_STRIDE, ROW_BYTES, Op, WindowLoops, Windows, check_windows, vector_lanes

#: Vectors of channels that go over a window together.
TOGETHER = 8
#: Elements of results of a row that are made together.
BLOCK = 512


def check(operand: Spec, windows: Windows, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless the kernel can do the windows."""
    check_windows(operand, windows, target)
    dims, inner = windows.channels(operand.shape)
    if any(windows.dilation[d] > 1 and windows.apart(d) > 1 for d in range(dims)):
        raise NoKernel("gaps in the windows and between the elements")
    lanes = vector_lanes(operand.dtype, target)
    if inner >= lanes:
        return
    if windows.apart(dims - 1) > 1:
        if windows.strides[dims - 1] != 1 or windows.apart(dims - 1) > MOST_STRIDE:
            raise NoKernel("strides, or large gaps, between the elements of a row")
    elif windows.results(operand.shape)[dims - 1] < lanes // inner:
        raise NoKernel("rows shorter than a vector")


def pooling(op: Op, operand: Spec, windows: Windows, target: KernelTarget) -> Kernel:
    """The kernel of one operand. Raises :class:`NoKernel`."""
    check(operand, windows, target)
    result = Spec(windows.results(operand.shape), operand.dtype)
    b = KernelBuilder(f"pooling_{op}", [operand], [result], target)
    pool = _Pool(b, op, operand, result.shape, windows)
    dims, inner = windows.channels(operand.shape)
    channels = inner >= pool.lanes
    pieces, make = pool.channels(dims, inner) if channels else pool.rows(dims - 1, inner)
    groups = target.groups(result.size * windows.size, GROUP_ELEMENTS, pieces)
    with b.distributed(pieces, groups) as piece:
        make(piece)
    how = f"vectors of {inner} channels" if channels else "rows, combined on the stack"
    return b.build((groups,), f"pooling: {op} of windows of {windows.size}, {how}")


@dataclass(frozen=True)
class _Pool(WindowLoops):
    @cached_property
    def source(self) -> Buffer:
        """The operand, flat."""
        return self.b.operand(0, (self.operand.size,), self.dtype.scalar)

    @cached_property
    def target(self) -> Buffer:
        """The result, flat."""
        return self.b.result(0, (math.prod(self.results),), self.dtype.scalar)

    def load(self, n: int, at: Value) -> Value:
        """Elements of the operand, as they are combined."""
        return self.b.cast(self.b.vload(n, self.source, at), self.dtype.accumulator)

    def store(self, x: Value, at: Value, mask: Value | None = None) -> None:
        """Write results."""
        self.b.vstore(self.b.cast(x, self.dtype.scalar), self.target, at, mask=mask)

    def combine(self, x: Value, y: Value) -> Value:
        """Two vectors combined."""
        b = self.b
        if self.op == "sum":
            return x + y
        kinds = {"float": (b.fmax, b.fmin), "int": (b.smax, b.smin)}
        return kinds.get(self.dtype.kind, (b.umax, b.umin))[self.op == "min"](x, y)

    # -- channels last ---------------------------------------------------------------------------------------

    def channels(self, count: int, inner: int) -> tuple[int, Callable[[Value], None]]:
        """How many places there are along the first dimensions, and how the results at one are made."""
        dims = list(range(count))

        def make(number: Value) -> None:
            moving, ranges, at, to = self.start(dims, self.place(number, dims))

            def group(start: Value, places: list[int], lanes: int) -> None:
                def body(place: Value, sums: list[Value]) -> list[Value]:
                    return [self.combine(x, self.load(lanes, place + v)) for x, v in zip(sums, places)]

                sums = [self.identity(lanes)] * len(places)
                for x, v in zip(self.over(moving, ranges, at + start, sums, body), places):
                    self.store(x, to + start + v)

            self.groups(inner, TOGETHER, group)

        return math.prod(self.results[d] for d in dims), make

    # -- rows ------------------------------------------------------------------------------------------------

    def rows(self, last: int, inner: int) -> tuple[int, Callable[[Value], None]]:
        """How many blocks of rows along a dimension there are, and how the results of one are made."""
        b, w = self.b, self.windows
        dims = list(range(last))
        n, m, stride, apart = self.operand.shape[last], self.results[last], w.strides[last], w.apart(last)
        elem, places = self.dtype.accumulator, self.vector_places(inner)
        lanes, step = places * inner, places * apart
        start, phases = self._phases(last)
        reach = 1 + max(max(offsets, default=0) for offsets in phases)
        most = (ROW_BYTES * 8 // width(elem) // inner - reach - places * stride) // stride * apart
        block = min(m, max(step, BLOCK // inner), most)
        if apart > 1:  # a block begins where an element lies
            block = max(step, block // step * step)
        blocks = -(-m // block)
        length = ((-(-block // apart) - 1) * stride + reach) * inner
        row = b.stack((length + lanes * stride,), elem)

        def make(number: Value) -> None:
            part = b.urem(number, blocks) * block
            if apart == 1:
                part = b.smin(part, m - block)
            moving, ranges, at, to = self.start(dims, self.place(b.udiv(number, blocks), dims))
            # Element t of the row is element first + t of the operand's.
            first = (b.udiv(part, apart) * stride + start) * inner

            def column(width: int, t: Value) -> None:
                body = lambda place, sums: [self.combine(sums[0], self.load(width, place))]  # noqa: E731
                if not moving:
                    (x,) = [self.load(width, at + first + t)]
                else:
                    (x,) = self.over(moving, ranges, at + first + t, [self.identity(width)], body)
                b.vstore(x, row, t)

            self.columns(first, n * inner, length, column, lambda t: b.vstore(self.identity(1), row, t))

            def neighbours(t: Value) -> Value:
                combined: list[Value] = []
                for offsets in phases:
                    xs = [self.strided(row, t * stride + k * inner, places, stride, inner) for k in offsets]
                    # A sum starts with 0 also where there is no padding.
                    start = [] if xs and self.op != "sum" else [self.identity(lanes)]
                    combined.append(functools.reduce(self.combine, start + xs))
                return self.interleaved(combined, inner)

            if apart == 1:
                with b.for_(0, block * inner, lanes) as loop:
                    t = b.smin(loop.index, block * inner - lanes) if block % places else loop.index
                    self.store(neighbours(t), to + part * inner + t)
                return
            with b.for_(0, b.smin(b.index(m) - part, block), step) as loop:
                left = (b.index(m) - part - loop.index) * inner
                mask = b.mask(step * inner, left) if m % step else None
                self.store(neighbours(b.udiv(loop.index, apart) * inner), to + (part + loop.index) * inner, mask)

        return math.prod(self.results[:last]) * blocks, make

    def _phases(self, d: int) -> tuple[int, list[list[int]]]:
        """Where windows begin in a row, and for each place between two elements the elements of its windows from there."""
        w, (lo, _), apart = self.windows, self.windows.padding[d], self.windows.apart(d)
        if apart == 1:
            return -lo, [[k * w.dilation[d] for k in range(w.lengths[d])]]
        start = -(lo // apart)
        # Elements i with 0 <= i * apart + lo - p < length.
        ends = [(-((lo - p) // apart), (w.lengths[d] - 1 - lo + p) // apart + 1) for p in range(apart)]
        return start, [[i - start for i in range(*end)] for end in ends]

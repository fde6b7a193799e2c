"""What templates over windows (pooling and its gradients) share: where windows are, loops over their elements, and the
shuffles by which vectors of neighbouring windows read and write rows.

Rows go along the last dimension with windows. If a few dimensions without windows follow, their elements, the channels
of a place, lie interleaved in a row, and a vector holds the channels of as many places as fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from quire.ir.primitives.reductions import identity_of

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.shapes import row_major
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value, lanes, vector, width

Op = Literal["sum", "max", "min"]
Body = Callable[[Value, "list[Value]"], "list[Value]"]

#: Smaller operands are left to IREE, which joins the windows with their neighbours.
LEAST_ELEMENTS = 4096
#: Larger windows are: their time is that of the reduction, whoever does it.
MOST_ELEMENTS = 128
#: Windows of up to so many elements without padding are written out.
UNROLLED = 9
#: Strides along rows are permutations of vectors; windows along them fit the rows on the stack.
MOST_STRIDE, MOST_REACH = 4, 1024
#: What rows on the stack may hold, in bytes.
ROW_BYTES = 24576
#: What is worth a workgroup of its own, in elements of windows.
GROUP_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Windows:
    """Windows along each dimension: their lengths, distances, the padding before and after, the gaps inside, and those
    between the operand's elements (1: none)."""

    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    spacing: tuple[int, ...] = ()

    def apart(self, d: int) -> int:
        """The distance of the operand's elements along a dimension."""
        return self.spacing[d] if self.spacing else 1

    @property
    def size(self) -> int:
        """Elements of one."""
        return math.prod(self.lengths)

    def moves(self, d: int) -> bool:
        """Whether anything happens along a dimension."""
        return (self.lengths[d], self.strides[d], self.padding[d], self.apart(d)) != (1, 1, (0, 0), 1)

    def reach(self, d: int) -> int:
        """What one window covers of a dimension."""
        return (self.lengths[d] - 1) * self.dilation[d] + 1

    def results(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the results."""
        padded = [(n - 1) * self.apart(d) + 1 + sum(self.padding[d]) for d, n in enumerate(shape)]
        return tuple(
            max(0, (n - self.reach(d)) // self.strides[d] + 1) if n >= self.reach(d) else 0
            for d, n in enumerate(padded)
        )

    def channels(self, shape: Sequence[int]) -> tuple[int, int]:
        """How many dimensions there are up to the last one with windows, and the elements of those that follow."""
        dims = len(shape)
        while dims and not self.moves(dims - 1):
            dims -= 1
        return dims, math.prod(shape[dims:])


def check_windows(operand: Spec, windows: Windows, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` where no template over windows takes these."""
    if target.kind != "cpu":
        raise NoKernel("the pooling kernel is for CPUs")
    if operand.dtype.kind == "complex":
        raise NoKernel("the pooling kernel takes no complex numbers")
    if operand.size < LEAST_ELEMENTS or math.prod(windows.results(operand.shape)) == 0:
        raise NoKernel(f"fewer than {LEAST_ELEMENTS} elements")
    if windows.size > MOST_ELEMENTS:
        raise NoKernel(f"windows of more than {MOST_ELEMENTS} elements")
    if any(lo < 0 or hi < 0 for lo, hi in windows.padding):
        raise NoKernel("negative padding")
    dims, inner = windows.channels(operand.shape)
    if not dims:
        raise NoKernel("windows of one element")
    if inner >= vector_lanes(operand.dtype, target):
        return
    if windows.strides[dims - 1] > MOST_STRIDE:
        raise NoKernel(f"a stride of more than {MOST_STRIDE} along rows")
    if windows.reach(dims - 1) * inner > MOST_REACH:
        raise NoKernel(f"windows over more than {MOST_REACH} elements of a row")


def vector_lanes(dtype: DType, target: KernelTarget) -> int:
    """Elements of a vector while they are combined."""
    return target.lanes(width(dtype.accumulator))


@dataclass(frozen=True)
class Range:
    """Where a window is along a dimension: the operand's element at its first place (it may be in the padding), how far
    on that of the next place is, and which of its places are taken (None: all)."""

    first: Value
    step: int
    inside: tuple[Value, Value] | None


@dataclass(frozen=True)
class WindowLoops:
    """Loops of one kernel over windows: of the array ``operand``, giving an array of the shape ``results``."""

    b: KernelBuilder
    op: Op
    operand: Spec
    results: tuple[int, ...]
    windows: Windows

    @property
    def dtype(self) -> DType:
        """The dtype of the operand."""
        return self.operand.dtype

    @property
    def lanes(self) -> int:
        """Elements of a vector while they are combined."""
        return vector_lanes(self.dtype, self.b.target)

    def identity(self, n: int) -> Value:
        """What the padding counts as."""
        t = vector(n, self.dtype.accumulator)
        return self.b.const(identity_of("add" if self.op == "sum" else self.op, self.dtype.numpy()).item(), t)

    # -- windows ---------------------------------------------------------------------------------------------

    def range_of(self, d: int, index: Value) -> Range:
        """The window of a result's index along a dimension."""
        b, w = self.b, self.windows
        (lo, hi), step, n = w.padding[d], w.dilation[d], self.operand.shape[d]
        first, apart = index * w.strides[d] - lo, w.apart(d)
        if apart > 1:
            # Elements j with 0 <= j < n whose place j * apart is in the window.
            start = b.udiv(b.smax(first + (apart - 1), 0), apart)
            stop = b.smin(b.udiv(b.smax(first + (w.lengths[d] + apart - 1), 0), apart), n)
            return Range(b.index(0), 1, (start, stop))
        if lo == 0 and hi == 0:
            return Range(first, step, None)
        # Elements k with 0 <= first + k * step < n.
        start = b.udiv(b.smax(b.index(step - 1) - first, 0), step)
        stop = b.smin(b.udiv(b.smax(b.index(n + step - 1) - first, 0), step), w.lengths[d])
        return Range(first, step, (start, stop))

    def over(
        self, dims: Sequence[int], ranges: Sequence[Range], base: Value, sums: list[Value], body: Body
    ) -> list[Value]:
        """The elements of a window along some dimensions, combined: ``body(place, sums)`` for each of them."""
        if not dims:
            return body(base, sums)
        (d, *others), (here, *rest) = dims, ranges
        stride = row_major(self.operand.shape)[d]

        def element(k: Operand, sums: list[Value]) -> list[Value]:
            at = here.first + k * here.step
            return self.over(others, rest, base + at * stride, sums, body)

        if here.inside is None and self.windows.size <= UNROLLED:
            for k in range(self.windows.lengths[d]):
                sums = element(k, sums)
            return sums
        start, stop = here.inside or (self.b.index(0), self.b.index(self.windows.lengths[d]))
        with self.b.for_(start, stop, init=sums) as loop:
            loop.yield_(*element(loop.index, list(loop.carried)))
        return loop.results

    def place(self, number: Value, dims: Sequence[int]) -> dict[int, Value]:
        """The indices along dimensions of the result of a number in their order."""
        out: dict[int, Value] = {}
        for d in reversed(dims):
            n = self.results[d]
            out[d] = self.b.urem(number, n) if d != dims[0] else number
            number = self.b.udiv(number, n)
        return out

    def start(self, dims: Sequence[int], place: dict[int, Value]) -> tuple[list[int], list[Range], Value, Value]:
        """The dimensions with windows, where these are, and the places in operand and result along the others."""
        strides_x, strides_y = row_major(self.operand.shape), row_major(self.results)
        moving = [d for d in dims if self.windows.moves(d)]
        at, to = self.b.index(0), self.b.index(0)
        for d in dims:
            to = to + place[d] * strides_y[d]
            if d not in moving:
                at = at + place[d] * strides_x[d]
        return moving, [self.range_of(d, place[d]) for d in moving], at, to

    def columns(
        self,
        first: Value,
        n: int,
        length: Operand,
        column: Callable[[int, Value], None],
        outside: Callable[[Value], None],
    ) -> None:
        """All elements t < ``length`` of a row on the stack: ``column(lanes, t)`` where first + t is in the operand's row
        of n elements, else ``outside(t)``."""
        b = self.b
        inside = b.smin(b.smax(b.index(0) - first, 0), length)
        end = b.smax(b.smin(b.index(n) - first, length), inside)
        for start, stop in ((b.index(0), inside), (end, b.index(length))):
            with b.for_(start, stop) as loop:
                outside(loop.index)
        whole = inside + b.udiv(end - inside, self.lanes) * self.lanes
        with b.for_(inside, whole, self.lanes) as loop:
            column(self.lanes, loop.index)
        with b.for_(whole, end) as loop:
            column(1, loop.index)

    # -- vectors ---------------------------------------------------------------------------------------------

    def groups(self, inner: int, together: int, make: Callable[[Value, list[int], int], None]) -> None:
        """All channels: ``make(start, places, lanes)`` for vectors of so many lanes at those places from ``start``."""
        b, n = self.b, self.lanes
        whole = inner // (n * together)
        if whole:
            with b.for_(0, whole) as loop:
                make(loop.index * (n * together), [v * n for v in range(together)], n)
        done = whole * n * together
        if inner - done >= n:
            count = (inner - done) // n
            make(b.index(done), [v * n for v in range(count)], n)
            done += count * n
        if done < inner:
            make(b.index(done), [0], inner - done)

    def vector_places(self, channels: int) -> int:
        """Places of a row whose channels fit a vector."""
        return self.lanes // channels

    def strided(self, row: Buffer, at: Value, places: int, stride: int, channels: int) -> Value:
        """The channels of every so many places of a row on the stack, from the element ``at`` on; all in between is read."""
        if stride == 1:
            return self.b.vload(places * channels, row, at)
        raw = self.b.vload(places * stride * channels, row, at)
        order = [p * stride * channels + c for p in range(places) for c in range(channels)]
        return self.b.shuffle(raw, raw, order)

    def interleaved(self, phases: Sequence[Value], channels: int) -> Value:
        """One place of each of some vectors after another."""
        b, n = self.b, lanes(phases[0].type)
        if len(phases) == 1:
            return phases[0]
        if len(phases) == 2 and channels == 1:
            return b.interleave(*phases)
        joined = phases[0]
        for i, x in enumerate(phases[1:-1], 1):
            joined = b.shuffle(joined, x, range((i + 1) * n))
        places, count = range(n // channels), range(len(phases))
        order = [p * n + q * channels + c for q in places for p in count for c in range(channels)]
        return b.shuffle(joined, phases[-1], order)

"""Pooling: the sum, maximum or minimum of windows, by vectors of neighbouring results.

Of arrays whose last dimensions have no windows (channels last), results are made one place after another: vectors of
channels go over the window. Else, windows go along the last dimension: for a block of results in a row, the rows of the
window are first combined, vector by vector, into a row on the stack, with the identity where the padding is; then its
neighbours are combined there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .builder import KernelBuilder
from .clusters import row_major
from .dtypes import DType
from .kernel import Kernel, Spec
from .target import KernelTarget
from .values import Buffer, Operand, Value, vector, width

Op = Literal["sum", "max", "min"]

#: Smaller operands are left to IREE, which joins the windows with their neighbours.
LEAST_ELEMENTS = 4096
#: Larger windows are: their time is that of the reduction, whoever does it.
MOST_ELEMENTS = 128
#: Vectors of channels that go over a window together.
TOGETHER = 8
#: Results of a row that are made together, and what the row on the stack may hold.
BLOCK, ROW_BYTES = 512, 24576
#: Windows of up to so many elements without padding are written out.
UNROLLED = 9
#: Strides along rows are permutations of vectors; windows along them fit the row on the stack.
MOST_STRIDE, MOST_REACH = 4, 1024
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


def applies(operand: Spec, windows: Windows, target: KernelTarget) -> str | None:
    """None where the kernel can do the windows, else why not."""
    if target.kind != "cpu":
        return "the pooling kernel is for CPUs"
    if operand.dtype.kind == "complex":
        return "the pooling kernel takes no complex numbers"
    if operand.size < LEAST_ELEMENTS or math.prod(windows.results(operand.shape)) == 0:
        return f"fewer than {LEAST_ELEMENTS} elements"
    if windows.size > MOST_ELEMENTS:
        return f"windows of more than {MOST_ELEMENTS} elements"
    if any(lo < 0 or hi < 0 for lo, hi in windows.padding):
        return "negative padding"
    spread = [d for d in range(len(operand.shape)) if windows.apart(d) > 1]
    if any(windows.dilation[d] > 1 for d in spread):
        return "gaps in the windows and between the elements"
    inner, lanes = _inner(operand.shape, windows), _lanes(operand.dtype, target)
    if inner > 1:
        return "fewer channels than a vector holds" if inner < lanes else None
    d = len(operand.shape) - 1
    if d in spread:
        return "gaps between the elements of a row"
    if windows.strides[d] > MOST_STRIDE:
        return f"a stride of more than {MOST_STRIDE} along rows"
    if windows.reach(d) > MOST_REACH:
        return f"windows over more than {MOST_REACH} elements of a row"
    return "rows shorter than a vector" if windows.results(operand.shape)[d] < lanes else None


def _lanes(dtype: DType, target: KernelTarget) -> int:
    """Elements of a vector while they are combined."""
    return target.lanes(width(dtype.accumulator))


def _inner(shape: Sequence[int], windows: Windows) -> int:
    """Elements of the last dimensions without windows."""
    inner = 1
    for d in reversed(range(len(shape))):
        if windows.moves(d):
            return inner
        inner *= shape[d]
    return inner


def pooling(op: Op, operand: Spec, windows: Windows, target: KernelTarget) -> Kernel:
    """The kernel of one operand. Raises ``ValueError`` where :func:`applies` says so."""
    why = applies(operand, windows, target)
    if why is not None:
        raise ValueError(f"pooling of {operand}: {why}")
    result = Spec(windows.results(operand.shape), operand.dtype)
    b = KernelBuilder(f"pooling_{op}", [operand], [result], target)
    pool = _Pool(b, op, operand, result, windows)
    inner = _inner(operand.shape, windows)
    form = pool.channels if inner > 1 else pool.rows
    pieces, make = form(inner)
    groups = max(1, min(pieces, target.workgroups, result.size * windows.size // GROUP_ELEMENTS))
    with b.spread(pieces, groups) as piece:
        make(piece)
    how = f"vectors of {inner} channels" if inner > 1 else "rows, combined on the stack"
    return b.build((groups,), f"pooling: {op} of windows of {windows.size}, {how}")


@dataclass(frozen=True)
class _Range:
    """Where a window is along a dimension: the operand's element at its first place (it may be in the padding), how far
    on that of the next place is, and which of its places are taken (None: all)."""

    first: Value
    step: int
    inside: tuple[Value, Value] | None


@dataclass(frozen=True)
class _Pool:
    b: KernelBuilder
    op: Op
    operand: Spec
    result: Spec
    windows: Windows

    # -- elements --------------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> Buffer:
        """The operand, flat."""
        return self.b.operand(0, (self.operand.size,), self.dtype.scalar)

    @cached_property
    def target(self) -> Buffer:
        """The result, flat."""
        return self.b.result(0, (self.result.size,), self.dtype.scalar)

    @property
    def dtype(self) -> DType:
        """The dtype of both."""
        return self.operand.dtype

    @property
    def lanes(self) -> int:
        """Elements of a vector while they are combined."""
        return _lanes(self.dtype, self.b.target)

    def identity(self, n: int) -> Value:
        """What the padding counts as."""
        t = vector(n, self.dtype.accumulator)
        if self.op == "sum":
            return self.b.const(0, t)
        top = self.op == "min"
        if self.dtype.kind == "float":
            return self.b.const(math.inf if top else -math.inf, t)
        if self.dtype.kind == "int":
            return self.b.const((1 << (self.dtype.bits - 1)) - 1 if top else -(1 << (self.dtype.bits - 1)), t)
        return self.b.const(((1 << self.dtype.bits) - 1 if self.dtype.kind == "uint" else 1) if top else 0, t)

    def load(self, n: int, at: Value) -> Value:
        """Elements of the operand, as they are combined."""
        return self.b.cast(self.b.vload(n, self.source, at), self.dtype.accumulator)

    def store(self, x: Value, at: Value) -> None:
        """Write results."""
        self.b.vstore(self.b.cast(x, self.dtype.scalar), self.target, at)

    def combine(self, x: Value, y: Value) -> Value:
        """Two vectors combined."""
        b = self.b
        if self.op == "sum":
            return x + y
        kinds = {"float": (b.fmax, b.fmin), "int": (b.smax, b.smin)}
        return kinds.get(self.dtype.kind, (b.umax, b.umin))[self.op == "min"](x, y)

    # -- windows ---------------------------------------------------------------------------------------------

    def range_of(self, d: int, index: Value) -> _Range:
        """The window of a result's index along a dimension."""
        b, w = self.b, self.windows
        (lo, hi), step, n = w.padding[d], w.dilation[d], self.operand.shape[d]
        first, apart = index * w.strides[d] - lo, w.apart(d)
        if apart > 1:
            # Elements j with 0 <= j < n whose place j * apart is in the window.
            start = b.udiv(b.smax(first + (apart - 1), 0), apart)
            stop = b.smin(b.udiv(b.smax(first + (w.lengths[d] + apart - 1), 0), apart), n)
            return _Range(b.index(0), 1, (start, stop))
        if lo == 0 and hi == 0:
            return _Range(first, step, None)
        # Elements k with 0 <= first + k * step < n.
        start = b.udiv(b.smax(b.index(step - 1) - first, 0), step)
        stop = b.smin(b.udiv(b.smax(b.index(n + step - 1) - first, 0), step), w.lengths[d])
        return _Range(first, step, (start, stop))

    def over(
        self, dims: Sequence[int], ranges: Sequence[_Range], base: Value, sums: list[Value], body: Body
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
            n = self.result.shape[d]
            out[d] = self.b.urem(number, n) if d != dims[0] else number
            number = self.b.udiv(number, n)
        return out

    def start(self, dims: Sequence[int], place: dict[int, Value]) -> tuple[list[int], list[_Range], Value, Value]:
        """The dimensions with windows, where these are, and the places in operand and result along the others."""
        strides_x, strides_y = row_major(self.operand.shape), row_major(self.result.shape)
        moving = [d for d in dims if self.windows.moves(d)]
        at, to = self.b.index(0), self.b.index(0)
        for d in dims:
            to = to + place[d] * strides_y[d]
            if d not in moving:
                at = at + place[d] * strides_x[d]
        return moving, [self.range_of(d, place[d]) for d in moving], at, to

    # -- channels last ---------------------------------------------------------------------------------------

    def channels(self, inner: int) -> tuple[int, Callable[[Value], None]]:
        """How many places there are, and how the results at one are made."""
        dims = _leading(self.result.shape, inner)

        def make(number: Value) -> None:
            moving, ranges, at, to = self.start(dims, self.place(number, dims))
            lanes, done = self.lanes, 0
            while done < inner:
                left = inner - done
                if left < lanes:  # moved back: some are made twice
                    done, left = inner - lanes, lanes
                count = min(TOGETHER, left // lanes)
                sums = [self.identity(lanes)] * count
                places = [done + v * lanes for v in range(count)]

                def body(place: Value, sums: list[Value], places: list[int] = places) -> list[Value]:
                    return [self.combine(x, self.load(lanes, place + v)) for x, v in zip(sums, places)]

                for x, v in zip(self.over(moving, ranges, at, sums, body), places):
                    self.store(x, to + v)
                done += count * lanes

        return math.prod(self.result.shape[d] for d in dims), make

    # -- rows ------------------------------------------------------------------------------------------------

    def rows(self, inner: int) -> tuple[int, Callable[[Value], None]]:
        """How many blocks of rows there are, and how the results of one are made."""
        b, w = self.b, self.windows
        last = len(self.result.shape) - 1
        dims = list(range(last))
        n, stride, lo = self.operand.shape[last], w.strides[last], w.padding[last][0]
        lanes, elem = self.lanes, self.dtype.accumulator
        most = (ROW_BYTES * 8 // width(elem) - w.reach(last) - lanes * stride) // stride
        block = min(self.result.shape[last], BLOCK, most)
        blocks = -(-self.result.shape[last] // block)
        length = (block - 1) * stride + w.reach(last)
        row = b.stack((length + lanes * stride,), elem)

        def make(number: Value) -> None:
            part = b.smin(b.urem(number, blocks) * block, self.result.shape[last] - block)
            moving, ranges, at, to = self.start(dims, self.place(b.udiv(number, blocks), dims))
            # Place t of the row is column first + t of the operand.
            first = part * stride - lo
            inside = b.smin(b.smax(b.index(0) - first, 0), length)
            outside = b.smax(b.smin(b.index(n) - first, length), inside)
            for start, stop in ((b.index(0), inside), (outside, b.index(length))):
                with b.for_(start, stop) as loop:
                    b.vstore(self.identity(1), row, loop.index)

            def column(width: int, t: Value) -> None:
                body = lambda place, sums: [self.combine(sums[0], self.load(width, place))]  # noqa: E731
                if not moving:
                    (x,) = [self.load(width, at + first + t)]
                else:
                    (x,) = self.over(moving, ranges, at + first + t, [self.identity(width)], body)
                b.vstore(x, row, t)

            whole = inside + b.udiv(outside - inside, lanes) * lanes
            with b.for_(inside, whole, lanes) as loop:
                column(lanes, loop.index)
            with b.for_(whole, outside) as loop:
                column(1, loop.index)

            def neighbours(t: Value) -> None:
                x: Value | None = None
                for k in range(w.lengths[last]):
                    y = self._strided(row, t * stride + k * w.dilation[last], lanes, stride)
                    x = y if x is None else self.combine(x, y)
                assert x is not None
                self.store(x, to + part + t)

            with b.for_(0, block, lanes) as loop:
                neighbours(b.smin(loop.index, block - lanes) if block % lanes else loop.index)

        return math.prod(self.result.shape[:last]) * blocks, make

    def _strided(self, row: Buffer, at: Value, n: int, stride: int) -> Value:
        """Vectors of every so many elements of the row on the stack."""
        raw = self.b.vload(n * stride, row, at)
        return raw if stride == 1 else self.b.shuffle(raw, raw, range(0, n * stride, stride))


Body = Callable[[Value, "list[Value]"], "list[Value]"]


def _leading(shape: Sequence[int], inner: int) -> list[int]:
    """The dimensions before those that make ``inner`` elements."""
    d = len(shape)
    while inner > 1:
        d -= 1
        inner //= shape[d]
    return list(range(d))


__all__ = ["Op", "Windows", "applies", "pooling"]

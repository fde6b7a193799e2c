"""Pooling: the sum, maximum or minimum of windows, by vectors of neighbouring results.

Of arrays whose last dimensions have no windows (channels last), results are made one place after another: vectors of
channels go over the window. Else, or if the channels do not fill a vector, windows go along a row: for a block of
results in a row, the rows of the window are first combined, vector by vector, into a row on the stack, with the identity
where the padding is; then its neighbours are combined there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from .builder import KernelBuilder
from .kernel import Kernel, Spec
from .target import KernelTarget
from .values import Buffer, Value, width
from .windows import GROUP_ELEMENTS, ROW_BYTES, Op, WindowLoops, Windows, declined, vector_lanes

#: Vectors of channels that go over a window together.
TOGETHER = 8
#: Elements of results of a row that are made together.
BLOCK = 512


def applies(operand: Spec, windows: Windows, target: KernelTarget) -> str | None:
    """None where the kernel can do the windows, else why not."""
    why = declined(operand, windows, target)
    if why is not None:
        return why
    dims, inner = windows.channels(operand.shape)
    if any(windows.dilation[d] > 1 and windows.apart(d) > 1 for d in range(dims)):
        return "gaps in the windows and between the elements"
    lanes = vector_lanes(operand.dtype, target)
    if inner >= lanes:
        return None
    if windows.apart(dims - 1) > 1:
        return "gaps between the elements of a row"
    return "rows shorter than a vector" if windows.results(operand.shape)[dims - 1] < lanes // inner else None


def pooling(op: Op, operand: Spec, windows: Windows, target: KernelTarget) -> Kernel:
    """The kernel of one operand. Raises ``ValueError`` where :func:`applies` says so."""
    why = applies(operand, windows, target)
    if why is not None:
        raise ValueError(f"pooling of {operand}: {why}")
    result = Spec(windows.results(operand.shape), operand.dtype)
    b = KernelBuilder(f"pooling_{op}", [operand], [result], target)
    pool = _Pool(b, op, operand, result.shape, windows)
    dims, inner = windows.channels(operand.shape)
    channels = inner >= pool.lanes
    pieces, make = pool.channels(dims, inner) if channels else pool.rows(dims - 1, inner)
    groups = max(1, min(pieces, target.workgroups, result.size * windows.size // GROUP_ELEMENTS))
    with b.spread(pieces, groups) as piece:
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
        n, stride, lo = self.operand.shape[last], w.strides[last], w.padding[last][0]
        elem, places = self.dtype.accumulator, self.vector_places(inner)
        lanes = places * inner
        most = (ROW_BYTES * 8 // width(elem) // inner - w.reach(last) - places * stride) // stride
        block = min(self.results[last], max(places, BLOCK // inner), most)
        blocks = -(-self.results[last] // block)
        length = ((block - 1) * stride + w.reach(last)) * inner
        row = b.stack((length + lanes * stride,), elem)

        def make(number: Value) -> None:
            part = b.smin(b.urem(number, blocks) * block, self.results[last] - block)
            moving, ranges, at, to = self.start(dims, self.place(b.udiv(number, blocks), dims))
            # Element t of the row is element first + t of the operand's.
            first = (part * stride - lo) * inner

            def column(width: int, t: Value) -> None:
                body = lambda place, sums: [self.combine(sums[0], self.load(width, place))]  # noqa: E731
                if not moving:
                    (x,) = [self.load(width, at + first + t)]
                else:
                    (x,) = self.over(moving, ranges, at + first + t, [self.identity(width)], body)
                b.vstore(x, row, t)

            self.columns(first, n * inner, length, column, lambda t: b.vstore(self.identity(1), row, t))

            def neighbours(t: Value) -> None:
                x: Value | None = None
                for k in range(w.lengths[last]):
                    y = self.strided(row, t * stride + k * w.dilation[last] * inner, places, stride, inner)
                    x = y if x is None else self.combine(x, y)
                assert x is not None
                self.store(x, to + part * inner + t)

            with b.for_(0, block * inner, lanes) as loop:
                neighbours(b.smin(loop.index, block * inner - lanes) if block % places else loop.index)

        return math.prod(self.results[:last]) * blocks, make


__all__ = ["applies", "pooling"]

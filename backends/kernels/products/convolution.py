"""Convolutions (features last) as products of pixels with the filter, without forming the matrix of patches.

The rows of a block are neighbouring pixels of one line of the result, its columns output features; the sum runs over
the window and the input features, read where they lie in the padded input. The filter is packed once, in strips of
columns, by a dispatch of its own.

A dilated input (the gradient of a strided convolution) is not filled with zeros: the pixels of the result are taken
by phases, the remainders of their places by the dilation, and each phase sums over the taps that meet elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import Kernel, KernelChain, Spec, Step
from ..core.shapes import row_major
from ..core.target import KernelTarget
from ..core.values import Operand, Value
from .epilogue import Epilogue, EpilogueWriter
from .packing import Strips
from .plans import GROUP_FLOPS, UNROLL, tile
from .register_tile import Level, Source, Tile, strip_masks

#: A workgroup's least share of a filter that is packed, in elements.
PACKED_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Window:
    """One spatial dimension: sizes of input (padded), filter and result, and how the window moves.

    ``low`` is what the undilated input was padded by, ``pad`` the convolution's own low padding.
    """

    size: int
    taps: int
    out: int
    stride: int
    dilation: int
    base: int
    pad: int
    low: int


@dataclass(frozen=True)
class Conv:
    """A convolution of ``[batch, ..., features]`` with ``[..., features / groups, out_features]``."""

    batch: int
    features: int
    out_features: int
    groups: int
    windows: tuple[Window, ...]

    @property
    def group_features(self) -> int:
        """Input features that one output feature depends on."""
        return self.features // self.groups

    @property
    def group_outputs(self) -> int:
        """Output features of one group."""
        return self.out_features // self.groups

    @property
    def taps(self) -> int:
        """Positions of the filter."""
        return math.prod(w.taps for w in self.windows)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (self.batch, *(w.out for w in self.windows), self.out_features)

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of the padded input."""
        return (self.batch, *(w.size for w in self.windows), self.features)

    @property
    def flops(self) -> int:
        """Multiplications and additions, taps that meet only holes of a dilated input left out."""
        holes = math.prod(w.base for w in self.windows)
        return 2 * math.prod(self.out_shape) * self.taps * self.group_features // holes

    def __str__(self) -> str:
        size = "x".join(str(w.taps) for w in self.windows)
        return f"{size} window, {self.features} to {self.out_features} features, {self.batch} x " + "x".join(
            str(w.out) for w in self.windows
        )


def window(n: int, taps: int, out: int, stride: int, dilation: int, base: int, pad: int) -> tuple[Window, int, int]:
    """A window on an input of ``n`` elements, and by how much the kernel wants the input padded (or cut).

    ``stride`` and ``dilation`` must be 1 where ``base``, the input's dilation, is not.
    """
    if base == 1:
        low, last = pad, (out - 1) * stride + (taps - 1) * dilation
        return Window(last + 1, taps, out, stride, dilation, 1, pad, low), low, last + 1 - n - low
    first, last = 0, 0
    for r in range(min(base, out)):
        start = (pad - r) % base
        count = -(-(taps - start) // base) if taps > start else 0
        if not count:
            continue
        offset = (r + start - pad) // base
        first = min(first, offset)
        last = max(last, offset + count - 1 + (out - 1 - r) // base)
    size = last + 1 - first
    return Window(size, taps, out, 1, 1, base, pad, -first), -first, size - n + first


#: A filter of more bytes than this is read by one workgroup, a part of it each.
FILTER_BYTES = 1 << 20


@dataclass(frozen=True)
class _Plan:
    """``mr`` pixels by ``nv`` vectors; runs of ``lines`` by runs of ``strips`` make a workgroup's share."""

    mr: int
    nv: int
    lines: int
    strips: int
    groups: tuple[int, int]


def _plan(c: Conv, total: DType, target: KernelTarget) -> _Plan:
    lanes = target.lanes(total.bits)
    last = c.windows[-1]
    width = last.out // last.base
    mr, nv = tile(max(1, width), c.group_outputs, lanes, target)
    lines = c.batch * math.prod(w.out for w in c.windows[:-1])
    strips = c.groups * -(-c.group_outputs // (nv * lanes))
    wanted = target.groups(c.flops, GROUP_FLOPS)
    # Neighbouring lines share input: a workgroup takes a run of them, and all strips unless the filter is large.
    large = c.taps * c.group_features * c.out_features * total.nbytes > FILTER_BYTES
    columns = min(strips, wanted if large else -(-wanted // lines))
    rows = min(lines, -(-wanted // columns))
    line_share, strip_share = -(-lines // rows), -(-strips // columns)
    return _Plan(mr, nv, line_share, strip_share, (-(-lines // line_share), -(-strips // strip_share)))


def conv(c: Conv, operand: DType, total: DType, target: KernelTarget, epilogue: Epilogue | None = None) -> KernelChain:
    """The kernels of a convolution: operands are the padded input and the filter, sums are of dtype ``total``.

    With an epilogue its operands follow, and its results are the chain's.
    """
    plan = _plan(c, total, target)
    lanes = target.lanes(total.bits)
    nr = plan.nv * lanes
    strips = -(-c.group_outputs // nr)
    rows = c.taps * c.group_features
    shape = (*(w.taps for w in c.windows), c.group_features, c.out_features)
    filter_, packed = Spec.of(shape, operand), Spec.of((c.groups, strips, rows, nr), total)
    source, result = Spec.of(c.in_shape, operand), Spec.of(c.out_shape, total)
    first = _pack(c, filter_, packed, target)
    writer = _Writer(c, plan, total, source, packed, result, target, epilogue)
    reason = f"{c}: {plan.mr} pixels x {plan.nv} vectors, filter packed, {math.prod(plan.groups)} workgroups"
    others, results = list[Spec](), [result]
    if epilogue is not None:
        reason, others, results = f"{reason}, {epilogue}", epilogue.operands, epilogue.results
    second = writer.build(reason)
    count = 2 + len(others)
    steps = Step(first, (1,)), Step(second, (0, count, *range(2, count)))
    picked = tuple(range(count + 1, count + 1 + len(results)))
    return KernelChain(steps, (source, filter_, *others), tuple(results), picked, reason)


def _pack(c: Conv, filter_: Spec, packed: Spec, target: KernelTarget) -> Kernel:
    """The filter in strips: ``[group, strip, row, column]``, columns beyond the last one 0."""
    b = KernelBuilder("filter", [filter_], [packed], target)
    groups, strips, rows, nr = packed.shape
    elem, lanes = packed.dtype.scalar, target.lanes(packed.dtype.bits)
    source, destination = b.operand(0, (filter_.size,)), b.result(0, (packed.size,))
    pieces = groups * strips
    workgroups = target.groups(packed.size, PACKED_ELEMENTS, pieces)
    with b.distributed(pieces, workgroups) as piece:
        group, strip = b.divmod(piece, strips)
        column = strip * nr
        start = group * c.group_outputs + column
        at = piece * (rows * nr)
        masks = strip_masks(b, lanes, nr // lanes, c.group_outputs, column) if c.group_outputs % nr else None
        Strips(b, source, c.out_features, 1, nr, destination, nr, lanes, lanes, elem).pack(start, rows, 0, at, masks)
    return b.build((workgroups,), "the filter in strips of columns")


@dataclass
class _Line:
    """A line of the result: where it begins in the three arrays, and the loops over the outer taps.

    ``result`` is the place of its first pixel, ``feature`` the first feature that is computed.
    """

    source: Value
    filter: Value
    result: Value
    feature: Value
    levels: list[Level]


class _Writer:
    """The writing of the convolution itself."""

    def __init__(
        self, c: Conv, plan: _Plan, total: DType, source: Spec, packed: Spec, result: Spec, target: KernelTarget,
        epilogue: Epilogue | None,
    ) -> None:  # fmt: skip
        self.c, self.plan = c, plan
        operands, results = [source, packed], [result]
        if epilogue is not None:
            operands, results = operands + epilogue.operands, epilogue.results
        self.b = KernelBuilder("conv", operands, results, target)
        self.source = self.b.operand(0, (source.size,))
        self.packed = self.b.operand(1, (packed.size,))
        self.lanes = target.lanes(total.bits)
        self.nr = plan.nv * self.lanes
        self.strips = packed.shape[1]
        self.rows = packed.shape[2]
        self.tile = Tile(self.b, plan.mr, plan.nv, self.lanes, total.scalar, UNROLL)
        self.result, self.epilogue = None, None
        if epilogue is None:
            self.result = self.b.result(0, (result.size,))
        elif c.groups > 1:
            raise NoKernel("groups of features")
        else:
            size, groups = (plan.mr, self.nr), math.prod(plan.groups)
            self.epilogue = EpilogueWriter(self.b, epilogue, total, c.out_features, size, groups)
        self.in_steps = row_major(c.in_shape)
        self.out_steps = row_major(c.out_shape)
        # rows of the packed filter from one tap to the next
        self.tap_steps = [s * c.group_features for s in row_major([w.taps for w in c.windows])]

    def build(self, reason: str) -> Kernel:
        """The finished kernel: workgroups take runs of lines; a strip of the filter serves a whole run."""
        b, c, plan = self.b, self.c, self.plan
        outs = [w.out for w in c.windows[:-1]]
        rows, columns = plan.groups
        row_part, column_part = b.divmod(b.workgroup_id(), columns) if rows * columns > 1 else (b.index(0), b.index(0))
        start, first = row_part * plan.lines, column_part * plan.strips
        stop = b.smin(start + plan.lines, b.index(c.batch * math.prod(outs)))
        with b.for_(first, b.smin(first + plan.strips, b.index(c.groups * self.strips))) as outer:
            group, strip = b.divmod(outer.index, self.strips)
            column = strip * self.nr
            with b.for_(start, stop) as line:
                number = line.index
                places: list[Value] = []
                for n in reversed(outs):
                    number, i = b.divmod(number, n)
                    places.insert(0, i)
                self._line(number, places, group, outer.index, column)
        return b.build((rows * columns,), reason)

    def _taps(self, w: Window, place: Value) -> tuple[Value, Value, Operand]:
        """Of one dimension, for a place of the result: first element of the input, first tap, number of taps."""
        b = self.b
        if w.base == 1:
            return place * w.stride, b.index(0), w.taps
        first = b.urem(b.index(w.pad + w.base * w.out) - place, w.base)
        count = b.udiv(b.smax(b.index(w.taps + w.base - 1) - first, 0), w.base)
        element = b.udiv(place + first + (w.base * w.low - w.pad), w.base)
        return element, first, count

    def _line(self, image: Value, places: Sequence[Value], group: Value, strip: Value, column: Value) -> None:
        b, c = self.b, self.c
        at = image * self.in_steps[0] + group * c.group_features
        filter_at = strip * (self.rows * self.nr)
        out, feature = image * self.out_steps[0], group * c.group_outputs + column
        levels: list[Level] = []
        for d, (w, place) in enumerate(zip(c.windows[:-1], places)):
            element, first, count = self._taps(w, place)
            at = at + element * self.in_steps[d + 1]
            filter_at = filter_at + first * (self.tap_steps[d] * self.nr)
            out = out + place * self.out_steps[d + 1]
            left = self.in_steps[d + 1] * w.dilation
            levels.append(Level(count, left, self.tap_steps[d] * w.base * self.nr))
        last = c.windows[-1]
        if last.base == 1:
            if last.dilation == 1 and c.groups == 1:
                levels.append(Level(last.taps * c.features, 1, self.nr))
            else:
                levels.append(Level(last.taps, last.dilation * c.features, self.tap_steps[-1] * self.nr))
                levels.append(Level(c.group_features, 1, self.nr))
            self._blocks(_Line(at, filter_at, out, feature, levels), column, b.index(last.out), 1)
            return
        with b.for_(0, min(last.base, last.out)) as phase:
            element, first, count = self._taps(last, phase.index)
            pixels = b.udiv(b.index(last.out + last.base - 1) - phase.index, last.base)
            line = _Line(
                at + element * c.features,
                filter_at + first * (self.tap_steps[-1] * self.nr),
                out + phase.index * c.out_features,
                feature,
                [
                    *levels,
                    Level(count, c.features, self.tap_steps[-1] * last.base * self.nr),
                    Level(c.group_features, 1, self.nr),
                ],
            )
            self._blocks(line, column, pixels, last.base)

    def _blocks(self, line: _Line, column: Value, pixels: Value, step: int) -> None:
        """All pixels of a line; ``step`` is their distance in the result."""
        b, c, mr = self.b, self.c, self.plan.mr
        last = c.windows[-1]
        in_step, out_step = c.features * last.stride, c.out_features * step
        exact = last.base == 1 and last.out % mr == 0
        with b.for_(0, pixels, mr) as block:
            pixel = block.index if exact else b.smin(block.index, pixels - mr)
            left = Source(self.source, line.source + pixel * in_step)
            sums = self.tile.run(
                _merged(line.levels), left, in_step, Source(self.packed, line.filter), [None] * self.plan.nv,
                self.tile.zeros(),
            )  # fmt: skip
            place = line.result + pixel * out_step
            if self.epilogue is None:
                self._store(sums, place + line.feature, out_step, column)
            else:
                row, skipped = b.udiv(place, c.out_features), 0 if exact else block.index - pixel
                self.epilogue.store(sums, self.lanes, row, step, line.feature, (skipped, 0))

    def _store(self, sums: list[Value], at: Value, step: int, column: Value) -> None:
        b, nv, outputs, result = self.b, self.plan.nv, self.c.group_outputs, self.result
        assert result is not None
        if outputs % self.nr == 0 or self.strips == 1:
            self.tile.store(sums, result, at, step, strip_masks(b, self.lanes, nv, outputs, None))
            return
        with b.if_(b.cmp("sle", column, outputs - self.nr)) as whole:
            self.tile.store(sums, result, at, step)
            whole.else_()
            self.tile.store(sums, result, at, step, strip_masks(b, self.lanes, nv, outputs, column))


def _merged(levels: Sequence[Level]) -> list[Level]:
    """The loops without those of one turn."""
    kept = [v for v in levels[:-1] if v.count != 1]
    return [*kept, levels[-1]]

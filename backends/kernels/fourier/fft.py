"""Fourier transforms of one dimension, of any length, in single and double precision.

All the work of a transform is done by one workgroup in memory of its own, which stays in the cache; transforms are
spread over the workgroups (CPUs; `fft_by_threads` is for GPUs). Three forms differ in what a vector holds:

- **rows**: the transformed dimension is the last, and long: vectors of neighbouring elements. While the stride of a
  stage is less than a vector its results are put in order by shuffles.
- **columns**: other dimensions follow: a vector holds elements of neighbouring columns, and a block of columns is
  transformed at once, as many as fill whole cache lines.
- **lanes**: what is left (short rows, few columns): each lane is a transform, read and written by gather and scatter.

Real rows of even length are transforms of half the length, of pairs of neighbours taken as complex numbers (Sorensen et
al. 1987), with one more pass; others are computed as if they were complex. Lengths with large prime factors become
convolutions (`plan.py`): both transforms of one are the same stages, run twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..core.builder import KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.kernel import Kernel, KernelChain, Spec
from ..core.target import KernelTarget
from ..core.values import Value
from . import plan as plans
from .fft_by_threads import fft_by_threads, split
from .memory import Gathered, Interleaved, Memory, Planes
from .passes import Passes, Step
from .problem import Kind, Problem

#: Least and most bytes that a block of columns has in each row.
COLUMN_BYTES = (128, 512)
#: Working memory of a block of columns that is not larger than it must be: half of a usual second-level cache.
BLOCK_BYTES = 1 << 19
#: Working memory up to this is on the stack.
ON_STACK = 1 << 14
#: Elements a workgroup takes at least.
GRAIN = 1 << 13
#: Longer transforms are not taken: their stages would stream through memory, one processor at work.
LONGEST = 1 << 22


@dataclass(frozen=True)
class Form:
    """How a transform is computed: see the module.

    ``n`` is the length of the complex transform, half of the real one's with ``paired``. ``width`` transforms are
    neighbours in the working memory; ``convolved`` is the length of the convolution or 0, ``factors`` are the radices.
    """

    name: str
    n: int
    width: int
    paired: bool
    convolved: int
    factors: tuple[int, ...]

    def __str__(self) -> str:
        product = " x ".join(map(str, self.factors)) or "1"
        length = f"a convolution of {self.convolved} = {product}" if self.convolved else f"{self.n} = {product}"
        return f"{self.name}{', pairs as complex numbers' if self.paired else ''}, {length}"


def check(operand: Spec, n: int, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless :func:`fft` can transform an operand like this by transforms of length ``n``."""
    if operand.dtype.name not in ("f32", "f64", "c64", "c128"):
        raise NoKernel(f"the fft kernel has no {operand.dtype.name}")
    if operand.size * 4 >= 1 << 31:
        raise NoKernel("the fft kernel has places of 32 bits")
    if target.kind == "gpu":
        split(n, dtype_of("f32" if operand.dtype.bits == 32 else "f64"), target)
    elif n > LONGEST:
        raise NoKernel(f"the fft kernel is for lengths up to {LONGEST}")


def _factored(n: int, least: int, widest: int) -> tuple[int, tuple[int, ...]]:
    convolved = plans.convolved(n, least)
    return convolved, tuple(plans.radices(convolved or n, widest))


def _rows(n: int, paired: bool, lanes: int, widest: int) -> Form | None:
    """The form of rows, where every stage has whole vectors."""
    convolved, factors = _factored(n, 8 * lanes, widest)
    fits = len(factors) > 1 and lanes * max(factors) <= (convolved or n) and n >= 2 * lanes
    return Form("rows", n, 1, paired, convolved, factors) if fits else None


def choose(kind: Kind, outer: int, n: int, inner: int, bits: int, target: KernelTarget) -> Form:
    """The form for ``outer`` x ``inner`` transforms of length n."""
    lanes = target.lanes(bits)
    widest = 8 if target.registers > 16 else 4
    if inner == 1:
        paired = kind is not Kind.COMPLEX and n % 2 == 0
        core = n // 2 if paired else n
        found = _rows(core, paired, lanes, widest) or (_rows(n, False, lanes, widest) if paired else None)
        if found is None and outer < lanes:
            found = _rows(core, paired, lanes, 2)
        if found is not None:
            return found
    convolved, factors = _factored(n, 0, widest)
    if inner < lanes:
        return Form("lanes", n, lanes, False, convolved, factors)
    return Form("columns", n, _width(outer, convolved or n, inner, bits, target), False, convolved, factors)


def _width(outer: int, n: int, inner: int, bits: int, target: KernelTarget) -> int:
    """Columns of a block: many, for long runs in memory, but with enough blocks for all processors."""
    lanes = target.lanes(bits)
    least, most = (max(lanes, size * 8 // (2 * bits)) for size in COLUMN_BYTES)
    if least > inner:
        return lanes
    width = least
    while 2 * width <= most and n * 2 * width * bits // 2 <= BLOCK_BYTES:
        if outer * (inner // (2 * width)) < target.workgroups // 2:
            break
        width *= 2
    return width


def fft(
    operand: Spec, dim: int, kind: Kind, target: KernelTarget, *, length: int = 0, inverse: bool = False
) -> tuple[Kernel | KernelChain, Any]:
    """The kernel of a transform of dimension ``dim``, and its second operand: a NumPy table of factors.

    Args:
        operand: f32 or f64 for transforms of real numbers, c64 or c128 otherwise.
        dim: any dimension of complex transforms, else the last.
        length: of the real result of ``Kind.REAL`` (which is an inverse); else that of the operand.
        inverse: exp(+2 pi i j k / n), and a factor 1/n.

    Raises :class:`NoKernel`.
    """
    size = operand.shape[dim]
    n = length if kind is Kind.REAL else size
    check(operand, n, target)
    out_size = n // 2 + 1 if kind is Kind.HALF else n
    bits = operand.dtype.bits
    complex_dtype, real_dtype = ("c64", "f32") if bits == 32 else ("c128", "f64")
    shape = (*operand.shape[:dim], out_size, *operand.shape[dim + 1 :])
    result = Spec.of(shape, real_dtype if kind is Kind.REAL else complex_dtype)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    problem = Problem(kind, outer, n, inner, (size, out_size), inverse or kind is Kind.REAL)
    if target.kind == "gpu":
        return fft_by_threads(problem, operand, result, target)
    form = choose(kind, outer, n, inner, bits, target)
    return _Fft(problem, form, operand, result, target).build()


class _Fft:
    """The writing of one kernel."""

    def __init__(self, p: Problem, form: Form, operand: Spec, result: Spec, target: KernelTarget) -> None:
        self.p, self.form = p, form
        self.lanes = target.lanes(operand.dtype.bits)
        self.real = dtype_of("f32" if operand.dtype.bits == 32 else "f64")
        table = plans.Table()
        along = self.lanes if form.name == "rows" else 0
        stages = plans.stages(form.factors, along, table)
        self.passes = Passes(form.n, p.n, along, form.width, self.lanes, target, stages, table, form.convolved)
        steps = self._steps()
        self.numbers = table.numbers(self.real.numpy())
        pieces = self._pieces()
        grain = max(1, p.outer * p.inner * p.n // GRAIN)
        self.pieces, self.groups = pieces, max(1, min(pieces, target.workgroups, grain))
        specs = [operand, Spec.of(self.numbers.shape, self.real)]
        self.b = KernelBuilder("fft", specs, [result], target)
        self.steps = steps
        self.buffers = [self.b.operand(0, (operand.size * operand.dtype.parts,))]
        self.buffers.append(self.b.result(0, (result.size * result.dtype.parts,)))
        self.parts = (operand.dtype.parts, result.dtype.parts)

    def _steps(self) -> list[Step]:
        """What is done one after another, each reading what the one before has written."""
        passes, kind = self.passes, self.p.kind
        core: list[Step] = [passes.convolution] if self.form.convolved else passes.stage_steps()
        if kind is Kind.REAL:
            return [passes.from_half_paired() if self.form.paired else passes.from_half, *core]
        if kind is not Kind.COMPLEX and self.form.paired:
            return [*core, passes.to_spectrum(kind is Kind.WHOLE)]
        if kind is Kind.HALF:
            return [*core, partial(passes.copy, count=self.p.sizes[1])]
        return core

    def _pieces(self) -> int:
        p, form = self.p, self.form
        if form.name == "rows":
            return p.outer
        if form.name == "columns":
            return p.outer * -(-p.inner // form.width)
        return -(-p.outer * p.inner // self.lanes)

    def build(self) -> tuple[Kernel, Any]:
        """The kernel, and its second operand: the NumPy table of factors."""
        b, passes = self.b, self.passes
        passes.open(b, self.real, b.operand(1))
        chain = len(self.steps) - 1
        sizes = [passes.size(self.form.n)] * min(chain, 2)
        inside = [passes.size(self.form.convolved)] * 2 if self.form.convolved else []
        total = 2 * sum([*sizes, *inside])
        on_stack = total * self.real.nbytes <= ON_STACK
        memory = None
        if total and on_stack:
            memory = b.stack((total,), self.real.scalar)
        elif total:
            memory = b.more_scratch(Spec.of((self.groups * total,), self.real))
        with b.distributed(self.pieces, self.groups) as piece:
            start = b.index(0) if on_stack or self.groups == 1 else b.workgroup_id() * total
            areas: list[Planes] = []
            for size in [*sizes, *inside]:
                assert memory is not None
                areas.append(Planes(b, memory, start, size, self.lanes, self.form.width))
                start = start + 2 * size
            passes.areas = areas[len(sizes) :]
            places: list[Memory] = [areas[i % 2] for i in range(chain)]
            source, destination = self._ends(piece)
            for step, src, dst in zip(self.steps, [source, *places], [*places, destination], strict=True):
                step(src, dst)
        return b.build((self.groups,), f"fft: {self.form}"), self.numbers

    def _ends(self, piece: Value) -> tuple[Memory, Memory]:
        """Operand and result of one piece: a row, a block of columns, or one transform a lane."""
        p, form, b = self.p, self.form, self.b
        swaps = (p.inverse and p.kind is not Kind.REAL, p.inverse)
        scales = (1.0, 1 / p.n if p.inverse else 1.0)
        sides: Sequence[int] = range(2)
        if form.name == "lanes":
            places, mask = self._lanes(piece)
            gathered = [
                Gathered(b, self.buffers[i], self.parts[i], p.inner, swaps[i], scales[i], places[i], mask)
                for i in sides
            ]
            return gathered[0], gathered[1]
        ends: list[Memory] = []
        for i in sides:
            size, parts = p.sizes[i], self.parts[i]
            if form.name == "rows":
                if form.paired and parts == 1:  # pairs of real numbers as complex ones
                    size, parts = size // 2, 2
                start = piece * size
            else:
                blocks = -(-p.inner // form.width)
                outer, block = (b.udiv(piece, blocks), b.urem(piece, blocks))
                column = b.moved_inside(block * form.width, form.width, p.inner)
                start = outer * (size * p.inner) + column
            ends.append(Interleaved(b, self.buffers[i], parts, p.inner, swaps[i], scales[i], start, self.lanes))
        return ends[0], ends[1]

    def _lanes(self, piece: Value) -> tuple[list[Value], Value]:
        """Where the transforms of a vector begin in operand and result, and which lanes there are."""
        p, b, n = self.p, self.b, self.lanes
        count = p.outer * p.inner
        first = piece * n
        if count >= n:
            first = b.moved_inside(first, n, count)
        mask = b.const(1, f"vector<{n}xi1>") if count >= n else b.mask(n, count)
        lane = b.broadcast(b.cast(first, "i32"), n) + b.const_vector(range(n), "i32")
        outer, inner = b.udiv(lane, p.inner), b.urem(lane, p.inner)
        return [outer * (size * p.inner) + inner for size in p.sizes], mask

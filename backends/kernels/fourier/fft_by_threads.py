"""Fourier transforms on GPUs: a workgroup has some transforms in its shared memory, and its threads have their butterflies.

The stages are those of `plan.py`: each reads one array of the shared memory and writes another. Real transforms are computed as if
they were complex, inverse ones with real and imaginary parts exchanged before and after.

A length that does not fit is split into two that do, n = a b ("four-step", Bailey, "FFTs in external or hierarchical memory",
1990): with j = j1 b + j2 and k = k1 + a k2, transforms of length a along j1, whose results are multiplied by exp(-2 pi i j2 k1 / n),
and then transforms of length b along j2. The two are two dispatches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.builder import GRID, KernelBuilder
from ..core.dtypes import DType, dtype_of
from ..core.errors import NoKernel
from ..core.kernel import ChainOf, Kernel, KernelChain, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value
from . import plan as plans
from .butterflies import Arithmetic, Complex, butterfly
from .problem import Kind, Problem

#: A workgroup has transforms of about so many elements together, for each of its threads.
ITEMS = 4
#: Where neighbouring transforms are neighbours in memory, a workgroup has as many at least, if there is room.
NEIGHBOURS = 8
#: The factors between two steps are products of two roots: those of multiples of this, and of what is less.
COARSE = 1024


def split(n: int, real: DType, target: KernelTarget) -> tuple[int, int]:
    """The lengths (a, b) of two steps whose product is n; (1, n) where one workgroup holds the transform.

    Raises :class:`NoKernel` where large prime factors or the length are in the way.
    """
    factors = plans.prime_factors(n)
    if factors and factors[-1] > plans.UNROLLED:
        raise NoKernel(f"the fft kernel for GPUs takes no prime factors above {plans.UNROLLED}")
    most = _longest(real, target)
    if n <= most:
        return 1, n
    b = next(b for b in range(math.isqrt(n), 0, -1) if n % b == 0)
    if n // b > most:
        raise NoKernel(f"the fft kernel for GPUs is for products of two lengths up to {most}")
    return n // b, b


def _longest(real: DType, target: KernelTarget) -> int:
    """The longest transform that a workgroup holds: two arrays of complex numbers."""
    return target.shared_bytes // (4 * real.nbytes)


def fft_by_threads(p: Problem, operand: Spec, result: Spec, target: KernelTarget) -> tuple[Kernel | KernelChain, Any]:
    """The kernels of a transform on a GPU, and their second operand; see `quire.backends.kernels.fourier.fft.fft`.

    Raises :class:`NoKernel`.
    """
    real = dtype_of("f32" if operand.dtype.bits == 32 else "f64")
    a, b = split(p.n, real, target)
    table = plans.Table()
    rows = _Step(b, a, False, p, real, target, tuple(plans.stages(plans.radices(b), 0, table)))
    source, sink = _End(operand, p, 0), _End(result, p, 1)
    if a == 1:
        numbers = table.numbers(real.numpy())
        return rows.kernel("fft", source, sink, Spec.of(numbers.shape, real)), numbers
    columns = _Step(a, b, True, p, real, target, tuple(plans.stages(plans.radices(a), 0, table)))
    turn = _Turn.of(p.n, table)
    numbers = table.numbers(real.numpy())
    factors = Spec.of(numbers.shape, real)
    plain = Problem(Kind.COMPLEX, p.outer, p.n, p.inner, (p.n, p.n), False)
    between = _End(Spec.of((p.outer, p.n, p.inner), "c64" if real.bits == 32 else "c128"), plain, 0)
    chain = ChainOf([operand, factors])
    middle = chain.then(columns.kernel("fft_columns", source, between, factors, turn), [0, 1])
    out = chain.then(rows.kernel("fft_rows", between, sink, factors), [*middle, 1])
    return chain.finished(out, f"fft: {p.n} = {a} x {b} in two dispatches of workgroups' shared memory"), numbers


@dataclass(frozen=True)
class _End:
    """Operand or result: `side` 0 is the one that is read, 1 the one that is written and scaled."""

    spec: Spec
    p: Problem
    side: int

    def _at(self, outer: Value, g: Value, inner: Value) -> Value:
        return (outer * self.p.sizes[self.side] + g) * self.p.inner + inner

    def load(self, b: KernelBuilder, outer: Value, g: Value, inner: Value) -> Complex:
        """Element `g` of a transform, of which only half may be there."""
        n, memory = self.p.n, b.operand(0, (self.spec.size * self.spec.dtype.parts,))
        if self.spec.dtype.parts == 1:
            re = b.load(memory, self._at(outer, g, inner))
            return re, b.const(0, re.type)
        if self.p.kind is not Kind.REAL:
            re, im = _pair(b, memory, self._at(outer, g, inner) * 2)
            return (im, re) if self.p.inverse else (re, im)
        later = b.cmp("sgt", g, n // 2)  # the conjugate of what is there
        re, im = _pair(b, memory, self._at(outer, b.select(later, b.index(n) - g, g), inner) * 2)
        im = b.select(later, b.negf(im), im)
        real_only = b.cmp("eq", g, 0) | b.cmp("eq", g * 2, n)
        return b.select(real_only, b.const(0, im.type), im), re

    def store(self, b: KernelBuilder, outer: Value, g: Value, inner: Value, value: Complex) -> None:
        """Write element `g`."""
        if self.p.inverse:
            value = value[1] * (1 / self.p.n), value[0] * (1 / self.p.n)
        memory = b.result(0, (self.spec.size * self.spec.dtype.parts,))
        at = self._at(outer, g, inner)
        parts = self.spec.dtype.parts
        for k in range(parts):
            b.store(value[k], memory, at * parts + k)


@dataclass(frozen=True)
class _Turn:
    """exp(-2 pi i m / n) as the product of two roots in the table."""

    coarse: int
    fine: int

    @staticmethod
    def of(n: int, table: plans.Table) -> _Turn:
        """Put the roots into the table."""
        coarse = np.arange(-(-n // COARSE)) * COARSE
        fine = np.arange(min(n, COARSE))
        return _Turn(*(table.add(plans.pairs(plans.roots_of_unity(m, n))) for m in (coarse, fine)))

    def __call__(self, a: Arithmetic, table: Buffer, m: Value, x: Complex) -> Complex:
        b = a.b
        high, low = b.divmod(m, COARSE)
        return a.mul(a.mul(x, _pair(b, table, high * 2 + self.coarse)), _pair(b, table, low * 2 + self.fine))


def _pair(b: KernelBuilder, memory: Buffer, at: Value, apart: Operand = 1) -> Complex:
    return b.load(memory, at), b.load(memory, at + apart)


@dataclass(frozen=True)
class _Step:
    """Transforms of length `n`, of which there are outer x `others` x inner: parts of one of length n * others.

    Element i of part e is element ``i * others + e`` of the whole; with ``across`` false it is read from ``e * n + i``.
    """

    n: int
    others: int
    across: bool
    p: Problem
    real: DType
    target: KernelTarget
    stages: tuple[plans.Stage, ...]

    @property
    def count(self) -> int:
        """How many transforms there are."""
        return self.p.outer * self.others * self.p.inner

    @property
    def width(self) -> int:
        """Transforms of a workgroup."""
        neighbours = NEIGHBOURS if self.others * self.p.inner > 1 else 1
        wanted = max(neighbours, self.target.threads * ITEMS // self.n)
        return max(1, min(wanted, self.count, _longest(self.real, self.target) // self.n))

    def kernel(self, base: str, source: _End, sink: _End, factors: Spec, turn: _Turn | None = None) -> Kernel:
        """One dispatch; ``turn`` multiplies the results by the factors between two steps."""
        b = KernelBuilder(base, [source.spec, factors], [sink.spec], self.target)
        n, width = self.n, self.width
        m, table = Arithmetic(b, fused=False), b.operand(1)
        memory = [b.shared((2 * width * n,), self.real.scalar) for _ in range(2)]
        pieces = -(-self.count // width)
        # Which neighbours in memory neighbouring threads have: those of one transform, or one of each.
        rows_in = self.p.inner == 1 and not (self.across and self.others > 1)
        rows_out = self.p.inner == 1 and self.others == 1
        stop = sink.p.sizes[1] if self.others == 1 else n
        with b.pieces(pieces) as piece:
            with b.threads(width * n) as flat:
                w, i = self._place(b, flat, n, rows_in)
                outer, e, inner = self._numbers(b, b.smin(piece * width + w, b.index(self.count - 1)))
                g = i * self.others + e if self.across else e * n + i
                _put(b, memory[0], w * n + i, width * n, source.load(b, outer, g, inner))
            for stage in self.stages:
                self._stage(m, stage, memory, table)
                memory.reverse()
            with b.threads(width * stop) as flat:
                w, i = self._place(b, flat, stop, rows_out)
                t = piece * width + w
                outer, e, inner = self._numbers(b, t)
                g = i * self.others + e
                with b.if_(b.cmp("slt", t, self.count) & b.cmp("slt", g, sink.p.sizes[1])):
                    value = _pair(b, memory[0], w * n + i, width * n)
                    if turn is not None:
                        value = turn(m, table, e * i, value)
                    sink.store(b, outer, g, inner, value)
        product = " x ".join(str(s.radix) for s in self.stages)
        what = f"fft: {n} = {product}, {width} in the shared memory of a workgroup"
        return b.build((min(pieces, GRID),), what)

    def _place(self, b: KernelBuilder, flat: Value, length: int, rows: bool) -> tuple[Value, Value]:
        """Which transform of the workgroup, and which of its elements."""
        if rows:
            return b.divmod(flat, length)
        i, w = b.divmod(flat, self.width)
        return w, i

    def _numbers(self, b: KernelBuilder, t: Value) -> Sequence[Value]:
        """Outer, part and inner of a transform."""
        rest, inner = b.divmod(t, self.p.inner)
        return (*b.divmod(rest, self.others), inner)

    def _stage(self, m: Arithmetic, s: plans.Stage, memory: Sequence[Buffer], table: Buffer) -> None:
        b, n, plane = m.b, self.n, self.width * self.n
        with b.threads(self.width * s.step) as flat:
            w, at = b.divmod(flat, s.step)
            p, q = b.divmod(at, s.stride)
            first = w * n
            x = [_pair(b, memory[0], first + at + k * s.step, plane) for k in range(s.radix)]
            to = first + q + p * (s.radix * s.stride)
            for j, y in enumerate(butterfly(m, x)):
                if j and s.count > 1:
                    y = m.mul(y, _pair(b, table, p * (2 * (s.radix - 1)) + (s.twiddles + 2 * (j - 1))))
                _put(b, memory[1], to + j * s.stride, plane, y)


def _put(b: KernelBuilder, memory: Buffer, at: Value, apart: int, value: Complex) -> None:
    b.store(value[0], memory, at)
    b.store(value[1], memory, at + apart)

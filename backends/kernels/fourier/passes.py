"""The passes of a Fourier transform over its elements: stages, convolutions, and the ends of real transforms.

A pass reads one memory and writes another (`memory.py`). ``rows`` vectors go along the transform, and the last
vector of a pass is moved back inside, or runs over the end of working memory; other vectors go across transforms, and
a pass is a loop over the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.target import KernelTarget
from ..core.values import Buffer, Operand, Value
from . import plan as plans
from .butterflies import Arithmetic, Complex, butterfly, prime_loops
from .memory import Interleaved, Memory, Planes
from .plan import Stage, Table

Step = Callable[[Memory, Memory], None]


class Passes:
    """The passes of one kernel; ``open`` gives it the builder, ``areas`` are two working memories of convolutions.

    ``n`` is the length of the complex transform, ``whole`` that of the real one. ``along`` is the number of lanes where
    vectors go along the transform, else 0; ``width`` transforms are neighbours in working memory.
    """

    b: KernelBuilder
    m: Arithmetic
    elem: str
    table: Buffer
    areas: Sequence[Planes]

    def __init__(
        self,
        n: int,
        whole: int,
        along: int,
        width: int,
        lanes: int,
        target: KernelTarget,
        stages: Sequence[Stage],
        table: Table,
        convolved: int,
    ) -> None:
        self.n, self.whole, self.along, self.width, self.lanes = n, whole, along, width, lanes
        self.target, self.stages, self.numbers, self.convolved = target, stages, table, convolved
        self.sums: Buffer | None = None
        if convolved:
            w, spectrum = plans.chirp(n, convolved)
            later = np.zeros(convolved, np.complex128)
            later[:n] = w
            self.chirp = self._add(w)
            self.factors = [self._add(spectrum.conj()), self._add(later)]

    def open(self, b: KernelBuilder, real: DType, table: Buffer) -> None:
        """Begin to write the kernel."""
        self.b, self.elem, self.table = b, real.scalar, table
        self.m = Arithmetic(b, fused=self.target.vector_bytes > 16)
        primes = [s.radix for s in self.stages if s.radix > plans.UNROLLED]
        if primes:
            self.sums = b.stack((max(primes) // 2 * 4 * self.lanes,), self.elem)

    def size(self, n: int) -> int:
        """Numbers in the working memory of the real (or imaginary) parts: room behind them for a vector, and an odd number
        of cache lines, lest all begin at the same place of a page."""
        return -(-(n * self.width + self.lanes) // 32) * 32 + 16

    # -- tables and elements --------------------------------------------------------------------------------------------

    def _add(self, z: plans.Array) -> int:
        """The place of complex factors, one an element, with room for a vector behind the last one."""
        return self.numbers.add(plans.planes(z, self._pitch(len(z))) if self.along else plans.pairs(z))

    def _pitch(self, n: int) -> int:
        return -(-(n + self.along) // 16) * 16

    def _factor(self, place: Operand, n: int, k: Value) -> Complex:
        """The factors of the elements at k among n."""
        b = self.b
        if self.along:
            at = k + place
            return b.vload(self.lanes, self.table, at), b.vload(self.lanes, self.table, at + self._pitch(n))
        return self._pair(k * 2 + place)

    def _pair(self, at: Value) -> Complex:
        b = self.b
        re, im = (b.broadcast(b.load(self.table, at + i), self.lanes) for i in range(2))
        return re, im

    def _each(self, start: int, stop: int, body: Callable[[Value, Value], None], *, over: bool = False) -> None:
        """``body(element, column)`` for the vectors of elements ``start`` to ``stop``.

        ``over``: the last vector may run over the end; otherwise it is moved back.
        """
        b = self.b
        if start >= stop:
            return
        zero = b.index(0)
        if self.along:
            with b.for_(start, stop, self.lanes) as loop:
                k = loop.index
                if not over and (stop - start) % self.lanes:
                    k = b.smin(k, stop - self.lanes)
                body(k, zero)
            return
        with b.for_(start, stop) as loop:
            self._columns(lambda column: body(loop.index, column))

    def _columns(self, body: Callable[[Value], None]) -> None:
        self._counted(self.width, self.lanes, body)

    def _at(self, memory: Memory, element: Value, column: Value) -> Value:
        return element if self.along else element * memory.pitch + column

    def _reversed(self, x: Complex) -> Complex:
        order = range(self.lanes - 1, -1, -1)
        return self.b.shuffle(x[0], x[0], order), self.b.shuffle(x[1], x[1], order)

    # -- stages -----------------------------------------------------------------------------------------------------------

    def stage_steps(self) -> list[Step]:
        """The stages, or a copy where the length is 1."""
        steps: list[Step] = []
        for stage in self.stages:
            steps.append(lambda src, dst, s=stage: self.stage(s, src, dst))
        return steps or [self.copy]

    def stage(self, stage: Stage, src: Memory, dst: Memory) -> None:
        """One stage of the transform."""
        if self.along and stage.expanded:
            self._short_stage(stage, src, dst)
        else:
            self._long_stage(stage, src, dst)

    def _butterfly(
        self,
        stage: Stage,
        load: Callable[[Operand], Complex],
        twiddle: Callable[[Operand], Complex],
        store: Callable[[Operand, Complex], None],
    ) -> None:
        def finish(j: Operand, y: Complex) -> None:
            turned = stage.count > 1 and not (isinstance(j, int) and j == 0)
            store(j, self.m.mul(y, twiddle(j)) if turned else y)

        r = stage.radix
        if r > plans.UNROLLED:
            assert self.sums is not None
            prime_loops(self.m, r, load, finish, self.sums, self.table, stage.roots, self.lanes)
            return
        for j, y in enumerate(butterfly(self.m, [load(k) for k in range(r)])):
            finish(j, y)

    def _scalars(self, stage: Stage, p: Value) -> Callable[[Operand], Complex]:
        """The twiddle factors of one p; those of short butterflies are read at once, outside of inner loops."""
        first = p * (2 * (stage.radix - 1)) + stage.twiddles

        def read(j: Operand) -> Complex:
            return self._pair(first + (j - 1) * 2)

        if stage.radix > plans.UNROLLED or stage.count == 1:
            return read
        values = [read(j) for j in range(1, stage.radix)]
        return lambda j: values[int(j) - 1]  # type: ignore[arg-type]

    def _long_stage(self, stage: Stage, src: Memory, dst: Memory) -> None:
        """A stage along whose stride there are whole vectors, or columns: for each p its factors, and q along the stride."""
        s, along = stage.stride, self.along

        def group(p: Value) -> None:
            twiddle = self._scalars(stage, p)
            first, out = p * s, p * (s * stage.radix)

            def element(q: Value) -> None:
                source, target = (first + q) * src.pitch, (out + q) * dst.pitch

                def column(c: Operand) -> None:
                    self._butterfly(
                        stage,
                        lambda k: src.load(source + c + k * (stage.step * src.pitch)),
                        twiddle,
                        lambda j, y: dst.store(target + c + j * (s * dst.pitch), y),
                    )

                if along:
                    column(0)
                else:
                    self._columns(column)

            self._counted(s, along or 1, element)

        self._counted(stage.count, 1, group)

    def _counted(self, count: int, step: int, body: Callable[[Value], None]) -> None:
        """``body(i)`` for ``count`` numbers, ``step`` of them at a time; where that is one turn, without a loop."""
        if count == step:
            body(self.b.index(0))
            return
        with self.b.for_(0, count, step) as loop:
            body(self.b.moved_inside(loop.index, step, count))

    def _short_stage(self, stage: Stage, src: Memory, dst: Memory) -> None:
        """A stage whose stride is less than a vector: a vector holds whole runs of ``stride`` elements."""
        b, s, r, n = self.b, stage.stride, stage.radix, self.lanes
        runs = n // s
        taken = runs * s
        assert isinstance(dst, Planes)
        area = dst
        shuffled = r & (r - 1) == 0 and taken == n
        with b.for_(0, stage.step, taken) as loop:
            f = b.moved_inside(loop.index, taken, stage.step)
            out = f * r
            results: list[list[Value]] = [[], []]

            def twiddle(j: Operand) -> Complex:
                at = f + stage.twiddles + (j - 1) * (2 * stage.pitch)
                return b.vload(n, self.table, at), b.vload(n, self.table, at + stage.pitch)

            def store(j: Operand, y: Complex) -> None:
                if shuffled:
                    results[0].append(y[0])
                    results[1].append(y[1])
                    return
                for c in range(runs):
                    area.store_part(out + j * s + c * (r * s), y, range(c * s, (c + 1) * s))

            self._butterfly(stage, lambda k: src.load(f + k * stage.step), twiddle, store)
            if shuffled:
                for i, y in enumerate(zip(*(merged(b, part, s) for part in results), strict=True)):
                    area.store(out + i * n, y)

    # -- convolutions -----------------------------------------------------------------------------------------------------

    def convolution(self, src: Memory, dst: Memory) -> None:
        """A transform as a convolution with a chirp: its spectrum times the chirp's, and back.

        The transform back is that of conjugated numbers, conjugated, so both are one loop of two turns.
        """
        b, m, n, size = self.b, self.m, self.n, self.convolved
        area, other = self.areas
        zero = b.const(0, f"vector<{self.lanes}x{self.elem}>")

        def chirped(k: Value, c: Value) -> None:
            x = src.load(self._at(src, k, c))
            area.store(self._at(area, k, c), m.mul(x, self._factor(self.chirp, n, k)))

        self._each(n, size, lambda k, c: area.store(self._at(area, k, c), (zero, zero)), over=True)
        self._each(0, n, chirped)
        with b.for_(0, 2) as turn:
            place, last = turn.index * (self.factors[1] - self.factors[0]) + self.factors[0], area
            for i, stage in enumerate(self.stages):
                source, last = last, (other, area)[i % 2]
                self.stage(stage, source, last)

            def multiplied(k: Value, c: Value) -> None:
                at = self._at(area, k, c)
                area.store(at, m.mul(m.conj(last.load(at)), self._factor(place, size, k)))

            self._each(0, size, multiplied, over=True)
        self.copy(area, dst)

    # -- the ends of real transforms -----------------------------------------------------------------------------------------

    def copy(self, src: Memory, dst: Memory, count: int = 0) -> None:
        """The first ``count`` elements, or all."""
        self._each(0, count or self.n, lambda k, c: dst.store(self._at(dst, k, c), src.load(self._at(src, k, c))))

    def to_spectrum(self, whole: bool) -> Step:
        """From the transform z of pairs to the spectrum x of n = 2h real numbers, to x[h] or all of it.

        x[k] = (z[k] + conj z[h-k]) / 2 + t[k] (z[k] - conj z[h-k]), t[k] = -i/2 exp(-2 pi i k / n).
        """
        h = self.n
        place = self._add(-0.5j * plans.roots_of_unity(np.arange(h), 2 * h))

        def run(src: Memory, dst: Memory) -> None:
            b, m, n = self.b, self.m, self.lanes
            assert isinstance(src, Planes) and isinstance(dst, Interleaved)

            def element(k: Value, _: Value) -> None:
                mirrored = b.index(h - n + 1) - k
                x, y = src.load(k), m.conj(self._reversed(src.load(mirrored)))
                even, odd = m.add(x, y), m.mul(m.sub(x, y), self._factor(place, h, k))
                z = m.scaled(odd, 0.5, even)
                dst.store(k, z)
                if whole:
                    dst.store(mirrored + h, m.conj(self._reversed(z)))

            self._each(1, h, element)
            re, im = src.at(b.index(0))
            dst.store_one(0, re + im, None)
            dst.store_one(h, re - im, None)

        return run

    def from_half_paired(self) -> Step:
        """From x[0] ... x[h] of the spectrum of n = 2h real numbers to the (exchanged) spectrum z of their pairs.

        z[k] = x[k] + conj x[h-k] + t[k] (x[k] - conj x[h-k]), t[k] = i exp(2 pi i k / n): twice the spectrum.
        """
        h = self.n
        place = self._add(1j * plans.roots_of_unity(np.arange(h), 2 * h).conj())

        def run(src: Memory, dst: Memory) -> None:
            b, m, n = self.b, self.m, self.lanes
            assert isinstance(src, Interleaved) and isinstance(dst, Planes)

            def element(k: Value, _: Value) -> None:
                x, y = src.load(k), m.conj(self._reversed(src.load(b.index(h - n + 1) - k)))
                z = m.add(m.add(x, y), m.mul(m.sub(x, y), self._factor(place, h, k)))
                dst.store(k, (z[1], z[0]))

            self._each(1, h, element)
            first, last = (b.load(src.buffer, (src.start + k) * 2) for k in (0, h))
            b.store(first - last, dst.buffer, dst.starts[0])
            b.store(first + last, dst.buffer, dst.starts[1])

        return run

    def from_half(self, src: Memory, dst: Memory) -> None:
        """The (exchanged) whole spectrum of real numbers from its first half."""
        b, m, n = self.b, self.m, self.n
        assert isinstance(dst, Planes)

        def element(k: Value, c: Value) -> None:
            x = src.load(self._at(src, k, c))
            dst.store(self._at(dst, k, c), (x[1], x[0]))

        def mirrored(k: Value, c: Value) -> None:
            x = m.conj(src.load(self._at(src, k, c)))
            if self.along:
                re, im = self._reversed(x)
                dst.store(b.index(n - self.lanes + 1) - k, (im, re))
            else:
                dst.store(self._at(dst, b.index(n) - k, c), (x[1], x[0]))

        self._each(0, n // 2 + 1, element)
        self._each(1, (n + 1) // 2, mirrored)
        self._no_imaginary_part(dst, 0)
        if n % 2 == 0:
            self._no_imaginary_part(dst, n // 2)

    def _no_imaginary_part(self, dst: Planes, k: int) -> None:
        """Make element k of an (exchanged) spectrum real."""
        b = self.b
        if self.along:
            b.store(b.const(0, self.elem), dst.buffer, dst.starts[0] + k)
            return
        zero = b.const(0, f"vector<{self.lanes}x{self.elem}>")
        self._columns(lambda column: b.vstore(zero, dst.buffer, dst.starts[0] + k * self.width + column))


def merged(b: KernelBuilder, vectors: Sequence[Value], run: int) -> list[Value]:
    """The runs of ``run`` lanes of several vectors (a power of two) in turn: the first of each, the second of each, ..."""
    n = len(vectors)
    rows = [[v] for v in vectors]
    while n > 1:
        n //= 2
        rows = [[v for pair in zip(rows[i], rows[i + n]) for v in _interleaved(b, *pair, run)] for i in range(n)]
    return rows[0]


def _interleaved(b: KernelBuilder, x: Value, y: Value, run: int) -> tuple[Value, Value]:
    n = int(x.type.split("<")[1].split("x")[0])
    order = [lane + i * n + r for lane in range(0, n, run) for i in range(2) for r in range(run)]
    return b.shuffle(x, y, order[:n]), b.shuffle(x, y, order[n:])

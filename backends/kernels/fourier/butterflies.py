"""Small Fourier transforms of values in registers: the butterflies of the stages.

All are forward transforms. Those of the odd radices add and subtract the operands k and r - k first, so that real
factors are left; large primes do so in loops, with the sums in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.builder import KernelBuilder
from ..core.values import Buffer, Operand, Value
from .plan import roots_of_unity

Complex = tuple[Value, Value]


class Arithmetic:
    """Complex arithmetic on pairs of vectors; products are fused with sums where the processor does so."""

    def __init__(self, b: KernelBuilder, fused: bool) -> None:
        self.b, self.fused = b, fused

    def muladd(self, x: Value, y: Operand, z: Value) -> Value:
        """x y + z"""
        y = self.b.const(y, x.type)
        return self.b.emit(f"vector.fma {x}, {y}, {z} : {x.type}", x.type) if self.fused else x * y + z

    def mulsub(self, x: Value, y: Operand, z: Value) -> Value:
        """x y - z"""
        return self.muladd(x, y, self.b.negf(z)) if self.fused else x * y - z

    def add(self, x: Complex, y: Complex) -> Complex:
        """x + y"""
        return x[0] + y[0], x[1] + y[1]

    def sub(self, x: Complex, y: Complex) -> Complex:
        """x - y"""
        return x[0] - y[0], x[1] - y[1]

    def mul(self, x: Complex, w: Complex) -> Complex:
        """x w"""
        return self.mulsub(x[0], w[0], x[1] * w[1]), self.muladd(x[0], w[1], x[1] * w[0])

    def conj(self, x: Complex) -> Complex:
        """The complex conjugate of x."""
        return x[0], self.b.negf(x[1])

    def minus_i(self, x: Complex, y: Complex) -> Complex:
        """x - i y"""
        return x[0] + y[1], x[1] - y[0]

    def plus_i(self, x: Complex, y: Complex) -> Complex:
        """x + i y"""
        return x[0] - y[1], x[1] + y[0]

    def scaled(self, x: Complex, c: float, y: Complex) -> Complex:
        """x + c y"""
        return self.muladd(y[0], c, x[0]), self.muladd(y[1], c, x[1])


def butterfly(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    """The transform of ``len(x)`` values: 1, 2, 4, 8 or an odd number."""
    r = len(x)
    if r == 1:
        return list(x)
    if r == 2:
        return [m.add(x[0], x[1]), m.sub(x[0], x[1])]
    if r == 4:
        return _four(m, x)
    if r == 8:
        return _eight(m, x)
    return _odd(m, x)


def _four(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    a, b = m.add(x[0], x[2]), m.sub(x[0], x[2])
    c, d = m.add(x[1], x[3]), m.sub(x[1], x[3])
    return [m.add(a, c), m.minus_i(b, d), m.sub(a, c), m.plus_i(b, d)]


def _eight(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    e, o = _four(m, x[0::2]), _four(m, x[1::2])
    c = math.sqrt(0.5)
    one = (o[1][0] + o[1][1], o[1][1] - o[1][0])  # sqrt(2) exp(-i pi / 4) o1
    three = (o[3][1] - o[3][0], o[3][0] + o[3][1])  # its imaginary part with the other sign
    y1, y5 = m.scaled(e[1], c, one), m.scaled(e[1], -c, one)
    y3 = (m.muladd(three[0], c, e[3][0]), m.muladd(three[1], -c, e[3][1]))
    y7 = (m.muladd(three[0], -c, e[3][0]), m.muladd(three[1], c, e[3][1]))
    return [
        m.add(e[0], o[0]), y1, m.minus_i(e[2], o[2]), y3, m.sub(e[0], o[0]), y5, m.plus_i(e[2], o[2]), y7,
    ]  # fmt: skip


def _odd(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    r = len(x)
    half = r // 2
    sums = [m.add(x[k], x[r - k]) for k in range(1, half + 1)]
    differences = [m.sub(x[k], x[r - k]) for k in range(1, half + 1)]
    total = x[0]
    for t in sums:
        total = m.add(total, t)
    out = [total] * r
    w = roots_of_unity(np.arange(r), r).conj()
    for j in range(1, half + 1):
        even = x[0]
        odd: Complex | None = None
        for k in range(1, half + 1):
            c, s = float(w[j * k % r].real), float(w[j * k % r].imag)
            t, u = sums[k - 1], differences[k - 1]
            even = m.scaled(even, c, t)
            odd = (u[0] * s, u[1] * s) if odd is None else m.scaled(odd, s, u)
        assert odd is not None
        out[j], out[r - j] = m.minus_i(even, odd), m.plus_i(even, odd)
    return out


def prime_loops(
    m: Arithmetic,
    r: int,
    load: Callable[[Operand], Complex],
    store: Callable[[Operand, Complex], None],
    memory: Buffer,
    table: Buffer,
    roots: int,
    lanes: int,
) -> None:
    """The transform of an odd number of values by loops.

    ``memory`` holds 4 (r / 2) vectors; ``table`` has at ``roots`` cos and sin of 2 pi j k / r, 1 <= j, k <= r / 2.
    """
    b, half = m.b, r // 2
    first = load(0)
    with b.for_(0, half, 1, list(first)) as loop:
        k = loop.index
        x, y = load(k + 1), load(b.index(r - 1) - k)
        t, u = m.add(x, y), m.sub(x, y)
        for i, v in enumerate((*t, *u)):
            b.vstore(v, memory, (k * 4 + i) * lanes)
        loop.yield_(*m.add((loop.carried[0], loop.carried[1]), t))
    store(0, (loop.results[0], loop.results[1]))
    zero = b.const(0, first[0].type)
    with b.for_(0, half) as outer:
        with b.for_(0, half, 1, [*first, zero, zero]) as inner:
            k = inner.index
            at = (outer.index * half + k) * 2 + roots
            c, s = (b.broadcast(b.load(table, at + i), lanes) for i in range(2))
            v = [b.vload(lanes, memory, (k * 4 + i) * lanes) for i in range(4)]
            a = inner.carried
            inner.yield_(*(m.muladd(v[i], (c, c, s, s)[i], a[i]) for i in range(4)))
        even, odd = (inner.results[0], inner.results[1]), (inner.results[2], inner.results[3])
        store(outer.index + 1, m.minus_i(even, odd))
        store(b.index(r - 1) - outer.index, m.plus_i(even, odd))

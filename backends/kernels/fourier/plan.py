"""Plans of Fourier transforms: into which factors a length is split, and the numbers that the stages multiply by.

A transform of length n is a sequence of Stockham's self-sorting stages (Cochran et al. 1967, in the form of Van Loan,
Computational Frameworks for the FFT, 1992, section 1.7). A stage of radix r takes n = r * count * stride numbers; element
``q + stride * (p + count * k)`` is the k-th operand of the butterfly (p, q), whose j-th result goes to
``q + stride * (r * p + j)`` multiplied by exp(-2 pi i p j / (r * count)). The next stage's stride is r times larger.

A length with a prime factor for which that is too dear becomes a circular convolution of a better length (Bluestein
1970).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Odd radices up to this are written out; larger primes are loops over a table of roots.
UNROLLED = 13
#: Primes above this are never a radix.
LARGEST = 128


def prime_factors(n: int) -> list[int]:
    """The prime factors of n, ascending, each as often as it divides n."""
    found: list[int] = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 else found


def _powers(exponent: int, widest: int) -> list[int]:
    """Radices 8, 4 and 2 whose product is 2^exponent: as few as possible, or with ``widest`` 4 fours and one eight."""
    if widest == 2:
        return [2] * exponent
    if widest == 4:
        if exponent % 2 and exponent > 1:
            return [8] + [4] * ((exponent - 3) // 2)
        return [4] * (exponent // 2) or [2] * exponent
    eights, rest = divmod(exponent, 3)
    if rest == 1 and eights:
        return [8] * (eights - 1) + [4, 4]
    return [8] * eights + ([1 << rest] if rest else [])


def radices(n: int, widest: int = 8) -> list[int]:
    """The radices of the stages for length n: powers of two first, since later strides are then whole vectors."""
    odd = [p for p in prime_factors(n) if p > 2]
    return [*_powers((n // math.prod(odd)).bit_length() - 1, widest), *odd]


def _stage_cost(radix: int) -> float:
    """Rough time of a stage for each element: moving it, and the operations of the butterfly and the twiddle factor."""
    if radix in (2, 4, 8):
        return 8.0 + 2.5 * math.log2(radix)
    if radix <= UNROLLED:
        return 8.0 + 2.0 * radix
    return 12.0 + 4.0 * radix


def cost(n: int) -> float:
    """Rough time of the stages of length n for each element; infinite where a prime factor is too large."""
    factors = radices(n)
    return math.inf if factors and max(factors) > LARGEST else sum(map(_stage_cost, factors))


def bluestein_length(n: int, least: int) -> int:
    """The length, at least 2n - 1 and ``least``, of the convolution that costs least: 2^a 3^b 5^c, a >= 3."""
    least = max(2 * n - 1, least)
    top = 1 << max(3, (least - 1).bit_length())
    sizes = [(p * 1 << a) for p in (1, 3, 5, 9, 15, 25) for a in range(3, top.bit_length()) if least <= p << a <= top]
    return min(sizes, key=lambda m: m * cost(m))


def convolved(n: int, least: int) -> int:
    """0 where the stages of length n are best, else the length of the convolution to use."""
    m = bluestein_length(n, least)
    return m if (2 * cost(m) + 16) * m < cost(n) * n else 0


@dataclass(frozen=True)
class Stage:
    """One stage; ``twiddles`` and ``roots`` are the places of its numbers in the table.

    ``expanded``: the stride is shorter than a vector, and the twiddle factors lie as the elements do: for each j the
    real, then the imaginary parts, ``pitch`` apart. Otherwise they are pairs, by p and then j.
    """

    radix: int
    count: int
    stride: int
    expanded: bool
    twiddles: int
    pitch: int
    roots: int

    @property
    def step(self) -> int:
        """The distance of a butterfly's operands."""
        return self.count * self.stride


class Table:
    """Numbers put one after another, with their places."""

    def __init__(self) -> None:
        self.parts: list[Array] = []
        self.size = 0

    def add(self, numbers: Array) -> int:
        """The place of ``numbers``, which begin at a multiple of 16."""
        at, flat = self.size, np.asarray(numbers, np.float64).reshape(-1)
        fill = -flat.size % 16
        self.parts.append(np.pad(flat, (0, fill)))
        self.size += flat.size + fill
        return at

    def numbers(self, dtype: Any) -> Array:
        """All of them; at least one element."""
        return np.concatenate([*self.parts, np.zeros(16 if not self.parts else 0)]).astype(dtype)


def roots_of_unity(index: Array, n: int) -> Array:
    """exp(-2 pi i index / n) in double precision, from the first eighth of the circle."""
    index = np.asarray(index, np.int64) % n
    eighth, rest = np.divmod(8 * index, n)
    # angle within the octant, taken from the nearer axis
    odd = eighth % 2 == 1
    angle = np.where(odd, n - rest, rest) * (np.pi / 4 / n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(odd, s, c), np.where(odd, c, s)
    quadrant = eighth // 2
    z = c - 1j * s
    return z * np.array([1, -1j, -1, 1j])[quadrant]


def planes(z: Array, pitch: int) -> Array:
    """Rows of complex numbers as rows of real, then of imaginary parts, filled up to ``pitch`` by zeros."""
    both = np.stack([z.real, z.imag], -2)
    return np.pad(both, [(0, 0)] * (both.ndim - 1) + [(0, pitch - z.shape[-1])])


def pairs(z: Array) -> Array:
    """Complex numbers as real and imaginary parts in turn."""
    return np.stack([z.real, z.imag], -1)


def stages(factors: Sequence[int], lanes: int, table: Table) -> list[Stage]:
    """The stages of a transform. ``lanes``: vectors go along the transform; 0: across transforms."""
    n, stride = math.prod(factors), 1
    made: list[Stage] = []
    for radix in factors:
        count = n // (radix * stride)
        expanded = bool(lanes) and stride < lanes
        twiddles = pitch = 0
        if count > 1:
            p, j = np.arange(count), np.arange(1, radix)
            if expanded:
                pitch = -(-(count * stride + lanes) // 16) * 16
                w = roots_of_unity(np.outer(j, p), radix * count)
                twiddles = table.add(planes(np.repeat(w, stride, axis=1), pitch))
            else:
                twiddles = table.add(pairs(roots_of_unity(np.outer(p, j), radix * count)))
        roots = table.add(_prime_roots(radix)) if radix > UNROLLED else 0
        made.append(Stage(radix, count, stride, expanded, twiddles, pitch, roots))
        stride *= radix
    return made


def _prime_roots(radix: int) -> Array:
    """cos and sin of 2 pi j k / radix for 1 <= j, k <= radix / 2, as pairs."""
    j = np.arange(1, radix // 2 + 1)
    return pairs(roots_of_unity(np.outer(j, j), radix).conj())


@functools.lru_cache(maxsize=32)
def chirp(n: int, m: int) -> tuple[Array, Array]:
    """exp(-pi i k^2 / n), and the transform of its conjugate, made circular with length m, divided by m."""
    k = np.arange(n, dtype=np.int64)
    w = roots_of_unity(k * k, 2 * n)
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = w.conj()
    kernel[m - n + 1 :] = w[1:][::-1].conj()
    return w, np.fft.fft(kernel) / m

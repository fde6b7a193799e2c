"""Arrays as strides, and as rows along one dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .builder import KernelBuilder
from .target import KernelTarget
from .values import Value

#: Workgroups have so many elements at least, of rows that are gone over once or a few times.
GROUP_ELEMENTS = 2048


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of an array of ``shape`` without gaps, whose last dimension is contiguous."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def shorter(first: int, stop: int, most: int) -> Iterator[tuple[int, int]]:
    """Where vectors begin and how long they are, powers of two up to ``most`` (one too), the longest first."""
    while first < stop:
        n = min(most, 1 << ((stop - first).bit_length() - 1))
        yield first, n
        first += n


@dataclass(frozen=True)
class Rows:
    """An array as rows along one dimension: element i of row (l, t) is at ``(l * n + i) * inner + t``."""

    outer: int
    n: int
    inner: int

    @staticmethod
    def of(shape: Sequence[int], dimension: int) -> Rows:
        """Rows of ``shape`` along ``dimension`` (counted from the front)."""
        return Rows(math.prod(shape[:dimension]), shape[dimension], math.prod(shape[dimension + 1 :]))

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.outer * self.inner

    def start(self, b: KernelBuilder, row: Value) -> Value:
        """Flat place of the row's first element."""
        if self.inner == 1:
            return row * self.n
        l, t = b.divmod(row, self.inner)
        return l * (self.n * self.inner) + t

    def groups(self, target: KernelTarget) -> int:
        """Workgroups worth starting: none with less than some thousand elements."""
        return target.groups(self.count * self.n, GROUP_ELEMENTS, self.count)

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


def spread(shape: Sequence[int], dims: Sequence[int], over: Sequence[int]) -> list[int]:
    """The strides of a row-major array of ``shape`` along the dimensions of the shape ``over`` that it is spread over.

    ``dims`` are its own dimensions there; along others, and where it has one element, neighbours are the same one.
    """
    strides = [0] * len(over)
    for d, n, stride in zip(dims, shape, row_major(shape)):
        if n == over[d] != 1:
            strides[d] = stride
    return strides


def step_of(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The distance of neighbours where all dimensions lie in memory like one; else None."""
    step, extent = None, 1
    for n, stride in reversed(list(zip(shape, strides))):
        if n == 1:
            continue
        if step is None:
            step = stride
        elif stride != step * extent:
            return None
        extent *= n
    return step or 0


def last_run(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """How many neighbours, from any multiple of that on, lie at one distance, and the distance (0: they are one number)."""
    run, step = 1, 0
    for n, stride in reversed(list(zip(shape, strides))):
        if n != 1:
            if run > 1 and stride != step * run:
                break
            step = stride if run == 1 else step
            run *= n
    return run, step


def place_of(b: KernelBuilder, flat: Value, shape: Sequence[int], strides: Sequence[int]) -> Value:
    """The place of a flat index of ``shape`` in an array of these strides, which are not all 0."""
    place: Value | None = None
    below = 1  # elements of what follows the dimension
    merged = 1  # extent of neighbouring dimensions that lie in memory like one
    first = 0
    dims = [(n, stride) for n, stride in reversed(list(zip(shape, strides))) if n != 1]
    for k, (extent, stride) in enumerate(dims):
        first, merged = (stride, extent) if merged == 1 else (first, merged * extent)
        after = dims[k + 1][1] if k + 1 < len(dims) else None
        if after is not None and after == first * merged:  # also two that are not in the array
            continue
        if first:
            index = b.udiv(flat, below)
            if after is not None:
                index = b.urem(index, merged)
            term = index * first
            place = term if place is None else place + term
        below, merged = below * merged, 1
    assert place is not None
    return place


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

"""Contractions as batches of strided matrix products: which elements of the operands make row, column and sum.

Any dimension numbers are brought to ``out[b, i, j] = sum over l of lhs[b, i, l] * rhs[b, l, j]`` by strides alone,
without moving an element. Free dimensions that cannot be walked with one stride become further batch dimensions, in
which the other operand stands still; summed ones become loops around the inner one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.shapes import row_major
from ..core.values import Value

DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Strides:
    """Where element (b, i, j) of a stack of matrices lies: strides in elements, one a batch dimension."""

    batch: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True)
class Product:
    """A stack of products of an ``m x k`` and a ``k x n`` matrix, with the strides of the three arrays.

    ``outer`` are further summed dimensions, around the ``k`` that can be walked with one stride: size, stride in lhs,
    stride in rhs. ``operands`` are the kernel's operands that lhs and rhs are.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    lhs: Strides
    rhs: Strides
    out: Strides
    operands: tuple[int, int] = (0, 1)
    outer: tuple[tuple[int, int, int], ...] = ()

    @property
    def sums(self) -> int:
        """Products summed up for one element of the result."""
        return self.k * math.prod(size for size, _, _ in self.outer)

    @property
    def batches(self) -> int:
        """The number of products."""
        return math.prod(self.batch)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batches * self.m * self.n * self.sums

    def swapped(self) -> Product:
        """The product of the transposed operands in the other order, which is the transposed result."""
        lhs, rhs, out = (Strides(s.batch, s.column, s.row) for s in (self.rhs, self.lhs, self.out))
        outer = tuple((n, y, x) for n, x, y in self.outer)
        operands = (self.operands[1], self.operands[0])
        return Product(self.batch, self.n, self.m, self.k, lhs, rhs, out, operands, outer)

    def origins(self, b: KernelBuilder, number: Value) -> list[Value]:
        """Where the matrices of a product begin: in lhs, rhs and the result."""
        at = [b.index(0)] * 3
        for d in reversed(range(len(self.batch))):
            i = number
            if d:
                number, i = b.divmod(number, self.batch[d])
            steps = (self.lhs.batch[d], self.rhs.batch[d], self.out.batch[d])
            at = [x if not s else x + i * s for x, s in zip(at, steps)]
        return at

    def __str__(self) -> str:
        count = f"{self.batches} x " if self.batches > 1 else ""
        return f"{count}{self.m}x{self.sums} @ {self.sums}x{self.n}"


@dataclass(frozen=True)
class _Run:
    """Dimensions that are walked as one: their size, and the stride in each array."""

    size: int
    strides: tuple[int, ...]


def _runs(sizes: Sequence[int], *strides: Sequence[int]) -> list[_Run]:
    """Neighbouring dimensions merged wherever one stride serves both, in all arrays; dimensions of size 1 dropped."""
    runs: list[_Run] = []
    for size, *steps in zip(sizes, *strides):
        if size == 1:
            continue
        if runs and all(outer == step * size for outer, step in zip(runs[-1].strides, steps)):
            runs[-1] = _Run(runs[-1].size * size, tuple(steps))
        else:
            runs.append(_Run(size, tuple(steps)))
    return runs


Dims = Sequence[tuple[int, int, int, int]]


def assembled(batch: Dims, rows: Dims, columns: Dims, summed: Dims) -> Product:
    """The product of dimensions given by their sizes and their strides in lhs, rhs and the result.

    A dimension has stride 0 where it is absent. Of each kind neighbours are merged where one stride serves all three
    arrays; the last of the rows and columns make the matrices, others become batch dimensions.
    """
    b, m, n, k = (_runs([d[0] for d in dims], *([d[i] for d in dims] for i in (1, 2, 3))) for dims in (
        batch, rows, columns, summed
    ))  # fmt: skip
    one = _Run(1, (1, 1, 1))
    row, column, inner = (runs.pop() if runs else one for runs in (m, n, k))
    stacked = [*b, *m, *n]
    steps = [tuple(run.strides[i] for run in stacked) for i in range(3)]
    return Product(
        tuple(run.size for run in stacked), row.size, column.size, inner.size,
        Strides(steps[0], row.strides[0], inner.strides[0]),
        Strides(steps[1], inner.strides[1], column.strides[1]),
        Strides(steps[2], row.strides[2], column.strides[2]),
        outer=tuple((run.size, run.strides[0], run.strides[1]) for run in k),
    )  # fmt: skip


def _transposed_strides(shape: Sequence[int], order: Sequence[int] | None) -> Sequence[int]:
    """The strides of ``transpose(x, order)`` of that shape, x being row-major."""
    if order is None:
        return row_major(shape)
    stored = [0] * len(shape)
    for i, d in enumerate(order):
        stored[d] = shape[i]
    strides = row_major(stored)
    return [strides[d] for d in order]


def result_shape(lhs: Sequence[int], rhs: Sequence[int], dimension_numbers: DimensionNumbers) -> tuple[int, ...]:
    """The shape of a dot_general: batch dimensions, then the free ones of lhs, then those of rhs."""
    (lc, rc), (lb, rb) = dimension_numbers
    return (
        *(lhs[i] for i in lb),
        *(n for i, n in enumerate(lhs) if i not in lb and i not in lc),
        *(n for i, n in enumerate(rhs) if i not in rb and i not in rc),
    )


def product(
    lhs: Sequence[int],
    rhs: Sequence[int],
    dimension_numbers: DimensionNumbers,
    orders: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None),
) -> Product:
    """The matrix products of a dot_general on operands of these shapes.

    ``orders`` are the transpositions that make the operands of row-major arrays; None where there are none. The
    result is row-major with the batch dimensions first, then the free ones of lhs, then those of rhs.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    ls, rs = (_transposed_strides(shape, order) for shape, order in zip((lhs, rhs), orders))
    lfree = [i for i in range(len(lhs)) if i not in lc and i not in lb]
    rfree = [i for i in range(len(rhs)) if i not in rc and i not in rb]
    out = row_major(result_shape(lhs, rhs, dimension_numbers))
    nb, nl = len(lb), len(lfree)
    order = sorted(range(len(lc)), key=lambda i: -ls[lc[i]])
    return assembled(
        [(lhs[i], ls[i], rs[j], o) for i, j, o in zip(lb, rb, out)],
        [(lhs[i], ls[i], 0, o) for i, o in zip(lfree, out[nb:])],
        [(rhs[i], 0, rs[i], o) for i, o in zip(rfree, out[nb + nl :])],
        [(lhs[lc[i]], ls[lc[i]], rs[rc[i]], 0) for i in order],
    )

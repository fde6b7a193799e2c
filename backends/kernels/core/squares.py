"""Squares of vectors whose rows become columns, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import KernelBuilder
from .values import Value


def transposed(b: KernelBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors: n vectors of n lanes, n a power of two."""
    rows = list(rows)
    n = len(rows)
    h = n // 2
    while h:
        low = [lane if not lane & h else lane - h + n for lane in range(n)]
        high = [lane + h if not lane & h else lane + n for lane in range(n)]
        for i in range(n):
            if not i & h:
                x, y = rows[i], rows[i + h]
                rows[i], rows[i + h] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        h //= 2
    return rows

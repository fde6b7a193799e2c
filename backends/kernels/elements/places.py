"""Places that index numbers say: moved inside an array, and whether they were inside."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quire.ir import dtypes
from quire.ir.dtypes import DType

from ..core.builder import KernelBuilder
from ..core.values import Operand, Value
from .operations import Element, Elements, width_of


def moved_inside(e: Elements, number: Value, dtype: DType, limit: int, asked: bool) -> tuple[Value, Value | None]:
    """An index, or a vector of them, as the nearest place of 0 to `limit` (i32, or i64 if need be).

    Returns also whether it was inside, if that is asked.
    """
    b, signed = e.b, not dtypes.is_unsigned(dtype)
    wide = b.cast(number, "i32" if dtype.itemsize <= 4 and limit < 1 << 31 else "i64", signed=signed)
    clamped = b.smin(b.smax(wide, 0), limit) if signed else b.umin(wide, limit)
    return clamped, b.cmp("eq", clamped, wide) if asked else None


def guarded(e: Elements, number: Value, dtype: DType, limit: int) -> tuple[Value, Value]:
    """An index for what is done only if it is one of 0 to `limit` (index; meaningless outside), and whether it is."""
    b, signed = e.b, not dtypes.is_unsigned(dtype)
    wide = b.cast(number, "i32" if dtype.itemsize <= 4 and limit < 1 << 31 else "i64", signed=signed)
    return b.cast(wide, "index", signed=False), b.cmp("ule", wide, limit)  # a negative index is a huge unsigned one


def both(x: Value | None, y: Value | None) -> Value | None:
    """The conjunction of two conditions, None being true."""
    return y if x is None else x if y is None else x & y


def where(e: Elements, inside: Value | None, x: Element, other: Element | None, dtype: DType) -> Element:
    """An element where a condition holds (None: everywhere), the other one elsewhere."""
    if inside is None or other is None:
        return x
    width = width_of(x)
    return e.joined([e.b.select(inside, p, q) for p, q in zip(e.parts(x, dtype, width), e.parts(other, dtype, width))])


def flat_indices(b: KernelBuilder, flat: Operand, width: int) -> Value:
    """A flat index as i32; with a width, those of so many neighbours."""
    first = b.cast(b.index(flat), "i32")
    return b.broadcast(first, width) + b.const_vector(range(width), "i32") if width else first


def index_along(b: KernelBuilder, flat: Operand, shape: Sequence[int], dim: int, width: int) -> Value:
    """The index along a dimension (i32) that a flat index of a row-major shape has; with a width, those of so many neighbours."""
    below, n = math.prod(shape[dim + 1 :]), shape[dim]
    repeats = math.prod(shape[:dim]) > 1
    if not width or width > max(below, n if below == 1 else 1):
        index = b.udiv(flat_indices(b, flat, width), below)
        return b.urem(index, n) if repeats else index
    # A vector lies in two rows at most: numbers are divided, not vectors.
    first, lanes = b.cast(b.index(flat), "i32"), b.const_vector(range(width), "i32")
    if below == 1:
        index = b.broadcast(b.urem(first, n) if repeats else first, width) + lanes
        return b.select(b.cmp("sge", index, n), index - n, index) if repeats else index
    row = b.udiv(first, below)
    here, after = ((b.urem(r, n) if repeats else r) for r in (row, row + 1))
    left = b.broadcast(below - (first - row * below), width)
    return b.select(b.cmp("slt", lanes, left), b.broadcast(here, width), b.broadcast(after, width))

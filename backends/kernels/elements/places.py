"""Places that index numbers say: moved inside an array, and whether they were inside."""

from __future__ import annotations

from quire.ir import dtypes
from quire.ir.dtypes import DType

from ..core.values import Value
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

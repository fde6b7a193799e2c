"""How kernels reduce: the operation of each reduction, and the value that it starts with.

Both are facts of the monoids that the IR declares (`quire.ir.primitives.reductions.MONOIDS`). A sum of floats starts with 0,
as JAX's does, so that a sum of several -0 is 0: in a reduction, a scan, a window and a product alike.
"""

from __future__ import annotations

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives.reductions import MONOIDS

from .operations import HALF, Element

#: The elementwise primitive that each reduction combines two elements by.
REDUCTIONS: dict[Primitive, Primitive] = {m.reduction: m.combine for m in MONOIDS.values()}


def neutral(combine: Primitive, dtype: DType) -> Element:
    """The value that reductions by `combine` start with, as a number of the dtype."""
    return MONOIDS[combine.name].neutral(dtype).item()


def accumulated(combine: Primitive, dtype: DType) -> DType:
    """The dtype in which elements are combined: sums and products of 16-bit floats in float32, rounded once at the end."""
    return dtypes.float32 if dtype in HALF and combine.name in ("add", "mul") else dtype


def start_of(combine: Primitive, dtype: DType) -> list[Element]:
    """What stands before the elements where a reduction has no start of its own: 0 in sums of floats, else nothing.

    Other neutral values change no bit of what they are combined with.
    """
    signed_zero = combine.name == "add" and dtypes.is_inexact(dtype)
    return [neutral(combine, dtype)] if signed_zero else []

"""`ShapeDtypeStruct`: a shape and a dtype in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import HasAval, ShapedArray

from .key_array import KeyDType, PRNGKeyArray


class ShapeDtypeStruct(HasAval):
    """A shape and a dtype without values: an argument of `eval_shape`, `trace` and `lower`, and their results."""

    __slots__ = ("aval",)

    def __new__(cls, shape: Sequence[int], dtype: Any, *, weak_type: bool = False) -> Any:
        if isinstance(dtype, KeyDType):
            return PRNGKeyArray(ShapeDtypeStruct((*shape, 2), dtypes.uint32))
        return super().__new__(cls)

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False) -> None:
        self.aval = ShapedArray(tuple(int(n) for n in shape), dtypes.canonicalize(dtypes.as_dtype(dtype)), weak_type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval is other.aval

    def __hash__(self) -> int:
        return hash(self.aval)


def shape_struct(aval: ShapedArray) -> ShapeDtypeStruct:
    """The struct of an aval."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

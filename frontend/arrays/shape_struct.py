"""`ShapeDtypeStruct`: a shape and a dtype in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import HasAval, ShapedArray
from quire.ir.sharding import PartitionSpec, Sharding

from .key_array import KeyDType, PRNGKeyArray
from .meshes import as_sharding


class ShapeDtypeStruct(HasAval):
    """A shape and a dtype without values: an argument of `eval_shape`, `trace` and `lower`, and their results.

    `sharding` says how the array that it stands for is divided over devices; ValueError for anything else.
    """

    __slots__ = ("aval", "sharding")

    def __new__(cls, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False) -> Any:
        if isinstance(dtype, KeyDType):
            return PRNGKeyArray(ShapeDtypeStruct((*shape, 2), dtypes.uint32, sharding=sharding))
        return super().__new__(cls)

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False) -> None:
        if sharding is not None and not isinstance(sharding, Sharding | PartitionSpec):
            raise ValueError(
                "ShapeDtypeStruct: sharding should be a quire.sharding.Sharding or a PartitionSpec. Got "
                f"{sharding!r} of type {type(sharding)}."
            )
        self.sharding = None if sharding is None else as_sharding(sharding, "ShapeDtypeStruct", TypeError)
        self.aval = ShapedArray(tuple(int(n) for n in shape), dtypes.canonicalize(dtypes.as_dtype(dtype)), weak_type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval is other.aval and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.aval, self.sharding))


def shape_struct(aval: ShapedArray) -> ShapeDtypeStruct:
    """The struct of an aval."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

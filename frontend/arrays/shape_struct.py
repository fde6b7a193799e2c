"""`ShapeDtypeStruct`: a shape and a dtype in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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

    @property
    def vma(self) -> frozenset[Any]:
        """The mesh axes along which the value varies."""
        return self.aval.vma

    @property
    def is_fully_addressable(self) -> bool:
        """Whether the array's devices are all of this process; True where no sharding is given."""
        return self.sharding is None or self.sharding.is_fully_addressable

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """This struct with another `shape`, `dtype`, `sharding` or `weak_type`. Raises TypeError for another name."""
        given = {"shape": self.shape, "dtype": self.dtype, "sharding": self.sharding, "weak_type": self.weak_type}
        unknown = set(changes) - set(given)
        if unknown:
            raise TypeError(
                f"ShapeDtypeStruct.update: there is no {', '.join(sorted(unknown))}; there are {', '.join(given)}"
            )
        return ShapeDtypeStruct(**{**given, **changes})

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval is other.aval and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.aval, self.sharding))


def described(x: Any) -> Any:
    """What has a shape and a dtype, and is no array, as a struct; anything else as it is."""
    if hasattr(x, "aval") or isinstance(x, np.ndarray | np.generic) or type(x) in (bool, int, float, complex):
        return x
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    return ShapeDtypeStruct(shape, dtype) if isinstance(shape, tuple) and dtype is not None else x


def shape_struct(aval: ShapedArray) -> ShapeDtypeStruct:
    """The struct of an aval."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

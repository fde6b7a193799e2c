"""`ShapeDtypeStruct`: a shape and a dtype in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import HasAval, ShapedArray, aval_of
from quire.ir.sharding import PartitionSpec, Sharding
from quire.runtime.array import Array

from .key_array import KeyDType, PRNGKeyArray
from .meshes import as_sharding


class ShapeDtypeStruct(HasAval):
    """A shape and a dtype without values: an argument of `eval_shape`, `trace` and `lower`, and their results.

    `dtype` is what was asked for, also where functions take it for one of 32 bits (without `enable_x64`).
    `sharding` says how the array that it stands for is divided over devices; ValueError for anything else, and without a dtype.
    """

    __slots__ = ("aval", "sharding", "_dtype")

    def __new__(cls, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False) -> Any:
        if isinstance(dtype, KeyDType):
            return PRNGKeyArray(ShapeDtypeStruct((*shape, dtype.words), dtypes.uint32, sharding=sharding), dtype.impl)
        return super().__new__(cls)

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        if sharding is not None and not isinstance(sharding, Sharding | PartitionSpec):
            raise ValueError(
                "ShapeDtypeStruct: sharding should be a quire.sharding.Sharding or a PartitionSpec. Got "
                f"{sharding!r} of type {type(sharding)}."
            )
        self.sharding = None if sharding is None else as_sharding(sharding, "ShapeDtypeStruct", TypeError)
        self._dtype = dtypes.as_dtype(dtype)
        self.aval = ShapedArray(
            tuple(int(n) for n in shape), dtypes.explicit(self._dtype), weak_type, sharding=self.sharding
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as it was asked for."""
        return self._dtype

    @staticmethod
    def like(value: Any) -> Any:
        """The shape, dtype and weak type of an array or number, without its values; with the sharding if it was put somewhere."""
        if isinstance(value, PRNGKeyArray):
            return ShapeDtypeStruct(value.shape, value.dtype)
        aval = aval_of(value)
        sharding = aval.division
        if type(value) is Array and value.committed:
            sharding = value.sharding
        return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    @property
    def vma(self) -> frozenset[Any]:
        """The mesh axes along which it varies."""
        return self.aval.vma

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """This struct with some of `shape`, `dtype`, `sharding` and `weak_type` replaced.

        Raises:
            TypeError: another name is given.
        """
        now = {"shape": self.shape, "dtype": self.dtype, "sharding": self.sharding, "weak_type": self.weak_type}
        unknown = sorted(set(changes) - set(now))
        if unknown:
            raise TypeError(f"ShapeDtypeStruct.update: unknown {', '.join(unknown)}; expected some of {', '.join(now)}")
        return ShapeDtypeStruct(**(now | changes))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return False
        return self.aval is other.aval and self._dtype == other._dtype and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.aval, self._dtype, self.sharding))


class ArgInfo(ShapeDtypeStruct):
    """An argument of a traced function: its shape and dtype, and whether it is `donated` (`jax.stages.ArgInfo`)."""

    __slots__ = ("donated",)

    def __init__(self, aval: ShapedArray, donated: bool) -> None:
        super().__init__(aval.shape, aval.dtype, weak_type=aval.weak_type)
        self.donated = donated

    def __new__(cls, aval: ShapedArray, donated: bool) -> ArgInfo:
        return object.__new__(cls)

    def __repr__(self) -> str:
        return f"ArgInfo({self.aval.short()}, donated={self.donated})"


def as_typed(x: Any) -> Any:
    """x as something of which the type is known: a type itself, or what has a shape and a dtype, as a `ShapeDtypeStruct`."""
    if isinstance(x, ShapedArray):
        return shape_struct(x)
    if getattr(x, "aval", None) is None and not isinstance(x, np.ndarray | np.generic):
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
        if shape is not None and dtype is not None:
            return ShapeDtypeStruct(shape, dtype, weak_type=bool(getattr(x, "weak_type", False)))
    return x


def shape_struct(aval: ShapedArray) -> ShapeDtypeStruct:
    """The struct of an aval."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=aval.division)

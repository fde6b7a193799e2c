"""Abstract values: what is known of a value while a program is traced."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from . import dtypes
from .config import config
from .dtypes import DType
from .sharding import AbstractMesh, NamedSharding, PartitionSpec, axes_of, explicit_part, mesh_in_force

AxisNames = frozenset[Any]
NO_AXES: AxisNames = frozenset()
_NO_MESH = AbstractMesh((), ())


class AbstractValue:
    """Base of abstract values. Immutable, interned and compared by identity."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unreduced:
    """In `ShapedArray.manual`: the value is the sum of what the devices along `axis` hold."""

    axis: Any


@dataclass(frozen=True, slots=True)
class Reduced:
    """In `ShapedArray.manual`: the value is the same along `axis`, and its cotangent is unreduced."""

    axis: Any


class ManualAxisType(NamedTuple):
    """What a type says of manual mesh axes (`jax.typeof(x).mat`): along which the value varies, over which it is a sum that is
    still to be taken, and over which it has been made equal so that its cotangent is such a sum."""

    varying: AxisNames
    unreduced: AxisNames = NO_AXES
    reduced: AxisNames = NO_AXES

    def invarying(self, mesh: Any) -> AxisNames:
        """The manual axes of a mesh of which the type says nothing: the value is the same along them."""
        return frozenset(mesh.manual_axes) - self.varying - self.unreduced - self.reduced


def axes_marked(manual: AxisNames, mark: type[Unreduced] | type[Reduced]) -> AxisNames:
    """The axes that have a mark among what a type says of manual axes."""
    return frozenset(a.axis for a in manual if type(a) is mark)


def marked(axes: Iterable[Any], mark: type[Unreduced] | type[Reduced]) -> AxisNames:
    """The marks of axes."""
    return frozenset(mark(a) for a in axes)


class ShapedArray(AbstractValue):
    """An array's type: its shape, its dtype, and whether the dtype is weak (that of a Python scalar).

    `vma` are the mesh axes along which the value varies: in the function of a `shard_map` with `check_vma` those along
    which devices may hold different values; everywhere else it is empty. `manual` are the same with an `Unreduced` or a `Reduced`
    for each axis over which a sum is to be taken still, or has been; it is what the argument `vma` gives.

    `division` is how the value is divided along mesh axes of type Explicit; None where it is not. Axes of type Auto are no part
    of types. It says nothing of the elements, so programs are compiled without it (`without_divisions`).

    Raises IndivisibleError where a dimension does not divide evenly.

    Interned: two equal ones are the same object, so that dictionaries hash and compare them by identity. `memory_space`,
    which JAX's have, is taken and says nothing.
    """

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "nbytes", "vma", "manual", "division")
    _interned: ClassVar[dict[tuple[Any, ...], ShapedArray]] = {}
    # Whether there has been a value that varies: programs without meshes ask nothing more.
    any_varies: ClassVar[bool] = False
    # Whether there has been one that is unreduced or reduced along a manual axis, likewise.
    any_sums: ClassVar[bool] = False
    # Whether there has been one that is divided, likewise.
    any_divided: ClassVar[bool] = False
    # Whether there has been one of 64-bit numbers, likewise.
    any_wide: ClassVar[bool] = False
    # And of numbers of 8 bits and fewer that are no bytes.
    any_narrow: ClassVar[bool] = False

    shape: tuple[int, ...]
    dtype: DType
    weak_type: bool
    ndim: int
    size: int
    nbytes: int
    vma: AxisNames
    manual: AxisNames
    division: NamedSharding | None

    def __new__(
        cls, shape: tuple[int, ...], dtype: DType, weak_type: bool = False, vma: AxisNames = NO_AXES,
        sharding: Any = None, memory_space: Any = None,
    ) -> ShapedArray:  # fmt: skip
        key: tuple[Any, ...] = (shape, dtype, weak_type, vma) if vma else (shape, dtype, weak_type)
        division = None
        if sharding is not None and isinstance(sharding, NamedSharding):
            division = explicit_part(sharding, len(shape))
            if division is not None:
                key = (shape, dtype, weak_type, vma, division)
        try:
            self = cls._interned.get(key)
        except TypeError:  # a shape that is a list
            self = None
        if self is None:
            shape = tuple(int(n) for n in shape)
            dtype = np.dtype(dtype) if isinstance(cast("Any", dtype), type | str) else dtype
            if division is not None:
                division.shard_shape(shape)  # raises where a dimension does not divide evenly
            self = object.__new__(cls)
            self.shape = shape
            self.dtype = dtype
            self.weak_type = bool(weak_type)
            self.ndim = len(shape)
            self.size = math.prod(shape)
            self.nbytes = self.size * dtype.itemsize
            self.manual = self.vma = vma
            if vma and any(type(a) in (Unreduced, Reduced) for a in vma):
                self.vma = frozenset(a for a in vma if type(a) not in (Unreduced, Reduced))
                ShapedArray.any_sums = True
            self.division = division
            ShapedArray.any_wide |= dtype in dtypes.WIDE
            ShapedArray.any_narrow |= dtype in dtypes.NARROW
            if division is not None:
                ShapedArray.any_divided = True
                ShapedArray.any_varies |= bool(vma)
                self = cls._interned.setdefault((shape, dtype, self.weak_type, vma, division), self)
            elif vma:
                ShapedArray.any_varies = True
                self = cls._interned.setdefault((shape, dtype, self.weak_type, vma), self)
            else:
                self = cls._interned.setdefault((shape, dtype, self.weak_type), self)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (ShapedArray, (self.shape, self.dtype, self.weak_type, self.manual, self.division))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.short()}{weak})"

    def __str__(self) -> str:
        dtype = getattr(self.dtype, "name", self.dtype)  # keys' dtype is one of the frontend's
        return f"{'~' * self.weak_type}{self.named(str(dtype), one=True)}"

    def short(self) -> str:
        """The printed form: ``f32[8,3]``; ``f32[8@x,3]`` if the first dimension is divided along the explicit axis x;
        ``f32[8,3]{V:x,y}`` if it varies along x and y. The printer marks weak types."""
        return self.named(str(dtypes.SHORT.get(self.dtype, self.dtype)))

    def named(self, dtype: str, *, one: bool = False) -> str:
        """The same with another name of the dtype; `one`: several axes of a mark in parentheses, as JAX shows them."""
        dims = list(map(str, self.shape))
        marks: list[str] = []
        if self.division is not None:
            spec = self.sharding.spec
            dims = [f"{n}{_along(axes_of(e))}" for n, e in zip(dims, spec)]
            marks = [*_marked("U", spec.unreduced, one), *_marked("R", spec.reduced, one)]
        if self.manual is not self.vma:
            marks = [*_marked("U", self.mat.unreduced, one), *_marked("R", self.mat.reduced, one), *marks]
        marks = [*_marked("V", self.vma, one), *marks]
        return f"{dtype}[{','.join(dims)}]" + (f"{{{', '.join(marks)}}}" if marks else "")

    def update(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: DType | None = None,
        weak_type: bool | None = None,
        vma: AxisNames | None = None,
        sharding: Any = None,
    ) -> ShapedArray:
        """This aval with some of its properties replaced; one of another shape is not divided, unless `sharding` is given."""
        if sharding is None and (shape is None or shape == self.shape):
            sharding = self.division
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            self.manual if vma is None else vma,
            sharding,
        )

    @property
    def sharding(self) -> NamedSharding:
        """How the value is divided along explicit axes, on the mesh in force; an empty mesh where there is none."""
        mesh = mesh_in_force()
        division = self.division
        if division is None:
            return NamedSharding(_NO_MESH if mesh is None else mesh, PartitionSpec(*(None,) * self.ndim))
        if mesh is None or mesh == division.mesh or mesh.shape_tuple != division.mesh.shape_tuple:
            return division
        types = mesh.explicit_axes  # of other types than where the value was made: in `auto_axes`
        return NamedSharding(mesh, PartitionSpec(*(tuple(a for a in axes_of(e) if a in types) for e in division.spec)))

    @property
    def mat(self) -> ManualAxisType:
        """What the type says of manual axes, by JAX's name."""
        return ManualAxisType(self.vma, axes_marked(self.manual, Unreduced), axes_marked(self.manual, Reduced))

    manual_axis_type = mat

    def along(self, dim: int, length: int | None = None, axes: Any = None) -> ShapedArray:
        """The type of a slice along a dimension; with `length`, that of as many stacked, divided along `axes` there."""
        shape = (*self.shape[:dim], *(() if length is None else (length,)), *self.shape[dim + (length is None) :])
        if self.division is None and not axes:
            return self.update(shape=shape)
        assert self.division is not None
        spec = list(self.division.spec)
        spec[dim : dim + (length is None)] = [] if length is None else [axes]
        return self.update(shape=shape, sharding=self.division.update(spec=self.division.spec.update(partitions=spec)))

    def undivided(self) -> ShapedArray:
        """This aval without what it says of explicit axes."""
        return self if self.division is None else ShapedArray(self.shape, self.dtype, self.weak_type, self.manual)

    def strong(self) -> ShapedArray:
        """This aval without the weak type and the division: the type of the elements."""
        if self.weak_type or self.division is not None:
            return ShapedArray(self.shape, self.dtype, False, self.manual)
        return self

    @property
    def aval(self) -> ShapedArray:
        """Itself: a type stands for a value wherever types alone are asked for (`eval_shape`)."""
        return self

    def strip_weak_type(self) -> ShapedArray:
        """This aval without the weak type, by JAX's name."""
        return self.update(weak_type=False)

    def at_least_vspace(self) -> ShapedArray:
        """`tangent`, by an older name of JAX's that libraries still use."""
        return self.tangent()

    def to_tangent_aval(self) -> ShapedArray:
        """`tangent`, by JAX's name."""
        return self.tangent()

    def str_short(self, *_: Any, **__: Any) -> str:
        """`short`, by JAX's name."""
        return self.short()

    def tangent(self) -> ShapedArray:
        """The aval of tangents: itself for inexact dtypes, float0 of the same shape for the others."""
        if dtypes.is_inexact(self.dtype):
            return self
        return ShapedArray(self.shape, dtypes.float0, False, self.manual)

    def cotangent(self) -> ShapedArray:
        """The aval of cotangents: that of tangents, unreduced along the axes along which the value is reduced, and the reverse."""
        out, division = self.tangent(), self.division
        if self.manual is not self.vma:
            swapped = marked(self.mat.reduced, Unreduced) | marked(self.mat.unreduced, Reduced)
            out = out.update(vma=self.vma | swapped)
        if division is None or not (division.spec.unreduced or division.spec.reduced):
            return out
        spec = division.spec.update(unreduced=division.spec.reduced, reduced=division.spec.unreduced)
        return out.update(sharding=division.update(spec=spec))


def _along(axes: tuple[Any, ...]) -> str:
    return "" if not axes else f"@{axes[0]}" if len(axes) == 1 else f"@({','.join(map(str, axes))})"


def _marked(mark: str, axes: AxisNames, one: bool) -> list[str]:
    if not axes:
        return []
    names = ",".join(sorted(map(str, axes)))
    return [f"{mark}:({names})" if one and len(axes) > 1 else f"{mark}:{names}"]


class HasAval:
    """What every value with an aval says of itself: arrays, tracers, shapes without values."""

    __slots__ = ()
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """The elements' dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to that of other operands, as a Python scalar's does."""
        return self.aval.weak_type


class AbstractToken(AbstractValue):
    """The type of the token that orders effects; it holds no data."""

    __slots__ = ()
    vma: ClassVar[AxisNames] = NO_AXES
    manual: ClassVar[AxisNames] = NO_AXES
    division: ClassVar[None] = None

    def undivided(self) -> AbstractToken:
        """Itself."""
        return self

    def __repr__(self) -> str:
        return "AbstractToken()"

    def short(self) -> str:
        """As written in programs: token[]."""
        return "token[]"


token = AbstractToken()

_SCALAR_DTYPES: dict[type, DType] = {
    bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128,
}  # fmt: skip


_NUMPY_SCALARS: frozenset[type] = frozenset(
    np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + np.typecodes["AllFloat"]
)


@cache
def _numpy_scalar(kind: type, _x64: bool, _explicit: str) -> ShapedArray:
    """The aval of NumPy scalars of one type: looked up for every number beside an array. The options are part of the key."""
    return ShapedArray((), dtypes.explicit(np.dtype(kind)))


@lru_cache(maxsize=4096)
def _array_aval(shape: tuple[int, ...], dtype: np.dtype[Any], _x64: bool) -> ShapedArray:
    """The aval of NumPy arrays, looked up for each argument of a call. `_x64` is part of the key."""
    return ShapedArray(shape, dtype if dtype == dtypes.float0 else dtypes.canonicalize(dtype))


def aval_of(value: Any) -> ShapedArray:
    """The aval of a concrete or traced value: arrays, tracers, NumPy arrays and scalars, Python scalars (weak).

    Raises TypeError for anything else, ValueError for an object that `__jax_array__` makes an array of: where this function
    is asked, the object itself would be lost.
    """
    if type(value) is np.ndarray:
        array = cast("np.ndarray[Any, Any]", value)
        return _array_aval(array.shape, array.dtype, config.options.enable_x64)
    if cast("Any", type(value)) in _NUMPY_SCALARS:
        options = config.options
        return _numpy_scalar(value.__class__, options.enable_x64, options.explicit_x64_dtypes)
    aval = getattr(value, "aval", None)
    if aval is not None:
        return aval
    scalar = _SCALAR_DTYPES.get(cast("Any", type(value)))
    if scalar is not None:
        if scalar is dtypes.int64:
            check_int_range(value)
        return ShapedArray((), dtypes.canonicalize(scalar), scalar is not dtypes.bool_)
    if isinstance(value, np.ndarray | np.generic):
        refuse_masked(value)
        array = cast("np.ndarray[Any, Any]", value)
        return _array_aval(array.shape, array.dtype, config.options.enable_x64)
    for base, dtype in _SCALAR_DTYPES.items():  # subclasses of Python scalars, for example IntEnum
        if isinstance(value, base):
            return ShapedArray((), dtypes.canonicalize(dtype), base is not bool)
    if hasattr(cast("Any", type(value)), "__jax_array__"):
        raise ValueError(
            f"Triggering __jax_array__() during abstractification is no longer supported, got {value!r} of type "
            f"{type(value).__name__}: convert it with quire.numpy.array(...), or register its class as a pytree"
        )
    why = getattr(value, "why_no_array", "expected a quire or NumPy array or a number")
    raise TypeError(f"{value!r} of type {type(value).__name__} is not an array: {why}")


def refuse_masked(value: Any) -> None:
    """Raise ValueError for one of NumPy's masked arrays, whose mask would be lost."""
    if isinstance(value, np.ndarray) and hasattr(cast("Any", value), "filled"):
        raise ValueError(
            "numpy masked arrays are not supported, their mask would be lost: give x.filled(value), or the data and the "
            "mask (~numpy.ma.getmaskarray(x)) as two arrays"
        )


def check_int_range(value: int) -> None:
    """Raise OverflowError when a Python int does not fit the default integer dtype."""
    info = np.iinfo(dtypes.canonicalize(dtypes.int64))
    if not info.min <= value <= info.max:
        raise OverflowError(f"Python int {value} is too large for {info.dtype}; enable_x64 gives 64-bit integers")

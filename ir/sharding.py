"""Meshes of devices, and which part of an array each device holds: the values that programs and arrays speak of.

A mesh gives names to the axes of a grid of devices. A partition spec says of each dimension of an array along which
mesh axes it is divided. Both are immutable and hashable, so that they can be parameters of primitives and parts of
cache keys. Devices are only compared, hashed and shown here. Names, order of axes and forms are those of `jax.sharding`.
"""

from __future__ import annotations

import enum
import functools
import math
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ContextDecorator
from contextvars import ContextVar
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np

from .config import config
from .errors import DuplicateSpecError, IndivisibleError

AxisName = Any
Index = tuple[slice, ...]
Devices = np.ndarray[Any, Any]


class AxisType(enum.Enum):
    """Who decides how arrays are divided along a mesh axis.

    `Auto`: the partitioner. `Explicit`: the types of values, as the program says. `Manual`: the function of a `shard_map`,
    which sees one device's part.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class _Unconstrained:
    """`PartitionSpec.UNCONSTRAINED`: the partitioner decides for this dimension."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()
Entry = Any
"""What a spec says of a dimension: None, an axis, a tuple of axes (the major one first), or UNCONSTRAINED."""


class PartitionSpec:
    """For each leading dimension of an array: the mesh axes along which it is divided.

    Args:
        partitions: an entry a dimension: None (not divided), an axis name, a tuple of names, or `UNCONSTRAINED`.
            Dimensions without an entry are not divided.
        unreduced: axes over which a sum is still to be taken.
        reduced: axes over which it has been taken, so that the cotangent is unreduced.

    Raises ValueError where an entry holds a tuple of tuples, or an axis is in two of these places; TypeError where it is
    subclassed.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("__weakref__", "partitions", "reduced", "unreduced")
    UNCONSTRAINED = UNCONSTRAINED
    partitions: tuple[Entry, ...]
    unreduced: frozenset[AxisName]
    reduced: frozenset[AxisName]

    def __new__(
        cls, *partitions: Entry, unreduced: Collection[AxisName] = (), reduced: Collection[AxisName] = ()
    ) -> PartitionSpec:
        self = object.__new__(cls)
        set_ = object.__setattr__
        set_(self, "partitions", tuple(_entry(p) for p in partitions))
        set_(self, "unreduced", frozenset(unreduced))
        set_(self, "reduced", frozenset(reduced))
        if self.unreduced or self.reduced:
            self._check_apart()
        return _specs.setdefault(self, self)

    def _check_apart(self) -> None:
        """Raise ValueError where an axis divides a dimension and is one of a sum, or a sum is due and taken."""
        dividing: frozenset[Any] = frozenset(a for p in self.partitions for a in axes_of(p))
        pairs: tuple[tuple[str, str, frozenset[Any]], ...] = (
            ("partitions", "unreduced", dividing & self.unreduced), ("partitions", "reduced", dividing & self.reduced),
            ("unreduced", "reduced", self.unreduced & self.reduced),
        )  # fmt: skip
        for one, other, names in pairs:
            if names:
                raise ValueError(
                    f"{one} cannot overlap with {other} axes passed to PartitionSpec, got {', '.join(sorted(map(repr, names)))} "
                    f"in both: partitions {self.partitions}, unreduced {set(self.unreduced)}, reduced {set(self.reduced)}"
                )

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError(f"Subclassing `quire.P` is prohibited: {cls.__name__} is to hold one instead")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a PartitionSpec is immutable: use update()")

    def update(self, **changes: Any) -> PartitionSpec:
        """This spec with other `partitions`, `unreduced` or `reduced`."""
        sets = {name: changes.get(name, getattr(self, name)) for name in ("unreduced", "reduced")}
        return PartitionSpec(*changes.get("partitions", self.partitions), **sets)

    def index(self, entry: Entry) -> int:
        """The first dimension with this entry. Raises ValueError if there is none."""
        return self.partitions.index(_entry(entry))

    def count(self, entry: Entry) -> int:
        """How many dimensions have this entry."""
        return self.partitions.count(_entry(entry))

    def __getitem__(self, i: Any) -> Any:
        return self.partitions[i]

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, PartitionSpec):
            self._check_whole(other, "__add__")
            return self.update(partitions=(*self.partitions, *other))
        return PartitionSpec(
            *self.partitions, *other.partitions,
            unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced,
        )  # fmt: skip

    def __radd__(self, other: Any) -> PartitionSpec:
        self._check_whole(other, "__radd__")
        return self.update(partitions=(*other, *self.partitions))

    def _check_whole(self, other: Any, name: str) -> None:
        if self.unreduced:
            raise TypeError(
                f"other {other} cannot be of instance `tuple` when self {self} has unreduced in `{name}` of PartitionSpec."
            )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PartitionSpec)
            and self.partitions == other.partitions
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __hash__(self) -> int:
        return hash((self.partitions, self.unreduced, self.reduced))

    def __repr__(self) -> str:
        sets = [
            f"{name}={{{', '.join(sorted(map(repr, axes)))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        return f"P({', '.join([*map(repr, self.partitions), *sets])})" if sets else f"P{self.partitions!r}"

    def __reduce__(self) -> Any:
        return _spec, (self.partitions, self.unreduced, self.reduced)

    @property
    def axes(self) -> tuple[AxisName, ...]:
        """The axes that divide some dimension, in the order of the dimensions."""
        return tuple(a for p in self.partitions for a in axes_of(p))


P = PartitionSpec

# Equal specs are one object, and so are equal meshes, as in JAX: code that compares them with `is` may.
_specs: weakref.WeakValueDictionary[PartitionSpec, PartitionSpec] = weakref.WeakValueDictionary()


def _spec(partitions: tuple[Entry, ...], unreduced: frozenset[AxisName], reduced: frozenset[AxisName]) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _entry(entry: Entry) -> Entry:
    """An entry in its one form: a tuple of one axis is that axis, an empty one is None."""
    if isinstance(entry, list | tuple):
        axes = tuple(cast("tuple[AxisName, ...]", entry))
        if any(isinstance(a, list | tuple) for a in cast("tuple[object, ...]", axes)):
            raise ValueError(
                f"A tuple inside PartitionSpec cannot contain a nested tuple, got {entry!r}: an entry is None, an axis, or a "
                "tuple of axes"
            )
        return axes if len(axes) > 1 else axes[0] if axes else None
    return entry


def axes_of(entry: Entry) -> tuple[AxisName, ...]:
    """The mesh axes of a spec's entry, the major one first."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return cast("tuple[AxisName, ...]", entry) if isinstance(entry, tuple) else (entry,)


class _Axes:
    """What meshes with and without devices have in common."""

    axis_names: tuple[AxisName, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @cached_property
    def shape(self) -> Mapping[AxisName, int]:
        """The size of each axis by its name, in order."""
        return OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[AxisName, int], ...]:
        """The axes' names and sizes."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return not self.axis_names

    def _named(self, kind: AxisType) -> tuple[AxisName, ...]:
        return tuple(name for name, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    @property
    def auto_axes(self) -> tuple[AxisName, ...]:
        """The axes along which the partitioner decides."""
        return self._named(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[AxisName, ...]:
        """The axes along which the types of values decide."""
        return self._named(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[AxisName, ...]:
        """The axes of which the program sees one device's part."""
        return self._named(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether the partitioner decides along every axis."""
        return all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether types decide along every axis."""
        return all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether the program sees parts along every axis."""
        return all(t is AxisType.Manual for t in self.axis_types)

    def _described(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{sizes or '()'}, axis_types={_types_text(self.axis_types)}"


def _types_text(types: Sequence[AxisType]) -> str:
    return f"({', '.join(map(repr, types))}{',' * (len(types) == 1)})"


def _axis_types(names: tuple[AxisName, ...], types: Any) -> tuple[AxisType, ...]:
    """The axes' types: all Auto for None."""
    if types is None:
        return (AxisType.Auto,) * len(names)
    types = (types,) if isinstance(types, AxisType) else tuple(types)
    if len(types) != len(names):
        raise ValueError(
            f"Number of axis names should match the number of axis_types. Got axis_names={names} and axis_types={types}"
        )
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(f"axis_types: expected quire.sharding.AxisType, got {types}")
    return types


def _names(names: Any) -> tuple[AxisName, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    if len(set(found)) != len(found):
        raise ValueError(f"the axes of a mesh need different names, got {found}")
    return found


class AbstractMesh(_Axes):
    """The axes of a mesh without its devices: what programs and types speak of.

    Args:
        axis_sizes: the number of devices along each axis.
        axis_names: as many different names.
        axis_types: one for each; None: Auto.

    Raises ValueError where the numbers differ.
    """

    def __init__(self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None) -> None:
        self.axis_sizes = tuple(int(n) for n in axis_sizes)
        self.axis_names = _names(axis_names)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(
                f"AbstractMesh: expected a name for each axis, got axis_sizes={self.axis_sizes} and "
                f"axis_names={self.axis_names}"
            )
        self.axis_types = _axis_types(self.axis_names, axis_types)
        self._key = (self.axis_sizes, self.axis_names, self.axis_types)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, AbstractMesh) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"AbstractMesh({self._described()})"

    def __reduce__(self) -> Any:
        return AbstractMesh, self._key

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None) -> AbstractMesh:
        """This mesh with other sizes, names or types."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, types: Mapping[AxisName, AxisType]) -> AbstractMesh:
        """This mesh with other types of some axes."""
        return self.update(
            axis_types=tuple(types.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True))
        )


# The blocks of meshes that this context is in, the innermost last.
_entered: ContextVar[tuple[AbstractContextManager[None], ...]] = ContextVar("quire_meshes", default=())


class Mesh(_Axes, ContextDecorator):
    """A grid of devices with named axes; ``with mesh:``, or ``@mesh`` above a function, is the older form of `quire.set_mesh`.

    Args:
        devices: an array of devices with a dimension for each axis, or a list of them for one axis.
        axis_names: a name for each dimension.
        axis_types: one for each; None: Auto.

    Raises ValueError where the numbers differ.

    >>> mesh = quire.sharding.Mesh(quire.devices()[:1], ("x",))
    >>> mesh.shape["x"]
    1
    """

    devices: Devices
    _key: tuple[Any, ...]
    _hash: int

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        self = object.__new__(cls)
        array = np.empty(np.shape(devices), object)
        array[...] = devices
        array.flags.writeable = False
        self.devices = array
        self.axis_names = _names(axis_names)
        if array.ndim != len(self.axis_names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {array.ndim} and len(axis_names) == {len(self.axis_names)}."
            )
        self.axis_sizes = array.shape
        self.axis_types = _axis_types(self.axis_names, axis_types)
        self._key = (tuple(array.flat), self.axis_sizes, self.axis_names, self.axis_types)
        self._hash = hash(self._key)
        return _meshes.setdefault(self, self)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Mesh) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        types = "" if self.empty else f", axis_types={_types_text(self.axis_types)}"
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})"

    def __str__(self) -> str:
        return f"Mesh({self._described()})"

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __enter__(self) -> Mesh:
        """For a block, `with_sharding_constraint` takes a PartitionSpec for a sharding on this mesh; `set_mesh` does more."""
        block = config.override(block_mesh=self)
        block.__enter__()
        _entered.set((*_entered.get(), block))
        return self

    def __exit__(self, *exc: Any) -> None:
        *others, block = _entered.get()
        _entered.set(tuple(others))
        block.__exit__(*exc)

    @cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes without the devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def device_ids(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The devices' numbers, in the mesh's shape."""
        return np.array([d.id for d in self.devices.flat], np.int64).reshape(self.axis_sizes)

    @cached_property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return [d for d in self.devices.flat if d.is_local]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that this process holds. Raises ValueError if it is no box of the mesh."""
        if not self.is_multi_process:
            return self
        local = np.array([d.is_local for d in self.devices.flat]).reshape(self.axis_sizes)
        where = np.nonzero(local)
        box = tuple(slice(int(i.min()), int(i.max()) + 1) for i in where)
        if not where[0].size or not local[box].all():
            raise ValueError(f"the devices of this process are no contiguous box of {self}")
        return Mesh(self.devices[box], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices are those of other processes."""
        return len(self.local_devices) != self.size

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """This mesh with other devices, names or types."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )


_meshes: weakref.WeakValueDictionary[Mesh, Mesh] = weakref.WeakValueDictionary()


class Sharding:
    """Which part of an array each device holds."""

    memory_kind: str | None = "device"

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        raise NotImplementedError

    @property
    def addressable_devices(self) -> set[Any]:
        """Those of this process."""
        return {d for d in self.device_set if d.is_local}

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:  # JAX's name, which orbax reads
        return tuple(sorted(self.addressable_devices, key=lambda d: d.id))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices are those of this process."""
        return all(d.is_local for d in self.device_set)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some device is one of this process."""
        return any(d.is_local for d in self.device_set)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each device's part. Raises IndivisibleError where a dimension does not divide evenly."""
        raise NotImplementedError

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Any, Index]:
        """The part of an array that each device holds, as a slice for each dimension."""
        raise NotImplementedError

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Any, Index]:
        """The same for the devices of this process."""
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d.is_local}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether the same devices in the same order hold the same parts of an array with this number of dimensions."""
        raise NotImplementedError

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """Raise ValueError where an array of this shape cannot be divided so."""

    def with_memory_kind(self, kind: str) -> Sharding:
        """This sharding with another kind of memory. Raises ValueError: arrays lie in the memory of their device only."""
        raise ValueError(f"arrays lie in the memory of their device only, got memory kind {kind!r}, expected 'device'")


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        if memory_kind not in (None, "device"):
            self.with_memory_kind(memory_kind)
        self._device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device == other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"

    def __reduce__(self) -> Any:
        return SingleDeviceSharding, (self._device,)

    @property
    def device_set(self) -> set[Any]:
        """The one device."""
        return {self._device}

    @property
    def is_fully_replicated(self) -> bool:
        """True."""
        return True

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The array's own shape."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Any, Index]:
        """All of the array on the one device."""
        return {self._device: (slice(None),) * len(global_shape)}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether the other one puts the whole array on the same device."""
        return other.device_set == self.device_set


def says_nothing(sharding: Any) -> bool:
    """Whether a sharding leaves all as it is: None, or that of a type without explicit axes (`typeof(x).sharding`)."""
    if sharding is None:
        return True
    return isinstance(sharding, NamedSharding) and (
        sharding.mesh.empty
        or isinstance(sharding.mesh, AbstractMesh)
        and not sharding.mesh.explicit_axes
        and not sharding.spec.axes
    )


class NamedSharding(Sharding):
    """A mesh, and a spec that says which of its axes divide each dimension of an array.

    Args:
        mesh: a Mesh; an AbstractMesh where no array is placed.
        spec: at most one use of each axis.

    Raises:
        ValueError: an axis is not one of the mesh.
        DuplicateSpecError: an axis is named twice.
        TypeError: the spec is no PartitionSpec.
    """

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec

    def __init__(self, mesh: Any, spec: Any, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, Mesh | AbstractMesh):
            raise TypeError(f"NamedSharding: expected a Mesh, got {mesh!r}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding: expected a PartitionSpec such as P('x'), got {spec!r}")
        if memory_kind not in (None, "device"):
            self.with_memory_kind(memory_kind)
        check_spec(mesh, spec)
        self.mesh, self.spec = mesh, spec
        self._key = (mesh, spec)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, NamedSharding) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}, memory_kind={self.memory_kind})"

    def __reduce__(self) -> Any:
        return NamedSharding, self._key

    def update(self, mesh: Mesh | AbstractMesh | None = None, spec: PartitionSpec | None = None) -> NamedSharding:
        """This sharding with another mesh or spec."""
        return NamedSharding(mesh or self.mesh, self.spec if spec is None else spec)

    @property
    def num_devices(self) -> int:
        """The size of the mesh."""
        return self.mesh.size

    @property
    def device_set(self) -> set[Any]:
        """The mesh's devices. Raises ValueError for an abstract mesh."""
        return set(self._devices().flat)

    def _devices(self) -> Devices:
        if not isinstance(self.mesh, Mesh):
            raise ValueError(f"{self} has no devices: its mesh is an AbstractMesh")
        return self.mesh.devices

    @property
    def replicated_axes(self) -> frozenset[AxisName]:
        """The mesh axes along which all devices hold the same."""
        used = (*self.spec.axes, *self.spec.unreduced)
        return frozenset(self.mesh.axis_names) - frozenset(used)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return not self.spec.unreduced and all(self.mesh.shape[a] == 1 for a in self.spec.axes)

    def is_first(self, device: Any) -> bool:
        """Whether a device is the first one along the axes over which a sum is still to be taken."""
        where = np.argwhere(self._devices() == device)[0]
        return not any(i for a, i in zip(self.mesh.axis_names, where) if a in self.spec.unreduced)

    def parts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each dimension is divided."""
        entries = [*self.spec, *[None] * (ndim - len(self.spec))]
        return tuple(math.prod(self.mesh.shape[a] for a in axes_of(e)) for e in entries)

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """Raise ValueError where the spec has more entries than an array of this shape dimensions."""
        if len(shape) < len(self.spec):
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was applied to a value "
                f"of rank {len(shape)}."
            )

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each device's part.

        Raises:
            ValueError: the array has fewer dimensions than the spec entries.
            IndivisibleError: a dimension is no multiple of the number of its parts.
        """
        shape = tuple(global_shape)
        self.check_compatible_aval(shape)
        parts = self.parts(len(shape))
        for d, (n, k) in enumerate(zip(shape, parts, strict=True)):
            if n % k:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {d} is partitioned {k} times, but the dimension size is {n} "
                    f"(full shape: {shape}, per-dimension tiling factors: {list(parts)} should evenly divide the shape)"
                )
        return tuple(n // k for n, k in zip(shape, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Any, Index]:
        """The part that each device holds, in the order of the mesh's devices. Raises as `shard_shape` does."""
        shape = tuple(global_shape)
        local = self.shard_shape(shape)
        entries = [axes_of(e) for e in (*self.spec, *[None] * (len(shape) - len(self.spec)))]
        place = {name: d for d, name in enumerate(self.mesh.axis_names)}
        found: dict[Any, Index] = {}
        for position in np.ndindex(*self.mesh.axis_sizes):
            index: list[slice] = []
            for axes, n in zip(entries, local, strict=True):
                number = 0
                for a in axes:
                    number = number * self.mesh.shape[a] + position[place[a]]
                index.append(slice(number * n, number * n + n) if axes else slice(None))
            found[self._devices()[position]] = tuple(index)
        return found

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether the same devices hold the same parts of an array with this number of dimensions."""
        if not isinstance(other, NamedSharding):
            return other.is_equivalent_to(self, ndim)
        if self == other:
            return True
        if self.num_devices != other.num_devices or self.spec.unreduced != other.spec.unreduced:
            return False
        # With a size that every division divides, equal parts mean an equal division.
        size = math.lcm(*self.parts(ndim), *other.parts(ndim))
        mine, others = (list(s.devices_indices_map((size,) * ndim).items()) for s in (self, other))
        return [(d, _whole(i, size)) for d, i in mine] == [(d, _whole(i, size)) for d, i in others]


def _whole(index: Index, size: int) -> tuple[tuple[int, int], ...]:
    return tuple(s.indices(size)[:2] for s in index)


def check_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    """Raise ValueError for an axis that the mesh does not have, DuplicateSpecError for one that is named twice."""
    seen = set[AxisName]()
    for axis in (*spec.axes, *spec.unreduced, *spec.reduced):
        if axis not in mesh.shape:
            raise ValueError(f"Resource axis: {axis} of {spec} is not found in mesh: {mesh.axis_names}.")
    for axis in spec.axes:
        if axis in seen:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to at most one positional dimension, "
                f"but {spec} has duplicate entries for `{axis}`"
            )
        seen.add(axis)
    automatic = [a for a in spec.unreduced if a not in mesh.explicit_axes]
    if automatic:
        raise ValueError(
            f"Unreduced axes can only refer to mesh axes of type Explicit, got {spec} and {mesh!s}: {automatic[0]!r} is not"
        )


# The mesh with explicit axes that the arguments of the function being traced lie on.
mesh_of_arguments: ContextVar[AbstractMesh | None] = ContextVar("quire_explicit_mesh", default=None)


def mesh_in_force() -> AbstractMesh | None:
    """The axes of the mesh of `set_mesh`, else of the mesh that the arguments of the function being traced lie on."""
    mesh = config.options.mesh
    return mesh_of_arguments.get() if mesh is None else mesh.abstract_mesh


@functools.lru_cache(4096)
def explicit_part(sharding: NamedSharding, ndim: int) -> NamedSharding | None:
    """What a sharding says along axes of type Explicit, with an entry for each dimension; None where that is nothing."""
    mesh = sharding.mesh.abstract_mesh
    explicit = mesh.explicit_axes
    spec = sharding.spec
    entries = [tuple(a for a in axes_of(e) if a in explicit) for e in spec][:ndim]
    sets = {k: [a for a in getattr(spec, k) if a in explicit] for k in ("unreduced", "reduced")}
    if not any(entries) and not any(sets.values()):
        return None
    return NamedSharding(mesh, PartitionSpec(*entries, *[None] * (ndim - len(entries)), **sets))

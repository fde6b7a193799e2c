"""The mesh in force, and what stands for a sharding where a function takes one."""

from __future__ import annotations

import math
import operator
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from quire.ir.config import config
from quire.ir.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from quire.ir.tracing import current_trace
from quire.runtime.devices import Device, devices

from .layouts import Format

EMPTY_MESH = AbstractMesh((), ())


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` put in force; one without axes where there is none (`jax.sharding.get_mesh`).

    Raises ValueError while a function is traced: programs know meshes without devices (`get_abstract_mesh`).
    """
    if current_trace() is not None:
        raise ValueError("get_mesh can only be used outside of quire.jit: use quire.sharding.get_abstract_mesh()")
    mesh = config.options.mesh
    return mesh if isinstance(mesh, Mesh) else Mesh(np.empty((), object), ())


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh in force; without axes where there is none (`jax.sharding.get_abstract_mesh`)."""
    mesh = config.options.mesh
    return EMPTY_MESH if mesh is None else mesh.abstract_mesh


_NOT_SET: Any = object()


class set_mesh(AbstractContextManager[Mesh]):  # noqa: N801 - JAX's name
    """Put a mesh in force: for a block, or, called alone, from now on (`jax.set_mesh`).

    In its scope a `PartitionSpec` stands for a sharding on it. With None there is no mesh in its scope.

    Raises:
        ValueError: no Mesh with devices is given, or a function is being traced.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(f"set_mesh: expected a quire.sharding.Mesh with devices, got {type(mesh)}: {mesh}")
        if current_trace() is not None:
            raise ValueError(
                "`set_mesh` can only be used outside of `quire.jit`. Maybe you want `quire.sharding.use_abstract_mesh`?"
            )
        self.mesh: Any = mesh
        self._before = config.of_process("mesh"), config.of_block("mesh", _NOT_SET)
        self._block: Any = None
        config.update("mesh", mesh)
        if self._before[1] is not _NOT_SET:
            config.set_here(mesh=mesh)

    def __enter__(self) -> Mesh:
        base, around = self._before  # the process has it no more: the block has, in this context only
        config.update("mesh", base)
        if around is not _NOT_SET:
            config.set_here(mesh=around)
        self._block = config.override(mesh=self.mesh)
        self._block.__enter__()
        return self.mesh

    def __exit__(self, *exc: Any) -> None:
        self._block.__exit__(*exc)


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Generator[None]:
    """Put the axes of a mesh in force for a block, while a function is traced too (`jax.sharding.use_abstract_mesh`).

    Raises ValueError for anything but an AbstractMesh.
    """
    if not isinstance(mesh, AbstractMesh):
        raise ValueError(f"use_abstract_mesh: expected a quire.sharding.AbstractMesh, got {type(mesh)}: {mesh}")
    with config.override(mesh=mesh):
        yield


def make_mesh(
    axis_shapes: Sequence[int], axis_names: str | Sequence[str], axis_types: Any = None, *, devices: Any = None
) -> Mesh:
    """A mesh of the first devices, of these sizes (`jax.make_mesh`).

    Args:
        axis_shapes: the number of devices along each axis.
        axis_names: a name for each axis; a text is one name.
        axis_types: None: Explicit.
        devices: those to take; default: all of the default platform.

    Raises:
        ValueError: a size is no int, there are fewer devices than the sizes ask for, or another number of names than of sizes.
    """
    try:
        shape = tuple(operator.index(n) for n in axis_shapes)
    except TypeError:
        raise ValueError(
            f"`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got {axis_shapes}"
        ) from None
    axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if len(shape) != len(axis_names):
        raise ValueError(
            f"make_mesh: expected a name for each axis, got axis_shapes={shape} and axis_names={axis_names}"
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(shape)
    given = _devices(devices)
    count = math.prod(shape)
    if len(given) < count:
        raise ValueError(
            f"Number of devices {len(given)} must be >= the product of mesh_shape {shape}; for simulated devices set "
            f"QUIRE_NUM_CPU_DEVICES={count}"
        )
    return Mesh(np.array(given[:count], object).reshape(shape), tuple(axis_names), axis_types)


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Any = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """The devices as an array of a shape, for `Mesh` (`jax.experimental.mesh_utils.create_device_mesh`).

    Raises ValueError unless the shape takes all of the devices.
    """
    given = _devices(devices)
    shape = tuple(int(n) for n in mesh_shape)
    if math.prod(shape) != len(given):
        raise ValueError(f"Number of devices {len(given)} must equal the product of mesh_shape {shape}")
    return np.array(given, object).reshape(shape)


def _devices(given: Any) -> list[Device]:
    return devices() if given is None else list(np.asarray(given, object).flat)


def is_sharding(x: Any) -> bool:
    """Whether a value says where arrays lie; such values are leaves of trees."""
    return x is None or isinstance(x, Sharding | PartitionSpec | Device | Format | str)


def as_sharding(x: Any, what: str, error: type[Exception] = ValueError, *, in_block: bool = False) -> Sharding:
    """The sharding that a sharding, a spec on the mesh in force, or a device stands for.

    Args:
        x: what was given.
        what: the name of the argument, for errors.
        error: the class of the error for a spec where no mesh is in force.
        in_block: a block of ``with mesh:`` puts its mesh in force, too.

    Raises TypeError for anything else.
    """
    if isinstance(x, Sharding):
        return x
    if isinstance(x, Format):
        return as_sharding(x.sharding, what, error, in_block=in_block)
    if isinstance(x, PartitionSpec):
        mesh = config.options.mesh
        if mesh is None and in_block:
            mesh = config.options.block_mesh
        if mesh is None:
            raise error(
                f"{what}: {x} needs a mesh: put one in force with quire.set_mesh(mesh), or give NamedSharding(mesh, {x})"
            )
        return NamedSharding(mesh, x)
    if isinstance(x, Device):
        return SingleDeviceSharding(x)
    raise TypeError(
        f"{what}: expected a sharding, a PartitionSpec, a quire.Device or the name of a platform "
        f"(cpu, vulkan, cuda), got {x!r}"
    )


__all__ = [
    "as_sharding",
    "create_device_mesh",
    "get_abstract_mesh",
    "get_mesh",
    "is_sharding",
    "make_mesh",
    "set_mesh",
    "use_abstract_mesh",
]

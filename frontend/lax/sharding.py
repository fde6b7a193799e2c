"""What a program says of where the parts of its values lie."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.sharding import (
    UNCONSTRAINED,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    axes_of,
    says_nothing,
)
from quire.ir.tracing import Tracer, current_trace
from quire.runtime.array import Array
from quire.runtime.placements import Placement

from .. import tree_util
from ..arrays.explicit import told, with_all_entries
from ..arrays.meshes import as_sharding
from ..arrays.placement import check_divides, check_keys, put_sharded, sharding_leaves
from ..eager.evaluation import check_devices


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Divide the arrays of a pytree over the devices of a mesh, at this point of a program, along axes of type Auto.

    Along axes of type Explicit a value stays divided as its type says, and where all axes of the mesh in force are Explicit
    this compares: nothing is divided anew, as by `quire.sharding.reshard`.

    Args:
        x: a pytree of arrays.
        shardings: a NamedSharding, or a PartitionSpec on the mesh in force (`set_mesh`, or a block ``with mesh:``); or a tree
            prefix of these. Outside of compiled functions the dimensions must divide evenly.

    Raises:
        ValueError: a spec has more entries than an array dimensions, or the array was put on other devices.
        IndivisibleError: outside of compiled functions, a dimension does not divide evenly.
        RuntimeError: a spec is given and no mesh is in force.
        ValueError: a spec names an axis of type Explicit or Manual, where not all axes of the mesh in force are Explicit.
        AssertionError: all are Explicit, and an array is divided otherwise.
    """
    leaves, tree = tree_util.flatten_arrays(x)
    wanted = sharding_leaves(shardings, x, "with_sharding_constraint: shardings")
    name = "with_sharding_constraint"
    check_keys(x, wanted, f"{name} arguments")
    return tree_util.tree_unflatten(
        tree,
        [
            v if says_nothing(s) else _constrained(v, as_sharding(s, name, RuntimeError, in_block=True))
            for v, s in zip(leaves, wanted)
        ],
    )


def _constrained(x: Any, sharding: Sharding) -> Any:
    aval = aval_of(x)
    if isinstance(sharding, NamedSharding):
        if aval.ndim < len(sharding.spec):
            check_divides(sharding, aval.shape, "with_sharding_constraint arguments")
        mesh = config.options.mesh
        if mesh is not None and not mesh.empty and mesh.are_all_axes_explicit:
            _check_divided(aval, sharding)
            return x
        _check_auto(sharding)
        if isinstance(x, Tracer):
            return sharding_constraint(x, _beside_explicit(aval, sharding))
    check_devices("with_sharding_constraint", ("x",), (x,), sharding)
    return put_sharded(x, sharding, "with_sharding_constraint arguments")


def _check_divided(aval: ShapedArray, sharding: NamedSharding) -> None:
    """Raise AssertionError unless a type says what a sharding does, ValueError where that leaves something open."""
    from quire.passes.partition.specs import from_partition_spec, replicated

    if UNCONSTRAINED in sharding.spec:
        raise ValueError(
            f"{sharding.spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got mesh axis_types: "
            f"({', '.join(t.name for t in sharding.mesh.axis_types)})"
        )
    wanted = from_partition_spec(sharding.spec, aval.ndim)
    given = replicated(aval.ndim) if aval.division is None else from_partition_spec(aval.division.spec, aval.ndim)
    if given != wanted:
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`. The array sharding: "
            f"{PartitionSpec(*given)} did not match the sharding provided: {PartitionSpec(*wanted)}. Please use "
            "`quire.sharding.reshard` to shard your input to the sharding you want."
        )


def _check_auto(sharding: NamedSharding) -> None:
    """Raise ValueError for an axis that is not the partitioner's."""
    mesh = sharding.mesh
    if any(a not in mesh.auto_axes for a in sharding.spec.axes):
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh. Got "
            f"spec={sharding.spec} and mesh={mesh.abstract_mesh}. You probably meant to use `reshard` API?"
        )


def _beside_explicit(aval: ShapedArray, sharding: NamedSharding) -> NamedSharding:
    """The sharding of Auto axes together with the explicit ones along which a value is divided."""
    from quire.passes.partition.explicit import division_of

    own = division_of(aval, sharding.mesh.abstract_mesh)
    if not any(own):
        return sharding
    entries = [*sharding.spec, *[None] * (aval.ndim - len(sharding.spec))]
    both = [e if e is UNCONSTRAINED else (*has, *axes_of(e)) for has, e in zip(own, entries, strict=True)]
    return sharding.update(spec=sharding.spec.update(partitions=both))


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of a pytree divided anew (`jax.sharding.reshard`); the mesh's axes that are named must be Explicit.

    Raises ValueError where an axis is Auto or Manual (use `with_sharding_constraint`), or a spec is given and no mesh is in force.
    """
    leaves, tree = tree_util.flatten_arrays(xs)
    out: list[Any] = []
    shardings = sharding_leaves(out_shardings, xs, "reshard: out_shardings")
    check_keys(xs, shardings, "reshard args")
    for leaf, wanted in zip(leaves, shardings):
        sharding = as_sharding(wanted, "reshard")
        if isinstance(sharding, NamedSharding):
            types = dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_types))
            wrong = [a for a in sharding.spec.axes if types[a] is not AxisType.Explicit]
            if wrong:
                raise ValueError(
                    "PartitionSpec passed to reshard cannot contain axis names that are of type Auto or Manual. Got "
                    f"PartitionSpec: {sharding.spec} with axis name: {wrong[0]} of type: AxisType.{types[wrong[0]].name}."
                )
        out.append(put_sharded(leaf, with_all_entries(sharding, aval_of(leaf).ndim), "reshard args"))
    return tree_util.tree_unflatten(tree, out)


def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """A function in which explicit mesh axes are the partitioner's; its results are divided as `out_sharding` says.

    Args:
        f: a function of arrays and pytrees. Without it, a decorator.
        axes: the axes; None: all explicit ones.
        out_sharding: a sharding, or a PartitionSpec on the mesh in force; may be given to the call instead.

    Raises TypeError where no `out_sharding` is given.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("out_sharding", out_sharding)
        if config.options.mesh is None and isinstance(wanted, PartitionSpec) and not wanted.axes:
            return f(*args, **kwargs)  # no axis has a type
        if wanted is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        with _axes_of_type(AxisType.Auto, axes), told():
            out = f(*args, **kwargs)
        return reshard(out, wanted)

    return wrapper


def explicit_axes(f: Any = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """A function in which mesh axes are explicit, of arguments divided as `in_sharding` says.

    Args:
        f: a function of arrays and pytrees. Without it, a decorator.
        axes: the axes; None: all of the mesh in force.
        in_sharding: a PartitionSpec on the mesh in force, or a tree prefix of the arguments; may be given to the call instead.

    Raises TypeError where no `in_sharding` is given.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("in_sharding", in_sharding)
        if wanted is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        with _axes_of_type(AxisType.Explicit, axes):
            out = f(*reshard(args, wanted), **kwargs)
        return tree_util.tree_map(_on_mesh_in_force, out)

    return wrapper


def _on_mesh_in_force(x: Any) -> Any:
    """An array of a block in which the axes of the mesh in force had other types, on that mesh."""
    mesh = config.options.mesh
    place = x._device if type(x) is Array else None
    if (
        type(place) is not Placement
        or not isinstance(mesh, Mesh)
        or place.sharding.mesh.shape_tuple != mesh.shape_tuple
    ):
        return x
    return put_sharded(x, place.sharding.update(mesh=mesh))


@contextmanager
def _axes_of_type(kind: AxisType, axes: Any) -> Generator[None]:
    """For a block, the axes of the mesh in force have this type (those that are not manual)."""
    mesh = config.options.mesh
    if mesh is None:
        yield
        return
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else axes
    types = {a: kind for a in names if a not in mesh.manual_axes}
    changed: Mesh | AbstractMesh = mesh.abstract_mesh.update_axis_types(types)
    if isinstance(mesh, Mesh) and current_trace() is None:  # arrays are put on its devices
        changed = mesh.update(axis_types=changed.axis_types)
    with config.override(mesh=changed):
        yield


__all__ = ["with_sharding_constraint"]

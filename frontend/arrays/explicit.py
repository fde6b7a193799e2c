"""Types along mesh axes of type Explicit: they say how values are divided, and programs are traced with them.

What an operation's operands do not decide is an error. `ShapedArray.division` is the word; here are the rules' way into type
inference, and what the user says of results (`out_sharding`).
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.primitive import Primitive
from quire.ir.sharding import AbstractMesh, NamedSharding, mesh_in_force, mesh_of_arguments, says_nothing
from quire.ir.source import is_internal
from quire.ir.tracing import eval_jaxpr
from quire.runtime.array import Array
from quire.runtime.placements import Placement

from .. import tree_util
from .meshes import as_sharding
from .placement import put_sharded

F = TypeVar("F", bound=Callable[..., Any])

_told: ContextVar[bool] = ContextVar("quire_division_is_told", default=False)


def explicit_mesh() -> AbstractMesh | None:
    """The mesh in force, or that of the arguments of the function being traced, if an axis of it is explicit."""
    mesh = mesh_in_force()
    return mesh if mesh is not None and mesh.explicit_axes else None


def mesh_of_leaves(leaves: Sequence[Any], places: Sequence[Any] = ()) -> AbstractMesh | None:
    """The mesh with explicit axes that some argument of a function lies on, or is moved to, where none is in force; else None."""
    if config.options.mesh is not None:
        return None
    for place in (*(x._device if type(x) is Array else None for x in leaves), *places):
        if type(place) is Placement and place.sharding.mesh.explicit_axes:
            return place.sharding.mesh.abstract_mesh
    return mesh_of_arguments.get()


@contextmanager
def arguments_on(mesh: AbstractMesh | None) -> Generator[None]:
    """While a function is traced whose arguments lie on this mesh."""
    token = mesh_of_arguments.set(mesh or mesh_of_arguments.get())
    try:
        yield
    finally:
        mesh_of_arguments.reset(token)


@contextmanager
def told() -> Generator[None]:
    """For a block: the user has said how its result is divided, or the partitioner is to decide."""
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)


def _by_a_rule() -> bool:
    """Whether a rule of a transformation is at work, or a program applied, rather than a function that the user called."""
    frame = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code):
        if frame.f_code is eval_jaxpr.__code__ or "passes" in frame.f_globals.get("__name__", "").split("."):
            return True
        frame = frame.f_back
    return False


def _own_mesh(p: Primitive, avals: Sequence[Any], mesh: AbstractMesh) -> AbstractMesh:
    """The mesh that operands lie on: the one in force, where no rule of a transformation works on values of another block.

    Raises ValueError where an operand lies on another mesh.
    """
    for a in avals:
        if a.division is not None and a.division.mesh.shape_tuple != mesh.shape_tuple:
            if _by_a_rule():
                return a.division.mesh
            raise ValueError(
                f"For primitive {p.name}, context mesh {mesh} should match the aval mesh {a.division.mesh} of {a.short()}: "
                "move it to the mesh in force with quire.reshard, or put its own in force with quire.set_mesh"
            )
    return mesh


_results: dict[Any, tuple[Any, ...]] = {}


def _typed_results(p: Primitive, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The types of an equation's results. Raises ShardingTypeError where its operands do not decide how they are divided."""
    mesh = mesh_in_force()
    if mesh is None:
        mesh = next((a.division.mesh for a in avals if a.division is not None), _NO_MESH)
    strict = not _told.get()
    if p.name not in ("sharding_constraint", "shard_map"):
        mesh = _own_mesh(p, avals, mesh)
    key: Any = (p, mesh, strict, tuple(avals), tuple(params.values()))
    try:
        found = _results.get(key)
    except TypeError:  # a parameter that cannot be hashed
        key, found = None, None
    if found is not None:
        return found
    from quire.passes.partition.explicit import explicit_avals

    try:
        found = explicit_avals(p, avals, params, mesh, strict)
    except (TypeError, ValueError, NotImplementedError):
        if not strict or not _by_a_rule():
            raise
        return explicit_avals(p, avals, params, mesh, False)
    if key is not None:
        if len(_results) > 4096:
            _results.clear()
        _results[key] = found
    return found


Primitive.divider = staticmethod(_typed_results)
_NO_MESH = AbstractMesh((), ())


# -- where the user says it ---------------------------------------------------------------------------------------------


def placed_as(x: Any, sharding: Any, name: str) -> Any:
    """A result (or a pytree of them) divided as `out_sharding` says. Raises as `device_put` does."""
    if says_nothing(sharding):
        return x
    leaves, tree = tree_util.flatten_arrays(x)
    wanted = as_sharding(sharding, f"{name}: out_sharding")
    return tree_util.tree_unflatten(
        tree, [put_sharded(v, with_all_entries(wanted, aval_of(v).ndim), f"{name}: out_sharding") for v in leaves]
    )


def with_all_entries(sharding: Any, ndim: int) -> Any:
    """A sharding on explicit axes with an entry for each dimension, as types have it."""
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes or len(sharding.spec) == ndim:
        return sharding
    entries = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
    while len(entries) > ndim and entries[-1] is None:
        entries.pop()
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def beside(x: Any, aval: ShapedArray) -> Any:
    """A new value divided along explicit axes as one of this type is, if they have the same shape."""
    if aval.division is None or aval_of(x).shape != aval.shape:
        return x
    return put_sharded(x, aval.sharding)


def takes_out_sharding(f: F) -> F:
    """Decorator of a function with the argument `out_sharding`: its result is divided so."""
    name = f.__name__
    parameters = list(inspect.signature(f).parameters.values())
    i = next(i for i, p in enumerate(parameters) if p.name == "out_sharding")
    position = None if parameters[i].kind is inspect.Parameter.KEYWORD_ONLY else i

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if position is not None and len(args) > position:
            args, wanted = args[:position] + args[position + 1 :], args[position]
        elif "out_sharding" in kwargs:
            wanted = kwargs.pop("out_sharding")
        else:
            return f(*args, **kwargs)
        if says_nothing(wanted):
            return f(*args, **kwargs)
        with told():
            return placed_as(f(*args, **kwargs), wanted, name)

    divided_as_told.add(wrapper)
    return wrapper  # type: ignore[return-value]


# The functions that `takes_out_sharding` made: a test asks whether there are others with such an argument.
divided_as_told: weakref.WeakSet[Any] = weakref.WeakSet()


__all__ = [
    "arguments_on",
    "beside",
    "divided_as_told",
    "explicit_mesh",
    "mesh_of_leaves",
    "placed_as",
    "takes_out_sharding",
    "told",
    "with_all_entries",
]

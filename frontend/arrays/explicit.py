"""Values along mesh axes of type Explicit: how each is divided is known while a program is traced.

A trace has a table of its variables' specs (`Trace.divisions`) where an argument lies on such a mesh or one is in force. The
types of values and the jaxpr are the same as without it. What an operation's operands do not decide is an error.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import Eqn, Literal
from quire.ir.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, axes_of, says_nothing
from quire.ir.source import is_internal
from quire.ir.tracing import Trace, Tracer, hooks
from quire.runtime.array import Array
from quire.runtime.placements import Placement

from .. import tree_util
from .meshes import as_sharding
from .placement import put_sharded

F = TypeVar("F", bound=Callable[..., Any])

_told: ContextVar[bool] = ContextVar("quire_division_is_told", default=False)
# The mesh with explicit axes that the arguments of the function being traced lie on.
_of_arguments: ContextVar[AbstractMesh | None] = ContextVar("quire_explicit_mesh", default=None)


def explicit_mesh() -> Mesh | AbstractMesh | None:
    """The mesh in force, or that of the arguments of the function being traced, if an axis of it is explicit."""
    mesh = config.options.mesh
    if mesh is None:
        mesh = _of_arguments.get()
    return mesh if mesh is not None and mesh.explicit_axes else None


def _mesh_of(x: Any) -> Mesh | None:
    """The mesh with explicit axes on which an array lies."""
    place = x._device if type(x) is Array else None
    mesh = place.sharding.mesh if type(place) is Placement else None
    return mesh if isinstance(mesh, Mesh) and mesh.explicit_axes else None


def division_of(x: Any) -> Any:
    """For each dimension of a value the explicit axes along which it is divided; None where that is not known."""
    if isinstance(x, Tracer):
        return None if x.owner.divisions is None else x.owner.divisions.get(x.variable)
    ndim = aval_of(x).ndim
    mesh = _mesh_of(x)
    spec = x._device.sharding.spec if mesh is not None else ()
    axes = mesh.explicit_axes if mesh is not None else ()
    return tuple(tuple(a for a in axes_of(e) if a in axes) for e in (*spec, *[None] * (ndim - len(spec))))


def divisions_of(leaves: Sequence[Any]) -> tuple[tuple[Any, ...], AbstractMesh | None] | None:
    """How the arguments of a function are divided, and over which mesh; None where no axis is explicit."""
    mesh = next((m for x in leaves if (m := _mesh_of(x)) is not None), None)
    if mesh is None and explicit_mesh() is None:
        return None
    return tuple(map(division_of, leaves)), None if mesh is None else mesh.abstract_mesh


@contextmanager
def arguments_on(mesh: AbstractMesh | None) -> Generator[None]:
    """While a function is traced whose arguments lie on this mesh."""
    token = _of_arguments.set(mesh or _of_arguments.get())
    try:
        yield
    finally:
        _of_arguments.reset(token)


@contextmanager
def told() -> Generator[None]:
    """For a block: the user has said how its result is divided, or the partitioner is to decide."""
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)


def _by_a_rule() -> bool:
    """Whether a rule of a transformation is at work, rather than a function that the user called."""
    frame = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code):
        if "passes" in frame.f_globals.get("__name__", "").split("."):
            return True
        frame = frame.f_back
    return False


def divide(trace: Trace, eqn: Eqn, by_user: bool) -> None:
    """Note how the results of an equation are divided. Raises ShardingTypeError where its operands do not decide it."""
    table = trace.divisions
    mesh = explicit_mesh()
    assert table is not None
    if mesh is None:
        return
    from quire.passes.partition.explicit import explicit_results

    specs = [((),) * a.aval.ndim if isinstance(a, Literal) else table.get(a) for a in eqn.inputs]
    strict = by_user and not _told.get()
    try:
        found = explicit_results(eqn, specs, mesh, strict)
    except (TypeError, ValueError):
        if not _by_a_rule():
            raise
        found = explicit_results(eqn, specs, mesh, False)
    table.update(zip(eqn.outputs, found, strict=True))


hooks.divide = divide
hooks.division_of = division_of


# -- types -------------------------------------------------------------------------------------------------------------


class DividedType:
    """A type with its sharding, as `typeof` gives it: all that the type says, `sharding`, and ``float32[8@x,4]``."""

    __slots__ = ("aval", "sharding")

    def __init__(self, aval: ShapedArray, sharding: NamedSharding) -> None:
        self.aval = aval
        self.sharding = sharding

    def __getattr__(self, name: str) -> Any:
        return getattr(self.aval, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DividedType) and (self.aval, self.sharding) == (other.aval, other.sharding)

    def __hash__(self) -> int:
        return hash((self.aval, self.sharding))

    def __repr__(self) -> str:
        from quire.passes.partition.explicit import typed

        return typed(self.aval, tuple(axes_of(e) for e in self.sharding.spec), str(self.aval.dtype))


def type_of(x: Any) -> Any:
    """The type of a value; with its sharding where that is known along explicit axes."""
    aval = aval_of(x)
    mesh = _mesh_of(x) or explicit_mesh()
    if mesh is None:
        return aval
    found = division_of(x)
    return aval if found is None else DividedType(aval, NamedSharding(mesh.abstract_mesh, _spec(found)))


def _spec(division: Sequence[Any]) -> PartitionSpec:
    return PartitionSpec(*(e or None for e in division))


# -- where the user says it ---------------------------------------------------------------------------------------------


def placed_as(x: Any, sharding: Any, name: str) -> Any:
    """A result (or a pytree of them) divided as `out_sharding` says. Raises as `device_put` does."""
    if says_nothing(sharding):
        return x
    leaves, tree = tree_util.flatten_arrays(x)
    wanted = as_sharding(sharding, f"{name}: out_sharding")
    return tree_util.tree_unflatten(tree, [put_sharded(v, wanted, f"{name}: out_sharding") for v in leaves])


def takes_out_sharding(f: F) -> F:
    """Decorator of a function with the argument `out_sharding`: its result is divided so."""
    name = f.__name__

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "out_sharding" not in kwargs or says_nothing(wanted := kwargs.pop("out_sharding")):
            return f(*args, **kwargs)
        with told():
            return placed_as(f(*args, **kwargs), wanted, name)

    return wrapper  # type: ignore[return-value]


__all__ = [
    "DividedType", "arguments_on", "division_of", "divisions_of", "explicit_mesh", "placed_as", "takes_out_sharding", "told",
    "type_of",
]  # fmt: skip

"""Where a compiled function's arguments and results lie: what the user asks for, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var, nested_jaxprs
from quire.ir.primitives.sharding import sharding_constraint, sharding_constraint_p
from quire.ir.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from quire.ir.source import current_source, where
from quire.runtime.array import Array, own_device
from quire.runtime.devices import Device
from quire.runtime.placements import Place, Placement, placement_of, sharding_of

from .. import tree_util
from ..arrays.key_array import hidden_dimensions
from ..arrays.meshes import as_sharding, is_sharding
from ..arrays.placement import as_device, check_divides, check_keys, on_devices, sharding_leaves
from ..arrays.result_places import check_together, mesh_among, result_places, spec_of
from .ranked import is_ranked


@dataclass(frozen=True)
class Layout:
    """Where a program runs and its results lie.

    Attributes:
        device: the device that runs it.
        own: where each result lies, if `places` is None.
        places: where each result lies, if some lie on several devices.
        arguments: where each argument lies or is to be moved; None: anywhere.
        mesh: over which several ranks run it, each a part; None: one program computes all.
    """

    device: Device
    own: Place
    places: tuple[Place, ...] | None
    arguments: tuple[Place, ...]
    mesh: Mesh | None = None

    def result_shardings(self, count: int) -> list[Sharding]:
        """The sharding of each result."""
        return [sharding_of(p) for p in (self.places or (self.own,) * count)]


class _Unsaid:
    """The type of `UNSAID`."""

    def __repr__(self) -> str:
        return "UNSAID"


#: In place of shardings that were not given.
UNSAID: Any = _Unsaid()


class Shardings:
    """The `in_shardings` and `out_shardings` of a compiled function; `UNSAID` where it was given none.

    With `in_block`, as `pjit` has it, PartitionSpecs mean the mesh of a block ``with mesh:`` too, where None means that an
    array is whole on each device.

    Raises TypeError for a leaf that is neither a sharding nor a PartitionSpec nor None.
    """

    def __init__(self, given_in: Any, given_out: Any, in_block: bool = False) -> None:
        self.in_block = in_block
        self.given_in = tuple(given_in) if isinstance(given_in, list) else given_in
        self.given_out = given_out
        flat: list[Any] = [in_block]
        for name, given in (("in_shardings", self.given_in), ("out_shardings", given_out)):
            if given is UNSAID:
                flat.append(given)
                continue
            leaves, tree = tree_util.tree_flatten(given, is_sharding)
            for leaf in leaves:
                if leaf is not None and not isinstance(leaf, Sharding | PartitionSpec):
                    raise TypeError(
                        f"{name} leaf specifications are expected to be shardings, PartitionSpec instances or None, but "
                        f"got {leaf!r}"
                    )
            flat += (tuple(leaves), tree)
        #: What tells apart the variants of functions with other shardings.
        self.key: Any = tuple(flat)

    def of_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int) -> list[Sharding | None]:
        """The sharding that is asked for of each of `count` leaves of the arguments; None where none is.

        Raises:
            ValueError: there are keyword arguments, or the shardings are no tree prefix of the arguments.
            RuntimeError: a PartitionSpec is given, and no mesh is in force.
        """
        if self.given_in is UNSAID or self.given_in is None:
            return self._resolved([self.given_in] * count, "in_shardings")
        if kwargs:
            raise ValueError(
                "jit does not support kwargs when in_shardings is specified: give the arguments by position"
            )
        leaves = sharding_leaves(self.given_in, args, "in_shardings")
        check_keys(args, leaves, "jit arguments")
        return self._resolved(leaves, "in_shardings")

    def of_results(self, out_tree: Any) -> list[Sharding | None]:
        """The sharding that is asked for of each result; raises as `of_arguments` does."""
        n = out_tree.num_leaves
        if self.given_out is UNSAID or self.given_out is None:
            return self._resolved([self.given_out] * n, "out_shardings")
        example = tree_util.tree_unflatten(out_tree, list(range(n)))
        return self._resolved(sharding_leaves(self.given_out, example, "out_shardings"), "out_shardings")

    def _resolved(self, leaves: Sequence[Any], what: str) -> list[Sharding | None]:
        mesh = config.options.block_mesh if self.in_block else None
        whole = None if mesh is None else NamedSharding(mesh, PartitionSpec())
        what = f"{'pjit' if self.in_block else 'jit'}: {what}"
        return [
            None if s is UNSAID else whole if s is None else as_sharding(s, what, RuntimeError, in_block=self.in_block)
            for s in leaves
        ]


def hidden_of(out_tree: Any) -> list[int]:
    """Of each result of a function, how many dimensions the user does not see (`hidden_dimensions`)."""
    return hidden_dimensions(tree_util.tree_unflatten(out_tree, list(range(out_tree.num_leaves))))


NOTHING_ASKED = Shardings(UNSAID, UNSAID)


def argument_places(
    wanted: Sequence[Sharding | None], leaves: Sequence[Any], avals: Sequence[ShapedArray], names: Sequence[str]
) -> tuple[Place, ...]:
    """Where each leaf of the arguments lies, or is moved to; None for those that may lie anywhere.

    Raises:
        ValueError: an array was put elsewhere than it is asked for, or has fewer dimensions than its spec entries.
        IndivisibleError: a dimension does not divide evenly.
    """
    places: list[Place] = []
    for x, aval, name, sharding in zip(leaves, avals, names, wanted, strict=True):
        lies = x._device if type(x) is Array else None
        if sharding is None:
            sharding = on_devices(getattr(x, "sharding", None)) if lies is None and type(x) is not Array else None
            places.append(lies if sharding is None else placement_of(sharding))
            continue
        check_divides(sharding, aval.shape, f"jit arguments with pytree key path {name}")
        if lies is not None and not sharding.is_equivalent_to(x.sharding, aval.ndim):
            raise ValueError(
                f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: {sharding},\n"
                f"arg sharding: {x.sharding} for arg type: {_typed(aval)}"
            )
        places.append(placement_of(sharding))
    return tuple(places)


def typed_at(avals: Sequence[ShapedArray], places: Sequence[Place]) -> list[ShapedArray]:
    """The types of arguments that lie, or are moved to, these places: they say so along explicit axes."""
    return [p.typed(a) if type(p) is Placement else a for a, p in zip(avals, places, strict=True)]


def _typed(aval: ShapedArray) -> str:
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


def layout(
    function: str, device: Device | None, jaxpr: Jaxpr, captured: Sequence[Any], names: Sequence[str],
    arguments: tuple[Place, ...], wanted: Sequence[Sharding | None], paths: Sequence[str], hidden: Sequence[int],
) -> Layout:  # fmt: skip
    """Where a traced function runs, and its results lie.

    Args:
        function: its name.
        device: the one that the user chose for all of its calls.
        jaxpr: takes what is captured, then the leaves of the arguments.
        captured: the values that it reads from outside.
        names: the path of each leaf of the arguments.
        arguments: where each lies.
        wanted: the sharding that is asked for of each result.
        paths: that of each result.
        hidden: how many of its dimensions the user does not see: the words of keys.

    Raises:
        ValueError: arguments and results lie on different devices, or a result has fewer dimensions than its spec entries.
        RuntimeError: it reads an array from outside of which other processes hold some elements.
        IndivisibleError: a result does not divide evenly.
    """
    asked: list[Place] = []
    for sharding, aval, path, words in zip(wanted, jaxpr.out_avals, paths, hidden, strict=True):
        if sharding is not None:
            check_divides(sharding, aval.shape[: aval.ndim - words], f"jit outputs with pytree key path result{path}")
        asked.append(None if sharding is None else placement_of(sharding))
    for c in captured:
        if type(c) is Array and not c.is_fully_addressable:
            raise RuntimeError(
                "Closing over quire.Array that spans non-addressable (non process local) devices is not allowed. Please pass "
                f"such arrays as arguments to the function. Got quire.Array: {_typed(c.aval)}"
            )
    if device is not None:
        over = [n for n, p in zip(names, arguments) if type(p) is Placement and p.grid is not None]
        if over:
            raise ValueError(
                f"{function} is compiled for {device} alone, and its argument {over[0]} is an array over several processes: "
                "use in_shardings and out_shardings instead of device or backend"
            )
        return Layout(device.base, own_device(device), None, arguments)
    # As in JAX, arrays that are read from outside do not decide where a program runs.
    held = [c._device if type(c) is Array else None for c in captured]
    inner = [placement_of(NamedSharding(m, PartitionSpec())) for m in constrained_meshes(jaxpr)]
    fixed = [p for p in (*arguments, *inner, *asked) if p is not None]
    if fixed:
        own_avals = [v.aval for v in jaxpr.invars[len(captured) :]]
        check_together([
            *((f"argument {n} of {function}", a, p) for n, a, p in zip(names, own_avals, arguments)),
            *(("the mesh of a sharding_constraint or shard_map inside jit", None, p) for p in inner),
            *(("explicit output sharding", None, p) for p in asked),
        ])  # fmt: skip
    mesh = mesh_among(fixed)
    if mesh is None and not fixed and isinstance(config.options.mesh, Mesh):
        mesh = config.options.mesh
    if mesh is None:
        own = fixed[0] if fixed else own_device(as_device(None))
        runs = as_device(None) if own is None else own
        return Layout(runs.base, own, None, arguments)
    specs = [spec_of(p, mesh) for p in (*held, *arguments)]
    places = result_places(ClosedJaxpr(jaxpr), mesh, specs, asked)
    runs = placement_of(NamedSharding(mesh, PartitionSpec())).base
    return Layout(runs, None, tuple(places), arguments, mesh if is_ranked(mesh) else None)


def tell_inspected(
    asked: Sequence[tuple[Var, Callable[[Sharding], None]]], jaxpr: Jaxpr, captured: Sequence[Any], found: Layout
) -> None:
    """Call what waits for the sharding of a value of a program that lies so: it is the one that the partitioner gives it."""
    if not asked:
        return
    held = [c._device if type(c) is Array else None for c in captured]
    places = (*held, *found.arguments)
    mesh = mesh_among((*places, *(found.places or ())))
    values = [v for v, _ in asked]
    if mesh is None:
        at: Sequence[Place] = [found.own] * len(values)
    else:
        program = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, values, jaxpr.eqns))
        at = result_places(program, mesh, [spec_of(p, mesh) for p in places], [None] * len(values))
    for (_, callback), place in zip(asked, at, strict=True):
        callback(sharding_of(place))


def constrained_meshes(jaxpr: Jaxpr) -> Iterator[Mesh]:
    """The meshes with devices that a program names: those of its constraints, and of its `shard_map`s."""
    for eqn in jaxpr.eqns:
        mesh = eqn.params["sharding"].mesh if eqn.primitive is sharding_constraint_p else eqn.params.get("mesh")
        if isinstance(mesh, Mesh):
            yield mesh
        for inner in nested_jaxprs(eqn.params):
            yield from constrained_meshes(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def constrained(values: Sequence[Any], wanted: Sequence[Sharding | None]) -> list[Any]:
    """Traced values, divided as is asked for."""
    return [sharding_constraint(x, s) if isinstance(s, NamedSharding) else x for x, s in zip(values, wanted)]


def check_arguments(
    names: Sequence[str], leaves: Sequence[Any], avals: Sequence[ShapedArray], compiled_for: Sequence[Place]
) -> None:
    """Raise ValueError where an array was put elsewhere than a program was compiled for."""
    wrong: list[str] = []
    for name, x, aval, place in zip(names, leaves, avals, compiled_for):
        if type(x) is Array and x._device is not place and (type(x._device) is Placement or type(place) is Placement):
            required = sharding_of(place)
            if x._device is not None and not required.is_equivalent_to(x.sharding, aval.ndim):
                wrong.append(
                    f"Argument {name} with shape {_typed(aval)}:\n  Passed sharding: {x.sharding}\n"
                    f"  Required sharding: {required}"
                )
    if wrong:
        text = "\n".join(wrong)
        raise ValueError(
            "Computation was compiled for input shardings that disagree with the shardings of arguments passed to it"
            f"{where(current_source(2))}. Here are the {len(wrong)} mismatches:\n{text}"
        )


__all__ = ["NOTHING_ASKED", "Layout", "Shardings", "argument_places", "check_arguments", "constrained", "layout"]

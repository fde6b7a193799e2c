"""`shard_map`: a function of one device's parts, applied on every device of a mesh; `smap` over one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import manual_axes as axes_in_scope
from quire.ir.axes import mesh_axes
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import collectives as co
from quire.ir.primitives import shard_map as sm
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, axes_of
from quire.ir.source import current_source, where
from quire.ir.tracing import trace_flat

from .. import tree_util
from ..arrays.key_array import hidden_dimensions
from ..watching import key_reuse
from ..watching.tracebacks import wraps
from .functions import name_of


class _Infer:
    """`in_specs=Infer`: the specs are those of the arguments' types."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"


Infer = _Infer()


def shard_map(
    f: Any = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Any = frozenset[Any](),
    check_vma: bool = True,
) -> Any:
    """A function that applies `f` on every device of a mesh to the device's parts of the arguments.

    Inside `f` the axes of the mesh are named axes for collectives (`lax.psum` and others).

    Args:
        f: a function of arrays and pytrees. Without it, a decorator.
        out_specs: how the results of the devices are put together: a pytree prefix of `PartitionSpec`s. Along an axis
            that a spec lacks the results must be equal.
        in_specs: how the arguments are divided: a pytree prefix of the tuple of arguments. An argument with None is given to
            `f` as it is, not traced. Default: as the arguments' types say, along axes of type Explicit.
        mesh: a Mesh or AbstractMesh; None: that of `set_mesh`.
        axis_names: the axes of which `f` sees parts, the others stay whole in `f`; empty: all.
        check_vma: types say along which axes a value varies (`typeof(x).vma`), and what `out_specs` claim is checked.
            Derivatives of values that are equal along an axis are summed over it.

    Raises:
        ValueError: an axis that is not there or not one of `axis_names`, a dimension that does not divide evenly, a spec
            that is too long, a result that varies along an axis that its spec lacks.
        TypeError: specs that are no PartitionSpecs, `axis_names` that is no set.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> from quire.ir.sharding import AbstractMesh, PartitionSpec as P
        >>> mesh = AbstractMesh((2,), ("x",))
        >>> total = quire.shard_map(lambda x: quire.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
        >>> total(qnp.arange(4.0)).item()
        6.0
    """
    if f is None:
        return lambda g: shard_map(
            g, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )
    if not callable(f):
        raise TypeError(f"shard_map requires a callable for its first argument, but got {f} of type {type(f)}.")
    return _wrapped(f, in_specs, out_specs, mesh, axis_names, check_vma)


def _wrapped(f: Any, in_specs: Any, out_specs: Any, given_mesh: Any, axis_names: Any, check_vma: bool) -> Any:
    name = name_of(f)
    if given_mesh is not None:  # what is wrong with the specs is said where the function is made
        _settled(given_mesh, axis_names, in_specs, out_specs)

    @wraps(f)
    def mapped(*args: Any) -> Any:
        mesh = given_mesh if given_mesh is not None else getattr(config.options, "mesh", None)
        if mesh is None or mesh.empty:
            raise ValueError(
                "The context mesh cannot be empty. Use `quire.set_mesh(mesh)` to enter into a mesh context, or give shard_map mesh="
            )
        manual = _settled(mesh, axis_names, in_specs, out_specs)
        whole, in_tree = tree_util.flatten_arrays(args)
        if in_specs is Infer:
            specs = [_of_type(aval_of(x), manual) for x in whole]
            leaves, traced = whole, range(len(whole))
        else:
            said = _prefix("in_specs", in_specs, args, in_tree, name)
            traced = [i for i, s in enumerate(said) if s is not None]  # the others f gets as they are
            leaves, specs = [whole[i] for i in traced], [said[i] for i in traced]
        avals = [aval_of(x) for x in leaves]
        paths = _Paths(args, "args", traced)
        hidden = hidden_dimensions(args)
        _check_arguments(mesh, specs, _seen(avals, [hidden[i] for i in traced]), paths, name)
        _check_types(mesh, specs, avals, paths, manual)
        inner = within(mesh, manual)
        local = [sm.part_division(inner, a, sm.shard_aval(mesh, s, a, check_vma)) for s, a in zip(specs, avals)]
        out_tree: Any = None
        result_specs: list[PartitionSpec] = []

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree, result_specs
            given = list(whole)
            for i, x, spec in zip(traced, xs, specs, strict=True):
                given[i] = _taken(x, spec, check_vma)
            out = f(*tree_util.tree_unflatten(in_tree, given))
            found, out_tree = tree_util.flatten_arrays(out)
            for x in found:
                _check_result(x, name)
            result_specs = _prefix("out_specs", out_specs, out, out_tree, name)
            paths = _Paths(out, f"{name}(*args)", range(len(found)))
            seen = _seen([aval_of(x) for x in found], hidden_dimensions(out))
            _check_results(mesh, result_specs, seen, paths, name, manual, check_vma)
            found = [_given(x, spec, check_vma) for x, spec in zip(found, result_specs, strict=True)]
            if check_vma:
                found = [
                    co.pvary(x, [a for a in s.axes if a in manual]) for x, s in zip(found, result_specs, strict=True)
                ]
            return found

        sizes = {a: mesh.shape[a] for a in mesh.axis_names if a in manual}
        with mesh_axes(sizes, check_vma), config.override(mesh=inner):
            jaxpr, captured, _ = trace_flat(flat, local, name=f"shard_map of {name}")
        key_reuse.check_call(jaxpr, [*captured, *leaves])
        out = sm.shard_map(
            [*captured, *map(_without_sums, leaves)], mesh=mesh,
            in_specs=[*[PartitionSpec()] * len(captured), *map(_divisions, specs)],
            out_specs=[_divisions(s) for s in result_specs], jaxpr=ClosedJaxpr(jaxpr), check_vma=bool(check_vma),
            manual_axes=manual,
        )  # fmt: skip
        out = [_with_sums(x, s, mesh) for x, s in zip(out, result_specs, strict=True)]
        return tree_util.tree_unflatten(out_tree, out)

    return mapped


# A value that is unreduced or reduced outside goes in and comes out as its sum: the body takes the sum apart again, so that all
# of it is at index 0 of the axes, and takes the sum at its end.


def _taken(x: Any, spec: PartitionSpec, check_vma: bool) -> Any:
    """An argument of the function, unreduced or reduced as its spec says."""
    if spec.unreduced:
        names = sorted(spec.unreduced, key=str)
        x = co.only_at_first(x, names)
        x = co.pcast_p.bind(x, axes=tuple(names), to="unreduced") if check_vma else x
    if spec.reduced and check_vma:
        x = co.pcast_p.bind(x, axes=tuple(sorted(spec.reduced, key=str)), to="reduced")
    return x


def _given(x: Any, spec: PartitionSpec, check_vma: bool) -> Any:
    """A result of the function: the sum of what is unreduced, and what is reduced as what is the same everywhere."""
    if spec.unreduced:
        x = co.psum(x, sorted(spec.unreduced, key=str))
    if spec.reduced and check_vma:
        x = co.pcast_p.bind(x, axes=tuple(sorted(spec.reduced, key=str)), to="invarying")
    return x


def _divisions(spec: PartitionSpec) -> PartitionSpec:
    return spec.update(unreduced=(), reduced=()) if spec.unreduced or spec.reduced else spec


def _without_sums(x: Any) -> Any:
    division = aval_of(x).division
    if division is None or not (division.spec.unreduced or division.spec.reduced):
        return x
    return sharding_constraint(x, division.update(spec=_divisions(division.spec)))


def _with_sums(x: Any, spec: PartitionSpec, mesh: Mesh | AbstractMesh) -> Any:
    if not (spec.unreduced or spec.reduced):
        return x
    division = aval_of(x).division
    whole = spec if division is None else division.spec.update(unreduced=spec.unreduced, reduced=spec.reduced)
    return sharding_constraint(x, NamedSharding(mesh, whole))


def within(mesh: Mesh | AbstractMesh, manual: frozenset[Any]) -> AbstractMesh:
    """The mesh in force in the function of one device: some axes are manual, also those of a shard_map around."""
    taken = manual | axes_in_scope()
    return mesh.abstract_mesh.update_axis_types({a: AxisType.Manual for a in mesh.axis_names if a in taken})


def _of_type(aval: ShapedArray, manual: frozenset[Any]) -> PartitionSpec:
    """The spec of an argument along the manual axes, as its type says."""
    if aval.division is None:
        return PartitionSpec()
    spec = aval.division.spec
    entries = (tuple(a for a in axes_of(e) if a in manual) for e in spec)
    return PartitionSpec(*entries, unreduced=spec.unreduced & manual, reduced=spec.reduced & manual)


def _seen(avals: Sequence[ShapedArray], hidden: Sequence[int]) -> list[ShapedArray]:
    """The types without the words of keys, which no spec divides."""
    return [a.along(a.ndim - 1) if h else a for a, h in zip(avals, hidden, strict=True)]


def _whole(spec: PartitionSpec, ndim: int) -> PartitionSpec:
    return spec.update(partitions=(*spec, *[None] * (ndim - len(spec))))


def _check_types(
    mesh: Any, specs: Sequence[PartitionSpec], avals: Sequence[ShapedArray], paths: _Paths, manual: frozenset[Any]
) -> None:
    """Raise ValueError where an argument's type says another division along explicit axes than its spec.

    As in JAX, where all axes are taken at once; of some of them only an argument is moved.
    """
    if manual != frozenset(mesh.axis_names) - axes_in_scope():
        return
    explicit = manual.intersection(mesh.explicit_axes)
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        if aval.division is None:
            continue
        own = [tuple(a for a in axes_of(e) if a in explicit) for e in aval.division.spec]
        given = [tuple(a for a in axes_of(e) if a in explicit) for e in spec]
        if own != [*given, *[()] * (len(own) - len(given))]:
            raise ValueError(
                f"in_specs passed to shard_map: {_whole(spec, aval.ndim)} does not match the specs of the input: "
                f"{aval.division.spec} for arg: {aval!s}. `in_specs` is an optional argument so you can omit specifying it and "
                "shard_map will infer the in_specs from the arguments. If you want to reshard your inputs, you can use "
                f"`quire.reshard` on the arguments and then pass those args to shard_map. It is {paths[i]}"
            )


# -- what is given -----------------------------------------------------------------------------------------------------


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


_STATIC: Any = object()


def _is_spec_or_none(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _settled(mesh: Any, axis_names: Any, in_specs: Any, out_specs: Any) -> frozenset[Any]:
    """The manual axes, after all that is wrong with mesh, axes and specs has been said."""
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(
            "shard_map requires a `quire.sharding.Mesh` or a `quire.sharding.AbstractMesh` instance for its mesh, "
            f"but got {mesh} of type {type(mesh)}."
        )
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh. Got {mesh}")
    if not isinstance(axis_names, set | frozenset):
        raise TypeError(
            f"`axis_names` argument of shard_map should be of type `frozenset` or `set`. Got type: {type(axis_names)}"
        )
    free = frozenset(mesh.axis_names) - axes_in_scope()
    manual: frozenset[Any] = frozenset(axis_names) or free  # pyright: ignore[reportUnknownArgumentType]
    if not manual <= free:
        raise ValueError(
            f"quire.shard_map requires axis_names={manual} to be a subset of mesh.axis_names={frozenset(mesh.axis_names)}"
            + (f" without those that a shard_map around has taken: {set(axes_in_scope())}" if axes_in_scope() else "")
        )
    if in_specs is not Infer:
        _check_specs("in", in_specs, manual)
    elif not manual <= frozenset(mesh.explicit_axes):
        raise TypeError(
            "shard_map in_specs argument must be specified when the axes it maps are not all of type Explicit, since types say "
            f"how values are divided along those only. Axes: {tuple(sorted(map(str, manual)))} of {mesh.abstract_mesh}"
        )
    _check_specs("out", out_specs, manual)
    for prefix, specs in (("in", None if in_specs is Infer else in_specs), ("out", out_specs)):
        _check_sums(prefix, specs, mesh, manual == free)
    return manual


def _check_sums(prefix: str, specs: Any, mesh: Mesh | AbstractMesh, full: bool) -> None:
    """Raise for sums in specs along axes of which types outside do not speak."""
    for spec in tree_util.tree_leaves(specs, is_leaf=_is_spec):
        for kind, axes in (("unreduced", spec.unreduced), ("reduced", spec.reduced)):
            if axes and not full:
                raise NotImplementedError(
                    f"shard_map: {kind} can only be passed to {prefix}_specs when shard_map is in full manual mode: give no "
                    f"axis_names, got {spec}"
                )
            if axes and not mesh.are_all_axes_explicit:
                raise ValueError(
                    f"shard_map: {kind} in {prefix}_specs can only be used when the mesh passed to shard_map contains axis names "
                    f"all of type `Explicit`, got {spec} and {mesh.abstract_mesh}"
                )


def _check_specs(prefix: str, specs: Any, manual: frozenset[Any]) -> None:
    if specs is None and prefix == "in":
        raise TypeError(
            "shard_map in_specs argument must be a pytree of `quire.sharding.PartitionSpec` instances, but it was None.\n"
            "Instead of `in_specs=None`, did you mean `in_specs=P()`?"
        )
    found = tree_util.tree_leaves_with_path(specs, is_leaf=_is_spec)
    no_specs = [
        f"  {prefix}_specs{tree_util.keystr(k)} is {x} of type {type(x).__name__}" for k, x in found if not _is_spec(x)
    ]
    if no_specs:
        raise TypeError(
            f"shard_map {prefix}_specs argument must be a pytree of `quire.sharding.PartitionSpec` instances, but:\n\n"
            + "\n".join(no_specs) + f"\n\nCheck the {prefix}_specs values passed to shard_map."
        )  # fmt: skip
    unknown = [
        f"  {prefix}_specs{tree_util.keystr(k)} refers to {a!r}" for k, s in found for a in s.axes if a not in manual
    ]
    if unknown:
        raise ValueError(
            f"shard_map {prefix}_specs argument must refer to an axis marked as manual ({manual}), but:\n\n"
            + "\n".join(unknown) + f"\n\nCheck the {prefix}_specs values passed to shard_map."
        )  # fmt: skip


def _prefix(what: str, specs: Any, tree: Any, treedef: Any, name: str) -> list[Any]:
    """One spec for each leaf of the arguments or of the results. Raises ValueError for specs that are no prefix."""
    if isinstance(specs, list) and isinstance(tree, tuple):
        specs = tuple(specs)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    try:
        indices = tree_util.tree_unflatten(treedef, list(range(treedef.num_leaves)))
        if what == "in_specs":  # None is an entry: that of an argument which is not traced
            specs = tree_util.tree_map(lambda s: _STATIC if s is None else s, specs, is_leaf=_is_spec_or_none)
        full = tree_util.tree_broadcast(specs, indices, is_leaf=_is_spec)
        return [None if s is _STATIC else s for s in tree_util.tree_leaves(full, is_leaf=_is_spec)]
    except (ValueError, TypeError) as error:
        other = "the arguments" if what == "in_specs" else "the results"
        raise ValueError(
            f"shard_map {what} specification must be a tree prefix of {other} of {name}, got specification {specs!r} for "
            f"value tree {treedef}{where(current_source())}: {error}"
        ) from None


class _Paths:
    """How some leaves of a tree would be written, found out when a message needs it."""

    def __init__(self, tree: Any, root: str, leaves: Sequence[int]) -> None:
        self._tree, self._root, self._leaves = tree, root, leaves

    def __getitem__(self, i: int) -> str:
        leaves, treedef = tree_util.flatten_arrays(self._tree)
        named = tree_util.tree_unflatten(treedef, list(range(len(leaves))))
        return self._root + tree_util.keystr(tree_util.tree_leaves_with_path(named)[self._leaves[i]][0])


def _check_lengths(
    prefix: str, specs: Sequence[PartitionSpec], avals: Sequence[ShapedArray], paths: _Paths, name: str
) -> None:
    wrong = [i for i, (s, a) in enumerate(zip(specs, avals)) if len(s) > a.ndim]
    if not wrong:
        return
    lines = [
        f"* {prefix}_specs is {specs[i]} which has length {len(specs[i])}, but {paths[i]} has shape {avals[i].short()}, which "
        f"has rank {avals[i].ndim} (and {avals[i].ndim} < {len(specs[i])})"
        for i in wrong
    ]
    scalars = "\n\nFor scalar values (rank 0), use a spec of `P()`." if any(not avals[i].ndim for i in wrong) else ""
    raise ValueError(
        f"shard_map applied to the function '{name}' was given an {prefix}_specs entry which is too long to be compatible "
        f"with the corresponding {prefix}put value from the function:\n\n" + "\n".join(lines) + scalars
    )


def _check_arguments(
    mesh: Any, specs: Sequence[PartitionSpec], avals: Sequence[ShapedArray], paths: _Paths, name: str
) -> None:
    _check_lengths("in", specs, avals, paths, name)
    lines: list[str] = []
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        for d, (n, entry) in enumerate(zip(aval.shape, spec)):
            axes = axes_of(entry)
            k = math.prod(mesh.shape[a] for a in axes)
            if n % k:
                axis = f"axis '{axes[0]}'" if len(axes) == 1 else f"axes {axes}"
                lines.append(
                    f"* the passed {paths[i]} of shape {aval.short()} corresponds to in_specs of value {spec}, "
                    f"which maps array axis {d} (of size {n}) to mesh {axis} (of {'total ' * (len(axes) > 1)}size {k}), but "
                    f"{k} does not evenly divide {n}"
                )
    if lines:
        raise ValueError(
            f"shard_map applied to the function '{name}' was given argument arrays with axis sizes that are not evenly "
            f"divisible by the corresponding mesh axis sizes:\n\nThe mesh given has shape {tuple(mesh.axis_sizes)} with "
            f"corresponding axis names {mesh.axis_names}.\n\n" + "\n".join(lines)
        )


def _check_result(x: Any, name: str) -> None:
    try:
        aval_of(x)
    except TypeError:
        raise TypeError(
            f"shard_map of {name}: the function returned {x!r} of type {type(x).__name__}, expected arrays or numbers"
        ) from None


def _check_results(
    mesh: Any, specs: Sequence[PartitionSpec], avals: Sequence[ShapedArray], paths: _Paths, name: str, manual: frozenset[Any],
    check_vma: bool,
) -> None:  # fmt: skip
    _check_lengths("out", specs, avals, paths, name)
    if not check_vma:
        return
    lines: list[str] = []
    for i, (spec, aval) in enumerate(zip(specs, avals)):
        wrong = [a for a in sm.unmentioned(mesh, spec, manual) if a in aval.vma and a not in spec.unreduced]
        if wrong:
            axes = f"axes {tuple(wrong)}" if len(wrong) > 1 else f"axis '{wrong[0]}'"
            lines.append(
                f"* out_specs is {spec} which implies that the corresponding output value {paths[i]} "
                f"is replicated across mesh {axes}, but could not infer replication over {axes}: it varies there, "
                f"its type is {aval.short()}"
            )
        for kind, axes in (
            ("unreduced", aval.mat.unreduced - spec.unreduced),
            ("reduced", aval.mat.reduced - spec.reduced),
        ):
            if axes:
                lines.append(
                    f"* out_specs is {spec}, but {paths[i]} is {kind} over {', '.join(sorted(map(repr, axes)))}, its type is "
                    f"{aval.short()}: give P(..., {kind}={{{', '.join(sorted(map(repr, axes)))}}})"
                )
        for kind, axes in (("reduced", spec.reduced - aval.mat.reduced),):
            if axes:
                lines.append(
                    f"* out_specs is {spec}, but {paths[i]} is not {kind} over {', '.join(sorted(map(repr, axes)))}, its type is "
                    f"{aval.short()}: give lax.pcast(x, {tuple(sorted(axes, key=str))}, to='{kind}')"
                )
        same = [a for a in sorted(spec.unreduced, key=str) if a not in aval.vma | aval.mat.unreduced]
        if same:
            lines.append(
                f"* out_specs is {spec}, but {paths[i]} is the same along {same}, its type is {aval.short()}: an unreduced result "
                "varies or is unreduced there"
            )
    if lines:
        raise ValueError(
            f"shard_map applied to the function '{name}' was given out_specs which require replication which can't be "
            f"statically inferred given the mesh:\n\nThe mesh given has shape {tuple(mesh.axis_sizes)} with corresponding "
            f"axis names {mesh.axis_names}.\n\n"
            + "\n".join(lines)
            + "\n\nCheck if these output values are meant to be "
            "replicated over those mesh axes. If not, consider revising the corresponding out_specs entries. If so, "
            "consider a collective such as psum or pmax, or give shard_map check_vma=False."
        )


# -- one axis at a time ------------------------------------------------------------------------------------------------


def smap(f: Any = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Any:
    """`shard_map` over one axis of the mesh in force (`set_mesh`), the dimensions given by number as for `vmap`.

    Args:
        f: a function of arrays and pytrees. Without it, a decorator.
        in_axes: which dimension of each argument the axis divides: an int, None, or a pytree prefix of them.
        out_axes: the same for the results.
        axis_name: the axis.

    Raises TypeError for axes that are no ints or None, and what `shard_map` raises.
    """
    if f is None:
        return lambda g: smap(g, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, list | tuple | set | frozenset):
        raise TypeError(f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}")
    if in_axes is not None and in_axes is not Infer and not isinstance(in_axes, int | tuple):
        raise TypeError(
            "smap in_axes must be an int, None, quire.sharding.Infer, or a tuple of entries corresponding to the positional "
            f"arguments passed to the function, but got {in_axes}."
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is not Infer and not all(isinstance(a, int) for a in tree_util.tree_leaves(axes)):
            raise TypeError(f"smap {what} must be an int, None, or a container with those as leaves, but got {axes}.")

    def spec(axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return tree_util.tree_map(spec, axes, is_leaf=lambda a: a is None)

    ins = Infer if in_axes is Infer else specs(in_axes)
    return shard_map(f, in_specs=ins, out_specs=specs(out_axes), axis_names={axis_name})


__all__ = ["Infer", "shard_map", "smap"]

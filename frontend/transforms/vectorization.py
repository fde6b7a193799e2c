"""`vmap`: a function of single examples as a function of batches, by the batching pass over its jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import named_axis
from quire.ir.references import Ref
from quire.ir.sharding import NamedSharding, PartitionSpec, axes_of
from quire.ir.source import current_source, where
from quire.ir.tracing import trace_flat
from quire.passes.batching.batch import batch_eval
from quire.passes.batching.rules import Axis, broadcast_batch, move_dim

from .. import tree_util
from ..arrays.key_array import PRNGKeyArray, is_keys
from ..arrays.key_references import KeyRef
from ..arrays.operands import as_array
from ..arrays.placement import put_sharded
from ..arrays.references import get, refuse_refs
from ..compiling.arguments import leaf_names
from ..watching import key_reuse
from ..watching.tracebacks import wraps
from ..watching.transformations import appended
from .functions import check_callable, name_of
from .references import open_refs, refuse_mapped


class Lanes(NamedTuple):
    """How objects of a class are mapped, which know their shape: the pytree of one lane, and of all of them.

    Attributes:
        inward: of an object and an axis, a tree with the same leaves whose structure is that of one lane.
        outward: of a tree with the leaves of all lanes in the structure of one, and the axis, the object.
    """

    inward: Callable[[Any, int], Any]
    outward: Callable[[Any, int], Any]


#: The classes that are mapped as objects; filled where they are defined.
LANES: dict[type, Lanes] = {}


def _mapped_as_object(x: Any) -> bool:
    return type(x) in LANES


def _each_object(
    tree: Any, axes: Any, what: str, function: str, direction: Callable[[Lanes], Callable[[Any, int], Any]]
) -> Any:
    """A tree whose objects that know their shape are those of one lane, or of all."""
    leaves, structure = tree_util.tree_flatten(tree, _mapped_as_object)
    if not any(map(_mapped_as_object, leaves)):
        return tree
    places = _broadcast_prefix(axes, tree_util.tree_unflatten(structure, range(len(leaves))), what, function)
    return tree_util.tree_unflatten(
        structure,
        [
            direction(LANES[type(x)])(x, axis) if _mapped_as_object(x) and axis is not None else x
            for x, axis in zip(leaves, places)
        ],
    )


def _check_axes(value: Any, what: str) -> None:
    leaves, _ = tree_util.tree_flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, int) or isinstance(leaf, bool):
            raise TypeError(
                f"vmap {what} must be an int, None, or a (nested) container with those types as leaves, got {leaf!r} "
                f"of type {type(leaf).__name__}"
            )


def _broadcast_prefix(prefix: Any, tree: Any, what: str, function: str) -> list[int | None]:
    """A tree prefix of axes, None among its leaves, as one axis for each leaf of `tree`."""
    try:
        return tree_util.broadcast_prefix(prefix, tree)
    except ValueError as error:
        raise ValueError(
            f"vmap {what} specification must be a tree prefix of the corresponding value of {function}, got "
            f"specification {prefix!r} for value tree {tree_util.tree_flatten(tree)[1]}{where(current_source())}: {error}"
        ) from None


def _mapped_size(
    leaves: Sequence[Any],
    axes: Sequence[int | None],
    names: Callable[[], list[str]],
    axis_size: int | None,
    function: str,
) -> int:
    sizes: dict[int, list[str]] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes)):
        if axis is None:
            continue
        aval = _outer_aval(x)
        if not -aval.ndim <= axis < aval.ndim:
            raise ValueError(
                f"vmap of {function} was requested to map its argument along axis {axis}, which implies that its rank "
                f"should be at least {axis + 1 if axis >= 0 else -axis}, but argument {names()[i]} has rank {aval.ndim} "
                f"(its shape is {aval.shape}){where(current_source())}"
            )
        sizes.setdefault(aval.shape[axis], []).append(f"{names()[i]} of type {aval.short()} along axis {axis}")
    if axis_size is not None:
        sizes.setdefault(axis_size, []).append(f"axis_size={axis_size}")
    if not sizes:
        raise ValueError(
            f"vmap of {function} must have at least one non-None value in in_axes, or axis_size{where(current_source())}"
        )
    if len(sizes) > 1:
        lines = "\n".join(
            f"  * size {n}: {', '.join(who)}" for n, who in sorted(sizes.items(), key=lambda s: -len(s[1]))
        )
        raise ValueError(
            f"vmap of {function} got inconsistent sizes for array axes to be mapped{where(current_source())}:\n{lines}"
        )
    return next(iter(sizes))


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """A function that applies `fun` to each slice of its arguments, as one batched computation.

    Args:
        fun: a function of arrays and pytrees.
        in_axes: which dimension of each positional argument is mapped: an int for all, or a tuple with an int, None
            (not mapped), or a pytree prefix of them for each argument. Keyword arguments are mapped along dimension 0.
        out_axes: where the mapped dimension is in the results: an int, None (the result must not depend on the mapped
            arguments), or a pytree prefix of them.
        axis_name: a name for the mapped dimension, for collectives (`lax.psum` and others) inside `fun`.
        axis_size: the mapped size, where no argument is mapped.
        spmd_axis_name: a mesh axis that the mapped dimension is spread over.

    Raises:
        ValueError: sizes differ, or an axis does not exist; the message names the arguments.
        TypeError: `in_axes` is no int, None or tuple (or list), or an axis in `in_axes` or `out_axes` is no int or
            None.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> quire.vmap(lambda x, y: x @ y)(qnp.ones((2, 3)), qnp.ones((2, 3))).shape
        (2,)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, int | tuple)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed "
            f"to the function, but got {in_axes!r}"
        )
    _check_axes(in_axes, "in_axes")
    _check_axes(out_axes, "out_axes")
    name = name_of(fun)

    @wraps(fun)
    def batched(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        if LANES:
            args = _each_object(args, in_axes, "in_axes", name, lambda lanes: lanes.inward)
            kwargs = _each_object(kwargs, 0, "in_axes", name, lambda lanes: lanes.inward)
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        axes = [
            *_broadcast_prefix(in_axes, args, "in_axes", name),
            *([0] * (len(leaves) - len(tree_util.tree_flatten(args)[0]))),
        ]

        def names() -> list[str]:
            return leaf_names(fun, args, kwargs)

        size = _mapped_size(leaves, axes, names, axis_size, name)
        dims = [None if a is None else a % _outer_aval(x).ndim for x, a in zip(leaves, axes)]
        axis = Axis(size, axis_name, spmd_axis_name)
        mapped = [(x, d) for x, d in zip(leaves, dims) if d is not None]
        values = [_words(x) for x, _ in mapped]
        divided = _mapped_division([aval_of(x) for x in values], [d for _, d in mapped], name)
        if divided is not None and spmd_axis_name is not None:
            _check_one_axis(spmd_axis_name, divided.spec[0])
            axis = Axis(size, axis_name)
        out_tree: Any = None
        keys_out: list[str | None] = []

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree, keys_out
            given = iter([_like(whole, x) for x, (whole, _) in zip(xs, mapped)])
            full = [x if d is None else next(given) for x, d in zip(leaves, dims)]
            call_args, call_kwargs = tree_util.tree_unflatten(tree, full)
            out, out_tree = tree_util.tree_flatten(fun(*call_args, **call_kwargs))
            keys_out = [x.impl if is_keys(x) else None for x in out]
            out = [x.base if is_keys(x) else x for x in out]
            for x in out:
                _check_output(x, name)
            return out

        avals = [_without(aval_of(x), d) for x, (_, d) in zip(values, mapped)]
        with _named_axis(axis):
            jaxpr, captured, _ = trace_flat(flat, avals, name=f"vmap of {name}", staging=False)
        traced, count = jaxpr, len(captured)
        # Rules of the user's stay: a derivative may follow.
        opened = open_refs(jaxpr, captured, values, what=f"vmap of {name}", derivatives=True)
        refuse_mapped(opened, count, traced, f"vmap of {name}")
        jaxpr, captured = opened.jaxpr, opened.captured
        values = [*captured, *(get(x) if isinstance(x, Ref) else x for x in values)]
        key_reuse.check_call(jaxpr, values)
        with appended(f"vmap of {name}", jaxpr, captured) as keep:
            outs, out_dims = batch_eval(jaxpr, values, [*[None] * len(captured), *(d for _, d in mapped)], axis)
            if opened.places:
                n = len(outs) - len(opened.places)
                at = [mapped[i - count][1] for i in opened.positions]
                opened.store([_place(x, d, w, axis, name, None) for x, d, w in zip(outs[n:], out_dims[n:], at)])
                outs, out_dims = outs[:n], out_dims[:n]
            keep(outs)
        wanted = _broadcast_prefix(
            out_axes, tree_util.tree_unflatten(out_tree, list(range(len(outs)))), "out_axes", name
        )
        if divided is not None:  # what is the same for all lanes is stacked as the lanes are divided
            outs, out_dims = _stacked(outs, out_dims, wanted, axis.size, divided)
        placed = [_place(x, d, w, axis, name, k) for x, d, w, k in zip(outs, out_dims, wanted, keys_out)]
        result = tree_util.tree_unflatten(out_tree, placed)
        return _each_object(result, out_axes, "out_axes", name, lambda lanes: lanes.outward) if LANES else result

    batched.__doc__ = f"Vectorized version of {name}, of which the mapped arguments have a dimension more."
    if doc := getattr(fun, "__doc__", None):
        batched.__doc__ += f"\n\nOriginal documentation:\n\n{doc}"
    return batched


def _outer_aval(x: Any) -> ShapedArray:
    """The type that a user sees: an array of keys has the dimensions of the keys, not that of their words."""
    return _without(aval_of(_words(x)), x.ndim) if is_keys(x) or type(x) is KeyRef else aval_of(x)


def _words(x: Any) -> Any:
    """The array that an array of keys, or a reference to one, is made of; of others the value itself."""
    return x.base if is_keys(x) else x.words if type(x) is KeyRef else x


def _mapped_division(avals: Sequence[ShapedArray], dims: Sequence[int], function: str) -> NamedSharding | None:
    """How the mapped dimension is divided along explicit axes, as the sharding of a vector; None where it is not.

    Raises ValueError where the arguments' are divided otherwise.
    """
    found: dict[Any, NamedSharding | None] = {}
    for a, d in zip(avals, dims):
        entry = None if a.division is None else a.sharding.spec[d]
        found[entry] = None if entry is None else a.sharding.update(spec=PartitionSpec(entry))
    if len(found) > 1:
        given = ", ".join(f"{a.short()} along dimension {d}" for a, d in zip(avals, dims))
        raise ValueError(
            f"vmap of {function}: Mapped away dimension of inputs passed to vmap should be sharded the same. Got inconsistent "
            f"axis specs: {' vs '.join(map(str, found))} of {given}; give quire.reshard(x, ...) of one"
        )
    return next(iter(found.values()), None)


def _check_one_axis(spmd_axis_name: Any, entry: Any) -> None:
    names = tuple(spmd_axis_name) if isinstance(spmd_axis_name, tuple | list) else (spmd_axis_name,)
    if names != axes_of(entry):
        raise ValueError(
            "vmap: Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is allowed. Got "
            f"spmd_axis_name={names} and arrays sharded on explicit_mesh_axis={axes_of(entry)}: leave spmd_axis_name out"
        )


def _stacked(
    outs: Sequence[Any], dims: Sequence[int | None], wanted: Sequence[int | None], size: int, divided: NamedSharding
) -> tuple[list[Any], list[int | None]]:
    """The results with a batch dimension wherever one is wanted, divided as the mapped dimension of the arguments is."""
    placed: list[Any] = []
    found: list[int | None] = []
    for x, d, w in zip(outs, dims, wanted, strict=True):
        if d is None and w is not None:
            x = broadcast_batch(as_array(x), size, 0)
            whole = aval_of(x)
            rest = [None] * (whole.ndim - 1) if whole.division is None else whole.division.spec[1:]
            x, d = put_sharded(x, divided.update(spec=PartitionSpec(divided.spec[0], *rest))), 0
        placed.append(x)
        found.append(d)
    return placed, found


def _like(whole: Any, x: Any) -> Any:
    """Words as keys or as a reference to keys, where `whole` is such."""
    return PRNGKeyArray(x, whole.impl) if is_keys(whole) else KeyRef(x, whole.impl) if type(whole) is KeyRef else x


def _check_output(x: Any, function: str) -> None:
    refuse_refs([x], f"vmap of {function}: the function")
    try:
        aval_of(x)
    except TypeError:
        raise TypeError(
            f"vmap of {function}: the function returned {x!r} of type {type(x).__name__}, expected arrays or numbers"
        ) from None


def _without(aval: ShapedArray, dim: int) -> ShapedArray:
    return aval.along(dim)


def _place(x: Any, dim: int | None, wanted: int | None, axis: Axis, function: str, impl: str | None) -> Any:
    """A result with its batch dimension where out_axes wants it; `impl` is the generator of words that are keys."""
    if impl is not None:  # the words stay last
        rank = aval_of(x).ndim - 1 + (dim is None)
        if wanted is not None:
            _check_out_axis(wanted, rank, function)
            wanted %= rank
        return PRNGKeyArray(_place(x, dim, wanted, axis, function, None), impl)
    x = as_array(x)
    if wanted is None:
        if dim is not None:
            raise ValueError(
                f"vmap of {function} has mapped output but out_axes is None: a result depends on the mapped arguments"
                f"{where(current_source())}; give its out_axes an int"
            )
        return x
    rank = aval_of(x).ndim + (dim is None)
    _check_out_axis(wanted, rank, function)
    wanted %= rank
    return broadcast_batch(x, axis.size, wanted) if dim is None else move_dim(x, dim, wanted)


def _check_out_axis(wanted: int, rank: int, function: str) -> None:
    if not -rank <= wanted < rank:
        raise ValueError(f"vmap of {function}: out_axes {wanted} is out of bounds for a result of rank {rank}")


def _named_axis(axis: Axis) -> Any:
    return named_axis(axis.name, axis.size)

"""`pmap`: a function applied to each slice of its arguments, a device for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import mesh_axes
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import shard_map as sm
from quire.ir.primitives import structural as st
from quire.ir.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from quire.ir.source import current_source, where
from quire.ir.tracing import current_trace, trace_flat
from quire.runtime.array import Array, from_numpy, local_value
from quire.runtime.devices import devices as all_devices
from quire.runtime.placements import Place, Placement
from quire.runtime.processes.current import process

from .. import tree_util
from ..arrays.assembly import make_array_from_process_local_data
from ..arrays.key_array import hidden_dimensions
from ..arrays.placement import put_sharded
from ..compiling.compiled_function import CompiledFunction
from ..watching.tracebacks import wraps
from .functions import check_callable, name_of

# The axis of a pmap without axis_name: no collective can name it.
_ANONYMOUS = "<pmap>"


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
    global_axis_size: int | None = None,
) -> Callable[..., Any]:
    """A compiled function that applies `fun` to each slice of its arguments, a device for each slice.

    Args:
        fun: a function of arrays and pytrees.
        axis_name: a name for the mapped axis, for collectives (`lax.psum` and others) inside `fun`.
        in_axes: which dimension of each positional argument is mapped: an int, None (every device gets all of it), or a
            tuple of those or pytree prefixes. Keyword arguments are mapped along dimension 0.
        out_axes: where the mapped dimension is in the results; None: the result of the first device.
        static_broadcasted_argnums: arguments that are no arrays, the same for all devices.
        devices: as many devices as there are slices.
        backend: the backend to compile for.
        axis_size: the number of slices, where no argument is mapped.
        donate_argnums: arguments whose memory the results may take.
        global_axis_size: the number of slices of all processes.

    Of several processes each gives slices for its own devices, and gets the results of these; collectives are over
    the devices of all.

    Raises ValueError where sizes differ, a dimension does not exist or there are not as many devices as slices;
    TypeError for axes that are no ints.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> quire.pmap(lambda x: x / quire.lax.psum(x, "i"), axis_name="i")(qnp.array([1.0, 3.0])).tolist()
        [0.25, 0.75]
    """
    check_callable(fun, "pmap")
    static = (
        (static_broadcasted_argnums,)
        if isinstance(static_broadcasted_argnums, int)
        else tuple(static_broadcasted_argnums)
    )
    axis: Any = _ANONYMOUS if axis_name is None else axis_name
    name = name_of(fun)
    for given, said in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        for leaf in tree_util.tree_leaves(given):
            if not isinstance(leaf, int) or isinstance(leaf, bool):
                raise TypeError(
                    f"pmap {said}: each axis must be an int or None, got {leaf!r} of type {type(leaf).__name__}"
                )
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def mapped_axes(
        args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[set[int], list[Any], Any, list[int | None], int]:
        """The static arguments, the others' leaves and tree, the mapped dimension of each leaf, and their size."""
        chosen = {i % len(args) for i in static}
        dynamic = tuple(a for i, a in enumerate(args) if i not in chosen)
        axes_of_args: Any = in_axes
        if isinstance(in_axes, tuple):
            if len(in_axes) != len(args):  # pyright: ignore[reportUnknownArgumentType]
                raise ValueError(
                    f"pmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                    f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"  # pyright: ignore[reportUnknownArgumentType]
                )
            axes_of_args = tuple(a for i, a in enumerate(in_axes) if i not in chosen)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        leaves, tree = tree_util.flatten_arrays((dynamic, kwargs))
        count = tree_util.flatten_arrays(dynamic)[1].num_leaves
        axes = [*_prefix(axes_of_args, dynamic, "in_axes", name), *([0] * (len(leaves) - count))]
        avals = [aval_of(x) for x in leaves]
        ranks = [v.ndim - h for v, h in zip(avals, hidden_dimensions((dynamic, kwargs)), strict=True)]
        dims = [_dimension(a, n, f"in_axes of {name}", v.short()) for a, n, v in zip(axes, ranks, avals, strict=True)]
        size = _size([v.shape[d] for v, d in zip(avals, dims) if d is not None], axis_size or global_axis_size, name)
        if devices is not None and len(devices) != size:
            raise ValueError(f"pmap of {name}: {len(devices)} devices were given, for an axis of size {size}")
        return chosen, leaves, tree, dims, size

    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, tree, dims, size = mapped_axes(args, kwargs)
        avals = [aval_of(x) for x in leaves]
        mesh = AbstractMesh((size,), (axis,))
        out_tree: Any = None
        out_specs: list[PartitionSpec] = []

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            given = [
                x if d is None else st.reshape(x, (*aval_of(x).shape[:d], *aval_of(x).shape[d + 1 :]))
                for x, d in zip(xs, dims)
            ]
            rest, keywords = tree_util.tree_unflatten(tree, given)
            values = iter(rest)
            out = fun(*(a if i in chosen else next(values) for i, a in enumerate(args)), **keywords)
            found, out_tree = tree_util.flatten_arrays(out)
            wanted = _prefix(out_axes, out, "out_axes", name)
            results: list[Any] = []
            for x, w, h in zip(found, wanted, hidden_dimensions(out), strict=True):
                aval = aval_of(x)
                d = _dimension(w, aval.ndim - h + 1, f"out_axes of {name}", aval.short())
                out_specs.append(_spec(d, axis))
                results.append(x if d is None else st.reshape(x, (*aval.shape[:d], 1, *aval.shape[d:])))
            return results

        local = [v if d is None else v.update(shape=(*v.shape[:d], 1, *v.shape[d + 1 :])) for v, d in zip(avals, dims)]
        with mesh_axes({axis: size}, False):
            jaxpr, captured, _ = trace_flat(flat, local, name=f"pmap of {name}")
        out = sm.shard_map(
            [*captured, *leaves], mesh=mesh,
            in_specs=[*[PartitionSpec()] * len(captured), *(_spec(d, axis) for d in dims)],
            out_specs=out_specs, jaxpr=ClosedJaxpr(jaxpr), check_vma=False, manual_axes=frozenset((axis,)),
        )  # fmt: skip
        return tree_util.tree_unflatten(out_tree, out)

    def place_results(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results where their devices' slices lie; where there are fewer devices than slices, as they are."""
        here = all_devices(backend) if devices is None else list(devices)
        size = mapped_axes(args, kwargs)[-1]
        if len(here) < size:
            return out
        mesh = Mesh(np.array(here[:size], object), (axis,))
        leaves, tree = tree_util.flatten_arrays(out)
        dims = [
            _dimension(w, aval_of(x).ndim - h, f"out_axes of {name}", "")
            for x, w, h in zip(leaves, _prefix(out_axes, out, "out_axes", name), hidden_dimensions(out), strict=True)
        ]
        placed = [put_sharded(x, NamedSharding(mesh, _spec(d, axis)), "pmap") for x, d in zip(leaves, dims)]
        return tree_util.tree_unflatten(tree, placed)

    compiled = _Pmapped(
        mapped,
        place_results,
        static_argnums=static or None,
        donate_argnums=None if donate_argnums == () else donate_argnums,
        backend=backend,
    )
    if process().size == 1 or devices is not None:
        return compiled

    @wraps(fun)
    def across(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is not None:
            return compiled(*args, **kwargs)
        chosen = {i % len(args) for i in static}
        numbers = [i for i in range(len(args)) if i not in chosen]
        dynamic = tuple(args[i] for i in numbers)
        axes_of_args: Any = tuple(in_axes[i] for i in numbers) if isinstance(in_axes, tuple) else in_axes  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        leaves, tree = tree_util.flatten_arrays((dynamic, kwargs))
        count = tree_util.flatten_arrays(dynamic)[1].num_leaves
        axes = [*_prefix(axes_of_args, dynamic, "in_axes", name), *([0] * (len(leaves) - count))]
        hidden = hidden_dimensions((dynamic, kwargs))
        given, keywords = tree_util.tree_unflatten(tree, _global_leaves(leaves, hidden, axes, axis, backend, name))
        values = iter(given)
        return tree_util.tree_map(
            _own_rows, compiled(*(a if i in chosen else next(values) for i, a in enumerate(args)), **keywords)
        )

    return across


class _Pmapped(CompiledFunction):
    """A compiled function whose results are divided over devices, where there are several."""

    def __init__(self, f: Callable[..., Any], place_results: Callable[..., Any], **options: Any) -> None:
        super().__init__(f, **options)
        self._place_results = place_results
        self._backend = options.get("backend")

    def _argument_places(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], avals: Sequence[ShapedArray],
        names: Sequence[str],
    ) -> tuple[Place, ...]:  # fmt: skip
        """Arrays over several devices of this process are taken as they are: each device gets its own slice of them."""
        places = super()._argument_places(args, kwargs, leaves, avals, names)
        return places if process().size > 1 else tuple(None if type(p) is Placement else p for p in places)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = super().__call__(*args, **kwargs)
        if len(all_devices(self._backend)) == 1 or current_trace() is not None or process().size > 1:
            return out
        return self._place_results(out, args, kwargs)


def _global_leaves(
    leaves: Sequence[Any], hidden: Sequence[int], axes: Sequence[int | None], axis: Any, backend: str | None, name: str
) -> Any:
    """Arrays over the devices of all processes, of which this one has the slices for its own devices.

    Raises ValueError where these are more or fewer than its devices.
    """
    mesh = Mesh(np.array(all_devices(backend), object), (axis,))
    own = len(mesh.local_devices)
    out: list[Any] = []
    for x, h, a in zip(leaves, hidden, axes, strict=True):
        aval = aval_of(x)
        d = _dimension(a, aval.ndim - h, f"in_axes of {name}", aval.short())
        if d is None:
            out.append(x)
            continue
        if aval.shape[d] != own:
            raise ValueError(
                f"pmap of {name}: a process gives as many slices as it has devices, {own}; dimension {d} of {aval.short()} "
                f"has {aval.shape[d]}"
            )
        shape = (*aval.shape[:d], mesh.size, *aval.shape[d + 1 :])
        out.append(make_array_from_process_local_data(NamedSharding(mesh, _spec(d, axis)), x, shape))
    return out


def _own_rows(x: Any) -> Any:
    """What this process has of a result, as an array of its own."""
    if type(x) is not Array or x.is_fully_addressable:
        return x
    value = local_value(x)
    return from_numpy(value, x.aval.update(shape=value.shape))


def _prefix(axes: Any, tree: Any, what: str, name: str) -> list[int | None]:
    """One axis for each array of the arguments or of the results."""
    leaves, treedef = tree_util.flatten_arrays(tree)
    try:
        return tree_util.broadcast_prefix(axes, tree_util.tree_unflatten(treedef, list(range(len(leaves)))))
    except ValueError as error:
        raise ValueError(
            f"pmap {what} specification must be a tree prefix of the corresponding value of {name}, got specification "
            f"{axes!r} for value tree {treedef}{where(current_source())}: {error}"
        ) from None


def _dimension(axis: int | None, rank: int, what: str, given: str) -> int | None:
    if axis is None:
        return None
    if not -rank <= axis < rank:
        raise ValueError(f"pmap: {what}: axis {axis} is out of bounds for {given}{where(current_source())}")
    return axis % rank


def _size(sizes: Sequence[int], axis_size: int | None, name: str) -> int:
    found = {*sizes, *(() if axis_size is None else (axis_size,))}
    if not found:
        raise ValueError(f"pmap of {name} must have at least one non-None value in in_axes, or axis_size")
    if len(found) > 1:
        raise ValueError(f"pmap of {name} got inconsistent sizes for array axes to be mapped: {sorted(found)}")
    size = found.pop()
    if not size:
        raise ValueError(
            f"pmap of {name}: the mapped axis has no elements, and no device has a part of it: give at least one, or use vmap"
            f"{where(current_source())}"
        )
    return size


def _spec(dim: int | None, axis: Any) -> PartitionSpec:
    return PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, axis)


__all__ = ["pmap"]

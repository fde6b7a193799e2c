"""`checkpoint`: trade memory for computation. Intermediate values are computed again in the backward pass."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import axes_key
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.calls import checkpoint_p
from quire.ir.primitives.calls import name as _name
from quire.ir.sharding import AbstractMesh
from quire.ir.tracing import Tracer, current_trace, trace_flat

from .. import tree_util
from ..arrays.explicit import arguments_on, mesh_of_leaves
from ..arrays.references import refuse_refs
from ..compiling.arguments import Static
from ..watching.tracebacks import wraps
from .functions import check_callable, name_of, partial_positions

Policy = Callable[..., bool]


def everything_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Keep every value: as if there were no checkpoint."""
    return True


def nothing_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Keep nothing but the function's inputs; the default."""
    return False


def dots_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Keep the results of contractions, which cost most to compute again."""
    return prim.name in ("dot_general", "conv_general_dilated")


checkpoint_dots = dots_saveable


def dots_with_no_batch_dims_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Keep the results of contractions without batch dimensions."""
    if prim.name != "dot_general":
        return False
    (_, _), (left_batch, right_batch) = params["dimension_numbers"]
    return not left_batch and not right_batch


checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


class _Named:
    """A policy by the names that `checkpoint_name` gave."""

    def __init__(self, names: Sequence[str], save: bool, others: bool) -> None:
        self.names, self.save, self.others = frozenset(names), save, others

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> bool:
        if prim.name != "name":
            return self.others
        return self.save if params["name"] in self.names else not self.save

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.names, self.save, self.others))


def save_only_these_names(*names: str) -> Policy:
    """Keep only the values that `checkpoint_name` gave one of these names."""
    return _Named(names, True, False)


def save_any_names_but_these(*names: str) -> Policy:
    """Keep only named values whose name is none of these."""
    return _Named(names, False, False)


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep everything but the values with these names."""
    return _Named(names, False, True)


class _Both:
    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = tuple(policies)

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> bool:
        return any(p(prim, *avals, **params) for p in self.policies)


def save_from_both_policies(*policies: Policy) -> Policy:
    """Keep what any of the policies keeps."""
    return _Both(policies)


class checkpoint_policies:
    """The policies: which intermediate values a checkpointed function may keep for its backward pass."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = staticmethod(dots_saveable)
    checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = staticmethod(dots_with_no_batch_dims_saveable)
    checkpoint_dots_with_no_batch_dims = staticmethod(dots_with_no_batch_dims_saveable)
    save_only_these_names = staticmethod(save_only_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """`fun`, whose intermediate values are computed again when it is differentiated in reverse, instead of kept.

    It is traced once for the types of its arguments, whose values it does not see: Python does not branch on them.

    Args:
        fun: a function of arrays and pytrees.
        prevent_cse: keep the second computation apart from the first; False is fine inside `scan`.
        policy: which values may be kept nevertheless, one of `checkpoint_policies`; nothing by default.
        static_argnums: positions of arguments that are Python values.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> float(quire.grad(quire.checkpoint(lambda x: qnp.sin(qnp.sin(x))))(0.0))
        1.0
    """
    if fun is None:
        return functools.partial(checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
    check_callable(fun, "checkpoint")
    what = f"checkpoint of {name_of(fun)}"

    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if config.options.disable_jit and current_trace() is None:
            return fun(*args, **kwargs)
        static = set(partial_positions(static_argnums, len(args), what)) if static_argnums != () else set()
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, tree = tree_util.flatten_arrays((dynamic, kwargs))
        avals = [aval_of(x) for x in leaves]
        fixed = {i: args[i] for i in sorted(static)}
        mesh = mesh_of_leaves(leaves)
        key = (
            tree,
            tuple(avals),
            mesh,
            *((i, Static(x)) for i, x in fixed.items()),
            config.options.trace_key,
            axes_key(),
        )
        known = _known(fun, fixed.values())
        traced = known.get(key)
        if traced is None:
            traced = _trace(fun, what, fixed, tree, avals, mesh)
            if not any(isinstance(c, Tracer) for c in traced[1]):
                known[key] = traced
        closed, captured, out_tree = traced
        outs = checkpoint_p.bind(
            *captured, *leaves, jaxpr=closed, prevent_cse=prevent_cse, differentiated=False, policy=policy
        )
        return tree_util.tree_unflatten(out_tree, outs)

    return checkpointed


# By the function, as long as it lives: `checkpoint(f)` twice traces once, as in JAX.
_traces: weakref.WeakKeyDictionary[FunctionType, dict[Any, Any]] = weakref.WeakKeyDictionary()


def _known(fun: Callable[..., Any], static: Iterable[Any]) -> dict[Any, Any]:
    """The traces of a plain function; those of other callables, which may change, are not kept."""
    if type(fun) is not FunctionType or not all(isinstance(x, Hashable) for x in static):
        return {}
    return _traces.setdefault(fun, {})


def _trace(
    fun: Callable[..., Any], what: str, fixed: Mapping[int, Any], tree: Any, avals: Sequence[ShapedArray],
    mesh: AbstractMesh | None,
) -> tuple[ClosedJaxpr, list[Any], Any]:  # fmt: skip
    """The function as a jaxpr, what it captured, and the tree of its results."""
    out_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        given, keywords = tree_util.tree_unflatten(tree, xs)
        full = list(given)
        for i, x in fixed.items():
            full.insert(i, x)
        out, out_tree = tree_util.flatten_arrays(fun(*full, **keywords))
        refuse_refs(out, what)
        return out

    with arguments_on(mesh):
        jaxpr, captured, _ = trace_flat(flat, avals, name=what)
    return ClosedJaxpr(jaxpr, ()), captured, out_tree


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """x, with a name by which a checkpoint policy can select it. x may be a pytree."""
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [_name(leaf, name) for leaf in leaves])

"""Rematerialisation: `checkpoint` (`remat`), its policies, and names for values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.tracing import trace_flat

from .functions import check_callable, name_of
from .tree_util import tree_flatten, tree_unflatten

F = TypeVar("F", bound=Callable[..., Any])
Policy = Callable[..., bool]


def checkpoint(
    fun: F | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> F | Callable[[F], F]:
    """A function whose intermediate values are computed again in the backward pass instead of being kept.

    Args:
        fun: the function; without it a decorator is returned.
        prevent_cse: keep the second computation apart from the first (not needed inside `scan`).
        policy: which results may be kept nevertheless, of `checkpoint_policies`; None: none.
        static_argnums: positions of arguments that are no arrays, or that Python branches on.

    Example: ``quire.grad(quire.checkpoint(layer))``.
    """
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums
        )  # pyright: ignore[reportReturnType]
    check_callable(fun, "checkpoint")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = {n % len(args) for n in numbers} if args else set()
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, in_tree = tree_flatten((dynamic, kwargs))
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            given, named = tree_unflatten(in_tree, xs)
            values = iter(given)
            full = [a if i in static else next(values) for i, a in enumerate(args)]
            out, out_tree = tree_flatten(fun(*full, **named))
            return out

        jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in leaves], name=f"checkpoint of {name_of(fun)}")
        out = calls.checkpoint_p.bind(
            *captured, *leaves, jaxpr=ClosedJaxpr(jaxpr), prevent_cse=bool(prevent_cse), differentiated=False,
            policy=policy,
        )  # fmt: skip
        return tree_unflatten(out_tree, out)

    return checkpointed  # pyright: ignore[reportReturnType]


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """The values of a pytree under a name that a policy can select (`save_only_these_names`)."""
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [calls.name(leaf, str(name)) for leaf in leaves])


# -- policies -----------------------------------------------------------------------------------------------------------


def everything_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep every result: as without `checkpoint`."""
    return True


def nothing_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep nothing, the default."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products without batch dimensions."""
    return prim.name == "dot_general" and not any(params["dimension_numbers"][1])


@dataclass(frozen=True)
class _Names:
    """Keep values by their `checkpoint_name`: those listed, or (unless `only`) all named ones but those listed."""

    names: frozenset[str]
    only: bool
    unnamed: bool = False  # whether values without a name are kept too

    def __call__(self, prim: Primitive, *_: Any, **params: Any) -> bool:
        if prim is calls.name_p:
            return (params["name"] in self.names) == self.only
        return self.unnamed


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep the values of these names only."""
    return _Names(frozenset(names_which_can_be_saved), True)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep the values that have a name, except these."""
    return _Names(frozenset(names_not_to_save), False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep every value except those of these names."""
    return _Names(frozenset(names_not_to_save), False, True)


@dataclass(frozen=True)
class _Both:
    first: Policy
    second: Policy

    def __call__(self, prim: Primitive, *avals: Any, **params: Any) -> bool:
        return self.first(prim, *avals, **params) or self.second(prim, *avals, **params)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps."""
    return _Both(policy_1, policy_2)


class checkpoint_policies:
    """The policies of `checkpoint`, under JAX's names."""

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

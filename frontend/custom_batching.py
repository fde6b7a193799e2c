"""Functions with a rule of their own for `vmap`, as `jax.custom_batching`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls
from quire.ir.source import current_source, where
from quire.ir.tracing import trace_flat

from . import lax, tree_util
from .transforms.custom_derivatives import FORWARDED


@dataclass(frozen=True)
class _FlatRule:
    """The user's rule on flat values."""

    name: str
    rule: Callable[..., Any]
    in_tree: Any
    out_tree: Any

    @property
    def __name__(self) -> str:
        return getattr(self.rule, "__name__", "rule")

    def __call__(self, size: int, in_batched: Sequence[bool], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        given = tree_util.tree_unflatten(self.in_tree, in_batched)
        result = self.rule(size, list(given), *tree_util.tree_unflatten(self.in_tree, args))
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError(
                f"custom_vmap {self.name}: the rule must return a pair (results, which are batched), got {result!r}"
            )
        outs, tree = tree_util.flatten_arrays(result[0])
        batched, batched_tree = tree_util.flatten_arrays(result[1])
        if batched_tree != tree:
            raise ValueError(
                f"custom_vmap {self.name}: the rule must return a bool for each result, in the same structure: "
                f"results {tree}, bools {batched_tree}"
            )
        if tree != self.out_tree:
            raise ValueError(
                f"custom_vmap {self.name}: the rule must return the structure that the function returns, {self.out_tree}, "
                f"got {tree}"
            )
        return outs, [bool(b) for b in batched]


class custom_vmap:
    """A function with a batching rule of its own (`jax.custom_batching.custom_vmap`).

    The rule, given by `def_vmap`, is ``rule(axis_size, in_batched, *args) -> (results, out_batched)``: `in_batched`
    holds for each argument a pytree of bools, batched leaves have the lanes as dimension 0, and `out_batched` has a
    bool for each result. It is not checked that the rule computes what the function does.

    Differentiation takes the function, not the rule: the derivative is batched in the ordinary way. To give both,
    wrap the custom_vmap function in `custom_vjp`.

    Raises AttributeError when it is called before a rule is given.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.custom_batching.custom_vmap
        ... def f(x, y):
        ...     return x + y
        >>> @f.def_vmap
        ... def rule(axis_size, in_batched, xs, ys):
        ...     return xs * ys, True
        >>> quire.vmap(f)(qnp.arange(3), qnp.arange(1, 4)).tolist()
        [0, 2, 6]
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        if not callable(fun):
            raise TypeError(f"custom_vmap: expected a function, got {fun!r}")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.__name__: str = getattr(fun, "__name__", type(fun).__name__)
        self.vmap_rule: Callable[..., Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in FORWARDED and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"'custom_vmap' object has no attribute {name!r}")

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; returns it, so that it can be used as a decorator.

        Raises:
            TypeError: `vmap_rule` is not a function.
        """
        if not callable(vmap_rule):
            raise TypeError(f"custom_vmap {self.__name__}: the rule must be a function, got {vmap_rule!r}")
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise AttributeError(
                f"custom_vmap {self.__name__}: no batching rule is defined{where(current_source(2))}: give one by "
                f"@{self.__name__}.def_vmap"
            )
        if kwargs:  # the rule takes arguments by position
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
            bound.apply_defaults()
            if bound.kwargs:
                raise TypeError(f"custom_vmap {self.__name__}: keyword-only arguments are not possible: {bound.kwargs}")
            args = bound.args
        leaves, in_tree = tree_util.flatten_arrays(args)
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            out, out_tree = tree_util.flatten_arrays(self.fun(*tree_util.tree_unflatten(in_tree, xs)))
            return out

        jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in leaves], name=f"custom_vmap {self.__name__}")
        out = calls.custom_vmap_call_p.bind(
            *captured, *leaves, name=self.__name__, call_jaxpr=ClosedJaxpr(jaxpr),
            rule=_FlatRule(self.__name__, self.vmap_rule, in_tree, out_tree), num_consts=len(captured),
        )  # fmt: skip
        return tree_util.tree_unflatten(out_tree, out)


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that `vmap` calls for one lane after the other, in a loop (`jax.custom_batching.sequential_vmap`).

    Example:
        >>> import quire, quire.numpy as qnp
        >>> f = quire.custom_batching.sequential_vmap(lambda x: x + 1)
        >>> quire.vmap(f)(qnp.arange(3)).tolist()
        [1, 2, 3]
    """
    function = custom_vmap(f)

    @function.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_util.flatten_arrays(args)
        flags = tree_util.tree_leaves(in_batched)

        def lane(rows: Sequence[Any]) -> Any:
            mapped = iter(rows)
            values = [next(mapped) if b else x for x, b in zip(leaves, flags)]
            return function(*tree_util.tree_unflatten(tree, values))

        out = lax.map(lane, [x for x, b in zip(leaves, flags) if b])
        return out, tree_util.tree_map(lambda _: True, out)

    return function


__all__ = ["custom_vmap", "sequential_vmap"]

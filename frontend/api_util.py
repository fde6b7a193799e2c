"""Functions of flat arguments, for libraries that make transformations (`jax.api_util`).

The functions are `quire.extend.linear_util.WrappedFun`: what they flatten and unflatten is a transformation around them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import DebugInfo

from . import tree_util
from .absent_names import module_getattr
from .arrays.key_array import is_keys
from .extend.linear_util import Store, WrappedFun, transformation2, transformation_with_aux2


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`map` as a list; ValueError for arguments of different lengths."""
    return [f(*row) for row in zip(*args, strict=True)]


@transformation_with_aux2
def flatten_fun(f: Callable[..., Any], store: Store, in_tree: Any, *args_flat: Any) -> list[Any]:
    """A function of the leaves of ``(args, kwargs)``, which are in `in_tree`; beside it one that gives the results' tree."""
    args, kwargs = tree_util.tree_unflatten(in_tree, args_flat)
    leaves, tree = tree_util.tree_flatten(f(*args, **kwargs))
    store.store(tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(f: Callable[..., Any], store: Store, in_tree: Any, *args_flat: Any) -> list[Any]:
    """A function of the leaves of the positional arguments; beside it one that gives the results' tree."""
    leaves, tree = tree_util.tree_flatten(f(*tree_util.tree_unflatten(in_tree, args_flat)))
    store.store(tree)
    return leaves


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """A function of some of the arguments, the others being fixed; and the arguments that are left.

    Args:
        f: the function of all positional arguments.
        dyn_argnums: the numbers of the arguments that are left; negative ones count from the end.
        args: all arguments.
        require_static_args_hashable: refuse fixed arguments that have no hash.

    Raises:
        ValueError: a fixed argument has no hash.
    """
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    left = {n % len(args) if n < 0 else n for n in numbers}
    fixed = tuple((i, x) for i, x in enumerate(args) if i not in left)
    if require_static_args_hashable:
        for i, x in fixed:
            try:
                hash(x)
            except TypeError:
                raise ValueError(
                    f"quire.api_util.argnums_partial: argument {i}, which is fixed, has no hash: {type(x).__name__}"
                ) from None
    dynamic = tuple(args[i] for i in sorted(left))
    return _with_fixed(f, len(args), tuple(sorted(left)), _Fixed(fixed)), dynamic


class _Fixed:
    """Fixed arguments, compared by identity."""

    def __init__(self, values: tuple[tuple[int, Any], ...]) -> None:
        self.values = values


@transformation2
def _with_fixed(
    f: Callable[..., Any], n: int, left: tuple[int, ...], fixed: _Fixed, *dynamic: Any, **kwargs: Any
) -> Any:
    args: list[Any] = [None] * n
    for i, x in fixed.values:
        args[i] = x
    for i, x in zip(left, dynamic, strict=True):
        args[i] = x
    return f(*args, **kwargs)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """The axis of each leaf, where `axis_tree` is a tree prefix of the arguments; None stands for no axis.

    Raises:
        ValueError: `axis_tree` is no prefix of the tree.
    """
    dummy = tree_util.tree_unflatten(treedef, [object()] * treedef.num_leaves)
    given = (axis_tree, {}) if kws else axis_tree
    axes: list[Any] = []

    def fill(axis: Any, part: Any) -> None:
        axes.extend([axis] * tree_util.tree_structure(part).num_leaves)

    try:
        if kws:
            tree_util.tree_map(fill, given[0], dummy[0], is_leaf=lambda x: x is None)
            fill(0, dummy[1])
        else:
            tree_util.tree_map(fill, given, dummy, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value, got specification {axis_tree!r} for "
            f"value tree {treedef}: {error}"
        ) from None
    return axes


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Which leaves of the arguments ``(args, kwargs)`` are donated."""
    args, kwargs = tree_util.tree_unflatten(in_tree, [0] * in_tree.num_leaves) if kws else (
        tree_util.tree_unflatten(in_tree, [0] * in_tree.num_leaves), {})  # fmt: skip
    count = [(tree_util.tree_structure(x).num_leaves, i in donate_argnums) for i, x in enumerate(args)]
    count += [(tree_util.tree_structure(kwargs[k]).num_leaves, k in donate_argnames) for k in sorted(kwargs)]
    return tuple(donated for n, donated in count for _ in range(n))


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """The numbers of donated arguments among those that are not static.

    Raises:
        ValueError: an argument is both.
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(f"quire.api_util.rebase_donate_argnums: arguments {sorted(both)} are both donated and static")
    return tuple(sorted(n - sum(s < n for s in static_argnums) for n in donate_argnums))


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array, a traced value, a number, or anything that has a shape and a dtype.

    Raises:
        TypeError: it is none of these.
    """
    if not is_keys(x) and not hasattr(x, "aval") and hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(tuple(x.shape), x.dtype, getattr(x, "weak_type", False))
    return aval_of(x)


def debug_info(
    traced_for: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *,
    static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (), result_paths_thunk: Any = None,
    sourceinfo: str | None = None, signature: inspect.Signature | None = None,
) -> DebugInfo:  # fmt: skip
    """What is known of a function that is traced: its name and those of its arguments, for messages.

    Args:
        traced_for: the transformation.
        fun: the function.
        args, kwargs: its arguments.
        static_argnums, static_argnames: those that are not traced.
        result_paths_thunk, sourceinfo: what is known of the results, and of the function's place; they are kept.
        signature: the function's, where it is known better.
    """
    try:
        found = inspect.signature(fun) if signature is None else signature
        names = list(found.bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        names = [f"args[{i}]" for i in range(len(args))] + list(kwargs)
    traced = tuple(n for i, n in enumerate(names) if i not in static_argnums and n not in static_argnames)
    place = sourceinfo or f"{getattr(fun, '__name__', type(fun).__name__)}"
    return DebugInfo(traced_for, place, traced, None)


__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs",
    "rebase_donate_argnums", "safe_map", "shaped_abstractify",
]  # fmt: skip

__getattr__ = module_getattr("quire.api_util", globals())

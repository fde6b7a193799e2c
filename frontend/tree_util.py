"""Pytrees: nested containers of arrays, flattened by optree. None is a container without leaves, as in JAX."""

from __future__ import annotations

from typing import Any

import optree

NAMESPACE = "quire"


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure."""
    return optree.tree_flatten(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE)


def tree_unflatten(treedef: Any, leaves: Any) -> Any:
    """The tree of that structure with these leaves."""
    return optree.tree_unflatten(treedef, leaves)


def is_single_leaf(treedef: Any) -> bool:
    """Whether the tree is one leaf."""
    return treedef.is_leaf()


_flat_tuples: dict[int, Any] = {}


def is_flat_tuple(treedef: Any, n: int) -> bool:
    """Whether the tree is ``((leaf, ..., leaf), {})`` with n leaves: n positional arrays."""
    flat = _flat_tuples.get(n)
    if flat is None:
        flat = _flat_tuples[n] = tree_flatten(((0,) * n, {}))[1]
    return treedef == flat


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """A tree prefix of `tree` as one value for each of its leaves; None in the prefix is a value.

    Raises ValueError where it is not a prefix.
    """
    values, treedef = optree.tree_flatten(prefix, none_is_leaf=True, namespace=NAMESPACE)
    out: list[Any] = []
    for value, part in zip(values, treedef.flatten_up_to(tree)):
        out.extend([value] * len(tree_flatten(part)[0]))
    return out

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

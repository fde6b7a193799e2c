"""Where in a tree its leaves are: paths of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree

from .keys import DictKey, FlattenedIndexKey, GetAttrKey, GivenKey, KeyPath, SequenceKey
from .mapping import flatten_up_to
from .structures import NAMESPACE, flatten_one_level, is_tree_leaf, sorted_dicts, tree_structure


def _key(entry: Any) -> Any:
    """The key of one of optree's accessor entries."""
    raw = entry.entry
    if isinstance(raw, GivenKey):
        return raw.key
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(raw)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(raw)
    if isinstance(entry, optree.GetAttrEntry):
        return GetAttrKey(raw)
    return FlattenedIndexKey(raw)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], Any]:
    """The leaves of a tree with their paths, and its structure.

    >>> quire.tree_util.tree_flatten_with_path({"a": [5]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    if is_leaf is not None and is_leaf_takes_path:
        out: list[tuple[KeyPath, Any]] = []
        _walk((), tree, is_leaf, out)
        marks = {id(leaf) for _, leaf in out}
        return out, tree_structure(tree, lambda x: id(x) in marks)
    accessors, leaves, treedef = optree.tree_flatten_with_accessor(
        tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE
    )
    return [(tuple(map(_key, a)), leaf) for a, leaf in zip(accessors, leaves)], sorted_dicts(treedef)


def _walk(path: KeyPath, tree: Any, is_leaf: Callable[..., bool], out: list[tuple[KeyPath, Any]]) -> None:
    if is_leaf(path, tree) or is_tree_leaf(tree):
        out.append((path, tree))
        return
    for key, child in children_with_keys(tree):
        _walk((*path, key), child, is_leaf, out)


def children_with_keys(tree: Any) -> list[tuple[Any, Any]]:
    """The children of a node with their keys."""
    pairs, _ = tree_flatten_with_path(tree, lambda x: x is not tree)
    return [(path[0], child) for path, child in pairs]


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a node with their keys, and its metadata.

    Raises:
        ValueError: it is a leaf.
    """
    flat = flatten_one_level(tree)
    return children_with_keys(tree), flat[1]


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree with their paths.

    >>> quire.tree_util.tree_leaves_with_path([5])
    [((SequenceKey(idx=0),), 5)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """`tree_map` of a function that takes the path of the leaf first.

    >>> quire.tree_util.tree_map_with_path(lambda path, x: quire.tree_util.keystr(path), {"a": [5]})
    {'a': ["['a'][0]"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [[p for p, _ in pairs], [leaf for _, leaf in pairs]]
    columns += [flatten_up_to(treedef, tree, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten(map(f, *columns))

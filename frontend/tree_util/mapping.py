"""Functions of the leaves of one tree, or of several of one structure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import optree

from .keys import GivenKey, Key
from .structures import NAMESPACE, IsLeaf, is_tree_leaf, tree_flatten, tree_leaves, tree_structure


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of `f` of the leaves.

    Args:
        f: takes one leaf of `tree` and the corresponding subtree of each tree of `rest`.
        tree: its structure is that of the result, and a prefix of those of `rest`.
        is_leaf: which subtrees of `tree` count as leaves.

    Raises:
        ValueError: a tree of `rest` has another structure; the message names the first place where it differs.

    >>> quire.tree_util.tree_map(lambda x, y: x + y, {"a": 1}, {"a": 10})
    {'a': 11}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten(map(f, leaves))
    columns = [leaves, *[flatten_up_to(treedef, tree, r, i) for i, r in enumerate(rest)]]
    return treedef.unflatten(map(f, *columns))


def flatten_up_to(treedef: Any, tree: Any, other: Any, position: int) -> list[Any]:
    """The subtrees of `other` at the leaves of `treedef`, the structure of `tree`.

    Raises ValueError where it is no prefix of the other's structure: `other` is the tree of that number after the first.
    """
    try:
        return treedef.flatten_up_to(other)
    except ValueError as error:
        where = next(structure_differences(tree, other), None)
        at = f" at {where[0] or 'the root'}: {where[1]}" if where else f": {error}"
        raise ValueError(
            f"tree_map: the structure of the first tree is no prefix of that of tree {position + 2}; they differ{at}"
        ) from None


def structure_differences(prefix: Any, tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The places where `prefix` is no prefix of `tree`: the path as Python text, and what differs there."""
    if is_tree_leaf(prefix):
        return
    if type(prefix) is not type(tree):
        yield path, f"a {type(prefix).__name__} and a {type(tree).__name__}"
        return
    children, metadata, entries, _ = optree.tree_flatten_one_level(prefix, none_is_leaf=False, namespace=NAMESPACE)
    others, other_metadata, other_entries, _ = optree.tree_flatten_one_level(
        tree, none_is_leaf=False, namespace=NAMESPACE
    )
    if isinstance(prefix, dict) and set(entries) != set(other_entries):
        yield path, f"a dict with keys {sorted(entries, key=str)} and one with keys {sorted(other_entries, key=str)}"
        return
    if len(children) != len(others):
        yield path, f"a {type(prefix).__name__} of length {len(children)} and one of length {len(others)}"
        return
    if not isinstance(prefix, dict) and metadata != other_metadata:
        yield path, f"{type(prefix).__name__} nodes with metadata {metadata!r} and {other_metadata!r}"
        return
    for entry, child, other in zip(entries, children, others):
        key = entry.key if isinstance(entry, GivenKey) else entry
        yield from structure_differences(child, other, f"{path}{key if isinstance(key, Key) else [key]}")


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, *initializer: Any, is_leaf: IsLeaf = None, **kw: Any
) -> Any:
    """A function of two arguments applied cumulatively to the leaves.

    Raises:
        TypeError: there is more than one initial value, or a keyword argument other than `initializer` and `is_leaf`.

    >>> quire.tree_util.tree_reduce(lambda a, b: a + b, {"a": 1, "b": (2, 3)})
    6
    """
    if "initializer" in kw:
        initializer = (kw.pop("initializer"), *initializer)
    if kw or len(initializer) > 1:
        raise TypeError(f"tree_reduce: unexpected arguments {list(kw) or initializer[1:]}")
    return functools.reduce(function, tree_leaves(tree, is_leaf), *initializer)


_NOTHING = object()


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _NOTHING, is_leaf: IsLeaf = None
) -> Any:
    """An associative operation over the leaves, combined in a balanced tree.

    Raises:
        TypeError: the tree has no leaves and `identity` is not given.

    >>> quire.tree_util.tree_reduce_associative(lambda a, b: a + b, [1, 2, 3])
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _NOTHING:
            raise TypeError("tree_reduce_associative: a tree without leaves needs an identity")
        return identity
    while len(leaves) > 1:
        leaves = [operation(*leaves[i : i + 2]) if i + 1 < len(leaves) else leaves[i] for i in range(0, len(leaves), 2)]
    return leaves[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true.

    >>> quire.tree_util.tree_all({"a": True, "b": 0})
    False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
    """A tree of trees with the two levels exchanged.

    Args:
        outer_treedef: the structure of the outer level.
        inner_treedef: that of the inner level; None to find it from the first inner tree.
        pytree_to_transpose: a tree of structure `outer_treedef` whose leaves are trees of structure `inner_treedef`.

    Raises:
        TypeError: the tree has not as many leaves as the two structures together.

    >>> t = quire.tree_util
    >>> t.tree_transpose(t.tree_structure([0, 0]), t.tree_structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    rows, columns = outer_treedef.num_leaves, inner_treedef.num_leaves
    # Leaves are counted, and nodes not compared: a node may keep the structure of what lies below it as its metadata.
    if len(leaves) != rows * columns:
        raise TypeError(
            f"tree_transpose: Mismatch: the tree has structure {treedef}, expected {inner_treedef} in each leaf of "
            f"{outer_treedef}"
        )
    return inner_treedef.unflatten([outer_treedef.unflatten(leaves[i::columns]) for i in range(columns)])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the structure of `full_tree` whose leaves are those of the prefix, repeated.

    >>> quire.tree_util.tree_broadcast((1, 2), ([0, 0], 0))
    ([1, 1], 2)
    """
    values, treedef = tree_flatten(prefix_tree, is_leaf)
    parts = [
        tree_map(lambda _, v=value: v, part)
        for value, part in zip(values, flatten_up_to(treedef, prefix_tree, full_tree, 0))
    ]
    return treedef.unflatten(parts)

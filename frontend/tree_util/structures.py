"""Trees taken apart and put together, and what is asked of their structures."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import optree

NAMESPACE = "quire"
# Where arrays enter and leave traced functions, containers are flattened further than for users: an array of typed keys
# is its words. Every class is registered in both namespaces.
BOUNDARY = "quire.boundary"
PyTreeDef = optree.PyTreeSpec
Leaf = Any
IsLeaf = Callable[[Any], bool] | None


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure.

    `is_leaf` tells which subtrees count as leaves.

    >>> quire.tree_util.tree_flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    leaves, treedef = optree.tree_flatten(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE)
    return leaves, sorted_dicts(treedef)


def flatten_arrays(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The arrays and numbers of which a function's arguments or results are made, and how: for the transformations."""
    leaves, treedef = optree.tree_flatten(tree, is_leaf, none_is_leaf=False, namespace=BOUNDARY)
    return leaves, sorted_dicts(treedef)


# What is known of structures: None where a tree has no dictionaries, so that there is nothing to sort; the structure to
# use instead where it is made of Python's own containers; _EACH where it holds classes of users besides, whose metadata
# may be equal and yet not the same (1 and True): each such structure is sorted by itself.
_ORDERED: dict[Any, Any] = {}
_EACH: Any = object()
_CONTAINERS = (tuple, list, dict, type(None), collections.defaultdict, collections.OrderedDict, collections.deque)


def sorted_dicts(treedef: Any) -> Any:
    """The structure with the keys of its dictionaries sorted, as JAX gives them back; optree keeps each one's own order."""
    try:
        found = _ORDERED.get(treedef, _ORDERED)
    except TypeError:  # metadata that cannot be hashed
        return optree.treespec_transform(treedef, _sorted_node)
    if found is _ORDERED:
        kinds: set[Any] = set()
        optree.treespec_transform(treedef, lambda node: kinds.add(node.type) or node)
        if not kinds & {dict, collections.defaultdict}:
            found = None
        elif all(k in _CONTAINERS or hasattr(k, "_fields") for k in kinds):
            found = optree.treespec_transform(treedef, _sorted_node)
        else:
            found = _EACH
        if len(_ORDERED) > 4096:
            _ORDERED.clear()
        _ORDERED[treedef] = found
    if found is None:
        return treedef
    return optree.treespec_transform(treedef, _sorted_node) if found is _EACH else found


def _sorted_node(node: Any) -> Any:
    """One node of a structure, its keys in the order in which its children are flattened."""
    if node.type is not dict and node.type is not collections.defaultdict:
        return node
    made = dict.fromkeys(node.entries(), optree.treespec_leaf(none_is_leaf=False))
    if node.type is dict:
        return optree.treespec_dict(made, none_is_leaf=False, namespace=node.namespace)
    factory = node.unflatten(node.entries()).default_factory
    return optree.treespec_defaultdict(factory, made, none_is_leaf=False, namespace=node.namespace)


def tree_unflatten(treedef: Any, leaves: Any) -> Any:
    """The tree of that structure with these leaves.

    >>> leaves, treedef = quire.tree_util.tree_flatten({"a": 1})
    >>> quire.tree_util.tree_unflatten(treedef, [5])
    {'a': 5}
    """
    return optree.tree_unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree.

    >>> quire.tree_util.tree_leaves((1, [2, 3]))
    [1, 2, 3]
    """
    return optree.tree_leaves(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The structure of a tree.

    >>> quire.tree_util.tree_structure((1, [2, 3])).num_leaves
    3
    """
    return sorted_dicts(optree.tree_structure(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every element is a leaf.

    >>> quire.tree_util.all_leaves([1, (2,)])
    False
    """
    return all(is_tree_leaf(x) or (is_leaf is not None and is_leaf(x)) for x in iterable)


def is_tree_leaf(x: Any) -> bool:
    """Whether x is a leaf and not a container."""
    return optree.tree_is_leaf(x, none_is_leaf=False, namespace=NAMESPACE)


def is_tree_node(typ: type) -> bool:
    """Whether the values of a type are containers: a built-in one, a named tuple, or one that is registered.

    >>> quire.tree_util.is_tree_node(list), quire.tree_util.is_tree_node(int)
    (True, False)
    """
    if typ is type(None):
        return True
    return isinstance(typ, type) and (
        optree.is_namedtuple_class(typ) or optree.register_pytree_node.get(typ, namespace=NAMESPACE) is not None
    )


def treedef_is_leaf(treedef: Any) -> bool:
    """Whether the structure is that of one leaf."""
    return treedef.is_leaf()


def treedef_children(treedef: Any) -> list[Any]:
    """The structures of the children of a node."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[Any]) -> Any:
    """The structure of a tuple of trees of these structures."""
    return optree.treespec_tuple(treedefs, none_is_leaf=False, namespace=NAMESPACE)


def flatten_one_level(tree: Any) -> tuple[Sequence[Any], Any]:
    """The children of a node and its metadata.

    Raises:
        ValueError: it is a leaf.
    """
    flat = one_level(tree)
    if flat is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return flat


def one_level(tree: Any) -> tuple[Sequence[Any], Any] | None:
    """The children of a node and its metadata; None for a leaf."""
    if is_tree_leaf(tree):
        return None
    children, metadata, *_ = optree.tree_flatten_one_level(tree, none_is_leaf=False, namespace=NAMESPACE)
    return children, tuple(cast("Any", metadata)) if type(tree) is dict else metadata


def is_single_leaf(treedef: Any) -> bool:
    """Whether the tree is one leaf."""
    return treedef.is_leaf()


def broadcast_prefix(
    prefix: Any, tree: Any, flatten: Callable[[Any], Any] = tree_flatten, is_leaf: IsLeaf = None
) -> list[Any]:
    """A tree prefix of `tree` as one value for each of its leaves, as `flatten` finds them; None in the prefix is a value.

    Raises ValueError where it is not a prefix.
    """
    values, treedef = optree.tree_flatten(prefix, is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    out: list[Any] = []
    for value, part in zip(values, treedef.flatten_up_to(tree)):
        out.extend([value] * len(flatten(part)[0]))
    return out

"""Pytrees: nested containers of arrays, flattened by optree. None is a container without leaves, as in JAX.

The functions and their semantics are those of `jax.tree_util`: dictionaries are taken in the order of their sorted keys,
namedtuples, OrderedDicts and defaultdicts are nodes, other classes are nodes once they are registered.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import optree

NAMESPACE = "quire"
# Where arrays enter and leave traced functions, containers are flattened further than for users: an array of typed keys
# is its words. Every class is registered in both namespaces.
BOUNDARY = "quire.boundary"
PyTreeDef = optree.PyTreeSpec
Leaf = Any
IsLeaf = Callable[[Any], bool] | None
C = TypeVar("C", bound=type)


# -- flattening -----------------------------------------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure.

    `is_leaf` tells which subtrees count as leaves.

    >>> quire.tree_util.tree_flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    leaves, treedef = optree.tree_flatten(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE)
    return leaves, _sorted_dicts(treedef)


def flatten_arrays(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The arrays and numbers of which a function's arguments or results are made, and how: for the transformations."""
    leaves, treedef = optree.tree_flatten(tree, is_leaf, none_is_leaf=False, namespace=BOUNDARY)
    return leaves, _sorted_dicts(treedef)


# What is known of structures: None where a tree has no dictionaries, so that there is nothing to sort; the structure to
# use instead where it is made of Python's own containers; _EACH where it holds classes of users besides, whose metadata
# may be equal and yet not the same (1 and True): each such structure is sorted by itself.
_ORDERED: dict[Any, Any] = {}
_EACH: Any = object()
_CONTAINERS = (tuple, list, dict, type(None), collections.defaultdict, collections.OrderedDict, collections.deque)


def _sorted_dicts(treedef: Any) -> Any:
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
    return _sorted_dicts(optree.tree_structure(tree, is_leaf, none_is_leaf=False, namespace=NAMESPACE))


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
    flat = default_registry.flatten_one_level(tree)
    if flat is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return flat


def _one_level(tree: Any) -> tuple[Sequence[Any], Any] | None:
    if is_tree_leaf(tree):
        return None
    children, metadata, *_ = optree.tree_flatten_one_level(tree, none_is_leaf=False, namespace=NAMESPACE)
    return children, tuple(cast("Any", metadata)) if type(tree) is dict else metadata


class Registry:
    """The classes that are nodes of pytrees: the one registry that there is (`jax.tree_util.default_registry`)."""

    def flatten(self, tree: Any, leaf_predicate: Any = None) -> tuple[list[Any], Any]:
        """`tree_flatten`."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Sequence[Any], Any] | None:
        """The children of a node and its metadata; None for a leaf."""
        return _one_level(tree)

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[list[tuple[Any, Any]], Any] | None:
        """The children of a node with their keys, and its metadata; None for a leaf."""
        flat = _one_level(tree)
        return None if flat is None else (_children_with_keys(tree), flat[1])

    def flatten_with_path(self, tree: Any, leaf_predicate: Any = None) -> tuple[list[tuple[Any, Any]], Any]:
        """`tree_flatten_with_path`."""
        return tree_flatten_with_path(tree, leaf_predicate)

    def is_node(self, typ: type) -> bool:
        """Whether the values of a type are containers."""
        return is_tree_node(typ)

    def register_node(
        self, nodetype: type, to_iterable: Any, from_iterable: Any, to_iterable_with_keys: Any = None
    ) -> None:
        """`register_pytree_node`."""
        register_pytree_node(nodetype, to_iterable, from_iterable, to_iterable_with_keys)

    def register_dataclass_node(self, nodetype: type, data_fields: Sequence[str], meta_fields: Sequence[str]) -> None:
        """`register_dataclass`."""
        register_dataclass(nodetype, data_fields, meta_fields)


default_registry = Registry()


# -- mapping --------------------------------------------------------------------------------------------------------------


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
    columns = [leaves, *[_flatten_up_to(treedef, tree, r, i) for i, r in enumerate(rest)]]
    return treedef.unflatten(map(f, *columns))


def _flatten_up_to(treedef: Any, tree: Any, other: Any, position: int) -> list[Any]:
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
        yield from structure_differences(
            child, other, f"{path}[{entry!r}]" if not isinstance(entry, Key) else f"{path}{entry}"
        )


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
        for value, part in zip(values, _flatten_up_to(treedef, prefix_tree, full_tree, 0))
    ]
    return treedef.unflatten(parts)


# -- key paths ------------------------------------------------------------------------------------------------------------


class Key:
    """Base of the keys that make up the path of a leaf."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class SequenceKey(Key):
    """The index of a list or tuple: ``[idx]``."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey(Key):
    """The key of a dictionary: ``[key]``."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey(Key):
    """The attribute of an object: ``.name``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey(Key):
    """The number of a child of a registered class that gives its children no keys."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = Any
KeyPath = tuple[Any, ...]


def _key(entry: Any) -> Any:
    """The key of one of optree's accessor entries."""
    raw = entry.entry
    if isinstance(raw, _Given):
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


@dataclasses.dataclass(frozen=True)
class _Given:
    """A key that a registered class gives its child: marked, because any object may be a key."""

    key: Any


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
    return [(tuple(map(_key, a)), leaf) for a, leaf in zip(accessors, leaves)], treedef


def _walk(path: KeyPath, tree: Any, is_leaf: Callable[..., bool], out: list[tuple[KeyPath, Any]]) -> None:
    if is_leaf(path, tree) or is_tree_leaf(tree):
        out.append((path, tree))
        return
    for key, child in _children_with_keys(tree):
        _walk((*path, key), child, is_leaf, out)


def _children_with_keys(tree: Any) -> list[tuple[Any, Any]]:
    pairs, _ = tree_flatten_with_path(tree, lambda x: x is not tree)
    return [(path[0], child) for path, child in pairs]


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a node with their keys, and its metadata.

    Raises:
        ValueError: it is a leaf.
    """
    flat = flatten_one_level(tree)
    return _children_with_keys(tree), flat[1]


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
    columns += [_flatten_up_to(treedef, tree, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten(map(f, *columns))


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: as Python would write it, or with `simple` the keys alone between separators.

    >>> t = quire.tree_util
    >>> t.keystr((t.DictKey("a"), t.SequenceKey(0))), t.keystr((t.DictKey("a"), t.SequenceKey(0)), simple=True, separator="/")
    ("['a'][0]", 'a/0')
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(map(_simple, keys))


def _simple(key: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


# -- registering classes --------------------------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a node of pytrees.

    Args:
        nodetype: the class.
        flatten_func: an object to its children and hashable metadata.
        unflatten_func: metadata and children to an object.
        flatten_with_keys_func: as flatten_func, with pairs (key, child).

    Raises:
        ValueError: the class is registered already.
    """

    def flatten(x: Any) -> tuple[Any, ...]:
        if flatten_with_keys_func is not None:
            pairs, metadata = flatten_with_keys_func(x)
            pairs = tuple(pairs)
            return tuple(child for _, child in pairs), metadata, tuple(_Given(key) for key, _ in pairs)
        children, metadata = flatten_func(x)
        return tuple(children), metadata

    def unflatten(metadata: Any, children: Any) -> Any:
        return unflatten_func(metadata, tuple(children))

    try:
        with warnings.catch_warnings():
            # A class of namedtuples is a node without being registered, and may be another kind of node all the same.
            warnings.filterwarnings("ignore", r"PyTree type .* is a subclass of", UserWarning)
            optree.register_pytree_node(nodetype, flatten, unflatten, namespace=NAMESPACE)
            optree.register_pytree_node(nodetype, flatten, unflatten, namespace=BOUNDARY)
    except ValueError as error:
        raise ValueError(f"Duplicate custom PyTreeDef type registration for {nodetype}: {error}") from None


def register_boundary_node(nodetype: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a leaf of users' pytrees that is flattened where it enters a traced function."""
    optree.register_pytree_node(nodetype, flatten, unflatten, namespace=BOUNDARY)


def register_pytree_node_class(cls: C) -> C:
    """Decorator: make a class with `tree_flatten(self)` and `tree_unflatten(cls, metadata, children)` a node."""
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a node whose children have keys: `flatten_with_keys` returns pairs (key, child) and metadata."""

    def flatten(x: Any) -> tuple[Iterable[Any], Any]:
        pairs, metadata = flatten_with_keys(x)
        return [child for _, child in pairs], metadata

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: C) -> C:
    """Decorator: as `register_pytree_node_class`, with a method `tree_flatten_with_keys`."""
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls,
        operator.methodcaller("tree_flatten_with_keys"),
        cls.tree_unflatten,
        flatten,  # type: ignore[attr-defined]
    )
    return cls


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Make a dataclass a node.

    Args:
        nodetype: the class; any class if both field lists are given. Left out: returns a decorator.
        data_fields: the fields that are children; by default those without ``metadata={"static": True}``.
        meta_fields: the fields that are metadata (hashable).
        drop_fields: fields that are neither, and not needed to make an object.

    Raises:
        ValueError: the lists leave out a field of the dataclass or name one that it doesn't have.
        TypeError: only one of the field lists is given, or neither and the class is no dataclass.
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass, data_fields=data_fields, meta_fields=meta_fields, drop_fields=drop_fields
        )
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass: give data_fields and meta_fields, or neither")
    cls: Any = nodetype  # is_dataclass would narrow it to instances
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(cls):
            raise TypeError(f"register_dataclass: {nodetype!r} is not a dataclass: give data_fields and meta_fields")
        fields = [f for f in dataclasses.fields(cls) if f.init]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(cls):
        wanted = {f.name for f in dataclasses.fields(cls) if f.init} - set(drop_fields)
        given = {*data, *meta}
        if missing := wanted - given:
            raise ValueError(
                "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only them. "
                f"Missing fields: {missing}. Add them to drop_fields to suppress this error."
            )
        if unknown := given - wanted:
            raise ValueError(
                "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only them. "
                f"Unexpected fields: {unknown}."
            )

    def flatten_with_keys(x: Any) -> tuple[Any, Any]:
        return [(GetAttrKey(n), getattr(x, n)) for n in data], tuple(getattr(x, n) for n in meta)

    def flatten(x: Any) -> tuple[Any, Any]:
        return [getattr(x, n) for n in data], tuple(getattr(x, n) for n in meta)

    def unflatten(metadata: Any, children: Any) -> Any:
        return nodetype(**dict(zip(meta, metadata)), **dict(zip(data, children)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def register_static(cls: C) -> C:
    """Decorator: objects of the class, which hash and compare, are part of the structure and have no leaves."""
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


class Partial(functools.partial):  # type: ignore[type-arg]
    """A `functools.partial` that is a node: the arguments are its children, the function its metadata.

    >>> f = quire.tree_util.Partial(lambda a, b: a + b, 1)
    >>> quire.tree_util.tree_map(lambda x: 10 * x, f)(2)
    12
    """

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            # A plain partial is kept as one opaque function, so that its arguments stay part of the structure.
            return super().__new__(cls, _OpaquePartial(func), *args, **kw)
        return super().__new__(cls, func, *args, **kw)


class _OpaquePartial:
    """A plain partial as a function that compares by the partial it wraps."""

    def __init__(self, func: functools.partial[Any]) -> None:
        self.func = func
        self.args, self.keywords = func.args, func.keywords

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.func(*args, **kw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OpaquePartial) and self.func is other.func

    def __hash__(self) -> int:
        return id(self.func)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


# -- helpers of compiled functions ----------------------------------------------------------------------------------------


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

"""Classes whose objects are nodes of trees."""

from __future__ import annotations

import dataclasses
import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import optree

from .keys import GetAttrKey, GivenKey
from .paths import children_with_keys, tree_flatten_with_path
from .structures import BOUNDARY, NAMESPACE, is_tree_node, one_level, tree_flatten

C = TypeVar("C", bound=type)


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
            return tuple(child for _, child in pairs), metadata, tuple(GivenKey(key) for key, _ in pairs)
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


class Registry:
    """The classes that are nodes of pytrees: the one registry that there is (`jax.tree_util.default_registry`)."""

    def flatten(self, tree: Any, leaf_predicate: Any = None) -> tuple[list[Any], Any]:
        """`tree_flatten`."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Sequence[Any], Any] | None:
        """The children of a node and its metadata; None for a leaf."""
        return one_level(tree)

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[list[tuple[Any, Any]], Any] | None:
        """The children of a node with their keys, and its metadata; None for a leaf."""
        flat = one_level(tree)
        return None if flat is None else (children_with_keys(tree), flat[1])

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

"""Trees of arguments and results as JSON, so that they can be stored with a program.

Tuples, lists, dictionaries, None and arrays of keys are known. Named tuples and other registered classes are stored under a
name, which `register_namedtuple_serialization` and `register_pytree_node_serialization` (those of JAX) give them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quire.ir.errors import ExportError

from ..arrays.key_array import PRNGKeyArray
from ..arrays.shape_struct import ShapeDtypeStruct
from ..tree_util import flatten_arrays


@dataclass(frozen=True)
class _Stored:
    """How nodes of a class are stored."""

    cls: type
    name: str
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]
    build: Callable[[Any, Any], Any]


@dataclass
class _Registry:
    """The classes that users have registered."""

    by_class: dict[type, _Stored] = field(default_factory=dict[type, _Stored])
    by_name: dict[str, _Stored] = field(default_factory=dict[str, _Stored])

    def add(self, stored: _Stored) -> None:
        """Note a class. Raises ValueError where the class or the name is taken."""
        if stored.cls in self.by_class or stored.name in self.by_name:
            raise ValueError(
                f"{stored.cls.__name__} or the name {stored.name!r} is registered for serialization already"
            )
        self.by_class[stored.cls] = self.by_name[stored.name] = stored


_registry = _Registry()


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let a class of named tuples be stored under a name (`jax.export.register_namedtuple_serialization`).

    Raises:
        ValueError: it is no class of named tuples, or the class or the name is registered already.
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"register_namedtuple_serialization: {nodetype!r} is no class of named tuples")
    _registry.add(
        _Stored(nodetype, serialized_name, lambda _: b"", lambda _: None, lambda _, children: nodetype(*children))
    )
    return nodetype


def register_pytree_node_serialization(
    nodetype: type, *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any], from_children: Callable[[Any, Any], Any] | None = None,
) -> type:  # fmt: skip
    """Let nodes of a registered class be stored (`jax.export.register_pytree_node_serialization`).

    Args:
        serialize_auxdata, deserialize_auxdata: the data beside a node's children, as bytes, and back.
        from_children: makes a node of its data and its children; by default the class's ``tree_unflatten``.

    Raises:
        ValueError: the class or the name is registered already.
    """
    build = from_children or getattr(nodetype, "tree_unflatten", None)
    if build is None:
        raise ValueError(
            f"register_pytree_node_serialization: {nodetype.__name__} has no tree_unflatten: give from_children"
        )
    _registry.add(_Stored(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, build))
    return nodetype


def to_json(tree: Any) -> Any:
    """A tree as lists, dictionaries and texts.

    Raises:
        ExportError: a node's class is not registered for it, or a key is neither a text nor a number.
    """
    if tree.is_leaf():
        return "*"
    cls, children = tree.type, [to_json(child) for child in tree.children()]
    if cls is type(None):
        return None
    if cls in (tuple, list):
        return [cls.__name__, children]
    if cls in (dict, OrderedDict):
        keys = tree.entries()
        if not all(type(k) in (str, int, bool) for k in keys):
            raise ExportError(f"a tree with the keys {keys!r} cannot be stored: keys are texts or numbers")
        return ["dict" if cls is dict else "OrderedDict", keys, children]
    if cls is PRNGKeyArray:
        example = tree.unflatten([ShapeDtypeStruct((2,), "uint32")])
        return ["key", example.impl]
    stored = _registry.by_class.get(cls)
    if stored is None:
        raise ExportError(
            f"a tree with nodes of {cls.__name__} cannot be stored: register the class by "
            "quire.export.register_pytree_node_serialization, or register_namedtuple_serialization"
        )
    aux = b""
    if not hasattr(cls, "_fields"):
        node = tree.unflatten([ShapeDtypeStruct((), "float32")] * tree.num_leaves)
        aux = stored.serialize(node.tree_flatten()[1])
    return ["registered", stored.name, aux.hex(), children]


def from_json(told: Any) -> Any:
    """The tree of `to_json`. Raises ExportError where a class is not registered."""
    return flatten_arrays(_example(told))[1]


def _example(told: Any) -> Any:
    """Something with the tree."""
    if told == "*":
        return ShapeDtypeStruct((2,), "uint32")
    if told is None:
        return None
    kind, *rest = told
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(map(_example, rest[0]))
    if kind in ("dict", "OrderedDict"):
        return (dict if kind == "dict" else OrderedDict)(zip(rest[0], map(_example, rest[1])))
    if kind == "key":
        return PRNGKeyArray(ShapeDtypeStruct((2,), "uint32"), rest[0])
    name, aux, children = rest
    stored = _registry.by_name.get(name)
    if stored is None:
        raise ExportError(
            f"the program's arguments or results hold nodes stored as {name!r}: register their class first"
        )
    return stored.build(stored.deserialize(bytes.fromhex(aux)), tuple(map(_example, children)))

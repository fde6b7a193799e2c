"""Keys of children, which make up the path of a leaf, and how they are written."""

from __future__ import annotations

import dataclasses
from typing import Any


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

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))  # another than that of a sequence's index


KeyEntry = Any
KeyPath = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class GivenKey:
    """A key that a registered class gives its child: marked, because any object may be a key."""

    key: Any


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

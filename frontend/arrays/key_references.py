"""References to typed random keys: references to their words, `uint32[..., 2]`, as arrays of keys wrap these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.primitives import refs
from quire.ir.primitives.refs import Slice
from quire.ir.source import current_source, where

from .. import tree_util
from .key_array import KeyDType, PRNGKeyArray
from .references import OTHER_VALUES, RefOfParts, free_ref, freeze, new_ref, parse_index


class KeyRef(RefOfParts):
    """A reference to an array of keys. Make one with `quire.new_ref`."""

    __slots__ = ("words", "impl", "__weakref__")

    def __init__(self, words: Any, impl: str) -> None:
        self.words = words
        self.impl = impl  # the keys' generator

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension of keys."""
        return tuple(self.words.aval.shape)[:-1]

    @property
    def dtype(self) -> Any:
        """``key<fry>``, or that of another generator."""
        return KeyDType(self.impl)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def freed(self) -> Any:
        """Where it was ended; None if it was not."""
        return self.words.freed

    def __repr__(self) -> str:
        return f"Ref({self.shape}, dtype={self.dtype}) overlaying:\n{self.words!r}"

    def read(self, idx: Any) -> Any:
        """The keys at an index."""
        indexers, operands = self._index("get", idx)
        return PRNGKeyArray(refs.get_p.bind(self.words, *operands, indexers=indexers), self.impl)

    def exchange(self, idx: Any, value: Any, name: str) -> Any:
        """Write keys at an index; those that were there. Raises TypeError for what are no keys of its generator."""
        if type(value) is not PRNGKeyArray or value.impl != self.impl:
            raise TypeError(
                f"{name}: the reference holds keys of dtype {self.dtype}, got {value!r}{where(current_source())}"
            )
        indexers, operands = self._index(name, idx)
        return PRNGKeyArray(refs.swap_p.bind(self.words, value.base, *operands, indexers=indexers), self.impl)

    def end(self, name: str) -> Any:
        """The keys, for the last time."""
        if name == "freeze":
            return PRNGKeyArray(freeze(self.words), self.impl)
        return free_ref(self.words)

    def _index(self, name: str, idx: Any) -> tuple[tuple[refs.Indexer, ...], list[Any]]:
        """An index of keys, as one of their words."""
        found = parse_index(name, self.shape, idx)
        if found is None:
            return (), []
        return (refs.Indexer((*found[0].entries, Slice(0, self.words.aval.shape[-1]))),), found[1]


def _new(keys: PRNGKeyArray, kind: str | None) -> KeyRef:
    return KeyRef(new_ref(keys.base, kind=kind), keys.impl)


def _unwrap(ref: KeyRef) -> tuple[tuple[Any, ...], str]:
    return (ref.words,), ref.impl


def _wrap(impl: str, children: Sequence[Any]) -> Any:
    (words,) = children
    return KeyRef(words, impl)


tree_util.register_boundary_node(KeyRef, _unwrap, _wrap)
OTHER_VALUES[PRNGKeyArray] = _new

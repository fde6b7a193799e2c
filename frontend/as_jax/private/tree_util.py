"""`jax._src.tree_util`: the table of registered classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import optree

from quire import tree_util as public
from quire.tree_util import NAMESPACE


@dataclass(frozen=True)
class _RegistryEntry:
    to_iter: Any
    from_iter: Any


class _Registry(Mapping[type, _RegistryEntry]):
    """The classes that are nodes of pytrees, as they are registered now."""

    def __getitem__(self, cls: type) -> _RegistryEntry:
        entry = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
        if entry is None or cls is tuple and not hasattr(entry, "flatten_func"):
            raise KeyError(cls)
        if cls is dict:  # optree's metadata cannot be hashed
            return _RegistryEntry(
                public.flatten_one_level, lambda keys, children: dict(zip(keys, children, strict=True))
            )
        return _RegistryEntry(lambda x: tuple(entry.flatten_func(x))[:2], entry.unflatten_func)

    def _all(self) -> dict[type, Any]:
        return optree.register_pytree_node.get(namespace=NAMESPACE)  # type: ignore[call-arg]

    def __iter__(self) -> Iterator[type]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


_registry = _Registry()

"""Methods and operators of arrays of keys, attached to `PRNGKeyArray`: those that move keys, and ``==``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import numpy as qnp
from ..arrays import key_references as _key_references  # noqa: F401  (keys can be held by references)
from ..arrays.key_array import ADVICE, PRNGKeyArray, type_text
from ..arrays.shape_struct import ShapeDtypeStruct
from ..transforms.key_functions import lifted

_MOVING = ("reshape", "ravel", "flatten", "transpose", "swapaxes", "squeeze", "copy", "take", "repeat")


def _moving(name: str) -> Callable[..., Any]:
    def method(self: PRNGKeyArray, *args: Any, **kwargs: Any) -> Any:
        return lifted(lambda x: getattr(x, name)(*args, **kwargs), self)

    method.__name__ = name
    method.__qualname__ = f"PRNGKeyArray.{name}"
    method.__doc__ = f"The keys by the method `{name}` of arrays."
    return method


def _compared(name: str, reduction: str) -> Callable[[PRNGKeyArray, object], Any]:
    def operator(self: PRNGKeyArray, other: object) -> Any:
        if not isinstance(other, PRNGKeyArray):
            return NotImplemented
        a, b = self.base, other.base
        if isinstance(a, ShapeDtypeStruct) or isinstance(b, ShapeDtypeStruct):  # keys without values
            return (a == b) == (reduction == "all")
        if self.ndim < other.ndim:
            a, b = b, a
        if b.ndim < a.ndim:
            b = b.reshape((1,) * (a.ndim - b.ndim) + tuple(b.shape))
        return getattr(qnp, reduction)(getattr(qnp, name)(a, b), axis=-1)

    return operator


class KeyIndexHelper:
    """``keys.at``."""

    def __init__(self, keys: PRNGKeyArray) -> None:
        self.keys = keys

    def __getitem__(self, index: Any) -> KeyIndexUpdate:
        return KeyIndexUpdate(self.keys, index)


class KeyIndexUpdate:
    """``keys.at[index]``: `set` and `get`."""

    def __init__(self, keys: PRNGKeyArray, index: Any) -> None:
        self.keys = keys
        self.index = index

    def set(self, values: Any, **options: Any) -> PRNGKeyArray:
        """A copy with other keys at the index. Raises TypeError for values that are no keys."""
        if not isinstance(values, PRNGKeyArray):
            raise TypeError(f"keys.at[...].set: the values must be keys, got {type_text(values)}: {ADVICE}")
        return lifted(lambda x, v: x.at[self.index].set(v, **options), self.keys, values)

    def get(self, **options: Any) -> PRNGKeyArray:
        """The keys at the index."""
        return lifted(lambda x: x.at[self.index].get(**options), self.keys)


def attach() -> None:
    """Give `PRNGKeyArray` its methods."""
    members: dict[str, Any] = {name: _moving(name) for name in _MOVING}
    members["__eq__"], members["__ne__"] = _compared("equal", "all"), _compared("not_equal", "any")
    members["T"] = property(_moving("transpose"), doc="The keys with the dimensions reversed.")
    members["at"] = property(
        KeyIndexHelper, doc="``keys.at[index].set(other_keys)`` and ``.get()``: updated copies, as of arrays."
    )
    for name, member in members.items():
        setattr(PRNGKeyArray, name, member)


attach()

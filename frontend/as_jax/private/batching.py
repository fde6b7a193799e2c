"""`jax._src.interpreters.batching`: which values `vmap` takes whole."""

from typing import Any

VMAPPABLE: frozenset[type] = frozenset()
"""Types with rules of their own for `vmap`: there are none here."""


def is_vmappable(x: Any) -> bool:
    """Whether the value's type has a rule of its own for `vmap`."""
    return type(x) in VMAPPABLE


__all__ = ["is_vmappable"]

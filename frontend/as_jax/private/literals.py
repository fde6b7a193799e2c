"""`jax._src.literals`: arrays of NumPy with a type of JAX's. quire makes none, so that nothing is an instance."""

from __future__ import annotations

from quire.runtime.array import Array


class TypedNdArray(Array):
    """The class of which JAX makes literals while it traces; it has no instances here."""


TypedInt = TypedFloat = TypedComplex = TypedNdArray
LiteralArray = TypedNdArray

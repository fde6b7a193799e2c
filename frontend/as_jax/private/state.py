"""`jax._src.state`: the type of mutable arrays."""

from __future__ import annotations


class AbstractRef:
    """The type of a mutable array."""

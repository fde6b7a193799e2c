"""`jax._src.state`: the type of mutable arrays."""

from __future__ import annotations

from quire.ir.references import AbstractRef as AbstractRef

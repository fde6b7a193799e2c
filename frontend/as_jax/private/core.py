"""`jax._src.core`: what libraries take from it beside `jax.core` and `jax.extend.core`."""

from __future__ import annotations

from typing import Any

from quire import empty_ref as empty_ref
from quire import free_ref as free_ref
from quire import freeze as freeze
from quire import new_ref as new_ref
from quire.ir import tracing
from quire.ir.references import AbstractRef as AbstractRef
from quire.ir.references import Ref as Ref


def physical_aval(aval: Any) -> Any:
    """The type of an array as it lies in memory: its own, but for keys, which are words."""
    return aval


def trace_state_clean() -> bool:
    """Whether no function is being traced."""
    return tracing.current_trace() is None


def is_concrete(x: Any) -> bool:
    """Whether a value is known while functions are traced."""
    return not isinstance(x, tracing.Tracer)

"""`jax._src.core`: what libraries take from it beside `jax.core` and `jax.extend.core`."""

from __future__ import annotations

from typing import Any

from quire.ir import tracing


def physical_aval(aval: Any) -> Any:
    """The type of an array as it lies in memory: its own, but for keys, which are words."""
    return aval


def trace_state_clean() -> bool:
    """Whether no function is being traced."""
    return tracing.current_trace() is None


def is_concrete(x: Any) -> bool:
    """Whether a value is known while functions are traced."""
    return not isinstance(x, tracing.Tracer)

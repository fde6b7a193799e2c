"""`jax._src.core`: what libraries take from it beside `jax.core` and `jax.extend.core`."""

from __future__ import annotations

from typing import Any

from quire.ir import errors, tracing


def physical_aval(aval: Any) -> Any:
    """The type of an array as it lies in memory: its own, but for keys, which are words."""
    return aval


def trace_state_clean() -> bool:
    """Whether no function is being traced."""
    return tracing.current_trace() is None


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """A value that is known while a function is traced, as `force` makes it.

    Raises:
        ConcretizationTypeError: it is a traced value.
    """
    if isinstance(val, tracing.Tracer):
        tracing.raise_concretization(val, errors.ConcretizationTypeError, context)
    return val if force is None else force(val)


def is_concrete(x: Any) -> bool:
    """Whether a value is known while functions are traced."""
    return not isinstance(x, tracing.Tracer)

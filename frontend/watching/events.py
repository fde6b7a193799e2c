"""Events, durations, spans of time and numbers that are recorded by name, and who listens to them (`jax.monitoring`).

The compile path records what its steps took; libraries (orbax, flax) record events of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EventListener = Callable[..., None]
TRACE, LOWER, COMPILE = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
"""JAX's names of the steps of a compilation: listeners ask for them."""

_events: list[EventListener] = []
_durations: list[EventListener] = []
_spans: list[EventListener] = []
_scalars: list[EventListener] = []


def record_event(event: str, **kwargs: Any) -> None:
    """Tell the listeners of events that something happened."""
    for listener in list(_events):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tell the listeners of durations how many seconds something took."""
    for listener in list(_durations):
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
    """Tell the listeners of spans when something began and ended, in seconds since the epoch."""
    for listener in list(_spans):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tell the listeners of numbers a number."""
    for listener in list(_scalars):
        listener(event, value, **kwargs)


def record_step(event: str, seconds: float, fun_name: str) -> None:
    """Tell the listeners of durations what a step of a compilation took."""
    if _durations:
        record_event_duration_secs(event, seconds, fun_name=fun_name)


def register_event_listener(callback: EventListener) -> None:
    """Have ``callback(event, **metadata)`` called for each event."""
    _events.append(callback)


def register_event_duration_secs_listener(callback: EventListener) -> None:
    """Have ``callback(event, seconds, **metadata)`` called for each duration, those of compilations among them."""
    _durations.append(callback)


def register_event_time_span_listener(callback: EventListener) -> None:
    """Have ``callback(event, start, end, **metadata)`` called for each span of time."""
    _spans.append(callback)


def register_scalar_listener(callback: EventListener) -> None:
    """Have ``callback(event, value, **metadata)`` called for each number."""
    _scalars.append(callback)


def _unregister(listeners: list[EventListener], callback: EventListener, what: str) -> None:
    if callback not in listeners:
        raise ValueError(
            f"quire.monitoring.unregister_{what}_listener: {callback!r} is not registered as such a listener"
        )
    listeners.remove(callback)


def unregister_event_listener(callback: EventListener) -> None:
    """Call a listener of events no more. Raises ValueError for one that is not registered."""
    _unregister(_events, callback, "event")


def unregister_event_duration_listener(callback: EventListener) -> None:
    """Call a listener of durations no more. Raises ValueError for one that is not registered."""
    _unregister(_durations, callback, "event_duration")


def unregister_event_time_span_listener(callback: EventListener) -> None:
    """Call a listener of spans no more. Raises ValueError for one that is not registered."""
    _unregister(_spans, callback, "event_time_span")


def unregister_scalar_listener(callback: EventListener) -> None:
    """Call a listener of numbers no more. Raises ValueError for one that is not registered."""
    _unregister(_scalars, callback, "scalar")


def clear_event_listeners() -> None:
    """Call no listener any more."""
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()

"""Who wants to hear of events, durations and numbers registers a listener here (`jax.monitoring`).

quire records what compilations take, under JAX's names: ``/jax/core/compile/jaxpr_trace_duration``,
``.../jaxpr_to_mlir_module_duration`` (passes and lowering) and ``.../backend_compile_duration``, with the function's name.

Example:
    >>> import quire, quire.monitoring
    >>> heard = []
    >>> listener = lambda event, seconds, **metadata: heard.append(event.split("/")[-1])
    >>> quire.monitoring.register_event_duration_secs_listener(listener)
    >>> float(quire.compile(lambda x: x * 3 + 1)(2.0))
    7.0
    >>> heard[0], heard[-1]
    ('jaxpr_trace_duration', 'backend_compile_duration')
    >>> quire.monitoring.unregister_event_duration_listener(listener)
"""

from .absent_names import module_getattr
from .watching.events import clear_event_listeners as clear_event_listeners
from .watching.events import record_event as record_event
from .watching.events import record_event_duration_secs as record_event_duration_secs
from .watching.events import record_event_time_span as record_event_time_span
from .watching.events import record_scalar as record_scalar
from .watching.events import register_event_duration_secs_listener as register_event_duration_secs_listener
from .watching.events import register_event_listener as register_event_listener
from .watching.events import register_event_time_span_listener as register_event_time_span_listener
from .watching.events import register_scalar_listener as register_scalar_listener
from .watching.events import unregister_event_duration_listener as unregister_event_duration_listener
from .watching.events import unregister_event_listener as unregister_event_listener
from .watching.events import unregister_event_time_span_listener as unregister_event_time_span_listener
from .watching.events import unregister_scalar_listener as unregister_scalar_listener

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
    "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener",
    "register_scalar_listener", "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip

__getattr__ = module_getattr("quire.monitoring", globals())

"""The data structures of programs that users name: `jax.core`, and what `jax.extend.core` has of them."""

from __future__ import annotations

from typing import Any

from quire.ir import tracing
from quire.ir.avals import AbstractValue, ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var
from quire.ir.jaxpr import Eqn as JaxprEqn
from quire.ir.primitive import Primitive
from quire.ir.tracing import Trace, Tracer

from .absent_names import module_getattr
from .extend.core import get_aval, get_opaque_trace_state, jaxpr_as_fun
from .watching.option_contexts import ensure_compile_time_eval

Value = Any
ParamDict = dict[str, Any]


def eval_jaxpr(jaxpr: Jaxpr, consts: Any, *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Apply a jaxpr to values, equation by equation: recorded inside a trace, computed outside (`jax.core.eval_jaxpr`).

    Args:
        jaxpr: of a closed one: ``closed.jaxpr``, with ``closed.consts``.
        consts, args: the values of its constvars and of its invars.
        propagate_source_info: accepted; equations always keep their source.

    Raises ValueError when the numbers of values differ.

    Example:
        >>> import quire
        >>> closed = quire.make_jaxpr(lambda x: x * 2)(1.0)
        >>> [float(y) for y in quire.core.eval_jaxpr(closed.jaxpr, closed.consts, 4.0)]
        [8.0]
    """
    if len(consts) != len(jaxpr.constvars) or len(args) != len(jaxpr.invars):
        raise ValueError(
            f"quire.core.eval_jaxpr: the jaxpr takes {len(jaxpr.constvars)} constants and {len(jaxpr.invars)} arguments, "
            f"got {len(consts)} and {len(args)}"
        )
    return tracing.eval_jaxpr(jaxpr, consts, args)


__all__ = [
    "AbstractValue", "Atom", "ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "ParamDict", "Primitive", "ShapedArray",
    "Trace", "Tracer", "Value", "Var", "ensure_compile_time_eval", "eval_jaxpr", "get_aval",
    "get_opaque_trace_state", "jaxpr_as_fun",
]  # fmt: skip

__getattr__ = module_getattr("quire.core", globals())

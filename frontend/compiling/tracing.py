"""From a function and the types of its arguments to a jaxpr."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from quire.ir.sharding import AbstractMesh
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer, close_captured, trace_flat

from .. import tree_util
from ..arrays.explicit import arguments_on
from ..arrays.references import refuse_refs
from ..watching import key_reuse
from ..watching.events import TRACE, record_step
from ..watching.spans import span
from ..watching.transformations import Transformation, recorded_transformations
from .arguments import Static

#: The values whose shardings a function asks for while it is traced, each with what is to be called.
inspected: ContextVar[list[tuple[Var, Callable[[Any], None]]] | None] = ContextVar("quire_inspected", default=None)


@dataclass(frozen=True, eq=False)
class TracedFunction:
    """A function traced for one signature.

    Attributes:
        jaxpr: its inputs are the captured values, then the leaves of the arguments.
        captured: the values from outside that the function reads; tracers, where it closes over those.
        out_tree: the tree of the results.
        seconds: what tracing took.
        transformations: what grad, vmap, ... did meanwhile, innermost first.
        inspected: variables, with functions of their shardings (`debug.inspect_array_sharding`).
    """

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: Any
    seconds: float
    transformations: tuple[Transformation, ...] = ()
    inspected: tuple[tuple[Var, Callable[[Any], None]], ...] = ()

    @property
    def closes_over_tracers(self) -> bool:
        """Whether a value that the function reads from outside is a tracer."""
        return any(isinstance(c, Tracer) for c in self.captured)

    @functools.cached_property
    def nested(self) -> ClosedJaxpr:
        """The jaxpr as a parameter of a `jit` equation; one object, so that passes recognise it."""
        return ClosedJaxpr(self.jaxpr, ())

    def closed(self) -> ClosedJaxpr:
        """The jaxpr with the captured values as its constants."""
        return close_captured(self.jaxpr, self.captured)


def trace_function(
    f: Callable[..., Any],
    name: str,
    static: Sequence[tuple[Any, Static]],
    avals: Sequence[ShapedArray],
    tree: Any,
    names: Sequence[str],
    mesh: AbstractMesh | None = None,
) -> TracedFunction:
    """Trace a function once.

    Args:
        name: the function's, for errors.
        static: its static arguments, by position or name.
        avals: the types of the leaves of all other arguments, which are in `tree`: (positional, by name).
        names: the path of each leaf.
        mesh: that with explicit axes which the arguments lie on, where none is in force.

    Raises:
        RuntimeError: in a block of `no_tracing`.
        TypeError: a result is no array.
    """
    if config.options.no_tracing:
        raise RuntimeError(
            f"{name} would be traced{where(current_source())}, in a block of no_tracing: its arguments' types, a static argument or "
            "an option are new"
        )
    start = time.perf_counter()
    out_tree: Any = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        dynamic, keywords = tree_util.tree_unflatten(tree, leaves)
        call_args = list(dynamic)
        call_kwargs = dict(keywords)
        for k, s in static:
            if isinstance(k, int):
                call_args.insert(k, s.value)
            else:
                call_kwargs[k] = s.value
        out, out_tree = tree_util.flatten_arrays(f(*call_args, **call_kwargs))
        check_outputs(out, out_tree, name)
        return out

    with recorded_transformations() as transformations, span(f"trace {name}", "trace"), arguments_on(mesh):
        asked: list[tuple[Var, Callable[[Any], None]]] = []
        token = inspected.set(asked)
        try:
            jaxpr, captured, _ = trace_flat(flat, avals, name=f"compile of {name}", arg_names=names)
        finally:
            inspected.reset(token)
    key_reuse.check_call(jaxpr, ())
    seconds = time.perf_counter() - start
    record_step(TRACE, seconds, name)
    return TracedFunction(jaxpr, captured, out_tree, seconds, tuple(transformations), tuple(asked))


def check_outputs(leaves: Sequence[Any], tree: Any, function: str) -> None:
    """Raise TypeError for a result that is no array, ValueError for a reference."""
    refuse_refs(leaves, function, lambda i: result_paths(tree)[i])
    for i, x in enumerate(leaves):
        try:
            aval_of(x)
        except TypeError:
            path = "".join(map(str, tree.paths()[i])) if hasattr(tree, "paths") else str(i)
            at = f" at {path}" if len(leaves) > 1 else ""
            raise TypeError(
                f"{function} returned {x!r} of type {type(x).__name__}{at}: a compiled function returns arrays, "
                "numbers and containers of them (None counts as an empty container)"
            ) from None


def result_paths(tree: Any) -> list[str]:
    """The path of each leaf of a result, as ``['loss']``; empty for a result that is one array."""
    paths = tree.paths() if hasattr(tree, "paths") else [(i,) for i in range(tree.num_leaves)]
    return ["".join(f"[{part!r}]" for part in path) for path in paths]


__all__ = ["TracedFunction", "check_outputs", "inspected", "result_paths", "trace_function"]

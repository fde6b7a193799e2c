"""From a request to a StableHLO module: the target's passes, the arguments that are left, lowering."""

from __future__ import annotations

import functools
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.tracing import hooks
from quire.passes.arguments import without_unused_arguments
from quire.passes.base import Pass
from quire.passes.cost import Cost, estimate, has_unknown_trips
from quire.passes.discharge import uses_refs

from ..watching.spans import span
from .request import Request

if TYPE_CHECKING:
    from quire.backends.stablehlo import LoweredModule
    from quire.backends.targets import Target


WAKE_SECONDS = 50e-6
"""What waking worker threads costs. A program that would not gain so much by them is run in the caller's thread, and so is one
with loops on the host that would not gain so much in each turn, in which they are woken anew."""


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A StableHLO module with what the caller must know of it.

    Attributes:
        request: what it was lowered for.
        module: with the functions that it calls and the memory that it takes.
        kept: the arguments that the module takes; the others are unused.
        results: where each output comes from: ("result", k) of the module, ("argument", i) itself, of all arguments, or
            ("float0", 0).
        cost: the estimated work of one call.
        unknown_trips: a loop's turns depend on data, so that its time is not known.
        one_thread: it runs on the calling thread: it is short, or others would have nothing to do.
    """

    request: Request
    module: LoweredModule
    kept: tuple[int, ...]
    results: tuple[tuple[str, int], ...]
    cost: Cost
    unknown_trips: bool
    one_thread: bool


def _load_reference(*what: Any) -> list[Any]:
    """Evaluate by the reference rules, which are loaded (and replace this hook) when a constant is first folded."""
    import quire.backends.reference  # noqa: F401

    assert hooks.reference is not None
    return hooks.reference(*what)


def _load_whole_loop(eqn: Eqn, target: Any) -> bool:
    """Ask the lowering whether a loop becomes one kernel. It is loaded (and replaces this hook) by then, but for passes alone."""
    load_lowering()
    assert hooks.whole_loop is not None
    return hooks.whole_loop(eqn, target)


if hooks.reference is None:
    hooks.reference = _load_reference
if hooks.whole_loop is None:
    hooks.whole_loop = _load_whole_loop


@functools.cache
def load_lowering() -> None:
    """Import what a compile needs beyond tracing: some 150 modules.

    All that they make stays. To look through it for garbage while it grows would be a fifth of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        import quire.backends.stablehlo
        import quire.passes.manager  # noqa: F401
    finally:
        if collecting:
            gc.enable()


def pipeline_for(program: ClosedJaxpr, pipeline: str) -> str:
    """A pipeline that ends in what can be lowered: references become values first, where the program has any."""
    return f"discharge,{pipeline}" if uses_refs(program) else pipeline


def pipeline_of(request: Request) -> str | tuple[Pass, ...]:
    """The passes of a request: those that are asked for, or the target's own."""
    if request.passes is None:
        return pipeline_for(request.program, request.target.pipeline)
    from quire.passes.discharge import Discharge

    first = (Discharge(),) if uses_refs(request.program) else ()
    return (*first, *request.passes)


def optimize(request: Request) -> ClosedJaxpr:
    """The program after the passes that are asked for, or the target's own."""
    load_lowering()
    from quire.passes.manager import PassManager

    manager = PassManager(pipeline_of(request), target=request.target, donated=request.donated)
    return manager.run(request.program)


def lower(request: Request) -> LoweredProgram:
    """The StableHLO module of a request.

    Raises:
        UnsupportedError: the target cannot do an operation or a dtype.
    """
    with span(f"passes {request.name}", "passes"):
        optimized = optimize(request)
    with span(f"lower {request.name}", "lower"):
        return lower_optimized(request, optimized)


def lower_optimized(request: Request, optimized: ClosedJaxpr) -> LoweredProgram:
    """Lower the request's program, of which the passes have made `optimized`; arguments that it does not use are left out."""
    from quire.backends.stablehlo import lower_module

    program, kept = without_unused_arguments(optimized, request.keep_unused)
    position = {i: k for k, i in enumerate(kept)}
    written = [position[i] for i in request.donated if i in position]
    names = [request.names[i] for i in kept] if len(request.names) == len(request.program.in_avals) else ()
    module = lower_module(program, request.target, name=request.name, donated=written, names=names)
    # ("argument", i) counts the arguments of the whole function, not of the one that is lowered.
    results = tuple((kind, kept[i] if kind == "argument" else i) for kind, i in module.results)
    cost, turn = estimate(program.jaxpr), estimate(program.jaxpr, once=module.host_loops)
    short = _saved_by_workers(cost, request.target) <= WAKE_SECONDS
    short_turns = bool(module.host_loops) and _saved_by_workers(turn, request.target) <= WAKE_SECONDS
    return LoweredProgram(
        request, module, kept, results, cost, has_unknown_trips(program.jaxpr), module.serial or short or short_turns
    )


def _saved_by_workers(cost: Cost, target: Target) -> float:
    """Seconds that the target's other threads take over from the caller's."""
    return cost.seconds_of_one_thread(target) * (1 - 1 / max(target.workers, 1))


__all__ = ["LoweredProgram", "lower", "lower_optimized", "optimize", "pipeline_for", "pipeline_of"]

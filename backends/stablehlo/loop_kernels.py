"""The choice between a kernel and StableHLO for a loop."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import iree.compiler.ir as mlir

from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, all_eqns, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives.calls import fusion_p
from quire.ir.primitives.control_flow import scan_p
from quire.ir.tracing import hooks

from ..kernels import REASON, KernelTarget, NoKernel
from ..kernels.elements.operations import Expand
from ..kernels.loops.whole_loops import loop_kernel
from ..targets import Target
from . import hlo
from .kernel_calls import attempt, call, kernel_target, made_for
from .lowering import Ctx, formula_of


def expander(target: Target) -> Expand:
    """The formulas of elementwise primitives, for a target, on scalars: one function under the same options."""
    return _expander(target, config.options.trace_key)


@functools.cache
def _expander(target: Target, trace_key: tuple[Any, ...]) -> Expand:
    def expand(p: Primitive, in_dtypes: tuple[DType, ...], params: Mapping[str, Any]) -> Jaxpr | None:
        return formula_of(p, [ShapedArray((), d) for d in in_dtypes], params, target)

    return expand


def explained(operation: Any, reason: str) -> None:
    """State on an operation why it is not a kernel."""
    operation.attributes[REASON] = mlir.StringAttr.get(f"no kernel: {reason}")


def as_kernel(ctx: Ctx, operands: Sequence[Any]) -> list[Any] | NoKernel:
    """A loop equation as one kernel: its results, or why there is none."""
    return attempt(ctx, lambda target: _as_kernel(ctx, ctx.eqn, operands, target))


def update_as_kernel(ctx: Ctx, operands: Sequence[Any], target: KernelTarget) -> list[Any]:
    """An update of donated arguments (see `quire.passes.fusion.updates`) as a kernel that writes into them.

    Raises NoKernel.
    """
    closed: ClosedJaxpr = ctx.eqn.params["jaxpr"]
    jaxpr, n = closed.jaxpr, len(closed.jaxpr.outvars)
    # The loop that runs once: what is updated is its state.
    body = Jaxpr((), [*jaxpr.invars[n:], *jaxpr.invars[:n]], jaxpr.outvars, jaxpr.eqns)
    params = {
        "jaxpr": ClosedJaxpr(body), "length": 1, "reverse": False, "linear": (), "num_consts": len(body.invars) - n,
        "num_carry": n, "unroll": 1,
    }  # fmt: skip
    inputs = [*ctx.eqn.inputs[n:], *ctx.eqn.inputs[:n]]
    eqn = Eqn(inputs, ctx.eqn.outputs, scan_p, params, ctx.eqn.effects, ctx.source)
    donated = frozenset(ctx.eqn.inputs[:n])
    kernel = loop_kernel(eqn, target, expander(ctx.target), donated, in_memory=False)
    if len(kernel.tied) < n:
        raise NoKernel("not all of it can be updated in place")
    kernel = replace(kernel, reason=kernel.reason.replace("scan of 1 steps", "update of donated arguments"))
    given = {a: x for a, x in zip(inputs, [*operands[n:], *operands[:n]]) if not isinstance(a, Literal)}
    return call(ctx, kernel, list(given.values()))


def straight_as_kernel(ctx: Ctx, jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any] | NoKernel:
    """A small program as one kernel: the loop that runs it once. Its results, or why there is none.

    For what is hundreds of operations on few numbers each: IREE takes seconds to form dispatches of them.
    """
    params = {
        "jaxpr": ClosedJaxpr(jaxpr), "length": 1, "reverse": False, "linear": (), "num_consts": len(jaxpr.invars),
        "num_carry": 0, "unroll": 1,
    }  # fmt: skip
    inputs = [Var(v.aval) for v in jaxpr.invars]
    outputs = [Var(a) for a in scan_p.infer([v.aval for v in inputs], params)]
    eqn = Eqn(inputs, outputs, scan_p, params, scan_p.effects(params), ctx.source)
    results = attempt(ctx, lambda target: _as_kernel(ctx, eqn, operands, target))
    if isinstance(results, NoKernel):
        return results
    return [hlo.reshape(x, a.aval.shape) for x, a in zip(results, jaxpr.outvars)]


def _as_kernel(ctx: Ctx, eqn: Eqn, operands: Sequence[Any], target: KernelTarget) -> list[Any]:
    free = frozenset(a for a, x in zip(eqn.inputs, operands) if isinstance(a, Var) and a.aval.shape and ctx.is_spent(x))
    kernel = loop_kernel(eqn, target, expander(ctx.target), free)
    if _has_fusions(eqn):
        raise NoKernel("what is computed in a turn was to be kernels of its own")
    given: dict[Any, Any] = {}
    for a, x in zip(eqn.inputs, operands):
        if not isinstance(a, Literal):
            given.setdefault(a, x)
    return call(ctx, kernel, list(given.values()))


def _has_fusions(eqn: Eqn) -> bool:
    """Whether the fuse pass went into a loop: it does so where there is no kernel of what it was before."""
    bodies = (b.jaxpr if isinstance(b, ClosedJaxpr) else b for b in nested_jaxprs(eqn.params))
    return any(e.primitive is fusion_p for body in bodies for e in all_eqns(body))


def is_whole_kernel(eqn: Eqn, target: Target) -> bool:
    """Whether a loop equation becomes one kernel for a target.

    Of such a loop the fuse pass leaves the body as it is, so that the kernel, which is kept, is the one that lowering asks for.
    """
    made = made_for(kernel_target, target, lambda t: loop_kernel(eqn, t, expander(target)))
    return not isinstance(made, NoKernel)


hooks.whole_loop = is_whole_kernel

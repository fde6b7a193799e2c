"""The choice between a kernel and StableHLO for a cluster of the fusion pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive
from quire.ir.primitives import structural as st
from quire.ir.tracing import trace_flat

from ..kernels.elements import NotSupported
from ..kernels.reductions import Partial, reduction_kernel
from .kernel_calls import call, kernel_target
from .loop_kernels import expander
from .lowering import Ctx, lower_jaxpr


def as_kernel(ctx: Ctx, operands: Sequence[Any]) -> list[Any] | str:
    """A fusion equation as one kernel: its results, or why there is none."""
    target = kernel_target(ctx.target)
    if target is None:
        return "the target has no kernels"
    p = ctx.eqn.params
    try:
        found = reduction_kernel(p["jaxpr"].jaxpr, p["space"], p["axes"], target, expander(ctx.target))
    except NotSupported as reason:
        return str(reason)
    results = call(ctx, found.kernel, list(operands))
    return [
        x if part is None else _combined(ctx, x, part, v.aval)
        for x, part, v in zip(results, found.partial, ctx.eqn.outputs)
    ]


def _combined(ctx: Ctx, x: Any, part: Partial, aval: ShapedArray) -> Any:
    """The whole of a reduction that several workgroups shared."""
    reduce: Primitive = part.primitive

    def whole(y: Any) -> list[Any]:
        return [st.reshape(reduce.bind(y, axes=(1,)), aval.shape)]

    jaxpr, _, _ = trace_flat(whole, [ShapedArray(part.shape, aval.dtype)], name="lowering of fusion")
    return lower_jaxpr(ctx.module, jaxpr, (), [x], ctx.source)[0]

"""The choice between a kernel and StableHLO for a cluster of the fusion pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import fusion_p
from quire.ir.tracing import trace_flat
from quire.ir.weights import weight

from ..kernels import AttentionRows, Epilogue
from ..kernels.core.errors import NoKernel
from ..kernels.core.target import KernelTarget
from ..kernels.fused.alike import Part, alike_kernel
from ..kernels.fused.elementwise import elementwise_kernel
from ..kernels.fused.reductions import Partial, reduction_kernel
from ..kernels.fused.stencils import stencil_kernel
from .contraction import Following, attention, with_epilogue
from .indexing import indexed
from .kernel_calls import call, spec
from .loop_kernels import expander
from .lowering import Ctx, lower_jaxpr


def as_kernel(ctx: Ctx, operands: Sequence[Any], target: KernelTarget) -> list[Any]:
    """The results of a fusion equation as one kernel. Raises NoKernel."""
    p = ctx.eqn.params
    if p["kind"] == "contraction":
        return _contraction(ctx, p["jaxpr"].jaxpr, operands)
    if p["kind"] == "attention":
        return _attention(ctx, p["jaxpr"].jaxpr, operands)
    if p["kind"] == "indexing":
        return indexed(ctx, p["jaxpr"].jaxpr, operands, target)
    if p["kind"] == "stencil":
        jaxpr = p["jaxpr"].jaxpr
        work = max(1, sum(map(weight, jaxpr.eqns)))
        return call(ctx, stencil_kernel(jaxpr, target, expander(ctx.target), work), list(operands))
    if p["kind"] == "elementwise":
        return _elementwise(ctx, operands, target)
    if p["kind"] == "alike":
        return _alike(ctx, operands, target)
    found = reduction_kernel(p["jaxpr"].jaxpr, p["space"], p["axes"], target, expander(ctx.target))
    results = call(ctx, found.kernel, list(operands))
    return [
        x if part is None else _combined(ctx, x, part, v.aval)
        for x, part, v in zip(results, found.partial, ctx.eqn.outputs)
    ]


def _contraction(ctx: Ctx, body: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """A contraction with its epilogue as one kernel."""
    (e,) = (e for e in body.eqns if e.primitive.family == "contraction")
    rest = [other for other in body.eqns if other is not e]
    given = dict(zip(body.invars, operands))
    read = [v for v in body.invars if any(v in other.inputs for other in rest)]
    epilogue = Epilogue(Jaxpr((), [e.outputs[0], *read], body.outvars, rest), expander(ctx.target))
    inner = Ctx(ctx.module, e, [a.aval for a in e.inputs], [v.aval for v in e.outputs], e.source or ctx.source)
    lhs, rhs = (given[a] for a in e.inputs if isinstance(a, Var))
    found = with_epilogue(inner, lhs, rhs, Following(epilogue, [given[v] for v in read]))
    if found is None:
        raise NoKernel("no epilogue")
    return found


def _elementwise(ctx: Ctx, operands: Sequence[Any], target: KernelTarget) -> list[Any]:
    p = ctx.eqn.params
    jaxpr = p["jaxpr"].jaxpr
    work = max(1, sum(map(weight, jaxpr.eqns)))
    found = elementwise_kernel(jaxpr, p["space"], target, expander(ctx.target), work)
    return call(ctx, found.kernel, list(operands), found.scalars)


def _alike(ctx: Ctx, operands: Sequence[Any], target: KernelTarget) -> list[Any]:
    """Clusters that are alike, as one kernel. Updates write into donated arguments: nothing is copied."""
    body: Jaxpr = ctx.eqn.params["jaxpr"].jaxpr
    number = {v: i for i, v in enumerate(body.invars)}
    place = {v: i for i, v in enumerate(body.outvars)}
    parts = tuple(
        Part(
            math.prod(e.params["space"]),
            tuple(number[a] for a in e.inputs if isinstance(a, Var)),
            tuple(place[v] for v in e.outputs),
        )
        for e in body.eqns
    )
    largest = max(zip(parts, body.eqns, strict=True), key=lambda x: x[0].size)[1].params["jaxpr"].jaxpr
    work = max(1, sum(map(weight, largest.eqns)))
    given, made = (tuple(spec(v.aval) for v in vs) for vs in (body.invars, body.outvars))
    in_place = body.eqns[0].params["kind"] == "update"
    found = alike_kernel(largest, parts, given, made, in_place, target, expander(ctx.target), work)
    return call(ctx, found.kernel, list(operands), found.scalars)


def _attention(ctx: Ctx, body: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """Products, the reduction of their rows and the product that sums over those as one kernel."""
    (cluster,) = (e for e in body.eqns if e.primitive is fusion_p)
    firsts = [e for e in body.eqns if e.outputs[0] in cluster.inputs]
    (second,) = (e for e in body.eqns if e is not cluster and e not in firsts)
    given = dict(zip(body.invars, operands))
    jaxpr: Jaxpr = cluster.params["jaxpr"].jaxpr
    made = {e.outputs[0]: cluster.inputs.index(e.outputs[0]) for e in firsts}
    stored = tuple(i for i, v in enumerate(cluster.outputs) if v in body.outvars)
    summed = next(i for i, v in enumerate(cluster.outputs) if v is second.inputs[0])
    rows = AttentionRows(jaxpr, tuple(made.values()), summed, stored, expander(ctx.target))
    read = [*(a for e in firsts for a in e.inputs), second.inputs[1]]
    others = [a for a in cluster.inputs if a not in made]
    values = [given.get(a) if isinstance(a, Var) else None for a in (*read, *others)]
    if any(x is None for x in values):
        raise NoKernel("operands that are literals")
    found = attention(ctx, (*firsts, second), values[: len(read)], rows, values[len(read) :])
    if found is None:
        raise NoKernel("no attention kernel")
    made_by_it = [*(cluster.outputs[i] for i in stored), second.outputs[0]]
    return [found[made_by_it.index(v)] for v in body.outvars if isinstance(v, Var)]


def _combined(ctx: Ctx, x: Any, part: Partial, aval: ShapedArray) -> Any:
    """The whole of a reduction that several workgroups shared."""
    reduce: Primitive = part.primitive

    def whole(y: Any) -> list[Any]:
        return [st.reshape(reduce.bind(y, axes=(1,)), aval.shape)]

    jaxpr, _, _ = trace_flat(whole, [ShapedArray(part.shape, aval.dtype)], name="lowering of fusion")
    return lower_jaxpr(ctx.module, jaxpr, (), [x], ctx.source)[0]

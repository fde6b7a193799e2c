"""fuse: clusters of equations that a backend computes as one kernel.

`clusters` finds them, `order` keeps the program acyclic while equations become one.
"""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.jaxpr import ClosedJaxpr, Jaxpr

from ..base import Pass, PassContext, register_pass
from ..rewriting import transform_nested, with_params
from .clusters import reduction_clusters
from .order import replaced


@register_pass
@dataclass(frozen=True)
class Fuse(Pass):
    """Make reductions, the elementwise equations that feed them and those that use their results one `fusion` equation.

    The values of a cluster have one shape, before reduction; all its reductions go over the same axes, which are
    neighbours. Reductions of fewer than `least_elements` elements stay as they are. Loops' bodies are left alone: a
    whole loop is one kernel where that is possible.
    """

    name = "fuse"
    least_elements: int = 16384

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if context.target is not None and not getattr(context.target, "kernels", False):
            return program
        jaxpr = self._fused(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)

    def _fused(self, jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
        eqns = list(jaxpr.eqns)
        for i, eqn in enumerate(eqns):
            if eqn.primitive.name in ("jit", "cond", "checkpoint"):
                params = transform_nested(eqn.params, context, self, lambda j: self._fused(j, context))
                eqns[i] = with_params(eqn, params)
        if any(a is not b for a, b in zip(eqns, jaxpr.eqns)):
            jaxpr = Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars)
        clusters = reduction_clusters(jaxpr, self.least_elements)
        for cluster in clusters:
            context.counters[f"cluster of {len(cluster.eqns)}"] += 1
        return replaced(jaxpr, clusters) if clusters else jaxpr


__all__ = ["Fuse"]

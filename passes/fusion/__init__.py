"""fuse: clusters of equations that a backend computes as one kernel.

`indexing`, `attention`, `contractions` and `clusters` find them, `broadcasts` gives each broadcasts of its own, `order` keeps the
program acyclic while equations become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from quire.ir.tracing import hooks

from ..base import Pass, PassContext, register_pass
from ..rewriting import transform_nested, with_params
from .alike import MergeAlike
from .attention import with_attention
from .axes import with_parted_axes
from .broadcasts import merge, split
from .clusters import Cluster, reduction_clusters
from .contractions import contraction_clusters
from .elementwise import elementwise_clusters
from .forms import forms_of
from .graph import Graph, Order
from .indexing import with_indices
from .order import replaced
from .small_products import with_small_products
from .stencils import with_stencils
from .updates import UpdatesInPlace

_LOOPS = ("scan", "while", "bounded_while")
#: The parameters whose programs are fused too. What a loop's condition computes is few numbers.
_NESTED = {
    "jit": ("jaxpr",), "checkpoint": ("jaxpr",), "cond": ("branches",),
    "scan": ("jaxpr",), "while": ("body_jaxpr",), "bounded_while": ("body_jaxpr",),
}  # fmt: skip


@dataclass(frozen=True)
class Clustering(Pass):
    """What passes that make `fusion` equations share: they leave targets without kernels alone, and go into nested programs.

    A loop that becomes one kernel stays as it is; with `whole_loops` false it is none where its body has fusions.
    """

    whole_loops: bool = True

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if context.target is not None and not getattr(context.target, "kernels", False):
            return program
        jaxpr = self._fused(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)

    def clustered(self, jaxpr: Jaxpr, context: PassContext, in_loop: bool) -> Jaxpr:
        """The jaxpr with its clusters as equations; those nested in it have theirs."""
        raise NotImplementedError

    def _fused(self, jaxpr: Jaxpr, context: PassContext, in_loop: bool = False) -> Jaxpr:
        eqns = list(jaxpr.eqns)
        for i, eqn in enumerate(eqns):
            parts = _NESTED.get(eqn.primitive.name, ())
            if parts and not (self.whole_loops and _is_kernel(eqn, context.target)):
                before = {name: eqn.params[name] for name in parts}
                within = in_loop or eqn.primitive.name in _LOOPS
                inner = transform_nested(
                    before, context, (self, within), partial(self._fused, context=context, in_loop=within)
                )
                if inner is not before:
                    eqns[i] = with_params(eqn, {**eqn.params, **inner})
        if any(a is not b for a, b in zip(eqns, jaxpr.eqns)):
            jaxpr = Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)
        return self.clustered(jaxpr, context, in_loop)


@register_pass
@dataclass(frozen=True)
class Fuse(Clustering):
    """Make `fusion` equations of contractions and reductions with their neighbours, and of elementwise equations.

    A contraction (dot_general, convolution) is joined by what is computed of its result, element by element: its epilogue. A
    reduction is joined by what feeds it and what uses its result; the values of such a cluster have one shape, before
    reduction, and all its reductions go over the same axes, which are neighbours; over others a reduction is two (`axes`). A
    reduction of products' rows over which another product sums is one equation with all: attention. Contractions of fewer than
    `least_operations`, reductions of fewer than `least_elements` elements and attention to fewer than `least_attended` stay as
    they are. A gather or scatter is joined by what computes its indices, light equations that are copied where others read them
    too; a gather of single elements, `least_gathered` of them, counts as an elementwise equation. What is computed of shifted,
    padded or joined parts of arrays is one equation with these, if it has `least_moved` elements: a stencil. Of what is left,
    elementwise equations of one number of elements are clusters if they are heavy together, or many, or gather, or are several
    small updates that are alike (see `merge-alike`); on CPUs also if they have `least_light` elements and are no part of a
    dispatch. Branches and loops' bodies are fused as programs of their own.
    """

    name = "fuse"
    least_elements: int = 512
    least_attended: int = 16384
    least_operations: int = 131072
    least_moved: int = 2048
    least_gathered: int = 1024
    least_light: int = 32768

    def least_light_on(self, target: Any) -> int | None:
        """Of how many elements light equations are a cluster on a target; None where they are none."""
        return self.least_light if getattr(target, "vector_bytes", 0) else None

    def clustered(self, jaxpr: Jaxpr, context: PassContext, in_loop: bool) -> Jaxpr:
        """The jaxpr with its clusters as equations."""
        has_form = forms_of(context.target)
        jaxpr = with_small_products(jaxpr, self.least_elements)
        parted, count = with_attention(with_parted_axes(split(jaxpr), self.least_elements), self.least_attended)
        graph = Graph(parted)
        order = Order(graph)
        clusters = contraction_clusters(graph, order, self.least_operations)
        clusters += reduction_clusters(graph, order, self.least_elements, clusters)
        clusters = _formed(clusters, parted, context)
        if clusters:
            parted = replaced(parted, clusters)
        parted, joined = with_indices(parted, has_form, self.least_gathered)
        parted, stencils = with_stencils(parted, has_form, self.least_moved)
        more = elementwise_clusters(parted, has_form, self.least_gathered, in_loop, self.least_light_on(context.target))
        more = _formed(more, parted, context)
        if joined:
            context.counters["indexing"] += joined
        if count:
            context.counters["attention"] += count
        if stencils:
            context.counters["stencil"] += stencils
        if more:
            parted = replaced(parted, more)
        return merge(parted) if clusters or more or count or stencils or joined else jaxpr


@register_pass
@dataclass(frozen=True)
class FuseAttention(Clustering):
    """Make `fusion` equations of attention alone, as `fuse` does, for targets whose compiler forms the other clusters.

    `least_attended` are the fewest scores: fewer (4 MiB in float32) stay in the caches of a GPU between several dispatches.
    """

    name = "fuse-attention"
    least_attended: int = 1 << 20

    def clustered(self, jaxpr: Jaxpr, context: PassContext, in_loop: bool) -> Jaxpr:
        """The jaxpr with each attention as an equation."""
        found, count = with_attention(split(jaxpr), self.least_attended)
        if not count:
            return jaxpr
        context.counters["attention"] += count
        return merge(found)


def _is_kernel(eqn: Eqn, target: Any) -> bool:
    """Whether an equation is a loop that becomes one kernel; without a target none does."""
    if eqn.primitive.name not in _LOOPS or target is None:
        return False
    assert hooks.whole_loop is not None
    return hooks.whole_loop(eqn, target)


def _formed(clusters: Sequence[Cluster], jaxpr: Jaxpr, context: PassContext) -> list[Cluster]:
    """The clusters that become fusions: all of them, but where the first wrong one is looked for."""
    formed: list[Cluster] = []
    for cluster in clusters:
        if context.may_rewrite():
            context.rewrote(f"{cluster.kind} of {len(cluster.eqns)}", jaxpr.eqns[cluster.seed])
            formed.append(cluster)
    return formed


__all__ = ["Clustering", "Fuse", "FuseAttention", "MergeAlike", "UpdatesInPlace"]

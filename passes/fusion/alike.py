"""Equal clusters of different arrays, as one equation: an optimizer has the same equations for each leaf.

Two clusters are *alike* if they compute the same formula; the sizes of their arrays may differ (`forms.py`). The pass
`merge-alike` replaces several alike clusters by one `fusion` equation of kind "alike". The body of that equation holds the
clusters as they were. A backend makes one kernel of it, which computes the clusters side by side. The pass comes after
`updates`, which turns some clusters into updates in place; updates that are alike are merged too.

Merged clusters start together. So no merged cluster may need the result of another one, neither directly nor through other
equations. The pass sees this by a number that it gives each equation, its *stage*. Take all paths from the equation to the
end of the program, along which each equation reads a result of the one before. Count on each path the clusters that have
others alike, the equation itself left out. The stage is the largest count.

- If a cluster B needs the result of a cluster A, then the stage of A is larger than the stage of B: every path from B to
  the end is the end of a path from A, on which B is counted as well. So two clusters of one stage do not need each other.
- Only clusters of one stage are merged. A path from one merged equation to another therefore leads from a larger stage to a
  smaller one. No two merged equations can need each other, and all of them can be made at once.

Stages are computed by one walk over the program from its end.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitives.calls import fusion_p

from ..base import Pass, PassContext, register_pass
from .forms import form
from .graph import Graph
from .order import in_order

#: Arrays that one dispatch of IREE may bind; what is updated in place is bound once.
MOST_ARRAYS = 32
#: Clusters of more elements are not merged. Measured on two cores with AVX-512, before and after, busy with other work. In place,
#: leaves of 8 shapes and their biases: momentum compiles in 645 and 361 ms (each shape had an executable of its own) and
#: takes 144 and 131 us, Adam 672 and 414 ms, 211 and 214 us; momentum without donation 654 and 401 ms, 260 and 182 us of
#: processor time, 141 and 163 us of wall. Where all shapes shared an executable before, a dispatch less gains up to 2 us,
#: on the calling thread and beside other work next to nothing: an MLP's step takes 2298 and 2261 us, and compiles in 1709
#: and 1750 ms. Sets of updates of up to 512 x 736 elements took 3 to 4 % longer than one by one, and what they read
#: would be kept in memory until the last can be computed.
MOST_ELEMENTS = 1 << 16


@register_pass
@dataclass(frozen=True)
class MergeAlike(Pass):
    """Merge elementwise clusters, or updates, that compute the same formula on arrays of any sizes.

    Clusters of more than `most_elements` elements are not merged.
    """

    name = "merge-alike"
    most_elements: int = MOST_ELEMENTS

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if context.target is not None and not getattr(context.target, "kernels", False):
            return program
        jaxpr = program.jaxpr
        like: dict[Hashable, list[int]] = {}
        for i, e in enumerate(jaxpr.eqns):
            if (found := self._form(e)) is not None:
                like.setdefault(found, []).append(i)
        sets = list(_sets(jaxpr, [numbers for numbers in like.values() if len(numbers) > 1]))
        if not sets:
            return program
        for numbers in sets:
            context.counters[f"{len(numbers)} clusters"] += 1
        taken = {i for numbers in sets for i in numbers}
        items = [(i, e) for i, e in enumerate(jaxpr.eqns) if i not in taken]
        items += [(numbers[-1], _merged([jaxpr.eqns[i] for i in numbers])) for numbers in sets]
        items.sort(key=lambda item: item[0])
        eqns = in_order([e for _, e in items])
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns), program.consts)

    def _form(self, e: Eqn) -> Hashable | None:
        """The formula of a cluster: equal for clusters that are alike. None for an equation that is not merged."""
        if e.primitive is not fusion_p or e.params["kind"] not in ("elementwise", "update"):
            return None
        kind, size = e.params["kind"], math.prod(e.params["space"])
        body: Jaxpr = e.params["jaxpr"].jaxpr
        if size > self.most_elements:
            return None
        found = form(body.eqns, body.invars, [v for v in body.outvars if isinstance(v, Var)], size)
        return None if found is None else (kind, found)


def _sets(jaxpr: Jaxpr, like: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The sets of clusters that are merged, each as the numbers of its equations.

    Each element of `like` holds the numbers of clusters that are alike. A set has two clusters or more, all of one stage.
    """
    if not like:
        return
    stage = _stages(Graph(jaxpr), {i for numbers in like for i in numbers})
    for numbers in like:
        at: dict[int, list[int]] = {}
        for i in numbers:
            at.setdefault(stage[i], []).append(i)
        for together in at.values():
            # The sets of one stage have nearly the same number of clusters. Where all leaves are equal, the kernels of
            # equal sets are then the same kernel.
            count = len(_cut(jaxpr, together, len(together)))
            parts = _cut(jaxpr, together, -(-len(together) // count))
            yield from (part for part in parts if len(part) > 1)


def _stages(graph: Graph, clusters: set[int]) -> list[int]:
    """The stage of each equation: the most of `clusters` on a path from it to the program's end, without itself."""
    stage = [0] * len(graph.eqns)
    for i in reversed(range(len(graph.eqns))):
        stage[i] = max((stage[j] + (j in clusters) for j in graph.after[i]), default=0)
    return stage


def _cut(jaxpr: Jaxpr, numbers: Sequence[int], most: int) -> list[list[int]]:
    """The clusters, in their order, as sets of at most `most` clusters with at most `MOST_ARRAYS` arrays."""
    parts: list[list[int]] = []
    bound: set[Var] = set()
    for i in numbers:
        e = jaxpr.eqns[i]
        mine = {a for a in e.inputs if isinstance(a, Var)}
        if e.params["kind"] != "update":
            mine.update(e.outputs)
        if not parts or len(parts[-1]) == most or len(bound | mine) > MOST_ARRAYS:
            parts.append([])
            bound = set()
        parts[-1].append(i)
        bound |= mine
    return parts


def _merged(clusters: Sequence[Eqn]) -> Eqn:
    """One equation of kind "alike" with all inputs and all outputs of the clusters; its body holds the clusters."""
    inputs = list(dict.fromkeys(a for e in clusters for a in e.inputs if isinstance(a, Var)))
    outputs = [v for e in clusters for v in e.outputs]
    inner = {v: Var(v.aval) for v in (*inputs, *outputs)}
    eqns = [
        e.replace(
            inputs=[inner[a] if isinstance(a, Var) else a for a in e.inputs], outputs=[inner[v] for v in e.outputs]
        )
        for e in clusters
    ]
    body = Jaxpr((), [inner[v] for v in inputs], [inner[v] for v in outputs], eqns)
    params = {"kind": "alike", "jaxpr": ClosedJaxpr(body), "space": (), "axes": ()}
    return Eqn(inputs, outputs, fusion_p, params, fusion_p.effects(params), clusters[-1].source)


__all__ = ["MergeAlike"]

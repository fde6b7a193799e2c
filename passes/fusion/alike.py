"""Clusters that are alike and wait for nothing of each other, as one: an optimizer has the same equations for each leaf.

`merge-alike` makes one `fusion` equation of kind "alike" of several elementwise clusters, or updates, whose equations are
these; a backend computes them side by side. It comes after `updates`, which says what is done in place.

Which ones may be one is told by stages: the most clusters, of those that have others like them, on a way from an equation to
the program's end. A cluster that another one waits for has a larger stage, so those of one stage do not wait for each
other; and as a way from one set of them to another leads to smaller stages only, any number of sets can be made at once:
all of it is linear in the program.
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
#: Larger clusters stay as they are. Measured on two cores with AVX-512, before and after, busy with other work. In place,
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
    """Make one `fusion` equation of several elementwise clusters, or updates, that are alike up to their sizes.

    Clusters of more than `most_elements` elements stay as they are.
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
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), program.consts)

    def _form(self, e: Eqn) -> Hashable | None:
        """What a cluster computes; None for what stays as it is."""
        if e.primitive is not fusion_p or e.params["kind"] not in ("elementwise", "update"):
            return None
        kind, size = e.params["kind"], math.prod(e.params["space"])
        body: Jaxpr = e.params["jaxpr"].jaxpr
        if size > self.most_elements:
            return None
        found = form(body.eqns, body.invars, [v for v in body.outvars if isinstance(v, Var)], size)
        return None if found is None else (kind, found)


def _sets(jaxpr: Jaxpr, like: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Of clusters (by number) that are alike, the sets that become one each."""
    if not like:
        return
    stage = _stages(Graph(jaxpr), {i for numbers in like for i in numbers})
    for numbers in like:
        at: dict[int, list[int]] = {}
        for i in numbers:
            at.setdefault(stage[i], []).append(i)
        for together in at.values():
            # Of nearly the same number each: equal leaves then share their kernels.
            count = len(_cut(jaxpr, together, len(together)))
            parts = _cut(jaxpr, together, -(-len(together) // count))
            yield from (part for part in parts if len(part) > 1)


def _stages(graph: Graph, clusters: set[int]) -> list[int]:
    """For each equation the most clusters on a way from it to the program's end, without itself."""
    stage = [0] * len(graph.eqns)
    for i in reversed(range(len(graph.eqns))):
        stage[i] = max((stage[j] + (j in clusters) for j in graph.after[i]), default=0)
    return stage


def _cut(jaxpr: Jaxpr, numbers: Sequence[int], most: int) -> list[list[int]]:
    """The clusters as sets of at most so many, whose arrays one dispatch may bind."""
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
    """One equation that computes what several do."""
    inputs = list(dict.fromkeys(a for e in clusters for a in e.inputs if isinstance(a, Var)))
    outputs = [v for e in clusters for v in e.outputs]
    inner = {v: Var(v.aval) for v in (*inputs, *outputs)}
    eqns = [
        e.replace(
            inputs=[inner[a] if isinstance(a, Var) else a for a in e.inputs], outputs=[inner[v] for v in e.outputs]
        )
        for e in clusters
    ]
    body = Jaxpr((), [inner[v] for v in inputs], eqns, [inner[v] for v in outputs])
    params = {"kind": "alike", "jaxpr": ClosedJaxpr(body), "space": (), "axes": ()}
    return Eqn(fusion_p, inputs, outputs, params, fusion_p.effects(params), clusters[-1].source)


__all__ = ["MergeAlike"]

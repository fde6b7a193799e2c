"""Replacing sets of equations by one equation each, in an order in which every value is computed before it is read."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitives.calls import fusion_p

from .broadcasts import merge
from .clusters import Cluster


def fusion_eqn(jaxpr: Jaxpr, cluster: Cluster, needed: set[Var]) -> Eqn:
    """The equation that stands for a cluster; `needed` are the values that are read outside."""
    eqns = [jaxpr.eqns[i] for i in sorted(cluster.eqns)]
    made = {v for e in eqns for v in e.outputs}
    inputs = list(dict.fromkeys(a for e in eqns for a in e.inputs if isinstance(a, Var) and a not in made))
    outputs = [v for e in eqns for v in e.outputs if v in needed]
    inner = {v: Var(v.aval) for v in (*inputs, *made)}

    def renamed(e: Eqn) -> Eqn:
        atoms = [inner[a] if isinstance(a, Var) else a for a in e.inputs]
        return e.replace(inputs=atoms, outputs=[inner[v] for v in e.outputs])

    body = merge(Jaxpr((), [inner[v] for v in inputs], [inner[v] for v in outputs], [renamed(e) for e in eqns]))
    params = {"kind": cluster.kind, "jaxpr": ClosedJaxpr(body), "space": cluster.space, "axes": cluster.axes}
    seed = jaxpr.eqns[cluster.seed]
    return Eqn(inputs, outputs, fusion_p, params, fusion_p.effects(params), seed.source)


def replaced(jaxpr: Jaxpr, clusters: Sequence[Cluster]) -> Jaxpr:
    """The jaxpr with each cluster as one equation."""
    of = {i: c for c in clusters for i in c.eqns}
    read_by: dict[Var, set[int]] = {}
    for i, e in enumerate(jaxpr.eqns):
        for a in e.inputs:
            if isinstance(a, Var):
                read_by.setdefault(a, set()).add(i)
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    # The new equations, each with the place that it would like to have.
    items: list[tuple[int, Eqn]] = [(i, e) for i, e in enumerate(jaxpr.eqns) if i not in of]
    for c in clusters:
        made = {v for i in c.eqns for v in jaxpr.eqns[i].outputs}
        needed = {v for v in made if v in returned or any(i not in c.eqns for i in read_by.get(v, ()))}
        items.append((max(c.eqns), fusion_eqn(jaxpr, c, needed)))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, in_order([e for _, e in sorted(items, key=_place)]))


def _place(item: tuple[int, Eqn]) -> int:
    return item[0]


def in_order(eqns: Sequence[Eqn]) -> list[Eqn]:
    """The equations in an order that computes before it reads, as near to the given one as possible.

    Equations with effects keep their order among themselves.
    """
    maker = {v: i for i, e in enumerate(eqns) for v in e.outputs}
    before: list[set[int]] = [{maker[a] for a in e.inputs if isinstance(a, Var) and a in maker} for e in eqns]
    last = None
    for i, e in enumerate(eqns):
        if e.effects:
            if last is not None:
                before[i].add(last)
            last = i
    after: list[list[int]] = [[] for _ in eqns]
    for i, makers in enumerate(before):
        for m in makers:
            after[m].append(i)
    missing = [len(makers) for makers in before]
    ready = [i for i, n in enumerate(missing) if n == 0]
    heapq.heapify(ready)
    out: list[Eqn] = []
    while ready:
        i = heapq.heappop(ready)
        out.append(eqns[i])
        for j in after[i]:
            missing[j] -= 1
            if missing[j] == 0:
                heapq.heappush(ready, j)
    assert len(out) == len(eqns), "a cluster reads what depends on it"
    return out

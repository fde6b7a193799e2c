"""Finding clusters: a reduction, and the neighbours that can be computed in the same passes over memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

SEEDS = (
    rd.reduce_sum_p, rd.reduce_max_p, rd.reduce_min_p, rd.reduce_prod_p, rd.reduce_and_p, rd.reduce_or_p,
    rd.argmax_p, rd.argmin_p,
)  # fmt: skip
#: Elementwise equations that stay alone.
KEPT_APART = frozenset((ew.copy_p,))
#: Fewer rows than this are not worth several passes by one workgroup each.
LEAST_ROWS = 8
#: More equations than this are never one cluster: kernels of thousands of operations spill registers.
MOST = 96


@dataclass(frozen=True)
class Cluster:
    """Equations (by number) that become one.

    Attributes:
        kind: what it is.
        eqns: the numbers of its equations.
        seed: the number of the equation that it was made for.
        space: the shape of its full values.
        axes: the dimensions that are reduced.
    """

    kind: str
    eqns: frozenset[int]
    seed: int
    space: tuple[int, ...]
    axes: tuple[int, ...]


def reduction_clusters(graph: Graph, least: int, others: Sequence[Cluster] = ()) -> list[Cluster]:
    """Disjoint clusters around the reductions of at least so many elements, beside `others`."""
    taken: set[int] = {i for c in others for i in c.eqns}
    found: list[Cluster] = []
    for i, e in enumerate(graph.eqns):
        if i in taken or e.primitive not in SEEDS or e.inputs[0].aval.size < least:
            continue
        axes = _axes(e)
        if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or not isinstance(e.inputs[0], Var):
            continue
        grown = _Growing(graph, i, axes, taken).run()
        cluster = Cluster("reduction", frozenset(grown), i, e.inputs[0].aval.shape, axes)
        # Two clusters may each be well formed and yet wait for one another.
        if graph.acyclic([*(c.eqns for c in (*others, *found)), cluster.eqns]):
            found.append(cluster)
            taken |= cluster.eqns
    return found


def _axes(e: Eqn) -> tuple[int, ...]:
    return tuple(sorted(e.params["axes"]))


class Graph:
    """Who computes and who reads each value."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.eqns = jaxpr.eqns
        self.maker: dict[Var, int] = {}
        self.readers: dict[Var, list[int]] = {}
        self.returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
        for i, e in enumerate(jaxpr.eqns):
            for v in e.outputs:
                self.maker[v] = i
            for a in e.inputs:
                if isinstance(a, Var):
                    self.readers.setdefault(a, []).append(i)

    def makers(self, i: int) -> Iterable[int]:
        """The equations that compute the operands of the i-th."""
        for a in self.eqns[i].inputs:
            if isinstance(a, Var) and a in self.maker:
                yield self.maker[a]

    def users(self, i: int) -> Iterable[int]:
        """The equations that read the results of the i-th."""
        for v in self.eqns[i].outputs:
            yield from self.readers.get(v, ())

    def returns(self, i: int) -> bool:
        """Whether the program returns a result of the i-th equation."""
        return any(v in self.returned for v in self.eqns[i].outputs)

    def read_outside(self, v: Var, group: Set[int]) -> bool:
        """Whether something outside the group needs a value."""
        return v in self.returned or any(i not in group for i in self.readers.get(v, ()))

    def convex(self, group: set[int]) -> bool:
        """Whether nothing outside the group both depends on it and feeds it."""
        first, last = min(group), max(group)
        outside: set[int] = set()  # equations outside that depend on the group
        for i in range(first, last + 1):
            if i in group:
                if any(m in outside for m in self.makers(i)):
                    return False
            elif any(m in group or m in outside for m in self.makers(i)):
                outside.add(i)
        return True

    def acyclic(self, groups: list[frozenset[int]]) -> bool:
        """Whether the program has an order when each group is one equation."""
        name = {i: -1 - k for k, g in enumerate(groups) for i in g}
        before: dict[int, set[int]] = {}
        for i in range(len(self.eqns)):
            n = name.get(i, i)
            before.setdefault(n, set()).update(m for m in (name.get(j, j) for j in self.makers(i)) if m != n)
        after: dict[int, list[int]] = {}
        missing = {n: len(b) for n, b in before.items()}
        for n, b in before.items():
            for m in b:
                after.setdefault(m, []).append(n)
        ready = [n for n, k in missing.items() if k == 0]
        done = 0
        while ready:
            n = ready.pop()
            done += 1
            for m in after.get(n, ()):
                missing[m] -= 1
                if missing[m] == 0:
                    ready.append(m)
        return done == len(missing)


class _Growing:
    """One cluster while it grows from its seed."""

    def __init__(self, graph: Graph, seed: int, axes: tuple[int, ...], taken: set[int]) -> None:
        self.graph = graph
        self.seed = seed
        self.axes = axes
        self.taken = taken
        self.space: tuple[int, ...] = graph.eqns[seed].inputs[0].aval.shape
        self.rows = math.prod(n for d, n in enumerate(self.space) if d not in axes)
        self.group = {seed}
        #: Several passes are possible where the reduced dimensions are the last, and rows enough for all workgroups.
        self.last = axes[-1] == len(self.space) - 1
        self.deep = self.last and self.rows >= LEAST_ROWS

    def run(self) -> set[int]:
        """The numbers of the equations."""
        work = [self.seed]
        while work and len(self.group) < MOST:
            i = work.pop()
            for j in (*self.graph.makers(i), *self.graph.users(i), *self._siblings(i)):
                if j in self.group or j in self.taken or len(self.group) >= MOST or not self._fits(j):
                    continue
                if self.graph.convex(self.group | {j}) and (self.deep or self._one_pass(self.group | {j})):
                    self.group.add(j)
                    work.append(j)
        self._drop_loose()
        return self.group

    def _siblings(self, i: int) -> Iterable[int]:
        """Other reductions of a full operand of the i-th equation."""
        for a in self.graph.eqns[i].inputs:
            if isinstance(a, Var) and self._full(a):
                yield from (j for j in self.graph.readers[a] if self.graph.eqns[j].primitive in SEEDS)

    def _one_pass(self, group: set[int]) -> bool:
        """Whether nothing in the group but reductions comes after a reduction, and what is there feeds one."""
        seeds = {i for i in group if self.graph.eqns[i].primitive in SEEDS}
        feeds = set(seeds)
        for i in sorted(group, reverse=True):
            if any(j in feeds for j in self.graph.users(i)):
                feeds.add(i)
        return feeds == group and not any(m in seeds for i in group for m in self.graph.makers(i))

    def _full(self, a: Atom) -> bool:
        return a.aval.shape == self.space

    def _inside(self, a: Atom) -> bool:
        return isinstance(a, Var) and self.graph.maker.get(a) in self.group

    def _fits(self, i: int) -> bool:
        """Whether an equation is one that a cluster can hold, beside those that it holds."""
        e = self.graph.eqns[i]
        if e.effects or len(e.outputs) != 1:
            return False
        out = e.outputs[0]
        p = e.primitive
        if p in SEEDS:
            return self._full(e.inputs[0]) and _axes(e) == self.axes
        if p is st.broadcast_in_dim_p:
            return self._full(out) and self._broadcast_fits(e)
        if p is st.reshape_p:
            return self._inside(e.inputs[0]) and self._row(e.inputs[0]) and self._row(out)
        if p.family != "elementwise" or p in KEPT_APART:
            return False
        if self._full(out):
            return all(self._full(a) or not a.aval.shape for a in e.inputs)
        # Of one number a row: only what is made of the cluster's own reductions.
        if not self._row(out) or not any(self._inside(a) for a in e.inputs):
            return False
        return all(not a.aval.shape or self._row(a) for a in e.inputs)

    def _row(self, a: Atom) -> bool:
        """Whether a value has one number for each index that is not reduced."""
        return a.aval.size == self.rows and not self._full(a)

    def _broadcast_fits(self, e: Eqn) -> bool:
        x, dims = e.inputs[0], e.params["broadcast_dimensions"]
        if not x.aval.shape:
            return True
        if self._inside(x):
            kept = [d for d in range(len(self.space)) if d not in self.axes]
            given = [d for d, n in zip(dims, x.aval.shape) if n != 1]
            return given == [d for d in kept if self.space[d] != 1]
        # An operand from outside: along the last dimension all of it, or one number.
        reduced = dict(zip(dims, x.aval.shape))
        tail = [reduced.get(d, 1) for d in (self.axes if self.last else range(self.axes[-1] + 1, len(self.space)))]
        whole = [self.space[d] for d in (self.axes if self.last else range(self.axes[-1] + 1, len(self.space)))]
        return tail == whole or all(n == 1 for n in tail)

    def _drop_loose(self) -> None:
        """Leave out equations that only move data or repeat it for readers outside."""
        changed = True
        while changed:
            changed = False
            for i in sorted(self.group, reverse=True):
                e = self.graph.eqns[i]
                moves = e.primitive in (st.broadcast_in_dim_p, st.reshape_p)
                if moves and not any(j in self.group for j in self.graph.users(i)):
                    self.group.discard(i)
                    changed = True


__all__ = ["KEPT_APART", "SEEDS", "Cluster", "Graph", "reduction_clusters"]

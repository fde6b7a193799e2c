"""Finding clusters: a reduction, and the neighbours that can be computed in the same passes over memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Atom, Eqn, Var
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .graph import Graph, Group, Order

SEEDS = (
    rd.reduce_sum_p, rd.reduce_max_p, rd.reduce_min_p, rd.reduce_prod_p, rd.reduce_and_p, rd.reduce_or_p,
    rd.argmax_p, rd.argmin_p,
)  # fmt: skip
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


def reduction_clusters(graph: Graph, order: Order, least: int, others: Sequence[Cluster] = ()) -> list[Cluster]:
    """Disjoint clusters around the reductions of at least so many elements, beside `others`, which `order` holds."""
    taken: set[int] = {i for c in others for i in c.eqns}
    found: list[Cluster] = []
    for i, e in enumerate(graph.eqns):
        if i in taken or not is_seed(e, least):
            continue
        axes = _axes(e)
        if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or not isinstance(e.inputs[0], Var):
            continue
        grown = _Growing(graph, i, axes, taken).run()
        cluster = Cluster("reduction", frozenset(grown), i, e.inputs[0].aval.shape, axes)
        # Two clusters may each be well formed and yet wait for one another.
        if order.join(cluster.eqns):
            found.append(cluster)
            taken |= cluster.eqns
    return found


def is_seed(e: Eqn, least: int) -> bool:
    """Whether an equation is a reduction of at least so many elements."""
    return e.primitive in SEEDS and e.inputs[0].aval.size >= least


def _axes(e: Eqn) -> tuple[int, ...]:
    return tuple(sorted(e.params["axes"]))


class _Growing:
    """One cluster while it grows from its seed."""

    def __init__(self, graph: Graph, seed: int, axes: tuple[int, ...], taken: set[int]) -> None:
        self.graph = graph
        self.seed = seed
        self.axes = axes
        self.taken = taken
        self.space: tuple[int, ...] = graph.eqns[seed].inputs[0].aval.shape
        self.rows = math.prod(n for d, n in enumerate(self.space) if d not in axes)
        self._grown = Group(graph, seed)
        self.group = self._grown.members
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
                if self._grown.may_take(j) and (self.deep or self._one_pass(j)):
                    self._grown.take(j)
                    work.append(j)
        self._drop_loose()
        return self.group

    def _siblings(self, i: int) -> Iterable[int]:
        """Other reductions of a full operand of the i-th equation."""
        for a in self.graph.eqns[i].inputs:
            if isinstance(a, Var) and self._full(a):
                yield from (j for j in self.graph.readers[a] if self.graph.eqns[j].primitive in SEEDS)

    def _one_pass(self, i: int) -> bool:
        """Whether one more equation leaves a group that one pass computes.

        In such a group nothing reads a reduction, and what is none feeds one: each has a reader in the group.
        """
        if any(j in self.group and self.graph.eqns[j].primitive in SEEDS for j in self.graph.makers(i)):
            return False
        return (self.graph.eqns[i].primitive in SEEDS) != any(j in self.group for j in self.graph.users(i))

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
        if p.family != "elementwise" or p.apart:
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


__all__ = ["SEEDS", "Cluster", "is_seed", "reduction_clusters"]

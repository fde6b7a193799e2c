"""Finding clusters: a reduction, and the neighbours that can be computed in the same passes over memory.

A cluster grows from one reduction, its *seed*. The seed's operand has the cluster's *space* as its shape, and the seed
reduces some *axes* of it. Three kinds of values occur in a cluster. A *full* value has the shape of the space. A *row* value
has one number for each index that is not reduced, as the seed's result has. A scalar is a scalar.

The cluster takes an equation that makes an operand of one of its equations, or reads a result of one, or reduces a full
operand of one (a sibling). The equation must be of a kind that a kernel can compute in such a space (`_fits`). Nothing
outside the cluster may need a result of the cluster and make an operand of it (`Group` in `graph.py`).

A row that is reduced and then read again needs a second pass over it: the softmax of a row reads it for the maximum, for the
sum and for the quotients. Several passes are possible where the reduced axes are the last ones and there are rows enough
for all workgroups; such a cluster is *deep*. Any other cluster is computed in one pass (`_one_pass`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Atom, Eqn, Var
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .gathers import is_gather_of_elements, is_gather_of_rows, joined_for, read_anywhere
from .graph import Graph, Group, Order

#: The reductions that kernels of rows compute. They have no form of xor, nor of a reduction by a function of the user's.
SEEDS = (
    rd.reduce_sum_p, rd.reduce_max_p, rd.reduce_min_p, rd.reduce_prod_p, rd.reduce_and_p, rd.reduce_or_p,
    rd.argmax_p, rd.argmin_p,
)  # fmt: skip
#: The equations by which numbers become components of index vectors.
_RESHAPED = (st.broadcast_in_dim_p, st.reshape_p)
#: Fewer rows than this are not worth several passes by one workgroup each.
LEAST_ROWS = 8
#: More equations than this are never one cluster: kernels of thousands of operations spill registers.
MOST = 96


@dataclass(frozen=True)
class Cluster:
    """Equations of a program, by their numbers, that become one `fusion` equation.

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
    """Clusters that grow from the reductions of at least `least` elements. No two share an equation.

    `others` are clusters that were found before; `order` holds them, and gets the new ones.
    """
    taken: set[int] = {i for c in others for i in c.eqns}
    found: list[Cluster] = []
    for i, e in enumerate(graph.eqns):
        if i not in taken and is_seed(e, least):
            found += _grown(graph, order, i, taken)
    for i, e in enumerate(graph.eqns):
        if i not in taken and is_gather_of_rows(e) and e.outputs[0].aval.size >= least:
            found += _grown(graph, order, i, taken)
    return found


def _space_of(seed: Eqn) -> tuple[Atom, tuple[int, ...]]:
    """A value that has the shape of a seed's space, and the axes that the cluster goes along."""
    if seed.primitive in SEEDS:
        return seed.inputs[0], _axes(seed)
    return seed.outputs[0], tuple(seed.params["dimension_numbers"].offset_dims)


def _grown(graph: Graph, order: Order, seed: int, taken: set[int]) -> list[Cluster]:
    """The cluster of a seed, whose equations are then taken; none where there is none."""
    full, axes = _space_of(graph.eqns[seed])
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or not isinstance(full, Var):
        return []
    growing = _Growing(graph, seed, full.aval.shape, axes, taken)
    grown = growing.run()
    reduces = graph.eqns[seed].primitive in SEEDS
    cluster = Cluster("reduction" if reduces else "rows", frozenset(grown), seed, full.aval.shape, axes)
    # Each of two clusters may be computable, and yet each may need a result of the other.
    if not (reduces or growing.computes()) or not order.join(cluster.eqns):
        return []
    taken |= cluster.eqns
    return [cluster]


def is_seed(e: Eqn, least: int) -> bool:
    """Whether an equation is a reduction of at least so many elements."""
    return e.primitive in SEEDS and e.inputs[0].aval.size >= least


def _axes(e: Eqn) -> tuple[int, ...]:
    return tuple(sorted(e.params["axes"]))


class _Growing:
    """One cluster while it grows from its seed."""

    def __init__(self, graph: Graph, seed: int, space: tuple[int, ...], axes: tuple[int, ...], taken: set[int]) -> None:
        self.graph = graph
        self.seed = seed
        self.axes = axes
        self.taken = taken
        self.space = space
        self.rows = math.prod(n for d, n in enumerate(self.space) if d not in axes)
        self._grown = Group(graph, seed)
        self.group = self._grown.members
        #: What gathers of the cluster read, anywhere in it: never made by the cluster.
        self._whole: set[Atom] = set()
        #: What says where gathered rows begin, and what that is computed of.
        self._indices: set[Atom] = set()
        #: Whether the reduced axes are the last ones of the space.
        self.last = axes[-1] == len(self.space) - 1
        #: Whether the kernel may go over a row several times.
        self.deep = self.last and self.rows >= LEAST_ROWS

    def computes(self) -> bool:
        """Whether it computes anything of the rows that it gathers."""
        return any(
            e.primitive in SEEDS or (e.primitive.family == "elementwise" and self._full(e.outputs[0]))
            for e in (self.graph.eqns[i] for i in self.group)
        )

    def run(self) -> set[int]:
        """The numbers of the equations."""
        self._took(self.seed)
        work = [self.seed]
        while work and len(self.group) < MOST:
            i = work.pop()
            for j in (*self.graph.makers(i), *self.graph.users(i), *self._siblings(i)):
                if j in self.group or j in self.taken or len(self.group) >= MOST or not self._fits(j):
                    continue
                if self._grown.may_take(j) and (self.deep or self._one_pass(j)):
                    self._grown.take(j)
                    self._took(j)
                    work.append(j)
        self._drop_loose()
        return self.group

    def _took(self, i: int) -> None:
        e = self.graph.eqns[i]
        self._whole.update(read_anywhere(e))
        if is_gather_of_rows(e):
            self._indices.add(e.inputs[1])
        elif e.outputs[0] in self._indices:
            self._indices.update(e.inputs)

    def _siblings(self, i: int) -> Iterable[int]:
        """Other reductions of a full operand of the i-th equation."""
        for a in self.graph.eqns[i].inputs:
            if isinstance(a, Var) and self._full(a):
                yield from (j for j in self.graph.readers[a] if self.graph.eqns[j].primitive in SEEDS)

    def _one_pass(self, i: int) -> bool:
        """Whether one pass still computes the cluster when it takes the i-th equation.

        One pass computes a cluster if two things hold. No equation of the cluster reads the result of a reduction of the
        cluster. Each equation that is no reduction has a reader in the cluster.
        """
        if any(j in self.group and self.graph.eqns[j].primitive in SEEDS for j in self.graph.makers(i)):
            return False
        return (self.graph.eqns[i].primitive in SEEDS) != any(j in self.group for j in self.graph.users(i))

    def _full(self, a: Atom) -> bool:
        return a.aval.shape == self.space

    def _inside(self, a: Atom) -> bool:
        return isinstance(a, Var) and self.graph.maker.get(a) in self.group

    def _fits(self, i: int) -> bool:
        """Whether a kernel of this cluster could compute the i-th equation, by its primitive and its shapes."""
        e = self.graph.eqns[i]
        if e.effects or len(e.outputs) != 1 or e.outputs[0] in self._whole:
            return False
        out = e.outputs[0]
        p = e.primitive
        if p is ix.gather_p:
            rows = self.last and is_gather_of_rows(e) and e.params["dimension_numbers"].offset_dims == self.axes
            return self._full(out) and (rows or is_gather_of_elements(e, 1)) and not self._inside(e.inputs[0])
        if p is st.concatenate_p:
            readers = [self.graph.eqns[j] for j in self.graph.readers.get(out, ())]
            places = out.aval.shape[:-1]
            if out in self.graph.returned or not joined_for(e, readers):
                return False
            rows = places == self.space[: self.axes[0]] and all(map(is_gather_of_rows, readers))
            return rows or (places == self.space and all(is_gather_of_elements(r, 1) for r in readers))
        if out in self._indices:
            return self._makes_indices(e)
        if self._component(out):
            return _is_light(e) and all(
                self._component(a) or not a.aval.shape or (p in _RESHAPED and self._full(a)) for a in e.inputs
            )
        if p in SEEDS:
            return self._full(e.inputs[0]) and _axes(e) == self.axes
        if p is st.iota_p:
            return self._full(out)
        if p is st.broadcast_in_dim_p:
            return self._full(out) and self._broadcast_fits(e)
        if p is st.slice_p:
            return self._full(out) and not self._inside(e.inputs[0]) and (not self.last or along_rows(e, self.axes))
        if p is st.reshape_p:
            return self._inside(e.inputs[0]) and self._row(e.inputs[0]) and self._row(out)
        if p.family != "elementwise" or p.apart:
            return False
        if self._full(out):
            return all(self._full(a) or not a.aval.shape for a in e.inputs)
        # A row value: the cluster takes its equation only where one operand is made by the cluster.
        if not self._row(out) or not any(self._inside(a) for a in e.inputs):
            return False
        return all(not a.aval.shape or self._row(a) for a in e.inputs)

    def _makes_indices(self, e: Eqn) -> bool:
        """Whether an equation computes of one number for each row what says where gathered rows begin."""
        leading = self.space[: self.axes[0]]
        return _is_light(e) and all(
            not a.aval.shape or a.aval.shape in (leading, (*leading, 1)) for a in (*e.inputs, *e.outputs)
        )

    def _component(self, a: Atom) -> bool:
        """Whether a value is one component of the index vectors of a gather."""
        return a.aval.shape == (*self.space, 1)

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
        # An operand from outside. Vectors go along the reduced axes if these are the last, and there it is whole, or one number.
        return not self.last or along_rows(e, self.axes)

    def _drop_loose(self) -> None:
        """Give back what only moves elements, or joins components, and whose results only equations outside the cluster read."""
        changed = True
        while changed:
            changed = False
            for i in sorted(self.group, reverse=True):
                e = self.graph.eqns[i]
                moves = e.primitive in (st.broadcast_in_dim_p, st.slice_p, st.reshape_p, st.iota_p, st.concatenate_p)
                if moves and not any(j in self.group for j in self.graph.users(i)):
                    self.group.discard(i)
                    changed = True


def _is_light(e: Eqn) -> bool:
    """Whether an equation is one of those that indices are made of: elementwise, or the same elements under another shape."""
    p = e.primitive
    return p in (*_RESHAPED, st.iota_p) or (p.family == "elementwise" and not p.apart)


def along_rows(e: Eqn, axes: Sequence[int]) -> bool:
    """Whether vectors along these last axes read neighbours of the operand of a broadcast or slice, or one number."""
    if e.primitive is st.slice_p:
        whole = zip(e.inputs[0].aval.shape, e.outputs[0].aval.shape)
        return all(n == m for d, (n, m) in enumerate(whole) if d in axes[1:])
    given = dict(zip(e.params["broadcast_dimensions"], e.inputs[0].aval.shape))
    extents = [e.outputs[0].aval.shape[d] for d in axes]
    return all(given.get(d, 1) == 1 for d in axes) or [given.get(d, 1) for d in axes] == extents


def reason_against(graph: Graph, seed: int, other: int, least: int) -> str | None:
    """Why an equation is not in the cluster of a reduction, or of gathered rows; None where that is in question for another reason
    only."""
    e, f = graph.eqns[seed], graph.eqns[other]
    if e.primitive not in SEEDS and not is_gather_of_rows(e):
        return None
    full, axes = _space_of(e)
    name = e.primitive.name
    if full.aval.size < least:
        return f"{name} starts no kernel: its {full.aval.size} elements are fewer than least-elements={least}, where IREE does as well"
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return f"{name} starts no kernel: its axes {axes} are not neighbours"
    growing = _Growing(graph, seed, full.aval.shape, axes, set())
    group = growing.run()
    if other in group:
        return (
            f"the kernel of {name} could hold {f.primitive.name}, but it is in another cluster that was formed before"
        )
    if f.primitive in SEEDS and _axes(f) != axes:
        return f"{name} goes over the axes {axes}, {f.primitive.name} over {_axes(f)}: one kernel goes over one set"
    if not growing._fits(other):  # pyright: ignore[reportPrivateUsage]
        space = "x".join(map(str, growing.space))
        given = ", ".join(v.aval.short() for v in f.outputs)
        what = f"{f.primitive.name} gives {given}, or is no such equation"
        return f"a kernel of {name} computes elementwise values of {space} and its rows; {what}"
    if not growing.deep and any(j in group for j in graph.makers(other)):
        why = f"fewer than {LEAST_ROWS} rows" if growing.last else "its axes are not the last ones"
        return f"{f.primitive.name} would read the rows of {name} in a second pass, and there is one pass only: {why}"
    return (
        f"no chain of such equations leads from {name} to {f.primitive.name} without a value that is computed outside"
    )


__all__ = ["SEEDS", "Cluster", "is_seed", "reason_against", "reduction_clusters"]

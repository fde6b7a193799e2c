"""Finding epilogues: a contraction, and the elementwise equations that can be computed before its result is stored."""

from __future__ import annotations

from collections.abc import Iterator

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st

from .clusters import Cluster
from .graph import Graph, Group, Order

#: The products whose kernels take epilogues.
SEEDS = (ct.dot_general_p, ct.conv_general_dilated_p)
#: More equations than this are never one epilogue.
MOST = 40
#: Arrays of the result's shape that an epilogue reads and writes: tile by tile, they are better streamed if there are more.
MOST_ARRAYS = 4


def contraction_clusters(graph: Graph, order: Order, least: int) -> list[Cluster]:
    """Disjoint clusters around the contractions of at least so many operations; `order` joins each."""
    taken: set[int] = set()
    found: list[Cluster] = []
    for i, e in enumerate(graph.eqns):
        if e.primitive not in SEEDS or i in taken or not _suits(e) or ct.operations(e) < least:
            continue
        grown = _Growing(graph, i, taken).run()
        if len(grown) == 1:
            continue
        cluster = Cluster("contraction", frozenset(grown), i, e.outputs[0].aval.shape, ())
        if order.join(cluster.eqns):
            found.append(cluster)
            taken |= cluster.eqns
    return found


def _suits(e: Eqn) -> bool:
    """Whether a contraction may have an epilogue: of real numbers, with the dimensions in the order of a kernel."""
    out = e.outputs[0].aval
    if dtypes.is_complex(out.dtype) or dtypes.is_bool(out.dtype) or not all(isinstance(a, Var) for a in e.inputs):
        return False
    if e.primitive is ct.dot_general_p:
        return out.ndim > 0
    return e.params["dimension_numbers"].out_spec[1] == out.ndim - 1


def _columns(e: Eqn) -> int:
    """How many of the result's last dimensions make its columns."""
    if e.primitive is not ct.dot_general_p:
        return 1
    (lc, rc), (lb, rb) = e.params["dimension_numbers"]
    x, y = (a.aval.ndim for a in e.inputs)
    return len(ct.dot_free_dims(y, rc, rb)) or len(ct.dot_free_dims(x, lc, lb)) or 1


class _Growing:
    """One cluster while it grows from its contraction."""

    def __init__(self, graph: Graph, seed: int, taken: set[int]) -> None:
        self.graph, self.seed, self.taken = graph, seed, taken
        e = graph.eqns[seed]
        self.space: tuple[int, ...] = e.outputs[0].aval.shape
        self.tail = self.space[len(self.space) - _columns(e) :]
        self._grown = Group(graph, seed)
        self.group = self._grown.members

    def run(self) -> set[int]:
        """The numbers of the equations."""
        work = [self.seed]
        while work:
            i = work.pop(0)
            for j in self._neighbours(i):
                if j in self.group or j in self.taken or j == self.seed or len(self.group) >= MOST:
                    continue
                if self._fits(j) and self._grown.may_take(j):
                    self._grown.take(j)
                    work.append(j)
        self._drop_loose()
        return self.group if self._arrays() <= MOST_ARRAYS else {self.seed}

    def _neighbours(self, i: int) -> Iterator[int]:
        """What reads an equation's results, and what computes its operands for this cluster alone."""
        if i != self.seed:
            for j in self.graph.makers(i):
                if all(k in self.group for k in self.graph.users(j)) and not self.graph.returns(j):
                    yield j
        if i == self.seed or any(m in self.group for m in self.graph.makers(i)):
            yield from self.graph.users(i)

    def _arrays(self) -> int:
        """The arrays of the result's shape that the equations read and write."""
        eqns = [self.graph.eqns[i] for i in self.group]
        made = {v for e in eqns for v in e.outputs}
        operands = {a for e in eqns if e.primitive not in SEEDS for a in e.inputs if isinstance(a, Var)}
        written = sum(self.graph.read_outside(v, self.group) for v in made)
        return written + sum(self._full(a) for a in operands - made)

    def _fits(self, i: int) -> bool:
        e = self.graph.eqns[i]
        if e.effects or len(e.outputs) != 1 or e.outputs[0].aval.shape != self.space:
            return False
        if dtypes.is_complex(e.outputs[0].aval.dtype):
            return False
        if e.primitive is st.broadcast_in_dim_p:
            return self._broadcast_fits(e)
        if e.primitive.family != "elementwise" or e.primitive.apart:
            return False
        return all(self._full(a) or not a.aval.shape for a in e.inputs)

    def _full(self, a: Atom) -> bool:
        return a.aval.shape == self.space and not dtypes.is_complex(a.aval.dtype)

    def _broadcast_fits(self, e: Eqn) -> bool:
        """Along the columns all of the operand, or one number."""
        given = dict(zip(e.params["broadcast_dimensions"], e.inputs[0].aval.shape))
        first = len(self.space) - len(self.tail)
        sizes = tuple(given.get(first + d, 1) for d in range(len(self.tail)))
        return sizes == self.tail or all(n == 1 for n in sizes)

    def _drop_loose(self) -> None:
        """Leave out what the contraction's result does not reach and no equation inside reads."""
        for i in sorted(self.group, reverse=True):
            reached = i == self.seed or any(m in self.group for m in self.graph.makers(i))
            if not reached and not any(j in self.group for j in self.graph.users(i)):
                self.group.discard(i)


def reason_against(graph: Graph, seed: int, other: int, least: int) -> str | None:
    """Why an equation is not in the epilogue of a contraction; None where that is in question for another reason only."""
    e, f = graph.eqns[seed], graph.eqns[other]
    if e.primitive not in SEEDS:
        return None
    name = e.primitive.name
    if not _suits(e):
        return f"{name} takes no epilogue: its result is complex or bool, an operand is a literal, or its columns come not last"
    if ct.operations(e) < least:
        return f"{name} takes no epilogue: its {ct.operations(e)} operations are fewer than least-operations={least}"
    growing = _Growing(graph, seed, set())
    group = growing.run()
    if other in group:
        return (
            f"the epilogue of {name} could hold {f.primitive.name}, but it is in another cluster that was formed before"
        )
    out = f.outputs[0].aval if f.outputs else None
    if f.primitive.family != "elementwise" and f.primitive is not st.broadcast_in_dim_p:
        return f"the epilogue of {name} holds elementwise equations; {f.primitive.name} is none"
    if out is None or out.shape != growing.space:
        shape = "nothing" if out is None else out.short()
        return f"the epilogue of {name} computes {e.outputs[0].aval.short()}, element by element; {f.primitive.name} gives {shape}"
    if not growing._fits(other):  # pyright: ignore[reportPrivateUsage]
        what = "arrays of its result's shape, rows of columns and scalars"
        return f"the epilogue of {name} reads {what}; {f.primitive.name} reads others"
    if len(group) == 1 and any(j == other for j in graph.users(seed)):
        return f"an epilogue of {name} would read and write more than {MOST_ARRAYS} arrays of its size"
    return f"what {name} gives does not reach {f.primitive.name} through elementwise equations alone, or a value outside comes between"


__all__ = ["SEEDS", "contraction_clusters", "reason_against"]

"""rematerialize: values that are held at the peak are computed again where they are read after it.

At every equation of a program some values are held: made before it, and read by it or after it. At the *peak* these are
the most bytes. A value that the peak's equation does not read, and across which work is done before it is next read, may
be made anew there, of values that are held anyway. That saves its bytes, and costs the equations that make it:

- *cheap* are elementwise operations, reductions, and what moves elements;
- *dear* is all other work (products, sorting, random bits, ...). A value whose making has a dear equation in it is made
  again with ``products=true`` only, at the price of one such equation a value;
- equations with effects, loops and calls are not done again.

What is made again stands behind an `optimization_barrier`, so that no pass makes one of it and the first, as in the
backward pass of `checkpoint`. In ``grad`` of a function the peak lies between its forward and its backward pass: without
options the program that comes out is that of ``checkpoint(..., policy=dots_saveable)``.

The pass is in no target's pipeline. ``dumpir --memory`` plans each program once more with it, to say what it would save.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, has_nested, nested_jaxprs
from quire.ir.primitives.structural import optimization_barrier_p
from quire.ir.weights import weight

from .base import Pass, PassContext, register_pass
from .cost import Cost, estimate_eqn
from .dce import dce_eqns
from .rewriting import transform_nested, with_params

CHEAP = frozenset(("elementwise", "structural", "reductions", "indexing"))
"""The families of equations that cost about as much as reading their operands."""
MOST_DEAR = 1
"""So many dear equations make one value again at most."""


@register_pass
@dataclass(frozen=True)
class Rematerialize(Pass):
    """Compute values that are held at the peak again where they are read after it, instead of holding them.

    products: also those that take a product (or other dear work) each, the largest first.
    """

    name = "rematerialize"
    products: bool = False

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = self._in(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)

    def _in(self, jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
        lives = Lives(jaxpr)
        if lives.peak is None:
            return jaxpr
        eqns = list(jaxpr.eqns)
        eqn = eqns[lives.peak]
        if inner_peak(eqn):  # what is held within a loop's body, or a branch
            params = transform_nested(eqn.params, context, str(self), lambda j: self._in(j, context))
            eqns[lives.peak] = with_params(eqn, params)
        again = [c for c in candidates(jaxpr, lives, products=self.products) if c.chosen]
        if again:
            eqns = _Again(jaxpr, eqns, lives, {c.var for c in again}).written()
            context.counters["made again"] += len(again)
        elif eqns[lives.peak] is eqn:
            return jaxpr
        # What only the second computation needs is not computed the first time.
        return dce_eqns(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns))


def inner_peak(eqn: Eqn) -> int:
    """The most bytes that are held at one time within an equation's programs, beside what goes into them."""
    if not eqn.params or not has_nested(eqn.params):
        return 0
    inner = (j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in nested_jaxprs(eqn.params))
    return max((Lives(j).most for j in inner), default=0)


class Lives:
    """Which values a program holds at each of its equations.

    Arguments, constants and results are the caller's, and not counted. A broadcast, reshape or transpose is no array: what
    holds it is its operand, its *root*.

    Attributes:
        made: of each variable that an equation makes, the number of the equation.
        reads: of each root, the numbers of the equations that read it or a view of it, in order.
        peak: the number of the equation while which most bytes are held; None where none are.
        most: these bytes.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.made: dict[Var, int] = {}
        self.roots: dict[Var, Var] = {}
        self.reads: dict[Var, list[int]] = {}
        for i, eqn in enumerate(jaxpr.eqns):
            for a in eqn.inputs:
                if isinstance(a, Var) and a in self.made:
                    self.reads.setdefault(self.root(a), []).append(i)
            viewed = _viewed(eqn)
            for v in eqn.outputs:
                self.made[v] = i
                self.reads.setdefault(v, [])
                if viewed is not None:
                    self.roots[v] = self.root(viewed)
        self.results = {self.root(a) for a in jaxpr.outvars if isinstance(a, Var)}
        self.peak, self.most = self._peak()

    def root(self, v: Var) -> Var:
        """The variable in whose memory a value lies."""
        return self.roots.get(v, v)

    def held(self) -> Iterable[Var]:
        """The roots that are counted: made here, and no results."""
        return (v for v in self.made if v not in self.roots and v not in self.results)

    def _peak(self) -> tuple[int | None, int]:
        count = len(self.jaxpr.eqns)
        change = [0] * (count + 1)
        for v in self.held():
            change[self.made[v]] += v.aval.nbytes
            change[max([self.made[v], *self.reads[v][-1:]]) + 1] -= v.aval.nbytes
        most, at, now = 0, None, 0
        for i, eqn in enumerate(self.jaxpr.eqns):
            now += change[i]
            here = now + inner_peak(eqn)
            if here > most:
                most, at = here, i
        return at, most

    def crossing(self) -> list[tuple[Var, int]]:
        """The roots that are held across the peak, and across work, in the order in which they are made; and where each is
        read next.
        """
        at = self.peak
        if at is None:
            return []
        work = [0]  # how many equations before each one are no cheap ones
        for eqn in self.jaxpr.eqns:
            work.append(work[-1] + (eqn.primitive.family not in CHEAP))
        found: list[tuple[Var, int]] = []
        for v in self.held():
            read = self.reads[v]
            after = next((i for i in read if i > at), None)
            if self.made[v] >= at or after is None or at in read:
                continue
            before = max((i for i in read if i < at), default=self.made[v])
            if work[after] - work[before + 1]:
                found.append((v, after))
        return found


def _viewed(eqn: Eqn) -> Var | None:
    """The operand that an equation only shows in another form, no smaller than it is."""
    if len(eqn.inputs) != 1 or len(eqn.outputs) != 1 or eqn.primitive.family != "structural" or weight(eqn):
        return None
    (a,), (v,) = eqn.inputs, eqn.outputs
    return a if isinstance(a, Var) and v.aval.size >= a.aval.size else None


@dataclass
class Candidate:
    """A value that is held across the peak.

    Attributes:
        var: the value.
        eqn: the equation that makes it.
        again: the numbers of the equations that make it again, of what is held anyway; empty where it cannot be.
        cost: their work.
        dear: how many of them are dear.
        chosen: whether it is to be made again.
        sources: the values of which it is made again.
    """

    var: Var
    eqn: Eqn
    again: Sequence[int] = ()
    sources: frozenset[Var] = frozenset()
    cost: Cost = field(default_factory=lambda: Cost(0, 0))
    dear: int = 0
    chosen: bool = False


def candidates(jaxpr: Jaxpr, lives: Lives | None = None, *, products: bool = False) -> list[Candidate]:
    """The values that are held across a program's peak, what making each again takes, and which are to be made again.

    Of values that are not chosen, `again` is what it would take if they alone were not held.
    """
    lives = Lives(jaxpr) if lives is None else lives
    crossing = [v for v, _ in lives.crossing()]
    kept = dict.fromkeys(crossing)
    found: dict[Var, Candidate] = {}

    def measured(v: Var) -> Candidate:
        return _measured(jaxpr, lives, v, kept)

    for v in crossing:  # in the order in which they are made: of those before it is known whether they are held
        c = found[v] = measured(v)
        if c.again and not c.dear:
            del kept[v]
    if products:
        for v in sorted(kept, key=lambda v: -v.aval.nbytes):
            c = measured(v)
            if not c.again or c.dear > MOST_DEAR:
                continue
            del kept[v]
            # What is made again of this value takes its equations too.
            others = {u: measured(u) for u in crossing if u not in kept and u is not v and v in found[u].sources}
            if all(o.dear <= MOST_DEAR for o in others.values()):
                found.update({**others, v: c})
            else:
                kept[v] = None
    return [replace(found[v] if v not in kept else measured(v), chosen=v not in kept) for v in crossing]


def _measured(jaxpr: Jaxpr, lives: Lives, v: Var, kept: Container[Var]) -> Candidate:
    """What it takes to make a value again, if these others are held."""
    eqn = jaxpr.eqns[lives.made[v]]
    needed = {lives.made[v]}
    sources: set[Var] = set()
    todo = [eqn]
    while todo:
        one = todo.pop()
        if one.effects or (one.params and has_nested(one.params)) or one.primitive.family == "collectives":
            return Candidate(v, eqn)
        for a in one.inputs:
            if not isinstance(a, Var):
                continue
            i = lives.made.get(a)
            if i is None or (a in kept and a is not v):
                sources.add(a)
            elif i not in needed:
                needed.add(i)
                todo.append(jaxpr.eqns[i])
    again = sorted(needed)
    cost = sum((estimate_eqn(jaxpr.eqns[i]) for i in again), Cost(0, 0))
    dear = sum(jaxpr.eqns[i].primitive.family not in CHEAP for i in again)
    return Candidate(v, eqn, again, frozenset(sources), cost, dear)


class _Again:
    """Writes a program in which some values are made again where they are first read after the peak."""

    def __init__(self, jaxpr: Jaxpr, eqns: Sequence[Eqn], lives: Lives, dropped: set[Var]) -> None:
        assert lives.peak is not None
        self.jaxpr, self.eqns, self.lives, self.peak, self.dropped = jaxpr, eqns, lives, lives.peak, dropped
        self.kept = {v for v, _ in lives.crossing()} - dropped
        self.copies: dict[Var, Var] = {}
        self.out: list[Eqn] = []

    def written(self) -> list[Eqn]:
        """The equations."""
        for i, eqn in enumerate(self.eqns):
            wanted = [a for a in eqn.inputs if isinstance(a, Var) and self.is_dropped(a)] if i > self.peak else []
            if wanted:
                self.make(wanted, eqn)
                eqn = eqn.replace(inputs=[self.copies[a] if a in wanted else a for a in eqn.inputs])  # type: ignore[index]
            self.out.append(eqn)
        return self.out

    def is_dropped(self, v: Var) -> bool:
        """Whether an operand is, or is a view of, a value that is not held any more after the peak."""
        return self.lives.made.get(v, self.peak) < self.peak and self.lives.root(v) in self.dropped

    def given(self, v: Var) -> bool:
        """Whether a value is there without being made again."""
        return v not in self.lives.made or v in self.kept

    def make(self, wanted: Sequence[Var], reader: Eqn) -> None:
        """Write what makes these values again, of what is behind a barrier."""
        sources: dict[Var, None] = {}
        needed: set[int] = set()
        todo = list(wanted)
        while todo:
            v = todo.pop()
            if v in self.copies or v in sources:
                continue
            if self.given(v):
                sources[v] = None
            elif (i := self.lives.made[v]) not in needed:
                needed.add(i)
                todo += [a for a in self.eqns[i].inputs if isinstance(a, Var)]
        if sources:
            behind = [Var(v.aval) for v in sources]
            self.out.append(Eqn(list(sources), behind, optimization_barrier_p, {}, source=reader.source))
            self.copies.update(zip(sources, behind))
        for i in sorted(needed):
            eqn = self.eqns[i]
            outputs = [Var(v.aval) for v in eqn.outputs]
            self.out.append(
                eqn.replace(inputs=[self.copies[a] if isinstance(a, Var) else a for a in eqn.inputs], outputs=outputs)
            )
            self.copies.update(zip(eqn.outputs, outputs))


__all__ = ["Candidate", "Lives", "Rematerialize", "candidates", "inner_peak"]

"""updates: elementwise results that may be written where a donated argument lies.

`p - rate * g` with a donated `p` needs no memory of its own, if every other reader of `p` has finished by then. This is
what is proved here, for any order and any fusion of the other equations that respects what depends on what:

- The equations of an update are elementwise, of one shape: an element of a result needs that element of the argument.
- Whatever else may read the argument comes before the update, because the update needs a result of it; where it does
  not, it is given one that it does not use. What may read the argument are the equations it is an operand of, and those
  computed from these without going through a contraction, a reduction or a loop: a compiler may compute such an operand
  anew wherever it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import fusion_p

from ..base import Pass, PassContext, register_pass

#: Smaller arguments are not worth a kernel.
LEAST_BYTES = 1 << 14
#: The most operands and results that a kernel has together.
MOST_OPERANDS = 24
MOST_EQNS = 96
# Only of these is it taken as certain that a compiler stores them, and computes none again where it is read.
_STORED = frozenset(
    (
        ct.dot_general_p,
        ct.conv_general_dilated_p,
        cf.scan_p,
        cf.while_p,
        rd.reduce_sum_p,
        rd.reduce_max_p,
        rd.reduce_min_p,
    )
)


@register_pass
@dataclass(frozen=True)
class UpdatesInPlace(Pass):
    """Make `fusion` equations of kind "update", at the program's end, of results that may take a donated argument's memory.

    Arguments of fewer than `least_bytes` bytes are not worth a kernel.
    """

    name = "updates"
    least_bytes: int = LEAST_BYTES

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if context.target is not None and not getattr(context.target, "kernels", False):
            return program
        jaxpr = program.jaxpr
        arguments = [v for v in (jaxpr.invars[i] for i in context.donated) if v.aval.nbytes >= self.least_bytes]
        if not arguments:
            return program
        holders = _holders(jaxpr, arguments)
        if holders:
            # A fusion that computes the result with others stays whole, unless this makes an update in place.
            apart = _Finder(_taken_apart(jaxpr, holders), arguments)
            places = {v for u in apart.updates() for v in u.places}
            holders = {i for i in holders if _saves_memory(jaxpr.eqns[i], places)}
            jaxpr = _taken_apart(jaxpr, holders)
        updates = _Finder(jaxpr, arguments).updates()
        if not updates:
            return program
        context.counters["arguments updated"] += sum(len(u.places) for u in updates)
        taken = {i for u in updates for i in u.eqns}
        eqns = [e for i, e in enumerate(jaxpr.eqns) if i not in taken]
        eqns += [_equation(jaxpr, u) for u in updates]
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns), program.consts)


def _holders(jaxpr: Jaxpr, arguments: Sequence[Var]) -> set[int]:
    """The numbers of fusions that compute a result from a donated argument of its type."""
    returned = set(jaxpr.outvars)
    return {
        i
        for i, e in enumerate(jaxpr.eqns)
        if e.primitive is fusion_p and e.params["kind"] in ("contraction", "elementwise")
        and any(v in returned and v.aval.strong() is p.aval.strong() for v in e.outputs for p in arguments if p in e.inputs)
    }  # fmt: skip


def _saves_memory(fusion: Eqn, places: set[Var]) -> bool:
    """Whether updates in place save more than the contraction's result takes, which is an array then."""
    saved = sum(v.aval.nbytes for v in fusion.outputs if v in places)
    made = [e.outputs[0].aval.nbytes for e in fusion.params["jaxpr"].jaxpr.eqns if e.primitive.family == "contraction"]
    return saved > sum(made)


def _taken_apart(jaxpr: Jaxpr, which: set[int]) -> Jaxpr:
    """The jaxpr with some of its fusions as the equations they are made of."""
    eqns: list[Eqn] = []
    for i, e in enumerate(jaxpr.eqns):
        if i not in which:
            eqns.append(e)
            continue
        body: Jaxpr = e.params["jaxpr"].jaxpr
        made = {v: Var(v.aval) for inner in body.eqns for v in inner.outputs}
        made |= {v: out for v, out in zip(body.outvars, e.outputs, strict=True) if isinstance(v, Var)}
        outer: dict[Atom, Atom] = {**dict(zip(body.invars, e.inputs, strict=True)), **made}
        for inner in body.eqns:
            inputs = [outer.get(a, a) for a in inner.inputs]
            eqns.append(inner.replace(inputs=inputs, outputs=[made[v] for v in inner.outputs]))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


@dataclass(frozen=True)
class _Update:
    """Equations (by number), the argument whose memory each of their results takes, and what else must be there."""

    eqns: frozenset[int]
    places: dict[Var, Var]
    after: tuple[Var, ...] = ()


def _equation(jaxpr: Jaxpr, update: _Update) -> Eqn:
    eqns = [jaxpr.eqns[i] for i in sorted(update.eqns)]
    made = {v for e in eqns for v in e.outputs}
    arguments = list(update.places.values())
    read = (a for e in eqns for a in e.inputs if isinstance(a, Var) and a not in made)
    others = dict.fromkeys((*read, *update.after))
    inputs = [*arguments, *(a for a in others if a not in arguments)]
    inner = {v: Var(v.aval) for v in (*inputs, *made)}

    def renamed(e: Eqn) -> Eqn:
        atoms = [inner[a] if isinstance(a, Var) else a for a in e.inputs]
        return e.replace(inputs=atoms, outputs=[inner[v] for v in e.outputs])

    results = list(update.places)
    body = Jaxpr((), [inner[v] for v in inputs], [inner[v] for v in results], [renamed(e) for e in eqns])
    params = {"kind": "update", "jaxpr": ClosedJaxpr(body), "space": results[0].aval.shape, "axes": ()}
    return Eqn(inputs, results, fusion_p, params, fusion_p.effects(params), eqns[-1].source)


class _Finder:
    """The updates of one jaxpr."""

    def __init__(self, jaxpr: Jaxpr, donated: Sequence[Var]) -> None:
        self.jaxpr = jaxpr
        self.eqns = jaxpr.eqns
        self.returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
        self.donated = [v for v in donated if v not in self.returned]
        self.maker = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.outputs}
        self.readers: dict[Var, list[int]] = {}
        for i, e in enumerate(jaxpr.eqns):
            for a in dict.fromkeys(e.inputs):
                if isinstance(a, Var):
                    self.readers.setdefault(a, []).append(i)

    def updates(self) -> list[_Update]:
        """Disjoint updates, none of which reads another's argument after it was written."""
        places = self._places() if self.donated else {}
        found: list[_Update] = []
        # The last results first: what they are made of may be a result, too, of the same update.
        for result in sorted(places, key=self.maker.__getitem__, reverse=True):
            if any(result in u.places for u in found):
                continue
            update = self._grown(result, places)
            if update is not None:
                found.append(update)
        return [proved for u in found if (proved := self._proved(u, found)) is not None]

    # -- which argument for which result

    def _places(self) -> dict[Var, Var]:
        """For results, the donated argument that they are computed from element by element."""
        sources: dict[Var, list[Var]] = {}
        for a in dict.fromkeys(self.jaxpr.outvars):
            if isinstance(a, Var) and a in self.maker and self._elementwise(self.maker[a], a.aval.shape):
                sources[a] = [v for v in self._sources(a) if v.aval.strong() is a.aval.strong()]
        places: dict[Var, Var] = {}
        # Who has the fewest to choose from chooses first.
        for a in sorted(sources, key=lambda a: len(sources[a])):
            free = [v for v in sources[a] if v not in places.values()]
            if free:
                places[a] = free[0]
        return places

    def _sources(self, result: Var) -> list[Var]:
        """The donated arguments below a result, by elementwise equations of its shape alone."""
        pending: list[Atom] = [result]
        seen: set[Atom] = set()
        while pending:
            a = pending.pop()
            if isinstance(a, Var) and a not in seen:
                seen.add(a)
                i = self.maker.get(a)
                if i is not None and self._elementwise(i, result.aval.shape):
                    pending.extend(self.eqns[i].inputs)
        return [v for v in self.donated if v in seen]

    def _elementwise(self, i: int, shape: tuple[int, ...]) -> bool:
        e = self.eqns[i]
        if e.effects or len(e.outputs) != 1 or e.outputs[0].aval.shape != shape:
            return False
        if e.primitive is st.broadcast_in_dim_p:
            return not e.inputs[0].aval.shape
        if e.primitive.family != "elementwise" or e.primitive.apart:
            return False
        return all(a.aval.shape in (shape, ()) for a in e.inputs)

    # -- the equations of an update

    def _grown(self, result: Var, places: dict[Var, Var]) -> _Update | None:
        """The update that computes `result`, with all that is computed for it alone."""
        if self.readers.get(result):
            return None
        group, shape = {self.maker[result]}, result.aval.shape
        mine = {result: places[result]}
        grown = True
        while grown:
            grown = False
            for i in sorted(group, reverse=True):
                for a in self.eqns[i].inputs:
                    m = self.maker.get(a) if isinstance(a, Var) else None
                    if not isinstance(a, Var) or m is None or m in group or len(group) >= MOST_EQNS:
                        continue
                    if not self._elementwise(m, shape) or not all(j in group for j in self.readers[a]):
                        continue
                    if a in self.returned:
                        if a not in places:
                            continue
                        mine[a] = places[a]
                    group.add(m)
                    grown = True
        operands = self._operands(group)
        if len(operands) + len(mine) > MOST_OPERANDS or any(self._is_moved(a) for a in operands):
            return None
        return _Update(frozenset(group), mine)

    def _is_moved(self, a: Var) -> bool:
        """Whether a is another array's elements in other places: it would take the memory that an update saves."""
        i = self.maker.get(a)
        if i is None:
            return False
        p = self.eqns[i].primitive
        return p.family == "structural" and p not in (st.reshape_p, st.squeeze_p)

    def _operands(self, group: Collection[int]) -> list[Var]:
        return list(
            dict.fromkeys(
                a for i in group for a in self.eqns[i].inputs
                if isinstance(a, Var) and self.maker.get(a, -1) not in group and a.aval.shape
            )
        )  # fmt: skip

    # -- the proof

    def _proved(self, update: _Update, all_updates: Sequence[_Update]) -> _Update | None:
        """The update with what orders it after all other readers of its arguments; None where there is no such order."""
        # Updates are moved to the end of the program: none may be what another one waits for.
        moved = {i for u in all_updates for i in u.eqns}
        before = self._before(update.eqns)
        after: dict[Var, None] = {}
        for argument in update.places.values():
            found = self._last_readers(argument, update.eqns, before)
            if found is None:
                return None
            after.update(found)
        if before & moved or any(self.maker[v] in moved for v in after):
            return None
        if len(self._operands(update.eqns)) + len(update.places) + len(after) > MOST_OPERANDS:
            return None
        return replace(update, after=tuple(after))

    def _before(self, group: frozenset[int]) -> set[int]:
        """The equations that a group needs results of."""
        found: set[int] = set()
        pending = [a for i in group for a in self.eqns[i].inputs]
        while pending:
            a = pending.pop()
            i = self.maker.get(a) if isinstance(a, Var) else None
            if i is not None and i not in found and i not in group:
                found.add(i)
                pending.extend(self.eqns[i].inputs)
        return found

    def _last_readers(self, argument: Var, group: frozenset[int], before: set[int]) -> dict[Var, None] | None:
        """Results of the readers of an argument that nothing orders before the group; None where one has none."""
        pending, seen = [argument], {argument}
        found: dict[Var, None] = {}
        while pending:
            v = pending.pop()
            for i in self.readers.get(v, ()):
                # What the group reads is in memory, and each of its elements is read where it is written.
                if i in group:
                    continue
                e = self.eqns[i]
                if not self._only_reads(i, v):
                    return None
                if self._is_stored(i):
                    if i not in before:
                        found[min(e.outputs, key=lambda out: out.aval.nbytes)] = None
                    continue
                for out in e.outputs:
                    if out in self.returned:
                        return None
                    if out not in seen:
                        seen.add(out)
                        pending.append(out)
        return found

    def _is_stored(self, i: int) -> bool:
        """Whether the results of an equation are put into memory once, and never computed again."""
        e = self.eqns[i]
        if e.primitive is fusion_p:  # of reductions: what is smaller is one of them, or made of them
            least = min(a.aval.size for a in e.inputs if a.aval.shape)
            return all(v.aval.size < least for v in e.outputs)
        return e.primitive in _STORED

    def _only_reads(self, i: int, v: Var) -> bool:
        """Whether an equation cannot update v in its place."""
        e = self.eqns[i]
        if e.effects or e.primitive.name.startswith(("scatter", "dynamic_update", "sort")):
            return False
        if e.primitive is cf.scan_p:
            n, m = e.params["num_consts"], e.params["num_carry"]
            return v not in e.inputs[n : n + m]
        if e.primitive is cf.while_p:
            return v not in e.inputs[e.params["cond_nconsts"] + e.params["body_nconsts"] :]
        return e.primitive is fusion_p or e.primitive.family not in ("calls", "control_flow", "linalg", "indexing")


__all__ = ["UpdatesInPlace"]

"""What depends on what in a jaxpr, and which equations can be one without anything waiting for itself.

Two questions come up for each equation that a cluster might take, and for each cluster. Neither goes through the
program: a cluster asks the equations beside it, and those know by a set of bits what comes after them (`Group`); and an
order in which clusters are one equation is kept, of which joining equations moves only those in between (`Order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property

from quire.ir.jaxpr import Jaxpr, Var


class Graph:
    """Who computes and who reads each value. All is found out when it is first asked for: most programs need little."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.eqns = jaxpr.eqns

    @cached_property
    def maker(self) -> dict[Var, int]:
        """The number of the equation that computes a value."""
        return {v: i for i, e in enumerate(self.eqns) for v in e.outputs}

    @cached_property
    def readers(self) -> dict[Var, list[int]]:
        """The numbers of the equations that read a value, once for each operand that it is."""
        readers: dict[Var, list[int]] = {}
        for i, e in enumerate(self.eqns):
            for a in e.inputs:
                if isinstance(a, Var):
                    readers.setdefault(a, []).append(i)
        return readers

    @cached_property
    def returned(self) -> set[Var]:
        """The values that the program returns."""
        return {a for a in self.jaxpr.outvars if isinstance(a, Var)}

    @cached_property
    def before(self) -> list[list[int]]:
        """What each equation comes directly after: for its operands, and as equations with effects keep their order."""
        maker = self.maker
        before: list[list[int]] = []
        last_effect: int | None = None
        for i, e in enumerate(self.eqns):
            found = {maker[a]: None for a in e.inputs if isinstance(a, Var) and a in maker}
            if e.effects:
                if last_effect is not None:
                    found[last_effect] = None
                last_effect = i
            before.append(list(found))
        return before

    @cached_property
    def after(self) -> list[list[int]]:
        """What comes directly after each equation."""
        after: list[list[int]] = [[] for _ in self.eqns]
        for i, before in enumerate(self.before):
            for j in before:
                after[j].append(i)
        return after

    def makers(self, i: int) -> Iterator[int]:
        """The equations that compute the operands of the i-th."""
        for a in self.eqns[i].inputs:
            if isinstance(a, Var) and a in self.maker:
                yield self.maker[a]

    def users(self, i: int) -> Iterator[int]:
        """The equations that read the results of the i-th."""
        for v in self.eqns[i].outputs:
            yield from self.readers.get(v, ())

    def returns(self, i: int) -> bool:
        """Whether the program returns a result of the i-th equation."""
        return any(v in self.returned for v in self.eqns[i].outputs)

    def read_outside(self, v: Var, group: Set[int]) -> bool:
        """Whether something outside the group needs a value."""
        return v in self.returned or any(i not in group for i in self.readers.get(v, ()))

    def bit(self, i: int) -> int:
        """The i-th equation in a set of bits. The last one is the lowest: what comes after late ones is a small number."""
        return 1 << (len(self.eqns) - 1 - i)

    @cached_property
    def below(self) -> list[int]:
        """For each equation the set of all that come after it, directly or not."""
        below = [0] * len(self.eqns)
        for i in reversed(range(len(self.eqns))):
            found = 0
            for j in self.after[i]:
                found |= below[j] | self.bit(j)
            below[i] = found
        return below


class Group:
    """Equations that grow in number, while nothing outside both comes after one of them and before another."""

    def __init__(self, graph: Graph, first: int) -> None:
        self.graph = graph
        self.members = {first}
        self._bits = graph.bit(first)
        self._below = graph.below[first]

    def may_take(self, i: int) -> bool:
        """Whether one more equation leaves nothing outside between two of the group."""
        graph = self.graph
        for j in graph.before[i]:
            if j not in self.members and self._below & graph.bit(j):
                return False
        return not any(j not in self.members and graph.below[j] & self._bits for j in graph.after[i])

    def take(self, i: int) -> None:
        """Add an equation."""
        self.members.add(i)
        self._bits |= self.graph.bit(i)
        self._below |= self.graph.below[i]


class Order:
    """An order of equations in which each joined set is one, kept up as Pearce and Kelly do (2006).

    `moved` counts the equations that were looked at.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.moved = 0
        self._joined: dict[int, frozenset[int]] = {}

    @cached_property
    def _place(self) -> list[int]:
        return _depth_first(self.graph)

    def join(self, group: frozenset[int]) -> bool:
        """Make a set of equations one, if none of the joined sets then waits for itself; else leave all as it is."""
        place = self._place
        first, last = min(place[i] for i in group), max(place[i] for i in group)
        after = self._between(group, self.graph.after, first, last)
        before = self._between(group, self.graph.before, first, last)
        if after is None or before is None:
            return False
        # In the places that these have: what comes before, the set, what comes after.
        old = [sorted({place[i] for i in part}) for part in (before, after)]
        places = sorted({*old[0], *old[1], *(place[i] for i in group)})
        new = dict(zip(old[0], places))
        new.update(zip(reversed(old[1]), reversed(places)))
        for i in (*before, *after):
            place[i] = new[place[i]]
        for i in group:
            place[i] = places[len(old[0])]
            self._joined[i] = group
        return True

    def _between(
        self, group: frozenset[int], neighbours: Sequence[Iterable[int]], first: int, last: int
    ) -> list[int] | None:
        """What lies between the first and the last of a group on ways that leave it; None if one comes back."""
        found: list[int] = []
        seen = set(group)
        pending = list(group)
        while pending:
            i = pending.pop()
            self.moved += 1
            for j in neighbours[i]:
                if j in group:
                    if i not in group:
                        return None
                elif j not in seen and first < self._place[j] < last:
                    joined = self._joined.get(j, (j,))
                    seen.update(joined)
                    found.extend(joined)
                    pending.extend(joined)
        return found


def _depth_first(graph: Graph) -> list[int]:
    """For each equation its number in an order in which what one equation alone needs stands right before it."""
    place = [-1] * len(graph.eqns)
    number = 0
    for end in range(len(graph.eqns)):
        if graph.after[end]:
            continue
        pending = [end]
        while pending:
            i = pending[-1]
            needed = [j for j in reversed(graph.before[i]) if place[j] < 0]
            if needed:
                pending.extend(needed)
                continue
            pending.pop()
            if place[i] < 0:
                place[i] = number
                number += 1
    return place


__all__ = ["Graph", "Group", "Order"]

"""How one equation is computed on parts: which factors are divided along which axes.

What operands have and what results want proposes axes for factors. Of the ways that these allow, the one with the least
estimated time is taken, in which what is not divided is computed by every device: by bytes alone the sum of a data parallel
gradient would become gathers of its operands. Each operand that moves counts as a message more: what is small stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Eqn, Literal

from ..cost import estimate_eqn
from . import moves
from .costs import Machine, received
from .rules import Assignment, Factors, divided, spread
from .specs import Axes, Axis, Sizes, Spec, is_prefix, local_shape, parts, show

MOST_WAYS = 512


@dataclass(frozen=True)
class Combination:
    """How the parts of a result are combined: along which axes and dimensions each device keeps its piece of the sum.

    Attributes:
        scattered: (axis, dimension) of each reduce_scatter.
        rest: the axes over which every device gets all.
        spec: of what comes out.
    """

    scattered: tuple[tuple[Axis, int], ...]
    rest: Axes
    spec: Spec


def combination(monoid: str, aval: ShapedArray, spec: Spec, axes: Axes, want: Spec, sizes: Sizes) -> Combination:
    """The combination of parts over some axes that comes nearest to the spec that is wanted."""
    scattered: list[tuple[Axis, int]] = []
    rest: list[Axis] = []
    now = list(spec)
    local = list(local_shape(aval.shape, spec, sizes))
    for a in axes:
        place = None
        if monoid == "add" and not dtypes.is_bool(aval.dtype):
            for d, wanted in enumerate(want):
                if (
                    is_prefix(now[d], wanted)
                    and wanted[len(now[d]) :][:1] == (a,)
                    and aval.shape[d] % (parts(now[d], sizes) * sizes[a]) == 0
                ):
                    place = d
        if place is None:
            rest.append(a)
        else:
            scattered.append((a, place))
            now[place] = (*now[place], a)
            local[place] //= sizes[a]
    return Combination(tuple(scattered), tuple(rest), tuple(now))


@dataclass(frozen=True)
class Way:
    """One way to compute an equation on parts.

    Attributes:
        assignment: the factors that are divided.
        needs: the specs of the operands.
        gives: those of the results, before parts are combined.
        moved: how many operands have to be communicated.
        seconds: the estimated time.
    """

    assignment: Assignment
    needs: tuple[Spec, ...]
    gives: tuple[Spec, ...]
    moved: int
    seconds: float

    def __str__(self) -> str:
        takes = ", ".join(show(s) for s in self.needs)
        return f"{takes} -> {', '.join(show(s) for s in self.gives)} ({self.seconds * 1e6:.1f} us)"


@dataclass(frozen=True)
class Choice:
    """The way that was taken, and the next best one."""

    way: Way
    other: Way | None


def reduced_axes(f: Factors, assignment: Assignment) -> dict[str, Axes]:
    """The axes over which results are combined, by the monoid."""
    out: dict[str, Axes] = {}
    for i, monoid in f.reduced.items():
        if i in assignment:
            out[monoid] = (*out.get(monoid, ()), *assignment[i])
    return out


class Chooser:
    """Chooses for equations, with the sizes of a mesh and the rates of a machine."""

    def __init__(self, sizes: Sizes, machine: Machine) -> None:
        self.sizes = sizes
        self.machine = machine

    def choose(self, eqn: Eqn, f: Factors, have: Sequence[Spec], want: Sequence[Spec]) -> Choice:
        """The best way for operands that are divided as `have` says, and results wanted as `want` says."""
        straight = self._straight(eqn, f, have, want)
        if straight is not None:
            return Choice(straight, None)
        work = estimate_eqn(eqn).seconds(self.machine)
        best: list[Way] = []
        for assignment in self._assignments(eqn, f, have, want):
            way = self._way(eqn, f, have, want, assignment, work)
            if way is not None:
                best.append(way)
        best.sort(key=lambda w: w.seconds + w.moved * self.machine.latency)
        return Choice(best[0], best[1] if len(best) > 1 else None)

    def _straight(self, eqn: Eqn, f: Factors, have: Sequence[Spec], want: Sequence[Spec]) -> Way | None:
        """The way in which nothing moves and nothing is combined, if there is one."""
        assignment: dict[int, Axes] = {}
        for dims, spec in zip((*f.operands, *f.results), (*have, *want)):
            for i, axes in spread(f, dims, spec, self.sizes).items():
                if assignment.setdefault(i, axes) != axes:
                    return None
        if any(i in assignment for i in f.reduced) or not self._disjoint(assignment):
            return None
        if any(f.sizes[i] % parts(assignment.get(i, ()), self.sizes) for i in f.even):
            return None
        needs = [divided(f, dims, assignment, self.sizes) for dims in f.operands]
        gives = [divided(f, dims, assignment, self.sizes) for dims in f.results]
        if needs == list(have) and gives == list(want):
            if f.communicates and f.messages(have, [a.aval for a in eqn.inputs], assignment, self.sizes):
                return None
            return Way(assignment, tuple(have), tuple(want), 0, 0.0)
        return None

    @staticmethod
    def _disjoint(assignment: Assignment) -> bool:
        axes = [a for got in assignment.values() for a in got]
        return len(set(axes)) == len(axes)

    def _assignments(self, eqn: Eqn, f: Factors, have: Sequence[Spec], want: Sequence[Spec]) -> list[Assignment]:
        options: dict[int, list[Axes]] = {}
        avals = (*(a.aval for a in eqn.inputs), *(v.aval for v in eqn.outputs))
        for aval, dims, spec in zip(avals, (*f.operands, *f.results), (*have, *want)):
            if not aval.ndim:
                continue
            for i, axes in spread(f, dims, spec, self.sizes).items():
                known = options.setdefault(i, [()])
                for n in range(1, len(axes) + 1):
                    if axes[:n] not in known:
                        known.append(axes[:n])
        found: list[dict[int, Axes]] = [{}]
        for i, choices in options.items():
            more: list[dict[int, Axes]] = []
            for one in found:
                taken = {a for got in one.values() for a in got}
                for axes in choices:
                    if not taken.intersection(axes):
                        more.append({**one, i: axes} if axes else one)
            found = more
            if len(found) > MOST_WAYS:
                # The ways that divide most are the likelier ones; to divide nothing is always possible.
                found.sort(key=lambda one: -sum(len(a) for a in one.values()))
                found = [*found[: MOST_WAYS - 1], {}]
        return list(found)

    def _way(
        self, eqn: Eqn, f: Factors, have: Sequence[Spec], want: Sequence[Spec], assignment: Assignment, work: float
    ) -> Way | None:
        needs = [divided(f, dims, assignment, self.sizes) for dims in f.operands]
        gives = [divided(f, dims, assignment, self.sizes) for dims in f.results]
        count = 0
        total = work
        for axes in assignment.values():
            total /= parts(axes, self.sizes)
        final_needs: list[Spec] = []
        for a, source, target in zip(eqn.inputs, have, needs):
            if target is None:
                return None
            final_needs.append(target)
            if isinstance(a, Literal) or source == target:
                continue
            steps = moves.plan(a.aval.shape, source, target, self.sizes)
            count += moves.moved(steps)
            total += moves.seconds(steps, a.aval, self.sizes, self.machine)
        if f.communicates:
            for size in f.messages(final_needs, [a.aval for a in eqn.inputs], assignment, self.sizes):
                total += self.machine.message(size)
        if any(f.sizes[i] % parts(assignment.get(i, ()), self.sizes) for i in f.even):
            return None
        final: list[Spec] = []
        for v, spec, wanted in zip(eqn.outputs, gives, want):
            if spec is None:
                return None
            final.append(spec)
            for monoid, axes in reduced_axes(f, assignment).items():
                c = combination(monoid, v.aval, spec, axes, wanted, self.sizes)
                total += self._combining(v.aval, spec, c)
                spec = c.spec
            steps = moves.plan(v.aval.shape, spec, wanted, self.sizes)
            total += moves.seconds(steps, v.aval, self.sizes, self.machine)
        return Way(assignment, tuple(final_needs), tuple(final), count, total)

    def _combining(self, aval: ShapedArray, spec: Spec, c: Combination) -> float:
        size = aval.dtype.itemsize
        for n in local_shape(aval.shape, spec, self.sizes):
            size *= n
        total = 0.0
        for a, _ in c.scattered:
            total += self.machine.message(received("reduce_scatter", size, self.sizes[a]))
            size //= self.sizes[a]
        if c.rest:
            total += self.machine.message(received("psum", size, parts(c.rest, self.sizes)))
        return total

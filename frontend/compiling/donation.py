"""What becomes of donated arguments: which results take their memory, and why others cannot.

`report_donation` warns when a program is compiled, of the arguments that JAX would warn of: no result has a type that would
fit. `fates` tells of every donated argument what the plan of the program has made of it, for ``dumpir --memory``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quire.backends.plan.lives import Lives, Moment
from quire.backends.plan.plan import Buffer, Plan, lines_of
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr
from quire.ir.source import current_source, stack_level, where

from .memory_analysis import roles, shown_lines


@dataclass(frozen=True)
class NotUsable:
    """A donated argument that no result can use.

    Attributes:
        name: its path, as ``params['w']``.
        aval: its type.
        reason: why, as the rest of a sentence.
    """

    name: str
    aval: ShapedArray
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.aval.short()}): {self.reason}"


def not_usable(
    closed: ClosedJaxpr, donated: Sequence[int], names: Sequence[str], *, keep_unused: bool = False
) -> list[NotUsable]:
    """The donated arguments whose memory no result can take.

    As in JAX, an argument fits a result of its shape and dtype, or else one of as many elements. Arguments that the program
    does not need are not part of it, unless `keep_unused`.
    """
    if not _unmatched(closed.jaxpr, donated):
        return []
    jaxpr = closed.jaxpr
    if not keep_unused:
        donated = needed(jaxpr, donated)
    found = _unmatched(jaxpr, donated)
    if not found:
        return []
    fitting = sorted(set(donated) - set(found))
    return [NotUsable(names[i], jaxpr.invars[i].aval, _reason(jaxpr, i, fitting, names)) for i in found]


def needed(jaxpr: Jaxpr, donated: Sequence[int]) -> list[int]:
    """Those of the arguments that the results depend on: the others are no arguments of the program."""
    if not donated:
        return []
    from quire.passes.dce import dce_eqns

    read = _read(dce_eqns(jaxpr))
    return [i for i in donated if jaxpr.invars[i] in read]


def _reason(jaxpr: Jaxpr, i: int, fitting: Sequence[int], names: Sequence[str]) -> str:
    """Why argument i fits no result, when those that do have been given theirs."""
    aval = jaxpr.invars[i].aval.strong()
    count = [a.strong() for a in jaxpr.out_avals].count(aval)
    if count:
        others = [names[j] for j in fitting if jaxpr.invars[j].aval.strong() == aval]
        return f"the {'result' if count == 1 else 'results'} of this shape and dtype can take the memory of {_listed(others)}"
    return "no result has this shape and dtype"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} others"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def _read(jaxpr: Jaxpr) -> set[Atom]:
    """What equations read or the program returns."""
    return {*jaxpr.outvars, *(x for e in jaxpr.eqns for x in e.inputs)}


def _unmatched(jaxpr: Jaxpr, donated: Sequence[int]) -> list[int]:
    """The donated arguments that are left when results have been given to them: by type, then by number of elements."""
    free = Counter(a.strong() for a in jaxpr.out_avals)
    left: list[int] = []
    for i in donated:
        aval = jaxpr.invars[i].aval.strong()
        if free[aval]:
            free[aval] -= 1
        else:
            left.append(i)
    sizes = Counter(a.size for a in free.elements())
    out: list[int] = []
    for i in left:
        size = jaxpr.invars[i].aval.size
        if sizes[size]:
            sizes[size] -= 1
        else:
            out.append(i)
    return out


def report_donation(
    closed: ClosedJaxpr, donated: Sequence[int], names: Sequence[str], function: str, *, keep_unused: bool = False
) -> None:
    """Warn of donated arguments that no result can use, and say why; the warning is of the user's line that calls.

    The message begins as JAX's.
    """
    unused = not_usable(closed, donated, names, keep_unused=keep_unused)
    if unused:
        warnings.warn(
            f"Some donated buffers were not usable: {'; '.join(map(str, unused))}. "
            f"They were given to {function}{where(current_source())}",
            UserWarning,
            stacklevel=stack_level(),
        )


# -- what the plan has made of them -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """What became of a donated argument's memory.

    Attributes:
        name: its path.
        aval: its type.
        reused: whether a result took it.
        text: which result, or why none, as a sentence without its subject.
    """

    name: str
    aval: ShapedArray
    reused: bool
    text: str


def fates(
    plan: Plan | None,
    closed: ClosedJaxpr,
    donated: Sequence[int],
    names: Sequence[str],
    kept: Sequence[int],
    results: Sequence[tuple[str, int]],
    result_names: Sequence[str],
) -> list[Fate]:
    """The fate of each donated argument.

    Args:
        plan: of the program's main function; None where nothing is computed.
        kept: the arguments that the program has.
        results: where each result comes from (`LoweredModule.results`, with arguments as those of the function).
        result_names: what each is called.
    """
    facts = _Facts(plan, kept, results, names, result_names) if plan is not None else None
    out: list[Fate] = []
    for i in donated:
        aval = closed.jaxpr.invars[i].aval
        returned = [k for k, made in enumerate(results) if made == ("argument", i)]
        if returned:
            reused, text = True, f"{result_names[returned[0]]} is the argument itself"
        elif i not in kept or facts is None:
            reused, text = False, "the program does not read it"
        else:
            reused, text = facts.fate(i)
        out.append(Fate(names[i], aval, reused, text))
    return out


class _Facts:
    """What a plan says of arguments and results."""

    def __init__(
        self, plan: Plan, kept: Sequence[int], results: Sequence[tuple[str, int]], names: Sequence[str],
        result_names: Sequence[str],
    ) -> None:  # fmt: skip
        self.names, self.result_names = names, result_names
        self.lives = Lives(plan)
        self.arguments: dict[int, Buffer] = {}
        self.owner: dict[Buffer, int] = {}
        self.results: list[tuple[int, Buffer]] = []
        for buffer, known in roles(plan, kept, results).items():
            for what, number in known:
                if what == "argument":
                    self.arguments[number], self.owner[buffer] = buffer, number
                else:
                    self.results.append((number, buffer))

    def fate(self, argument: int) -> tuple[bool, str]:
        """Whether a result takes an argument's memory, and which, or why none does."""
        own = self.arguments.get(argument)
        if own is None:
            return False, "the program does not read it"
        fitting = [(k, b) for k, b in self.results if b.size == own.size]
        for k, buffer in fitting:
            if buffer is own:
                return True, f"{self.result_names[k]} is written into it"
        if not fitting:
            return False, f"no result has its {own.size} bytes"
        free = [(k, b) for k, b in fitting if b not in self.owner]
        if not free:
            taken = [self.names[self.owner[b]] for _, b in fitting]
            return False, "the results of its size take the memory of " + _listed(taken)
        return False, self.conflict(own, *free[0])

    def conflict(self, own: Buffer, k: int, buffer: Buffer) -> str:
        """Why a result of its size is not written into an argument."""
        result = self.result_names[k]
        reads = [m for m in self.lives.moments if self.touches(m, own, written=False)]
        writes = [m for m in self.lives.moments if self.touches(m, buffer, written=True)]
        if not reads or not writes:
            return f"{result} is not computed from it"
        reads_else = [m for m in reads if not self.brings(m, own, buffer)]
        if not reads_else:
            lines = shown_lines(lines_of(reads[0].step))
            return f"{result} begins as a copy of it{f' ({lines})' if lines else ''}: it must stay as it is"
        last, first = reads_else[-1], writes[0]
        if last.number > first.number:
            return f"{_named(last)} reads it after {_named(first)} has written to {result}"
        if last.number == first.number:
            from quire.passes.fusion.updates import LEAST_BYTES

            small = f", and what is smaller than {LEAST_BYTES} bytes is not updated in place"
            return f"{_named(first)} reads it while it writes {result}" + small * (own.size < LEAST_BYTES)
        return f"{_named(first)}, which makes {result}, is no update of it"

    def brings(self, moment: Moment, own: Buffer, buffer: Buffer) -> bool:
        """Whether a step copies a part of an argument to the same place of a result."""
        if moment.step.kind != "copy" or moment.step.op is not None:
            return False
        to, of = moment.step.ranges
        return of.buffer is own and to.buffer is buffer and of.offset == to.offset

    def touches(self, moment: Moment, buffer: Buffer, *, written: bool) -> bool:
        return any(place.buffer is buffer and (writes == written) for place, writes in moment.step.touched())


def _named(moment: Moment) -> str:
    """A step by the kernel's name, or its kind, and the user's line."""
    step = moment.step
    lines = shown_lines(lines_of(step))
    what = step.op.name if step.kind == "dispatch" and step.op is not None else f"a {step.kind}"
    return what + (f" ({lines})" if lines else "")

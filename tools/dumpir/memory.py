"""``dumpir --memory``: which step of a program holds how much memory, from the plan, without making code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quire.backends.plan.lives import Held, Lives, Moment
from quire.backends.plan.plan import FLAT, Plan, Range, apart, lines_of
from quire.donation import Fate, fates
from quire.ir.avals import ShapedArray
from quire.ir.errors import size_text
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, nested_jaxprs
from quire.memory_analysis import Role, main_plan, planned_allocations, roles
from quire.stages import Stages

ROWS = 28
"""So many steps are shown at most on one screen."""
AROUND_PEAK = 6
"""So many of them before the peak, and as many after it."""
VALUES = 12
"""So many values are shown at most of those that are held at the peak."""
_BAR = 24
_KERNEL = re.compile(r"(?P<primitive>\w+)(?: at .*?)?: kernel (?P<symbol>\w+):")


@dataclass(frozen=True)
class Value:
    """A value that is held at the peak: its bytes, its type if that is known, where it lies, what made it and the user's lines."""

    bytes: int
    type: str | None
    place: str
    step: int
    made_by: str
    lines: str


@dataclass(frozen=True)
class StepRow:
    """A step: bytes of intermediate values held while it runs, and of values in memory that is or becomes the caller's."""

    number: int
    depth: int
    kind: str
    name: str
    held: int
    elsewhere: int
    lines: str


@dataclass(frozen=True)
class Memory:
    """The memory of one call of a program, in bytes.

    Attributes:
        name, target: of the program.
        arguments: of those that it reads.
        results: that it computes, in new memory.
        reused: of results in arguments' memory: donated arguments, and arguments returned as they are.
        constants: that it reads.
        transient: of the block for intermediate values.
        least: the least that this block could be in this order; what it is larger by is lost between values.
        held: the most of intermediate values that is held at one time.
        exchanged: of places that loops exchange.
        callbacks: that functions of the host's are given, or give.
        steps: in order.
        peak: the number of the step that holds the most; 0 where nothing is held.
        values: what is held then.
        elsewhere: the values in memory that is or becomes the caller's, then.
        donated: of each donated argument its name, its type, whether a result took it, and which or why none.
    """

    name: str
    target: str
    arguments: int
    results: int
    reused: int
    constants: int
    transient: int
    least: int
    held: int
    exchanged: int
    callbacks: int
    steps: tuple[StepRow, ...]
    peak: int
    values: tuple[Value, ...]
    elsewhere: tuple[Value, ...]
    donated: tuple[tuple[str, str, bool, str], ...]

    def data(self) -> dict[str, Any]:
        """What `--json` prints."""
        out = asdict(self)
        out["donated"] = [
            {"name": name, "type": kind, "reused": reused, "text": text} for name, kind, reused, text in self.donated
        ]
        return out


def memory_of(stages: Stages, names: Sequence[str] = ()) -> Memory:
    """The memory of a program. `names` are its arguments' paths.

    Raises:
        CompileError: the target's compiler, or the plan, refuses the program.
    """
    return _Reader(stages, names).memory()


class _Reader:
    def __init__(self, stages: Stages, names: Sequence[str]) -> None:
        self.stages, self.lowered = stages, stages.lowered
        self.closed: ClosedJaxpr = stages.program
        count = len(self.closed.in_avals)
        self.names = list(names) if len(names) == count else [f"argument {i}" for i in range(count)]
        computed = any(kind == "result" for kind, _ in self.lowered.results)
        plan = stages["plan"] if computed else ""
        self.plan = main_plan(plan) or Plan("main", [], [], 0, 0)
        self.callbacks = planned_allocations(plan, len(self.lowered.kept)).callbacks
        self.lives = Lives(self.plan)
        self.roles = roles(self.plan, self.lowered.kept, self.lowered.results)
        self.types = types_by_line(self.closed, stages.result.program)
        found = (_KERNEL.match(choice) for choice in self.lowered.module.choices)
        self.equations = {match["symbol"]: match["primitive"] for match in found if match}

    def memory(self) -> Memory:
        arguments, new, reused = self.callers_memory()
        of_kind = {kind: [b for b in self.plan.buffers if b.kind == kind] for kind in ("constant", "alternating")}
        peak = self.lives.peak
        return Memory(
            self.stages.name, self.stages.target.name, arguments, new, reused,
            sum(b.size for b in of_kind["constant"]), self.plan.peak, self.plan.least, peak.held if peak else 0,
            sum(map(apart, of_kind["alternating"])), self.callbacks, tuple(map(self.row, self.lives.moments)),
            peak.number if peak and peak.held else 0,
            tuple(map(self.value, self.largest_first(self.lives.held(peak)))) if peak and peak.held else (),
            tuple(map(self.value, self.largest_first(self.lives.held_elsewhere(peak)))) if peak and peak.held else (),
            tuple((f.name, f.aval.short(), f.reused, f.text) for f in self.fates()),
        )  # fmt: skip

    def callers_memory(self) -> tuple[int, int, int]:
        """Bytes of arguments, of results in new memory, and of results in arguments' memory."""
        arguments = sum(self.closed.in_avals[i].nbytes for i in self.lowered.kept)
        reused = sum(b.size for b, known in self.roles.items() if {what for what, _ in known} == {"argument", "result"})
        new = sum(b.size for b, known in self.roles.items() if {what for what, _ in known} == {"result"})
        returned = [a.nbytes for (kind, _), a in zip(self.lowered.results, self.closed.out_avals) if kind == "argument"]
        return arguments, new, reused + sum(returned)

    def fates(self) -> list[Fate]:
        plan = self.plan if self.plan.buffers else None
        kept, results = self.lowered.kept, self.lowered.results
        return fates(plan, self.closed, self.stages.donated, self.names, kept, results)

    @staticmethod
    def largest_first(values: Sequence[Held]) -> list[Held]:
        return sorted(values, key=lambda v: -v.place.length)

    def row(self, moment: Moment) -> StepRow:
        return StepRow(
            moment.number, moment.depth, moment.step.kind, self.made_by(moment), moment.held, moment.elsewhere, self.lines(moment)
        )  # fmt: skip

    def lines(self, moment: Moment) -> str:
        """The user's lines of a step, or of the loop or branch that it is in, as paths from the working directory."""
        while not (found := lines_of(moment.step)) and moment.within:
            moment = self.lives.moments[moment.within - 1]
        return "; ".join(map(_shown_path, found.split("; "))) if found else ""

    def made_by(self, moment: Moment) -> str:
        """What a step is, in a few words."""
        step = moment.step
        if step.kind == "dispatch" and step.op is not None:
            equation = self.equations.get(step.op.name)
            return f"{equation}: {step.op.name}" if equation else step.op.name
        if step.kind in ("loop", "branch"):
            return f"{step.op.kind} loop" if step.kind == "loop" and step.op is not None else "branch"
        where = self.place(step.ranges[0]) if step.ranges else ""
        if step.kind == "copy":
            return f"copy {self.place(step.ranges[1])} to {where}"
        words = {"fill": "fill", "load": "the host reads", "new": "allocate", "give": "hand over", "take": "take"}
        return " ".join(filter(None, (words.get(step.kind, step.kind), where)))

    def place(self, place: Range) -> str:
        """Where something lies, in terms of the function where it is the caller's memory."""
        known: list[Role] = self.roles.get(place.buffer, [])
        if not known:
            return repr(place)
        whole = place.offset == 0 and place.length == place.buffer.size
        part = "" if whole else f"[{place.offset}:{place.offset + place.length}]"
        return " = ".join(self.names[i] if what == "argument" else f"result {i}" for what, i in known) + part

    def value(self, held: Held) -> Value:
        moment = self.lives.moments[held.maker - 1] if held.maker else None
        size = held.place.length
        if moment is None:
            return Value(size, None, self.place(held.place), 0, "there before", "")
        return Value(
            size, self.type_of(moment, size), self.place(held.place), held.maker, self.made_by(moment), self.lines(moment)
        )  # fmt: skip

    def type_of(self, moment: Moment, size: int) -> str | None:
        """The type of a value, if all values of this size that its lines compute have it."""
        found = {a for key in _keys(lines_of(moment.step)) for a in self.types.get(key, ()) if a.nbytes == size}
        return next(iter(found)).short() if len({a.short() for a in found}) == 1 else None


def _keys(lines: str) -> list[str]:
    """The single lines of ``model.py:12,14``."""
    out: list[str] = []
    for part in lines.split("; "):
        file, _, numbers = part.rpartition(":")
        out += [f"{file}:{n}" for n in numbers.split(",")]
    return out


def types_by_line(*programs: ClosedJaxpr) -> dict[str, set[ShapedArray]]:
    """The types of what each line of the user's computes, as it was traced and as it is lowered."""
    found: dict[str, set[ShapedArray]] = {}

    def see(jaxpr: Jaxpr) -> None:
        for eqn in jaxpr.eqns:
            if eqn.source is not None:
                found.setdefault(f"{eqn.source.file}:{eqn.source.line}", set()).update(
                    v.aval.strong() for v in eqn.outputs
                )
            for inner in nested_jaxprs(eqn.params):
                see(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)

    for program in programs:
        see(program.jaxpr)
    return found


def _shown_path(lines: str) -> str:
    """A path below the working directory without it."""
    file, _, numbers = lines.rpartition(":")
    near = os.path.relpath(file)
    return f"{file if near.startswith('..') else near}:{numbers}"


# -- as text ----------------------------------------------------------------------------------------------------------


def text(memory: Memory, *, whole: bool = False) -> str:
    """The memory of a program on one screen, or with all steps and values."""
    lines = [*_totals(memory), "", *_timeline(memory, whole), *_peak(memory, whole), *_donated(memory)]
    return "\n".join(lines)


def _totals(m: Memory) -> list[str]:
    said = f"in one block; at least {size_text(m.least)} in this order"
    if m.transient > m.least:
        said += f", {m.transient / m.least:.3g} times that is taken"
    if m.held < m.transient:
        said += f"; {size_text(m.held)} are held at most"
    rows = [
        ("arguments", m.arguments, ""),
        ("results", m.results, f"and {size_text(m.reused)} in arguments' memory" if m.reused else ""),
        ("constants", m.constants, ""),
        ("transient", m.transient, said if m.transient else ""),
        ("exchanged", m.exchanged, "two places for each large value that a loop carries" if m.exchanged else ""),
        ("callbacks", m.callbacks, "what they are given and give" if m.callbacks else ""),
    ]
    rows = [row for row in rows if row[1] or row[0] in ("arguments", "results", "transient")]
    return [f"{what:<10} {size_text(n):>11}  {more}".rstrip() for what, n, more in rows]


def _timeline(m: Memory, whole: bool) -> list[str]:
    shown = [r for r in m.steps if r.kind in FLAT or r.kind in ("loop", "branch", "load")]
    chosen = shown if whole else _chosen(shown, m.peak)
    if not chosen:
        return ["nothing is computed"]
    most = max((r.held for r in shown), default=0)
    lines = [f"{'step':>5}  {'held while it runs':<{_BAR + 12}}  what it is"]
    numbers = {r.number: i for i, r in enumerate(shown)}
    last = -1
    for row in chosen:
        lines += _left_out(shown[last + 1 : numbers[row.number]])
        last = numbers[row.number]
        bar = ("#" * -(-row.held * _BAR // most) if most else "").ljust(_BAR)
        mark = "*" if row.number == m.peak else " "
        name = "  " * row.depth + row.name + (f"  ({row.lines})" if row.lines else "")
        lines.append(f"{row.number:>5}{mark} {bar} {size_text(row.held):>11}  {name}")
    lines += _left_out(shown[last + 1 :])
    return lines


def _left_out(rows: Sequence[StepRow]) -> list[str]:
    if not rows:
        return []
    count = "1 step" if len(rows) == 1 else f"{len(rows)} steps"
    return [f"{'...':>5}  {count}, which hold {size_text(max(r.held for r in rows))} at most"]


def _chosen(rows: Sequence[StepRow], peak: int) -> list[StepRow]:
    """The rows for one screen: those around the peak, and of the others those that hold the most."""
    if len(rows) <= ROWS:
        return list(rows)
    at = next((i for i, r in enumerate(rows) if r.number == peak), 0)
    near = set(range(max(0, at - AROUND_PEAK), min(len(rows), at + AROUND_PEAK + 1)))
    # Half of the screen: each row that stands alone brings a line for those that are left out before it.
    far = sorted((i for i in range(len(rows)) if i not in near), key=lambda i: (-rows[i].held, i))
    chosen = near | set(far[: (ROWS - len(near)) // 2])
    return [rows[i] for i in sorted(chosen)]


def _peak(m: Memory, whole: bool) -> list[str]:
    if not m.peak:
        return []
    lines = ["", f"held at the peak, while step {m.peak} runs: {size_text(m.held)}"]
    for what, values in (("", m.values), ("in results and donated arguments", m.elsewhere)):
        if not values:
            continue
        if what:
            lines.append(f"{what}: {size_text(sum(v.bytes for v in values))}")
        shown = values if whole else values[:VALUES] if not what else values[: VALUES // 2]
        kinds = max(len(v.type or "") for v in shown)
        places = max(len(v.place) for v in shown)
        for v in shown:
            by = f"by step {v.step}, {v.made_by}" if v.step else v.made_by
            where = f"  ({v.lines})" if v.lines else ""
            lines.append(f"  {size_text(v.bytes):>11}  {v.type or '':<{kinds}}  {v.place:<{places}}  {by}{where}")
        if rest := values[len(shown) :]:
            lines.append(f"  {size_text(sum(v.bytes for v in rest)):>11}  in {len(rest)} more")
    return lines


def _donated(m: Memory) -> list[str]:
    if not m.donated:
        return []
    return ["", "donated", *(f"  {name} ({kind}): {said}" for name, kind, _, said in m.donated)]

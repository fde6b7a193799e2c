"""``dumpir --memory``: which step of a program holds how much memory, from the plan, without making code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quire.backends.plan.lives import Held, Lives, Moment
from quire.backends.plan.plan import STAGED, Plan, Range, apart, lines_of
from quire.compiling.donation import Fate, fates
from quire.compiling.memory_analysis import Role, main_plan, planned_allocations, roles, shown_lines
from quire.compiling.stage_texts import Stages
from quire.compiling.tracing import result_paths
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, nested_jaxprs


@dataclass(frozen=True)
class Value:
    """A value that is held at the peak: its bytes, its type if that is known (``scratch`` for what only the step itself needs),
    where it lies, what made it and the user's lines."""

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
        scalars: that the host reads.
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
    scalars: int
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


def memory_of(stages: Stages, names: Sequence[str] = (), out_tree: Any = None) -> Memory:
    """The memory of a program. `names` are its arguments' paths, `out_tree` is the tree of its results.

    Raises:
        CompileError: the target's compiler, or the plan, refuses the program.
    """
    return _Reader(stages, names, out_tree).memory()


class _Reader:
    def __init__(self, stages: Stages, names: Sequence[str], out_tree: Any) -> None:
        self.stages, self.lowered = stages, stages.lowered
        self.closed: ClosedJaxpr = stages.result.reference  # the traced program, or what a transformation made of it
        count = len(self.closed.in_avals)
        self.names = list(names) if len(names) == count else [f"argument {i}" for i in range(count)]
        paths = result_paths(out_tree) if out_tree is not None else ()
        count = len(self.closed.out_avals)
        known = len(paths) == count
        self.results = [f"result{path}" for path in paths] if known else [f"result {k}" for k in range(count)]
        computed = any(kind == "result" for kind, _ in self.lowered.results)
        plan = stages["plan"] if computed else ""
        self.plan = main_plan(plan) or Plan("main", [], [], 0, 0)
        self.callbacks = planned_allocations(plan, len(self.lowered.kept)).callbacks
        self.lives = Lives(self.plan)
        self.roles = roles(self.plan, self.lowered.kept, self.lowered.results)
        self.types = types_by_line(self.closed, stages.result.program)
        self.equations = {k.symbol: k.path[-1].primitive.name for k in self.lowered.module.kernels}

    def memory(self) -> Memory:
        arguments, new, reused = self.callers_memory()
        of_kind = {
            kind: [b for b in self.plan.buffers if b.kind == kind] for kind in ("constant", "alternating", "staging")
        }
        peak = self.lives.peak
        return Memory(
            self.stages.name, self.stages.target.name, arguments, new, reused,
            sum(b.size for b in of_kind["constant"]), self.plan.peak, self.plan.least, peak.held if peak else 0,
            sum(map(apart, of_kind["alternating"])), STAGED * len(of_kind["staging"]), self.callbacks,
            tuple(map(self.row, self.lives.moments)),
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
        return fates(plan, self.closed, self.stages.donated, self.names, kept, results, self.results)

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
        return shown_lines(found)

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
        return " = ".join(self.names[i] if what == "argument" else self.results[i] for what, i in known) + part

    def value(self, held: Held) -> Value:
        moment = self.lives.moments[held.maker - 1] if held.maker else None
        size = held.place.length
        if moment is None:
            return Value(size, None, self.place(held.place), 0, "there before", "")
        kind = "scratch" if held.scratch else self.type_of(moment, size)
        return Value(
            size, kind, self.place(held.place), held.maker, self.made_by(moment), self.lines(moment)
        )  # fmt: skip

    def type_of(self, moment: Moment, size: int) -> str | None:
        """The type of a value: that of all values of this size that its lines compute, or else the program. Or the two there are."""
        own = {a.short() for key in _keys(lines_of(moment.step)) for a in self.types.get(key, ()) if a.nbytes == size}
        found = own or {a.short() for types in self.types.values() for a in types if a.nbytes == size}
        return " or ".join(sorted(found)) if 1 <= len(found) <= 2 else None


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

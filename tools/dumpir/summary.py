"""``dumpir --summary``: what the compiler made of a program, on one screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from quire.compiling.building import compile_flags
from quire.compiling.stage_texts import LOAD, STABLEHLO, Stages
from quire.ir.errors import CompileError, size_text
from quire.passes.cost import Cost
from quire.passes.rewriting import count_eqns

from .answers import Answer, capped, columns, count_text, place_text, seconds_text, short, short_end
from .inputs import Program
from .memory import Memory, memory_of
from .survey import Launch, Survey

KINDS, REFUSALS, VALUES = 9, 4, 3


@dataclass(frozen=True)
class Kind:
    """The launches of one kind: how many, of how many kernels, their work, and what the most frequent kernel says of its form."""

    kind: str
    count: int
    kernels: int
    flops: float | None
    bytes: float
    seconds: float
    reason: str

    def row(self) -> tuple[str, ...]:
        """The kind as a row of the table."""
        flops = "" if self.flops is None else count_text(self.flops)
        return (
            self.kind, str(self.count), str(self.kernels), flops, size_text(self.bytes), seconds_text(self.seconds),
            self.reason,
        )  # fmt: skip


def kinds_of(survey: Survey) -> list[Kind]:
    """The launches by kind, those that are estimated to take longest first."""
    work, machine = survey.work_by_symbol(), survey.stages.target
    reasons = {k.symbol: k.reason for k in survey.kernels}
    groups: dict[str, list[Launch]] = {}
    for launch in survey.launches:
        groups.setdefault(launch.kind, []).append(launch)
    found: list[Kind] = []
    for kind, launches in groups.items():
        costs = [work.get(x.symbol) or Cost(0, x.bytes) for x in launches]
        (symbol, _), *_ = Counter(x.symbol for x in launches).most_common(1)
        flops = sum(c.flops for c in costs) if launches[0].ours else None
        reason = reasons.get(symbol, "formed by IREE: no kernel of quire's is for it, or it is as well off")
        found.append(
            Kind(
                kind,
                len(launches),
                len({x.symbol for x in launches}),
                flops,
                float(sum(x.bytes for x in launches)),
                sum(c.seconds(machine) for c in costs),
                reason,
            )  # fmt: skip
        )
    return sorted(found, key=lambda k: -k.seconds)


def compile_seconds(stages: Stages) -> dict[str, float]:
    """The time of each phase of a compile as it really runs: no texts are printed, nothing is verified in between."""
    from quire.backends.iree.service import compile_service

    lowered = stages.lowered
    found = dict(stages.seconds)
    found.pop("iree", None)
    found.pop(LOAD, None)
    output = compile_service().compile(
        lowered.module.bytecode(), compile_flags(stages.target), name=stages.name, trusted=True,
        one_thread=lowered.one_thread and stages.target.system_link,
    )  # fmt: skip
    return {**found, **{f"IREE: {phase}": s for phase, s in output.phase_seconds.items()}}


def summary(stages: Stages, program: Program) -> Answer:
    """What passes, lowering, IREE and the plan made of a program.

    Raises CompileError where the target's compiler refuses it.
    """
    survey = Survey(stages)
    records = stages.result.records
    kinds = kinds_of(survey)
    times = compile_seconds(stages)
    memory = memory_of(stages, program.names, program.out_tree)
    cost, machine = stages.lowered.cost, stages.target
    refusals = Counter((c.primitive, place_text(c.source), c.text) for c in survey.refusals)
    passes = [
        {
            "pass": r.text, "seconds": r.seconds, "before": r.eqns_before, "after": r.eqns_after,
            "rules": {k: n for k, n in Counter(r.counters).most_common() if n},
        }
        for r in records
    ]  # fmt: skip
    data: dict[str, Any] = {
        "arguments": len(stages.program.in_avals), "results": len(stages.program.out_avals),
        "equations": {"traced": count_eqns(stages.program), "lowered": count_eqns(stages.result.program)},
        "estimate": {"flops": cost.flops, "bytes": cost.bytes, "seconds": cost.seconds(machine)},
        "passes": passes,
        "kernels": [k.__dict__ for k in kinds],
        "fell back": [
            {"primitive": p, "line": at, "reason": text, "count": n} for (p, at, text), n in refusals.items()
        ],
        "compile seconds": times,
        "memory": {
            "transient": memory.transient, "held": memory.held, "peak step": memory.peak,
            "values": [v.__dict__ for v in memory.values],
        },
    }  # fmt: skip
    lines = [
        f"{data['arguments']} arguments, {data['results']} results, {data['equations']['traced']} equations traced and "
        f"{data['equations']['lowered']} lowered; a call is estimated at {seconds_text(cost.seconds(machine))}: "
        f"{count_text(cost.flops)} operations, {size_text(cost.bytes)} moved if nothing were fused"
    ]
    rows = [("pass", "ms", "equations", "rules fired")]
    for p in passes:
        if p["before"] == p["after"] and not p["rules"]:
            continue
        fired = ", ".join(f"{name} {n}" for name, n in list(p["rules"].items())[:5])
        rows.append((p["pass"], f"{p['seconds'] * 1e3:.1f}", f"{p['before']} -> {p['after']}", fired))
    lines += columns(rows, (1,))
    idle = [p["pass"] for p in passes if p["before"] == p["after"] and not p["rules"]]
    if idle:
        lines.append(short(f"changed nothing: {', '.join(idle)}"))
    rows = [
        ("kernels", "launches", "codes", "operations", "moved", "estimate", "why this form"),
        *(k.row() for k in kinds),
    ]
    lines += ["", *capped(columns(rows, (1, 2, 3, 4, 5)), KINDS + 1, "kinds")]
    said = [
        short(f"  {p}{f' ({at})' if at else ''}{f', {n} times' if n > 1 else ''}: {text}")
        for (p, at, text), n in refusals.most_common()
    ]
    lines += ["fell back" if said else "nothing fell back", *capped(said, REFUSALS)]
    lines += ["", short(f"compile {_times(times)}", 300)]
    lines += _memory(memory)
    return Answer(lines, data)


def _times(times: dict[str, float]) -> str:
    names = {STABLEHLO: "lowering"}
    return f"{seconds_text(sum(times.values()))}: " + ", ".join(
        f"{names.get(k, k.removeprefix('IREE: '))} {seconds_text(s)}" for k, s in times.items()
    )


def _memory(m: Memory) -> list[str]:
    if not m.peak:
        return [f"temporary memory {size_text(m.transient)}"]
    step = next(s for s in m.steps if s.number == m.peak)
    lines = [
        short(
            f"temporary memory {size_text(m.transient)}, most of it ({size_text(m.held)}) held while step {m.peak} runs: "
            f"{step.name}{f' ({step.lines})' if step.lines else ''}"
        )
    ]
    for v in m.values[:VALUES]:
        at = f" ({v.lines})" if v.lines else ""
        lines.append(short_end(f"  {size_text(v.bytes):>11}  {v.type or '':<14} {v.made_by}{at}"))
    if m.values[VALUES:]:
        rest = m.values[VALUES:]
        lines.append(f"  {size_text(sum(v.bytes for v in rest)):>11}  in {len(rest)} more (--memory shows all)")
    return lines


def one_line(stages: Stages, program: Program) -> Answer:
    """The summary of a function of a script, in one line."""
    try:
        a = summary(stages, program).data
    except CompileError as error:
        first = str(error).splitlines()[0]
        return Answer([f"{program.name}: {first}"], {"error": str(error)})
    ours = sum(k["count"] for k in a["kernels"] if not k["kind"].startswith("IREE"))
    others = sum(k["count"] for k in a["kernels"]) - ours
    text = (
        f"{program.name}: {a['equations']['traced']} equations, {ours} launches of own kernels and {others} of IREE's, "
        f"{len(a['fell back'])} fell back, estimated {seconds_text(a['estimate']['seconds'])}, compiled in "
        f"{seconds_text(sum(a['compile seconds'].values()))}, {size_text(a['memory']['transient'])} temporary"
    )
    return Answer([text], a)

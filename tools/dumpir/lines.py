"""``dumpir --line model.py:47``: what a line of the user's became at every stage, down to kernels, plan and assembly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from quire.compiling.stage_texts import STABLEHLO, Stages, code_stage
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, nested_jaxprs
from quire.ir.primitives.calls import fusion_p

from .answers import Answer, short
from .inputs import InputError
from .located import Line, Operation, operations
from .survey import Launch, Survey, eqn_text, leaves

EQUATIONS, OPERATIONS, KERNELS, CHANGES = 6, 3, 5, 8
PHASES = ("input", "dispatch-creation", "flow", "stream")
"""Of IREE's phases up to the plan's commands, those that make other operations of a program's."""
_MOVES = frozenset(
    ("util.", "arith.", "flow.return", "linalg.yield", "tensor.empty", "stream.binding", "stream.return")
)


def from_line(program: ClosedJaxpr | Jaxpr, line: Line) -> Iterator[Eqn]:
    """The equations of a line: a fusion of some is one of them, and one that holds a program does not hide what is in it."""
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    for eqn in jaxpr.eqns:
        mine = eqn.source is not None and line.is_at(eqn.source.file, eqn.source.line)
        if eqn.primitive is fusion_p:
            if mine or any(e.source is not None and line.is_at(e.source.file, e.source.line) for e in leaves(eqn)):
                yield eqn
            continue
        if mine:
            yield eqn
        for inner in nested_jaxprs(eqn.params):
            yield from from_line(inner, line)


def lines_of_file(program: ClosedJaxpr, file: str) -> list[int]:
    """The lines of a file that have equations."""
    found: set[int] = set()

    def see(jaxpr: Jaxpr) -> None:
        for e in jaxpr.eqns:
            if e.source is not None and Line(file, e.source.line).is_at(e.source.file, e.source.line):
                found.add(e.source.line)
            for inner in nested_jaxprs(e.params):
                see(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)

    see(program.jaxpr)
    return sorted(found)


def grouped(texts: Sequence[str], most: int, what: str) -> list[str]:
    """Texts in order, equal ones once with their count, shortened to some."""
    counts = Counter(texts)
    rows = [short(f"    {f'{n} x ' if n > 1 else ''}{text}") for text, n in counts.items()]
    if len(rows) > most:
        rest = sum(n for _, n in list(counts.items())[most - 1 :])
        rows = [*rows[: most - 1], f"    ... {rest} more {what}"]
    return rows


def line_answer(stages: Stages, text: str, *, code: bool = False) -> Answer:
    """What a line became, stage by stage; with `code` down to the target's.

    Raises InputError where no equation comes from the line, CompileError where the compiler refuses the program.
    """
    try:
        line = Line.parse(text)
    except ValueError as error:
        raise InputError(f"--line: {error}") from None
    traced = list(from_line(stages.program, line))
    if not traced:
        known = lines_of_file(stages.program, line.file)
        have = f"lines {', '.join(map(str, known))} have" if known else "no line of that file has"
        raise InputError(f"--line {text}: {stages.name} has no equation of that line; {have} some")
    survey = Survey(stages)
    data: dict[str, Any] = {"line": text}
    lines: list[str] = []

    def stage(name: str, title: str, rows: Sequence[str], found: Any) -> None:
        data[name] = found
        lines.append(f"{name}: {title}")
        lines.extend(rows)

    source = _source(traced, line)
    if source:
        lines.append(f"{text}:  {short(source, 120)}")
    said = [eqn_text(e) for e in traced]
    stage("jaxpr", f"{len(traced)} equations", grouped(said, EQUATIONS, "equations"), said)
    data["passes"] = _passes(stages, line, lines)
    optimized = list(from_line(stages.result.program, line))
    said = [eqn_text(e, 130) for e in optimized]
    stage("optimized", f"{len(said)} equations", grouped(said, EQUATIONS, "equations"), said)
    texts = {
        name: [o for o in operations(t) if o.is_from(line)] for name, t in stages.located.items() if name != "plan"
    }
    found = texts[STABLEHLO]
    stage(
        STABLEHLO, f"{len(found)} operations: {_names(found)}", grouped([_operation(o) for o in found], OPERATIONS, "operations"),
        [o.text for o in found],
    )  # fmt: skip
    chosen = [k for k in survey.kernels if any(e in optimized for e in k.path)]
    said = [f"{k.symbol}: {k.reason}" for k in chosen]
    said += [f"none for {c.primitive}: {c.text}" for c in survey.refusals if any(e in optimized for e in c.path)]
    stage("kernels", f"{len(chosen)} of quire's own", grouped(said, KERNELS, "kernels"), said)
    for phase in PHASES:
        if phase in texts:
            data[phase] = [o.text for o in texts[phase]]
            lines.append(short(f"{phase}: {len(texts[phase])} operations: {_names(texts[phase])}"))
    within = {o.symbol for o in texts.get("flow", ())}
    launches = [x for x in survey.launches if _comes_from(x, line, within)]
    said = [f"dispatch {x.symbol}, {x.bytes} bytes  ({_near(x.lines)})" for x in launches]
    counted = Counter(x.symbol for x in launches)
    rows = [f"{symbol}: {n} launches" for symbol, n in counted.items()]
    stage("plan", f"{len(launches)} steps", grouped(rows, KERNELS, "kernels"), said)
    if code:
        _code(stages, list(counted), lines, data)
    return Answer(lines, data)


def _source(eqns: Sequence[Eqn], line: Line) -> str:
    """The line's text, where the file can be read."""
    import linecache

    at = next(e.source for e in eqns if e.source is not None and line.is_at(e.source.file, e.source.line))
    assert at is not None
    return linecache.getline(at.file, at.line).strip()


def _passes(stages: Stages, line: Line, lines: list[str]) -> list[dict[str, Any]]:
    """What each pass made of the line's equations, where it changed their number or kind."""
    out: list[dict[str, Any]] = []
    for record in stages.result.records:
        if record.before is record.after:
            continue
        before, after = ([eqn_text(e) for e in from_line(p, line)] for p in (record.before, record.after))
        gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
        rules = Counter(
            r.rule for r in record.rewrites if r.source is not None and line.is_at(r.source.file, r.source.line)
        )
        if not gone and not new:
            continue
        out.append(
            {"pass": record.text, "before": len(before), "after": len(after), "gone": list(gone.elements()),
             "new": list(new.elements()), "rules": dict(rules)}
        )  # fmt: skip
        if len(out) <= CHANGES:
            why = f"; {', '.join(f'{r} {n}' for r, n in rules.items())}" if rules else ""
            lines.append(short(f"{record.stage}: {len(before)} -> {len(after)} equations{why}"))
    return out


def _names(found: Sequence[Operation]) -> str:
    counts = Counter(o.name for o in found if not o.name.startswith(tuple(_MOVES)))
    return short(", ".join(f"{name} {n}" for name, n in counts.most_common(7)) or "moves only", 110)


def _operation(o: Operation) -> str:
    """An operation without the numbers of its values, so that equal ones are alike."""
    text = re.sub(r"^%[\w:]+ = ", "", re.sub(r"%[\w#]+", "%", o.text))
    return text.replace(f"{o.symbol}::", "")


def _comes_from(x: Launch, line: Line, within: set[str]) -> bool:
    return x.symbol in within or any(line.is_at(file, n) for file, n in _places(x.lines))


def _places(lines: str) -> Iterator[tuple[str, int]]:
    for part in lines.split("; ") if lines else ():
        file, _, numbers = part.rpartition(":")
        yield from ((file, int(n)) for n in numbers.split(",") if n.isdigit())


def _near(lines: str) -> str:
    from quire.compiling.memory_analysis import shown_lines

    return shown_lines(lines)


def _code(stages: Stages, symbols: Sequence[str], lines: list[str], data: dict[str, Any]) -> None:
    """The target's code of some kernels: how many instructions, and which."""
    name = code_stage(stages.target)
    if name is None:
        return
    functions = functions_of(stages["code"])
    found: dict[str, dict[str, Any]] = {}
    for symbol in symbols:
        bodies = [body for label, body in functions.items() if symbol in label]
        if bodies:
            counts = Counter(row.split()[0] for body in bodies for row in body)
            found[symbol] = {"instructions": sum(counts.values()), "text": bodies[0]}
            shown = ", ".join(f"{m} {n}" for m, n in counts.most_common(8))
            lines.append(short(f"{name}: {symbol}: {sum(counts.values())} instructions: {shown}"))
    data[name] = found
    if not found:
        lines.append(f"{name}: none of these kernels has a function of its own in it")


def functions_of(text: str) -> dict[str, list[str]]:
    """The instructions of assembly by the label of the function that they are in."""
    found: dict[str, list[str]] = {}
    label = ""
    for row in text.splitlines():
        head = re.match(r'"?([\w$.@]+)"?:', row)
        if head and not head[1].startswith((".L", "Ltmp", "LBB")):
            label = head[1]
        elif label and row.startswith("\t") and not row.lstrip().startswith((".", "#", "//")) and row.strip():
            found.setdefault(label, []).append(row.strip())
    return found

"""``dumpir --find-nan``: where a program makes its first NaN or infinity, on the reference backend or the target alone."""

from __future__ import annotations

from typing import Any

from quire.compiling.compiled_nan_search import search_compiled
from quire.compiling.stage_texts import Stages
from quire.experimental.nan_finding import nan_report
from quire.passes.compare import random_inputs
from quire.watching.nan_search import search

from .answers import Answer, place_text, short
from .inputs import Program

FOUND = 3


def nan_answer(stages: Stages, program: Program) -> Answer:
    """The first NaN or infinity for the values of ``--args``, or for random ones where there are types only.

    Raises:
        CompileError: the target's compiler refuses the program.
    """
    values = random_inputs(program.closed.in_avals) if program.values is None else program.values
    found, of = search(program.closed, values), None
    compiled = True
    if found is None:
        of = stages
        try:
            found = search_compiled(stages, values)
        except RuntimeError:  # a program for a device that is not here
            compiled = False
    if found is None:
        who = (
            f"neither by the reference backend nor on {stages.target.name}" if compiled else "by the reference backend"
        )
        text = f"{program.name} makes no NaN and no infinity, {who}"
        return Answer([text], {"found": False, "text": text, "target": stages.target.name if compiled else "reference"})
    report = nan_report(found, program.name, "forward", program.names, of)
    place = place_text(report.source)
    lines = [str(report)]
    if report.source is not None and (line := _line(report.source.file, report.source.line)):
        lines.append(short(f"  {place}:  {line}"))
    data: dict[str, Any] = {
        "found": True, "kind": report.kind, "text": str(report), "target": report.target, "line": place,
        "primitive": None if report.eqn is None else report.eqn.primitive.name, "kernels": found.kernels,
        "argument": None if found.argument is None else program.names[found.argument] if program.names else found.argument,
        "turns": [
            {"primitive": t.eqn.primitive.name, "line": place_text(t.eqn.source), "turn": t.number} for t in report.turns
        ],
        "reaches": report.reaches,
    }  # fmt: skip
    return Answer(lines, data, FOUND)


def _line(file: str, number: int) -> str:
    try:
        with open(file, encoding="utf-8") as f:
            return next((row.strip() for i, row in enumerate(f, 1) if i == number), "")
    except OSError:
        return ""

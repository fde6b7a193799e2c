"""``dumpir --compare``: is every stage right, from the rules of the transformations to the compiled program?"""

from __future__ import annotations

from typing import Any

from quire.compiling.stage_comparison import compare_stages
from quire.compiling.stage_texts import Stages

from .answers import Answer
from .inputs import Program
from .rules import check_rules

DIFFERENT = 3


def compare_answer(stages: Stages, program: Program) -> Answer:
    """The first stage, pass, rule and equation that changes the numbers; or that all are equal, and how nearly.

    Raises CompileError where the target's compiler refuses the program.
    """
    found = compare_stages(stages, program.values)
    fault, counts = check_rules(program.transformations)
    lines = [f"{program.name}: {found}"]
    data: dict[str, Any] = {
        "equal": not found.fault and fault is None, "results": found.results, "text": str(found),
        "largest": found.largest.largest, "fault": found.fault or (str(fault) if fault else ""),
        "stages": [{"stage": v.stage, "right": v.right, "text": v.text} for v in found.verdicts],
        "rules": counts,
    }  # fmt: skip
    if fault is not None:
        lines = [f"{program.name}: {fault}", *([f"  the stages: {found}"] if found.verdicts else [])]
        return Answer(lines, data, DIFFERENT)
    if found.fault:
        lines += [f"  {v.stage}: {v.text}" for v in found.verdicts[:-1]]
        return Answer(lines, data, DIFFERENT)
    width = max((len(v.stage) for v in found.verdicts), default=0)
    lines += [f"  {v.stage:<{width}}  {v.text}" for v in found.verdicts]
    if any(counts.values()):
        said = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        lines.append(f"  rules of the transformations: {said} equations, as differences and lanes one by one have it")
    return Answer(lines, data)

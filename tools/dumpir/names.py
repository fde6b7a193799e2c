"""``dumpir --name "params['w']"``: what reads an argument, or makes a result, at every stage; by its path in the pytree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from quire.backends.plan.plan import line as step_text
from quire.compiling.memory_analysis import argument_number, handed_over, shown_lines
from quire.compiling.stage_texts import STABLEHLO, Stages
from quire.compiling.tracing import result_paths
from quire.ir.jaxpr import ClosedJaxpr, Eqn

from .answers import Answer, place_text, short
from .inputs import InputError, Program
from .lines import grouped
from .located import operations
from .memory import memory_of
from .survey import Survey, eqn_text

ROWS = 5


def argument_names(program: Program) -> list[str]:
    """The paths of the arguments, or their numbers where these are not known."""
    count = len(program.closed.in_avals)
    return list(program.names) if len(program.names) == count else [f"argument {i}" for i in range(count)]


def result_names(program: Program) -> list[str]:
    """The paths of the results, as ``result[0]['w']``, or their numbers where these are not known."""
    paths = result_paths(program.out_tree) if program.out_tree is not None else ()
    count = len(program.closed.out_avals)
    return [f"result{p}" for p in paths] if len(paths) == count else [f"result {k}" for k in range(count)]


def _plain(name: str) -> str:
    return name.replace('"', "'").replace(" ", "")


def name_answer(stages: Stages, program: Program, name: str) -> Answer:
    """What reads the argument of this name, or makes the result, stage by stage.

    Raises InputError for a name that the program does not have.
    """
    arguments, results = argument_names(program), result_names(program)
    if _plain(name) in map(_plain, arguments):
        return _argument(stages, program, [_plain(a) for a in arguments].index(_plain(name)), arguments)
    if _plain(name) in map(_plain, results):
        return _result(stages, [_plain(r) for r in results].index(_plain(name)), results)
    raise InputError(
        f"--name {name}: {program.name} has no argument or result of that name; it has {', '.join([*arguments, *results])}"
    )


def _readers(program: ClosedJaxpr, i: int) -> list[Eqn]:
    v = program.jaxpr.invars[i]
    return [e for e in program.jaxpr.eqns if v in e.inputs]


def _said(eqns: Sequence[Eqn]) -> list[str]:
    return [f"{eqn_text(e, 110)}{f'  ({at})' if (at := place_text(e.source)) else ''}" for e in eqns]


def _argument(stages: Stages, program: Program, i: int, names: Sequence[str]) -> Answer:
    aval = stages.program.in_avals[i]
    kept = stages.lowered.kept
    lines = [f"{names[i]}: argument {i}, {aval.short()}{', donated' if i in stages.donated else ''}"]
    data: dict[str, Any] = {"name": names[i], "argument": i, "type": aval.short()}
    for stage, p in (("jaxpr", stages.program), ("optimized", stages.result.program)):
        said = _said(_readers(p, i))
        data[stage] = said
        lines += [f"{stage}: read by {len(said)} equations", *grouped(said, ROWS, "equations")]
    if i not in kept:
        lines.append(f"{STABLEHLO}: left out, because nothing reads it")
        return Answer(lines, data)
    number = kept.index(i)
    ops = [o for o in operations(stages.lowered.module.located_text()) if re.search(rf"%arg{number}\b", o.text)]
    ops = [o for o in ops if o.symbol == "main" and not o.text.startswith("func.func")]
    said = [re.sub(r"^%[\w:]+ = ", "", o.text) for o in ops]
    data[STABLEHLO] = said
    lines += [f"{STABLEHLO}: %arg{number}, an operand of {len(said)} operations", *grouped(said, ROWS, "operations")]
    readers = _readers(stages.result.program, i)
    uses = [k for k in Survey(stages).kernels if any(e in readers for e in k.path)]
    data["kernels"] = said = [f"{k.symbol}: {k.reason}" for k in uses]
    lines += [f"kernels: {len(said)} of quire's own", *grouped(said, ROWS, "kernels")]
    said = _steps(stages, lambda buffer: argument_number(buffer.name) == number and buffer.kind == "argument")
    data["plan"] = said
    lines += [f"plan: arg{number}, in {len(said)} steps", *grouped(said, ROWS, "steps")]
    for fate in memory_of(stages, names, program.out_tree).donated:
        if fate[0] == names[i]:
            data["donated"] = fate[3]
            lines.append(short(f"donated: {fate[3]}"))
    return Answer(lines, data)


def _steps(stages: Stages, wanted: Any) -> list[str]:
    survey = Survey(stages)
    plan = survey.plan
    if plan is None:
        return []
    chosen = {b for b in plan.buffers if wanted(b)}
    found = [s for s in survey.steps if any(r.buffer in chosen for r in s.ranges)]
    out: list[str] = []
    for s in found:
        if s.kind == "dispatch" and s.op is not None:
            access = "/".join(a for r, a in zip(s.ranges, s.access) if r.buffer in chosen)
            text = f"dispatch {s.op.name} ({access})"
        else:
            text = step_text(s)
        at = shown_lines(s.op.where) if s.op is not None and s.op.where else ""
        out.append(f"{text}{f'  ({at})' if at else ''}")
    return out


def _result(stages: Stages, k: int, names: Sequence[str]) -> Answer:
    aval = stages.program.out_avals[k]
    lines = [f"{names[k]}: result {k}, {aval.short()}"]
    data: dict[str, Any] = {"name": names[k], "result": k, "type": aval.short()}
    for stage, p in (("jaxpr", stages.program), ("optimized", stages.result.program)):
        out = p.jaxpr.outvars[k]
        makers = [e for e in p.jaxpr.eqns if out in e.outputs]
        data[stage] = said = _said(makers)
        if not said:
            said = ["an argument as it is" if out in p.jaxpr.invars else "a constant"]
        lines += [f"{stage}: made by", *grouped(said, ROWS, "equations")]
    kind, number = stages.lowered.results[k]
    if kind != "result":
        lines.append(f"{STABLEHLO}: not computed: it is {kind} {number}")
        return Answer(lines, data)
    makers = [e for e in stages.result.program.jaxpr.eqns if stages.result.program.jaxpr.outvars[k] in e.outputs]
    uses = [u for u in Survey(stages).kernels if any(e in makers for e in u.path)]
    data["kernels"] = said = [f"{u.symbol}: {u.reason}" for u in uses]
    lines += [f"kernels: {len(said)} of quire's own", *grouped(said, ROWS, "kernels")]
    plan = Survey(stages).plan
    buffers = [b for b, n in handed_over(plan) if n == number] if plan is not None else []
    wanted = {b.name for b in buffers}
    data["plan"] = said = _steps(stages, lambda b: b.name in wanted)
    lines += [f"plan: {', '.join(wanted)}, in {len(said)} steps", *grouped(said, ROWS, "steps")]
    return Answer(lines, data)

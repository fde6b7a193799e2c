"""``dumpir --why-not-fused A B`` and ``--why-kernel``: what fusion and lowering decided, and by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from quire.compiling.stage_texts import Stages
from quire.ir.errors import size_text
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.primitives.calls import fusion_p
from quire.passes.cost import estimate_eqn
from quire.passes.fusion.forms import forms_of
from quire.passes.fusion.reasons import members, why_apart

from .answers import Answer, capped, columns, count_text, place_text, seconds_text, short
from .inputs import InputError
from .lines import from_line, lines_of_file
from .located import Line
from .survey import Survey, eqn_text

ROWS = 14


def _line_and_primitive(text: str, option: str) -> tuple[Line, str | None]:
    head, _, tail = text.rpartition(":")
    try:
        return (Line.parse(text), None) if tail.isdigit() else (Line.parse(head), tail)
    except ValueError:
        raise InputError(
            f"{option} {text}: expected a line (model.py:47), or a line and a primitive (model.py:47:exp)"
        ) from None


def _named(program: ClosedJaxpr, text: str) -> list[int]:
    """The numbers of the equations that are named."""
    line, primitive = _line_and_primitive(text, "--why-not-fused")
    found = [
        i
        for i, e in enumerate(program.jaxpr.eqns)
        if any(x.source is not None and line.is_at(x.source.file, x.source.line) for x in members(e))
        and (primitive is None or primitive in (x.primitive.name for x in members(e)))
    ]
    if not found:
        known = lines_of_file(program, line.file)
        have = sorted({e.primitive.name for e in from_line(program, line)})
        hint = f"the line has {', '.join(have)}" if have else f"lines {', '.join(map(str, known))} of it have some"
        raise InputError(f"--why-not-fused {text}: no equation is named so before fusion; {hint}")
    return found


def why_not_fused(stages: Stages, a: str, b: str) -> Answer:
    """Why the equations of two lines are not one kernel, or that they are.

    Raises InputError for names of no equation.
    """
    records = stages.result.records
    at = next((k for k, r in enumerate(records) if r.text.startswith("fuse")), None)
    if at is None:
        return Answer(
            [f"nothing is fused for target {stages.target.name}: its pipeline has no pass 'fuse'"], {"fused": False}
        )
    before = records[at].before
    p: Any = stages.manager.passes[at]
    left, right = _named(before, a), _named(before, b)
    i, j, near = _nearest(before, left, right)
    if i == j:
        return Answer([f"both name one equation: {eqn_text(before.jaxpr.eqns[i])}"], {"fused": True})
    first, second = before.jaxpr.eqns[i], before.jaxpr.eqns[j]
    program = stages.result.program
    shown = [f"{text}  ({place_text(e.source)})" for text, e in ((eqn_text(first), first), (eqn_text(second), second))]
    together = _together(program, a, b)
    survey = Survey(stages)
    if together is not None:
        uses = [k for k in survey.kernels if together in k.path]
        by = (
            "; ".join(f"kernel {k.symbol}: {k.reason}" for k in uses)
            or "no kernel of quire's: its equations are lowered as they are"
        )
        why = "; ".join(c.text for c in survey.refusals if together in c.path)
        lines = [
            f"some equations of {a} and {b} are one fusion: {eqn_text(together, 120)}", short(f"  {by}{f' ({why})' if why else ''}"),
        ]  # fmt: skip
        return Answer(lines, {"fused": True, "fusion": eqn_text(together, 400), "kernels": [k.symbol for k in uses]})
    reasons = why_apart(
        before.jaxpr,
        i,
        j,
        forms_of(stages.target),
        p.least_elements,
        p.least_operations,
        p.least_gathered,
        p.least_light_on(stages.target),
    )
    where = [_where(program, e, survey) for e in (first, second)]
    lines = [
        *[short(f"{s}: {w}") for s, w in zip(shown, where)],
        f"they are {near}. not one kernel, because",
        *[short(f"  {r}", 230) for r in reasons],
    ]
    return Answer(lines, {"fused": False, "equations": shown, "reasons": reasons})


def _nearest(program: ClosedJaxpr, left: Sequence[int], right: Sequence[int]) -> tuple[int, int, str]:
    """Of the equations that are meant, two of which one reads the other, or else the two that are nearest."""
    eqns = program.jaxpr.eqns
    pairs = sorted((abs(i - j), i, j) for i in left for j in right if i != j) or [(0, left[0], left[0])]
    for _, i, j in pairs:
        for first, second in ((i, j), (j, i)):
            if any(v in eqns[second].inputs for v in eqns[first].outputs):
                return i, j, "neighbours: one reads what the other gives"
    _, i, j = pairs[0]
    return i, j, "no neighbours: neither reads what the other gives"


def _is_of(eqn: Eqn, text: str) -> bool:
    line, primitive = _line_and_primitive(text, "--why-not-fused")
    return any(
        x.source is not None and line.is_at(x.source.file, x.source.line) and primitive in (None, x.primitive.name)
        for x in members(eqn)
    )


def _together(program: ClosedJaxpr, a: str, b: str) -> Eqn | None:
    """A fusion that holds equations of both."""
    for e in program.jaxpr.eqns:
        if e.primitive is fusion_p and _is_of(e, a) and _is_of(e, b):
            if a != b or sum(1 for _ in members(e)) > 1:
                return e
    return None


def _where(program: ClosedJaxpr, eqn: Eqn, survey: Survey) -> str:
    """What became of an equation: in which fusion it is, and by which kernel that is computed."""
    for e in program.jaxpr.eqns:
        same = e is eqn or (set(e.outputs) & set(eqn.outputs))
        if same or any(
            x.source == eqn.source and x.primitive is eqn.primitive for x in members(e) if e.primitive is fusion_p
        ):
            uses = sorted({k.symbol for k in survey.kernels if e in k.path})
            kind = f"in a fusion of kind {e.params['kind']}" if e.primitive is fusion_p else "by itself"
            return f"{kind}, {'kernel ' + ', '.join(uses) if uses else 'left to IREE'}"
    return "rewritten by a pass"


def why_kernel(stages: Stages, what: str) -> Answer:
    """Which equations are kernels of quire's own and why in this form, and which are none and why.

    `what` chooses: a line, a kind or name of kernels, a primitive; empty: all. Raises InputError where nothing is chosen.
    """
    survey = Survey(stages)
    line = Line.parse(what) if what.rpartition(":")[2].isdigit() and ":" in what else None
    chosen = set(map(id, from_line(stages.result.program, line))) if line is not None else None

    def wanted(path: Sequence[Eqn], symbol: str) -> bool:
        if chosen is not None:
            return any(id(e) in chosen for e in path)
        return not what or symbol.startswith(what) or what in (e.primitive.name for e in path for e in members(e))

    uses = [k for k in survey.kernels if wanted(k.path, k.symbol)]
    refused = [c for c in survey.refusals if wanted(c.path, "")]
    in_kernels = {id(k.path[0]) for k in survey.kernels}
    heavy = [
        e
        for e in stages.result.program.jaxpr.eqns
        if e.primitive.family in ("contraction", "reductions") or e.primitive is fusion_p
    ]
    others = [e for e in heavy if id(e) not in in_kernels and wanted((e,), "")]
    if not uses and not refused and not others:
        kinds = sorted({k.symbol.rsplit("_", 1)[0] for k in survey.kernels})
        raise InputError(f"--why-kernel {what}: nothing is so; the kinds of kernels are {', '.join(kinds) or 'none'}")
    counts = Counter(k.symbol for k in uses)
    rows = [("kernel", "calls", "operations", "moved", "estimate", "lines", "why this form")]
    data: list[dict[str, Any]] = []
    for symbol, n in counts.most_common():
        some = [k for k in uses if k.symbol == symbol]
        cost = estimate_eqn(survey.computed_by(some[0]))
        at = sorted({place_text(k.source) for k in some})
        rows.append((symbol, str(n), count_text(cost.flops), size_text(cost.bytes), seconds_text(cost.seconds(stages.target)),
                     " ".join(at[:2]), some[0].reason))  # fmt: skip
        data.append(
            {
                "kernel": symbol,
                "calls": n,
                "flops": cost.flops,
                "bytes": cost.bytes,
                "lines": at,
                "reason": some[0].reason,
            }
        )
    lines = capped(columns(rows, (1, 2, 3, 4)), ROWS + 1, "kernels") if uses else ["no kernel of quire's own"]
    said = Counter(f"{c.primitive} ({place_text(c.source)}): {c.text}" for c in refused)
    for e in others:
        if not any(e in c.path for c in refused):
            said[f"{eqn_text(e, 90)} ({place_text(e.source)}): {_left_to_iree(e, stages)}"] += 1
    lines += ["none for"] * bool(said)
    lines += capped([short(f"  {f'{n} x ' if n > 1 else ''}{text}", 200) for text, n in said.most_common()], ROWS)
    return Answer(lines, {"kernels": data, "none": dict(said)})


def _left_to_iree(e: Eqn, stages: Stages) -> str:
    """Why a contraction or reduction that no choice was recorded for has no kernel."""
    fuse: Any = next((p for p in stages.manager.passes if p.name == "fuse"), None)
    least = None if fuse is None else fuse.least_elements
    if e.primitive.family == "reductions" and least is not None and e.inputs[0].aval.size < least:
        return f"{e.inputs[0].aval.size} elements are fewer than least-elements={least}, where IREE does as well"
    return "no kernel is tried for it: IREE's own form is as good"

"""``dumpir --html``: all that is known of a program as the data of one page (`page.py` shows it)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quire.compiling.stage_texts import Stages
from quire.ir.errors import CompileError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, has_nested
from quire.ir.primitives.calls import fusion_p
from quire.ir.printer import Names, PrintOptions, eqn_to_str
from quire.ir.source import Source
from quire.passes.fusion.reasons import members

from .answers import Answer
from .inputs import Program
from .memory import memory_of
from .names import argument_names, result_names
from .page import PAGE
from .summary import compile_seconds, kinds_of
from .survey import Survey, inside_text

MOST_TEXT = 400
MOST_INSIDE = 2000
MOST_SOURCE = 4000
"""Lines of one file that are put into the page."""


class _Sources:
    """The user's lines, each once, and the texts of their files."""

    def __init__(self) -> None:
        self.numbers: dict[Source, int] = {}
        self.rows: list[list[Any]] = []
        self.files: dict[str, int] = {}

    def __call__(self, source: Source | None) -> int:
        if source is None:
            return -1
        found = self.numbers.get(source)
        if found is None:
            found = self.numbers[source] = len(self.rows)
            file = self.files.setdefault(source.file, len(self.files))
            self.rows.append([file, source.line, source.function, source.scope])
        return found

    def texts(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for file in self.files:
            try:
                rows = Path(file).read_text(encoding="utf-8").splitlines()[:MOST_SOURCE]
            except (OSError, UnicodeDecodeError):  # a notebook's cell, or a file that is gone
                rows = []
            out.append({"name": file, "rows": rows})
        return out


def programs_of(stages: Stages) -> list[tuple[str, ClosedJaxpr]]:
    """The traced program, and that after each pass that changed it."""
    found = [("jaxpr", stages.program)]
    for r in stages.result.records:
        if r.after is not r.before:
            found.append((r.stage, r.after))
    return found


def _equations(jaxpr: Jaxpr, names: Names, sources: _Sources, kernels: dict[int, list[str]]) -> list[dict[str, Any]]:
    made: dict[Var, int] = {}
    out: list[dict[str, Any]] = []
    options = PrintOptions(width=200, max_const=8)
    results = {a for a in jaxpr.outvars if isinstance(a, Var)}
    for i, e in enumerate(jaxpr.eqns):
        text = _text(e, names, options)
        row: dict[str, Any] = {
            "t": text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "...",
            "s": sources(e.source),
            "i": sorted({made[a] for a in e.inputs if isinstance(a, Var) and a in made}),
            "o": e.params["kind"] if e.primitive is fusion_p else e.primitive.name,
            "f": "fusion" if e.primitive is fusion_p else "loop" if has_nested(e.params) else e.primitive.family,
        }
        if not results.isdisjoint(e.outputs):
            row["r"] = 1
        inside = list(members(e))
        if len(inside) > 1:
            lines = sorted({sources(x.source) for x in inside} - {-1})
            row["p"] = lines
            row["n"] = len(inside)
        if id(e) in kernels:
            row["k"] = kernels[id(e)]
        made.update((v, i) for v in e.outputs)
        out.append(row)
    return out


def _text(e: Eqn, names: Names, options: PrintOptions) -> str:
    """An equation in one line; a fusion by its kind and what is inside."""
    if e.primitive is not fusion_p:
        return " ".join(eqn_to_str(e, options, names).split())
    made = " ".join(f"{names[v]}:{v.aval.short()}" for v in e.outputs)
    given = " ".join(names[a] if isinstance(a, Var) else str(a.value) for a in e.inputs)
    return f"{made} = fusion[{e.params['kind']}: {inside_text(e)}] {given}"


def lineage(before: Sequence[Eqn], after: Sequence[Eqn]) -> list[list[int]]:
    """For each equation of a program, those of the next one that it became.

    One with the same result is the same; else what is of the same line and primitive, within fusions too, the n-th for the
    n-th where there are as many as before; else what is of the same line.
    """
    by_var = {v: j for j, e in enumerate(after) for v in e.outputs}
    exact: defaultdict[Any, list[int]] = defaultdict(list)
    near: defaultdict[Any, list[int]] = defaultdict(list)
    for j, e in enumerate(after):
        for x in members(e):
            if x.source is not None:
                exact[x.source, x.primitive].append(j)
                if j not in near[x.source][-1:]:
                    near[x.source].append(j)
    counts = Counter((e.source, e.primitive) for e in before)
    seen: Counter[Any] = Counter()
    out: list[list[int]] = []
    for e in before:
        key = (e.source, e.primitive)
        number = seen[key]
        seen[key] += 1
        own = sorted({by_var[v] for v in e.outputs if v in by_var})
        if not own and e.source is not None:
            alike = exact.get(key, [])
            own = [alike[number]] if len(alike) == counts[key] else list(dict.fromkeys(alike)) or near.get(e.source, [])
        out.append(own[:24])
    return out


def data_of(stages: Stages, program: Program, spmd: str = "") -> dict[str, Any]:
    """What the page shows, as data."""
    survey, sources, names = Survey(stages), _Sources(), Names()
    kernels: dict[int, list[str]] = {}
    for k in survey.kernels:
        kernels.setdefault(id(k.path[0]), []).append(k.symbol)
    shown: list[dict[str, Any]] = []
    programs = programs_of(stages)
    for name, p in programs:
        shown.append({"name": name, "eqns": _equations(p.jaxpr, names, sources, kernels)})
    for k in range(len(programs) - 1):
        links = lineage(programs[k][1].jaxpr.eqns, programs[k + 1][1].jaxpr.eqns)
        for row, link in zip(shown[k]["eqns"], links):
            row["d"] = link
    rewrites = [
        {
            "pass": r.text, "seconds": r.seconds, "before": r.eqns_before, "after": r.eqns_after,
            "rules": [[rule, n] for rule, n in Counter(r.counters).most_common()],
            "at": [[w.rule, sources(w.source)] for w in r.rewrites[:MOST_INSIDE]],
        }
        for r in stages.result.records
    ]  # fmt: skip
    jaxpr = stages.program.jaxpr
    data: dict[str, Any] = {
        "name": stages.name, "target": stages.target.name, "stages": shown, "rewrites": rewrites,
        "arguments": [[names[v], n, v.aval.short()] for v, n in zip(jaxpr.invars, argument_names(program))],
        "results": [[n, a.short()] for n, a in zip(result_names(program), stages.program.out_avals)],
        "kernels": [
            {"symbol": k.symbol, "reason": k.reason, "s": sources(k.source)} for k in survey.kernels
        ],
        "refusals": [{"primitive": c.primitive, "text": c.text, "s": sources(c.source)} for c in survey.refusals],
        "kinds": [], "memory": [], "seconds": {}, "errors": [], "spmd": spmd,
    }  # fmt: skip
    try:
        data["kinds"] = [k.row() for k in kinds_of(survey)]
        data["seconds"] = compile_seconds(stages)
        memory = memory_of(stages, program.names, program.out_tree)
        data["memory"] = [
            [s.number, s.held, s.name, s.lines] for s in memory.steps if s.kind in ("dispatch", "copy", "fill")
        ]
        data["peak"] = {"step": memory.peak, "held": memory.held, "transient": memory.transient,
                        "values": [[v.bytes, v.type, v.made_by, v.lines] for v in memory.values[:200]]}  # fmt: skip
    except CompileError as error:
        data["errors"].append(str(error))
    data["sources"], data["files"] = sources.rows, sources.texts()
    return data


def html_answer(stages: Stages, program: Program, path: Path, spmd: str = "") -> Answer:
    """Write the page of a program."""
    data = data_of(stages, program, spmd)
    text = json.dumps(data, separators=(",", ":"), default=str).replace("</", "<\\/")
    page = PAGE.replace("@NAME@", _escaped(stages.name)).replace("@DATA@", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    count = sum(len(s["eqns"]) for s in data["stages"])
    return Answer(
        [f"{program.name}: written to {path}: {len(page) / 1e6:.2f} MB, {len(data['stages'])} stages of {count} equations together"],
        {"path": str(path), "bytes": len(page)},
    )  # fmt: skip


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""``dumpir --why-recompiled``: which functions of a script were traced and compiled several times, and what differed."""

from __future__ import annotations

import contextlib
import os
import runpy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quire.watching.reports import Traced, trace_sink

from .answers import ROWS as LINES
from .answers import Answer, capped, place_text, short
from .inputs import InputError, as_script

ROWS = 6


def recompiled_answer(path: str, arguments: Sequence[str]) -> Answer:
    """Run a script, and tell of each function that was traced more than once what made it necessary.

    Raises InputError for a script that fails.
    """
    if not path.endswith(".py") or not Path(path).is_file():
        raise InputError(f"--why-recompiled runs a script: expected script.py, got {path}")
    found: list[Traced] = []
    with as_script(Path(path).absolute(), arguments), trace_sink(found.append):
        with contextlib.suppress(SystemExit):
            runpy.run_path(path, run_name="__main__")
    groups: dict[tuple[str, str], list[Traced]] = {}
    for t in found:
        groups.setdefault((t.name.partition(" (")[0], t.defined), []).append(t)
    several = {key: traced for key, traced in groups.items() if len(traced) > 1}
    count = "1 function was" if len(groups) == 1 else f"{len(groups)} functions were"
    of_them = ("several times" if len(groups) == 1 else f"{len(several)} of them several times") if several else "once"
    if not several and len(groups) != 1:
        of_them = "each once"
    lines = [f"{count} compiled, {of_them}"]
    data: list[dict[str, Any]] = []
    for (name, defined), traced in sorted(several.items(), key=lambda item: -len(item[1])):
        said = _reasons(traced)
        data.append(
            {"function": name, "defined": defined.strip(" ()"), "times": len(traced), "reasons": dict(said),
             "signatures": [t.signature for t in traced], "calls": sorted({place_text(t.source) for t in traced})}
        )  # fmt: skip
        lines.append(f"{name}{_near(defined)}: {len(traced)} times")
        rows = [f"  {f'{n} x ' if n > 1 else ''}{reason}" for reason, n in said.most_common()]
        lines += [short(row) for row in capped(rows, ROWS, "reasons")]
    return Answer(capped(lines, LINES, "lines (all of them: --json)"), {"functions": data, "compiled": len(groups)})


def _near(defined: str) -> str:
    file, _, line = defined.strip(" ()").rpartition(":")
    if not file:
        return defined
    near = os.path.relpath(file)
    return f" ({file if near.startswith('..') else near}:{line})"


def _reasons(traced: Sequence[Traced]) -> Counter[str]:
    """Why each call after the first traced the function, with the line of the call."""
    out: Counter[str] = Counter()
    known: dict[int, str] = {}
    new = 0
    for t in traced:
        if id(t.function) in known:
            out[f"{t.reason}  (called at {place_text(t.source)})"] += 1
        elif known:
            new += 1
        known[id(t.function)] = t.signature
    if new:
        calls = sorted({place_text(t.source) for t in traced})
        out[
            f"the function itself is a new object each time (a def or lambda within a loop or function): what was compiled belongs "
            f"to the old one. Define it once, and give what changes as an argument  (called at {', '.join(calls)})"
        ] += new  # fmt: skip
    return out

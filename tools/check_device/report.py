"""What was found, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .functions import Outcome
from .measures import Measure, Measured, peak_of


def functions_table(outcomes: Sequence[Outcome]) -> str:
    """The counts, what is not right with its reason, and all functions with their times."""
    counts = Counter(o.status for o in outcomes)
    lines = [f"{len(outcomes)} functions: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()), ""]
    failed = [o for o in outcomes if o.status not in ("right", "compiled")]
    if failed:
        lines += ["| function | | what |", "|---|---|---|"]
        lines += [f"| {o.name} | {o.status} | {_cell(o.detail)} |" for o in failed]
        lines.append("")
    lines += ["| function | | first call, s | call, ms |", "|---|---|---|---|"]
    lines += [f"| {o.name} | {o.status} | {o.first:.2f} | {o.call * 1e3:.3f} |" for o in outcomes]
    return "\n".join(lines)


def measures_table(found: Sequence[tuple[Measure, Sequence[Measured]]], device_kind: str) -> str:
    """A row for each measure: seconds and rates of each library, and the share of the device's peak."""
    names = [m.library for m in found[0][1]] if found else []
    lines = ["| measure | peak | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for measure, of_libraries in found:
        peak = peak_of(device_kind, measure)
        cells = [_measured(measure, m, peak) for m in of_libraries]
        lines.append(
            f"| {measure.name} | {'not known' if peak is None else _rate(peak, measure)} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def _measured(measure: Measure, m: Measured, peak: float | None) -> str:
    if m.error:
        return _cell(m.error[:120])
    rate = measure.work / m.seconds
    share = "" if peak is None else f", {rate / peak:.0%}"
    return f"{m.seconds * 1e3:.3f} ms, {_rate(rate, measure)}{share}"


def _rate(rate: float, measure: Measure) -> str:
    scale, letter = next(((s, c) for s, c in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if rate >= s), (1.0, ""))
    return f"{rate / scale:.3g} {letter}{ {'flop': 'FLOP', 'byte': 'B', 'step': ' steps', 'element': ' elements'}[measure.unit] }/s"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

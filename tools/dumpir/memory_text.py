"""The memory of a program as text, on one screen."""

from __future__ import annotations

from collections.abc import Sequence

from quire.backends.plan.plan import FLAT
from quire.ir.errors import size_text

from .memory import Memory, StepRow, Value

ROWS = 28
"""So many steps are shown at most on one screen."""
AROUND_PEAK = 6
"""So many of them before the peak, and as many after it."""
VALUES = 12
"""So many values are shown at most of those that are held at the peak."""
_BAR = 24


def text(memory: Memory, *, whole: bool = False) -> str:
    """The memory of a program on one screen, or with all steps and values."""
    lines = [*_totals(memory), "", *_timeline(memory, whole), *_peak(memory, whole), *_donated(memory)]
    return "\n".join(lines)


def _totals(m: Memory) -> list[str]:
    said = f"in one block; at least {size_text(m.least)} in this order"
    if m.transient > m.least:
        said += f", {m.transient / m.least:.3g} times that is taken"
    if m.held < m.transient and size_text(m.held) != size_text(m.transient):
        said += f"; {size_text(m.held)} are held at most"
    rows = [
        ("arguments", m.arguments, ""),
        ("results", m.results, f"and {size_text(m.reused)} in arguments' memory" if m.reused else ""),
        ("constants", m.constants, ""),
        ("transient", m.transient, said if m.transient else ""),
        ("exchanged", m.exchanged, "two places for each large value that a loop carries" if m.exchanged else ""),
        ("scalars", m.scalars, "that the host reads" if m.scalars else ""),
        ("callbacks", m.callbacks, "what they are given and give" if m.callbacks else ""),
    ]
    rows = [row for row in rows if row[1] or row[0] in ("arguments", "results", "transient")]
    return [f"{what:<10} {size_text(n):>11}  {more}".rstrip() for what, n, more in rows]


def _timeline(m: Memory, whole: bool) -> list[str]:
    shown = [r for r in m.steps if r.kind in FLAT or r.kind in ("loop", "branch", "load")]
    chosen = shown if whole else _chosen(shown, m.peak)
    if not chosen:
        return ["nothing is computed"]
    most = max((r.held for r in shown), default=0)
    lines = [f"{'step':>5}  {'held while it runs':<{_BAR + 12}}  what it is"]
    numbers = {r.number: i for i, r in enumerate(shown)}
    last = -1
    for row in chosen:
        lines += _left_out(shown[last + 1 : numbers[row.number]])
        last = numbers[row.number]
        bar = ("#" * -(-row.held * _BAR // most) if most else "").ljust(_BAR)
        mark = "*" if row.number == m.peak else " "
        name = "  " * row.depth + row.name + (f"  ({row.lines})" if row.lines else "")
        lines.append(f"{row.number:>5}{mark} {bar} {size_text(row.held):>11}  {name}")
    lines += _left_out(shown[last + 1 :])
    return lines


def _left_out(rows: Sequence[StepRow]) -> list[str]:
    if not rows:
        return []
    count = "1 step" if len(rows) == 1 else f"{len(rows)} steps"
    return [f"{'...':>5}  {count}, which hold {size_text(max(r.held for r in rows))} at most"]


def _chosen(rows: Sequence[StepRow], peak: int) -> list[StepRow]:
    """The rows for one screen: those around the peak, and of the others those that hold the most."""
    if len(rows) <= ROWS:
        return list(rows)
    at = next((i for i, r in enumerate(rows) if r.number == peak), 0)
    near = set(range(max(0, at - AROUND_PEAK), min(len(rows), at + AROUND_PEAK + 1)))
    # Half of the screen: each row that stands alone brings a line for those that are left out before it.
    far = sorted((i for i in range(len(rows)) if i not in near), key=lambda i: (-rows[i].held, i))
    chosen = near | set(far[: (ROWS - len(near)) // 2])
    return [rows[i] for i in sorted(chosen)]


def _peak(m: Memory, whole: bool) -> list[str]:
    if not m.peak:
        return []
    lines = ["", f"held at the peak, while step {m.peak} runs: {size_text(m.held)}"]
    for what, values in (("", m.values), ("in results and donated arguments", m.elsewhere)):
        if not values:
            continue
        if what:
            lines.append(f"{what}: {size_text(sum(v.bytes for v in values))}")
        rows = [(1, v) for v in values] if whole else _alike(values)
        shown = rows if whole else rows[: VALUES if not what else VALUES // 2]
        kinds = max(len(v.type or "") for _, v in shown)
        places = [f"{n} values" if n > 1 else v.place for n, v in shown]
        width = max(map(len, places))
        for (n, v), place in zip(shown, places):
            by = v.made_by if n > 1 or not v.step else f"by step {v.step}, {v.made_by}"
            where = f"  ({v.lines})" if v.lines else ""
            lines.append(f"  {size_text(n * v.bytes):>11}  {v.type or '':<{kinds}}  {place:<{width}}  {by}{where}")
        if rest := rows[len(shown) :]:
            lines.append(f"  {size_text(sum(n * v.bytes for n, v in rest)):>11}  in {sum(n for n, _ in rest)} more")
    return lines


def _alike(values: Sequence[Value]) -> list[tuple[int, Value]]:
    """How many there are of each value of one size and type that one kernel makes at one line; those that take most first."""
    found: dict[tuple[int, str | None, str, str], list[Value]] = {}
    for v in values:
        found.setdefault((v.bytes, v.type, v.made_by, v.lines), []).append(v)
    return sorted(((len(same), same[0]) for same in found.values()), key=lambda row: -row[0] * row[1].bytes)


def _donated(m: Memory) -> list[str]:
    if not m.donated:
        return []
    return ["", "donated", *(f"  {name} ({kind}): {said}" for name, kind, _, said in m.donated)]

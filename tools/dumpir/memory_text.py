"""``dumpir --memory``: the memory of a program as text on one screen, and what would save some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from quire.backends.plan.plan import FLAT
from quire.compiling.stage_texts import Stages
from quire.ir.errors import size_text

from .answers import ROWS, Answer, short_end
from .memory import Memory, StepRow, Value, memory_of
from .recomputing import by_recomputing, recomputing_text
from .savings import by_donation, donation_text

LEAST_STEPS = 6
"""So many lines of steps are shown where there are more, however much else there is to say."""
VALUES = 5
"""So many values are shown at most of those that are held at the peak."""
FATES = 2
"""So many donated arguments are shown at most, where there are more than one more."""
_BAR = 24


def memory_answer(stages: Stages, donated_too: Callable[[tuple[int, ...]], Stages]) -> Answer:
    """What a call takes, step by step, and what giving arguments away or computing values again would save.

    `donated_too` gives the stages of the program with these arguments donated.

    Raises:
        CompileError: the target's compiler, or the plan, refuses the program.
    """
    memory = memory_of(stages, stages.names, stages.out_tree)
    donation = by_donation(stages, donated_too, memory)
    recomputing = by_recomputing(stages, memory)
    more = [] if recomputing is None else recomputing_text(recomputing, memory)
    if donation is not None:
        more.append(donation_text(donation))
    would_save = {
        "donating": None if donation is None else asdict(donation),
        "recomputing": None if recomputing is None else asdict(recomputing),
    }
    return Answer(text(memory, more).splitlines(), memory.data() | {"would_save": would_save})


def text(memory: Memory, more: Sequence[str] = (), *, whole: bool = False) -> str:
    """The memory of a program on one screen, with `more` below, or with all steps and values.

    The steps have the lines that the rest leaves of a screen.
    """
    totals, peak, donated = _totals(memory), _peak(memory, whole), _donated(memory, whole)
    below = [*peak, *donated, *(["", *more] if more else [])]
    room = max(ROWS - len(totals) - len(below) - 3, LEAST_STEPS)  # the heading, an empty line, the steps' heading
    lines = [*totals, "", *_timeline(memory, None if whole else room), *below]
    return "\n".join(lines if whole else [short_end(line) for line in lines])


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


def _timeline(m: Memory, room: int | None) -> list[str]:
    shown = [r for r in m.steps if r.kind in FLAT or r.kind in ("loop", "branch", "load")]
    chosen = shown if room is None else _chosen(shown, m.peak, room)
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


def _chosen(rows: Sequence[StepRow], peak: int, room: int) -> list[StepRow]:
    """The rows for so many lines: a third of them around the peak, and of the others those that hold the most."""
    if len(rows) <= room:
        return list(rows)
    at = next((i for i, r in enumerate(rows) if r.number == peak), 0)
    around = max(room // 6, 1)
    chosen = set(range(max(0, at - around), min(len(rows), at + around + 1)))
    for i in sorted((i for i in range(len(rows)) if i not in chosen), key=lambda i: (-rows[i].held, i)):
        # A row that stands alone brings a line for those that are left out before it.
        if _lines_of(chosen | {i}, len(rows)) > room:
            break
        chosen.add(i)
    return [rows[i] for i in sorted(chosen)]


def _lines_of(chosen: set[int], count: int) -> int:
    """The lines that some rows of so many take, with those that say what is left out."""
    return len(chosen) + sum(i not in chosen and (i == 0 or i - 1 in chosen) for i in range(count))


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
        most = VALUES if not what else 1
        shown = rows if whole or len(rows) == most + 1 else rows[:most]
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


def _donated(m: Memory, whole: bool) -> list[str]:
    if not m.donated:
        return []
    lines = [f"  {name} ({kind}): {said}" for name, kind, _, said in m.donated]
    if whole or len(lines) <= FATES + 1:
        return ["", "donated", *lines]
    taken = sum(reused for _, _, reused, _ in m.donated)
    not_taken = [line for line, fate in zip(lines, m.donated) if not fate[2]]
    rest = [f"  ... {len(not_taken) - FATES} more (all of them: -o DIR, --json)"] if len(not_taken) > FATES else []
    return ["", f"donated: {taken} of {len(lines)} become results", *not_taken[:FATES], *rest]

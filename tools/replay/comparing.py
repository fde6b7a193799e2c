"""What differs between the results of two commits."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .normal import STAGES, normalised, without_addresses, without_names
from .store import Result

ERROR = "error"
"""The "stage" of a program that one commit fails to trace or to lower, or that fails in another way."""


@dataclass(frozen=True)
class Difference:
    """A program that differs.

    Attributes:
        stages: those that differ, in order; ERROR alone where a commit has no text.
        lines: how many lines of the first of them were taken away, and put in.
    """

    name: str
    stages: tuple[str, ...]
    lines: tuple[int, int]
    said: str = ""

    def __str__(self) -> str:
        if self.said:
            return f"{self.name}: {self.stages[0]}: {self.said}"
        first, *others = self.stages
        after = f"; then {', '.join(others)}" if others else ""
        return f"{self.name}: {first} (-{self.lines[0]} +{self.lines[1]} lines){after}"


def difference(old: Result | None, new: Result | None, name: str) -> Difference | None:
    """How the results of a program differ; None where they are equal up to names, or fail alike."""
    said = _failure(old, new)
    if said:
        return Difference(name, (ERROR,), (0, 0), said)
    if old is None or new is None or old.texts == new.texts:
        return None
    before, after = normalised(old.texts), normalised(new.texts)
    stages = tuple(s for s in STAGES if before[s] != after[s])
    if not stages:
        return None
    changes = [line[:1] for line in _changes(before[stages[0]], after[stages[0]], ("", ""))]
    return Difference(name, stages, (changes.count("-"), changes.count("+")))


def _failure(old: Result | None, new: Result | None) -> str:
    """How two programs differ of which one failed at least; empty if both have texts, or fail alike."""
    errors = [without_addresses(r.error) if r else "there is no such program" for r in (old, new)]
    if errors[0] == errors[1]:
        return ""
    if not errors[0]:
        return f"fails now: {_line(errors[1])}"
    if not errors[1]:
        return f"failed before: {_line(errors[0])}"
    return f"{_line(errors[0])} -> {_line(errors[1])}"


def _line(text: str) -> str:
    """The first line of a message."""
    return text.partition("\n")[0][:200]


def shown(old: Result | None, new: Result | None, names: tuple[str, str]) -> Iterator[str]:
    """The unified differences of all stages that differ, under headings."""
    said = _failure(old, new)
    if said:
        yield from ("// error", f"--- {old.error if old else ''}", f"+++ {new.error if new else ''}")
        return
    if old is None or new is None or old.error:
        return
    before, after = normalised(old.texts), normalised(new.texts)
    for stage in STAGES:
        if before[stage] != after[stage]:
            yield f"// {stage}"
            yield f"--- {names[0]}"
            yield f"+++ {names[1]}"
            yield from _changes(before[stage], after[stage], names)


def _changes(before: str, after: str, names: tuple[str, str]) -> Iterator[str]:
    """The lines of a unified difference, below its names.

    A value that comes or goes renumbers all that follow it: lines that differ in numbers only are not told, unless
    nothing else is different.
    """
    old, new = before.splitlines(), after.splitlines()
    masked = [without_names(line) for line in old], [without_names(line) for line in new]
    if masked[0] == masked[1]:
        yield from list(difflib.unified_diff(old, new, *names, lineterm="", n=3))[2:]
        return
    matcher = difflib.SequenceMatcher(None, *masked, autojunk=False)
    for group in matcher.get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        yield f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (f" {line}" for line in new[c:d])
            else:
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])


def counts(found: Sequence[Difference]) -> dict[str, int]:
    """How many programs differ first in each stage."""
    return {stage: n for stage in (ERROR, *STAGES) if (n := sum(d.stages[0] == stage for d in found))}

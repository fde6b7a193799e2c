"""Peak resident memory: each workload and library in a process of its own.

A process imports the library, makes the arguments, compiles or loads the program, and calls it. `beyond` is the peak of
the calls beyond what was resident before the first of them: results, temporaries, copies, what a pool keeps. `total` is
the peak of the whole process from its start, one in which nothing was cached. quire's compiler is a process of its own
that other programs of the user share and that no cached program needs: its peak is told beside.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .fresh import in_new_process, prepare
from .workload import Unavailable, Workload

SECTION = "bench memory"
LEAST = 1_000_000
"""Where the calls of both libraries need fewer bytes than this, their ratio says nothing."""


@dataclass(frozen=True)
class Memory:
    """Bytes at the peak: of the calls, of the process, of the compiler's processes."""

    beyond: int
    total: int
    compiler: int = 0


@dataclass
class MemoryResult:
    """A workload's memory by library; `skipped` or `failed` says why there is none."""

    title: str
    measured: dict[str, Memory] = field(default_factory=dict[str, Memory])
    skipped: str | None = None
    failed: str | None = None
    notes: list[str] = field(default_factory=list[str])

    def small(self, against: str) -> bool:
        """Whether both need so little that there is no ratio."""
        return all(m.beyond < LEAST for n in ("quire", against) if (m := self.measured.get(n)) is not None)

    def ratio(self, against: str) -> float | None:
        """quire's bytes beyond the start over another library's; None where either is missing or both are small."""
        one, other = self.measured.get("quire"), self.measured.get(against)
        if one is None or other is None or self.small(against):
            return None
        return one.beyond / other.beyond if other.beyond else math.inf

    def ratio_total(self, against: str) -> float | None:
        """The same of the whole processes."""
        one, other = self.measured.get("quire"), self.measured.get(against)
        return None if one is None or other is None else one.total / other.total

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> MemoryResult:
    """The result that `to_json` gave."""
    return MemoryResult(**{**data, "measured": {n: Memory(**m) for n, m in data["measured"].items()}})


def measure(entry: Workload, libraries: Sequence[str], folder: str) -> MemoryResult:
    """Measure one workload; quire twice: what a cold process takes in all, and the calls of a cached program."""
    result = MemoryResult(entry.title)
    for name in (n for n in libraries if n in entry.libraries):
        try:
            with tempfile.TemporaryDirectory(prefix="programs-", dir=folder) as cache:
                found = Memory(**in_new_process("memory", entry, name, folder, cache))
                if name == "quire":
                    cached = Memory(**in_new_process("memory", entry, name, folder, cache))
                    found = Memory(cached.beyond, max(found.total, cached.total), found.compiler)
            result.measured[name] = found
        except Unavailable as error:
            if name == "quire":
                result.skipped = str(error)
                break
            result.notes.append(f"{name}: {error}")
        except Exception as error:  # one workload that fails must not end a run of many
            result.failed = f"{name}: {error}"
            break
    return result


def measure_all(
    entries: Sequence[Workload], libraries: Sequence[str], progress: Callable[[MemoryResult], None]
) -> list[MemoryResult]:
    """Measure the workloads one after another, telling each result as it is found."""
    results: list[MemoryResult] = []
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        prepare(libraries, folder)
        for entry in entries:
            result = measure(entry, libraries, folder)
            progress(result)
            results.append(result)
    return results


def size(count: int | None) -> str:
    """A number of bytes in MB; quire and the system count them differently from one run to the next below 0.1."""
    return "" if count is None else f"{count / 1e6:.1f}" if count < 99.5e6 else f"{count / 1e6:.0f}"


def columns(libraries: Sequence[str]) -> list[str]:
    """The headings of the table."""
    heads = ["workload"]
    for what in ("beyond", "total"):
        heads += [f"{n} {what}" for n in libraries]
        heads += [f"/{n}" for n in libraries if n != "quire"]
    return [*heads, "compiler", "notes"]


def row(result: MemoryResult, libraries: Sequence[str]) -> list[str]:
    """One line of the table."""
    cells = [result.title]
    others = [n for n in libraries if n != "quire"]
    for what, ratio in (("beyond", result.ratio), ("total", result.ratio_total)):
        cells += [size(getattr(result.measured.get(n), what, None)) for n in libraries]
        cells += ["" if (r := ratio(n)) is None else f"{r:.2f}" for n in others]
    own = result.measured.get("quire")
    cells.append(size(own.compiler) if own and own.compiler else "")
    notes = [
        *result.notes,
        *(f"below 1 MB in quire and {n}" for n in others if n in result.measured and result.small(n)),
    ]
    if result.skipped is not None:
        notes.append(f"skipped: {result.skipped}")
    if result.failed is not None:
        notes.append(f"FAILED: {result.failed}")
    return [*cells, "; ".join(notes)]


def largest_first(results: Sequence[MemoryResult], libraries: Sequence[str]) -> list[MemoryResult]:
    """Sorted by ratio to the first of the other libraries, what has none last."""
    against = next((n for n in libraries if n != "quire"), "")

    def order(result: MemoryResult) -> float:
        ratio = result.ratio(against)
        return math.inf if ratio is None else -ratio

    return sorted(results, key=order)


def summary(results: Sequence[MemoryResult], libraries: Sequence[str]) -> list[str]:
    """Lines that sum the run up."""
    lines: list[str] = []
    for name in (n for n in libraries if n != "quire"):
        for what, ratio in (("the calls", MemoryResult.ratio), ("whole processes", MemoryResult.ratio_total)):
            ratios = [r for x in results if (r := ratio(x, name)) is not None and 0 < r < math.inf]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                above = sum(r > 1.0 for r in ratios)
                lines.append(f"{what}, against {name}: geometric mean {mean:.2f} of {len(ratios)}; {above} above 1.0")
        small = sum(name in x.measured and x.small(name) for x in results)
        if small:
            lines.append(f"below 1 MB in quire and {name}, without a ratio: {small}")
    failed = [r.title for r in results if r.failed]
    return [*lines, f"failed: {', '.join(failed)}"] if failed else lines

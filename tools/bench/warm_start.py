"""The warm start: the first result of a program that the persistent cache holds, in a new process.

The time begins when quire is imported and the arguments are made, and ends when the first call has its result: the
function is traced, its program looked up and loaded, and run once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from .fresh import fill, in_new_process, prepare
from .workload import Unavailable, Workload

SECTION = "bench warm start"
MARK = 0.05
"""The time to stay under, in seconds."""
STAGES = ("trace", "look up", "load", "run")
"""The categories of `quire.watching.spans` that a call of a cached program has; passes and lowering run for host functions."""
SAMPLES = 3


@dataclass
class WarmStart:
    """Seconds of each process, and the processor's time and the stages of the median one.

    `skipped` or `failed` says why there are none.
    """

    title: str
    seconds: list[float] = field(default_factory=list[float])
    cpu: float | None = None
    stages: dict[str, float] = field(default_factory=dict[str, float])
    skipped: str | None = None
    failed: str | None = None

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    @property
    def rest(self) -> float | None:
        """What lies in no stage: taking arguments apart, modules that are imported at first use."""
        return self.median - sum(self.stages.values()) if self.median is not None else None

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> WarmStart:
    """The result that `to_json` gave."""
    return WarmStart(**data)


def measure(entry: Workload, folder: str, samples: int = SAMPLES) -> WarmStart:
    """Measure one workload, whose program is in the cache."""
    result = WarmStart(entry.title)
    try:
        found = [in_new_process("warm-start", entry, "quire", folder, folder) for _ in range(samples)]
    except Unavailable as error:
        result.skipped = str(error)
    except Exception as error:  # one workload that fails must not end a run of many
        result.failed = str(error)
    else:
        found.sort(key=lambda f: f["seconds"])
        result.seconds = [f["seconds"] for f in found]
        middle = found[(len(found) - 1) // 2]
        result.cpu, result.stages = middle["cpu"], middle["stages"]
    return result


def measure_all(
    entries: Sequence[Workload], libraries: Sequence[str], progress: Callable[[WarmStart], None]
) -> list[WarmStart]:
    """Measure the workloads one after another, telling each result as it is found; of `libraries` only quire."""
    results: list[WarmStart] = []
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        prepare(("quire",), folder)
        fill(entries, folder, folder)
        for entry in entries:
            result = measure(entry, folder)
            progress(result)
            results.append(result)
    return results


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.1f}"


def columns(libraries: Sequence[str]) -> list[str]:
    """The headings of the table; times are milliseconds."""
    return ["workload", "first result, ms", "best", "cpu", *STAGES, "others", "rest", "notes"]


def row(result: WarmStart, libraries: Sequence[str]) -> list[str]:
    """One line of the table."""
    others = [s for s in result.stages if s not in STAGES]
    notes: list[str] = [f"{name} {_ms(result.stages[name])} ms" for name in others]
    if result.median is not None and result.median > MARK:
        notes.append(f"above the mark of {_ms(MARK)} ms")
    if result.skipped is not None:
        notes.append(f"skipped: {result.skipped}")
    if result.failed is not None:
        notes.append(f"FAILED: {result.failed}")
    return [
        result.title, _ms(result.median), _ms(min(result.seconds, default=None)), _ms(result.cpu),
        *(_ms(result.stages.get(s)) for s in STAGES),
        _ms(sum(result.stages[s] for s in others)) if others else "", _ms(result.rest), "; ".join(notes),
    ]  # fmt: skip


def slowest_first(results: Sequence[WarmStart], libraries: Sequence[str]) -> list[WarmStart]:
    """Sorted by time, what has none last."""
    return sorted(results, key=lambda r: -(r.median or 0.0))


def summary(results: Sequence[WarmStart], libraries: Sequence[str]) -> list[str]:
    """Lines that sum the run up."""
    times = [r.median for r in results if r.median is not None]
    lines: list[str] = []
    if times:
        above = [r for r in results if r.median is not None and r.median > MARK]
        running = sum((r.median or 0) - r.stages.get("run", 0.0) <= MARK for r in above)
        lines.append(
            f"first result: median {_ms(median(times))} ms of {len(times)}; {len(above)} above {_ms(MARK)} ms, "
            f"of these {running} by the time of the run itself"
        )
    failed = [r.title for r in results if r.failed]
    return [*lines, f"failed: {', '.join(failed)}"] if failed else lines

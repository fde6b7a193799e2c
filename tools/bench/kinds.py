"""The kinds of measurement: how each one measures, and how its results are shown and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import memory, report, roofline, warm_start
from .measure import Effort, measure_all
from .workload import Entry, Workload

Progress = Callable[[Any], None]


@dataclass(frozen=True)
class Kind:
    """One kind of measurement.

    Attributes:
        name: in stored results and in messages.
        section: of the page that `--markdown` names.
        figures: whether it measures figures too, or workloads only.
        libraries: which of the libraries asked for take part.
        measure: takes the entries, the libraries, the seconds for each, and is told each result.
        ranked: the results in the order of the page; `columns`, `row`, `page_row` and `summary` are texts of results.
    """

    name: str
    section: str
    figures: bool
    libraries: Callable[[Sequence[str]], list[str]]
    measure: Callable[[Sequence[Any], Sequence[str], float, Progress], Sequence[Any]]
    ranked: Callable[[Sequence[Any], Sequence[str]], Sequence[Any]]
    columns: Callable[[Sequence[str]], list[str]]
    row: Callable[[Any, Sequence[str]], list[str]]
    page_row: Callable[[Any, Sequence[str]], list[str]]
    summary: Callable[[Sequence[Any], Sequence[str]], list[str]]
    from_json: Callable[[Mapping[str, Any]], Any]

    def entries(self, chosen: Sequence[Entry]) -> list[Entry]:
        """Those of the chosen entries that can be measured.

        Raises:
            ValueError: none can.
        """
        found = [e for e in chosen if self.figures or isinstance(e, Workload)]
        if not found:
            raise ValueError(
                f"--{self.name.replace(' ', '-')} measures workloads, and the names select figures only, which have "
                "processes of their own already (see --list)"
            )
        return found


TIME = Kind(
    "time", report.SECTION, True, list,
    lambda run, libraries, seconds, progress: measure_all(run, libraries, Effort(seconds), progress),
    lambda results, libraries: report.slowest_first(results), report.columns, report.row, report.row_with_remark,
    report.summary, report.from_json,
)  # fmt: skip
MEMORY = Kind(
    "memory", memory.SECTION, False, list,
    lambda run, libraries, seconds, progress: memory.measure_all(run, libraries, progress),
    memory.largest_first, memory.columns, memory.row, memory.row, memory.summary, memory.from_json,
)  # fmt: skip
WARM_START = Kind(
    "warm start", warm_start.SECTION, False, lambda libraries: ["quire"],
    lambda run, libraries, seconds, progress: warm_start.measure_all(run, libraries, progress),
    warm_start.slowest_first, warm_start.columns, warm_start.row, warm_start.row, warm_start.summary,
    warm_start.from_json,
)  # fmt: skip
ROOFLINE = Kind(
    "roofline", roofline.SECTION, False, lambda libraries: ["quire"],
    lambda run, libraries, seconds, progress: roofline.measure_all(run, Effort(seconds), progress),
    roofline.farthest_first, roofline.columns, roofline.row, roofline.row, roofline.summary, roofline.from_json,
)  # fmt: skip

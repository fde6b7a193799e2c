"""The command line of the bench."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from . import report
from .measure import Effort, Result, measure_all
from .workload import Entry, entries

EXAMPLES = """examples:
  python -m quire.tools.bench --list
  python -m quire.tools.bench call startup                 the workloads of two groups
  python -m quire.tools.bench 'matmul/*' --against jax,numpy
  python -m quire.tools.bench --json run.json --plot run.png --markdown docs/performance.md

Exit code: 0, or 1 when a workload failed or gave other results than the other library, 2 for a wrong command line.
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m quire.tools.bench", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure quire beside other libraries in one process, interleaved; results are checked to be equal.",
    )  # fmt: skip
    p.add_argument("names", nargs="*", help="groups, or group/name with wildcards; all when none is given")
    p.add_argument("--against", default="jax", metavar="LIST", help="other libraries: jax, numpy, or none (default: jax)")
    p.add_argument("--list", action="store_true", help="list the workloads and end")
    p.add_argument("--seconds", type=float, default=0.6, help="time for each workload and library (default: %(default)s)")
    p.add_argument(
        "--load", type=Path, action="append", default=[], metavar="FILE",
        help="take the results of earlier runs (--json) instead of measuring; may be repeated",
    )  # fmt: skip
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    p.add_argument("--plot", type=Path, metavar="FILE", help="write a picture of the ratios (needs matplotlib)")
    p.add_argument("--markdown", type=Path, metavar="FILE", help="replace the generated section of a page with the table")
    return p


def chosen(names: Sequence[str], all_entries: Sequence[Entry]) -> list[Entry]:
    """The workloads that the names select, in their own order.

    Raises:
        ValueError: a name selects nothing.
    """
    if not names:
        return list(all_entries)
    selected: set[str] = set()
    for name in names:
        found = [e.title for e in all_entries if e.group == name or fnmatch.fnmatchcase(e.title, name)]
        if not found:
            groups = ", ".join(dict.fromkeys(e.group for e in all_entries))
            raise ValueError(f"no workload is named {name!r}; the groups are {groups} (see --list)")
        selected.update(found)
    return [e for e in all_entries if e.title in selected]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; returns the exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    options = parser().parse_args(argv)
    try:
        run = chosen(options.names, list(entries()))
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.list:
        for entry in run:
            print(f"{entry.title}  ({', '.join(entry.libraries)})")
        return 0
    against = [n.strip() for n in options.against.split(",") if n.strip() not in ("", "none")]
    unknown = set(against) - {"jax", "numpy"}
    if unknown:
        print(f"bench: --against {options.against}: expected jax and numpy, got {sorted(unknown)}", file=sys.stderr)
        return 2
    libraries = ["quire", *against]
    if options.load:
        results = [r for path in options.load for r in report.read_json(path)]
        titles = {e.title for e in run}
        results = [r for r in results if r.title in titles]
        print("\n".join(report.plain([report.columns(libraries), *(report.row(r, libraries) for r in results)])))
    else:
        results = _measure(run, libraries, options)
    print("\n".join(report.summary(results, libraries)))
    if options.markdown:
        report.write_markdown(options.markdown, results, libraries)
    if options.plot:
        report.plot(options.plot, results, against)
    return 1 if any(r.failed for r in results) else 0


def _measure(run: Sequence[Entry], libraries: Sequence[str], options: argparse.Namespace) -> list[Result]:
    """Measure, print each result as it is found, and keep the JSON file up to date for a run that is interrupted."""
    show = _printer(run, libraries)
    found: list[Result] = []

    def progress(result: Result) -> None:
        show(result)
        found.append(result)
        if options.json:
            report.write_json(options.json, found)

    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        # A cache folder of its own: the first compile of each workload is a cold one.
        os.environ["QUIRE_CACHE_DIR"] = folder
        return measure_all(run, libraries, Effort(options.seconds), progress)


def _printer(run: Sequence[Entry], libraries: Sequence[str]) -> Callable[[Result], None]:
    """Prints each line as soon as it is known, in columns of fixed width."""
    title = max(len(e.title) for e in run)

    def line(cells: Sequence[str]) -> str:
        return "  ".join([cells[0].ljust(title), *(c.rjust(9) for c in cells[1:-1]), cells[-1]]).rstrip()

    print(line(report.columns(libraries)))

    def show(result: Result) -> None:
        print(line(report.row(result, libraries)), flush=True)

    return show

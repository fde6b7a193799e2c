"""The command line of the bench."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import report, several
from .kinds import MEMORY, ROOFLINE, TIME, WARM_START, Kind
from .sections import table
from .workload import Entry, Workload, entries

EXAMPLES = """examples:
  python -m quire.tools.bench --list
  python -m quire.tools.bench call startup                 the workloads of two groups
  python -m quire.tools.bench 'matmul/*' --against jax,numpy
  python -m quire.tools.bench --memory matmul              peak memory, each library in a process of its own
  python -m quire.tools.bench --warm-start call            first results of cached programs, in new processes
  python -m quire.tools.bench --roofline elementwise       time over the least that bytes and operations take
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
    p.add_argument(
        "--against", default="jax", metavar="LIST", help="other libraries: jax, numpy, or none (default: jax)"
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument(
        "--memory", dest="kind", action="store_const", const=MEMORY, default=TIME,
        help="measure peak resident memory instead of time",
    )  # fmt: skip
    what.add_argument(
        "--warm-start", dest="kind", action="store_const", const=WARM_START,
        help="measure quire's first results of programs that are in the persistent cache",
    )  # fmt: skip
    what.add_argument(
        "--roofline", dest="kind", action="store_const", const=ROOFLINE,
        help="measure quire beside what this machine's memory and arithmetic take at the least",
    )  # fmt: skip
    p.add_argument("--list", action="store_true", help="list the workloads and end")
    p.add_argument(
        "--seconds", type=float, default=0.6, help="time for each workload and library (default: %(default)s)"
    )
    p.add_argument(
        "--load", type=Path, action="append", default=[], metavar="FILE",
        help="take the results of earlier runs (--json) instead of measuring; may be repeated",
    )  # fmt: skip
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    p.add_argument("--plot", type=Path, metavar="FILE", help="write a picture of the ratios (needs matplotlib)")
    p.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="replace the generated section of a page with the table; each kind of measurement has its own",
    )
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
        return _run(options)
    except UsageError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


class UsageError(ValueError):
    """The command line asks for what there is not."""


def _run(options: argparse.Namespace) -> int:
    kind: Kind = options.kind
    try:
        run = kind.entries(chosen(options.names, list(entries())))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.list:
        for entry in run:
            print(f"{entry.title}  ({', '.join(entry.libraries)})")
        return 0
    if options.plot and kind is not TIME:
        raise UsageError(f"--plot shows times, not {kind.name}")
    against = [n.strip() for n in options.against.split(",") if n.strip() not in ("", "none")]
    unknown = set(against) - {"jax", "numpy"}
    if unknown:
        raise UsageError(f"--against {options.against}: expected jax and numpy, got {sorted(unknown)}")
    libraries = kind.libraries(["quire", *against])
    if options.load:
        results = _load(run, libraries, options)
    else:
        results = _measure(run, libraries, options)
    lines = kind.summary(results, libraries)
    print("\n".join(lines))
    if options.markdown:
        rows = [kind.page_row(r, libraries) for r in kind.ranked(results, libraries)]
        report.write_markdown(options.markdown, kind.section, lines, table(kind.columns(libraries), rows))
    if options.plot:
        report.plot(options.plot, results, against)
    return 1 if any(r.failed for r in results) else 0


def _load(run: Sequence[Entry], libraries: Sequence[str], options: argparse.Namespace) -> Sequence[Any]:
    """Earlier results of the chosen entries; what was measured twice, as it was found last."""
    kind: Kind = options.kind
    titles = {e.title for e in run}
    try:
        stored = [kind.from_json(r) for path in options.load for r in report.read_json(path, kind.name)]
    except (OSError, ValueError) as error:
        raise UsageError(f"--load: {error}") from None
    results = list({r.title: r for r in stored if r.title in titles}.values())
    print("\n".join(report.plain([kind.columns(libraries), *(kind.row(r, libraries) for r in results)])))
    return results


def _measure(run: Sequence[Entry], libraries: Sequence[str], options: argparse.Namespace) -> Sequence[Any]:
    """Measure, print each result as it is found, and keep the JSON file up to date for a run that is interrupted."""
    kind: Kind = options.kind
    show = _printer(run, libraries, kind)
    found: list[Any] = []

    def progress(result: Any) -> None:
        show(result)
        found.append(result)
        if options.json:
            report.write_json(options.json, found, kind.name)

    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        # A cache folder of its own: the first compile of each workload is a cold one.
        os.environ["QUIRE_CACHE_DIR"] = folder
        here = [e for e in run if _devices(e) == 1 or several.are_here(_devices(e))]
        kind.measure(here, libraries, options.seconds, progress) if here else None
        for devices in sorted({_devices(e) for e in run if e not in here}):
            titles = [e.title for e in run if _devices(e) == devices]
            for data in several.measured(devices, titles, kind.name, libraries, options.seconds):
                progress(kind.from_json(data))
        return found


def _devices(entry: Entry) -> int:
    return entry.devices if isinstance(entry, Workload) else 1


def _printer(run: Sequence[Entry], libraries: Sequence[str], kind: Kind) -> Callable[[Any], None]:
    """Prints each line as soon as it is known, in columns of fixed width."""
    title = max(len(e.title) for e in run)
    widths = [max(9, len(head)) for head in kind.columns(libraries)]

    def line(cells: Sequence[str]) -> str:
        middle = [c.rjust(w) for c, w in zip(cells[1:-1], widths[1:-1])]
        return "  ".join([cells[0].ljust(title), *middle, cells[-1]]).rstrip()

    print(line(kind.columns(libraries)))

    def show(result: Any) -> None:
        print(line(kind.row(result, libraries)), flush=True)

    return show

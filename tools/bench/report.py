"""Results as text, Markdown, JSON and a picture."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .measure import Measured, Result
from .remarks import remark
from .sections import replace_section


def duration(seconds: float | None) -> str:
    """A time with three digits and its unit."""
    if seconds is None:
        return ""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def columns(libraries: Sequence[str]) -> list[str]:
    """The headings of the table."""
    others = [n for n in libraries if n != "quire"]
    heads = ["workload", *libraries]
    for name in others:
        heads += [f"/{name}", "p10"]
    return [*heads, "cold", *[f"{n} cold" for n in others if n == "jax"], "cached", "notes"]


def row(result: Result, libraries: Sequence[str]) -> list[str]:
    """One line of the table."""
    measured = result.measured
    cells = [result.title, *(duration(measured[n].median) if n in measured else "" for n in libraries)]
    others = [n for n in libraries if n != "quire"]
    for name in others:
        against = "mark" if result.mark is not None and name == "jax" else name
        cells += [_ratio(result.ratio(against)), _ratio(result.ratio_p10(against))]
    own, jax = measured.get("quire"), measured.get("jax")
    cells.append(duration(own.cold) if own else "")
    if "jax" in others:
        cells.append(duration(jax.cold) if jax else "")
    cells.append(duration(own.cached) if own else "")
    notes = list(result.notes)
    if result.mark is not None:
        notes.append(f"ratio to the mark of {duration(result.mark)}")
    if own and own.count is not None:
        notes.append(f"{own.count} equations" + (f", JAX {jax.count}" if jax and jax.count is not None else ""))
    if result.skipped is not None:
        notes.append(f"skipped: {result.skipped}")
    if result.failed is not None:
        notes.append(f"FAILED: {result.failed}")
    return [*cells, "; ".join(notes)]


def plain(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as text with aligned columns."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) if i in (0, len(r) - 1) else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip()
            for r in rows]  # fmt: skip


def slowest_first(results: Sequence[Result], against: str = "jax") -> list[Result]:
    """Sorted by ratio, what has none last."""

    def order(r: Result) -> float:
        ratio = r.ratio("mark") if r.mark is not None else r.ratio(against)
        return -ratio if ratio is not None else math.inf

    return sorted(results, key=order)


def geometric_mean(results: Sequence[Result], against: str) -> float | None:
    """Of the ratios of medians."""
    ratios = [r for x in results if x.mark is None and (r := x.ratio(against)) is not None and r > 0]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(results: Sequence[Result], libraries: Sequence[str]) -> list[str]:
    """Lines that sum the run up."""
    lines: list[str] = []
    for name in libraries:
        mean = geometric_mean(results, name) if name != "quire" else None
        if mean is not None:
            ratios = [r for x in results if (r := x.ratio(name)) is not None]
            above = sum(r > 1.0 for r in ratios)
            lines.append(f"against {name}: geometric mean {mean:.2f} of {len(ratios)}; {above} above 1.0")
    failed = [r.title for r in results if r.failed]
    if failed:
        lines.append(f"failed: {', '.join(failed)}")
    return lines


def machine() -> str:
    """The processor and the number of cores, for the report."""
    import os

    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


class Storable(Protocol):
    """A result of any kind of measurement."""

    def to_json(self) -> dict[str, Any]: ...


def write_json(path: Path, results: Sequence[Storable], kind: str) -> None:
    """The results with what was measured, the machine and the versions."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for package in ("quire", "jax", "numpy", "iree-base-compiler"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    document = {"kind": kind, "machine": machine(), "versions": versions, "results": [r.to_json() for r in results]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path, kind: str) -> list[dict[str, Any]]:
    """The results of an earlier run, as they were stored.

    Raises:
        ValueError: something else was measured.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    found = document.get("kind", "time")
    if found != kind:
        raise ValueError(f"{path} holds measurements of {found}, not of {kind}")
    return document["results"]


def from_json(data: Mapping[str, Any]) -> Result:
    """The result that `to_json` gave."""
    kept = {k: v for k, v in data.items() if k != "ratios"}
    return Result(**{**kept, "measured": {name: Measured(**m) for name, m in data["measured"].items()}})


SECTION = "bench"


def row_with_remark(result: Result, libraries: Sequence[str]) -> list[str]:
    """One line of the page's table: where quire is slower, with the reason."""
    cells = row(result, libraries)
    ratio = result.ratio("mark") if result.mark is not None else result.ratio("jax")
    if ratio is not None and ratio > 1.0:
        cells[-1] = "; ".join(filter(None, (cells[-1], remark(result.title))))
    return cells


def write_markdown(path: Path, name: str, lines: Sequence[str], rows: Sequence[str]) -> None:
    """Replace a generated section of a page with the machine, the lines that sum a run up, and its table.

    Raises:
        ValueError: the page has no such section.
    """
    replace_section(path, name, [f"Machine: {machine()}.", "", *(f"- {line}" for line in lines), "", *rows])


def plot(path: Path, results: Sequence[Result], against: Sequence[str]) -> None:
    """A picture of the ratios, the slowest on top.

    Raises:
        ImportError: matplotlib (the extra "report") is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'quire[report]'") from error
    shown = [r for r in slowest_first(results, against[0]) if any(r.ratio(n) is not None for n in against)][::-1]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.24 * len(shown)), layout="constrained")
    for name, marker in zip(against, "osD^"):
        points = [(ratio, i) for i, r in enumerate(shown) if (ratio := r.ratio(name)) is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], marker, label=f"quire / {name}")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [r.title for r in shown], fontsize=8)
    axes.set_xlabel("time of quire over time of the other (left of 1: quire is faster)")
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)

"""The roofline: each program's time beside what this machine needs for its bytes and its operations at the least.

After S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", 2009. The bytes are those of arguments and results, each read or written once; the operations are those of the
cost estimate, in which a function of an element counts with its weight. The bandwidth is STREAM's (J. McCalpin: a sum of two
arrays into a third, the bytes of all three) as NumPy and threads reach it for so many bytes, since what fits into a cache is
not read from memory; the peak of operations is that of NumPy's product of two float32 matrices.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .measure import BLOCK_SECONDS, Block, Effort
from .report import duration
from .workload import Library, Unavailable, Work, Workload

SECTION = "bench roofline"
#: Footprints whose bandwidth is measured, in bytes: from a processor's first cache to memory.
FOOTPRINTS = tuple(3 << k for k in range(13, 29, 3))
#: Programs whose least time is below this are calls more than they are work.
WORK_SECONDS = 20e-6
MEMORY_MARK, PRODUCT_MARK = 1.3, 1.2
"""Times over the least one that are aimed at: where memory is the limit, and in matrix products."""


@dataclass(frozen=True)
class Limits:
    """What the machine reaches: bytes a second by footprint in bytes, and operations a second."""

    bandwidths: tuple[tuple[int, float], ...]
    operations: float

    def bandwidth(self, footprint: int) -> float:
        """Bytes a second of arrays that take so many bytes together: as of the next larger footprint that was measured."""
        return next((speed for size, speed in self.bandwidths if size >= footprint), self.bandwidths[-1][1])

    def least(self, work: Work) -> tuple[float, str]:
        """The least seconds, and by what: ``memory`` or ``operations``."""
        by_memory = work.bytes / self.bandwidth(work.bytes)
        by_operations = work.operations / self.operations
        return (by_memory, "memory") if by_memory >= by_operations else (by_operations, "operations")


@dataclass
class Roofline:
    """A program's seconds beside its least; `skipped` or `failed` says why there are none."""

    title: str
    seconds: float | None = None
    least: float | None = None
    by: str = ""
    operations: float = 0.0
    bytes: int = 0
    limits: str = ""
    skipped: str | None = None
    failed: str | None = None
    notes: list[str] = field(default_factory=list[str])

    @property
    def ratio(self) -> float | None:
        """The time over the least one."""
        return None if self.seconds is None or not self.least else self.seconds / self.least

    @property
    def is_work(self) -> bool:
        """Whether a call of it is worth more than the call itself."""
        return self.least is not None and self.least >= WORK_SECONDS

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return asdict(self)


def from_json(data: Mapping[str, Any]) -> Roofline:
    """The result that `to_json` gave."""
    return Roofline(**data)


def limits() -> Limits:
    """Measure the machine."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        found = tuple((n, max(_stream(pool, n, k) for k in {1, threads})) for n in FOOTPRINTS)
    a = np.ones((1024, 1024), np.float32)
    return Limits(found, 2 * 1024**3 / _best(lambda: a @ a))


def _best(call: Callable[[], Any], seconds: float = 0.3) -> float:
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _stream(pool: ThreadPoolExecutor, footprint: int, threads: int) -> float:
    """Bytes a second of `c = a + b`, each thread over its part of the arrays again and again."""
    n = footprint // (3 * 4 * threads)
    parts = [tuple(np.ones(n, np.float32) for _ in range(3)) for _ in range(threads)]
    turns = max(1, int(BLOCK_SECONDS * 5e9 / footprint))

    def add(part: tuple[Any, ...]) -> None:
        a, b, c = part
        for _ in range(turns):
            np.add(a, b, out=c)

    return 12 * n * threads * turns / _best(lambda: list(pool.map(add, parts)))


def measure(entry: Workload, machine: Limits, effort: Effort) -> Roofline:
    """Measure one program of quire's."""
    result = Roofline(entry.title)
    try:
        timed = entry.build(Library("quire"))
        if timed.work is None:
            raise Unavailable("not one compiled program")
        work = timed.work()
        block = Block(Library("quire"), timed)
        block.warm_up()
        count = max(effort.least, min(effort.most, math.ceil(effort.seconds / max(block.seconds, 1e-9))))
        result.seconds = float(np.percentile([block.run() for _ in range(count)], 10))
        result.least, result.by = machine.least(work)
        result.operations, result.bytes = work.operations, work.bytes
        result.limits = described(machine)
    except (Unavailable, NotImplementedError) as error:
        result.skipped = str(error)
    except Exception as error:  # one workload that fails must not end a run of many
        result.failed = f"{type(error).__name__}: {error}"[:300]
    return result


def measure_all(entries: Sequence[Workload], effort: Effort, progress: Callable[[Roofline], None]) -> list[Roofline]:
    """Measure the machine, then the programs one after another, telling each result as it is found."""
    machine = limits()
    results: list[Roofline] = []
    for entry in entries:
        result = measure(entry, machine, effort)
        progress(result)
        results.append(result)
    return results


def described(machine: Limits) -> str:
    """The limits in words."""
    speeds = ", ".join(f"{speed / 1e9:.0f} ({_bytes(n)})" for n, speed in machine.bandwidths)
    return (
        f"GB/s of c = a + b by the bytes of all three: {speeds}; a @ a of 1024: {machine.operations / 1e9:.0f} GFLOP/s"
    )


def _bytes(n: float) -> str:
    return next(
        f"{n / s:.3g} {unit}" for s, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B")) if n >= s or s == 1
    )


def columns(libraries: Sequence[str]) -> list[str]:
    """The headings of the table."""
    return ["workload", "time", "least", "ratio", "operations", "bytes", "limit"]


def row(result: Roofline, libraries: Sequence[str]) -> list[str]:
    """One line of the table."""
    why = result.by if result.ratio is not None else ""
    if result.skipped is not None:
        why = f"skipped: {result.skipped}"
    if result.failed is not None:
        why = f"FAILED: {result.failed}"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    numbers = ["", ""] if result.ratio is None else [f"{result.operations:.2g}", _bytes(result.bytes)]
    return [result.title, duration(result.seconds), duration(result.least), ratio, *numbers, why]


def farthest_first(results: Sequence[Roofline], libraries: Sequence[str]) -> list[Roofline]:
    """Those that are work, sorted by ratio, and then the others."""
    return sorted((r for r in results if r.ratio is not None), key=lambda r: (not r.is_work, -(r.ratio or 0)))


def summary(results: Sequence[Roofline], libraries: Sequence[str]) -> list[str]:
    """Lines that sum the run up."""
    lines = list(dict.fromkeys(r.limits for r in results if r.limits))
    works = [r for r in results if r.is_work and r.ratio is not None]
    for by, chosen, mark in (
        ("memory", [r for r in works if r.by == "memory"], MEMORY_MARK),
        (
            "operations, matrix products",
            [r for r in works if r.by == "operations" and "matmul" in r.title],
            PRODUCT_MARK,
        ),
        ("operations, others", [r for r in works if r.by == "operations" and "matmul" not in r.title], math.inf),
    ):
        ratios = [r.ratio for r in chosen if r.ratio is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            within = f"; {sum(x <= mark for x in ratios)} within {mark}" if mark < math.inf else ""
            lines.append(
                f"limited by {by}: {len(ratios)} of at least {duration(WORK_SECONDS)}, geometric mean {mean:.2f}{within}"
            )
    failed = [r.title for r in results if r.failed]
    return [*lines, f"failed: {', '.join(failed)}"] if failed else lines

"""Interleaved measuring: the libraries take turns in short blocks, so that a busy machine slows all of them alike."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .workload import Entry, Figure, Library, Timed, Unavailable, Workload

BLOCK_SECONDS = 0.02
"""A block of calls takes about so long, or one call."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: seconds for each library, and the bounds on the number of blocks."""

    seconds: float = 0.6
    least: int = 5
    most: int = 60


@dataclass
class Measured:
    """What was found for one library: seconds for a call, and beside it."""

    median: float
    p10: float
    blocks: int
    cold: float | None = None
    cached: float | None = None
    count: int | None = None


@dataclass
class Result:
    """A workload's results by library; `skipped` or `failed` says why there are none."""

    title: str
    measured: dict[str, Measured] = field(default_factory=dict[str, Measured])
    mark: float | None = None
    skipped: str | None = None
    failed: str | None = None
    notes: list[str] = field(default_factory=list[str])

    def ratio(self, against: str) -> float | None:
        """The first library's median over another's."""
        return self._over(against, "median")

    def ratio_p10(self, against: str) -> float | None:
        """The same of the 10th percentiles: what is left when the machine is quiet."""
        return self._over(against, "p10")

    def ratio_count(self, against: str) -> float | None:
        """The same of the counts."""
        return self._over(against, "count")

    def _over(self, against: str, what: str) -> float | None:
        if against == "mark":
            one, other = self.measured.get("quire"), self.mark
            return one.median / other if one and other and what == "median" else None
        one, other = (getattr(self.measured.get(name), what, None) for name in ("quire", against))
        return one / other if one is not None and other else None

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return asdict(self) | {
            "ratios": {n: r for n in [*self.measured, "mark"] if n != "quire" and (r := self.ratio(n)) is not None}
        }


def measure(entry: Entry, libraries: Sequence[str], effort: Effort) -> Result:
    """Measure one workload in those of the libraries that it is written for."""
    result = Result(entry.title, mark=entry.mark if isinstance(entry, Figure) else None)
    names = [n for n in libraries if n in entry.libraries]
    try:
        if isinstance(entry, Figure):
            _measure_figure(entry, names, effort, result)
        else:
            _measure_workload(entry, names, effort, result)
    except Unavailable as error:
        result.skipped = str(error)
    except NotEqual as error:
        result.failed = str(error)
    except Exception as error:  # one workload that fails must not end a run of many
        text = str(error).strip().splitlines()
        result.failed = f"{type(error).__name__}: {text[0][:300] if text else ''}"
    return result


class NotEqual(Exception):
    """Two libraries gave different results."""


def _measure_figure(entry: Figure, names: Sequence[str], effort: Effort, result: Result) -> None:
    samples: dict[str, list[float]] = {n: [] for n in names}
    for _ in range(entry.samples if effort.seconds >= 0.1 else 1):
        for name in names:
            samples[name].append(entry.measure(name))
    for name, values in samples.items():
        result.measured[name] = Measured(float(np.median(values)), float(np.percentile(values, 10)), len(values))


def _measure_workload(entry: Workload, names: Sequence[str], effort: Effort, result: Result) -> None:
    timed: dict[str, Timed] = {}
    compiles: dict[str, list[float]] = {}
    for name in names:
        try:
            timed[name] = entry.build(Library(name))
            compiles[name] = _compile_times(timed[name], 2 if name == "quire" else 1)
        except (Unavailable, AttributeError, NotImplementedError) as error:
            if name == "quire" or len(names) == 1:
                raise Unavailable(str(error).splitlines()[0][:300]) from error
            timed.pop(name, None)
            result.notes.append(f"{name}: {error}")
    libraries = {name: Library(name) for name in timed}
    _check_equal(entry, timed, libraries)
    blocks = {name: Block(libraries[name], t) for name, t in timed.items()}
    for block in blocks.values():
        block.warm_up()
    rounds = max(b.seconds for b in blocks.values())
    count = max(effort.least, min(effort.most, math.ceil(effort.seconds / max(rounds, 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    gc.collect()
    for i in range(count):
        order = list(blocks) if i % 2 == 0 else list(blocks)[::-1]
        for name in order:
            samples[name].append(blocks[name].run())
    for name, values in samples.items():
        count_of = timed[name].count
        first, again = (compiles[name] + [None, None])[:2]
        result.measured[name] = Measured(
            float(np.median(values)), float(np.percentile(values, 10)), len(values),
            first, again, count_of() if count_of is not None else None,
        )  # fmt: skip


def _compile_times(timed: Timed, times: int) -> list[float]:
    if timed.compile_anew is None:
        return []
    seconds: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        timed.compile_anew()
        seconds.append(time.perf_counter() - start)
    return seconds


class Block:
    """Some calls of one library, timed together."""

    def __init__(self, library: Library, timed: Timed) -> None:
        self._timed = timed
        self._wait = library.wait
        self.calls = 1
        self.seconds = 0.0

    def warm_up(self) -> None:
        """Call until the time is known, and choose how many calls make a block."""
        start = time.perf_counter()
        self.run()
        while time.perf_counter() - start < 2 * BLOCK_SECONDS:
            each = self.run()
            if each * self.calls < BLOCK_SECONDS / 2:
                self.calls = max(self.calls + 1, min(self.calls * 10, int(BLOCK_SECONDS / max(each, 1e-9))))
        self.seconds = self.run() * self.calls

    def run(self) -> float:
        """Seconds for a call, waiting included."""
        call, wait, n = self._timed.call, self._wait, range(self.calls)
        out: Any = None
        if self._timed.wait_each:
            start = time.perf_counter()
            for _ in n:
                wait(call())
        else:
            start = time.perf_counter()
            for _ in n:
                out = call()
            if self._timed.compare:
                wait(out)
        return (time.perf_counter() - start) / self.calls


def _check_equal(entry: Workload, timed: dict[str, Timed], libraries: dict[str, Library]) -> None:
    """Raise NotEqual when two libraries' results differ by more than the workload's tolerance."""
    results: dict[str, list[Any]] = {}
    for name, t in timed.items():
        if t.compare:
            results[name] = _leaves(libraries[name].wait((t.result or t.call)()))
    if len(results) < 2:
        return
    (first, expected), *others = [(n, r) for n, r in results.items() if n != "quire"] + [
        (n, r) for n, r in results.items() if n == "quire"
    ]
    for name, got in others:
        if len(got) != len(expected):
            raise NotEqual(f"{name} gives {len(got)} arrays, {first} {len(expected)}")
        for i, (a, b) in enumerate(zip(got, expected)):
            x, y = np.asarray(a), np.asarray(b)
            if x.shape != y.shape:
                raise NotEqual(f"result {i}: {name} gives shape {x.shape}, {first} {y.shape}")
            wide = np.result_type(x.dtype, y.dtype, np.float32) if x.dtype.kind != "c" else np.dtype(np.complex64)
            scale = max(float(np.max(np.abs(y.astype(wide)), initial=0.0)), 1e-30)
            if not np.allclose(x.astype(wide), y.astype(wide), rtol=entry.tolerance, atol=entry.tolerance * scale):
                worst = float(np.nanmax(np.abs(x.astype(wide) - y.astype(wide))))
                raise NotEqual(f"result {i}: {name} and {first} differ by {worst:.3g} (values to {scale:.3g})")


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in _leaves(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [] if tree is None else [tree]


Progress = Callable[[Result], None]


def measure_all(entries: Sequence[Entry], libraries: Sequence[str], effort: Effort, progress: Progress) -> list[Result]:
    """Measure the workloads one after another, telling each result as it is found."""
    results: list[Result] = []
    for entry in entries:
        result = measure(entry, libraries, effort)
        progress(result)
        results.append(result)
    return results

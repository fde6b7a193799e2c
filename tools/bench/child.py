"""What the processes that are measured run: one workload in one library, from its import on.

The bench's package is imported here by its folder, not as `quire.tools.bench`: a process of another library must not
import quire.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from .resident import children, forget_peak, resident
from .workload import Library, Timed, Unavailable, Workload, entries

CALLS = 3
"""So many calls are made for the peak: with a pool that forgets or keeps memory it may grow after the first."""

SETTLE = 0.2
"""Seconds after which a library with threads of its own has given back what the arguments were made from."""


def _waits(library: Library, timed: Timed, call: Callable[[], Any]) -> Callable[[], Any]:
    return (lambda: library.wait(call())) if timed.compare else call


def memory(library: Library, entry: Workload) -> dict[str, Any]:
    """Bytes: of the whole process, of its calls beyond what was there before them, of the compiler's processes."""
    timed = entry.build(library)
    ahead = timed.ahead() if timed.ahead is not None else None
    call = _waits(library, timed, ahead or timed.call)
    if ahead is None and library.name != "numpy":
        call()
    before = resident().peak
    time.sleep(SETTLE)
    forget_peak()
    start = resident().now
    for _ in range(CALLS):
        call()
    peak = resident().peak
    compiler = sum(resident(child).peak for child in children())
    return {"beyond": max(0, peak - start), "total": max(before, peak), "compiler": compiler}


def warm_start(library: Library, entry: Workload) -> dict[str, Any]:
    """Seconds from the made arguments to the first result, and those of each stage."""
    if library.name != "quire":
        raise ValueError(f"the warm start is measured for quire, not for {library.name}")
    timed = entry.build(library)
    from quire.watching.spans import Active, Recorder  # noqa: PLC0415  (other libraries' processes must not import quire)

    call = _waits(library, timed, timed.call)
    recorder = Active.recorder = Recorder()
    used, start = time.process_time(), time.perf_counter()
    call()
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    Active.recorder = None
    if "jax" in sys.modules:
        raise RuntimeError("jax was imported in a process that measures quire")
    stages = outermost(recorder.events)
    if "compile" in stages:
        raise RuntimeError("the program was not in the cache")
    return {"seconds": seconds, "cpu": cpu, "stages": stages}


def outermost(events: list[tuple[str, str, int, int, int, dict[str, Any]]]) -> dict[str, float]:
    """Seconds by category of the spans that lie in no other one."""
    stages: dict[str, float] = {}
    end = 0
    for _, category, _, start, duration, _ in sorted(events, key=lambda e: (e[3], -e[4])):
        if start >= end:
            stages[category] = stages.get(category, 0.0) + duration * 1e-9
            end = start + duration
    return stages


def fill(library: Library, entry: Workload) -> dict[str, Any]:
    """Call the workload once, so that its program is in the cache."""
    timed = entry.build(library)
    _waits(library, timed, timed.call)()
    return {}


KINDS: Mapping[str, Callable[[Library, Workload], dict[str, Any]]] = {
    "memory": memory, "fill": fill, "warm-start": warm_start,
}  # fmt: skip


def main(kind: str, library: str, *titles: str) -> None:
    """Measure workloads, and print what was found as a line of JSON for each.

    Of several workloads one that fails must not keep the others from being measured; that of one fails the process.
    """
    known = {e.title: e for e in entries()}
    for title in titles:
        entry = known[title]
        assert isinstance(entry, Workload)
        try:
            found = KINDS[kind](Library(library), entry)
        except (Unavailable, NotImplementedError) as error:
            found = {"unavailable": str(error)}
        except Exception as error:
            if len(titles) == 1:
                raise
            found = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)

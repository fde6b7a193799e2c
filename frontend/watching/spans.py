"""Times of stages and calls, for `quire.profiler`: `span` costs nothing to speak of while nothing is recorded."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NOTHING: AbstractContextManager[None] = nullcontext()


class Recorder:
    """Collects events: ``(name, category, thread, start and duration in ns, arguments)``."""

    def __init__(self) -> None:
        self.started = time.perf_counter_ns()
        self.events: list[tuple[str, str, int, int, int, dict[str, Any]]] = []  # append is atomic

    def add(self, name: str, category: str, start: int, end: int, args: dict[str, Any]) -> None:
        """Record one event, in the thread that calls."""
        self.events.append((name, category, threading.get_ident(), start, end - start, args))


class _Span:
    __slots__ = ("_args", "_category", "_name", "_recorder", "_start")

    def __init__(self, recorder: Recorder, name: str, category: str, args: dict[str, Any]) -> None:
        self._recorder = recorder
        self._name = name
        self._category = category
        self._args = args

    def __enter__(self) -> None:
        self._start = time.perf_counter_ns()

    def __exit__(self, *exc: object) -> None:
        self._recorder.add(self._name, self._category, self._start, time.perf_counter_ns(), self._args)


class Active:
    """The recorder of the process, while there is one."""

    recorder: Recorder | None = None


def span(name: str, category: str, **args: Any) -> AbstractContextManager[None]:
    """A context manager that records the time of its block, if anything is recorded."""
    recorder = Active.recorder
    return _NOTHING if recorder is None else _Span(recorder, name, category, args)

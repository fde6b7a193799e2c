"""Reports of the compile path: who listens is given the stages of each function that is compiled.

`QUIRE_DUMP_TO=DIR` writes them to files; ``dumpir`` listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from quire.ir.config import config
from quire.ir.source import Source

from .stage_files import StageTexts, dump_stages

StageSink = Callable[[Any], None]
_sinks: list[StageSink] = []


@contextmanager
def stage_sink(sink: StageSink) -> Iterator[None]:
    """For the block, in every thread, call `sink` with the stages of each function that is compiled."""
    _sinks.append(sink)
    try:
        yield
    finally:
        _sinks.remove(sink)


@dataclass(frozen=True)
class Traced:
    """A call that no variant of its function was for, so that the function is traced.

    Attributes:
        name: the function's.
        defined: `` (model.py:12)``, where it is defined; empty where that is not known.
        function: its identity: another one for a function that is made anew.
        signature: what it is compiled for, as text.
        reason: what differs from the nearest variant.
        source: the line of the call.
    """

    name: str
    defined: str
    function: Any
    signature: str
    reason: str
    source: Source | None


_trace_sinks: list[Callable[[Traced], None]] = []


@contextmanager
def trace_sink(sink: Callable[[Traced], None]) -> Iterator[None]:
    """For the block, in every thread, call `sink` for each call of a compiled function that has to trace it."""
    _trace_sinks.append(sink)
    try:
        yield
    finally:
        _trace_sinks.remove(sink)


def traced_anew(make: Callable[[], Traced]) -> None:
    """Tell the listeners, if there are any, of a call that traces its function."""
    if _trace_sinks:
        found = make()
        for sink in list(_trace_sinks):
            sink(found)


def wants_reports() -> bool:
    """Whether anyone listens: a sink, or `config.dump_to`."""
    return bool(_sinks) or config.options.dump_to is not None


def report(stages: StageTexts) -> None:
    """Tell the listeners of a function that is being compiled."""
    for sink in list(_sinks):
        sink(stages)
    folder = config.options.dump_to
    if folder is not None:
        dump_stages(stages, folder)

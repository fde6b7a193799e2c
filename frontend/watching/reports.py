"""Reports of the compile path: who listens is given the stages of each function that is compiled.

`QUIRE_DUMP_TO=DIR` writes them to files; ``dumpir`` listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quire.ir.config import config

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

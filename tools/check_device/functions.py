"""One function of the table on one target: run and compared, or compiled only. `running` gives each a process of its own."""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Any, Literal

import numpy as np

import quire
from quire.backends import reference
from quire.compiling.building import build
from quire.compiling.lowering import lower
from quire.compiling.request import Request
from quire.ir.errors import UnsupportedError
from quire.tree_util import tree_leaves

from .surface import Entry, surface

Status = Literal["right", "compiled", "wrong", "refused", "error", "too slow"]

#: Calls after the first one, of which the median is told.
CALLS = 5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a function.

    Attributes:
        name: the function's.
        status: "right" or "wrong" beside the reference backend; "compiled" where nothing was run; "refused" where quire says
            by an UnsupportedError that the target cannot compute it; "error" for any other; "too slow" past the time limit.
        detail: how it differs, or the error's text.
        first, call: seconds of the first call (with compiling), and of a later one.
    """

    name: str
    status: Status
    detail: str = ""
    first: float = 0.0
    call: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the target does what it should, as far as could be seen."""
        return self.status in ("right", "compiled", "refused")


def outcome(name: str, target: str, *, compile_only: bool = False) -> Outcome:
    """Run the function of that name on the first device of `target` and compare, or compile it for it only."""
    entry = surface(quire)[name]
    try:
        with quire.config.override(enable_x64=entry.x64):
            return _compiled(entry, target) if compile_only else _compared(entry, target)
    except UnsupportedError as error:
        return Outcome(name, "refused", _text(error))
    except Exception as error:
        return Outcome(name, "error", f"{type(error).__name__}: {_text(error)}")


def expected(entry: Entry) -> list[np.ndarray[Any, Any]]:
    """The flat results by the reference backend. The caller has set `enable_x64` as the entry needs it."""
    arguments = entry.arguments()
    with quire.default_device(quire.devices("cpu")[0]):
        closed = quire.jit(entry.function).trace(*arguments).jaxpr
    return [np.asarray(x) for x in reference.eval_jaxpr(closed, *arguments)]


def _compiled(entry: Entry, target: str) -> Outcome:
    traced = quire.jit(entry.function).trace(*entry.arguments())
    start = time.perf_counter()
    build(lower(Request(traced.jaxpr, quire.backends.targets.get_target(target), entry.name.replace(" ", "_"))))
    return Outcome(entry.name, "compiled", first=time.perf_counter() - start)


def _compared(entry: Entry, target: str) -> Outcome:
    device = quire.devices(target)[0]
    arguments = [quire.device_put(x, device) for x in entry.arguments()]
    f = quire.compile(entry.function)

    def call() -> float:
        start = time.perf_counter()
        quire.block_until_ready(f(*arguments))
        return time.perf_counter() - start

    first = call()
    got = tree_leaves(f(*arguments))
    seconds = statistics.median(call() for _ in range(CALLS))
    difference = entry.difference(got, expected(entry))
    return Outcome(entry.name, "wrong" if difference else "right", difference, first, seconds)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:600]

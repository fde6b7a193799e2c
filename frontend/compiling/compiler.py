"""From a request to a loaded program: the persistent cache, and on a miss lowering and building.

The cache is keyed by the traced jaxpr, before any pass, so that a second process runs neither passes nor lowering: it
writes the jaxpr's identity, finds the file and loads it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from quire.backends.iree.service import compile_service
from quire.ir.errors import size_text
from quire.runtime.compile_cache import compile_cache
from quire.runtime.devices import Device

from ..watching.events import COMPILE, LOWER, record_step
from ..watching.reports import report, wants_reports
from ..watching.spans import span
from .building import Artifact, build
from .loading import Program, load_fitting
from .lowering import LoweredProgram, lower
from .memory_analysis import planned_allocations
from .request import Request
from .stage_texts import Stages


def compile_program(
    request: Request, device: Device, lowering: Callable[[], LoweredProgram] | None = None
) -> Program:  # fmt: skip
    """Compile a program for a device of the request's target, or load it from the persistent cache.

    `lowering` gives the lowered program where the cache does not have it; by default the request is lowered. Who listens for
    compiled functions is told (`watching.reports`).

    Raises:
        UnsupportedError: the target cannot do an operation or a dtype.
        CompileError: IREE failed; the message names a reproducer.
    """
    start = time.perf_counter()
    lowered: LoweredProgram | None = None

    def lower_once() -> LoweredProgram:
        nonlocal lowered
        if lowered is None:
            began = time.perf_counter()
            lowered = lower(request) if lowering is None else lowering()
            record_step(LOWER, time.perf_counter() - began, request.name)
        return lowered

    cache = compile_cache()
    with span(f"look up {request.name}", "look up"):
        key = request.key()
        stored = cache.get(key)
    if wants_reports():
        report(Stages(request))
    cached = stored is not None
    if stored is None:
        compile_service().warm_up()  # starts in the background during passes and lowering
        made = lower_once()
        stored = cache.get_or_compute(key, lambda: build(made).to_bytes())
    artifact = Artifact.from_bytes(stored)
    if artifact.needs_functions:
        lower_once()
    fitting, executable = load_fitting(artifact, device, request.name, lower_once, lowered)
    if fitting is not artifact:
        cache.put(key, fitting.to_bytes())
    executable.planned = functools.partial(_planned, request)
    seconds = time.perf_counter() - start
    record_step(COMPILE, seconds, request.name)
    return Program(request, fitting, executable, device, seconds, cached)


def _planned(request: Request) -> str:
    """What one call of a program takes of memory, in words; the program is compiled half-way once more to see it."""
    results = sum(a.nbytes for a in request.program.out_avals)
    try:
        text = Stages(request)["plan"]
        temporaries = size_text(planned_allocations(text, len(request.program.in_avals)).temporaries)
    except Exception:  # the error that is being reported is the one to raise
        temporaries = "an unknown number of bytes"
    return f"{size_text(results)} for its results and {temporaries} for intermediate values"


__all__ = ["compile_program"]

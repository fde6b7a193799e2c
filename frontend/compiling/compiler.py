"""From a closed jaxpr to a loaded program: passes, lowering, IREE, and the persistent cache around them.

The cache is keyed by the traced jaxpr, before any pass, so that a second process runs neither passes nor lowering: it
writes the jaxpr's identity, finds the file and loads it.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.backends.iree.service import CompileOutput, compile_service, retry_flags
from quire.backends.targets import Target
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.errors import size_text
from quire.ir.identity import identity
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.tracing import hooks
from quire.passes.arguments import without_unused_arguments
from quire.passes.cost import Cost, estimate, has_unknown_trips
from quire.runtime.compile_cache import cache_key, compile_cache
from quire.runtime.devices import Device, Mode
from quire.runtime.executable import Executable, ExecutionError, Length
from quire.runtime.interruption import LONG_SECONDS

from ..watching.progress import compile_progress
from ..watching.reports import report, wants_reports
from ..watching.spans import span
from ..watching.transformations import Transformation
from . import stage_texts

# A program that takes less than this is run in the caller's thread: waking a worker costs about as much.
SYNC_BELOW_SECONDS = 60e-6


@dataclass(frozen=True)
class Program:
    """A loaded program and what is known of it.

    Attributes:
        results: where each output comes from: ("result", k) of the module, ("argument", i) itself, or ("float0", 0).
        kept: the arguments that the module takes; the others are unused.
        seconds: what tracing's successor stages took: passes, lowering, compilation, loading.
        cached: whether it came from the persistent cache.
        cost: the estimated work of one call.
        flags: the options IREE compiled it with.
    """

    executable: Executable
    results: tuple[tuple[str, int], ...]
    out_avals: tuple[ShapedArray, ...]
    kept: tuple[int, ...]
    seconds: float
    cached: bool
    cost: Cost
    flags: tuple[str, ...]
    device: Device
    vmfb_bytes: int


def run_pipeline(closed: ClosedJaxpr, target: Target, donated: Sequence[int] = ()) -> ClosedJaxpr:
    """The target's default pipeline of passes."""
    from quire.passes.manager import PassManager, default_pipeline

    return PassManager(default_pipeline(target.name), target=target, donated=donated).run(closed)


def _load_reference(*what: Any) -> list[Any]:
    """Evaluate by the reference rules, which are loaded (and replace this hook) when a constant is first folded."""
    import quire.backends.reference  # noqa: F401

    assert hooks.reference is not None
    return hooks.reference(*what)


if hooks.reference is None:
    hooks.reference = _load_reference


def _key(closed: ClosedJaxpr, target: Target, donated: Sequence[int], keep_unused: bool) -> str:
    digest = hashlib.sha256()
    for c in closed.consts:
        array = np.asarray(c)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(
            np.ascontiguousarray(array).view(np.uint8).data if array.nbytes and array.shape else array.tobytes()
        )
    return cache_key(
        identity(closed.jaxpr), digest.digest(), target.fingerprint(), repr((tuple(donated), keep_unused)),
        repr(config.options.trace_key),
    )  # fmt: skip


def compile_program(
    closed: ClosedJaxpr,
    device: Device,
    *,
    name: str,
    donated: Sequence[int] = (),
    keep_unused: bool = False,
    trace_seconds: float | None = None,
    names: Sequence[str] = (),
    out_tree: Any = None,
    transformations: Sequence[Transformation] = (),
) -> Program:
    """Compile a closed jaxpr for a device, or load it from the persistent cache.

    `donated` are the arguments whose memory the program may use for its results; `trace_seconds`, the arguments' `names`,
    the results' tree and the trace's `transformations` are told to those who listen for compiled functions (`reports.report`).

    Raises:
        UnsupportedError: the target cannot do an operation or a dtype.
        CompileError: IREE failed; the message names a reproducer.
    """
    start = time.perf_counter()
    target = device.target
    cache = compile_cache()
    with span(f"look up {name}", "look up"):
        key = _key(closed, target, donated, keep_unused)
        payload = cache.get(key)
    if wants_reports():
        told = stage_texts.stages_of(
            closed, target, None, name, donated, keep_unused=keep_unused, transformations=transformations
        )
        if trace_seconds is not None:
            told.seconds[stage_texts.TRACE] = trace_seconds
        told.names, told.out_tree = tuple(names), out_tree
        report(told)
    cached = payload is not None
    lowered: Any = None
    if payload is None:
        compile_service().warm_up()  # starts in the background during passes and lowering
        lowered = _lower(closed, target, name, donated, keep_unused)
        payload = cache.get_or_compute(key, lambda: _compile(lowered, target, name))
    facts: dict[str, Any] = pickle.loads(payload)
    if lowered is None and any(call.function is None for call in facts["host_calls"]):
        # The module calls functions of the user's: they live in this process only, so lowering names them anew.
        lowered = _lower(closed, target, name, donated, keep_unused)
    try:
        with span(f"load {name}", "load", cached=cached, bytes=len(facts["vmfb"])):
            executable = _load(facts, device, lowered, name)
    except ExecutionError as error:
        # Some limits (32 buffers in a dispatch) show only now; the same module compiles to a form that loads.
        flags = retry_flags(str(error), facts["flags"])
        if flags is None:
            raise
        if lowered is None:
            lowered = _lower(closed, target, name, donated, keep_unused)
        payload = _compile(lowered, target, name, flags)
        cache.put(key, payload)
        facts = pickle.loads(payload)
        executable = _load(facts, device, lowered, name)
    executable.planned = functools.partial(_planned, closed, target, name, tuple(donated), keep_unused)
    return Program(
        executable, facts["results"], tuple(closed.out_avals), facts["kept"], time.perf_counter() - start, cached,
        Cost(*facts["cost"]), facts["flags"], device, len(facts["vmfb"]),
    )  # fmt: skip


def _planned(closed: ClosedJaxpr, target: Target, name: str, donated: tuple[int, ...], keep_unused: bool) -> str:
    """What one call of a program takes of memory, in words; the program is compiled half-way once more to see it."""
    from .memory_analysis import planned_allocations

    results = sum(a.nbytes for a in closed.out_avals)
    try:
        text = stage_texts.stages_of(closed, target, None, name, donated, keep_unused=keep_unused)["plan"]
        temporaries = size_text(planned_allocations(text, len(closed.in_avals)).temporaries)
    except Exception:  # the error that is being reported is the one to raise
        temporaries = "an unknown number of bytes"
    return f"{size_text(results)} for its results and {temporaries} for intermediate values"


def _load(facts: dict[str, Any], device: Device, lowered: LoweredProgram | None, name: str) -> Executable:
    """Load a compiled program; `lowered` is needed where it calls the user's functions."""
    cost = Cost(*facts["cost"])
    seconds = cost.seconds(device.target)
    parallel = device.is_host and seconds > SYNC_BELOW_SECONDS and not facts["serial"]
    length: Length = "long" if seconds > LONG_SECONDS else "unknown" if facts["unknown_trips"] else "short"
    mode: Mode = "task" if parallel else "sync"
    host_modules: list[Any] = []
    if facts["host_calls"]:
        from quire.runtime.host_functions import HostFunction, HostModule

        functions = {
            call.symbol: HostFunction(
                call.function,
                [a.dtype for a in call.in_avals],
                [(a.shape, a.dtype) for a in call.out_avals],
                borrow=call.borrow,
                anywhere=call.stored().function is not None,
            )
            for call in (facts["host_calls"] if lowered is None else lowered.module.host_calls)
        }
        host_modules.append(HostModule("host", functions, device))
    return Executable.load(
        facts["vmfb"], device, host_modules=host_modules, driver=mode, stored_results=facts["stored"], name=name,
        length=length,
    )  # fmt: skip


def load_compiled(output: CompileOutput, lowered: LoweredProgram, device: Device) -> Executable:
    """Load what IREE made of a lowered program.

    Raises:
        ExecutionError: it does not fit the device.
    """
    return _load(_facts(output, lowered), device, lowered, lowered.name)


def compile_lowered(lowered: LoweredProgram, device: Device) -> Executable:
    """Compile a lowered program and load it, past the cache."""
    facts: dict[str, Any] = pickle.loads(_compile(lowered, device.target, lowered.name))
    try:
        return _load(facts, device, lowered, lowered.name)
    except ExecutionError as error:
        flags = retry_flags(str(error), facts["flags"])
        if flags is None:
            raise
        return _load(pickle.loads(_compile(lowered, device.target, lowered.name, flags)), device, lowered, lowered.name)


@dataclass(frozen=True)
class LoweredProgram:
    """A StableHLO module with what the caller must know of it."""

    module: Any
    kept: tuple[int, ...]
    results: tuple[tuple[str, int], ...]
    cost: Cost
    unknown_trips: bool
    name: str


@functools.cache
def load_lowering() -> None:
    """Import what a compile needs beyond tracing: some 150 modules.

    All that they make stays. To look through it for garbage while it grows would be a fifth of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        import quire.backends.stablehlo
        import quire.passes.manager  # noqa: F401
    finally:
        if collecting:
            gc.enable()


def _lower(closed: ClosedJaxpr, target: Target, name: str, donated: Sequence[int], keep_unused: bool) -> LoweredProgram:
    load_lowering()
    with span(f"passes {name}", "passes"):
        optimized = run_pipeline(closed, target, donated)
    with span(f"lower {name}", "lower"):
        return lower_optimized(optimized, target, name, donated, keep_unused)


def lower_optimized(
    optimized: ClosedJaxpr, target: Target, name: str, donated: Sequence[int] = (), keep_unused: bool = False
) -> LoweredProgram:
    """Lower a program to StableHLO after the passes; arguments that it does not use are left out."""
    from quire.backends.stablehlo import lower_module

    program, kept = without_unused_arguments(optimized, keep_unused)
    position = {i: k for k, i in enumerate(kept)}
    written = [position[i] for i in donated if i in position]
    module = lower_module(program, target, name=name, donated=written)
    # ("argument", i) counts the arguments of the whole function, not of the one that is lowered.
    results = tuple((kind, kept[i] if kind == "argument" else i) for kind, i in module.results)
    return LoweredProgram(module, kept, results, estimate(program.jaxpr), has_unknown_trips(program.jaxpr), name)


def compile_flags(target: Target) -> tuple[str, ...]:
    """The target's flags, with the paths of this machine's tools that it needs."""
    if target.system_link:
        from quire.backends.iree import system_link_flags

        return (*target.flags, *system_link_flags())
    return target.flags


def _compile(lowered: LoweredProgram, target: Target, name: str, flags: tuple[str, ...] | None = None) -> bytes:
    if flags is None:
        flags = compile_flags(target)
    with span(f"compile {name}", "compile"), compile_progress(name):
        # Calls compare their arguments' types with the variant's before they come to the program.
        output = compile_service().compile(lowered.module.bytecode(), flags, name=name, trusted=True)
    return pickle.dumps(_facts(output, lowered))


def _facts(output: CompileOutput, lowered: LoweredProgram) -> dict[str, Any]:
    """What the cache holds of a program."""
    return {
        "vmfb": output.vmfb,
        "results": lowered.results,
        "kept": lowered.kept,
        "serial": lowered.module.serial,
        "stored": tuple((a.shape, a.dtype) for a in lowered.module.stored),
        "host_calls": [call.stored() for call in lowered.module.host_calls],
        "cost": (lowered.cost.flops, lowered.cost.bytes),
        "unknown_trips": lowered.unknown_trips,
        "flags": output.flags,
    }

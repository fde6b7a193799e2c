"""From an artifact to a program that can be called: IREE's runtime, on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quire.backends.iree.retries import retry_flags
from quire.ir.avals import ShapedArray
from quire.runtime.devices import Device, Mode
from quire.runtime.executable import Executable, ExecutionError, Length
from quire.runtime.interruption import LONG_SECONDS

from ..watching.spans import span
from .building import Artifact, build
from .lowering import LoweredProgram
from .request import Request


@dataclass(frozen=True, eq=False)
class Program:
    """A loaded program.

    Attributes:
        request: what it was compiled for.
        artifact: what it was loaded from.
        executable: to call.
        device: where.
        seconds: what tracing's successor stages took: passes, lowering, compilation, loading.
        cached: whether it came from the persistent cache.
    """

    request: Request
    artifact: Artifact
    executable: Executable
    device: Device
    seconds: float
    cached: bool

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the function's results."""
        return self.request.out_avals


def load(artifact: Artifact, device: Device, name: str, lowered: LoweredProgram | None = None) -> Executable:
    """Load a compiled program; `lowered` is needed where it calls the user's functions.

    Raises:
        ExecutionError: it does not fit the device.
    """
    with span(f"load {name}", "load", bytes=len(artifact.vmfb)):
        seconds = artifact.cost.seconds(device.target)
        parallel = device.is_host and not artifact.one_thread
        length: Length = "long" if seconds > LONG_SECONDS else "unknown" if artifact.unknown_trips else "short"
        mode: Mode = "task" if parallel else "sync"
        host_modules: list[Any] = []
        if artifact.host_calls:
            from quire.backends.collective_call import CollectiveCall
            from quire.runtime.host_functions import HostFunction, HostModule
            from quire.runtime.processes.collectives import implementation

            functions: dict[str, HostFunction] = {}
            for call in artifact.host_calls if lowered is None else lowered.module.host_calls:
                assert call.function is not None, f"{name} is loaded without the functions that it calls"
                functions[call.symbol] = HostFunction(
                    implementation(call.function) if isinstance(call.function, CollectiveCall) else call.function,
                    [a.dtype for a in call.in_avals],
                    [(a.shape, a.dtype) for a in call.out_avals],
                    borrow=call.borrow,
                    anywhere=call.stored().function is not None,
                    fills=call.fills,
                )
            host_modules.append(HostModule("host", functions, device))
        return Executable.load(
            artifact.vmfb, device, host_modules=host_modules, driver=mode, stored_results=artifact.stored, name=name,
            length=length,
        )  # fmt: skip


def load_fitting(
    artifact: Artifact, device: Device, name: str, lower: Callable[[], LoweredProgram], lowered: LoweredProgram | None
) -> tuple[Artifact, Executable]:
    """Load a compiled program, or what is compiled in its place with other flags where it does not fit the device.

    Some limits (32 buffers in a dispatch) show only when a program is loaded; the same module compiles to a form that loads.
    """
    try:
        return artifact, load(artifact, device, name, lowered)
    except ExecutionError as error:
        flags = retry_flags(str(error), artifact.flags)
        if flags is None:
            raise
        lowered = lowered or lower()
        artifact = build(lowered, flags)
        return artifact, load(artifact, device, name, lowered)


def compile_lowered(lowered: LoweredProgram, device: Device) -> Executable:
    """Compile a lowered program and load it, past the cache."""
    _, executable = load_fitting(build(lowered), device, lowered.request.name, lambda: lowered, lowered)
    return executable


__all__ = ["Program", "compile_lowered", "load", "load_fitting"]

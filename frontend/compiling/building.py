"""From a StableHLO module to code: IREE's compiler, and what the persistent cache keeps of a program."""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import dataclass
from typing import Any

from quire.backends.host_call import HostCall
from quire.backends.iree.service import CompileOutput, compile_service
from quire.backends.targets import Target
from quire.ir.errors import CompileError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.printer import to_text
from quire.passes.cost import Cost

from ..watching.progress import compile_progress
from ..watching.spans import span
from .lowering import LoweredProgram
from .request import Request


@dataclass(frozen=True)
class Artifact:
    """A compiled program as the persistent cache holds it.

    Attributes:
        vmfb: the code, as IREE's runtime takes it.
        kept, results, cost, unknown_trips: as those of the `LoweredProgram`.
        one_thread: it runs on the calling thread (on a CPU).
        stored: shape and dtype of the results for which the program takes memory.
        host_calls: the Python functions that it calls; without those of the user's, which live in a process.
        flags: the options IREE compiled it with.
    """

    vmfb: bytes
    kept: tuple[int, ...]
    results: tuple[tuple[str, int], ...]
    cost: Cost
    unknown_trips: bool
    one_thread: bool
    stored: tuple[tuple[tuple[int, ...], Any], ...]
    host_calls: tuple[HostCall, ...]
    flags: tuple[str, ...]

    @property
    def needs_functions(self) -> bool:
        """Whether it calls functions of the user's, so that lowering must name them anew in this process."""
        return any(call.function is None for call in self.host_calls)

    def to_bytes(self) -> bytes:
        """As `from_bytes` takes it."""
        return pickle.dumps(self)

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """The artifact of `to_bytes`; the cache binds the data to its key, and the key to quire's sources."""
        return pickle.loads(data)


def compile_flags(target: Target) -> tuple[str, ...]:
    """The target's flags, with the paths of this machine's tools that it needs."""
    if target.system_link:
        from quire.backends.iree import system_link_flags

        return (*target.flags, *system_link_flags())
    return target.flags


def build(lowered: LoweredProgram, flags: tuple[str, ...] | None = None) -> Artifact:
    """Compile a lowered program by IREE, with the target's flags or others.

    Raises:
        CompileError: IREE failed; the message names a reproducer, which has the traced program too.
    """
    request = lowered.request
    with span(f"compile {request.name}", "compile"), compile_progress(request.name):
        # Calls compare their arguments' types with the variant's before they come to the program.
        try:
            output = compile_service().compile(
                lowered.module.bytecode(), compile_flags(request.target) if flags is None else flags,
                name=request.name, trusted=True,
                # The host's function copies and fills by the C library's functions, which only system libraries are
                # linked with.
                one_thread=lowered.one_thread and request.target.system_link,
            )  # fmt: skip
        except CompileError as error:
            add_program(error, request)
            raise
    return artifact_of(lowered, output)


PROGRAM = "program.jaxpr"
"""In the folder of a reproducer: the program as it was traced, which ``dumpir FOLDER --reduce --until crash`` makes small."""


def add_program(error: CompileError, request: Request) -> None:
    """Write the program of a failed compile into the folder of its reproducer."""
    if error.reproducer is None:
        return
    donated = f", donated {' '.join(map(str, request.donated))}" if request.donated else ""
    with contextlib.suppress(OSError, NotImplementedError, TypeError, ValueError):
        text = f"// {request.name}, for target {request.target.name}{donated}\n{_readable(request.program)}\n"
        (error.reproducer / PROGRAM).write_text(text, encoding="utf-8")


def _readable(program: ClosedJaxpr) -> str:
    """A program's text as the parser reads it: without calls whose rules are Python functions, which have no notation."""
    from quire.ir.parser import ParseError, parse
    from quire.passes.base import PassContext
    from quire.passes.inline import Inline

    text = to_text(program)
    try:
        parse(text)
    except ParseError:
        return to_text(Inline().apply(program, PassContext()))
    return text


def artifact_of(lowered: LoweredProgram, output: CompileOutput) -> Artifact:
    """What IREE made of a lowered program, with what is known of it."""
    module = lowered.module
    return Artifact(
        output.vmfb, lowered.kept, lowered.results, lowered.cost, lowered.unknown_trips, lowered.one_thread,
        tuple((a.shape, a.dtype) for a in module.stored), tuple(call.stored() for call in module.host_calls),
        output.flags,
    )  # fmt: skip


__all__ = ["Artifact", "artifact_of", "build", "compile_flags"]

"""One module on its way through the compiler: which passes run, in which order, and what quire does between them.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import os
import time

import clones
import dispatches
import exact_floats
import executables
import fences
import host_casts
import host_steps
import kernel_bodies
import libraries
import mlir_c
import native_host
import pipelines
import planned
import printing
import shape_orders
from compiler import Compiler, CompilerError
from session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator
    from typing import Any

BACKEND = "--iree-hal-target-backends="
CPU = BACKEND + dispatches.CPU

DEVICE_FLAGS = (BACKEND, "--iree-hal-target-device=")
"""How the options begin that name devices."""

BEFORE_STREAM = frozenset(
    ("start", "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow")
)
"""The phases before the stream phase, as IREE names them."""
BEFORE_CODE = frozenset(("executable-sources", "executable-configurations"))
"""Those after it before executables are in the target's own dialect."""


class Invocation(Session):
    """One module on its way to a program, or to a phase before.

    Args:
        most_libraries: among how many the kernels may be divided, which are made at once.
    """

    def __init__(self, compiler: Compiler, module: bytes, flags: tuple[str, ...], most_libraries: int = 1) -> None:
        self.plans: list[str] = []
        self.host: dict[str, Any] = {}
        self.located = False  # whether texts name the operations' locations
        self.phases: dict[str, float] = {}
        self.since = time.perf_counter()
        self.flags = flags
        self.backend = next((f.removeprefix(BACKEND) for f in flags if f.startswith(BACKEND)), "")
        self.for_cpu = self.backend == dispatches.CPU
        self.forming = pipelines.forming_by(flags)
        self.optimizes_as_listed = pipelines.optimizes_as_listed(flags)
        self.one_cpu = self.for_cpu and sum(f.startswith(DEVICE_FLAGS) for f in flags) == 1
        self.most_libraries = most_libraries
        compiler.mlir.new_context()
        super().__init__(compiler, module, flags)

    def compile(self, trusted: bool = False, one_thread: bool = False) -> Iterator[bool]:
        """All phases, by quire's pipelines: step by step, each gives whether it succeeded; `self.phases` gets their times.

        The forming of dispatches is where IREE 3.13 has made modules that are no longer valid ("does not dominate");
        not noticed, they keep it busy for ever; and a window that stands alone becomes an operation of other shapes, which a later
        pass makes a valid one of wrong numbers. So the module is verified after each pass up to there and in the last phase; in
        those between it would be a tenth to a fifth of a compile.

        What concerns only the host runs with the kernels' bodies put aside.

        With `trusted`, the program does not check its arguments' shapes and types, and on the CPU not their memory: a
        call of the HAL each. With `one_thread` the program will run on the calling thread: what the host does between
        kernels is a function beside them, and there are no fences.
        """
        mlir = self.compiler.mlir
        module = mlir.ireeCompilerInvocationExportStealModule(self.invocation)
        bodies = kernel_bodies.Bodies(mlir, module)
        yield mlir.ireeCompilerInvocationImportStealModule(self.invocation, module)
        self.verify(True)
        if bodies.nothing_else:
            yield self.run_passes(pipelines.CALLS)
            yield self.preprocess()
            yield self.run_passes(pipelines.FLOW)
        else:
            yield from self.to_linalg(module)
            yield self.run_passes(pipelines.ABI)
            self.ended("input")
            yield from self.to_dispatches(module)
        self.ended("dispatches")
        self.verify(False)
        if planned.several_devices(mlir, module):
            bodies.put_back()
            yield self.run("stream", "flow")
        else:
            yield from self.to_commands(module, shown=False)
            self.ended("plan")
            bodies.put_back()
            if trusted:
                mlir.erase(module, b"hal.buffer_view.assert")
            yield self.run_passes(pipelines.DISPATCHES)
        if self.for_cpu:
            yield from self.to_code(module)
            self.ended("kernels")
            if one_thread:
                reason = native_host.make_native(mlir, module)
                if reason:
                    self.diagnostics.append(("remark", "what is between kernels stays with the host: " + reason))
            yield self.run_passes(pipelines.HAL_COMMANDS)
            if trusted:
                mlir.erase(module, b"hal.buffer.assert")
            self.ended("host")
            yield from self.to_binaries(module)
            self.ended("machine code")
            yield self.run_passes(pipelines.HAL_END)
        else:
            yield from self.to_executables(module, "hal")
            self.ended("kernels and machine code")
        self.verify(True)
        host_casts.by_known_ones(mlir, module)
        if one_thread:
            fences.leave_out(mlir, module)
        yield self.run_passes(pipelines.VM)
        self.ended("bytecode")

    def ended(self, phase: str) -> None:
        """Note how long a phase took that ends here."""
        now = time.perf_counter()
        self.phases[phase], self.since = now - self.since, now

    def export(self, name: str) -> Iterator[bool]:
        """The kernels as a static library, and what the host does between them as plain values. Step by step.

        Loops and branches of the host stay such, so that what is printed from them has them too.
        """
        mlir = self.compiler.mlir
        module = mlir.ireeCompilerInvocationExportStealModule(self.invocation)
        bodies = kernel_bodies.Bodies(mlir, module)
        yield mlir.ireeCompilerInvocationImportStealModule(self.invocation, module)
        yield from self.to_linalg(module)
        yield self.run_passes(pipelines.ABI)
        yield from self.to_dispatches(module)
        yield from self.to_commands(module, shown=True, then=pipelines.STRUCTURED)
        bodies.put_back()
        mlir.erase(module, b"hal.buffer_view.assert")
        yield self.run_passes(pipelines.DISPATCHES)
        yield from self.to_code(module)
        self.host = host_steps.host_of(mlir, module)
        if self.host["exports"]:
            (beside,) = executables.split(mlir, module)
            (linked,) = mlir.named(mlir.first_block(beside), b"hal.executable")
            context = mlir.mlirOperationGetContext(beside)
            symbol = mlir.mlirStringAttrGet(context, mlir_c.text(name.encode()))
            mlir.mlirOperationSetAttributeByName(linked, mlir_c.text(b"sym_name"), symbol)
            invocation = self.compiler.lib.ireeCompilerInvocationCreate(self.session)
            try:
                yield from self.binaries_of(beside, invocation)
            finally:
                self.compiler.lib.ireeCompilerInvocationDestroy(invocation)

    def to_linalg(self, module: int) -> Iterator[bool]:
        """The input phase. Step by step."""
        yield self.run_passes(pipelines.SIMPLIFIED)
        while shape_orders.order(self.compiler.mlir, module):
            yield self.run_passes(pipelines.SHAPES)
        clones.limit(self.compiler.mlir, module)
        yield self.run_passes(pipelines.CONVERTED)

    def to_dispatches(self, module: int, to_phase: str = "flow", stages_to: str | None = None) -> Iterator[bool]:
        """From the end of the abi phase to that of a later one, up to the flow phase. Step by step.

        Raises CompilerError for a dispatch of which IREE would make wrong code, or none.
        """
        if self.forming is None:
            yield self.run(to_phase, "abi")
        else:
            yield self.run("preprocessing", "abi") if stages_to or to_phase == "preprocessing" else self.preprocess()
            for phase, steps in () if to_phase == "preprocessing" else self.dispatch_phases(module, self.forming):
                yield from steps
                if stages_to:
                    self.write(stages_to, phase + ".mlir", self.text())
                if phase.endswith(to_phase):
                    break
        if to_phase == "flow" and (wrong := dispatches.fault(self.compiler.mlir, module, self.backend)):
            raise CompilerError(wrong)

    def preprocess(self) -> bool:
        """The preprocessing phase; whether that succeeded.

        It does nothing but find the devices; where a CPU is all of them, the phases after stream do that as well.
        """
        return self.one_cpu or self.run("preprocessing", "abi")

    def to_code(self, module: int) -> Iterator[bool]:
        """The CPU's executables from the end of the stream phase to one, or a few, in LLVM's dialect. Step by step.

        Several are linked before they are code: each would have tables of patterns of its own in each of the passes to come.
        What is left is as many as are worth working on at once, in this phase and where they become binaries.
        """
        mlir = self.compiler.mlir
        if len(list(mlir.named(mlir.first_block(module), b"stream.executable"))) < 2:
            yield self.run("executable-targets", "stream")
            yield self.run_passes(pipelines.LINKED)
            return
        yield self.run("executable-sources", "stream")
        groups = libraries.groups(mlir, module, self.most_libraries)
        if len(groups) < 2:
            yield self.run_passes(pipelines.LINKED)
        else:
            yield from libraries.link(mlir, module, groups, lambda: self.run_passes(pipelines.LINKED))
        yield self.run("executable-targets", "executable-sources")

    def to_executables(self, module: int, to_phase: str) -> Iterator[bool]:
        """From the end of the stream phase to that of a later one, by IREE's pipelines. Step by step."""
        if not self.backend.endswith(dispatches.SPIRV) or to_phase in BEFORE_CODE:
            yield self.run(to_phase, "stream")
            return
        yield self.run("executable-targets", "stream")
        exact_floats.make_exact(self.compiler.mlir, module)
        if to_phase != "executable-targets":
            yield self.run(to_phase, "executable-targets")

    def dispatch_phases(self, module: int, forming: pipelines.Forming) -> Iterator[tuple[str, Iterator[bool]]]:
        """The phases after preprocessing up to flow by quire's lists, with IREE's numbers and names, and their steps."""
        listed = self.optimizes_as_listed
        yield (
            "4.global-optimization",
            self.phase("global-optimization", "preprocessing", pipelines.GLOBALLY if listed else ""),
        )
        yield "5.dispatch-creation", self.form_dispatches(module, forming)
        yield "6.flow", self.phase("flow", "dispatch-creation", pipelines.OUTLINED if listed else "")

    def phase(self, to_phase: str, after: str, listed: str) -> Iterator[bool]:
        """One of IREE's phases, by a list of passes where there is one."""
        yield self.run_passes(listed) if listed else self.run(to_phase, after)

    def form_dispatches(self, module: int, forming: pipelines.Forming) -> Iterator[bool]:
        """The dispatch-creation phase, without dispatches that the target's code would be wrong for. Step by step."""
        fused, regions, filled, workgroups = forming
        yield self.run_passes(fused)
        dispatches.dissolve_wide(self.compiler.mlir, module, self.backend)
        yield self.run_passes(regions)
        while dispatches.take_apart(self.compiler.mlir, module, self.backend):
            yield self.run_passes(regions)
        dispatches.store_before_strides(self.compiler.mlir, module)
        yield self.run_passes(filled)
        while dispatches.take_apart(self.compiler.mlir, module, self.backend, filled=True):
            yield self.run_passes(filled)
        yield self.run_passes(workgroups)

    def to_commands(self, module: int, *, shown: bool, then: str = pipelines.COMMANDS) -> Iterator[bool]:
        """The stream phase up to the commands on buffers, by a plan of memory and order. Step by step.

        What comes out is verified, which takes little while the kernels' bodies are aside.
        """
        mlir = self.compiler.mlir
        mlir.keep_apart(module)
        yield self.run_passes(pipelines.ENCODED_VALUES if self.forming is None else pipelines.VALUES)
        self.plans = planned.plan_all(mlir, module, 64 if self.for_cpu else 256, on_host=self.for_cpu, shown=shown)
        yield mlir.mlirOperationVerify(module)
        yield self.run_passes(then)
        yield mlir.mlirOperationVerify(module)

    def compile_shown(self, to_phase: str | None, stages_to: str | None) -> Iterator[bool]:
        """All phases, or those up to one, by IREE's pipelines but for the stream phase; verified after each pass."""
        mlir = self.compiler.mlir
        if to_phase == "start":
            return
        module = mlir.ireeCompilerInvocationExportStealModule(self.invocation)
        yield mlir.ireeCompilerInvocationImportStealModule(self.invocation, module)
        yield from self.to_linalg(module)
        if stages_to:
            self.write(stages_to, "1.input.mlir", self.text())
        if to_phase == "input":
            return
        yield self.run_passes(pipelines.ABI)
        if stages_to:
            self.write(stages_to, "2.abi.mlir", self.text())
        if to_phase == "abi":
            return
        if to_phase in BEFORE_STREAM:
            yield from self.to_dispatches(module, to_phase, stages_to)
            return
        yield from self.to_dispatches(module, stages_to=stages_to)
        for done in self.to_commands(module, shown=True):
            yield done
            if self.plans and to_phase == "plan":
                return
        yield self.run_passes(pipelines.DISPATCHES)
        if stages_to:
            self.write(stages_to, "7.plan.txt", self.plan_text())
            self.write(stages_to, "7.stream.mlir", self.text())
        if to_phase != "stream":
            yield from self.to_executables(module, to_phase or "vm")

    def write(self, folder: str, name: str, text: bytes) -> None:
        """A stage's file, as IREE names those that it writes."""
        with open(os.path.join(folder, "module." + name), "wb") as f:
            f.write(text)

    def plan_text(self) -> bytes:
        """The plans of the module's functions."""
        return "\n".join(self.plans).encode()

    def text(self) -> bytes:
        """The module as it is now; with the operations' locations if these were asked for."""
        if self.located:
            mlir = self.compiler.mlir
            module = mlir.ireeCompilerInvocationExportStealModule(self.invocation)
            try:
                return printing.with_locations(mlir, module)
            finally:
                mlir.ireeCompilerInvocationImportStealModule(self.invocation, module)
        return self.compiler.output(self.compiler.lib.ireeCompilerInvocationOutputIR, self.invocation or 0)

    def to_binaries(self, module: int) -> Iterator[bool]:
        """Makes the CPU's executables binaries, in modules of their own; finds the devices. Step by step.

        All but the first of these modules go to sessions of their own, on which other threads work meanwhile.
        """
        lib, mlir = self.compiler.lib, self.compiler.mlir
        first, *others = executables.split(mlir, module)
        elsewhere = [self.started(beside) for beside in others]
        invocation = lib.ireeCompilerInvocationCreate(self.session)
        try:
            yield from self.binaries_of(first, invocation)
            yield self.run_passes(pipelines.HAL_HOST)
            read = list[int]()
            for work in elsewhere:
                made = work.result()
                self.diagnostics.extend(work.diagnostics)
                yield made is not None
                read.append(executables.read(mlir, module, made or b""))
            executables.join(mlir, module, [first, *(mlir.mlirModuleGetOperation(other) for other in read)])
            for other in read:
                mlir.mlirModuleDestroy(other)
        finally:
            for work in elsewhere:
                work.result()
            lib.ireeCompilerInvocationDestroy(invocation)

    def started(self, beside: int) -> libraries.Library:
        """A thread that makes the executable of a module of its own a binary."""
        lib = self.compiler.lib
        invocation = lib.ireeCompilerInvocationCreate(self.session)
        try:
            self.compiler.mlir.ireeCompilerInvocationImportStealModule(invocation, beside)
            return libraries.Library(self.compiler, self.bytecode_of(invocation), self.flags)
        finally:
            lib.ireeCompilerInvocationDestroy(invocation)

    def binaries_of(self, beside: int, invocation: int) -> Iterator[bool]:
        """Makes the executables of a module of their own binaries, in an invocation of their own. Step by step."""
        lib = self.compiler.lib
        lib.ireeCompilerInvocationEnableCallbackDiagnostics(invocation, 0, self.callback, None)
        lib.ireeCompilerInvocationSetVerifyIR(invocation, False)
        yield self.compiler.mlir.ireeCompilerInvocationImportStealModule(invocation, beside)
        yield self.run("hal", "executable-targets", invocation)

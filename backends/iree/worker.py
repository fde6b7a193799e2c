"""The compiler's own process: reads jobs from standard input, compiles them with libIREECompiler, answers.

The parent starts this *file* (not a module of the package) with ``python -I -S``, and only built-in modules and
ctypes are imported, and files beside this one, so that the process is ready in about 30 ms and holds nothing but
the compiler. A compiler that aborts, exits or hangs takes only this process with it.

Protocol: a frame is an 8-byte little-endian length and a ``marshal`` value (both ends are the same Python). The
compiler's own output on file descriptors 1 and 2 goes to standard error, never among the frames. A job is first
acknowledged: a worker that dies before has not died of the job.

Job: ``{"op": "compile", "export" or "text", "module", "name", "flags", "verify", "trusted", "one_thread", "phase", "located",
"stages_to", "files_to"}``, the last two folders. With ``verify``, and up to a phase, IREE's own pipelines run, otherwise
those of pipelines.py; the stream phase is that of pipelines.py in any case. Of an export, the kernels' object and its one
function bear the name.
Answer: ``{"ok", "error", "vmfb", "text", "stages", "files", "host", "diagnostics", "phases", "seconds", "rss_kb"}``; diagnostics
are ``(severity, text)`` pairs, and ``host`` is what host_steps.py gives (of an export). With stages also ``"started"`` and
``"written"``, the times at which their files were.
"""

from __future__ import annotations

import _queue
import _thread
import ctypes
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator
    from typing import Any

_p = ctypes.c_void_p
_DIAGNOSTIC = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, _p)
SEVERITIES = ("note", "warning", "error", "remark")

# name: (result, arguments), as declared in iree/compiler/embedding_api.h
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "GlobalInitialize": (None, []),
    "ErrorDestroy": (None, [_p]),
    "ErrorGetMessage": (ctypes.c_char_p, [_p]),
    "SessionCreate": (_p, []),
    "SessionDestroy": (None, [_p]),
    "SessionSetFlags": (_p, [_p, ctypes.c_int, _p]),
    "InvocationCreate": (_p, [_p]),
    "InvocationDestroy": (None, [_p]),
    "InvocationEnableCallbackDiagnostics": (None, [_p, ctypes.c_int, _DIAGNOSTIC, _p]),
    "InvocationParseSource": (ctypes.c_bool, [_p, _p]),
    "InvocationSetCompileFromPhase": (None, [_p, ctypes.c_char_p]),
    "InvocationSetCompileToPhase": (None, [_p, ctypes.c_char_p]),
    "InvocationSetDumpCompilationPhasesTo": (None, [_p, ctypes.c_char_p]),
    "InvocationSetVerifyIR": (None, [_p, ctypes.c_bool]),
    "InvocationPipeline": (ctypes.c_bool, [_p, ctypes.c_int]),
    "InvocationRunPassPipeline": (ctypes.c_bool, [_p, ctypes.c_char_p]),
    "InvocationOutputIR": (_p, [_p, _p]),
    "InvocationOutputVMBytecode": (_p, [_p, _p]),
    "OutputDestroy": (None, [_p]),
    "OutputOpenMembuffer": (_p, [_p]),
    "OutputMapMemory": (_p, [_p, _p, _p]),
    "SourceDestroy": (None, [_p]),
    "SourceWrapBuffer": (_p, [_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool, _p]),
}

# With -I, this file's folder is not searched. Its parent holds `plan`, and a folder named as IREE's own package, so that
# both are on the path for these imports only: processes that a test spawns take the path over.
_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [_folder, os.path.dirname(_folder)]
try:
    import clones
    import dispatches
    import executables
    import host_steps
    import kernel_bodies
    import mlir_c
    import native_host
    import pipelines
    import planned
    import printing
    import shape_orders
finally:
    del sys.path[:2]

CPU = "--iree-hal-target-backends=llvm-cpu"

DEVICE_FLAGS = ("--iree-hal-target-backends=", "--iree-hal-target-device=")
"""How the options begin that name devices."""

BEFORE_STREAM = frozenset(
    ("start", "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow")
)
"""The phases before the stream phase, as IREE names them."""

WARM_UP_MODULE = b"""func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


class CompilerError(Exception):
    """An error the compiler's interface reported."""


class Compiler:
    """libIREECompiler through ctypes."""

    def __init__(self, library: str) -> None:
        self.lib = ctypes.CDLL(library)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.lib, "ireeCompiler" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.lib.ireeCompilerGlobalInitialize()
        self.mlir = mlir_c.Mlir(self.lib)

    def check(self, error: int | None) -> None:
        """Raises CompilerError with the text of the compiler's error, if there is one, and frees that."""
        if error:
            text = self.lib.ireeCompilerErrorGetMessage(error).decode("utf-8", "replace")
            self.lib.ireeCompilerErrorDestroy(error)
            raise CompilerError(text)

    def output(self, write: Any, invocation: int) -> bytes:
        """What `write` (one of the Output functions) puts out for the invocation."""
        out, data, size = _p(), _p(), ctypes.c_uint64()
        self.check(self.lib.ireeCompilerOutputOpenMembuffer(ctypes.byref(out)))
        try:
            self.check(write(invocation, out))
            self.check(self.lib.ireeCompilerOutputMapMemory(out, ctypes.byref(data), ctypes.byref(size)))
            return ctypes.string_at(data.value or 0, size.value)
        finally:
            self.lib.ireeCompilerOutputDestroy(out)


class Invocation:
    """One module in a session of its own: a context that lives longer only grows."""

    def __init__(self, compiler: Compiler, module: bytes, flags: tuple[str, ...]) -> None:
        self.compiler, lib = compiler, compiler.lib
        self.diagnostics: list[tuple[str, str]] = []
        self.plans: list[str] = []
        self.host: dict[str, Any] = {}
        self.located = False  # whether texts name the operations' locations
        self.phases: dict[str, float] = {}
        self.since = time.perf_counter()
        self.source_text = module  # the compiler reads it where it is
        self.for_cpu = CPU in flags
        self.forming = pipelines.forming_by(flags)
        self.optimizes_as_listed = pipelines.optimizes_as_listed(flags)
        self.one_cpu = self.for_cpu and sum(f.startswith(DEVICE_FLAGS) for f in flags) == 1
        self.invocation = self.source = None
        compiler.mlir.new_context()
        self.session = lib.ireeCompilerSessionCreate()
        try:
            argv = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
            compiler.check(lib.ireeCompilerSessionSetFlags(self.session, len(flags), argv))
            self.invocation = lib.ireeCompilerInvocationCreate(self.session)
            self.callback = _DIAGNOSTIC(self.report)
            lib.ireeCompilerInvocationEnableCallbackDiagnostics(self.invocation, 0, self.callback, None)
            source = _p()
            name = b"module.mlir"
            compiler.check(
                lib.ireeCompilerSourceWrapBuffer(self.session, name, module, len(module), False, ctypes.byref(source))
            )
            self.source = source
        except BaseException:
            self.close()
            raise

    def report(self, severity: int, message: Any, size: int, _: Any) -> None:
        """Note a diagnostic of the compiler's; IREE calls it."""
        text = ctypes.string_at(message, size).decode("utf-8", "replace")
        self.diagnostics.append((SEVERITIES[severity] if 0 <= severity < 4 else "error", text))

    def parse(self) -> bool:
        """Read the module; whether that succeeded."""
        return self.compiler.lib.ireeCompilerInvocationParseSource(self.invocation, self.source)

    def run(self, to_phase: str | None = None, from_phase: str | None = None, invocation: int | None = None) -> bool:
        """Run IREE's pipeline between two phases; whether that succeeded."""
        lib = self.compiler.lib
        invocation = invocation or self.invocation
        if from_phase is not None:
            lib.ireeCompilerInvocationSetCompileFromPhase(invocation, from_phase.encode())
        if to_phase is not None:
            lib.ireeCompilerInvocationSetCompileToPhase(invocation, to_phase.encode())
        return lib.ireeCompilerInvocationPipeline(invocation, 0)

    def compile(self, trusted: bool = False, one_thread: bool = False) -> Iterator[bool]:
        """All phases, by quire's pipelines: step by step, each gives whether it succeeded; `self.phases` gets their times.

        The forming of dispatches is where IREE 3.13 has made modules that are no longer valid ("does not dominate");
        not noticed, they keep it busy for ever. Verification after that is a tenth to a fifth of a compile: it is
        done in the last phase only.

        What concerns only the host runs with the kernels' bodies put aside.

        With `trusted`, the program does not check its arguments' shapes and types, and on the CPU not their memory: a
        call of the HAL each. With `one_thread` the program will run on the calling thread, and what the host does between
        kernels is a function beside them.
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
            yield self.run("hal", "stream")
            self.ended("kernels and machine code")
        self.verify(True)
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
            beside = executables.split(mlir, module)
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
        if to_phase == "flow" and (wrong := dispatches.fault(self.compiler.mlir, module, self.for_cpu)):
            raise CompilerError(wrong)

    def preprocess(self) -> bool:
        """The preprocessing phase; whether that succeeded.

        It does nothing but find the devices; where a CPU is all of them, the phases after stream do that as well.
        """
        return self.one_cpu or self.run("preprocessing", "abi")

    def to_code(self, module: int) -> Iterator[bool]:
        """The CPU's executables from the end of the stream phase to one in LLVM's dialect. Step by step.

        Several are linked before they are code: each would have tables of patterns of its own in each of the passes to come.
        """
        mlir = self.compiler.mlir
        if len(list(mlir.named(mlir.first_block(module), b"stream.executable"))) < 2:
            yield self.run("executable-targets", "stream")
            yield self.run_passes(pipelines.LINKED)
        else:
            yield self.run("executable-sources", "stream")
            yield self.run_passes(pipelines.LINKED)
            yield self.run("executable-targets", "executable-sources")

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
        fused, regions, workgroups = forming
        yield self.run_passes(fused)
        if self.for_cpu:
            dispatches.dissolve_wide(self.compiler.mlir, module)
        yield self.run_passes(regions)
        while dispatches.take_apart(self.compiler.mlir, module, self.for_cpu):
            yield self.run_passes(regions)
        dispatches.store_before_strides(self.compiler.mlir, module)
        yield self.run_passes(workgroups)

    def to_commands(self, module: int, *, shown: bool, then: str = pipelines.COMMANDS) -> Iterator[bool]:
        """The stream phase up to the commands on buffers, by a plan of memory and order. Step by step.

        What comes out is verified, which takes little while the kernels' bodies are aside.
        """
        mlir = self.compiler.mlir
        mlir.keep_apart(module)
        yield self.run_passes(pipelines.VALUES)
        self.plans = planned.plan_all(mlir, module, 64 if self.for_cpu else 256, shown)
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
            yield self.run(to_phase or "vm", "stream")

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
        """Makes the CPU's executables binaries, in a module of their own; finds the devices. Step by step."""
        lib, mlir = self.compiler.lib, self.compiler.mlir
        beside = executables.split(mlir, module)
        invocation = lib.ireeCompilerInvocationCreate(self.session)
        try:
            yield from self.binaries_of(beside, invocation)
            yield self.run_passes(pipelines.HAL_HOST)
            executables.join(mlir, module, beside)
        finally:
            lib.ireeCompilerInvocationDestroy(invocation)

    def binaries_of(self, beside: int, invocation: int) -> Iterator[bool]:
        """Makes the executables of a module of their own binaries, in an invocation of their own. Step by step."""
        lib = self.compiler.lib
        lib.ireeCompilerInvocationEnableCallbackDiagnostics(invocation, 0, self.callback, None)
        lib.ireeCompilerInvocationSetVerifyIR(invocation, False)
        yield self.compiler.mlir.ireeCompilerInvocationImportStealModule(invocation, beside)
        yield self.run("hal", "executable-targets", invocation)

    def verify(self, on: bool) -> None:
        """Whether the module is verified after each pass."""
        self.compiler.lib.ireeCompilerInvocationSetVerifyIR(self.invocation, on)

    def run_passes(self, pipeline: str) -> bool:
        """Run a list of passes given as text; whether that succeeded."""
        return self.compiler.lib.ireeCompilerInvocationRunPassPipeline(self.invocation, pipeline.encode())

    def close(self) -> None:
        """Free what IREE holds for the module; may be called again."""
        lib = self.compiler.lib
        if self.invocation:
            lib.ireeCompilerInvocationDestroy(self.invocation)
        if self.source:
            lib.ireeCompilerSourceDestroy(self.source)
        if self.session:
            lib.ireeCompilerSessionDestroy(self.session)
        self.invocation = self.source = self.session = None


def times_of(folder: str) -> dict[str, float]:
    """When each file of a folder was written last, as `time.time` counts."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_mtime for entry in entries}


def read_folder(folder: str) -> dict[str, bytes]:
    """The files below `folder` by relative name; removes the folder."""
    files: dict[str, bytes] = {}
    for root, folders, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                files[os.path.relpath(path, folder)] = f.read()
            os.unlink(path)
        for name in folders:
            os.rmdir(os.path.join(root, name))
    os.rmdir(folder)
    return files


def compile_job(compiler: Compiler, job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job and gives its answer."""
    answer: dict[str, Any] = {
        "ok": False,
        "error": "",
        "vmfb": b"",
        "text": "",
        "stages": {},
        "files": {},
        "diagnostics": [],
        "host": {},
        "phases": {},
    }
    flags = tuple(job["flags"])
    if job["op"] == "export":
        flags += ("--iree-llvmcpu-static-library-output-path=" + os.path.join(job["files_to"], "kernels.o"),)
    elif job.get("files_to"):
        flags += ("--iree-hal-dump-executable-files-to=" + job["files_to"],)
    if CPU in flags and not (job.get("verify") or job.get("files_to")):
        flags += ("--iree-llvmcpu-debug-symbols=false",)
    try:
        invocation = Invocation(compiler, job["module"], flags)
        invocation.located = bool(job.get("located"))
    except CompilerError as error:
        answer["error"] = str(error)
        return answer
    answer["diagnostics"], answer["phases"] = invocation.diagnostics, invocation.phases
    try:
        if job["op"] == "text":
            answer["ok"] = invocation.parse()
        elif job["op"] == "export":
            answer["ok"] = invocation.parse() and all(invocation.export(job["name"]))
            answer["host"] = invocation.host
            return answer
        else:
            if job.get("stages_to"):
                compiler.lib.ireeCompilerInvocationSetDumpCompilationPhasesTo(
                    invocation.invocation, job["stages_to"].encode()
                )
            if job["verify"]:
                steps = invocation.compile_shown(job.get("phase"), job.get("stages_to"))
                answer["ok"] = invocation.parse() and all(steps)
            else:
                answer["ok"] = invocation.parse() and all(invocation.compile(job["trusted"], job["one_thread"]))
        if not answer["ok"]:
            return answer
        if job["op"] == "text" or job.get("phase"):
            shown = invocation.plan_text() if job.get("phase") == "plan" else invocation.text()
            answer["text"] = shown.decode("utf-8", "replace")
        else:
            answer["vmfb"] = compiler.output(
                compiler.lib.ireeCompilerInvocationOutputVMBytecode, invocation.invocation or 0
            )
    except (CompilerError, host_steps.NotExported, planned.NotPlanned, planned.PlanError) as error:
        answer["ok"], answer["error"] = False, f"{type(error).__name__}: {error}"
    finally:
        invocation.close()
    return answer


def warm_up(compiler: Compiler, flags: tuple[str, ...], jobs: Any) -> None:
    """Compiles a trivial program, step by step, until the first real job arrives.

    The first compile of a process pays about 170 ms for page faults and one-time tables.
    """
    invocation = Invocation(compiler, WARM_UP_MODULE, flags)
    try:
        if invocation.parse() and all(jobs.empty() and done for done in invocation.compile()):
            compiler.output(compiler.lib.ireeCompilerInvocationOutputVMBytecode, invocation.invocation or 0)
    finally:
        invocation.close()


def read_exactly(fd: int, size: int) -> bytes:
    """So many bytes of a pipe. Ends the process at the end of the stream."""
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            os._exit(0)  # the parent closed the pipe or died: also in the middle of a compile
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_jobs(fd: int, jobs: Any) -> None:
    """Thread: frames of `fd` into the queue. Ends the process at the end of the stream."""
    while True:
        jobs.put(marshal.loads(read_exactly(fd, int.from_bytes(read_exactly(fd, 8), "little"))))


def write_frame(fd: int, value: Any) -> None:
    """Write a value to a pipe: its length in 8 bytes, then the value as `marshal` writes it."""
    data = marshal.dumps(value)
    view = memoryview(len(data).to_bytes(8, "little") + data)
    while view:
        view = view[os.write(fd, view) :]


def memory_kb() -> int:
    """Resident memory of this process in kB, 0 where /proc is missing."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
    except OSError:
        return 0


def main(library: str, warm_up_flags: tuple[str, ...]) -> None:
    """The worker: takes jobs from standard input and writes answers to standard output until the parent is gone."""
    answers = os.dup(1)
    os.dup2(2, 1)
    jobs = _queue.SimpleQueue()
    _thread.start_new_thread(read_jobs, (0, jobs))
    compiler = Compiler(library)
    if warm_up_flags and jobs.empty():
        warm_up(compiler, warm_up_flags, jobs)
    while True:
        job = jobs.get()
        write_frame(answers, "begun")
        start, started = time.perf_counter(), time.time()
        answer = compile_job(compiler, job)
        for key in ("stages", "files"):
            if job.get(key + "_to"):
                if key == "stages":
                    answer["written"] = times_of(job["stages_to"])
                    answer["started"] = started
                answer[key] = read_folder(job[key + "_to"])
        answer["seconds"] = time.perf_counter() - start
        answer["rss_kb"] = memory_kb()
        write_frame(answers, answer)


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    main(sys.argv[1], tuple(sys.argv[2:]))

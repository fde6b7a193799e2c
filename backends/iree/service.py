"""The compile service: IREE's compiler in worker processes that may die without harm.

The compiler can abort, exit or hang (docs: iree-capabilities, robustness). `CompileService` keeps workers alive
between compiles, restarts one that died, and turns every failure into one `CompileError` with the user's line, the
first diagnostic and the path of a reproducer.

    service = compile_service()
    service.warm_up()                                  # returns at once
    output = service.compile(module, flags, name="f")  # or .submit(...) -> Future
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from quire.backends.iree.bytecode import without_branch_moves
from quire.backends.iree.reproducer import first_diagnostic, write_reproducer
from quire.backends.iree.retries import retry_flags
from quire.backends.iree.temporary import problem
from quire.backends.iree.worker_process import WorkerDied, WorkerProcess
from quire.backends.targets import available_cpus
from quire.ir import environment
from quire.ir.errors import CompileError, ExportError

PHASES = (
    "input",
    "abi",
    "preprocessing",
    "global-optimization",
    "dispatch-creation",
    "flow",
    "plan",
    "stream",
    "executable-sources",
    "executable-configurations",
    "executable-targets",
    "hal",
    "vm",
)
"""IREE's phases, in order, and the plan of memory and order between them: `phase` of `compile` is one of these."""

DEFAULT_TIMEOUT = 120.0
RETIRE_KB = 2 * 1024 * 1024
"""A worker that holds more memory than this, in kB, is replaced after its job."""


@dataclasses.dataclass(frozen=True)
class CompileOutput:
    """What a compile gave.

    Attributes:
        vmfb: the compiled module; empty when a `phase` was asked for.
        seconds: time in the worker.
        diagnostics: (severity, text) of each message, warnings and remarks too.
        flags: the flags it was compiled with: more than given, after a retry.
        text: the module after `phase`.
        stages: text after every phase (with ``stages=True``).
        files: target code by file name: assembly, SPIR-V, PTX, ... (with ``files=True``).
        phase_seconds: the time of each phase: with ``stages=True`` of IREE's, the printing of their texts included; else of the
            parts of a compile, by the lists of passes that it ran.
        host: what the host does between kernels, in the form of `backends/export/host.py` (of an export).
    """

    vmfb: bytes
    seconds: float
    diagnostics: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    text: str | None = None
    stages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    phase_seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    host: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Job:
    op: str
    module: bytes
    flags: tuple[str, ...]
    phase: str | None
    stages: bool
    files: bool
    timeout: float
    name: str
    future: Future[CompileOutput]
    trusted: bool = False
    one_thread: bool = False
    located: bool = False


MOST_LIBRARIES = 4
"""The most libraries that the kernels of a program are divided among, on which its worker works at once."""


def default_workers() -> int:
    """How many modules are compiled at once: min(4, processors), or QUIRE_COMPILE_WORKERS."""
    named = environment.COMPILE_WORKERS.text()
    if named:
        return max(1, int(named))
    return min(4, available_cpus())


class CompileService:
    """Compiles modules in worker processes; safe to use from many threads.

    Args:
        workers: how many processes at most; they start when they are needed.
        warm_up_flags: the flags of the trivial program that a new worker compiles to be fast at its first job;
            empty: none.
    """

    def __init__(self, workers: int | None = None, warm_up_flags: Sequence[str] = ()) -> None:
        self._max_workers = workers or default_workers()
        self._warm_up_flags = tuple(warm_up_flags)
        self._lock = threading.Condition()
        self._jobs: collections.deque[_Job | None] = collections.deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._workers: set[WorkerProcess] = set()
        self._running: dict[Future[CompileOutput], WorkerProcess] = {}
        self._abandoned: set[Future[CompileOutput]] = set()
        self._closed = False

    # -- the public side

    def warm_up(self) -> None:
        """Starts a worker in the background, unless there is one. Returns at once."""
        with self._lock:
            if not self._threads and not self._closed:
                self._start_thread(prepare=True)

    def submit(
        self,
        module: bytes | str,
        flags: Sequence[str],
        *,
        phase: str | None = None,
        stages: bool = False,
        files: bool = False,
        timeout: float | None = None,
        name: str = "module",
        trusted: bool = False,
        one_thread: bool = False,
        located: bool = False,
    ) -> Future[CompileOutput]:
        """Queues a compile; the arguments are those of `compile`. Raises ValueError for an unknown phase."""
        if phase is not None and phase not in PHASES:
            raise ValueError(f"IREE has no phase {phase!r}; its phases are {', '.join(PHASES)}")
        if timeout is None:
            timeout = float(environment.COMPILE_TIMEOUT.text() or DEFAULT_TIMEOUT)
        data = module.encode() if isinstance(module, str) else bytes(module)
        return self._enqueue(
            _Job(
                "compile",
                data,
                tuple(flags),
                phase,
                stages,
                files,
                timeout,
                name,
                Future(),
                trusted,
                one_thread,
                located,
            )
        )

    def compile(
        self,
        module: bytes | str,
        flags: Sequence[str],
        *,
        phase: str | None = None,
        stages: bool = False,
        files: bool = False,
        timeout: float | None = None,
        name: str = "module",
        trusted: bool = False,
        one_thread: bool = False,
        located: bool = False,
    ) -> CompileOutput:
        """Compiles a module and waits for the result.

        Args:
            module: MLIR, text or bytecode.
            flags: options of iree-compile.
            phase: stop after this phase of `PHASES` and return the module's text.
            stages: also return the text after every phase.
            files: also return the target's files (assembly, objects, SPIR-V, PTX).
            timeout: seconds; default QUIRE_COMPILE_TIMEOUT or 120.
            name: the program's name in messages and in the reproducer's path.
            trusted: the program is called with arguments of the right shapes and types only, and need not check
                (0.2 us an argument on the CPU).
            one_thread: the program will run on the calling thread, on no other device than `local-sync`.
            located: texts of phases name each operation's location (of IREE's own phases, only the last does).

        Raises:
            CompileError: the compiler rejected the module, crashed, or exceeded the time limit.
        """
        future = self.submit(
            module,
            flags,
            phase=phase,
            stages=stages,
            files=files,
            timeout=timeout,
            name=name,
            trusted=trusted,
            one_thread=one_thread,
            located=located,
        )
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):  # nobody wants the result: the worker is for the next compile
            self._abandon(future)
            raise

    def export(
        self, module: bytes | str, flags: Sequence[str], *, name: str = "module", timeout: float | None = None
    ) -> CompileOutput:
        """Compiles a module's kernels to an object (`files`), and gives what the host does between them (`host`).

        The object's one function is ``NAME_library_query``.

        Raises:
            CompileError: as of `compile`.
            ExportError: the program needs something that only IREE's runtime does.
        """
        limit = float(environment.COMPILE_TIMEOUT.text() or DEFAULT_TIMEOUT) if timeout is None else timeout
        data = module.encode() if isinstance(module, str) else bytes(module)
        future = self._enqueue(_Job("export", data, tuple(flags), None, False, True, limit, name, Future()))
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            self._abandon(future)
            raise

    def to_text(self, module: bytes, *, timeout: float = 30.0) -> str:
        """MLIR bytecode as text."""
        job = _Job("text", module, (), None, False, False, timeout, "text", Future())
        return self._enqueue(job).result().text or ""

    def close(self) -> None:
        """Ends the workers; compiles under way fail."""
        with self._lock:
            self._closed = True
            jobs = [job for job in self._jobs if job]
            self._jobs.clear()
            self._jobs.extend([None] * len(self._threads))
            workers = list(self._workers)
            self._lock.notify_all()
        for job in jobs:
            job.future.cancel()
        for worker in workers:
            worker.process.kill()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)
        for worker in workers:
            self._drop(worker)

    # -- threads: one a worker

    def _abandon(self, future: Future[CompileOutput]) -> None:
        if not future.cancel():
            with self._lock:
                self._abandoned.add(future)
                worker = self._running.get(future)
            if worker is not None:
                worker.process.kill()

    def _enqueue(self, job: _Job) -> Future[CompileOutput]:
        with self._lock:
            if self._closed:
                raise CompileError("the compile service is closed")
            self._jobs.append(job)
            if self._idle < len(self._jobs) and len(self._threads) < self._max_workers:
                self._start_thread(prepare=False)
            self._lock.notify()
        return job.future

    def _start_thread(self, prepare: bool) -> None:
        name = f"quire-compile-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, args=(prepare,), name=name, daemon=True)
        self._threads.append(thread)
        self._idle += 1
        thread.start()

    def _serve(self, prepare: bool) -> None:
        worker = self._prepared_worker() if prepare else None
        while True:
            with self._lock:
                while not self._jobs:
                    self._lock.wait()
                job = self._jobs.popleft()
                if job is None:
                    return
                self._idle -= 1
            if job.future.set_running_or_notify_cancel():
                try:
                    worker = self._complete(worker, job)
                except BaseException as error:
                    job.future.set_exception(error)
                if worker is not None and (not worker.alive or worker.rss_kb > RETIRE_KB):
                    self._drop(worker)
                    # The next compile should not wait for the start.
                    worker = self._prepared_worker()
            with self._lock:
                self._idle += 1

    def _complete(self, worker: WorkerProcess | None, job: _Job) -> WorkerProcess:
        """Runs the job, with another worker where one dies. Returns the worker last used.

        IR that somebody looks at is verified after each pass. Other jobs are where they fail, for the diagnostic. A job
        during which the system killed the worker is run once more: that was about memory, and not about the module.
        """
        verify, deaths, kills = job.stages or job.phase is not None, 0, 0
        while True:
            if worker is None or not worker.alive:
                self._drop(worker)
                worker = self._new_worker()
            try:
                job.future.set_result(self._run(worker, job, verify, kills > 0))
                return worker
            except WorkerDied as death:
                if death.begun and death.killed and not self._closed:
                    kills += 1
                    continue
                deaths += not death.begun
                if self._closed or deaths == 3:
                    raise CompileError(
                        "the compile service was closed during a compile"
                        if self._closed
                        else f"the compiler's process {death.reason} before it could compile {job.name!r}"
                        + _last_said(death.said)
                    ) from None
                verify = verify or death.begun

    def _new_worker(self, warm_up_flags: Sequence[str] = ()) -> WorkerProcess:
        try:
            worker = WorkerProcess(warm_up_flags)
        except OSError as error:
            raise CompileError(f"the compiler's process could not be started: {error}") from error
        with self._lock:
            if not self._closed:
                self._workers.add(worker)
                return worker
        worker.kill()
        raise CompileError("the compile service is closed")

    def _prepared_worker(self) -> WorkerProcess | None:
        """A worker ahead of its first job; None where that cannot be: the job will tell why."""
        if self._closed:
            return None
        try:
            return self._new_worker(self._warm_up_flags)
        except CompileError:
            return None

    def _drop(self, worker: WorkerProcess | None) -> None:
        if worker is not None:
            with self._lock:
                self._workers.discard(worker)
            worker.kill()

    def _run(self, worker: WorkerProcess, job: _Job, verify: bool, again_killed: bool = False) -> CompileOutput:
        """Runs the job, with the retries of RETRIES; `again_killed`: a worker was killed during it already.

        Raises CompileError, or WorkerDied if it did not begin, was killed for the first time, or crashed without having
        been verified.
        """
        flags = job.flags
        while True:
            request: dict[str, Any] = {
                "op": job.op,
                "name": job.name,
                "module": job.module,
                "flags": flags,
                "verify": verify,
                "trusted": job.trusted,
                "one_thread": job.one_thread,
                "libraries": min(MOST_LIBRARIES, available_cpus()),
                "phase": job.phase,
                "located": job.located,
                "stages_to": tempfile.mkdtemp(prefix="quire-") if job.stages else None,
                "files_to": tempfile.mkdtemp(prefix="quire-") if job.files else None,
            }
            with self._lock:
                self._running[job.future] = worker
            try:
                answer = worker.run(request, job.timeout)
            except WorkerDied as death:
                if job.future in self._abandoned:
                    raise CompileError(f"the compile of {job.name!r} was interrupted") from None
                if self._closed or not death.begun:
                    raise
                if death.killed:
                    if not again_killed:
                        raise
                    raise CompileError(
                        f"the system killed IREE's compiler twice (SIGKILL) while it compiled {job.name!r}: most often "
                        "memory has run out. Free some, compile fewer programs at once (QUIRE_COMPILE_WORKERS=1), or "
                        "make the program smaller: a loop (lax.scan) instead of repeated code, no large constants"
                    ) from None
                if not (verify or death.late):
                    raise
                raise self._failure(job, flags, death.reason, [], death.said) from None
            finally:
                with self._lock:
                    del self._running[job.future]
                    self._abandoned.discard(job.future)
            diagnostics = tuple(answer["diagnostics"])
            said = worker.said.decode("utf-8", "replace")
            worker.rss_kb = answer["rss_kb"]
            if answer["ok"]:
                return CompileOutput(
                    without_branch_moves(answer["vmfb"]) if answer["vmfb"] else b"",
                    answer["seconds"],
                    diagnostics,
                    flags,
                    answer["text"] or None,
                    _stage_texts(answer["stages"]),
                    answer["files"],
                    _phase_seconds(answer.get("started", 0.0), answer.get("written", {})) or answer["phases"],
                    answer.get("host", {}),
                )
            messages = "\n".join([*(text for _, text in diagnostics), answer["error"]])
            refused, _, reason = answer["error"].partition(": ")
            if job.op == "export" and refused in ("NotExported", "NotPlanned"):
                raise ExportError(
                    f"{job.name!r} cannot be exported, because only quire's own runtime does this: {reason}. Leave it out "
                    "of the exported function: compute it before or after the call"
                )
            again = retry_flags(messages, flags)
            if again is None and not verify:
                again, verify = flags, True
            if again is None:
                problem = [*diagnostics, ("error", answer["error"])] if answer["error"] else diagnostics
                raise self._failure(job, flags, "reported an error", problem, said)
            flags = again

    def _failure(
        self, job: _Job, flags: tuple[str, ...], reason: str, diagnostics: Sequence[tuple[str, str]], said: str
    ) -> CompileError:
        user, message = first_diagnostic(diagnostics)
        if not message:
            message = next((line.strip() for line in said.splitlines() if "error:" in line), "")[:300]
        what = f"IREE's compiler {reason} while compiling {job.name!r}"
        if job.op == "compile" and (no_room := problem("\n".join([message, said, *(text for _, text in diagnostics)]))):
            return CompileError(f"{what}: {no_room}" + (f"\n  first diagnostic: {message}" if message else ""))
        log = "\n".join([what, *(f"{severity}: {text}" for severity, text in diagnostics), said])
        try:
            text = None
            if job.op == "compile" and job.module[:4] == b"ML\xefR":
                text = self._text_for_reproducer(job.module)
            folder: Path | None = write_reproducer(job.name, job.module, flags, what, log, text=text)
        except OSError:
            folder = None
        lines = [what]
        if message:
            lines.append(f"  first diagnostic: {message}")
        if user:
            lines.append(f"  at {user}")
        if folder is not None:
            lines.append(f"  reproducer: {folder}")
        error = CompileError("\n".join(lines))
        error.reproducer = folder
        return error

    def _text_for_reproducer(self, module: bytes) -> str | None:
        """Bytecode as text, by a process of its own, because this thread's worker may be gone."""
        worker = None
        try:
            worker = WorkerProcess()
            answer = worker.run({"op": "text", "module": module, "flags": ()}, 10.0)
            return answer["text"] if answer["ok"] else None
        except (WorkerDied, OSError):
            return None
        finally:
            if worker is not None:
                worker.kill()


def _last_said(said: str) -> str:
    """The end of a process' output, for a message."""
    lines = said.strip().splitlines()[-3:]
    return ":" * bool(lines) + "".join(f"\n  {line[:300]}" for line in lines)


def _stage_texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Dumped phases by name: IREE calls the files ``module.1.input.mlir`` and so on."""
    found: list[tuple[int, str, str]] = []
    for name, data in files.items():
        match = re.search(r"\.(\d+)\.([a-z-]+)\.(?:mlir|txt)$", name)
        if match:
            found.append((int(match[1]), match[2], data.decode("utf-8", "replace")))
    return {name: text for _, name, text in sorted(found)}


def _phase_seconds(started: float, written: Mapping[str, float]) -> dict[str, float]:
    """The time of each phase, from when its dump was written."""
    found: dict[str, float] = {}
    for name, at in sorted(written.items(), key=lambda item: item[1]):
        match = re.search(r"\.\d+\.([a-z-]+)\.(?:mlir|txt)$", name)
        if match:
            found[match[1]] = max(0.0, at - started)
            started = at
    return found


_service: CompileService | None = None
_service_lock = threading.Lock()


def compile_service() -> CompileService:
    """The process-wide service, made at the first call."""
    global _service
    with _service_lock:
        if _service is None:
            from quire.backends.targets import TARGETS

            _service = CompileService(warm_up_flags=TARGETS["cpu"].flags)
            atexit.register(_service.close)
        return _service


def _after_fork() -> None:
    """In a forked child: the parent's workers are not ours. Their pipes are closed, so that they see their end."""
    global _service, _service_lock
    inherited, _service, _service_lock = _service, None, threading.Lock()
    if inherited is not None:
        atexit.unregister(inherited.close)
        for worker in inherited._workers:
            worker.process.returncode = 0  # not our child: nothing to wait for
            worker.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

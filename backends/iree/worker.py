"""The compiler's own process: reads jobs from standard input, compiles them with libIREECompiler, answers.

The parent starts this *file* (not a module of the package) with ``python -I -S``, and only built-in modules and
ctypes are imported, and files beside this one, so that the process is ready in about 30 ms and holds nothing but
the compiler. A compiler that aborts, exits or hangs takes only this process with it.

Protocol: a frame is an 8-byte little-endian length and a ``marshal`` value (both ends are the same Python). The
compiler's own output on file descriptors 1 and 2 goes to standard error, never among the frames. A job is first
acknowledged: a worker that dies before has not died of the job.

Job: ``{"op": "compile", "export" or "text", "module", "name", "flags", "verify", "trusted", "one_thread", "libraries", "phase",
"located", "stages_to", "files_to"}``, the last two folders; "libraries" is how many a program may have. With ``verify``, and
up to a phase, IREE's own pipelines run, otherwise those of pipelines.py; the stream phase is that of pipelines.py in any case.
Of an export, the kernels' object and its one function bear the name.
Answer: ``{"ok", "error", "vmfb", "text", "stages", "files", "host", "diagnostics", "phases", "seconds", "rss_kb"}``; diagnostics
are ``(severity, text)`` pairs, and ``host`` is what host_steps.py gives (of an export). With stages also ``"started"`` and
``"written"``, the times at which their files were.
"""

from __future__ import annotations

import _queue
import _thread
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from typing import Any

# With -I, this file's folder is not searched. Its parent holds `plan`, and a folder named as IREE's own package, so that
# both are on the path for these imports only: processes that a test spawns take the path over.
_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [_folder, os.path.dirname(_folder)]
try:
    from compiler import Compiler, CompilerError
    from host_steps import NotExported
    from invocation import CPU, Invocation
    from planned import NotPlanned, PlanError
finally:
    del sys.path[:2]

WARM_UP_MODULE = b"""func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


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
        # What shows executables shows one, and what runs in one thread calls its kernels, which are to be beside it.
        one = job["op"] != "compile" or job.get("files_to") or job.get("one_thread")
        invocation = Invocation(compiler, job["module"], flags, 1 if one else job.get("libraries", 1))
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
    except (CompilerError, NotExported, NotPlanned, PlanError) as error:
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

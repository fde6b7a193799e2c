"""The compile service: what it gives, and that no failure of the compiler does harm."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from quire.backends.iree import CompileService, retry_flags, system_link_flags
from quire.backends.iree.reproducer import KEEP, first_diagnostic, split_location, write_reproducer
from quire.backends.iree.worker_process import WorkerProcess
from quire.backends.targets import get_target
from quire.ir.errors import CompileError, QuireError

FLAGS = get_target("cpu").flags
ADD = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
HANG = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
ILLEGAL = """func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.cholesky"(%a) {lower = true} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("user.py":12:3)
  return %0 : tensor<4x4xf32>
}"""
UNREGISTERED = ADD.replace(
    "stablehlo.add %a, %b : tensor<4xf32>", '"my.op"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
)
# a loop whose condition reads a value that is only written, and that is returned
WRITE_ONLY_CARRY = """func.func @main(%x0: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %e0 = stablehlo.constant dense<1.0> : tensor<f32>
  %tol = stablehlo.constant dense<0.001> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %r:2 = stablehlo.while(%x = %x0, %err = %e0) : tensor<f32>, tensor<f32>
    cond {
      %c = stablehlo.compare GT, %err, %tol : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.multiply %x, %half : tensor<f32>
      %d = stablehlo.subtract %y, %x : tensor<f32>
      %new = stablehlo.abs %d : tensor<f32>
      stablehlo.return %y, %new : tensor<f32>, tensor<f32>
    }
  return %r#0, %r#1 : tensor<f32>, tensor<f32>
}"""


@pytest.fixture(scope="module")
def service():
    service = CompileService(workers=2)
    yield service
    service.close()


@pytest.fixture(autouse=True)
def reproducers(tmp_path, monkeypatch):
    monkeypatch.setenv("QUIRE_REPRODUCER_DIR", str(tmp_path / "reproducers"))
    return tmp_path / "reproducers"


def failure(service, module, flags=FLAGS, **options):
    """The CompileError of a compile, and its reproducer's folder; the next compile must work."""
    with pytest.raises(CompileError) as caught:
        service.compile(module, flags, name="doomed", **options)
    assert service.compile(ADD, FLAGS, phase="input").text is not None
    message = str(caught.value)
    assert len(message) < 1500 and message.count("\n") <= 3
    line = next(line for line in message.splitlines() if "reproducer: " in line)
    return message, line.split("reproducer: ")[1]


def test_output_is_a_module_and_tells_the_time(service):
    output = service.compile(ADD, FLAGS, name="add")
    assert len(output.vmfb) > 1000 and output.text is None
    assert 0 < output.seconds < 60
    assert output.flags == FLAGS


def test_a_compile_is_one_job(service, monkeypatch):
    """The second half, which is verified, starts where the first one ended: a failure there would repeat all of it."""
    answers = []
    run = WorkerProcess.run

    def recorded(worker, job, timeout):
        answers.append(run(worker, job, timeout))
        return answers[-1]

    monkeypatch.setattr(WorkerProcess, "run", recorded)
    assert service.compile(ADD, FLAGS).vmfb
    assert [a["ok"] for a in answers] == [True]


def test_bytecode_is_accepted(service):
    import io

    from iree.compiler import ir

    with ir.Context():
        data = io.BytesIO()
        ir.Module.parse(ADD).operation.write_bytecode(data)
    assert service.compile(data.getvalue(), FLAGS, phase="input").text
    assert "stablehlo.add" in service.to_text(data.getvalue())


def test_phase_gives_text(service):
    assert "flow.executable" in service.compile(ADD, FLAGS, phase="flow").text
    with pytest.raises(ValueError, match="no phase 'flux'.*flow, plan, stream"):
        service.compile(ADD, FLAGS, phase="flux")


def test_stages_and_files_of_one_compile(service):
    output = service.compile(ADD, FLAGS, stages=True, files=True)
    assert list(output.stages)[0] == "input" and list(output.stages)[-1] == "vm"
    assert "stream.executable" in output.stages["stream"] and "vm.module" in output.stages["vm"]
    assembly = [data for name, data in output.files.items() if name.endswith(".s")]
    assert len(assembly) == 1 and b".text" in assembly[0]
    assert output.vmfb


def test_spirv_and_ptx_are_among_the_files(service):
    vulkan = service.compile(ADD, get_target("vulkan").flags, files=True)
    assert any(name.endswith((".spv", ".spirv")) or "spirv" in name for name in vulkan.files)
    cuda = service.compile(ADD, get_target("cuda").flags, files=True)
    assert any(b".visible .entry" in data for data in cuda.files.values())


FLOATS = """func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<1024x4xf16>, tensor<64x64xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<64x64xf32>
  %some = stablehlo.constant dense<[0.0, -0.0, 1.0, 2.0]> : tensor<4xf16>
  %0 = stablehlo.multiply %x, %zeros : tensor<64x64xf32>
  %1 = stablehlo.reshape %x : (tensor<64x64xf32>) -> tensor<1024x4xf32>
  %2 = stablehlo.convert %1 : (tensor<1024x4xf32>) -> tensor<1024x4xf16>
  %3 = stablehlo.broadcast_in_dim %some, dims = [1] : (tensor<4xf16>) -> tensor<1024x4xf16>
  %4 = stablehlo.add %2, %3 : tensor<1024x4xf16>
  %5 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %4, %5 : tensor<64x64xf32>, tensor<1024x4xf16>, tensor<64x64xf32>
}"""


@pytest.mark.parametrize("target", ["vulkan", "metal"])
def test_arithmetic_in_spirv_is_not_simplified_by_drivers(service, target):
    """Each operation is decorated, none has a zero that is known; products of matrices stay multiply-adds."""
    flags = get_target(target).flags
    text = service.compile(FLOATS, flags, phase="executable-targets").text
    operations = re.findall(r"spirv\.F(?:Add|Sub|Mul|Div|Rem|Mod|Negate) .*", text)
    assert len(operations) > 1 and all("{no_contraction}" in line for line in operations)
    assert "spirv.GL.Fma" in text
    zeros = re.findall(r"(%\w+) = spirv\.Constant (?:dense<.*\b0\.0+e\+00.*>|-?0\.0+e\+00) :", text)
    assert zeros
    for line in re.findall(r"(?<== )spirv\.(?:F\w+|GL\.Fma) .*", text):
        assert not set(re.findall(r"%\w+", line)) & set(zeros), line
    output = service.compile(FLOATS, flags, stages=True)
    assert output.vmfb and "no_contraction" in output.stages["executable-targets"]


def test_compiles_run_at_once_in_several_workers(service):
    futures = [service.submit(ADD, FLAGS, name=f"f{i}") for i in range(4)]
    assert all(future.result().vmfb for future in futures)
    assert len(service._workers) == 2


def test_bad_module(service):
    message, _ = failure(service, ADD.replace("stablehlo.add", "stablehlo.addx"))
    assert "reported an error while compiling 'doomed'" in message
    assert "first diagnostic: custom op 'stablehlo.addx' is unknown" in message


def test_the_users_line_is_named(service):
    message, _ = failure(service, ILLEGAL)
    assert "failed to legalize operation 'stablehlo.cholesky'" in message
    assert "  at user.py:12" in message


def test_unknown_flag(service):
    message, _ = failure(service, ADD, (*FLAGS, "--iree-nonsense"))
    assert "iree-nonsense" in message


@pytest.mark.parametrize(
    "module, flags, reason",
    [
        (UNREGISTERED, FLAGS, "crashed (SIGSEGV)"),
        (WRITE_ONLY_CARRY, FLAGS, ""),  # a crash or an error, by chance
        (ADD, (FLAGS[0], "--iree-llvmcpu-target-cpu=nonsense"), "ended its process (exit status 1)"),
    ],
    ids=["segfault", "write-only-carry", "exit"],
)
def test_the_end_of_the_worker_is_an_error(service, module, flags, reason):
    message, _ = failure(service, module, flags)
    assert reason in message


def test_time_limit(service):
    start = time.perf_counter()
    message, _ = failure(service, HANG, timeout=0.7)
    assert "did not finish within 0.7 s" in message
    assert time.perf_counter() - start < 10


def test_time_limit_from_the_environment(service, monkeypatch):
    monkeypatch.setenv("QUIRE_COMPILE_TIMEOUT", "0.5")
    with pytest.raises(CompileError, match=r"within 0\.5 s"):
        service.compile(HANG, FLAGS)


@pytest.fixture
def alone():
    """A service with one worker of its own."""
    service = CompileService(workers=1)
    yield service
    service.close()


def kill(service):
    for worker in list(service._workers):
        os.kill(worker.process.pid, signal.SIGKILL)


def kill_in_a_compile(service, killed=()):
    """Kill the worker that is compiling and is none of `killed`; returns its process' number."""
    while True:
        for worker in list(service._workers):
            if worker.begun and worker.process.pid not in killed and worker.alive:
                os.kill(worker.process.pid, signal.SIGKILL)
                return worker.process.pid
        time.sleep(0.01)


def test_a_worker_that_the_system_kills_is_replaced_once(alone, reproducers):
    future = alone.submit(HANG, FLAGS, name="killed", timeout=20)
    first = kill_in_a_compile(alone)
    assert not future.done()
    kill_in_a_compile(alone, {first})
    with pytest.raises(CompileError) as caught:
        future.result(20)
    assert str(caught.value).startswith("the system killed IREE's compiler twice (SIGKILL) while it compiled 'killed'")
    assert "QUIRE_COMPILE_WORKERS=1" in str(caught.value) and not reproducers.exists()
    assert alone.compile(ADD, FLAGS, phase="input").text


def test_a_compile_succeeds_after_its_worker_was_killed(alone, monkeypatch):
    run, killed = WorkerProcess.run, []

    def killing(worker, job, timeout):
        if not killed:
            killed.append(worker)
            job = {**job, "module": HANG.encode()}
            timer = threading.Timer(0.5, worker.process.kill)
            timer.start()
        return run(worker, job, timeout)

    monkeypatch.setattr(WorkerProcess, "run", killing)
    assert alone.compile(ADD, FLAGS).vmfb and killed


def test_a_full_folder_for_temporary_files_is_named(monkeypatch, tmp_path, reproducers):
    from quire.backends.iree import temporary

    # What the linker says in a full folder, and in one that fills while an object file is written.
    for said in ("iree-lld: error: target emulation unknown: -m or at least one .o file required",
                 "iree-lld: error: /t/main.o: section header table goes past the end of the file: e_shoff = 0x2950"):  # fmt: skip
        found = temporary.problem(said)
        assert found is not None and f"a temporary file in {temporary.folder()}" in found and "are free" in found
    assert temporary.problem("custom op 'stablehlo.addx' is unknown") is None
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    service = CompileService(workers=1)
    try:
        with pytest.raises(
            CompileError, match=r"while compiling 'f': the folder for temporary files, .*missing, does not"
        ):
            service.compile(ADD, (*FLAGS, *system_link_flags()), name="f")
    finally:
        service.close()
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    class Full:
        def __init__(self, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(temporary.tempfile, "TemporaryFile", Full)
    found = temporary.problem()
    assert found is not None and found.startswith(
        f"the folder for temporary files, {tmp_path}, cannot take another 1 MiB (No"
    )
    assert "are free): free some room, or set TMPDIR" in found


def test_an_interrupted_compile_frees_its_worker(alone, reproducers):
    def interrupt(*_):
        raise KeyboardInterrupt

    alone.compile(ADD, FLAGS, phase="input")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            alone.compile(HANG, FLAGS, timeout=50)
    finally:
        signal.signal(signal.SIGALRM, before)
    start = time.perf_counter()
    assert alone.compile(ADD, FLAGS, phase="input").text
    assert time.perf_counter() - start < 10 and not reproducers.exists()


def test_a_worker_that_dies_while_idle_is_no_error(alone):
    for _ in range(3):
        assert alone.compile(ADD, FLAGS, phase="input").text
        kill(alone)


def test_a_worker_that_cannot_start_is_an_error(monkeypatch):
    monkeypatch.setattr("quire.backends.iree.worker_process.compiler_library", lambda: "/nowhere/libIREECompiler.so")
    service = CompileService(workers=1)
    with pytest.raises(CompileError, match=r"ended its process \(exit status 1\) before it could compile 'f'") as e:
        service.compile(ADD, FLAGS, name="f")
    assert "OSError: /nowhere/libIREECompiler.so: cannot open shared object file" in str(e.value)
    service.close()


def test_reproducer_repeats_the_failure(service):
    from pathlib import Path

    message, folder = failure(service, ILLEGAL)
    names = sorted(path.name for path in Path(folder).iterdir())
    assert names == ["README.md", "command.sh", "diagnostics.txt", "flags.txt", "module.mlir"]
    assert Path(folder, "module.mlir").read_text() == ILLEGAL
    assert Path(folder, "flags.txt").read_text().split() == list(FLAGS)
    readme = Path(folder, "README.md").read_text()
    assert "iree-compile module.mlir" in readme and "iree-base-compiler 3." in readme
    repeated = subprocess.run(["sh", "command.sh"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert repeated.returncode == 1 and "stablehlo.cholesky" in repeated.stderr


def test_reproducer_of_bytecode_has_text_too(service):
    import io
    from pathlib import Path

    from iree.compiler import ir

    with ir.Context():
        data = io.BytesIO()
        ir.Module.parse(ILLEGAL).operation.write_bytecode(data)
    message, folder = failure(service, data.getvalue())
    assert "  at user.py:12" in message
    assert Path(folder, "module.mlirbc").read_bytes() == data.getvalue()
    assert "stablehlo.cholesky" in Path(folder, "module.mlir").read_text()


def test_reproducers_are_bounded(reproducers):
    for i in range(KEEP + 3):
        write_reproducer(f"r{i}", b"module {}", (), "it failed", "")
    assert len(list(reproducers.iterdir())) == KEEP


def test_unwritable_reproducer_folder_goes_elsewhere(service, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("QUIRE_REPRODUCER_DIR", str(blocked / "below"))
    _, folder = failure(service, ILLEGAL)
    assert os.path.exists(os.path.join(folder, "module.mlir"))


def test_error_class():
    assert issubclass(CompileError, QuireError) and issubclass(CompileError, RuntimeError)


def test_diagnostics_with_and_without_location():
    assert split_location("module.mlir:1:60: custom op") == (None, "custom op")
    assert split_location("a/b.py:3:4: bad thing") == ("a/b.py:3", "bad thing")
    assert split_location("<unknown>:0: bad thing") == (None, "bad thing")
    assert split_location('loc(fused["a.py":3:0, "b"]): bad') == ("a.py:3", "bad")
    diagnostics = [("warning", "x.py:1:1: careful"), ("error", "module.mlir:2:1: no"), ("error", "u.py:5:1: but")]
    assert first_diagnostic(diagnostics) == ("u.py:5", "no")
    assert first_diagnostic([]) == (None, "")


def test_retries_of_known_diagnostics():
    fuse = "--iree-dispatch-creation-fuse-multi-use=false"
    assert retry_flags("circular dependency: input operation uses partition output", FLAGS) == (*FLAGS, fuse)
    assert retry_flags("OUT_OF_RANGE; binding count 41 > 32", FLAGS) == (*FLAGS, fuse)
    assert retry_flags("binding count 41 > 32", (*FLAGS, fuse)) is None
    assert retry_flags("exceeded stack allocation limit", ())[0].endswith("aggressive-fusion=false")
    workgroups = "'vector.store' op write ... restricted to workgroup distributed contexts"
    once = retry_flags(workgroups, FLAGS)
    assert once == (*FLAGS, fuse)
    assert retry_flags(workgroups, once) == (*once, "--iree-dispatch-creation-enable-aggressive-fusion=false")
    assert retry_flags("something else", FLAGS) is None


def test_a_scatter_that_exceeds_the_stack_is_compiled_again(service):
    # The indices are computed in the program: at O3 their producer is fused into the scatter.
    module = """
    func.func @main(%x: tensor<64x64xf32>, %i: tensor<20000x1xi32>, %u: tensor<20000x64xf32>) -> tensor<64x64xf32> {
      %n = stablehlo.constant dense<63> : tensor<20000x1xi32>
      %j = stablehlo.minimum %i, %n : tensor<20000x1xi32>
      %v = stablehlo.add %u, %u : tensor<20000x64xf32>
      %0 = "stablehlo.scatter"(%x, %j, %v) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} :
        (tensor<64x64xf32>, tensor<20000x1xi32>, tensor<20000x64xf32>) -> tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }"""
    output = service.compile(module, FLAGS, name="scatter")
    assert output.flags == (*FLAGS, "--iree-dispatch-creation-enable-aggressive-fusion=false")


def test_f64_transcendentals_link_with_the_system_flags(service):
    sine = ADD.replace("stablehlo.add %a, %b : tensor<4xf32>", "stablehlo.sine %a : tensor<4xf64>")
    sine = sine.replace("tensor<4xf32>", "tensor<4xf64>")
    assert service.compile(sine, (*FLAGS, *system_link_flags())).vmfb


def test_warm_up_returns_at_once_and_starts_one_worker():
    service = CompileService(workers=2, warm_up_flags=FLAGS)
    start = time.perf_counter()
    service.warm_up()
    service.warm_up()
    assert time.perf_counter() - start < 0.1
    assert service.compile(ADD, FLAGS, phase="input").text
    assert len(service._workers) == 1
    service.close()
    with pytest.raises(CompileError, match="closed"):
        service.compile(ADD, FLAGS)


def test_closing_ends_waiting_compiles():
    service = CompileService(workers=1)
    hanging = service.submit(HANG, FLAGS)
    waiting = service.submit(ADD, FLAGS)
    time.sleep(0.3)
    service.close()
    with pytest.raises(CompileError, match="closed"):
        hanging.result(10)
    assert waiting.cancelled()


def test_many_threads(service):
    errors = []

    def work():
        try:
            assert service.compile(ADD, FLAGS, phase="input").text
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def run(script, **options):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, **options)


PREAMBLE = f"""
import os, time
from quire.backends.iree import compile_service
from quire.backends.targets import get_target
FLAGS = get_target("cpu").flags
HANG = {HANG!r}
ADD = {ADD!r}
service = compile_service()
"""


def gone(pid):
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().split()[2] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_exit_does_not_wait_for_a_compile():
    start = time.perf_counter()
    result = run(
        PREAMBLE + "service.submit(HANG, FLAGS)\ntime.sleep(0.5)\nprint([w.process.pid for w in service._workers][0])"
    )
    assert result.returncode == 0 and result.stderr == ""
    assert time.perf_counter() - start < 10
    assert gone(int(result.stdout))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_worker_ends_with_its_parent_even_in_a_compile():
    result = run(
        PREAMBLE + "service.submit(HANG, FLAGS)\ntime.sleep(0.5)\n"
        "print([w.process.pid for w in service._workers][0], flush=True)\nos.kill(os.getpid(), 9)"
    )
    assert result.returncode == -9
    assert gone(int(result.stdout))


def test_a_forked_child_has_its_own_service():
    result = run(
        PREAMBLE
        + """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
assert service.compile(ADD, FLAGS, phase="input").text
pid = os.fork()
if pid == 0:
    assert compile_service() is not service
    assert compile_service().compile(ADD, FLAGS, phase="input").text
    compile_service().close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert service.compile(ADD, FLAGS, phase="input").text
print("fine")
"""
    )
    assert result.stdout == "fine\n", result.stderr


def test_a_compile_imports_no_compiler_into_the_users_process():
    result = run(
        PREAMBLE
        + """
import sys
assert service.compile(ADD, FLAGS, phase="input").text
print([m for m in ("iree.compiler", "iree.compiler.ir", "jax") if m in sys.modules])"""
    )
    assert result.stdout == "[]\n"


def test_the_workers_folders_are_not_on_the_path_of_this_process():
    # `backends/` holds a folder with the name of IREE's package, which processes that are spawned from here would import.
    from quire.backends.iree import worker

    folders = {os.path.dirname(worker.__file__), os.path.dirname(os.path.dirname(worker.__file__))}
    assert not folders & set(sys.path)

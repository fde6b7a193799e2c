"""Executables: loading, calling, failing."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from quire.backends.iree import compile_service, system_link_flags
from quire.ir.errors import CompileError
from quire.runtime.buffers import aligned_empty, from_numpy, to_numpy
from quire.runtime.devices import devices
from quire.runtime.executable import Executable, ExecutionError

MODULE = """
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @three(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>, tensor<4xf32>) {
  %0 = stablehlo.multiply %a, %a : tensor<4xf32>
  %1 = stablehlo.constant dense<42> : tensor<i32>
  return %0, %1, %a : tensor<4xf32>, tensor<i32>, tensor<4xf32>
}
func.func @nothing(%a: tensor<4xf32>) { return }
func.func @constant() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @large(%a: tensor<1000000xf32>) -> tensor<1000000xf32> {
  %0 = stablehlo.add %a, %a : tensor<1000000xf32>
  return %0 : tensor<1000000xf32>
}
"""
MODES = ["sync", "task"]


@pytest.fixture
def load(compiled, device):
    return lambda entry="main", mode="sync": Executable.load(
        compiled(MODULE, device.platform), device, entry=entry, driver=mode
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("result_bytes", [None, 16])
def test_results(load, device, mode, result_bytes):
    a = from_numpy(np.arange(4, dtype=np.float32), device)

    def host(views):
        return [to_numpy(view, device).tolist() for view in views]

    main = load("main", mode)
    assert main.n_results == 1 and main.mode == mode and main.device is device
    assert host(main.execute([a, a])) == [[0, 2, 4, 6]]
    assert host([main.make_call(result_bytes)((a, a))]) == [[0, 2, 4, 6]]
    three = load("three", mode)
    expected = [[0, 1, 4, 9], 42, [0, 1, 2, 3]]
    assert host(three.execute((a,))) == host(three.make_call(result_bytes)([a])) == expected
    nothing = load("nothing", mode)
    assert nothing.n_results == 0 and nothing.execute([a]) == nothing.make_call(result_bytes)([a]) == []
    constant = load("constant", mode)
    assert host(constant.execute([])) == host([constant.make_call(result_bytes)(())]) == [[1, 2]]


def test_results_of_successive_calls_are_separate(load, device):
    call = load().make_call(16)
    one, two = (from_numpy(np.full(4, value, np.float32), device) for value in (1, 2))
    first, second = call((one, one)), call((two, two))
    assert to_numpy(first, device).tolist() == [2] * 4 and to_numpy(second, device).tolist() == [4] * 4


def test_a_reused_result_list_is_only_for_small_results(load, device):
    call = load("large").make_call(4_000_000)
    a = from_numpy(np.ones(1_000_000, np.float32), device)
    before = None
    for _ in range(3):
        result = call((a,))
        assert to_numpy(result, device)[-1] == 2
        if device.is_host:
            in_use = device.memory_stats()["bytes_in_use"]
            assert before is None or in_use <= before
            before = in_use
        del result


def test_buffers_pass_between_the_modes(load, cpu, compiled):
    executable = Executable.load(compiled(MODULE), cpu)
    other = executable.with_mode("task")
    assert executable.with_mode("sync") is executable and other.mode == "task"
    a = from_numpy(np.ones(4, np.float32), cpu)
    for _ in range(3):
        a = other.make_call(16)((executable.make_call(16)((a, a)), a))
    assert to_numpy(a, cpu).tolist() == [27] * 4


@pytest.mark.parametrize("mode", MODES)
def test_several_threads(load, device, mode):
    executable = load("three", mode)
    call = executable.make_call(36)
    failures = []

    def work(value):
        a = from_numpy(np.full(4, value, np.float32), device)
        for _ in range(200):
            square, number, same = call((a,))
            got = to_numpy(square, device)[0], to_numpy(number, device)[()], to_numpy(same, device)[3]
            if got != (value * value, 42, value):
                failures.append((value, got))

    threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_wrong_arguments(load, device):
    call = load().make_call(16)
    a = from_numpy(np.zeros(4, np.float32), device)
    with pytest.raises(ExecutionError, match="INVALID_ARGUMENT; input0 shape dimension 0 .*expected 4 but have 5"):
        call((from_numpy(np.zeros(5, np.float32), device), a))
    with pytest.raises(ExecutionError, match="input1 element type mismatch"):
        call((a, from_numpy(np.zeros(4, np.int32), device)))
    with pytest.raises(ExecutionError, match="expected 2 arguments but passed 1"):
        load().execute([a])
    assert to_numpy(call((a, a)), device).tolist() == [0] * 4  # and it still works


def test_wrong_modules(cpu, compiled, load, device):
    with pytest.raises(ExecutionError, match="no function 'other'; it has main, three"):
        load("other")
    with pytest.raises(ExecutionError, match="could not be read"):
        Executable.load(b"not a module" * 100, cpu)
    truncated = compiled(MODULE)
    with pytest.raises(ExecutionError, match="could not be read"):
        Executable.load(truncated[: len(truncated) // 2], cpu)


@pytest.mark.vulkan
def test_a_program_for_another_device(compiled, vulkan, cpu):
    with pytest.raises(ExecutionError, match=r"could not be loaded on CpuDevice\(id=0\): .*__device_0"):
        Executable.load(compiled(MODULE, "vulkan"), cpu)


def test_a_failing_program_is_an_error(cpu):
    text = """func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : i32
      %n = tensor.extract %a[%c0] : tensor<4xi32>
      %few = arith.cmpi ult, %n, %c4 : i32
      cf.assert %few, "too many"
      %0 = stablehlo.add %a, %a : tensor<4xi32>
      return %0 : tensor<4xi32>
    }"""
    flags = (*cpu.target.flags, "--iree-opt-strip-assertions=false")  # -O3 strips them
    call = Executable.load(compile_service().compile(text, flags).vmfb, cpu).make_call()
    a, b = (from_numpy(np.full(4, n, np.int32), cpu) for n in (3, 4))
    assert to_numpy(call((a,)), cpu).tolist() == [6] * 4
    with pytest.raises(ExecutionError, match="'main' failed on CpuDevice.*FAILED_PRECONDITION; too many"):
        call((b,))


def test_sizes_are_known_when_a_program_is_compiled(cpu):
    text = """func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.add %a, %a : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(CompileError, match="NotPlanned: the size of an array is not known before it runs"):
        compile_service().compile(text, cpu.target.flags)


def test_imported_memory_is_used_in_place(cpu, compiled):
    array = aligned_empty((1_000_000,), np.float32)
    array[:] = 3
    call = Executable.load(compiled(MODULE), cpu, entry="large").make_call()
    result = to_numpy(call((from_numpy(array, cpu, copy=False),)), cpu)
    assert result.min() == result.max() == 6 and array.max() == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_system_linked_programs_leave_nothing_behind(cpu, tmp_path):
    def traces():
        links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        return [path for path in (os.readlink(link) for link in links if os.path.islink(link)) if "iree_dylib" in path]

    text = """func.func @main(%a: tensor<4xf64>) -> tensor<4xf64> {
      %0 = stablehlo.sine %a : tensor<4xf64>
      return %0 : tensor<4xf64>
    }"""
    vmfb = compile_service().compile(text, (*cpu.target.flags, *system_link_flags())).vmfb
    executables = [Executable.load(vmfb, cpu) for _ in range(3)]
    x = np.linspace(0, 1e6, 4)
    for executable in executables:
        [result] = executable.with_mode("task").execute([from_numpy(x, cpu)])
        np.testing.assert_allclose(to_numpy(result, cpu), np.sin(x), rtol=1e-14)
    assert traces() == []


def test_several_devices():
    script = r'''
import numpy as np
from quire.backends.iree import compile_service, system_link_flags
from quire.runtime.buffers import from_numpy, to_numpy
from quire.runtime.devices import devices
from quire.runtime.executable import Executable
text = """
func.func @main(%a: tensor<4xf32> {iree.abi.affinity = #hal.device.promise<@dev0>},
                %b: tensor<4xf32> {iree.abi.affinity = #hal.device.promise<@dev1>})
    -> (tensor<4xf32> {iree.abi.affinity = #hal.device.promise<@dev0>}) {
  %t = flow.tensor.transfer %b : tensor<4xf32> to #hal.device.promise<@dev0>
  %0 = stablehlo.add %a, %t : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
flags = ("--iree-hal-target-device=dev0=local[0]", "--iree-hal-target-device=dev1=local[1]",
         "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host",
         "--iree-input-demote-f64-to-f32=false")
two = devices("cpu")
vmfb = compile_service().compile(text, flags).vmfb
for mode in ("sync", "task"):
    executable = Executable.load(vmfb, two, driver=mode)
    a, b = (from_numpy(np.full(4, i + 1, np.float32), d) for i, d in enumerate(two))
    print(to_numpy(executable.make_call(16)((a, b)), two[0]).tolist())
'''
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "QUIRE_NUM_CPU_DEVICES": "2"},
    )
    assert result.stdout == "[3.0, 3.0, 3.0, 3.0]\n" * 2, result.stderr
    assert devices("cpu")


MEMORY = """
import re
import numpy as np
import quire
import quire.numpy as qnp

def resident():
    with open("/proc/self/status") as f:
        return int(re.search(r"VmRSS:\\s*(\\d+)", f.read())[1])

f = quire.jit(lambda x: qnp.sum(qnp.sort(qnp.sort(x, 1), 0), 0))
x = qnp.asarray(np.ones((2000, 2000), np.float32))
print(f.lower(x).compile().memory_analysis().temp_size_in_bytes)
for _ in range(3):
    y = f(x)
    print(resident() * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/self/status is Linux's")
def test_calls_take_the_memory_of_the_one_before():
    """A result behind the transient block took as much again at the second call."""
    output = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=100, check=True
    ).stdout
    temporaries, first, *later = map(int, output.split())
    assert temporaries > 20e6 and max(later) < first + temporaries / 4

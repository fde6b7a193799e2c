"""What IREE 3.13 does wrong with memory and order, each by a small module, through its own pipelines.

Where such a test fails, IREE has been mended: what avoids the fault, named in the message, may go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.iree import worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target
from quire.runtime import buffers
from quire.runtime.executable import Executable, ExecutionError

FLAGS = get_target("cpu").flags
X = np.arange(48, dtype=np.float32).reshape(8, 6)


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def run_by_iree(compiler: worker.Compiler, module: str, *args: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """A module's results, compiled by IREE's own pipelines throughout."""
    invocation = worker.Invocation(compiler, module.encode() + b"\0", FLAGS)
    assert invocation.parse() and invocation.run("vm"), invocation.diagnostics
    vmfb = compiler.output(compiler.lib.ireeCompilerInvocationOutputVMBytecode, invocation.invocation or 0)
    invocation.close()
    device = quire.devices("cpu")[0]
    given = [buffers.from_numpy(x, device, copy=True) for x in args]
    return [np.array(buffers.to_numpy(view, device)) for view in Executable.load(vmfb, device).execute(given)]


def after(compiler: worker.Compiler, module: str, passes: str) -> str:
    """A module's text after some of IREE's passes."""
    invocation = worker.Invocation(compiler, module.encode() + b"\0", FLAGS)
    assert invocation.parse() and invocation.run_passes(passes), invocation.diagnostics
    text = invocation.text().decode()
    invocation.close()
    return text


BESIDE = """func.func @main(%x: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<6xf32>, tensor<8x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<2x6xf32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %v = stablehlo.reverse %x, dims = [0] : tensor<8x6xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
  %u = stablehlo.dynamic_update_slice %v, %none, %six, %o
    : (tensor<8x6xf32>, tensor<2x6xf32>, tensor<i32>, tensor<i32>) -> tensor<8x6xf32>
  return %v, %s, %u : tensor<8x6xf32>, tensor<6xf32>, tensor<8x6xf32>
}"""


def test_a_copy_that_matters_is_elided(compiler):
    old, _, new = run_by_iree(compiler, BESIDE, X)
    np.testing.assert_array_equal(new[:6], X[::-1][:6])
    assert not np.array_equal(old, X[::-1]), (
        "iree-stream-elide-async-copies may be ours no more: see docs/architecture.md, 'The plan'"
    )


OWN = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %v = stablehlo.sine %x : tensor<8xf32>
  %w = stablehlo.slice %v [0:7] : (tensor<8xf32>) -> tensor<7xf32>
  %u = stablehlo.dynamic_update_slice %v, %w, %one : (tensor<8xf32>, tensor<7xf32>, tensor<i32>) -> tensor<8xf32>
  return %u : tensor<8xf32>
}"""


def test_a_value_is_updated_from_its_own_positions_without_a_copy(compiler):
    with pytest.raises(ExecutionError, match="source and target ranges overlap"):
        run_by_iree(compiler, OWN, X[0, :1].repeat(8))
        pytest.fail("the barrier of hlo.dynamic_update_slice may go")


OFFSET = """util.global private mutable @size : index
util.func private @use(index)
util.func public @main(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %size = util.global.load @size : index
  %offset = util.align %size, %c64 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%at = %offset) -> index {
    util.call @use(%at) : (index) -> ()
    scf.yield %c0 : index
  }
  util.return
}"""


def test_an_offset_that_comes_from_a_global_is_taken_for_that_of_the_other_turns(compiler):
    text = after(compiler, OFFSET, "util.func(iree-util-optimize-int-arithmetic)")
    assert "util.call @use(%c0)" in text, "iree-util-optimize-int-arithmetic may be used on buffers again"


def test_a_splat_of_several_readers_is_left_outside_of_execution(compiler):
    def gradient(w: Any, s: Any) -> Any:
        def loss(w: Any, s: Any) -> Any:
            f = qnp.fft.rfft2(s * qnp.ones((8, 8)))

            def step(w: Any, _: Any) -> Any:
                return w + 0.1 * (qnp.fft.rfft2(qnp.sin(qnp.fft.irfft2(w))) + f), None

            return qnp.sum(qnp.fft.irfft2(lax.scan(step, w, None, length=2)[0]) ** 2)

        return quire.grad(loss, (0, 1))(w, s)

    module = quire.jit(gradient).lower(np.zeros((8, 5), np.complex64), np.float32(1)).as_text()
    invocation = worker.Invocation(compiler, module.encode() + b"\0", FLAGS)
    assert invocation.parse(), invocation.diagnostics
    assert not invocation.run("vm"), "partitioning, which is not run, may be right again"
    assert any("expected to be in an execution region" in text for _, text in invocation.diagnostics)
    invocation.close()


def many_buffers(count: int) -> str:
    """A kernel that adds up so many arrays."""
    names = [f"%x{i}" for i in range(count)]
    bindings = ", ".join(f"%b{i}: !stream.binding" for i in range(count + 1))
    views = "\n".join(
        f"%m{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> memref<4xf32>" for i in range(count + 1)
    )
    loads = "\n".join(f"%v{i} = memref.load %m{i}[%c0] : memref<4xf32>" for i in range(count))
    sums = "\n".join(f"%s{i + 1} = arith.addf %s{i}, %v{i} : f32" for i in range(count))
    types = ", ".join(["tensor<4xf32>"] * count)
    arguments = ", ".join(f"{x}: tensor<4xf32>" for x in names)
    return f"""stream.executable private @k {{
  stream.executable.export public @k workgroups() -> (index, index, index) {{
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @k({bindings}) {{
      %c0 = arith.constant 0 : index
      %s0 = arith.constant 0.0 : f32
      {views}
      {loads}
      {sums}
      memref.store %s{count}, %m{count}[%c0] : memref<4xf32>
      return
    }}
  }}
}}
func.func @main({arguments}) -> tensor<4xf32> {{
  %r = flow.dispatch @k::@k({", ".join(names)}) : ({types}) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""


def test_an_executable_takes_32_buffers(compiler):
    ones = [np.ones(4, np.float32)] * 33
    assert run_by_iree(compiler, many_buffers(31), *ones[:31])[0][0] == 31
    with pytest.raises(ExecutionError, match="binding count 34 > 32"):
        run_by_iree(compiler, many_buffers(33), *ones)
        pytest.fail("kernel.MOST_BINDINGS may be larger")

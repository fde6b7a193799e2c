"""The repair of branches in VM bytecode, on programs that IREE compiles wrongly without it."""

import dataclasses
import io
import struct
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.lax
from quire.backends.iree import bytecode, worker
from quire.backends.iree.paths import compiler_library
from quire.backends.stablehlo import control_flow
from quire.backends.targets import TARGETS, get_target
from quire.runtime import buffers
from quire.runtime.executable import Executable, ExecutionError
from tests.passes import test_control_flow_transforms as loops

A = np.arange(7, dtype=np.int32)
B = A + 1


def switch_of_loops(lax, a, b):
    """Three ways, two of them loops that exchange what they carry."""

    def exchange(x):
        return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[2], c[1] + c[2]), (0, x, b))

    def accumulate(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1], c[1] + c[2]), (0, x, b))

    return lax.switch(a[0] % 3, [exchange, accumulate, lambda x: (0, x, x)], a)


@pytest.fixture(scope="module")
def unrepaired() -> bytes:
    """The program as IREE writes it, without the service around the compiler and without loops as kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, "cpu", dataclasses.replace(TARGETS["cpu"], kernels=False))
        # The loops as they are: what hides some of their carried values from IREE also hides the fault.
        patch.setattr(control_flow, "_hidden_from_iree", lambda *_: set[int]())
        module = quire.jit(lambda a, b: switch_of_loops(quire.lax, a, b)).lower(A, B).as_text()
    compiler = worker.Compiler(str(compiler_library()))
    invocation = worker.Invocation(compiler, module.encode() + b"\0", get_target("cpu").flags)
    assert invocation.parse() and invocation.run("vm"), invocation.diagnostics
    vmfb = compiler.output(compiler.lib.ireeCompilerInvocationOutputVMBytecode, invocation.invocation or 0)
    invocation.close()
    return vmfb


def run(vmfb: bytes) -> list[np.ndarray]:
    device = quire.devices()[0]
    views = Executable.load(vmfb, device).execute([buffers.from_numpy(x, device) for x in (A, B)])
    return [buffers.to_numpy(v, device) for v in views]


def test_iree_still_needs_the_repair(unrepaired):
    """When this fails, the pinned IREE is cured: delete backends/iree/bytecode.py."""
    with pytest.raises(ExecutionError, match="ref is null|indirect buffer reference"):
        run(unrepaired)


def test_a_repaired_program_runs(unrepaired):
    repaired = bytecode.without_branch_moves(unrepaired)
    want = switch_of_loops(jax.lax, jnp.asarray(A), jnp.asarray(B))
    for got, expected in zip(run(repaired), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_only_moves_of_registers_change(unrepaired):
    repaired = bytecode.without_branch_moves(unrepaired)
    archive = zipfile.ZipFile(io.BytesIO(repaired))
    assert archive.testzip() is None  # the checksums fit
    start = 30 + sum(struct.unpack_from("<HH", unrepaired, 26))
    end = start + archive.infolist()[0].file_size
    changed = [i for i in range(start, end) if unrepaired[i] != repaired[i]]
    assert changed and all(unrepaired[i] & 0x40 and unrepaired[i] & ~0x40 == repaired[i] for i in changed)
    assert unrepaired[end : end + 64] == repaired[end : end + 64] and len(unrepaired) == len(repaired)


def test_a_second_repair_changes_nothing(unrepaired):
    repaired = bytecode.without_branch_moves(unrepaired)
    assert bytecode.without_branch_moves(repaired) is repaired


def test_another_version_is_left_as_it_is(unrepaired, monkeypatch):
    monkeypatch.setattr(bytecode, "VERSION", bytecode.VERSION + 1)
    assert bytecode.without_branch_moves(unrepaired) is unrepaired


def test_many_loops_in_one_function():
    """The gradients of six functions of loops: alone each of them worked, together they did not."""
    names = ("scan_no_xs", "scan_unrolled", "scan_of_cond", "scan_of_scan", "scan_integer_carry", "fori")
    functions = [getattr(loops, name) for name in names]
    got = quire.jit(lambda x, v: [quire.grad(lambda x, v, f=f: f(loops.Q, x, v), (0, 1))(x, v) for f in functions])
    want = jax.jit(lambda x, v: [jax.grad(lambda x, v, f=f: f(loops.J, x, v), (0, 1))(x, v) for f in functions])
    for name, g, w in zip(names, got(loops.X, loops.V), want(loops.X, loops.V), strict=True):
        for a, b in zip(g, w, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=name)

"""emit_host_call: the imports and calls it emits, and what they compute."""

import pickle

import numpy as np
import pytest

import quire
from quire.backends.host_call import HostCall
from quire.backends.iree import compile_service
from quire.backends.reference.rule_call import RuleCall
from quire.backends.stablehlo import host_calls
from quire.backends.stablehlo.lowering import lower_module, lowering
from quire.backends.targets import TARGETS
from quire.compiling import aot, compiler
from quire.ir import dtypes, errors
from quire.ir.avals import ShapedArray
from quire.ir.primitive import PRIMITIVES, primitive
from quire.ir.primitives import linalg as la
from quire.ir.tracing import close_captured, trace_flat
from quire.runtime.buffers import from_numpy, to_numpy
from quire.runtime.compile_cache import CompileCache
from quire.runtime.devices import devices
from quire.runtime.executable import Executable
from quire.runtime.host_functions import HostFunction, HostModule


def swap(x, y):
    return y * 2, x


@pytest.fixture(scope="module")
def swap_p():
    @primitive("test_swap", multiple_results=True)
    def p(x, y):
        """The second operand doubled, and the first."""
        return y, x

    def rule(ctx, x, y):
        return host_calls.emit_host_call(ctx, swap, [x, y], ctx.avals_out, share=True)

    lowering.add(p, rule)
    yield p
    del PRIMITIVES["test_swap"], lowering.rules[p]


def lower(p, target):
    def f(x, y):
        a, b = p.bind(x, y)
        c, d = p.bind(x, a)
        return [b, c, d]

    avals = [ShapedArray((3,), dtypes.uint8), ShapedArray((2, 2), dtypes.float32)]
    jaxpr, captured, _ = trace_flat(f, avals)
    return lower_module(close_captured(jaxpr, captured), TARGETS[target])


def test_calls_compute(swap_p):
    lowered = lower(swap_p, "cpu")
    assert [c.symbol for c in lowered.host_calls] == ["swap_0"]  # both calls share one import
    cpu = devices("cpu")[0]
    vmfb = compile_service().compile(lowered.bytecode(), TARGETS["cpu"].flags, name="test").vmfb
    functions = {
        c.symbol: HostFunction(c.function, [a.dtype for a in c.in_avals], [(a.shape, a.dtype) for a in c.out_avals])
        for c in lowered.host_calls
    }
    executable = Executable.load(vmfb, cpu, host_modules=[HostModule("host", functions, cpu)])
    x, y = np.array([1, 200, 255], np.uint8), np.arange(4, dtype=np.float32).reshape(2, 2)
    b, c = (to_numpy(v, cpu) for v in executable.execute([from_numpy(x, cpu), from_numpy(y, cpu)])[:2])
    np.testing.assert_array_equal(b, x)
    np.testing.assert_array_equal(c, 4 * y)


def test_a_target_without_python(swap_p):
    with pytest.raises(errors.UnsupportedError, match="test_swap: target cuda cannot do calls of Python functions"):
        lower(swap_p, "cuda")


def test_a_stored_program_names_rules_but_not_functions_of_the_user():
    matrix = ShapedArray((2, 2), np.dtype(np.float32))
    rule = HostCall("cholesky_0", RuleCall(la.cholesky_p, (), (matrix,)), (matrix,), (matrix,), borrow=True)
    loaded = pickle.loads(pickle.dumps(rule.stored()))
    assert loaded == rule
    [factor] = loaded.function(np.float32([[4, 0], [0, 9]]))
    np.testing.assert_array_equal(factor, [[2, 0], [0, 3]])
    of_user = HostCall("f_0", lambda x: x, (matrix,), (matrix,))
    assert of_user.stored() == HostCall("f_0", None, (matrix,), (matrix,))
    assert of_user.function is not None


def test_a_cached_program_with_lapack_is_not_lowered_again(monkeypatch, tmp_path):
    cache = CompileCache(tmp_path, enabled=True)
    monkeypatch.setattr(compiler, "compile_cache", lambda: cache)
    x = np.eye(40, dtype=np.float32) * 4

    def factor(x):
        return quire.numpy.linalg.cholesky(x)

    first = quire.compile(lambda x: factor(x))(x)
    monkeypatch.setattr(aot, "lower", lambda *_: pytest.fail("lowered although the program was in the cache"))
    np.testing.assert_array_equal(quire.compile(lambda x: factor(x))(x), first)
    np.testing.assert_allclose(first, 2 * np.eye(40))

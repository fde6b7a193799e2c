"""Host functions: arguments, results, order, and exceptions that reach the user as they were raised."""

import traceback

import numpy as np
import pytest

from quire.ir.errors import CallbackResultError
from quire.runtime.buffers import from_numpy, to_numpy
from quire.runtime.executable import Executable, ExecutionError
from quire.runtime.host_functions import HostFunction, HostModule

MODULE = """
func.func private @host.f(tensor<4xf32>) -> tensor<4xf32>
func.func private @host.show(tensor<4xf32>) -> ()
func.func private @host.two(tensor<4xf32>, tensor<ui8>) -> (tensor<4xf32>, tensor<2xi32>)
func.func private @host.none() -> tensor<i32>
func.func @pure(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  %1 = func.call @host.f(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.multiply %1, %a : tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func @unused(%a: tensor<4xf32>) -> tensor<4xf32> {
  %1 = func.call @host.f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @ordered(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  func.call @host.show(%0) : (tensor<4xf32>) -> ()
  %1 = stablehlo.add %0, %a : tensor<4xf32>
  func.call @host.show(%1) : (tensor<4xf32>) -> ()
  func.call @host.show(%a) : (tensor<4xf32>) -> ()
  return %0 : tensor<4xf32>
}
func.func @several(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xi32>, tensor<i32>) {
  %c = stablehlo.constant dense<200> : tensor<ui8>
  %1:2 = func.call @host.two(%a, %c) : (tensor<4xf32>, tensor<ui8>) -> (tensor<4xf32>, tensor<2xi32>)
  %2 = func.call @host.none() : () -> tensor<i32>
  return %1#0, %1#1, %2 : tensor<4xf32>, tensor<2xi32>, tensor<i32>
}
func.func @loop(%a: tensor<4xf32>) -> tensor<4xf32> {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %i0, %x = %a) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.add %x, %x : tensor<4xf32>
      func.call @host.show(%y) : (tensor<4xf32>) -> ()
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}
func.func @branch(%a: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%c) ({
    func.call @host.show(%a) : (tensor<4xf32>) -> ()
    stablehlo.return %a : tensor<4xf32>
  }, {
    %y = stablehlo.add %a, %a : tensor<4xf32>
    func.call @host.show(%y) : (tensor<4xf32>) -> ()
    stablehlo.return %y : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
X = np.arange(4, dtype=np.float32)
F32 = [((4,), np.float32)]


class Mine(ValueError):
    """An exception class that IREE knows nothing of."""


@pytest.fixture(params=["sync", "task"])
def mode(request):
    return request.param


@pytest.fixture
def call(compiled, device, mode):
    """call(entry, *arrays, f=..., ...): the results as NumPy arrays."""

    def call(entry, *arrays, seen=None, **functions):
        table = {
            "f": HostFunction(np.sin, 1, F32),
            "show": HostFunction((seen if seen is not None else []).append, 1, 0),
            "two": HostFunction(lambda x, u: (x * u, np.array([1, 2], np.int32)), [np.float32, np.uint8], 2),
            "none": HostFunction(lambda: 7, 0, [((), np.int32)]),
            **functions,
        }
        module = HostModule("host", table, device)
        executable = Executable.load(
            compiled(MODULE, device.platform), device, entry=entry, host_modules=[module], driver=mode
        )
        views = [from_numpy(array, device) for array in arrays]
        return [to_numpy(view, device) for view in executable.execute(views)]

    return call


def test_a_pure_function(call):
    np.testing.assert_allclose(call("pure", X)[0], np.sin(2 * X) * X, rtol=1e-6)


def test_several_arguments_and_results(call):
    product, pair, seven = call("several", X)
    np.testing.assert_array_equal(product, X * 200)  # an unsigned argument stays unsigned
    assert pair.tolist() == [1, 2] and seven == 7 and seven.dtype == np.int32


def test_effects_happen_in_order(call):
    seen = []
    call("ordered", X, seen=seen)
    np.testing.assert_array_equal(seen, [2 * X, 3 * X, X])


def test_effects_in_loops_and_branches(call):
    seen = []
    assert call("loop", X, seen=seen)[0].tolist() == (8 * X).tolist()
    np.testing.assert_array_equal(seen, [2 * X, 4 * X, 8 * X])  # copies: the loop reuses its memory
    seen = []
    call("branch", X, np.array(True), seen=seen)
    call("branch", X, np.array(False), seen=seen)
    np.testing.assert_array_equal(seen, [X, 2 * X])


def test_a_call_whose_result_is_unused_happens(call):
    seen = []
    call("unused", X, f=HostFunction(lambda x: seen.append(x) or x, 1, F32))
    assert len(seen) == 1


def test_borrowed_arguments_are_views(call, device):
    flags = []
    for borrow in (True, False):
        call("pure", X, f=HostFunction(lambda x: flags.append(x.flags.owndata) or x + 1, 1, F32, borrow=borrow))
    assert flags == [False, True] or not device.is_host


def test_the_exception_reaches_the_user(call):
    def raising(x):
        raise Mine("from the host function", 42)

    with pytest.raises(Mine) as caught:
        call("pure", X, f=HostFunction(raising, 1, F32))
    assert caught.value.args == ("from the host function", 42)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert "raising" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    # nothing is left of it
    np.testing.assert_allclose(call("pure", X)[0], np.sin(2 * X) * X, rtol=1e-6)


def test_an_exception_ends_the_program(call):
    seen = []

    def second(x):
        seen.append(x)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call("loop", X, show=HostFunction(second, 1, 0))
    assert len(seen) == 2


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: np.zeros(3, np.float32), r"returned float32\[3\] as result 0; float32\[4\] was declared"),
        (lambda x: np.zeros(4), r"returned float64\[4\] as result 0; float32\[4\] was declared"),
        (lambda x: (x, x), r"returned float32\[2, 4\] as result 0; float32\[4\] was declared"),
        (lambda x: None, "as result 0"),
    ],
    ids=["shape", "dtype", "number", "none"],
)
def test_wrong_results(call, function, message):
    with pytest.raises(TypeError, match=f"host function .*<lambda>.* {message}"):
        call("pure", X, f=HostFunction(function, 1, F32))


def test_a_wrong_number_of_results(call):
    with pytest.raises(TypeError, match="returned 3 values; 2 results were declared"):
        call("several", X, two=HostFunction(lambda x, u: (x, x, x), 2, 2))
    with pytest.raises(TypeError, match="returned a ndarray; 2 results were declared"):
        call("several", X, two=HostFunction(lambda x, u: x, 2, 2))


def test_python_numbers_take_the_declared_dtype(call):
    assert call("several", X, none=HostFunction(lambda: 2**31 - 1, 0, [((), np.int32)]))[2] == 2**31 - 1


def test_undeclared_results_fit_where_they_are_wanted(call):
    with pytest.raises(
        (CallbackResultError, ExecutionError), match="expected 4 but have 3|result 0; float32.4. was declared"
    ):
        call("pure", X, f=HostFunction(lambda x: np.zeros(3, np.float32), 1, 1))


def test_missing_functions(compiled, cpu):
    with pytest.raises(ExecutionError, match="required module 'host' not registered"):
        Executable.load(compiled(MODULE), cpu, entry="pure")
    with pytest.raises(ExecutionError, match="could not be loaded.* not exported"):
        Executable.load(compiled(MODULE), cpu, entry="pure", host_modules=[HostModule("host", {}, cpu)])

"""`compile` as a user meets it: variants, static arguments, pytrees, donation, ahead-of-time stages, errors."""

from __future__ import annotations

import collections
import threading
import warnings

import numpy as np
import pytest

import quire
import quire.export
import quire.numpy as qnp
from quire.ir import errors


def test_a_function_is_traced_once_for_each_signature():
    traces = []

    @quire.compile
    def f(x, y):
        traces.append(1)
        return x * y + 1

    a = qnp.arange(4.0)
    np.testing.assert_allclose(f(a, a), np.arange(4.0) ** 2 + 1)
    np.testing.assert_allclose(f(a + 1, a), np.arange(1.0, 5.0) * np.arange(4.0) + 1)
    assert len(traces) == 1
    f(qnp.arange(5.0), qnp.arange(5.0))  # another shape
    f(qnp.arange(4), qnp.arange(4))  # another dtype
    f(2.0, a)  # weak type
    f(np.float32(2.0), a)  # not weak
    f(3.0, a)
    assert len(traces) == 5
    info = f.cache_info()
    assert [v.uses for v in info.variants] == [2, 1, 1, 2, 1]
    assert info.variants[0].reason == "the first call"
    assert info.variants[1].reason == "shape of x: (4,) -> (5,)"
    assert info.variants[2].reason == "dtype of x: float32 -> int32"
    assert "weak type of x: True -> False" in info.variants[4].reason
    assert "used 2x" in str(info)


def test_jit_is_compile_and_takes_arguments():
    assert quire.jit is quire.compile

    @quire.jit(static_argnums=1)
    def power(x, n):
        for _ in range(n - 1):
            x = x * 2
        return x

    assert float(power(1.5, 3)) == 6.0
    assert float(power(1.5, n=1)) == 1.5
    assert power.__name__ == "power"


def test_static_arguments_by_name_and_value():
    traces = []

    @quire.compile(static_argnames="mode")
    def f(x, mode="double"):
        traces.append(mode)
        return x * 2 if mode == "double" else -x

    assert float(f(3.0)) == 6.0
    assert float(f(3.0, mode="negate")) == -3.0
    assert float(f(3.0, "negate")) == -3.0
    assert float(f(4.0, mode="negate")) == -4.0
    assert traces == ["double", "negate", "negate"]
    with pytest.raises(ValueError, match=r"static argument 'mode' of .*f has type list.*tuple instead of a list"):
        f(3.0, mode=[1])


def test_unknown_argument_names_are_errors():
    with pytest.raises(ValueError, match="has no argument 'axis', it takes x"):
        quire.compile(lambda x: x, static_argnames="axis")
    with pytest.raises(ValueError, match="has 1 positional arguments"):
        quire.compile(lambda x: x, donate_argnums=3)
    with pytest.raises(ValueError, match="both static and donated"):
        quire.compile(lambda x: x, static_argnums=0, donate_argnums=0)
    with pytest.raises(TypeError, match="expected a function, got 3"):
        quire.compile(3)


def test_pytrees_in_and_out():
    Point = collections.namedtuple("Point", "x y")

    @quire.compile
    def f(tree, *rest, scale):
        return {"sum": tree["a"][0] + tree["b"].x, "rest": [r * scale for r in rest], "none": None}

    out = f({"a": (qnp.ones(2), 3), "b": Point(qnp.arange(2.0), 0)}, 1.0, 2.0, scale=qnp.array(3.0))
    assert out["none"] is None
    np.testing.assert_allclose(out["sum"], [1, 2])
    assert [float(r) for r in out["rest"]] == [3.0, 6.0]


def test_max_variants():
    @quire.compile(max_variants=2)
    def f(x):
        return x + 1

    f(qnp.ones(1))
    f(qnp.ones(2))
    f(qnp.ones(1))
    with pytest.raises(
        errors.TooManyVariantsError, match=r"max_variants=2.*test_compile.py.*shape of x: \(\d,\) -> \(3,\)"
    ):
        f(qnp.ones(3))


def test_a_wrong_argument_is_named():
    f = quire.compile(lambda x, config: x)
    with pytest.raises(TypeError, match=r"argument config\['name'\].*'abc' of type str.*mark it static"):
        f(1.0, {"name": "abc"})
    with pytest.raises(OverflowError, match="argument x of .*too large for int32"):
        f(2**40, 1.0)


def test_a_wrong_result_is_named():
    with pytest.raises(TypeError, match="returned 'text' of type str"):
        quire.compile(lambda x: (x, "text"))(1.0)


def test_unused_arguments_and_results_that_are_arguments():
    f = quire.compile(lambda x, y, z: (y, x + 1, y))
    y = qnp.arange(3.0)
    a, b, c = f(1.0, y, qnp.ones(100))
    np.testing.assert_array_equal(a, y)
    np.testing.assert_array_equal(c, y)
    assert float(b) == 2.0


def test_donated_arrays_are_gone_and_reported():
    @quire.compile(donate_argnums=0)
    def step(x, y):
        return x + y

    x = qnp.arange(100.0)
    x = step(x, 1.0)  # an array that NumPy may see is copied
    y = step(x, 1.0)
    np.testing.assert_allclose(y, np.arange(100.0) + 2)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match=r"f32\[100\], has no memory any more: it was donated"):
        x + 1

    with pytest.warns(UserWarning, match=r"donated buffers were not usable: x \(f32\[3\]\): no result has this"):
        quire.compile(lambda x: x.sum(), donate_argnums=0)(qnp.ones(3))


def test_an_array_shown_to_numpy_is_not_overwritten_by_donation():
    f = quire.compile(lambda x: x + 1, donate_argnums=0)
    x = quire.compile(lambda x: x * 2)(qnp.ones(1000))
    seen = np.asarray(x)
    before = seen.copy()
    f(x)
    np.testing.assert_array_equal(seen, before)


def test_ahead_of_time():
    f = quire.compile(lambda x, y: {"out": x @ y})
    spec = quire.ShapeDtypeStruct((4, 3), np.float32), quire.ShapeDtypeStruct((3, 2), np.float32)
    traced = f.trace(*spec)
    assert traced.out_info == {"out": quire.ShapeDtypeStruct((4, 2), np.float32)}
    assert "dot_general" in str(traced.jaxpr)
    lowered = traced.lower()
    assert "stablehlo.dot_general" in lowered.as_text()
    assert lowered.cost_analysis()["flops"] == 48
    compiled = lowered.compile()
    out = compiled(qnp.ones((4, 3)), qnp.ones((3, 2)))
    np.testing.assert_allclose(out["out"], np.full((4, 2), 3.0))
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 4 * (12 + 6)
    assert memory.output_size_in_bytes == 4 * 8
    assert memory.generated_code_size_in_bytes > 1000
    with pytest.raises(TypeError, match=r"was compiled for x: f32\[4,3\], got f32\[3,3\]"):
        compiled(qnp.ones((3, 3)), qnp.ones((3, 2)))
    with pytest.raises(TypeError, match="compiled for arguments of structure"):
        compiled(qnp.ones((4, 3)))
    open_type = quire.ShapeDtypeStruct((-1, 3), np.float32)
    assert f.trace(open_type, spec[1]).out_info["out"].shape == (-1, 2)
    for lower in (f.lower, quire.export.export(f)):
        with pytest.raises(
            ValueError, match=r"argument x has type f32\[-1,3\] \(at .*test_compile.py:\d+.*: dimensions of a program"
        ):
            lower(open_type, spec[1])


def test_eval_shape_and_make_jaxpr():
    def f(x, n):
        return [x.sum(axis=0), x[:n]]

    out = quire.eval_shape(lambda x: f(x, 2), quire.ShapeDtypeStruct((4, 3), "float32"))
    assert out == [quire.ShapeDtypeStruct((3,), "float32"), quire.ShapeDtypeStruct((2, 3), "float32")]
    jaxpr, shapes = quire.make_jaxpr(f, static_argnums=1, return_shape=True)(qnp.ones((4, 3)), 2)
    assert len(jaxpr.jaxpr.invars) == 1
    assert shapes[1].shape == (2, 3)
    assert "reduce_sum" in str(jaxpr)


def test_inline_and_nested_calls():
    inner = quire.compile(lambda x: x * 2, inline=True)
    nested = quire.compile(lambda x: x * 3)
    jaxpr = quire.make_jaxpr(lambda x: nested(inner(x)))(1.0)
    names = [e.primitive.name for e in jaxpr.eqns]
    assert names == ["mul", "jit"]
    assert float(quire.compile(lambda x: nested(inner(x)))(1.0)) == 6.0


def test_nested_functions_are_traced_once():
    traces = []

    @quire.compile
    def inner(x):
        traces.append(1)
        return x + 1

    quire.make_jaxpr(lambda x: inner(inner(inner(x))))(1.0)
    assert len(traces) == 1


def test_methods_are_compiled():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @quire.compile(static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert float(Model(3.0).apply(2.0)) == 6.0
    assert float(Model(4.0).apply(2.0)) == 8.0


def test_captured_arrays_are_constants():
    table = np.arange(5.0, dtype=np.float32)
    f = quire.compile(lambda x: x + table)
    np.testing.assert_allclose(f(1.0), np.arange(5.0) + 1)
    table[:] = 0  # the compiled program keeps what it saw
    np.testing.assert_allclose(f(1.0), np.arange(5.0) + 1)


def test_options_are_part_of_the_signature():
    f = quire.compile(lambda x: x * 2)
    x = np.arange(3.0)
    assert f(x).dtype == np.float32
    with quire.config.override(enable_x64=True):
        assert f(x).dtype == np.float64
    assert f(x).dtype == np.float32
    assert f.cache_info().variants[1].reason == "dtype of x: float32 -> float64"


def test_disable_jit_runs_the_function_itself():
    seen = []
    f = quire.compile(lambda x: seen.append(x) or x + 1)
    with quire.config.override(disable_jit=True):
        f(1.0)
    assert seen == [1.0]


def test_clear_cache():
    f = quire.compile(lambda x: x + 1)
    f(1.0)
    f.clear_cache()
    assert f.cache_info().currsize == 0
    f(1.0)
    assert f.cache_info().currsize == 1


def test_calls_from_threads():
    f = quire.compile(lambda x: x * 2 + 1)
    wrong = []

    def work(k):
        for i in range(200):
            if float(f(float(i + k))) != 2.0 * (i + k) + 1:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert f.cache_info().currsize == 1


def test_complex_and_bool_and_narrow_dtypes_through_a_call():
    f = quire.compile(lambda z, b, h, i: (z * z, ~b, h + h, i + i))
    z = np.array([1 + 2j, -3j], np.complex64)
    b = np.array([True, False])
    h = np.array([1.5, -2.0], np.float16)
    i = np.array([100, -128], np.int8)
    out = f(z, b, h, i)
    for got, want in zip(out, (z * z, ~b, h + h, i + i)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("keep", [False, True])
def test_the_lowered_text_is_that_of_what_is_compiled(keep: bool) -> None:
    lowered = quire.jit(lambda x, y: x + 1, keep_unused=keep).lower(1.0, 2.0)
    assert ("%arg1" in lowered.as_text()) is keep


def test_as_text_of_the_last_variant():
    f = quire.compile(lambda x: x * 2)
    with pytest.raises(ValueError, match="not compiled yet"):
        f.as_text()
    f(qnp.ones(3))
    assert f.as_text().startswith("{ lambda ; a:f32[3]. let")
    assert "stablehlo.multiply" in f.as_text("stablehlo")


def test_recompilation_can_be_explained(caplog):
    """In a log, as JAX does: also of the first call, and of functions that are made anew in a loop."""
    f = quire.compile(lambda x: x * 2)
    with quire.config.override(explain_cache_misses=True):
        f(qnp.ones(3))
        f(qnp.ones(4))
        for _ in range(2):
            f(qnp.ones(4))
            quire.compile(lambda x: x * 3)(qnp.ones(3))
    first, shape, once, again = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert first.startswith("TRACING CACHE MISS") and "never seen function" in first
    assert "compiled anew: shape of x: (3,) -> (4,)" in shape
    assert "same line" not in once and "another function defined on the same line" in again


def test_no_warning_on_an_ordinary_program():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(quire.compile(lambda x: x + 1)(1.0)) == 2.0


# -- one way


def test_a_miss_takes_the_steps_trace_lower_compile(monkeypatch):
    """What a call compiles is what `lower` shows, and what `lower().compile()` compiles."""
    from quire.compiling import aot

    modules = []
    compile_program = aot.compile_program

    def recorded(request, device, lowering):
        modules.append(lowering().module.text())
        return compile_program(request, device, lowering)

    monkeypatch.setattr(aot, "compile_program", recorded)

    def f(x, y, unused):
        return {"z": qnp.sin(x) @ x + y[0], "y": y}

    x, rest = np.ones((5, 5), np.float32), ((qnp.float32(2), 3), np.ones(2))
    first = quire.compile(f, donate_argnums=0)(qnp.asarray(x), *rest)
    lowered = quire.compile(f, donate_argnums=0).lower(x, *rest)
    text = lowered.as_text()
    ahead = lowered.compile()(qnp.asarray(x), *rest)
    np.testing.assert_array_equal(first["z"], ahead["z"])
    assert [m.rstrip("\n") for m in modules] == [text, text] and "stablehlo.dot_general" in text
    assert lowered.program() is lowered.stages.lowered, "lowered once"


def test_lower_for_another_target_compiles_for_that():
    lowered = quire.jit(lambda x: qnp.sin(x)).trace(np.ones(3, np.float32)).lower(backend="vmvx")
    assert lowered.request.target.name == "vmvx"
    with pytest.raises(RuntimeError, match="target vmvx has no devices: programs for it are compiled only"):
        lowered.compile()


def test_a_function_compiled_twice_is_traced_once():
    traces = []

    def f(x):
        traces.append(1)
        return x * 2

    x = np.ones(3, np.float32)
    for _ in range(4):
        np.testing.assert_array_equal(quire.jit(f)(x), 2 * x)
    assert len(traces) == 1
    first, second = quire.jit(f), quire.jit(f)
    second(x), second(x)
    assert first.cache_info().currsize == second.cache_info().currsize == 1
    quire.jit(f, donate_argnums=0)(qnp.asarray(x))
    assert len(traces) == 2, "other options, another program"
    first.clear_cache()
    second(x)
    assert len(traces) == 3, "what one forgets, the other has forgotten"
    quire.clear_caches()
    first(x)
    assert len(traces) == 4


def test_what_is_compiled_of_a_function_goes_with_it():
    import gc
    import weakref

    def make():
        def f(x):
            return x + 1

        assert float(quire.jit(f)(1.0)) == 2.0
        return weakref.ref(f)

    gone = make()
    gc.collect()
    assert gone() is None


def test_callables_that_are_equal_are_not_taken_for_each_other():
    class Scaled:
        def __init__(self, by):
            self.by = by

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

        def __call__(self, x):
            return x * self.by

    assert float(quire.jit(Scaled(2.0))(3.0)) == 6.0 and float(quire.jit(Scaled(5.0))(3.0)) == 15.0

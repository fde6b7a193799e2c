"""The names of quire's top level that change an option for a block or tell about the process."""

import gc
import logging

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire.ir.errors import UnexpectedTracerError

F = np.float32
SWITCHES = (
    "enable_x64", "debug_nans", "debug_infs", "debug_key_reuse", "check_tracer_leaks", "log_compiles",
    "explain_cache_misses", "threefry_partitionable",
)  # fmt: skip
CHOICES = {
    "numpy_rank_promotion": ("raise", "allow"),
    "numpy_dtype_promotion": ("strict", "standard"),
    "default_matmul_precision": ("highest", None),
    "default_prng_impl": ("threefry2x32", "threefry2x32"),
}


def test_options_for_a_block():
    for name in SWITCHES:
        before = getattr(qr.config, name)
        for value in (not before, before):
            with getattr(qr, name)(value):
                assert getattr(qr.config, name) is value
        with getattr(qr, name)():
            assert getattr(qr.config, "jax_" + name) is True
        assert getattr(qr.config, name) is before
    for name, (value, default) in CHOICES.items():
        with getattr(qr, name)(value):
            assert getattr(qr.config, name) == value
        assert getattr(qr.config, name) == default
        with pytest.raises(TypeError, match=f"quire.{name}: give the option's new value"):
            getattr(qr, name)()

    @qr.enable_x64(True)
    def wide():
        return qnp.ones(2).dtype

    assert wide() == np.float64
    with pytest.raises(
        ValueError, match="quire.config.default_matmul_precision: got 'most', expected one of None, default"
    ):
        qr.default_matmul_precision("most").__enter__()


# Whether two operands may be mixed under strict promotion: as in JAX 0.10.2.
STRICT = [
    ("float32", "float32", True), ("float32", "float16", False), ("int32", "float32", False), ("int32", 1, True),
    ("float32", 1, True), ("float32", 1.0, True), ("int32", 1.0, False), ("bool", 1, False), ("uint8", 1, True),
    ("float32", 1j, False), ("complex64", 1.0, True), ("bool", "int32", False),
]  # fmt: skip


def test_strict_promotion():
    for a, b, allowed in STRICT:
        x, y = (qnp.ones(2, v) if isinstance(v, str) else v for v in (a, b))
        with qr.numpy_dtype_promotion("strict"):
            if allowed:
                assert qnp.add(x, y).dtype == np.dtype(a)
            else:
                with pytest.raises(TypeError, match="no implicit promotion under numpy_dtype_promotion='strict'"):
                    qnp.add(x, y)


def test_disable_jit():
    seen = []

    @qr.compile
    def f(x):
        seen.append(type(x).__name__)
        return qr.lax.fori_loop(0, 3, lambda i, c: c + i if c > 0 else c, x)

    with qr.disable_jit():
        assert float(f(qnp.float32(1))) == 4
        with qr.disable_jit(False), pytest.raises(qr.errors.TracerBoolConversionError):
            f(qnp.float32(1))
    assert seen == ["Array", "Tracer"]


class Holder:
    value = None


def test_leaks_are_found_with_their_holder():
    kept, holder = [], Holder()

    def into_list(x):
        kept.append(qnp.sin(x))
        return x

    def into_attribute(x):
        holder.value = x
        return x

    with qr.checking_leaks():
        qr.grad(lambda x: qr.vmap(lambda y: qr.lax.cond(y > 0, lambda y: y, lambda y: -y, y))(x).sum())(np.ones(2, F))
        with pytest.raises(UnexpectedTracerError) as error:
            qr.make_jaxpr(into_list)(F(1))
        assert "It is the result of sin (at " in str(error.value) and "in test_leaks_are" in str(error.value)
        assert "an object of type list holds it" in str(error.value)
        with pytest.raises(
            UnexpectedTracerError, match="It is .* of grad of .*; the attribute value of an object of type Holder"
        ):
            qr.grad(into_attribute)(F(1))
    qr.make_jaxpr(into_list)(F(1))  # not looked for where the option is off


def test_named_scopes_in_every_stage():
    @qr.named_scope("outer")
    def f(x):
        with qr.named_scope("inner"):
            y = qnp.sin(x)
        return qr.named_call(lambda z: z * 2, name="twice")(y)

    scopes = [(e.primitive.name, e.source.scope) for e in qr.make_jaxpr(f)(F(1)).eqns]
    assert scopes == [("sin", "outer/inner"), ("mul", "outer/twice")]
    backward = {e.source.scope for e in qr.make_jaxpr(qr.grad(f))(F(1)).eqns}
    assert "outer/inner" in backward and backward <= {"outer/inner", "outer/twice"}
    from quire.ir.parser import parse
    from quire.ir.printer import PrintOptions, to_text

    text = to_text(qr.make_jaxpr(f)(F(1)), PrintOptions(source=True))
    assert "[outer/inner]" in text
    assert [e.source.scope for e in parse(text).eqns] == ["outer/inner", "outer/twice"]
    from quire.compiling.stage_texts import stages_of

    stablehlo = stages_of(qr.make_jaxpr(f)(F(1)), "cpu", options=PrintOptions(source=True))["stablehlo"]
    assert '"outer/inner/' in stablehlo
    wrong = qr.named_call(lambda x: qr.lax.dot_general(x, x, (((0,), (5,)), ((), ()))), name="wrong")
    with pytest.raises((TypeError, ValueError), match=r"dot_general: .* \(at .*, scope wrong\)"):
        qr.make_jaxpr(wrong)(np.ones(3, F))
    for name, kind in ((3, TypeError), ("", ValueError), ("a\nb", ValueError)):
        with pytest.raises(kind, match="quire.named_scope: name must be"):
            qr.named_scope(name)


def test_compilations_are_logged(caplog):
    f = qr.compile(lambda x: x * 3.25)
    with caplog.at_level(logging.WARNING, "quire"), qr.log_compiles(True):
        f(F(1))
        f(F(2))
        f(np.ones(2, F))
    assert len(caplog.messages) == 4
    assert caplog.messages[0].startswith(
        "compiling test_compilations_are_logged.<locals>.<lambda> for (x: f32[]): the first"
    )
    assert "shape of x: () -> (2,)" in caplog.messages[2]
    assert " ms, traced in " in caplog.messages[3]


def test_caches_and_live_arrays():
    f = qr.compile(lambda x: x + 1.5)
    f(F(1))
    assert f.cache_info().currsize == 1
    qr.clear_caches()
    assert f.cache_info().currsize == 0
    assert float(f(F(1))) == 2.5
    gc.collect()
    before = len(qr.live_arrays("cpu"))
    x = qnp.ones(3)
    assert len(qr.live_arrays()) == before + 1
    x.delete()
    assert len(qr.live_arrays()) == before
    assert qr.live_arrays("no such platform") == []


def test_compile_time_evaluation():
    def f(x):
        with qr.ensure_compile_time_eval():
            n = int(qnp.arange(3).sum())
        return x * n

    assert float(qr.compile(f)(F(2))) == 6

    def g(x):  # what is not known is recorded where it belongs
        with qr.ensure_compile_time_eval():
            n = qnp.arange(3).sum()
            y = qnp.sin(x) * n
        return y + 1

    assert [e.primitive.name for e in qr.make_jaxpr(g)(F(1)).eqns] == ["sin", "mul", "add"]
    assert float(qr.grad(g)(F(0))) == float(qr.compile(qr.grad(g))(F(0))) == 3

    kept = []
    qr.compile(lambda x: kept.append(x) or x)(F(1))
    with pytest.raises(UnexpectedTracerError, match="after its trace ended"), qr.ensure_compile_time_eval():
        qnp.sin(kept[0])


def test_user_contexts_are_part_of_the_signature():
    context, other = qr.make_user_context(1.0), qr.make_user_context("a")
    f = qr.compile(lambda x: x * context.value)
    assert float(f(F(2))) == 2
    with context(3.0), other("b"):
        assert float(f(F(2))) == 6 and other.value == "b"
        with context(1.0):
            assert float(f(F(2))) == 2
    assert float(f(F(2))) == 2 and other.value == "a"
    with pytest.raises(TypeError, match="make_user_context: the value must be hashable, got"):
        context([])


def test_processes_and_versions(capsys):
    assert (qr.process_count(), qr.process_index(), qr.process_indices()) == (1, 0, [0])
    assert qr.default_backend() == qr.devices()[0].platform and qr.local_device_count() == len(qr.local_devices())
    assert qr.version.__version__ == qr.__version__ and qr.__version_info__[0] == int(qr.__version__.split(".")[0])
    qr.print_environment_info()
    shown = capsys.readouterr().out
    assert qr.__version__ in shown and np.__version__ in shown and "devices:" in shown
    assert qr.effects_barrier() is None
    assert (
        repr(qr.typeof(qnp.ones(2))) == repr(qnp.ones(2).aval) and qr.float0 == qr.core.ShapedArray((), qr.float0).dtype
    )
    with pytest.raises(TypeError, match="'a' of type str is not an array"):
        qr.typeof("a")
    closed = qr.make_jaxpr(lambda x: x + 1)(F(1))
    assert isinstance(closed, qr.core.ClosedJaxpr)
    with pytest.raises(ValueError, match="the jaxpr takes 0 constants and 1 arguments, got 0 and 2"):
        qr.core.eval_jaxpr(closed.jaxpr, closed.consts, 1, 2)

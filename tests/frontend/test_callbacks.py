"""Host functions of compiled programs: pure_callback, io_callback, debug.print, debug.callback."""

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire import lax

F = np.float32
X = F(1.5)


def like(x):
    return qr.ShapeDtypeStruct(x.shape, x.dtype)


RUN = pytest.mark.parametrize("wrap", [lambda f: f, qr.compile], ids=["eager", "compiled"])


@RUN
def test_pure_callback_takes_and_returns_trees(wrap):
    def f(x):
        out = qr.pure_callback(lambda d, k: {"s": np.sin(d["x"]) * k, "n": np.int32(3)},
                               {"s": like(x), "n": qr.ShapeDtypeStruct((), np.int32)}, {"x": x}, k=2.0)  # fmt: skip
        return out["s"] + out["n"]

    np.testing.assert_allclose(np.asarray(wrap(f)(X)), np.sin(X) * 2 + 3, rtol=1e-6)


@RUN
def test_every_kind_of_dtype_goes_through(wrap):
    for dtype in (np.bool_, np.uint8, np.int32, np.uint32, np.float16, np.complex64):
        x = np.asarray([0, 1, 3]).astype(dtype)
        got = wrap(lambda x: qr.pure_callback(lambda a: a[::-1], like(x), x))(x)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(got), x[::-1])


@RUN
def test_prints_happen_in_the_order_of_the_program(wrap, capsys):
    def f(x):
        qr.debug.print("x={} y={y:.2f} {s}", x, y=x + 1, s="text")
        z = lax.fori_loop(0, 2, lambda i, c: (qr.debug.print("i={i} c={c}", i=i, c=c), c + 1.0)[1], x)
        return lax.cond(
            z > 0,
            lambda z: (qr.debug.print("positive {}", z), z)[1],
            lambda z: (qr.debug.print("negative {}", z), z)[1],
            z,
        )

    run = wrap(f)
    run(X)
    assert capsys.readouterr().out.splitlines() == [
        "x=1.5 y=2.50 text", "i=0 c=1.5", "i=1 c=2.5", "positive 3.5"
    ]  # fmt: skip
    run(F(-9.0))
    assert capsys.readouterr().out.splitlines()[-1] == "negative -7.0"


def test_prints_of_a_repeated_call_and_of_while(capsys):
    @qr.compile
    def f(x):
        def body(c):
            qr.debug.callback(seen.append, c)
            return c * 2.0

        return lax.while_loop(lambda c: c < 10.0, body, x)

    seen = []
    assert float(f(X)) == 12.0
    assert float(f(X)) == 12.0
    assert [float(x) for x in seen] == [1.5, 3.0, 6.0] * 2


@RUN
def test_io_callback_is_called_though_its_result_is_not_used(wrap):
    log = []

    def f(x):
        qr.io_callback(lambda a: log.append(float(a)), None, x, ordered=True)
        qr.io_callback(lambda a: F(a), like(x), x)
        return x * 2.0

    run = wrap(f)
    run(X), run(X)
    assert log == [1.5, 1.5]


def test_an_unused_pure_callback_is_dropped():
    calls = []

    @qr.compile
    def f(x):
        qr.pure_callback(lambda a: calls.append(1) or a, like(x), x)
        return x + 1.0

    f(X)
    assert not calls


class Custom(Exception):
    pass


@RUN
def test_exceptions_keep_their_type(wrap):
    def fail(a):
        raise Custom("from the host")

    with pytest.raises(Custom, match="from the host"):
        wrap(lambda x: qr.pure_callback(fail, like(x), x))(X)
    with pytest.raises(Custom, match="from the host"):
        wrap(lambda x: lax.fori_loop(0, 3, lambda i, c: qr.pure_callback(fail, like(c), c), x))(X)


@RUN
def test_wrong_results_are_reported(wrap):
    with pytest.raises(TypeError, match=r"returned float64\[3\] as result 0, float32\[\] was declared"):
        wrap(lambda x: qr.pure_callback(lambda a: np.zeros(3), like(x), x))(X)
    with pytest.raises(TypeError, match="returned the structure .* was declared"):
        wrap(lambda x: qr.pure_callback(lambda a: (a, a), like(x), x))(X)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: qr.pure_callback(3, like(X), X), TypeError, "callback must be a function, got 3"),
        (lambda: qr.pure_callback(abs, 7, X), TypeError, "objects with shape and dtype"),
        (lambda: qr.pure_callback(abs, like(X), X, vmap_method="x"), ValueError, "vmap_method must be one of sequential"),
        (lambda: qr.debug.print("{} {}", 1), ValueError, "needs an argument that was not given"),
        (lambda: qr.debug.print("{}", 1, b=2), ValueError, "does not use b"),
        (lambda: qr.debug.print(X), TypeError, "must be a format string"),
    ],
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_vmap_methods():
    xs, y = np.arange(3, dtype=F), F(2.0)
    shapes = []

    def host(a, b):
        shapes.append((a.shape, b.shape))
        return np.sin(a) * b

    for method, want in (
        ("sequential", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
    ):
        shapes.clear()
        f = lambda x, m=method: qr.pure_callback(host, like(x), x, y, vmap_method=m)  # noqa: E731
        np.testing.assert_allclose(np.asarray(qr.vmap(f)(xs)), np.sin(xs) * y, rtol=1e-6)
        assert shapes == want
    with pytest.raises(NotImplementedError, match="give vmap_method= to pure_callback"):
        qr.vmap(lambda x: qr.pure_callback(np.sin, like(x), x))(xs)
    with pytest.raises(ValueError, match="ordered=True has no meaning"):
        qr.vmap(lambda x: qr.io_callback(np.sin, like(x), x, ordered=True))(xs)


def test_results_in_another_structure_of_as_many():
    """As in JAX: a list for a tuple; numbers of Python; 64-bit results where 64-bit types are off."""
    f32, i32 = qr.ShapeDtypeStruct((), "float32"), qr.ShapeDtypeStruct((), "int32")
    for call in (qr.pure_callback, qr.io_callback):
        for wrap in (qr.jit, lambda f: f):
            a, b = wrap(lambda: call(lambda: [np.float64(1), 2], (f32, i32)))()  # noqa: B023
            assert (a.dtype, b.dtype, float(a), int(b)) == ("float32", "int32", 1.0, 2)
            assert float(wrap(lambda: call(lambda: {"a": [[2.5]]}, {"a": [f32]}))()["a"][0]) == 2.5  # noqa: B023
            for wrong in (lambda: np.float32(1), lambda: [1.0], lambda: [1.0, 2, 3], lambda: [1.0, 2.5], lambda: None):
                with pytest.raises(qr.errors.CallbackResultError):
                    wrap(lambda: call(wrong, (f32, i32)))()  # noqa: B023
            with pytest.raises(ValueError, match="cannot specify 64-bit types"):
                wrap(lambda: call(lambda: 1.0, qr.ShapeDtypeStruct((), "float64")))()  # noqa: B023
    with qr.enable_x64(True):
        assert qr.pure_callback(lambda: 1.0, qr.ShapeDtypeStruct((), "float64")).dtype == "float64"


def test_results_that_are_wrong_are_runtime_errors_as_in_jax():
    with pytest.raises(RuntimeError):
        qr.jit(lambda: qr.pure_callback(lambda: np.float32(1), qr.ShapeDtypeStruct((1,), "float32")))()


def test_derivatives(capsys):
    with pytest.raises(ValueError, match="pure_callback has no derivative: wrap it in custom_jvp"):
        qr.grad(lambda x: qr.pure_callback(np.sin, like(x), x))(X)

    @qr.custom_jvp
    def f(x):
        return qr.pure_callback(np.sin, like(x), x)

    f.defjvp(lambda p, t: (f(*p), qnp.cos(p[0]) * t[0]))
    np.testing.assert_allclose(float(qr.grad(f)(X)), np.cos(X), rtol=1e-6)

    def g(x):
        qr.debug.print("x={}", x)
        return x * x

    assert float(qr.compile(qr.grad(g))(X)) == 3.0
    assert capsys.readouterr().out == "x=1.5\n"


def test_print_under_vmap(capsys):
    qr.compile(qr.vmap(lambda x: (qr.debug.print("x={}", x), x)[1]))(np.arange(2, dtype=F))
    assert capsys.readouterr().out == "x=0.0\nx=1.0\n"


@pytest.mark.parametrize("x", [np.ones(3, np.float32), qnp.ones(3)], ids=["numpy", "quire"])
def test_a_callback_without_an_attribute_is_called_once(x: object) -> None:
    """The error is the function's own: the call does not take it for a missing attribute of its arguments."""
    calls = []

    def host(a: np.ndarray) -> np.ndarray:
        calls.append(a)
        return a.nothing

    f = qr.jit(lambda a: qr.pure_callback(host, qr.ShapeDtypeStruct((3,), np.float32), a))
    with pytest.raises(AttributeError, match="nothing") as caught:
        f(x)
    assert len(calls) == 1
    assert caught.value.__suppress_context__  # of the error that the runtime made of it


def test_prints_follow_numpy_s_options_where_they_are_traced(capsys):
    x = np.array([1.2345, 2.3456, 1e-7], np.float32)

    def f(x):
        with np.printoptions(precision=2, suppress=True):
            qr.debug.print("{}", x)
        qr.debug.print("{}", x)
        return x

    f(x)
    qr.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.35 0.  ]\n[1.2345e+00 2.3456e+00 1.0000e-07]\n"
    qr.jit(f)(x)
    qr.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.35 0.  ]\n[1.2345e+00 2.3456e+00 1.0000e-07]\n"

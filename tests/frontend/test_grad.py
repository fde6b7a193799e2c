# ruff: noqa: E501 - tables
"""grad, value_and_grad, jacfwd, jacrev, hessian: against JAX, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

from .jax_oracle import W, X, check

C = np.complex64(1 + 2j)


def until_large(x: Any) -> Any:
    while abs(x) < 100:
        x = x * x
    return x


def halved(x: Any) -> Any:
    return x if x < 1 else halved(x / 2) * x


def newton(n: Any, a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-4:
        x = 0.5 * (x + a / x)
    return x


def smooth(n: Any) -> Any:
    return lambda x: (n.sin(x) * x.sum()).sum()


def twice(q: Any, f: Any) -> Any:
    """The derivative of the derivative of each lane, of which the first does not take the second branch."""
    taken = np.array([True, False])
    return q.grad(lambda x: q.vmap(q.grad(lambda x, p: f(x, p).sum()))(x, taken).sum())(
        np.array([[0], [2]], np.float32)
    )


CASES: dict[str, Any] = {
    "third derivative": lambda q, n, l: q.grad(q.grad(q.grad(lambda x: x**5)))(2.0),
    "argnums tuple": lambda q, n, l: q.grad(lambda x, y: (x @ y).sum(), argnums=(0, 1))(X, W),
    "argnums list": lambda q, n, l: q.grad(lambda x, y: (x @ y).sum(), argnums=[1])(X, W),
    "argnums negative": lambda q, n, l: q.grad(lambda x, y: (x @ y).sum(), argnums=-1)(X, W),
    "tree": lambda q, n, l: q.grad(lambda p: (p["a"][0] * p["b"]).sum())({"a": (X, W), "b": X}),
    "keyword": lambda q, n, l: q.grad(lambda x, *, k: x * k)(2.0, k=3.0),
    "aux": lambda q, n, l: q.grad(lambda x: (n.sin(x).sum(), {"a": n.cos(x)}), has_aux=True)(X),
    "value aux": lambda q, n, l: q.value_and_grad(lambda x: (n.sin(x).sum(), (x, 1.0)), has_aux=True)(X),
    "value": lambda q, n, l: q.value_and_grad(lambda x: (x**3).sum())(X),
    "holomorphic": lambda q, n, l: q.grad(lambda z: z**2 + n.sin(z), holomorphic=True)(C),
    "real of complex": lambda q, n, l: q.grad(lambda z: n.abs(z) ** 2 + (z * (1 + 2j)).real)(C),
    "complex convention": lambda q, n, l: q.grad(lambda z: (z * z).imag + n.angle(z))(C),
    "real through complex": lambda q, n, l: q.grad(lambda x: n.abs(n.exp(1j * x) + x))(0.3),
    "int with allow_int": lambda q, n, l: q.grad(lambda i, x: i * x, argnums=(0, 1), allow_int=True)(3, 2.0),
    "constant": lambda q, n, l: q.grad(lambda x: 3.0)(2.0),
    "identity": lambda q, n, l: q.grad(lambda x: x)(2.0),
    "unused": lambda q, n, l: q.grad(lambda x, y: y.sum(), (0, 1))(X, W),
    "perturbation reverse": lambda q, n, l: q.grad(lambda x: x * q.grad(lambda y: x + y)(1.0))(2.0),
    "perturbation product": lambda q, n, l: q.grad(lambda x: x * q.grad(lambda y: x * y * y)(x))(2.0),
    "perturbation mixed": lambda q, n, l: q.jvp(lambda x: x * q.grad(lambda y: x * y * y)(3.0), (2.0,), (1.0,)),
    "if": lambda q, n, l: q.grad(lambda x: x**2 if x > 0 else -x)(2.0),
    "if else": lambda q, n, l: q.grad(lambda x: x**2 if x > 0 else -x)(-2.0),
    "while": lambda q, n, l: q.grad(until_large)(2.0),
    "recursion": lambda q, n, l: q.grad(halved)(10.0),
    "until convergence": lambda q, n, l: q.grad(lambda a: newton(n, a))(2.0),
    "second order of a loop": lambda q, n, l: q.grad(q.grad(until_large))(2.0),
    "second order of branches not taken": lambda q, n, l: twice(
        q, lambda x, p: l.cond(p, lambda x: x * x, lambda x: n.log(x) + 1 / x + n.sqrt(x), x)
    ),
    "second order of extremes not taken": lambda q, n, l: twice(
        q, lambda x, p: l.cond(p, lambda x: x, lambda x: n.max(x * x, -1, keepdims=True), x)
    ),
    "if in nested grad": lambda q, n, l: q.grad(lambda x: q.grad(until_large)(x) if x > 0 else x)(2.0),
    "jit of grad": lambda q, n, l: q.jit(q.grad(lambda x: n.sin(x) * x))(2.0),
    "grad of jit": lambda q, n, l: q.grad(q.jit(lambda x: (n.tanh(x) * x).sum()))(X),
    "jit grad vmap": lambda q, n, l: q.jit(q.grad(lambda x: q.vmap(lambda y: n.tanh(y * y))(x).sum()))(X),
    "vmap jit grad": lambda q, n, l: q.vmap(q.jit(q.grad(lambda x: n.sin(x) * x)))(X),
    "grad jit vmap grad": lambda q, n, l: q.grad(lambda x: q.jit(q.vmap(q.grad(lambda y: y**3)))(x).sum())(X),
    "hessian": lambda q, n, l: q.hessian(smooth(n))(X),
    "hessian tree": lambda q, n, l: q.hessian(lambda p: (n.sin(p["a"]) * p["b"]).sum())({"a": X, "b": X}),
    "jacfwd": lambda q, n, l: q.jacfwd(lambda x: n.sin(x) * x.sum())(X),
    "jacfwd tree": lambda q, n, l: q.jacfwd(lambda x: {"a": x["p"] * x["q"].sum(), "b": x["q"]})({"p": X, "q": W}),
    "jacfwd aux": lambda q, n, l: q.jacfwd(lambda x: (n.sin(x), {"y": x.sum()}), has_aux=True)(X),
    "jacrev": lambda q, n, l: q.jacrev(lambda x, y: x * y.sum(), (0, 1))(X, X),
    "jacrev tree": lambda q, n, l: q.jacrev(lambda x: {"a": x["p"] * x["q"].sum(), "b": x["q"]})({"p": X, "q": W}),
    "jacrev aux": lambda q, n, l: q.jacrev(lambda x: (n.sin(x), {"y": x.sum()}), has_aux=True)(X),
    "jacrev holomorphic": lambda q, n, l: q.jacrev(lambda z: z * z, holomorphic=True)(np.array([C, 3.0], np.complex64)),
    "jacfwd holomorphic": lambda q, n, l: q.jacfwd(lambda z: z * z, holomorphic=True)(np.array([C, 3.0], np.complex64)),
    "jacfwd of integers": lambda q, n, l: q.jacfwd(
        lambda p: {"a": n.argsort(p["x"]), "b": p["y"], "c": p["x"].astype(n.int8), "d": 3}
    )({"x": X, "y": W}),
    "jacfwd of no integers": lambda q, n, l: q.jit(q.jacfwd(n.argsort))(np.ones(0, np.float32)),
    "jacfwd twice of integers": lambda q, n, l: q.jit(q.jacfwd(q.jacfwd(n.argsort)))(X),
    "jacfwd of weak integers": lambda q, n, l: n.ones(2, np.int8) * q.jacfwd(lambda x: 3)(2.0),
    "jacrev by integers": lambda q, n, l: q.jacrev(lambda i, x: {"o": i["k"] * x}, (0, 1), allow_int=True)(
        {"k": np.arange(3, dtype=np.uint8)}, X
    ),
    "jacrev by an integer": lambda q, n, l: q.jit(q.jacrev(lambda i: i * 2.0, allow_int=True))(3),
    "hvp forward": lambda q, n, l: q.jvp(q.grad(smooth(n)), (X,), (X,))[1],
    "hvp reverse": lambda q, n, l: q.grad(lambda x: (q.grad(smooth(n))(x) * X).sum())(X),
    "through integers": lambda q, n, l: q.grad(lambda x: (x.astype(int).astype(float) * x).sum())(X),
    "scan": lambda q, n, l: q.grad(lambda x: l.scan(lambda c, y: (n.sin(c * y), c), x, X)[0])(0.7),
    "scan of closed-over": lambda q, n, l: q.grad(lambda w: l.scan(lambda c, y: (c * w + y, c * w), 1.0, X)[1].sum())(
        0.7
    ),
    "fori_loop": lambda q, n, l: q.grad(lambda x: l.fori_loop(0, 4, lambda i, c: n.sin(c) * i, x))(0.7),
    "cond": lambda q, n, l: q.grad(lambda x: l.cond(x > 0, n.sin, n.cos, x))(0.7),
    "switch": lambda q, n, l: q.grad(lambda x: l.switch(1, [n.sin, n.cos, lambda y: y], x))(0.7),
    "map": lambda q, n, l: q.grad(lambda x: l.map(n.sin, x).sum())(X),
    "associative_scan": lambda q, n, l: q.grad(lambda x: (l.associative_scan(n.multiply, x) * X).sum())(X),
    "stop_gradient": lambda q, n, l: q.grad(lambda x: l.stop_gradient(x) * x)(2.0),
    "stop_gradient tree": lambda q, n, l: q.grad(lambda p: l.stop_gradient(p)["a"] * p["a"])({"a": 2.0}),
    "weak type": lambda q, n, l: n.ones(2, np.float16) * q.grad(n.sin)(2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def test_results_are_arrays() -> None:
    g = quire.grad(lambda x: x)(2.0)
    assert isinstance(g, quire.Array) and g.shape == ()
    value, g = quire.value_and_grad(lambda x: x)(np.float32(2))
    assert isinstance(value, quire.Array) and isinstance(g, quire.Array)


def test_values_are_known_outside_compile() -> None:
    np.testing.assert_allclose(quire.grad(lambda x: x * float(x))(2.0), 2.0)
    np.testing.assert_allclose(quire.grad(lambda x: x ** int(x))(2.0), 4.0)


def test_while_with_bound_is_differentiated_in_reverse() -> None:
    def f(x: Any, max_steps: int | None) -> Any:
        return lax.while_loop(lambda c: c < 10, lambda c: c * c + 0.5, x, max_steps=max_steps)

    forward = quire.jvp(lambda x: f(x, None), (1.2,), (1.0,))[1]
    np.testing.assert_allclose(quire.grad(lambda x: f(x, 9))(1.2), forward, rtol=1e-5)
    with pytest.raises(ValueError, match=r"while_loop cannot be differentiated in reverse.*max_steps=n"):
        quire.grad(lambda x: f(x, None))(1.2)
    with pytest.raises(ValueError, match="cannot be differentiated in reverse"):
        quire.jit(quire.grad(lambda x, n: lax.fori_loop(0, n, lambda i, c: c * c, x)))(1.2, 3)


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "int": (
        lambda: quire.grad(lambda i: i * 2.0)(3), TypeError,
        r"grad requires real- or complex-valued inputs.*got int32.*test_grad.py:\d+.*allow_int=True",
    ),
    "shape": (
        lambda: quire.grad(lambda x: x * 2)(X), TypeError,
        r"Gradient only defined for scalar-output functions\. Output had shape: \(3,\)",
    ),
    "container": (lambda: quire.grad(lambda x: (x,))(2.0), TypeError, "scalar-output functions. Output was a container"),
    "int output": (lambda: quire.grad(lambda x: 3)(2.0), TypeError, "grad requires real-valued outputs.*got int32"),
    "complex output": (lambda: quire.grad(lambda x: x * 1j)(2.0), TypeError, "got complex64. For holomorphic differentiation"),
    "holomorphic input": (
        lambda: quire.grad(lambda x: x, holomorphic=True)(2.0), TypeError,
        "requires inputs with complex dtype, got float32",
    ),
    "aux": (lambda: quire.grad(lambda x: x, has_aux=True)(2.0), TypeError, "must return a pair"),
    "argnums": (lambda: quire.grad(lambda x: x, argnums=1)(2.0), TypeError, "argnums=1 needs at least 2 positional arguments, got 1"),
    "argnums twice": (lambda: quire.grad(lambda x: x, argnums=(0, -1))(2.0), ValueError, "names an argument twice"),
    "argnums type": (
        lambda: quire.grad(lambda x: x, argnums="x")(2.0), TypeError,
        "argnums must be an int or a sequence of ints, got 'x'",
    ),
    "not a function": (lambda: quire.grad(3), TypeError, "grad: expected a function, got 3 of type int"),
    "object": (lambda: quire.grad(lambda x: 1.0)("a"), TypeError, "a differentiated argument holds 'a' of type str"),
    "returned object": (lambda: quire.grad(lambda x: "a")(2.0), TypeError, "the function returned 'a' of type str"),
    "jacfwd complex": (lambda: quire.jacfwd(lambda z: z * z)(C), TypeError, "jacfwd requires real-valued inputs"),
    "jacrev complex": (lambda: quire.jacrev(lambda z: z * 1j)(2.0), TypeError, "jacrev requires real-valued outputs"),
    "jacrev int": (
        lambda: quire.jacrev(lambda x: {"a": qnp.argmax(x), "b": x})(X), TypeError,
        "jacrev requires real-valued outputs.*got int32.*integer outputs use quire.vjp",
    ),
    "jacrev bool": (lambda: quire.jacrev(lambda x: x > 0, allow_int=True)(X), TypeError, "real-valued outputs.*got bool"),
    "hessian int": (lambda: quire.hessian(qnp.argmax)(X), TypeError, "jacrev requires real-valued outputs.*got int32"),
    "jacrev None": (
        lambda: quire.jacrev(lambda x: None)(2.0), ValueError,
        "jacrev of <lambda>: the function must return arrays to differentiate, it returned None",
    ),
    "jacfwd of none": (lambda: quire.jacfwd(lambda x: 2.0)(()), ValueError, "jacfwd of <lambda>: .* must hold arrays, got"),
    "jacfwd aux": (lambda: quire.jacfwd(qnp.sin, has_aux=True)(2.0), TypeError, "jvp of sin: .* must return a pair"),
    "jacrev aux": (lambda: quire.jacrev(qnp.sin, has_aux=True)(2.0), TypeError, "vjp of sin: .* must return a pair"),
    "grad by a key": (
        lambda: quire.grad(quire.random.normal)(quire.random.key(0)), TypeError,
        "grad requires .* got key<fry>.*nothing has a derivative by a key",
    ),
    "grad of a key": (lambda: quire.grad(lambda x: quire.random.key(0))(2.0), TypeError, "returned an array of keys"),
    "jacfwd by a key": (lambda: quire.jacfwd(quire.random.normal)(quire.random.key(0)), TypeError, "got key<fry>"),
    "jacrev by a key": (
        lambda: quire.jacrev(quire.random.normal, allow_int=True)(quire.random.key(0)), TypeError, "got key<fry>"
    ),
    "jacfwd of a key": (lambda: quire.jacfwd(lambda x: quire.random.key(0))(2.0), TypeError, "an array of keys"),
    "jacrev of a key": (lambda: quire.jacrev(lambda x: quire.random.key(0))(2.0), TypeError, "an array of keys"),
    "jit if": (
        lambda: quire.jit(quire.grad(lambda x: x if x > 0 else -x))(2.0), quire.errors.TracerBoolConversionError,
        r"test_grad.py:\d+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    f, kind, text = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){text}"):
        f()


def n_eqns(jaxpr: Any, name: str | None = None) -> int:
    return sum(1 for e in jaxpr.eqns if name is None or e.primitive.name == name)


def test_jaxpr_of_grad_is_clean() -> None:
    text = str(quire.make_jaxpr(quire.grad(lambda x: qnp.sin(x) * x))(2.0))
    assert "1.0" not in text and "_:" not in text, text  # no product with the unit cotangent, no unused value
    jaxpr = quire.make_jaxpr(quire.grad(lambda x: qnp.sin(x)))(2.0).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns] == ["cos"]


def mlp_loss(params: Any, x: Any, y: Any) -> Any:
    for w, b in params:
        x = qnp.tanh(x @ w + b)
    return ((x - y) ** 2).sum()


def mlp_jaxpr(layers: int, f: Any) -> Any:
    params = [(np.ones((8, 8), np.float32), np.ones(8, np.float32))] * layers
    x = np.ones((4, 8), np.float32)
    return quire.make_jaxpr(f)(params, x, x).jaxpr


def test_equations_grow_linearly_and_products_need_no_transposes() -> None:
    counts = [n_eqns(mlp_jaxpr(k, quire.grad(mlp_loss))) for k in (2, 4, 6)]
    assert counts[1] - counts[0] == counts[2] - counts[1] <= 24
    jaxpr = mlp_jaxpr(4, quire.grad(mlp_loss))
    assert n_eqns(jaxpr, "transpose") == 0
    assert n_eqns(jaxpr, "dot_general") == 4 + 4 + 3  # forward; of the weights; of the activations but the input
    assert n_eqns(jaxpr, "tanh") == 4  # nothing is computed again


def test_forward_pass_is_shared() -> None:
    both = n_eqns(mlp_jaxpr(3, quire.value_and_grad(mlp_loss)))
    alone = n_eqns(mlp_jaxpr(3, quire.grad(mlp_loss)))
    assert both - alone <= 2  # the square and its sum, which only the value needs


def test_power_of_python_numbers():
    """Both operands are numbers and no arrays while the rule runs: its constants must have their dtype."""
    by_base, by_exponent = quire.grad(lambda x, y: qnp.power(x, y), argnums=(0, 1))(0.25, 1.5)
    assert by_base.item() == 0.75
    assert abs(by_exponent.item() - np.log(0.25) * 0.125) < 1e-7


def test_reduce_axes_is_taken_where_it_is_empty():
    assert float(quire.grad(lambda x: x * x, reduce_axes=())(3.0)) == 6
    assert [float(v) for v in quire.value_and_grad(lambda x: x * x, reduce_axes=())(3.0)] == [9, 6]
    with pytest.raises(NotImplementedError, match="reduce_axes must be empty"):
        quire.grad(lambda x: x * x, reduce_axes=("i",))


WIDE_WITHIN = {
    "sin": qnp.sin, "pow": lambda x: x**2.0, "division": lambda x: 1 / x, "tanh": qnp.tanh, "log1p": qnp.log1p,
    "softmax": lambda x: quire.nn.softmax(x * qnp.arange(3.0))[0], "cumprod": lambda x: qnp.cumprod(x * qnp.arange(1, 4.0))[2],
    "norm": lambda x: qnp.linalg.norm(x * qnp.arange(1, 4.0)), "where": lambda x: qnp.where(x > 0, x * x * x, -x),
    "scan": lambda x: quire.lax.scan(lambda c, _: (c * x, c), x, None, length=3)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE_WITHIN)
def test_derivatives_of_functions_that_enable_64_bits_within(name):
    """Outside of the block their literals, and the constants of rules, are of 64 bits still."""

    def f(x):
        with quire.enable_x64(True):
            return WIDE_WITHIN[name](qnp.asarray(x, qnp.float64))

    with quire.enable_x64(True):
        want = [float(d(WIDE_WITHIN[name])(0.5)) for d in (quire.grad, quire.hessian)]
    first = (
        quire.grad(f),
        quire.jit(quire.grad(f)),
        quire.jacrev(f),
        lambda x: quire.vmap(quire.grad(f))(qnp.ones(1) * x)[0],
    )
    for d in first:
        np.testing.assert_allclose(float(d(0.5)), want[0], rtol=1e-6)
    assert quire.jacfwd(f)(0.5).dtype == np.float64 and quire.grad(f)(0.5).dtype == np.float32
    np.testing.assert_allclose(float(quire.jacfwd(f)(0.5)), want[0], rtol=1e-14)
    for d in (quire.grad(quire.grad(f)), quire.hessian(f), quire.jit(quire.hessian(f))):
        np.testing.assert_allclose(float(d(0.5)), want[1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("of", ["max", "min"])
def test_second_derivatives_of_windows_with_gaps(of):
    """Against JAX, and where JAX has none (dilated windows) against differences of gradients."""
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(3).standard_normal((5, 4))
    params = dict(window_dimensions=(2, 3), window_strides=(1, 2), padding=((0, 1), (1, 1)))

    def f(l: Any, n: Any, **dilation: Any) -> Any:
        init = {"max": -np.inf, "min": np.inf}[of]
        return lambda x: n.sum(l.reduce_window(n.sin(x), init, getattr(l, of), **params, **dilation) ** 3)

    with quire.enable_x64(True), jax.enable_x64(True):
        base = {"base_dilation": (2, 1)}
        want = jax.hessian(f(jax.lax, jax.numpy, **base))(x)
        for compiled in (quire.hessian(f(lax, qnp, **base)), quire.jit(quire.hessian(f(lax, qnp, **base)))):
            np.testing.assert_allclose(np.asarray(compiled(x)), np.asarray(want), rtol=1e-12, atol=1e-14)
        g = quire.jit(quire.grad(f(lax, qnp, window_dilation=(2, 1), **base)))
        got = np.asarray(quire.jit(quire.jacfwd(g))(x)).reshape(20, 20)
        steps = 1e-6 * np.eye(20).reshape(20, 5, 4)
        want = [(np.asarray(g(x + s)) - np.asarray(g(x - s))).reshape(-1) / 2e-6 for s in steps]
        np.testing.assert_allclose(got, np.stack(want, 1), atol=1e-7)


def test_reductions_of_several_arrays_of_which_one_is_batched():
    x, y = np.random.default_rng(4).standard_normal((2, 3, 6)).astype(np.float32)

    def pick(a: Any, b: Any) -> Any:
        take = b[0] > a[0]
        return lax.select(take, b[0], a[0]), lax.select(take, b[1], a[1]), a[2] + b[2]

    def windows(x: Any) -> Any:
        inits = (np.float32(-np.inf), np.float32(0), np.float32(0))
        return lax.reduce_window((x, y[0], y[1]), inits, pick, (3,), (1,), "VALID")

    def whole(x: Any) -> Any:
        return lax.reduce((x, y[0], y[1]), (np.float32(-np.inf), np.float32(0), np.float32(0)), pick, (0,))

    for f in (windows, whole):
        rows = [[np.asarray(r) for r in f(row)] for row in x]
        got = quire.jit(quire.vmap(f, out_axes=(0, 0, None)))(x)
        for i, g in enumerate(got[:2]):
            np.testing.assert_allclose(np.asarray(g), np.stack([r[i] for r in rows]), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(got[2]), rows[0][2], rtol=1e-5)  # read from arrays that are not batched
        jacobian = quire.jit(quire.jacfwd(lambda v, f=f: f(v)[0]))(x[0])
        values = rows[0][0]
        np.testing.assert_array_equal(np.asarray(jacobian), (values[..., None] == x[0]).astype(np.float32))

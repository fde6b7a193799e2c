# ruff: noqa: E501 - tables
"""jvp, vjp, linearize, linear_transpose: against JAX, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ir import dtypes

from .jax_oracle import W, X, check

F0 = np.zeros((), dtypes.float0)


def first_and_last(r: Any) -> Any:
    return r[0], r[1](1.0), r[2]


CASES: dict[str, Any] = {
    "jvp": lambda q, n, l: q.jvp(lambda x, y: n.sin(x) * y, (X, X), (X, W[:, 0])),
    "jvp tree": lambda q, n, l: q.jvp(lambda p: {"z": p["a"] * p["b"]}, ({"a": X, "b": X},), ({"a": X, "b": W[:, 1]},)),
    "jvp int": lambda q, n, l: q.jvp(lambda x, i: x * i, (2.0, 3), (1.0, F0)),
    "jvp int output": lambda q, n, l: q.jvp(lambda x: n.floor(x).astype(int), (2.0,), (1.0,)),
    "jvp aux": lambda q, n, l: q.jvp(lambda x: (x * x, {"a": x}), (2.0,), (1.0,), has_aux=True),
    "jvp of jvp": lambda q, n, l: q.jvp(lambda x: x * q.jvp(lambda y: x * y, (3.0,), (1.0,))[1], (2.0,), (1.0,)),
    "jvp if": lambda q, n, l: q.jvp(lambda x: x * x if x > 1 else x, (2.0,), (1.0,)),
    "jvp while_loop": lambda q, n, l: q.jvp(
        lambda x: l.while_loop(lambda c: c < 10, lambda c: c * 2.5, x), (0.7,), (1.0,)
    ),
    "jvp constant": lambda q, n, l: q.jvp(lambda x: n.ones(3), (2.0,), (1.0,)),
    "vjp": lambda q, n, l: q.vjp(lambda x, y: n.sin(x) * y, 2.0, 3.0)[1](1.0),
    "vjp value": lambda q, n, l: q.vjp(lambda x: {"s": n.sin(x)}, X)[0],
    "vjp tree": lambda q, n, l: q.vjp(lambda p, y: (p["a"] * y, y.sum()), {"a": X}, X)[1]((W[:, 0], 2.0)),
    "vjp aux": lambda q, n, l: first_and_last(q.vjp(lambda x: (n.sin(x), {"a": n.cos(x)}), 2.0, has_aux=True)),
    "vjp twice": lambda q, n, l: (lambda f: (f(X), f(2 * X)))(q.vjp(lambda x: n.sin(x), X)[1]),
    "vjp int": lambda q, n, l: q.vjp(lambda x, i: x * i, 2.0, 3)[1](1.0),
    "vjp of vjp": lambda q, n, l: q.vjp(lambda x: q.vjp(lambda y: n.sin(y) * x, x)[1](1.0)[0], 2.0)[1](1.0),
    "vmap of pullback": lambda q, n, l: q.vmap(q.vjp(lambda x: n.sin(x), X)[1])(np.eye(3, dtype=np.float32)),
    "jit of pullback": lambda q, n, l: q.jit(lambda x, c: q.vjp(lambda x: n.sin(x) * x.sum(), x)[1](c))(X, X),
    "linearize": lambda q, n, l: q.linearize(lambda x, y: n.sin(x) * y, 2.0, 3.0)[1](3.0, 1.0),
    "linearize twice": lambda q, n, l: (lambda f: (f(X), f(2 * X)))(q.linearize(lambda x: n.sin(x) * x, X)[1]),
    "linear_transpose": lambda q, n, l: q.linear_transpose(lambda x: W.T @ x, X)(np.ones(2, np.float32)),
    "linear_transpose shape": lambda q, n, l: q.linear_transpose(lambda x, y: 2 * x + y, X, q.ShapeDtypeStruct((3,), np.float32))(X),
    "linear_transpose jit": lambda q, n, l: q.linear_transpose(q.jit(lambda x: x[:2] * 3), X)(X[:2]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


@quire.custom_vjp
def reverse_only(x: Any) -> Any:
    return x


reverse_only.defvjp(lambda x: (x, None), lambda r, g: (g,))


def pull_without_arguments() -> Any:
    pull = quire.vjp(lambda x, y: x * y, X, X)[1]
    pull.args_res = [None, None]
    return pull(X)


def generator(x: Any) -> Any:
    yield x


def without_tracing() -> Any:
    with quire.no_tracing():
        return quire.jit(lambda x: x)(X)


def without_execution() -> Any:
    f = quire.jit(lambda x: x)
    f(X)
    with quire.no_execution():
        return f(X)


def nested_options() -> Any:
    inner = quire.jit(lambda x: x, compiler_options={"xla_x": 1})
    return quire.jit(lambda x: inner(x))(X)


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "jvp dtype": (lambda: quire.jvp(lambda x: x, (2.0,), (1,)), TypeError, r"the tangent of f32\[\] is f32\[\], got i32\[\].*test_jvp_vjp.py:\d+"),
    "jvp int tangent": (lambda: quire.jvp(lambda x: x, (2,), (1,)), TypeError, "float0"),
    "jvp shape": (lambda: quire.jvp(lambda x: x, (X,), (W,)), ValueError, r"f32\[3\], got f32\[3,2\]"),
    "jvp tree": (lambda: quire.jvp(lambda x, y: x, (X, X), (X,)), TypeError, "must have the same tree structure"),
    "jvp not tuples": (lambda: quire.jvp(lambda x: x, X, X), TypeError, "must be tuples or lists, got ndarray"),
    "vjp shape": (lambda: quire.vjp(lambda x: x, X)[1](W), ValueError, r"the cotangent of output 0 must be f32\[3\], got f32\[3,2\].*test_jvp_vjp.py"),
    "vjp tree": (lambda: quire.vjp(lambda x: (x, x), X)[1](X), ValueError, "must have the output's tree structure"),
    "linear_transpose int": (
        lambda: quire.linear_transpose(lambda x: x * 1.5, 1), TypeError, r"float and complex .*, or integer ones, got i32\[\] -> f32\[\]"
    ),
    "pullback without arguments": (pull_without_arguments, ValueError, r"vjp of .*: args_res has not the arguments .* got"),
    "pmap axes": (lambda: quire.pmap(lambda x: x, in_axes="a")(X), TypeError, "pmap in_axes: each axis must be an int or None, got 'a' of type str"),
    "staticmethod": (lambda: quire.jit(staticmethod(len)), TypeError, "got the staticmethod .*: compile the function below it"),
    "generator": (lambda: quire.jit(generator), TypeError, "got the generator function .*: yield is not traced"),
    "donated name": (lambda: quire.jit(max, donate_argnames="x"), ValueError, "donate_argnames='x': the signature of 'max' is not known"),
    "XLA's options": (
        lambda: quire.jit(len, compiler_options={"fast": 1}), RuntimeError, "No such compile option: 'fast': .*none changes what IREE"
    ),
    "no options": (lambda: quire.jit(len, compiler_options=3), TypeError, "compiler_options must be a mapping .*, got 3"),
    "option's value": (
        lambda: quire.jit(qnp.sin).lower(X).compile({"xla_x": None}),
        TypeError, "Lowered.compile: the compile option xla_x must be a bool, a number or a text, got None of type NoneType"
    ),
    "nested options": (nested_options, ValueError, "can only be passed to top-level `quire.jit`. Got {'xla_x': 1} for .*test_jvp_vjp.py"),
    "token": (lambda: quire.lax.after_all(1), TypeError, "after_all: arguments must be tokens, got 1 of type int"),
    "no tracing": (without_tracing, RuntimeError, "would be traced .*test_jvp_vjp.py.*, in a block of no_tracing"),
    "no execution": (without_execution, RuntimeError, "would run .*test_jvp_vjp.py.*, in a block of no_execution"),
    "primal values": (lambda: quire.custom_derivatives.custom_vjp_primal_tree_values([1]), TypeError, "expected CustomVJPPrimal leaves, got 1"),
    "not linear": (lambda: quire.linear_transpose(qnp.sin, X)(X), Exception, "sin.*not linear"),
    "jvp of custom_vjp": (lambda: quire.jvp(reverse_only, (1.0,), (1.0,)), TypeError, "forward-mode differentiation"),
    "jvp of what calls it": (
        lambda: quire.jit(lambda x: quire.jvp(lambda x: reverse_only(x) * 2, (x,), (x,)))(1.0),
        TypeError, r"custom_vjp reverse_only: forward-mode .*test_jvp_vjp.py",
    ),
    "jvp of its program": (
        lambda: quire.jvp(quire.jit(reverse_only), (1.0,), (1.0,)),
        quire.errors.UnsupportedError, r"custom_lin of reverse_only cannot be compiled .*test_jvp_vjp.py",
    ),
    "jvp of it rematerialized": (
        lambda: quire.jvp(quire.checkpoint(reverse_only), (1.0,), (1.0,)),
        TypeError, "custom_vjp reverse_only: a function with a reverse rule",
    ),
    "compiled jvp of custom_vjp": (
        lambda: quire.jit(lambda x: quire.jvp(reverse_only, (x,), (x,)))(1.0), TypeError, "forward-mode differentiation"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    f, kind, text = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){text}"):
        f()


def test_linear_function_does_no_primal_work() -> None:
    def run(x: Any) -> Any:
        y, f = quire.linearize(lambda x: qnp.sin(qnp.exp(x)), x)
        return y, f(x), f(x + 1)

    names = [e.primitive.name for e in quire.make_jaxpr(run)(X).jaxpr.eqns]
    assert names.count("exp") == 1 and names.count("cos") == 1 and names.count("sin") == 1

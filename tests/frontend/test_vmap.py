# ruff: noqa: E501 - tables
"""vmap and vectorize: against JAX, and their errors."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

from .jax_oracle import W, X, check

ONES = np.ones((4, 1, 3), np.float32)

CASES: dict[str, Any] = {
    "two": lambda q, n, l: q.vmap(lambda x, y: x @ y)(W, W),
    "in_axes None": lambda q, n, l: q.vmap(lambda x, y: x * y, in_axes=(0, None))(X, 2.0),
    "in_axes list": lambda q, n, l: q.vmap(lambda x, y: x + y, in_axes=[0, None])(X, 1.0),
    "in_axes negative": lambda q, n, l: q.vmap(lambda x: x.sum(), in_axes=-1)(W),
    "in_axes prefix": lambda q, n, l: q.vmap(
        lambda a, b: a["x"] * b + a["y"], in_axes=({"x": 0, "y": None}, 1), out_axes=-1
    )({"x": X, "y": 2.0}, W.T),
    "in_axes short prefix": lambda q, n, l: q.vmap(lambda a, b: a["x"] * b + a["y"], in_axes=(None, 0))({"x": 1.0, "y": 2.0}, X),
    "out_axes": lambda q, n, l: q.vmap(lambda x: (x, 2 * x), out_axes=(0, 1))(W),
    "out_axes negative": lambda q, n, l: q.vmap(lambda x: n.stack([x, x]), out_axes=-1)(W),
    "out_axes prefix": lambda q, n, l: q.vmap(lambda x: (x * 1, {"a": x * 1, "b": 2.0}), out_axes=(0, {"a": 0, "b": None}))(X),
    "axis_size": lambda q, n, l: q.vmap(lambda a: a * 1, in_axes=None, axis_size=3)(X),
    "spmd_axis_name": lambda q, n, l: q.vmap(lambda x: x * 2, spmd_axis_name="data")(X),
    "keywords": lambda q, n, l: q.vmap(lambda x, y=0: x + y)(X, y=X),
    "unmapped output": lambda q, n, l: q.vmap(lambda x: n.ones(2))(X),
    "closed-over": lambda q, n, l: q.vmap(lambda x: (W.T @ X) * x)(X),
    "nested": lambda q, n, l: q.vmap(q.vmap(lambda x, y: x * y, (None, 0)), (0, None))(X, X),
    "if on unmapped": lambda q, n, l: q.vmap(lambda x, y: x if y > 0 else -x, in_axes=(0, None))(X, 2.0),
    "jit inside": lambda q, n, l: q.vmap(q.jit(lambda x: n.sin(x) * 2))(X),
    "jit outside": lambda q, n, l: q.jit(q.vmap(lambda x, y: n.outer(x, y).sum(0), (0, None)))(W, X),
    "scan": lambda q, n, l: q.vmap(lambda x, y: l.scan(lambda c, z: (c * x + z, c), 0.0, y), in_axes=(0, None))(X, X),
    "scan of columns": lambda q, n, l: q.vmap(lambda y: l.scan(lambda c, z: (c + z, c), 0.0, y), in_axes=1)(W),
    "cond mapped": lambda q, n, l: q.vmap(lambda x: l.cond(x > 0, n.sin, n.cos, x))(X),
    "cond unmapped": lambda q, n, l: q.vmap(lambda p, x: l.cond(p, n.sin, n.cos, x), in_axes=(None, 0))(True, X),
    "switch mapped": lambda q, n, l: q.vmap(lambda i, x: l.switch(i, [n.sin, n.cos, n.tanh], x))(np.array([2, 0, 1]), X),
    "while mapped": lambda q, n, l: q.vmap(lambda x: l.while_loop(lambda c: c < 10, lambda c: c * 2.5, x))(np.array([0.5, 1, 20], np.float32)),
    "while carry": lambda q, n, l: q.vmap(lambda x: l.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, 1.0)))(X),
    "fori mapped bound": lambda q, n, l: q.vmap(lambda m: l.fori_loop(0, m, lambda i, c: c + i, 0))(np.array([1, 4, 2])),
    "grad inside": lambda q, n, l: q.vmap(q.grad(lambda x: l.scan(lambda c, z: (n.sin(c * z), None), x, X)[0]))(X),
    "grad outside": lambda q, n, l: q.grad(lambda x: q.vmap(lambda x: l.cond(x > 0, n.sin, lambda y: y * y, x))(x).sum())(X),
    "vectorize matvec": lambda q, n, l: n.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")(np.ones((5, 2, 3), np.float32), X),
    "vectorize broadcast": lambda q, n, l: n.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(ONES, W.T),
    "vectorize scalars": lambda q, n, l: n.vectorize(lambda a, b: a * b)(ONES, np.ones((1, 2, 1), np.float32)),
    "vectorize ones": lambda q, n, l: n.vectorize(lambda a, b: a * b)(ONES, np.ones((1, 1, 1), np.float32)),
    "vectorize excluded": lambda q, n, l: n.vectorize(lambda a, b: a * len(b), excluded={1})(X, [1, 2]),
    "vectorize two results": lambda q, n, l: n.vectorize(lambda a, b: (a * 1, b * 2), signature="(n),()->(n),()")(W.T, X[:2]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def ident(x: Any) -> Any:
    return x


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "sizes": (
        lambda: quire.vmap(lambda first, second: first + second)(X, W[:2]), ValueError,
        r"inconsistent sizes.*test_vmap.py:\d+.*size 3: first of type f32\[3\] along axis 0.*size 2: second of type f32\[2,2\]",
    ),
    "nothing mapped": (lambda: quire.vmap(ident, in_axes=None)(X), ValueError, "at least one non-None value in in_axes"),
    "axis_size": (lambda: quire.vmap(ident, axis_size=4)(X), ValueError, "inconsistent sizes.*axis_size=4"),
    "out_axes None": (lambda: quire.vmap(ident, out_axes=None)(X), ValueError, "vmap of ident has mapped output but out_axes is None"),
    "out_axes range": (lambda: quire.vmap(ident, out_axes=2)(X), ValueError, "out_axes 2 is out of bounds"),
    "out_axes prefix": (lambda: quire.vmap(ident, out_axes=(0, 0))(X), ValueError, "out_axes specification must be a tree prefix"),
    "rank": (lambda: quire.vmap(ident, in_axes=2)(X), ValueError, "rank should be at least 3, but argument x has rank 1"),
    "scalar": (lambda: quire.vmap(ident)(1.0), ValueError, "argument x has rank 0"),
    "in_axes type": (lambda: quire.vmap(ident, in_axes={"a": 1}), TypeError, "vmap in_axes must be an int, None, or a tuple"),
    "in_axes leaf": (lambda: quire.vmap(ident, in_axes=(1.5,)), TypeError, "got 1.5 of type float"),
    "in_axes length": (lambda: quire.vmap(ident, in_axes=(0, 0))(X), ValueError, r"len\(in_axes\)=2, len\(args\)=1"),
    "in_axes prefix": (lambda: quire.vmap(ident, in_axes=({"a": 0},))({"b": X}), ValueError, "must be a tree prefix"),
    "if on mapped": (lambda: quire.vmap(lambda x: x if x > 0 else -x)(X), quire.errors.TracerBoolConversionError, "vmap of <lambda>"),
    "returned object": (lambda: quire.vmap(lambda x: "a")(X), TypeError, "the function returned 'a' of type str"),
    "signature": (lambda: qnp.vectorize(ident, signature="(n)(m)->(n)"), ValueError, "not a valid gufunc signature"),
    "core size": (lambda: qnp.vectorize(lambda a, b: a, signature="(n,m),(m)->(n)")(W, X), ValueError, "argument 1 has size 3 for the core dimension 'm', another has 2"),
    "core rank": (lambda: qnp.vectorize(ident, signature="(n)->(n)")(1.0), ValueError, "does not have enough dimensions"),
    "core result": (lambda: qnp.vectorize(ident, signature="(n)->()")(W), ValueError, r"result 0 has the shape \(2,\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    f, kind, text = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){text}"):
        f()


def test_costly_branch_is_reported_once_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    big = np.ones((128, 128), np.float32)

    def f(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda x: x @ big @ big, lambda x: x, x)

    with caplog.at_level(logging.WARNING, logger="quire"):
        batched = quire.vmap(f)
        first = quire.make_jaxpr(batched)(np.ones((3, 128, 128), np.float32))
        quire.make_jaxpr(batched)(np.ones((3, 128, 128), np.float32))
    reports = [r.getMessage() for r in caplog.records if "cond under vmap" in r.getMessage()]
    assert len(reports) == 1 and "test_vmap.py" in reports[0], reports
    assert "cond" not in {e.primitive.name for e in first.jaxpr.eqns}


def test_a_branch_can_stay_lazy_under_vmap() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x > 0, qnp.sin, lambda y: y * y, x, batching="loop")

    want = np.where(X > 0, np.sin(X), X * X)
    slope = np.where(X > 0, np.cos(X), 2 * X)
    np.testing.assert_allclose(quire.vmap(f)(X), want, rtol=1e-6)
    np.testing.assert_allclose(quire.grad(lambda x: quire.vmap(f)(x).sum())(X), slope, rtol=1e-6)
    np.testing.assert_allclose(quire.vmap(quire.grad(f))(X), slope, rtol=1e-6)
    np.testing.assert_allclose(quire.vmap(quire.vmap(f))(np.stack([X, -X]))[0], want, rtol=1e-6)
    eqns = quire.make_jaxpr(quire.vmap(f))(X).jaxpr.eqns
    assert "scan" in {e.primitive.name for e in eqns} and "select_n" not in {e.primitive.name for e in eqns}
    with pytest.raises(ValueError, match='batching must be "select" or "loop", got "fast"'.replace('"fast"', "'fast'")):
        lax.cond(True, qnp.sin, qnp.cos, 1.0, batching="fast")

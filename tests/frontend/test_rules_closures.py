"""Rules of custom_jvp and custom_vjp that close over traced values: of each transformation, against JAX where it has them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import errors, lax

from .jax_oracle import X, check


def product_jvp(q: Any, x: Any) -> Any:
    """A function whose rule alone reads `x`: 3 x for the derivative."""

    @q.custom_jvp
    def g(y: Any) -> Any:
        return y * 2

    @g.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return g(primals[0]), 3 * x * tangents[0]

    return g


def product_vjp(q: Any, x: Any, in_forward: bool = True) -> Any:
    """x y, where both rules read x."""

    @q.custom_vjp
    def g(y: Any) -> Any:
        return x * y

    if in_forward:
        g.defvjp(lambda y: (x * y, (x, y)), lambda r, ct: (5 * r[0] * ct,))
    else:
        g.defvjp(lambda y: (g(y), y), lambda _, ct: (5 * x * ct,))
    return g


class Scale:
    """An object with a traced value, whose method is a rule."""

    def __init__(self, q: Any, x: Any) -> None:
        self.x = x
        self.f = q.custom_jvp(lambda y: y)
        self.f.defjvp(self.rule)

    def rule(self, primals: Any, tangents: Any) -> Any:
        return self.f(primals[0]), self.x * tangents[0]


def nondiff(q: Any) -> Any:
    f = q.custom_jvp(lambda x, y: x * y, nondiff_argnums=(0,))
    f.defjvp(lambda x, primals, tangents: (f(x, *primals), 5 * x * tangents[0]))
    return f


def keyed(q: Any, key: Any) -> Any:
    f = q.custom_jvp(lambda y: y)
    f.defjvp(lambda p, t: (f(p[0]), q.random.uniform(key) * t[0]))
    return f


LIKE_JAX: dict[str, Any] = {
    "jvp of vmap": lambda q, n, l: q.jvp(lambda z: q.vmap(lambda x: product_jvp(q, x)(z))(X), (2.0,), (1.0,)),
    "jvp of vmap of both": lambda q, n, l: q.jvp(lambda z: q.vmap(lambda x, y: product_jvp(q, x)(z * y))(X, X), (2.0,), (1.0,)),
    "jvp of vmap of vmap": lambda q, n, l: q.jvp(
        lambda z: q.vmap(lambda x: q.vmap(lambda y: product_jvp(q, x * y)(z))(X))(X), (2.0,), (1.0,)
    ),
    "grad of vmap": lambda q, n, l: q.grad(lambda z: q.vmap(lambda x: product_vjp(q, x)(z))(X).sum())(2.0),
    "grad of vmap, compiled": lambda q, n, l: q.jit(q.grad(lambda z: q.vmap(lambda x: product_vjp(q, x)(z))(X).sum()))(2.0),
    "vmap of grad": lambda q, n, l: q.vmap(lambda x: q.grad(product_vjp(q, x))(3.0))(X),
    "vmap of grad, backward": lambda q, n, l: q.vmap(lambda x: q.grad(product_vjp(q, x, False))(3.0))(X),
    "intermediate": lambda q, n, l: q.jit(lambda z: q.jvp(lambda z: product_jvp(q, n.sin(2.0))(z), (z,), (1.0,)))(1.0),
    "an argument of the rule": lambda q, n, l: q.jvp(lambda y: q.vmap(nondiff(q), in_axes=(0, None))(X, y), (3.0,), (1.0,)),
    "partial": lambda q, n, l: q.jvp(lambda y: q.vmap(lambda x: functools.partial(nondiff(q), x)(y))(X), (3.0,), (1.0,)),
    "a method": lambda q, n, l: q.jvp(lambda z: q.vmap(lambda x: Scale(q, x).f(z))(X), (2.0,), (1.0,)),
    "keys": lambda q, n, l: q.jvp(
        lambda z: q.vmap(lambda k: keyed(q, k)(z))(q.random.split(q.random.key(0), 3)), (2.0,), (1.0,)
    ),
    "compiled within the rule": lambda q, n, l: q.jvp(
        lambda z: q.vmap(lambda x: keyed_by_jit(q, n, x)(z))(X), (2.0,), (1.0,)
    ),
}  # fmt: skip


def keyed_by_jit(q: Any, n: Any, x: Any) -> Any:
    f = q.custom_jvp(lambda y: y)
    f.defjvp(lambda p, t: (f(p[0]), q.jit(lambda a: n.cos(a) * x)(x) * t[0]))
    return f


@pytest.mark.parametrize("name", LIKE_JAX)
def test_like_jax(name: str) -> None:
    check(LIKE_JAX[name])


def in_scan(z: Any, rule: Any) -> Any:
    return lax.scan(lambda c, x: (rule(quire, x)(c), None), z, X)[0]


def in_while(z: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, product_jvp(quire, c[0] + 1.0)(c[1])), (0, z))[1]


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda z: quire.jit(lambda x, z: product_jvp(quire, x)(z))(2.0, z), 6.0),
        (lambda z: quire.jit(lambda x, z: product_vjp(quire, x, False)(z))(2.0, z), 10.0),
        (lambda z: in_scan(z, product_jvp), 27 * np.prod(X)),
        (lambda z: in_scan(z, product_vjp), 125 * np.prod(X)),
        (lambda z: quire.checkpoint(lambda x, z: product_vjp(quire, quire.numpy.sin(x))(z))(2.0, z), 5 * np.sin(2.0)),
        (lambda z: quire.vmap(lambda x: product_vjp(quire, x, False)(z))(X).sum(), 5 * X.sum()),
        (lambda z: lax.cond(z > 0, lambda x, z: product_vjp(quire, x * 2)(z), lambda x, z: z, 2.0, z), 20.0),
    ],
)  # fmt: skip
def test_what_jax_refuses(f: Any, want: float) -> None:
    """Values of compiled functions, loops and branches; those of vmap in a backward rule."""
    for transformed in (
        quire.grad(f),
        quire.jit(quire.grad(f)),
        lambda z: quire.vmap(quire.grad(f))(qnp.full(2, z))[1],
    ):
        np.testing.assert_allclose(transformed(1.5), want, rtol=1e-5)


def test_forward_through_a_loop():
    np.testing.assert_allclose(quire.jvp(in_while, (1.5,), (1.0,)), (12.0, 27.0 * 6), rtol=1e-5)


def test_a_rule_outside_of_traces_reads_values():
    """A derivative of values that are known runs the rules at once, when the function's trace is over."""
    seen = []

    def f(z):
        x = qnp.sin(z * 0 + 2.0)
        g = quire.custom_jvp(lambda y: y)

        @g.defjvp
        def _(primals, tangents):
            seen.append(x)
            return primals[0], x

        return g(z)

    assert abs(float(quire.jvp(f, (1.0,), (1.0,))[1]) - np.sin(2.0)) < 1e-6 and seen


@pytest.mark.parametrize("derivative", [lambda f: quire.jvp(f, (3.0,), (1.0,)), lambda f: quire.grad(f)(3.0)])
def test_what_the_function_closes_over_is_not_differentiated(derivative: Any) -> None:
    """Also where no argument is traced: the rule would be passed over in silence."""

    def f(x):
        g = quire.custom_jvp(lambda y: x + y)
        g.defjvp(lambda primals, tangents: (g(x), 2 * primals[0]))
        return g(1.0)

    with pytest.raises(errors.UnexpectedTracerError, match="custom_jvp <lambda>: .*a value it closes over"):
        derivative(f)


def test_values_that_leaked_are_still_refused():
    """A rule that finds a value of an ended trace in a list which was filled elsewhere."""
    kept = []
    quire.jit(lambda x: kept.append(x) or x)(1.0)
    f = quire.custom_jvp(lambda y: y)
    f.defjvp(lambda p, t: (f(p[0]), kept[0] * t[0]))
    with pytest.raises(errors.UnexpectedTracerError, match="used after its trace ended"):
        quire.grad(f)(1.0)

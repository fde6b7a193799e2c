"""Taylor series along curves, against JAX's jet and against derivatives of the curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.experimental.jet import fact, jet, zero_series

jax = pytest.importorskip("jax")

X, Y = np.float32(0.5), np.array([2.0, 0.7], np.float32)
SERIES = ((1.0, 0.5, 0.2), (Y * 0.3, Y * 0.1, np.ones(2, np.float32)))
FUNCTIONS: dict[str, Any] = {
    "products": lambda n, l, x, y: n.sin(x) * y + x**3 / y,
    "functions": lambda n, l, x, y: {"a": n.exp(x * y), "b": (n.log(y), n.tanh(x) ** 2)},
    "reductions": lambda n, l, x, y: n.sum(n.sqrt(y) * x) + n.max(y) - n.mean(y + x),
    "matrices": lambda n, l, x, y: n.dot(y, n.outer(y, y)) * x,
    "choices": lambda n, l, x, y: n.where(y > 1, y**2, n.abs(x - y)),
    "powers": lambda n, l, x, y: l.integer_pow(y, 3) * n.cos(x) + l.logistic(y),
    "numbers": lambda n, l, x, y: (3.0, y * 2),
}


@pytest.mark.parametrize("factorial_scaled", [True, False])
def test_like_jax(factorial_scaled: bool) -> None:
    from jax.experimental.jet import jet as jaxs

    for name, f in FUNCTIONS.items():
        got = jet(lambda *a, f=f: f(qnp, quire.lax, *a), (X, Y), SERIES, factorial_scaled=factorial_scaled)
        want = jaxs(lambda *a, f=f: f(jax.numpy, jax.lax, *a), (X, Y), SERIES, factorial_scaled=factorial_scaled)
        assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want), name
        for g, w in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-5, err_msg=name)


def test_terms_of_functions_that_jax_has_no_rules_for() -> None:
    """They are derivatives of the curve, one of another; also compiled, and those of integers are zeros."""

    def f(x: Any, y: Any) -> Any:
        last, _ = quire.lax.scan(lambda c, b: (qnp.sin(c * b), None), x, y)
        return qnp.logaddexp(last, y).prod() * quire.scipy.special.gammaln(x + 2), qnp.argmax(y)

    def along(t: Any) -> Any:
        return f(X + t - 0.5 * t**2, qnp.asarray(Y))[0]

    (y, index), (terms, zeros) = quire.jit(lambda x, y: jet(f, (x, y), ((1.0, -1.0), zero_series)))(X, Y)
    want = [along(0.0), quire.grad(along)(0.0), quire.grad(quire.grad(along))(0.0)]
    np.testing.assert_allclose([y, *terms], want, rtol=1e-5)
    assert index == 0 and zeros[0].dtype == index.dtype and not np.any(zeros)
    assert jet(lambda x, b: qnp.where(b, x * x, x), (X, True), ((1.0, 0.0), (False, False)))[1] == [1.0, 2.0]
    z, (first,) = jet(lambda z: z * z, (np.complex64(1 + 2j),), ((2j,),))
    assert (z.item(), first.item(), fact(4)) == (-3 + 4j, -8 + 4j, 24)
    assert jet(lambda x: x * 2, (X,), ((),)) == (1.0, [])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"jet of <lambda>: the series have different numbers of terms, \[1, 2\]"):
        jet(lambda x, y: x, (X, X), ((1.0,), (1.0, 2.0)))
    with pytest.raises(ValueError, match="2 primals and 1 series were given"):
        jet(lambda x, y: x, (X, X), ((1.0,),))
    with pytest.raises(ValueError, match="primal value at position 0 is not an array: {'p': 1.0}"):
        jet(lambda x: x, ({"p": 1.0},), ((1.0,),))
    with pytest.raises(
        ValueError, match=r"term 1 of argument 0 must have the shape of the argument, f32\[\], got f32\[2\]"
    ):
        jet(lambda x: x, (X,), ((Y,),))

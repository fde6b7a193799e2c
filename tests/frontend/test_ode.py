"""`quire.experimental.ode.odeint`, against JAX's and against solutions that are known."""

import importlib

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.experimental.ode import odeint

TIMES = np.linspace(0.0, 3.0, 5, dtype=np.float32)


def both(f, rtol=2e-4, atol=2e-4):
    """f(module, its numpy, its odeint) of quire and of JAX."""
    jax = pytest.importorskip("jax")
    got, want = (
        [
            np.asarray(x)
            for x in q.tree_util.tree_leaves(
                f(q, q.numpy, importlib.import_module(f"{q.__name__}.experimental.ode").odeint)
            )
        ]
        for q in (quire, jax)
    )
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want]
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


def pendulum(n):
    return lambda y, t, friction, g: n.stack([y[1], -friction * y[1] - g * n.sin(y[0])])


def test_a_pendulum_and_its_gradients():
    def f(q, n, solve):
        def loss(y0, ts, *args):
            return n.sum(solve(pendulum(n), y0, ts, *args, rtol=1e-6, atol=1e-6) ** 2)

        y0, ts = n.array([2.0, 0.0]), n.asarray(TIMES)
        return solve(pendulum(n), y0, ts, 0.25, 9.8, rtol=1e-6, atol=1e-6), q.grad(loss, (0, 1, 2, 3))(
            y0, ts, 0.25, 9.8
        )

    both(f, rtol=2e-3, atol=2e-2)


def test_trees_and_closed_over_values():
    def f(q, n, solve):
        def slope(y, t, k):
            return {"a": -y["a"] * k["n"], "b": y["a"] * n.ones(2) * k["w"]}

        def last(c):
            out = solve(
                lambda y, t, k: q.tree_util.tree_map(lambda v: c * v, slope(y, t, k)),
                {"a": n.float32(1.0), "b": n.zeros(2)}, n.array([0.0, 1.0, 2.0]), {"n": n.float32(2), "w": n.float32(0.5)},
                rtol=1e-6, atol=1e-6,
            )  # fmt: skip
            return n.sum(out["b"][-1]), out

        return last(n.float32(0.7)), q.jit(q.grad(lambda c: last(c)[0]))(n.float32(0.7))

    both(f)


def test_mapped_and_complex():
    both(
        lambda q, n, solve: q.vmap(lambda y: solve(lambda y, t: -y * t, y, n.array([0.0, 1.0]), rtol=1e-6, atol=1e-6))(
            n.arange(1.0, 4.0)
        )
    )
    y = odeint(lambda y, t: 1j * y, qnp.array([1.0 + 0j]), TIMES, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(y[:, 0], np.exp(1j * TIMES), atol=1e-4)


def test_limits_of_steps():
    def slope(y, t):
        return qnp.cos(50 * t) * qnp.ones_like(y)

    fine = odeint(slope, qnp.zeros(1), np.array([0.0, 1.0], np.float32), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fine[1], np.sin(50.0) / 50, atol=1e-4)
    capped = odeint(slope, qnp.zeros(1), np.array([0.0, 1.0], np.float32), rtol=1e-3, atol=1e-3, hmax=0.01)
    np.testing.assert_allclose(capped[1], np.sin(50.0) / 50, atol=1e-4)


def test_errors():
    with pytest.raises(TypeError, match="odeint: the arguments must be arrays of numbers"):
        odeint(lambda y, t: y, 1.0, TIMES, "a")
    with pytest.raises(ValueError, match=r"t must be a vector of times, got f32\[\]"):
        odeint(lambda y, t: y, 1.0, 2.0)
    with pytest.raises(TypeError, match=r"y0 must be of floats, got i32\[1\]"):
        odeint(lambda y, t: y, qnp.arange(1), TIMES)

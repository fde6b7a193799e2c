"""Implicit methods for stiff equations: Newton's method within each step, its linear systems direct or by GMRES."""

from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

import quire

from .runner import Program, check

MATRIX = (onp.arange(9.0).reshape(3, 3) / 10 + 3 * onp.eye(3)).astype(onp.float32)


def programs(xp: Any) -> list[Program]:
    np, lax, gmres = xp.numpy, xp.lax, xp.scipy.sparse.linalg.gmres

    def slope(y, k):
        """A chain of three reactions."""
        return np.stack([-k * y[0] + 10 * y[1] * y[2], k * y[0] - 10 * y[1] * y[2] - 3 * y[1] ** 2, 3 * y[1] ** 2])

    def newton(f, y):
        def body(carry):
            y, n, _ = carry
            step = np.linalg.solve(xp.jacfwd(f)(y), -f(y))
            return y + step, n + 1, np.max(np.abs(step))

        return lax.while_loop(lambda c: (c[2] > 1e-6) & (c[1] < 20), body, (y, 0, np.float32(1)))[0]

    def adaptive(y0, k):
        """Backward Euler with the steps halved for an estimate of the error."""

        def body(carry):
            t, y, h, n = carry
            whole = newton(lambda z: z - y - h * slope(z, k), y)
            half = newton(lambda z: z - y - h / 2 * slope(z, k), y)
            half = newton(lambda z: z - half - h / 2 * slope(z, k), half)
            error = np.max(np.abs(whole - half)) / 1e-3
            good = error < 1
            t = np.where(good, t + h, t)
            longer = h * np.clip(0.9 * (error + 1e-8) ** -0.5, 0.3, 3.0)
            return t, np.where(good, half, y), np.minimum(longer, 1 - t + 1e-6), n + 1

        return lax.while_loop(lambda c: (c[0] < 1) & (c[3] < 60), body, (np.float32(0), y0, np.float32(0.05), 0))

    def end(y0, k):
        """The end after five steps, differentiable by the implicit function theorem."""

        def step(y, _):
            def residual(z):
                return z - y - 0.1 * slope(z, k)

            def tangent_solve(g, b):
                return np.linalg.solve(xp.jacfwd(g)(0 * b), b)

            return lax.custom_root(residual, y, newton, tangent_solve), y

        y, path = lax.scan(step, y0, None, length=5)
        return y[0] + 0.1 * np.sum(path**2)

    def krylov(y0, k):
        """Newton's method that needs no matrix."""

        def step(y, _):
            def residual(z):
                return z - y - 0.1 * slope(z, k)

            def better(_, z):
                return (
                    z
                    + gmres(lambda v: xp.jvp(residual, (z,), (v,))[1], -residual(z), tol=1e-5, restart=3, maxiter=3)[0]
                )

            return lax.fori_loop(0, 4, better, y), np.sum(y)

        return lax.scan(step, y0, None, length=4)

    y0, ks = onp.array([1, 0.2, 0.1], onp.float32), onp.array([0.1, 0.4, 2.0], onp.float32)
    return [
        Program("adaptive", xp.vmap(adaptive, (None, 0)), (y0, ks), 1e-4),
        Program("gradient", xp.value_and_grad(end, argnums=(0, 1)), (y0, ks[1]), 1e-4),
        Program("without matrices", xp.vmap(krylov, (None, 0)), (y0, ks), 1e-4),
    ]


def test_implicit_ode():
    check(programs)


def test_gmres_of_what_a_host_function_gives_mapped_without_jit():
    jax = pytest.importorskip("jax")
    b = onp.arange(12, dtype=onp.float32).reshape(4, 3)

    def solve(xp: Any) -> Any:
        def one(b):
            seen = xp.pure_callback(
                lambda x: onp.tanh(x) + 1, xp.ShapeDtypeStruct((3,), onp.float32), b, vmap_method="sequential"
            )
            return xp.scipy.sparse.linalg.gmres(lambda x: MATRIX @ x, seen, tol=1e-5, restart=3, maxiter=5)[0]

        return xp.vmap(one)(b), xp.jit(xp.vmap(one))(b)

    for got, want in zip(solve(quire), solve(jax), strict=True):
        onp.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

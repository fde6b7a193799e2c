"""Heat conduction by implicit steps, and the inverse problem: which source and conductivity explain what was measured."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as onp

from .runner import Program, check

N, T = 20, 12


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax
    ravel_pytree = import_module(f"{xp.__name__}.flatten_util").ravel_pytree

    def thomas(lower, diagonal, upper, rhs):
        """Gaussian elimination of a tridiagonal system, within the arrays it is given."""

        def down(i, c):
            d, r = c
            w = lower[i] / d[i - 1]
            return d.at[i].add(-w * upper[i - 1]), r.at[i].add(-w * r[i - 1])

        d, r = lax.fori_loop(1, N, down, (diagonal, rhs))

        def up(k, x):
            i = N - 2 - k
            return x.at[i].set((r[i] - upper[i] * x[i + 1]) / d[i])

        return lax.fori_loop(0, N - 1, up, np.zeros(N).at[N - 1].set(r[N - 1] / d[N - 1]))

    def coefficients(log_k, dt):
        k = np.exp(log_k)
        face = 2 * k[1:] * k[:-1] / (k[1:] + k[:-1])
        lower = np.zeros(N).at[1:].set(-dt * face)
        upper = np.zeros(N).at[:-1].set(-dt * face)
        return lower, 1 - lower - upper, upper

    def simulate(log_k, source, u0, dt=0.4):
        """Temperatures at all times, the initial one first."""
        a = coefficients(log_k, dt)

        def body(u, t):
            new = thomas(*a, u + dt * source * np.exp(-0.2 * t))
            return new, new

        end, path = lax.scan(body, u0, np.arange(T, dtype=np.float32))
        return end, np.concatenate([u0[None], path])

    def in_one_buffer(log_k, source, u0, dt=0.4):
        """The same with the history in one array, each row made from the one before it in the array."""
        lower, diagonal, upper = coefficients(log_k, dt)
        matrix = np.diag(diagonal) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
        factors = xp.scipy.linalg.lu_factor(matrix)

        def body(t, path):
            rhs = path[t] + dt * source * np.exp(-0.2 * t)
            return path.at[t + 1].set(xp.scipy.linalg.lu_solve(factors, rhs))

        return lax.fori_loop(0, T, body, np.zeros((T + 1, N)).at[0].set(u0))

    def residual(params, u0, seen):
        log_k, source = params
        _, path = simulate(log_k, source, u0)
        smooth = 0.1 * np.diff(log_k)
        return np.concatenate([(path[::3, ::4] - seen).reshape(-1), smooth, 0.01 * source])

    def loss(params, u0, seen):
        return 0.5 * np.sum(residual(params, u0, seen) ** 2)

    def checkpointed(log_k, source, u0):
        """A long simulation whose steps are computed anew in the backward pass, in two levels."""
        a = coefficients(log_k, 0.1)

        @xp.checkpoint
        def inner(u, t):
            return lax.scan(
                xp.checkpoint(lambda u, s: (thomas(*a, u + 0.1 * source), np.max(u))), u, np.arange(6.0) + t
            )

        u, tops = lax.scan(inner, u0, np.arange(5.0))
        return np.sum(u**2) + np.mean(tops), u

    def gauss_newton(params, u0, seen):
        """Two damped steps with the Jacobian of all measurements, the parameters as one vector."""
        flat, restore = ravel_pytree(params)

        def f(z):
            return residual(restore(z), u0, seen)

        def body(c, _):
            z, damping = c
            r, J = f(z), xp.jacfwd(f)(z)
            new = z - np.linalg.solve(J.T @ J + damping * np.eye(z.size), J.T @ r)
            better = np.sum(f(new) ** 2) < np.sum(r**2)
            return (np.where(better, new, z), np.where(better, damping / 3, damping * 3)), (np.sum(r**2), z)

        (z, damping), history = lax.scan(body, (flat, 0.1), None, length=2)
        return restore(z), damping, history

    def stefan(u0):
        """A melting front: the phase of a cell changes for good when it is warm enough, its old value is kept beside."""

        def body(t, c):
            u, liquid, when = c
            p = np.pad(u, 1, mode="edge")
            u = u + 0.2 * (p[:-2] - 2 * u + p[2:])
            melts = (u > 0.5) & ~liquid
            return np.where(melts, u - 0.3, u), liquid | melts, np.where(melts, t, when)

        return lax.fori_loop(0, 30, body, (u0, np.zeros(N, bool), np.full(N, -1)))

    rng = onp.random.default_rng(19)
    grid = onp.linspace(0, 1, N)
    log_k = (0.3 * onp.sin(5 * grid)).astype(onp.float32)
    source = onp.exp(-50 * (grid - 0.4) ** 2).astype(onp.float32)
    u0 = onp.cos(onp.pi * grid).astype(onp.float32)
    seen = (0.5 + 0.2 * rng.standard_normal((T // 3 + 1, N // 4))).astype(onp.float32)
    params = (log_k, source)

    def both(*a):
        return (simulate(*a), in_one_buffer(*a))

    return [
        Program("simulation", both, (log_k, source, u0), rtol=2e-5),
        Program("gradient", xp.value_and_grad(loss), (params, u0, seen), rtol=1e-4),
        Program(
            "checkpointed", xp.value_and_grad(checkpointed, (0, 1, 2), has_aux=True), (log_k, source, u0), rtol=1e-4
        ),
        Program("Gauss-Newton", gauss_newton, (params, u0, seen), rtol=2e-3, reference=False),
        Program("melting", stefan, (2 * u0,)),
    ]


def test_heat_inversion():
    check(programs)

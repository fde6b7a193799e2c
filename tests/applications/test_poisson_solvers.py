"""Poisson's equation by multigrid, conjugate gradients and relaxation in place, and the gradient of the solution."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N = 16


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def laplacian(u, h):
        """Minus the Laplacian with zero boundary values."""
        p = np.pad(u, 1)
        return (4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]) / h**2

    def red_black(u, f, h):
        """A sweep of Gauss and Seidel's: the points of each colour are overwritten from those of the other."""
        for a, b in ((0, 0), (1, 1), (0, 1), (1, 0)):
            p = np.pad(u, 1)
            mean = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + h**2 * f) / 4
            u = u.at[a::2, b::2].set(mean[a::2, b::2])
        return u

    def restricted(r):
        return 0.25 * (r[::2, ::2] + r[1::2, ::2] + r[::2, 1::2] + r[1::2, 1::2])

    def prolonged(e):
        return np.repeat(np.repeat(e, 2, 0), 2, 1)

    def cycle(u, f, h, depth=3):
        """A V-cycle; levels are a recursion of Python's."""
        u = red_black(u, f, h)
        if depth:
            r = restricted(f - laplacian(u, h))
            u = u + prolonged(cycle(np.zeros_like(r), r, 2 * h, depth - 1))
        return red_black(u, f, h)

    def multigrid(f, cycles=5):
        """The solution and the norms of the residuals, kept in a buffer."""
        h = 1 / (N + 1)

        def body(i, c):
            u, norms = c
            return cycle(u, f, h), norms.at[i].set(np.linalg.norm(f - laplacian(u, h)))

        return lax.fori_loop(0, cycles, body, (np.zeros((N, N)), np.zeros(cycles)))

    def conjugate_gradients(f, tolerance=1e-4):
        h = 1 / (N + 1)

        def unfinished(c):
            return (c[3] > tolerance) & (c[4] < 80)

        def body(c):
            x, r, p, rr, n = c
            Ap = laplacian(p, h)
            a = rr / np.sum(p * Ap)
            r = r - a * Ap
            new = np.sum(r * r)
            return x + a * p, r, r + new / rr * p, new, n + 1

        x, r, p, rr, n = lax.while_loop(unfinished, body, (np.zeros((N, N)), f, f, np.sum(f * f), 0))
        return x, n

    def over_relaxed(f, omega):
        """Successive over-relaxation, point after point in one array: each reads what was just written."""
        h = 1 / 9

        def point(k, p):
            i, j = k // 8 + 1, k % 8 + 1
            mean = (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] + h**2 * f[i - 1, j - 1]) / 4
            return p.at[i, j].add(omega * (mean - p[i, j]))

        def sweep(p, _):
            new = lax.fori_loop(0, 64, point, p)
            return new, np.max(np.abs(new - p))

        return lax.scan(sweep, np.zeros((10, 10)), None, length=6)

    def heated(log_k, f):
        """The solution for a conductivity that varies, through its linear solve, and the heat that leaves."""
        k = np.exp(log_k)

        def operator(u):
            p = np.pad(u, 1)
            kx = 0.5 * (np.pad(k, ((1, 0), (0, 0)), "edge") + np.pad(k, ((0, 1), (0, 0)), "edge"))
            ky = 0.5 * (np.pad(k, ((0, 0), (1, 0)), "edge") + np.pad(k, ((0, 0), (0, 1)), "edge"))
            fx, fy = kx * np.diff(p[:, 1:-1], axis=0), ky * np.diff(p[1:-1, :], axis=1)
            return -np.diff(fx, axis=0) - np.diff(fy, axis=1)

        def solve(A, b):
            return xp.scipy.sparse.linalg.cg(A, b, tol=1e-6, maxiter=100)[0]

        u = lax.custom_linear_solve(operator, f, solve, symmetric=True)
        return np.sum(u * f) + 0.1 * np.max(u), u

    def unrolled_loss(f, target):
        """Through the cycles themselves, and through a stationary iteration of the same operator."""
        u = np.zeros((N, N))
        for _ in range(2):
            u = cycle(u, f, 1 / (N + 1), depth=2)
        return np.mean((u - target) ** 2) * 100, u

    rng = onp.random.default_rng(16)
    f = rng.standard_normal((N, N)).astype(onp.float32)
    log_k = (0.3 * rng.standard_normal((8, 8))).astype(onp.float32)
    target = rng.standard_normal((N, N)).astype(onp.float32) * 0.1
    return [
        Program("multigrid", multigrid, (f,), rtol=5e-5),
        Program("conjugate gradients", conjugate_gradients, (f,), rtol=2e-3),
        Program("relaxation", over_relaxed, (f[:8, :8], onp.float32(1.5)), rtol=5e-5, reference=False),
        Program("conductivity", xp.value_and_grad(heated, argnums=(0, 1), has_aux=True), (log_k, f[:8, :8]), rtol=5e-4),
        Program("cycles' gradient", xp.value_and_grad(unrolled_loss, has_aux=True), (f, target), rtol=5e-5),
    ]


def test_poisson_solvers():
    check(programs)

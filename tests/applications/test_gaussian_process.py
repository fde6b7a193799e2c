"""Gaussian process regression: marginal likelihood, its derivatives, prediction, sampling and a sparse bound."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, M = 20, 6


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random
    solve_triangular = xp.scipy.linalg.solve_triangular

    def kernel(params, x, y):
        """A smooth part plus a periodic one, with a length for each input dimension."""
        difference = (x[:, None, :] - y[None, :, :]) / np.exp(params["log_length"])
        smooth = np.exp(-0.5 * np.sum(difference**2, -1))
        waves = np.sin(np.pi * np.sum(x[:, None, :] - y[None, :, :], -1) * np.exp(params["log_rate"])) ** 2
        return np.exp(2 * params["log_scale"]) * (smooth + 0.3 * np.exp(-2 * waves))

    def noise(params, n):
        return (np.exp(2 * params["log_noise"]) + 1e-4) * np.eye(n)

    def negative_log_likelihood(params, x, y):
        factor = np.linalg.cholesky(kernel(params, x, x) + noise(params, x.shape[0]))
        alpha = solve_triangular(factor, y, lower=True)
        return 0.5 * alpha @ alpha + np.sum(np.log(np.diag(factor))) + 0.5 * x.shape[0] * np.log(2 * np.pi)

    def predict(params, x, y, new):
        factor = xp.scipy.linalg.cho_factor(kernel(params, x, x) + noise(params, x.shape[0]), lower=True)
        cross = kernel(params, x, new)
        mean = cross.T @ xp.scipy.linalg.cho_solve(factor, y)
        v = solve_triangular(np.tril(factor[0]), cross, lower=True)
        cov = kernel(params, new, new) - v.T @ v
        return mean, cov, np.sqrt(np.diag(cov))

    def slope(params, x, y, new):
        """Gradients of the predicted mean and deviation at each new point."""

        def at(point):
            mean, _, std = predict(params, x, y, point[None, :])
            return mean[0], std[0]

        return xp.vmap(xp.jacrev(at))(new)

    def sample(params, x, y, new, key):
        mean, cov, _ = predict(params, x, y, new)
        draws = random.multivariate_normal(key, mean, cov + 1e-3 * np.eye(len(new)), (3,))
        return draws, np.sort(draws, axis=0)

    def curvature(params, x, y):
        """The second derivative of the likelihood along its own gradient."""
        gradient = xp.grad(negative_log_likelihood)
        g = gradient(params, x, y)
        return xp.jvp(lambda p: gradient(p, x, y), (params,), (g,))

    def collapsed_bound(params, inducing, x, y):
        """Titsias' lower bound, by the matrix inversion lemma."""
        kzz = kernel(params, inducing, inducing) + 1e-3 * np.eye(M)
        kzx = kernel(params, inducing, x)
        sigma2 = np.exp(2 * params["log_noise"]) + 1e-2
        L = np.linalg.cholesky(kzz)
        A = solve_triangular(L, kzx, lower=True) / np.sqrt(sigma2)
        B = np.linalg.cholesky(np.eye(M) + A @ A.T)
        c = solve_triangular(B, A @ y, lower=True) / np.sqrt(sigma2)
        fit = -0.5 * (y @ y / sigma2 - c @ c) - np.sum(np.log(np.diag(B))) - 0.5 * N * np.log(2 * np.pi * sigma2)
        return fit - 0.5 * (N * np.exp(2 * params["log_scale"]) * 1.3 / sigma2 - np.sum(A**2))

    def adam(state, x, y):
        """One step of Adam on the hyperparameters; gives the old parameters too."""
        params, m, v, t = state
        value, g = xp.value_and_grad(negative_log_likelihood)(params, x, y)
        m = xp.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = xp.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, v, g)
        t = t + 1
        new = xp.tree.map(
            lambda p, m, v: p - 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6), params, m, v
        )
        return (new, m, v, t), value, params

    def online(params, x, y):
        """The factor grown row by row in one buffer, with the leave-future-out errors."""
        full = kernel(params, x, x) + noise(params, N)

        def body(i, carry):
            L, errors = carry
            row = np.where(np.arange(N) < i, full[i], 0.0)
            padded = L + np.diag(np.where(np.arange(N) < i, 0.0, 1.0))
            l = solve_triangular(padded, row, lower=True)
            z = solve_triangular(padded, np.where(np.arange(N) < i, y, 0.0), lower=True)
            errors = errors.at[i].set(y[i] - l @ z)
            return L.at[i].set(l).at[i, i].set(np.sqrt(full[i, i] - l @ l)), errors

        return lax.fori_loop(0, N, body, (np.zeros((N, N)), np.zeros(N)))

    rng = onp.random.default_rng(3)
    x = rng.uniform(-2, 2, (N, 2)).astype(onp.float32)
    y = (onp.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.standard_normal(N)).astype(onp.float32)
    new = rng.uniform(-2, 2, (5, 2)).astype(onp.float32)
    params = {
        "log_length": onp.array([-0.2, 0.4], onp.float32), "log_scale": onp.float32(0.1),
        "log_rate": onp.float32(-1.0), "log_noise": onp.float32(-1.2),
    }  # fmt: skip
    zeros = {k: onp.zeros_like(v) for k, v in params.items()}
    key = onp.array([0, 11], onp.uint32)
    # The condition number of the kernel's matrix is some 200: rounding is amplified by it.
    return [
        Program("slopes", slope, (params, x, y, new), rtol=5e-4),
        Program("samples", sample, (params, x, y, new, key), rtol=2e-3),
        Program("curvature", curvature, (params, x, y), rtol=2e-3),
        Program("sparse bound", xp.value_and_grad(collapsed_bound, (0, 1)), (params, x[:M] + 0.1, x, y), rtol=1e-3),
        Program("Adam", adam, ((params, zeros, zeros, onp.int32(0)), x, y), rtol=1e-3, step=True),
        Program("online", online, (params, x, y), rtol=5e-4),
    ]


def test_gaussian_process():
    check(programs)

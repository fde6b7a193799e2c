"""Linear-Gaussian state spaces: filter, smoother, likelihood and its gradient, and expectation-maximisation."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

T, D, M = 12, 4, 2


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax
    solve = np.linalg.solve

    def model(params):
        """Constant velocity in the plane, positions observed."""
        dt = 0.1
        A = np.eye(D).at[0, 2].set(dt).at[1, 3].set(dt)
        A = A.at[2:, 2:].multiply(1 - params["drag"])
        Q = np.exp(params["log_q"]) * np.diag(np.array([dt**3, dt**3, dt, dt]))
        H = np.zeros((M, D)).at[np.arange(M), np.arange(M)].set(1.0)
        return A, Q, H, np.exp(params["log_r"]) * np.eye(M)

    def filtered(params, ys, observed):
        """Means and covariances, predicted and filtered, and the log-likelihood; missing observations are skipped."""
        A, Q, H, R = model(params)

        def body(carry, inputs):
            mean, cov, loglik = carry
            y, there = inputs
            predicted_mean, predicted_cov = A @ mean, A @ cov @ A.T + Q
            innovation = y - H @ predicted_mean
            S = H @ predicted_cov @ H.T + R
            gain = solve(S, H @ predicted_cov).T

            def update(_):
                factor = np.linalg.cholesky(S)
                z = lax.linalg.triangular_solve(factor, innovation[:, None], left_side=True, lower=True)[:, 0]
                ll = -0.5 * np.sum(z**2) - np.sum(np.log(np.diag(factor))) - 0.5 * M * np.log(2 * np.pi)
                joseph = np.eye(D) - gain @ H
                return predicted_mean + gain @ innovation, joseph @ predicted_cov @ joseph.T + gain @ R @ gain.T, ll

            new_mean, new_cov, ll = lax.cond(there, update, lambda _: (predicted_mean, predicted_cov, 0.0), None)
            return (new_mean, new_cov, loglik + ll), (predicted_mean, predicted_cov, new_mean, new_cov)

        init = (np.zeros(D), np.eye(D), 0.0)
        (_, _, loglik), moments = lax.scan(body, init, (ys, observed))
        return loglik, moments

    def smoothed(params, ys, observed):
        """Rauch, Tung and Striebel's backward pass over what the filter found."""
        A, _, _, _ = model(params)
        loglik, (pm, pc, fm, fc) = filtered(params, ys, observed)

        def body(carry, inputs):
            mean, cov = carry
            next_pm, next_pc, m, c = inputs
            gain = solve(next_pc, A @ c).T
            mean, cov = m + gain @ (mean - next_pm), c + gain @ (cov - next_pc) @ gain.T
            return (mean, cov), (mean, cov)

        _, (means, covs) = lax.scan(body, (fm[-1], fc[-1]), (pm[1:], pc[1:], fm[:-1], fc[:-1]), reverse=True)
        return loglik, np.concatenate([means, fm[-1:]]), np.concatenate([covs, fc[-1:]])

    def ensemble(params, ys, observed, key):
        """An ensemble filter of the same model, with perturbed observations."""
        A, Q, H, R = model(params)
        members = xp.random.normal(key, (16, D))

        def body(carry, inputs):
            members, key = carry
            y, there = inputs
            key, noise, perturb = xp.random.split(key, 3)
            forecast = members @ A.T + xp.random.normal(noise, members.shape) * np.sqrt(np.diag(Q))
            anomalies = (forecast - forecast.mean(0)) / np.sqrt(15.0)
            cov = anomalies.T @ anomalies
            gain = solve(H @ cov @ H.T + R, H @ cov).T
            seen = y + np.sqrt(R[0, 0]) * xp.random.normal(perturb, (16, M))
            analysis = np.where(there, forecast + (seen - forecast @ H.T) @ gain.T, forecast)
            return (analysis, key), (forecast.mean(0), analysis.mean(0), analysis.std(0))

        (members, _), history = lax.scan(body, (members, key), (ys, observed))
        return members, history

    def fit(params, ys, observed):
        """A few steps of gradient ascent, with the best parameters seen kept beside the current ones."""

        def body(carry, _):
            params, best, best_value = carry
            value, grads = xp.value_and_grad(lambda p: filtered(p, ys, observed)[0])(params)
            better = value > best_value
            best = xp.tree.map(lambda b, p: np.where(better, p, b), best, params)
            new = xp.tree.map(lambda p, g: p + 0.02 * np.clip(g, -5, 5), params, grads)
            return (new, best, np.maximum(value, best_value)), value

        return lax.scan(body, (params, params, -np.inf), None, length=4)

    rng = onp.random.default_rng(1)
    ys = onp.cumsum(rng.standard_normal((T, M)) * 0.3, 0).astype(onp.float32)
    observed = onp.arange(T) % 4 != 2
    params = {"drag": onp.float32(0.1), "log_q": onp.float32(-0.5), "log_r": onp.float32(-2.0)}
    key = onp.array([0, 7], onp.uint32)
    return [
        Program("gradient", xp.value_and_grad(filtered, has_aux=True), (params, ys, observed), rtol=5e-5),
        Program("smoother's gradient", xp.grad(lambda *a: np.sum(smoothed(*a)[1] ** 2)), (params, ys, observed), 2e-4),
        Program("ensemble", ensemble, (params, ys, observed, key), rtol=5e-5),
        Program("fit", fit, (params, ys, observed), rtol=1e-4),
    ]


def test_kalman_filter():
    check(programs)

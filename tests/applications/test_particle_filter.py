"""A bootstrap particle filter of stochastic volatility, with resampling when it is due, and gradients through it."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

T, N = 20, 64


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random
    logsumexp = xp.scipy.special.logsumexp

    def systematic(key, weights):
        """Ancestors of the particles, by one uniform draw over the cumulated weights."""
        cumulated = np.cumsum(weights)
        positions = (np.arange(N) + random.uniform(key)) / N
        return np.searchsorted(cumulated / cumulated[-1], positions)

    def run(params, key, returns):
        """Log-likelihood, and for each day the mean, the effective sample size, whether it resampled, and ancestors."""
        key, start = random.split(key)
        mu, phi, sigma = params["mu"], np.tanh(params["phi"]), np.exp(params["log_sigma"])

        def resample(args):
            key, x, logw = args
            ancestors = systematic(key, np.exp(logw - logsumexp(logw)))
            return x[ancestors], np.full(N, -np.log(N)), ancestors.astype("int32")

        def keep(args):
            _, x, logw = args
            return x, logw, np.arange(N, dtype="int32")

        def body(carry, y):
            key, x, logw, loglik = carry
            key, noise, pick = random.split(key, 3)
            effective = 1 / np.sum(np.exp(2 * (logw - logsumexp(logw))))
            due = effective < N / 2
            x, logw, ancestors = lax.cond(due, resample, keep, (pick, x, logw))
            moved = mu + phi * (x - mu) + sigma * random.normal(noise, (N,))
            step = -0.5 * (np.log(2 * np.pi) + moved + y**2 * np.exp(-moved))
            new = logw + step
            gain = logsumexp(new) - logsumexp(logw)
            mean = np.sum(moved * np.exp(new - logsumexp(new)))
            return (key, moved, new, loglik + gain), (mean, effective, due, ancestors, x)

        x0 = mu + sigma * random.normal(start, (N,))
        carry = (key, x0, np.full(N, -np.log(N)), 0.0)
        (_, x, logw, loglik), seen = lax.scan(body, carry, returns)
        return loglik, x, logw, seen

    def trajectories(params, key, returns):
        """The particles' histories, traced back through their ancestors, in a buffer filled from the end."""
        _, _, logw, (_, _, _, ancestors, parents) = run(params, key, returns)

        def back(i, carry):
            index, paths = carry
            t = T - 1 - i
            index = ancestors[t][index]
            return index, paths.at[t].set(parents[t][index])

        best = np.argsort(-logw)
        index, paths = lax.fori_loop(0, T, back, (best.astype("int32"), np.zeros((T, N))))
        return index, paths, best

    def gradient(params, key, returns):
        """Through the moves of the particles; what was picked is held constant."""
        (value, ess), grads = xp.value_and_grad(
            lambda p: (lambda r: (r[0], r[3][1]))(run(p, key, returns)), has_aux=True
        )(params)
        return value, ess, grads

    def multinomial_chain(key, weights):
        """Repeated resampling of indices only: families die out."""

        def body(carry, k):
            families, counts = carry
            picked = random.categorical(k, np.log(weights), shape=(N,))
            new = families[picked]
            return (new, counts.at[new].add(1)), (families, np.unique(new, size=8, fill_value=-1))

        return lax.scan(body, (np.arange(N), np.zeros(N, "int32")), random.split(key, 6))

    rng = onp.random.default_rng(2)
    returns = (onp.exp(0.5 * onp.sin(onp.arange(T) / 3)) * rng.standard_normal(T)).astype(onp.float32)
    params = {"mu": onp.float32(-0.2), "phi": onp.float32(1.5), "log_sigma": onp.float32(-1.0)}
    key = onp.array([0, 5], onp.uint32)
    keys = onp.stack([key, key + 1, key + 2])
    weights = rng.uniform(size=N).astype(onp.float32)
    return [
        Program("gradient", gradient, (params, key, returns), rtol=1e-3),
        Program("trajectories", trajectories, (params, key, returns), rtol=1e-4),
        Program("independent filters", xp.vmap(run, in_axes=(None, 0, None)), (params, keys, returns), rtol=1e-4),
        Program("families", multinomial_chain, (key, weights)),
    ]


def test_particle_filter():
    check(programs)

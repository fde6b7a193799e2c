"""Gaussian mixtures by expectation-maximisation, k-means, a Gibbs sampler, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, D, K = 40, 2, 3


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random
    logsumexp = xp.scipy.special.logsumexp

    def log_densities(params, x):
        """The logarithm of weight times density, for each point and component."""
        weights, means, covs = params
        L = np.linalg.cholesky(covs + 1e-3 * np.eye(D))
        d = x[None] - means[:, None]
        z = xp.vmap(lambda L, d: xp.scipy.linalg.solve_triangular(L, d.T, lower=True))(L, d)
        logdet = np.sum(np.log(np.diagonal(L, axis1=1, axis2=2)), -1)
        return (np.log(weights) - logdet - 0.5 * D * np.log(2 * np.pi))[None] - 0.5 * np.sum(z**2, 1).T

    def em_step(params, x):
        """New parameters, the old ones' likelihood and responsibilities."""
        logs = log_densities(params, x)
        total = logsumexp(logs, axis=1, keepdims=True)
        r = np.exp(logs - total)
        n = r.sum(0)
        means = (r.T @ x) / n[:, None]
        d = x[None] - means[:, None]
        covs = np.einsum("nk,kni,knj->kij", r, d, d) / n[:, None, None]
        return (n / N, means, covs), np.mean(total), r

    def em(params, x):
        """To convergence, with the likelihoods in a buffer and the parameters before the last step."""

        def unfinished(c):
            return (c[3] < 12) & (np.abs(c[2][np.maximum(c[3] - 1, 0)] - c[2][np.maximum(c[3] - 2, 0)]) > 1e-4) | (
                c[3] < 3
            )

        def body(c):
            params, _, values, n = c
            new, value, _ = em_step(params, x)
            return new, params, values.at[n].set(value), n + 1

        return lax.while_loop(unfinished, body, (params, params, np.zeros(12), 0))

    def kmeans(centres, x):
        """Lloyd's algorithm; an empty cluster takes the point that is farthest from its centre."""

        def body(c, _):
            centres, old = c
            d = np.sum((x[:, None] - centres[None]) ** 2, -1)
            owner = np.argmin(d, 1)
            counts = np.zeros(K).at[owner].add(1.0)
            sums = np.zeros((K, D)).at[owner].add(x)
            far = x[np.argmax(np.min(d, 1))]
            new = np.where((counts > 0)[:, None], sums / np.maximum(counts, 1)[:, None], far)
            return (new, centres), (owner, np.sum(np.min(d, 1)), old)

        return lax.scan(body, (centres, centres), None, length=5)

    def seeded(key, x):
        """k-means++: each new centre is drawn by its distance from those before."""

        def body(i, c):
            centres, nearest, key = c
            key, now = random.split(key)
            pick = random.categorical(now, np.log(nearest + 1e-9))
            centres = centres.at[i].set(x[pick])
            return centres, np.minimum(nearest, np.sum((x - x[pick]) ** 2, -1)), key

        centres, nearest, _ = lax.fori_loop(0, K, body, (np.zeros((K, D)), np.ones(N), key))
        return centres, nearest, kmeans(centres, x)[0][0]

    def gibbs(state, x):
        """A sweep of a sampler: labels, then weights and means; counts are kept up point by point."""
        labels, means, key = state
        key, a, b, c = random.split(key, 4)
        counts = np.zeros(K, "int32").at[labels].add(1)

        def point(i, s):
            labels, counts = s
            counts = counts.at[labels[i]].add(-1)
            logits = np.log(counts + 1.0) - 0.5 * np.sum((x[i] - means) ** 2, -1)
            new = np.argmax(logits + random.gumbel(random.fold_in(a, i), (K,))).astype("int32")
            return labels.at[i].set(new), counts.at[new].add(1)

        new, counts = lax.fori_loop(0, N, point, (labels, counts))
        precision = counts + 0.1
        centre = np.zeros((K, D)).at[new].add(x) / precision[:, None]
        means = centre + random.normal(b, (K, D)) / np.sqrt(precision)[:, None]
        return (new, means, key), labels, counts, random.dirichlet(c, counts + 1.0)

    def fit_through_em(means, x):
        """The gradient of the likelihood after three steps by where they began."""
        params = (np.full(K, 1 / K), means, np.broadcast_to(np.eye(D), (K, D, D)))
        params, _ = lax.scan(lambda p, _: (em_step(p, x)[0], None), params, None, length=3)
        return np.mean(logsumexp(log_densities(params, x), axis=1)), params

    rng = onp.random.default_rng(18)
    middle = onp.array([[0, 0], [3, 1], [-1, 3]], onp.float32)
    x = (middle[rng.integers(0, K, N)] + 0.6 * rng.standard_normal((N, D))).astype(onp.float32)
    means = x[:K].copy()
    params = (onp.full(K, 1 / K, onp.float32), means, onp.broadcast_to(onp.eye(D, dtype=onp.float32), (K, D, D)).copy())
    key = onp.array([0, 21], onp.uint32)
    return [
        Program("step", em_step, (params, x), rtol=5e-5, step=True),
        Program("expectation-maximisation", em, (params, x), rtol=5e-4),
        Program("k-means", lambda k, x: (seeded(k, x), kmeans(x[:K], x)), (key, x), rtol=5e-5),
        Program("Gibbs sampler", gibbs, ((rng.integers(0, K, N).astype(onp.int32), means, key), x), 5e-5, step=True),
        Program("gradient", xp.value_and_grad(fit_through_em, has_aux=True), (means, x), rtol=5e-4),
    ]


def test_mixture_models():
    check(programs)

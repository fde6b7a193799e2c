"""Sampling of a hierarchical logistic regression: HMC with adapted steps, and NUTS with its tree in arrays."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, D, DEPTH = 30, 4, 4


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random

    def log_density(q, x, y):
        """Coefficients with a common unknown scale."""
        beta, log_tau = q[:D], q[D]
        logits = x @ beta
        likelihood = np.sum(y * logits - np.logaddexp(0.0, logits))
        return likelihood - 0.5 * np.sum((beta / np.exp(log_tau)) ** 2) - D * log_tau - 0.5 * log_tau**2

    def leapfrog(q, p, g, step, x, y):
        p = p + 0.5 * step * g
        q = q + step * p
        value, g = xp.value_and_grad(log_density)(q, x, y)
        return q, p + 0.5 * step * g, g, value

    def hmc(state, x, y, steps=6):
        """One transition, with the length of steps adapted by dual averaging."""
        key, q, log_step, average, count = state
        key, kick, accept = random.split(key, 3)
        p = random.normal(kick, q.shape)
        value, g = xp.value_and_grad(log_density)(q, x, y)
        energy = value - 0.5 * p @ p
        new_q, new_p, _, new_value = lax.fori_loop(
            0, steps, lambda i, c: leapfrog(c[0], c[1], c[2], np.exp(log_step), x, y), (q, p, g, value)
        )
        ratio = np.minimum(1.0, np.exp(new_value - 0.5 * new_p @ new_p - energy))
        taken = random.uniform(accept) < ratio
        count = count + 1
        average = (1 - 1 / (count + 10)) * average + (0.8 - ratio) / (count + 10)
        log_step = np.log(0.2) - np.sqrt(count.astype("float32")) / 0.5 * average
        return (key, np.where(taken, new_q, q), log_step, average, count), (q, new_q, ratio, taken)

    def chain(state, x, y, length=8):
        """A chain, with Welford's mean and variance of the positions beside it."""

        def body(carry, i):
            state, mean, m2 = carry
            state, (old, proposed, ratio, taken) = hmc(state, x, y)
            delta = state[1] - mean
            mean = mean + delta / (i + 1)
            return (state, mean, m2 + delta * (state[1] - mean)), (state[1], ratio, taken)

        zero = np.zeros(D + 1)
        (state, mean, m2), path = lax.scan(body, (state, zero, zero), np.arange(length, dtype="float32"))
        return state, mean, m2 / (length - 1), path

    def trailing_ones(n):
        return lax.while_loop(lambda c: (c[0] & 1) == 1, lambda c: (c[0] >> 1, c[1] + 1), (n, 0))[1]

    def subtree(key, q, p, g, depth, step, energy0, x, y):
        """2**depth leapfrog steps, proposals kept with their weights; U-turns are checked against stored corners."""

        def unfinished(c):
            return (c["n"] < 2**depth) & ~c["turned"] & ~c["diverged"]

        def body(c):
            n = c["n"]
            q, p, g, value = leapfrog(c["q"], c["p"], c["g"], step, x, y)
            weight = value - 0.5 * p @ p - energy0
            total = np.logaddexp(c["total"], weight)
            key, pick = random.split(c["key"])
            chosen = np.log(random.uniform(pick, minval=1e-6)) < weight - total
            momentum = c["momentum"] + p
            # Corners of complete subtrees are kept by the number of ones in the index of their first leaf.
            high = lax.population_count(n)
            corners_p = np.where(n % 2 == 0, c["corners_p"].at[high].set(p), c["corners_p"])
            corners_sum = np.where(n % 2 == 0, c["corners_sum"].at[high].set(momentum), c["corners_sum"])
            low = high - trailing_ones(n)

            def check(k, turned):
                part = momentum - corners_sum[k] + corners_p[k]
                return turned | ((k >= low) & (k < high) & ((corners_p[k] @ part <= 0) | (p @ part <= 0)))

            turned = lax.fori_loop(0, DEPTH, check, False) & (n % 2 == 1)
            return {
                "key": key, "n": n + 1, "q": q, "p": p, "g": g, "total": total, "momentum": momentum,
                "proposal": np.where(chosen, q, c["proposal"]), "turned": turned, "diverged": weight < -1000.0,
                "corners_p": corners_p, "corners_sum": corners_sum,
            }  # fmt: skip

        zeros = np.zeros((DEPTH + 1, D + 1))
        return lax.while_loop(unfinished, body, {
            "key": key, "n": np.int32(0), "q": q, "p": p, "g": g, "total": -np.inf, "momentum": np.zeros(D + 1),
            "proposal": q, "turned": False, "diverged": False, "corners_p": zeros, "corners_sum": zeros,
        })  # fmt: skip

    def nuts(key, q, step, x, y):
        """One transition of the no-U-turn sampler: the trajectory doubles, to either side, until it turns."""
        key, kick = random.split(key)
        p = random.normal(kick, q.shape)
        value, g = xp.value_and_grad(log_density)(q, x, y)
        energy0 = value - 0.5 * p @ p

        def going(c):
            return (c["depth"] < DEPTH) & ~c["stop"]

        def double(c):
            key, side, inner, pick = random.split(c["key"], 4)
            right = random.bernoulli(side)
            q, p, g = (np.where(right, c["right"][i], c["left"][i]) for i in range(3))
            tree = subtree(inner, q, p, g, c["depth"], np.where(right, step, -step), energy0, x, y)
            end = (tree["q"], tree["p"], tree["g"])
            left = tuple(np.where(right, a, b) for a, b in zip(c["left"], end))
            new_right = tuple(np.where(right, b, a) for a, b in zip(c["right"], end))
            broken = tree["turned"] | tree["diverged"]
            better = np.log(random.uniform(pick, minval=1e-6)) < tree["total"] - c["total"]
            momentum = c["momentum"] + tree["momentum"]
            turned = (left[1] @ momentum <= 0) | (new_right[1] @ momentum <= 0)
            return {
                "key": key, "depth": c["depth"] + 1, "left": left, "right": new_right, "momentum": momentum,
                "total": np.logaddexp(c["total"], tree["total"]), "stop": broken | turned,
                "proposal": np.where(~broken & better, tree["proposal"], c["proposal"]), "leaves": c["leaves"] + tree["n"],
            }  # fmt: skip

        out = lax.while_loop(going, double, {
            "key": key, "depth": np.int32(0), "left": (q, p, g), "right": (q, p, g), "momentum": p, "total": 0.0,
            "stop": False, "proposal": q, "leaves": np.int32(0),
        })  # fmt: skip
        return out["key"], out["proposal"], (out["depth"], out["leaves"], out["total"])

    def nuts_chain(key, q, x, y):
        def body(carry, _):
            key, new, info = nuts(*carry, 0.15, x, y)
            return (key, new), (new, info)

        return lax.scan(body, (key, q), None, length=4)

    rng = onp.random.default_rng(4)
    x = rng.standard_normal((N, D)).astype(onp.float32)
    y = (x @ onp.array([1.0, -1.0, 0.5, 0.0]) + rng.standard_normal(N) > 0).astype(onp.float32)
    q = onp.full(D + 1, 0.1, onp.float32)
    key = onp.array([3, 9], onp.uint32)
    state = (key, q, onp.float32(-2.0), onp.float32(0.0), onp.int32(0))
    starts = (onp.stack([key, key + 1]), onp.stack([q, -q]))
    chains = tuple(onp.stack([s, s]) for s in state)
    return [
        Program("transition", hmc, (state, x, y), rtol=1e-4, step=True),
        Program("chains", xp.vmap(chain, in_axes=((0,) * 5, None, None)), (chains, x, y), rtol=1e-3),
        Program("no-U-turn chains", xp.vmap(nuts_chain, in_axes=(0, 0, None, None)), (*starts, x, y), rtol=1e-3),
    ]


def test_hamiltonian_monte_carlo():
    check(programs)

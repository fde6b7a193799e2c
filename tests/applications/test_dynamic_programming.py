"""Tables filled by recursions: edit distance, Viterbi, soft alignment, knapsack, shortest paths, value iteration."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, M, STATES = 9, 7, 5


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def edit_distance(a, b):
        """Levenshtein's table, each cell written into it, and the way back through it."""
        table = np.zeros((N + 1, M + 1), "int32").at[:, 0].set(np.arange(N + 1)).at[0].set(np.arange(M + 1))

        def cell(k, table):
            i, j = k // M + 1, k % M + 1
            change = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            best = np.minimum(np.minimum(table[i - 1, j] + 1, table[i, j - 1] + 1), change)
            return table.at[i, j].set(best)

        table = lax.fori_loop(0, N * M, cell, table)

        def back(c):
            i, j, n, path = c
            path = path.at[n].set(np.stack([i, j]))
            d = table[i, j]
            diagonal = (i > 0) & (j > 0) & (table[i - 1, j - 1] <= d)
            up = ~diagonal & (i > 0) & (table[i - 1, j] < d)
            return i - (diagonal | up), j - (diagonal | ~up), n + 1, path

        start = (np.int32(N), np.int32(M), 0, np.full((N + M + 1, 2), -1, "int32"))
        _, _, length, path = lax.while_loop(lambda c: (c[0] > 0) | (c[1] > 0), back, start)
        return table, path, length

    def edit_distance_by_rows(a, b):
        """The same table a row at a time: the insertions are a cumulative minimum."""

        def row(previous, i):
            change = previous[:-1] + (a[i] != b)
            new = previous.at[1:].set(np.minimum(change, previous[1:] + 1)).at[0].set(i + 1)
            new = lax.cummin(new - np.arange(M + 1)) + np.arange(M + 1)
            return new, previous

        return lax.scan(row, np.arange(M + 1), np.arange(N))

    def viterbi(logits, transition, observations):
        """The most probable path, its score, and the marginals by forward and backward."""
        emitted = xp.nn.log_softmax(logits)[:, observations].T
        moves = xp.nn.log_softmax(transition)

        def forward(score, e):
            candidates = score[:, None] + moves
            return np.max(candidates, 0) + e, np.argmax(candidates, 0)

        score, pointers = lax.scan(forward, emitted[0], emitted[1:])
        last = np.argmax(score)
        _, path = lax.scan(lambda s, p: (p[s], p[s]), last, pointers, reverse=True)
        return np.append(path, last), np.max(score)

    def evidence(logits, transition, observations):
        """The log-probability of the observations under the hidden Markov model; its gradient has the marginals."""
        emitted = xp.nn.log_softmax(logits)[:, observations].T
        moves = xp.nn.log_softmax(transition)

        def step(alpha, e):
            return (xp.scipy.special.logsumexp(alpha[:, None] + moves, axis=0) + e, alpha)

        alpha, history = lax.scan(step, emitted[0], emitted[1:])
        return xp.scipy.special.logsumexp(alpha), history

    def soft_dtw(x, y, gamma=0.5):
        """A differentiable time warp, along antidiagonals kept in two rotating rows."""
        costs = np.sum((x[:, None] - y[None, :]) ** 2, -1)
        far = 1e6

        def diagonal(carry, d):
            before, last = carry  # entry i of diagonal d is cell (i, d - i)
            i = np.arange(N)
            j = d - i
            inside = (j >= 0) & (j < M)
            shifted_before = np.full(N, far).at[1:].set(before[:-1])
            shifted_last = np.full(N, far).at[1:].set(last[:-1])
            options = np.stack([shifted_before, shifted_last, last])
            soft = -gamma * xp.scipy.special.logsumexp(-options / gamma, axis=0)
            soft = np.where(d == 0, np.where(i == 0, 0.0, far), soft)
            new = np.where(inside, costs[i, np.clip(j, 0, M - 1)] + soft, far)
            return (last, new), new

        (_, end), rows = lax.scan(diagonal, (np.full(N, far), np.full(N, far)), np.arange(N + M - 1))
        return end[N - 1], rows[-2]

    def knapsack(weights, values, capacity=20):
        """Best values for every capacity, what was taken, and the table before the last item."""

        def item(best, wv):
            w, v = wv
            index = np.arange(capacity + 1)
            moved = np.where(index >= w, best[np.maximum(index - w, 0)] + v, -1)
            return np.maximum(best, moved), (best, moved > best)

        best, (tables, taken) = lax.scan(item, np.zeros(capacity + 1, "int32"), (weights, values))

        def back(room, inputs):
            took, w = inputs
            picked = took[room]
            return room - np.where(picked, w, 0), picked

        room, picked = lax.scan(back, np.int32(capacity), (taken, weights), reverse=True)
        return best, room, picked, tables[-1]

    def shortest_paths(distances):
        """Floyd and Warshall's algorithm with successors, in place; then the relaxations of Bellman and Ford."""
        n = distances.shape[0]
        successors = np.broadcast_to(np.arange(n), (n, n))

        def through(k, c):
            d, s = c
            new = d[:, k, None] + d[None, k, :]
            return np.where(new < d, new, d), np.where(new < d, s[:, k, None], s)

        d, s = lax.fori_loop(0, n, through, (distances, successors))
        source, target = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        edges = (source.reshape(-1), target.reshape(-1), distances.reshape(-1))

        def relax(c):
            dist, _, rounds = c
            return dist.at[edges[1]].min(dist[edges[0]] + edges[2]), dist, rounds + 1

        start = np.full(n, 1e9).at[0].set(0.0)
        bellman, before, rounds = lax.while_loop(lambda c: np.any(c[0] != c[1]), relax, (start, start + 1, 0))
        return d, s, bellman, before, rounds

    def value_iteration(rewards, logits, discount):
        """The value of a Markov decision process, its policy, and how many sweeps it took, by a loop to convergence."""
        p = xp.nn.softmax(logits, -1)

        def bellman(v):
            return rewards + discount * np.einsum("ast,t->as", p, v)

        def body(c):
            v, _, n = c
            new = np.max(bellman(v), 0)
            return new, np.max(np.abs(new - v)), n + 1

        v, gap, n = lax.while_loop(lambda c: (c[1] > 1e-4) & (c[2] < 200), body, (np.zeros(STATES), np.inf, 0))
        return v, np.argmax(bellman(v), 0), n

    def soft_values(rewards, logits, discount):
        """The derivative of the entropy-regularised value by everything, through the fixed point."""
        p = xp.nn.softmax(logits, -1)

        def operator(v):
            return xp.scipy.special.logsumexp(rewards + discount * np.einsum("ast,t->as", p, v), axis=0)

        v = lax.custom_root(
            lambda v: operator(v) - v, np.zeros(STATES),
            lambda f, v: lax.fori_loop(0, 60, lambda i, v: v + f(v), v),
            lambda g, y: np.linalg.solve(xp.jacobian(g)(y), y),
        )  # fmt: skip
        return np.sum(v)

    rng = onp.random.default_rng(14)
    a, b = rng.integers(0, 3, N).astype(onp.int32), rng.integers(0, 3, M).astype(onp.int32)
    logits, transition = rng.standard_normal((STATES, 4)).astype("f"), rng.standard_normal((STATES, STATES)).astype("f")
    seen = rng.integers(0, 4, 12).astype(onp.int32)
    x, y = rng.standard_normal((N, 2)).astype("f"), rng.standard_normal((M, 2)).astype("f")
    weights, values = rng.integers(1, 8, 8).astype(onp.int32), rng.integers(1, 20, 8).astype(onp.int32)
    roads = rng.uniform(1, 10, (6, 6)).astype("f")
    rewards, chances = (
        rng.standard_normal((3, STATES)).astype("f"),
        rng.standard_normal((3, STATES, STATES)).astype("f"),
    )
    discount = onp.float32(0.8)

    def decoded(*args):
        return (viterbi(*args), xp.value_and_grad(evidence, argnums=(0, 1), has_aux=True)(*args))

    return [
        Program("edit distance", lambda a, b: (edit_distance(a, b), edit_distance_by_rows(a, b)), (a, b)),
        Program("edit distances", xp.vmap(edit_distance, (0, None)), (onp.stack([a, a[::-1], 2 - a]), b)),
        Program("hidden Markov model", decoded, (logits, transition, seen)),
        Program("soft warp", xp.value_and_grad(soft_dtw, argnums=(0, 1), has_aux=True), (x, y), rtol=5e-5),
        Program("knapsack", knapsack, (weights, values)),
        Program("shortest paths", shortest_paths, (roads,)),
        Program("value iteration", value_iteration, (rewards, chances, discount)),
        Program(
            "soft values", xp.value_and_grad(soft_values, argnums=(0, 1, 2)), (rewards, chances, discount), rtol=1e-4
        ),
    ]


def test_dynamic_programming():
    check(programs)

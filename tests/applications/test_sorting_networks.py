"""Orders of values: a bitonic network, merges, soft ranks by transport and by projection, quantiles and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N = 16


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def bitonic(x, payload):
        """Batcher's network: pairs at each distance are exchanged in place, the payload with the keys."""
        index = np.arange(N)
        k = 2
        while k <= N:
            j = k // 2
            while j:
                partner = index ^ j
                ascending = (index & k) == 0
                other, lower = x[partner], index < partner
                swap = np.where(lower == ascending, x > other, x < other)
                x, payload = np.where(swap, other, x), np.where(swap[:, None], payload[partner], payload)
                j //= 2
            k *= 2
        return x, payload

    def odd_even(x):
        """Transpositions of neighbours by strided updates, with what each round began with."""

        def body(x, t):
            def exchange(x, start):
                a, b = x[start : N - 1 : 2], x[start + 1 :: 2]
                return x.at[start : N - 1 : 2].set(np.minimum(a, b)).at[start + 1 :: 2].set(np.maximum(a, b))

            return lax.cond(t % 2 == 0, lambda x: exchange(x, 0), lambda x: exchange(x, 1), x), x

        return lax.scan(body, x, np.arange(N))

    def merge_sort(x):
        """Bottom up, between two buffers: each element's place is its index plus its rank in the other half."""

        def merged(a, b):
            i = np.arange(a.size) + np.searchsorted(b, a, side="left")
            j = np.arange(b.size) + np.searchsorted(a, b, side="right")
            return np.zeros(a.size + b.size, a.dtype).at[i].set(a).at[j].set(b)

        width = 1
        while width < N:
            pairs = x.reshape(-1, 2, width)
            x = xp.vmap(lambda p: merged(p[0], p[1]))(pairs).reshape(-1)
            width *= 2
        return x

    def quicksort(x):
        """With its stack of ranges in an array and the partition in place."""

        def body(c):
            a, stack, top, work = c
            low, high = stack[top - 1]
            pivot = a[high]

            def scan(j, s):
                a, i = s
                small = (j >= low) & (j < high) & (a[j] < pivot)
                ai, aj = a[i], a[j]
                a = np.where(small, a.at[i].set(aj).at[j].set(ai), a)
                return a, i + small

            a, i = lax.fori_loop(0, N, scan, (a, low))
            ai = a[i]
            a = a.at[i].set(a[high]).at[high].set(ai)
            stack = stack.at[top - 1].set(np.stack([low, i - 1])).at[top].set(np.stack([i + 1, high]))
            top = top + 1

            # Ranges of one element or none are taken off the top.
            def empty(c):
                t = c
                return (t > 0) & (stack[np.maximum(t - 1, 0), 0] >= stack[np.maximum(t - 1, 0), 1])

            return a, stack, lax.while_loop(empty, lambda t: t - 1, top), work + 1

        start = np.zeros((2 * N, 2), "int32").at[0].set(np.array([0, N - 1]))
        a, stack, top, work = lax.while_loop(lambda c: (c[2] > 0) & (c[3] < 40), body, (x, start, 1, 0))
        return a, work

    def sinkhorn_ranks(x, strength=0.1):
        """Ranks as the transport of the values to a grid, by balancing rows and columns in turn."""
        y = np.linspace(0, 1, N)
        z = xp.nn.sigmoid(x)
        cost = (z[:, None] - y[None, :]) ** 2 / strength

        def body(c, _):
            f, g = c
            f = -xp.scipy.special.logsumexp(g[None, :] - cost, axis=1) - np.log(N)
            g = -xp.scipy.special.logsumexp(f[:, None] - cost, axis=0) - np.log(N)
            return (f, g), np.max(np.abs(f))

        (f, g), size = lax.scan(body, (np.zeros(N), np.zeros(N)), None, length=10)
        plan = np.exp(f[:, None] + g[None, :] - cost)
        return N * plan @ np.cumsum(np.full(N, 1 / N)), size

    def isotonic(y):
        """Pool adjacent violators, with blocks on a stack in arrays: means and sizes."""

        def push(c, value):
            means, sizes, top = c
            means, sizes = means.at[top].set(value), sizes.at[top].set(1.0)

            def violated(c):
                m, _, t = c
                return (t > 0) & (m[np.maximum(t - 1, 0)] > m[t])

            def pool(c):
                m, s, t = c
                size = s[t] + s[t - 1]
                mean = (m[t] * s[t] + m[t - 1] * s[t - 1]) / size
                return m.at[t - 1].set(mean).at[t].set(0.0), s.at[t - 1].set(size).at[t].set(0.0), t - 1

            means, sizes, top = lax.while_loop(violated, pool, (means, sizes, top))
            return (means, sizes, top + 1), top

        (means, sizes, top), tops = lax.scan(push, (np.zeros(N), np.zeros(N), 0), y)
        ends = np.cumsum(sizes)
        return means[np.searchsorted(ends, np.arange(N) + 0.5)], tops

    def quantile_loss(x, q):
        ordered = np.sort(x)
        spread = np.quantile(x, 0.75) - np.quantile(x, 0.25)
        winsorised = np.clip(x, ordered[2], ordered[-3])
        trimmed = np.mean(lax.dynamic_slice(ordered, (3,), (10,)))
        gini = np.sum((2 * np.arange(1, N + 1) - N - 1) * ordered) / N**2
        return (
            np.sum(np.quantile(x, q))
            + spread * gini
            + np.var(winsorised)
            + trimmed
            + np.median(np.abs(x - np.median(x)))
        )

    def orders(x):
        order = np.argsort(x)
        inverse = np.zeros(N, "int32").at[order].set(np.arange(N))
        top, where = lax.top_k(x, 5)
        return (
            x[order],
            inverse,
            np.lexsort((x, np.round(x))),
            top,
            where,
            np.partition(x, 4)[4],
            np.unique(np.round(x), size=6),
        )

    rng = onp.random.default_rng(23)
    x = rng.standard_normal(N).astype(onp.float32)
    payload = rng.standard_normal((N, 2)).astype(onp.float32)

    def weighted(x, p):
        return (lambda k, v: np.sum(k * np.arange(N)) + np.sum(v**2 * np.arange(N)[:, None]))(*bitonic(x, p))

    q = onp.array([0.1, 0.33, 0.9], onp.float32)

    def networks(x, p):
        return (bitonic(x, p), xp.grad(weighted, (0, 1))(x, p))

    return [
        Program("bitonic network", networks, (x, payload)),
        Program("transpositions", lambda x: (odd_even(x), merge_sort(x), orders(x)), (x,)),
        Program("quicksort", quicksort, (x,)),
        Program("quicksorts", xp.vmap(quicksort), (onp.stack([x, -x, onp.sort(x)]),)),
        Program(
            "soft ranks",
            lambda x: (sinkhorn_ranks(x), xp.grad(lambda x: np.sum(sinkhorn_ranks(x)[0] ** 2))(x)),
            (x,),
            rtol=1e-4,
        ),
        Program("isotonic regressions", xp.vmap(isotonic), (onp.stack([x, -x]),)),
        Program("quantiles", lambda x, q: xp.jvp(xp.grad(quantile_loss), (x, q), (x, q)), (x, q), rtol=5e-5),
    ]


def test_sorting_networks():
    check(programs)

"""Where memory is read and written out of order: scatters, segments, tables, graphs, sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, program

_BOTH = ("quire", "jax")


def _updates(n: int, into: int) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: (
        np.zeros(into, np.float32), rng.integers(0, into, n).astype(np.int32), rng.standard_normal(n).astype(np.float32)
    )  # fmt: skip


for _name in ("add", "max", "min"):
    program(
        "irregular", f"scatter-{_name} of 100k numbers",
        lambda lib, name=_name: lambda x, i, v: getattr(x.at[i], name)(v), _updates(100_000, 100_000), libraries=_BOTH,
        tolerance=1e-3,
    )  # fmt: skip
program(
    "irregular", "scatter of 50k unique numbers", lambda lib: lambda x, i, v: x.at[i].set(v),
    lambda rng: (
        np.zeros(99_991, np.float32), rng.permutation(99_991)[:50_000].astype(np.int32),
        rng.standard_normal(50_000).astype(np.float32),
    ), libraries=_BOTH,
)  # fmt: skip
program(
    "irregular", "take_along_axis 1000x1000", lambda lib: lambda x, i: lib.np.take_along_axis(x, i, axis=1),
    lambda rng: (rng.standard_normal((1000, 1000)).astype(np.float32), rng.integers(0, 1000, (1000, 1000)).astype(np.int32)),
)  # fmt: skip
program(
    "irregular", "take_along_axis of axis 0, 777x513", lambda lib: lambda x, i: lib.np.take_along_axis(x, i, axis=0),
    lambda rng: (rng.standard_normal((777, 513)).astype(np.float32), rng.integers(0, 777, (777, 513)).astype(np.int32)),
)  # fmt: skip
program(
    "irregular", "segment_sum of 20k rows", lambda lib: lambda x, s: lib.ops.segment_sum(x, s, 1000),
    lambda rng: (rng.standard_normal((20_000, 32)).astype(np.float32), rng.integers(0, 1000, 20_000).astype(np.int32)),
    libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip
program(
    "irregular", "segment_max of 100k, sorted", lambda lib: lambda x, s: lib.ops.segment_max(x, s, 5000, True),
    lambda rng: (rng.standard_normal(100_000).astype(np.float32), np.sort(rng.integers(0, 5000, 100_000)).astype(np.int32)),
    libraries=_BOTH,
)  # fmt: skip
program(
    "irregular", "roll of 1000x1003", lambda lib: lambda x: lib.np.roll(x, 17, axis=1),
    lambda rng: (rng.standard_normal((1000, 1003)).astype(np.float32),),
)  # fmt: skip
program(
    "irregular", "pad 1000x1000 by reflection", lambda lib: lambda x: lib.np.pad(x, 13, mode="reflect"),
    lambda rng: (rng.standard_normal((1000, 1000)).astype(np.float32),),
)  # fmt: skip
program(
    "irregular", "searchsorted of 100k in 10k", lambda lib: lambda a, v: lib.np.searchsorted(a, v),
    lambda rng: (np.sort(rng.standard_normal(10_000)).astype(np.float32), rng.standard_normal(100_000).astype(np.float32)),
)  # fmt: skip
program(
    "irregular", "interp of 100k in 1k", lambda lib: lambda x, xp, fp: lib.np.interp(x, xp, fp),
    lambda rng: (
        rng.random(100_000).astype(np.float32), np.sort(rng.random(1000)).astype(np.float32),
        rng.standard_normal(1000).astype(np.float32),
    ), tolerance=1e-2,
)  # fmt: skip
program(
    "irregular", "unique of 10k, of known size", lambda lib: lambda x: lib.np.unique(x, size=500, fill_value=-1),
    lambda rng: (rng.integers(0, 500, 10_000).astype(np.int32),), libraries=_BOTH,
)  # fmt: skip
program(
    "irregular", "nonzero of 100k, of known size", lambda lib: lambda x: lib.np.nonzero(x, size=50_000)[0],
    lambda rng: ((rng.random(100_000) < 0.4),), libraries=_BOTH,
)  # fmt: skip
program(
    "irregular", "percentiles of 100k", lambda lib: lambda x: lib.np.percentile(x, np.array([5, 50, 95], np.float32)),
    lambda rng: (rng.standard_normal(100_000).astype(np.float32),), tolerance=1e-3,
)  # fmt: skip
program(
    "irregular", "median of axis 1, 1000x101", lambda lib: lambda x: lib.np.median(x, axis=1),
    lambda rng: (rng.standard_normal((1000, 101)).astype(np.float32),),
)  # fmt: skip


def _edges(n: int, m: int) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: tuple(rng.integers(0, n, (2, m)).astype(np.int32))


def _pagerank(lib: Library) -> Any:
    def f(source: Any, target: Any) -> Any:
        n = 5000
        degree = lib.ops.segment_sum(lib.np.ones(source.shape, "float32"), source, n)

        def step(_: Any, rank: Any) -> Any:
            share = rank / lib.np.maximum(degree, 1)
            return 0.15 / n + 0.85 * lib.ops.segment_sum(share[source], target, n)

        return lib.lax.fori_loop(0, 20, step, lib.np.full(n, 1.0 / n, "float32"))

    return f


program("irregular", "PageRank, 50k edges, 20 steps", _pagerank, _edges(5000, 50_000), libraries=_BOTH, tolerance=1e-3)


def _message_passing(lib: Library) -> Any:
    def f(x: Any, w: Any, source: Any, target: Any) -> Any:
        for _ in range(2):
            x = lib.np.tanh(lib.ops.segment_sum((x @ w)[source], target, x.shape[0]) + x)
        return x

    return f


program(
    "irregular", "two layers of a graph network, 20k edges", _message_passing, lambda rng: (
        rng.standard_normal((2000, 32)).astype(np.float32), (0.05 * rng.standard_normal((32, 32))).astype(np.float32),
        *_edges(2000, 20_000)(rng),
    ), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _breadth_first(lib: Library) -> Any:
    def f(source: Any, target: Any) -> Any:
        n = 3000
        far = np.int32(n)

        def step(state: Any) -> Any:
            d, _ = state
            new = lib.np.minimum(d, lib.ops.segment_min(d[source] + 1, target, n))
            return new, lib.np.any(new != d)

        first = lib.np.full(n, far, "int32").at[0].set(0)
        return lib.lax.while_loop(lambda s: s[1], step, (first, np.True_))[0]

    return f


program("irregular", "distances in a graph of 15k edges", _breadth_first, _edges(3000, 15_000), libraries=_BOTH)


def _sparse_rows(lib: Library) -> Any:
    def f(values: Any, columns: Any, x: Any) -> Any:
        return lib.np.sum(values * x[columns], axis=1)

    return f


program(
    "irregular", "sparse matrix (8 a row) by vector, 20k", _sparse_rows, lambda rng: (
        rng.standard_normal((20_000, 8)).astype(np.float32), rng.integers(0, 20_000, (20_000, 8)).astype(np.int32),
        rng.standard_normal(20_000).astype(np.float32),
    ), tolerance=1e-3,
)  # fmt: skip


def _embedding(lib: Library) -> Any:
    def loss(table: Any, tokens: Any, y: Any) -> Any:
        return lib.np.mean((lib.np.mean(table[tokens], axis=1) - y) ** 2)

    return lib.grad(loss)


program(
    "irregular", "gradient of a bag of embeddings", _embedding, lambda rng: (
        rng.standard_normal((5000, 64)).astype(np.float32), rng.integers(0, 5000, (256, 20)).astype(np.int32),
        rng.standard_normal((256, 64)).astype(np.float32),
    ), libraries=_BOTH,
)  # fmt: skip


def _union(lib: Library) -> Any:
    """Labels of connected pixels: each takes the smallest of its neighbours until nothing changes."""

    def f(mask: Any) -> Any:
        n, m = mask.shape
        none = np.int32(n * m)
        labels = lib.np.where(mask, lib.np.arange(n * m, dtype="int32").reshape(n, m), none)

        def step(state: Any) -> Any:
            x, _ = state
            p = lib.np.pad(x, 1, constant_values=none)
            low = lib.np.minimum(lib.np.minimum(p[:-2, 1:-1], p[2:, 1:-1]), lib.np.minimum(p[1:-1, :-2], p[1:-1, 2:]))
            new = lib.np.where(mask, lib.np.minimum(x, low), none)
            return new, lib.np.any(new != x)

        return lib.lax.while_loop(lambda s: s[1], step, (labels, np.True_))[0]

    return f


program(
    "irregular", "connected components, 64x64", _union, lambda rng: (rng.random((64, 64)) < 0.5,), libraries=_BOTH
)  # fmt: skip

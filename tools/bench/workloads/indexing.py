"""Sorting, cumulative operations, gathers, scatters, transforms and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import program

_BOTH = ("quire", "jax")


def _normal(*shape: int) -> Any:
    return lambda rng: (rng.standard_normal(shape).astype(np.float32),)


for _n, _text in ((1000, "1e3"), (100_000, "1e5"), (1_000_000, "1e6")):
    program("sort", f"sort of {_text}", lambda lib: lambda x: lib.np.sort(x), _normal(_n))
    program("sort", f"argsort of {_text}", lambda lib: lambda x: lib.np.argsort(x), _normal(_n), libraries=_BOTH)
    program("sort", f"top 8 of {_text}", lambda lib: lambda x: lib.lax.top_k(x, 8), _normal(_n), libraries=_BOTH)
program("sort", "top 8 of 1024x1000", lambda lib: lambda x: lib.lax.top_k(x, 8), _normal(1024, 1000), libraries=_BOTH)
program("index", "cumsum of 1M", lambda lib: lambda x: lib.np.cumsum(x), _normal(1 << 20), tolerance=1e-3)
program(
    "index",
    "cumsum of axis 1, 1024x1024",
    lambda lib: lambda x: lib.np.cumsum(x, axis=1),
    _normal(1024, 1024),
    tolerance=1e-3,
)
program(
    "index", "gather of 20k rows", lambda lib: lambda table, i: table[i],
    lambda rng: (rng.standard_normal((100_000, 64)).astype(np.float32), rng.integers(0, 100_000, 20_000).astype(np.int32)),
)  # fmt: skip
program(
    "index", "scatter-add of 20k rows", lambda lib: lambda table, i, rows: table.at[i].add(rows),
    lambda rng: (
        np.zeros((100_000, 64), np.float32), rng.integers(0, 100_000, 20_000).astype(np.int32),
        rng.standard_normal((20_000, 64)).astype(np.float32),
    ),
    libraries=_BOTH,
)  # fmt: skip
program("fft", "64 of 4096", lambda lib: lambda x: lib.np.abs(lib.np.fft.fft(x)), _normal(64, 4096), tolerance=1e-3)
program("fft", "512x512", lambda lib: lambda x: lib.np.abs(lib.np.fft.fft2(x)), _normal(512, 512), tolerance=1e-3)
for _name in ("bits", "uniform", "normal"):
    program(
        "random", f"{_name} of 1M",
        lambda lib, name=_name: lambda seed: getattr(lib.random, name)(lib.random.PRNGKey(seed), (1 << 20,)),
        lambda rng: (np.uint32(3),), libraries=_BOTH,
    )  # fmt: skip
program(
    "random", "permutation of 64k", lambda lib: lambda seed: lib.random.permutation(lib.random.PRNGKey(seed), 1 << 16),
    lambda rng: (np.uint32(3),), libraries=_BOTH,
)  # fmt: skip
program(
    "random", "gamma of 4k", lambda lib: lambda seed: lib.random.gamma(lib.random.PRNGKey(seed), 2.5, (1 << 12,)),
    lambda rng: (np.uint32(3),), libraries=_BOTH,
)  # fmt: skip

"""Reductions, and the normalisations made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import program


def _normal(*shape: int) -> Any:
    return lambda rng: (rng.standard_normal(shape).astype(np.float32),)


program("reduction", "sum of 16M", lambda lib: lambda x: lib.np.sum(x), _normal(1 << 24), tolerance=1e-3)
program("reduction", "sum of axis 0, 4096x4096", lambda lib: lambda x: lib.np.sum(x, axis=0), _normal(4096, 4096))
program(
    "reduction", "standardised columns, 5000x300", lambda lib: lambda x: (x - lib.np.mean(x, 0)) / lib.np.std(x, 0),
    _normal(5000, 300), libraries=("quire", "jax"),
)  # fmt: skip
program("reduction", "softmax of axis 0, 1000x1000", lambda lib: lambda x: lib.nn.softmax(x, 0), _normal(1000, 1000),
        libraries=("quire", "jax"))  # fmt: skip
program("reduction", "sum of axis 1, 4096x4096", lambda lib: lambda x: lib.np.sum(x, axis=1), _normal(4096, 4096))
program("reduction", "argmax of axis 1, 1024x1000", lambda lib: lambda x: lib.np.argmax(x, axis=1), _normal(1024, 1000))
program(
    "reduction", "mean and variance, 1024x1024",
    lambda lib: lambda x: (lib.np.mean(x, axis=1), lib.np.var(x, axis=1)), _normal(1024, 1024),
)  # fmt: skip


def _logsumexp(lib: Any) -> Any:
    def f(x: Any) -> Any:
        top = lib.np.max(x, axis=1, keepdims=True)
        return lib.np.log(lib.np.sum(lib.np.exp(x - top), axis=1)) + top[:, 0]

    return f


def _softmax(lib: Any) -> Any:
    def f(x: Any) -> Any:
        e = lib.np.exp(x - lib.np.max(x, axis=-1, keepdims=True))
        return e / lib.np.sum(e, axis=-1, keepdims=True)

    return f


def _layer_norm(lib: Any) -> Any:
    def f(x: Any) -> Any:
        centred = x - lib.np.mean(x, axis=-1, keepdims=True)
        return centred / lib.np.sqrt(lib.np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    return f


program("reduction", "logsumexp, 1024x1000", _logsumexp, _normal(1024, 1000))
program("reduction", "softmax, 1024x1000", _softmax, _normal(1024, 1000))
program("reduction", "layer norm, 1024x1024", _layer_norm, _normal(1024, 1024))


def _distances(axes: Any) -> Any:
    return lambda lib: lambda x, y: lib.np.sum(lib.np.abs(x[:, None] - y), axis=axes)


def _two(first: tuple[int, ...], second: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.standard_normal(shape).astype(np.float32) for shape in (first, second))


program("reduction", "distances by coordinate, 400x64, 300x64", _distances(0), _two((400, 64), (300, 64)),
        libraries=("quire", "jax"), tolerance=1e-4)  # fmt: skip
program("reduction", "all distances in space, 1000x3, 900x3", _distances(None), _two((1000, 3), (900, 3)),
        libraries=("quire", "jax"), tolerance=1e-4)  # fmt: skip
program("reduction", "squares by channel, 16x64x28x28", lambda lib: lambda x: lib.np.sum(x * x, axis=(0, 2, 3)),
        _normal(16, 64, 28, 28), libraries=("quire", "jax"), tolerance=1e-4)  # fmt: skip
program(
    "reduction",
    "sum(arange(50000))",
    lambda lib: lambda x: lib.np.sum(lib.np.arange(50000)) + x,
    lambda rng: (np.int32(1),),
)

"""Kernels that a user writes with `quire.kernel` (docs/user-kernels.md); other libraries compile functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import program


def _softmax(lib: Any) -> Callable[..., Any]:
    if lib.name == "quire":
        from ..user_kernels import masked_softmax

        return lambda x, mask: masked_softmax(x, mask)

    def f(x: Any, mask: Any) -> Any:
        z = lib.np.where(mask, x, -np.inf)
        e = lib.np.exp(z - lib.np.max(z, -1, keepdims=True))
        return e / lib.np.sum(e, -1, keepdims=True)

    return f


def _norm_of_arrays(lib: Any) -> Callable[..., Any]:
    return lambda x, w: x / lib.np.sqrt(lib.np.mean(x * x, -1, keepdims=True) + 1e-6) * w


def _norm(lib: Any) -> Callable[..., Any]:
    if lib.name == "quire":
        from ..user_kernels import rms_norm

        return lambda x, w: rms_norm(x, w)
    return _norm_of_arrays(lib)


def _norm_gradient(lib: Any) -> Callable[..., Any]:
    norm = _norm(lib)
    return lib.grad(lambda x, w, ct: lib.np.sum(norm(x, w) * ct), argnums=(0, 1))


def _heat(lib: Any) -> Callable[..., Any]:
    if lib.name == "quire":
        from ..user_kernels import heat_step

        return lambda u: heat_step(u)

    def f(u: Any) -> Any:
        p = lib.np.pad(u, 1)
        return u + np.float32(0.1) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)

    return f


def _local_attention(lib: Any) -> Callable[..., Any]:
    if lib.name == "quire":
        from ..user_kernels import local_attention

        return lambda q, keys, values: local_attention(q, keys, values)
    np_ = lib.np

    def f(q: Any, keys: Any, values: Any) -> Any:
        n, d = q.shape
        back = np_.arange(n)[:, None] - np_.arange(n)
        scores = np_.where((back >= 0) & (back < 128), q @ keys / np.float32(d**0.5), np.float32(-1e30))
        e = np_.exp(scores - np_.max(scores, -1, keepdims=True))
        return e @ values / np_.sum(e, -1, keepdims=True)

    return f


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


def _masked(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal((1024, 1000)).astype(np.float32), rng.random((1024, 1000)) < 0.8


program("own kernels", "masked softmax, 1024x1000", _softmax, _masked)
program("own kernels", "RMS norm, 1024x1024", _norm, _normal((1024, 1024), (1024,)))
program(
    "own kernels", "gradient of RMS norm, 1024x1024", _norm_gradient, _normal((1024, 1024), (1024,), (1024, 1024)),
    libraries=("quire", "jax"),
)  # fmt: skip
program("own kernels", "heat step, 2048x2048", _heat, _normal((2048, 2048)))
program(
    "own kernels", "attention to 128 places, 2048x64", _local_attention, _normal((2048, 64), (64, 2048), (2048, 64))
)  # fmt: skip

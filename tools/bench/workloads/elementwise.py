"""Elementwise work over large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import program


def _normal(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


program("elementwise", "add of 16M", lambda lib: lambda x, y: x + y, _normal((1 << 24,), (1 << 24,)))
program("elementwise", "chain of 16M", lambda lib: lambda x: ((x * 2 + 1) * x - 3) * x + 0.5, _normal((1 << 24,)))
program(
    "elementwise",
    "bias and relu, 1000x1000",
    lambda lib: lambda x, b: lib.np.maximum(x + b, 0),
    _normal((1000, 1000), (1000,)),
)
program(
    "elementwise", "tanh of a shifted field, 512x33x65", lambda lib: lambda x, b: lib.np.tanh(x + b),
    _normal((512, 33, 65), (33, 65)), libraries=("quire", "jax"),
)  # fmt: skip
program(
    "elementwise", "Gaussian kernel matrix, 700x900", lambda lib: lambda x, y: lib.np.exp(-((x[:, None] - y) ** 2)),
    _normal((700,), (900,)), libraries=("quire", "jax"),
)  # fmt: skip
program("elementwise", "tanh-exp of 1M", lambda lib: lambda x: lib.np.tanh(x) * lib.np.exp(-x * x), _normal((1 << 20,)))
program("elementwise", "sin of 1M", lambda lib: lambda x: lib.np.sin(x) + lib.np.cos(x), _normal((1 << 20,)))


program(
    "elementwise",
    "powers of 1M",
    lambda lib: lambda x, y: lib.np.abs(x) ** y,
    _normal((1 << 20,), (1 << 20,)),
    tolerance=1e-5,
)


def _black_scholes(lib: Any) -> Any:
    np_ = lib.np

    def phi(x: Any) -> Any:
        return 0.5 * (1 + lib.lax.erf(x / 1.4142135))

    def price(spot: Any, strike: Any, time: Any) -> Any:
        d1 = (np_.log(spot / strike) + (0.02 + 0.5 * 0.09) * time) / (0.3 * np_.sqrt(time))
        d2 = d1 - 0.3 * np_.sqrt(time)
        return spot * phi(d1) - strike * np_.exp(-0.02 * time) * phi(d2)

    return price


program(
    "elementwise", "Black-Scholes of 1M", _black_scholes,
    lambda rng: tuple(rng.uniform(a, b, 1 << 20).astype(np.float32) for a, b in ((5, 30), (5, 30), (0.1, 3))),
    libraries=("quire", "jax"),
)  # fmt: skip

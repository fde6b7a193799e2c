"""Loops: many small steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import program

_BOTH = ("quire", "jax")


def _normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Any:
    return lambda rng: tuple((scale * rng.standard_normal(s)).astype(np.float32) for s in shapes)


program(
    "loop", "fori_loop of 1000 steps on 16",
    lambda lib: lambda x: lib.lax.fori_loop(0, 1000, lambda i, y: y * 0.999 + 0.001 * lib.np.sin(y), x),
    _normal((16,)), libraries=_BOTH,
)  # fmt: skip


def _newton(lib: Any) -> Any:
    def f(a: Any) -> Any:
        def going(state: Any) -> Any:
            return lib.np.max(lib.np.abs(state * state - a)) > 1e-3

        return lib.lax.while_loop(going, lambda x: 0.5 * (x + a / x), a)

    return f


program(
    "loop",
    "while_loop until converged",
    _newton,
    lambda rng: (rng.uniform(1, 100, 64).astype(np.float32),),
    libraries=_BOTH,
)


def _rnn(lib: Any) -> Any:
    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = lib.np.tanh(h @ w + x)
            return h, h[0]

        return lib.lax.scan(step, h, xs)

    return f


program(
    "loop", "RNN of 256, 100 steps", _rnn, lambda rng: (
        (rng.standard_normal((256, 256)) / 32).astype(np.float32), np.zeros(256, np.float32),
        rng.standard_normal((100, 256)).astype(np.float32),
    ), libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip


def _lorenz(lib: Any) -> Any:
    np_ = lib.np

    def slope(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return np_.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    def step(_: Any, s: Any) -> Any:
        h = 1e-4
        a = slope(s)
        b = slope(s + 0.5 * h * a)
        c = slope(s + 0.5 * h * b)
        d = slope(s + h * c)
        return s + h / 6 * (a + 2 * b + 2 * c + d)

    return lambda s: lib.lax.fori_loop(0, 10_000, step, s)


program(
    "loop",
    "RK4 on Lorenz, 10000 steps",
    _lorenz,
    lambda rng: (np.ones(3, np.float32),),
    libraries=_BOTH,
    tolerance=1e-2,
)


def _mandelbrot(lib: Any) -> Any:
    def f(re: Any, im: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, y, n = state
            x, y = x * x - y * y + re, 2 * x * y + im
            inside = x * x + y * y < 4.0
            return lib.np.where(inside, x, 2.0), lib.np.where(inside, y, 0.0), n + inside

        zero = lib.np.zeros_like(re)
        return lib.lax.fori_loop(0, 50, step, (zero, zero, zero))[2]

    return f


program(
    "loop", "mandelbrot 256x256, 50 steps", _mandelbrot, lambda rng: tuple(
        np.ascontiguousarray(a, np.float32) for a in np.meshgrid(np.linspace(-2, 1, 256), np.linspace(-1.2, 1.2, 256))
    ), libraries=_BOTH, tolerance=0.03,
)  # fmt: skip


def _bodies(lib: Any) -> Any:
    def f(x: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, v = state
            d = x[None] - x[:, None]
            r = lib.np.sum(d * d, axis=-1) + 0.1
            a = lib.np.sum(d / (r * lib.np.sqrt(r))[..., None], axis=1)
            v = v + 1e-3 * a
            return x + 1e-3 * v, v

        return lib.lax.fori_loop(0, 10, step, (x, v))

    return f


program("loop", "256 bodies, 10 steps", _bodies, _normal((256, 3), (256, 3)), libraries=_BOTH)


def _jacobi(lib: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u.at[1:-1, 1:-1].set(inner)

    return lambda u: lib.lax.fori_loop(0, 50, step, u)


program("loop", "Jacobi stencil 512x512, 50 steps", _jacobi, _normal((512, 512)), libraries=_BOTH)


def _kmeans(lib: Any) -> Any:
    np_ = lib.np

    def f(points: Any, centres: Any) -> Any:
        distance = np_.sum(centres * centres, axis=1)[None] - 2 * points @ centres.T
        nearest = np_.argmin(distance, axis=1)
        member = (nearest[:, None] == np_.arange(10)[None]).astype("float32")
        return member.T @ points / np_.maximum(np_.sum(member, axis=0), 1)[:, None]

    return f


program("loop", "k-means step, 1797x64", _kmeans, _normal((1797, 64), (10, 64)), tolerance=1e-2)

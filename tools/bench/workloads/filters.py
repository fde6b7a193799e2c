"""Filters and small linear algebra: factorisations of small matrices, many at once or one in each step of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import program

_BOTH = ("quire", "jax")


def _system(rng: np.random.Generator) -> tuple[Any, ...]:
    """Transition, observation, covariances of both noises, observations."""
    a = (np.eye(6) + 0.05 * rng.standard_normal((6, 6))) / 1.1
    h = rng.standard_normal((4, 6))
    arrays = (a, h, 0.1 * np.eye(6), 0.5 * np.eye(4), rng.standard_normal((500, 4)))
    return tuple(x.astype(np.float32) for x in arrays)


def _kalman(lib: Any) -> Any:
    np_ = lib.np

    def f(a: Any, h: Any, q: Any, r: Any, ys: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            x, p = carry
            x, p = a @ x, a @ p @ a.T + q
            gain = np_.linalg.solve(h @ p @ h.T + r, h @ p).T
            x = x + gain @ (y - h @ x)
            return (x, p - gain @ h @ p), x

        return lib.lax.scan(step, (np_.zeros(6), np_.eye(6)), ys)[1]

    return f


def _kalman_gradient(lib: Any) -> Any:
    return lib.grad(lambda *arrays: lib.np.sum(_kalman(lib)(*arrays) ** 2), argnums=(0, 2, 3))


program("linalg", "Kalman filter, 500 steps of 6 states", _kalman, _system, libraries=_BOTH, tolerance=1e-3)
program("linalg", "gradient of the Kalman filter", _kalman_gradient, _system, libraries=_BOTH, tolerance=1e-3)


def _particles(lib: Any) -> Any:
    np_, lax, random = lib.np, lib.lax, lib.random
    n = 256

    def f(seed: Any, ys: Any) -> Any:
        def step(xs: Any, given: Any) -> Any:
            key, y = given
            xs = 0.9 * xs + 0.3 * random.normal(key, (n,))
            weights = np_.exp(-0.5 * (y - xs) ** 2)
            weights = weights / np_.sum(weights)
            places = (np_.arange(n, dtype=np_.float32) + 0.5) / n
            chosen = np_.clip(np_.searchsorted(np_.cumsum(weights), places), 0, n - 1)
            return xs[chosen], np_.sum(weights * xs)

        keys = random.split(random.PRNGKey(seed), ys.shape[0])
        return lax.scan(step, np_.zeros(n, np_.float32), (keys, ys))[1]

    return f


# What is resampled differs where a cumulative weight is within rounding of a place: some hundredths, after many steps.
program("linalg", "particle filter, 100 steps of 256", _particles,
        lambda rng: (np.uint32(0), rng.standard_normal(100).astype(np.float32)), libraries=_BOTH, tolerance=0.5)  # fmt: skip


def _newton(lib: Any) -> Any:
    np_ = lib.np

    def f(x: Any, y: Any) -> Any:
        def step(_: Any, w: Any) -> Any:
            p = 1 / (1 + np_.exp(-(x @ w)))
            hessian = (x * (p * (1 - p))[:, None]).T @ x + 0.1 * np_.eye(8)
            return w - np_.linalg.solve(hessian, x.T @ (p - y) + 0.1 * w)

        return lib.lax.fori_loop(0, 10, step, np_.zeros(8))

    return f


def _observations(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal((500, 8)).astype(np.float32), (rng.random(500) > 0.5).astype(np.float32)


program("linalg", "Newton for logistic regression", _newton, _observations, libraries=_BOTH, tolerance=1e-3)


def _gaussian_process(lib: Any) -> Any:
    np_ = lib.np

    def f(x: Any, y: Any) -> Any:
        covariance = np_.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 0.1 * np_.eye(48)
        factor = np_.linalg.cholesky(covariance)
        z = lib.lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)
        return 0.5 * np_.sum(z * z) + np_.sum(np_.log(np_.diagonal(factor)))

    return lib.grad(f)


program("linalg", "gradient of a Gaussian process, 48 points", _gaussian_process,
        lambda rng: tuple(rng.standard_normal((2, 48)).astype(np.float32)), libraries=_BOTH, tolerance=1e-2)  # fmt: skip


def _positive(count: int, n: int, columns: int = 0) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        a = rng.standard_normal((count, n, n)).astype(np.float32)
        definite = a @ a.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)
        return (definite, rng.standard_normal((count, n, columns)).astype(np.float32)) if columns else (definite,)

    return arguments


def _function(name: str, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: lambda *xs: getattr(lib.np.linalg, name)(*xs, **options)


program("linalg", "500 solves of 8x8", _function("solve"), _positive(500, 8, 1), libraries=_BOTH, tolerance=1e-3)
program("linalg", "cholesky of 1000 3x3", _function("cholesky"), _positive(1000, 3), libraries=_BOTH, tolerance=1e-3)
program("linalg", "cholesky of 1000 6x6", _function("cholesky"), _positive(1000, 6), libraries=_BOTH, tolerance=1e-3)
program("linalg", "inverses of 500 5x5", _function("inv"), _positive(500, 5), libraries=_BOTH, tolerance=1e-3)
program("linalg", "determinants of 500 5x5", _function("det"), _positive(500, 5), libraries=_BOTH, tolerance=1e-3)
program("linalg", "QR of 200 6x6", _function("qr"), _positive(200, 6), libraries=_BOTH, tolerance=1e-3)
program(
    "linalg",
    "eigenvalues of 200 symmetric 6x6",
    _function("eigvalsh"),
    _positive(200, 6),
    libraries=_BOTH,
    tolerance=1e-3,
)
program(
    "linalg",
    "singular values of 200 6x6",
    _function("svd", compute_uv=False),
    _positive(200, 6),
    libraries=_BOTH,
    tolerance=1e-3,
)
program(
    "linalg",
    "solve 32x32",
    lambda lib: lambda a, b: lib.np.linalg.solve(a[0], b[0]),
    _positive(1, 32, 1),
    libraries=_BOTH,
    tolerance=1e-3,
)


def _implicit(lib: Any) -> Any:
    """Crank and Nicolson's steps of the heat equation."""
    np_, lax = lib.np, lib.lax

    def f(u: Any, a: Any) -> Any:
        off, diagonal = np_.full(u.shape, -a), np_.full(u.shape, 1 + 2 * a)

        def step(u: Any, _: Any) -> Any:
            right = u + a * (np_.roll(u, 1) - 2 * u + np_.roll(u, -1))
            u = lax.linalg.tridiagonal_solve(off, diagonal, off, right[:, None])[:, 0]
            return u, u[0]

        return lax.scan(step, u, None, length=100)

    return f


def _alternating(lib: Any) -> Any:
    """Implicit steps along one dimension and then the other: tridiagonal systems of all rows at once."""
    np_, lax = lib.np, lib.lax

    def f(u: Any) -> Any:
        off, diagonal = np_.full(u.shape, -0.2), np_.full(u.shape, 1.4)

        def step(u: Any, _: Any) -> Any:
            for _ in range(2):
                u = lax.linalg.tridiagonal_solve(off, diagonal, off, u[..., None])[..., 0].T
            return u, None

        return lax.scan(step, u, None, length=20)[0]

    return f


program(
    "linalg", "heat equation by Crank and Nicolson, 100 steps of 200", _implicit,
    lambda rng: (rng.standard_normal(200).astype(np.float32), np.float32(0.3)), libraries=_BOTH,
)  # fmt: skip
program(
    "linalg", "alternating implicit steps, 20 of 100x100", _alternating,
    lambda rng: (rng.standard_normal((100, 100)).astype(np.float32),), libraries=_BOTH,
)  # fmt: skip

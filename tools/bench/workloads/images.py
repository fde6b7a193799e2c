"""Images and grids: stencils, filters, colours, histograms, morphology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, program

_BOTH = ("quire", "jax")


def _image(*shape: int, dtype: str = "float32") -> Callable[[np.random.Generator], tuple[Any, ...]]:
    if dtype == "uint8":
        return lambda rng: (rng.integers(0, 256, shape).astype(np.uint8),)
    return lambda rng: (rng.random(shape).astype(dtype),)


def _five_points(lib: Library) -> Any:
    def f(u: Any) -> Any:
        return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]

    return f


def _padded(lib: Library) -> Any:
    return lambda x: lib.np.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)))


program("image", "pad of 16x224x224x3", _padded, _image(16, 224, 224, 3))
program("image", "five-point stencil 2048x2048", _five_points, _image(2048, 2048))
program("image", "five-point stencil 1023x777", _five_points, _image(1023, 777))


def _periodic(lib: Library) -> Any:
    roll = lib.np.roll
    return lambda u: roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u


program("image", "periodic Laplacian by roll, 1024x1024", _periodic, _image(1024, 1024))


def _nine_points(lib: Library) -> Any:
    def f(u: Any) -> Any:
        p = lib.np.pad(u, 1, mode="edge")
        n, m = u.shape
        return sum(p[i : i + n, j : j + m] * (1.0 / 9) for i in range(3) for j in range(3))

    return f


program("image", "box blur 3x3 with edges, 1000x1000", _nine_points, _image(1000, 1000))


def _sobel(lib: Library) -> Any:
    def f(u: Any) -> Any:
        gx = u[:-2, 2:] + 2 * u[1:-1, 2:] + u[2:, 2:] - u[:-2, :-2] - 2 * u[1:-1, :-2] - u[2:, :-2]
        gy = u[2:, :-2] + 2 * u[2:, 1:-1] + u[2:, 2:] - u[:-2, :-2] - 2 * u[:-2, 1:-1] - u[:-2, 2:]
        return lib.np.sqrt(gx * gx + gy * gy)

    return f


program("image", "Sobel edges, 1080x1920", _sobel, _image(1080, 1920), tolerance=1e-3)


def _grey(lib: Library) -> Any:
    return lambda x: ((x[..., 0].astype("uint16") * 77 + x[..., 1] * 150 + x[..., 2] * 29) >> 8).astype("uint8")


program("image", "grey of 1080x1920x3, uint8", _grey, _image(1080, 1920, 3, dtype="uint8"), libraries=_BOTH)


def _brighten(lib: Library) -> Any:
    return lambda x: lib.np.clip(x.astype("int16") * 5 // 4 + 10, 0, 255).astype("uint8")


program("image", "brighten 1024x1024x3, uint8", _brighten, _image(1024, 1024, 3, dtype="uint8"), libraries=_BOTH)


def _blend(lib: Library) -> Any:
    return lambda x, y: ((x.astype("uint16") + y.astype("uint16") + 1) >> 1).astype("uint8")


program(
    "image", "blend of two 1024x1024x3, uint8", _blend,
    lambda rng: tuple(rng.integers(0, 256, (2, 1024, 1024, 3)).astype(np.uint8)), libraries=_BOTH,
)  # fmt: skip
program(
    "image", "threshold and invert, uint8 4M", lambda lib: lambda x: lib.np.where(x > 127, 255 - x, x ^ 15),
    _image(2048, 2048, dtype="uint8"), libraries=_BOTH,
)  # fmt: skip
program(
    "image", "histogram of 1M bytes", lambda lib: lambda x: lib.np.bincount(x, length=256),
    _image(1 << 20, dtype="uint8"), libraries=_BOTH,
)  # fmt: skip


def _equalized(lib: Library) -> Any:
    def f(x: Any) -> Any:
        counts = lib.np.bincount(x.ravel(), length=256)
        below = lib.np.cumsum(counts)
        table = ((below - below[0]) * 255 // lib.np.maximum(x.size - below[0], 1)).astype("uint8")
        return table[x]

    return f


program("image", "histogram equalisation, 512x512", _equalized, _image(512, 512, dtype="uint8"), libraries=_BOTH)


def _gauss(lib: Library) -> Any:
    kernel = np.exp(-0.5 * (np.arange(-7, 8) / 2.5) ** 2).astype(np.float32)
    kernel /= kernel.sum()

    def f(x: Any) -> Any:
        rows = lib.np.pad(x, ((0, 0), (7, 7)), mode="reflect")
        x = sum(float(k) * rows[:, i : i + x.shape[1]] for i, k in enumerate(kernel))
        columns = lib.np.pad(x, ((7, 7), (0, 0)), mode="reflect")
        return sum(float(k) * columns[i : i + x.shape[0]] for i, k in enumerate(kernel))

    return f


program("image", "Gaussian blur, separable, 15 taps, 512x512", _gauss, _image(512, 512))


def _erosion(lib: Library) -> Any:
    def f(x: Any) -> Any:
        window = {"window_dimensions": (5, 5), "window_strides": (1, 1), "padding": "SAME"}
        low = lib.lax.reduce_window(x, np.float32(np.inf), lib.lax.min, **window)
        return lib.lax.reduce_window(low, np.float32(-np.inf), lib.lax.max, **window)

    return f


program("image", "opening 5x5 (erosion, dilation), 512x512", _erosion, _image(512, 512), libraries=_BOTH)


def _bilinear(lib: Library) -> Any:
    return lambda x: lib.image.resize(x, (400, 600, 3), "bilinear")


program(
    "image", "resize 256x256x3 to 400x600, bilinear", _bilinear, _image(256, 256, 3), libraries=_BOTH, tolerance=1e-3
)


def _warp(lib: Library) -> Any:
    def f(x: Any, angle: Any) -> Any:
        n, m = x.shape
        i, j = lib.np.meshgrid(lib.np.arange(n) - n / 2, lib.np.arange(m) - m / 2, indexing="ij")
        c, s = lib.np.cos(angle), lib.np.sin(angle)
        return lib.scipy.ndimage.map_coordinates(x, [c * i - s * j + n / 2, s * i + c * j + m / 2], order=1)

    return f


program(
    "image", "rotation of 512x512, bilinear", _warp,
    lambda rng: (rng.random((512, 512)).astype(np.float32), np.float32(0.3)), libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip


def _integral(lib: Library) -> Any:
    def f(x: Any) -> Any:
        total = lib.np.pad(lib.np.cumsum(lib.np.cumsum(x, 0), 1), ((1, 0), (1, 0)))
        return (total[9:, 9:] - total[:-9, 9:] - total[9:, :-9] + total[:-9, :-9]) / 81

    return f


program("image", "box mean 9x9 by integral image, 1024x1024", _integral, _image(1024, 1024), tolerance=1e-2)


def _life(lib: Library) -> Any:
    def step(_: Any, x: Any) -> Any:
        roll = lib.np.roll
        n = sum(roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        return ((n == 3) | ((x == 1) & (n == 2))).astype("uint8")

    return lambda x: lib.lax.fori_loop(0, 20, step, x)


program(
    "image", "game of life, 256x256, 20 steps", _life, lambda rng: (rng.integers(0, 2, (256, 256)).astype(np.uint8),),
    libraries=_BOTH,
)  # fmt: skip


def _reaction(lib: Library) -> Any:
    def laplacian(u: Any) -> Any:
        roll = lib.np.roll
        return roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u

    def step(_: Any, state: Any) -> Any:
        u, v = state
        r = u * v * v
        return u + 0.16 * laplacian(u) - r + 0.035 * (1 - u), v + 0.08 * laplacian(v) + r - 0.1 * v

    return lambda u, v: lib.lax.fori_loop(0, 20, step, (u, v))


program(
    "image", "Gray-Scott reaction, 200x200, 20 steps", _reaction,
    lambda rng: tuple(rng.random((2, 200, 200)).astype(np.float32)), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _ssim(lib: Library) -> Any:
    def mean(x: Any) -> Any:
        window = {"window_dimensions": (8, 8), "window_strides": (1, 1), "padding": "VALID"}
        return lib.lax.reduce_window(x, np.float32(0), lib.lax.add, **window) / 64

    def f(x: Any, y: Any) -> Any:
        mx, my = mean(x), mean(y)
        vx, vy, cov = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
        return lib.np.mean(((2 * mx * my + 1e-4) * (2 * cov + 9e-4)) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))

    return f


program(
    "image", "structural similarity of 256x256", _ssim, lambda rng: tuple(rng.random((2, 256, 256)).astype(np.float32)),
    libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip

"""Arrays in unusual shapes: transposed, of short rows, of many small matrices, of all pairs; each was a slow place once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, program

_BOTH = ("quire", "jax")


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


# -- transposes and repetitions ---------------------------------------------------------------------------------------

program("shape", "a matrix and its transpose, 1500x1500", lambda lib: lambda x: x + x.T, _normal((1500, 1500)))
program(
    "shape", "heads before places, 8x256x512", lambda lib: lambda x: x.reshape(8, 256, 8, 64).transpose(0, 2, 1, 3),
    _normal((8, 256, 512)),
)  # fmt: skip
program(
    "shape", "channels first, 8x64x64x32", lambda lib: lambda x: lib.np.moveaxis(x, -1, 1) * 2, _normal((8, 64, 64, 32))
)
program(
    "shape", "upsampling by repeat, 8x64x64x16", lambda lib: lambda x: lib.np.repeat(lib.np.repeat(x, 2, 1), 2, 2),
    _normal((8, 64, 64, 16)), libraries=_BOTH,
)  # fmt: skip

# -- short rows -------------------------------------------------------------------------------------------------------


def _normalised(lib: Library) -> Any:
    mean, deviation = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.2, 0.3, 0.2], np.float32)
    return lambda x: (x.astype("float32") / 255 - mean) / deviation


program(
    "shape", "normalised channels of 8x224x224x3, uint8", _normalised,
    lambda rng: (rng.integers(0, 256, (8, 224, 224, 3)).astype(np.uint8),), tolerance=1e-4,
)  # fmt: skip
program(
    "shape", "60k points by a mask", lambda lib: lambda x, m: lib.np.where(m[:, None] > 0, x, 0),
    _normal((60_000, 3), (60_000,)),
)  # fmt: skip
program(
    "shape", "outer products of 500 pairs of 32", lambda lib: lambda x, y: x[:, :, None] * y[:, None, :],
    _normal((500, 32), (500, 32)),
)  # fmt: skip
program(
    "shape", "10k matrices of 3x3 by vectors", lambda lib: lambda a, x: lib.np.einsum("bij,bj->bi", a, x),
    _normal((10_000, 3, 3), (10_000, 3)), tolerance=1e-4,
)  # fmt: skip
program(
    "shape", "bilinear forms of 64 pairs, 30x40x30", lambda lib: lambda x, t, y: lib.np.einsum("bi,ijk,bk->bj", x, t, y),
    _normal((64, 30), (30, 40, 30), (64, 30)), libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip

# -- indices and pairs ------------------------------------------------------------------------------------------------

program(
    "shape", "sum of the lower triangle, 2000x2000", lambda lib: lambda x: lib.np.tril(x).sum(), _normal((2000, 2000)),
    libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip


def _cross_entropy(lib: Library) -> Any:
    def f(x: Any, labels: Any) -> Any:
        return -lib.np.mean(lib.np.sum(lib.nn.log_softmax(x) * lib.nn.one_hot(labels, x.shape[1]), -1))

    return f


program(
    "shape", "cross entropy with one-hot labels, 4096x1000", _cross_entropy, lambda rng: (
        rng.standard_normal((4096, 1000)).astype(np.float32), rng.integers(0, 1000, 4096).astype(np.int32)
    ), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _kernel_gradient(lib: Library) -> Any:
    def loss(x: Any, v: Any) -> Any:
        return ((lib.np.exp(-((x[:, None] - x[None]) ** 2).sum(-1)) @ v) ** 2).sum()

    return lib.grad(loss)


program(
    "shape", "gradient of a Gaussian kernel by a vector, 1000", _kernel_gradient, _normal((1000, 8), (1000,)),
    libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip

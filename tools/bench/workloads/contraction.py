"""Matrix products, attention and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import program


def _normal(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


for _n in (64, 256, 512, 1024, 2048):
    program("matmul", f"f32 {_n}", lambda lib: lambda x, y: x @ y, _normal((_n, _n), (_n, _n)), tolerance=1e-3)
program(
    "matmul",
    "batched 32 x 128",
    lambda lib: lambda x, y: x @ y,
    _normal((32, 128, 128), (32, 128, 128)),
    tolerance=1e-3,
)
program(
    "matmul", "matrix by vector 2048", lambda lib: lambda x, y: x @ y, _normal((2048, 2048), (2048,)), tolerance=1e-3
)
program(
    "matmul",
    "transposed operands 512",
    lambda lib: lambda x, y: x.T @ y.T,
    _normal((512, 512), (512, 512)),
    tolerance=1e-3,
)
program(
    "matmul", "bf16 512", lambda lib: lambda x, y: (x.astype("bfloat16") @ y.astype("bfloat16")).astype("float32"),
    _normal((512, 512), (512, 512)), libraries=("quire", "jax"), tolerance=3e-2,
)  # fmt: skip


def _dense(lib: Any) -> Any:
    def f(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return 0.5 * y * (1 + lib.np.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))

    return f


def _attention(lib: Any) -> Any:
    np_ = lib.np

    def f(q: Any, k: Any, v: Any) -> Any:
        scores = q @ np_.swapaxes(k, -1, -2) * 0.125
        e = np_.exp(scores - np_.max(scores, axis=-1, keepdims=True))
        return (e / np_.sum(e, axis=-1, keepdims=True)) @ v

    return f


program("matmul", "matmul, bias and gelu 512", _dense, _normal((512, 512), (512, 512), (512,)), tolerance=1e-3)
program("attention", "2x8x512x64", _attention, _normal(*[(2, 8, 512, 64)] * 3), tolerance=1e-3)


def _convolution(dims: tuple[str, str, str], groups: int = 1) -> Any:
    def make(lib: Any) -> Any:
        def f(x: Any, w: Any) -> Any:
            return lib.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=dims, feature_group_count=groups
            )

        return f

    return make


_NHWC, _NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
_BOTH = ("quire", "jax")
program(
    "conv", "3x3 NHWC", _convolution(_NHWC), _normal((8, 28, 28, 64), (3, 3, 64, 64)), libraries=_BOTH, tolerance=1e-3
)
program(
    "conv", "3x3 NCHW", _convolution(_NCHW), _normal((8, 64, 28, 28), (64, 64, 3, 3)), libraries=_BOTH, tolerance=1e-3
)
program(
    "conv", "depthwise 3x3", _convolution(_NHWC, 64), _normal((8, 28, 28, 64), (3, 3, 1, 64)), libraries=_BOTH,
    tolerance=1e-3,
)  # fmt: skip
for _position, _name in ((0, "gradient of the input"), (1, "gradient of the filter")):

    def _gradient(lib: Any, position: int = _position) -> Any:
        f = _convolution(_NHWC)(lib)
        return lib.grad(lambda x, w: lib.np.sum(f(x, w) ** 2), argnums=position)

    program("conv", _name, _gradient, _normal((8, 28, 28, 64), (3, 3, 64, 64)), libraries=_BOTH, tolerance=1e-2)
program(
    "conv", "max pooling 2x2",
    lambda lib: lambda x: lib.lax.reduce_window(x, -np.inf, lib.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    _normal((8, 56, 56, 64)), libraries=_BOTH,
)  # fmt: skip


def _positive(n: int) -> Any:
    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        a = rng.standard_normal((n, n)).astype(np.float32)
        return (a @ a.T + n * np.eye(n, dtype=np.float32), rng.standard_normal((n, 4)).astype(np.float32))

    return arguments


program("linalg", "cholesky 256", lambda lib: lambda a, b: lib.np.linalg.cholesky(a), _positive(256), tolerance=1e-3)
program("linalg", "solve 256", lambda lib: lambda a, b: lib.np.linalg.solve(a, b), _positive(256), tolerance=1e-3)
program(
    "linalg", "eigenvalues of 128 3x3", lambda lib: lambda a: lib.np.sum(lib.np.abs(lib.np.linalg.eigvals(a)), axis=-1),
    _normal((128, 3, 3)), tolerance=1e-2,
)  # fmt: skip

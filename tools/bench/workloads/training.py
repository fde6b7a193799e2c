"""Whole training steps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import program
from .tracing import transformer_arguments, transformer_loss

_BOTH = ("quire", "jax")


def _mlp(lib: Any) -> Any:
    np_ = lib.np

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = np_.maximum(x @ w + b, 0)
        w, b = params[-1]
        logits = x @ w + b
        logits = logits - np_.max(logits, axis=1, keepdims=True)
        return np_.mean(np_.log(np_.sum(np_.exp(logits), axis=1)) - np_.sum(logits * y, axis=1))

    return loss


def _adam(lib: Any) -> Any:
    np_, loss = lib.np, _mlp(lib)

    def step(params: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
        value, grads = lib.value_and_grad(loss)(params, x, y)

        def update(p: Any, g: Any, m: Any, v: Any) -> Any:
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            return p - 1e-3 * m / (np_.sqrt(v) + 1e-8), m, v

        new = [[update(*t) for t in zip(*layer)] for layer in zip(params, grads, m, v)]
        return value, [tuple(tuple(t[i] for t in layer) for layer in new) for i in range(3)]

    return step


def plain_gradient_step(
    lib: Any, of_loss: Callable[[Any], Any] = lambda x: x, combine: Callable[[Any], Any] = lambda tree: tree
) -> Any:
    """A step of gradient descent of the MLP: new parameters and the loss. For parts of a batch on several devices
    `of_loss` makes one loss of those of all devices, or `combine` one loss and gradient."""
    loss = _mlp(lib)

    def step(params: Any, x: Any, y: Any) -> Any:
        value, grads = combine(lib.value_and_grad(lambda p: of_loss(loss(p, x, y)))(params))
        return lib.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def small_mlp_arguments(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Parameters of the MLP 784-512-512-10 and a batch of 256: f32[256,784], f32[256,10]."""
    params, _, _, _, _ = _mlp_arguments(rng)
    x = rng.standard_normal((256, 784)).astype(np.float32)
    return params, x, np.eye(10, dtype=np.float32)[rng.integers(0, 10, 256)]


def _mlp_arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    sizes = (784, 512, 512, 10)
    params = tuple(
        ((rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in zip(sizes, sizes[1:])
    )
    zeros = tuple((np.zeros_like(w), np.zeros_like(b)) for w, b in params)
    ones = tuple((np.ones_like(w), np.ones_like(b)) for w, b in params)
    x = rng.standard_normal((128, 784)).astype(np.float32)
    return params, zeros, ones, x, np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)]


program("training", "MLP 784-512-512-10, Adam", _adam, _mlp_arguments, libraries=_BOTH, tolerance=1e-2)


def _cnn(lib: Any) -> Any:
    np_ = lib.np

    def conv(x: Any, w: Any, stride: int) -> Any:
        return lib.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(params: Any, x: Any) -> Any:
        for w in params[:-1]:
            x = np_.maximum(conv(x, w, 2), 0)
        return np_.mean((np_.mean(x, axis=(1, 2)) @ params[-1]) ** 2)

    return lambda params, x: [p - 0.01 * g for p, g in zip(params, lib.grad(loss)(params, x))]


def _cnn_arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    shapes = ((3, 3, 3, 32), (3, 3, 32, 64), (3, 3, 64, 64), (64, 10))
    params = [(rng.standard_normal(s) / np.sqrt(np.prod(s[:-1]))).astype(np.float32) for s in shapes]
    return params, rng.standard_normal((32, 32, 32, 3)).astype(np.float32)


program("training", "CNN of 3 layers, 32x32, batch 32", _cnn, _cnn_arguments, libraries=_BOTH, tolerance=1e-2)
_transformer = {"d": 256, "t": 128}
program(
    "training", "transformer block, forward", lambda lib: transformer_loss(lib, 1),
    lambda rng: transformer_arguments(1, **_transformer), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip
program(
    "training", "transformer block, train step", lambda lib: lib.value_and_grad(transformer_loss(lib, 1)),
    lambda rng: transformer_arguments(1, **_transformer), libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip


def _spectral_radius(lib: Any) -> Any:
    """A step of examples/spectral_radius.py on a given batch: complex weights, eigenvalues, a conjugated gradient, Adam."""
    np_ = lib.np
    init, update, parameters = importlib.import_module(f"{lib.name}.example_libraries.optimizers").adam(1e-3)

    def loss(params: Any, matrices: Any) -> Any:
        wanted = np_.max(np_.abs(np_.linalg.eigvals(matrices)), axis=-1)
        x = matrices.reshape(64, 4)
        for w, b in params[:-1]:
            z = x @ w + b
            x = np_.maximum(z.real, 0) + 1j * np_.maximum(z.imag, 0)
        w, b = params[-1]
        return np_.mean((np_.abs((x @ w + b)[:, 0]) - wanted) ** 2)

    def step(params: Any, i: Any, matrices: Any) -> Any:
        value, gradient = lib.value_and_grad(loss)(params, matrices)
        conjugated = [tuple(np_.conj(g) for g in layer) for layer in gradient]
        return value, parameters(update(i, conjugated, init(params)))

    return step


def _spectral_radius_arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    def normal(*shape: int) -> Any:
        return ((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)).astype(np.complex64)

    sizes = (4, 64, 64, 1)
    params = [(normal(a, b) / np.float32(np.sqrt(a)), np.zeros(b, np.complex64)) for a, b in zip(sizes, sizes[1:])]
    return params, np.int32(0), normal(64, 2, 2)


program(
    "training", "spectral radius of 64 2x2, complex MLP, Adam", _spectral_radius, _spectral_radius_arguments,
    libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip

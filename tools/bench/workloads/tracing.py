"""Tracing, lowering and differentiating large functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, Timed, Unavailable, workload


def _long(lib: Library, n: int) -> Callable[..., Any]:
    """A function of n equations: arithmetic, elementary functions, matmuls and reductions in turn."""
    np_ = lib.np

    def f(x: Any, w: Any) -> Any:
        for i in range(n // 8):
            y = x * 2.0 + x
            y = np_.sin(y) - y * x
            x = np_.tanh(y @ w)
            if i % 4 == 0:
                x = x / np_.sum(x)
        return x

    return f


def _arguments(lib: Library) -> tuple[Any, ...]:
    return tuple(lib.put([np.full((8, 8), 0.1, np.float32)] * 2))


def _equations(jaxpr: Any) -> int:
    """The equations of a jaxpr of either library, those of nested calls included."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0
    for eqn in inner.eqns:
        nested = [p for p in dict(eqn.params).values() if hasattr(getattr(p, "jaxpr", p), "eqns")]
        call = eqn.primitive.name in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")
        total += sum(map(_equations, nested)) + (0 if call and nested else 1)
    return total


@workload("trace", "2000 equations")
def trace(lib: Library) -> Timed:
    f, args = _long(lib, 2000), _arguments(lib)

    def call() -> Any:
        return lib.jit(lambda x, w: f(x, w)).trace(*args)

    return Timed(call, compare=False, wait_each=False, count=lambda: _equations(call().jaxpr))


@workload("trace", "trace, lower and print 2000 equations")
def lower(lib: Library) -> Timed:
    f, args = _long(lib, 2000), _arguments(lib)
    # Printing makes sure that the module exists: quire lowers when a stage is asked for. Its passes are part of it.
    return Timed(lambda: lib.jit(lambda x, w: f(x, w)).trace(*args).lower().as_text(), compare=False, wait_each=False)


@workload("trace", "small function")
def small(lib: Library) -> Timed:
    args = _arguments(lib)
    return Timed(lambda: lib.jit(lambda x, w: lib.np.tanh(x @ w) + 1).trace(*args), compare=False, wait_each=False)


def transformer_loss(lib: Library, layers: int, heads: int = 4) -> Callable[..., Any]:
    """The mean squared output of a stack of transformer blocks: attention, MLP, layer norms and residuals."""
    np_ = lib.np

    def norm(x: Any, scale: Any) -> Any:
        mean = np_.mean(x, axis=-1, keepdims=True)
        centred = x - mean
        variance = np_.mean(centred * centred, axis=-1, keepdims=True)
        return centred / np_.sqrt(variance + 1e-5) * scale

    def attention(x: Any, p: Any) -> Any:
        t, d = x.shape
        q, k, v = ((x @ p[n]).reshape(t, heads, d // heads).transpose(1, 0, 2) for n in ("q", "k", "v"))
        scores = q @ k.transpose(0, 2, 1) / float(np.sqrt(d // heads))
        scores = scores - np_.max(scores, axis=-1, keepdims=True)
        weights = np_.exp(scores)
        weights = weights / np_.sum(weights, axis=-1, keepdims=True)
        return (weights @ v).transpose(1, 0, 2).reshape(t, d) @ p["o"]

    def mlp(x: Any, p: Any) -> Any:
        return np_.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = x + attention(norm(x, p["s1"]), p)
            x = x + mlp(norm(x, p["s2"]), p)
        return np_.mean(x * x)

    assert layers > 0
    return loss


def transformer_arguments(layers: int, d: int = 32, t: int = 16) -> tuple[Any, Any]:
    """Parameters and one input, as NumPy arrays."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    params = [
        {n: weight(d, d) for n in "qkvo"}
        | {"w1": weight(d, 4 * d), "b1": weight(4 * d), "w2": weight(4 * d, d), "b2": weight(d)}
        | {"s1": np.ones(d, np.float32), "s2": np.ones(d, np.float32)}
        for _ in range(layers)
    ]
    return params, weight(t, d)


@workload("trace", "grad of a 12-layer transformer's loss")
def transformer_grad(lib: Library) -> Timed:
    loss = transformer_loss(lib, 12)
    params, x = lib.put(transformer_arguments(12))
    return Timed(
        lambda: lib.make_jaxpr(lib.grad(loss))(params, x), compare=False, wait_each=False,
        count=lambda: _optimised(lib, lib.make_jaxpr(lib.grad(loss))(params, x)),
    )  # fmt: skip


def _optimised(lib: Library, jaxpr: Any) -> int:
    """The equations after the default pipeline of quire's CPU target; JAX's as they are."""
    if lib.name != "quire":
        return _equations(jaxpr)
    try:
        from quire.backends.targets import TARGETS
        from quire.passes.manager import PassManager
    except ImportError as error:
        raise Unavailable(str(error)) from error
    return _equations(PassManager(TARGETS["cpu"].pipeline, target=TARGETS["cpu"]).run(jaxpr))


@workload("trace", "vmap of grad of an MLP's loss")
def vmap_grad(lib: Library) -> Timed:
    np_ = lib.np

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = np_.tanh(w @ x)
        return np_.sum(x)

    params = lib.put([np.full((8, 8), 0.1, np.float32)] * 20)
    xs = lib.put(np.ones((5, 8), np.float32))
    return Timed(
        lambda: lib.make_jaxpr(lib.vmap(lib.grad(loss), in_axes=(None, 0)))(params, xs), compare=False, wait_each=False
    )

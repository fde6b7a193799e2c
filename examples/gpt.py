"""A train step of a small GPT: three layers, causal attention, cross entropy, gradients, Adam's first moment.

The common input of the tests of dumpir, and a program to try its questions on::

    dumpir examples/gpt.py:step --args 'params()' 'tokens()' --summary
    dumpir examples/gpt.py:step --args 'params()' 'tokens()' --line gpt.py:46
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import quire
import quire.numpy as qnp

LAYERS, HEADS, WIDTH, LENGTH, WORDS, BATCH = 3, 4, 64, 32, 96, 4


def params(seed: int = 0) -> dict[str, Any]:
    """The weights as arrays: of the embedding, of each layer, of the last scale."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    def layer() -> dict[str, Any]:
        return {
            "qkv": normal(WIDTH, 3 * WIDTH), "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH), "down": normal(4 * WIDTH, WIDTH),
            "scale1": np.ones(WIDTH, np.float32), "scale2": np.ones(WIDTH, np.float32),
        }  # fmt: skip

    return {
        "embed": normal(WORDS, WIDTH), "position": normal(LENGTH, WIDTH),
        "layers": [layer() for _ in range(LAYERS)], "scale": np.ones(WIDTH, np.float32),
    }  # fmt: skip


def tokens(seed: int = 1) -> np.ndarray[Any, Any]:
    """A batch of texts, one word longer than what is predicted from."""
    return np.random.default_rng(seed).integers(0, WORDS, (BATCH, LENGTH + 1)).astype(np.int32)


def norm(x: Any, scale: Any) -> Any:
    return x * scale / qnp.sqrt(qnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def attend(x: Any, layer: dict[str, Any]) -> Any:
    q, k, v = qnp.split((x @ layer["qkv"]).reshape(*x.shape[:2], 3 * HEADS, -1), 3, axis=2)
    scores = qnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(WIDTH // HEADS))
    scores = qnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    weights = quire.nn.softmax(scores, axis=-1)
    return qnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ layer["out"]


def loss(params: dict[str, Any], tokens: Any) -> Any:
    x = params["embed"][tokens[:, :-1]] + params["position"]
    for layer in params["layers"]:
        x = x + attend(norm(x, layer["scale1"]), layer)
        x = x + quire.nn.gelu(norm(x, layer["scale2"]) @ layer["up"]) @ layer["down"]
    logits = norm(x, params["scale"]) @ params["embed"].T
    logs = quire.nn.log_softmax(logits)
    return -qnp.mean(qnp.take_along_axis(logs, tokens[:, 1:, None], axis=-1))


@functools.partial(quire.compile, donate_argnums=0)
def step(params: dict[str, Any], tokens: Any) -> Any:
    value, grads = quire.value_and_grad(loss)(params, tokens)
    return quire.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads), value


if __name__ == "__main__":
    weights = params()
    for i in range(3):
        weights, value = step(weights, tokens(i))
        print(f"step {i}: loss {float(value):.4f}")

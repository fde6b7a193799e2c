"""A small language model: attention with a causal mask, dropout, AdamW with a schedule, in float32 and bfloat16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as onp

from .runner import Program, check

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 13, 10, 16, 2, 2, 3


def initial(dtype: Any) -> dict[str, Any]:
    """Parameters; those of the layers are stacked, so that a scan goes through the layers."""
    rng = onp.random.default_rng(5)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) * shape[-2] ** -0.5).astype(dtype)

    return {
        "embed": normal(VOCABULARY, WIDTH), "position": normal(LENGTH, WIDTH),
        "layers": {
            "qkv": normal(LAYERS, WIDTH, 3 * WIDTH), "out": normal(LAYERS, WIDTH, WIDTH),
            "up": normal(LAYERS, WIDTH, 2 * WIDTH), "down": normal(LAYERS, 2 * WIDTH, WIDTH),
            "up_bias": onp.zeros((LAYERS, 2 * WIDTH), dtype), "down_bias": onp.zeros((LAYERS, WIDTH), dtype),
            "scale": onp.ones((LAYERS, 2, WIDTH), dtype), "shift": onp.zeros((LAYERS, 2, WIDTH), dtype),
        },
        "temperature": onp.ones((), dtype),
    }  # fmt: skip


def programs(xp: Any) -> list[Program]:
    np, lax, random, nn = xp.numpy, xp.lax, xp.random, xp.nn

    def normalised(x, scale, shift):
        """Layer norm, its statistics in float32."""
        wide = x.astype("float32")
        mean = wide.mean(-1, keepdims=True)
        variance = np.mean((wide - mean) ** 2, -1, keepdims=True)
        return ((wide - mean) * lax.rsqrt(variance + 1e-5)).astype(x.dtype) * scale + shift

    def dropout(key, x, rate=0.1):
        kept = random.bernoulli(key, 1 - rate, x.shape)
        return np.where(kept, x / (1 - rate), 0).astype(x.dtype)

    def attention(layer, x, key):
        q, k, v = np.split((x @ layer["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(x.dtype)
        scores = np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9)
        weights = dropout(key, nn.softmax(scores.astype("float32"), -1).astype(x.dtype))
        return np.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ layer["out"]

    def block(x, layer, key):
        first, second = random.split(key)
        x = x + attention(layer, normalised(x, layer["scale"][0], layer["shift"][0]), first)
        hidden = nn.gelu(normalised(x, layer["scale"][1], layer["shift"][1]) @ layer["up"] + layer["up_bias"])
        return x + dropout(second, hidden @ layer["down"] + layer["down_bias"])

    def logits(params, tokens, key):
        x = params["embed"][tokens] + params["position"]

        def body(x, inputs):
            return xp.checkpoint(block)(x, *inputs), None

        x, _ = lax.scan(body, x, (params["layers"], random.split(key, LAYERS)))
        return (x @ params["embed"].T) * params["temperature"]

    def loss(params, tokens, key):
        """Cross entropy of the next token, with smoothed labels; padding (0) does not count."""
        guesses = nn.log_softmax(logits(params, tokens, key)[:, :-1].astype("float32"))
        targets = 0.9 * nn.one_hot(tokens[:, 1:], VOCABULARY) + 0.1 / VOCABULARY
        counted = tokens[:, 1:] != 0
        return -np.sum(np.sum(guesses * targets, -1) * counted) / np.sum(counted)

    def clipped(grads, limit=1.0):
        norm = np.sqrt(sum(np.sum(g.astype("float32") ** 2) for g in xp.tree.leaves(grads)))
        return xp.tree.map(lambda g: (g * np.minimum(1.0, limit / norm)).astype(g.dtype), grads), norm

    def adamw(state, tokens):
        """A step of training: the moments are in float32 whatever the parameters are."""
        params, m, v, t, key = state
        key, now = random.split(key)
        value, grads = xp.value_and_grad(loss)(params, tokens, now)
        grads, norm = clipped(grads)
        t = t + 1
        rate = 1e-2 * np.minimum(1.0, t / 10) * (0.5 + 0.5 * np.cos(np.minimum(t, 100) * np.pi / 100))
        m = xp.tree.map(lambda m, g: 0.9 * m + 0.1 * g.astype("float32"), m, grads)
        v = xp.tree.map(lambda v, g: 0.95 * v + 0.05 * g.astype("float32") ** 2, v, grads)

        def updated(p, m, v):
            step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-4)
            decay = 0.01 * p.astype("float32") if p.ndim > 1 else 0.0
            return (p.astype("float32") - rate * (step + decay)).astype(p.dtype)

        return (xp.tree.map(updated, params, m, v), m, v, t, key), value, norm

    def generate(params, prompt):
        """Greedy continuation, with the keys and values of past positions in buffers."""

        def single(caches, inputs):
            tokens, t = inputs
            tokens_so_far, keys, values = caches
            token = np.where(t < prompt.shape[1], prompt[:, np.minimum(t, prompt.shape[1] - 1)], tokens_so_far[:, t])
            x = params["embed"][token] + params["position"][t]
            for n in range(LAYERS):
                layer = xp.tree.map(lambda a, n=n: a[n], params["layers"])
                h = normalised(x, layer["scale"][0], layer["shift"][0])
                q, k, v = np.split((h @ layer["qkv"]).reshape(BATCH, HEADS, -1), 3, axis=-1)
                keys, values = keys.at[n, :, t].set(k), values.at[n, :, t].set(v)
                scores = np.einsum("bhd,bkhd->bhk", q, keys[n]) / np.sqrt(q.shape[-1])
                weights = nn.softmax(np.where(np.arange(LENGTH) <= t, scores, -1e9), -1)
                x = x + np.einsum("bhk,bkhd->bhd", weights, values[n]).reshape(x.shape) @ layer["out"]
                h = normalised(x, layer["scale"][1], layer["shift"][1]) @ layer["up"] + layer["up_bias"]
                x = x + nn.gelu(h) @ layer["down"] + layer["down_bias"]
            scores = x @ params["embed"].T
            tokens_so_far = tokens_so_far.at[:, t + 1].set(np.argmax(scores, -1).astype("int32"), mode="drop")
            return (tokens_so_far, keys, values), scores

        cache = np.zeros((LAYERS, BATCH, LENGTH, HEADS, WIDTH // HEADS))
        start = np.zeros((BATCH, LENGTH), "int32").at[:, : prompt.shape[1]].set(prompt)
        return lax.scan(single, (start, cache, cache), (np.zeros(LENGTH, "int32"), np.arange(LENGTH)))

    rng = onp.random.default_rng(6)
    tokens = rng.integers(0, VOCABULARY, (BATCH, LENGTH)).astype(onp.int32)
    key = onp.array([1, 2], onp.uint32)

    def state(dtype):
        params = initial(dtype)
        zeros = xp.tree.map(lambda p: onp.zeros(p.shape, onp.float32), params)
        return params, zeros, zeros, onp.int32(0), key

    # A rounding of bfloat16 is 0.4 %; the fused forms round less often than JAX's.
    return [
        Program("training", adamw, (state(onp.float32), tokens), rtol=5e-4),
        Program("training in bfloat16", adamw, (state(ml_dtypes.bfloat16), tokens), rtol=0.1, atol=2e-2, step=True),
        Program("generation", generate, (initial(onp.float32), tokens[:, :3]), rtol=5e-5),
    ]


def test_transformer():
    check(programs)

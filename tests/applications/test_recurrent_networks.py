"""LSTM and GRU over sequences of different lengths, CTC-like alignment, truncated backpropagation."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

T, BATCH, INPUT, HIDDEN, CLASSES = 10, 3, 4, 6, 5


def initial() -> dict[str, Any]:
    rng = onp.random.default_rng(9)

    def normal(*shape: int) -> Any:
        return (0.4 * rng.standard_normal(shape)).astype(onp.float32)

    return {
        "lstm": {"w": normal(INPUT, 4 * HIDDEN), "u": normal(HIDDEN, 4 * HIDDEN), "b": onp.zeros(4 * HIDDEN, onp.float32)},
        "gru": {"w": normal(HIDDEN, 3 * HIDDEN), "u": normal(HIDDEN, 3 * HIDDEN), "b": normal(3 * HIDDEN)},
        "head": normal(2 * HIDDEN, CLASSES),
    }  # fmt: skip


def programs(xp: Any) -> list[Program]:
    np, lax, nn = xp.numpy, xp.lax, xp.nn

    def lstm(params, carry, x):
        h, c = carry
        i, f, g, o = np.split(x @ params["w"] + h @ params["u"] + params["b"], 4, axis=-1)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * np.tanh(g)
        return nn.sigmoid(o) * np.tanh(c), c

    def gru(params, h, x):
        ax, ah = np.split(x @ params["w"] + params["b"], 3, -1), np.split(h @ params["u"], 3, -1)
        r, z = nn.sigmoid(ax[0] + ah[0]), nn.sigmoid(ax[1] + ah[1])
        return (1 - z) * np.tanh(ax[2] + r * ah[2]) + z * h

    def encode(params, carry, xs, lengths):
        """An LSTM forward in time and a GRU backward over it; after a sequence's end its state stays."""

        def forward(carry, inputs):
            x, t = inputs
            live = (t < lengths)[:, None]
            new = lstm(params["lstm"], carry, x)
            carry = tuple(np.where(live, n, o) for n, o in zip(new, carry))
            return carry, np.where(live, new[0], 0.0)

        def backward(h, inputs):
            x, t = inputs
            h = np.where((t < lengths)[:, None], gru(params["gru"], h, x), h)
            return h, h

        carry, hs = lax.scan(forward, carry, (xs, np.arange(T)))
        _, back = lax.scan(backward, np.zeros((BATCH, HIDDEN)), (hs, np.arange(T)), reverse=True)
        return carry, nn.log_softmax(np.concatenate([hs, back], -1) @ params["head"])

    def alignment(logp, labels):
        """The log-probability of all monotonic alignments of the labels to the frames (CTC), by its forward recursion."""
        extended = np.zeros(2 * labels.size + 1, "int32").at[1::2].set(labels)
        skip = np.concatenate([np.zeros(2, bool), (extended[2:] != extended[:-2]) & (extended[2:] != 0)])
        never = -1e30
        alpha = np.full(extended.size, never).at[0].set(logp[0, 0]).at[1].set(logp[0, extended[1]])

        def body(alpha, frame):
            one = np.full_like(alpha, never).at[1:].set(alpha[:-1])
            two = np.where(skip, np.full_like(alpha, never).at[2:].set(alpha[:-2]), never)
            new = np.logaddexp(np.logaddexp(alpha, one), two) + frame[extended]
            return new, alpha

        alpha, history = lax.scan(body, alpha, logp[1:])
        return np.logaddexp(alpha[-1], alpha[-2]), history

    def loss(params, carry, xs, lengths, labels):
        carry, logp = encode(params, carry, xs, lengths)
        value, history = xp.vmap(alignment, in_axes=(1, 0))(logp, labels)
        return -np.mean(value), (carry, np.max(history))

    def train(state, xs, lengths, labels):
        """Truncated backpropagation: the states of one window begin the next; RMSprop with clipping by value."""
        params, second, carry = state
        (value, (after, top)), g = xp.value_and_grad(loss, has_aux=True)(params, carry, xs, lengths, labels)
        g = xp.tree.map(lambda g: np.clip(g, -0.5, 0.5), g)
        second = xp.tree.map(lambda s, g: 0.9 * s + 0.1 * g * g, second, g)
        new = xp.tree.map(lambda p, s, g: p - 0.01 * g / np.sqrt(s + 1e-4), params, second, g)
        return (new, second, xp.tree.map(lax.stop_gradient, after)), value, carry

    def beams(params, xs, lengths, width=3):
        """Beam search over the frames' labels, with the partial texts in a buffer reordered at each step."""
        _, logp = encode(params, (np.zeros((BATCH, HIDDEN)),) * 2, xs, lengths)

        def search(logp):
            def body(carry, inputs):
                scores, texts = carry
                frame, t = inputs
                candidates = (
                    scores[:, None] + frame[None, :] + 0.1 * (np.arange(CLASSES) == texts[:, t - 1][:, None])
                ).reshape(-1)
                scores, picked = lax.top_k(candidates, width)
                texts = texts[picked // CLASSES].at[:, t].set((picked % CLASSES).astype("int32"))
                return (scores, texts), (scores, texts[0])

            start = (np.array([0.0] + [-1e30] * (width - 1)), np.zeros((width, T), "int32"))
            return lax.scan(body, start, (logp, np.arange(T)))

        return xp.vmap(search, in_axes=1)(logp)

    rng = onp.random.default_rng(10)
    xs = rng.standard_normal((T, BATCH, INPUT)).astype(onp.float32)
    lengths = onp.array([10, 6, 8], onp.int32)
    labels = rng.integers(1, CLASSES, (BATCH, 3)).astype(onp.int32)
    params, carry = initial(), (onp.zeros((BATCH, HIDDEN), onp.float32),) * 2
    second = xp.tree.map(onp.zeros_like, params)
    return [
        Program("training", train, ((params, second, carry), xs, lengths, labels), rtol=2e-4, step=True),
        Program("beams", beams, (params, xs, lengths), rtol=5e-5),
    ]


def test_recurrent_networks():
    check(programs)

"""Along sequences: dynamic programming, recurrences, decoders, filters of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Library, program

_BOTH = ("quire", "jax")


def _edit_distance(lib: Library) -> Any:
    def f(a: Any, b: Any) -> Any:
        n = b.shape[0]

        def row(above: Any, x: Any) -> Any:
            change = lib.np.minimum(above[1:] + 1, above[:-1] + (b != x))

            def along(left: Any, c: Any) -> Any:
                best = lib.np.minimum(left + 1, c)
                return best, best

            first = above[0] + 1
            _, rest = lib.lax.scan(along, first, change)
            new = lib.np.concatenate([first[None], rest])
            return new, None

        return lib.lax.scan(row, lib.np.arange(n + 1, dtype="int32"), a)[0][-1]

    return f


program(
    "sequence", "edit distance of 200 and 180", _edit_distance,
    lambda rng: (rng.integers(0, 4, 200).astype(np.int32), rng.integers(0, 4, 180).astype(np.int32)), libraries=_BOTH,
)  # fmt: skip


def _viterbi(lib: Library) -> Any:
    def f(start: Any, moves: Any, seen: Any) -> Any:
        def forward(score: Any, x: Any) -> Any:
            each = score[:, None] + moves
            return lib.np.max(each, axis=0) + x, lib.np.argmax(each, axis=0)

        last, back = lib.lax.scan(forward, start + seen[0], seen[1:])

        def backward(state: Any, choice: Any) -> Any:
            return choice[state], state

        first, path = lib.lax.scan(backward, lib.np.argmax(last), back, reverse=True)
        return first, path, lib.np.max(last)

    return f


program(
    "sequence", "Viterbi, 16 states, 300 steps", _viterbi, lambda rng: (
        rng.standard_normal(16).astype(np.float32), rng.standard_normal((16, 16)).astype(np.float32),
        rng.standard_normal((300, 16)).astype(np.float32),
    ), libraries=_BOTH,
)  # fmt: skip


def _forward(lib: Library) -> Any:
    def f(start: Any, moves: Any, seen: Any) -> Any:
        def step(alpha: Any, x: Any) -> Any:
            return lib.scipy.special.logsumexp(alpha[:, None] + moves, axis=0) + x, None

        return lib.scipy.special.logsumexp(lib.lax.scan(step, start + seen[0], seen[1:])[0])

    return f


def _chain(rng: np.random.Generator) -> tuple[Any, ...]:
    return (
        rng.standard_normal(12).astype(np.float32), rng.standard_normal((12, 12)).astype(np.float32),
        rng.standard_normal((200, 12)).astype(np.float32),
    )  # fmt: skip


program("sequence", "hidden Markov model, likelihood", _forward, _chain, libraries=_BOTH, tolerance=1e-3)
program(
    "sequence", "hidden Markov model, gradient", lambda lib: lib.grad(_forward(lib), argnums=(0, 1)), _chain,
    libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _recurrence(lib: Library) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return lambda a, x: lib.lax.associative_scan(combine, (a, x))[1]


program(
    "sequence", "linear recurrence by associative_scan, 10k", _recurrence,
    lambda rng: tuple(rng.uniform(0, 1, (2, 10_000)).astype(np.float32)), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip
program(
    "sequence", "linear recurrence by associative_scan, 512x64", _recurrence,
    lambda rng: tuple(rng.uniform(0, 1, (2, 512, 64)).astype(np.float32)), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _lfilter(lib: Library) -> Any:
    def f(x: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            y = 0.2 * now + state[0]
            return (0.4 * now + 0.5 * y + state[1], 0.2 * now - 0.3 * y), y

        return lib.lax.scan(step, (np.float32(0), np.float32(0)), x)[1]

    return f


program(
    "sequence", "second-order filter of 50k samples", _lfilter, lambda rng: (rng.standard_normal(50_000).astype(np.float32),),
    libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _lstm(lib: Library) -> Any:
    def loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = lib.np.split(x @ w + h @ u + b, 4, axis=-1)
            c = lib.nn.sigmoid(f + 1) * c + lib.nn.sigmoid(i) * lib.np.tanh(g)
            h = lib.nn.sigmoid(o) * lib.np.tanh(c)
            return (h, c), h

        zero = lib.np.zeros((xs.shape[1], u.shape[0]), "float32")
        return lib.np.mean(lib.lax.scan(step, (zero, zero), xs)[1] ** 2)

    return lib.grad(loss, argnums=(0, 1, 2))


program(
    "sequence", "LSTM of 64, 50 steps, batch 16, gradient", _lstm, lambda rng: (
        (0.1 * rng.standard_normal((32, 256))).astype(np.float32), (0.1 * rng.standard_normal((64, 256))).astype(np.float32),
        np.zeros(256, np.float32), rng.standard_normal((50, 16, 32)).astype(np.float32),
    ), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _gru(lib: Library) -> Any:
    def f(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            a, b = x @ w, h @ u
            n = h.shape[-1]
            r, z = lib.nn.sigmoid(a[..., :n] + b[..., :n]), lib.nn.sigmoid(a[..., n : 2 * n] + b[..., n : 2 * n])
            h = (1 - z) * lib.np.tanh(a[..., 2 * n :] + r * b[..., 2 * n :]) + z * h
            return h, h

        return lib.lax.scan(step, lib.np.zeros((xs.shape[1], u.shape[0]), "float32"), xs)[1]

    return f


program(
    "sequence", "GRU of 48, 60 steps, batch 8", _gru, lambda rng: (
        (0.2 * rng.standard_normal((24, 144))).astype(np.float32), (0.2 * rng.standard_normal((48, 144))).astype(np.float32),
        rng.standard_normal((60, 8, 24)).astype(np.float32),
    ), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _warping(lib: Library) -> Any:
    """Dynamic time warping, by rows."""

    def f(a: Any, b: Any) -> Any:
        cost = (a[:, None] - b[None]) ** 2

        def row(above: Any, c: Any) -> Any:
            best = lib.np.minimum(above[1:], above[:-1])

            def along(left: Any, x: Any) -> Any:
                new = x[0] + lib.np.minimum(left, x[1])
                return new, new

            _, rest = lib.lax.scan(along, np.float32(np.inf), (c, best))
            return lib.np.concatenate([lib.np.full(1, np.inf, "float32"), rest]), None

        first = lib.np.full(b.shape[0] + 1, np.inf, "float32").at[0].set(0)
        return lib.lax.scan(row, first, cost)[0][-1]

    return f


program(
    "sequence", "dynamic time warping, 150x150", _warping,
    lambda rng: tuple(rng.standard_normal((2, 150)).astype(np.float32)), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _knapsack(lib: Library) -> Any:
    def f(weights: Any, values: Any) -> Any:
        capacity = lib.np.arange(1001)

        def item(best: Any, wv: Any) -> Any:
            w, v = wv
            with_it = lib.np.where(capacity >= w, best[lib.np.maximum(capacity - w, 0)] + v, 0)
            return lib.np.maximum(best, with_it), None

        return lib.lax.scan(item, lib.np.zeros(1001, "int32"), (weights, values))[0][-1]

    return f


program(
    "sequence", "knapsack of 100 items and 1000", _knapsack,
    lambda rng: (rng.integers(1, 60, 100).astype(np.int32), rng.integers(1, 100, 100).astype(np.int32)), libraries=_BOTH,
)  # fmt: skip


def _floyd(lib: Library) -> Any:
    def f(d: Any) -> Any:
        def step(k: Any, d: Any) -> Any:
            return lib.np.minimum(d, d[:, k][:, None] + d[k][None])

        return lib.lax.fori_loop(0, d.shape[0], step, d)

    return f


program(
    "sequence", "all shortest paths, 100 nodes", _floyd, lambda rng: (rng.uniform(1, 10, (100, 100)).astype(np.float32),),
    libraries=_BOTH,
)  # fmt: skip


def _beam(lib: Library) -> Any:
    def f(logits: Any) -> Any:
        def step(scores: Any, now: Any) -> Any:
            each = (scores[:, None] + lib.nn.log_softmax(now)).ravel()
            best, which = lib.lax.top_k(each, 8)
            return best, which

        return lib.lax.scan(step, lib.np.zeros(8, "float32"), logits)

    return f


program(
    "sequence", "beam search, 8 beams of 1000 words, 20 steps", _beam,
    lambda rng: (rng.standard_normal((20, 8, 1000)).astype(np.float32),), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _attention_step(lib: Library) -> Any:
    """One token decoded with a cache of keys and values."""

    def f(q: Any, keys: Any, values: Any, k: Any, v: Any, at: Any) -> Any:
        keys, values = keys.at[:, at].set(k), values.at[:, at].set(v)
        scores = lib.np.einsum("hd,htd->ht", q, keys) / 8
        scores = lib.np.where(lib.np.arange(keys.shape[1]) <= at, scores, -1e9)
        return lib.np.einsum("ht,htd->hd", lib.nn.softmax(scores), values), keys, values

    return f


program(
    "sequence", "decoding with a cache of 512 tokens", _attention_step, lambda rng: (
        rng.standard_normal((8, 64)).astype(np.float32), rng.standard_normal((8, 512, 64)).astype(np.float32),
        rng.standard_normal((8, 512, 64)).astype(np.float32), rng.standard_normal((8, 64)).astype(np.float32),
        rng.standard_normal((8, 64)).astype(np.float32), np.int32(300),
    ), libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip


def _spectrogram(lib: Library) -> Any:
    window = np.hanning(256).astype(np.float32)

    def f(x: Any) -> Any:
        starts = np.arange(0, x.shape[0] - 255, 128)
        frames = x[starts[:, None] + np.arange(256)[None]] * window
        return lib.np.log1p(lib.np.abs(lib.np.fft.rfft(frames)) ** 2)

    return f


program(
    "sequence", "spectrogram of 32k samples", _spectrogram, lambda rng: (rng.standard_normal(32_768).astype(np.float32),),
    libraries=_BOTH, tolerance=1e-3,
)  # fmt: skip
program(
    "sequence", "convolution of 10k and 101 samples", lambda lib: lambda x, k: lib.np.convolve(x, k, mode="same"),
    lambda rng: (rng.standard_normal(10_000).astype(np.float32), rng.standard_normal(101).astype(np.float32)),
    tolerance=1e-2,
)  # fmt: skip
program(
    "sequence", "autocorrelation by fft, 16k", lambda lib: lambda x: lib.np.fft.irfft(
        lib.np.abs(lib.np.fft.rfft(x, 32_768)) ** 2
    )[:100], lambda rng: (rng.standard_normal(16_384).astype(np.float32),), libraries=_BOTH, tolerance=1e-2,
)  # fmt: skip

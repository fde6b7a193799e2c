"""Sequences against sequences: CTC and transducer losses, local alignment by wavefronts, a beam search that may end early."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

T, LABELS, CLASSES = 9, 3, 6


def programs(xp: Any) -> list[Program]:
    np, lax, nn = xp.numpy, xp.lax, xp.nn
    low = -1e5

    def ctc(logits, labels, frames):
        """Graves's loss of one sequence, of which the first frames count; blanks are class 0."""
        logs = nn.log_softmax(logits)
        states = np.zeros(2 * LABELS + 1, "int32").at[1::2].set(labels)
        skips = np.append(np.zeros(2, bool), (states[2:] != states[:-2]) & (states[2:] != 0))

        def frame(alpha, inputs):
            t, log = inputs
            one = np.append(low, alpha[:-1])
            two = np.where(skips, np.append(np.full(2, low), alpha[:-2]), low)
            new = np.logaddexp(np.logaddexp(alpha, one), two) + log[states]
            return np.where(t < frames, new, alpha), None

        alpha = np.full(states.size, low).at[:2].set(logs[0, states[:2]])
        alpha, _ = lax.scan(frame, alpha, (np.arange(1, T), logs[1:]))
        return -np.logaddexp(alpha[-1], alpha[-2])

    def transducer(logits, labels):
        """The loss of an RNN transducer: a scan over labels within a scan over frames."""
        logs = nn.log_softmax(logits)
        blank = logs[..., 0]
        emit = np.take_along_axis(logs[:, :-1], np.broadcast_to(labels[None, :, None], (T, LABELS, 1)), 2)[..., 0]

        def frame(alpha, inputs):
            blanks, emits = inputs
            stayed = alpha + blanks

            def label(left, cell):
                new = np.logaddexp(cell[0], left + cell[1])
                return new, new

            _, rest = lax.scan(label, stayed[0], (stayed[1:], emits))
            return np.append(stayed[:1], rest), None

        start = np.append(0.0, np.cumsum(emit[0]))
        alpha, _ = lax.scan(frame, start, (blank[:-1], emit[1:]))
        return -alpha[-1] - blank[-1, -1]

    def alignment(a, b, scores, opening, extension):
        """Smith and Waterman's local alignment with affine gaps: an antidiagonal of the table is a step of a scan."""
        n, m = a.size, b.size
        rows = np.arange(n)
        skewed = np.full((n, n + m - 1), low).at[rows[:, None], rows[:, None] + np.arange(m)].set(scores[a[:, None], b])

        def antidiagonal(carry, column):
            before, last, across, down, best = carry
            shifted = lambda x, fill: np.append(fill, x[:-1])  # noqa: E731
            down = np.maximum(shifted(last, 0.0) - opening, shifted(down, low) - extension)
            across = np.maximum(last - opening, across - extension)
            new = np.maximum(np.maximum(0.0, shifted(before, 0.0) + column), np.maximum(across, down))
            new = np.where(column > low, new, 0.0)
            return (last, new, across, down, np.maximum(best, new.max())), new

        zero, none = np.zeros(n), np.full(n, low)
        carry, table = lax.scan(antidiagonal, (zero, zero, none, none, 0.0), skewed.T)
        return carry[-1], table

    def beam(logs, first):
        """The best sequences of a chain, which end at state 0; the search ends when all of them have."""
        width, length, states = 4, 8, logs.shape[0]

        def extended(carry):
            t, paths, scores, ended = carry
            last = np.where(ended, 0, paths[np.arange(width), t - 1])
            ending = np.where(np.arange(states) == 0, 0.0, -np.inf)
            total = scores[:, None] + np.where(ended[:, None], ending, logs[last])
            scores, picked = lax.top_k(total.reshape(-1), width)
            parent, state = np.divmod(picked, states)
            paths = paths[parent].at[:, t].set(np.where(ended[parent], -1, state))
            return t + 1, paths, scores, ended[parent] | (state == 0)

        paths = np.full((width, length), -1).at[:, 0].set(first)
        scores = np.full(width, -np.inf).at[0].set(0.0)
        start = (1, paths, scores, np.zeros(width, bool))
        return lax.while_loop(lambda c: (c[0] < length) & ~np.all(c[3]), extended, start)

    def losses(logits, joint, labels, frames):
        each = xp.vmap(xp.value_and_grad(ctc))(logits, labels, frames)
        return each, xp.vmap(xp.value_and_grad(transducer))(joint, labels)

    def slopes(a, b, scores, opening, extension):
        """How the best score changes with the table of scores and with the costs of gaps."""
        return xp.value_and_grad(alignment, argnums=(2, 3, 4), has_aux=True)(a, b, scores, opening, extension)

    rng = onp.random.default_rng(7)
    normal = lambda *shape: rng.standard_normal(shape).astype(onp.float32)  # noqa: E731
    labels = onp.array([[1, 2, 2], [3, 1, 5]], onp.int32)
    a, b = rng.integers(0, 4, 11).astype(onp.int32), rng.integers(0, 4, 17).astype(onp.int32)
    scores = (2 * onp.eye(4) - 1 + 0.1 * normal(4, 4)).astype(onp.float32)
    gaps = (onp.float32(1.5), onp.float32(0.4))
    logs = onp.log(rng.dirichlet(onp.full(7, 0.5), 7)).astype(onp.float32)
    joint = normal(2, T, LABELS + 1, CLASSES)
    return [
        Program("losses", losses, (normal(2, T, CLASSES), joint, labels, onp.array([T, T - 2], onp.int32)), rtol=1e-4),
        Program("alignment", slopes, (a, b, scores, *gaps), rtol=1e-4),
        Program("beams", xp.vmap(beam, in_axes=(None, 0)), (logs, onp.array([1, 2, 6], onp.int32))),
    ]


def test_transducers():
    check(programs)

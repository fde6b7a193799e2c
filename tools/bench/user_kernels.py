"""The kernels of docs/user-kernels.md, each with the same function of arrays beside it: its reference."""

from __future__ import annotations

from typing import Any

import quire
import quire.numpy as qnp
from quire import lax

# -- softmax with a mask


def masked_softmax_of_arrays(x: Any, mask: Any) -> Any:
    """Softmax over the last dimension of what the mask keeps."""
    z = qnp.where(mask, x, -qnp.inf)
    e = qnp.exp(z - qnp.max(z, -1, keepdims=True))
    return e / qnp.sum(e, -1, keepdims=True)


@quire.kernel(grid=lambda x, mask: x.shape[0], reference=masked_softmax_of_arrays)
def masked_softmax(k: Any, x: Any, mask: Any, out: Any) -> None:
    """One row a program."""
    row = k.program_id()
    z = k.where(mask[row, :], x[row, :], -float("inf"))
    e = k.keep(k.exp(z - k.max(z)))
    out[row, :] = e / k.sum(e)


# -- RMS norm and its gradient


def rms_norm_of_arrays(x: Any, w: Any, *, eps: float = 1e-6) -> Any:
    """Rows divided by the roots of their mean squares, times weights."""
    return x * lax.rsqrt(qnp.mean(x * x, -1, keepdims=True) + eps) * w


ROWS = 16


def rms_norm_forward(x: Any, w: Any, *, eps: float = 1e-6) -> Any:
    """The result, and what the gradient needs."""
    return rms_norm(x, w, eps=eps), (x, w)


def rms_norm_backward(residuals: Any, ct: Any, *, eps: float = 1e-6) -> Any:
    """The cotangents of x and w: each program gives the part of its rows of the second one."""
    dx, parts = rms_norm_gradient(*residuals, ct, eps=eps)
    return dx, qnp.sum(parts, 0)


@quire.kernel(
    grid=lambda x, w, **_: x.shape[0],
    out=lambda x, w, **_: x,
    reference=rms_norm_of_arrays,
    vjp=(rms_norm_forward, rms_norm_backward),
)
def rms_norm(k: Any, x: Any, w: Any, out: Any, *, eps: float = 1e-6) -> None:
    """One row a program."""
    row = x[k.program_id(), :]
    scale = k.rsqrt(k.sum(row * row) / x.shape[1] + eps)
    out[k.program_id(), :] = row * scale * w[:]


@quire.kernel(
    grid=lambda x, w, ct, **_: -(-x.shape[0] // ROWS),
    out=lambda x, w, ct, **_: (x, quire.ShapeDtypeStruct((-(-x.shape[0] // ROWS), x.shape[1]), x.dtype)),
)
def rms_norm_gradient(k: Any, x: Any, w: Any, ct: Any, dx: Any, dw: Any, *, eps: float = 1e-6) -> None:
    """So many rows a program, one after the other; rows beyond the last one count as zeros."""
    n, columns = x.shape[1], k.span(0, x.shape[1])
    total = k.scratch((n,), x.dtype)
    total[:] = 0.0
    for i in k.loop(0, ROWS):
        row = k.program_id() * ROWS + i
        a, g = x.load(row, columns, other=0.0), ct.load(row, columns, other=0.0)
        scale = k.rsqrt(k.sum(a * a) / n + eps)
        gw = g * w[:]
        along = k.sum(gw * a) * scale * scale / n
        dx.store(row, columns, value=(gw - a * along) * scale, inside=True)
        total[:] = total[:] + g * a * scale
    dw[k.program_id(), :] = total[:]


# -- a step of the heat equation


def heat_step_of_arrays(u: Any, *, rate: float = 0.1) -> Any:
    """A step of the heat equation on a square mesh, zero around it."""
    p = qnp.pad(u, 1)
    return u + rate * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u)


@quire.kernel(
    grid=lambda u, **_: (-(-u.shape[0] // 16), -(-u.shape[1] // 256)),
    out=lambda u, **_: u,
    reference=heat_step_of_arrays,
)
def heat_step(k: Any, u: Any, out: Any, *, rate: float = 0.1) -> None:
    """A block of 16 x 256 places a program, which reads a place more on each side: the halo."""
    rows, columns = k.span(k.program_id(0) * 16, 16), k.span(k.program_id(1) * 256, 256)

    def at(down: int, right: int) -> Any:
        return u.load(rows + down, columns + right, other=0.0)

    around = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)
    out.store(rows, columns, value=at(0, 0) + rate * (around - 4.0 * at(0, 0)), inside=True)


# -- attention to a window of places before


def local_attention_of_arrays(q: Any, keys: Any, values: Any, *, window: int = 128) -> Any:
    """Softmax attention of each place to itself and those before it, ``window`` in all; keys are given as columns."""
    n, d = q.shape
    back = qnp.arange(n)[:, None] - qnp.arange(n)
    scores = qnp.where((back >= 0) & (back < window), q @ keys / d**0.5, -1e30)
    e = qnp.exp(scores - qnp.max(scores, -1, keepdims=True))
    return e @ values / qnp.sum(e, -1, keepdims=True)


QUERIES, KEYS = 32, 64


@quire.kernel(
    grid=lambda q, keys, values, **_: -(-q.shape[0] // QUERIES),
    out=lambda q, keys, values, **_: q,
    reference=local_attention_of_arrays,
)
def local_attention(k: Any, q: Any, keys: Any, values: Any, out: Any, *, window: int = 128) -> None:
    """So many queries a program, over blocks of the keys that their windows hold; the softmax is formed on the way."""
    d = q.shape[1]
    start, wide = k.program_id() * QUERIES, k.span(0, d)
    rows = k.span(start, QUERIES)
    mine = k.keep(q.load(rows, wide, other=0.0) * d**-0.5)
    top, total, sums = k.scratch((QUERIES,), q.dtype), k.scratch((QUERIES,), q.dtype), k.scratch((QUERIES, d), q.dtype)
    top[:], total[:], sums[...] = -1e30, 0.0, 0.0
    for first in k.loop(start - (window - 1), start + QUERIES, KEYS):
        columns = k.span(first, KEYS)
        back = rows[:, None] - columns[None, :]
        seen = (back >= 0) & (back < window) & (columns >= 0)[None, :]
        scores = k.keep(k.where(seen, k.dot(mine, keys.load(wide, columns, other=0.0)), -1e30))
        highest = k.keep(k.maximum(top[:], k.max(scores, axis=1)))
        e = k.keep(k.where(seen, k.exp(scores - highest[:, None]), 0.0))
        shrunk = k.keep(k.exp(top[:] - highest))
        total[:] = total[:] * shrunk + k.sum(e, axis=1)
        sums[...] = sums[...] * shrunk[:, None] + k.dot(e, values.load(columns, wide, other=0.0))
        top[:] = highest
    out.store(rows, wide, value=sums[...] / total[:][:, None], inside=True)

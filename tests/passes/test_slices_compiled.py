"""Slices of what is repeated, joined, padded and computed, compiled: in loops, gradients and vmap, of narrow integers; as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import quire


def programs(lib: Any) -> dict[str, Callable[[Any], Any]]:
    n, lax = lib.numpy, lib.lax
    return {
        "numbers that wrap": lambda x: lax.broadcasted_iota("int8", (300, 4), 0)[250:290:3],
        "narrow products": lambda x: (n.outer((x * 50).astype("int8"), (x * 3).astype("int8"))[1:3] + n.int8(7))[:, ::2],
        "in a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: n.pad(n.sin(n.outer(c, c))[1:3, 2:].sum(0), (1, 1)), x),
        "of carries": lambda x: lax.scan(
            lambda c, y: (n.concatenate([c, y * c, c[::-1]])[3:8] * 0.5, (c[:, None] + y)[2].sum()), x, n.arange(4.0)
        ),
        "in a gradient": lambda x: lib.grad(
            lambda x: (n.concatenate([n.tanh(x), x * 2])[3:7] ** 2).sum() + n.outer(x, x).T[1:2].sum()
            + n.broadcast_to(x[:, None], (5, 3000))[2:4].sum()
        )(x),
        "of lanes": lambda x: lib.vmap(lambda r: (n.exp(r)[None] * r[:, None])[1, 2:4])(n.stack([x, x + 1])),
        "read twice": lambda x: (lambda z: (z[1:].sum(), z[:-1].max(), z))(n.tanh(n.pad(x, (2, 3)))),
    }  # fmt: skip


def test_as_in_jax() -> None:
    x = np.linspace(-1, 1.5, 5).astype(np.float32)
    got = quire.jit(lambda x: {name: f(x) for name, f in programs(quire).items()})(x)
    want = jax.jit(lambda x: {name: f(x) for name, f in programs(jax).items()})(x)
    for name in want:
        for a, b in zip(
            jax.tree.leaves(quire.tree.map(np.asarray, got[name])), jax.tree.leaves(want[name]), strict=True
        ):
            assert a.dtype == b.dtype, name
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)

"""bfloat16 numbers are rounded where the program says so, in one dispatch with what reads them, too.

IREE computes them in float32 and leaves the rounding out between operations of a dispatch: `sin(x.astype(bfloat16))` was
`sin(x)`. Compared bit for bit with the reference backend, and with JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

pytest.importorskip("iree.compiler")

Function = Callable[..., Any]
B, F = "bfloat16", "float32"
PROGRAMS: dict[str, Function] = {
    "sin": lambda L, lax, y: L.sin((9 * y).astype(B)),
    "cos": lambda L, lax, y: L.cos((9 * y).astype(B)),
    "exp": lambda L, lax, y: L.exp((9 * y).astype(B)),
    "sqrt": lambda L, lax, y: L.sqrt(abs(y).astype(B)),
    "add": lambda L, lax, y: y.astype(B) + 1,
    "subtract and compare": lambda L, lax, y: (y.astype(B) - 1) == L.asarray(0.25, B),
    "product of sums": lambda L, lax, y: (y.astype(B) * y.astype(B) + y.astype(B)) * 3,
    "quotient": lambda L, lax, y: y.astype(B) / L.asarray(3, B) + 1,
    "floor": lambda L, lax, y: L.floor((y * 700).astype(B)),
    "floor of a product": lambda L, lax, y: L.floor(y.astype(B) * L.asarray(100, B)),
    "is_finite": lambda L, lax, y: lax.is_finite((y * np.float32(1.7e38)).astype(B)),
    "where": lambda L, lax, y: L.where(y > 0, y.astype(B), -y.astype(B) * 2) + 1,
    "maximum": lambda L, lax, y: L.maximum(y.astype(B), 1) == y.astype(B),
    "argmax": lambda L, lax, y: L.argmax((y * 1e-3 + 1).astype(B)),
    "argmin of a sum": lambda L, lax, y: L.argmin(y.astype(B) * L.asarray(1e-3, B) + 1),
    "largest": lambda L, lax, y: L.max(y.astype(B) * L.asarray(1.7, B)).astype(F),
    "sort": lambda L, lax, y: L.sort(y.astype(B) * L.asarray(1.7, B)),
    "back": lambda L, lax, y: y - (y.astype(B) * 1).astype(F),
    "sign": lambda L, lax, y: L.sign(y.astype(B) * L.asarray(1.1, B) - 1),
    "pooled": lambda L, lax, y: lax.reduce_window(y.astype(B) * L.asarray(1.1, B), np.array(-np.inf, B), lax.max, (3,), (2,), "VALID"),
    "cumulative maximum": lambda L, lax, y: lax.cummax(y.astype(B) * L.asarray(1.1, B)),
    "product with itself": lambda L, lax, y: L.dot(L.round(y * 50).astype(B), L.round(y * 50).astype(B), preferred_element_type=F) if y.size < 99 else y,
    "matrix and vector": lambda L, lax, y: L.dot(L.round(L.outer(y, y) * 40).astype(B), L.round(y * 90).astype(B), preferred_element_type=F) if y.size < 99 else y,
    "of two dtypes": lambda L, lax, y: lax.dot_general(L.round(y * 99).astype(B), L.round(y), (((0,), (0,)), ((), ())), preferred_element_type=F) if y.size < 99 else y,
    "convolution": lambda L, lax, y: lax.conv(L.round(y * 99).astype(B).reshape(1, 1, -1), L.round(y[:3] * 99).astype(B).reshape(1, 1, 3), (1,), "VALID", preferred_element_type=L.float32) if y.size < 99 else y,
    "to an integer": lambda L, lax, y: (y.astype(B) * L.asarray(100, B)).astype("int32"),
}  # fmt: skip


@pytest.mark.parametrize("n", [13, 3000])
def test_rounding_is_part_of_the_program(n: int) -> None:
    jax = pytest.importorskip("jax")
    y = np.random.default_rng(n).uniform(-4, 4, n).astype(np.float32)
    y[:3] = 1.25, 2.5, -3.75

    def all_of(L: Any, lax_: Any) -> Function:
        return lambda y: {name: f(L, lax_, y) for name, f in PROGRAMS.items()}

    compiled = quire.compile(all_of(qnp, lax))(y)
    alone = {name: quire.compile(lambda y, f=f: f(qnp, lax, y))(y) for name, f in list(PROGRAMS.items())[: 99 if n == 13 else 5]}  # fmt: skip
    with quire.disable_jit():
        eager = all_of(qnp, lax)(qnp.asarray(y))
    by_jax = all_of(jax.numpy, jax.lax)(jax.numpy.asarray(y))
    for name, want in eager.items():
        np.testing.assert_array_equal(np.asarray(compiled[name]), np.asarray(want), name)
        if name in alone:
            np.testing.assert_array_equal(np.asarray(alone[name]), np.asarray(want), f"{name} alone")
        np.testing.assert_array_equal(
            np.asarray(want, np.float64), np.asarray(by_jax[name], np.float64), f"{name}: JAX"
        )

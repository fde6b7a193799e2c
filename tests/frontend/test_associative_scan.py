"""associative_scan by blocks and by steps, as traced sequences are combined, against JAX and the tree."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
from quire import lax
from quire import numpy as qnp

RNG = np.random.default_rng(0)


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = np.float32) -> Any:
    return RNG.uniform(low, high, shape).astype(dtype)


def recurrence(p: Any, q: Any) -> Any:
    """x -> a x + b, composed."""
    return {"a": p["a"] * q["a"], "b": p["b"] * q["a"] + q["b"]}


def matrices(p: Any, q: Any) -> Any:
    return q @ p


CASES: dict[str, Any] = {  # the function, elems, reverse, axis; the library is m
    "sum": (lambda m: m.lax.add, numbers(1000), False, 0),
    "sum of a square number": (lambda m: m.lax.add, numbers(1024), True, 0),
    "sum along the last axis": (lambda m: m.numpy.add, numbers(3, 700), False, -1),
    "sum along the middle": (lambda m: m.numpy.add, numbers(3, 515, 2), True, 1),
    "largest": (lambda m: m.numpy.maximum, numbers(2, 601), False, 1),
    "product of integers": (lambda m: m.numpy.multiply, RNG.integers(-9, 9, 777).astype(np.int32), False, 0),
    "and": (lambda m: m.numpy.logical_and, RNG.random(900) < 0.999, False, 0),
    "complex": (lambda m: m.numpy.multiply, np.exp(1j * numbers(600)).astype(np.complex64), False, 0),
    "recurrence": (lambda m: recurrence, {"a": numbers(1001), "b": numbers(1001)}, False, 0),
    "recurrence of rows, backwards": (lambda m: recurrence, {"a": numbers(531, 4), "b": numbers(531, 4)}, True, 0),
    "matrices": (lambda m: matrices, np.linalg.qr(numbers(520, 3, 3))[0].astype(np.float32), False, 0),
    "recurrence of many rows": (lambda m: recurrence, {"a": numbers(40, 5, 6), "b": numbers(40, 5, 6)}, False, 0),
    "recurrence of many rows, backwards": (lambda m: recurrence, {"a": numbers(3, 50, 6), "b": numbers(3, 50, 6)}, True, 1),
    "matrices, few": (lambda m: matrices, np.linalg.qr(numbers(9, 4, 4))[0].astype(np.float32), False, 0),
    "matrices in the middle": (
        lambda m: lambda p, q: m.numpy.einsum("anij,anjk->anik", p, q), numbers(2, 30, 3, 3) * 0.6, True, 1
    ),
    "largest of many": (lambda m: m.numpy.maximum, numbers(100, 2000), False, 0),
    "sums of segments": (
        lambda m: lambda p, q: (m.numpy.where(q[1], q[0], p[0] + q[0]), p[1] | q[1]),
        (numbers(20, 17), RNG.random((20, 17)) < 0.2), False, 0,
    ),
    "of arrays of several ranks": (
        lambda m: lambda p, q: (p[0] * q[0], q[0][:, None] * p[1] + q[1]), (numbers(64), numbers(64, 33)), False, 0
    ),
    "first that is there": (lambda m: lambda a, b: m.numpy.where(a >= 0, a, b), RNG.integers(-3, 2, 640).astype(np.int32), True, 0),
}  # fmt: skip


def test_as_in_jax() -> None:
    """All in one compiled program."""
    run = {n: lambda x, c=c: lax.associative_scan(c[0](quire), x, reverse=c[2], axis=c[3]) for n, c in CASES.items()}
    got = quire.jit(lambda xs: {n: run[n](x) for n, x in xs.items()})({n: c[1] for n, c in CASES.items()})
    for name, (fn, elems, reverse, axis) in CASES.items():
        scan = jax.jit(
            lambda x, fn=fn, reverse=reverse, axis=axis: jax.lax.associative_scan(
                fn(jax), x, reverse=reverse, axis=axis
            )
        )
        want = scan(jax.tree.map(jnp.asarray, elems))
        jax.tree.map(
            lambda x, y, name=name: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=name),
            got[name],
            want,
        )


def test_derivatives_and_vmap() -> None:
    a, b, w = numbers(3, 600), numbers(3, 600), numbers(3, 600)

    def loss(m: Any) -> Any:
        def f(a: Any, b: Any) -> Any:
            out = m.vmap(lambda a, b: m.lax.associative_scan(recurrence, {"a": a, "b": b}))(a, b)
            return m.numpy.sum(out["b"] * w + m.numpy.sin(out["a"]))

        return f

    got = quire.jit(quire.value_and_grad(loss(quire), (0, 1)))(a, b)
    want = jax.value_and_grad(loss(jax), (0, 1))(a, b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3), got, want)
    _, tangent = quire.jit(lambda a, b: quire.jvp(loss(quire), (a, b), (b, a)))(a, b)
    np.testing.assert_allclose(tangent, jax.jvp(loss(jax), (a, b), (b, a))[1], rtol=1e-3)


def test_which_sequences_are_cut() -> None:
    """Narrow floats would be worn out by long sums, and functions of concrete values may look at them."""

    def loops(x: Any) -> int:
        return str(quire.make_jaxpr(lambda x: lax.associative_scan(lax.add, x))(x)).count("scan[")

    assert loops(numbers(100, 16)) == loops(numbers(2048, 16)) == 1 and loops(numbers(2049, 16)) == 3
    assert loops(numbers(511)) == loops(numbers(8)) == 1 and loops(numbers(7)) == loops(numbers(7, 100)) == 0
    sorting = quire.make_jaxpr(lambda x: lax.associative_scan(lambda a, b: qnp.sort(a + b, -1), x))(numbers(100, 16))
    assert "scan[" not in str(sorting)  # no loop sorts within one kernel
    assert loops(numbers(1000)) == 3 and loops(numbers(1024)) == 2
    assert loops(numbers(1000).astype(np.float16)) == 0
    seen: list[float] = []

    def watched(x: Any, y: Any) -> Any:
        seen.append(float(qnp.sum(x)))
        return x + y

    x = numbers(600)
    np.testing.assert_allclose(lax.associative_scan(watched, x), np.cumsum(x), rtol=1e-4, atol=1e-4)
    assert len(seen) > 2


@pytest.mark.parametrize("n", [512, 513, 528, 529, 530, 1023])
def test_sizes_beside_squares(n: int) -> None:
    x = RNG.integers(0, 9, n).astype(np.int32)
    np.testing.assert_array_equal(quire.jit(lambda x: lax.associative_scan(lax.add, x))(x), np.cumsum(x))

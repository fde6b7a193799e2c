"""Gathers of single elements, as members of elementwise clusters and as kernels, against the reference, NumPy and JAX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import quire
from quire import lax
from quire import numpy as qnp
from tests.helpers import Case, check

F32 = np.float32
RNG = np.random.default_rng(3)


def numbers(*shape: int, dtype: Any = F32) -> Any:
    x = RNG.standard_normal(shape) * 9
    if np.dtype(dtype).kind == "c":
        return (x + 1j * RNG.standard_normal(shape)).astype(dtype)
    return (x > 0) if dtype is bool else x.astype(dtype)


def places(n: int, *shape: int, dtype: Any = np.int32, beyond: int = 7) -> Any:
    low = 0 if np.dtype(dtype).kind == "u" else -n - beyond
    info = np.iinfo(dtype)
    return RNG.integers(max(low, info.min), min(n + beyond, info.max) + 1, shape).astype(dtype)


def one_by_one(mode: Any, fill: Any = None) -> Callable[..., Any]:
    """Index vectors of two components that come as they are."""
    dims = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(1, 0))
    return lambda x, i: lax.gather(x, i, dims, (1, 1), mode=mode, fill_value=fill)


def by_rows(x: Any, i: Any, j: Any) -> Any:
    """Interpolation between neighbours, as in images."""
    a, b = i.astype("int32"), j.astype("int32")
    u, v = i - a, j - b
    return (x[a, b] * (1 - u) * (1 - v) + x[a + 1, b] * u * (1 - v)) + (
        x[a, b + 1] * (1 - u) * v + x[a + 1, b + 1] * u * v
    )


X, Y = numbers(37, 53), numbers(41, 31)
I = places(37, 41, 31)
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "two indices": (lambda x, i, j: x[i, j], [X, I, places(53, 41, 31)]),
    "two indices that are not cast": (lambda x, i, j: x[i, j] * 2, [X, places(37, 1200, dtype=np.int8), places(53, 1200, dtype=np.uint8)]),
    "one of three dimensions": (lambda x, i, j: x[i, 2, j], [numbers(7, 4, 9), places(7, 1500), places(9, 1500)]),
    "along the last axis": (lambda x, i: qnp.take_along_axis(x, i, axis=1), [numbers(29, 53), places(53, 29, 61)]),
    "along the first axis": (lambda x, i: qnp.take_along_axis(x, i, axis=0), [numbers(53, 29), places(53, 61, 29)]),
    "along the middle axis": (lambda x, i: qnp.take_along_axis(x, i, axis=1), [numbers(5, 17, 11), places(17, 5, 23, 11)]),
    "clipped": (lambda x, i: qnp.take(x, i, mode="clip") + 1, [numbers(99), places(99, 1111, beyond=900)]),
    "wrapped": (lambda x, i: qnp.take(x, i, mode="wrap"), [numbers(99), places(99, 1111, beyond=900)]),
    "filled": (lambda x, i: x.at[i].get(mode="fill", fill_value=-3), [numbers(99), places(99, 1111, beyond=900)]),
    "vectors as they are, filled": (one_by_one("fill", 2.5), [X, np.stack([places(53, 1300), places(37, 1300)], -1)]),
    "vectors as they are, clipped": (one_by_one("clip"), [X, np.stack([places(53, 13, 131), places(37, 13, 131)], -1)]),
    "far outside": (lambda x, i: x[i], [numbers(99), np.array([2**31 - 1, -(2**31), 98, 99, -99, -100] * 200, np.int32)]),
    "unsigned": (lambda x, i: x.at[i].get(mode="clip"), [numbers(99), np.array([2**32 - 1, 2**31, 98, 99] * 300, np.uint32)]),
    "bools": (lambda x, i: ~x[i], [numbers(99, dtype=bool), places(99, 1111)]),
    "bytes": (lambda x, i: x[i] + x[i], [numbers(300, dtype=np.int8), places(300, 1111, dtype=np.int16)]),
    "halves": (lambda x, i: x[i] * 3, [numbers(300, dtype=np.float16), places(300, 1111)]),
    "bfloat16": (lambda x, i: x.at[i].get(mode="fill", fill_value=0.3), [numbers(300, dtype=ml_dtypes.bfloat16), places(300, 1111)]),
    "complex": (lambda x, i: x[i] * 1j, [numbers(300, dtype=np.complex64), places(300, 1111)]),
    "of one element": (lambda x, i: x[i] + 1, [numbers(1), places(1, 1100)]),
    "of as many elements, made here": (lambda x, i: (x * 2)[i] + x, [numbers(1100), places(1100, 1100)]),
    "of a gather": (lambda x, i: x[i][i], [numbers(1100), places(1100, 1100)]),
    "an index that is gathered": (lambda x, i: x[i[i]], [numbers(1100), places(1100, 1100)]),
    "reads twice": (lambda x, i: [x[i] - x[i + 1], x[i], i + 1], [numbers(1100), places(1090, 1100)]),
    "index vectors of two stages": (
        lambda x, i, j: [x[i, j][i % 32, j % 32] + x[i, j], (x * 2)[i, j]], [X, places(37, 32, 32), places(53, 32, 32)],
    ),
    "narrow, updated, in a loop": (
        lambda x, i: lax.fori_loop(0, 3, lambda k, y: y.at[i].set(y[i[::-1]] + 1)[i % 1200], x),
        [numbers(1200, dtype=np.int8), np.random.default_rng(1).permutation(1200).astype(np.int32)],
    ),
    "vectors that are a result": (lambda x, i, j: [x[i, j], qnp.stack([i, j], -1)], [X, places(37, 1024), places(53, 1024)]),
    "interpolated": (by_rows, [X, RNG.uniform(0, 35, (33, 47)).astype(F32), RNG.uniform(0, 51, (33, 47)).astype(F32)]),
    "with rows of a broadcast": (lambda x, i, r: x[i] * r + 1, [numbers(99), places(99, 33, 64), numbers(64)]),
    "with a column": (lambda x, i, c: x[i] * c[:, None], [numbers(99), places(99, 64, 33), numbers(64)]),
    "searchsorted": (lambda a, v: qnp.searchsorted(a, v), [np.sort(numbers(1000)), numbers(1500)]),
    "interp": (lambda x, p, f: qnp.interp(x, p, f), [numbers(1500), np.sort(numbers(77)), numbers(77)]),
    "pairs": (lambda x, i: x[i], [numbers(300, 2), places(300, 1111)]),
    "triples": (lambda x, i: x[i], [numbers(300, 3, dtype=np.int8), places(300, 37, 31)]),
    "columns": (lambda x, i: x[:, i], [X, places(53, 77)]),
    "a table for bytes": (lambda t, x: t[x], [numbers(256, dtype=np.uint8), numbers(2000, dtype=np.uint8)]),
    "a column of positions": (lambda x, i: x[i[:, None] + qnp.arange(4)], [numbers(999), places(990, 400)]),
    "an odd number": (lambda x, i: x[i] + x[::-1][i], [numbers(301), places(301, 1025)]),
    "scatter of a gather": (lambda x, i: x.at[i].add(x[i] * 2), [numbers(300), np.arange(1100, dtype=np.int32) % 311]),
    "sum of a gather": (lambda x, i: qnp.sum(x[i] * 2, axis=1), [numbers(300), places(300, 64, 32)]),
    "vmap": (quire.vmap(lambda x, i: x[i] * 2), [numbers(33, 50), places(50, 33, 40)]),
    "gradient": (quire.grad(lambda x, i: qnp.sum(qnp.sin(x[i]) * i)), [numbers(300), places(300, 1111)]),
    "in a loop": (
        lambda x, i: lax.fori_loop(0, 5, lambda k, y: y[(i + k) % 300] * 0.5 + y, x), [numbers(300), places(300, 300)],
    ),
    "in a branch": (lambda x, i: lax.cond(x[0] > 0, lambda: x[i], lambda: x[-i]), [numbers(1200), places(1100, 1200)]),
}  # fmt: skip


def as_jax(f: Callable[..., Any], args: list[Any]) -> list[Any]:
    """What JAX gives for the same source: its modules in the place of quire's."""
    cells = {"qnp": jnp, "lax": jax.lax, "quire": jax, "np": np, "F32": F32}
    g = type(f)(f.__code__, {**f.__globals__, **cells}, f.__name__, f.__defaults__, f.__closure__)
    out = g(*map(jnp.asarray, args))
    return list(out) if isinstance(out, list | tuple) else [out]


def test_gathers_of_elements() -> None:
    check([Case(name, f, args, rtol=3e-6, atol=3e-5) for name, (f, args) in PROGRAMS.items()])


#: XLA takes indices from 2^31 on for negative ones, and moves them to the front.
NOT_AS_IN_JAX = "unsigned"


@pytest.mark.parametrize(
    "name", [n for n, (f, _) in PROGRAMS.items() if f.__code__.co_filename == __file__ and n != NOT_AS_IN_JAX]
)
def test_as_in_jax(name: str) -> None:
    f, args = PROGRAMS[name]
    got = f(*map(qnp.asarray, args))
    for x, y in zip(got if isinstance(got, list | tuple) else [got], as_jax(f, args), strict=True):
        np.testing.assert_allclose(np.asarray(x).astype("complex64"), np.asarray(y).astype("complex64"), 3e-6, 3e-5)


def test_a_chain_of_gathers_is_one_kernel() -> None:
    """What makes the indices, what is gathered and what is made of it: nothing in between is in memory."""

    def reasons(name: str) -> list[str]:
        f, args = PROGRAMS[name]
        return re.findall(r'quire_reason = "([^"]*)"', quire.jit(f).lower(*args).as_text())

    for name in ("interpolated", "searchsorted", "along the middle axis", "with rows of a broadcast", "reads twice"):
        (reason,) = reasons(name)
        assert "elementwise equations" in reason
    assert len(reasons("of a gather")) == 2
    assert reasons("pairs") == [
        "gather of f32 elements, the indices computed here; outside: moved inside; one workgroup"
    ]
    (reason,) = reasons("vectors as they are, clipped")
    assert "1 elementwise equations (gather)" in reason


def test_a_donated_operand_is_read_before_it_is_written() -> None:
    x, i = numbers(5000), places(5000, 5000)
    f = quire.jit(lambda x, i: x + x[i], donate_argnums=0)
    g = quire.jit(lambda x, i: x * 2 + x[i] * x[::-1][i], donate_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(f(qnp.asarray(x), i), np.asarray(jnp.asarray(x) + jnp.asarray(x)[i]))
        want = np.asarray(jnp.asarray(x) * 2 + jnp.asarray(x)[i] * jnp.asarray(x)[::-1][i])
        np.testing.assert_allclose(g(qnp.asarray(x), i), want, rtol=1e-5, atol=1e-4)


def test_64_bit_indices() -> None:
    with quire.enable_x64(True):
        x, i = numbers(99, dtype=np.float64), places(99, 1111, dtype=np.int64)
        big = np.array([2**62, -(2**62), 98, 99, -99, -100, 2**32, 2**32 + 5] * 150, np.int64)

        def moved(x: Any, i: Any) -> Any:
            return x[np.clip(np.where(i < 0, i + 99, i), 0, 98)]

        check([
            Case("i64", lambda x, i: x[i], [x, i], moved),
            Case("far", lambda x, i: x[i], [x, big], moved),
            Case("u64", lambda x, i: x.at[i].get(mode="clip"), [x, big.astype(np.uint64)], lambda x, i: x[np.minimum(i, 98)]),
        ])  # fmt: skip

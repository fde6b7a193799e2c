"""Conversions to float16 and bfloat16, in dispatches, kernels and loops: rounded once, and rounded at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

RNG = np.random.default_rng(0)
HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    with quire.enable_x64(True):
        yield


def numbers(dtype: str) -> np.ndarray:
    """Of all sizes: halves below the normal ones, midpoints and what lies just beside them, the largest, NaN."""
    ends = [1e-6, 6e-8, 3e-5, 6e-5, -2e-6, 2.98e-8, 2.99e-8, 65519.0, 65520.0, 1e300, -0.0, np.inf, np.nan]
    middle = [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 1 + 2.0**-9, 1 + 3 * 2.0**-9]
    random = RNG.standard_normal(200) * 10.0 ** RNG.integers(-9, 6, 200)
    with np.errstate(all="ignore"):
        return np.concatenate([ends, middle, random]).astype(dtype)


FORMS: dict[str, Callable[[Any, str], Any]] = {
    "alone": lambda x, half: x.astype(half),
    "back": lambda x, half: x.astype(half).astype(x.dtype) * 1,
    "of a sum": lambda x, half: (x + qnp.flip(x)).astype(half).astype(x.dtype),
    "sorted": lambda x, half: qnp.sort(x).astype(half),
    "scan": lambda x, half: lax.scan(lambda c, r: (c, r.astype(half)), 0, x)[1],
    "carried": lambda x, half: lax.fori_loop(0, 3, lambda i, c: (c * 0.9).astype(half).astype(x.dtype), x),
    "carried number": lambda x, half: lax.fori_loop(0, 3, lambda i, c: (c * 0.9).astype(half).astype(x.dtype), x[3]),
    "remainder": lambda x, half: qnp.fmod(x.astype(half), qnp.asarray(3, half)),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounded(dtype: str, half: str) -> None:
    x, to = numbers(dtype), HALVES[half]

    def rounded(v: Any) -> Any:
        return v.astype(to)

    def carried(v: Any) -> Any:
        for _ in range(3):
            v = rounded(v * np.asarray(0.9, dtype)).astype(dtype)
        return v

    with np.errstate(all="ignore"):
        want = {
            "alone": rounded(x), "back": rounded(x).astype(dtype), "of a sum": rounded(x + x[::-1]).astype(dtype),
            "sorted": rounded(np.sort(x)), "scan": rounded(x), "carried": carried(x), "carried number": carried(x[3]),
            "remainder": rounded(np.fmod(rounded(x).astype("float64"), 3)),
        }  # fmt: skip
    got = quire.jit(lambda x: {name: f(x, half) for name, f in FORMS.items()})(x)
    apart = {name: quire.jit(lambda x, f=f: f(x, half))(x) for name, f in FORMS.items()}
    for name, w in want.items():
        for g in (got[name], apart[name]):
            assert np.asarray(g).dtype == w.dtype
            np.testing.assert_array_equal(np.asarray(g).astype("f8"), w.astype("f8"), err_msg=name)


LAYOUTS = {
    "matrix and vector": ((13, 13), (13,), (((1,), (0,)), ((), ()))),
    "matrices": ((7, 13), (13, 9), (((1,), (0,)), ((), ()))),
    "rows": ((13, 7), (9, 7), (((1,), (1,)), ((), ()))),
    "vectors": ((13,), (13,), (((0,), (0,)), ((), ()))),
    "batches": ((4, 7, 13), (4, 13), (((2,), (1,)), ((0,), (0,)))),
    "outer": ((5,), (6,), (((), ()), ((), ()))),
}


def _products(dims: Any, half: str, pairs: Any) -> Any:
    def product(b: Any, c: int, a: Any) -> tuple[int, Any]:
        return c, lax.dot_general(-a, b, dims, preferred_element_type=half)

    return [lax.scan(functools.partial(product, b), 0, a)[1] for a, b in pairs]


@pytest.mark.parametrize("half", HALVES)
def test_products_of_mixed_precision_in_a_loop(half: str) -> None:
    """Operands of a half and of float32 and a result of the half: what derivatives of mixed precision layers are made of."""
    to, eps = HALVES[half], float(ml_dtypes.finfo(HALVES[half]).eps)
    single = np.dtype("float32")
    for name, (sa, sb, dims) in LAYOUTS.items():
        pairs = []
        for da, db in ((to, to), (to, single), (single, to), (single, single)):
            pairs.append(
                (RNG.standard_normal((3, *sa)).astype("f").astype(da), RNG.standard_normal(sb).astype("f").astype(db))
            )

        products = functools.partial(_products, dims, half)
        for (a, b), got in zip(pairs, quire.jit(products)(pairs), strict=True):
            (contracted, _), (batch, _) = dims
            axes = "abc"[: len(sa)]
            other = (
                [axes[d] for d in batch] + [axes[d] for d in contracted]
                if len(sb) == len(batch) + len(contracted)
                else None
            )
            rhs = "".join(other) if other is not None else {"matrices": "bx", "rows": "xb", "outer": "x"}[name]
            out = "".join([axes[d] for d in batch] + [c for i, c in enumerate(axes) if i not in (*batch, *contracted)])
            out += "".join(c for c in rhs if c not in axes)
            want = np.einsum(f"z{axes},{rhs}->z{out}", -a.astype("f8"), b.astype("f8"))
            error = np.abs(np.asarray(got).astype("f8") - want) / (np.abs(want) + 1e-2 * np.abs(want).max())
            assert error.max() < 0.75 * eps, (name, a.dtype, b.dtype)


def test_the_gradient_of_layers_of_mixed_precision() -> None:
    x = RNG.standard_normal((7, 13)).astype("f")
    w = RNG.standard_normal((3, 13, 13)).astype("f") / 4

    def net(x: Any, w: Any, half: str) -> Any:
        def layer(h: Any, w: Any) -> Any:
            return qnp.tanh(qnp.dot(h, w.astype(half), preferred_element_type="float32")).astype(half), None

        return lax.scan(layer, x.astype(half), w)[0].astype("float32").sum()

    exact = quire.grad(lambda x, w: net(x, w, "float32"), (0, 1))(x, w)
    for half, dtype in HALVES.items():
        got = quire.jit(quire.grad(lambda x, w, half=half: net(x, w, half), (0, 1)))(x, w)
        for g, e in zip(got, exact):
            assert (
                np.abs(np.asarray(g) - np.asarray(e)).max()
                < 8 * float(ml_dtypes.finfo(dtype).eps) * np.abs(np.asarray(e)).max()
            )

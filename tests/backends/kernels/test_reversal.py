"""Arrays backwards: along rows, along short groups of elements, and together with what is computed of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp

R = np.random.default_rng(0)
SHAPES = {  # of arrays and the axes along which they are reversed
    (8000, 3): -1, (101, 67, 3): -1, (3000, 2, 3): (1, 2), (1500, 15): 1, (20000, 2): 1, (4000, 17): 1,
    (64, 97, 3): 1, (51, 161, 3): 1, (33, 40, 5, 3): (1, 2), (70, 5, 90, 2): (1, 2), (40, 3, 3, 50): (1, 2),
    (17001, 1): 0, (17001,): 0, (5461, 3): (0, 1), (200, 130): 0, (33, 3, 20, 20): (0, 3), (90, 200, 2, 2): 1,
}  # fmt: skip


def array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = R.standard_normal(shape) * 50
    if dtype == "complex64":
        return (x + 1j * R.standard_normal(shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "int16", "bfloat16", "complex64"])
def test_every_element_is_where_it_belongs(dtype: str) -> None:
    xs = [array(shape, dtype) for shape in SHAPES]
    found = quire.jit(lambda xs: [qnp.flip(x, axes) for x, axes in zip(xs, SHAPES.values())])(xs)
    for x, axes, y in zip(xs, SHAPES.values(), found, strict=True):
        assert np.array_equal(np.asarray(y).view("u1"), np.ascontiguousarray(np.flip(x, axes)).view("u1")), x.shape


def test_what_is_reversed_is_computed_in_the_same_pass() -> None:
    x = array((150, 120), "float32")
    found = quire.jit(lambda x: (qnp.flip(x * 2, 1), qnp.flip(x, 0) + x, qnp.sort(x, 1)[:, ::-1]))(x)
    for y, expected in zip(found, (x[:, ::-1] * 2, x[::-1] + x, np.sort(x, 1)[:, ::-1]), strict=True):
        assert np.array_equal(y, expected)


def test_the_form_is_named() -> None:
    text = quire.jit(lambda x: x[..., ::-1]).lower(np.zeros((200, 100, 3), "f")).as_text()
    assert "rows of 3 groups of 1 elements backwards at once" in text

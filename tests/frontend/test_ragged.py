"""ragged_dot_general against JAX's: its three kinds of ragged dimensions, with batches, derivatives, vmap, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
from quire import lax
from quire.test_util import check_grads

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


#: lhs, rhs, group sizes, and the dimensions: contracted, batch, ragged, of the groups.
CASES: dict[str, tuple[Any, ...]] = {
    "free": (numbers(7, 3), numbers(4, 3, 2), [2, 0, 3, 1], (([1], [1]), ([], [])), [0], [0]),
    "free, groups last": (numbers(3, 7), numbers(3, 2, 4), [2, 1, 3, 1], (([0], [0]), ([], [])), [1], [2]),
    "free, of batches": (numbers(2, 7, 3), numbers(4, 2, 3, 5), [[2, 0, 3, 1], [7, 0, 0, 0]], (([2], [2]), ([0], [1])), [1], [0]),
    "free, of batches alike": (numbers(2, 7, 3), numbers(2, 4, 3, 5), [1, 2, 3, 1], (([2], [2]), ([0], [0])), [1], [1]),
    "free, two of them": (numbers(2, 7, 3), numbers(4, 3), [[2, 0, 3, 1], [1, 1, 1, 1]], (([2], [1]), ([], [])), [1], [0]),
    "free, of batches behind": (numbers(7, 3, 2), numbers(4, 3, 2), [[2, 0, 3, 1], [0, 0, 0, 7]], (([1], [1]), ([2], [2])), [0], [0]),
    "contracted": (numbers(4, 9), numbers(9, 2), [2, 0, 3, 3], (([1], [0]), ([], [])), [1], []),
    "contracted, of batches": (numbers(2, 4, 9), numbers(2, 9, 3), [[2, 7], [1, 1]], (([2], [1]), ([0], [0])), [2], []),
    "contracted, two of them": (numbers(4, 2, 9), numbers(2, 9, 3), [[2, 7], [1, 1]], (([1, 2], [0, 1]), ([], [])), [2], []),
    "batch": (numbers(6, 4, 3), numbers(6, 3, 2), [2, 1, 3], (([2], [1]), ([0], [0])), [0], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    lhs, rhs, sizes, dims, ragged, groups = CASES[name]
    sizes = np.asarray(sizes, np.int32)

    given = lax.RaggedDotDimensionNumbers(dims, ragged, groups)
    by_jax = jax.lax.RaggedDotDimensionNumbers(dims, ragged, groups)

    def f(a: Any, b: Any) -> Any:
        return lax.ragged_dot_general(a, b, sizes, given)

    stacked = np.stack([lhs, lhs * 2]), np.stack([rhs, rhs * 3])
    got, mapped = quire.jit(lambda: (f(lhs, rhs), quire.vmap(f)(*stacked)))()
    want = [jax.lax.ragged_dot_general(a, b, sizes, by_jax) for a, b in zip(*stacked)]
    for g, w in zip((got, *mapped), (want[0], *want), strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=2e-5)
    check_grads(
        f, (lhs, rhs), order=1, modes=("fwd", "rev"), atol=1e-2, rtol=1e-2
    )  # JAX has no derivatives of most of them


A, B, SIZES = numbers(7, 3), numbers(4, 3, 2), np.array([2, 0, 3, 1])
ROWS = (([1], [1]), ([], []))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"ragged": []}, TypeError, r"expects exactly one lhs ragged dimension, got \(\)"),
        ({"ragged": [2]}, TypeError, r"requires lhs ragged dimension numbers to be nonnegative.*got 2 for lhs of rank 2"),
        ({"sizes": np.zeros(4, "f")}, TypeError, r"group_sizes must be integers, got f32\[4\]"),
        ({"sizes": np.array(4)}, TypeError, r"expected rank of group_sizes to be >=1"),
        ({"sizes": np.zeros((7, 4), int)}, TypeError, r"expected group_sizes to have shape \(4,\), got \(7, 4\)"),
        ({"groups": []}, TypeError, r"exactly one rhs group dimension when lhs ragged dimension is noncontracting, got \(\)"),
        ({"groups": [3]}, TypeError, r"rhs group dimension numbers to be nonnegative.*got 3 for rhs of rank 3"),
        ({"groups": [1]}, TypeError, r"to be distinct from rhs contracting dimensions, got 1 in \[1\]"),
        ({"groups": [2]}, TypeError, r"expected rhs group dimension size to be 4, got 2"),
        ({"ragged": [1]}, TypeError, r"zero group dimensions in the rhs when lhs ragged dimension is contracting or batch, got \(0,\)"),
        ({"group_offset": np.array([1])}, NotImplementedError, r"group_offset is not supported, expected None"),
    ],
)  # fmt: skip
def test_refused(change: dict[str, Any], kind: type[Exception], text: str) -> None:
    given = lax.RaggedDotDimensionNumbers(ROWS, change.get("ragged", [0]), change.get("groups", [0]))
    with pytest.raises(kind, match=text):
        lax.ragged_dot_general(A, B, change.get("sizes", SIZES), given, group_offset=change.get("group_offset"))

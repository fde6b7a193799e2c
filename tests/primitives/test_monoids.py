"""What reductions start with is one answer on every path: -0, NaN and infinities in sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire.numpy as qnp
from quire import lax
from quire.ir import dtypes
from quire.ir.primitives.reductions import MONOIDS
from tests.helpers import Case, check

F32 = np.float32
# Each row, column and window of these is a sum, or an extreme, of one kind: all -0, 0 and -0, NaN, infinities.
FILLS = {
    "-0": (-0.0, -0.0),
    "0 and -0": (0.0, -0.0),
    "NaN": (1.0, np.nan),
    "inf": (np.inf, 1.0),
    "inf - inf": (np.inf, -np.inf),
}


def filled(fill: str, *shape: int, dtype: Any = F32) -> np.ndarray[Any, Any]:
    """An array whose neighbours along each dimension are the two numbers of a fill."""
    places = sum(np.indices(shape)) % 2
    return np.where(places == 0, *(np.asarray(v, dtype) for v in FILLS[fill]))


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, F32)


# name -> (function of the libraries and an array, shape): each a path of its own through kernels, or through StableHLO.
SUMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "all": (lambda n, l, x: n.sum(x), (9,)),
    "rows": (lambda n, l, x: n.sum(x, 1), (300, 200)),
    "columns": (lambda n, l, x: n.sum(x, 0), (300, 200)),
    "short rows": (lambda n, l, x: n.sum(x, 1), (3000, 5)),
    "rows with neighbours": (lambda n, l, x: n.sum(x * 1.5, 1) * 2, (300, 200)),
    "cumulative": (lambda n, l, x: n.cumsum(x), (40,)),
    "cumulative, reversed": (lambda n, l, x: l.cumsum(x, reverse=True), (1100,)),
    "cumulative columns": (lambda n, l, x: n.cumsum(x, 0), (40, 40)),
    "windows": (lambda n, l, x: l.reduce_window(x, F32(0), l.add, (2, 2), (1, 1), "VALID"), (100, 64)),
    "windows with padding": (lambda n, l, x: l.reduce_window(x, F32(0), l.add, (2, 2), (1, 1), "SAME"), (100, 64)),
    "windows along rows": (lambda n, l, x: l.reduce_window(x, F32(0), l.add, (1, 2), (1, 1), "VALID"), (100, 64)),
    "windows, channels last": (lambda n, l, x: l.reduce_window(x, F32(0), l.add, (2, 2, 1), (1, 1, 1), "VALID"), (20, 20, 64)),
    "few windows": (lambda n, l, x: l.reduce_window(x, F32(0), l.add, (2,), (1,), "VALID"), (9,)),
    "small product": (lambda n, l, x: x @ ones(8), (8,)),
    "product": (lambda n, l, x: x @ ones(128, 128), (128, 128)),
    "matrix and vector": (lambda n, l, x: x @ ones(1024), (1024, 1024)),
    "vector and matrix": (lambda n, l, x: ones(1024) @ x, (1024, 1024)),
    "scatter": (lambda n, l, x: n.zeros(4, F32).at[n.asarray([1, 1, 2, 2])].add(x), (4,)),
    "loop of scalars": (lambda n, l, x: l.scan(lambda c, y: (c + n.sum(y), (n.sum(y), y @ ones(7), n.cumsum(y))), F32(0), x), (5, 7)),
    "loop of lanes": (lambda n, l, x: l.scan(lambda c, y: (c + y, n.sum(y)), -0.0 * ones(300), x), (5, 300)),
    "loop in memory": (lambda n, l, x: l.fori_loop(0, 2, lambda i, c: c * 1e-3 + n.sum(x * (1 + c * 0), 0), -0.0 * ones(200)), (50, 200)),
}  # fmt: skip
EXTREMES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "rows": (lambda n, l, x: (n.max(x, 1), n.min(x, 1)), (300, 200)),
    "columns": (lambda n, l, x: (n.max(x, 0), n.min(x, 0)), (300, 200)),
    "cumulative": (lambda n, l, x: (l.cummax(x), l.cummin(x)), (40,)),
    "windows with padding": (lambda n, l, x: l.reduce_window(x, F32(-np.inf), l.max, (2, 2), (1, 1), "SAME"), (100, 64)),
    "loop": (lambda n, l, x: l.scan(lambda c, y: (c, (n.max(y), n.min(y))), F32(0), x), (5, 7)),
}  # fmt: skip


def cases(table: dict[str, tuple[Callable[..., Any], tuple[int, ...]]], fill: str, like_jax: bool = True) -> list[Case]:
    """All functions of a table on arrays of one fill, whose results are the same to the bit."""

    def case(name: str, f: Callable[..., Any], x: np.ndarray[Any, Any]) -> Case:
        def expect(x: Any) -> Any:
            return jax.tree.leaves(f(jnp, jax.lax, jnp.asarray(x)))

        return Case(name, lambda x: jax.tree.leaves(f(qnp, lax, x)), [x], expect if like_jax else None, exact=True)

    return [case(name, f, filled(fill, *shape)) for name, (f, shape) in table.items()]


@pytest.mark.parametrize("fill", FILLS)
def test_sums_start_with_zero_on_every_path(fill: str) -> None:
    check(cases(SUMS, fill))


@pytest.mark.parametrize(
    "fill", [f for f in FILLS if f != "0 and -0"]
)  # which of two zeros is the larger is in test_reductions
def test_extremes_start_with_what_changes_none(fill: str) -> None:
    # JAX on the CPU loses some NaNs of rows that it reduces by vectors.
    check(cases(EXTREMES, fill, like_jax=fill != "NaN"))


@pytest.mark.parametrize("name", MONOIDS)
def test_the_neutral_value_changes_no_number(name: str, x64: None) -> None:
    monoid = MONOIDS[name]
    for dtype in monoid.dtypes:
        start = monoid.neutral(dtype)
        assert start.dtype == dtype
        x = np.asarray([0, 1], dtype)
        out = np.asarray(qnp.asarray(monoid.combine.bind(np.full(2, start), x)))
        np.testing.assert_array_equal(out.astype(object), x.astype(object), err_msg=f"{name} of {dtypes.SHORT[dtype]}")

# ruff: noqa: E501 - tables
"""Collectives over a named axis of vmap, against JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
from quire import lax

from .jax_oracle import W, X, check

SQUARE = np.arange(9.0).reshape(3, 3).astype(np.float32)
SIX = np.arange(36.0).reshape(3, 6, 2).astype(np.float32)


def mapped(q: Any, f: Any, **kw: Any) -> Any:
    return q.vmap(f, axis_name="i", **kw)


CASES: dict[str, Any] = {
    "psum": lambda q, n, l: mapped(q, lambda a: a / l.psum(a, "i"))(X),
    "psum tree": lambda q, n, l: mapped(q, lambda x: l.psum({"a": x, "b": 1}, "i"))(X),
    "psum unmapped": lambda q, n, l: mapped(q, lambda x, y: l.psum(y, "i") * x, in_axes=(0, None))(X, X),
    "mean, max, min": lambda q, n, l: mapped(q, lambda x: (l.pmean(x, "i"), l.pmax(x, "i"), l.pmin(x, "i")))(X),
    "axis_index": lambda q, n, l: mapped(q, lambda x: l.axis_index("i") * x)(X),
    "axis_size": lambda q, n, l: mapped(q, lambda x: l.axis_size("i") * x)(X),
    "two axes": lambda q, n, l: q.vmap(
        q.vmap(lambda x: (l.psum(x, ("i", "j")), l.axis_index(("i", "j"))), axis_name="j"), axis_name="i"
    )(W),
    "inner axis": lambda q, n, l: q.vmap(q.vmap(lambda x: l.psum(x, "j"), axis_name="j"), axis_name="i")(W),
    "outer axis": lambda q, n, l: q.vmap(q.vmap(lambda x: l.psum(x, "i"), axis_name="j"), axis_name="i")(W),
    "all_gather": lambda q, n, l: mapped(q, lambda x: l.all_gather(x, "i"))(X),
    "all_gather axis": lambda q, n, l: mapped(q, lambda x: l.all_gather(x, "i", axis=1))(W),
    "all_gather tiled": lambda q, n, l: mapped(q, lambda x: l.all_gather(x, "i", axis=0, tiled=True))(W),
    "all_to_all": lambda q, n, l: mapped(q, lambda x: l.all_to_all(x, "i", 0, 0))(SQUARE),
    "all_to_all axes": lambda q, n, l: mapped(q, lambda x: l.all_to_all(x, "i", 1, 0))(np.arange(18.0).reshape(3, 2, 3)),
    "all_to_all tiled": lambda q, n, l: mapped(q, lambda x: l.all_to_all(x, "i", 0, 1, tiled=True))(SIX),
    "ppermute": lambda q, n, l: mapped(q, lambda x: l.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]))(X),
    "pshuffle": lambda q, n, l: mapped(q, lambda x: l.pshuffle(x, "i", [2, 0, 1]))(X),
    "pswapaxes": lambda q, n, l: mapped(q, lambda x: l.pswapaxes(x, "i", 0))(SQUARE),
    "psum_scatter": lambda q, n, l: mapped(q, lambda x: l.psum_scatter(x, "i"))(SQUARE),
    "psum_scatter tiled": lambda q, n, l: mapped(q, lambda x: l.psum_scatter(x, "i", tiled=True))(SIX),
    "in jit": lambda q, n, l: q.jit(mapped(q, q.jit(lambda x: l.psum(x, "i") * x)))(X),
    "in scan": lambda q, n, l: mapped(q, lambda x: l.scan(lambda c, _: (l.psum(c, "i") * 0.1 + c, c), x, None, length=2))(X),
    "in cond": lambda q, n, l: mapped(q, lambda x, p: l.cond(p, lambda y: l.psum(y, "i"), lambda y: y, x), in_axes=(0, None))(X, True),
    "grad inside": lambda q, n, l: mapped(q, q.grad(lambda x: l.psum(x * x, "i")))(X),
    "grad outside": lambda q, n, l: q.grad(lambda x: mapped(q, lambda a: a / l.psum(a * a, "i"))(x)[0])(X),
    "grad of all_gather": lambda q, n, l: q.grad(lambda x: mapped(q, lambda x: (l.all_gather(x, "i") * x).sum())(x)[1])(X),
    "grad of ppermute": lambda q, n, l: q.grad(lambda x: (mapped(q, lambda x: l.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]))(x) * X).sum())(X),
    "grad of all_to_all": lambda q, n, l: q.grad(lambda x: (mapped(q, lambda x: l.all_to_all(x, "i", 0, 0))(x) * SQUARE).sum())(SQUARE),
    "grad of psum_scatter": lambda q, n, l: q.grad(lambda x: (mapped(q, lambda x: l.psum_scatter(x, "i"))(x) ** 2).sum())(SQUARE),
    "normalise and differentiate": lambda q, n, l: mapped(
        q, q.grad(lambda w, x: ((x - l.pmean(x * w, "i")) ** 2)), in_axes=(None, 0)
    )(0.5, X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def test_incomplete_permutation_gives_zeros() -> None:
    out = mapped(quire, lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]))(X)
    np.testing.assert_array_equal(out, [0.0, 0.5, -1.0])


def test_errors() -> None:
    with pytest.raises(NameError, match=r"unbound axis name: 'i'; the axes in scope are none"):
        lax.psum(X, "i")
    with pytest.raises(NameError, match=r"unbound axis name: 'j'; the axes in scope are 'i'.*axis_name='j'"):
        mapped(quire, lambda x: lax.psum(x, "j"))(X)
    with pytest.raises(ValueError, match="each destination must occur once"):
        mapped(quire, lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]))(X)
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        mapped(quire, lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1, 2]]))(X)
    with pytest.raises(quire.errors.TracerBoolConversionError):
        mapped(quire, lambda x: x if lax.axis_index("i") == 0 else -x)(X)

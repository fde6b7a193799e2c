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

GRID = np.sin(np.arange(2 * 3 * 12 * 2.0)).reshape(2, 3, 12, 2).astype(np.float32)
NAMES = ("i", "j")
ROUND = [(i, (5 * i + 2) % 6) for i in range(6)]


def with_gradient(f: Any, x: Any) -> list[np.ndarray[Any, Any]]:
    weights = np.cos(np.arange(quire.eval_shape(f, x).size)).astype(np.float32)
    return [np.asarray(f(x)), np.asarray(quire.grad(lambda x: (f(x).ravel() * weights).sum())(x))]


OVER_SEVERAL: dict[str, Any] = {
    "psum": lambda x, a: lax.psum(x * x, a) * x,
    "all_gather": lambda x, a: lax.all_gather(x, a),
    "all_gather tiled": lambda x, a: lax.all_gather(x, a, axis=1, tiled=True) ** 2,
    "all_gather last": lambda x, a: lax.all_gather(x, a, axis=-1),
    "psum_scatter": lambda x, a: lax.psum_scatter(x[:6], a),
    "psum_scatter tiled": lambda x, a: lax.psum_scatter(x, a, tiled=True),
    "all_to_all": lambda x, a: lax.all_to_all(x[:6], a, 0, 1),
    "all_to_all tiled": lambda x, a: lax.all_to_all(x, a, 0, 1, tiled=True),
    "ppermute": lambda x, a: lax.ppermute(x, a, ROUND),
    "some ppermute": lambda x, a: lax.ppermute(x, a, ROUND[:4]),
    "pbroadcast": lambda x, a: x * lax.pbroadcast(x, a, 4),
    "axis_index": lambda x, a: x * lax.axis_index(a),
}


@pytest.mark.parametrize("name", OVER_SEVERAL)
def test_several_axes_are_one(name: str) -> None:
    """JAX maps no tuple of axes but that of a reduction: one axis of as many slices says what is right."""
    f = OVER_SEVERAL[name]

    def twice(names: Any) -> Any:
        return quire.vmap(quire.vmap(lambda x: f(x, names), axis_name="j"), axis_name="i")

    flat = GRID.reshape(6, 12, 2)
    want = with_gradient(quire.vmap(lambda x: f(x, "k"), axis_name="k"), flat)
    got = with_gradient(lambda x: twice(NAMES)(x.reshape(GRID.shape)).reshape(6, *want[0].shape[1:]), flat)
    turned = with_gradient(
        lambda x: twice(("j", "i"))(x.reshape(3, 2, 12, 2).swapaxes(0, 1)).swapaxes(0, 1).reshape(want[0].shape), flat
    )
    for w, g, t in zip(want, got, turned):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(t, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def test_incomplete_permutation_gives_zeros() -> None:
    out = mapped(quire, lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]))(X)
    np.testing.assert_array_equal(out, [0.0, 0.5, -1.0])


def test_groups() -> None:
    """JAX maps none of these; its meaning of groups is that of pmap."""
    x = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    groups = [[0, 3], [2, 1]]

    def got(f: Any) -> np.ndarray[Any, Any]:
        return np.asarray(quire.vmap(f, axis_name="i")(x))

    a, b = x[0] + x[3], x[2] + x[1]
    np.testing.assert_array_equal(got(lambda v: lax.psum(v, "i", axis_index_groups=groups)), [a, b, b, a])
    np.testing.assert_array_equal(
        got(lambda v: lax.pmean(v, "i", axis_index_groups=groups)), np.array([a, b, b, a]) / 2
    )
    np.testing.assert_array_equal(
        got(lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1, 3], [2]])), [a + x[1], a + x[1], x[2], a + x[1]]
    )
    np.testing.assert_array_equal(got(lambda v: lax.pmax(v, "i", axis_index_groups=groups)), [x[3], x[2], x[2], x[3]])
    gathered = got(lambda v: lax.all_gather(v, "i", axis_index_groups=groups))
    np.testing.assert_array_equal(gathered, [x[[0, 3]], x[[2, 1]], x[[2, 1]], x[[0, 3]]])
    scattered = got(lambda v: lax.psum_scatter(v, "i", axis_index_groups=groups, tiled=True))
    np.testing.assert_array_equal(scattered, [a[:2], b[2:], b[:2], a[2:]])
    exchanged = got(lambda v: lax.all_to_all(v, "i", 0, 0, axis_index_groups=groups, tiled=True))
    np.testing.assert_array_equal(exchanged[0], [*x[0, :2], *x[3, :2]])
    np.testing.assert_array_equal(exchanged[1], [*x[2, 2:], *x[1, 2:]])


def test_a_function_is_traced_for_each_size_of_an_axis() -> None:
    f = quire.jit(lambda x: lax.all_gather(x, "i").sum(0) + lax.axis_size("i"))
    assert quire.vmap(f, axis_name="i")(X).tolist() == [4.5] * 3
    assert quire.vmap(f, axis_name="i")(X[:2]).tolist() == [1.5] * 2
    with pytest.raises(NameError, match="unbound axis name"):
        f(X)


def test_errors() -> None:
    with pytest.raises(NameError, match=r"unbound axis name: 'i'; the axes in scope are none"):
        lax.psum(X, "i")
    with pytest.raises(NameError, match=r"unbound axis name: 'j'; the axes in scope are 'i'.*axis_name='j'"):
        mapped(quire, lambda x: lax.psum(x, "j"))(X)
    with pytest.raises(ValueError, match="each destination must occur once"):
        mapped(quire, lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]))(X)
    with pytest.raises(ValueError, match="must cover all indices exactly once"):
        mapped(quire, lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]))(X)
    with pytest.raises(ValueError, match="must have the same size"):
        mapped(quire, lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 1], [2]]))(X)
    with pytest.raises(ValueError, match=r"source must lie in \[0, 3\)"):
        mapped(quire, lambda x: lax.pbroadcast(x, "i", 3))(X)
    with pytest.raises(quire.errors.TracerBoolConversionError):
        mapped(quire, lambda x: x if lax.axis_index("i") == 0 else -x)(X)

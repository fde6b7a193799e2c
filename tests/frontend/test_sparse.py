"""Sparse arrays: BCOO against JAX's."""

from __future__ import annotations

import numpy as np
import pytest
from jax.experimental import sparse as jax_sparse

import quire
import quire.numpy as qnp
from quire.experimental import sparse

M = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 4]], np.float32)
X, Y = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(6, dtype=np.float32).reshape(2, 3)


def test_products_sums_and_forms_are_those_of_jax() -> None:
    ours, theirs = sparse.BCOO.fromdense(M), jax_sparse.BCOO.fromdense(M)
    assert ours.nse == theirs.nse and ours.shape == theirs.shape and ours.n_sparse == theirs.n_sparse
    assert np.array_equal(ours.data, theirs.data) and np.array_equal(ours.indices, theirs.indices)
    for f in (
        lambda m: m @ X, lambda m: m @ X[:, 0], lambda m: m.T @ Y.T, lambda m: m.T.todense(), lambda m: (m * 3).todense(),
        lambda m: m.sum(), lambda m: (m * M).todense(), lambda m: (m + m).sum_duplicates().todense(),
    ):  # fmt: skip
        got, want = f(ours), f(theirs)
        assert np.allclose(got, want.todense() if hasattr(want, "todense") else want)
    assert np.allclose(qnp.asarray(Y) @ ours, Y @ M)
    padded = sparse.BCOO.fromdense(M, nse=6)
    assert padded.nse == 6 and np.array_equal(padded.todense(), M) and np.allclose(padded @ X, M @ X)
    assert np.array_equal(sparse.eye(3, 4, 1).todense(), np.eye(3, 4, 1, dtype=np.float32))
    assert np.array_equal(sparse.empty((2, 3)).todense(), np.zeros((2, 3)))
    rows = sparse.BCOO.fromdense(M, n_dense=1)
    assert rows.n_dense == 1 and np.array_equal(rows.todense(), M)


def test_they_are_traced_differentiated_and_mapped() -> None:
    m = sparse.BCOO.fromdense(M)

    def loss(m: sparse.BCOO, x: quire.Array) -> quire.Array:
        return (m @ x).sum() ** 2

    found = quire.jit(quire.grad(lambda data: loss(sparse.BCOO((data, m.indices), shape=m.shape), X)))(m.data)
    assert np.allclose(found, 2 * (M @ X).sum() * X.sum(1)[np.asarray(m.indices)[:, 1]])
    assert np.allclose(quire.vmap(lambda x: m @ x, 1, 1)(X), M @ X)
    assert np.allclose(sparse.sparsify(qnp.sin)(m), np.sin(M))
    traced = quire.jit(lambda a: sparse.BCOO.fromdense(a, nse=4) @ X)(M)
    assert np.allclose(traced, M @ X)


T = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5
PARTS = (
    0, -1, (0, 1), slice(1, 3), (slice(None), 1), (slice(None, None, 2), slice(None, None, -1)), None, ..., (..., None),
    (1, slice(1, None)), (None, 1), (slice(None), None, 2), (slice(None, None, -2), slice(3, 0, -2)), slice(2, 1), (..., 1),
)  # fmt: skip


@pytest.mark.parametrize("n_dense", [0, 1])
@pytest.mark.parametrize("whole", [M, T], ids=["matrix", "three dimensions"])
def test_sums_along_axes_and_parts_are_sparse(whole: np.ndarray, n_dense: int) -> None:
    m = sparse.BCOO.fromdense(whole, nse=whole.size, n_dense=n_dense)
    for axis in (0, 1, -1, (), (0, -1) if whole.ndim > 2 else 0):
        found = m.sum(axis)
        assert isinstance(found, sparse.BCOO) and np.array_equal(found.todense(), whole.sum(axis)), axis
    assert np.array_equal(m.sum(tuple(range(whole.ndim))), whole.sum())
    for index in PARTS:
        found, want = m[index], whole[index]
        assert isinstance(found, sparse.BCOO) and found.shape == want.shape, index
        assert np.array_equal(found.todense(), want), index
    assert np.array_equal(m[np.array([1, 0])], whole[[1, 0]])

    def rest(data: quire.Array) -> quire.Array:
        return (sparse.BCOO((data, m.indices), shape=m.shape)[1:, ::-2].todense() ** 2).sum()

    places = tuple(np.asarray(m.indices).T)
    twice = np.zeros(whole.shape, np.float32)
    twice[1:, ::-2] = 2 * whole[1:, ::-2]
    inside = np.asarray(m.indices)[:, 0] < whole.shape[0]
    found = np.asarray(quire.jit(quire.grad(rest))(m.data))
    assert np.allclose(found[inside], twice[tuple(p[inside] for p in places)]) and not found[~inside].any()
    with pytest.raises(IndexError, match="index 9 is outside of dimension 0"):
        m[9]
    with pytest.raises(ValueError, match="axis 3 of an array"):
        m.sum(3)


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="no batch dimensions"):
        sparse.BCOO((np.zeros((2, 3)), np.zeros((2, 3, 1), np.int32)), shape=(2, 4))
    with pytest.raises(ValueError, match=r"data of shape \(2,\), expected \(3,\)"):
        sparse.BCOO((np.zeros(2), np.zeros((3, 2), np.int32)), shape=(4, 4))
    with pytest.raises(ValueError, match=r"times one of shape \(3,\)"):
        sparse.BCOO.fromdense(M) @ np.zeros(3)
    with pytest.raises(AttributeError, match="BCSR"):
        sparse.BCSR  # noqa: B018

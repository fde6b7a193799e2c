"""The other forms of sparse arrays, their making, and linear equations, beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse

import quire
import quire.numpy as qnp
from quire.experimental import sparse
from quire.test_util import check_grads

from .test_sparse import M, same

X, Y = np.arange(4, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
FORMS = ("BCSR", "COO", "CSR", "CSC")


def alike(got: Any, want: Any) -> None:
    """The same form with the same buffers."""
    assert type(got).__name__ == type(want).__name__ and got.shape == want.shape and got.nse == want.nse
    for g, w in zip(quire.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_that_of_jax(form: str) -> None:
    ours, theirs = getattr(sparse, form), getattr(jax_sparse, form)
    for nse in (None, 6):
        m = ours.fromdense(M, nse=nse)
        alike(m, theirs.fromdense(M, nse=nse))
        assert repr(m) == repr(theirs.fromdense(M, nse=nse)) and len(m) == 3
        assert np.array_equal(m.todense(), M) and np.allclose(m @ X, M @ X) and np.allclose(m @ Y, M @ Y)
        again = quire.jit(lambda m, x: (m, m @ x))(m, X)
        alike(again[0], theirs.fromdense(M, nse=nse))
        assert np.allclose(again[1], M @ X)
    if form != "BCSR":
        assert np.array_equal(m.T.todense(), M.T)
        for n, k in ((3, 1), (4, -2)):
            alike(sparse.eye(n, 4, k, sparse_format=form.lower()), jax_sparse.eye(n, 4, k, sparse_format=form.lower()))
    alike(sparse.empty((2, 3), sparse_format=form.lower()), jax_sparse.empty((2, 3), sparse_format=form.lower()))
    with pytest.raises(NotImplementedError, match=f"{form}.__neg__ is not implemented"):
        print(-m)
    with pytest.raises(NotImplementedError, match=f"{form}.sum is not implemented"):
        m.sum()


def test_bcsr_with_batches_and_dense_dimensions() -> None:
    whole = np.stack([M, 2 * M])
    for options in ({"n_batch": 1}, {"n_dense": 1}):
        m, theirs = (s.BCSR.fromdense(whole, **options) for s in (sparse, jax_sparse))
        alike(m, theirs)
        alike(m.to_bcoo(), theirs.to_bcoo())
        alike(sparse.BCSR.from_bcoo(m.to_bcoo()), theirs)
        data = sparse.bcsr_extract(m.indices, m.indptr, whole)
        assert np.array_equal(data, m.data)
    m, theirs = (s.BCSR.fromdense(whole, n_batch=1) for s in (sparse, jax_sparse))
    assert np.allclose(m @ X, whole @ X) and np.allclose(quire.vmap(lambda m: m @ X)(m), whole @ X)
    alike(m[None], theirs[None])
    alike(sparse.bcsr_concatenate([m, m], dimension=0), jax_sparse.bcsr_concatenate([theirs, theirs], dimension=0))
    twice = sparse.BCSR.fromdense(M).to_bcoo()
    twice = sparse.BCSR.from_bcoo(twice + twice)
    assert twice.nse == 8 and twice.sum_duplicates().nse == 4
    assert np.array_equal(sparse.bcsr_sum_duplicates(twice, nse=5).todense(), 2 * M)
    square = sparse.BCSR((np.array([1.0, 2, 3, 4], np.float32), np.arange(4), np.array([0, 1, 3, 3])), shape=(3, 4))
    assert np.array_equal(square @ np.ones(4, np.float32), [1, 5, 0])  # the last element is in no row


def test_matrices_of_scipy_random_ones_and_their_forms() -> None:
    for make in (scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
        for ours, theirs in ((sparse.BCOO, jax_sparse.BCOO), (sparse.BCSR, jax_sparse.BCSR)):
            alike(ours.from_scipy_sparse(make(M)), theirs.from_scipy_sparse(make(M)))
    for options in ({}, {"n_dense": 1, "nse": 2}, {"unique_indices": False}, {"sorted_indices": True}):
        ours = sparse.random_bcoo(quire.random.PRNGKey(3), (3, 4, 5), dtype=np.float32, **options)
        same(ours, jax_sparse.random_bcoo(jax.random.PRNGKey(3), (3, 4, 5), dtype=np.float32, **options))
    for options in ({}, {"n_batch": 1}, {"n_dense": 1}, {"n_batch": 2}):
        same(sparse.eye(3, 4, 1, **options), jax_sparse.eye(3, 4, 1, **options))
        same(sparse.empty((2, 3), nse=1, **options), jax_sparse.empty((2, 3), nse=1, **options))


def test_derivatives_of_the_functions_and_linear_equations() -> None:
    a = M[:, [1, 0, 3]] + np.eye(3, dtype=np.float32)
    m = sparse.CSR.fromdense(a)
    b = np.array([1.0, 2, 3], np.float32)

    def solve(data: Any, b: Any) -> Any:
        return sparse.linalg.spsolve(data, m.indices, m.indptr, b)

    x = np.linalg.solve(a, b)
    assert np.allclose(solve(m.data, b), x, atol=1e-5)
    check_grads(solve, (m.data, b), order=1, rtol=0.05, atol=0.05)
    row = np.asarray(sparse.BCSR.fromdense(a).to_bcoo().indices)[:, 0]

    def loss(data: Any, v: Any) -> Any:
        mats = (
            sparse.CSR((data, m.indices, m.indptr), shape=(3, 3)),
            sparse.COO((data, row, m.indices), shape=(3, 3)),
            sparse.BCSR((data, m.indices, m.indptr), shape=(3, 3)),
        )
        return qnp.stack([(mat @ v).dot(b) for mat in mats] + [sparse.csr_matvec(mats[0], v, transpose=True).dot(b)])

    of_data, of_v = quire.jit(quire.jacrev(loss, (0, 1)))(m.data, x.astype(np.float32))
    assert np.allclose(of_data[:3], b[row] * x[np.asarray(m.indices)], atol=1e-4)
    assert np.allclose(of_v[0], b @ a, atol=1e-4) and np.allclose(of_v[3], a @ b, atol=1e-4)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: sparse.empty((2, 3), sparse_format="no"), ValueError, "sparse_format='no' not recognized"),
    (lambda: sparse.empty((2, 3, 4), sparse_format="csr"), ValueError, "CSR must have ndim=2"),
    (lambda: sparse.CSR.fromdense(X), ValueError, "CSR must have ndim=2"),
    (lambda: sparse.BCSR.fromdense(X), ValueError, "must have 2 sparse dimensions"),
    (lambda: sparse.BCSR((X, np.arange(4), np.arange(4)), shape=(2, 4)), ValueError, "the buffers do not fit"),
    (lambda: sparse.BCSR.from_bcoo(sparse.BCOO.fromdense(X)), NotImplementedError, "requires n_sparse=2"),
    (lambda: sparse.CSR.fromdense(M).transpose((0, 1)), NotImplementedError, "axes argument"),
    (lambda: sparse.COO.fromdense(M) @ X[:3], TypeError, "expected 4 rows"),
    (lambda: sparse.COO.fromdense(M) @ np.ones((2, 4, 3), np.float32), NotImplementedError, "matmul with object of shape"),
    (lambda: sparse.COO.fromdense(M) @ sparse.COO.fromdense(M), NotImplementedError, "two sparse objects"),
    (lambda: sparse.sparsify(lambda x: x)(sparse.COO.fromdense(M)), NotImplementedError, "arrays of type COO"),
    (lambda: sparse.random_bcoo(quire.random.PRNGKey(0), (3,), nse=9), ValueError, "nse=9 of 3 places"),
    (lambda: sparse.linalg.spsolve(X, X, np.arange(4), X), ValueError, "3 rows for b"),
    (lambda: sparse.linalg.spsolve(X, np.arange(4), np.arange(5), np.arange(4)), TypeError, "data types do not match"),
    (lambda: quire.jit(lambda x: sparse.CSR.fromdense(x).data)(M), quire.errors.ConcretizationTypeError, "nse argument"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_what_is_wrong_is_said(case: int) -> None:
    f, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        f()

"""`sparsify`, and derivatives with respect to sparse arrays, beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import sparse as jax_sparse

import quire
import quire.numpy as qnp
from quire.experimental import sparse
from quire.experimental.sparse.transform import SparsifyEnv, arrays_to_spvalues, sparsify_raw, spvalues_to_arrays

from .test_sparse import M, same

X = np.arange(4, dtype=np.float32)


def cases(j: Any, np_: Any) -> dict[str, Callable[..., Any]]:
    """Programs of a sparse matrix, for either package."""
    square = j.custom_jvp(lambda x: x**2)
    square.defjvp(lambda p, t: (p[0] ** 2, 2 * t[0] * p[0]))
    return {
        "elementwise": lambda m: np_.tanh(np_.sin(-2 * m)) + abs(m) * m,
        "shared places": lambda m: m - 3 * m,
        "product": lambda m: (np_.sqrt(m).T @ np.ones(3, np.float32), m @ m.T),
        "sums": lambda m: (m.sum(), m.sum(0), m.mean(1)),
        "stack": lambda m: np_.vstack([m, m[:1]]),
        "reshape": lambda m: m.reshape(2, 6)[:, None, ::2],
        "jit": lambda m: j.jit(lambda x: (x * 2, x / 4))(m)[1],
        "cond": lambda m: j.lax.cond(m.sum() > 0, lambda x: x, lambda x: 2 * x, m),
        "while": lambda m: j.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 2 * c[1]), (0, m))[1],
        "custom rule": lambda m: square(m),
        "gradient": lambda m: j.grad(lambda x: np_.sum(x**2))(m),
    }


@pytest.mark.parametrize("use_tracer", [False, True])
@pytest.mark.parametrize("name", cases(quire, qnp))
def test_programs_stay_sparse_as_in_jax(name: str, use_tracer: bool) -> None:
    ours, theirs = cases(quire, qnp)[name], cases(jax, jax.numpy)[name]
    want = jax_sparse.sparsify(theirs)(jax_sparse.BCOO.fromdense(M))
    got = sparse.sparsify(ours, use_tracer)(sparse.BCOO.fromdense(M))
    for g, w in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        if isinstance(w, jax_sparse.BCOO):
            assert isinstance(g, sparse.BCOO) and g.nse == w.nse
        np.testing.assert_allclose(sparse.todense(g), jax_sparse.todense(w), rtol=1e-5)


def test_it_is_compiled_and_sees_what_shares_places() -> None:
    m = sparse.BCOO.fromdense(M)
    f = quire.jit(sparse.sparsify(lambda m, x: ((qnp.sin(m) * 2).T @ x, sparse.todense(m) + 1)))
    product, whole = f(m, np.ones(3, np.float32))
    assert np.allclose(product, (2 * np.sin(M)).sum(0)) and np.array_equal(whole, M + 1)
    env = SparsifyEnv([m.indices, m.data, 2 * m.data])
    a, b = (env.sparse(m.shape, data_ref=i, indices_ref=0, unique_indices=True) for i in (1, 2))
    for op, want in ((lambda x, y: x + y, 3 * M), (lambda x, y: x * y, 2 * M * M)):
        values, _ = sparsify_raw(op)(env, a, b)
        (out,) = spvalues_to_arrays(env, values)
        assert out.nse == m.nse and np.array_equal(out.todense(), want)
    halves = sparse.sparsify(lambda m: quire.lax.scan(lambda c, x: (c * 0.5, (c @ X).sum() + x), m, X))
    last, sums = halves(m)  # JAX has no sparse carries
    assert np.allclose(last.todense(), M / 16) and np.allclose(sums, (M @ X).sum() * 0.5**X + X)
    values = arrays_to_spvalues(SparsifyEnv(), (X, m))
    assert values[0].is_dense() and values[1].is_bcoo() and values[1].unique_indices
    sparse.sparsify(lambda x: isinstance(x, sparse.SparseTracer) or pytest.fail("no tracer"), use_tracer=True)(X)


ERRORS: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (quire.lax.cos, NotImplementedError, r"^sparse rule for cos is not implemented because it would result in dense output\."),
    (lambda m: quire.lax.complex(m, m), NotImplementedError, r"^sparse rule for complex is not implemented\.$"),
    (lambda m: qnp.concatenate([m, M]), NotImplementedError, "Concatenation of sparse and dense arrays"),
    (lambda m: quire.lax.scan(lambda c, x: (c, x), 0.0, m), NotImplementedError, "scanned over"),
    (lambda m: quire.lax.scan(lambda c, x: (c, m), 0.0, X), NotImplementedError, "scan is not implemented for sparse outputs"),
    (lambda m: quire.lax.cond(True, lambda x, y: x, lambda x, y: y, m, qnp.ones((3, 4))), TypeError, "same type structure"),
    (lambda m: quire.lax.fori_loop(0, 2, lambda i, x: qnp.concatenate([x, x])[:3], m), TypeError, "carry of the types"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_what_would_be_dense_is_refused(case: int) -> None:
    f, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        sparse.sparsify(f)(sparse.BCOO.fromdense(M))


UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 "
    "floor is_finite lgamma log log1p logistic neg rsqrt sign sin sinh sqrt square tan tanh"
).split()


def test_functions_that_keep_zeros_are_applied_and_others_refused() -> None:
    m = sparse.BCOO(([0.25, 0.5, 0.125], np.array([[0, 1], [2, 2], [2, 2]])), shape=(3, 4))  # of one place, two
    for name in UNARY:
        f = getattr(quire.lax, name)
        want = f(m.todense())
        try:
            got = sparse.sparsify(f)(m)
        except NotImplementedError as error:
            assert str(error).startswith(f"sparse rule for {name} is not implemented because it would"), error
            assert want[0, 0] != 0, name
        else:
            assert want[0, 0] == 0, name
            np.testing.assert_allclose(got.todense(), want, rtol=1e-6, err_msg=name)


def test_derivatives_have_the_places_of_the_array() -> None:
    m, theirs = sparse.BCOO.fromdense(M), jax_sparse.BCOO.fromdense(M)
    for name in ("grad", "value_and_grad"):
        for argnums in (0, (0, 1)):
            got = getattr(sparse, name)(lambda m, x: ((m @ x) ** 2).sum(), argnums)(m, X)
            want = getattr(jax_sparse, name)(lambda m, x: ((m @ x) ** 2).sum(), argnums)(theirs, X)
            for g, w in zip(quire.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-5)
    for name in ("jacfwd", "jacrev"):
        got, aux = getattr(sparse, name)(lambda m: (m @ X, 3), has_aux=True)(m)
        same(got, getattr(jax_sparse, name)(lambda m: m @ X)(theirs))
        assert aux == 3 and got.shape == (3, 3, 4)
    of_rows = sparse.grad(lambda m: (m @ X).sum())(sparse.BCSR.fromdense(M))
    assert isinstance(of_rows, sparse.BCSR) and np.array_equal(of_rows.data, X[np.asarray(of_rows.indices)])
    with pytest.raises(ValueError, match="argnums=3"):
        sparse.grad(lambda m: m.sum(), 3)(m)
    with pytest.raises(NotImplementedError, match="whose result is no array"):
        sparse.jacrev(lambda m: (m @ X, m.data))(m)

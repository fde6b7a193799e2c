"""quire.scipy.linalg and quire.scipy.sparse.linalg against SciPy: values, derivatives, batches, errors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.linalg

import quire
import quire.numpy as qnp
from quire.ir.config import config
from quire.scipy import linalg as sl
from quire.scipy.sparse import linalg as iterative
from quire.test_util import check_grads

from .test_numpy_linalg import DTYPES, definite, normal, same


def test_names_and_signatures_are_jax_s():
    jax_linalg, jax_iterative = (pytest.importorskip(f"jax.scipy.{m}linalg") for m in ("", "sparse."))
    for ours, theirs in ((sl, jax_linalg), (iterative, jax_iterative)):
        for name in (n for n in dir(theirs) if not n.startswith("_")):
            mine, his = (inspect.signature(getattr(m, name)).parameters.values() for m in (ours, theirs))
            assert [(p.name, p.kind) for p in mine] == [(p.name, p.kind) for p in his], name


STRUCTURED = [
    *[(n, (k,), {}) for n in ("hilbert", "invhilbert", "pascal", "invpascal", "dft", "helmert", "hadamard") for k in (1, 4)],
    *[(n, (5,), {"kind": k}) for n in ("pascal", "invpascal") for k in ("lower", "upper")], ("hilbert", (0,), {}),
    ("helmert", (3,), {"full": True}), ("dft", (5,), {"scale": "sqrtn"}), ("dft", (5,), {"scale": "n"}), ("hadamard", (8,), {}),
    *[(n, (normal(k),), {}) for n in ("circulant", "fiedler", "toeplitz", "hankel", "companion", "fiedler_companion") for k in (2, 3, 6)],
    ("toeplitz", (normal(3), normal(5)), {}), ("hankel", (normal(3), normal(5)), {}), ("toeplitz", (normal(3, dtype="complex64"),), {}),
    ("leslie", (normal(3), normal(2)), {}), ("block_diag", (normal(2, 3), normal(2), np.float32(2)), {}),
    *[("convolution_matrix", (normal(m), n, k), {}) for k in ("full", "same", "valid") for m, n in ((3, 4), (4, 3), (5, 2))],
]  # fmt: skip


def test_structured_matrices():
    for name, args, keywords in STRUCTURED:
        same(getattr(sl, name)(*args, **keywords), getattr(scipy.linalg, name)(*args, **keywords), tol=1e-5)
    for name in ("circulant", "fiedler", "toeplitz", "hankel", "companion", "fiedler_companion"):
        rows = normal(2, 4)
        same(getattr(sl, name)(rows), np.stack([getattr(scipy.linalg, name)(r) for r in rows]), tol=1e-5)
    assert sl.hadamard(2).dtype == sl.toeplitz(np.arange(3)).dtype == np.int32


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions(dtype):
    a, p = normal(4, 4, dtype=dtype) + 2 * np.eye(4, dtype=dtype), definite(4, 4, dtype=dtype)
    for b in (normal(4, dtype=dtype), normal(4, 3, dtype=dtype)):
        same(sl.solve(a, b), scipy.linalg.solve(a, b))
        for lower in (False, True):
            same(sl.solve(p, b, lower=lower, assume_a="pos"), scipy.linalg.solve(p, b))
            same(sl.cho_solve(sl.cho_factor(p, lower), b), scipy.linalg.solve(p, b))
            same(sl.cholesky(p, lower), scipy.linalg.cholesky(p, lower))
            for trans in (0, 1, "C"):
                same(
                    sl.solve_triangular(a, b, trans, lower), scipy.linalg.solve_triangular(a, b, trans, lower), tol=2e-3
                )
        for trans in (0, 1, 2):
            want = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)
            same(sl.lu_solve(sl.lu_factor(a), b, trans), want)
    many = np.stack([p, 2 * p])
    b = normal(2, 4, dtype=dtype)
    same(sl.cho_solve((sl.cholesky(many), False), b), np.linalg.solve(many, b[..., None])[..., 0])
    same(sl.det(a), np.linalg.det(a), tol=1e-3)
    same(sl.inv(a), np.linalg.inv(a), tol=1e-3)
    for method in ("schur", "eigen"):
        same(sl.solve_sylvester(p, p.T, a, method=method), scipy.linalg.solve_sylvester(p, p.T, a))
    same(sl.solve_sylvester(many, many, np.stack([a, a]))[1], scipy.linalg.solve_sylvester(2 * p, 2 * p, a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_decompositions(dtype):
    a, p = normal(4, 4, dtype=dtype), definite(4, 4, dtype=dtype)
    for x in (a, a[:3], a[:, :3]):
        same(sl.lu(x), scipy.linalg.lu(x))
        same(sl.lu(x, permute_l=True), scipy.linalg.lu(x, permute_l=True))
        for side in ("right", "left"):
            same(sl.polar(x, side, method="svd"), scipy.linalg.polar(x, side), tol=1e-3)
        for mode in ("full", "r", "economic"):
            same(sl.qr(x, mode=mode, pivoting=True), scipy.linalg.qr(x, mode=mode, pivoting=True))
    same(sl.polar(a[:, :3]), scipy.linalg.polar(a[:, :3]), tol=1e-3)
    same(sl.polar(a[:3], "left"), scipy.linalg.polar(a[:3], "left"), tol=1e-3)
    for mode, c in (("right", a), ("left", a[:3]), ("right", a[0]), ("left", a[0, :3])):
        same(
            sl.qr_multiply(a[:, :3], c, mode, conjugate=True),
            scipy.linalg.qr_multiply(a[:, :3], c, mode, conjugate=True),
        )
    same(sl.hessenberg(a, calc_q=True), scipy.linalg.hessenberg(a, calc_q=True))
    for kind in (1, 2, 3):
        w, v = (np.asarray(x) for x in sl.eigh(a + a.conj().T, p, type=kind))
        h = a + a.conj().T
        left, right = {1: (h @ v, p @ v), 2: (h @ p @ v, v), 3: (p @ h @ v, v)}[kind]
        same(left, right * w, tol=2e-3)
        same(
            sl.eigh(h, p, type=kind, eigvals_only=True), scipy.linalg.eigh(h, p, type=kind, eigvals_only=True), tol=1e-3
        )
    same(sl.eigh(p, lower=False, eigvals_only=True), np.linalg.eigvalsh(p))
    t, z = (np.asarray(x) for x in sl.schur(a, "complex"))
    same(z @ t @ z.conj().T, a)
    same(np.tril(t, -1), 0 * t)
    t, z = sl.rsf2csf(*scipy.linalg.schur(a.real))
    same(np.asarray(z) @ np.asarray(t) @ np.asarray(z).conj().T, a.real)
    same(np.tril(t, -1), 0 * np.asarray(t))
    same(sl.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False))
    d, e = normal(5).astype(dtype), normal(4, dtype=dtype)
    full = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    w, v = (np.asarray(x) for x in sl.eigh_tridiagonal(d, e))
    same(full @ v, v * w)
    same(sl.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3)), np.linalg.eigvalsh(full)[1:4])


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_matrices(dtype):
    a, e = normal(4, 4, dtype=dtype), normal(4, 4, dtype=dtype)
    with config.override(enable_x64=True):
        wide = a.astype(np.result_type(dtype, "float64"))
        for x in (wide, 30 * wide, 0 * wide):
            same(
                sl.expm(x) / np.linalg.norm(scipy.linalg.expm(x)),
                scipy.linalg.expm(x) / np.linalg.norm(scipy.linalg.expm(x)),
                tol=1e-9,
            )
    same(sl.expm(np.stack([a, 5 * a])), scipy.linalg.expm(np.stack([a, 5 * a])), tol=2e-3)
    same(sl.expm(np.triu(a), upper_triangular=True), scipy.linalg.expm(np.triu(a)))
    assert np.isnan(sl.expm(1e6 * a)).all()
    same(sl.expm_frechet(a, e), scipy.linalg.expm_frechet(a.astype(wide.dtype), e.astype(wide.dtype)), tol=1e-3)
    same(sl.sqrtm(a), scipy.linalg.sqrtm(a), tol=1e-3)
    same(sl.sqrtm(np.diag([4.0, 0, 9]).astype(dtype)), np.diag([2, 0, 3]))
    root = np.asarray(sl.sqrtm(np.stack([a, 2 * a])))
    same(root @ root, np.stack([a, 2 * a]), tol=1e-3)
    same(sl.funm(a, qnp.sin), scipy.linalg.funm(a, np.sin), tol=1e-3)
    assert 0 < sl.funm(a, qnp.sin, disp=False)[1] < 1e-4


def test_derivatives():
    a, b, c = (normal(3, 3) + 3 * np.eye(3, dtype="float32") for _ in range(3))
    tol = {"rtol": 3e-2, "atol": 3e-2}
    check_grads(sl.expm, (a / 3,), 2, **tol)
    check_grads(sl.expm, (3 * b - 9 * np.eye(3, dtype="float32"),), 1, **tol)  # with squarings
    check_grads(lambda x: qnp.real(sl.sqrtm(x)), (a,), 1, **tol)
    check_grads(sl.solve_sylvester, (a, b, c), 1, **tol)
    check_grads(lambda x: sl.polar(x)[0], (a,), 1, **tol)
    check_grads(lambda x, y: sl.cho_solve((sl.cholesky(x @ x.T), False), y), (a, b[0]), 1, **tol)
    check_grads(lambda x, y: sl.lu_solve(sl.lu_factor(x), y, 1), (a, b), 1, **tol)
    check_grads(lambda x: sl.eigh(x + x.T, b @ b.T, eigvals_only=True), (a,), 1, **tol)
    check_grads(sl.toeplitz, (a[0], b[0]), 1, **tol)


@pytest.mark.parametrize("lower", [True, False])
def test_derivatives_are_of_the_triangle_that_is_read(lower):
    a, b = (normal(4, 4) for _ in range(2))
    b = b @ b.T + 4 * np.eye(4, dtype="float32")
    weights = np.array([1, 2, -1, 3], "float32")
    tol = {"rtol": 3e-2, "atol": 3e-2}
    for read in (
        lambda x: qnp.linalg.eigh(x, "L" if lower else "U", symmetrize_input=False)[0] * weights,
        lambda x: sl.eigh(x, eigvals_only=True, lower=lower) * weights,
        lambda x: sl.eigh(x, b, eigvals_only=True, lower=lower) * weights,
        lambda x: sl.eigh(a, b + x / 9, eigvals_only=True, lower=lower) * weights,
    ):
        check_grads(read, (a,), 1, **tol)


def test_derivatives_of_tridiagonal_matrices():
    weights, tol = np.array([1, 2, -1, 3], "float32"), {"rtol": 3e-2, "atol": 3e-2}
    d, e = np.array([1, 2, 4, 3], "float32"), np.array([0.5, 0.25, 0.7], "float32")
    check_grads(lambda d, e: sl.eigh_tridiagonal(d, e, eigvals_only=True) * weights, (d, e), 1, **tol)
    check_grads(lambda d, e: sl.eigh_tridiagonal(d, e)[1] ** 2 * weights, (d, e), 1, **tol)


def test_eigh_takes_the_mean_of_both_triangles_as_jax_does():
    a = np.array([[1, 2], [5, 3]], "float32")
    for lower in (True, False):
        same(sl.eigh(a, eigvals_only=True, lower=lower), np.linalg.eigvalsh((a + a.T) / 2))


def test_compiled_and_mapped():
    a = normal(2, 3, 3) + 3 * np.eye(3, dtype="float32")

    def everything(a):
        return [sl.expm(a), sl.sqrtm(a), sl.solve_sylvester(a, a, a), sl.lu(a)[0], sl.polar(a)[0], sl.toeplitz(a[0])]

    each = [everything(x) for x in a]
    got = quire.compile(quire.vmap(everything))(a)
    same(got, [np.stack(x) for x in zip(*each)], tol=1e-3)


def test_compiled_function_of_a_matrix():
    a = normal(2, 3, 3) + 3 * np.eye(3, dtype="float32")
    got = quire.compile(quire.vmap(lambda x: sl.funm(x, qnp.exp)))(a)
    same(got, np.stack([sl.funm(x, qnp.exp) for x in a]), tol=1e-3)


# -- iterative solutions ------------------------------------------------------------------------------------------------------------

METHODS = {
    "cg": (iterative.cg, {}), "bicgstab": (iterative.bicgstab, {}), "gmres": (iterative.gmres, {}),
    "gmres, restarted": (iterative.gmres, {"restart": 3}), "gmres, incremental": (iterative.gmres, {"solve_method": "incremental"}),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_iterative_solutions(name):
    method, keywords = METHODS[name]
    for dtype in DTYPES:
        a = definite(5, 5, dtype=dtype) if name == "cg" else normal(5, 5, dtype=dtype) + 4 * np.eye(5, dtype=dtype)
        b = normal(5, dtype=dtype)
        want = np.linalg.solve(a, b)
        for more in ({}, {"x0": b}, {"M": np.diag(1 / np.diag(a))}):
            x, info = method(a, b, tol=1e-6, **keywords, **more)
            same(x, want, tol=1e-3)
            assert info is None
    assert np.all(method(a, 0 * b)[0] == 0)


def test_iterative_solutions_of_trees_and_their_derivatives():
    p, g = definite(4, 4), normal(4, 4) + 4 * np.eye(4, dtype="float32")
    b = {"x": normal(3), "y": normal(1, 1)}

    def through(method, a, b, **more):
        def apply(v):
            out = a @ qnp.concatenate([v["x"], v["y"][0]])
            return {"x": out[:3], "y": out[3:][None]}

        x, _ = method(apply, b, tol=1e-7, **more)
        return qnp.concatenate([x["x"], x["y"][0]])

    def direct(a, b):
        return qnp.linalg.solve(a, qnp.concatenate([b["x"], b["y"][0]]))

    def loss(f):
        return lambda a, b: qnp.sum(f(a, b) ** 3)

    for method, a in ((iterative.cg, p), (iterative.bicgstab, g), (iterative.gmres, g)):
        got = quire.grad(loss(lambda a, b, m=method: through(m, (a + a.T) / 2 if m is iterative.cg else a, b)), (0, 1))(
            a, b
        )
        want = quire.grad(loss(lambda a, b, m=method: direct((a + a.T) / 2 if m is iterative.cg else a, b)), (0, 1))(
            a, b
        )
        same([got[0], *got[1].values()], [want[0], *want[1].values()], tol=1e-3)
    rows = normal(3, 4)
    mapped = quire.compile(quire.vmap(lambda r: iterative.cg(p, r, tol=1e-7)[0]))(rows)
    same(mapped, np.linalg.solve(p, rows.T).T, tol=1e-3)


def test_complex_and_preconditioned_derivatives():
    h, w, b = definite(4, 4, dtype="complex64"), normal(4, dtype="complex64"), normal(4, dtype="complex64")
    m = (np.linalg.inv(h) * 1.1).astype("complex64")

    def loss(solve):
        return lambda a: qnp.real(qnp.sum(w * solve((a + a.conj().T) / 2)))

    want = quire.grad(loss(lambda a: qnp.linalg.solve(a, b)))(h)
    same(quire.grad(loss(lambda a: iterative.cg(a, b, tol=1e-7)[0]))(h), want, tol=1e-3)
    same(quire.grad(loss(lambda a: iterative.gmres(a, b, tol=1e-7, M=m)[0]))(h), want, tol=1e-3)


ONE = np.ones((2, 2), "float32")


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda: sl.toeplitz([1, 2]), TypeError, "quire.scipy.linalg.toeplitz: requires ndarray or scalar arguments, got <class 'list'>"),
        (lambda: sl.expm(qnp.ones(3)), ValueError, "quire.scipy.linalg.expm: the argument must hold square matrices"),
        (lambda: sl.hadamard(3), ValueError, "hadamard: n must be a positive power of 2, got 3"),
        (lambda: sl.helmert(0), ValueError, "helmert: n must be a positive integer, got 0"),
        (lambda: sl.pascal(3, "x"), ValueError, "pascal: kind must be 'symmetric', 'lower' or 'upper', got 'x'"),
        (lambda: sl.dft(3, "x"), ValueError, "dft: scale must be None, 'sqrtn' or 'n', got 'x'"),
        (lambda: sl.dft(3, dtype="float32"), ValueError, "dft: dtype must be complex, got float32"),
        (lambda: sl.companion(qnp.ones(1)), ValueError, "companion: a must have at least 2 coefficients"),
        (lambda: sl.fiedler_companion(qnp.ones(0)), ValueError, "fiedler_companion: a must have at least one coefficient"),
        (lambda: sl.hankel(1.0), ValueError, "hankel: c must have at least one dimension"),
        (lambda: sl.leslie(qnp.ones(3), qnp.ones(3)), ValueError, "leslie: s must have one element less than f"),
        (lambda: sl.convolution_matrix(qnp.ones(3), 2, "x"), ValueError, "convolution_matrix: mode must be 'full', 'valid' or 'same'"),
        (lambda: sl.convolution_matrix(qnp.ones(0), 2), ValueError, "convolution_matrix: a must have at least one element"),
        (lambda: sl.block_diag(qnp.ones((1, 1, 1))), ValueError, "block_diag: arrays must have at most 2 dimensions, got f32.1,1,1. at position 0"),
        (lambda: sl.qr(ONE, mode="x"), ValueError, "qr: mode must be one of 'full', 'r', 'economic', got 'x'"),
        (lambda: sl.qr_multiply(ONE, qnp.ones(3)), ValueError, "qr_multiply: q f32.2,2. and c f32.1,3. do not fit for mode 'right'"),
        (lambda: sl.eigh(ONE, eigvals=(0, 1)), NotImplementedError, "eigh: eigvals is not supported: take a slice"),
        (lambda: sl.eigh(ONE, qnp.eye(3)), ValueError, "eigh: a f32.2,2. and b f32.3,3. must have the same size"),
        (lambda: sl.eigh_tridiagonal(qnp.ones(3), qnp.ones(2), select="v"), NotImplementedError, "select='v' is not supported: its result's shape"),
        (lambda: sl.eigh_tridiagonal(qnp.ones(3), qnp.ones(3)), ValueError, "eigh_tridiagonal: d must be .*, n. and e"),
        (lambda: sl.eigh_tridiagonal(qnp.ones(3), 1j * qnp.ones(2)), TypeError, "d and e must have the same dtype"),
        (lambda: sl.eigh_tridiagonal(qnp.ones(3), qnp.ones(2), select="i"), ValueError, "select_range must be .first, last. within .0, 2."),
        (lambda: sl.schur(ONE, "x"), ValueError, "schur: output must be one of 'real', 'complex', got 'x'"),
        (lambda: sl.rsf2csf(ONE, qnp.eye(3)), ValueError, "rsf2csf: T f32.2,2. and Z f32.3,3. must have the same size"),
        (lambda: sl.polar(ONE, "x"), ValueError, "polar: side must be one of 'right', 'left', got 'x'"),
        (lambda: sl.polar(ONE[:1]), NotImplementedError, "polar: method='qdwh' takes m >= n for side='right'.*use method='svd'"),
        (lambda: sl.expm_frechet(ONE, qnp.eye(3)), ValueError, "expm_frechet: A f32.2,2. and E f32.3,3. must have"),
        (lambda: sl.sqrtm(ONE, blocksize=2), NotImplementedError, "sqrtm: blocksize must be 1, got 2"),
        (lambda: sl.solve(ONE, qnp.ones(2), assume_a="x"), ValueError, "solve: assume_a must be one of"),
        (lambda: sl.cho_solve((ONE, False), qnp.ones(3)), ValueError, "cho_solve: c f32.2,2. and b f32.3. do not fit"),
        (lambda: sl.lu_solve((ONE, np.zeros(2, np.int32)), qnp.ones(2), 3), ValueError, "lu_solve: trans must be one of 0, 1, 2, got 3"),
        (lambda: sl.solve_triangular(qnp.ones((2, 2, 2)), qnp.ones((3, 2, 1))), ValueError, "the leading dimensions of a f32.2,2,2. and b"),
        (lambda: sl.solve_sylvester(ONE, ONE, qnp.ones((2, 3))), ValueError, "solve_sylvester: A must be .*, m, m., B"),
        (lambda: iterative.cg(qnp.ones((2, 3)), qnp.ones(2)), ValueError, "sparse.linalg.cg: A must be a function or a square matrix, got shape .2, 3."),
        (lambda: iterative.cg(ONE, qnp.ones(2), x0=qnp.ones(3)), ValueError, "cg: x0 and b must have the same shapes, got .3,. and .2,. as leaf 0"),
        (lambda: iterative.gmres(ONE, qnp.ones(2), x0=(qnp.ones(2),)), ValueError, "gmres: x0 and b must have the same tree structure"),
        (lambda: iterative.gmres(ONE, qnp.ones(2), solve_method="x"), ValueError, "gmres: solve_method must be 'batched' or 'incremental'"),
    ],
)  # fmt: skip
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        f()

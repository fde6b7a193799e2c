"""quire.numpy.linalg against NumPy and JAX: values, signatures, derivatives, batches, edge cases, errors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.ir.config import config
from quire.numpy import linalg as nl
from quire.test_util import check_grads

RNG = np.random.default_rng(0)
DTYPES = ["float32", "complex64"]


def normal(*shape, dtype="float32"):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def definite(*shape, dtype="float32"):
    x = normal(*shape, dtype=dtype)
    return (x @ np.swapaxes(x.conj(), -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def leaves(out):
    return list(out) if isinstance(out, tuple | list) else [out]


def same(got, want, tol=2e-4):
    for g, w in zip(leaves(got), leaves(want), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)


def test_names_and_signatures_are_jax_s():
    jnp = pytest.importorskip("jax.numpy")
    for name in (n for n in dir(jnp.linalg) if not n.startswith("_")):
        ours, theirs = (inspect.signature(getattr(m, name)).parameters.values() for m in (nl, jnp.linalg))
        assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs], name


def test_products_of_many_matrices():
    """Their order is found in cubic time, and is the best one; dtypes are joined before any product is computed."""
    sizes = [3, 7, 2, 9, 4, 4, 1, 8, 5, 3, 6, 2, 7, 3, 5, 2, 4]
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(s).astype(np.float32) for s in zip(sizes, sizes[1:])]
    want = np.linalg.multi_dot([x.astype(np.float64) for x in xs])
    np.testing.assert_allclose(np.asarray(nl.multi_dot(xs)), want, rtol=1e-3, atol=1e-3)
    traced = quire.make_jaxpr(lambda *xs: nl.multi_dot(xs))(
        np.ones((9, 2), "f4"), np.ones((2, 9), "f4"), np.ones(9, "f4")
    )
    products = [e for e in traced.jaxpr.eqns if e.primitive.name == "dot_general"]
    assert [tuple(e.outvars[0].aval.shape) for e in products] == [(2,), (9,)]
    small, one = np.full((2, 2), 100, np.int8), np.eye(2, dtype=np.float32)
    assert np.asarray(nl.multi_dot([small, small, one])).tolist() == [[20000.0] * 2] * 2


# Name of the function, its operands' shapes, keywords.
VALUES = [
    ("det", [(4, 4)], {}), ("det", [(5, 3, 3)], {}), ("det", [(2, 2)], {}), ("det", [(1, 1)], {}), ("slogdet", [(2, 4, 4)], {}),
    ("inv", [(5, 4, 4)], {}), ("solve", [(4, 4), (4,)], {}), ("solve", [(4, 4), (4, 3)], {}), ("solve", [(4, 4), (2, 4, 3)], {}),
    ("solve", [(2, 4, 4), (4, 3)], {}), ("solve", [(2, 1, 4, 4), (3, 4, 2)], {}), ("pinv", [(4, 3)], {}), ("pinv", [(2, 3, 4)], {}),
    ("matrix_power", [(3, 3)], {"n": 5}), ("matrix_power", [(3, 3)], {"n": -2}), ("matrix_power", [(2, 3, 3)], {"n": 0}),
    ("svdvals", [(2, 3, 4)], {}), ("eigvals", [(5, 2, 2)], {}), ("eigvals", [(3, 3)], {}), ("cond", [(4, 4)], {}),
    ("cond", [(3, 4)], {"p": -2}), ("cond", [(2, 4, 4)], {"p": "fro"}), ("cond", [(4, 4)], {"p": 1}), ("matrix_rank", [(4, 3)], {}),
    ("matrix_rank", [(3,)], {}), ("norm", [(3, 4)], {}), ("norm", [(2, 3, 4)], {}), ("matrix_norm", [(2, 3, 4)], {}),
    ("matrix_norm", [(3, 4)], {"ord": "nuc", "keepdims": True}), ("vector_norm", [(3, 4)], {}), ("vector_norm", [(3, 4)], {"axis": 0, "ord": 3}),
    ("multi_dot", [(4,), (4, 3), (3, 5), (5,)], {}), ("multi_dot", [(2, 4), (4, 3), (3, 5)], {}), ("cross", [(4, 3), (4, 3)], {}),
    ("outer", [(3,), (4,)], {}), ("vecdot", [(2, 3), (2, 3)], {}), ("matmul", [(2, 3), (3, 4)], {}), ("trace", [(2, 3, 4)], {"offset": 1}),
    ("diagonal", [(2, 3, 4)], {"offset": -1}), ("matrix_transpose", [(2, 3, 4)], {}), ("tensordot", [(2, 3), (3, 2)], {"axes": 1}),
    ("tensorinv", [(4, 2, 2)], {"ind": 1}), ("tensorsolve", [(2, 3, 6), (2, 3)], {}), ("inv", [(0, 0)], {}), ("det", [(0, 0)], {}),
    ("det", [(0, 4, 4)], {}), ("slogdet", [(0, 0)], {}), ("pinv", [(3, 0)], {}), ("matrix_rank", [(0, 3)], {}),
    ("solve", [(0, 0), (0, 2)], {}), ("eigvals", [(0, 0)], {}), ("svdvals", [(0, 3)], {}), ("norm", [(0,)], {}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_numpy_s(dtype):
    for name, shapes, keywords in VALUES:
        args = [normal(*s, dtype=dtype) for s in shapes]
        given = [args] if name == "multi_dot" else args
        want = getattr(np.linalg, name)(*given, **keywords)
        same(getattr(nl, name)(*given, **keywords), want)
    for order in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
        x = normal(3, 4, dtype=dtype)
        same(nl.norm(x, order, axis=(1, 0)), np.linalg.norm(x, order, axis=(1, 0)))
    for order in (None, 0, 1, -1, 2, 3, 0.5, np.inf, -np.inf):
        same(nl.norm(x, order, axis=1, keepdims=True), np.linalg.norm(x, order, axis=1, keepdims=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_decompositions(dtype):
    h = definite(2, 4, 4, dtype=dtype)
    same(nl.cholesky(h), np.linalg.cholesky(h))
    same(nl.cholesky(h, upper=True), np.linalg.cholesky(h, upper=True))
    w, v = nl.eigh(h)
    same(w, np.linalg.eigvalsh(h))
    same(h @ np.asarray(v), np.asarray(v) * np.asarray(w)[:, None])
    lopsided = np.triu(h).astype(dtype)
    same(nl.eigvalsh(lopsided, "U", symmetrize_input=False), np.linalg.eigvalsh(h))
    for mode in ("reduced", "complete", "r", "raw"):
        x = normal(5, 3, dtype=dtype)
        same(nl.qr(x, mode), np.linalg.qr(x, mode))
    x = normal(3, 5, dtype=dtype)
    for full in (True, False):
        u, s, vh = nl.svd(x, full_matrices=full)
        same(np.asarray(u[:, :3]) * s @ np.asarray(vh)[:3], x)
        assert [y.shape for y in (u, vh)] == [y.shape for y in np.linalg.svd(x, full_matrices=full)[::2]]
    u, s, vh = nl.svd(h - 6 * np.eye(4, dtype=dtype), hermitian=True)
    same((np.asarray(u) * np.asarray(s)[:, None]) @ np.asarray(vh), h - 6 * np.eye(4, dtype=dtype))
    assert np.all(np.diff(s, axis=-1) <= 0)
    w, v = nl.eig(x[:, :3])
    same(x[:, :3] @ np.asarray(v), np.asarray(v) * w)
    same(nl.slogdet(h, method="qr"), np.linalg.slogdet(h), tol=1e-3)


def test_least_squares():
    for shape, k, rank in (((5, 3), None, 3), ((5, 3), 2, 3), ((3, 5), 2, 3), ((5, 3), 2, 2)):
        a, b = normal(*shape), normal(shape[0], *([k] if k else []))
        if rank < 3:
            a[:, 2] = a[:, 1]
        got, want = nl.lstsq(a, b, numpy_resid=True), np.linalg.lstsq(a, b)
        same(got, want, tol=1e-3)
    check_grads(lambda a, b: nl.lstsq(a, b)[0], (normal(5, 3), normal(5)), 1, rtol=2e-2, atol=2e-2)


def test_failures_are_values():
    singular = np.ones((2, 2), np.float32)
    assert not np.isfinite(nl.solve(np.zeros((3, 3), np.float32), np.ones(3, np.float32))).any()
    assert np.isnan(nl.cholesky(np.stack([-np.eye(2), np.eye(2)]).astype("float32"))[0, 0, 0])
    assert nl.slogdet(np.zeros((2, 2), np.float32)) == (0, -np.inf)
    assert nl.cond(np.zeros((2, 2), np.float32)) == np.inf and nl.matrix_rank(singular) == 1
    for f in (nl.eigvals, nl.svdvals, nl.eigvalsh):  # of one matrix of the batch
        out = f(np.stack([np.full((3, 3), np.nan), np.eye(3)]).astype("float32"))
        assert np.isnan(out[0]).all() and np.allclose(out[1], 1)


DERIVATIVES = {
    "det": (nl.det, [(4, 4)]), "det of 3": (nl.det, [(3, 3)]), "inv": (nl.inv, [(2, 3, 3)]),
    "slogdet": (lambda a: nl.slogdet(a)[1], [(3, 3)]), "solve": (nl.solve, [(3, 3), (2, 3, 2)]),
    "solve of many": (nl.solve, [(2, 3, 3), (3, 1)]), "pinv": (nl.pinv, [(4, 3)]), "norm": (nl.norm, [(3, 4)]),
    "nuclear norm": (lambda a: nl.norm(a, "nuc"), [(3, 4)]), "spectral norm": (lambda a: nl.norm(a, 2), [(3, 3)]),
    "p-norm": (lambda a: nl.norm(a, 3, axis=0), [(3, 2)]), "matrix_power": (lambda a: nl.matrix_power(a, -2), [(3, 3)]),
    "eigvals": (lambda a: qnp.abs(nl.eigvals(a)), [(3, 3)]), "eigvals of 2": (lambda a: qnp.abs(nl.eigvals(a)), [(2, 2, 2)]),
    "cond": (nl.cond, [(3, 3)]), "multi_dot": (lambda a, b, c: nl.multi_dot([a, b, c]), [(2, 3), (3, 2), (2,)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_against_differences(dtype):
    for name, (f, shapes) in DERIVATIVES.items():
        args = tuple(normal(*s, dtype=dtype) + (2 * np.eye(*s[-2:], dtype=dtype) if len(s) > 1 else 0) for s in shapes)
        try:
            check_grads(f, args, 1, rtol=3e-2, atol=3e-2)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_second_derivatives():
    a = normal(3, 3) + 2 * np.eye(3, dtype="float32")
    inverse = np.linalg.inv(a)
    # d2 log det / da_ij da_kl = -(a^-1)_jk (a^-1)_li; of the determinant, times it, plus the product of first ones.
    second = -np.einsum("jk,li->ijkl", inverse, inverse)
    same(quire.hessian(lambda a: nl.slogdet(a)[1])(a), second, tol=1e-3)
    wide = np.eye(5, dtype="float32")
    wide[:3, :3] = a
    inverse = np.linalg.inv(wide)
    want = np.linalg.det(wide) * (
        np.einsum("ji,lk->ijkl", inverse, inverse) - np.einsum("jk,li->ijkl", inverse, inverse)
    )
    same(quire.hessian(nl.det)(wide), want, tol=5e-3)
    b = normal(3)
    check_grads(lambda a: nl.solve(a, b), (a,), 2, rtol=3e-2, atol=3e-2)
    check_grads(nl.pinv, (normal(3, 2),), 2, rtol=5e-2, atol=5e-2)


def test_the_determinant_s_derivative_at_singular_matrices():
    def adjugate(m):
        return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(m, i, 0), j, 1))
                          for j in range(len(m))] for i in range(len(m))])  # fmt: skip

    zero_first = np.ones((4, 4)) + np.diag([0, 1, 2, 3])
    zero_first[:, 0] = 0
    for m in (
        np.diag([1.0, 2, 3, 0]),
        np.diag([1.0, 0, 3, 2]),
        np.diag([0.0, 0, 1, 2]),
        zero_first,
        np.zeros((2, 2)),
        np.diag([0.0, 2, 3]),
    ):
        same(quire.grad(nl.det)(m.astype("float32")), adjugate(m))


def test_the_norm_s_derivative_at_zero_is_jax_s():
    jax = pytest.importorskip("jax")
    zero, one = np.zeros(3, "float32"), np.array([1, 0, 2], "float32")
    for order in (None, 0, 1, 2, np.inf, -np.inf):
        for x in (zero, one):
            np.testing.assert_allclose(
                quire.grad(lambda x, o=order: nl.norm(x, o))(x),
                jax.grad(lambda x, o=order: jax.numpy.linalg.norm(x, o))(x),
                rtol=1e-6,
            )


SPECTRAL = [
    (np.array([[1, -1], [1, 1]], "float32"), [[0.354, -0.354], [0.354, 0.354]]),
    (np.array([[1 + 1j, -1], [1, 1]], "complex64"), [[0.38 - 0.616j, -0.38 - 0.235j], [0.38 + 0.235j, 0.145 - 0.235j]]),
]


def spectral_radius(a):
    return qnp.max(qnp.abs(nl.eigvals(a)))


@pytest.mark.parametrize("matrix, gradient", SPECTRAL, ids=["real", "complex"])
def test_the_spectral_radius(matrix, gradient):
    both = np.stack([matrix, matrix.T, 2 * matrix])
    wanted = np.stack([gradient, np.transpose(gradient), gradient])
    value_and_gradient = quire.vmap(quire.value_and_grad(spectral_radius))
    for run in (value_and_gradient, quire.compile(value_and_gradient)):
        value, found = run(both)
        np.testing.assert_allclose(value, np.abs(np.linalg.eigvals(both)).max(-1), rtol=1e-5)
        np.testing.assert_allclose(found, wanted, atol=1e-3)
    np.testing.assert_allclose(quire.grad(spectral_radius)(matrix), gradient, atol=1e-3)
    # Of a larger matrix, by LAPACK: two blocks, of which this one has the larger radius.
    large = np.zeros((3, 3), matrix.dtype)
    large[:2, :2], large[2, 2] = matrix, 0.5
    np.testing.assert_allclose(quire.compile(quire.grad(spectral_radius))(large)[:2, :2], gradient, atol=1e-3)


def test_derivatives_of_eigenvectors_on_request():
    a = normal(3, 3)

    def shares(x):  # does not depend on the vectors' phases
        w, v = lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
        return qnp.abs(v) ** 2, qnp.abs(w)

    def both_shares(x):
        w, left, right = lax.linalg.eig(x, enable_eigvec_derivs=True)
        return qnp.abs(left) ** 2, qnp.abs(right) ** 2, qnp.abs(w)

    def left_shares(x):
        w, left = lax.linalg.eig(x, compute_right_eigenvectors=False, enable_eigvec_derivs=True)
        return qnp.abs(left) ** 2, qnp.abs(w)

    for f in (shares, both_shares, left_shares):
        check_grads(f, (a,), 1, rtol=3e-2, atol=3e-2)
        check_grads(f, (normal(3, 3, dtype="complex64"),), 1, rtol=3e-2, atol=3e-2)
    with pytest.raises(
        NotImplementedError, match="an eigenvector is determined but for a phase.*enable_eigvec_derivs=True"
    ):
        quire.grad(lambda x: qnp.abs(nl.eig(x)[1]).sum())(a)


def test_products_with_reflectors_and_polar_factors():
    for dtype in DTYPES:
        x, c = normal(4, 3, dtype=dtype), normal(4, 4, dtype=dtype)
        h, taus = nl.qr(x, "raw")
        q = np.linalg.qr(x, "complete")[0]
        same(lax.linalg.ormqr(h.T, taus, c), q @ c)
        same(lax.linalg.ormqr(h.T, taus, c, left=False, transpose=True), c @ q.conj().T)
        u, p, steps, converged = lax.linalg.qdwh(x)
        same(np.asarray(u) @ np.asarray(p), x)
        same(np.asarray(u).conj().T @ np.asarray(u), np.eye(3))
        assert converged and steps <= 7 and np.all(np.linalg.eigvalsh(p) > 0)


def test_compiled_equals_eager():
    a, b, c = normal(40, 3, 3), definite(5, 5), normal(30, 2, 2, dtype="complex64")

    def everything(a, b, c):
        small = [
            nl.det(a),
            nl.inv(a),
            *nl.slogdet(a),
            nl.solve(a, a[:, :1].mT + 0),
            nl.cholesky(b[:3, :3]),
            nl.eigvals(c),
        ]
        large = [nl.det(b), nl.inv(b), nl.cholesky(b), nl.svdvals(b), nl.eigvalsh(b), nl.pinv(b), nl.norm(b, 2)]
        derived = quire.grad(lambda x: qnp.real(nl.det(x)).sum() + nl.slogdet(x)[1].sum())
        return [*small, *large, derived(a), derived(b), derived(c)]

    same(quire.compile(everything)(a, b, c), everything(a, b, c), tol=2e-3)


def test_pivots_of_small_matrices_are_lapack_s():
    import scipy.linalg

    x = normal(60, 3, 3)
    x[0], x[1, :, 0] = 0, 0
    got = quire.compile(lax.linalg.lu)(x)  # written out; a loop of operations on all where evaluated by NumPy
    for one, lu, pivots in zip(x, *map(np.asarray, got[:2]), strict=True):
        want, where = scipy.linalg.lapack.sgetrf(one)[:2]
        np.testing.assert_array_equal(pivots, where)
        np.testing.assert_allclose(lu, want, atol=1e-4)
    same(got, lax.linalg.lu(qnp.asarray(x)), tol=1e-4)


def test_double_precision():
    with config.override(enable_x64=True):
        a = RNG.normal(size=(4, 4))
        for name in ("det", "inv", "eigvals", "svdvals", "pinv"):
            same(getattr(nl, name)(a), getattr(np.linalg, name)(a), tol=1e-10)
        check_grads(nl.det, (a,), 2)
    assert nl.inv(np.array([[2, 0], [0, 4]])).dtype == np.float32  # integers


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda: nl.det([[1.0]]), TypeError, r"quire.numpy.linalg.det: requires ndarray or scalar arguments, got <class 'list'> at position 0: convert"),
        (lambda: nl.det(qnp.ones((3, 2))), ValueError, r"linalg.det: the argument must hold square matrices, shape \(..., n, n\), got f32\[3,2\]"),
        (lambda: nl.svd(qnp.ones(3)), ValueError, r"linalg.svd: the argument must hold matrices, shape \(..., m, n\), got f32\[3\]"),
        (lambda: nl.inv(qnp.ones((2, 2), "float16")), TypeError, "linalg.inv: float16 is not supported.*convert it with .astype"),
        (lambda: nl.solve(qnp.ones((3, 3)), qnp.ones((2, 3))), ValueError, "linalg.solve: a f32.3,3. is of size 3, b f32.2,3. must be"),
        (lambda: nl.qr(qnp.ones((2, 2)), "x"), ValueError, "linalg.qr: mode must be 'reduced', 'complete', 'r' or 'raw', got 'x'"),
        (lambda: nl.eigh(qnp.ones((2, 2)), "x"), ValueError, "linalg.eigh: UPLO must be 'L', 'U' or None, got 'x'"),
        (lambda: nl.matrix_power(qnp.ones((2, 2)), 1.5), TypeError, "linalg.matrix_power: n must be an integer, got 1.5"),
        (lambda: nl.norm(qnp.ones((2, 2)), "x"), ValueError, "linalg.norm: 'x' is not a norm of matrices: give"),
        (lambda: nl.norm(qnp.ones(2), "fro"), ValueError, "linalg.norm: order 'fro' is of matrices"),
        (lambda: nl.norm(qnp.ones((2, 2, 2)), 2), ValueError, "linalg.norm: axis .0, 1, 2. of f32.2,2,2.: give one axis"),
        (lambda: nl.matrix_norm(qnp.ones(2)), ValueError, "linalg.matrix_norm: x must have at least 2 dimensions"),
        (lambda: nl.cross(qnp.ones(2), qnp.ones(2)), ValueError, "linalg.cross: vectors must have 3 components along axis -1"),
        (lambda: nl.outer(qnp.ones((2, 2)), qnp.ones(2)), ValueError, "linalg.outer: both arguments must be vectors"),
        (lambda: nl.multi_dot([]), ValueError, "linalg.multi_dot: there must be at least one array"),
        (lambda: nl.multi_dot([qnp.ones(2)] * 3), ValueError, "linalg.multi_dot: array 1 must be a matrix, got"),
        (lambda: nl.multi_dot([qnp.ones((2, 3))] * 2), ValueError, "linalg.multi_dot: arrays 0 and 1, .* do not fit"),
        (lambda: nl.slogdet(qnp.eye(2), method="x"), ValueError, "linalg.slogdet: method must be 'lu' or 'qr', got 'x'"),
        (lambda: nl.pinv(qnp.eye(2), 0.1, rcond=0.1), ValueError, "linalg.pinv: give rtol or rcond, not both"),
        (lambda: nl.matrix_rank(qnp.eye(2), 0.1, tol=0.1), ValueError, "linalg.matrix_rank: give rtol or tol, not both"),
        (lambda: nl.lstsq(qnp.ones((3, 2)), qnp.ones(2)), ValueError, "linalg.lstsq: a must be .m, n. and b .m,. or"),
        (lambda: nl.cond(qnp.ones((0, 0))), ValueError, "linalg.cond: f32.0,0. has no elements"),
        (lambda: nl.tensorinv(qnp.ones((2, 2)), 2), ValueError, "linalg.tensorinv: the first 2 dimensions of f32.2,2."),
        (lambda: nl.tensorinv(qnp.ones((2, 2)), 0), ValueError, "linalg.tensorinv: ind must be positive, got 0"),
        (lambda: nl.tensorsolve(qnp.ones((2, 2)), qnp.ones(3)), ValueError, "linalg.tensorsolve: a f32.2,2. must have b's dimensions"),
        (lambda: lax.linalg.qdwh(qnp.ones((2, 3))), ValueError, "qdwh: x f32.2,3. must have at least as many rows"),
        (lambda: lax.linalg.qdwh(qnp.eye(2), dynamic_shape=(1, 1)), NotImplementedError, "qdwh: dynamic_shape is not supported"),
        (lambda: lax.linalg.ormqr(qnp.eye(2), qnp.ones(2), qnp.ones((3, 3))), ValueError, "ormqr: c f32.3,3. must have a's leading"),
        (lambda: nl.choleski, AttributeError, "did you mean quire.numpy.linalg.cholesky"),
    ],
)  # fmt: skip
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        f()

"""Linear algebra: compiled (kernels, LAPACK called from compiled code) against the reference against JAX; type errors."""

import timeit

import jax
import numpy as np
import pytest
from jax import lax

import quire
import quire.numpy
from quire.backends.reference.linalg import permutation_of
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st
from tests.helpers import Case, check, thinned

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.complex64]
# LAPACK's error grows with the condition number (tens here) and the size.
TOL = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-11, "complex128": 1e-11}


def normal(shape, dtype=np.float32):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def definite(shape, dtype=np.float32):
    x = normal(shape, dtype)
    return (x @ np.swapaxes(x.conj(), -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def case(name, f, args, expect=None):
    tol = TOL[np.dtype(args[0].dtype).name]
    return Case(f"{name} {args[0].dtype}", f, args, expect, tol, tol)


SHAPES = [(5, 5), (2, 3, 4, 4), (1, 1), (0, 0), (0, 3, 3)]


def test_cholesky():
    check([case(f"{s}", la.cholesky, [definite(s, d)], lambda x: lax.linalg.cholesky(x, symmetrize_input=False))
           for s in SHAPES for d in DTYPES])  # fmt: skip


def test_cholesky_of_an_indefinite_matrix_is_nan():
    x = np.stack([np.diag([1, -1, 2]), np.eye(3)]).astype(np.float32)
    check([case("indefinite", la.cholesky, [x], lambda x: lax.linalg.cholesky(x, symmetrize_input=False))])


def test_triangular_solve():
    cases = []
    for d in DTYPES:
        for bits in range(32):
            flags = dict(zip(("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"),
                             (bool(bits >> i & 1) for i in range(5))))  # fmt: skip
            a = normal((2, 4, 4), d) / 4 + 2 * np.eye(4).astype(d)
            b = normal((2, 4, 3) if flags["left_side"] else (2, 3, 4), d)
            cases.append(case(f"{flags}", lambda a, b, f=flags: la.triangular_solve(a, b, **f), [a.astype(d), b],
                              lambda a, b, f=flags: lax.linalg.triangular_solve(a, b, **f)))  # fmt: skip
    check(thinned(cases, 3))


def test_lu():
    shapes = [(5, 5), (3, 5), (5, 3), (2, 4, 4), (1, 1), (0, 3), (3, 0)]
    check([case(f"{s}", la.lu, [normal(s, d)], lax.linalg.lu if 0 not in s else None) for s in shapes for d in DTYPES])


def test_lu_of_a_singular_matrix():
    check([case("singular", la.lu, [np.array([[0, 1, 2], [0, 2, 4], [0, 0, 0]], np.float32)], lax.linalg.lu)])


def test_lu_pivots_to_permutation():
    pivots = np.array([[2, 2, 2], [0, 3, 3]], np.int32)
    check([Case("pivots", lambda p: la.lu_pivots_to_permutation(p, 5), [pivots],
                lambda p: lax.linalg.lu_pivots_to_permutation(p, 5))])  # fmt: skip


def test_permutations_of_few_and_many_pivots():
    rng = np.random.default_rng(0)
    for batch in ((), (0,), (1,), (2, 3), (7, 9)):
        pivots = rng.integers(np.arange(100), 100, (*batch, 100)).astype(np.int32)
        want = np.broadcast_to(np.arange(110, dtype=np.int32), (*batch, 110)).copy()
        for at in np.ndindex(*batch):
            for i, p in enumerate(pivots[at]):
                want[(*at, i)], want[(*at, p)] = want[(*at, p)], want[(*at, i)]
        got = permutation_of(pivots, 110)
        assert got.dtype == np.int32 and np.array_equal(got, want)


def test_permutation_in_a_batch_costs_what_it_costs_alone():
    pivots = np.random.default_rng(0).integers(np.arange(256), 256).astype(np.int32)

    def seconds(p: np.ndarray) -> float:
        return min(timeit.repeat(lambda: permutation_of(p, 256), number=1, repeat=20))

    assert seconds(pivots[None]) < 8 * seconds(
        pivots
    )  # a loop of operations on all of the batch takes 100 times as long


def test_qr():
    shapes = [(5, 5), (3, 5), (5, 3), (2, 4, 3), (1, 1)]
    cases = []
    for s in shapes:
        for d in DTYPES:
            for full in (True, False):
                cases.append(case(f"{s} {full}", lambda x, f=full: la.qr(x, full_matrices=f), [normal(s, d)],
                                  lambda x, f=full: lax.linalg.qr(x, full_matrices=f)))  # fmt: skip
    cases.append(case("empty", la.qr, [normal((0, 3))]))
    cases.append(case("pivoting", lambda x: la.qr(x, pivoting=True), [normal((4, 5))],
                      lambda x: lax.linalg.qr(x, pivoting=True)))  # fmt: skip
    check(cases)


def test_householder_product():
    def product(x):
        a, taus = la.geqrf(x)
        return la.householder_product(a, taus)

    check([case(f"{s}", product, [normal(s, d)], lambda x: lax.linalg.qr(x, full_matrices=False)[0])
           for s in ((5, 3), (2, 4, 4)) for d in DTYPES])  # fmt: skip


def test_eigh():
    def f(x):
        return la.eigh(x)[1]

    cases = [case(f"{s}", f, [definite(s, d)], lambda x: lax.linalg.eigh(x)[1])
             for s in ((5, 5), (2, 3, 3), (1, 1)) for d in DTYPES]  # fmt: skip
    cases.append(case("upper", lambda x: la.eigh(x, lower=False)[1], [np.array([[1, 2], [9, 3]], np.float32)],
                      lambda x: np.linalg.eigvalsh(x, "U")))  # fmt: skip

    def subset(x):  # of vectors of either sign
        v, w = la.eigh(x, subset_by_index=(1, 3))
        return [ew.abs(v), w]

    cases.append(case("subset", subset, [definite((5, 5))]))
    cases.append(case("nan", la.eigh, [np.full((2, 2), np.nan, np.float32)]))
    check(cases)


def residual(name, f, shape, dtype, expect=None):
    """A decomposition put together again."""
    return case(name, f, [normal(shape, dtype)], expect or (lambda x: x))


def test_decompositions_reconstruct():

    def scale(u, s):
        s = ew.convert_element_type(s, u.dtype)
        return ew.mul(u, st.broadcast_in_dim(s, u.shape, [*range(s.ndim - 1), s.ndim]))

    def svd(x):
        s, u, vh = la.svd(x, full_matrices=False)
        return ct.matmul(scale(u, s), vh)

    def eigh(x):
        v, w = la.eigh(x)
        return ct.matmul(scale(v, w), la.transpose_last(v, conjugate=True))

    def schur(x):
        t, z = la.schur(x)
        return ct.matmul(ct.matmul(z, t), la.transpose_last(z, conjugate=True))

    def eig(x):
        w, _, v = la.eig(x)
        return ew.sub(ct.matmul(ew.convert_element_type(x, v.dtype), v), scale(v, w))

    cases = []
    for d in DTYPES:
        cases += [residual(f"svd {s}", svd, s, d) for s in ((5, 5), (3, 5), (2, 5, 3))]
        h = definite((4, 4), d)
        cases += [case("eigh", eigh, [h], lambda x: x), residual("schur", schur, (5, 5), d)]
        cases.append(residual("eig", eig, (4, 4), d, lambda x: np.zeros((4, 4), np.complex64)))
    check(cases)


def test_svd_values_and_shapes():
    def values(x):
        return la.svd(x, compute_uv=False)[0]

    cases = [case(f"{s}", values, [normal(s, d)], lambda x: np.linalg.svd(x, compute_uv=False))
             for s in ((5, 5), (2, 3, 5)) for d in DTYPES]  # fmt: skip

    def full(x):  # of vectors of either sign, and any basis of those that belong to no value
        s, u, vh = la.svd(x)
        return [s, ew.abs(st.slice(u, (0, 0), (5, 3))), ct.matmul(u, la.transpose_last(u)), ew.abs(vh)]

    def expected(x):
        u, s, vh = np.linalg.svd(x)
        return [s, abs(u[:, :3]), np.eye(5, dtype=x.dtype), abs(vh)]

    def subset(x):
        s, u, vh = la.svd(x, full_matrices=False, subset_by_index=(0, 2))
        return [s, ew.abs(u), ew.abs(vh)]

    cases.append(case("full", full, [normal((5, 3))], expected))
    cases.append(case("subset", subset, [normal((4, 3))]))
    cases.append(case("empty", la.svd, [normal((3, 0))]))
    check(cases)


def test_reductions_and_tridiagonal_solve():
    n = 6
    dl, d, du = normal((2, n)), normal((2, n)) + 6, normal((2, n))
    b = normal((2, n, 3))
    x = definite((4, 4))
    check([
        case("solve", la.tridiagonal_solve, [dl, d, du, b], lax.linalg.tridiagonal_solve),
        case("hessenberg", la.hessenberg, [normal((2, 4, 4))], lax.linalg.hessenberg),
        case("tridiagonal", la.tridiagonal, [x], lambda x: lax.linalg.tridiagonal(x)),
    ])  # fmt: skip


def test_64_bit():
    with jax.enable_x64(True), config.override(enable_x64=True):
        cases = []
        for d in (np.float64, np.complex128):
            cases.append(case("cholesky", la.cholesky, [definite((4, 4), d)], lax.linalg.cholesky))
            cases.append(case("lu", la.lu, [normal((4, 4), d)], lax.linalg.lu))
            cases.append(case("svd", lambda x: la.svd(x)[0], [normal((4, 3), d)], lambda x: lax.linalg.svd(x)[1]))
        check(cases)


def infer(p, *avals, **params):
    return p.infer([ShapedArray(s, np.dtype(d)) for s, d in avals], params)


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda: infer(la.cholesky_p, ((3, 4), "f4")), r"cholesky: operand f32\[3,4\] must be square matrices"),
        (lambda: infer(la.cholesky_p, ((3, 3), "f2")), "has dtype float16, expected float32, float64, complex64 or complex128"),
        (lambda: infer(la.lu_p, ((3,), "f4")), r"lu: operand f32\[3\] must be matrices"),
        (lambda: infer(la.triangular_solve_p, ((3, 3), "f4"), ((4, 2), "f4"), left_side=True, lower=True, transpose_a=False,
                       conjugate_a=False, unit_diagonal=False), "a the size of b's rows"),
        (lambda: infer(la.eigh_p, ((3, 3), "f4"), lower=True, sort_eigenvalues=True, subset_by_index=(2, 5)),
         r"subset_by_index \(2, 5\) must be within \[0, 3\]"),
        (lambda: infer(la.tridiagonal_solve_p, ((3,), "f4"), ((3,), "f4"), ((2,), "f4"), ((3, 1), "f4"), perturb_singular=False),
         "must have b f32.3,1.'s shape without its last dimension"),
        (lambda: infer(la.lu_pivots_to_permutation_p, ((3,), "i4"), permutation_size=2), "must not be below the number of pivots"),
        (lambda: infer(la.householder_product_p, ((2, 3), "f4"), ((2,), "f4")), "no more columns than rows"),
    ],
)  # fmt: skip
def test_errors(f, message):
    with pytest.raises((TypeError, ValueError), match=message):
        f()


def test_eigenvalues_of_a_batch_are_nan_only_where_a_matrix_is_not_finite():
    x = normal((5, 3, 3), np.float32)
    want = np.linalg.eigvals(x)
    x[1, 0, 2], x[3, 1, 1] = np.nan, np.inf
    f = quire.jit(quire.numpy.linalg.eigvals)
    for got in (f(x), quire.numpy.linalg.eigvals(x)):
        got = np.asarray(got)
        assert np.isnan(got[[1, 3]]).all()
        np.testing.assert_allclose(got[[0, 2, 4]], want[[0, 2, 4]], rtol=1e-5)

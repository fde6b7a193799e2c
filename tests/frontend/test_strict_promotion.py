"""The library's own code under strict promotion: of batches of matrices and of statistics, no ranks and no dtypes are promoted."""

from __future__ import annotations

import numpy as np

import quire
import quire.numpy as qnp
import quire.scipy.linalg as sl
import quire.scipy.stats as stats
from quire.ir.config import config

RNG = np.random.default_rng(0)
F32 = np.float32


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F32)


SQUARE, TALL, ROW = normal(2, 3, 4, 4), normal(2, 3, 5, 4), normal(30)
SYMMETRIC = SQUARE + SQUARE.swapaxes(-1, -2)
DEFINITE = SQUARE @ SQUARE.swapaxes(-1, -2) + 9 * np.eye(4, dtype=F32)
CALLS = {
    "matrix_rank": (qnp.linalg.matrix_rank, TALL),
    "matrix_rank, rtol": (lambda x: qnp.linalg.matrix_rank(x, rtol=F32(0.1)), TALL),
    "matrix_rank, rtol of each": (lambda x: qnp.linalg.matrix_rank(x, rtol=np.full((2, 3), 0.1, F32)), TALL),
    "matrix_rank, tol": (lambda x: qnp.linalg.matrix_rank(x, tol=F32(0.1)), TALL),
    "matrix_rank, hermitian": (lambda x: qnp.linalg.matrix_rank(x, hermitian=True), SYMMETRIC),
    "pinv": (qnp.linalg.pinv, TALL), "cond": (qnp.linalg.cond, SQUARE), "det": (qnp.linalg.det, SQUARE),
    "slogdet": (qnp.linalg.slogdet, SQUARE), "inv": (qnp.linalg.inv, SQUARE), "qr": (qnp.linalg.qr, TALL),
    "solve": (lambda x: qnp.linalg.solve(x, TALL.swapaxes(-1, -2)), SQUARE), "svd": (qnp.linalg.svd, TALL),
    "eigh": (qnp.linalg.eigh, SYMMETRIC), "cholesky": (qnp.linalg.cholesky, DEFINITE), "lu": (sl.lu, SQUARE),
    "lu, permuted": (lambda x: sl.lu(x, permute_l=True), TALL), "expm": (sl.expm, SQUARE),
    "solve_triangular": (lambda x: sl.solve_triangular(x, TALL.swapaxes(-1, -2)), DEFINITE),
    "cov": (qnp.cov, TALL[0, 0]), "quantile": (lambda x: qnp.quantile(x, np.array([0.1, 0.7], F32), axis=1), TALL),
    "gaussian_kde": (lambda x: stats.gaussian_kde(x)(x), ROW),
    "gaussian_kde, logpdf": (lambda x: stats.gaussian_kde(x).logpdf(x), ROW),
}  # fmt: skip


def test_nothing_is_promoted() -> None:
    for name, (f, x) in CALLS.items():
        free = quire.tree.leaves(f(x))
        with config.override(numpy_rank_promotion="raise", numpy_dtype_promotion="strict"):
            strict = [*quire.tree.leaves(f(x)), *quire.tree.leaves(quire.jit(f)(x))]
        for a, b in zip(free * 2, strict, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4, err_msg=name)


def test_nothing_is_promoted_in_derivatives() -> None:
    with config.override(numpy_rank_promotion="raise", numpy_dtype_promotion="strict"):
        for f in (
            qnp.linalg.det,
            qnp.linalg.slogdet,
            qnp.linalg.inv,
            qnp.linalg.pinv,
            qnp.linalg.qr,
            qnp.linalg.svd,
            sl.expm,
        ):
            gradient = quire.grad(lambda x, f=f: sum(qnp.sum(y) for y in quire.tree.leaves(f(x))))(DEFINITE)
            assert np.isfinite(gradient).all() and gradient.shape == DEFINITE.shape

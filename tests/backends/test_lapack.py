"""LAPACK as the reference rules call it: in the arrays' own precision, batches in threads, without what nothing reads.

Its functions are loaded without the rest of scipy.linalg, and live together with it.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.reference import lapack
from quire.backends.reference.rule_call import RuleCall
from quire.ir.avals import ShapedArray
from quire.ir.primitives import linalg as la

EIGH = {"lower": True, "sort_eigenvalues": True, "subset_by_index": None}
SVD = {"full_matrices": False, "compute_uv": True, "subset_by_index": None}


def matrices(*shape: int, dtype: str = "f") -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in "FD" else x).astype(dtype)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "available_cpus", lambda: 2)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("dtype", "fdFD")
def test_shared_batches_are_what_each_matrix_gives(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = matrices(40, 30, 30, dtype=dtype)
    x += x.swapaxes(1, 2).conj()
    x[7, 0, 0], x[33, 2, 1] = np.nan, np.inf
    for name, signature in (
        ("eigh_lo", f"{dtype}->{dtype.lower()}{dtype}"),
        ("svd_s", f"{dtype}->{dtype}{dtype.lower()}{dtype}"),
    ):
        shared = lapack.of_batch(name, signature, x)
        with monkeypatch.context() as alone:
            alone.setattr(lapack, "available_cpus", lambda: 1)
            want = lapack.of_batch(name, signature, x)
        for got, expected in zip(shared, want, strict=True):
            assert got.dtype == expected.dtype
            assert np.isnan(got[[7, 33]]).all() and np.isfinite(np.delete(got, [7, 33], 0)).all()
            np.testing.assert_allclose(got, expected, rtol=0, atol=2e-4 if dtype in "fF" else 1e-11)
    openblas = lapack._openblas()
    assert openblas is None or openblas[0]() > 0


_FORKED = """
import multiprocessing, numpy as np
import quire.backends.reference
from quire.backends.reference import lapack
lapack.available_cpus = lambda: 2
x = np.random.default_rng(0).normal(size=(40, 30, 30)).astype("f")
def values(x): return lapack.of_batch("eigh_lo", "f->ff", x)[0]
want = values(x)  # the parent's threads are there
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert np.allclose(pool.apply_async(values, (x,)).get(60), want, atol=1e-3)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(5, 5), (40, 40), (3, 9, 9)])
def test_what_nothing_reads_is_not_computed(shape: tuple[int, ...]) -> None:
    x = matrices(*shape)
    vectors, values = ShapedArray(shape, x.dtype), ShapedArray(shape[:-1], x.dtype)
    whole = RuleCall(la.eigh_p, tuple(EIGH.items()), (vectors, values))
    some = RuleCall(la.eigh_p, tuple(EIGH.items()), (vectors, values), frozenset({0}))
    np.testing.assert_allclose(some(x)[1], whole(x)[1], atol=1e-4)
    whole = RuleCall(la.svd_p, tuple(SVD.items()), (values, vectors, vectors))
    some = RuleCall(la.svd_p, tuple(SVD.items()), (values, vectors, vectors), frozenset({1, 2}))
    np.testing.assert_allclose(some(x)[0], whole(x)[0], atol=1e-4)
    left = RuleCall(la.svd_p, tuple(SVD.items()), (values, vectors, vectors), frozenset({2}))
    np.testing.assert_allclose(left(x)[1], whole(x)[1], atol=1e-4)


def test_qr_and_cholesky_are_numpys_up_to_rounding() -> None:
    with quire.disable_jit():
        for shape in ((130, 100), (100, 130), (3, 40, 30), (4, 3), (3, 4, 3)):
            x = matrices(*shape)
            for mode in ("reduced", "complete"):
                for got, want in zip(qnp.linalg.qr(x, mode), np.linalg.qr(x, mode), strict=True):
                    np.testing.assert_allclose(got, want, atol=2e-4)
        many = np.stack(
            [np.eye(30, dtype=np.float32), -np.eye(30, dtype=np.float32), np.diag(np.full(30, np.inf, np.float32))]
        )
        l = np.asarray(qnp.linalg.cholesky(many, symmetrize_input=False))
    assert np.array_equal(l[0], many[0]) and np.isnan(l[1][np.tril_indices(30)]).all() and not np.triu(l[1], 1).any()
    assert np.isinf(np.diagonal(l[2])).all()


def test_many_matrices_that_are_iterated_over_one_by_one_are_a_call() -> None:
    def values(x: Any) -> Any:
        return qnp.linalg.svd(x, compute_uv=False)

    def choice(*shape: int) -> str:
        return quire.jit(values).lower(matrices(*shape)).as_text().splitlines()[0]

    assert "LAPACK: iterations over 50 matrices one by one are slower than a call" in choice(50, 16, 16)
    assert "kernel: svd of 50 matrices" in choice(50, 6, 6) and "kernel: svd of one matrix" in choice(8, 8)


SOLVE = """
import sys
import numpy as np, quire.numpy as qnp
{first}
a = np.array([[4, 1], [1, 3]], np.float32)
np.testing.assert_allclose(qnp.linalg.cholesky(a), np.linalg.cholesky(a), rtol=1e-6)
np.testing.assert_allclose(qnp.linalg.solve(a, a), np.eye(2), atol=1e-6)
print("scipy.linalg" in sys.modules)
{then}
"""
SCIPY = "import scipy.linalg; assert scipy.linalg.cholesky(np.eye(2))[1, 1] == 1"
SAME = SCIPY + "; assert scipy.linalg.lapack.dpotrf is sys.modules['scipy.linalg._flapack'].dpotrf"

ABSENT = "from quire.backends.reference import lapack; lapack.PathFinder = type('', (), {'find_spec': lambda *_: None})"


@pytest.mark.parametrize(
    ("first", "then", "imported"),
    [("", "", "False"), ("", SAME, "False"), ("import scipy.linalg", SAME, "True"), (ABSENT, SCIPY, "True")],
    ids=["alone", "before scipy.linalg", "after scipy.linalg", "a SciPy built in another way"],
)
def test_together_with_scipy(first: str, then: str, imported: str) -> None:
    script = SOLVE.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [imported]

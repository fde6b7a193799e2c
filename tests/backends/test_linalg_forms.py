"""Linear algebra in ordinary operations: against LAPACK's results, batched, real and complex."""

import numpy as np
import pytest

from quire.backends import reference
from quire.backends.stablehlo import linalg_forms as lf
from tests.helpers import trace

RNG = np.random.default_rng(0)


def run(f, *args):
    return reference.eval_jaxpr(trace(f, args), *args)


def normal(shape, dtype=np.float32):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def dagger(x):
    return np.swapaxes(x.conj(), -1, -2)


def definite(shape, dtype):
    x = normal(shape, dtype)
    return (x @ dagger(x) + np.eye(shape[-1])).astype(dtype)


def close(x, y, tolerance=2e-4):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(y).max(initial=0))))


def close_to_identity(x):
    close(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape))


@pytest.fixture(params=[np.float32, np.complex64])
def dtype(request):
    return request.param


SQUARE = [(5, 5), (2, 3, 4, 4), (1, 1), (0, 3, 3), (2, 2)]
ANY = [*SQUARE, (3, 5), (5, 3), (2, 4, 1), (1, 3)]


@pytest.mark.parametrize("shape", SQUARE)
def test_cholesky(shape, dtype):
    x = definite(shape, dtype)
    (l,) = run(lf.cholesky, x)
    close(l, np.linalg.cholesky(x))


def test_cholesky_of_an_indefinite_matrix():
    x = np.stack([np.diag([1, -1, 2]), np.eye(3), np.diag([1, 0, 1])]).astype(np.float32)
    (l,) = run(lf.cholesky, x)
    assert np.isnan(l[0][np.tril_indices(3)]).all() and np.isnan(l[2][np.tril_indices(3)]).all()
    np.testing.assert_array_equal(l[1], np.eye(3))


def test_triangular_solve(dtype):
    for bits in range(32):
        left, lower, transpose, conjugate, unit = (bool(bits >> i & 1) for i in range(5))
        a = (normal((2, 4, 4), dtype) / 4 + 2 * np.eye(4)).astype(dtype)
        b = normal((2, 4, 3) if left else (2, 3, 4), dtype)
        params = dict(left_side=left, lower=lower, transpose_a=transpose, conjugate_a=conjugate, unit_diagonal=unit)
        (x,) = run(lambda a, b: lf.triangular_solve(a, b, **params), a, b)  # noqa: B023
        t = np.tril(a) if lower else np.triu(a)
        if unit:
            t = t - t * np.eye(4) + np.eye(4)
        t = t.conj() if conjugate else t
        t = np.swapaxes(t, -1, -2) if transpose else t
        close(t @ x if left else x @ t, b)


@pytest.mark.parametrize("shape", ANY)
def test_lu(shape, dtype):
    x = normal(shape, dtype)
    a, pivots, permutation = run(lf.lu, x)
    from quire.ir.primitives import linalg as la

    want = run(la.lu, x)
    np.testing.assert_array_equal(pivots, want[1])
    np.testing.assert_array_equal(permutation, want[2])
    close(a, want[0])


def test_lu_of_a_singular_matrix():
    x = np.array([[0, 1, 2], [0, 2, 4], [0, 0, 0]], np.float32)
    a, _, permutation = run(lf.lu, x)
    close(np.tril(a, -1) @ np.triu(a) + np.triu(a), x[permutation])


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", ANY)
def test_qr(shape, full, dtype):
    x = normal(shape, dtype)
    q, r = run(lambda x: lf.qr(x, pivoting=False, full_matrices=full), x)
    close(q @ r, x)
    close_to_identity(dagger(q) @ q)
    np.testing.assert_array_equal(r, np.triu(r))
    if full:
        from quire.ir.primitives import linalg as la

        want_q, want_r = run(la.qr, x)  # LAPACK's signs too
        close(q, want_q)
        close(r, want_r)


@pytest.mark.parametrize("shape", [*SQUARE, (7, 7)])
def test_eigh(shape, dtype):
    x = normal(shape, dtype)
    x = ((x + dagger(x)) / 2).astype(dtype)
    v, w = run(lambda x: lf.eigh(x, lower=True, sort_eigenvalues=True, subset_by_index=None), x)
    close(w, np.linalg.eigvalsh(x))
    close(v * w[..., None, :] @ dagger(v), x)
    close_to_identity(dagger(v) @ v)


def test_eigh_special_matrices():
    for x in (np.zeros((3, 3)), np.eye(4), np.ones((5, 5)), np.diag([3.0, 3, 1e-20, -3])):
        x = x.astype(np.float32)
        v, w = run(lambda x: lf.eigh(x, lower=False, sort_eigenvalues=True, subset_by_index=None), x)
        close(w, np.linalg.eigvalsh(x))
        close_to_identity(v.T @ v)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", ANY)
def test_svd(shape, full, dtype):
    x = normal(shape, dtype)
    s, u, vh = run(lambda x: lf.svd(x, full_matrices=full, compute_uv=True, subset_by_index=None), x)
    close(s, np.linalg.svd(x, compute_uv=False))
    k = min(shape[-2:])
    close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x)
    close_to_identity(dagger(u) @ u)
    close_to_identity(vh @ dagger(vh))


def test_svd_of_matrices_of_low_rank():
    # Columns that are nothing but rounding errors point anywhere: how they round differs between processors.
    noise = np.outer(np.ones(5), [1, 1e-8, 1e-8])
    noise[0, 1], noise[1, 2] = 3e-8, -2e-8
    low = normal((6, 2)) @ normal((2, 4))
    for x in (np.zeros((4, 3)), np.ones((5, 3)), np.outer([1, 2, 3], [1, 0, 1, 0]), noise, low, low.T):
        x = x.astype(np.float32)
        s, u, vh = run(lambda x: lf.svd(x, full_matrices=True, compute_uv=True, subset_by_index=None), x)
        close(s, np.linalg.svd(x, compute_uv=False), 1e-3)
        k = min(x.shape)
        close(u[:, :k] * s @ vh[:k], x)
        close_to_identity(u.T @ u)
        close_to_identity(vh @ vh.T)


def test_compiled_without_python():
    """All forms in one module for a target that cannot call Python."""
    import dataclasses

    from quire.backends.iree import compile_service
    from quire.backends.stablehlo import lower_module
    from quire.backends.targets import TARGETS
    from quire.ir.primitives import linalg as la
    from quire.runtime.buffers import from_numpy, to_numpy
    from quire.runtime.devices import devices
    from quire.runtime.executable import Executable

    target = dataclasses.replace(TARGETS["cpu"], host_functions=False)
    x, d = normal((2, 4, 3)), definite((3, 3), np.complex64)
    h = definite((4, 4), np.float32)

    def f(x, d, h):
        l = la.cholesky(d)
        return [l, la.triangular_solve(l, d, left_side=True, lower=True), *la.lu(x), *la.qr(x), *la.eigh(h), *la.svd(x)]

    closed = trace(f, [x, d, h])
    lowered = lower_module(closed, target)
    assert not lowered.host_calls
    cpu = devices("cpu")[0]
    vmfb = compile_service().compile(lowered.bytecode(), target.flags, name="forms").vmfb
    out = Executable.load(vmfb, cpu).execute([from_numpy(a, cpu) for a in (x, d, h)])
    got = [to_numpy(v, cpu, a.dtype, a.shape) for v, a in zip(out, closed.out_avals)]
    want = reference.eval_jaxpr(closed, x, d, h)
    l, y, lu, pivots, permutation, q, r, v, w, s, u, vh = got
    for g, e in zip(got[:7], want):
        close(g, e)
    close(w, want[8])
    close(v * w @ v.T, h)
    close(s, want[9])
    close(u[..., :3] * s[:, None, :] @ vh, x)


def test_what_has_no_form_names_the_target():
    import dataclasses

    from quire.backends.stablehlo import lower_module
    from quire.backends.targets import TARGETS
    from quire.ir import errors
    from quire.ir.primitives import linalg as la

    target = dataclasses.replace(TARGETS["cpu"], host_functions=False, name="bare")
    with pytest.raises(errors.UnsupportedError, match="schur: target bare cannot do schur .*it needs LAPACK"):
        lower_module(trace(la.schur, [normal((3, 3))]), target)

"""Derivative and batching rules of linear algebra and fft, against JAX and an explicit loop."""

import zlib

import jax
import numpy as np
import pytest
from jax import lax

from quire.backends import reference
from quire.ir.avals import aval_of
from quire.ir.primitives import fft as ff
from quire.ir.primitives import linalg as la
from quire.passes.ad.rules import Linear, Zero, jvp, transpose
from quire.passes.batching.rules import Axis, batching
from tests.helpers import trace

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_numbers(request):
    """Each test draws the same numbers, whichever ran before it."""
    global RNG
    RNG = np.random.default_rng(zlib.crc32(request.node.name.encode()))


def run(f, *args):
    return reference.eval_jaxpr(trace(f, args), *args)


def normal(shape, dtype=np.float32):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def hermitian(shape, dtype):
    x = normal(shape, dtype)
    return (x + np.swapaxes(x.conj(), -1, -2)).astype(dtype) / 2


def definite(shape, dtype=np.float32):
    return (hermitian(shape, dtype) + 2 * shape[-1] * np.eye(shape[-1])).astype(dtype)


def params_of(f, *args):
    (eqn,) = trace(f, args).jaxpr.eqns
    return eqn.primitive, dict(eqn.params)


def solve_params(bits):
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    return dict(zip(names, (bool(bits >> i & 1) for i in range(5))))


# name: quire's function, JAX's, operands' makers (shape to value), tangents' makers
CASES = {
    "cholesky": (la.cholesky, lambda x: lax.linalg.cholesky(x, symmetrize_input=False), [((2, 4, 4), definite, hermitian)]),
    "lu": (la.lu, lax.linalg.lu, [((2, 4, 4), normal, normal)]),
    "lu wide": (la.lu, lax.linalg.lu, [((3, 5), normal, normal)]),
    "lu tall": (la.lu, lax.linalg.lu, [((5, 3), normal, normal)]),
    "qr": (lambda x: la.qr(x, full_matrices=False), lambda x: lax.linalg.qr(x, full_matrices=False), [((2, 5, 3), normal, normal)]),
    "qr square": (la.qr, lax.linalg.qr, [((4, 4), normal, normal)]),
    "eigh": (la.eigh, lambda x: lax.linalg.eigh(x, symmetrize_input=False), [((2, 4, 4), definite, hermitian)]),
    "svd values": (lambda x: la.svd(x, compute_uv=False), lambda x: [lax.linalg.svd(x, compute_uv=False)],
                   [((2, 3, 4), normal, normal)]),
    "svd": (lambda x: la.svd(x, full_matrices=False), lambda x: _s_u_vh(x), [((5, 3), normal, normal)]),
    "svd wide": (lambda x: la.svd(x, full_matrices=False), lambda x: _s_u_vh(x), [((2, 3, 5), normal, normal)]),
    "svd square": (la.svd, lambda x: _s_u_vh(x), [((4, 4), normal, normal)]),
    "eig": (lambda x: la.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
            lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
            [((4, 4), normal, normal)]),
    "tridiagonal_solve": (la.tridiagonal_solve, lax.linalg.tridiagonal_solve,
                          [((2, 5), normal, normal), ((2, 5), lambda s, d: normal(s, d) + 6, normal), ((2, 5), normal, normal),
                           ((2, 5, 3), normal, normal)]),
}  # fmt: skip
for _bits in range(32):
    _p = solve_params(_bits)
    CASES[f"triangular_solve {_bits:05b}"] = (
        lambda a, b, p=_p: la.triangular_solve(a, b, **p), lambda a, b, p=_p: lax.linalg.triangular_solve(a, b, **p),
        [((2, 4, 4), lambda s, d: (normal(s, d) / 4 + 2 * np.eye(4)).astype(d), normal),
         ((2, 4, 3) if _p["left_side"] else (2, 3, 4), normal, normal)],
    )  # fmt: skip


def _s_u_vh(x):
    u, s, vh = lax.linalg.svd(x, full_matrices=x.shape[-1] == x.shape[-2])
    return [s, u, vh]


def flat(out):
    return list(out) if isinstance(out, (list, tuple)) else [out]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", CASES)
def test_jvp_equals_jax(name, dtype):
    f, g, operands = CASES[name]
    args = [np.asarray(make(s, dtype), dtype) for s, make, _ in operands]
    tangents = [np.asarray(make(s, dtype), dtype) for s, _, make in operands]
    if dtype == np.complex64 and name == "tridiagonal_solve":
        pytest.skip("JAX has no complex tridiagonal_solve with derivatives on every version")
    p, params = params_of(f, *args)
    n = len(args)

    def rule(*a):
        out, t = jvp[p](a[:n], a[n:], **params)
        return [*flat(out), *(x for x in flat(t) if not isinstance(x, Zero))]

    got = run(rule, *args, *tangents)
    want, want_t = jax.jvp(lambda *a: flat(g(*a)), tuple(args), tuple(tangents))
    expected = [*want, *(t for t in want_t if t.dtype != jax.dtypes.float0)]
    assert len(got) == len(expected)
    if name == "eigh":
        # An eigenvector's sign (or phase) is free, and its tangent's with it.
        v, _, dv, _ = got
        phase = np.sum(np.conj(v) * expected[0], axis=-2, keepdims=True)
        phase /= np.abs(phase)
        got = [v * phase, got[1], dv * phase, got[3]]
    for x, y in zip(got, expected):
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3)


def test_qr_of_a_wide_matrix_against_differences():
    x, t = normal((3, 5)), normal((3, 5))
    p, params = params_of(la.qr, x)
    dq, dr = run(lambda x, t: jvp[p]((x,), (t,), **params)[1], x, t)
    e = 1e-3
    up, down = (run(la.qr, (x + s * e * t).astype(np.float32)) for s in (1, -1))
    for d, a, b in zip((dq, dr), up, down):
        np.testing.assert_allclose(d, (a - b) / (2 * e), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["triangular_solve", "tridiagonal_solve"])
def test_transposes_of_solutions(name):
    """<ct, J t> = <J^T ct, t>, both bilinear."""
    for dtype in (np.float32, np.complex64):
        if name == "triangular_solve":
            for bits in range(32):
                params = solve_params(bits)
                params["conjugate_a"] &= dtype == np.complex64
                a = (normal((4, 4), dtype) / 4 + 2 * np.eye(4)).astype(dtype)
                b, c = normal((4, 4), dtype), normal((4, 4), dtype)
                p = la.triangular_solve_p
                forward = run(lambda a, b: p.bind(a, b, **params), a, b)[0]  # noqa: B023
                back = run(lambda a, c: transpose[p](c, a, Linear(aval_of(b)), **params)[1], a, c)[0]  # noqa: B023
                np.testing.assert_allclose(np.sum(forward * c), np.sum(back * b), rtol=2e-3, atol=2e-3)
        else:
            dl, d, du = normal((5,), dtype), (normal((5,), dtype) + 6).astype(dtype), normal((5,), dtype)
            b, c = normal((5, 2), dtype), normal((5, 2), dtype)
            forward = run(la.tridiagonal_solve, dl, d, du, b)[0]

            def solve_back(*a):
                return transpose[la.tridiagonal_solve_p](a[3], *a[:3], Linear(aval_of(b)), perturb_singular=False)[3]  # noqa: B023

            back = run(solve_back, dl, d, du, c)[0]
            np.testing.assert_allclose(np.sum(forward * c), np.sum(back * b), rtol=2e-3, atol=2e-3)


BATCHED = {
    "cholesky": (la.cholesky, [(3, 3)], definite), "lu": (la.lu, [(3, 4)], normal), "qr": (la.qr, [(4, 3)], normal),
    "eigh": (la.eigh, [(3, 3)], definite), "svd": (la.svd, [(2, 3)], normal), "eig": (la.eig, [(3, 3)], normal),
    "schur": (la.schur, [(3, 3)], normal), "hessenberg": (la.hessenberg, [(3, 3)], normal),
    "tridiagonal": (la.tridiagonal, [(3, 3)], definite), "geqrf": (la.geqrf, [(4, 3)], normal),
    "householder": (la.householder_product, [(4, 3), (3,)], normal),
    "tridiagonal_solve": (la.tridiagonal_solve, [(3,), (3,), (3,), (3, 2)], lambda s: normal(s) + 3),
    "left": (lambda a, b: la.triangular_solve(a, b, left_side=True, lower=True), [(3, 3), (3, 2)], lambda s: normal(s) + 3),
    "right": (lambda a, b: la.triangular_solve(a, b), [(3, 3), (2, 3)], lambda s: normal(s) + 3),
    "right batches": (lambda a, b: la.triangular_solve(a, b), [(2, 3, 3), (2, 2, 3)], lambda s: normal(s) + 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHED)
def test_batching_equals_a_loop(name):
    f, shapes, make = BATCHED[name]
    size = 3
    for mask in range(1, 1 << len(shapes)):
        base = [make(s) for s in shapes]
        for where in (0, 1):
            dims = [min(where, x.ndim) if mask >> i & 1 else None for i, x in enumerate(base)]
            args = [x if d is None else np.stack([x, 2 * x, 3 * x], d) for x, d in zip(base, dims)]
            p, params = params_of(f, *base)
            out_dims = []

            def rule(*a):
                out, d = batching[p](Axis(size), a, dims, **params)  # noqa: B023
                out_dims[:] = flat(d)  # noqa: B023
                return out

            got = run(rule, *args)
            loops = [run(f, *(x if d is None else np.take(x, i, d) for x, d in zip(args, dims))) for i in range(size)]
            for k, (x, d) in enumerate(zip(got, out_dims)):
                np.testing.assert_allclose(np.moveaxis(x, d, 0), np.stack([o[k] for o in loops]), rtol=1e-4, atol=1e-4)


def test_pivots_batch():
    p = la.lu_pivots_to_permutation_p
    pivots = np.array([[1, 2], [2, 2], [1, 1]], np.int32)
    out, d = None, []

    def rule(x):
        value, dim = batching[p](Axis(2), [x], [1], permutation_size=4)
        d.append(dim)
        return value

    out = run(rule, pivots)[0]
    want = [run(lambda x: la.lu_pivots_to_permutation(x, 4), pivots[:, i].copy())[0] for i in range(2)]
    np.testing.assert_array_equal(out, np.stack(want))


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("lengths", [(1,), (4,), (5,), (3, 4), (2, 3, 5)])
def test_fft_rules(kind, lengths):
    shape = (2, *lengths[:-1], lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1])
    dtype = np.float32 if kind == "RFFT" else np.complex64
    x, t = normal(shape, dtype), normal(shape, dtype)
    params = {"fft_type": ff.FftType[kind], "fft_lengths": lengths}

    def g(x):
        return lax.fft(x, kind, lengths)

    want, want_t = jax.jvp(g, (x,), (t,))
    out, out_t = run(lambda x, t: jvp[ff.fft_p]((x,), (t,), **params), x, t)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out_t, want_t, rtol=1e-4, atol=1e-4)
    c = normal(want.shape, want.dtype)
    back = run(lambda c: transpose[ff.fft_p](c, Linear(aval_of(x)), **params)[0], c)[0]
    np.testing.assert_allclose(back, jax.vjp(g, x)[1](c)[0], rtol=1e-4, atol=1e-4)
    moved = np.moveaxis(np.stack([x, t]), 0, 1)
    batched = run(lambda x: batching[ff.fft_p](Axis(2), [x], [1], **params)[0], moved)[0]
    np.testing.assert_allclose(batched, np.stack([want, want_t]), rtol=1e-4, atol=1e-4)

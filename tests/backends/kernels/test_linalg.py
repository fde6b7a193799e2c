"""Kernels of linear algebra: accuracy as LAPACK's over kinds of matrices; loops that stay one kernel; the choice.

Matrices are multiplied out again in double precision, so nothing depends on the signs of vectors; bounds are small multiples
of the size and the precision, relative to the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import quire
from quire.backends import reference

Array = Any
RNG = np.random.default_rng(5)


def hermitian(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def normal(shape: Sequence[int], dtype: Any) -> Array:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def random(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    return normal((*batch, m, n), dtype)


def graded(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Rows and columns of sizes from 1 to 1e-12."""
    rows, columns = 10.0 ** -np.linspace(0, 8, m), 10.0 ** -np.linspace(0, 4, n)
    return (normal((*batch, m, n), dtype) * rows[:, None] * columns).astype(dtype)


def deficient(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Of rank 1."""
    return normal((*batch, m, 1), dtype) @ normal((*batch, 1, n), dtype)


def ill_conditioned(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Singular values from 1 to the precision."""
    k = min(m, n)
    u, _ = np.linalg.qr(normal((*batch, m, k), dtype))
    v, _ = np.linalg.qr(normal((*batch, n, k), dtype))
    return ((u * np.finfo(dtype).eps ** np.linspace(0, 1, k)) @ hermitian(v)).astype(dtype)


def large(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Squares of the elements overflow."""
    return normal((*batch, m, n), dtype) * np.asarray(np.finfo(dtype).max, dtype) ** 0.6


def zero(m: int, n: int, batch: tuple[int, ...], dtype: Any) -> Array:
    return np.zeros((*batch, m, n), dtype)


KINDS = (random, graded, deficient, ill_conditioned, large, zero)


def everything(a: Array, square: Array, definite: Array, right: Array) -> Any:
    """All operations; `a` of any shape, Hermitian `square`, positive definite `definite`."""
    la = quire.lax.linalg
    flags = dict(left_side=True, lower=False, transpose_a=True, conjugate_a=True)
    return {
        "cholesky": quire.lax.linalg.cholesky(definite, symmetrize_input=False),
        "lu": la.lu(a),
        "qr": la.qr(a, full_matrices=False),
        "full qr": la.qr(a, full_matrices=True),
        **within_a_loop(a, square),
        "values": la.svd(a, compute_uv=False),
        "lower": la.triangular_solve(definite, right, left_side=True, lower=True),
        "upper": la.triangular_solve(definite, hermitian_of(right), lower=False, unit_diagonal=True),
        "turned": la.triangular_solve(definite, right, **flags),
    }


def within_a_loop(a: Array, square: Array) -> Any:
    """What LAPACK computes outside of loops, for the signs of vectors."""
    la, np_ = quire.lax.linalg, quire.numpy

    def step(carry: Any, given: Any) -> Any:
        a, square = given
        return carry, {
            "eigh": la.eigh(square, symmetrize_input=False),
            "upper eigh": la.eigh(square, lower=False, symmetrize_input=False),
            "svd": la.svd(a, full_matrices=False),
            "full svd": la.svd(a, full_matrices=True),
        }

    _, out = quire.lax.scan(step, 0.0, (np_.stack([a, a]), np_.stack([square, square])))
    return quire.tree_util.tree_map(lambda x: x[1], out)


def hermitian_of(x: Any) -> Any:
    return quire.numpy.conj(quire.numpy.swapaxes(x, -1, -2))


def wide(x: Any) -> Array:
    x = np.asarray(x)
    return x.astype(np.complex128) if x.dtype.kind == "c" else x.astype(np.float64) if x.dtype.kind == "f" else x


class Bounds:
    """Errors relative to what the size and the precision explain."""

    def __init__(self, name: str, size: int, dtype: Any) -> None:
        self.name, self.unit = name, 20 * size * float(np.finfo(dtype).eps)
        self.wrong: list[str] = []

    def small(self, what: str, error: Array, scale: Array) -> None:
        most = np.max(np.abs(error), initial=0) / max(float(np.max(np.abs(scale), initial=0)), 1e-300)
        if not most <= self.unit:
            self.wrong.append(f"{self.name} {what}: {most:.1e}, at most {self.unit:.1e} is explained")

    def unitary(self, what: str, q: Array) -> None:
        self.small(what, hermitian(q) @ q - np.eye(q.shape[-1]), 1.0)


def compared(name: str, a: Array, square: Array, definite: Array, right: Array, out: Any) -> list[str]:
    m, n = a.shape[-2:]
    k = min(m, n)
    bounds = Bounds(name, max(m, n), a.dtype)
    found = jax.tree_util.tree_map(
        wide, {key: tuple(v) if isinstance(v, tuple | list) else v for key, v in out.items()}
    )
    a, square, definite, right = map(wide, (a, square, definite, right))
    factor = found["cholesky"]
    bounds.small("cholesky", factor @ hermitian(factor) - definite, definite)
    bounds.small("cholesky above", np.triu(factor, 1), 0)
    lu, pivots, order = found["lu"]
    lower = np.tril(lu[..., :, :k], -1) + np.eye(m, k)
    permuted = np.take_along_axis(a, order[..., None].astype(np.int64), axis=-2)
    bounds.small("lu", lower @ np.triu(lu[..., :k, :]) - permuted, a)
    bounds.small("lu below", np.maximum(np.abs(lower) - 2.0, 0), 0)
    assert ((pivots >= np.arange(k)) & (pivots < m)).all(), name
    for key in ("qr", "full qr"):
        q, r = found[key]
        bounds.small(key, q @ r - a, a)
        bounds.small(f"{key} below", np.tril(r, -1), 0)
        bounds.unitary(f"{key} q", q)
    for key in ("eigh", "upper eigh"):
        v, w = found[key]
        bounds.small(key, square @ v - v * w[..., None, :], square)
        bounds.unitary(f"{key} v", v)
        bounds.small(f"{key} values", w - np.linalg.eigvalsh(square), square)
        assert (np.diff(w) >= 0).all(), name
    values = np.linalg.svd(a, compute_uv=False)
    for key in ("svd", "full svd"):
        u, s, vh = found[key]
        bounds.small(key, (u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :] - a, a)
        bounds.unitary(f"{key} u", u)
        bounds.unitary(f"{key} v", hermitian(vh))
        bounds.small(f"{key} values", s - values, values)
        assert (np.diff(s) <= 0).all() and (s >= 0).all(), name
    bounds.small("values", found["values"] - values, values)
    below, above = np.tril(definite), np.triu(definite)
    unit = np.triu(definite, 1) + np.eye(m)
    x, y, z = found["lower"], found["upper"], found["turned"]
    # Each residual is small beside the sizes of what was subtracted.
    for key, error, scale in (
        ("lower", below @ x - right, abs(below) @ abs(x)),
        ("upper", y @ unit - hermitian(right), abs(y) @ abs(unit)),
        ("turned", hermitian(above) @ z - right, abs(hermitian(above)) @ abs(z)),
    ):
        with np.errstate(all="ignore"):
            bounds.small(key, np.where(error == 0, 0, error / np.where(scale == 0, 1, scale)), 1.0)
    return bounds.wrong


@pytest.mark.parametrize(
    "m, n, batch, dtype",
    [(1, 1, (), "f"), (2, 2, (40,), "f"), (3, 3, (), "f"), (5, 3, (2, 20), "f"), (4, 7, (3,), "f"), (16, 16, (), "f"),
     (6, 6, (37,), "d"), (3, 3, (20,), "F"), (7, 6, (), "D")],
)  # fmt: skip
def test_accuracy_over_kinds_of_matrices(m: int, n: int, batch: tuple[int, ...], dtype: str) -> None:
    wrong: list[str] = []
    with quire.enable_x64(np.dtype(dtype).itemsize == np.dtype("d" if dtype in "fd" else "D").itemsize):
        f = quire.jit(everything)
        for kind in KINDS:
            a = kind(m, n, batch, dtype)
            b = kind(m, m, batch, dtype)
            square = b + hermitian(b) if kind is not large else (b + hermitian(b)) / 4
            base = random(m, m, batch, dtype) / m
            definite = (base @ hermitian(base) + np.eye(m)).astype(dtype)
            if kind is graded:
                scale = 10.0 ** -np.linspace(0, 8, m)
                definite = (definite * scale[:, None] * scale).astype(dtype)
            right = kind(m, 3, batch, dtype)
            if kind is random:
                assert "@host." not in f.lower(a, square, definite, right).as_text()
            wrong += compared(kind.__name__, a, square, definite, right, f(a, square, definite, right))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "m, n, batch, dtype",
    [(70, 5, (), "f"), (4, 90, (), "f"), (33, 12, (3,), "f"), (300, 1, (), "f"), (64, 6, (), "d"), (50, 3, (2,), "F"),
     (3, 41, (), "D")],
)  # fmt: skip
def test_long_matrices_within_loops(m: int, n: int, batch: tuple[int, ...], dtype: str) -> None:
    """With far more rows than columns, or columns than rows: in vectors down the columns."""

    def step(carry: Any, a: Any) -> Any:
        la = quire.lax.linalg
        return carry, (la.qr(a, full_matrices=False), la.svd(a, full_matrices=False), la.svd(a, compute_uv=False))

    k, wrong = min(m, n), list[str]()
    with quire.enable_x64(dtype in "dD"):
        f = quire.jit(lambda a: quire.lax.scan(step, 0.0, quire.numpy.stack([a, a]))[1])
        for kind in KINDS:
            a = kind(m, n, batch, dtype)
            if kind is random:
                assert "@host." not in f.lower(a).as_text()
            (q, r), (u, s, vh), values = jax.tree_util.tree_map(lambda x: wide(x)[1], f(a))
            bounds, a = Bounds(f"{kind.__name__} {m}x{n}", max(m, n), a.dtype), wide(a)
            want = np.linalg.svd(a, compute_uv=False)
            bounds.small("qr", q @ r - a, a)
            bounds.small("qr below", np.tril(r, -1), 0)
            bounds.small("svd", (u * s[..., None, :]) @ vh - a, a)
            for what, vectors in (("q", q), ("u", u), ("v", hermitian(vh))):
                bounds.unitary(what, vectors)
                assert vectors.shape[-1] == k
            for what, found in (("svd values", s), ("values", values)):
                bounds.small(what, found - want, want)
            wrong += bounds.wrong
    assert not wrong, "\n".join(wrong)


def test_what_is_not_finite_or_not_definite_is_nan_and_nothing_else() -> None:
    def f(x: Any) -> Any:
        la = quire.lax.linalg
        return (
            la.cholesky(x, symmetrize_input=False),
            *la.eigh(x, symmetrize_input=False),
            *la.svd(x),
            la.lu(x)[0],
            la.qr(x)[1],
        )

    for count in (5, 37):  # one by one, and across lanes
        base = normal((count, 5, 5), np.float32)
        x = base @ hermitian(base) + 5 * np.eye(5, dtype=np.float32)
        bad = np.zeros((count,), bool)
        for k, number in ((1, np.nan), (2, np.inf), (4, -np.inf)):
            x[k, 3, 1] = number
            bad[k] = True
        x[0] -= 100 * np.eye(5, dtype=np.float32)  # finite, and not positive definite
        factor, v, w, s, u, vh, lu, r = [np.asarray(y) for y in quire.jit(f)(x)]
        for y in (v, w, s, u, vh):
            assert np.array_equal(np.isnan(y).reshape(count, -1).all(1), bad)
            assert np.isfinite(y[~bad]).all()
        with np.errstate(all="ignore"):
            want = np.asarray(jax.lax.linalg.cholesky(x, symmetrize_input=False))
        assert np.array_equal(np.isnan(np.tril(factor)), np.isnan(np.tril(want)))
        assert np.isnan(np.tril(factor)[0][np.tril_indices(5)]).all()
        for y in (lu, r):
            assert np.isfinite(y[~bad]).all() and (~np.isfinite(y[bad])).any((1, 2)).all()


def test_pivots_and_permutations_are_those_of_lapack() -> None:
    x = [normal(shape, np.float32) for shape in ((5, 5), (30, 6, 4), (3, 4, 6), (20, 20), (2, 2))]
    x[1][3, :, 0] = 0  # a column of zeros
    x[1][4] = np.sign(x[1][4])  # ties: the first is taken
    got = quire.jit(lambda *xs: [quire.lax.linalg.lu(a)[1:] for a in xs])(*x)
    for a, (pivots, order) in zip(x, got):
        _, want_pivots, want_order = jax.lax.linalg.lu(a)
        assert np.array_equal(pivots, want_pivots) and np.array_equal(order, want_order)
    p = np.array([2, 3, 2, 3], np.int32)
    found = quire.jit(lambda p: quire.lax.linalg.lu_pivots_to_permutation(p, 6))(p)
    assert np.array_equal(found, jax.lax.linalg.lu_pivots_to_permutation(p, 6))


# -- loops ------------------------------------------------------------------------------------------------------------

Library = Any


def kalman(lib: Library) -> Callable[..., Any]:
    """Means of a linear filter of 5 states and 3 observations."""
    np_, lax = lib.numpy, lib.lax

    def f(a: Any, h: Any, ys: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            x, p = carry
            x, p = a @ x, a @ p @ a.T + 0.1 * np_.eye(5)
            s = h @ p @ h.T + np_.eye(3)
            gain = np_.linalg.solve(s, h @ p).T
            x = x + gain @ (y - h @ x)
            return (x, p - gain @ h @ p), x

        return lax.scan(step, (np_.zeros(5), np_.eye(5)), ys)[1]

    return f


def gaussian(lib: Library) -> Callable[..., Any]:
    """Densities of normal distributions whose covariances change: cholesky and triangular solution."""

    def f(a: Any, h: Any, ys: Any) -> Any:
        np_ = lib.numpy

        def step(c: Any, y: Any) -> Any:
            factor = np_.linalg.cholesky(c)
            z = lib.lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)[:, 0]
            return c + 0.1 * np_.outer(y, y), -0.5 * z @ z - np_.sum(np_.log(np_.diagonal(factor)))

        return lib.lax.scan(step, h @ h.T + np_.eye(3), ys)[1]

    return f


def newton(lib: Library) -> Callable[..., Any]:
    """Until the gradient is small."""

    def f(a: Any, h: Any, ys: Any) -> Any:
        np_ = lib.numpy

        def gradient(x: Any) -> Any:
            return a @ np_.tanh(x) + x - a[0]

        def step(x: Any) -> Any:
            return x - np_.linalg.solve(a * (1 - np_.tanh(x) ** 2) + np_.eye(5), gradient(x))

        return lib.lax.while_loop(lambda x: np_.sum(gradient(x) ** 2) > 1e-6, step, np_.ones(5))

    return f


def orthogonal(lib: Library) -> Callable[..., Any]:
    """Eigenvalues by QR iteration, and what decompositions give in each step that has no sign."""

    def f(a: Any, h: Any, ys: Any) -> Any:
        np_ = lib.numpy
        start = a @ a.T + np_.diag(np_.arange(1.0, 6.0))

        def step(x: Any, _: Any) -> Any:
            q, r = np_.linalg.qr(x)
            x = r @ q
            w = np_.linalg.eigvalsh(x)
            return x, (w, np_.linalg.svd(x - 2.0, compute_uv=False), np_.linalg.det(x), np_.linalg.inv(x)[0])

        return lib.lax.scan(step, start, None, length=3)

    return f


def resampling(lib: Library) -> Callable[..., Any]:
    """Cumulative operations of small whole numbers, which are exact."""

    def f(a: Any, h: Any, ys: Any) -> Any:
        np_ = lib.numpy
        base = np_.round(4 * a).ravel()

        def step(c: Any, y: Any) -> Any:
            c = c + np_.round(y[0])
            table = c[:, None] + base[:7]
            out = (np_.cumsum(c), lib.lax.cumsum(table, axis=0, reverse=True), lib.lax.cummax(table, axis=1),
                   np_.searchsorted(np_.cumsum(np_.abs(c)), 3.0))  # fmt: skip
            return c, out

        return lib.lax.scan(step, base, ys)

    return f


def diffusion(lib: Library) -> Callable[..., Any]:
    """Implicit steps whose coefficients change: tridiagonal solution, for one column and for several."""

    def f(a: Any, h: Any, ys: Any) -> Any:
        np_ = lib.numpy

        def step(u: Any, y: Any) -> Any:
            off, diagonal = np_.full(5, y[0]), 1 + np_.abs(y[1]) + np_.arange(5.0) * y[2]
            u = lib.lax.linalg.tridiagonal_solve(off, diagonal + 5, off * 0.5, u)
            v = lib.lax.linalg.tridiagonal_solve(off[:3], diagonal[:3] - 3, -off[:3], h)
            return u + 0.1 * a, (u[2], v)

        return lib.lax.scan(step, a, ys)[1]

    return f


PROGRAMS = (kalman, gaussian, newton, orthogonal, resampling, diffusion)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_tridiagonal_systems(dtype: str) -> None:
    """The residuals, across lanes and one by one, and of singular matrices NaN; what is outside of the matrix is not read."""
    from quire.ir.config import config

    shapes = [
        ((), 1, 1),
        ((), 2, 1),
        ((), 3, 2),
        ((), 200, 1),
        ((), 40, 17),
        ((50,), 6, 1),
        ((3, 4), 5, 5),
        ((9,), 20, 3),
    ]
    with config.override(enable_x64=True):
        solve = quire.jit(quire.lax.linalg.tridiagonal_solve)
        for batch, n, columns in shapes:
            lower, diagonal, upper = (normal((*batch, n), dtype) for _ in range(3))
            right = normal((*batch, n, columns), dtype)
            lower[..., 0], upper[..., -1] = np.nan, np.nan
            if batch == (50,):
                diagonal[3], lower[3] = 0, 0
            args = lower, diagonal, upper, right
            assert "@host." not in solve.lower(*args).as_text()
            x = np.asarray(solve(*args))
            a = np.zeros((*batch, n, n), right.dtype)
            i = np.arange(n)
            a[..., i, i], a[..., i[1:], i[:-1]] = diagonal, lower[..., 1:]
            a[..., i[:-1], i[1:]] = upper[..., :-1]
            if batch == (50,):
                assert np.isnan(x[3]).all()
                x, a, right = (np.delete(y, 3, 0) for y in (x, a, right))
            size = np.abs(a).sum(-1).max(-1) * np.abs(x).max((-1, -2)) + np.abs(right).max((-1, -2))
            assert (np.abs(a @ x - right).max((-1, -2)) <= 4 * np.finfo(x.dtype).eps * size).all(), (batch, n, columns)


def operands() -> tuple[Array, Array, Array]:
    return 0.4 * normal((5, 5), np.float32), normal((3, 5), np.float32), normal((20, 3), np.float32)


@pytest.mark.parametrize("program", PROGRAMS)
def test_loops_are_one_kernel_and_agree_with_the_reference_and_jax(program: Callable[..., Any]) -> None:
    args = operands()
    compiled = quire.jit(program(quire))
    text = compiled.lower(*args).as_text()
    assert "one kernel, its state in memory" in text and "stablehlo.while" not in text and "@host." not in text
    got = jax.tree_util.tree_leaves(compiled(*args))
    want = jax.tree_util.tree_leaves(jax.jit(program(jax))(*args))
    referenced = reference.eval_jaxpr(quire.make_jaxpr(program(quire))(*args), *args)
    for x, y, z in zip(got, want, referenced, strict=True):
        scale = np.max(np.abs(y))
        assert np.max(np.abs(np.asarray(x) - np.asarray(y))) <= 1e-4 * scale
        assert np.max(np.abs(np.asarray(x) - z)) <= 1e-4 * scale


@pytest.mark.parametrize("program", [kalman, gaussian])
def test_gradients_and_batches_of_loops(program: Callable[..., Any]) -> None:
    args = operands()

    def loss(lib: Library) -> Callable[..., Any]:
        return lambda *xs: lib.numpy.sum(program(lib)(*xs) ** 2)

    def both(lib: Library) -> Callable[..., Any]:
        gradient = lib.grad(loss(lib), argnums=(0, 1, 2) if program is kalman else (1, 2))
        return lambda a, h, ys: (
            gradient(a, h, ys),
            lib.vmap(program(lib), (None, None, 0))(a, h, lib.numpy.stack([ys, 2 * ys])),
        )

    compiled = quire.jit(both(quire))
    assert "@host." not in compiled.lower(*args).as_text()
    got = jax.tree_util.tree_leaves(compiled(*args))
    for x, y in zip(got, jax.tree_util.tree_leaves(jax.jit(both(jax))(*args)), strict=True):
        assert np.max(np.abs(np.asarray(x) - np.asarray(y))) <= 5e-4 * np.max(np.abs(y))


def test_batches_within_loops() -> None:
    def f(lib: Library) -> Callable[..., Any]:
        def step(x: Any, _: Any) -> Any:
            y = lib.numpy.swapaxes(x, -1, -2) @ x + lib.numpy.eye(3)
            return lib.numpy.linalg.inv(y), lib.numpy.linalg.cholesky(y)

        return lambda x: lib.lax.scan(step, x, None, length=2)

    for shape in ((3, 3, 3), (2, 20, 3, 3)):
        x = normal(shape, np.float32)
        text = quire.jit(f(quire)).lower(x).as_text()
        assert "@host." not in text and "stablehlo.while" not in text
        for a, b in zip(jax.tree_util.tree_leaves(quire.jit(f(quire))(x)), jax.tree_util.tree_leaves(f(jax)(x))):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


# -- the choice -------------------------------------------------------------------------------------------------------


def choices(f: Callable[..., Any], *args: Any) -> list[str]:
    return [line for line in quire.jit(f).lower(*args).as_text().splitlines() if line.startswith("//")]


def test_the_choice_and_its_reason_are_printed() -> None:
    (small,) = choices(quire.lax.linalg.cholesky, np.eye(8, dtype="f"))
    assert small.startswith("// cholesky at") and "kernel: cholesky of one matrix" in small
    (many,) = choices(quire.lax.linalg.lu, np.ones((500, 4, 4), "f"))
    assert "kernel: lu of 500 matrices" in many and "at a time across the lanes of vectors" in many
    (large_one,) = choices(quire.lax.linalg.cholesky, np.eye(200, dtype="f"))
    assert "LAPACK: kernels are for matrices of up to 64 rows and columns" in large_one
    (pivoted,) = choices(lambda x: quire.lax.linalg.qr(x, pivoting=True), np.eye(3, dtype="f"))
    assert "LAPACK: QR decomposition with pivoting has no kernel" in pivoted
    for f in (quire.lax.linalg.eigh, quire.lax.linalg.svd):
        (line,) = [x for x in choices(f, np.eye(3, dtype="f")) if "eigh at" in x or "svd at" in x]
        assert "LAPACK: outside of loops the signs of its vectors are LAPACK's" in line
    (values,) = choices(lambda x: quire.lax.linalg.svd(x, compute_uv=False), np.eye(3, dtype="f"))
    assert "kernel: svd of one matrix" in values
    big = np.stack([np.eye(100, dtype="f")] * 2)
    text = (
        quire.jit(lambda x: quire.lax.scan(lambda c, y: (c, quire.lax.linalg.cholesky(y)), 0.0, x)).lower(big).as_text()
    )
    assert "no kernel: kernels are for matrices of up to 64" in text and "@host." in text


def test_loops_do_not_call_lapack_for_signs() -> None:
    """A loop that is no kernel, as here for its sort, has kernels of its small matrices: a call of LAPACK was 30 us a step."""

    def f(c: Any, zs: Any) -> Any:
        def body(c: Any, z: Any) -> Any:
            w, v = quire.numpy.linalg.eigh(c)
            y = z @ (v * quire.numpy.sqrt(w)) @ v.T
            best = y[quire.numpy.argsort(y[:, 0])[:4]]
            return c * 0.9 + 0.01 * best.T @ best, None

        return quire.lax.scan(body, c, zs)[0]

    zs = np.random.default_rng(0).standard_normal((6, 9, 3)).astype("f")
    (line,) = [x for x in choices(f, np.eye(3, dtype="f"), zs) if "eigh at" in x]
    assert "kernel: eigh of one matrix" in line
    with quire.disable_jit():
        expected = np.asarray(f(quire.numpy.eye(3), quire.numpy.asarray(zs)))
    assert np.allclose(quire.jit(f)(np.eye(3, dtype="f"), zs), expected, rtol=1e-4)


def test_eigenvalues_without_vectors_have_no_signs_to_keep() -> None:
    x = np.random.default_rng(3).standard_normal((200, 6, 6)).astype("f")
    x = x + x.swapaxes(-1, -2)
    (line,) = choices(quire.numpy.linalg.eigvalsh, x)
    assert "kernel: eigh of 200 matrices" in line
    both = choices(lambda x: quire.numpy.linalg.eigh(x)[:2], x)
    assert "LAPACK: outside of loops" in both[0]
    for many in (x, x[0], x[0] + 1j * (x[1] - x[1].T)):
        got = np.asarray(quire.jit(quire.numpy.linalg.eigvalsh)(many))
        assert np.allclose(got, np.linalg.eigvalsh(many), rtol=1e-4, atol=2e-5)


def test_empty_matrices() -> None:
    def f(x: Any, y: Any) -> Any:
        la = quire.lax.linalg
        return la.cholesky(x), *la.lu(y), *la.qr(y), *la.svd(y), *la.eigh(x)

    for x, y in ((np.zeros((0, 0), "f"), np.zeros((3, 0), "f")), (np.zeros((0, 3, 3), "f"), np.zeros((0, 2, 3), "f"))):
        got, want = quire.jit(f)(x, y), jax.eval_shape(lambda x, y: _jax_of(f, x, y), x, y)
        assert [tuple(a.shape) for a in got] == [tuple(a.shape) for a in want]


def _jax_of(f: Any, x: Any, y: Any) -> Any:
    la = jax.lax.linalg
    return la.cholesky(x), *la.lu(y), *la.qr(y), *la.svd(y), *la.eigh(x)

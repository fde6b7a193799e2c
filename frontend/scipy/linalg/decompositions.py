"""Decompositions under SciPy's names: Cholesky, LU, QR, eigenvalues, Schur, polar.

Arguments `overwrite_*`, `check_finite`, `lwork`, `turbo`, `debug` and `lapack_driver` are accepted and change nothing:
arrays are immutable, and errors in values are NaN in the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st
from quire.lax import linalg as ll

from ...arrays.operands import SCIPY, Value, dagger, epsilon, identity_like, matrices, plain


def _choice(name: str, argument: str, value: Any, among: tuple[Any, ...]) -> Any:
    if value not in among:
        shown = ", ".join(map(repr, among))
        raise ValueError(f"{SCIPY}.{name}: {argument} must be one of {shown}, got {value!r}")
    return value


# -- Cholesky, LU, QR -----------------------------------------------------------------------------------------------------------


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The Cholesky factor of Hermitian positive definite matrices (..., n, n): upper by default, NaN where it is none.

    Only the triangle of a that corresponds to the factor is read. Follows `scipy.linalg.cholesky`.

    >>> quire.scipy.linalg.cholesky(quire.numpy.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    (x,) = matrices("cholesky", a, square=True, module=SCIPY)
    l = la.cholesky(x if lower else dagger(x))
    return l if lower else dagger(l)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, bool]:
    """The Cholesky factor for `cho_solve`, and whether it is lower. Follows `scipy.linalg.cho_factor`.

    >>> quire.scipy.linalg.cho_factor(quire.numpy.array([[4.]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Value]:
    """The LU decomposition for `lu_solve`: l and u in one matrix (..., m, n), and the exchanges of rows, int32.

    Follows `scipy.linalg.lu_factor`.

    >>> quire.scipy.linalg.lu_factor(quire.numpy.array([[0., 1.], [2., 3.]]))[1]
    Array([1, 1], dtype=int32)
    """
    (x,) = matrices("lu_factor", a, module=SCIPY)
    return la.lu(x)[:2]


def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, ...]:
    """The LU decomposition with pivoting of (..., m, n), k being min(m, n): ``p @ l @ u == a``.

    Args:
        permute_l: return (p @ l, u) instead of (p, l, u).

    Returns a permutation matrix p (..., m, m), unit lower triangular l (..., m, k), upper triangular u (..., k, n).

    Follows `scipy.linalg.lu`.

    >>> p, l, u = quire.scipy.linalg.lu(quire.numpy.array([[0., 1.], [2., 3.]]))
    >>> u
    Array([[2., 3.],
           [0., 1.]], dtype=float32)
    """
    (x,) = matrices("lu", a, module=SCIPY)
    m, n = x.aval.shape[-2:]
    k = min(m, n)
    packed, _, permutation = la.lu(x)
    batch = (None,) * (x.aval.ndim - 2)
    l = la.tril(packed[..., :k], -1) + la.eye(m, k, x.aval.dtype)[batch]
    u = la.triu(packed[..., :k, :])
    real = dtypes.real_dtype(x.aval.dtype)
    # Row i of a[permutation] is row permutation[i] of a.
    p = (permutation[..., None, :] == qnp.arange(m, dtype=dtypes.int32)[(*batch, slice(None), None)]).astype(real)
    return (qnp.matmul(p.astype(x.aval.dtype), l), u) if permute_l else (p, l, u)


def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Value, ...]:  # fmt: skip
    """The QR decomposition of (..., m, n): ``q @ r == a``, with pivoting ``q @ r == a[:, p]``.

    Args:
        mode: "full": q (m, m), r (m, n); "economic": q (m, k), r (k, n), k = min(m, n); "r": (r,), as in "full".
        pivoting: whether columns are exchanged; then the permutation p comes last.

    Follows `scipy.linalg.qr`.

    >>> quire.scipy.linalg.qr(quire.numpy.array([[3.], [4.]]), mode="economic")[1]
    Array([[-5.]], dtype=float32)
    """
    _choice("qr", "mode", mode, ("full", "r", "economic"))
    (x,) = matrices("qr", a, module=SCIPY)
    q, *rest = la.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """The product of q of a's QR decomposition and c, and r.

    Args:
        a: (..., m, n), k being min(m, n).
        c: mode "right": (..., j, m), or a vector (m,); "left": (..., k, j), or a vector (k,).
        mode: "right": ``c @ q``; "left": ``q @ c``.
        pivoting: whether a's columns are exchanged; then the permutation comes last.
        conjugate: multiply by q's conjugate.

    Raises:
        ValueError: `mode` is neither of these, or the shapes of q and c do not fit the product.

    Follows `scipy.linalg.qr_multiply`.

    >>> round(quire.scipy.linalg.qr_multiply(quire.numpy.array([[3.], [4.]]), quire.numpy.array([1., 1.]))[0].item(), 4)
    -1.4
    """
    _choice("qr_multiply", "mode", mode, ("right", "left"))
    x, y = matrices("qr_multiply", a, c, module=SCIPY)
    q, *rest = la.qr(x, pivoting=pivoting, full_matrices=False)
    if conjugate:
        q = qnp.conj(q)
    vector = y.aval.ndim == 1
    if vector:
        y = y[:, None] if mode == "left" else y[None]
    fits = y.aval.shape[-1] == q.aval.shape[-2] if mode == "right" else y.aval.shape[-2] == q.aval.shape[-1]
    if not fits:
        raise ValueError(
            f"{SCIPY}.qr_multiply: q {q.aval.short()} and c {y.aval.short()} do not fit for mode {mode!r}: "
            f"{'c @ q' if mode == 'right' else 'q @ c'}"
        )
    out = qnp.matmul(y, q) if mode == "right" else qnp.matmul(q, y)
    if vector:
        out = out[..., 0] if mode == "left" else out[..., 0, :]
    return (out, *rest)


# -- eigenvalues ------------------------------------------------------------------------------------------------------------------


def eigh(
    a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, also of generalised problems.

    Args:
        a: (..., n, n); half the sum of a and its adjoint counts, with `b` one triangle.
        b: Hermitian positive definite, of which one triangle is read, or None for the identity.
        lower: which triangle.
        eigvals_only: return the eigenvalues alone.
        type: the problem with b: 1: ``a v = w b v``, 2: ``a b v = w v``, 3: ``b a v = w v``.

    Returns (w, v) or w.

    Raises:
        NotImplementedError: `eigvals` is given.
        ValueError: a or b is not square, their sizes differ, or `type` is none of these.

    Follows `scipy.linalg.eigh`.

    >>> quire.scipy.linalg.eigh(quire.numpy.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if eigvals is not None:
        raise NotImplementedError(f"{SCIPY}.eigh: eigvals is not supported: take a slice of the result")
    _choice("eigh", "type", type, (1, 2, 3))
    if b is None:
        (x,) = matrices("eigh", a, square=True, module=SCIPY)
        v, w = ll.eigh(x, lower=lower)
        return w if eigvals_only else (w, v)
    x, y = matrices("eigh", a, b, square=True, module=SCIPY)
    if y.aval.shape[-2:] != x.aval.shape[-2:]:
        raise ValueError(f"{SCIPY}.eigh: a {x.aval.short()} and b {y.aval.short()} must have the same size")
    x, y = la.hermitian(x, lower), la.hermitian(y, lower)
    l = la.cholesky(y)
    solve = {"lower": True, "left_side": True}
    if type == 1:  # (l^-1 a l^-H) (l^H v) = w (l^H v)
        reduced = dagger(la.triangular_solve(l, dagger(la.triangular_solve(l, x, **solve)), **solve))
    else:
        reduced = qnp.matmul(dagger(l), qnp.matmul(x, l))
    v, w = ll.eigh(reduced)
    if eigvals_only:
        return w
    if type == 3:
        return w, qnp.matmul(l, v)
    return w, la.triangular_solve(l, v, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: bool = False, select: str = "a",
    select_range: tuple[float, float] | None = None, tol: float | None = None, key: Any = None,
) -> Any:  # fmt: skip
    """Eigenvalues, ascending, and eigenvectors of Hermitian tridiagonal matrices, by `eigh` of the whole matrix.

    Args:
        d, e: the diagonals (..., n), real, and the elements beside them, above (..., n - 1), of one dtype.
        eigvals_only: return the eigenvalues alone.
        select: "a": all; "i": those numbered select_range = (first, last), the last included.
        tol, key: accepted for SciPy's and JAX's sake; the result has full precision.

    Raises:
        NotImplementedError: select="v", whose result's shape depends on values.
        TypeError: the dtypes of d and e differ.
        ValueError: d is a scalar or its last dimension is empty, e has not d's shape with a last dimension shorter by 1,
            or `select_range` is missing or not within [0, n - 1] for select="i".

    Follows `scipy.linalg.eigh_tridiagonal`.

    >>> quire.scipy.linalg.eigh_tridiagonal(quire.numpy.zeros(2), quire.numpy.ones(1), eigvals_only=True)
    Array([-1.,  1.], dtype=float32)
    """
    _choice("eigh_tridiagonal", "select", select, ("a", "i", "v"))
    if select == "v":
        raise NotImplementedError(
            f"{SCIPY}.eigh_tridiagonal: select='v' is not supported: its result's shape depends on values"
        )
    diagonal, off = plain("eigh_tridiagonal", d, e, module=SCIPY)
    if diagonal.aval.dtype != off.aval.dtype:
        raise TypeError(
            f"{SCIPY}.eigh_tridiagonal: d and e must have the same dtype, got {diagonal.aval.short()} and {off.aval.short()}"
        )
    n = diagonal.aval.shape[-1] if diagonal.aval.ndim else 0
    if not n or off.aval.ndim != diagonal.aval.ndim or off.aval.shape != (*diagonal.aval.shape[:-1], n - 1):
        raise ValueError(
            f"{SCIPY}.eigh_tridiagonal: d must be (..., n) and e (..., n - 1), got {diagonal.aval.short()} and "
            f"{off.aval.short()}"
        )
    x = diagonal[..., :, None] * la.eye(n, n, diagonal.aval.dtype)
    below = qnp.concatenate([qnp.conj(off), qnp.zeros_like(diagonal[..., :1])], axis=-1)
    row = np.arange(n)
    x = x + qnp.where(row[:, None] == row + 1, below[..., None, :], 0)
    (x,) = matrices("eigh_tridiagonal", x, module=SCIPY)
    v, w = la.eigh(x, lower=True)
    if select == "i":
        if select_range is None or not 0 <= select_range[0] <= select_range[1] < n:
            raise ValueError(
                f"{SCIPY}.eigh_tridiagonal: select_range must be (first, last) within [0, {n - 1}], got {select_range}"
            )
        chosen = slice(int(select_range[0]), int(select_range[1]) + 1)
        v, w = v[..., chosen], w[..., chosen]
    return w if eigvals_only else (w, v)


def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form h of matrices (..., n, n): ``a == q @ h @ q^H``, h zero below the first subdiagonal.

    Args:
        calc_q: return (h, q) instead of h.

    Follows `scipy.linalg.hessenberg`.

    >>> quire.scipy.linalg.hessenberg(quire.numpy.array([[1., 2.], [3., 4.]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    (x,) = matrices("hessenberg", a, square=True, module=SCIPY)
    packed, taus = la.hessenberg(x)
    h = la.triu(packed, -1)
    if not calc_q:
        return h
    n = x.aval.shape[-1]
    if n < 2:
        return h, identity_like(x)
    q = la.householder_product(packed[..., 1:, :-1], taus)
    corner = st.pad(q, x.aval.dtype.type(0), [(0, 0, 0)] * (x.aval.ndim - 2) + [(1, 0, 0), (1, 0, 0)])
    first = np.zeros((n, n), x.aval.dtype)
    first[0, 0] = 1
    return h, corner + first


def schur(a: Any, output: str = "real") -> tuple[Value, Value]:
    """The Schur decomposition of matrices (..., n, n): (t, z), ``a == z @ t @ z^H``, z unitary.

    Args:
        output: "real": t of a real matrix has blocks of 2 for conjugate eigenvalues; "complex": t is triangular.

    Follows `scipy.linalg.schur`.

    >>> quire.scipy.linalg.schur(quire.numpy.array([[1., 2.], [0., 3.]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    _choice("schur", "output", output, ("real", "complex"))
    (x,) = matrices("schur", a, square=True, module=SCIPY)
    if output == "complex":
        x = x.astype(dtypes.complex_dtype(x.aval.dtype))
    t, z = la.schur(x)
    return t, z


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Value, Value]:
    """The complex Schur decomposition of a real one: triangular t from one with blocks of 2, and the new z.

    Raises:
        ValueError: T or Z is not square, or their sizes differ.

    Follows `scipy.linalg.rsf2csf`.

    >>> t, z = quire.scipy.linalg.rsf2csf(quire.numpy.array([[0., 1.], [-1., 0.]]), quire.numpy.eye(2))
    >>> t[1, 0].item()
    0j
    """
    t, z = matrices("rsf2csf", T, Z, square=True, module=SCIPY)
    if z.aval.shape[-2:] != t.aval.shape[-2:]:
        raise ValueError(f"{SCIPY}.rsf2csf: T {t.aval.short()} and Z {z.aval.short()} must have the same size")
    dtype = dtypes.complex_dtype(t.aval.dtype)
    lead = qnp.broadcast_shapes(t.aval.shape[:-2], z.aval.shape[:-2])
    t, z = (qnp.broadcast_to(v.astype(dtype), (*lead, *v.aval.shape[-2:])) for v in (t, z))
    n = t.aval.shape[-1]
    if n < 2:
        return t, z
    # The blocks are disjoint: one rotation each, all at once. ((a, b), (c, d)) with c == 0 is left alone.
    diagonal = la.diagonal(t)
    a, d = diagonal[..., :-1], diagonal[..., 1:]
    b, c = la.diagonal(t[..., :-1, 1:]), la.diagonal(t[..., 1:, :-1])
    block = qnp.abs(c) > epsilon(t) * (qnp.abs(a) + qnp.abs(d))
    half = (a - d) / 2
    mu = half + qnp.sqrt(half * half + b * c)
    r = qnp.sqrt(qnp.abs(mu) ** 2 + qnp.abs(c) ** 2)
    r = qnp.where(block, r, 1).astype(dtype)
    cosine, sine = qnp.where(block, mu / r, 1), qnp.where(block, c / r, 0)
    one = qnp.ones_like(diagonal[..., :1])
    # Row i holds conj(cosine) where a block begins, cosine where it ends; 1 where there is none.
    begins, ends = qnp.concatenate([qnp.conj(cosine), one], axis=-1), qnp.concatenate([one, cosine], axis=-1)
    row = np.arange(n)
    zero = qnp.zeros_like(one)
    upper, lower = qnp.concatenate([zero, sine], axis=-1), qnp.concatenate([-sine, zero], axis=-1)
    g = (begins * ends)[..., None, :] * la.eye(n, n, dtype)
    g = g + qnp.where(row[:, None] + 1 == row, upper[..., None, :], 0)
    g = g + qnp.where(row[:, None] == row + 1, lower[..., None, :], 0)
    t = la.triu(qnp.matmul(qnp.matmul(g, t), dagger(g)))
    return t, qnp.matmul(z, dagger(g))


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """The singular value decomposition of (..., m, n): (u, s, vh), or s; see `quire.numpy.linalg.svd`.

    Follows `scipy.linalg.svd`.

    >>> quire.scipy.linalg.svd(quire.numpy.array([[3., 0.], [0., -4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    (x,) = matrices("svd", a, module=SCIPY)
    return ll.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)


def polar(
    a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
) -> tuple[Value, Value]:
    """The polar decomposition: unitary u and Hermitian positive semidefinite p.

    Args:
        a: (..., m, n).
        side: "right": ``a == u @ p``; "left": ``a == p @ u``.
        method: "qdwh": dynamically weighted Halley iterations (m >= n for "right", m <= n for "left"), which are not
            differentiable in reverse mode; "svd": by singular values.
        eps, max_iterations: when the iterations stop.

    Raises:
        NotImplementedError: m < n for "right", or m > n for "left", with method="qdwh".
        ValueError: `side` or `method` is none of these.

    Follows `scipy.linalg.polar`.

    >>> quire.scipy.linalg.polar(quire.numpy.array([[-3., 0.], [0., 4.]]), method="svd")[0]
    Array([[-1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """
    _choice("polar", "side", side, ("right", "left"))
    _choice("polar", "method", method, ("qdwh", "svd"))
    (x,) = matrices("polar", a, module=SCIPY)
    m, n = x.aval.shape[-2:]
    if method == "qdwh":
        if (m < n) if side == "right" else (m > n):
            raise NotImplementedError(
                f"{SCIPY}.polar: method='qdwh' takes m >= n for side='right' and m <= n for side='left', got "
                f"{x.aval.short()} with side={side!r}: use method='svd'"
            )
        given = x if side == "right" else dagger(x)
        u, p, _, _ = ll.qdwh(given, max_iterations=max_iterations, eps=eps)
        return (u, p) if side == "right" else (dagger(u), dagger(p))
    u, s, vh = ll.svd(x, full_matrices=False)
    v, uh = dagger(vh), dagger(u)
    p = qnp.matmul(la.scale_columns(v, s), vh) if side == "right" else qnp.matmul(la.scale_columns(u, s), uh)
    return qnp.matmul(u, vh), p

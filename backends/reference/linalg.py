"""Reference rules of linear algebra, by NumPy and SciPy's LAPACK; leading dimensions are looped over.

The lowering for the CPU calls the same functions from compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import linalg as la

from .rules import reference

Array = np.ndarray[Any, Any]


def over_batch(f: Callable[..., Any], outs: list[tuple[tuple[int, ...], Any]], operands: list[tuple[Array, int]]) -> list[Array]:
    """Apply `f` to each member of a batch: operands with how many trailing dimensions f takes, results (shape, dtype)."""
    first, core = operands[0]
    batch = first.shape[: first.ndim - core]
    results = [np.empty((*batch, *shape), dtype) for shape, dtype in outs]
    if any(r.size for r in results):
        for i in np.ndindex(*batch):
            values = f(*(x[i] for x, _ in operands))
            for r, v in zip(results, values, strict=True):
                r[i] = v
    return results


def _scipy() -> Any:
    """scipy.linalg, imported at its first use: it takes a third of a second."""
    import scipy.linalg

    return scipy.linalg


def _function(name: str, x: Array) -> Callable[..., Any]:
    """The LAPACK function for the array's dtype; `name` without its type letter (syevd becomes heevd by the caller)."""
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[x.dtype.name]
    return getattr(_scipy().lapack, letter + name)


@reference(la.cholesky_p)
def cholesky(x: Array) -> Array:
    def one(a: Array) -> tuple[Array]:
        if not a.size:
            return (a,)
        c, info = _function("potrf", a)(a, lower=1, clean=1)
        return (c if info == 0 else np.tril(np.full_like(c, np.nan)),)

    return over_batch(one, [(x.shape[-2:], x.dtype)], [(x, 2)])[0]


@reference(la.triangular_solve_p)
def triangular_solve(
    a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
    def one(a: Array, b: Array) -> tuple[Array]:
        if not b.size:
            return (b,)
        blas: Any = _scipy().get_blas_funcs
        trsm = blas("trsm", (a, b))
        if conjugate_a and not transpose_a:  # BLAS has the conjugate transpose only
            a = a.conj()
        trans = (2 if conjugate_a else 1) if transpose_a else 0
        return (trsm(1.0, a, b, side=0 if left_side else 1, lower=int(lower), trans_a=trans, diag=int(unit_diagonal)),)

    return over_batch(one, [(b.shape[-2:], b.dtype)], [(a, 2), (b, 2)])[0]


def permutation_of(pivots: Array, size: int) -> Array:
    """The permutation that exchanges row i with row pivots[i], one after the other."""
    order = np.arange(size, dtype=np.int32)
    for i, p in enumerate(pivots):
        order[i], order[p] = order[p], order[i]
    return order


@reference(la.lu_p)
def lu(x: Array) -> list[Array]:
    m, n = x.shape[-2:]

    def one(a: Array) -> tuple[Array, Array, Array]:
        if not a.size:
            return a, np.zeros(0, np.int32), np.arange(m, dtype=np.int32)
        out, pivots, _ = _function("getrf", a)(a)
        return out, pivots, permutation_of(pivots, m)

    return over_batch(one, [((m, n), x.dtype), ((min(m, n),), np.int32), ((m,), np.int32)], [(x, 2)])


@reference(la.lu_pivots_to_permutation_p)
def lu_pivots_to_permutation(pivots: Array, *, permutation_size: int) -> Array:
    return over_batch(lambda p: (permutation_of(p, permutation_size),), [((permutation_size,), np.int32)], [(pivots, 1)])[0]


@reference(la.geqrf_p)
def geqrf(x: Array) -> list[Array]:
    m, n = x.shape[-2:]
    k = min(m, n)

    def one(a: Array) -> tuple[Array, Array]:
        if not a.size:
            return a, np.zeros(k, a.dtype)
        out, tau, _, _ = _function("geqrf", a)(a)
        return out, tau

    return over_batch(one, [((m, n), x.dtype), ((k,), x.dtype)], [(x, 2)])


@reference(la.householder_product_p)
def householder_product(a: Array, taus: Array) -> Array:
    def one(a: Array, tau: Array) -> tuple[Array]:
        if not a.size:
            return (a,)
        if not tau.size:
            return (np.eye(*a.shape, dtype=a.dtype),)
        return (_function("ungqr" if a.dtype.kind == "c" else "orgqr", a)(a, tau)[0],)

    return over_batch(one, [(a.shape[-2:], a.dtype)], [(a, 2), (taus, 1)])[0]


@reference(la.qr_p)
def qr(x: Array, *, pivoting: bool, full_matrices: bool) -> list[Array]:
    m, n = x.shape[-2:]
    k = m if full_matrices else min(m, n)

    def one(a: Array) -> tuple[Array, ...]:
        if not a.size:
            out: tuple[Array, ...] = (np.eye(m, k, dtype=a.dtype), np.zeros((k, n), a.dtype))
            return (*out, np.arange(n, dtype=np.int32)) if pivoting else out
        return _scipy().qr(a, mode="full" if full_matrices else "economic", pivoting=pivoting, check_finite=False)

    outs: list[Any] = [((m, k), x.dtype), ((k, n), x.dtype)]
    return over_batch(one, [*outs, ((n,), np.int32)] if pivoting else outs, [(x, 2)])


@reference(la.eigh_p)
def eigh(x: Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None) -> list[Array]:
    n = x.shape[-1]
    start, stop = (0, n) if subset_by_index is None else subset_by_index

    def one(a: Array) -> tuple[Array, Array]:
        real = dtypes.real_dtype(a.dtype)
        if not n or not np.all(np.isfinite(np.tril(a) if lower else np.triu(a))):
            return np.full((n, stop - start), np.nan, a.dtype), np.full(stop - start, np.nan, real)
        w, v, info = _function("heevd" if a.dtype.kind == "c" else "syevd", a)(a, lower=int(lower))
        if info:
            v, w = np.full_like(v, np.nan), np.full_like(w, np.nan)
        return v[:, start:stop], w[start:stop]

    return over_batch(
        one, [((n, stop - start), x.dtype), ((stop - start,), dtypes.real_dtype(x.dtype))], [(x, 2)]
    )


@reference(la.eig_p)
def eig(x: Array, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool) -> list[Array]:
    n, dtype = x.shape[-1], dtypes.complex_dtype(x.dtype)
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    outs: list[Any] = [((n,), dtype), *[((n, n), dtype)] * sum(wanted)]

    def one(a: Array) -> tuple[Array, ...]:
        if not np.all(np.isfinite(a)):
            return tuple(np.full(shape, np.nan, dtype) for shape, _ in outs)
        out: Any = _scipy().eig(a, left=wanted[0], right=wanted[1], check_finite=False)
        return out if isinstance(out, tuple) else (out,)

    return over_batch(one, outs, [(x, 2)])


@reference(la.svd_p)
def svd(x: Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None) -> list[Array]:
    m, n = x.shape[-2:]
    k = min(m, n)
    start, stop = (0, k) if subset_by_index is None else subset_by_index
    rows, columns = (m, n) if full_matrices else (stop - start, stop - start)
    outs: list[Any] = [((stop - start,), dtypes.real_dtype(x.dtype))]
    if compute_uv:
        outs += [((m, rows), x.dtype), ((columns, n), x.dtype)]

    def one(a: Array) -> tuple[Array, ...]:
        if not a.size:
            return (np.zeros(0), np.eye(m, rows), np.eye(columns, n))[: len(outs)]
        if not np.all(np.isfinite(a)):
            return tuple(np.full(shape, np.nan, dtype) for shape, dtype in outs)
        try:
            u, s, vh = _scipy().svd(a, full_matrices=full_matrices, check_finite=False)
        except np.linalg.LinAlgError:
            return tuple(np.full(shape, np.nan, dtype) for shape, dtype in outs)
        if not full_matrices:
            u, vh = u[:, start:stop], vh[start:stop]
        return (s[start:stop], u, vh)[: len(outs)]

    return over_batch(one, outs, [(x, 2)])


@reference(la.schur_p)
def schur(
    x: Array, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Callable[..., Any] | None
) -> list[Array]:
    def one(a: Array) -> tuple[Array, ...]:
        if not a.size:
            return (a, a)[: 1 + compute_schur_vectors]
        if not np.all(np.isfinite(a)):
            return tuple([np.full_like(a, np.nan)] * (1 + compute_schur_vectors))
        out: Any = _scipy().schur(a, check_finite=False)
        return out[: 1 + compute_schur_vectors]

    return over_batch(one, [(x.shape[-2:], x.dtype)] * (1 + compute_schur_vectors), [(x, 2)])


@reference(la.hessenberg_p)
def hessenberg(x: Array) -> list[Array]:
    n = x.shape[-1]

    def one(a: Array) -> tuple[Array, Array]:
        if n < 2:
            return a, np.zeros(max(n - 1, 0), a.dtype)
        out, tau, _ = _function("gehrd", a)(a)
        return out, tau

    return over_batch(one, [((n, n), x.dtype), ((max(n - 1, 0),), x.dtype)], [(x, 2)])


@reference(la.tridiagonal_p)
def tridiagonal(x: Array, *, lower: bool) -> list[Array]:
    n, real = x.shape[-1], dtypes.real_dtype(x.dtype)

    def one(a: Array) -> tuple[Array, ...]:
        if n < 2:
            return a, np.real(np.diagonal(a)), np.zeros(max(n - 1, 0), real), np.zeros(max(n - 1, 0), a.dtype)
        out, d, e, tau, _ = _function("hetrd" if a.dtype.kind == "c" else "sytrd", a)(a, lower=int(lower))
        return out, d, e, tau

    m = max(n - 1, 0)
    return over_batch(one, [((n, n), x.dtype), ((n,), real), ((m,), real), ((m,), x.dtype)], [(x, 2)])


@reference(la.tridiagonal_solve_p)
def tridiagonal_solve(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool) -> Array:
    def one(dl: Array, d: Array, du: Array, b: Array) -> tuple[Array]:
        if not b.size:
            return (b,)
        if len(d) == 1:
            return (b / d[0],)
        _, _, _, x, info = _function("gtsv", b)(dl[1:], d, du[:-1], b)
        return (x if info == 0 else np.full_like(x, np.nan),)

    return over_batch(one, [(b.shape[-2:], b.dtype)], [(dl, 1), (d, 1), (du, 1), (b, 2)])[0]

"""Reference rules of linear algebra, by NumPy and SciPy's LAPACK (`lapack`).

The lowering for the CPU calls the same functions from compiled code. Batches go through NumPy's loops of LAPACK calls, or,
where NumPy has none, through a loop in Python (a microsecond a call) or through operations on all small matrices at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import linalg as la

from .lapack import of_batch, routine, scipy_linalg
from .rules import reference, sparing

Array = np.ndarray[Any, Any]


def over_batch(
    f: Callable[..., Any], outs: list[tuple[tuple[int, ...], Any]], operands: list[tuple[Array, int]]
) -> list[Array]:
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


def _many_small(count: int, steps: int) -> bool:
    """Whether so many matrices are done sooner all at once, in NumPy operations, than in a loop of LAPACK calls."""
    return count > 8 * steps


@reference(la.cholesky_p)
def cholesky(x: Array) -> Array:
    if not x.size:
        return x
    if x.ndim == 2:
        return _cholesky_of_one(x)
    (out,) = of_batch("cholesky_lo", f"{x.dtype.char}->{x.dtype.char}", x, only_finite=False)
    failed = np.asarray(np.isnan(out).all((-2, -1)))
    return np.where(failed[..., None, None], np.tril(out), out) if failed.any() else out


def _cholesky_of_one(a: Array) -> Array:
    # a's transpose is in LAPACK's order; its upper triangle is a's lower one, and a^T = u^H u has u = l^T.
    c, info = routine("potrf", a)(a.T, lower=0, clean=1)
    return c.T if info == 0 else np.tril(np.full_like(a, np.nan))


@reference(la.triangular_solve_p)
def triangular_solve(
    a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
    if not b.size:
        return b
    n = a.shape[-1]
    if _many_small(a.size // (n * n), n):
        return _substitute(a, b, left_side, lower, transpose_a, conjugate_a, unit_diagonal)
    if conjugate_a and not transpose_a:  # BLAS has the conjugate transpose only
        a, conjugate_a = a.conj(), False
    trsm = routine("trsm", b)
    # op(a) x = b is x^T op(a)^T = b^T, in matrices that are transposed in memory as BLAS takes them.
    keywords: dict[str, Any] = {
        "side": int(left_side), "lower": int(not lower), "trans_a": (2 if conjugate_a else 1) if transpose_a else 0,
        "diag": int(unit_diagonal),
    }  # fmt: skip
    if a.ndim == 2:
        return trsm(1.0, a.T, b.T, **keywords).T
    out = np.empty_like(b)
    for i in np.ndindex(*a.shape[:-2]):
        out[i] = trsm(1.0, a[i].T, b[i].T, **keywords).T
    return out


def _substitute(
    a: Array, b: Array, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
    """Substitution, row by row, in all matrices of a batch at once."""
    if conjugate_a:
        a = a.conj()
    if not left_side:  # x op(a) = b is op(a)^T x^T = b^T
        transpose_a = not transpose_a
        b = b.swapaxes(-1, -2)
    if transpose_a:
        a, lower = a.swapaxes(-1, -2), not lower
    n = a.shape[-1]
    x = np.empty_like(b)
    for i in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, n)
        row = b[..., i, :]
        if known.start != known.stop:
            row = row - np.matmul(a[..., i, None, known], x[..., known, :])[..., 0, :]
        x[..., i, :] = row if unit_diagonal else row / a[..., i, i, None]
    return x if left_side else x.swapaxes(-1, -2)


#: From so many permutations on, exchanging rows of all in NumPy is quicker than exchanging elements of a list for each.
_MANY_PERMUTATIONS = 48


def permutation_of(pivots: Array, size: int) -> Array:
    """The permutations that exchange row i with row pivots[..., i], one after the other."""
    *batch, steps = pivots.shape
    count = math.prod(batch)
    exchanges = pivots.reshape(count, steps)
    if count >= _MANY_PERMUTATIONS:  # a permutation in each column, so that the exchanged rows are contiguous
        columns = np.empty((size, count), np.int32)
        columns[:] = np.arange(size, dtype=np.int32)[:, None]
        each = np.arange(count)
        for i, p in enumerate(exchanges.T):
            row = columns[p, each]
            columns[p, each] = columns[i]
            columns[i] = row
        return np.ascontiguousarray(columns.T).reshape(*batch, size)
    out = np.empty((count, size), np.int32)
    for k, of_one in enumerate(exchanges.tolist()):
        order = list(range(size))
        for i, p in enumerate(of_one):
            order[i], order[p] = order[p], order[i]
        out[k] = order
    return out.reshape(*batch, size)


@reference(la.lu_p)
def lu(x: Array) -> list[Array]:
    *batch, m, n = x.shape
    k = min(m, n)
    if not x.size:
        return [x, np.zeros((*batch, k), np.int32), permutation_of(np.zeros((*batch, 0), np.int32), m)]
    if not batch:
        out, pivots, _ = routine("getrf", x)(x)
        return [out, pivots, permutation_of(pivots, m)]
    if _many_small(x.size // (m * n), k):
        out, pivots = _eliminate(x)
    else:
        getrf = routine("getrf", x)
        out, pivots = over_batch(lambda a: getrf(a)[:2], [((m, n), x.dtype), ((k,), np.int32)], [(x, 2)])
    return [out, pivots, permutation_of(pivots, m)]


def _eliminate(x: Array) -> tuple[Array, Array]:
    """Gaussian elimination with exchanges of rows, in all matrices of a batch at once."""
    *batch, m, n = x.shape
    k = min(m, n)
    a = x.reshape(-1, m, n).copy()
    pivots = np.empty((len(a), k), np.int32)
    each = np.arange(len(a))
    for j in range(k):
        column = a[:, j:, j]
        # LAPACK compares complex numbers by the sum of their parts.
        size = np.abs(column) if a.dtype.kind == "f" else np.abs(column.real) + np.abs(column.imag)
        size = np.where(np.isnan(size), -1, size)
        p = np.argmax(size, axis=1) + j
        pivots[:, j] = p
        row = a[each, p]
        a[each, p] = a[:, j]
        a[:, j] = row
        if j + 1 < m:
            pivot = row[:, j, None]
            a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
            a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    return a.reshape(x.shape), pivots.reshape(*batch, k)


@reference(la.lu_pivots_to_permutation_p)
def lu_pivots_to_permutation(pivots: Array, *, permutation_size: int) -> Array:
    return permutation_of(pivots, permutation_size)


@reference(la.geqrf_p)
def geqrf(x: Array) -> list[Array]:
    m, n = x.shape[-2:]
    k = min(m, n)

    def one(a: Array) -> tuple[Array, Array]:
        if not a.size:
            return a, np.zeros(k, a.dtype)
        return _reflectors(a)

    return over_batch(one, [((m, n), x.dtype), ((k,), x.dtype)], [(x, 2)])


def _reflectors(a: Array) -> tuple[Array, Array]:
    """Householder reflectors of a matrix below R, and their factors. With room for blocks: the wrapper leaves none."""
    out, tau, _, _ = routine("geqrf", a)(a, lwork=_BLOCK * a.shape[1])
    return out, tau


def _product(reflectors: Array, taus: Array) -> Array:
    """The unitary matrix of Householder reflectors, with as many columns as there are."""
    name = "ungqr" if reflectors.dtype.kind == "c" else "orgqr"
    return routine(name, reflectors)(reflectors, taus, lwork=_BLOCK * reflectors.shape[1])[0]


# LAPACK's blocks have at most so many columns.
_BLOCK = 64


@reference(la.householder_product_p)
def householder_product(a: Array, taus: Array) -> Array:
    def one(a: Array, tau: Array) -> tuple[Array]:
        if not a.size:
            return (a,)
        if not tau.size:
            return (np.eye(*a.shape, dtype=a.dtype),)
        return (_product(a, tau),)

    return over_batch(one, [(a.shape[-2:], a.dtype)], [(a, 2), (taus, 1)])[0]


@reference(la.qr_p)
def qr(x: Array, *, pivoting: bool, full_matrices: bool) -> list[Array]:
    m, n = x.shape[-2:]
    k = m if full_matrices else min(m, n)
    if (
        x.size and not pivoting and x.ndim > 2 and min(m, n) < 24
    ):  # in double precision, but without a call in Python each
        return list(np.linalg.qr(x, "complete" if full_matrices else "reduced"))

    def one(a: Array) -> tuple[Array, ...]:
        if not a.size:
            out: tuple[Array, ...] = (np.eye(m, k, dtype=a.dtype), np.zeros((k, n), a.dtype))
            return (*out, np.arange(n, dtype=np.int32)) if pivoting else out
        if not pivoting:
            reflectors, taus = _reflectors(a)
            columns = np.zeros((m, k), a.dtype, order="F")
            columns[:, : min(n, k)] = reflectors[:, :k]
            return _product(columns, taus), np.triu(reflectors[:k])
        return scipy_linalg().qr(a, mode="full" if full_matrices else "economic", pivoting=pivoting, check_finite=False)

    outs: list[Any] = [((m, k), x.dtype), ((k, n), x.dtype)]
    return over_batch(one, [*outs, ((n,), np.int32)] if pivoting else outs, [(x, 2)])


def _or_nan(f: Callable[[Array], tuple[Array, ...]], x: Array, outs: list[tuple[tuple[int, ...], Any]]) -> list[Array]:
    """The results of f for a matrix, whose last says whether there are any (0): NaN where not, or x is not finite."""
    if np.isfinite(x).all():
        *results, info = f(x)
        if info == 0:
            return results
    return [np.full(shape, np.nan, dtype) for shape, dtype in outs]


@reference(la.eigh_p)
def eigh(
    x: Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None,
    unread: Set[int] = frozenset(),
) -> list[Array]:  # fmt: skip
    n, real, char = x.shape[-1], dtypes.real_dtype(x.dtype), x.dtype.char
    start, stop = (0, n) if subset_by_index is None else subset_by_index
    if not x.size:
        return over_batch(lambda a: (), [((n, stop - start), x.dtype), ((stop - start,), real)], [(x, 2)])
    if not np.isfinite(x).all():
        x = np.tril(x) if lower else np.triu(x)  # the other triangle, which is not read, need not be finite
    vectors = 0 not in unread
    if x.ndim == 2:
        name, outs = "heevd" if char in "FD" else "syevd", [((n,), real), ((n, n), x.dtype)]
        w, v = _or_nan(lambda a: routine(name, a)(a, compute_v=int(vectors), lower=int(lower)), x, outs)
    elif vectors:
        w, v = of_batch("eigh_lo" if lower else "eigh_up", f"{char}->{char.lower()}{char}", x)
    else:
        (w,), v = of_batch("eigvalsh_lo" if lower else "eigvalsh_up", f"{char}->{char.lower()}", x), x
    return [v[..., start:stop], w[..., start:stop]]


sparing[la.eigh_p] = eigh


@reference(la.eig_p)
def eig(x: Array, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool) -> list[Array]:
    n, dtype = x.shape[-1], dtypes.complex_dtype(x.dtype)
    outs: list[Any] = [((n,), dtype), *[((n, n), dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)]
    if not x.size:
        return over_batch(lambda a: (), outs, [(x, 2)])
    if compute_left_eigenvectors:

        def with_left(a: Array) -> tuple[Any, ...]:
            try:
                return (*scipy_linalg().eig(a, left=True, right=compute_right_eigenvectors, check_finite=False), 0)
            except np.linalg.LinAlgError:
                return (None, 1)

        return over_batch(lambda a: tuple(_or_nan(with_left, a, outs)), outs, [(x, 2)])
    # In double precision: eigenvalues of matrices that are not normal may be off by far more than a rounding of an element.
    double = "D" if x.dtype.kind == "c" else "d"
    name, outs_of = ("eig", "DD") if compute_right_eigenvectors else ("eigvals", "D")
    found = of_batch(name, f"{double}->{outs_of}", x.astype(double, copy=False))
    return [v.astype(dtype, copy=False) for v in found]


@reference(la.svd_p)
def svd(x: Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None) -> list[Array]:
    m, n = x.shape[-2:]
    k = min(m, n)
    start, stop = (0, k) if subset_by_index is None else subset_by_index
    rows, columns = (m, n) if full_matrices else (k, k)
    real = dtypes.real_dtype(x.dtype)
    outs: list[Any] = [((k,), real), ((m, rows), x.dtype), ((columns, n), x.dtype)][: 3 if compute_uv else 1]
    if not x.size:
        results = over_batch(lambda a: (np.zeros(0), np.eye(m, rows), np.eye(columns, n))[: len(outs)], outs, [(x, 2)])
    elif x.ndim == 2:
        results = _or_nan(lambda a: _singular(a, compute_uv, full_matrices), x, outs)
    elif compute_uv:
        char = x.dtype.char
        u, s, vh = of_batch("svd_f" if full_matrices else "svd_s", f"{char}->{char}{char.lower()}{char}", x)
        results = [s, u, vh]
    else:
        results = of_batch("svd", f"{x.dtype.char}->{x.dtype.char.lower()}", x)
    s, *vectors = results
    if vectors and not full_matrices:
        vectors = [vectors[0][..., start:stop], vectors[1][..., start:stop, :]]
    return [s[..., start:stop], *vectors]


def _svd_sparing(x: Array, *, compute_uv: bool, unread: Set[int], **params: Any) -> list[Array]:
    vectors = [i for i in (1, 2) if compute_uv and i not in unread]
    results = svd(x, compute_uv=bool(vectors), **params)
    if vectors or not compute_uv:
        return results
    m, n = x.shape[-2:]
    k = results[0].shape[-1]
    rows, columns = (m, n) if params["full_matrices"] else (k, k)
    return [*results, np.empty((*x.shape[:-2], m, rows), x.dtype), np.empty((*x.shape[:-2], columns, n), x.dtype)]


sparing[la.svd_p] = _svd_sparing


def _singular(a: Array, compute_uv: bool, full_matrices: bool) -> tuple[Any, ...]:
    """The singular values, vectors if wanted, and whether LAPACK gave up."""
    wanted = {"compute_uv": int(compute_uv), "full_matrices": int(full_matrices)}
    room, _ = routine("gesdd_lwork", a)(*a.shape, **wanted)
    # The number comes as a float, which of float32 may be one that is rounded down.
    u, s, vh, info = routine("gesdd", a)(a, lwork=int(np.nextafter(room.real, np.inf)) + 1, **wanted)
    return (s, u, vh, info) if compute_uv else (s, info)


@reference(la.schur_p)
def schur(
    x: Array, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Callable[..., Any] | None
) -> list[Array]:
    def one(a: Array) -> tuple[Array, ...]:
        if not a.size:
            return (a, a)[: 1 + compute_schur_vectors]
        if not np.all(np.isfinite(a)):
            return tuple([np.full_like(a, np.nan)] * (1 + compute_schur_vectors))
        out: Any = scipy_linalg().schur(a, check_finite=False)
        return out[: 1 + compute_schur_vectors]

    return over_batch(one, [(x.shape[-2:], x.dtype)] * (1 + compute_schur_vectors), [(x, 2)])


@reference(la.hessenberg_p)
def hessenberg(x: Array) -> list[Array]:
    n = x.shape[-1]

    def one(a: Array) -> tuple[Array, Array]:
        if n < 2:
            return a, np.zeros(max(n - 1, 0), a.dtype)
        out, tau, _ = routine("gehrd", a)(a)
        return out, tau

    return over_batch(one, [((n, n), x.dtype), ((max(n - 1, 0),), x.dtype)], [(x, 2)])


@reference(la.tridiagonal_p)
def tridiagonal(x: Array, *, lower: bool) -> list[Array]:
    n, real = x.shape[-1], dtypes.real_dtype(x.dtype)

    def one(a: Array) -> tuple[Array, ...]:
        if n < 2:
            return a, np.real(np.diagonal(a)), np.zeros(max(n - 1, 0), real), np.zeros(max(n - 1, 0), a.dtype)
        out, d, e, tau, _ = routine("hetrd" if a.dtype.kind == "c" else "sytrd", a)(a, lower=int(lower))
        return out, d, e, tau

    m = max(n - 1, 0)
    return over_batch(one, [((n, n), x.dtype), ((n,), real), ((m,), real), ((m,), x.dtype)], [(x, 2)])


@reference(la.tridiagonal_solve_p)
def tridiagonal_solve(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool) -> Array:
    def one(dl: Array, d: Array, du: Array, b: Array) -> tuple[Array]:
        if not b.size:
            return (b,)
        if perturb_singular:
            return (_solved_with_pivots(dl, d, du, b),)
        if len(d) == 1:
            return (b / d[0],)
        _, _, _, x, info = routine("gtsv", b)(dl[1:], d, du[:-1], b)
        return (x if info == 0 else np.full_like(x, np.nan),)

    return over_batch(one, [(b.shape[-2:], b.dtype)], [(dl, 1), (d, 1), (du, 1), (b, 2)])[0]


def _solved_with_pivots(dl: Array, d: Array, du: Array, b: Array) -> Array:
    """The solution by an LU decomposition whose smallest pivots are made as large as U's rounding errors: it is finite."""
    n = len(d)
    more = max(3 - n, 0)  # rows of the identity: SciPy's interface takes three at least
    rows = np.pad(b, ((0, more), (0, 0)))
    lower, upper = np.pad(dl[1:], (0, more)), np.pad(du[:-1], (0, more))
    lower, pivots, upper, second, order, _ = routine("gttrf", b)(lower, np.pad(d, (0, more), constant_values=1), upper)
    top = max(np.abs(u).max(initial=0) for u in (pivots[:n], upper[: n - 1], second[: max(n - 2, 0)]))
    pivots[:n] = _pivots(pivots[:n], top)
    return routine("gttrs", b)(lower, pivots, upper, second, order, rows)[0][:n]


def _pivots(d: Array, top: Any) -> Array:
    """Pivots of which none is smaller than an epsilon of U's largest element."""
    least = np.asarray(np.finfo(d.dtype).eps * (top or 1), dtypes.real_dtype(d.dtype))
    size = np.abs(d)
    return np.where(size < least, np.where(size == 0, least, least * d / np.where(size == 0, 1, size)), d)

"""Dense linear algebra on the last two dimensions; leading dimensions are batch dimensions.

Failures are values, as in JAX: NaN where a matrix is not positive definite, or an iteration does not converge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..primitive import primitive
from . import elementwise as ew
from . import reductions as rd
from . import structural as st
from .common import check_same_dtype

Value = Any
LAPACK = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def _check_matrix(name: str, x: ShapedArray, *, square: bool = False, argument: str = "operand") -> None:
    if x.dtype not in LAPACK:
        raise TypeError(
            f"{name}: {argument} {x.short()} has dtype {x.dtype}, expected float32, float64, complex64 or complex128: "
            "convert with lax.convert_element_type"
        )
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices" if square else "matrices"
        raise ValueError(f"{name}: {argument} {x.short()} must be {what}: shape (..., {'n, n' if square else 'm, n'})")


def _int32(shape: tuple[int, ...]) -> ShapedArray:
    return ShapedArray(shape, dtypes.int32)


def _real(shape: tuple[int, ...], x: ShapedArray) -> ShapedArray:
    return ShapedArray(shape, dtypes.real_dtype(x.dtype))


@primitive("cholesky")
def cholesky_p(x: ShapedArray) -> ShapedArray:
    """The lower triangular l with ``l @ l.conj().T == x``, from x's lower triangle; NaN if x is not positive definite."""
    _check_matrix("cholesky", x, square=True)
    return x.strong()


@primitive("triangular_solve")
def triangular_solve_p(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool,
    unit_diagonal: bool,
) -> ShapedArray:  # fmt: skip
    """Solve ``op(a) @ x == b`` (left_side) or ``x @ op(a) == b`` for triangular a.

    Only a's lower (upper) triangle is read, and not its diagonal with unit_diagonal (ones then). `op` transposes
    and conjugates as asked.

    Raises:
        ValueError: a is not square, the leading dimensions differ, or a's size is not that of b's rows (left_side) or
            columns.
        TypeError: the dtypes differ or are none of LAPACK's.
    """
    name = "triangular_solve"
    _check_matrix(name, a, square=True, argument="a")
    _check_matrix(name, b, argument="b")
    check_same_dtype(name, a, b)
    side = b.shape[-2] if left_side else b.shape[-1]
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != side:
        where = "rows" if left_side else "columns"
        raise ValueError(
            f"{name}: a {a.short()} and b {b.short()} must have the same leading dimensions, and a the size of b's {where}"
        )
    return b.strong()


@primitive("lu", multiple_results=True)
def lu_p(x: ShapedArray) -> tuple[ShapedArray, ShapedArray, ShapedArray]:
    """LU decomposition with partial pivoting: (lu, pivots, permutation), ``x[permutation] == l @ u``.

    lu holds u, and l below the diagonal; row i was exchanged with row pivots[i] >= i.
    """
    _check_matrix("lu", x)
    *batch, m, n = x.shape
    return x.strong(), _int32((*batch, min(m, n))), _int32((*batch, m))


@primitive("lu_pivots_to_permutation")
def lu_pivots_to_permutation_p(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    """The permutation of rows that exchanges row i with row pivots[i], one after the other.

    Raises:
        TypeError: the pivots are not int32 with at least one dimension.
        ValueError: `permutation_size` is below the number of pivots.
    """
    if pivots.dtype != dtypes.int32 or pivots.ndim < 1:
        raise TypeError(f"lu_pivots_to_permutation: pivots must be i32[..., k], got {pivots.short()}")
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"lu_pivots_to_permutation: permutation_size {permutation_size} must not be below the number of pivots, "
            f"{pivots.shape[-1]} of {pivots.short()}"
        )
    return _int32((*pivots.shape[:-1], permutation_size))


@primitive("qr", multiple_results=True)
def qr_p(x: ShapedArray, *, pivoting: bool, full_matrices: bool) -> tuple[ShapedArray, ...]:
    """QR decomposition: (q, r), ``q @ r == x``; with pivoting (q, r, p), ``q @ r == x[:, p]``.

    q is (m, m) and r (m, n) with full_matrices, otherwise (m, k) and (k, n), k = min(m, n).
    """
    _check_matrix("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    q, r = ShapedArray((*batch, m, k), x.dtype), ShapedArray((*batch, k, n), x.dtype)
    return (q, r, _int32((*batch, n))) if pivoting else (q, r)


@primitive("geqrf", multiple_results=True)
def geqrf_p(x: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
    """QR decomposition in compact form: r and, below the diagonal, the Householder vectors; and their factors taus."""
    _check_matrix("geqrf", x)
    *batch, m, n = x.shape
    return x.strong(), ShapedArray((*batch, min(m, n)), x.dtype)


@primitive("householder_product")
def householder_product_p(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    """The first n columns of ``h_0 h_1 ... h_(k-1)``, ``h_i = 1 - taus[i] v_i v_i^H``, v_i below a's diagonal (and 1 on it).

    Raises:
        ValueError: a has more columns than rows, or `taus` has not the shape (..., k) with k at most the number of
            columns.
        TypeError: the dtypes differ or are none of LAPACK's.
    """
    _check_matrix("householder_product", a, argument="a")
    check_same_dtype("householder_product", a, taus)
    *batch, m, n = a.shape
    if m < n or taus.ndim != a.ndim - 1 or list(taus.shape[:-1]) != batch or taus.shape[-1] > n:
        raise ValueError(
            f"householder_product: a {a.short()} must have no more columns than rows, and taus {taus.short()} the shape "
            "(..., k), k at most the number of columns"
        )
    return a.strong()


@primitive("eigh", multiple_results=True)
def eigh_p(
    x: ShapedArray, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None
) -> tuple[ShapedArray, ShapedArray]:
    """Eigendecomposition of Hermitian matrices, of which one triangle is read: (v, w), ``x @ v == v * w``.

    w is real and ascending. subset_by_index (start, stop) keeps these eigenvalues and vectors only.

    Raises:
        ValueError: x is not square, or `subset_by_index` not within [0, n].
        TypeError: x's dtype is none of LAPACK's.
    """
    _check_matrix("eigh", x, square=True)
    *batch, n, _ = x.shape
    k = n
    if subset_by_index is not None:
        start, stop = subset_by_index
        if not 0 <= start <= stop <= n:
            raise ValueError(
                f"eigh: subset_by_index {subset_by_index} must be within [0, {n}], for operand {x.short()}"
            )
        k = stop - start
    return ShapedArray((*batch, n, k), x.dtype), _real((*batch, k), x)


@primitive("eig", multiple_results=True)
def eig_p(
    x: ShapedArray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool
) -> tuple[ShapedArray, ...]:
    """Eigendecomposition of general matrices: eigenvalues, then left and right eigenvectors where asked for; complex."""
    _check_matrix("eig", x, square=True)
    dtype = dtypes.complex_dtype(x.dtype)
    vectors = ShapedArray(x.shape, dtype)
    count = int(compute_left_eigenvectors) + int(compute_right_eigenvectors)
    return (ShapedArray(x.shape[:-1], dtype), *[vectors] * count)


@primitive("svd", multiple_results=True)
def svd_p(
    x: ShapedArray, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None
) -> tuple[ShapedArray, ...]:
    """Singular value decomposition: (s, u, vh), ``x == u * s @ vh``, or (s,); s is real and descending.

    u is (m, m) and vh (n, n) with full_matrices, otherwise (m, k) and (k, n), k = min(m, n).

    Raises:
        ValueError: x is no matrix, `subset_by_index` is not within [0, min(m, n)], or it leaves values out with
            full_matrices.
        TypeError: x's dtype is none of LAPACK's.
    """
    _check_matrix("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    if subset_by_index is not None:
        start, stop = subset_by_index
        if not 0 <= start <= stop <= k:
            raise ValueError(f"svd: subset_by_index {subset_by_index} must be within [0, {k}], for operand {x.short()}")
        if full_matrices and (start, stop) != (0, k):
            raise ValueError("svd: full_matrices and subset_by_index exclude each other")
        k = stop - start
    s = _real((*batch, k), x)
    if not compute_uv:
        return (s,)
    wide = (m, n) if full_matrices else (k, k)
    return s, ShapedArray((*batch, m, wide[0]), x.dtype), ShapedArray((*batch, wide[1], n), x.dtype)


@primitive("schur", multiple_results=True)
def schur_p(
    x: ShapedArray, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Callable[..., Any] | None
) -> tuple[ShapedArray, ...]:
    """Schur decomposition: (t, z), ``x == z @ t @ z.conj().T``, or (t,); t is quasi-triangular for real x.

    Raises:
        NotImplementedError: `sort_eig_vals` is true or `select_callable` is given.
        ValueError: x is not square.
        TypeError: x's dtype is none of LAPACK's.
    """
    _check_matrix("schur", x, square=True)
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: sorting of the eigenvalues is not supported: leave sort_eig_vals False")
    return (x.strong(), x.strong()) if compute_schur_vectors else (x.strong(),)


@primitive("hessenberg", multiple_results=True)
def hessenberg_p(x: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
    """Reduction to Hessenberg form: the form with Householder vectors below it, and their factors taus."""
    _check_matrix("hessenberg", x, square=True)
    *batch, n, _ = x.shape
    return x.strong(), ShapedArray((*batch, max(n - 1, 0)), x.dtype)


@primitive("tridiagonal", multiple_results=True)
def tridiagonal_p(x: ShapedArray, *, lower: bool) -> tuple[ShapedArray, ...]:
    """Reduction of Hermitian matrices to tridiagonal form: (a, d, e, taus), diagonal d and off-diagonal e real."""
    _check_matrix("tridiagonal", x, square=True)
    *batch, n, _ = x.shape
    m = max(n - 1, 0)
    return x.strong(), _real((*batch, n), x), _real((*batch, m), x), ShapedArray((*batch, m), x.dtype)


@primitive("tridiagonal_solve")
def tridiagonal_solve_p(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool
) -> ShapedArray:
    """Solve ``a @ x == b`` for tridiagonal a: diagonal d, dl[i] = a[i, i-1] and du[i] = a[i, i+1], all of length n.

    dl[0] and du[n-1] are not read. With `perturb_singular` pivots that are smaller than an epsilon of U's largest element are
    made as large, so that the solution is finite; without it that of a singular matrix is NaN.

    Raises:
        ValueError: dl, d and du have not b's shape without its last dimension.
        TypeError: the dtypes differ or are none of LAPACK's.
    """
    name = "tridiagonal_solve"
    _check_matrix(name, b, argument="b")
    check_same_dtype(name, dl, d, du, b)
    if not (dl.shape == d.shape == du.shape == b.shape[:-1]):
        raise ValueError(
            f"{name}: dl {dl.short()}, d {d.short()} and du {du.short()} must have b {b.short()}'s shape without its last dimension"
        )
    return b.strong()


# -- thin functions -------------------------------------------------------------------------------------------------------


def transpose_last(x: Value, conjugate: bool = False) -> Value:
    """The matrices of x transposed, and conjugated on request."""
    n = aval_of(x).ndim
    out = st.transpose(x, (*range(n - 2), n - 1, n - 2))
    return ew.conj(out) if conjugate else out


def cholesky(x: Value) -> Value:
    """The lower Cholesky factor; see `cholesky_p`."""
    return cholesky_p.bind(x)


def triangular_solve(
    a: Value, b: Value, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Value:  # fmt: skip
    """Solve with a triangular matrix; see `triangular_solve_p`."""
    conjugate_a = conjugate_a and dtypes.is_complex(aval_of(a).dtype)
    return triangular_solve_p.bind(
        a, b, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a), conjugate_a=conjugate_a,
        unit_diagonal=bool(unit_diagonal),
    )  # fmt: skip


def lu(x: Value) -> tuple[Value, Value, Value]:
    """(lu, pivots, permutation); see `lu_p`."""
    a, pivots, permutation = lu_p.bind(x)
    return a, pivots, permutation


def lu_pivots_to_permutation(pivots: Value, permutation_size: int) -> Value:
    """The permutation of a sequence of row exchanges."""
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


def qr(x: Value, *, pivoting: bool = False, full_matrices: bool = True) -> list[Value]:
    """[q, r], or [q, r, p] with pivoting; see `qr_p`."""
    return qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices))


def geqrf(x: Value) -> list[Value]:
    """[a, taus]; see `geqrf_p`."""
    return geqrf_p.bind(x)


def householder_product(a: Value, taus: Value) -> Value:
    """The unitary matrix of Householder reflectors; see `householder_product_p`."""
    return householder_product_p.bind(a, taus)


def eigh(
    x: Value, *, lower: bool = True, sort_eigenvalues: bool = True, subset_by_index: tuple[int, int] | None = None
) -> list[Value]:
    """[v, w]; see `eigh_p`."""
    subset = None if subset_by_index is None else (int(subset_by_index[0]), int(subset_by_index[1]))
    return eigh_p.bind(x, lower=bool(lower), sort_eigenvalues=bool(sort_eigenvalues), subset_by_index=subset)


def eig(x: Value, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True) -> list[Value]:
    """[w, vl, vr]; see `eig_p`."""
    return eig_p.bind(
        x, compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
    )  # fmt: skip


def svd(
    x: Value, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None
) -> list[Value]:
    """[s, u, vh] or [s]; see `svd_p`."""
    subset = None if subset_by_index is None else (int(subset_by_index[0]), int(subset_by_index[1]))
    return svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), subset_by_index=subset)


def schur(
    x: Value, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Value]:  # fmt: skip
    """[t, z] or [t]; see `schur_p`."""
    return schur_p.bind(
        x,
        compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=bool(sort_eig_vals),
        select_callable=select_callable,
    )


def hessenberg(x: Value) -> list[Value]:
    """[a, taus]; see `hessenberg_p`."""
    return hessenberg_p.bind(x)


def tridiagonal(x: Value, *, lower: bool = True) -> list[Value]:
    """[a, d, e, taus]; see `tridiagonal_p`."""
    return tridiagonal_p.bind(x, lower=bool(lower))


def tridiagonal_solve(dl: Value, d: Value, du: Value, b: Value, *, perturb_singular: bool = False) -> Value:
    """Solve with a tridiagonal matrix; see `tridiagonal_solve_p`."""
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


# -- triangles, diagonals, identities: helpers of rules ---------------------------------------------------------------------


def _row_and_column(x: Value) -> tuple[Value, Value]:
    """Row and column numbers of the matrices of x, as int32 of their shape."""
    shape = aval_of(x).shape[-2:]
    return st.broadcasted_iota(dtypes.int32, shape, 0), st.broadcasted_iota(dtypes.int32, shape, 1)


def keep(x: Value, mask: Value) -> Value:
    """The matrices of x where the mask of their shape holds, and 0 elsewhere."""
    aval = aval_of(x)
    mask = st.broadcast_in_dim(mask, aval.shape, (aval.ndim - 2, aval.ndim - 1))
    return ew.select_n(mask, st.full(aval.shape, 0, aval.dtype), x)


def tril(x: Value, k: int = 0) -> Value:
    """The part of the matrices of x on and below the k-th diagonal."""
    row, column = _row_and_column(x)
    return keep(x, ew.ge(ew.add(row, k), column))


def triu(x: Value, k: int = 0) -> Value:
    """The part of the matrices of x on and above the k-th diagonal."""
    row, column = _row_and_column(x)
    return keep(x, ew.le(ew.add(row, k), column))


def hermitian(x: Value, lower: bool) -> Value:
    """The Hermitian matrices of one triangle of the matrices of x; of the diagonal the real parts."""
    row, column = _row_and_column(x)
    real = ew.convert_element_type(ew.real(x), aval_of(x).dtype) if dtypes.is_complex(aval_of(x).dtype) else x
    half = tril(x, -1) if lower else triu(x, 1)
    return ew.add(ew.add(half, transpose_last(half, conjugate=True)), keep(real, ew.eq(row, column)))


def eye(m: int, n: int, dtype: Any) -> Value:
    """The identity matrix, m by n."""
    row, column = (st.broadcasted_iota(dtypes.int32, (m, n), i) for i in range(2))
    return ew.convert_element_type(ew.eq(row, column), dtype)


def diagonal(x: Value) -> Value:
    """The diagonals of square matrices."""
    row, column = _row_and_column(x)
    return rd.reduce_sum(keep(x, ew.eq(row, column)), (aval_of(x).ndim - 1,))


def scale_columns(x: Value, s: Value) -> Value:
    """The matrices of x, column j times s[..., j]; s is converted to x's dtype."""
    return ew.mul(x, _along(x, s, 0))


def scale_rows(x: Value, s: Value) -> Value:
    """The matrices of x, row i times s[..., i]; s is converted to x's dtype."""
    return ew.mul(x, _along(x, s, 1))


def _along(x: Value, s: Value, constant: int) -> Value:
    aval = aval_of(x)
    n = aval.ndim
    return st.broadcast_in_dim(
        ew.convert_element_type(s, aval.dtype), aval.shape, (*range(n - 2), n - 1 if constant == 0 else n - 2)
    )

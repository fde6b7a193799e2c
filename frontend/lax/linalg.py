"""quire.lax.linalg: decompositions and solutions of batches of matrices (the last two dimensions).

dtypes are float32, float64, complex64 and complex128. Failures are NaN in the result, not exceptions.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives.linalg import cholesky_p as cholesky_p
from quire.ir.primitives.linalg import eig_p as eig_p
from quire.ir.primitives.linalg import eigh_p as eigh_p
from quire.ir.primitives.linalg import hessenberg_p as hessenberg_p
from quire.ir.primitives.linalg import householder_product_p as householder_product_p
from quire.ir.primitives.linalg import lu_p as lu_p
from quire.ir.primitives.linalg import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from quire.ir.primitives.linalg import qr_p as qr_p
from quire.ir.primitives.linalg import schur_p as schur_p
from quire.ir.primitives.linalg import svd_p as svd_p
from quire.ir.primitives.linalg import triangular_solve_p as triangular_solve_p
from quire.ir.primitives.linalg import tridiagonal_p as tridiagonal_p
from quire.ir.primitives.linalg import tridiagonal_solve_p as tridiagonal_solve_p
from quire.passes.ad import linalg as rules

from ..transforms.custom_derivatives import custom_jvp
from .elementwise import made_inexact
from .qdwh import qdwh as qdwh

Array = Any


class SvdAlgorithm(enum.Enum):
    """How `svd` computes; LAPACK's divide and conquer is used for all of them."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EigImplementation(enum.Enum):
    """How `eig` computes; on the CPU by LAPACK for all of them."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How `eigh` computes: by LAPACK on the CPU, by Jacobi's rotations elsewhere, for all of them."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def _scalar(value: float, x: Array) -> Any:
    return np.asarray(value, aval_of(x).dtype)[()]


def symmetrize(x: Array) -> Array:
    """``(x + x^H) / 2``."""
    return ew.mul(ew.add(x, la.transpose_last(x, conjugate=True)), _scalar(0.5, x))


def cholesky(x: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular l with ``l @ l^H == x``, for Hermitian positive definite x (..., n, n); NaN otherwise.

    Args:
        symmetrize_input: use ``(x + x^H) / 2``, which makes the derivative symmetric; else x's lower triangle is read.

    Example: ``lax.linalg.cholesky(np.array([[4., 2.], [2., 3.]], np.float32))``
    """
    x = made_inexact(x)
    la.cholesky_p.infer([aval_of(x)], {})  # errors about x, not about what it is made into
    return la.cholesky(symmetrize(x) if symmetrize_input else x)


def cholesky_update(r_matrix: Array, w_vector: Array) -> Array:
    """The upper triangular factor of ``r^T r + w w^T`` from that of ``r^T r``."""
    r, w = r_matrix, w_vector
    product = ew.add(ct.matmul(la.transpose_last(r), r), ct.dot_general(w, w, (((), ()), ((), ()))))
    return la.transpose_last(la.cholesky(product))


def symmetric_product(
    a_matrix: Array, c_matrix: Array, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """``alpha a a^T + beta c``; its upper triangle is unspecified unless symmetrize_output."""
    product = ew.mul(ct.matmul(a_matrix, la.transpose_last(a_matrix)), _scalar(alpha, a_matrix))
    return ew.add(product, ew.mul(c_matrix, _scalar(beta, c_matrix)))


def triangular_solve(
    a: Array, b: Array, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Array:  # fmt: skip
    """Solve ``op(a) @ x == b`` (left_side) or ``x @ op(a) == b`` for triangular a (..., n, n).

    b is (..., n, k) with left_side, (..., k, n) without; or a vector less, for one right-hand side. float16 and bfloat16
    are solved in float32 and rounded once.

    Raises ValueError when the shapes do not fit.

    Example: ``lax.linalg.triangular_solve(l, b, left_side=True, lower=True)``
    """
    a_aval, b_aval = aval_of(a), aval_of(b)
    vector = b_aval.ndim == a_aval.ndim - 1
    if vector:
        b = st.expand_dims(b, (b_aval.ndim if left_side else b_aval.ndim - 1,))
    half = a_aval.dtype == b_aval.dtype and a_aval.dtype in (dtypes.float16, dtypes.bfloat16)
    if half:
        a, b = (ew.convert_element_type(v, dtypes.float32) for v in (a, b))
    x = la.triangular_solve(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    x = ew.convert_element_type(x, b_aval.dtype) if half else x
    return st.reshape(x, b_aval.shape) if vector else x


def lu(x: Array) -> list[Array]:
    """LU decomposition with partial pivoting of (..., m, n): (lu, pivots, permutation).

    ``x[permutation] == l @ u`` with l (unit lower) and u packed in lu; pivots (..., min(m, n)) are LAPACK's exchanges.
    """
    return [*la.lu(x)]


def lu_pivots_to_permutation(pivots: Array, permutation_size: int) -> Array:
    """The permutation (..., permutation_size) of the row exchanges ``pivots`` (..., k), int32."""
    return la.lu_pivots_to_permutation(pivots, permutation_size)


def qr(
    x: Array, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, ...]:
    """QR decomposition of (..., m, n): (q, r), or (q, r, p) with ``q @ r == x[:, p]``.

    q is (m, m) with full_matrices, otherwise (m, min(m, n)). The derivative needs full_matrices=False where m > n.
    """
    return tuple(la.qr(x, pivoting=pivoting, full_matrices=full_matrices))


def householder_product(a: Array, taus: Array) -> Array:
    """The product of the Householder reflectors below the diagonal of a (..., m, n), with factors taus (..., k)."""
    return la.householder_product(a, taus)


def ormqr(a: Array, taus: Array, c: Array, *, left: bool = True, transpose: bool = False) -> Array:
    """The product of c and the unitary matrix q of Householder reflectors, in the form of `geqrf` and `qr`'s mode "raw".

    Args:
        a: (..., m, n): vectors below the diagonal; taus: (..., k), their factors, k at most n.
        c: (..., m, p) with left: ``q @ c``; otherwise (..., p, m): ``c @ q``.
        transpose: multiply by ``q^H`` instead.

    Raises ValueError when the shapes do not fit.
    """
    *batch, m, n = aval_of(a).shape
    shape = aval_of(c).shape
    if len(shape) < 2 or shape[-2 if left else -1] != m or list(shape[:-2]) != batch:
        raise ValueError(
            f"ormqr: c {aval_of(c).short()} must have a's leading dimensions, {batch}, and {m} "
            f"{'rows' if left else 'columns'}, as a {aval_of(a).short()} has rows"
        )
    k = aval_of(taus).shape[-1]
    zero = _scalar(0, a)
    square = st.slice_in_dim(a, 0, min(n, m), axis=len(batch) + 1)
    square = st.pad(square, zero, [(0, 0, 0)] * (len(batch) + 1) + [(0, m - min(n, m), 0)])
    q = la.householder_product(square, st.slice_in_dim(taus, 0, min(k, m), axis=len(batch)))
    q = la.transpose_last(q, conjugate=True) if transpose else q
    return ct.matmul(q, c) if left else ct.matmul(c, q)


def eigh(
    x: Array, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None, implementation: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Eigendecomposition of Hermitian x (..., n, n): (v, w) with ``x @ v == v * w``, w real and ascending.

    Args:
        lower: which triangle is read, without symmetrize_input.
        subset_by_index: (start, stop): these eigenvalues only.

    Example: ``v, w = lax.linalg.eigh(x)``
    """
    params = {"lower": lower, "sort_eigenvalues": sort_eigenvalues, "subset_by_index": subset_by_index}
    x = made_inexact(x)
    la.eigh_p.infer([aval_of(x)], params)  # errors about x, not about what it is made into
    x = symmetrize(x) if symmetrize_input else x
    v, w = la.eigh(x, lower=lower, sort_eigenvalues=sort_eigenvalues, subset_by_index=subset_by_index)
    return v, w


def eig(
    x: Array, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False, implementation: Any = None, use_magma: bool | None = None,
) -> list[Array]:  # fmt: skip
    """Eigendecomposition of general x (..., n, n): [w, left vectors, right vectors], those asked for; all complex.

    Args:
        enable_eigvec_derivs: differentiate eigenvectors v too, where the eigenvalues differ. An eigenvector is
            determined but for a phase; its derivative is the one of which v^H dv has no real part (its length stays 1)
            and is zero. It means something in losses that do not depend on the phase, which cannot be checked.

    The eigenvalues have derivatives in any case.
    """
    if enable_eigvec_derivs and (compute_left_eigenvectors or compute_right_eigenvectors):
        return list(_eig_with_vectors(x, bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)))
    return la.eig(
        x, compute_left_eigenvectors=compute_left_eigenvectors, compute_right_eigenvectors=compute_right_eigenvectors
    )


@partial(custom_jvp, nondiff_argnums=(1, 2))
def _eig_with_vectors(x: Array, left: bool, right: bool) -> tuple[Array, ...]:
    return tuple(la.eig(x, compute_left_eigenvectors=left, compute_right_eigenvectors=right))


@_eig_with_vectors.defjvp
def _eig_with_vectors_jvp(left: bool, right: bool, primals: Any, tangents: Any) -> Any:
    w, *vectors = _eig_with_vectors(primals[0], left, right)
    dx = ew.convert_element_type(tangents[0], aval_of(w).dtype)
    derivatives: list[Array] = []
    if left:  # right ones of x^H
        dw, dv = _moved_vectors(ew.conj(w), vectors[0], la.transpose_last(dx, conjugate=True))
        dw = ew.conj(dw)
        derivatives.append(dv)
    if right:
        dw, dv = _moved_vectors(w, vectors[-1], dx)
        derivatives.append(dv)
    return (w, *vectors), (dw, *derivatives)  # pyright: ignore[reportPossiblyUnboundVariable] - one of them is asked for


def _moved_vectors(w: Array, v: Array, dx: Array) -> tuple[Array, Array]:
    """Boeddeker et al. (2017): m = v^-1 dx v, dw = diag(m), dv = v (m / (w_j - w_i)) less its part along v."""
    m = rules.solve(v, ct.matmul(dx, v))
    dv = ct.matmul(v, ew.mul(rules.reciprocal_differences(w), m))
    along = rd.reduce_sum(ew.mul(ew.conj(v), dv), (aval_of(v).ndim - 2,))
    return la.diagonal(m), ew.sub(dv, la.scale_columns(v, along))


def svd(
    x: Array, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None,
    algorithm: Any = None,
) -> Any:  # fmt: skip
    """Singular value decomposition of (..., m, n): (u, s, vh) with ``x == u * s @ vh``, or s; s is descending.

    The derivative of u and vh needs full_matrices=False where m and n differ.

    Example: ``u, s, vh = lax.linalg.svd(x, full_matrices=False)``
    """
    out = la.svd(x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    return (out[1], out[0], out[2]) if compute_uv else out[0]


def schur(
    x: Array, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:  # fmt: skip
    """Schur decomposition of (..., n, n): [t, z] with ``x == z @ t @ z^H``; [t] without the vectors."""
    out = la.schur(
        x, compute_schur_vectors=compute_schur_vectors, sort_eig_vals=sort_eig_vals, select_callable=select_callable
    )
    return [out[0], out[1]] if compute_schur_vectors else [out[0]]


def hessenberg(a: Array) -> list[Array]:
    """Reduction of (..., n, n) to Hessenberg form: [form with Householder vectors below, factors taus]."""
    return [*la.hessenberg(a)]


def tridiagonal(a: Array, *, lower: bool = True) -> list[Array]:
    """Reduction of Hermitian (..., n, n) to tridiagonal form: [vectors, diagonal, off-diagonal, factors taus]."""
    return [*la.tridiagonal(a, lower=lower)]


def tridiagonal_solve(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool = False) -> Array:
    """Solve with the tridiagonal matrix of sub-diagonal dl, diagonal d, super-diagonal du (..., n) for b (..., n, k).

    dl[0] and du[-1] are not read.
    """
    return la.tridiagonal_solve(dl, d, du, b, perturb_singular=perturb_singular)

"""Derivative rules of linear algebra.

Sources: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008);
Murray, "Differentiation of the Cholesky decomposition" (2016); Walter and Lehmann, "Algorithmic differentiation of
linear algebra functions" (2010) for QR. Matrices that are taken as Hermitian have Hermitian tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st

from .rules import Linear, Value, Zero, add_tangents, define_zero_jvp, is_zero, jvp, transpose

_NOT_LINEAR = (
    la.cholesky_p, la.lu_p, la.lu_pivots_to_permutation_p, la.qr_p, la.geqrf_p, la.householder_product_p, la.eigh_p,
    la.eig_p, la.svd_p, la.schur_p, la.hessenberg_p, la.tridiagonal_p,
)  # fmt: skip
transpose.absent("not linear", *_NOT_LINEAR)
jvp.absent("its result is for householder_product only; differentiate qr", la.geqrf_p, la.householder_product_p)
jvp.absent("the Schur decomposition's derivative is not implemented, as in JAX", la.schur_p)
jvp.absent("the reduction's derivative is not implemented, as in JAX", la.hessenberg_p, la.tridiagonal_p)
define_zero_jvp(la.lu_pivots_to_permutation_p)


def _dagger(x: Value) -> Value:
    return la.transpose_last(x, conjugate=True)


def _scalar(value: float, like: Value) -> Any:
    return np.asarray(value, aval_of(like).dtype)[()]


# -- Cholesky -------------------------------------------------------------------------------------------------------------


@jvp(la.cholesky_p)
def cholesky(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
    """dL = L phi(L^-1 dA L^-H), phi: the lower triangle with half the diagonal (Murray 2016)."""
    l = la.cholesky(primals[0])
    s = la.triangular_solve(l, tangents[0], left_side=False, lower=True, transpose_a=True, conjugate_a=True)
    s = la.triangular_solve(l, s, left_side=True, lower=True)
    n = aval_of(s).shape[-1]
    identity = st.broadcast_to(la.eye(n, n, aval_of(s).dtype), aval_of(s).shape)
    phi = ew.div(la.tril(s), ew.add(identity, _scalar(1, s)))
    return l, ct.matmul(l, phi)


# -- solutions --------------------------------------------------------------------------------------------------------------


@jvp(la.triangular_solve_p)
def triangular_solve(
    primals: Sequence[Value], tangents: Sequence[Any], *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> tuple[Value, Any]:  # fmt: skip
    """op(A) X = B: dX = op(A)^-1 (dB - op(dA) X)."""
    (a, b), (ta, tb) = primals, tangents
    params = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a, "conjugate_a": conjugate_a,
              "unit_diagonal": unit_diagonal}  # fmt: skip
    x = la.triangular_solve_p.bind(a, b, **params)
    rhs: Any = tb
    if not is_zero(ta):
        k = 1 if unit_diagonal else 0
        da = la.tril(ta, -k) if lower else la.triu(ta, k)
        if conjugate_a:
            da = ew.conj(da)
        if transpose_a:
            da = la.transpose_last(da)
        change = ct.matmul(da, x) if left_side else ct.matmul(x, da)
        rhs = add_tangents(tb, ew.neg(change))
    return x, la.triangular_solve_p.bind(a, rhs, **params)


@transpose(la.triangular_solve_p)
def triangular_solve_transpose(cotangent: Value, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> Sequence[Any]:
    assert isinstance(b, Linear) and not isinstance(a, Linear), "triangular_solve is linear in b only"
    return [None, la.triangular_solve_p.bind(a, cotangent, transpose_a=not transpose_a, **params)]


def _shift_down(x: Value) -> Value:
    """x[i - 1] at i along the last dimension, 0 first."""
    return st.pad(x, _scalar(0, x), [(0, 0, 0)] * (aval_of(x).ndim - 1) + [(1, -1, 0)])


def _shift_up(x: Value) -> Value:
    """x[i + 1] at i along the last dimension, 0 last."""
    return st.pad(x, _scalar(0, x), [(0, 0, 0)] * (aval_of(x).ndim - 1) + [(-1, 1, 0)])


def _rows(x: Value, up: bool) -> Value:
    """The rows of x moved by one, with zeros at the border."""
    return st.pad(x, _scalar(0, x), [(0, 0, 0)] * (aval_of(x).ndim - 2) + [(-1, 1, 0) if up else (1, -1, 0), (0, 0, 0)])


@jvp(la.tridiagonal_solve_p)
def tridiagonal_solve(
    primals: Sequence[Value], tangents: Sequence[Any], *, perturb_singular: bool
) -> tuple[Value, Any]:
    """A X = B: dX = A^-1 (dB - dA X)."""
    dl, d, du, b = primals
    x = la.tridiagonal_solve(dl, d, du, b, perturb_singular=perturb_singular)
    rhs: Any = tangents[3]
    for t, moved in zip(tangents[:3], (_rows(x, False), x, _rows(x, True))):
        if not is_zero(t):
            rhs = add_tangents(rhs, ew.neg(la.scale_rows(moved, t)))
    return x, la.tridiagonal_solve(dl, d, du, rhs, perturb_singular=perturb_singular)


@transpose(la.tridiagonal_solve_p)
def tridiagonal_solve_transpose(
    cotangent: Value, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
) -> Sequence[Any]:
    assert isinstance(b, Linear), "tridiagonal_solve is linear in b only"
    out = la.tridiagonal_solve(_shift_down(du), d, _shift_up(dl), cotangent, perturb_singular=perturb_singular)
    return [None, None, None, out]


# -- LU -----------------------------------------------------------------------------------------------------------------------


def permute_rows(x: Value, permutation: Value) -> Value:
    """``x[..., permutation, :]``, the batch dimensions side by side."""
    aval = aval_of(x)
    if not aval.size:
        return x
    index = st.broadcast_in_dim(permutation, aval.shape, tuple(range(aval.ndim - 1)))
    return ix.take_along_axis(x, index, aval.ndim - 2)


def _padded_identity(x: Value, rows: int, columns: int) -> Value:
    """The matrices of x in the corner of larger ones, with ones on the diagonal beyond them."""
    shape = aval_of(x).shape
    pads = [(0, 0, 0)] * (len(shape) - 2) + [(0, rows - shape[-2], 0), (0, columns - shape[-1], 0)]
    row = st.broadcasted_iota(dtypes.int32, (rows, columns), 0)
    column = st.broadcasted_iota(dtypes.int32, (rows, columns), 1)
    beyond = ew.bitwise_and(ew.eq(row, column), ew.ge(row, np.int32(min(shape[-2:]))))
    out = st.pad(x, _scalar(0, x), pads)
    return ew.add(out, st.broadcast_to(ew.convert_element_type(beyond, aval_of(x).dtype), aval_of(out).shape))


def unpack_lu(lu: Value) -> tuple[Value, Value]:
    """Square unit lower (m, m) and upper (n, n) triangular matrices of an LU decomposition, padded by the identity."""
    *batch, m, n = aval_of(lu).shape
    k = min(m, n)
    zeros = [0] * len(batch)
    l = la.tril(st.slice(lu, (*zeros, 0, 0), (*batch, m, k)), -1)
    identity = st.broadcast_to(la.eye(m, k, aval_of(lu).dtype), aval_of(l).shape)
    l = _padded_identity(ew.add(l, identity), m, m)
    u = _padded_identity(la.triu(st.slice(lu, (*zeros, 0, 0), (*batch, k, n))), n, n)
    return l, u


@jvp(la.lu_p)
def lu(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """M = L^-1 P dA U^-1: dL = L strict_lower(M), dU = upper(M) U."""
    out, pivots, permutation = la.lu(primals[0])
    l, u = unpack_lu(out)
    t = permute_rows(tangents[0], permutation)
    m = la.triangular_solve(l, t, left_side=True, lower=True, unit_diagonal=True)
    m = la.triangular_solve(u, m, left_side=False, lower=False)
    tangent = ew.add(ct.matmul(l, la.tril(m, -1)), ct.matmul(la.triu(m), u))
    return [out, pivots, permutation], [tangent, *(Zero(aval_of(x).tangent()) for x in (pivots, permutation))]


# -- QR -----------------------------------------------------------------------------------------------------------------------


def _qr_tangents(q: Value, r: Value, t: Value) -> tuple[Value, Value]:
    """dQ and dR for square r (Walter and Lehmann 2010, section 3.3)."""
    t_r = la.triangular_solve(r, t, left_side=False, lower=False)
    s = ct.matmul(_dagger(q), t_r)
    lower = la.tril(s, -1)
    skew = ew.sub(lower, _dagger(lower))
    if dtypes.is_complex(aval_of(s).dtype):  # the diagonal of r stays real
        imaginary = ew.sub(s, ew.convert_element_type(ew.real(s), aval_of(s).dtype))
        row = st.broadcasted_iota(dtypes.int32, aval_of(s).shape[-2:], 0)
        column = st.broadcasted_iota(dtypes.int32, aval_of(s).shape[-2:], 1)
        skew = ew.add(skew, la.keep(imaginary, ew.eq(row, column)))
    return ew.add(ct.matmul(q, ew.sub(skew, s)), t_r), ct.matmul(ew.sub(s, skew), r)


@jvp(la.qr_p)
def qr(primals: Sequence[Value], tangents: Sequence[Any], *, pivoting: bool, full_matrices: bool) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    *batch, m, n = aval_of(x).shape
    out = la.qr(x, pivoting=pivoting, full_matrices=full_matrices)
    q, r = out[:2]
    if pivoting:
        t = la.transpose_last(permute_rows(la.transpose_last(t), out[2]))
    zeros = [0] * len(batch)
    if full_matrices and m > n:
        # The first n columns are those of the reduced form. The others may turn among themselves: they do not.
        q1, r1 = st.slice(q, (*zeros, 0, 0), (*batch, m, n)), st.slice(r, (*zeros, 0, 0), (*batch, n, n))
        q2 = st.slice(q, (*zeros, 0, n), (*batch, m, m))
        dq1, dr1 = _qr_tangents(q1, r1, t)
        dq2 = ew.neg(ct.matmul(q1, ct.matmul(_dagger(dq1), q2)))
        dq = st.concatenate([dq1, dq2], len(batch) + 1)
        below = st.slice(r, (*zeros, n, 0), (*batch, m, n))
        dr = st.concatenate([dr1, ew.sub(below, below)], len(batch))
    elif m >= n:
        dq, dr = _qr_tangents(q, r, t)
    else:  # the first m columns determine q; r's others are q^H times x's
        square = st.slice(r, (*zeros, 0, 0), (*batch, m, m))
        dq, dr1 = _qr_tangents(q, square, st.slice(t, (*zeros, 0, 0), (*batch, m, m)))
        rest = st.slice(r, (*zeros, 0, m), (*batch, m, n))
        t2 = st.slice(t, (*zeros, 0, m), (*batch, m, n))
        dr2 = ew.add(ct.matmul(ct.matmul(_dagger(dq), q), rest), ct.matmul(_dagger(q), t2))
        dr = st.concatenate([dr1, dr2], len(batch) + 1)
    rest_tangents = [Zero(aval_of(p).tangent()) for p in out[2:]]
    return out, [dq, dr, *rest_tangents]


# -- eigenvalues ----------------------------------------------------------------------------------------------------------------


def reciprocal_differences(w: Value) -> Value:
    """1 / (w[j] - w[i]) at (i, j), 0 on the diagonal."""
    shape = (*aval_of(w).shape, aval_of(w).shape[-1])
    n = len(shape)
    difference = ew.sub(
        st.broadcast_in_dim(w, shape, (*range(n - 2), n - 1)), st.broadcast_in_dim(w, shape, tuple(range(n - 1)))
    )
    identity = st.broadcast_to(la.eye(shape[-1], shape[-1], aval_of(w).dtype), shape)
    return ew.sub(ew.div(_scalar(1, w), ew.add(difference, identity)), identity)


@jvp(la.eigh_p)
def eigh(
    primals: Sequence[Value], tangents: Sequence[Any], *, lower: bool, sort_eigenvalues: bool,
    subset_by_index: tuple[int, int] | None,
) -> tuple[Any, Any]:  # fmt: skip
    """M = V^H dA V: dw = diag(M), dV = V (M / (w_j - w_i)) (Giles 2008, 3.1), dA from the triangle that is read."""
    (a,), (t,) = primals, tangents
    if subset_by_index is not None and subset_by_index != (0, aval_of(a).shape[-1]):
        raise NotImplementedError("eigh: the derivative of a subset is not implemented: leave subset_by_index out")
    v, w = la.eigh(a, lower=lower, sort_eigenvalues=sort_eigenvalues, subset_by_index=subset_by_index)
    m = ct.matmul(ct.matmul(_dagger(v), la.hermitian(t, lower)), v)
    factors = ew.convert_element_type(reciprocal_differences(w), aval_of(m).dtype)
    return [v, w], [ct.matmul(v, ew.mul(factors, m)), ew.real(la.diagonal(m))]


def solve(a: Value, b: Value) -> Value:
    """``a^-1 @ b`` by LU decomposition, or by the formula for matrices of size 2."""
    if aval_of(a).shape[-1] == 2:
        return ct.matmul(_inverse_of_two(a), b)
    out, _, permutation = la.lu(a)
    x = la.triangular_solve(out, permute_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    return la.triangular_solve(out, x, left_side=True, lower=False)


def _inverse_of_two(x: Value) -> Value:
    """((d, -b), (-c, a)) / (ad - bc) for ((a, b), (c, d))."""
    shape = aval_of(x).shape
    n = len(shape)
    row, column = (st.broadcasted_iota(dtypes.int32, shape, n - i) for i in (2, 1))
    turned = st.rev(x, (n - 2, n - 1))  # ((d, c), (b, a))
    adjugate = ew.select_n(ew.eq(row, column), ew.neg(la.transpose_last(turned)), turned)
    # Row 0 of x times column 0 of the adjugate.
    first = st.slice_in_dim(x, 0, 1, axis=n - 2)
    determinant = ct.matmul(first, st.slice_in_dim(adjugate, 0, 1, axis=n - 1))
    return ew.div(adjugate, st.broadcast_in_dim(st.reshape(determinant, shape[:-2]), shape, range(n - 2)))


@jvp(la.eig_p)
def eig(
    primals: Sequence[Value], tangents: Sequence[Any], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """dw = diag(V^-1 dA V)."""
    if compute_left_eigenvectors or compute_right_eigenvectors:
        raise NotImplementedError(
            "eig: an eigenvector is determined but for a phase, so that its derivative means something only in losses that "
            "do not depend on it: for these, use lax.linalg.eig(x, compute_left_eigenvectors=False, "
            "enable_eigvec_derivs=True); for eigenvalues alone, numpy.linalg.eigvals"
        )
    (a,), (t,) = primals, tangents
    w, v = la.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=True)
    m = solve(v, ct.matmul(ew.convert_element_type(t, aval_of(v).dtype), v))
    return [w], [la.diagonal(m)]


# -- singular values --------------------------------------------------------------------------------------------------------------


@jvp(la.svd_p)
def svd(
    primals: Sequence[Value], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool,
    subset_by_index: tuple[int, int] | None,
) -> tuple[Any, Any]:  # fmt: skip
    """dS = U^H dA V; the rotations of U and V solve two equations for each pair of singular values (Giles 2008, 3.2)."""
    (a,), (t,) = primals, tangents
    *batch, m, n = aval_of(a).shape
    k = min(m, n)
    if subset_by_index is not None and subset_by_index != (0, k):
        raise NotImplementedError("svd: the derivative of a subset is not implemented: leave subset_by_index out")
    if full_matrices and compute_uv and m != n:
        raise NotImplementedError(
            f"svd: the derivative of {aval_of(a).short()} with full_matrices=True is not unique: use full_matrices=False"
        )
    s, u, vh = la.svd(a, full_matrices=False, compute_uv=True)
    uh, v = _dagger(u), _dagger(vh)
    d = ct.matmul(ct.matmul(uh, t), v)
    ds = ew.real(la.diagonal(d))
    if not compute_uv:
        return [s], [ds]
    shape = (*batch, k, k)
    rank = len(shape)
    columns = st.broadcast_in_dim(s, shape, (*range(rank - 2), rank - 1))
    rows = st.broadcast_in_dim(s, shape, tuple(range(rank - 1)))
    identity = st.broadcast_to(la.eye(k, k, aval_of(s).dtype), shape)
    gaps = ew.mul(ew.add(columns, rows), ew.sub(columns, rows))
    factors = ew.convert_element_type(ew.sub(ew.div(_scalar(1, s), ew.add(gaps, identity)), identity), aval_of(a).dtype)
    left, right = la.scale_columns(d, s), la.scale_rows(d, s)
    du = ct.matmul(u, ew.mul(factors, ew.add(left, _dagger(left))))
    dv = ct.matmul(v, ew.mul(factors, ew.add(right, _dagger(right))))
    if dtypes.is_complex(aval_of(a).dtype):  # the phases: all of the imaginary part of the diagonal goes to u
        is_zero_s = ew.convert_element_type(ew.eq(s, _scalar(0, s)), aval_of(s).dtype)
        inverse = ew.sub(ew.div(_scalar(1, s), ew.add(s, is_zero_s)), is_zero_s)
        phase = ew.mul(ew.sub(d, _dagger(d)), _scalar(0.5, d))
        phase = la.scale_columns(ew.mul(phase, ew.convert_element_type(identity, aval_of(d).dtype)), inverse)
        du = ew.add(du, ct.matmul(u, phase))
    if m > n:
        tv = ct.matmul(t, v)
        du = ew.add(du, _divide_columns(ew.sub(tv, ct.matmul(u, ct.matmul(uh, tv))), s))
    if n > m:
        tu = ct.matmul(_dagger(t), u)
        dv = ew.add(dv, _divide_columns(ew.sub(tu, ct.matmul(v, ct.matmul(vh, tu))), s))
    return [s, u, vh], [ds, du, _dagger(dv)]


def _divide_columns(x: Value, s: Value) -> Value:
    return la.scale_columns(x, ew.div(_scalar(1, s), s))

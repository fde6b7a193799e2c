"""Equations and determinants: solve, inv, det, pinv, lstsq and their kin.

Solutions are differentiated through the equation that they satisfy, determinants through the adjugate matrix: a
decomposition is computed once and serves the value and the first derivative. (It is not hidden from differentiation:
second derivatives are right, through the derivative of the decomposition.)
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.lax import linalg as ll
from quire.lax import stop_gradient
from quire.passes.ad.linalg import permute_rows
from quire.transforms.custom_derivatives import custom_jvp

from ...arrays.operands import (
    Value,
    arrays,
    as_axis,
    broadcast_shapes,
    broadcast_to,
    dagger,
    epsilon,
    identity_like,
    matrices,
    plain,
)


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Value
    logabsdet: Value


# -- equations ----------------------------------------------------------------------------------------------------------------


def substitute(lu: Value, permutation: Value, b: Value) -> Value:
    """The solution for matrices b of an LU-decomposed system, which may have fewer leading dimensions."""
    *batch, n, _ = b.aval.shape
    lu, permutation = broadcast_to(lu, (*batch, n, n)), broadcast_to(permutation, (*batch, n))
    x = la.triangular_solve(lu, permute_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    return la.triangular_solve(lu, x, left_side=True, lower=False)


@custom_jvp
def _solution(a: Value, b: Value) -> Value:
    lu, _, permutation = la.lu(a)
    return substitute(lu, permutation, b)


@_solution.defjvp
def _solution_jvp(primals: Any, tangents: Any) -> Any:
    """dx = a^-1 (db - da x)."""
    (a, b), (da, db) = primals, tangents
    lu, _, permutation = la.lu(a)
    x = substitute(lu, permutation, b)
    return x, substitute(lu, permutation, db - qnp.matmul(da, x))


def solve_matrices(a: Value, b: Value) -> Value:
    """The solution of ``a @ x == b`` for matrices b; leading dimensions are broadcast."""
    batch = broadcast_shapes("linalg.solve", a.aval.shape[:-2], b.aval.shape[:-2])
    n, k = b.aval.shape[-2:]
    if a.aval.ndim == 2 and b.aval.ndim > 2:  # one matrix, many right-hand sides: as columns
        columns = st.reshape(qnp.moveaxis(b, -2, 0), (n, math.prod(batch) * k))
        return qnp.moveaxis(st.reshape(_solution(a, columns), (n, *batch, k)), 0, -2)
    return _solution(a, broadcast_to(b, (*batch, n, k)))


def solve(a: Any, b: Any) -> Value:
    """The solution x of ``a @ x == b``.

    Args:
        a: (..., n, n).
        b: a vector (n,), or matrices (..., n, k); leading dimensions are broadcast.

    Returns (..., n) for a vector b, otherwise (..., n, k); infinities or NaN where a is singular.
    Raises ValueError where the shapes do not fit.

    Follows `numpy.linalg.solve`, which raises for singular matrices.

    >>> quire.numpy.linalg.solve(quire.numpy.array([[2., 0.], [0., 4.]]), quire.numpy.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    x, y = matrices("solve", a, b, square=True)
    vector = y.aval.ndim == 1
    if y.aval.ndim == 0 or y.aval.shape[-1 if vector else -2] != x.aval.shape[-1]:
        raise ValueError(
            f"quire.numpy.linalg.solve: a {x.aval.short()} is of size {x.aval.shape[-1]}, b {y.aval.short()} must be "
            "a vector of that size or matrices with that many rows"
        )
    if vector:
        y = st.expand_dims(y, (1,))
    out = solve_matrices(x, y)
    return st.reshape(out, out.aval.shape[:-1]) if vector else out


def inv(a: Any) -> Value:
    """The inverse of square matrices (..., n, n); infinities or NaN where they are singular.

    Follows `numpy.linalg.inv`, which raises for singular matrices.

    >>> quire.numpy.linalg.inv(quire.numpy.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    (x,) = matrices("inv", a, square=True)
    return solve_matrices(x, identity_like(x))


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Value:
    """The solution of ``tensordot(a, x, x.ndim) == b``.

    Args:
        a: an array whose first dimensions are b's and whose others, the solution's, have as many elements.
        b: an array.
        axes: dimensions of a to move to the end first.

    Raises:
        ValueError: the first b.ndim dimensions of a, or the others, have not as many elements as b.

    Follows `numpy.linalg.tensorsolve`.

    >>> a = quire.numpy.eye(4).reshape(2, 2, 4)
    >>> quire.numpy.linalg.tensorsolve(a, quire.numpy.ones((2, 2)))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    x, y = arrays("tensorsolve", a, b)
    if axes is not None:
        moved = [as_axis("linalg.tensorsolve", i, x.aval.ndim, "axes") for i in axes]
        x = st.transpose(x, [*(i for i in range(x.aval.ndim) if i not in moved), *moved])
    shape = x.aval.shape[y.aval.ndim :]
    n = math.prod(shape)
    if x.aval.size != n * y.aval.size or n != y.aval.size:
        raise ValueError(
            f"quire.numpy.linalg.tensorsolve: a {x.aval.short()} must have b's dimensions {y.aval.short()} first and as "
            f"many elements in the others, prod({shape}) == {y.aval.size}"
        )
    return st.reshape(solve(st.reshape(x, (n, n)), st.reshape(y, (n,))), shape)


def tensorinv(a: Any, ind: int = 2) -> Value:
    """The inverse of ``tensordot(a, ., ind)``: the first `ind` dimensions count as rows, the others as columns.

    Raises ValueError where rows and columns are not as many. Follows `numpy.linalg.tensorinv`.

    >>> quire.numpy.linalg.tensorinv(quire.numpy.eye(4).reshape(4, 2, 2), ind=1).shape
    (2, 2, 4)
    """
    (x,) = arrays("tensorinv", a)
    if operator.index(ind) <= 0:
        raise ValueError(f"quire.numpy.linalg.tensorinv: ind must be positive, got {ind}")
    rows, columns = x.aval.shape[:ind], x.aval.shape[ind:]
    n = math.prod(rows)
    if n != math.prod(columns):
        raise ValueError(
            f"quire.numpy.linalg.tensorinv: the first {ind} dimensions of {x.aval.short()} must have as many elements as the "
            f"others, got {n} and {math.prod(columns)}"
        )
    return st.reshape(inv(st.reshape(x, (n, n))), (*columns, *rows))


def matrix_power(a: Any, n: int) -> Value:
    """The n-th power of square matrices (..., k, k): by repeated squaring; of the inverse for negative n.

    Raises TypeError unless n is an integer, ValueError unless the matrices are square.

    Follows `numpy.linalg.matrix_power`.

    >>> quire.numpy.linalg.matrix_power(quire.numpy.array([[1., 1.], [0., 1.]]), 3)
    Array([[1., 3.],
           [0., 1.]], dtype=float32)
    """
    try:
        exponent = operator.index(n)
    except TypeError:
        raise TypeError(f"quire.numpy.linalg.matrix_power: n must be an integer, got {n!r}") from None
    (x,) = plain("matrix_power", a)
    if x.aval.ndim < 2 or x.aval.shape[-1] != x.aval.shape[-2]:
        raise ValueError(
            "quire.numpy.linalg.matrix_power: the argument must hold square matrices, shape (..., n, n), "
            f"got {x.aval.short()}"
        )
    if exponent < 0:
        x, exponent = inv(x), -exponent
    if exponent == 0:
        return identity_like(x)
    result: Value | None = None
    while True:
        if exponent & 1:
            result = x if result is None else qnp.matmul(result, x)
        exponent >>= 1
        if not exponent:
            return result
        x = qnp.matmul(x, x)


# -- determinants ---------------------------------------------------------------------------------------------------------------


def _parity(pivots: Value, dtype: Any) -> Value:
    """The sign of the permutation that exchanges row i with row pivots[i], one after the other."""
    shape = pivots.aval.shape
    moved = ew.ne(pivots, st.broadcasted_iota(dtypes.int32, shape, len(shape) - 1))
    count = rd.reduce_sum(ew.convert_element_type(moved, dtypes.int32), (len(shape) - 1,))
    odd = ew.bitwise_and(count, 1)
    return 1 - 2 * ew.convert_element_type(odd, dtype)


def _determinant_by_formula(x: Value) -> Value:
    """Of 2x2 and 3x3 matrices: a polynomial, so that derivatives exist for singular ones too."""

    def at(i: int, j: int) -> Value:
        return x[..., i, j]

    if x.aval.shape[-1] == 2:
        return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)
    minors = [at(1, j) * at(2, k) - at(1, k) * at(2, j) for j, k in ((1, 2), (0, 2), (0, 1))]
    return at(0, 0) * minors[0] - at(0, 1) * minors[1] + at(0, 2) * minors[2]


def _product_of_pivots(lu: Value, pivots: Value) -> Value:
    return _parity(pivots, lu.aval.dtype) * qnp.prod(la.diagonal(lu), axis=-1)


@custom_jvp
def _determinant(a: Value) -> Value:
    lu, pivots, _ = la.lu(a)
    return _product_of_pivots(lu, pivots)


@_determinant.defjvp
def _determinant_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula, d det(a) = tr(adj(a) da).

    a = P^T L U with a pivot u_kk = 0: adj(U) = prod_(i != k) u_ii v w^T, with U' = U + e_k e_k^T, v = U'^-1 e_k and
    w^T = e_k^T U'^-1 (from the inverse of a matrix changed by rank one, in the limit). With two zeros it is taken as 0.
    """
    (a,), (da,) = primals, tangents
    lu, pivots, permutation = la.lu(a)
    pivot = la.diagonal(lu)
    zero = ew.eq(pivot, st.full(pivot.aval.shape, 0, pivot.aval.dtype))
    ones = ew.convert_element_type(zero, lu.aval.dtype)
    n = lu.aval.shape[-1]
    changed = lu + la.scale_rows(broadcast_to(la.eye(n, n, lu.aval.dtype), lu.aval.shape), ones)
    others = _product_of_pivots(changed, pivots)
    x = substitute(changed, permutation, da)  # U'^-1 L^-1 P da
    trace = rd.reduce_sum(la.diagonal(x), (a.aval.ndim - 2,))
    v = la.triangular_solve(changed, ones[..., None], left_side=True, lower=False)[..., 0]
    of_row = qnp.sum(x * ones[..., :, None], axis=-2)  # e_k^T U'^-1 L^-1 P da
    count = rd.reduce_sum(ew.convert_element_type(zero, dtypes.int32), (a.aval.ndim - 2,))
    singular = qnp.where(count == 1, qnp.sum(of_row * v, axis=-1), 0)
    return _determinant(a), others * qnp.where(count == 0, trace, singular)


def det(a: Any) -> Value:
    """The determinant of square matrices (..., n, n).

    Its derivative, the adjugate matrix, is right for singular matrices too (of rank n - 1).

    Follows `numpy.linalg.det`.

    >>> quire.numpy.linalg.det(quire.numpy.array([[1., 2.], [3., 4.]])).item()
    -2.0
    """
    (x,) = matrices("det", a, square=True, half=_is_small)
    small = _is_small(x.aval) and not dtypes.is_complex(x.aval.dtype)
    return _determinant_by_formula(x) if small else _determinant(x)


def _is_small(matrix: ShapedArray) -> bool:
    return matrix.shape[-1] in (2, 3)


def _sign_and_logarithm(lu: Value, pivots: Value) -> tuple[Value, Value]:
    pivot = la.diagonal(lu)
    size = ew.abs_p.bind(pivot)
    sign = qnp.where(size == 0, 0, pivot / qnp.where(size == 0, 1, size).astype(pivot.aval.dtype))
    return _parity(pivots, lu.aval.dtype) * qnp.prod(sign, axis=-1), qnp.sum(qnp.log(size), axis=-1)


@custom_jvp
def _slogdet_lu(a: Value) -> tuple[Value, Value]:
    lu, pivots, _ = la.lu(a)
    return _sign_and_logarithm(lu, pivots)


@_slogdet_lu.defjvp
def _slogdet_lu_jvp(primals: Any, tangents: Any) -> Any:
    """t = tr(a^-1 da): d logabsdet = Re t, d sign = sign i Im t."""
    (a,), (da,) = primals, tangents
    lu, pivots, permutation = la.lu(a)
    sign, size = _sign_and_logarithm(lu, pivots)
    t = rd.reduce_sum(la.diagonal(substitute(lu, permutation, da)), (a.aval.ndim - 2,))
    if not dtypes.is_complex(a.aval.dtype):
        return (sign, size), (qnp.zeros_like(sign), t)
    turn = ew.complex_p.bind(qnp.zeros_like(size), ew.imag_p.bind(t))
    return (sign, size), (sign * turn, ew.real_p.bind(t))


def _slogdet_qr(x: Value) -> tuple[Value, Value]:
    """By QR decomposition: the determinant of q is that of its reflections, ``1 - tau |v|^2`` each."""
    r, taus = la.geqrf(x)
    n = x.aval.shape[-1]
    v = la.tril(r, -1) + la.eye(n, n, x.aval.dtype)
    norms = qnp.sum(v * qnp.conj(v), axis=-2)
    d = la.diagonal(r)
    size = ew.abs_p.bind(d)
    phase = qnp.where(size == 0, 0, d / qnp.where(size == 0, 1, size).astype(d.aval.dtype))
    return qnp.prod((1 - taus * norms) * phase, axis=-1), qnp.sum(qnp.log(size), axis=-1)


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """The determinant of square matrices (..., n, n) as its sign and the logarithm of its magnitude.

    Args:
        method: the decomposition to use: "lu" (the default) or "qr", which has no derivative.

    Returns SlogdetResult(sign, logabsdet): sign is 1 or -1 (a complex number of magnitude 1), 0 for singular matrices,
    whose logabsdet is -inf.

    Raises:
        ValueError: the matrices are not square, or method is neither "lu" nor "qr".

    Follows `numpy.linalg.slogdet`.

    >>> quire.numpy.linalg.slogdet(quire.numpy.array([[0., 1.], [1., 0.]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    (x,) = matrices("slogdet", a, square=True)
    if method not in (None, "lu", "qr"):
        raise ValueError(f"quire.numpy.linalg.slogdet: method must be 'lu' or 'qr', got {method!r}")
    if method == "qr":
        return SlogdetResult(*_slogdet_qr(x))
    return SlogdetResult(*_slogdet_lu(x))


# -- least squares --------------------------------------------------------------------------------------------------------------


@custom_jvp
def _pinv(a: Value, cutoff: Value) -> Value:
    u, s, vh = ll.svd(a, full_matrices=False)
    limit = cutoff[..., None] * qnp.max(s, axis=-1, keepdims=True, initial=0)
    large = s > limit
    inverse = qnp.where(large, 1 / qnp.where(large, s, 1), 0)
    return qnp.matmul(la.scale_columns(dagger(vh), inverse), dagger(u))


@_pinv.defjvp
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    """Golub and Pereyra (1973): dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P."""
    (a, cutoff), (da, _) = primals, tangents
    p = _pinv(a, cutoff)
    mm = qnp.matmul
    ph, dah = dagger(p), dagger(da)
    # Products of the smaller of m and n alone: the other may be hundreds of thousands.
    if a.aval.shape[-2] >= a.aval.shape[-1]:
        t, s = mm(mm(p, ph), dah), mm(mm(dah, ph), p)
        return p, -mm(mm(p, da), p) + (t - mm(mm(t, a), p)) + (s - mm(mm(p, a), s))
    t, s = mm(p, mm(ph, dah)), mm(dah, mm(ph, p))
    return p, -mm(p, mm(da, p)) + (t - mm(t, mm(a, p))) + (s - mm(p, mm(a, s)))


def _cutoff(name: str, x: Value, rtol: Any, rcond: Any, default: float) -> Value:
    """The part of the largest singular value below which others count as 0."""
    if rtol is not None and rcond is not None:
        raise ValueError(f"quire.numpy.linalg.{name}: give rtol or rcond, not both")
    given = rcond if rtol is None else rtol
    real = dtypes.real_dtype(x.aval.dtype)
    value = qnp.asarray(default * epsilon(x) if given is None else given).astype(real)
    return qnp.broadcast_to(value, x.aval.shape[:-2])


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Value:
    """The pseudo-inverse of matrices (..., m, n): (..., n, m).

    Args:
        rtol: singular values below rtol times the largest count as 0; 10 max(m, n) epsilon by default. It may have
            the leading dimensions of a.
        hermitian: a is Hermitian, so that its eigenvalues give the result.
        rcond: an older name of rtol.

    Follows `numpy.linalg.pinv`.

    >>> quire.numpy.linalg.pinv(quire.numpy.array([[2., 0.], [0., 0.]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    (x,) = matrices("pinv", a, square=hermitian)
    m, n = x.aval.shape[-2:]
    cutoff = _cutoff("pinv", x, rtol, rcond, 10.0 * max(m, n))
    if not x.aval.size:
        return st.full((*x.aval.shape[:-2], n, m), 0, x.aval.dtype)
    if hermitian:  # the result depends on the Hermitian part alone
        x = ll.symmetrize(x)
    return _pinv(x, stop_gradient(cutoff))


def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Value, Value, Value, Value]:
    """The least-squares solution of ``a @ x == b``, the shortest one, by singular value decomposition.

    Args:
        a: (m, n).
        b: (m,) or (m, k).
        rcond: singular values below rcond times the largest count as 0; max(m, n) epsilon by default.
        numpy_resid: give no residuals where a's rank is below n or m <= n, as NumPy does; not inside `compile`.

    Returns x (n,) or (n, k); the sums of squared residuals (k,); the rank, of the default integer dtype; the singular values.

    Raises:
        ValueError: a is not 2-dimensional, b is neither 1- nor 2-dimensional, or they differ in m.

    Follows `numpy.linalg.lstsq`.

    >>> x, _, rank, _ = quire.numpy.linalg.lstsq(quire.numpy.array([[1.], [1.]]), quire.numpy.array([1., 3.]))
    >>> round(x[0].item(), 4), rank.item()
    (2.0, 1)
    """
    x, y = matrices("lstsq", a, b)
    vector = y.aval.ndim == 1
    if x.aval.ndim != 2 or y.aval.ndim not in (1, 2) or y.aval.shape[0] != x.aval.shape[0]:
        raise ValueError(
            f"quire.numpy.linalg.lstsq: a must be (m, n) and b (m,) or (m, k), got {x.aval.short()} and {y.aval.short()}"
        )
    m, n = x.aval.shape
    if vector:
        y = st.expand_dims(y, (1,))
    u, s, vh = ll.svd(x, full_matrices=False)
    cutoff = epsilon(x) * max(m, n) if rcond is None else (epsilon(x) if rcond < 0 else rcond)
    large = s > s.dtype.type(cutoff) * qnp.max(s, initial=0)
    rank = qnp.sum(large)
    inverse = qnp.where(large, 1 / qnp.where(large, s, 1), 0)
    coefficients = la.scale_rows(qnp.matmul(dagger(u), y), inverse)
    out = qnp.matmul(dagger(vh), coefficients)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = st.full((0,), 0, s.aval.dtype)
    else:
        rest = ew.abs_p.bind(y - qnp.matmul(x, out))
        residuals = qnp.sum(rest * rest, axis=0)
    return (st.reshape(out, (n,)) if vector else out), residuals, rank, s

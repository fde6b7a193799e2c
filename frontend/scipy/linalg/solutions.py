"""Solutions of equations under SciPy's names, and determinants and inverses.

Arguments `overwrite_*`, `check_finite` and `debug` are accepted and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st
from quire.lax import fori_loop
from quire.lax import linalg as ll
from quire.numpy import linalg as nl
from quire.numpy.linalg.solutions import solve_matrices
from quire.passes.ad.linalg import permute_rows
from quire.transforms.custom_derivatives import custom_jvp

from ...arrays.operands import SCIPY, Value, dagger, matrices, usual_promotion
from .decompositions import _choice


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The determinant of matrices (..., n, n); `quire.numpy.linalg.det`. Follows `scipy.linalg.det`.

    >>> quire.scipy.linalg.det(quire.numpy.array([[1., 2.], [3., 4.]])).item()
    -2.0
    """
    return nl.det(*matrices("det", a, square=True, half=lambda m: m.shape[-1] in (2, 3), module=SCIPY))


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The inverse of matrices (..., n, n); `quire.numpy.linalg.inv`. Follows `scipy.linalg.inv`.

    >>> quire.scipy.linalg.inv(quire.numpy.array([[4.]]))
    Array([[0.25]], dtype=float32)
    """
    return nl.inv(*matrices("inv", a, square=True, module=SCIPY))


def _columns(name: str, a: Value, b: Value, solve: Callable[[Value, Value], Value], what: str = "a") -> Value:
    """Solve for b: vectors (b has one dimension less than a) or matrices; leading dimensions are broadcast."""
    # A vector broadcasts; several vectors are told from matrices by their leading dimensions.
    vector = b.aval.ndim == 1 or (b.aval.ndim == a.aval.ndim - 1 and b.aval.shape == a.aval.shape[:-1])
    y = st.expand_dims(b, (b.aval.ndim,)) if vector else b
    if y.aval.ndim < 2 or y.aval.shape[-2] != a.aval.shape[-1]:
        raise ValueError(
            f"{SCIPY}.{name}: {what} {a.aval.short()} and b {b.aval.short()} do not fit: b must be (..., n) with one "
            "dimension less, or (..., n, k)"
        )
    try:
        batch = qnp.broadcast_shapes(a.aval.shape[:-2], y.aval.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{SCIPY}.{name}: the leading dimensions of {what} {a.aval.short()} and b {b.aval.short()} do not fit"
        ) from None
    a = qnp.broadcast_to(a, (*batch, *a.aval.shape[-2:]))
    out = solve(a, qnp.broadcast_to(y, (*batch, *y.aval.shape[-2:])))
    return out[..., 0] if vector else out


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    """The solution of ``a @ x == b`` from a's Cholesky factor, (c, lower) of `cho_factor`.

    Args:
        b: (..., n, k), or (..., n) with one dimension less than c.

    Follows `scipy.linalg.cho_solve`.

    >>> quire.scipy.linalg.cho_solve((quire.numpy.array([[2.]]), False), quire.numpy.array([8.]))
    Array([2.], dtype=float32)
    """
    c, lower = c_and_lower
    x, y = matrices("cho_solve", c, b, square=True, module=SCIPY)

    def solve(c: Value, b: Value) -> Value:
        h = {"transpose_a": True, "conjugate_a": True}
        b = la.triangular_solve(c, b, left_side=True, lower=lower, **({} if lower else h))
        return la.triangular_solve(c, b, left_side=True, lower=lower, **(h if lower else {}))

    return _columns("cho_solve", x, y, solve, "c")


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Value:
    """The solution of ``a @ x == b`` from a's LU decomposition, that of `lu_factor`.

    Args:
        b: (..., n, k), or (..., n) with one dimension less than a.
        trans: 0; 1: with a transposed; 2: transposed and conjugated.

    Follows `scipy.linalg.lu_solve`.

    >>> quire.scipy.linalg.lu_solve(quire.scipy.linalg.lu_factor(quire.numpy.array([[2.]])), quire.numpy.array([8.]))
    Array([4.], dtype=float32)
    """
    _choice("lu_solve", "trans", trans, (0, 1, 2))
    lu, pivots = lu_and_piv
    x, y = matrices("lu_solve", lu, b, square=True, module=SCIPY)
    permutation = la.lu_pivots_to_permutation(qnp.asarray(pivots), x.aval.shape[-1])

    def solve(a: Value, b: Value) -> Value:
        order = qnp.broadcast_to(permutation, a.aval.shape[:-1])
        if trans == 0:
            b = la.triangular_solve(a, permute_rows(b, order), left_side=True, lower=True, unit_diagonal=True)
            return la.triangular_solve(a, b, left_side=True, lower=False)
        how = {"left_side": True, "transpose_a": True, "conjugate_a": trans == 2}
        b = la.triangular_solve(a, b, lower=False, **how)
        b = la.triangular_solve(a, b, lower=True, unit_diagonal=True, **how)
        return permute_rows(b, qnp.argsort(order, axis=-1).astype(dtypes.int32))

    return _columns("lu_solve", x, y, solve, "lu")


def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, debug: bool = False,
    check_finite: bool = True, assume_a: str = "gen",
) -> Value:  # fmt: skip
    """The solution of ``a @ x == b``.

    Args:
        a: (..., n, n).
        b: a vector (n,) or matrices (..., n, k).
        assume_a: "gen"; "pos": a is Hermitian positive definite, so that a Cholesky decomposition of one triangle
            serves; "sym" and "her": as "gen".
        lower: which triangle is read with "pos".

    Follows `scipy.linalg.solve`.

    >>> quire.scipy.linalg.solve(quire.numpy.array([[4.]]), quire.numpy.array([8.]), assume_a="pos")
    Array([2.], dtype=float32)
    """
    _choice("solve", "assume_a", assume_a, ("gen", "sym", "her", "pos"))
    x, y = matrices("solve", a, b, square=True, module=SCIPY)
    if assume_a != "pos":
        return nl.solve(x, y)
    vector = y.aval.ndim == 1
    factor = la.cholesky(x if lower else dagger(x))
    out = cho_solve((factor, True), y[:, None] if vector else y)
    return out[..., 0] if vector else out


_TRANSPOSED = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    debug: Any = None, check_finite: bool = True,
) -> Value:  # fmt: skip
    """The solution of ``op(a) @ x == b`` for triangular a.

    Args:
        a: (..., n, n), of which one triangle is read.
        b: (..., n, k), or (..., n) with one dimension less than a.
        trans: 0 or "N": op does nothing; 1 or "T": it transposes; 2 or "C": it transposes and conjugates.
        lower: which triangle.
        unit_diagonal: the diagonal is taken as ones and not read.

    Follows `scipy.linalg.solve_triangular`.

    >>> a = quire.numpy.array([[2., 0.], [1., 1.]])
    >>> quire.scipy.linalg.solve_triangular(a, quire.numpy.array([2., 3.]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    how = _TRANSPOSED[_choice("solve_triangular", "trans", trans, tuple(_TRANSPOSED))]
    x, y = matrices("solve_triangular", a, b, square=True, half=lambda _: True, module=SCIPY)

    def solve(a: Value, b: Value) -> Value:
        return ll.triangular_solve(
            a, b, left_side=True, lower=lower, transpose_a=how > 0, conjugate_a=how == 2, unit_diagonal=unit_diagonal
        )

    return _columns("solve_triangular", x, y, solve)


@usual_promotion
def sylvester_triangular(r: Value, s: Value, f: Value) -> Value:
    """The solution of ``r @ y + y @ s == f`` for upper triangular r (..., m, m) and s (..., n, n), column by column."""
    m, n = f.aval.shape[-2:]
    identity = la.eye(m, m, f.aval.dtype)
    diagonal = la.diagonal(s)

    def column(j: Any, y: Value) -> Value:
        chosen = (qnp.arange(n) == j).astype(f.aval.dtype)
        shift = qnp.sum(diagonal * chosen, axis=-1)[..., None, None]
        # The columns of y from j on are zero yet.
        rhs = qnp.matmul(f, chosen[:, None]) - qnp.matmul(y, qnp.matmul(s, chosen[:, None]))
        solved = la.triangular_solve(r + shift * identity, rhs, left_side=True, lower=False)
        return y + solved * chosen

    return fori_loop(0, n, column, qnp.zeros_like(f)) if f.aval.size else f


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Value:
    """The solution of ``A @ X + X @ B == C``.

    Args:
        A, B, C: (..., m, m), (..., n, n), (..., m, n).
        method: "schur": by the Schur decompositions of A and B; "eigen": by their eigenvectors.
        tol: with "eigen", NaN where eigenvalues of A and -B differ by less, and no unique solution exists.

    With "schur" it has first derivatives with respect to all three. Follows `scipy.linalg.solve_sylvester`.

    Raises:
        ValueError: A or B is not square, C has not the shape (..., m, n), or `method` is none of these.

    >>> one = quire.numpy.ones((1, 1))
    >>> quire.scipy.linalg.solve_sylvester(one, one, 4 * one)
    Array([[2.]], dtype=float32)
    """
    _choice("solve_sylvester", "method", method, ("schur", "eigen"))
    a, b, c = matrices("solve_sylvester", A, B, C, square=True, module=SCIPY)
    m, n = a.aval.shape[-1], b.aval.shape[-1]
    if b.aval.ndim < 2 or b.aval.shape[-2] != n or c.aval.shape[-2:] != (m, n):
        raise ValueError(
            f"{SCIPY}.solve_sylvester: A must be (..., m, m), B (..., n, n) and C (..., m, n), got {a.aval.short()}, "
            f"{b.aval.short()} and {c.aval.short()}"
        )
    return sylvester(a, b, c) if method == "schur" else _sylvester_by_eigenvectors(a, b, c, tol)


@custom_jvp
def sylvester(a: Value, b: Value, c: Value) -> Value:
    """The solution of ``a @ x + x @ b == c`` by Schur decompositions."""
    return _sylvester_by_schur(a, b, c)


@sylvester.defjvp
def _sylvester_jvp(primals: Any, tangents: Any) -> Any:
    """The tangent solves the equation with the right-hand side dc - da x - x db."""
    (a, b, c), (da, db, dc) = primals, tangents
    x = sylvester(a, b, c)
    return x, sylvester(a, b, dc - qnp.matmul(da, x) - qnp.matmul(x, db))


def _sylvester_by_schur(a: Value, b: Value, c: Value) -> Value:
    wide = dtypes.complex_dtype(c.aval.dtype)
    r, u = la.schur(a.astype(wide))
    s, v = la.schur(b.astype(wide))
    f = qnp.matmul(qnp.matmul(dagger(u), c.astype(wide)), v)
    out = qnp.matmul(qnp.matmul(u, sylvester_triangular(r, s, f)), dagger(v))
    return out if dtypes.is_complex(c.aval.dtype) else qnp.real(out)


def _sylvester_by_eigenvectors(a: Value, b: Value, c: Value, tol: float) -> Value:
    wide = dtypes.complex_dtype(c.aval.dtype)
    wa, va = nl.eig(a)
    wb, vb = nl.eig(b)
    sums = wa[..., :, None] + wb[..., None, :]
    f = qnp.matmul(solve_matrices(va, c.astype(wide)), vb)
    y = qnp.where(qnp.abs(sums) < tol, qnp.nan, f / sums)
    out = qnp.matmul(va, dagger(solve_matrices(dagger(vb), dagger(y))))
    return out if dtypes.is_complex(c.aval.dtype) else qnp.real(out)

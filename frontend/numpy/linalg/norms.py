"""Norms, and what is measured by singular values: condition numbers, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.lax import linalg as ll

from ...arrays.operands import Value, arrays, as_axes, as_axis, epsilon, matrices
from .solutions import inv


def _squares(x: Value) -> Value:
    """Squared magnitudes."""
    if dtypes.is_complex(x.aval.dtype):
        re, im = ew.real_p.bind(x), ew.imag_p.bind(x)
        return re * re + im * im
    return x * x


def _vector_norm(name: str, x: Value, order: Any, axes: tuple[int, ...], keepdims: bool) -> Value:
    if order is None or order == 2:
        return qnp.sqrt(qnp.sum(_squares(x), axis=axes, keepdims=keepdims))
    if isinstance(order, str):
        raise ValueError(f"quire.numpy.linalg.{name}: order {order!r} is of matrices; a vector's must be a number")
    if order == np.inf:
        return qnp.max(ew.abs_p.bind(x), axis=axes, keepdims=keepdims, initial=0)
    size = ew.abs_p.bind(x)
    if order == -np.inf:
        return qnp.min(size, axis=axes, keepdims=keepdims)
    if order == 0:
        return qnp.sum(x != 0, axis=axes, keepdims=keepdims, dtype=dtypes.real_dtype(x.aval.dtype))
    if order == 1:
        return qnp.sum(size, axis=axes, keepdims=keepdims)
    power = qnp.asarray(order, size.aval.dtype)
    return qnp.power(qnp.sum(qnp.power(size, power), axis=axes, keepdims=keepdims), 1 / power)


def _matrix_norm(name: str, x: Value, order: Any, axes: tuple[int, ...], keepdims: bool) -> Value:
    row, column = axes
    if order in (None, "f", "fro"):
        return qnp.sqrt(qnp.sum(_squares(x), axis=axes, keepdims=keepdims))
    if order in (1, -1, np.inf, -np.inf):
        first, second = (row, column) if abs(order) == 1 else (column, row)
        sums = qnp.sum(ew.abs_p.bind(x), axis=first, keepdims=True)
        out = (
            qnp.max(sums, axis=second, keepdims=True, initial=0) if order > 0
            else qnp.min(sums, axis=second, keepdims=True)
        )  # fmt: skip
        return out if keepdims else qnp.squeeze(out, (row, column))
    if order not in (2, -2, "nuc"):
        raise ValueError(
            f"quire.numpy.linalg.{name}: {order!r} is not a norm of matrices: give None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    s = ll.svd(matrices(name, qnp.moveaxis(x, axes, (-2, -1)))[0], compute_uv=False)
    if order == "nuc":
        out = qnp.sum(s, axis=-1)
    else:
        out = qnp.max(s, axis=-1, initial=0) if order == 2 else qnp.min(s, axis=-1)
    return qnp.expand_dims(out, axes) if keepdims else out


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    """The norm of vectors or matrices.

    Args:
        x: an array.
        ord: for vectors a number p (the p-norm), inf, -inf, or 0 (how many are not 0); for matrices "fro", "nuc" (the
            sum of singular values), 1, -1 (sums of columns), inf, -inf (sums of rows), 2, -2 (singular values). None:
            the square root of the sum of squares.
        axis: an axis: norms of vectors; two axes: of matrices; None: of all of x, flattened if ord is None.
        keepdims: whether the reduced dimensions stay, with size 1.

    The derivative at 0 of a norm that has none there (ord 2) is NaN, as that of its formula.

    Raises:
        ValueError: axis names neither one axis nor two different ones; x has not 1 or 2 dimensions where ord is given
            and axis is not; or ord is none of that kind of norm.

    Follows `numpy.linalg.norm`.

    >>> quire.numpy.linalg.norm(quire.numpy.array([3., 4.])).item()
    5.0
    """
    (v,) = arrays("norm", x)
    n = v.aval.ndim
    if axis is None:
        if ord is None:
            return _vector_norm("norm", v, None, tuple(range(n)), keepdims)
        axes = tuple(range(n))
    elif isinstance(axis, Sequence | np.ndarray):
        axes = tuple([as_axis("linalg.norm", a, n) for a in axis])
    else:
        axes = (as_axis("linalg.norm", axis, n),)
    if len(axes) == 1:
        return _vector_norm("norm", v, ord, axes, keepdims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(
            f"quire.numpy.linalg.norm: axis {axes} of {v.aval.short()}: give one axis for norms of vectors, or two for "
            "norms of matrices"
        )
    return _matrix_norm("norm", v, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Value:
    """The norms of matrices (..., m, n); `ord` as in `norm`. Follows `numpy.linalg.matrix_norm`.

    Raises ValueError for an x of fewer than 2 dimensions, or another order.

    >>> quire.numpy.linalg.matrix_norm(quire.numpy.array([[3., 0.], [0., 4.]])).item()
    5.0
    """
    (v,) = arrays("matrix_norm", x)
    n = v.aval.ndim
    if n < 2:
        raise ValueError(f"quire.numpy.linalg.matrix_norm: x must have at least 2 dimensions, got {v.aval.short()}")
    return _matrix_norm("matrix_norm", v, ord, (n - 2, n - 1), keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Value:
    """The norms of vectors along an axis, several, or all (None); `ord` as in `norm`.

    Follows `numpy.linalg.vector_norm`.

    >>> quire.numpy.linalg.vector_norm(quire.numpy.array([3., 4.]), ord=1).item()
    7.0
    """
    (v,) = arrays("vector_norm", x)
    return _vector_norm("vector_norm", v, ord, as_axes("linalg.vector_norm", axis, v.aval.ndim), keepdims)


def cond(x: Any, p: Any = None) -> Value:
    """The condition number of matrices (..., m, n).

    Args:
        p: the norm it is of: None or 2, -2 (the ratio of the outer singular values); or another order of `norm`, for
            square matrices.

    Returns infinity for singular matrices. Follows `numpy.linalg.cond`.

    Raises ValueError for an x of fewer than 2 dimensions or of matrices without elements, and for one that is not square where p
    is an order other than None, 2 and -2.

    >>> quire.numpy.linalg.cond(quire.numpy.array([[4., 0.], [0., 2.]])).item()
    2.0
    """
    (v,) = matrices("cond", x, square=p not in (None, 2, -2))
    if 0 in v.aval.shape[-2:]:
        raise ValueError(
            f"quire.numpy.linalg.cond: {v.aval.short()} has no elements in its matrices: of these there is no condition"
        )
    if p in (None, 2, -2):
        s = ll.svd(v, compute_uv=False)
        out = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        out = norm(v, p, axis=(-2, -1)) * norm(inv(v), p, axis=(-2, -1))
    bad = qnp.logical_and(qnp.isnan(out), ~qnp.any(qnp.isnan(v), axis=(-2, -1)))
    return qnp.where(bad, np.inf, out)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Value:
    """The rank of matrices (..., m, n), of the default integer dtype: how many singular values exceed rtol times the largest.

    Args:
        rtol: max(m, n) epsilon by default; it may have the leading dimensions of M.
        hermitian: M is Hermitian, so that its eigenvalues give the singular values.
        tol: an absolute threshold, instead of rtol.

    Raises:
        ValueError: both rtol and tol are given, or hermitian and M is not square.

    Follows `numpy.linalg.matrix_rank`.

    >>> quire.numpy.linalg.matrix_rank(quire.numpy.array([[1., 2.], [2., 4.]])).item()
    1
    """
    if rtol is not None and tol is not None:
        raise ValueError("quire.numpy.linalg.matrix_rank: give rtol or tol, not both")
    (v,) = arrays("matrix_rank", M)
    if v.aval.ndim < 2:
        return qnp.any(v != 0).astype(dtypes.int32)
    (v,) = matrices("matrix_rank", v, square=hermitian)
    s = ew.abs_p.bind(ll.eigh(v)[1]) if hermitian else ll.svd(v, compute_uv=False)
    if tol is not None:
        limit = _for_values(tol)
    else:
        relative = max(v.aval.shape[-2:]) * epsilon(v) if rtol is None else rtol
        limit = _for_values(relative, s.dtype) * qnp.max(s, axis=-1, keepdims=True, initial=0)
    return qnp.sum(s > limit, axis=-1)


def _for_values(bound: Any, dtype: Any = None) -> Value:
    """A bound of each matrix beside its singular values; one number is for all, of any rank."""
    x = qnp.asarray(bound, dtype)
    return x if x.ndim == 0 else x[..., None]

"""Linear algebra made of ordinary traced operations: loops over columns, and Jacobi's rotations.

For targets that cannot call LAPACK, and for deployment without Python. All work on batches at once: the operands are
(..., m, n), the loops run over columns or sweeps. Sources: Golub and Van Loan, "Matrix Computations" (4th ed., 2013):
Cholesky 4.2, LU 3.4, Householder QR 5.2, Jacobi 8.5 (eigenvalues) and 8.6.3 (singular values, one-sided); the ordering
of parallel rotations is Brent and Luk's (1985).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.tracing import trace_flat

Value = Any
_I32 = dtypes.int32


# -- helpers ------------------------------------------------------------------------------------------------------------------


UNROLLED = 4
"""Loops of at most so many steps are written out, their indices being constants: then all of it is fused."""


def repeat(count: int, body: Callable[..., Sequence[Value]], *carry: Value) -> list[Value]:
    """``for i in range(count): carry = body(i, *carry)`` as one loop, or written out."""
    if count <= UNROLLED:
        out = list(carry)
        for i in range(count):
            out = list(body(np.int32(i), *out))
        return out
    return repeat_while(lambda i, *_: ew.lt(i, np.int32(count)), body, *carry)


def repeat_while(condition: Callable[..., Value], body: Callable[..., Sequence[Value]], *carry: Value) -> list[Value]:
    """``while condition(i, *carry): carry = body(i, *carry); i += 1``."""
    start = st.full((), 0, _I32)
    avals = [aval_of(x).strong() for x in (start, *carry)]
    test, test_captured, _ = trace_flat(lambda *xs: [condition(*xs)], avals, name="condition")
    step, step_captured, _ = trace_flat(lambda i, *xs: [ew.add(i, np.int32(1)), *body(i, *xs)], avals, name="body")
    out = cf.while_p.bind(
        *test_captured, *step_captured, start, *carry, cond_jaxpr=ClosedJaxpr(test, ()),
        body_jaxpr=ClosedJaxpr(step, ()), cond_nconsts=len(test_captured), body_nconsts=len(step_captured),
    )  # fmt: skip
    return out[1:]


def _number(shape: tuple[int, ...], dim: int) -> Value:
    """The position along the dimension `dim` (counted from the end), as int32 of the shape."""
    return st.broadcasted_iota(_I32, shape, len(shape) + dim)


def _where(mask: Value, x: Value, y: Value) -> Value:
    return ew.select_n(mask, y, x)


def _zeros(x: Value) -> Value:
    return st.full(aval_of(x).shape, 0, aval_of(x).dtype)


def _at(x: Value, i: Value, dim: int) -> Value:
    """Entry i of dimension `dim` (counted from the end), without that dimension."""
    shape = aval_of(x).shape
    if isinstance(i, np.integer):
        d = len(shape) + dim
        return st.squeeze(st.slice_in_dim(x, int(i), int(i) + 1, axis=d), (d,))
    mask = ew.eq(_number(shape, dim), st.broadcast_to(i, shape))
    return rd.reduce_sum(_where(mask, x, _zeros(x)), (len(shape) + dim,))


def _put(x: Value, i: Value, dim: int, value: Value) -> Value:
    """x with entry i of dimension `dim` replaced."""
    shape = aval_of(x).shape
    return _where(ew.eq(_number(shape, dim), st.broadcast_to(i, shape)), _spread(value, shape, dim), x)


def _spread(value: Value, shape: tuple[int, ...], dim: int) -> Value:
    """A value without dimension `dim`, repeated along it."""
    n = len(shape)
    return st.broadcast_in_dim(value, shape, [d for d in range(n) if d != n + dim])


def _over(x: Value, value: Value) -> Value:
    """A value of x's leading dimensions, repeated over the others."""
    return st.broadcast_in_dim(value, aval_of(x).shape, range(aval_of(value).ndim))


def _outer(column: Value, row: Value) -> Value:
    """The products of a column (..., m) and a row (..., n), (..., m, n)."""
    m, n = aval_of(column).shape, aval_of(row).shape
    shape = (*m, n[-1])
    return ew.mul(_spread(column, shape, -1), _spread(row, shape, -2))


def _real(x: Value, like: Value) -> Value:
    """A real value in the dtype of another."""
    return ew.convert_element_type(x, aval_of(like).dtype)


def _const(value: float, x: Value) -> Value:
    return st.full(aval_of(x).shape, value, aval_of(x).dtype)


def _norm2(x: Value) -> Value:
    """The sum of squared magnitudes over the last dimension."""
    if dtypes.is_complex(aval_of(x).dtype):
        re, im = ew.real(x), ew.imag(x)
        x = ew.add(ew.mul(re, re), ew.mul(im, im))
    else:
        x = ew.mul(x, x)
    return rd.reduce_sum(x, (aval_of(x).ndim - 1,))


# -- Cholesky, triangular solution, LU ------------------------------------------------------------------------------------------


def cholesky(x: Value) -> Value:
    """Column by column; the rest of the matrix is updated by an outer product (right-looking)."""
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    batch, n = shape[:-2], shape[-1]
    if not aval_of(x).size:
        return x
    good = st.full(batch, True, dtypes.bool_)

    def body(j: Value, a: Value, l: Value, good: Value) -> Sequence[Value]:
        column = _at(a, j, -1)
        pivot = ew.real(_at(column, j, -1))
        good = ew.bitwise_and(good, ew.gt(pivot, _const(0, pivot)))
        root = ew.sqrt(pivot)
        below = ew.ge(_number(aval_of(column).shape, -1), st.broadcast_to(j, aval_of(column).shape))
        column = _where(below, ew.div(column, _over(column, _real(root, column))), _zeros(column))
        column = _put(column, j, -1, _real(root, column))  # exactly real
        return ew.sub(a, _outer(column, ew.conj(column))), _put(l, j, -1, column), good

    _, l, good = repeat(n, body, x, st.full(shape, 0, dtype), good)
    bad = la.tril(st.full(shape, float("nan"), dtype))
    return _where(_over(l, good), l, bad)


def triangular_solve(
    a: Value, b: Value, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Value:
    """Substitution, row by row of the solution."""
    if not aval_of(b).size:
        return b
    if conjugate_a:
        a = ew.conj(a)
    if not left_side:  # x op(a) = b is op(a)^T x^T = b^T
        b, transpose_a = la.transpose_last(b), not transpose_a
    if transpose_a:
        a, lower = la.transpose_last(a), not lower
    n = aval_of(a).shape[-1]

    def body(step: Value, b: Value) -> Sequence[Value]:
        i = step if lower else np.int32(n - 1) - step if isinstance(step, np.integer) else ew.sub(np.int32(n - 1), step)
        row, column = _at(b, i, -2), _at(a, i, -1)
        if not unit_diagonal:
            row = ew.div(row, _over(row, _at(column, i, -1)))
        where = _number(aval_of(column).shape, -1)
        i_all = st.broadcast_to(i, aval_of(column).shape)
        rest = ew.gt(where, i_all) if lower else ew.lt(where, i_all)
        b = ew.sub(b, _outer(_where(rest, column, _zeros(column)), row))
        return (_put(b, i, -2, row),)

    (out,) = repeat(n, body, b)
    return out if left_side else la.transpose_last(out)


def lu(x: Value) -> list[Value]:
    """Gaussian elimination with exchanges of rows, one column after the other."""
    shape = aval_of(x).shape
    batch, (m, n) = shape[:-2], shape[-2:]
    k = min(m, n)
    pivots = st.full((*batch, k), 0, _I32)
    permutation = _number((*batch, m), -1)
    if not aval_of(x).size:
        return [x, pivots, permutation]

    def body(j: Value, a: Value, pivots: Value, permutation: Value) -> Sequence[Value]:
        column = _at(a, j, -1)
        # LAPACK compares complex numbers by the sum of their parts.
        size = ew.abs(column)
        if dtypes.is_complex(aval_of(column).dtype):
            size = ew.add(ew.abs(ew.real(column)), ew.abs(ew.imag(column)))
        where, j_all = _number(aval_of(size).shape, -1), st.broadcast_to(j, aval_of(size).shape)
        size = _where(ew.ge(where, j_all), size, _const(-1, size))
        p = rd.argmax(size, len(batch))
        a, permutation = _exchange(a, j, p, -2), _exchange(permutation, j, p, -1)
        column, row = _at(a, j, -1), _at(a, j, -2)
        pivot = _at(column, j, -1)
        singular = ew.eq(pivot, _const(0, pivot))
        divisor = _where(singular, _const(1, pivot), pivot)
        below = ew.gt(where, j_all)
        factors = _where(below, ew.div(column, _over(column, divisor)), _zeros(column))
        right = ew.gt(_number(aval_of(row).shape, -1), st.broadcast_to(j, aval_of(row).shape))
        a = ew.sub(a, _outer(factors, _where(right, row, _zeros(row))))
        a = _put(a, j, -1, _where(below, factors, column))
        return a, _put(pivots, j, -1, p), permutation

    return repeat(k, body, x, pivots, permutation)


def _exchange(x: Value, i: Value, p: Value, dim: int) -> Value:
    """x with entries i (a scalar) and p (one for each member of the batch) of dimension `dim` exchanged."""
    shape = aval_of(x).shape
    where = _number(shape, dim)
    at_i, at_p = ew.eq(where, st.broadcast_to(i, shape)), ew.eq(where, _over(x, p))
    n = (len(shape) + dim,)
    first, second = (rd.reduce_sum(_where(mask, x, _zeros(x)), n) for mask in (at_i, at_p))
    return _where(at_i, _spread(second, shape, dim), _where(at_p, _spread(first, shape, dim), x))


# -- QR -------------------------------------------------------------------------------------------------------------------------


def geqrf(x: Value) -> list[Value]:
    """Householder reflections, one column after the other, in LAPACK's form."""
    shape = aval_of(x).shape
    batch, (m, n) = shape[:-2], shape[-2:]
    taus = st.full((*batch, min(m, n)), 0, aval_of(x).dtype)
    if not aval_of(x).size:
        return [x, taus]

    def body(j: Value, a: Value, taus: Value) -> Sequence[Value]:
        column = _at(a, j, -1)
        where, j_all = _number(aval_of(column).shape, -1), st.broadcast_to(j, aval_of(column).shape)
        tail = _where(ew.gt(where, j_all), column, _zeros(column))
        alpha = _at(column, j, -1)
        re = ew.real(alpha)
        below = _norm2(tail)
        trivial = ew.eq(below, _const(0, below))
        if dtypes.is_complex(aval_of(alpha).dtype):
            im = ew.imag(alpha)
            trivial = ew.bitwise_and(trivial, ew.eq(im, _const(0, im)))
            below = ew.add(below, ew.mul(im, im))
        length = ew.sqrt(ew.add(ew.mul(re, re), below))
        beta = _where(ew.lt(re, _const(0, re)), length, ew.neg(length))
        safe = _where(trivial, _const(1, beta), beta)
        tau = ew.div(ew.sub(_real(safe, alpha), alpha), _real(safe, alpha))
        tau = _where(trivial, _zeros(tau), tau)
        scale = ew.sub(alpha, _real(beta, alpha))
        scale = _where(trivial, _const(1, scale), scale)
        v = ew.div(tail, _over(tail, scale))
        v = _put(v, j, -1, _const(1, alpha))
        beta = _where(trivial, alpha, _real(beta, alpha))
        # The columns to the right: a -= conj(tau) v (v^H a).
        product = ct.matmul(st.expand_dims(ew.conj(v), (len(batch),)), a)
        product = st.reshape(product, (*batch, n))
        right = ew.gt(_number((*batch, n), -1), st.broadcast_to(j, (*batch, n)))
        product = _where(right, product, _zeros(product))
        a = ew.sub(a, _outer(ew.mul(v, _over(v, ew.conj(tau))), product))
        stored = _put(_where(ew.lt(where, j_all), column, v), j, -1, beta)
        return _put(a, j, -1, stored), _put(taus, j, -1, tau)

    return repeat(min(m, n), body, x, taus)


def householder_product(a: Value, taus: Value) -> Value:
    """The reflectors applied to the identity, the last one first."""
    shape = aval_of(a).shape
    batch, (m, n) = shape[:-2], shape[-2:]
    k = aval_of(taus).shape[-1]
    identity = st.broadcast_to(la.eye(m, n, aval_of(a).dtype), shape)
    if not k or not aval_of(a).size:
        return identity

    def body(step: Value, q: Value) -> Sequence[Value]:
        j = np.int32(k - 1) - step if isinstance(step, np.integer) else ew.sub(np.int32(k - 1), step)
        column, tau = _at(a, j, -1), _at(taus, j, -1)
        below = ew.gt(_number(aval_of(column).shape, -1), st.broadcast_to(j, aval_of(column).shape))
        v = _put(_where(below, column, _zeros(column)), j, -1, _const(1, tau))
        product = st.reshape(ct.matmul(st.expand_dims(ew.conj(v), (len(batch),)), q), (*batch, n))
        return (ew.sub(q, _outer(ew.mul(v, _over(v, tau)), product)),)

    return repeat(k, body, identity)[0]


def qr(x: Value, *, pivoting: bool, full_matrices: bool) -> list[Value]:
    """geqrf and householder_product. Raises NotImplementedError for pivoting, which has no form here."""
    if pivoting:
        raise NotImplementedError("qr with pivoting needs LAPACK, which only the cpu target calls")
    shape = aval_of(x).shape
    batch, (m, n) = shape[:-2], shape[-2:]
    k = m if full_matrices else min(m, n)
    a, taus = geqrf(x)
    zeros = [0] * len(batch)
    r = la.triu(st.slice(a, (*zeros, 0, 0), (*batch, min(m, k), n)))
    if k > n:
        a = st.pad(a, np.zeros((), aval_of(a).dtype)[()], [(0, 0, 0)] * (len(batch) + 1) + [(0, k - n, 0)])
    elif k < n:
        a = st.slice(a, (*zeros, 0, 0), (*batch, m, k))
    return [householder_product(a, taus), r]


# -- Jacobi's rotations -----------------------------------------------------------------------------------------------------------
# Columns i and i + n/2 are rotated together, all pairs at once; then the columns move one place round a circle (the
# first stays), so that n - 1 steps meet every pair once.


def _circle(x: Value, dim: int) -> Value:
    """The next round of the tournament along a dimension counted from the end."""
    shape = aval_of(x).shape
    h, d = shape[dim] // 2, len(shape) + dim

    def part(start: int, stop: int) -> Value:
        return st.slice_in_dim(x, start, stop, axis=d)

    if h == 1:
        return x
    top = [part(0, 1), part(h, h + 1), part(1, h - 1)]
    bottom = [part(h + 1, 2 * h), part(h - 1, h)]
    return st.concatenate([p for p in (*top, *bottom) if aval_of(p).size], d)


def _rotate(x: Value, c: Value, s: Value, dim: int) -> Value:
    """(p, q) becomes (c p - conj(s) q, s p + c q) along a dimension counted from the end; c, s are (..., n/2)."""
    shape = aval_of(x).shape
    h, d = shape[dim] // 2, len(shape) + dim
    p, q = st.slice_in_dim(x, 0, h, axis=d), st.slice_in_dim(x, h, 2 * h, axis=d)
    other = -1 if dim == -2 else -2
    c, s = _spread(_real(c, x), aval_of(p).shape, other), _spread(s, aval_of(p).shape, other)
    first = ew.sub(ew.mul(c, p), ew.mul(ew.conj(s), q))
    return st.concatenate([first, ew.add(ew.mul(s, p), ew.mul(c, q))], d)


def _rotation(app: Value, aqq: Value, apq: Value) -> tuple[Value, Value]:
    """c (real) and s of the rotations that make the Hermitian matrices ((app, apq), (conj(apq), aqq)) diagonal."""
    size = ew.abs(apq)
    none = ew.eq(size, _const(0, size))
    safe = _where(none, _const(1, size), size)
    tau = ew.div(ew.sub(aqq, app), ew.mul(safe, _const(2, size)))
    root = ew.add(ew.abs(tau), ew.sqrt(ew.add(ew.mul(tau, tau), _const(1, tau))))
    t = ew.div(_const(1, root), root)
    t = _where(ew.lt(tau, _const(0, tau)), ew.neg(t), t)
    t = _where(none, _const(0, t), t)
    c = ew.rsqrt(ew.add(ew.mul(t, t), _const(1, t)))
    phase = ew.div(apq, _real(safe, apq))
    return c, ew.mul(_real(ew.mul(t, c), apq), phase)


def _square_even(x: Value) -> Value:
    """x with its last dimension padded to an even size of at least 2."""
    n = aval_of(x).shape[-1]
    extra = max(2 - n, n % 2)
    if not extra:
        return x
    zero = np.zeros((), aval_of(x).dtype)[()]
    return st.pad(x, zero, [(0, 0, 0)] * (aval_of(x).ndim - 1) + [(0, extra, 0)])


def _sweeps(dtype: Any) -> int:
    """Convergence is quadratic: this many sweeps are more than enough for the precision."""
    return 12 if dtypes.real_dtype(dtype) == dtypes.float32 else 16


def _sorted_columns(values: Value, descending: bool, *matrices: Value) -> list[Value]:
    """Values (..., n) in order, and the columns of matrices (..., m, n) in the same order."""
    shape = aval_of(values).shape
    index = _number(shape, -1)
    key = ew.neg(values) if descending else values
    order = so.sort([key, index], dimension=len(shape) - 1, is_stable=True, num_keys=1)[1]
    full = (*shape, shape[-1])
    chosen = ew.eq(_number(full, -2), _spread(order, full, -2))  # (..., old, new)
    ordered = rd.reduce_sum(
        _where(chosen, _spread(values, full, -1), st.full(full, 0, aval_of(values).dtype)), (len(full) - 2,)
    )
    out = [ordered]
    for x in matrices:
        out.append(ct.matmul(x, ew.convert_element_type(chosen, aval_of(x).dtype)))
    return out


def eigh(x: Value, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None) -> list[Value]:
    """Cyclic Jacobi with n/2 rotations at once."""
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    batch, n = shape[:-2], shape[-1]
    real = dtypes.real_dtype(dtype)
    start, stop = (0, n) if subset_by_index is None else subset_by_index
    if not aval_of(x).size:
        return [st.full((*batch, n, stop - start), 0, dtype), st.full((*batch, stop - start), 0, real)]
    strict = la.tril(x, -1) if lower else la.triu(x, 1)
    diagonal = _real(ew.real(la.diagonal(x)), x)
    row, column = _number(shape, -2), _number(shape, -1)
    a = _where(ew.eq(row, column), _spread(diagonal, shape, -1), ew.add(strict, la.transpose_last(strict, True)))
    a = la.transpose_last(_square_even(la.transpose_last(_square_even(a))))
    size = aval_of(a).shape[-1]
    h = size // 2
    v = st.broadcast_to(la.eye(size, size, dtype), aval_of(a).shape)
    tag = st.broadcast_to(st.iota(_I32, size), (*batch, size))

    def body(_: Value, a: Value, v: Value, tag: Value) -> Sequence[Value]:
        d = ew.real(la.diagonal(a))
        upper = st.slice_in_dim(st.slice_in_dim(a, 0, h, axis=len(batch)), h, size, axis=len(batch) + 1)
        axis = len(batch)
        c, s = _rotation(
            st.slice_in_dim(d, 0, h, axis=axis), st.slice_in_dim(d, h, size, axis=axis), la.diagonal(upper)
        )
        a = _rotate(_rotate(a, c, s, -1), c, ew.conj(s), -2)
        v = _rotate(v, c, s, -1)
        return _circle(_circle(a, -1), -2), _circle(v, -1), _circle(tag, -1)

    a, v, tag = repeat(_sweeps(dtype) * max(size - 1, 1), body, a, v, tag)
    w = ew.real(la.diagonal(a))
    if size > n:  # the padding stands last
        w = _where(ew.ge(tag, _const(n, tag)), _const(float("inf"), w), w)
    w, v = _sorted_columns(w, False, v)
    zeros = [0] * len(batch)
    return [
        st.slice(v, (*zeros, 0, start), (*batch, n, stop)), st.slice(w, (*zeros, start), (*batch, stop))
    ]  # fmt: skip


def svd(x: Value, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None) -> list[Value]:
    """One-sided Jacobi: rotations make the columns orthogonal; their lengths are the singular values."""
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    batch, (m, n) = shape[:-2], shape[-2:]
    if m < n:
        out = svd(
            la.transpose_last(x, True),
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
        )
        return [out[0], la.transpose_last(out[2], True), la.transpose_last(out[1], True)] if compute_uv else out
    start, stop = (0, n) if subset_by_index is None else subset_by_index
    zeros = [0] * len(batch)
    if not aval_of(x).size:
        s = st.full((*batch, stop - start), 0, dtypes.real_dtype(dtype))
        rows = m if full_matrices else stop - start
        u = st.broadcast_to(la.eye(m, rows, dtype), (*batch, m, rows))
        return [s, u, st.full((*batch, n if full_matrices else stop - start, n), 0, dtype)][: 3 if compute_uv else 1]
    q, r = qr(x, pivoting=False, full_matrices=full_matrices)
    r = st.slice(r, (*zeros, 0, 0), (*batch, n, n))
    a = la.transpose_last(_square_even(la.transpose_last(_square_even(r))))
    size = aval_of(a).shape[-1]
    h, axis = size // 2, len(batch)
    v = st.broadcast_to(la.eye(size, size, dtype), aval_of(a).shape)
    tag = st.broadcast_to(st.iota(_I32, size), (*batch, size))

    def body(_: Value, a: Value, v: Value, tag: Value) -> Sequence[Value]:
        columns = la.transpose_last(a)
        p, q = st.slice_in_dim(columns, 0, h, axis=axis), st.slice_in_dim(columns, h, size, axis=axis)
        cross = rd.reduce_sum(ew.mul(ew.conj(p), q), (axis + 1,))
        c, s = _rotation(_norm2(p), _norm2(q), cross)
        return _circle(_rotate(a, c, s, -1), -1), _circle(_rotate(v, c, s, -1), -1), _circle(tag, -1)

    a, v, tag = repeat(_sweeps(dtype) * max(size - 1, 1), body, a, v, tag)
    s = ew.sqrt(_norm2(la.transpose_last(a)))
    key = _where(ew.ge(tag, _const(n, tag)), _const(-1, s), s) if size > n else s  # the padding stands last
    key, a, v = _sorted_columns(key, True, a, v)
    s = st.slice(key, (*zeros, 0), (*batch, n))
    if not compute_uv:
        return [st.slice(s, (*zeros, start), (*batch, stop))]
    a, v = (st.slice(y, (*zeros, 0, 0), (*batch, n, n)) for y in (a, v))
    # Columns of zeros, or of nothing but rounding errors, have no direction: QR of the others' directions completes them.
    largest = rd.reduce_max(s, (axis,))
    limits = np.finfo(dtypes.real_dtype(dtype))
    tiny = ew.le(s, ew.max(ew.mul(_over(s, largest), _const(float(limits.eps), s)), _const(float(limits.tiny), s)))
    inverse = _where(tiny, _const(0, s), ew.div(_const(1, s), _where(tiny, _const(1, s), s)))
    directions = la.scale_columns(a, inverse)
    basis, signs = qr(directions, pivoting=False, full_matrices=True)
    sign = la.diagonal(signs)
    length = ew.abs(sign)
    none = ew.bitwise_or(tiny, ew.eq(length, _const(0, length)))
    sign = _where(none, _const(1, sign), ew.div(sign, _real(_where(none, _const(1, length), length), sign)))
    u = la.scale_columns(basis, sign)
    left = st.slice(q, (*zeros, 0, 0), (*batch, m, n))
    u = ct.matmul(left, u)
    if full_matrices and m > n:
        u = st.concatenate([u, st.slice(q, (*zeros, 0, n), (*batch, m, m))], axis + 1)
    vh = la.transpose_last(v, True)
    if not full_matrices:
        u = st.slice(u, (*zeros, 0, start), (*batch, m, stop))
        vh = st.slice(vh, (*zeros, start, 0), (*batch, stop, n))
    return [st.slice(s, (*zeros, start), (*batch, stop)), u, vh]


# -- general eigenvalues: of matrices of size 2 only --------------------------------------------------------------------------------


EIG_UP_TO = 2


def eig(x: Value, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool) -> list[Value]:
    """Of ((a, b), (c, d)), with p = (a - d) / 2 and the root s of p^2 + bc on p's side: m + s and m - s, m = (a + d) / 2.

    Then (p + s, c) and (b, -p - s) are eigenvectors without cancellation. The order is LAPACK's for real matrices.
    """
    shape, dtype = aval_of(x).shape, dtypes.complex_dtype(aval_of(x).dtype)
    assert shape[-1] <= EIG_UP_TO
    if shape[-1] < 2 or not aval_of(x).size:
        vectors = st.full(shape, 1, dtype)
        values = st.reshape(ew.convert_element_type(x, dtype), shape[:-1])
        return [values, *[vectors] * (compute_left_eigenvectors + compute_right_eigenvectors)]
    size = rd.reduce_max(ew.abs(x), (len(shape) - 2, len(shape) - 1))
    size = _where(ew.gt(size, _const(0, size)), size, _const(1, size))
    x = ew.div(x, _over(x, _real(size, x)))  # squares do not overflow
    (a, b), (c, d) = ([_entry(x, i, j) for j in range(2)] for i in range(2))
    half = _const(0.5, a)
    m, p = ew.mul(ew.add(a, d), half), ew.mul(ew.sub(a, d), half)
    m, p, b, c = (ew.convert_element_type(v, dtype) for v in (m, p, b, c))
    s = ew.sqrt(ew.add(ew.mul(p, p), ew.mul(b, c)))
    side = ew.real(ew.mul(ew.conj(p), s))
    s = _where(ew.lt(side, _const(0, side)), ew.neg(s), s)
    scale = _real(size, m)
    values = _beside(ew.mul(ew.add(m, s), scale), ew.mul(ew.sub(m, s), scale))
    q = ew.add(p, s)
    out = [values]
    if compute_left_eigenvectors:  # the right ones of x^H
        out.append(_two_vectors(ew.conj(q), ew.conj(c), ew.conj(b)))
    if compute_right_eigenvectors:
        out.append(_two_vectors(q, b, c))
    return out


def _entry(x: Value, i: int, j: int) -> Value:
    return _at(_at(x, np.int32(i), -2), np.int32(j), -1)


def _beside(x: Value, y: Value) -> Value:
    """Two values as a last dimension."""
    shape = (*aval_of(x).shape, 2)
    return _where(ew.eq(_number(shape, -1), st.full(shape, 0, _I32)), _spread(x, shape, -1), _spread(y, shape, -1))


def _two_vectors(q: Value, b: Value, c: Value) -> Value:
    """(q, c) and (b, -q) as columns of length 1 whose largest entries are real; unit vectors where they are 0."""
    zero, one = _zeros(q), _const(1, q)
    none = ew.eq(q, zero)
    no_first, no_second = ew.bitwise_and(none, ew.eq(c, zero)), ew.bitwise_and(none, ew.eq(b, zero))
    first = _normalised(_where(no_first, one, q), c)
    second = _normalised(b, _where(no_second, one, ew.neg(q)))
    return _beside(_beside(first[0], first[1]), _beside(second[0], second[1]))


def _normalised(x: Value, y: Value) -> tuple[Value, Value]:
    """(x, y) times a number that makes its length 1 and its largest entry real."""
    size = ew.max(ew.abs(x), ew.abs(y))
    x, y = ew.div(x, _real(size, x)), ew.div(y, _real(size, y))
    nx, ny = (_norm2(st.expand_dims(v, (aval_of(v).ndim,))) for v in (x, y))
    largest = _where(ew.ge(nx, ny), x, y)
    turn = ew.mul(ew.conj(largest), _real(ew.rsqrt(ew.add(nx, ny)), x))
    return ew.mul(x, turn), ew.mul(y, turn)


FORMS: dict[Any, Callable[..., Any]] = {
    la.cholesky_p: cholesky, la.triangular_solve_p: triangular_solve, la.lu_p: lu, la.geqrf_p: geqrf,
    la.householder_product_p: householder_product, la.qr_p: qr, la.eigh_p: eigh, la.eig_p: eig,
    la.svd_p: svd,
}  # fmt: skip

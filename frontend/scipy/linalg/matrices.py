"""Matrices of a given structure: Toeplitz, Hilbert, Pascal and their kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st

from ...arrays.operands import SCIPY, Value, arrays, cast, plain, promote_dtypes, user_dtype, usual_promotion

_FLOAT = dtypes.float64


def _float(values: Any) -> Value:
    """A NumPy matrix that depends on sizes only, in the default float dtype."""
    return qnp.asarray(np.asarray(values, np.float64).astype(dtypes.canonicalize(_FLOAT)))


def _vectors(name: str, x: Any, inexact: bool = False) -> Value:
    """The argument as vectors (..., n); a scalar counts as one of length 1."""
    (v,) = arrays(name, x, module=SCIPY) if inexact else plain(name, x, module=SCIPY)
    return st.reshape(v, (1,)) if v.aval.ndim == 0 else v


def _size(name: str, n: Any, least: int = 0) -> int:
    if int(n) != n or n < least:
        raise ValueError(f"{SCIPY}.{name}: n must be {'a positive' if least else 'a non-negative'} integer, got {n!r}")
    return int(n)


def block_diag(*arrs: Any) -> Value:
    """The matrix with the given ones along its diagonal, and zeros elsewhere.

    Args:
        arrs: arrays of at most 2 dimensions; scalars and vectors count as rows.

    Raises:
        ValueError: an array has more than 2 dimensions.

    Follows `scipy.linalg.block_diag`.

    >>> quire.scipy.linalg.block_diag(quire.numpy.ones((1, 2)), 3.)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    values = plain("block_diag", *arrs, module=SCIPY) or [st.full((1, 0), 0, dtypes.canonicalize(_FLOAT))]
    for i, x in enumerate(values):
        if x.aval.ndim > 2:
            raise ValueError(
                f"{SCIPY}.block_diag: arrays must have at most 2 dimensions, got {x.aval.short()} at position {i}"
            )
    rows = [st.reshape(x, (1,) * (2 - x.aval.ndim) + x.aval.shape) for x in promote_dtypes(*values)]
    n = sum(x.aval.shape[1] for x in rows)
    out: list[Value] = []
    before = 0
    for x in rows:
        k = x.aval.shape[1]
        out.append(st.pad(x, x.aval.dtype.type(0), [(0, 0, 0), (before, n - k - before, 0)]))
        before += k
    return cast(qnp.concatenate(out, axis=0), rows[0].aval.dtype)


def _indexed(values: Value, index: np.ndarray[Any, Any]) -> Value:
    """Along the last dimension, the elements at the positions of a matrix."""
    return qnp.take(values, index.astype(np.int32), axis=-1)


def toeplitz(c: Any, r: Any = None) -> Value:
    """Matrices of constant diagonals.

    Args:
        c: the first columns, (..., m).
        r: the first rows, (..., n), whose first element is not read; c's conjugate by default.

    Returns (..., m, n). Follows `scipy.linalg.toeplitz`.

    >>> quire.scipy.linalg.toeplitz(quire.numpy.array([1, 2]), quire.numpy.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5]], dtype=int32)
    """
    column = _vectors("toeplitz", c)
    row = qnp.conj(column) if r is None else _vectors("toeplitz", r)
    column, row = promote_dtypes(column, row)
    m, n = column.aval.shape[-1], row.aval.shape[-1]
    batch = qnp.broadcast_shapes(column.aval.shape[:-1], row.aval.shape[:-1])
    if not m or not n:
        return st.full((*batch, m, n), 0, column.aval.dtype)
    parts = [qnp.broadcast_to(x, (*batch, x.aval.shape[-1])) for x in (column[..., ::-1], row[..., 1:])]
    values = qnp.concatenate(parts, axis=-1)  # from the lower left corner to the upper right one
    return _indexed(cast(values, values.aval.dtype), np.arange(m - 1, -1, -1)[:, None] + np.arange(n))


def hankel(c: Any, r: Any = None) -> Value:
    """Matrices of constant anti-diagonals.

    Args:
        c: the first columns, (..., m).
        r: the last rows, (..., n), whose first element is not read; zeros by default.

    Returns (..., m, n).

    Raises:
        ValueError: c is a scalar.

    Follows `scipy.linalg.hankel`.

    >>> quire.scipy.linalg.hankel(quire.numpy.array([1, 2]))
    Array([[1, 2],
           [2, 0]], dtype=int32)
    """
    if plain("hankel", c, module=SCIPY)[0].aval.ndim == 0:
        raise ValueError(f"{SCIPY}.hankel: c must have at least one dimension, got a scalar")
    column = _vectors("hankel", c)
    row = qnp.zeros_like(column) if r is None else _vectors("hankel", r)
    column, row = promote_dtypes(column, row)
    m, n = column.aval.shape[-1], row.aval.shape[-1]
    batch = qnp.broadcast_shapes(column.aval.shape[:-1], row.aval.shape[:-1])
    if not m or not n:
        return st.full((*batch, m, n), 0, column.aval.dtype)
    parts = [qnp.broadcast_to(x, (*batch, x.aval.shape[-1])) for x in (column, row[..., 1:])]
    return _indexed(qnp.concatenate(parts, axis=-1), np.arange(m)[:, None] + np.arange(n))


def circulant(c: Any) -> Value:
    """Matrices whose columns are c (..., n) turned by 0, 1, ... places. Follows `scipy.linalg.circulant`.

    >>> quire.scipy.linalg.circulant(quire.numpy.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    column = _vectors("circulant", c)
    n = column.aval.shape[-1]
    if not n:
        return st.full((*column.aval.shape, 0), 0, column.aval.dtype)
    return _indexed(column, (np.arange(n)[:, None] - np.arange(n)) % n)


def companion(a: Any) -> Value:
    """The companion matrices (..., n - 1, n - 1) of polynomials with coefficients a (..., n), the highest power first.

    Raises ValueError for fewer than 2 coefficients. Follows `scipy.linalg.companion`.

    >>> quire.scipy.linalg.companion(quire.numpy.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    v = _vectors("companion", a, inexact=True)
    n = v.aval.shape[-1]
    if n < 2:
        raise ValueError(
            f"{SCIPY}.companion: a must have at least 2 coefficients in its last dimension, got {v.aval.short()}"
        )
    first = (-v[..., 1:] / v[..., :1])[..., None, :]
    below = qnp.broadcast_to(la.eye(n - 2, n - 1, v.aval.dtype), (*v.aval.shape[:-1], n - 2, n - 1))
    return qnp.concatenate([first, below], axis=-2)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Value:
    """Matrices with which a product is the convolution of a (..., m) with a vector of length n.

    Args:
        mode: "full", "valid" or "same", as in `quire.numpy.convolve`.

    Raises:
        ValueError: `mode` is none of these, n is no positive integer, or a's last dimension is empty.

    Follows `scipy.linalg.convolution_matrix`.

    >>> quire.scipy.linalg.convolution_matrix(quire.numpy.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    v = _vectors("convolution_matrix", a)
    n = _size("convolution_matrix", n, 1)
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"{SCIPY}.convolution_matrix: mode must be 'full', 'valid' or 'same', got {mode!r}")
    m = v.aval.shape[-1]
    if m == 0:
        raise ValueError(f"{SCIPY}.convolution_matrix: a must have at least one element in its last dimension")
    zero = qnp.zeros((*v.aval.shape[:-1], n - 1), v.aval.dtype)
    full = toeplitz(qnp.concatenate([v, zero], axis=-1), qnp.concatenate([v[..., :1], zero], axis=-1))
    if mode == "full":
        return full
    length = max(m, n) - min(m, n) + 1 if mode == "valid" else max(m, n)
    start = min(m, n) - 1 if mode == "valid" else (min(m, n) - 1) // 2
    return full[..., start : start + length, :]


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Value:
    """The matrix of the discrete Fourier transform of length n.

    Args:
        scale: "sqrtn": divided by the root of n, which makes it unitary; "n": divided by n.
        dtype: a complex dtype.

    Raises:
        ValueError: `scale` is none of None, "sqrtn" and "n", `dtype` is not complex, or n is negative or no integer.

    Follows `scipy.linalg.dft`.

    >>> quire.scipy.linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    n = _size("dft", n)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"{SCIPY}.dft: scale must be None, 'sqrtn' or 'n', got {scale!r}")
    out = dtypes.canonicalize(dtypes.complex128) if dtype is None else user_dtype("quire.scipy.linalg.dft", dtype)
    if not dtypes.is_complex(out):
        raise ValueError(f"{SCIPY}.dft: dtype must be complex, got {out}")
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1) / max(n, 1)
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return qnp.asarray((np.exp(-2j * np.pi * turns) / (divisor or 1.0)).astype(out))


def fiedler(a: Any) -> Value:
    """Matrices of absolute differences ``|a_i - a_j|`` of vectors a (..., n). Follows `scipy.linalg.fiedler`.

    >>> quire.scipy.linalg.fiedler(quire.numpy.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    v = _vectors("fiedler", a)
    return qnp.abs(v[..., :, None] - v[..., None, :])


def fiedler_companion(a: Any) -> Value:
    """Fiedler's pentadiagonal companion matrices of polynomials (..., n), the highest power first.

    Raises:
        ValueError: the polynomials have no coefficients: the last dimension is empty.

    Follows `scipy.linalg.fiedler_companion`.

    >>> quire.scipy.linalg.fiedler_companion(quire.numpy.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    v = _vectors("fiedler_companion", a, inexact=True)
    if v.aval.shape[-1] == 0:
        raise ValueError(f"{SCIPY}.fiedler_companion: a must have at least one coefficient, got {v.aval.short()}")
    n = v.aval.shape[-1] - 1
    if n == 0:
        return st.full((*v.aval.shape[:-1], 0, 0), 0, v.aval.dtype)
    # Entry (i, j) is element source[i, j] of (0, 1, -a[1] / a[0], -a[2] / a[0], ...).
    source = np.zeros((n, n), int)
    source[range(3, n, 2), range(1, n - 2, 2)] = 1
    source[range(2, n, 2), range(1, n - 1, 2)] = np.arange(3, n + 1, 2) + 1
    source[range(0, n - 2, 2), range(2, n, 2)] = 1
    source[range(0, n - 1, 2), range(1, n, 2)] = np.arange(2, n + 1, 2) + 1
    source[0, 0] = 2
    if n > 1:
        source[1, 0] = 1
    ends = qnp.broadcast_to(qnp.asarray(np.array([0, 1], v.aval.dtype)), (*v.aval.shape[:-1], 2))
    return _indexed(qnp.concatenate([ends, -v[..., 1:] / v[..., :1]], axis=-1), source)


def hadamard(n: int, dtype: Any = int) -> Value:
    """Sylvester's Hadamard matrix of size n, a power of 2. Follows `scipy.linalg.hadamard`.

    Raises:
        ValueError: n is no positive power of 2.

    >>> quire.scipy.linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if int(n) != n or n < 1 or int(n) & (int(n) - 1):
        raise ValueError(f"{SCIPY}.hadamard: n must be a positive power of 2, got {n!r}")
    index = np.arange(int(n))
    bits = index[:, None] & index
    odd = np.zeros_like(bits)
    while bits.any():
        odd ^= bits & 1
        bits = bits >> 1
    return qnp.asarray((1 - 2 * odd).astype(user_dtype("quire.scipy.linalg.hadamard", dtype)))


def helmert(n: int, full: bool = False) -> Value:
    """The Helmert matrix (n - 1, n), whose orthonormal rows are orthogonal to that of ones; (n, n) with it if full.

    Follows `scipy.linalg.helmert`.

    >>> quire.scipy.linalg.helmert(2)
    Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _size("helmert", n, 1)
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    k = np.arange(n)
    lengths = np.sqrt(k * (k + 1.0))
    lengths[0] = math.sqrt(n)
    out = rows / lengths[:, None]
    return _float(out if full else out[1:])


def hilbert(n: int) -> Value:
    """The Hilbert matrix, ``1 / (i + j + 1)``. Follows `scipy.linalg.hilbert`.

    >>> quire.scipy.linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    i = np.arange(_size("hilbert", n))
    return _float(1.0 / (i[:, None] + i + 1))


def invhilbert(n: int) -> Value:
    """The inverse of the Hilbert matrix, whose elements are integers. Follows `scipy.linalg.invhilbert`.

    >>> quire.scipy.linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n)
    comb = math.comb

    def element(i: int, j: int) -> int:
        size = (i + j + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(i + j, i) ** 2
        return -size if (i + j) % 2 else size

    return _float(np.array([[float(element(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n))


_KINDS = ("symmetric", "lower", "upper")


def _kind(name: str, kind: str | None) -> str:
    if kind not in (None, *_KINDS):
        raise ValueError(f"{SCIPY}.{name}: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}")
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Value:
    """The Pascal matrix of binomial coefficients.

    Args:
        kind: "symmetric" (the default): ``(i + j) choose i``; "lower": ``i choose j``; "upper": its transpose.

    Follows `scipy.linalg.pascal`.

    >>> quire.scipy.linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    n, kind = _size("pascal", n), _kind("pascal", kind)
    if kind == "symmetric":
        return _float(np.array([[math.comb(i + j, i) for j in range(n)] for i in range(n)], float).reshape(n, n))
    lower = np.array([[math.comb(i, j) for j in range(n)] for i in range(n)], float).reshape(n, n)
    return _float(lower if kind == "lower" else lower.T)


def invpascal(n: int, kind: str | None = None) -> Value:
    """The inverse of `pascal`. Follows `scipy.linalg.invpascal`.

    >>> quire.scipy.linalg.invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    n, kind = _size("invpascal", n), _kind("invpascal", kind)
    lower = [[(-1) ** (i - j) * math.comb(i, j) if j <= i else 0 for j in range(n)] for i in range(n)]
    if kind == "symmetric":  # of l @ l^T
        product = [[sum(lower[k][i] * lower[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
        return _float(np.array(product, float).reshape(n, n))
    out = np.array(lower, float).reshape(n, n)
    return _float(out if kind == "lower" else out.T)


@usual_promotion
def leslie(f: Any, s: Any) -> Value:
    """Leslie's matrices of population growth: the first row f (..., n), below the diagonal s (..., n - 1).

    Raises ValueError where the sizes do not fit. Follows `scipy.linalg.leslie`.

    >>> quire.scipy.linalg.leslie(quire.numpy.array([1., 2.]), quire.numpy.array([.5]))
    Array([[1. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    first, survival = promote_dtypes(_vectors("leslie", f), _vectors("leslie", s))
    n = first.aval.shape[-1]
    if survival.aval.shape[-1] != n - 1:
        raise ValueError(
            f"{SCIPY}.leslie: s must have one element less than f, got f {first.aval.short()} and s {survival.aval.short()}"
        )
    batch = qnp.broadcast_shapes(first.aval.shape[:-1], survival.aval.shape[:-1])
    below = qnp.broadcast_to(survival, (*batch, n - 1))[..., :, None] * la.eye(n - 1, n, first.aval.dtype)
    return qnp.concatenate([qnp.broadcast_to(first, (*batch, n))[..., None, :], below], axis=-2)

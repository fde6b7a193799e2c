"""Functions of matrices: exponential, square root, and any function by the Schur-Parlett method.

Sources: Higham, "Functions of Matrices" (2008): Padé approximants with scaling and squaring 10.3, Schur-Parlett 9.1,
square roots 6.2; Al-Mohy and Higham (2009) for the derivative of the exponential, which is that of its algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quire.numpy as qnp
from quire.ir import dtypes
from quire.ir.primitives import linalg as la
from quire.lax import cond, fori_loop
from quire.numpy.linalg.solutions import solve_matrices
from quire.transforms.custom_derivatives import custom_jvp
from quire.transforms.differentiation import jvp

from ...arrays.operands import SCIPY, Value, dagger, epsilon, identity_like, matrices, usual_promotion
from .decompositions import _choice, rsf2csf
from .solutions import sylvester

# The coefficients of the numerator's powers, and the 1-norm up to which the approximant is exact but for rounding.
_PADE = {
    dtypes.float32: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660),
    dtypes.float64: (
        (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
         10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
        5.371920351148152,
    ),
}  # fmt: skip


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Value:
    """The exponential of matrices (..., n, n), by a Padé approximant with scaling and squaring.

    Args:
        upper_triangular: the matrices are, which is quicker.
        max_squarings: NaN is returned where more are needed: for norms above about 4 * 2**max_squarings.

    Follows `scipy.linalg.expm`.

    >>> quire.scipy.linalg.expm(quire.numpy.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    (a,) = matrices("expm", A, square=True, module=SCIPY)
    if not a.aval.size:
        return a
    dtype = a.aval.dtype
    coefficients, limit = _PADE[dtypes.real_dtype(dtype)]
    norm = qnp.max(qnp.sum(qnp.abs(a), axis=-2), axis=-1)
    squarings = qnp.maximum(0, qnp.ceil(qnp.log2(norm / limit)))
    squarings = qnp.where(norm > 0, squarings, 0)
    a = a / qnp.exp2(squarings)[..., None, None].astype(dtype)
    top, bottom = _pade(a, coefficients)
    out = (
        la.triangular_solve(bottom, top, left_side=True, lower=False) if upper_triangular
        else solve_matrices(bottom, top)
    )  # fmt: skip
    most = qnp.max(squarings)

    def square(i: Any, r: Value) -> Value:
        def again(r: Value) -> Value:
            wanted = i < squarings
            return qnp.where(wanted[..., None, None], qnp.matmul(r, r), r)

        return cond(i < most, again, lambda r: r, r)

    out = fori_loop(0, max_squarings, square, out)
    return qnp.where((squarings > max_squarings)[..., None, None], np.nan, out)


def _pade(a: Value, b: tuple[float, ...]) -> tuple[Value, Value]:
    """Numerator and denominator of the diagonal approximant: the sum and the difference of even and odd powers."""
    identity = identity_like(a)
    a2 = qnp.matmul(a, a)
    if len(b) == 8:
        even, odd = b[0] * identity + b[2] * a2, b[1] * identity + b[3] * a2
        power = a2
        for k in (4, 6):
            power = qnp.matmul(power, a2)
            even, odd = even + b[k] * power, odd + b[k + 1] * power
    else:  # by powers up to 6, which saves products
        a4 = qnp.matmul(a2, a2)
        a6 = qnp.matmul(a4, a2)

        def combined(k: int) -> Value:
            high = qnp.matmul(a6, b[k + 12] * a6 + b[k + 10] * a4 + b[k + 8] * a2)
            return high + b[k + 6] * a6 + b[k + 4] * a4 + b[k + 2] * a2 + b[k] * identity

        even, odd = combined(0), combined(1)
    u = qnp.matmul(a, odd)
    return even + u, even - u


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of matrices (..., n, n), and its derivative at A in the direction E.

    Args:
        method: "SPS" or "blockEnlarge", as in SciPy; both are computed as the derivative of `expm`'s algorithm.
        compute_expm: return (expm(A), derivative) instead of the derivative.

    Raises:
        ValueError: A or E is not square, their sizes differ, or `method` is none of these.

    Follows `scipy.linalg.expm_frechet`.

    >>> quire.scipy.linalg.expm_frechet(quire.numpy.zeros((1, 1)), quire.numpy.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    _choice("expm_frechet", "method", method, (None, "SPS", "blockEnlarge"))
    a, e = matrices("expm_frechet", A, E, square=True, module=SCIPY)
    if e.aval.shape[-2:] != a.aval.shape[-2:]:
        raise ValueError(f"{SCIPY}.expm_frechet: A {a.aval.short()} and E {e.aval.short()} must have the same size")
    a, e = qnp.broadcast_arrays(a, e)
    value, derivative = jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


def funm(A: Any, func: Callable[[Value], Value], disp: bool = True) -> Any:
    """A function of matrices (..., n, n), by the Schur-Parlett method; complex.

    Args:
        func: a function of arrays, applied to the eigenvalues, which must differ.
        disp: return the matrix alone; otherwise also an estimate of the error, (..., ).

    Follows `scipy.linalg.funm`.

    >>> a = quire.numpy.array([[1., 0.], [0., 4.]])
    >>> quire.scipy.linalg.funm(a, quire.numpy.sqrt).real
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    (a,) = matrices("funm", A, square=True, module=SCIPY)
    wide = dtypes.complex_dtype(a.aval.dtype)
    t, z = _triangular(a)
    n = a.aval.shape[-1]
    w = la.diagonal(t)
    values = qnp.asarray(func(w)).astype(wide)
    difference = w[..., None, :] - w[..., :, None]
    same = difference == 0
    divisor = qnp.where(same, 1, difference)
    offset = np.arange(n) - np.arange(n)[:, None]
    real = dtypes.real_dtype(wide)

    def diagonal(p: Any, carry: Any) -> Any:
        # Diagonal p of f t - t f, of the diagonals below p, determines that of f.
        f, least = carry
        entries = (qnp.matmul(t, f) - qnp.matmul(f, t)) / divisor
        here = qnp.asarray(offset) == p
        gap = qnp.min(qnp.where(here, qnp.where(same, 0, qnp.abs(divisor)), np.inf), axis=(-2, -1))
        return f + qnp.where(here, entries, 0), qnp.minimum(least, gap.astype(real))

    f = values[..., None, :] * la.eye(n, n, wide)
    least = qnp.full(a.aval.shape[:-2], np.inf, real)
    f, least = fori_loop(1, n, diagonal, (f, least)) if n > 1 else (f, least)
    out = qnp.matmul(qnp.matmul(z, f), dagger(z))
    if disp:
        return out
    above = qnp.max(qnp.sum(qnp.abs(la.triu(t, 1)), axis=-2), axis=-1) if n else qnp.zeros(a.aval.shape[:-2], real)
    least = qnp.where(least == 0, epsilon(a), least)
    error = qnp.clip(epsilon(a) / least * above, epsilon(a), 1)
    return out, qnp.where(qnp.isnan(error), np.inf, error)


def _triangular(a: Value) -> tuple[Value, Value]:
    """The complex Schur decomposition; of real matrices through the real one, so that real eigenvalues stay real."""
    t, z = la.schur(a)
    return (t, z) if dtypes.is_complex(a.aval.dtype) else rsf2csf(t, z)


@custom_jvp
@usual_promotion
def _sqrtm(a: Value) -> Value:
    """The principal square root, complex: of the triangular Schur factor, column by column."""
    t, z = _triangular(a)
    a = a.astype(t.aval.dtype)
    n = a.aval.shape[-1]
    w = qnp.sqrt(la.diagonal(t))
    identity = la.eye(n, n, a.aval.dtype)

    def column(j: Any, r: Value) -> Value:
        # r @ r == t in column j, above the diagonal: (r_jj + r) x = t_j, r having its columns before j.
        chosen = (qnp.arange(n) == j).astype(a.aval.dtype)
        before = (qnp.arange(n) < j).astype(a.aval.dtype)
        root = qnp.sum(w * chosen, axis=-1)[..., None, None]
        rhs = qnp.matmul(t, chosen[:, None]) * before[:, None]
        system = r + root * identity
        safe = qnp.where(la.diagonal(system) == 0, 1, 0)[..., None, :] * identity  # of singular matrices: 0 / 0 is 0
        x = la.triangular_solve(system + safe, rhs, left_side=True, lower=False)
        return r + x * chosen + root * (chosen[:, None] * chosen)

    r = fori_loop(0, n, column, qnp.zeros_like(a))
    return qnp.matmul(qnp.matmul(z, r), dagger(z))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    """x x = a: x dx + dx x = da, a Sylvester equation."""
    x = _sqrtm(primals[0])
    return x, sylvester(x, x, tangents[0].astype(x.aval.dtype))


def sqrtm(A: Any, blocksize: int = 1) -> Value:
    """The principal square root of matrices (..., n, n), by a Schur decomposition; complex.

    Args:
        blocksize: 1.

    Raises:
        NotImplementedError: `blocksize` is not 1.

    Follows `scipy.linalg.sqrtm`.

    >>> quire.scipy.linalg.sqrtm(quire.numpy.array([[4., 0.], [0., 9.]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if blocksize != 1:
        raise NotImplementedError(f"{SCIPY}.sqrtm: blocksize must be 1, got {blocksize}")
    (a,) = matrices("sqrtm", A, square=True, module=SCIPY)
    return _sqrtm(a) if a.aval.size else a.astype(dtypes.complex_dtype(a.aval.dtype))

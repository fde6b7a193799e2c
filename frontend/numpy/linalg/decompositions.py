"""Decompositions: Cholesky, QR, eigenvalues, singular values.

Failures (a matrix that is not positive definite, an iteration that does not converge) are NaN in the result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import linalg as la
from quire.lax import linalg as ll

from ...arrays.operands import Value, dagger, matrices
from .. import elementwise as el
from .. import selection as se
from .. import sorting as so
from .. import taking as tk


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Value
    eigenvectors: Value


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Value
    eigenvectors: Value


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Value
    R: Value


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Value
    S: Value
    Vh: Value


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Value:
    """The Cholesky factor of Hermitian positive definite matrices; NaN where they are not.

    Args:
        a: (..., n, n), real or complex.
        upper: return u with ``u^H @ u == a`` instead of the lower l with ``l @ l^H == a``.
        symmetrize_input: use ``(a + a^H) / 2``, so that derivatives are symmetric; otherwise one triangle is read.

    Follows `numpy.linalg.cholesky`, which raises where this gives NaN.

    >>> quire.numpy.linalg.cholesky(quire.numpy.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    (x,) = matrices("cholesky", a, square=True)
    if upper and not symmetrize_input:
        x = dagger(x)  # the upper triangle is the one that is read
    l = ll.cholesky(x, symmetrize_input=symmetrize_input)
    return dagger(l) if upper else l


def qr(a: Any, mode: str = "reduced") -> Any:
    """The QR decomposition: ``q @ r == a``, q with orthonormal columns, r upper triangular.

    Args:
        a: (..., m, n), k being min(m, n).
        mode: "reduced": q (..., m, k), r (..., k, n); "complete": q (..., m, m), r (..., m, n); "r": r alone, as
            in "reduced"; "raw": Householder vectors and their factors, (h, tau), h being transposed.

    Returns QRResult(Q, R), or an array for "r". Derivatives need "reduced" where m > n.

    Raises:
        ValueError: mode is none of these, or a has fewer than 2 dimensions.

    Follows `numpy.linalg.qr`.

    >>> quire.numpy.linalg.qr(quire.numpy.array([[3.], [4.]])).R
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "full", "r", "raw"):
        raise ValueError(f"quire.numpy.linalg.qr: mode must be 'reduced', 'complete', 'r' or 'raw', got {mode!r}")
    (x,) = matrices("qr", a)
    if mode == "raw":
        h, taus = la.geqrf(x)
        return QRResult(la.transpose_last(h), taus)
    q, r = la.qr(x, full_matrices=mode in ("complete", "full"))
    return r if mode == "r" else QRResult(q, r)


def _triangle(name: str, uplo: str | None) -> bool:
    """Whether the lower triangle is read."""
    if uplo not in (None, "L", "U"):
        raise ValueError(f"quire.numpy.linalg.{name}: UPLO must be 'L', 'U' or None, got {uplo!r}")
    return uplo != "U"


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices: ``a @ v == v * w``.

    Args:
        a: (..., n, n).
        UPLO: which triangle is read, without symmetrize_input: "L" or "U".
        symmetrize_input: use ``(a + a^H) / 2``.

    Returns EighResult(eigenvalues (..., n), real; eigenvectors (..., n, n), in columns). The derivative of the
    eigenvectors is finite only where all eigenvalues differ.

    Follows `numpy.linalg.eigh`.

    >>> quire.numpy.linalg.eigh(quire.numpy.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    (x,) = matrices("eigh", a, square=True)
    v, w = ll.eigh(x, lower=_triangle("eigh", UPLO), symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Value:
    """The eigenvalues of Hermitian matrices, ascending; arguments as those of `eigh`. Follows `numpy.linalg.eigvalsh`.

    >>> quire.numpy.linalg.eigvalsh(quire.numpy.array([[0., 1.], [1., 0.]]))
    Array([-1.,  1.], dtype=float32)
    """
    (x,) = matrices("eigvalsh", a, square=True)
    return ll.eigh(x, lower=_triangle("eigvalsh", UPLO), symmetrize_input=symmetrize_input)[1]


def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices: ``a @ v == v * w``; both are complex.

    Args:
        a: (..., n, n).

    Returns EigResult(eigenvalues (..., n), in no order; eigenvectors (..., n, n), in columns of length 1).

    The eigenvalues have derivatives, where they differ. An eigenvector is determined but for a phase, so that its
    derivative means something only in losses that do not depend on the phase: ask for it with
    ``lax.linalg.eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)``.

    Follows `numpy.linalg.eig`.

    >>> quire.numpy.linalg.eig(quire.numpy.array([[2., 0.], [0., 3.]])).eigenvalues
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    (x,) = matrices("eig", a, square=True)
    w, v = la.eig(x, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: Any) -> Value:
    """The eigenvalues of square matrices (..., n, n), in no order: complex, (..., n). Follows `numpy.linalg.eigvals`.

    >>> quire.numpy.linalg.eigvals(quire.numpy.array([[0., 1.], [-1., 0.]])).imag
    Array([ 1., -1.], dtype=float32)
    """
    (x,) = matrices("eigvals", a, square=True)
    return la.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """The singular value decomposition: ``a == u * s @ vh``.

    Args:
        a: (..., m, n), k being min(m, n).
        full_matrices: u is (..., m, m) and vh (..., n, n); otherwise (..., m, k) and (..., k, n).
        compute_uv: whether u and vh are wanted.
        hermitian: a is Hermitian, so that its eigenvalues give the result, which is quicker.
        subset_by_index: (start, stop): these singular values and vectors only.

    Returns SVDResult(U, S, Vh), or s (..., k), real and descending. Derivatives of u and vh need
    full_matrices=False where m and n differ.

    Follows `numpy.linalg.svd`.

    >>> quire.numpy.linalg.svd(quire.numpy.array([[3., 0.], [0., -4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    (x,) = matrices("svd", a, square=hermitian)
    if not hermitian:
        out = ll.svd(x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*out) if compute_uv else out
    v, w = ll.eigh(x)
    s = ew.abs_p.bind(w)
    order = so.argsort(el.negative(s), axis=-1)
    s = tk.take_along_axis(s, order, axis=-1)
    start, stop = (0, s.aval.shape[-1]) if subset_by_index is None else subset_by_index
    s = s[..., start:stop]
    if not compute_uv:
        return s
    w = tk.take_along_axis(w, order, axis=-1)
    u = tk.take_along_axis(v, order[..., None, :], axis=-1)
    sign = se.where(el.less(w, 0), -1, 1).astype(u.aval.dtype)
    vh = dagger(u * sign[..., None, :])
    return SVDResult(u[..., start:stop], s, vh[..., start:stop, :])


def svdvals(x: Any, /) -> Value:
    """The singular values of matrices (..., m, n), descending. Follows `numpy.linalg.svdvals`.

    >>> quire.numpy.linalg.svdvals(quire.numpy.array([[3., 0.], [0., -4.]]))
    Array([4., 3.], dtype=float32)
    """
    (value,) = matrices("svdvals", x)
    return ll.svd(value, compute_uv=False, full_matrices=False)

"""quire.scipy.sparse.linalg: iterative solution of linear equations whose operator is a function or a matrix.

Right-hand sides and solutions are pytrees of arrays. The solution is differentiated through the equation
(`lax.custom_linear_solve`), so that memory does not grow with the iterations; the transposed equation is solved by the
same method. Sources: Hestenes and Stiefel (1952), Saad and Schultz (1986), van der Vorst (1992).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import quire.numpy as qnp
from quire.ir import dtypes
from quire.lax import custom_linear_solve, fori_loop, while_loop
from quire.scipy import linalg as sl
from quire.transforms.differentiation import linear_transpose
from quire.tree_util import tree_leaves, tree_map, tree_structure

from ...absent_names import module_getattr
from ...arrays.operands import Value, usual_promotion

Tree = Any
Operator = Callable[[Tree], Tree]
_MODULE = "quire.scipy.sparse.linalg"


# -- pytrees as vectors -----------------------------------------------------------------------------------------------------------


@usual_promotion
def _dot(x: Tree, y: Tree) -> Value:
    """The inner product, the first argument conjugated."""
    return functools.reduce(lambda s, t: s + t, map(qnp.vdot, tree_leaves(x), tree_leaves(y)))


@usual_promotion
def _square(x: Tree) -> Value:
    """The squared norm, real."""
    return qnp.real(_dot(x, x))


def _add(x: Tree, y: Tree) -> Tree:
    return tree_map(lambda a, b: a + b, x, y)


def _sub(x: Tree, y: Tree) -> Tree:
    return tree_map(lambda a, b: a - b, x, y)


@usual_promotion
def _scale(s: Value, x: Tree) -> Tree:
    return tree_map(lambda a: (s * a).astype(a.dtype), x)


def _where(which: Value, x: Tree, y: Tree) -> Tree:
    return tree_map(lambda a, b: qnp.where(which, a, b), x, y)


# -- arguments --------------------------------------------------------------------------------------------------------------------


def _as_operator(name: str, argument: str, A: Any) -> Operator:
    """The function that applies an operator: a callable, or a square matrix."""
    if callable(A):
        return A
    shape = getattr(A, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != shape[1]:
        got = type(A).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ValueError(f"{_MODULE}.{name}: {argument} must be a function or a square matrix, got {got}")
    # An object with `@` of its own is applied by it.
    return functools.partial(qnp.matmul if hasattr(A, "dtype") else operator.matmul, A)


def _identity(x: Tree) -> Tree:
    return x


def _inexact(x: Any) -> Value:
    x = qnp.asarray(x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.canonicalize(dtypes.float64))


def _solve(
    name: str, method: Callable[..., Tree], A: Any, b: Tree, x0: Tree, M: Any, maxiter: int | None, tol: Any,
    atol: Any, symmetric: bool,
) -> tuple[Tree, None]:  # fmt: skip
    b = tree_map(_inexact, b)
    x0 = tree_map(qnp.zeros_like, b) if x0 is None else tree_map(_inexact, x0)
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(
            f"{_MODULE}.{name}: x0 and b must have the same tree structure, got {tree_structure(x0)} and {tree_structure(b)}"
        )
    for i, (x, y) in enumerate(zip(tree_leaves(x0), tree_leaves(b))):
        if x.shape != y.shape:
            raise ValueError(
                f"{_MODULE}.{name}: x0 and b must have the same shapes, got {x.shape} and {y.shape} as leaf {i}"
            )
    x0 = tree_map(lambda x, y: x.astype(y.dtype), x0, b)
    apply = _as_operator(name, "A", A)
    preconditioner = _identity if M is None else _as_operator(name, "M", M)
    size = sum(x.size for x in tree_leaves(b))
    most = 10 * size if maxiter is None else int(maxiter)

    def solve(apply: Operator, b: Tree) -> Tree:
        return method(apply, b, x0, preconditioner, most, tol, atol)

    def transposed_preconditioner(y: Tree) -> Tree:
        return linear_transpose(preconditioner, b)(y)[0]

    def transposed(apply: Operator, y: Tree) -> Tree:
        m = _identity if M is None else transposed_preconditioner
        return method(apply, y, tree_map(qnp.zeros_like, b), m, most, tol, atol)

    # A Hermitian operator is its own transpose only where it is real.
    symmetric = symmetric and not any(dtypes.is_complex(x.dtype) for x in tree_leaves(b))
    return custom_linear_solve(apply, b, solve, transposed, symmetric=symmetric), None


def _threshold(b: Tree, tol: Any, atol: Any) -> Value:
    """The square of max(tol |b|, atol)."""
    size = _square(b)
    return qnp.maximum(size * tol**2, atol**2).astype(size.dtype)


# -- methods ----------------------------------------------------------------------------------------------------------------------


def _cg(apply: Operator, b: Tree, x0: Tree, M: Operator, most: int, tol: Any, atol: Any) -> Tree:
    limit = _threshold(b, tol, atol)
    r = _sub(b, apply(x0))
    z = M(r)
    gamma = qnp.real(_dot(r, z))

    def unfinished(state: Any) -> Value:
        _, r, gamma, _, k = state
        left = gamma if M is _identity else _square(r)
        return (left > limit) & (k < most)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        ap = apply(p)
        alpha = gamma / qnp.real(_dot(p, ap))
        x, r = _add(x, _scale(alpha, p)), _sub(r, _scale(alpha, ap))
        z = M(r)
        after = qnp.real(_dot(r, z))
        return x, r, after, _add(z, _scale(after / gamma, p)), k + 1

    return while_loop(unfinished, step, (x0, r, gamma, z, np.int32(0)))[0]


def _bicgstab(apply: Operator, b: Tree, x0: Tree, M: Operator, most: int, tol: Any, atol: Any) -> Tree:
    limit = _threshold(b, tol, atol)
    r = shadow = _sub(b, apply(x0))
    one = qnp.ones((), qnp.result_type(*tree_leaves(b)))

    def unfinished(state: Any) -> Value:
        _, r, *_, k = state
        # k becomes negative where the method breaks down.
        return (_square(r) > limit) & (k < most) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, alpha, omega, rho, p, q, k = state
        after = _dot(shadow, r)
        beta = after / rho * alpha / omega
        p = _add(r, _scale(beta, _sub(p, _scale(omega, q))))
        phat = M(p)
        q = apply(phat)
        alpha = after / _dot(shadow, q)
        s = _sub(r, _scale(alpha, q))
        early = _square(s) < limit
        shat = M(s)
        t = apply(shat)
        omega = _dot(t, s) / _dot(t, t)
        half = _add(x, _scale(alpha, phat))
        x = _where(early, half, _add(half, _scale(omega, shat)))
        r = _where(early, s, _sub(s, _scale(omega, t)))
        broken = ~early & ((omega == 0) | (alpha == 0)) | (after == 0)
        k = qnp.where(broken, np.int32(-11), k + np.int32(1))
        return x, r, alpha, omega, after, p, q, k

    zero = tree_map(qnp.zeros_like, b)
    return while_loop(unfinished, step, (x0, r, one, one, one, zero, zero, np.int32(0)))[0]


def _gmres(restart: int, incremental: bool) -> Callable[..., Tree]:
    def method(apply: Operator, b: Tree, x0: Tree, M: Operator, most: int, tol: Any, atol: Any) -> Tree:
        limit = qnp.sqrt(_threshold(b, tol, atol))
        start = M(_sub(b, apply(x0)))
        # The preconditioned residual is compared with the preconditioned right-hand side.
        scale = qnp.sqrt(_square(M(b))) / qnp.maximum(qnp.sqrt(_square(b)), np.finfo(limit.dtype).tiny)
        limit = limit if M is _identity else limit * scale

        def unfinished(state: Any) -> Value:
            _, _, norm, k = state
            return (norm > limit) & (k < most)

        def cycle(state: Any) -> Any:
            x, r, norm, k = state
            x = _arnoldi(apply, M, x, r, norm, restart, limit if incremental else None)
            r = M(_sub(b, apply(x)))
            return x, r, qnp.sqrt(_square(r)), k + 1

        return while_loop(unfinished, cycle, (x0, start, qnp.sqrt(_square(start)), np.int32(0)))[0]

    return method


def _arnoldi(apply: Operator, M: Operator, x: Tree, r: Tree, norm: Value, restart: int, limit: Value | None) -> Tree:
    """One cycle: the x of the Krylov space of `restart` dimensions with the least residual."""
    dtype = qnp.result_type(*tree_leaves(r))
    basis = tree_map(lambda v: qnp.zeros((restart + 1, *v.shape), v.dtype).at[0].set(v / norm.astype(v.dtype)), r)
    h = qnp.zeros((restart + 1, restart), dtype)

    def along(basis: Tree, v: Tree) -> Value:
        """The inner products of all vectors of the basis with v."""
        parts = [qnp.tensordot(qnp.conj(q), u, u.ndim) for q, u in zip(tree_leaves(basis), tree_leaves(v))]
        return functools.reduce(lambda s, t: s + t, parts)

    def step(k: Any, state: Any) -> Any:
        basis, h = state
        v = M(apply(tree_map(lambda q: q[k], basis)))
        before = qnp.sqrt(_square(v))
        column = qnp.zeros((restart + 1,), dtype)
        for _ in range(2):  # Gram and Schmidt, twice for orthogonality to rounding
            part = along(basis, v)
            v = tree_map(lambda u, q, part=part: u - qnp.tensordot(part.astype(q.dtype), q, 1), v, basis)
            column = column + part
        length = qnp.sqrt(_square(v))
        # The space is complete: the next vector is 0.
        done = length <= np.finfo(length.dtype).eps * before
        inverse = qnp.where(done, 0, 1 / qnp.where(done, 1, length))
        basis = tree_map(lambda q, u: q.at[k + 1].set((u * inverse.astype(u.dtype)).astype(q.dtype)), basis, v)
        column = column.at[k + 1].set(qnp.where(done, 0, length).astype(dtype))
        return basis, h.at[:, k].set(column)

    if limit is None:
        basis, h = fori_loop(0, restart, step, (basis, h))
    else:

        def more(state: Any) -> Value:
            _, h, k, residual = state
            return (k < restart) & (residual > limit)

        def next_step(state: Any) -> Any:
            basis, h, k, _ = state
            basis, h = step(k, (basis, h))
            y, rhs = _least_squares(h, norm, restart, dtype)
            return basis, h, k + 1, qnp.sqrt(_square(rhs - h @ y))

        basis, h, _, _ = while_loop(more, next_step, (basis, h, np.int32(0), norm))
    y, _ = _least_squares(h, norm, restart, dtype)
    return tree_map(lambda v, q: v + qnp.tensordot(y.astype(q.dtype), q[:-1], 1), x, basis)


def _least_squares(h: Value, norm: Value, restart: int, dtype: Any) -> tuple[Value, Value]:
    """The y of least ``|norm e_0 - h y|``, and the right-hand side; columns of zeros give zeros."""
    rhs = qnp.zeros((restart + 1,), dtype).at[0].set(norm.astype(dtype))
    q, r = qnp.linalg.qr(h)
    size = qnp.abs(qnp.diagonal(r))
    tiny = size <= np.finfo(size.dtype).eps * qnp.max(size)
    r = qnp.where(tiny[:, None] & qnp.eye(restart, dtype=bool), 1, r)
    y = qnp.where(tiny, 0, qnp.conj(q.T) @ rhs)
    return sl.solve_triangular(r, y), rhs


# -- public functions -------------------------------------------------------------------------------------------------------------


def cg(
    A: Any, b: Tree, x0: Tree | None = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None,
    M: Any = None,
) -> tuple[Tree, None]:  # fmt: skip
    """The solution of ``A x = b`` for Hermitian positive definite A by conjugate gradients.

    Args:
        A: a linear function of a pytree like b, or a square matrix.
        b: a pytree of arrays, real or complex.
        x0: where to start; zeros by default.
        tol, atol: it ends when the residual's norm is at most ``max(tol * norm(b), atol)``.
        maxiter: the most iterations; ten times b's size by default.
        M: a preconditioner like A, near to A's inverse.

    Returns (x, None). Differentiable with respect to b and what A closes over.

    Follows `scipy.sparse.linalg.cg`.

    >>> x, _ = quire.scipy.sparse.linalg.cg(lambda x: 2 * x, quire.numpy.array([2., 4.]))
    >>> x
    Array([1., 2.], dtype=float32)
    """
    return _solve("cg", _cg, A, b, x0, M, maxiter, tol, atol, True)


def bicgstab(
    A: Any, b: Tree, x0: Tree | None = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None,
    M: Any = None,
) -> tuple[Tree, None]:  # fmt: skip
    """The solution of ``A x = b`` for general A by the stabilised biconjugate gradient method; arguments as `cg`'s.

    Follows `scipy.sparse.linalg.bicgstab`.

    >>> x, _ = quire.scipy.sparse.linalg.bicgstab(quire.numpy.array([[2., 0.], [0., 4.]]), quire.numpy.array([2., 4.]))
    >>> quire.numpy.round(x, 3)
    Array([1., 1.], dtype=float32)
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, M, maxiter, tol, atol, False)


def gmres(
    A: Any, b: Tree, x0: Tree | None = None, *, tol: Any = 1e-5, atol: Any = 0.0, restart: int = 20,
    maxiter: int | None = None, M: Any = None, solve_method: str = "batched",
) -> tuple[Tree, None]:  # fmt: skip
    """The solution of ``A x = b`` for general A by the generalised minimal residual method.

    Args:
        restart: after how many iterations the Krylov space is built anew: memory grows with it.
        maxiter: the most times that it is.
        solve_method: "batched": one least-squares solution each time; "incremental": one each iteration, which ends
            as soon as the residual is small.

    The other arguments are those of `cg`. Follows `scipy.sparse.linalg.gmres`.

    Raises:
        ValueError: `solve_method` is neither of these.

    >>> x, _ = quire.scipy.sparse.linalg.gmres(quire.numpy.array([[2., 1.], [0., 4.]]), quire.numpy.array([3., 4.]))
    >>> quire.numpy.round(x, 3)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"{_MODULE}.gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}")
    size = sum(qnp.size(x) for x in tree_leaves(b))
    method = _gmres(max(min(int(restart), size), 1), solve_method == "incremental")
    return _solve("gmres", method, A, b, x0, M, maxiter, tol, atol, False)


__all__ = ["bicgstab", "cg", "gmres"]

__getattr__ = module_getattr(_MODULE, globals())

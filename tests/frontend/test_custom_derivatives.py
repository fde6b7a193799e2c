# ruff: noqa: E501 - tables
"""custom_jvp, custom_vjp, custom_gradient, closure_convert, custom_root, custom_linear_solve: against JAX, and errors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.custom_derivatives import SymbolicZero

from .jax_oracle import X, check

A = np.array([[2.0, 0.5], [0.3, 1.0]], np.float32)


def jvp_product(q: Any, n: Any) -> Any:
    """sin(x) y with the derivative 2 cos(x) y, 3 sin(x)."""

    @q.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return n.sin(x) * y

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        return f(x, y), 2 * n.cos(x) * y * tx + 3 * n.sin(x) * ty

    return f


def jvp_apply(q: Any) -> Any:
    @functools.partial(q.custom_jvp, nondiff_argnums=(0,))
    def apply(f: Any, x: Any) -> Any:
        return f(x)

    @apply.defjvp
    def _(f: Any, primals: Any, tangents: Any) -> Any:
        return apply(f, primals[0]), 5 * tangents[0]

    return apply


def jvp_each(q: Any) -> Any:
    @q.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, out, x, y: 7 * t * out, None)
    return f


def jvp_symbolic(q: Any) -> Any:
    @q.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        assert type(ty).__name__ == "SymbolicZero" and type(tx).__name__ != "SymbolicZero"
        return f(x, y), 3 * tx * y

    f.defjvp(rule, symbolic_zeros=True)
    return f


def vjp_tree(q: Any, n: Any) -> Any:
    @q.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return n.sin(x) * y["a"]

    def fwd(x: Any, y: Any) -> Any:
        return f(x, y), (n.cos(x), n.sin(x), y)

    def bwd(residuals: Any, ct: Any) -> Any:
        c, s, y = residuals
        return 2 * c * y["a"] * ct, {"a": s * ct}

    f.defvjp(fwd, bwd)
    return f


def vjp_nondiff(q: Any) -> Any:
    @functools.partial(q.custom_vjp, nondiff_argnums=(0, 2))
    def f(g: Any, x: Any, k: Any) -> Any:
        return g(x) * k

    f.defvjp(lambda g, x, k: (f(g, x, k), x), lambda g, k, x, ct: (x * k * ct,))
    return f


def vjp_symbolic(q: Any) -> Any:
    @q.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y, y

    def fwd(x: Any, y: Any) -> Any:
        assert x.perturbed and not y.perturbed
        return (x.value * y.value, y.value), (x.value, y.value)

    def bwd(residuals: Any, cts: Any) -> Any:
        assert type(cts[1]).__name__ == "SymbolicZero"
        return cts[0] * residuals[1], None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


def vjp_of(q: Any, f: Any, fwd: Any, bwd: Any) -> Any:
    wrapped = q.custom_vjp(f)
    wrapped.defvjp(fwd, bwd)
    return wrapped


def converted(q: Any, n: Any, z: Any) -> Any:
    f, values = q.closure_convert(lambda x: n.sin(x) * z, 1.0)
    return f(2.0, *values)


def square_root(n: Any, l: Any, a: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return l.while_loop(lambda x: n.abs(f(x)) > 1e-6, lambda x: x - f(x) / (2 * x), x)

    return l.custom_root(lambda x: x**2 - a, 1.0, solve, lambda g, y: y / g(1.0))


def solve2(n: Any, l: Any, a: Any, b: Any) -> Any:
    def inverse(m: Any, r: Any) -> Any:
        det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        return n.stack([m[1, 1] * r[0] - m[0, 1] * r[1], m[0, 0] * r[1] - m[1, 0] * r[0]]) / det

    return l.custom_linear_solve(lambda x: a @ x, b, lambda mv, r: inverse(a, r), lambda vm, r: inverse(a.T, r))


Y = {"a": 2.0}
CASES: dict[str, Any] = {
    "jvp": lambda q, n, l: q.grad(jvp_product(q, n), (0, 1))(1.0, 2.0),
    "jvp value": lambda q, n, l: jvp_product(q, n)(1.0, y=2.0),
    "jvp twice": lambda q, n, l: q.grad(q.grad(jvp_product(q, n)))(1.0, 2.0),
    "jvp jit vmap": lambda q, n, l: q.jit(q.vmap(q.grad(jvp_product(q, n)), in_axes=(0, None)))(X, 2.0),
    "jvp grad of vmap": lambda q, n, l: q.grad(lambda x: q.vmap(jvp_product(q, n), in_axes=(0, None))(x, 2.0).sum())(X),
    "jvp of jvp": lambda q, n, l: q.jvp(lambda x: q.jvp(lambda y: jvp_product(q, n)(y, x), (x,), (1.0,)), (1.0,), (1.0,)),
    "jvp nondiff": lambda q, n, l: q.grad(lambda x: jvp_apply(q)(lambda y: y**2, x))(2.0),
    "jvp closed-over": lambda q, n, l: q.jit(lambda z: q.grad(lambda x: jvp_apply(q)(lambda y: y**2 * z, x))(3.0))(2.0),
    "jvp each": lambda q, n, l: q.grad(jvp_each(q), (0, 1))(2.0, 3.0),
    "jvp symbolic zeros": lambda q, n, l: q.grad(lambda x: jvp_symbolic(q)(x, 3.0))(2.0),
    "jvp in scan": lambda q, n, l: q.grad(lambda x: l.scan(lambda c, _: (jvp_product(q, n)(c, 2.0), None), x, None, length=3)[0])(1.0),
    "vjp": lambda q, n, l: q.grad(vjp_tree(q, n), (0, 1))(1.0, Y),
    "vjp twice": lambda q, n, l: q.grad(q.grad(vjp_tree(q, n)))(1.0, Y),
    "vjp vmap of grad": lambda q, n, l: q.vmap(q.grad(vjp_tree(q, n), (0, 1)), in_axes=(0, None))(X, Y),
    "vjp grad of vmap": lambda q, n, l: q.grad(lambda x, y: q.vmap(vjp_tree(q, n), in_axes=(0, None))(x, y).sum(), (0, 1))(X, Y),
    "vjp jit": lambda q, n, l: q.jit(q.grad(lambda x, y: q.vmap(vjp_tree(q, n), in_axes=(0, None))(x, y).sum(), (0, 1)))(X, Y),
    "vjp vmap vmap": lambda q, n, l: q.vmap(q.vmap(q.grad(vjp_tree(q, n)), in_axes=(0, None)))(np.stack([X, X]), {"a": X[:2]}),
    "vjp in scan": lambda q, n, l: q.grad(lambda x: l.scan(lambda c, _: (vjp_tree(q, n)(c, Y), None), x, None, length=3)[0])(1.0),
    "vjp in checkpoint": lambda q, n, l: q.grad(q.checkpoint(lambda x: vjp_tree(q, n)(n.sin(x), {"a": x})))(1.0),
    "vjp in cond": lambda q, n, l: q.grad(lambda x: l.cond(x > 0, lambda x: vjp_tree(q, n)(x, {"a": x}), lambda x: x, x))(1.0),
    "vjp of jit": lambda q, n, l: q.grad(q.jit(vjp_tree(q, n)))(1.0, Y),
    "vjp nondiff": lambda q, n, l: q.grad(lambda x: vjp_nondiff(q)(n.sin, x, 3))(2.0),
    "vjp keywords": lambda q, n, l: q.grad(lambda x: vjp_nondiff(q)(n.sin, x=x, k=3))(2.0),
    "vjp symbolic zeros": lambda q, n, l: q.grad(lambda x: vjp_symbolic(q)(x, 3.0)[0])(2.0),
    "vjp int": lambda q, n, l: q.grad(vjp_of(q, lambda x, i: x * i, lambda x, i: (x * i, i), lambda i, g: (g * i, None)))(2.0, 3),
    "gradient": lambda q, n, l: q.grad(q.custom_gradient(lambda x: (x**2, lambda g: (g * x * 5,))))(3.0),
    "gradient of two": lambda q, n, l: q.grad(q.custom_gradient(lambda x, y: (x * y, lambda g: (g * y * 5, g * x))), (0, 1))(3.0, 4.0),
    "closure_convert": lambda q, n, l: q.grad(lambda z: converted(q, n, z))(3.0),
    "root": lambda q, n, l: q.grad(lambda a: square_root(n, l, a))(2.0),
    "root jvp": lambda q, n, l: q.jvp(lambda a: square_root(n, l, a), (2.0,), (1.0,)),
    "linear solve": lambda q, n, l: q.grad(lambda a, b: (solve2(n, l, a, b) ** 2).sum(), (0, 1))(A, X[:2]),
    "linear solve jvp": lambda q, n, l: q.jvp(lambda b: solve2(n, l, n.asarray(A), b), (X[:2],), (X[1:],)),
    "linear solve vmap": lambda q, n, l: q.vmap(lambda b: solve2(n, l, n.asarray(A), b))(A),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    check(CASES[name])


def solutions_of_weak_type(q: Any, n: Any, l: Any) -> Any:
    """Solutions times halves, whose dtypes tell of which type the solutions are."""
    halves, strong = n.ones(2, n.bfloat16), n.float32(2)

    def root(guess: Any, by: Any = 2.0, aux: Any = None) -> Any:
        def solve(f: Any, x: Any) -> Any:
            found = x - f(x) / (by * x)
            return found if aux is None else (found, aux(x))

        return l.custom_root(lambda x: x * x - 2.0, guess, solve, lambda g, y: y / g(1.0), has_aux=aux is not None)

    def solution(b: Any, factor: Any = 2.0, aux: Any = None) -> Any:
        def solve(matvec: Any, r: Any) -> Any:
            return r / 2.0 if aux is None else (r / 2.0, aux(r))

        return l.custom_linear_solve(lambda x: x * factor, b, solve, symmetric=True, has_aux=aux is not None)

    found = [root(1.5), q.jit(root)(1.5), root(strong), root(1.5, strong), root(1.5, aux=lambda x: (x, x * strong))]
    found += [
        solution(1.5),
        q.jit(solution)(1.5),
        solution(strong),
        solution(1.5, strong),
        solution(1.5, aux=lambda r: r),
    ]
    found += [q.jvp(solution, (1.5,), (1.0,)), q.jvp(lambda x: root(1.5, x), (2.0,), (1.0,))]
    found += [
        q.jvp(lambda x: x * 1j, (1.5,), (1.0,)),
        q.jvp(lambda x: x**2.5, (1.5,), (1.0,)),
        q.jacfwd(lambda x: x * 1j)(1.5),
    ]
    return q.tree_util.tree_map(lambda x: x * halves, found)


def test_weak_types_of_solutions_and_tangents() -> None:
    check(solutions_of_weak_type, rtol=1e-2)


def identity_vjp(bwd: Any) -> Any:
    return lambda: quire.grad(vjp_of(quire, lambda x: x, lambda x: (x, None), bwd))(2.0)


def identity_jvp(rule: Any) -> Any:
    f = quire.custom_jvp(lambda x: x)
    f.defjvp(rule)
    return lambda: quire.grad(f)(2.0)


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "no jvp rule": (lambda: quire.custom_jvp(lambda x: x)(2.0), AttributeError, r"no jvp rule is defined for the custom_jvp function <lambda>"),
    "no vjp rule": (lambda: quire.custom_vjp(lambda x: x)(2.0), AttributeError, "custom_vjp function <lambda>"),
    "jvp pair": (identity_jvp(lambda p, t: p[0]), TypeError, "must return a pair"),
    "jvp tangent": (identity_jvp(lambda p, t: (p[0], X)), TypeError, r"tangent of type f32\[\] for the output f32\[\].*got f32\[3\]"),
    "jvp tree": (identity_jvp(lambda p, t: ((p[0],), t)), TypeError, "must return the output's tree structure"),
    "vjp tuple": (identity_vjp(lambda r, g: g), TypeError, "must return a tuple with a cotangent for each of its 1"),
    "vjp shape": (identity_vjp(lambda r, g: (qnp.ones(3),)), ValueError, r"cotangent of shape \(\) for argument 0.*got f32\[3\]"),
    "vjp residuals": (
        lambda: quire.grad(vjp_of(quire, lambda x: x, lambda x: x, lambda r, g: (g,)))(2.0), TypeError,
        r"forward rule of <lambda> must return a pair \(output, residuals\)",
    ),
    "closed-over": (
        lambda: quire.grad(lambda z: jvp_apply(quire)(lambda y: y * z, z * 1.0))(2.0), TypeError, "a value it closes over"
    ),
    "no array": (lambda: jvp_product(quire, qnp)("a", 1.0), TypeError, "an argument holds 'a' of type str.*nondiff_argnums"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    f, kind, text = ERRORS[name]
    with pytest.raises(kind, match=f"(?s){text}"):
        f()


def test_symbolic_zero_has_an_arrays_facts() -> None:
    z = SymbolicZero.from_primal_value(qnp.ones((2, 3)))
    assert z.shape == (2, 3) and z.dtype == np.float32 and "f32[2,3]" in repr(z)


def test_a_function_is_used_under_its_own_rule_in_compiled_programs() -> None:
    f = jvp_product(quire, qnp)
    both = quire.jit(lambda x: (f(x, 2.0), quire.grad(f)(x, 2.0)))(1.0)
    np.testing.assert_allclose(both[0], np.sin(1.0) * 2, rtol=1e-6)
    np.testing.assert_allclose(both[1], 4 * np.cos(1.0), rtol=1e-6)


def test_rules_have_the_width_of_numbers_of_the_call():
    """A rule is asked for when the block around the call is over; its results fit the function's nevertheless."""
    squared, cubed = quire.custom_vjp(lambda x: x**2.0), quire.custom_jvp(lambda x: x**3.0)
    seen = []

    def forward(x):
        seen.append(quire.config.x64_enabled)
        return squared(x), qnp.sin(x)

    squared.defvjp(forward, lambda r, t: (r * t,))

    @cubed.defjvp
    def _(primals, tangents):
        seen.append(quire.config.x64_enabled)
        return cubed(*primals), tangents[0] * qnp.sin(primals[0])

    for f in (squared, cubed):

        def g(x, f=f):
            with quire.enable_x64(True):
                return f(qnp.array(x, qnp.float64))

        assert g(5.0).dtype == np.float64
        for derivative in (quire.grad(g), quire.grad(quire.grad(g)), quire.jit(quire.grad(g))):
            assert derivative(5.0).dtype == np.float32
    assert len(seen) >= 6 and all(seen)

"""Solutions of equations, differentiated through the equation: custom_linear_solve, custom_root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import eval_jaxpr, trace_flat
from quire.passes.ad.jvp import jvp_eval
from quire.passes.ad.linearize import linearize_eval
from quire.passes.ad.rules import Zero, instantiate, is_zero
from quire.passes.ad.transpose import transpose_jaxpr
from quire.tree_util import flatten_arrays, tree_unflatten

from ._tracing import Traced, check_callable, show_tree, trace


def _check_like(
    api: str, what: str, got: Traced, tree: Any, avals: Sequence[ShapedArray], n: int | None = None
) -> None:
    out = got.out_avals[:n]
    if n is None and got.out_tree != tree:
        raise TypeError(f"{api}: {what} must return the structure {show_tree(tree)}, got {show_tree(got.out_tree)}")
    if [a.strong() for a in out] != [a.strong() for a in avals]:
        raise TypeError(
            f"{api}: {what} must return ({', '.join(a.short() for a in avals)}), "
            f"got ({', '.join(a.short() for a in out)})"
        )


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve the linear equation ``matvec(x) = b`` for x, differentiated through the equation.

    Args:
        matvec: a linear function of a pytree like b.
        b: the right-hand side, a pytree of arrays.
        solve: ``solve(matvec, b)`` returns x, like b (and auxiliary output if `has_aux`).
        transpose_solve: ``transpose_solve(vecmat, b)`` solves with the transposed function; needed for reverse mode
            unless `symmetric`.
        symmetric: matvec is its own transpose.

    Returns x, or (x, aux). Raises TypeError when a function returns other types than b's.

    Example: ``lax.custom_linear_solve(lambda x: a @ x, b, lambda mv, b: cg(mv, b), symmetric=True)``.
    """
    api = "custom_linear_solve"
    for name, f in (("matvec", matvec), ("solve", solve)):
        check_callable(api, name, f)
    if symmetric and transpose_solve is None:
        transpose_solve = solve
    leaves, tree = flatten_arrays(b)
    avals = [aval_of(x) for x in leaves]
    in_tree = flatten_arrays((b,))[1]
    n = len(avals)
    mv = trace(matvec, in_tree, avals, "matvec")
    _check_like(api, "matvec", mv, tree, avals)
    aux_tree: Any = None

    def solving(f: Callable[..., Any], function: Callable[[Any], Any], what: str) -> Traced:
        def run(b: Any) -> Any:
            nonlocal aux_tree
            out = f(function, b)
            if not has_aux:
                return out
            x, aux = out
            aux_leaves, aux_tree = flatten_arrays(aux)
            return x, tuple(aux_leaves)

        run.__name__ = getattr(f, "__name__", what)
        traced = trace(run, in_tree, avals, what)
        _check_like(api, what, traced, tree, avals, n if has_aux else None)
        return traced

    s = solving(solve, matvec, "solve")
    jaxprs: list[ClosedJaxpr | None] = [mv.closed, None, s.closed, None]
    consts: list[list[Any]] = [mv.captured, [], s.captured, []]
    if transpose_solve is not None:
        if symmetric:
            jaxprs[1], consts[1] = mv.closed, mv.captured
        else:
            n_consts = len(mv.captured)
            t = transpose_jaxpr(mv.closed, (*(False,) * n_consts, *(True,) * n), (True,) * n, (True,) * n)
            jaxprs[1], consts[1] = t.closed, [*t.captured, *mv.captured]
        closed, given = jaxprs[1], consts[1]

        def vecmat(x: Any) -> Any:
            values, _ = flatten_arrays(x)
            return tree_unflatten(tree, eval_jaxpr(closed.jaxpr, (), [*given, *values]))

        ts = solving(transpose_solve, vecmat, "transpose_solve")
        jaxprs[3], consts[3] = ts.closed, ts.captured
    leaves = [ew.convert_element_type(x, a.dtype, weak_type=a.weak_type) for x, a in zip(leaves, avals)]
    out = calls.custom_linear_solve_p.bind(
        *(x for part in consts for x in part), *leaves, const_lengths=tuple(map(len, consts)), jaxprs=tuple(jaxprs)
    )
    x = tree_unflatten(tree, out[:n])
    return (x, tree_unflatten(aux_tree, out[n:])) if has_aux else x


@dataclass(frozen=True)
class _RootJvp:
    """The derivative of a root: ``f(x, params) = 0``, so ``df/dx dx = -df/dparams dparams``.

    Operands of the call: the parameters of f, the consts of the linear solver, the rest (guess, consts of the solver).
    """

    f: ClosedJaxpr  # parameters, x -> f(x)
    tangent_solve: ClosedJaxpr  # consts, parameters, x, b -> solution of (df/dx) y = b
    call: ClosedJaxpr
    n_params: int
    n_consts: int
    n_out: int

    def __call__(self, primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        out = bind_root(self, primals)
        x = out[: self.n_out]
        params, consts = primals[: self.n_params], primals[self.n_params : self.n_params + self.n_consts]
        _, rhs = jvp_eval(
            self.f.jaxpr, [*params, *x], [*tangents[: self.n_params], *(Zero(aval_of(y).tangent()) for y in x)]
        )
        aux = [Zero(aval_of(y).tangent()) for y in out[self.n_out :]]
        if all(map(is_zero, rhs)):
            return out, [*(Zero(aval_of(y).tangent()) for y in x), *aux]
        b = [ew.neg(instantiate(t)) for t in rhs]
        dx = eval_jaxpr(self.tangent_solve.jaxpr, (), [*consts, *params, *x, *b])
        return out, [*dx, *aux]


def bind_root(rule: _RootJvp, operands: Sequence[Any]) -> list[Any]:
    """The call that finds the root, with its derivative."""
    return calls.custom_jvp_call_p.bind(
        *operands, name="custom_root", call_jaxpr=rule.call, jvp_jaxpr_fun=rule, num_consts=0, symbolic_zeros=True
    )


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root of f found by `solve`, differentiated through the equation ``f(x) = 0`` (implicit differentiation).

    Args:
        f: a function from a pytree to one of the same types; it may close over values, which can be differentiated.
        initial_guess: a pytree of arrays.
        solve: ``solve(f, initial_guess)`` returns the root (and auxiliary output if `has_aux`).
        tangent_solve: ``tangent_solve(g, y)`` solves ``g(x) = y`` for a linear function g; it must be differentiable
            itself (`custom_linear_solve`) for reverse mode.

    Returns the root, or (root, aux). Raises TypeError when a function returns other types than the guess's.

    Example: ``lax.custom_root(lambda x: x**3 - a, 1., newton, lambda g, y: y / g(1.))``.
    """
    api = "custom_root"
    for name, function in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_callable(api, name, function)
    leaves, tree = flatten_arrays(initial_guess)
    avals = [aval_of(x) for x in leaves]
    leaves = [ew.convert_element_type(x, a.dtype, weak_type=a.weak_type) for x, a in zip(leaves, avals)]
    in_tree = flatten_arrays((initial_guess,))[1]
    n = len(avals)
    traced_f = trace(f, in_tree, avals, "f")
    _check_like(api, "f", traced_f, tree, avals)
    params = traced_f.captured
    aux_tree: Any = None

    def run(guess: Any) -> Any:
        nonlocal aux_tree
        out = solve(f, guess)
        if not has_aux:
            return out
        x, aux = out
        aux_leaves, aux_tree = flatten_arrays(aux)
        return x, tuple(aux_leaves)

    solving = trace(run, in_tree, avals, "solve")
    _check_like(api, "solve", solving, tree, avals, n if has_aux else None)

    def linear_solve(*xs: Any) -> list[Any]:
        given, x, b = xs[: len(params)], xs[len(params) : -n], xs[-n:]
        nonzeros = (*((False,) * len(params)), *((True,) * n))
        _, linear = linearize_eval(traced_f.jaxpr, [*given, *x], nonzeros)

        def g(y: Any) -> Any:
            values, _ = flatten_arrays(y)
            ts = iter(eval_jaxpr(linear.closed.jaxpr, (), [*linear.residuals, *values]))
            full = [next(ts) if nz else instantiate(Zero(a)) for nz, a in zip(linear.nonzeros, linear.out_avals)]
            return tree_unflatten(tree, full)

        out, out_tree = flatten_arrays(tangent_solve(g, tree_unflatten(tree, b)))
        if out_tree != tree:
            raise TypeError(
                f"{api}: tangent_solve must return the structure {show_tree(tree)}, got {show_tree(out_tree)}"
            )
        return out

    tangent_jaxpr, consts, _ = trace_flat(linear_solve, [*map(aval_of, params), *avals, *avals], name="tangent_solve")
    # The call takes f's parameters and the linear solver's consts first, though finding the root may not need them.
    jaxpr = solving.jaxpr
    n_captured = len(solving.captured)
    place = {id(x): i for i, x in enumerate(solving.captured)}
    extra = [x for x in solving.captured if all(x is not p for p in params)]
    operands = [*params, *consts, *extra, *leaves]

    def call(*xs: Any) -> list[Any]:
        by_id = {id(p): x for p, x in zip(params, xs)}
        by_id |= {id(p): x for p, x in zip(extra, xs[len(params) + len(consts) :])}
        captured = [by_id[id(x)] for x in solving.captured]
        return eval_jaxpr(jaxpr, (), [*captured, *xs[len(operands) - n :]])

    assert len(place) == n_captured
    call_jaxpr, outside, _ = trace_flat(call, [aval_of(x) for x in operands], name="custom_root")
    assert not outside
    rule = _RootJvp(traced_f.closed, ClosedJaxpr(tangent_jaxpr), ClosedJaxpr(call_jaxpr), len(params), len(consts), n)
    out = bind_root(rule, operands)
    x = tree_unflatten(tree, out[:n])
    return (x, tree_unflatten(aux_tree, out[n:])) if has_aux else x


__all__ = ["custom_linear_solve", "custom_root"]

"""Helpers that passes share: recursion into nested jaxprs, counting, fresh copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Params, Var, all_eqns, has_nested, map_nested

from .base import PassContext


def count_eqns(program: ClosedJaxpr | Jaxpr) -> int:
    """The number of equations, nested jaxprs included."""
    return sum(1 for _ in all_eqns(program.jaxpr if isinstance(program, ClosedJaxpr) else program))


def transform_nested(params: Params, context: PassContext, key: object, f: Callable[[Jaxpr], Jaxpr]) -> Params:
    """The parameters with `f` applied to each nested jaxpr, once for each object within the context.

    `key` tells the passes (and their options) apart.
    """
    if not params or not has_nested(params):
        return params

    def one(closed: ClosedJaxpr) -> ClosedJaxpr:
        found = context.nested.get((key, id(closed.jaxpr)))
        if found is None:
            new = f(closed.jaxpr)
            result = closed if new is closed.jaxpr else ClosedJaxpr(new, closed.consts)
            found = context.nested[key, id(closed.jaxpr)] = (closed, result)
        return found[1]

    return map_nested(params, one)


def with_params(eqn: Eqn, params: Params) -> Eqn:
    """The equation with other parameters, and the effects that they imply."""
    return eqn if params is eqn.params else eqn.replace(params=params, effects=eqn.primitive.effects(params))


def copy_eqns(
    jaxpr: Jaxpr, args: Sequence[Atom], env: dict[Var, Atom], use: Callable[[Eqn], None], caller: Eqn | None = None
) -> list[Atom]:
    """Give `use` a copy of each equation with fresh outputs, `args` for the inputs; returns the results' atoms.

    `env` receives what each variable became. Equations without a source get the caller's.
    """
    env.update(zip((*jaxpr.constvars, *jaxpr.invars), args, strict=True))

    def read(a: Atom) -> Atom:
        return env[a] if isinstance(a, Var) else a

    for eqn in jaxpr.eqns:
        outputs = [Var(v.aval) for v in eqn.outputs]
        source = eqn.source or (caller.source if caller is not None else None)
        use(Eqn([read(a) for a in eqn.inputs], outputs, eqn.primitive, eqn.params, eqn.effects, source))
        env.update(zip(eqn.outputs, outputs))
    return [read(a) for a in jaxpr.outvars]

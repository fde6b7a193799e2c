"""cse: compute what is computed twice once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, subst_eqn
from quire.ir.primitives import calls

from .base import Pass, PassContext, register_pass
from .rewriting import transform_nested, with_params


@register_pass
@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """Replace an equation by an earlier one with the same primitive, operands and parameters.

    Also inside nested jaxprs, each for itself; equal constants of the program become one. Equations with effects,
    copies, barriers and rematerialised computations stay.
    """

    name = "cse"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr, consts = _merge_consts(program)
        jaxpr = _cse(jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, consts)


def _merge_consts(program: ClosedJaxpr) -> tuple[Jaxpr, tuple[Any, ...]]:
    first: dict[Any, Var] = {}
    env: dict[Var, Atom] = {}
    kept: list[tuple[Var, Any]] = []
    constants: tuple[Any, ...] = program.consts
    for v, value in zip(program.jaxpr.constvars, constants):
        host = cast("np.ndarray[Any, Any]", value) if isinstance(value, np.ndarray) else None
        small = host is not None and v.aval.nbytes <= 4096
        key: Any = (host.tobytes(), v.aval) if host is not None and small else id(cast("object", value))
        same = first.get(key)
        if same is not None and same.aval is v.aval:
            env[v] = same
        else:
            first[key] = v
            kept.append((v, cast("Any", value)))
    j = program.jaxpr
    if not env:
        return j, program.consts
    eqns = [subst_eqn(eqn, env) for eqn in j.eqns]
    outvars = [env.get(a, a) if isinstance(a, Var) else a for a in j.outvars]
    return Jaxpr([v for v, _ in kept], j.invars, outvars, eqns), tuple(value for _, value in kept)


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _may_merge(eqn: Eqn) -> bool:
    if eqn.effects or not eqn.outputs or eqn.primitive.apart:
        return False
    return not (eqn.primitive is calls.checkpoint_p and eqn.params["prevent_cse"])


def _cse(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    env: dict[Var, Atom] = {}
    seen: dict[Any, Eqn] = {}
    order: dict[Atom, int] = {}
    eqns: list[Eqn] = []
    changed = False
    for old in jaxpr.eqns:
        eqn = subst_eqn(old, env)
        params = transform_nested(eqn.params, context, "cse", lambda j: _cse(j, context))
        eqn = with_params(eqn, params)
        changed = changed or eqn is not old
        if _may_merge(eqn):
            inputs: tuple[Atom, ...] = eqn.inputs
            if eqn.primitive.commutative:
                # Variables and literals in order of their first occurrence.
                a, b = (order.setdefault(x, len(order)) for x in inputs)
                inputs = inputs if a <= b else inputs[::-1]
            try:
                key = (eqn.primitive, inputs, tuple(sorted(eqn.params.items(), key=_name)) if eqn.params else ())
                same = seen.setdefault(key, eqn)
            except TypeError:  # a parameter that cannot be hashed
                same = eqn
            alike = same is not eqn and [v.aval for v in same.outputs] == [v.aval for v in eqn.outputs]
            if alike and context.may_rewrite():
                env.update(zip(eqn.outputs, same.outputs))
                context.rewrote(f"cse {eqn.primitive.name}", eqn)
                changed = True
                continue
        eqns.append(eqn)
    if not changed:
        return jaxpr
    outvars = [env.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns)

"""inline: replace calls of nested functions by their equations."""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subst_eqn
from quire.ir.primitives import calls, elementwise
from quire.ir.primitives.sharding import sharding_constraint_p

from .base import Pass, PassContext, register_pass
from .rewriting import copy_eqns, transform_nested, with_params


@register_pass
@dataclass(frozen=True)
class Inline(Pass):
    """Replace calls of compiled functions by their equations, also inside loops and branches.

    Options:
        derivatives: also calls that only matter to transformations: custom_jvp_call, custom_vjp_call, custom_vmap_call,
            name, sharding_constraint, and checkpoint where it does not hold a backward pass apart from the forward one.
    """

    name = "inline"
    derivatives: bool = True

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = self._jaxpr(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)

    def _body(self, eqn: Eqn) -> ClosedJaxpr | None:
        """The nested jaxpr that stands for the equation, if it is one to inline."""
        p = eqn.primitive
        if p is calls.jit_p:
            return eqn.params["jaxpr"]
        if self.derivatives:
            if p is calls.custom_jvp_call_p or p is calls.custom_vjp_call_p or p is calls.custom_vmap_call_p:
                return eqn.params["call_jaxpr"]
            if p is calls.checkpoint_p and not (eqn.params["differentiated"] and eqn.params["prevent_cse"]):
                return eqn.params["jaxpr"]
        return None

    def _jaxpr(self, jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
        env: dict[Var, Atom] = {}
        eqns: list[Eqn] = []
        changed = False

        def add(eqn: Eqn) -> None:
            nonlocal changed
            body = self._body(eqn)
            if body is not None and not body.consts and context.may_rewrite():
                context.rewrote(f"inline {eqn.primitive.name}", eqn)
                changed = True
                operands = [typed(a, v.aval, eqn) for a, v in zip(eqn.inputs, body.jaxpr.invars)]
                results = copy_eqns(body.jaxpr, operands, {}, lambda e: add(subst_eqn(e, env)), eqn)
                for v, a in zip(eqn.outputs, results, strict=True):
                    env[v] = env.get(a, a) if isinstance(a, Var) else a
            elif self.derivatives and (eqn.primitive is calls.name_p or eqn.primitive is sharding_constraint_p):
                # What it says matters to transformations and to partitioning, which come before.
                changed = True
                env[eqn.outputs[0]] = eqn.inputs[0]
            else:
                params = transform_nested(eqn.params, context, self, lambda j: self._jaxpr(j, context))
                changed = changed or params is not eqn.params
                eqns.append(with_params(eqn, params))

        def typed(a: Atom, aval: ShapedArray, caller: Eqn) -> Atom:
            """The operand with exactly the body's type: a call takes operands whose weak types differ."""
            if a.aval is aval:
                return a
            if isinstance(a, Literal):
                return Literal(a.value, aval)
            v = Var(aval)
            params = {"new_dtype": aval.dtype, "weak_type": aval.weak_type}
            eqns.append(Eqn([a], [v], elementwise.convert_element_type_p, params, source=caller.source))
            return v

        for eqn in jaxpr.eqns:
            add(subst_eqn(eqn, env))
        if not changed:
            return jaxpr
        outvars = [env.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars]
        return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns)

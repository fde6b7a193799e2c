"""hoist: compute before a loop what does not change in it.

Two things happen to scan, while and bounded_while, innermost loops first:

- a carry that the body returns as it takes it is one of the loop's consts, and its result is its initial value;
- an equation of the body (or of the condition) whose operands are consts or literals is computed once, before the
  loop, and its result is a new const, where that saves work: contractions, reductions, collectives, transcendental
  functions and the like always, other elementwise operations where the result is no larger than what it is computed from.
  Operations that only move or repeat elements stay inside unless a hoisted one needs them: a backend makes them part
  of what reads them.

A loop that runs no iteration computes the hoisted equations in vain; so equations with effects, and loops that may
not end, stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, subst_eqn
from quire.ir.primitives import calls, control_flow
from quire.ir.weights import FUNCTION

from .base import Pass, PassContext, register_pass
from .rewriting import transform_nested, with_params

_WORK = frozenset(("contraction", "reductions", "sorting", "linalg", "fft", "windows", "collectives"))
# They might never end: hoisted from a loop of no turns, one would be waited for in vain.
_ENDLESS = (control_flow.while_p, control_flow.bounded_while_p)


@register_pass
@dataclass(frozen=True)
class Hoist(Pass):
    """Compute before a loop what does not change in it, and make unchanged carries consts of the loop."""

    name = "hoist"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = _hoist(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)


def _hoist(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    env: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    changed = False
    for old in jaxpr.eqns:
        eqn = subst_eqn(old, env)
        eqn = with_params(eqn, transform_nested(eqn.params, context, "hoist", lambda j: _hoist(j, context)))
        if eqn.primitive in _LOOPS:
            eqn = _LOOPS[eqn.primitive](eqn, eqns, env, context)
        changed = changed or eqn is not old
        eqns.append(eqn)
    if not changed:
        return jaxpr
    return Jaxpr(jaxpr.constvars, jaxpr.invars, [_read(env, a) for a in jaxpr.outvars], eqns)


def _read(env: dict[Var, Atom], a: Atom) -> Atom:
    return env.get(a, a) if isinstance(a, Var) else a


@dataclass
class _Part:
    """One jaxpr of a loop while it is taken apart: its consts with the outer values, the rest of its inputs."""

    consts: list[Var]
    values: list[Atom]
    rest: list[Var]
    eqns: list[Eqn]
    outvars: list[Atom]

    @classmethod
    def of(cls, closed: ClosedJaxpr, values: Sequence[Atom]) -> _Part:
        j, n = closed.jaxpr, len(values)
        return cls(list(j.invars[:n]), list(values), list(j.invars[n:]), list(j.eqns), list(j.outvars))

    def closed(self) -> ClosedJaxpr:
        return ClosedJaxpr(Jaxpr((), [*self.consts, *self.rest], self.outvars, self.eqns))

    def settle(self, i: int, value: Atom) -> None:
        """Make the i-th of the other inputs a const with an outer value."""
        self.consts.append(self.rest.pop(i))
        self.values.append(value)

    def lift(self, out: list[Eqn], context: PassContext) -> None:
        """Move invariant equations to `out`; what the rest reads of them becomes a const."""
        known: dict[Var, Atom] = dict(zip(self.consts, self.values, strict=True))
        invariant: dict[Var, Eqn] = {}
        for eqn in self.eqns:
            p = eqn.primitive
            if eqn.effects or p.apart or p in _ENDLESS or not any(isinstance(a, Var) for a in eqn.inputs):
                continue
            if all(not isinstance(a, Var) or a in known or a in invariant for a in eqn.inputs):
                invariant.update((v, eqn) for v in eqn.outputs)
        lifted: dict[int, Eqn] = {}
        for eqn in self.eqns:
            if eqn.outputs and invariant.get(eqn.outputs[0]) is eqn and _pays(eqn, invariant):
                _need(eqn, invariant, lifted)
        if not lifted:
            return
        kept: list[Eqn] = []
        for eqn in self.eqns:
            if id(eqn) not in lifted:
                kept.append(eqn)
                continue
            outputs = [Var(v.aval) for v in eqn.outputs]
            out.append(eqn.replace(inputs=[_read(known, a) for a in eqn.inputs], outputs=outputs))
            known.update(zip(eqn.outputs, outputs))
            context.counters[f"hoist {eqn.primitive.name}"] += 1
        read = {a for eqn in kept for a in eqn.inputs if isinstance(a, Var)}
        read.update(a for a in self.outvars if isinstance(a, Var))
        for eqn in lifted.values():
            for v in eqn.outputs:
                if v in read:
                    self.consts.append(v)
                    self.values.append(known[v])
        self.eqns = kept


def _pays(eqn: Eqn, invariant: dict[Var, Eqn]) -> bool:
    """Whether reading the result is cheaper than computing it."""
    p = eqn.primitive
    if p.family in _WORK and p.weight or p.family == "elementwise" and p.weight >= FUNCTION:
        return True
    if p is calls.jit_p or p is control_flow.scan_p or p is control_flow.cond_p:
        return True
    if p.family != "elementwise":
        return False
    result = max(v.aval.nbytes for v in eqn.outputs)
    return result <= sum(_source_bytes(a, invariant) for a in eqn.inputs if isinstance(a, Var))


def _source_bytes(a: Var, invariant: dict[Var, Eqn]) -> int:
    """The bytes that stand behind an operand: those of what it repeats."""
    eqn = invariant.get(a)
    while eqn is not None and eqn.primitive.name in ("broadcast_in_dim", "reshape", "iota"):
        sources = [x for x in eqn.inputs if isinstance(x, Var)]
        if not sources:
            return 0
        a = sources[0]
        eqn = invariant.get(a)
    return a.aval.nbytes


def _need(eqn: Eqn, invariant: dict[Var, Eqn], lifted: dict[int, Eqn]) -> None:
    stack = [eqn]
    while stack:
        e = stack.pop()
        if id(e) in lifted:
            continue
        lifted[id(e)] = e
        stack.extend(invariant[a] for a in e.inputs if isinstance(a, Var) and a in invariant)


def _unchanged(part: _Part, outvars: Sequence[Atom], init: Sequence[Atom]) -> list[int]:
    """The carries that the body returns as it takes them, with their types."""
    return [i for i, (v, a, x) in enumerate(zip(part.rest, outvars, init)) if v is a and v.aval is x.aval]


def _scan(eqn: Eqn, out: list[Eqn], env: dict[Var, Atom], context: PassContext) -> Eqn:
    p = eqn.params
    n, m = p["num_consts"], p["num_carry"]
    if p["jaxpr"].consts:
        return eqn
    part = _Part.of(p["jaxpr"], eqn.inputs[:n])
    carry, xs, outputs = list(eqn.inputs[n : n + m]), eqn.inputs[n + m :], list(eqn.outputs)
    for i in reversed(_unchanged(part, part.outvars[:m], carry)):
        env[outputs.pop(i)] = carry[i]
        part.settle(i, carry.pop(i))
        del part.outvars[i]
        context.counters["unchanged carry"] += 1
    part.lift(out, context)
    if len(part.values) == n:
        return eqn
    linear = p["linear"] and (False,) * (len(part.values) + len(carry)) + p["linear"][n + m :]
    params = {**p, "jaxpr": part.closed(), "num_consts": len(part.values), "num_carry": len(carry), "linear": linear}
    return _replaced(eqn, [*part.values, *carry, *xs], outputs, params)


def _while(eqn: Eqn, out: list[Eqn], env: dict[Var, Atom], context: PassContext) -> Eqn:
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    if p["cond_jaxpr"].consts or p["body_jaxpr"].consts:
        return eqn
    cond = _Part.of(p["cond_jaxpr"], eqn.inputs[:nc])
    body = _Part.of(p["body_jaxpr"], eqn.inputs[nc : nc + nb])
    carry, outputs = list(eqn.inputs[nc + nb :]), list(eqn.outputs)
    for i in reversed(_unchanged(body, body.outvars, carry)):
        env[outputs.pop(i)] = carry[i]
        value = carry.pop(i)
        cond.settle(i, value)
        body.settle(i, value)
        del body.outvars[i]
        context.counters["unchanged carry"] += 1
    cond.lift(out, context)
    body.lift(out, context)
    if len(cond.values) == nc and len(body.values) == nb:
        return eqn
    params = {
        **p, "cond_jaxpr": cond.closed(), "body_jaxpr": body.closed(), "cond_nconsts": len(cond.values),
        "body_nconsts": len(body.values),
    }  # fmt: skip
    return _replaced(eqn, [*cond.values, *body.values, *carry], outputs, params)


def _replaced(eqn: Eqn, inputs: Sequence[Atom], outputs: Sequence[Var], params: dict[str, Any]) -> Eqn:
    return eqn.replace(inputs=inputs, outputs=outputs, params=params, effects=eqn.primitive.effects(params))


_LOOPS = {control_flow.scan_p: _scan, control_flow.while_p: _while, control_flow.bounded_while_p: _while}

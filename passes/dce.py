"""dce: remove what no result needs.

- `DeadCode` is the pass.
- ``dce_eqns(jaxpr, outvars) -> jaxpr`` and ``dce_jaxpr(closed, used_outputs) -> (closed, used_inputs)`` do the same for
  other passes, which build jaxprs of which only some results are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls, control_flow
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.primitives.structural import broadcast_in_dim_p

from .base import Pass, PassContext, register_pass
from .cache import cached_transform
from .rewriting import transform_nested, with_params


@register_pass
@dataclass(frozen=True)
class DeadCode(Pass):
    """Remove equations whose results nothing uses; equations with effects stay.

    Calls, branches and loops lose results that are not used, and operands that are then not needed: also a loop's
    carry that only feeds itself, and tangents of integers (of dtype float0), which are zeros wherever they are read.
    The program's own inputs and results stay.
    """

    name = "dce"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr, _ = _prune(program.jaxpr, [True] * len(program.jaxpr.outvars), context)
        needed = _used(jaxpr)
        keep = [v in needed for v in jaxpr.constvars]
        if jaxpr is program.jaxpr and all(keep):
            return program
        jaxpr = Jaxpr(_select(jaxpr.constvars, keep), jaxpr.invars, jaxpr.outvars, jaxpr.eqns)
        return ClosedJaxpr(jaxpr, _select(program.consts, keep))


@cached_transform()
def dce_jaxpr(closed: ClosedJaxpr, used_outputs: tuple[bool, ...]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jaxpr (without constants) with the used outputs only, and which inputs it reads (the others are dropped)."""
    jaxpr, needed = _prune(closed.jaxpr, used_outputs, PassContext(None))
    return ClosedJaxpr(Jaxpr((), _select(jaxpr.invars, needed), jaxpr.outvars, jaxpr.eqns)), tuple(needed)


def dce_eqns(jaxpr: Jaxpr, outvars: Sequence[Atom] | None = None) -> Jaxpr:
    """The jaxpr with these outputs (by default its own), all its inputs, and only the equations that they need."""
    if outvars is not None:
        jaxpr = Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, jaxpr.eqns)
    return _prune(jaxpr, [True] * len(jaxpr.outvars), PassContext(None))[0]


Mask = list[bool]
# rule(equation, used results, context) -> the equation without what is not needed
_Rule = Callable[[Eqn, Mask, PassContext], Eqn]
_rules: dict[Primitive, _Rule] = {}


def _rule(*primitives: Primitive) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        for p in primitives:
            _rules[p] = rule
        return rule

    return register


def _select(items: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [x for x, keep in zip(items, mask, strict=True) if keep]


def _used(jaxpr: Jaxpr) -> set[Any]:
    used: set[Any] = {a for a in jaxpr.outvars if isinstance(a, Var)}
    for eqn in jaxpr.eqns:
        used.update(a for a in eqn.inputs if isinstance(a, Var))
    return used


def _prune(jaxpr: Jaxpr, used_outputs: Sequence[bool], context: PassContext) -> tuple[Jaxpr, Mask]:
    """The jaxpr with the results of the mask only, its inputs all kept; and which inputs it still needs."""
    key = ("dce", id(jaxpr), tuple(used_outputs))
    found = context.nested.get(key)
    if found is not None:
        return found[1]
    known = _Known(jaxpr)
    outvars = known.atoms(_select(jaxpr.outvars, used_outputs))
    live: set[Var] = {a for a in outvars if isinstance(a, Var)}
    kept: list[Eqn] = []
    changed = len(outvars) != len(jaxpr.outvars) or any(a is not b for a, b in zip(outvars, jaxpr.outvars))
    clean = _cleaner(context)
    for old in reversed(jaxpr.eqns):
        eqn = known.read_by(old)
        used = [v in live for v in eqn.outputs]
        if not eqn.effects and not any(used):
            context.counters[f"dce {eqn.primitive.name}"] += 1
            changed = True
            continue
        rule = _rules.get(eqn.primitive)
        if eqn.primitive.foreign:  # what its jaxprs mean, only its package knows
            new = eqn
        elif rule is not None:
            new = rule(eqn, used, context)
        else:
            # Others keep all their results; only the inside of their jaxprs is cleaned.
            new = with_params(eqn, transform_nested(eqn.params, context, "dce", clean))
        changed = changed or new is not old
        kept.append(new)
        live.update(a for a in new.inputs if isinstance(a, Var))
    kept.extend(reversed(known.eqns))
    kept.reverse()
    result = Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, kept) if changed else jaxpr
    needed = [v in live for v in (*jaxpr.constvars, *jaxpr.invars)]
    context.nested[key] = (jaxpr, (result, needed))
    return result, needed


class _Known:
    """The values of dtype float0, which are known: what reads one that is given, or that a loop or call makes, reads zeros
    made in place, so that nothing carries it.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.eqns: list[Eqn] = []
        self._made: dict[Var, Atom] = {}
        self._carried = {v for v in (*jaxpr.constvars, *jaxpr.invars) if v.aval.dtype == dtypes.float0}
        for eqn in jaxpr.eqns:
            if eqn.primitive in _rules:
                self._carried.update(v for v in eqn.outputs if v.aval.dtype == dtypes.float0)

    def atoms(self, atoms: Sequence[Atom]) -> list[Atom]:
        return [self._zeros(a) if isinstance(a, Var) and a in self._carried else a for a in atoms]

    def read_by(self, eqn: Eqn) -> Eqn:
        inputs = self.atoms(eqn.inputs) if self._carried else eqn.inputs
        return eqn if all(a is b for a, b in zip(inputs, eqn.inputs)) else eqn.replace(inputs=inputs)

    def _zeros(self, v: Var) -> Atom:
        if v not in self._made:
            shape, zero = v.aval.shape, Literal(np.zeros((), dtypes.float0), ShapedArray((), dtypes.float0))
            if not shape:
                return zero
            self._made[v] = out = Var(v.aval)
            self.eqns.append(Eqn([zero], [out], broadcast_in_dim_p, {"shape": shape, "broadcast_dimensions": ()}))
        return self._made[v]


def _cleaner(context: PassContext) -> Callable[[Jaxpr], Jaxpr]:
    return lambda j: _prune(j, [True] * len(j.outvars), context)[0]


def _narrow(closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool], context: PassContext) -> ClosedJaxpr:
    """The closed jaxpr with the used results and the kept inputs."""
    if closed.consts:
        return closed
    jaxpr, _ = _prune(closed.jaxpr, used, context)
    if jaxpr is closed.jaxpr and all(keep):
        return closed
    if all(keep):
        return ClosedJaxpr(jaxpr)
    key = ("dce inputs", id(jaxpr), tuple(keep))
    found = context.nested.get(key)
    if found is None:
        narrow = ClosedJaxpr(Jaxpr((), _select(jaxpr.invars, keep), jaxpr.outvars, jaxpr.eqns))
        found = context.nested[key] = (jaxpr, narrow)
    return found[1]


def _needs(closed: ClosedJaxpr, used: Sequence[bool], context: PassContext) -> Mask:
    return _prune(closed.jaxpr, used, context)[1]


def _either(*masks: Sequence[bool]) -> Mask:
    return [any(bits) for bits in zip(*masks, strict=True)]


def _rebuilt(eqn: Eqn, inputs: Sequence[Atom], outputs: Sequence[Var], params: Params) -> Eqn:
    same = len(inputs) == len(eqn.inputs) and len(outputs) == len(eqn.outputs)
    if same and all(params[k] is v for k, v in eqn.params.items()):
        return eqn
    return eqn.replace(inputs=inputs, outputs=outputs, params=params, effects=eqn.primitive.effects(params))


@_rule(calls.jit_p, calls.checkpoint_p)
def _call(eqn: Eqn, used: Mask, context: PassContext) -> Eqn:
    body: ClosedJaxpr = eqn.params["jaxpr"]
    if body.consts:
        return eqn
    keep = _needs(body, used, context)
    new = dict(eqn.params)
    new["jaxpr"] = _narrow(body, used, keep, context)
    donated = eqn.params.get("donated_invars")
    if donated is not None and not all(keep):
        new["donated_invars"] = tuple(_select(donated, keep))
    return _rebuilt(eqn, _select(eqn.inputs, keep), _select(eqn.outputs, used), new)


@_rule(shard_map_p)
def _shard_map(eqn: Eqn, used: Mask, context: PassContext) -> Eqn:
    body: ClosedJaxpr = eqn.params["jaxpr"]
    keep = _needs(body, used, context)
    new = dict(eqn.params)
    new["jaxpr"] = _narrow(body, used, keep, context)
    if not all(keep):
        new["in_specs"] = tuple(_select(eqn.params["in_specs"], keep))
    if not all(used):
        new["out_specs"] = tuple(_select(eqn.params["out_specs"], used))
    return _rebuilt(eqn, _select(eqn.inputs, keep), _select(eqn.outputs, used), new)


@_rule(control_flow.cond_p)
def _cond(eqn: Eqn, used: Mask, context: PassContext) -> Eqn:
    branches: tuple[ClosedJaxpr, ...] = eqn.params["branches"]
    keep = _either(*[_needs(b, used, context) for b in branches])
    narrow = tuple(_narrow(b, used, keep, context) for b in branches)
    narrow = branches if all(a is b for a, b in zip(narrow, branches)) else narrow
    inputs = [eqn.inputs[0], *_select(eqn.inputs[1:], keep)]
    return _rebuilt(eqn, inputs, _select(eqn.outputs, used), {**eqn.params, "branches": narrow})


@_rule(control_flow.scan_p)
def _scan(eqn: Eqn, used: Mask, context: PassContext) -> Eqn:
    p = eqn.params
    body: ClosedJaxpr = p["jaxpr"]
    n, m = p["num_consts"], p["num_carry"]
    carry, ys = used[:m], used[m:]
    while True:  # a carry is needed if a result or a needed carry needs it
        needs = _needs(body, [*carry, *ys], context)
        grown = _either(carry, needs[n : n + m])
        if grown == carry:
            break
        carry = grown
    # An effect inside may read a carry: it was added above; what is not needed at all can go.
    keep = [*needs[:n], *carry, *needs[n + m :]]
    new = dict(p)
    new["jaxpr"] = _narrow(body, [*carry, *ys], keep, context)
    if not all(keep):
        new["num_consts"], new["num_carry"] = sum(keep[:n]), sum(carry)
        new["linear"] = tuple(_select(p["linear"], keep)) if p["linear"] else ()
    return _rebuilt(eqn, _select(eqn.inputs, keep), _select(eqn.outputs, [*carry, *ys]), new)


@_rule(control_flow.while_p, control_flow.bounded_while_p)
def _while(eqn: Eqn, used: Mask, context: PassContext) -> Eqn:
    p = eqn.params
    cond: ClosedJaxpr = p["cond_jaxpr"]
    body: ClosedJaxpr = p["body_jaxpr"]
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cond_needs = _needs(cond, [True], context)
    carry = _either(used, cond_needs[nc:])
    while True:
        needs = _needs(body, carry, context)
        grown = _either(carry, needs[nb:])
        if grown == carry:
            break
        carry = grown
    new = dict(p)
    new["cond_jaxpr"] = _narrow(cond, [True], [*cond_needs[:nc], *carry], context)
    new["body_jaxpr"] = _narrow(body, carry, [*needs[:nb], *carry], context)
    keep = [*cond_needs[:nc], *needs[:nb], *carry]
    if not all(keep):
        new["cond_nconsts"], new["body_nconsts"] = sum(cond_needs[:nc]), sum(needs[:nb])
    return _rebuilt(eqn, _select(eqn.inputs, keep), _select(eqn.outputs, carry), new)

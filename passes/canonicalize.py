"""Passes that give a program its plain form: no weak types, scalar constants written in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural

from .base import Pass, PassContext, register_pass
from .rewriting import transform_nested


@register_pass
@dataclass(frozen=True)
class DropWeakTypes(Pass):
    """Make every type strong, and remove the conversions that only changed a weak type.

    Weak types decide dtypes while a program is traced and mean nothing afterwards. So do selections between a value and its
    `stop_gradient`, which a batched cond makes for its derivatives: after this pass a program is not to be differentiated.
    """

    name = "drop-weak-types"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = _strengthen(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)


def _strengthen(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    env: dict[Var, Atom] = {}
    changed = False

    def binder(v: Var) -> Var:
        nonlocal changed
        if isinstance(v.aval, ShapedArray) and v.aval.weak_type:
            changed = True
            env[v] = new = Var(v.aval.strong())
            return new
        return v

    def read(a: Atom) -> Atom:
        nonlocal changed
        if isinstance(a, Literal):
            if not a.aval.weak_type:
                return a
            changed = True
            return Literal(a.value, a.aval.strong())
        return env.get(a, a)

    constvars = [binder(v) for v in jaxpr.constvars]
    invars = [binder(v) for v in jaxpr.invars]
    eqns: list[Eqn] = []
    still: dict[Var, Atom] = {}  # results of stop_gradient, and of what
    for eqn in jaxpr.eqns:
        inputs = [read(a) for a in eqn.inputs]
        if eqn.primitive is ew.stop_gradient_p:
            still[eqn.outputs[0]] = inputs[0]
        elif eqn.primitive is ew.select_n_p and still:
            cases = {still.get(a, a) if isinstance(a, Var) else a for a in inputs[1:]}
            if len(cases) == 1:
                env[eqn.outputs[0]] = cases.pop()
                context.counters["selection for derivatives"] += 1
                changed = True
                continue
        params: Params = transform_nested(eqn.params, context, "drop-weak-types", lambda j: _strengthen(j, context))
        if eqn.primitive is ew.convert_element_type_p:
            if inputs[0].aval.dtype == params["new_dtype"]:
                env[eqn.outputs[0]] = inputs[0]
                context.counters["weak conversion"] += 1
                changed = True
                continue
            if params["weak_type"]:
                params = {**params, "weak_type": False}
        outputs = [binder(v) for v in eqn.outputs]
        if params is not eqn.params:
            changed = True
        if changed:
            eqn = eqn.replace(inputs=inputs, outputs=outputs, params=params)
        eqns.append(eqn)
    outvars = [read(a) for a in jaxpr.outvars]
    return Jaxpr(constvars, invars, outvars, eqns) if changed else jaxpr


@register_pass
@dataclass(frozen=True)
class CanonicalizeLiterals(Pass):
    """Write scalar constants in place, and constants of equal elements as a broadcast scalar.

    A literal that is the first operand of a commutative operation becomes the second one.
    """

    name = "canonicalize-literals"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        old = program.jaxpr
        env: dict[Var, Atom] = {}
        eqns: list[Eqn] = []
        kept: list[tuple[Var, Any]] = []
        for v, value in zip(old.constvars, program.consts):
            scalar = _splat(value, v.aval)
            if scalar is None:
                kept.append((v, value))
            elif not v.aval.shape:
                env[v] = scalar
            else:
                params = {"shape": v.aval.shape, "broadcast_dimensions": ()}
                eqns.append(Eqn([scalar], [v], structural.broadcast_in_dim_p, params))
        context.counters.update({"scalar constant": len(env), "splat constant": len(eqns)})
        first = next((eqn.source for eqn in old.eqns if eqn.source is not None), None)
        eqns = [Eqn(e.inputs, e.outputs, e.primitive, e.params, source=first) for e in eqns]
        changed = len(kept) != len(old.constvars)
        jaxpr = old
        if changed:
            body = [e.replace(inputs=[_read(a, env) for a in e.inputs]) for e in old.eqns]
            outvars = [_read(a, env) for a in old.outvars]
            jaxpr = Jaxpr([v for v, _ in kept], old.invars, outvars, [*eqns, *body])
        jaxpr = _swap(jaxpr, context)
        if jaxpr is old:
            return program
        return ClosedJaxpr(jaxpr, [value for _, value in kept])


def _read(a: Atom, env: dict[Var, Atom]) -> Atom:
    return env.get(a, a) if isinstance(a, Var) else a


# A splat is looked for in host arrays up to this size; a large constant that is one is rare, and looking costs time.
_SPLAT_LIMIT = 1 << 20


def _splat(value: Any, aval: ShapedArray) -> Literal | None:
    """The literal whose broadcast the constant is."""
    if aval.size == 0 or aval.size > _SPLAT_LIMIT or aval.dtype.itemsize == 0:
        return None
    flat = np.ascontiguousarray(np.asarray(value)).reshape(-1)
    if flat.size > 1:
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        if not np.array_equal(raw[0], raw[-1]) or not bool(np.all(raw == raw[0])):
            return None
    return Literal(flat[0], ShapedArray((), aval.dtype, aval.weak_type))


def _swap(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    eqns: list[Eqn] = []
    changed = False
    for eqn in jaxpr.eqns:
        params = transform_nested(eqn.params, context, "canonicalize-literals", lambda j: _swap(j, context))
        inputs: Sequence[Atom] = eqn.inputs
        if eqn.primitive.commutative and isinstance(inputs[0], Literal) and not isinstance(inputs[1], Literal):
            inputs = inputs[::-1]
            context.counters["literal to the right"] += 1
        if inputs is not eqn.inputs or params is not eqn.params:
            eqn = eqn.replace(inputs=inputs, params=params)
            changed = True
        eqns.append(eqn)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns) if changed else jaxpr

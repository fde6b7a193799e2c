"""Programs with other types for some of their values: the walk that those passes share which compile one dtype or type as another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, map_nested

Types = Callable[[Any], Any]
Equations = Callable[[Eqn, Any], Eqn]
Literals = Callable[[Literal], Literal]


def retyped(
    jaxpr: Jaxpr, types: Types, equations: Equations, literals: Literals = lambda a: a,
    done: dict[int, tuple[ClosedJaxpr, ClosedJaxpr]] | None = None,
) -> Jaxpr:  # fmt: skip
    """The jaxpr, and those within it, with other types; the same object where nothing changes.

    Args:
        types: the new aval of a variable's, or None: it stays.
        equations: an equation as it is to be, given its parameters with nested jaxprs rewritten; its operands and results are
            renamed here. The same object where it stays.
        literals: a literal as it is to be.
        done: what has been rewritten of the nested jaxprs, of which one may occur often.
    """
    names: dict[Var, Var] = {}
    known = {} if done is None else done

    def bound(v: Var) -> Var:
        aval = types(v.aval)
        if aval is None:
            return v
        names[v] = new = Var(aval)
        return new

    def read(a: Atom) -> Atom:
        return literals(a) if isinstance(a, Literal) else names.get(a, a)

    def nested(inner: ClosedJaxpr) -> ClosedJaxpr:
        found = known.get(id(inner))
        if found is None:
            made = retyped(inner.jaxpr, types, equations, literals, known)
            found = known[id(inner)] = (inner, inner if made is inner.jaxpr else ClosedJaxpr(made, inner.consts))
        return found[1]

    constvars, invars = [bound(v) for v in jaxpr.constvars], [bound(v) for v in jaxpr.invars]
    eqns: list[Eqn] = []
    changed = bool(names)
    for eqn in jaxpr.eqns:
        new = equations(eqn, map_nested(eqn.params, nested))
        inputs, outputs = [read(a) for a in eqn.inputs], [bound(v) for v in eqn.outputs]
        if new is not eqn or any(a is not b for a, b in zip((*inputs, *outputs), (*eqn.inputs, *eqn.outputs))):
            new, changed = new.replace(inputs=inputs, outputs=outputs), True
        eqns.append(new)
    outvars = [read(a) for a in jaxpr.outvars]
    changed |= any(a is not b for a, b in zip(outvars, jaxpr.outvars, strict=True))
    return Jaxpr(constvars, invars, outvars, eqns) if changed else jaxpr


__all__ = ["retyped"]

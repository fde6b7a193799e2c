"""Broadcasts, slices and iotas while clusters are formed: each reader has its own, so that no cluster writes one for another."""

from __future__ import annotations

from collections import Counter
from typing import Any

from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var, subst_eqn
from quire.ir.primitives import structural as st

# What is dearer to read than to make again.
_SPREAD = (st.broadcast_in_dim_p, st.slice_p, st.iota_p)


def split(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with a copy of each broadcast, slice and iota for every place where an equation reads it."""
    reads = Counter(a for e in jaxpr.eqns for a in e.inputs if isinstance(a, Var))
    shared = {v for e in jaxpr.eqns if e.primitive in _SPREAD for v in e.outputs if reads[v] > 1}
    if not shared:
        return jaxpr
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    copies: dict[Var, list[Var]] = {}
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if any(a in shared for a in e.inputs):
            # The last reader of a value that is not returned takes the original.
            e = e.replace(inputs=[copies[a].pop() if isinstance(a, Var) and a in shared else a for a in e.inputs])
        eqns.append(e)
        if e.outputs and e.outputs[0] in shared:
            (v,) = e.outputs
            new = [Var(v.aval) for _ in range(reads[v] - (v not in returned))]
            copies[v] = [*new, *([] if v in returned else [v])]
            eqns += [e.replace(outputs=[w]) for w in new]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def merge(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with equal broadcasts, slices and iotas as one."""
    first: dict[Any, Var] = {}
    env: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        e = subst_eqn(e, env)
        if e.primitive in _SPREAD:
            (v,) = e.outputs
            key = (e.primitive, e.inputs, v.aval, tuple(e.params.items()))
            if first.setdefault(key, v) is not v:
                env[v] = first[key]
                continue
        eqns.append(e)
    if not env:
        return jaxpr
    return Jaxpr(
        jaxpr.constvars, jaxpr.invars, [env.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars], eqns
    )

"""Broadcasts, slices and iotas while clusters are formed: each reader has its own, so that no cluster writes one for another.

So has each reader of what is computed of broadcasts by a few light equations, as the differences of all pairs of points are: it is
many times larger than what it is computed of, and to write and read it takes longer than to compute it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var, subst_eqn
from quire.ir.primitives import structural as st
from quire.ir.weights import weight

# What is dearer to read than to make again.
_SPREAD = (st.broadcast_in_dim_p, st.slice_p, st.iota_p)
#: Values of so many elements that are so many times larger than what they are computed of, by so many operations an element, are
#: computed again for each reader, so often at most, copies of readers counted.
LEAST_LARGE, TIMES, MOST_WEIGHT, MOST_COPIES = 1 << 15, 8, 6.0, 6


def split(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with a copy of each broadcast, slice and iota, and of what is light and large, for every reader."""
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    light = _light(jaxpr.eqns, returned)
    again = {v for e in jaxpr.eqns if e.primitive in _SPREAD for v in e.outputs} | light
    reads: Counter[Var] = Counter(a for a in returned)
    for e in reversed(jaxpr.eqns):  # a copy of an equation reads copies of its operands
        again -= {v for v in e.outputs if v in light and reads[v] > MOST_COPIES}
        copies = max(1, reads[e.outputs[0]]) if e.outputs and e.outputs[0] in again else 1
        for a in e.inputs:
            if isinstance(a, Var):
                reads[a] += copies
    if not any(reads[v] > 1 for v in again):
        return jaxpr
    made: dict[Var, list[Var]] = {}
    eqns: list[Eqn] = []

    def with_own(e: Eqn) -> Eqn:
        """The equation with copies of its operands that nothing else reads."""
        if not any(a in made for a in e.inputs):
            return e
        return e.replace(inputs=[made[a].pop() if isinstance(a, Var) and a in made else a for a in e.inputs])

    for e in jaxpr.eqns:
        if not e.outputs or e.outputs[0] not in again or reads[e.outputs[0]] < 2:
            eqns.append(with_own(e))
            continue
        (v,) = e.outputs
        # The last reader of a value that is not returned takes the original.
        new = [v, *(Var(v.aval) for _ in range(reads[v] - 1))]
        eqns += [with_own(e).replace(outputs=[w]) for w in new]
        made[v] = [*new[1:], *([] if v in returned else [v])]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _light(eqns: Iterable[Eqn], returned: set[Var]) -> set[Var]:
    """What is computed of broadcasts of much smaller arrays by a few light equations, and not returned."""
    of: dict[Var, float] = {}  # the operations of an element
    for e in eqns:
        if len(e.outputs) != 1 or e.effects:
            continue
        (v,) = e.outputs
        if v.aval.size < LEAST_LARGE or v in returned:
            continue
        if (
            e.primitive is st.iota_p
            or e.primitive is st.broadcast_in_dim_p
            and e.inputs[0].aval.size * TIMES <= v.aval.size
        ):
            of[v] = 0.0
        elif e.primitive.family == "elementwise" and not e.primitive.apart:
            arrays = [a for a in e.inputs if a.aval.shape]
            total = weight(e) + sum(of.get(a, MOST_WEIGHT) for a in arrays if isinstance(a, Var))
            if arrays and total <= MOST_WEIGHT and all(a in of for a in arrays):
                of[v] = total
    return {v for v, n in of.items() if n}


def merge(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with equal broadcasts, slices, iotas and elementwise equations as one."""
    first: dict[Any, Var] = {}
    env: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        e = subst_eqn(e, env)
        if e.primitive in _SPREAD or e.primitive.family == "elementwise" and len(e.outputs) == 1 and not e.effects:
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

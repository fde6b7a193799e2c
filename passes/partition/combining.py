"""Small sums over the same devices as one message: each message takes its latency, however small it is.

psum, pmax and pmin wait until somebody reads what they give; those of one kind, dtype and axes that wait together are
flattened, joined, sent once, and taken apart. What takes longer to copy than a message takes is left alone.
"""

from __future__ import annotations

import math
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, has_nested, map_nested
from quire.ir.primitives import collectives as co
from quire.ir.primitives import structural as st

from .costs import Machine
from .notes import Noted, noted

_SUMS = (co.psum_p, co.pmax_p, co.pmin_p)


def combined(jaxpr: Jaxpr, machine: Machine) -> Jaxpr:
    """The jaxpr, and those in it, with small messages joined."""
    most = machine.latency * machine.bytes_per_second / 2
    out: list[Eqn] = []
    waiting: dict[Any, list[Eqn]] = {}
    where: dict[Var, Any] = {}

    def send(key: Any) -> None:
        eqns = waiting.pop(key)
        for e in eqns:
            del where[e.outputs[0]]
        out.extend(eqns if len(eqns) == 1 else _joined(eqns))

    def need(atoms: Any) -> None:
        for a in atoms:
            if isinstance(a, Var) and a in where:
                send(where[a])

    for eqn in jaxpr.eqns:
        need(eqn.inputs)
        if eqn.params and has_nested(eqn.params):
            params = map_nested(eqn.params, lambda j: ClosedJaxpr(combined(j.jaxpr, machine), j.consts))
            eqn = eqn if params is eqn.params else eqn.replace(params=params)
        if eqn.primitive in _SUMS and eqn.inputs[0].aval.nbytes <= most and not eqn.params.get("axis_index_groups"):
            aval = eqn.outputs[0].aval
            key = (eqn.primitive, eqn.params["axes"], aval.dtype)
            waiting.setdefault(key, []).append(eqn)
            where[eqn.outputs[0]] = key
            continue
        out.append(eqn)
    for key in list(waiting):
        send(key)
    return (
        Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, out) if len(out) != len(jaxpr.eqns) else _same(jaxpr, out)
    )


def _same(jaxpr: Jaxpr, eqns: list[Eqn]) -> Jaxpr:
    if all(a is b for a, b in zip(jaxpr.eqns, eqns)):
        return jaxpr
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _joined(eqns: list[Eqn]) -> list[Eqn]:
    """The equations that do all of these in one message."""
    first = eqns[0]
    dtype = first.inputs[0].aval.dtype
    reasons = list(dict.fromkeys(e.source.reason if isinstance(e.source, Noted) else "" for e in eqns))
    others = list(
        dict.fromkeys(e.source.alternative for e in eqns if isinstance(e.source, Noted) and e.source.alternative)
    )
    source = noted(first.source, f"{len(eqns)} in one message: {'; '.join(filter(None, reasons))}", "; ".join(others))
    out: list[Eqn] = []

    def add(p: Any, inputs: list[Atom], shape: tuple[int, ...], **params: Any) -> Var:
        v = Var(ShapedArray(shape, dtype))
        out.append(Eqn(inputs, [v], p, params, source=source))
        return v

    flat: list[Atom] = []
    for e in eqns:
        n = e.inputs[0].aval.size
        flat.append(add(st.reshape_p, [e.inputs[0]], (n,), new_sizes=(n,)))
    total = sum(a.aval.size for a in flat)
    joined = add(st.concatenate_p, flat, (total,), dimension=0)
    sent = add(first.primitive, [joined], (total,), **first.params)
    at = 0
    for e in eqns:
        shape = e.outputs[0].aval.shape
        n = math.prod(shape)
        piece = add(st.slice_p, [sent], (n,), start_indices=(at,), limit_indices=(at + n,), strides=None)
        out.append(Eqn([piece], e.outputs, st.reshape_p, {"new_sizes": shape}, source=source))
        at += n
    return out

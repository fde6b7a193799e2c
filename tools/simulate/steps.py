"""The time of a step: what a device computes, from the compiler's estimate of equations, and what its messages take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs
from quire.ir.primitives import collectives as co
from quire.ir.primitives import control_flow as cf
from quire.passes.cost import UNKNOWN_TRIPS, estimate_eqn
from quire.passes.partition import Partitioned, peak

from .machines import Machine

_FUSED = ("elementwise", "random")
_INLINE = ("reductions",)


@dataclass(frozen=True)
class Step:
    """The estimated time of a step on one device, in seconds, and the bytes that it holds and receives."""

    devices: int
    compute: float
    communicate: float
    call: float
    held: int
    received: int

    @property
    def seconds(self) -> float:
        """All of it: nothing overlaps."""
        return self.compute + self.communicate + self.call


def step(p: Partitioned, machine: Machine) -> Step:
    """A step of a partitioned program."""
    sizes = dict(p.mesh.shape)
    devices = p.mesh.size
    compute, communicate = _times(p.jaxpr.jaxpr, machine, sizes)
    computing, talking = machine.crowds(devices)
    received = sum(n.bytes * n.times for n in p.notes)
    return Step(devices, compute * computing, communicate * talking, machine.call, peak(p.jaxpr.jaxpr).bytes, received)


def _times(jaxpr: Jaxpr, machine: Machine, sizes: Mapping[Any, int]) -> tuple[float, float]:
    """The seconds that a device computes and communicates."""
    free = _never_stored(jaxpr)
    compute = communicate = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.family == "collectives":
            communicate += _message(eqn, machine, sizes)
            continue
        inner = _nested(eqn, machine, sizes)
        if inner is not None:
            compute, communicate = compute + inner[0], communicate + inner[1]
            continue
        compute += _equation(eqn, free, machine)
    return compute, communicate


def _message(eqn: Eqn, machine: Machine, sizes: Mapping[Any, int]) -> float:
    if eqn.primitive in (co.pvary_p, co.pcast_p, co.axis_index_p):
        return 0.0
    axes = [a for a in co.axis_names(eqn.params) if a in sizes]
    k = 1
    for a in axes:
        k *= sizes[a]
    groups = eqn.params.get("axis_index_groups")
    k = len(groups[0]) if groups else k
    return machine.link(axes, sizes).collective(eqn.primitive.name, eqn.inputs[0].aval.nbytes, k) if axes else 0.0


def _nested(eqn: Eqn, machine: Machine, sizes: Mapping[Any, int]) -> tuple[float, float] | None:
    """The times of what an equation holds; None where it is one operation."""
    if eqn.primitive.family not in ("control_flow", "calls") or not eqn.params:
        return None
    bodies = [j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in nested_jaxprs(eqn.params)]
    if not bodies:
        return None
    times = [_times(j, machine, sizes) for j in bodies]
    if eqn.primitive is cf.cond_p:
        return max(times, key=sum)
    turns = eqn.params["length"] if eqn.primitive is cf.scan_p else 1
    if eqn.primitive in (cf.while_p, cf.bounded_while_p):
        turns = UNKNOWN_TRIPS
    return turns * sum(t[0] for t in times), turns * sum(t[1] for t in times)


def _never_stored(jaxpr: Jaxpr) -> set[Var]:
    """Values that a compiler computes where they are read: elementwise ones, and moved ones, that such operations read."""
    readers: dict[Var, list[Eqn]] = {}
    for eqn in jaxpr.eqns:
        for a in eqn.inputs:
            if isinstance(a, Var):
                readers.setdefault(a, []).append(eqn)
    stored = {a for a in jaxpr.outvars if isinstance(a, Var)}
    return {
        v
        for eqn in jaxpr.eqns
        if _cheap(eqn)
        for v in eqn.outputs
        if v not in stored and all(_cheap(r) or r.primitive.family in _INLINE for r in readers.get(v, ()))
    }


def _cheap(eqn: Eqn) -> bool:
    return eqn.primitive.family in _FUSED or eqn.primitive.weight == 0


def _equation(eqn: Eqn, free: set[Var], machine: Machine) -> float:
    cost = estimate_eqn(eqn)
    unread = sum(a.aval.nbytes for a in eqn.inputs if not isinstance(a, Literal) and a in free)
    unwritten = sum(v.aval.nbytes for v in eqn.outputs if v in free)
    moved = max(cost.bytes - unread - unwritten, 0)
    launch = 0.0 if all(v in free for v in eqn.outputs) else machine.kernel
    return max(cost.flops / machine.flops, moved / machine.bytes_per_second) + launch

"""The program of a rank: what all devices of a process compute together, with collectives between ranks alone.

The partitioner makes the program of one device. Along each axis of the mesh there are ranks, and devices of each rank. The
devices of a rank are simulated, as those of a mesh in one process are (`emulate_spmd`), which ends the collectives between
them; what is left of a collective communicates between ranks, and is lowered to a function of the host. Where the rank is,
the program takes as arguments, so that it is the same on all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.axes import mesh_axes
from quire.ir.jaxpr import (
    Atom,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Params,
    Var,
    all_eqns,
    has_nested,
    map_nested,
    nested_jaxprs,
)
from quire.ir.primitives import collectives as co
from quire.ir.primitives import control_flow as cf
from quire.ir.ranks import RankAxis, RankGrid
from quire.ir.sharding import AbstractMesh, AxisName, Mesh, PartitionSpec, axes_of
from quire.ir.tracing import close_captured

from .base import PassContext
from .emulate_spmd import emulated
from .inline import Inline
from .partition import partition
from .rewriting import with_params

Names = Mapping[AxisName, tuple[Any, ...]]
"""What a mesh's axis is called in a program of a rank: the axis of ranks, that of the rank's devices, or both."""
RankAxes = tuple[RankAxis, ...]


@dataclass(frozen=True)
class RankProgram:
    """The program of a rank.

    Attributes:
        closed: takes the rank's boxes of the arguments, then its indices along `axes`; gives its boxes of the results.
        axes: for each index the axes of ranks along which it counts, the first one the major.
    """

    closed: ClosedJaxpr
    axes: tuple[RankAxes, ...]


def rank_program(
    closed: ClosedJaxpr,
    mesh: Mesh,
    grid: RankGrid,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
) -> RankProgram:
    """The program of a rank for a program of whole arrays, whose arguments and results are divided as told.

    Raises:
        ValueError: the specs do not fit the arguments or results.
    """
    devices = partition(closed, mesh, in_specs, out_specs).jaxpr
    return with_indices(boxed_program(devices, grid, in_specs, out_specs))


def boxed_program(
    closed: ClosedJaxpr, grid: RankGrid, in_specs: Sequence[PartitionSpec], out_specs: Sequence[PartitionSpec]
) -> ClosedJaxpr:
    """The program of a rank's boxes for that of a device's parts."""
    names: dict[AxisName, tuple[Any, ...]] = {}
    local: dict[AxisName, int] = {}
    for a, outer, inner in zip(grid.names, grid.sizes, grid.inner, strict=True):
        names[a] = ((grid.axis(a),) if outer > 1 else ()) + ((a,) if inner > 1 or outer == 1 else ())
        if a in names[a]:
            local[a] = inner
    jaxpr = _renamed(closed.jaxpr, names)
    if math.prod(local.values()) == 1 and not _names_any(jaxpr, local):
        return ClosedJaxpr(jaxpr, closed.consts)
    consts = len(jaxpr.constvars)
    body = Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)
    within = [*[PartitionSpec()] * consts, *(_within(s, local) for s in in_specs)]
    params = {
        "mesh": AbstractMesh(tuple(local.values()), tuple(local)),
        "manual_axes": frozenset(local),
        "in_specs": tuple(within),
        "out_specs": tuple(_within(s, local) for s in out_specs),
        "jaxpr": ClosedJaxpr(body),
    }
    avals = [_box(v.aval, s, local) for v, s in zip(body.invars, within, strict=True)]
    with mesh_axes({grid.axis(a): n for a, n in zip(grid.names, grid.sizes)}, False):
        made, captured = emulated(params, avals)
    return close_captured(made.jaxpr, [*captured, *closed.consts])


def _within(spec: PartitionSpec, local: Mapping[AxisName, int]) -> PartitionSpec:
    """How a rank's box is divided among its devices."""
    return PartitionSpec(*(tuple(a for a in axes_of(e) if a in local) for e in spec))


def _box(aval: ShapedArray, spec: PartitionSpec, local: Mapping[AxisName, int]) -> ShapedArray:
    """The type of a rank's box, of which each device has a part."""
    shape = list(aval.shape)
    for d, e in enumerate(spec):
        shape[d] *= math.prod(local[a] for a in axes_of(e))
    return aval.update(shape=tuple(shape))


def _names_any(jaxpr: Jaxpr, names: Mapping[AxisName, int]) -> bool:
    return any(
        a in names for e in all_eqns(jaxpr) if e.primitive.family == "collectives" for a in co.axis_names(e.params)
    )


def _renamed(jaxpr: Jaxpr, names: Names) -> Jaxpr:
    """The jaxpr with other names of axes."""

    def new(axes: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(n for a in axes for n in names.get(a, (a,)))

    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        params: Params = eqn.params
        if eqn.primitive.family == "collectives":
            if "axes" in params:
                params = {**params, "axes": new(params["axes"])}
            elif "axis_name" in params:
                found = new(co.names_of(params["axis_name"]))
                params = {**params, "axis_name": found[0] if len(found) == 1 else found}
        elif params and has_nested(params):
            params = map_nested(params, lambda j: ClosedJaxpr(_renamed(j.jaxpr, names), j.consts))
        eqns.append(with_params(eqn, params))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


# -- where the rank is ------------------------------------------------------------------------------------------------


def with_indices(closed: ClosedJaxpr) -> RankProgram:
    """The program with the rank's indices as its last arguments, in place of the equations that ask for them."""
    program = Inline().apply(closed, PassContext())
    axes = tuple(_asked(program.jaxpr))
    given = {a: Var(ShapedArray((), dtypes.int32)) for a in axes}
    jaxpr = _substituted(program.jaxpr, given)
    return RankProgram(
        ClosedJaxpr(
            Jaxpr(jaxpr.constvars, (*jaxpr.invars, *given.values()), jaxpr.outvars, jaxpr.eqns), program.consts
        ),
        axes,
    )


def _axes_asked(eqn: Eqn) -> RankAxes | None:
    """The axes along which an equation asks for the rank's index."""
    if eqn.primitive is not co.axis_index_p:
        return None
    axes = co.names_of(eqn.params["axis_name"])
    return axes if all(isinstance(a, RankAxis) for a in axes) else None


_LOOPS = (cf.scan_p, cf.while_p, cf.bounded_while_p, cf.cond_p)


def _asked(jaxpr: Jaxpr) -> list[RankAxes]:
    """All that a jaxpr asks for, also within loops and branches, once each."""
    found: dict[RankAxes, None] = {}
    for eqn in jaxpr.eqns:
        axes = _axes_asked(eqn)
        if axes is not None:
            found[axes] = None
        elif eqn.primitive in _LOOPS:
            for inner in nested_jaxprs(eqn.params):
                found.update(dict.fromkeys(_asked(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)))
    return list(found)


def _substituted(jaxpr: Jaxpr, given: Mapping[RankAxes, Atom]) -> Jaxpr:
    """The jaxpr that reads the indices from these values; loops and branches get them as operands."""
    env: dict[Var, Atom] = {}
    eqns: list[Eqn] = []

    def read(a: Atom) -> Atom:
        return env.get(a, a) if isinstance(a, Var) else a

    for old in jaxpr.eqns:
        eqn = old.replace(inputs=[read(a) for a in old.inputs])
        axes = _axes_asked(eqn)
        if axes is not None:
            env[eqn.outputs[0]] = given[axes]
        else:
            eqns.append(_passed_on(eqn, given) if eqn.primitive in _LOOPS else eqn)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, [read(a) for a in jaxpr.outvars], eqns)


def _passed_on(eqn: Eqn, given: Mapping[RankAxes, Atom]) -> Eqn:
    """A loop or branch that takes what it asks for as further operands, before all others of the same kind."""

    def taking(closed: ClosedJaxpr, asked: Sequence[RankAxes]) -> ClosedJaxpr:
        own = {a: Var(ShapedArray((), dtypes.int32)) for a in asked}
        inner = _substituted(closed.jaxpr, own)
        jaxpr = Jaxpr(inner.constvars, (*own.values(), *inner.invars), inner.outvars, inner.eqns)
        return ClosedJaxpr(jaxpr, closed.consts)

    p, ins = eqn.params, list(eqn.inputs)
    if eqn.primitive is cf.cond_p:
        asked = list(dict.fromkeys(a for b in p["branches"] for a in _asked(b.jaxpr)))
        branches = tuple(taking(b, asked) for b in p["branches"])
        return eqn.replace(inputs=[ins[0], *(given[a] for a in asked), *ins[1:]], params={**p, "branches": branches})
    if eqn.primitive is cf.scan_p:
        asked = _asked(p["jaxpr"].jaxpr)
        changed: dict[str, Any] = {"jaxpr": taking(p["jaxpr"], asked), "num_consts": p["num_consts"] + len(asked)}
        if p["linear"]:  # one for each operand, or none at all
            changed["linear"] = (*(False for _ in asked), *p["linear"])
        return eqn.replace(inputs=[*(given[a] for a in asked), *ins], params={**p, **changed})
    test, body = _asked(p["cond_jaxpr"].jaxpr), _asked(p["body_jaxpr"].jaxpr)
    m = p["cond_nconsts"]
    changed = {
        "cond_jaxpr": taking(p["cond_jaxpr"], test), "cond_nconsts": m + len(test),
        "body_jaxpr": taking(p["body_jaxpr"], body), "body_nconsts": p["body_nconsts"] + len(body),
    }  # fmt: skip
    inputs = [*(given[a] for a in test), *ins[:m], *(given[a] for a in body), *ins[m:]]
    return eqn.replace(inputs=inputs, params={**p, **changed})


__all__ = ["RankProgram", "boxed_program", "rank_program", "with_indices"]

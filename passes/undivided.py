"""Programs without what their types say of explicit mesh axes: what is compiled, whatever lies where."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, map_nested
from quire.ir.primitive import Primitive
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.sharding import AxisType, NamedSharding, PartitionSpec


def without_divisions(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with plain types; the same object where they are plain already. Its constraints stay."""
    if not ShapedArray.any_divided:
        return closed
    jaxpr = _plain(closed.jaxpr, {})
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _plain(jaxpr: Jaxpr, done: dict[int, tuple[ClosedJaxpr, ClosedJaxpr]]) -> Jaxpr:
    names: dict[Var, Var] = {}

    def bound(v: Var) -> Var:
        if v.aval.division is None:
            return v
        names[v] = new = Var(v.aval.undivided())
        return new

    def read(a: Atom) -> Atom:
        return a if isinstance(a, Literal) else names.get(a, a)

    def nested(inner: ClosedJaxpr) -> ClosedJaxpr:
        found = done.get(id(inner))  # one program may occur often
        if found is None:
            made = _plain(inner.jaxpr, done)
            found = done[id(inner)] = (inner, inner if made is inner.jaxpr else ClosedJaxpr(made, inner.consts))
        return found[1]

    constvars, invars = [bound(v) for v in jaxpr.constvars], [bound(v) for v in jaxpr.invars]
    eqns: list[Eqn] = []
    changed = bool(names)
    for eqn in jaxpr.eqns:
        params = _params(eqn.primitive, map_nested(eqn.params, nested))
        inputs = [read(a) for a in eqn.inputs]
        outputs = [bound(v) for v in eqn.outputs]
        if params is not eqn.params or any(
            a is not b for a, b in zip((*inputs, *outputs), (*eqn.inputs, *eqn.outputs))
        ):
            eqn, changed = eqn.replace(inputs=inputs, outputs=outputs, params=params), True
        eqns.append(eqn)
    return Jaxpr(constvars, invars, [read(a) for a in jaxpr.outvars], eqns) if changed else jaxpr


def _params(p: Primitive, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters, with plain types where they declare those of results, and with axes of which types say nothing."""
    if p is sharding_constraint_p and params["sharding"].mesh.explicit_axes:
        sharding = params["sharding"]
        return {"sharding": NamedSharding(_automatic(sharding.mesh), PartitionSpec(*sharding.spec))}
    if p is shard_map_p and params["mesh"].explicit_axes:
        params = {**params, "mesh": _automatic(params["mesh"])}
    divided = [
        k
        for k, value in params.items()
        if isinstance(value, tuple)
        and any(type(a) is ShapedArray and a.division is not None for a in cast("tuple[Any, ...]", value))
    ]
    if not divided:
        return params
    return {
        k: tuple(a.undivided() if type(a) is ShapedArray else a for a in v) if k in divided else v
        for k, v in params.items()
    }


@functools.cache
def _automatic(mesh: Any) -> Any:
    """The mesh, the partitioner's where it was explicit."""
    auto = {AxisType.Explicit: AxisType.Auto}
    return mesh.update(axis_types=tuple(auto.get(t, t) for t in mesh.axis_types))


__all__ = ["without_divisions"]

"""Programs without what their types say of explicit mesh axes: what is compiled, whatever lies where."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.sharding import AxisType, NamedSharding, PartitionSpec

from .retyping import retyped


def without_divisions(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with plain types; the same object where they are plain already. Its constraints stay."""
    if not ShapedArray.any_divided:
        return closed
    jaxpr = retyped(closed.jaxpr, _plain_type, _plain_equation)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _plain_type(aval: Any) -> ShapedArray | None:
    return None if aval.division is None else aval.undivided()


def _plain_equation(eqn: Eqn, params: Any) -> Eqn:
    params = _params(eqn.primitive, params)
    return eqn if params is eqn.params else eqn.replace(params=params)


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

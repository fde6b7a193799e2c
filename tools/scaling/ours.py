"""The models as our partitioner divides them."""

from __future__ import annotations

from typing import Any

import quire
import quire.numpy
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.sharding import AbstractMesh, NamedSharding, P
from quire.passes.partition import Partitioned, partition, totals

from .models import Library, Model


def mesh_of(model: Model) -> AbstractMesh:
    """The model's devices."""
    return AbstractMesh(tuple(n for _, n in model.mesh), tuple(a for a, _ in model.mesh))


def program(model: Model) -> ClosedJaxpr:
    """The model's program of whole arrays."""
    mesh = mesh_of(model)

    def constrain(x: Any, *spec: Any) -> Any:
        return sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    library = Library(quire, quire.numpy, quire.lax, mesh, P, constrain)
    integers = dict(model.integers)
    avals = [quire.ShapeDtypeStruct(s, "int32" if i in integers else "float32") for i, s in enumerate(model.shapes)]
    return quire.make_jaxpr(model.make(library))(*avals)


def divided(model: Model) -> Partitioned:
    """The program of each device."""
    specs, outs = ([P(*s) for s in some] for some in (model.specs, model.out_specs))
    return partition(program(model), mesh_of(model), specs, outs)


def received(model: Model) -> dict[str, tuple[int, int]]:
    """The collectives of a device's program: how many of each kind, and the bytes that the device receives."""
    out: dict[str, tuple[int, int]] = {}
    for (kind, _), (count, size) in totals(divided(model).notes).items():
        known = out.get(kind, (0, 0))
        out[kind] = (known[0] + count, known[1] + size)
    return out

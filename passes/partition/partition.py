"""Partitioning: a program of whole arrays and how its arguments are divided, to the program of each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.sharding import AbstractMesh, Mesh, PartitionSpec
from quire.ir.tracing import close_captured, trace_flat

from ..base import PassContext
from ..cse import CommonSubexpressions
from ..dce import DeadCode
from ..hoist import Hoist
from ..inline import Inline
from .combining import combined
from .costs import MACHINE, Machine
from .emission import Emitter, Run
from .notes import Note, collected
from .propagation import prepare, propagated
from .specs import from_partition_spec, local_shape, to_partition_spec


@dataclass(frozen=True)
class Partitioned:
    """A program for each device of a mesh.

    Attributes:
        jaxpr: the program, of parts' shapes: ceil(n / k) where k devices divide a dimension of n.
        in_specs, out_specs: how arguments and results are divided.
        out_shapes: the shapes of the whole results.
        mesh: the devices.
        notes: the collectives, each with its reason.
    """

    jaxpr: ClosedJaxpr
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]
    out_shapes: tuple[tuple[int, ...], ...]
    mesh: Mesh | AbstractMesh
    notes: tuple[Note, ...]


def partition(
    closed: ClosedJaxpr,
    mesh: Mesh | AbstractMesh,
    in_specs: Sequence[PartitionSpec | None],
    out_specs: Sequence[PartitionSpec | None] | None = None,
    machine: Machine = MACHINE,
) -> Partitioned:
    """The program of each device for a program of whole arrays.

    Args:
        closed: the program.
        mesh: the devices.
        in_specs: how each argument is divided; None: as suits the program.
        out_specs: how each result is to be divided; None for one or all: as suits the program.
        machine: what times are estimated for.

    Raises:
        ValueError: the specs do not fit the arguments or results.
    """
    context = PassContext()
    # Equations that nothing needs would be communicated for.
    # Calls with derivatives of their own stay: inlining them would take constraints away too.
    prepared = DeadCode().apply(Inline(derivatives=False).apply(closed, context), context)
    jaxpr = prepare(prepared.jaxpr)
    body = propagated(jaxpr, mesh, in_specs, out_specs)
    sizes = dict(mesh.shape)
    specs = [body.get(v) for v in jaxpr.invars]
    results = [
        body.get(a) if out_specs is None or (s := out_specs[i]) is None else from_partition_spec(s, a.aval.ndim)
        for i, a in enumerate(jaxpr.outvars)
    ]
    emitter = Emitter(sizes, machine)

    def f(*xs: Any) -> list[Any]:
        out = Run(emitter, body).run(zip(xs, specs, strict=True), prepared.consts)
        return [
            emitter.moved(held, a.aval, spec, f"result {i} of the program")
            for i, (held, a, spec) in enumerate(zip(out, jaxpr.outvars, results, strict=True))
        ]

    avals = [v.aval.update(shape=local_shape(v.aval.shape, s, sizes)) for v, s in zip(jaxpr.invars, specs, strict=True)]
    local, captured, _ = trace_flat(f, avals, name="partition")
    program = close_captured(local, captured)
    for step in (CommonSubexpressions(), Hoist(), CommonSubexpressions(), DeadCode()):
        program = step.apply(program, context)
    program = ClosedJaxpr(combined(program.jaxpr, machine), program.consts)
    return Partitioned(
        program,
        tuple(map(to_partition_spec, specs)),
        tuple(map(to_partition_spec, results)),
        tuple(a.aval.shape for a in jaxpr.outvars),
        mesh,
        tuple(collected(program.jaxpr, sizes, machine)),
    )

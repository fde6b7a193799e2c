"""``dumpir --spmd``: the program of each device of a mesh, and why it communicates."""

from __future__ import annotations

from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.printer import PrintOptions, closed_jaxpr_to_str
from quire.ir.sharding import AbstractMesh, PartitionSpec
from quire.passes.partition import MACHINE, Partitioned, annotated, describe, partition, peak

from .inputs import InputError


def parse_mesh(text: str) -> AbstractMesh:
    """The mesh that ``x=4,y=2`` says. Raises InputError for other text."""
    names: list[str] = []
    sizes: list[int] = []
    for item in text.split(","):
        name, _, size = item.partition("=")
        if not name.strip() or not size.strip().isdigit() or int(size) < 1:
            raise InputError(f"--spmd: expected a mesh such as x=4,y=2, got {text!r}")
        names.append(name.strip())
        sizes.append(int(size))
    return AbstractMesh(sizes, names)


def parse_spec(text: str) -> PartitionSpec | None:
    """The spec that ``P('x', None)`` says; None for ``None``: as suits the program. Raises InputError for other text."""
    try:
        spec: Any = eval(text, {"__builtins__": {}}, {"P": PartitionSpec, "PartitionSpec": PartitionSpec})
    except Exception as error:
        raise InputError(f"--spmd: expected a spec such as P('x', None), got {text!r}: {error}") from None
    if spec is not None and not isinstance(spec, PartitionSpec):
        raise InputError(f"--spmd: expected a spec such as P('x', None), or None, got {text!r}")
    return spec


def partitioned(closed: ClosedJaxpr, words: list[str]) -> Partitioned:
    """The program partitioned as the option's words say: a mesh, and a spec for each argument, P() for the rest.

    Raises InputError where they are not that, or do not fit the program.
    """
    mesh = parse_mesh(words[0])
    specs = [parse_spec(w) for w in words[1:]]
    count = len(closed.in_avals)
    if len(specs) > count:
        raise InputError(f"--spmd: the program takes {count} argument(s), got {len(specs)} specs")
    try:
        return partition(closed, mesh, [*specs, *[PartitionSpec()] * (count - len(specs))])
    except ValueError as error:
        raise InputError(f"--spmd: {error}") from None


def text(p: Partitioned, width: int) -> str:
    """How arguments and results are divided, a device's program with what is to be said beside each equation, the totals."""
    held = peak(p.jaxpr.jaxpr)
    source = held.eqn.source if held.eqn is not None else None
    at = f" at {source.file}:{source.line}" if source is not None else ""
    during = f", most while {held.eqn.primitive.name} is computed{at}" if held.eqn is not None else ""
    beside = ClosedJaxpr(annotated(p.jaxpr.jaxpr, dict(p.mesh.shape), MACHINE), p.jaxpr.consts)
    return "\n".join(
        [
            f"arguments: {', '.join(map(repr, p.in_specs)) or 'none'}",
            f"results: {', '.join(map(repr, p.out_specs)) or 'none'}",
            closed_jaxpr_to_str(beside, PrintOptions(width=width, max_const=64, source=True)),
            describe(p.notes),
            f"peak: {held.bytes} bytes a device if nothing is fused, {held.arguments} of them arguments{during}",
        ]
    )

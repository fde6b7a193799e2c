"""What the partitioner says of its work: each collective, what it costs, why it is there, what else was thought of.

The reason of a collective is in its equation's source, so it goes where the equation goes: notes are read from the
program when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, has_nested, map_nested, nested_jaxprs
from quire.ir.primitives import collectives as co
from quire.ir.primitives import control_flow as cf
from quire.ir.source import Source

from .costs import Machine, received
from .specs import Axes, Sizes, Spec, parts, show


@dataclass(frozen=True, slots=True)
class Noted(Source):
    """The user's line that a collective comes from, and why it is there.

    Attributes:
        reason: what needs it; empty for what does not communicate.
        alternative: the next best way and its estimated cost; empty where there was none.
        place: the user's line; None where there is none, as of a result that is wanted divided.
        specs: how the operands and the results of the equation that it is part of are divided.
    """

    reason: str = ""
    alternative: str = ""
    place: Source | None = None
    specs: tuple[tuple[Spec, ...], tuple[Spec, ...]] = ((), ())


@dataclass(frozen=True, slots=True)
class Comment(Source):
    """What is written beside an equation."""

    text: str = ""

    def __str__(self) -> str:
        return self.text


def noted(
    source: Source | None, reason: str, alternative: str, needs: Sequence[Spec] = (), gives: Sequence[Spec] = ()
) -> Noted:
    """A source with a reason, or with how an equation's operands and results are divided."""
    if isinstance(source, Noted):
        source = source.place
    at = source or Source("<partition>", 0, "partition")
    return Noted(at.file, at.line, at.function, at.scope, reason, alternative, source, (tuple(needs), tuple(gives)))


@dataclass(frozen=True)
class Note:
    """One collective of a partitioned program.

    Attributes:
        kind: the primitive's name.
        axes: the mesh axes over which it communicates.
        bytes: what a device receives, each time.
        times: how often, where loops count their turns; a loop that ends by its data counts as one turn.
        seconds: the estimated time, each time.
        reason: what needs it.
        alternative: the next best way and its estimated cost; empty where there was none.
        source: the user's line.
    """

    kind: str
    axes: Axes
    bytes: int
    times: int
    seconds: float
    reason: str
    alternative: str
    source: Source | None

    def __str__(self) -> str:
        times = f" x {self.times}" if self.times != 1 else ""
        at = f" at {self.source.file}:{self.source.line}" if self.source is not None else ""
        other = f"; instead: {self.alternative}" if self.alternative else ""
        return f"{self.cost()}{times}: {self.reason}{at}{other}"

    def cost(self) -> str:
        """The kind, axes, bytes and time."""
        over = ",".join(map(str, self.axes))
        return f"{self.kind}[{over}] {self.bytes} bytes, {self.seconds * 1e6:.1f} us"


def note_of(eqn: Eqn, sizes: Sizes, machine: Machine, times: int = 1) -> Note | None:
    """The note of an equation; None where it does not communicate along the mesh's axes."""
    p = eqn.primitive
    if p.family != "collectives" or p in (co.pvary_p, co.pcast_p, co.axis_index_p):
        return None
    axes = tuple(a for a in co.axis_names(eqn.params) if a in sizes)
    if not axes:
        return None
    groups = eqn.params.get("axis_index_groups")
    size = received(p.name, eqn.inputs[0].aval.nbytes, len(groups[0]) if groups else parts(axes, sizes))
    source = eqn.source
    if not isinstance(source, Noted):
        source = noted(source, "written by the user, in shard_map", "")
    seconds = machine.message(size)
    return Note(p.name, axes, size, times, seconds, source.reason, source.alternative, source.place)


def collected(jaxpr: Jaxpr, sizes: Sizes, machine: Machine, times: int = 1) -> list[Note]:
    """The notes of a program, in its order, those of loops and branches among them."""
    out: list[Note] = []
    for eqn in jaxpr.eqns:
        note = note_of(eqn, sizes, machine, times)
        if note is not None:
            out.append(note)
        if eqn.params and has_nested(eqn.params):
            turns = times * eqn.params["length"] if eqn.primitive is cf.scan_p else times
            for j in nested_jaxprs(eqn.params):
                out += collected(j.jaxpr if isinstance(j, ClosedJaxpr) else j, sizes, machine, turns)
    return out


def annotated(jaxpr: Jaxpr, sizes: Sizes, machine: Machine) -> Jaxpr:
    """The jaxpr with what is to be said of each equation in place of its source: a note, or how it is divided."""
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        note = note_of(eqn, sizes, machine)
        source, text = eqn.source, ""
        if note is not None:
            text = str(note)
        elif isinstance(source, Noted):
            needs, gives = (", ".join(map(show, specs)) for specs in source.specs)
            at = f" at {source.place.file}:{source.place.line}" if source.place is not None else ""
            text = f"{needs} -> {gives}{at}" if needs or gives else at.strip()
        elif source is not None:
            text = f"at {source.file}:{source.line}"
        params = eqn.params
        if params and has_nested(params):
            params = map_nested(params, lambda j: ClosedJaxpr(annotated(j.jaxpr, sizes, machine), j.consts))
        comment = Comment("", 0, "", "", text) if text else None
        eqns.append(Eqn(eqn.inputs, eqn.outputs, eqn.primitive, params, eqn.effects, comment))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def totals(notes: Sequence[Note]) -> dict[tuple[str, Axes], tuple[int, int]]:
    """For each kind and axes how many collectives there are, turns of loops counted, and the bytes a device receives."""
    out: dict[tuple[str, Axes], tuple[int, int]] = {}
    for n in notes:
        count, size = out.get((n.kind, n.axes), (0, 0))
        out[n.kind, n.axes] = (count + n.times, size + n.bytes * n.times)
    return out


def describe(notes: Sequence[Note]) -> str:
    """A line for each collective, and the totals by kind and axes."""
    lines = [str(n) for n in notes]
    for (kind, axes), (count, size) in sorted(totals(notes).items(), key=str):
        lines.append(f"total {kind}[{','.join(map(str, axes))}]: {count}, {size} bytes a device")
    spent = sum(n.seconds * n.times for n in notes)
    lines.append(f"total: {sum(n.bytes * n.times for n in notes)} bytes a device, {spent * 1e6:.1f} us")
    return "\n".join(lines)

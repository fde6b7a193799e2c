"""What the partitioner says of its work: each collective, what it costs, why it is there, what else was thought of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.source import Source

from .specs import Axes


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
        over = ",".join(map(str, self.axes))
        times = f" x {self.times}" if self.times != 1 else ""
        at = f" at {self.source.file}:{self.source.line}" if self.source is not None else ""
        other = f"; instead: {self.alternative}" if self.alternative else ""
        return f"{self.kind}[{over}] {self.bytes} bytes{times}, {self.seconds * 1e6:.1f} us: {self.reason}{at}{other}"


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
    lines.append(f"total: {sum(n.bytes * n.times for n in notes)} bytes a device")
    return "\n".join(lines)

"""A plan: buffers, and the steps that read and write ranges of them, in order.

    buffer     argument   the caller's, given with the call; written only if the caller gave it away
               constant   filled before the program begins, never written
               transient  the program's own while it runs: one block, in which values lie side by side
    alternating  two of them exchange their memory after each turn of one loop
               result     memory that becomes the caller's
               staging    a few bytes that the host reads

    step       dispatch   a kernel, with a range for each binding
               copy, fill ranges that do not overlap
               load       the host reads a scalar
               new        a result's buffer is allocated
               take       an argument that a function of the host's has made becomes a buffer
               give       a buffer's content is handed to the caller, or to a function of the host's; it stays as it is
               call       a function of the host's is lent a range for each array that it reads or fills
               host       what is before is done before the host goes on
               loop       `moves` bring the initial values to the places of what is carried, the body's last steps the new ones
               branch     one of several lists of steps

Steps of equal `wave` in a list touch nothing that another of them writes: they may run at the same time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .program import Op, Pattern


class Buffer:
    """Some bytes; `op` is the operation of the program that brings them or takes them, if there is one."""

    __slots__ = ("kind", "name", "op", "size")

    def __init__(self, kind: str, name: str, size: int, op: Op | None = None) -> None:
        self.kind, self.name, self.size, self.op = kind, name, size, op

    def __repr__(self) -> str:
        return self.name


class Range:
    """`length` bytes of a buffer from `offset` on."""

    __slots__ = ("buffer", "length", "offset")

    def __init__(self, buffer: Buffer, offset: int, length: int) -> None:
        self.buffer, self.offset, self.length = buffer, offset, length

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{self.offset}:{self.offset + self.length}]"

    def same(self, other: Range) -> bool:
        """Whether it is the same place, of the same length."""
        return self.buffer is other.buffer and (self.offset, self.length) == (other.offset, other.length)

    def overlaps(self, other: Range) -> bool:
        """Whether there is a byte of both."""
        return (
            self.buffer is other.buffer
            and self.offset < other.offset + other.length
            and other.offset < self.offset + self.length
        )


READ, WRITE, BOTH = "ro", "wo", "rw"


class Step:
    """One step; which of the attributes mean something depends on the kind.

    Attributes:
        at: the operation of the program that the step was made for; None for what is moved at a region's end.
        op: the operation of the program: of a dispatch, a load, a gift, a host's step, a loop, a branch, and of a copy or
            a fill at an offset that only the host knows.
        ranges: the bindings of a dispatch or a call, with `access` each; of a copy target and source; of others the one place.
        slots: of a loop, the place of each carried value; of a branch, that of each result. A while has two lists of
            slots one after the other, for the arguments of its two regions.
        parts: lists of steps: a loop's regions, a branch's cases.
        exchanged: pairs of buffers whose memory a loop exchanges after each turn.
    """

    __slots__ = ("access", "at", "exchanged", "kind", "op", "parts", "pattern", "ranges", "slots", "wave")

    def __init__(
        self,
        kind: str,
        ranges: Sequence[Range] = (),
        *,
        op: Op | None = None,
        access: Sequence[str] = (),
        pattern: Pattern = b"",
        slots: Sequence[Range] = (),
        parts: Sequence[list[Step]] = (),
    ) -> None:
        self.kind, self.ranges, self.op, self.access = kind, list(ranges), op, list(access)
        self.pattern, self.slots, self.parts = pattern, list(slots), list(parts)
        self.wave = 0
        self.exchanged: list[tuple[Buffer, Buffer]] = []
        self.at: Op | None = None

    def touched(self) -> Iterator[tuple[Range, bool]]:
        """The ranges that are read or written, and whether written."""
        if self.kind in ("dispatch", "call"):
            for place, access in zip(self.ranges, self.access):
                yield place, access != READ
        elif self.kind in ("copy", "fill"):
            yield self.ranges[0], True
            for place in self.ranges[1:]:
                yield place, False


class Plan:
    """Of one program.

    Attributes:
        buffers: all of them.
        steps: in order.
        peak: bytes of the transient buffer.
        least: the largest sum of the sizes of transient values that are alive at one time, which no plan that keeps
            this order and these copies can go below.
    """

    __slots__ = ("buffers", "least", "name", "peak", "steps")

    def __init__(self, name: str, buffers: Sequence[Buffer], steps: list[Step], peak: int, least: int) -> None:
        self.name, self.buffers, self.steps, self.peak, self.least = name, list(buffers), steps, peak, least
        names: set[str] = set()
        for buffer in self.buffers:  # so that the text says which is which
            own, number = buffer.name, 0
            while buffer.name in names:
                number += 1
                buffer.name = f"{own}.{number}"
            names.add(buffer.name)


STAGED = 16
"""Bytes for each scalar that the host reads."""


def apart(buffer: Buffer) -> int:
    """From one of two exchanged buffers to the other: they lie in one allocation of twice so many bytes."""
    return -(-buffer.size // 256) * 256


def allocated(plan: Plan) -> int:
    """The bytes that a run of a plan allocates beside the results' memory: of intermediate values and scalars."""
    alternating = sum(apart(b) for b in plan.buffers if b.kind == "alternating")
    return plan.peak + alternating + STAGED * sum(b.kind == "staging" for b in plan.buffers)


FLAT = frozenset(("dispatch", "copy", "fill"))
"""Steps of the device; the others are the host's."""


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those within others after them."""
    for step in steps:
        yield step
        for part in step.parts:
            yield from walk(part)


def text(plan: Plan) -> str:
    """The plan, a line a step, read back by `parsing.py`.

    `|` marks what may run together with the line before; after ``  # `` are the user's lines, where they are known.
    """
    lines = [f"plan @{plan.name}"]
    for buffer in plan.buffers:
        lines.append(f"  buffer {buffer.name}: {buffer.kind}, {buffer.size} bytes")
    lines.append(f"  transient: {plan.peak} bytes, {plan.least} at least")

    def show(steps: Sequence[Step], indent: str) -> None:
        before: Step | None = None
        for step in steps:
            together = before is not None and step.kind in FLAT and before.kind in FLAT and step.wave == before.wave
            where = lines_of(step)
            lines.append(indent + ("| " if together else "") + line(step) + (f"  # {where}" if where else ""))
            for number, part in enumerate(step.parts):
                if number:
                    lines.append(indent + "--")
                show(part, indent + "  ")
            before = step

    show(plan.steps, "  ")
    return "\n".join([*lines, ""])


def lines_of(step: Step) -> str:
    """The user's lines that a step comes from, as ``model.py:12,14``; empty where they are not known."""
    op = step.at or step.op
    return op.where if op is not None else ""


def line(step: Step) -> str:
    """A step without its parts."""
    name = step.op.name if step.op is not None else ""
    if step.kind in ("dispatch", "call"):
        return f"{step.kind} {name}(" + ", ".join(f"{a} {r}" for r, a in zip(step.ranges, step.access)) + ")"
    if step.kind == "copy":
        where = " at an offset of the host's" if step.op is not None else ""
        return f"copy {step.ranges[1]} -> {step.ranges[0]}{where}"
    if step.kind == "fill":
        pattern = step.pattern.hex() if isinstance(step.pattern, bytes) else "a host's value"
        return f"fill {step.ranges[0]} with {pattern}"
    if step.kind in ("loop", "branch"):
        exchanged = "".join(f"; exchanges {a} and {b}" for a, b in step.exchanged)
        return f"{step.op.kind if step.op else step.kind} " + ", ".join(map(repr, step.slots)) + exchanged
    places = ", ".join(map(repr, step.ranges))
    if step.kind == "give":
        return f"give {places}" + (f" as {name}" if name and name != step.ranges[0].buffer.name else "")
    return " ".join(filter(None, (step.kind, name if step.kind != "new" else "", places)))

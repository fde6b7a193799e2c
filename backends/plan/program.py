"""What is planned: operations on values, each of which is some bytes that never change.

    kind       operands                   results
    import     -                          an argument of the caller's; `donated` if its memory may be written;
                                          `late` if a function of the host's has given it while the program runs
    constant   -                          bytes that are there before the program begins; with a `name` those of a global
    alloca     -                          bytes of any content
    splat      -                          `pattern` again and again
    dispatch   what a kernel reads        what it makes; `ties[r]` is the operand whose memory result r takes, or -1.
                                          `ranges[i]` is what is read of operand i: offset and length; of one that is tied
                                          what is read and written, and the rest of the result is the operand's
    same       x                          x
    slice      x                          the bytes of x from `offset` on
    update     target, source             target, with source from `offset` on
    copy       target, source             target, with `length` bytes of source from `source_offset` on, from `offset` on
    fill       target                     target, with `pattern` in `length` bytes from `offset` on
    load       x                          - (a scalar at `offset`, of `length` bytes, that the host reads)
    export     x                          - (memory of its own, which the caller gets)
    store      x                          - (memory of its own, which later calls read as a constant)
    call       what a function reads      what it makes: one of the host's own, which is lent the memory
    host       -                          - (something that the host does, between what is before and after)
    for        initial values             what the last turn yields. regions: the body
    while      initial values             what the condition passes on. regions: up to the condition, and after it
    if         -                          what the branch yields. regions: the branches

An offset that only the host knows when it runs is None. A pattern is its bytes, or ``("host", which, bytes)`` for a scalar
of the host's: a number that tells it from others, and its size.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Pattern = bytes | tuple[str, int, int]

Value = int
"""The number of a value."""


class Region:
    """Operations in order.

    Attributes:
        arguments: values that are there at the beginning.
        operations: what is done.
        yields: values handed on at the end.
    """

    __slots__ = ("arguments", "operations", "yields")

    def __init__(self, arguments: Sequence[Value] = (), operations: Sequence[Op] = (), yields: Sequence[Value] = ()):
        self.arguments = list(arguments)
        self.operations = list(operations)
        self.yields = list(yields)


class Op:
    """One operation; see the module for what each kind means.

    `where` is the user's lines that it comes from, as ``model.py:12,14``, where they have been asked for.
    """

    __slots__ = (
        "donated", "handle", "kind", "late", "length", "name", "offset", "operands", "pattern", "ranges", "regions", "results",
        "source_offset", "ties", "where",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        operands: Sequence[Value] = (),
        results: Sequence[Value] = (),
        *,
        name: str = "",
        ranges: Sequence[tuple[int | None, int | None]] = (),
        ties: Sequence[int] = (),
        offset: int | None = 0,
        length: int | None = None,
        source_offset: int | None = 0,
        pattern: Pattern = b"",
        donated: bool = False,
        late: bool = False,
        regions: Sequence[Region] = (),
        handle: int = 0,
    ) -> None:
        self.kind = kind
        self.operands = list(operands)
        self.results = list(results)
        self.name = name
        self.ranges = list(ranges)
        self.ties = list(ties)
        self.offset = offset
        self.length = length
        self.source_offset = source_offset
        self.pattern = pattern
        self.donated = donated
        self.late = late
        self.regions = list(regions)
        self.handle = handle
        self.where = ""


class Program:
    """Operations, and the size of each value in bytes."""

    __slots__ = ("name", "region", "sizes")

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.sizes: list[int] = []
        self.region = Region()

    def value(self, size: int) -> Value:
        """A new value."""
        self.sizes.append(size)
        return len(self.sizes) - 1


def walk(region: Region) -> Iterator[Op]:
    """All operations, those within others after them."""
    for op in region.operations:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def text(program: Program) -> str:
    """The program, a line an operation."""
    lines: list[str] = []

    def show(region: Region, indent: str) -> None:
        for op in region.operations:
            made = ", ".join(f"%{r}: {program.sizes[r]}" for r in op.results)
            words = [op.kind, op.name, *(f"%{x}" for x in op.operands)]
            if op.kind in ("slice", "update", "copy", "fill", "load"):
                words.append("at " + ("?" if op.offset is None else str(op.offset)))
            if any(tie >= 0 for tie in op.ties):
                words.append("in place of " + ", ".join(f"%{op.operands[t]}" if t >= 0 else "-" for t in op.ties))
            lines.append(indent + (f"{made} = " if made else "") + " ".join(filter(None, words)))
            for inner in op.regions:
                arguments = ", ".join(f"%{a}: {program.sizes[a]}" for a in inner.arguments)
                lines.append(f"{indent}({arguments}) {{")
                show(inner, indent + "  ")
                lines.append(indent + "} yields " + ", ".join(f"%{y}" for y in inner.yields))

    show(program.region, "  ")
    return "\n".join([f"program @{program.name}", *lines, ""])

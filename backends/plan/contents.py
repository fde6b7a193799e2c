"""What the bytes of each value are, told by where they come from.

A content is a sequence of pieces `(length, origin, offset)`. An origin is the number of a value of which nothing more is
known (a kernel's result, an argument), a pattern of bytes that is repeated, or None where any bytes will do. So a slice
of an update of a copy has the same content as the pieces it was put together from, and may lie where they do.

What a loop carries unchanged has the content of its initial value.
"""

from __future__ import annotations

from .program import Op, Program, Region, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .program import Pattern

    Piece = tuple[int, "int | Pattern | None", int]
    Content = tuple[Piece, ...]


def joined(pieces: Iterable[Piece]) -> Content:
    """The same content in as few pieces as it takes."""
    out: list[Piece] = []
    for length, origin, offset in pieces:
        if not length:
            continue
        if isinstance(origin, bytes):
            origin, offset = _least(origin, offset)
        offset = _normal(origin, offset)
        if out and out[-1][1] == origin and _normal(origin, out[-1][2] + out[-1][0]) == offset:
            out[-1] = (out[-1][0] + length, origin, out[-1][2])
        else:
            out.append((length, origin, offset))
    return tuple(out)


def _least(pattern: bytes, offset: int) -> tuple[bytes, int]:
    """The same repeated bytes by the pattern that is the first of its rotations, repeating nothing itself."""
    period = next(n for n in range(1, len(pattern) + 1) if pattern[n:] + pattern[:n] == pattern)
    at = min(range(period), key=lambda k: pattern[k:period] + pattern[:k])
    return pattern[at:period] + pattern[:at], offset - at


def _normal(origin: int | Pattern | None, offset: int) -> int:
    """An offset, where it matters: in a pattern only up to its length."""
    if origin is None:
        return 0
    if isinstance(origin, bytes):
        return offset % len(origin)
    return offset % origin[2] if isinstance(origin, tuple) else offset


def shifted(pattern: Pattern, start: int) -> Pattern | None:
    """What is repeated in the bytes of a repeated pattern from `start` on; None within a scalar of the host's."""
    if isinstance(pattern, bytes):
        start %= len(pattern)
        return pattern[start:] + pattern[:start]
    return None if start % pattern[2] else pattern


def part(content: Content, start: int, length: int) -> Content:
    """Some of the bytes."""
    out: list[Piece] = []
    at = 0
    for size, origin, offset in content:
        low, high = max(start - at, 0), min(start + length - at, size)
        if low < high:
            out.append((high - low, origin, offset + low))
        at += size
        if at >= start + length:
            break
    return joined(out)


def agree(a: Content, b: Content, either: bool = False) -> bool:
    """Whether bytes with content b serve where a is wanted: the same, or not looked at. With `either`, on both sides."""
    if a == b:
        return True
    i = j = 0
    x, y = list(a), list(b)
    while i < len(x) and j < len(y):
        (n, p, k), (m, q, o) = x[i], y[j]
        if not (p is None or (either and q is None) or (p == q and _normal(p, k) == _normal(q, o))):
            return False
        step = min(n, m)
        x[i], y[j] = (n - step, p, k + step), (m - step, q, o + step)
        i += x[i][0] == 0
        j += y[j][0] == 0
    return i == len(x) and j == len(y)


class Contents:
    """The contents of all values of a program, by number."""

    def __init__(self, program: Program) -> None:
        self.sizes = program.sizes
        self.of: dict[Value, Content] = {}
        self._region(program.region)

    def opaque(self, value: Value) -> Content:
        """Of which nothing more is known."""
        size = self.sizes[value]
        return ((size, value, 0),) if size else ()

    def _region(self, region: Region) -> None:
        for op in region.operations:
            self._op(op)

    def _op(self, op: Op) -> None:
        of, sizes = self.of, self.sizes
        kind = op.kind
        if kind == "same":
            of[op.results[0]] = of[op.operands[0]]
        elif kind == "alloca":
            size = sizes[op.results[0]]
            of[op.results[0]] = ((size, None, 0),) if size else ()
        elif kind == "splat":
            of[op.results[0]] = joined([(sizes[op.results[0]], op.pattern, 0)])
        elif kind == "slice" and op.offset is not None:
            of[op.results[0]] = part(of[op.operands[0]], op.offset, sizes[op.results[0]])
        elif kind in ("update", "copy", "fill") and op.offset is not None and op.source_offset is not None:
            of[op.results[0]] = self._written(op)
        elif kind == "dispatch":
            for result, tie in zip(op.results, op.ties):
                of[result] = self._made(op, result, tie)
        elif kind in ("for", "while"):
            self._loop(op)
        elif kind == "if":
            for region in op.regions:
                self._region(region)
            for k, result in enumerate(op.results):
                ends = [of[region.yields[k]] for region in op.regions]
                of[result] = ends[0] if all(end == ends[0] for end in ends) else self.opaque(result)
        else:
            for result in op.results:
                of[result] = self.opaque(result)

    def _made(self, op: Op, result: Value, tie: int) -> Content:
        """Of a kernel's result: what is written in place of a part of an operand leaves the rest as it was."""
        offset, length = op.ranges[tie] if tie >= 0 else (None, None)
        if offset is None or length is None:
            return self.opaque(result)
        rest = self.of[op.operands[tie]]
        after = offset + length
        return joined(
            (*part(rest, 0, offset), (length, result, offset), *part(rest, after, self.sizes[result] - after))
        )

    def _written(self, op: Op) -> Content:
        """Of update, copy and fill at a known place."""
        target = self.of[op.operands[0]]
        size, offset = self.sizes[op.operands[0]], op.offset or 0
        if op.kind == "update":
            put: Content = self.of[op.operands[1]]
            length = self.sizes[op.operands[1]]
        elif op.length is None:
            return self.opaque(op.results[0])
        elif op.kind == "copy":
            length = op.length
            put = part(self.of[op.operands[1]], op.source_offset or 0, length)
        else:
            length = op.length
            put = ((length, op.pattern, 0),)
        return joined((*part(target, 0, offset), *put, *part(target, offset + length, size - offset - length)))

    def _loop(self, op: Op) -> None:
        """Arguments are what nothing is known of, but for those that turn out to be handed on as they were."""
        of, first, last = self.of, op.regions[0], op.regions[-1]
        for argument in first.arguments:
            of[argument] = self.opaque(argument)
        self._body(op)
        kept = [of[new] == of[argument] for argument, new in zip(first.arguments, last.yields)]
        if any(kept):
            for argument, initial, is_kept in zip(first.arguments, op.operands, kept):
                if is_kept:
                    of[argument] = of[initial]
            self._body(op)
        if op.kind == "for":
            for result, initial, is_kept in zip(op.results, op.operands, kept):
                of[result] = of[initial] if is_kept else self.opaque(result)
        else:  # what the condition passed on the last time
            for result, passed in zip(op.results, first.yields):
                of[result] = of[passed]

    def _body(self, op: Op) -> None:
        self._region(op.regions[0])
        if op.kind == "while":
            before, after = op.regions
            for argument, passed in zip(after.arguments, before.yields):
                self.of[argument] = self.of[passed]
            self._region(after)


def contents_of(program: Program) -> Sequence[Content]:
    """The content of each value, by number."""
    found = Contents(program).of
    return [found.get(v, ()) for v in range(len(program.sizes))]

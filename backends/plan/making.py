"""Making a plan: which values share memory, where each lies, what is copied.

1. The operations are numbered in order; a value lives from where it is made to its last use, and one from outside a loop
   that is used within to the loop's end.
2. Values are brought together that may lie at one place: a result that a kernel writes in place of an operand, what a
   loop carries with its initial value and what its body yields, the branches' ends, a slice with what it is sliced
   from, what is put into a larger array with that array, what is handed to the caller with the caller's memory.
   Those in the innermost loops come first, the large before the small. Two values may lie on the same bytes if they do
   not live at the same time or if the bytes have the same content (contents.py) while they do.
3. Sets of values that lie in no memory of the caller's get places in one block: the largest first, each in the tightest
   gap among those that live at the same time.
   A large value that a loop carries, and that cannot be written where the old one lies, has two places, which are exchanged
   after each turn.
4. The steps follow from the places: what does not lie where it should is copied.

What a scalar is repeated in (a splat) is filled wherever it is to be written over, and lies nowhere in between: filling takes
half of what copying does.

Nothing here has to be right for the numbers to be: checking.py finds whatever is not.
"""

from __future__ import annotations

from .contents import agree, contents_of, part, shifted
from .packing import most_alive, number_waves, packed
from .plan import BOTH, READ, WRITE, Buffer, Plan, Range, Step, walk
from .program import Op, Program, Region, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contents import Content
    from .program import Pattern

_EVER = 1 << 60
ALIGNMENT = 64
"""Of each value in the block, in bytes: what SIMD loads and lines of caches like."""
ALTERNATE_FROM = 1 << 17
"""So many bytes of a carried value are not copied in each turn, but have two places. Commands with places that change are
recorded anew in each turn, which costs as much as copying a small value."""


class _Set:
    """Values at one place.

    Attributes:
        members: value, offset in the set, size, and when it lives: first and last point.
        first, last: when any of them does.
        fixed: one of two places that a loop exchanges; nothing more is put there.
        pin: the operation that brings the memory (import, constant) or takes it (export, store).
        pinned: offset and size of the value that the pin is about.
    """

    __slots__ = ("buffer", "exported", "first", "fixed", "high", "last", "low", "members", "pin", "pinned")

    def __init__(self, value: Value, size: int, first: int, last: int) -> None:
        self.members = [(value, 0, size, first, last)]
        self.low, self.high = 0, size
        self.first, self.last = first, last
        self.pin: Op | None = None
        self.pinned: tuple[int, int] = (0, 0)
        self.exported: Op | None = None
        self.fixed = False
        self.buffer: Buffer | None = None


def make(program: Program, alignment: int = ALIGNMENT, alternate_from: int = ALTERNATE_FROM) -> Plan:
    """A plan for a program; it is not proved."""
    return _Maker(program, alignment, alternate_from).make()


class _Maker:
    def __init__(self, program: Program, alignment: int, alternate_from: int) -> None:
        self.program, self.alignment, self.alternate_from = program, alignment, alternate_from
        self.sizes = list(program.sizes)
        self.contents = list(contents_of(program))
        n = len(self.sizes)
        self.first = [0] * n
        self.last = [-1] * n
        self.path: list[tuple[int, ...]] = [()] * n
        """The loops and branches that a value is made in, from outside in."""
        self.point = 0
        self.loop_end: dict[int, int] = {}
        self.scopes = 0
        self.uses: list[tuple[Value, int, tuple[int, ...]]] = []
        self.wishes: list[tuple[int, int, int, Value, Value, int]] = []
        """(how deep, how large, order, what, in what, at which offset): in the order in which they are tried."""
        self.slots: dict[int, list[Value]] = {}
        """Of an operation with regions, the values whose places stand for what it carries or gives."""
        self.ends: dict[int, list[tuple[Value, Value]]] = {}
        """Of a region, what is moved at its end: from, to."""
        self.entries: dict[int, list[tuple[Value, Value]]] = {}
        """Of a loop, what is moved before it begins."""
        self.gifts: dict[int, Value] = {}
        """Of an export, the value in the caller's memory."""
        self.when: dict[int, int] = {}
        """The points of operations, and of regions' ends."""
        self.one: list[tuple[Value, Value]] = []
        """Values at one place in any case."""
        self.sets: list[_Set] = []
        self.at: list[tuple[int, int]] = []
        """Of each value its set, by number, and the offset there."""
        self.splats: dict[Value, Pattern] = {}
        """Of values in which a pattern is repeated, as far as that is known here: the pattern."""
        self.laid: set[Value] = set()
        """Splats that are read where they lie."""
        self.now = 0
        """The point of the operation whose steps are being made."""
        self.scalars = 0
        self.nexts: dict[Value, tuple[Op, tuple[int, ...]]] = {}
        """Of a value at the place of the next turn's argument, the loop and the path of what is made in it."""
        self.pairs: dict[int, list[tuple[_Set, _Set]]] = {}
        """Of a loop, the pairs of places that it exchanges after each turn."""
        self.temporary: list[tuple[Buffer, int]] = []
        self.until: dict[Buffer, int] = {}
        """Of buffers that are moved from as if at once with others, the point at which the targets begin to live."""

    def make(self) -> Plan:
        self.survey(self.program.region, ())
        self.extend()
        self.unite_all()
        self.give_buffers()
        steps = [*self.news(self.program.region), *self.steps(self.program.region)]
        peak, least, arena = self.pack(steps)
        number_waves(steps)
        buffers = list(dict.fromkeys(s.buffer for s in self.sets if s.buffer is not None and s.pin is not None))
        staging = [r.buffer for s in walk(steps) if s.kind == "load" for r in s.ranges]
        pairs = [s.buffer for found in self.pairs.values() for pair in found for s in pair if s.buffer is not None]
        return Plan(self.program.name, [*buffers, arena, *pairs, *dict.fromkeys(staging)], steps, peak, least)

    # -- 1. when values live

    def new(self, like: Value, first: int, last: int, path: tuple[int, ...], content: Content | None = None) -> Value:
        """One more value, of the size of another one."""
        self.sizes.append(self.sizes[like])
        self.contents.append(self.contents[like] if content is None else content)
        self.first.append(first)
        self.last.append(last)
        self.path.append(path)
        return len(self.sizes) - 1

    def define(self, value: Value, point: int, path: tuple[int, ...]) -> None:
        self.first[value], self.path[value] = point, path
        self.last[value] = max(self.last[value], point)

    def use(self, value: Value, point: int, path: tuple[int, ...]) -> None:
        self.uses.append((value, point, path))
        self.laid.add(value)

    def lies(self, value: Value) -> bool:
        """Whether the bytes of a value are at its place from where it is made on."""
        return value in self.laid or value not in self.splats

    def filled_anew(self, value: Value, *starts: int | None) -> bool:
        """Whether the bytes of a value, in parts that begin at `starts`, are filled where they are wanted."""
        pattern = self.splats.get(value)
        return pattern is not None and all(shifted(pattern, start or 0) is not None for start in starts)

    def wish(self, what: Value, within: Value, offset: int, path: tuple[int, ...]) -> None:
        depth = sum(scope in self.loop_end for scope in path)
        self.wishes.append((-depth, -self.sizes[what], len(self.wishes), what, within, offset))

    def survey(self, region: Region, path: tuple[int, ...]) -> None:
        for op in region.operations:
            self.point += 2
            self.when[id(op)] = self.point
            getattr(self, "see_" + op.kind, self.see_other)(op, self.point, path)

    def extend(self) -> None:
        """The last use of each value."""
        for value, point, path in self.uses:
            own = self.path[value]
            for depth, scope in enumerate(path):
                if depth >= len(own) or own[depth] != scope:
                    point = max(point, self.loop_end.get(scope, 0))
                    if scope in self.loop_end:
                        break
            self.last[value] = max(self.last[value], point)

    def see_other(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        """load, host, alloca."""
        for x in op.operands:
            self.use(x, p, path)
        for r in op.results:
            self.define(r, p + 1, path)

    def see_splat(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        self.define(op.results[0], p + 1, path)
        self.splats[op.results[0]] = op.pattern

    def see_import(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        r = op.results[0]
        self.define(r, -1, path)
        if not op.donated:
            self.last[r] = _EVER

    see_constant = see_import

    def see_dispatch(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        tied = {tie for tie in op.ties if tie >= 0}
        for i, x in enumerate(op.operands):
            if i not in tied:
                self.use(x, p + 1, path)
        for r, tie in zip(op.results, op.ties):
            if tie >= 0:
                self.see_written(op.operands[tie], r, p, path)
            else:
                self.define(r, p + 1, path)

    def see_call(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        for x in op.operands:
            self.use(x, p + 1, path)
        for r in op.results:
            self.define(r, p + 1, path)

    def see_written(self, target: Value, result: Value, p: int, path: tuple[int, ...], *starts: int | None) -> None:
        """A value that is the result after a part of it, or all, is written over; the parts that stay begin at `starts`."""
        self.define(result, p + 1, path)
        if self.filled_anew(target, *starts):
            self.first[result] = p
        else:
            self.use(target, p, path)
            self.wish(result, target, 0, path)

    def see_same(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        x, r = op.operands[0], op.results[0]
        if x in self.splats:
            self.define(r, p + 1, path)
            self.splats[r] = self.splats[x]
            return
        self.see_other(op, p, path)
        self.wish(r, x, 0, path)

    def see_slice(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        self.use(op.operands[0], p if op.offset is not None else p + 1, path)
        self.define(op.results[0], p + 1, path)
        if op.offset is not None:
            self.wish(op.results[0], op.operands[0], op.offset, path)

    def see_update(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        target, source = op.operands
        result = op.results[0]
        filled = op.offset is not None and self.filled_anew(source, op.offset)
        if not filled:
            self.use(source, p + 1, path)
        if op.offset == 0 and self.sizes[source] == self.sizes[target]:
            self.define(result, p + 1, path)
            self.wish(result, target, 0, path)
        else:
            self.see_written(target, result, p, path, op.offset, (op.offset or 0) + self.sizes[source])
        if op.offset is not None and not filled:
            self.wish(source, result, op.offset, path)

    def see_copy(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        target, source = op.operands
        known = None not in (op.offset, op.source_offset, op.length)
        self.see_written(target, op.results[0], p, path, op.offset, (op.offset or 0) + (op.length or 0))
        if known and self.filled_anew(source, op.offset, op.source_offset, op.length):
            return
        self.use(source, p + 1, path)
        if op.offset is not None and op.source_offset == 0 and op.length == self.sizes[source]:
            self.wish(source, op.results[0], op.offset, path)

    def see_fill(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        self.see_written(op.operands[0], op.results[0], p, path, op.offset, (op.offset or 0) + (op.length or 0))

    def see_export(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        x = op.operands[0]
        self.use(x, p, path)
        gift = self.gifts[id(op)] = self.new(x, p, _EVER, path)
        if not path:
            self.wish(x, gift, 0, path)

    see_store = see_export

    def see_if(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        ends: list[list[Value]] = []
        for region in op.regions:
            self.scopes += 1
            inside = (*path, self.scopes)
            self.survey(region, inside)
            ends.append(self.end(region, region.yields, inside))
        self.point += 2
        self.slots[id(op)] = op.results
        for k, r in enumerate(op.results):
            self.define(r, self.point + 1, path)
            self.one += [(end[k], r) for end in ends]

    def end(self, region: Region, yields: Sequence[Value], path: tuple[int, ...]) -> list[Value]:
        """The values that a region hands on, at the places where they are expected."""
        self.point += 2
        p = self.when[id(region)] = self.point
        out: list[Value] = []
        for y in yields:
            out.append(self.new(y, p + 1, p + 1, path))
            if y not in self.splats:
                self.use(y, p, path)
                self.wish(y, out[-1], 0, path)
        self.ends[id(region)] = list(zip(yields, out))
        return out

    def see_for(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        self.enter(op, p, path)
        inside = (*path, self.scopes)
        first, scope = op.regions[0], self.scopes
        self.survey(first, inside)
        nexts = self.end(op.regions[-1], op.regions[-1].yields, inside)
        self.nexts.update((following, (op, inside)) for following in nexts)
        self.loop_end[scope] = self.point + 1
        self.point += 2
        self.slots[id(op)] = list(first.arguments)
        for argument, following, r in zip(first.arguments, nexts, op.results):
            self.define(r, self.point + 1, path)
            self.one += [(following, argument), (r, argument)]

    def enter(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        """The beginning of a loop: its arguments live."""
        self.scopes += 1
        self.loop_end[self.scopes] = 0  # known later
        inside = (*path, self.scopes)
        self.entries[id(op)] = list(zip(op.operands, op.regions[0].arguments))
        for initial, argument in self.entries[id(op)]:
            self.define(argument, p + 1, inside)
            if initial not in self.splats:
                self.use(initial, p, path)
                self.wish(initial, argument, 0, path)

    def see_while(self, op: Op, p: int, path: tuple[int, ...]) -> None:
        self.enter(op, p, path)
        scope, inside = self.scopes, (*path, self.scopes)
        before, after = op.regions
        self.survey(before, inside)
        passed = self.end(before, before.yields, inside)
        for argument, x in zip(after.arguments, passed):
            self.define(argument, self.point + 1, inside)
            self.one.append((x, argument))
        self.survey(after, inside)
        nexts = self.end(after, after.yields, inside)
        self.nexts.update((following, (op, inside)) for following in nexts)
        self.loop_end[scope] = self.point + 1
        self.point += 2
        self.slots[id(op)] = [*before.arguments, *after.arguments]
        self.one += list(zip(nexts, before.arguments))
        for argument, r in zip(after.arguments, op.results):
            self.define(r, self.point + 1, path)
            self.one.append((r, argument))

    # -- 2. what lies at one place

    def unite_all(self) -> None:
        for v, size in enumerate(self.sizes):
            self.sets.append(_Set(v, size, self.first[v], max(self.first[v], self.last[v])))
            self.at.append((v, 0))
        self.pins(self.program.region)
        for a, b in self.one:
            self.unite(a, b, 0, forced=True)
        for *_, what, within, offset in sorted(self.wishes):
            if not self.unite(what, within, offset) and within in self.nexts:
                self.alternate(what, within, *self.nexts[within])

    def alternate(self, new: Value, following: Value, loop: Op, inside: tuple[int, ...]) -> None:
        """Let a carried value and the next one exchange places, if both are large and nothing else lies there."""
        (i, at), (j, base) = self.at[new], self.at[following]
        mine, theirs = self.sets[i], self.sets[j]
        size = self.sizes[new]
        free = mine.pin is theirs.pin is None and not mine.fixed and not theirs.fixed and i != j
        whole = at == base == mine.low == theirs.low == 0 and mine.high == theirs.high == size
        if size < self.alternate_from or not free or not whole:
            return
        own = {v for v, *_ in theirs.members}
        carried = {following, *(a for a in loop.regions[0].arguments), *(loop.results if loop.kind == "for" else ())}
        made = set(loop.results) if loop.kind == "while" else set[int]()
        slots = {*loop.regions[0].arguments, *(v for v, (op, _) in self.nexts.items() if op is loop)}
        if not own <= carried or slots & {v for v, *_ in mine.members}:
            return
        if all(self.path[v][: len(inside)] == inside or v in made for v, *_ in mine.members):
            mine.fixed = theirs.fixed = True
            self.pairs.setdefault(id(loop), []).append((theirs, mine))

    def pins(self, region: Region) -> None:
        """The sets whose memory is somebody's."""
        for op in region.operations:
            for inner in op.regions:
                self.pins(inner)
            if op.kind in ("import", "constant"):
                v = op.results[0]
                own = self.sets[v]
                own.pin, own.pinned = op, (0, self.sizes[v])
            elif op.kind in ("export", "store"):
                v = self.gifts[id(op)]
                own = self.sets[v]
                own.pin, own.exported, own.pinned = op, op, (0, self.sizes[v])

    def unite(self, what: Value, within: Value, offset: int, forced: bool = False) -> bool:
        """Put a value at an offset in another one, if that harms nobody."""
        i, at = self.at[what]
        j, base = self.at[within]
        if i == j:
            return at == base + offset
        mine, theirs = self.sets[i], self.sets[j]
        shift = base + offset - at  # from places in mine to places in theirs
        if mine.fixed or theirs.fixed:
            return False
        if not forced and (self.in_the_way(mine, theirs, shift) or not self.pins_agree(mine, theirs, shift)):
            return False
        if len(mine.members) > len(theirs.members):
            mine, theirs, i, j, shift = theirs, mine, j, i, -shift
        for v, o, size, first, last in mine.members:
            theirs.members.append((v, o + shift, size, first, last))
            self.at[v] = (j, o + shift)
        theirs.low, theirs.high = min(theirs.low, mine.low + shift), max(theirs.high, mine.high + shift)
        theirs.first, theirs.last = min(theirs.first, mine.first), max(theirs.last, mine.last)
        if mine.pin is not None and (theirs.pin is None or theirs.pin.kind in ("export", "store")):
            theirs.pin, theirs.pinned = mine.pin, (mine.pinned[0] + shift, mine.pinned[1])
        theirs.exported = theirs.exported or mine.exported
        mine.members = []
        return True

    def in_the_way(self, mine: _Set, theirs: _Set, shift: int) -> bool:
        """Whether two values would lie on the same bytes, live at the same time, and differ there."""
        if mine.last < theirs.first or theirs.last < mine.first:
            return False
        for v, o, n, first, last in mine.members:
            o += shift
            for w, q, m, begin, end in theirs.members:
                if first <= end and begin <= last and o < q + m and q < o + n:
                    low, high = max(o, q), min(o + n, q + m)
                    a = part(self.contents[v], low - o, high - low)
                    b = part(self.contents[w], low - q, high - low)
                    if not agree(a, b, either=True):
                        return True
        return False

    def pins_agree(self, mine: _Set, theirs: _Set, shift: int) -> bool:
        """Whether the memory of which both are, if it is somebody's, can be one."""
        pinned = [
            (s.pin, s.pinned[0] + d, s.pinned[1], s) for s, d in ((mine, shift), (theirs, 0)) if s.pin is not None
        ]
        if not pinned:
            return True
        if mine.exported is not None and theirs.exported is not None:
            return False
        low, high = min(theirs.low, mine.low + shift), max(theirs.high, mine.high + shift)
        for pin, start, size, _ in pinned:
            assert pin is not None
            if low < start or high > start + size:
                return False
            if pin.late or (pin.kind in ("export", "store") and self.path[self.gifts[id(pin)]]):
                scope = self.path[pin.results[0]] if pin.late else self.path[self.gifts[id(pin)]]
                members = (*mine.members, *theirs.members)
                if any(self.path[m[0]][: len(scope)] != scope for m in members):
                    return False
        if len(pinned) == 1:
            return True
        (a, start, size, _), (b, other_start, other_size, _) = pinned
        assert a is not None and b is not None
        bring = a if a.kind in ("import", "constant") else b
        take = b if bring is a else a
        donated = bring.kind == "import" and bring.donated and not bring.late and take.kind == "export"
        kept = bring.kind == "constant" and not bring.name and take.kind == "store"
        if not donated and not kept:
            return False
        return (start, size) == (other_start, other_size)

    # -- 3. places

    def give_buffers(self) -> None:
        """Each set its own buffer; those of the transient sets are put into one block later."""
        counts: dict[str, int] = {}
        kinds = {"import": "argument", "constant": "constant", "export": "result", "store": "result"}
        for number, s in enumerate(self.sets):
            if not s.members:
                continue
            kind = kinds[s.pin.kind] if s.pin is not None else "alternating" if s.fixed else "transient"
            if s.pin is None:
                s.buffer = Buffer(kind, f"{kind}{number}", s.high - s.low)
                continue
            counts[kind] = counts.get(kind, 0) + 1
            # What a function of the host's is given is not a result of the program's: those have names.
            name = s.pin.name or f"{'handed' if kind == 'result' else kind}{counts[kind] - 1}"
            s.buffer = Buffer(kind, name, s.pinned[1], s.pin)
            s.low = s.pinned[0]

    def place(self, value: Value, offset: int = 0, length: int | None = None) -> Range:
        """Where a value lies, or a part of it."""
        number, at = self.at[value]
        s = self.sets[number]
        assert s.buffer is not None
        return Range(s.buffer, at - s.low + offset, self.sizes[value] if length is None else length)

    def pack(self, steps: Sequence[Step]) -> tuple[int, int, Buffer]:
        """Puts the transient buffers into one; its size, and the least it could be."""
        used: dict[Buffer, tuple[int, int]] = {}
        for s in self.sets:
            if s.members and s.pin is None and not s.fixed and s.buffer is not None and s.buffer.size:
                used[s.buffer] = (s.first, max(s.last, self.until.get(s.buffer, 0)))
        used.update({buffer: (point, point + 1) for buffer, point in self.temporary})
        ranges = [r for step in walk(steps) for r in (*step.ranges, *step.slots) if r.buffer.kind == "transient"]
        touched = {r.buffer for r in ranges}
        a = self.alignment
        blocks = [(-(-b.size // a) * a, *used[b], b) for b in used if b in touched]
        peak, offsets = packed(blocks)
        arena = Buffer("transient", "transient", peak)
        for r in ranges:
            r.offset += offsets.get(r.buffer, 0)
            r.buffer = arena
        return peak, most_alive(blocks), arena

    # -- 4. steps

    def news(self, region: Region) -> list[Step]:
        """The allocation of the results that the caller gets at the end."""
        out: list[Step] = []
        for op in region.operations:
            if op.kind in ("export", "store"):
                place = self.place(self.gifts[id(op)])
                if place.buffer.kind == "result":
                    out.append(Step("new", [place], op=op))
        return out

    def steps(self, region: Region) -> list[Step]:
        out: list[Step] = []
        for op in region.operations:
            known = len(out)
            self.now = self.when[id(op)]
            getattr(self, "do_" + op.kind, self.do_nothing)(op, out)
            for step in out[known:]:
                step.at = op
        return out

    def do_nothing(self, op: Op, out: list[Step]) -> None:
        """alloca, and what is there before."""

    def bring(self, value: Value, source: Range, target: Range, out: list[Step], start: int = 0) -> None:
        """A value, or a part of it from `start` on, to another place, if it takes a copy.

        Bytes of no meaning are left out: something else may lie where they would.
        """
        if (source.same(target) and self.lies(value)) or _stays(target.buffer):
            return
        pattern = shifted(self.splats[value], start) if value in self.splats else None
        if pattern is not None:
            out.append(Step("fill", [target], pattern=pattern))
            return
        pieces = [(0, target.length)]
        if source.overlaps(target):
            # They lie on the same bytes because these have the content of both: only what is beyond them is missing.
            shift = target.offset - source.offset
            length = target.length - abs(shift)
            low = max(shift, 0)
            held, wanted = (part(self.contents[value], start + at, length) for at in (low, low - shift))
            if agree(wanted, held):
                pieces = [(length, shift)] if shift > 0 else [(0, -shift)]
            else:
                source = self.save(source, self.now, out)
        for first, size in pieces:
            for at, count in _meant(part(self.contents[value], start + first, size)):
                at += first
                to = Range(target.buffer, target.offset + at, count)
                out.append(Step("copy", [to, Range(source.buffer, source.offset + at, count)]))

    def do_host(self, op: Op, out: list[Step]) -> None:
        out.append(Step("host", op=op))

    def do_import(self, op: Op, out: list[Step]) -> None:
        if op.late:
            out.append(Step("take", [self.place(op.results[0])], op=op))

    def do_splat(self, op: Op, out: list[Step]) -> None:
        if op.results[0] in self.laid:
            out.append(Step("fill", [self.place(op.results[0])], pattern=op.pattern))

    def do_same(self, op: Op, out: list[Step]) -> None:
        x, r = op.operands[0], op.results[0]
        if r not in self.splats:
            self.bring(x, self.place(x), self.place(r), out)
        elif r in self.laid:
            out.append(Step("fill", [self.place(r)], pattern=self.splats[r]))

    def do_slice(self, op: Op, out: list[Step]) -> None:
        x, r = op.operands[0], op.results[0]
        if op.offset is None:
            out.append(Step("copy", [self.place(r), self.place(x)], op=op))
        else:
            self.bring(x, self.place(x, op.offset, self.sizes[r]), self.place(r), out, op.offset)

    def do_update(self, op: Op, out: list[Step]) -> None:
        target, source = op.operands
        size, length = self.sizes[target], self.sizes[source]
        if op.offset is None:
            self.bring(target, self.place(target), self.place(op.results[0]), out)
            out.append(Step("copy", [self.place(op.results[0]), self.place(source)], op=op))
            return
        self.around(target, op.results[0], op.offset, length, size, out)
        self.bring(source, self.place(source), self.place(op.results[0], op.offset, length), out)

    def around(self, target: Value, result: Value, offset: int, length: int, size: int, out: list[Step]) -> None:
        """What is not overwritten, brought to where the result lies."""
        for start, count in ((0, offset), (offset + length, size - offset - length)):
            if count:
                self.bring(target, self.place(target, start, count), self.place(result, start, count), out, start)

    def do_copy(self, op: Op, out: list[Step]) -> None:
        target, source = op.operands
        result = op.results[0]
        if op.offset is None or op.source_offset is None or op.length is None:
            self.bring(target, self.place(target), self.place(result), out)
            out.append(Step("copy", [self.place(result), self.place(source)], op=op))
            return
        self.around(target, result, op.offset, op.length, self.sizes[target], out)
        of, to = self.place(source, op.source_offset, op.length), self.place(result, op.offset, op.length)
        self.bring(source, of, to, out, op.source_offset)

    def do_fill(self, op: Op, out: list[Step]) -> None:
        target, result = op.operands[0], op.results[0]
        if op.offset is None or op.length is None:
            self.bring(target, self.place(target), self.place(result), out)
            out.append(Step("fill", [self.place(result)], op=op, pattern=op.pattern))
        else:
            self.around(target, result, op.offset, op.length, self.sizes[target], out)
            if not op.length:
                return
            out.append(Step("fill", [self.place(result, op.offset, op.length)], pattern=op.pattern))

    def do_dispatch(self, op: Op, out: list[Step]) -> None:
        tied = {tie: r for r, tie in enumerate(op.ties) if tie >= 0}
        ranges: list[Range] = []
        access: list[str] = []
        for i, (x, (offset, length)) in enumerate(zip(op.operands, op.ranges)):
            where = x
            if i in tied:
                where = op.results[tied[i]]
                self.bring(x, self.place(x), self.place(where), out)
            if offset is None or length is None:
                ranges.append(self.place(where))
            else:
                ranges.append(self.place(where, offset, length))
            access.append(BOTH if i in tied else READ)
        for r, tie in zip(op.results, op.ties):
            if tie < 0:
                ranges.append(self.place(r))
                access.append(WRITE)
        out.append(Step("dispatch", ranges, op=op, access=access))

    def do_call(self, op: Op, out: list[Step]) -> None:
        """What a function of the host's reads is lent where it lies, unless NumPy cannot reach the memory."""
        ranges: list[Range] = []
        for x in op.operands:
            place = self.place(x)
            ranges.append(self.save(place, self.now, out) if place.buffer.kind == "constant" else place)
        access = [READ] * len(ranges) + [WRITE] * len(op.results)
        out.append(Step("call", [*ranges, *map(self.place, op.results)], op=op, access=access))

    def do_load(self, op: Op, out: list[Step]) -> None:
        self.scalars += 1
        staging = Buffer("staging", f"scalar{self.scalars}", op.length or 0, op)
        there = Range(staging, 0, staging.size)
        out.append(Step("copy", [there, self.place(op.operands[0], op.offset or 0, staging.size)]))
        out.append(Step("load", [Range(staging, 0, staging.size)], op=op))

    def do_export(self, op: Op, out: list[Step]) -> None:
        gift = self.gifts[id(op)]
        place = self.place(gift)
        if self.path[gift] and place.buffer.kind == "result":
            out.append(Step("new", [self.place(gift)], op=op))
        self.bring(op.operands[0], self.place(op.operands[0]), place, out)
        out.append(Step("give", [self.place(gift)], op=op))

    do_store = do_export

    def do_if(self, op: Op, out: list[Step]) -> None:
        parts: list[list[Step]] = []
        for region in op.regions:
            steps = self.steps(region)
            self.moves(self.ends[id(region)], self.when[id(region)], steps)
            parts.append(steps)
        out.append(Step("branch", op=op, slots=[self.place(r) for r in op.results], parts=parts))

    def do_for(self, op: Op, out: list[Step]) -> None:
        self.moves(self.entries[id(op)], self.when[id(op)], out)
        parts: list[list[Step]] = []
        for region in op.regions:
            steps = self.steps(region)
            self.moves(self.ends[id(region)], self.when[id(region)], steps)
            parts.append(steps)
        step = Step("loop", op=op, slots=[self.place(v) for v in self.slots[id(op)]], parts=parts)
        for one, other in self.pairs.get(id(op), ()):
            assert one.buffer is not None and other.buffer is not None
            step.exchanged.append((one.buffer, other.buffer))
        out.append(step)

    do_while = do_for

    def moves(self, pairs: Sequence[tuple[Value, Value]], point: int, out: list[Step]) -> None:
        """Values to places, as if all at once: what is still to be read is overwritten last, or saved before."""
        waiting = [
            (self.place(a, at, count), self.place(b, at, count))
            for a, b in pairs
            if a not in self.splats and not self.exchange(a, b)
            for at, count in _meant(self.contents[a])
        ]
        waiting = [(a, b) for a, b in waiting if not a.same(b) and not _stays(b.buffer)]
        self.until.update((source.buffer, max(point + 1, self.until.get(source.buffer, 0))) for source, _ in waiting)
        while waiting:
            for k, (source, target) in enumerate(waiting):
                if not any(target.overlaps(other) for i, (other, _) in enumerate(waiting) if i != k):
                    self.carry(source, target, point, out)
                    del waiting[k]
                    break
            else:  # a circle
                source, target = waiting[0]
                waiting[0] = (self.save(source, point, out), target)
        for a, b in pairs:
            if a in self.splats:
                self.bring(a, self.place(a), self.place(b), out)

    def exchange(self, new: Value, following: Value) -> bool:
        """Whether a value comes to the place of the next turn's argument by an exchange."""
        if following not in self.nexts:
            return False
        pair = self.sets[self.at[following][0]], self.sets[self.at[new][0]]
        return pair in self.pairs.get(id(self.nexts[following][0]), ())

    def carry(self, source: Range, target: Range, point: int, out: list[Step]) -> None:
        """A copy between places that may overlap."""
        out.append(Step("copy", [target, self.save(source, point, out) if source.overlaps(target) else source]))

    def save(self, source: Range, point: int, out: list[Step]) -> Range:
        """A copy aside."""
        saved = Buffer("transient", f"saved{len(self.temporary)}", source.length)
        self.temporary.append((saved, point))
        out.append(Step("copy", [Range(saved, 0, source.length), Range(source.buffer, source.offset, source.length)]))
        return Range(saved, 0, source.length)


def _meant(content: Content) -> list[tuple[int, int]]:
    """Where in a value, and how long, bytes lie whose content matters."""
    out: list[tuple[int, int]] = []
    at = 0
    for length, origin, _ in content:
        if origin is not None:
            if out and out[-1][0] + out[-1][1] == at:
                out[-1] = (out[-1][0], out[-1][1] + length)
            else:
                out.append((at, length))
        at += length
    return out


def _stays(buffer: Buffer) -> bool:
    """Whether nothing writes to a buffer: what lies there has the content that any value there has."""
    return buffer.kind == "constant" or (buffer.kind == "argument" and buffer.op is not None and not buffer.op.donated)

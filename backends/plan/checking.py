"""The proof of a plan: each step finds what the program says, and nothing that runs at one time is in another's way.

The check knows the program, the contents of its values (`contents.py`) and the plan's steps, and nothing of how the
plan was made. It walks the steps with a memory that says for each byte of each buffer what lies there: as in
`contents.py`, a byte of which value.

- A copy moves what lies at its source. A fill puts its pattern.
- A kernel must find at its bindings the contents of its operands; where it writes lie its results afterwards. Where it
  writes in place of an operand, or of a part of one, that operand must lie as a whole.
- What the host reads, what is handed to the caller, and what a branch or a loop hands on, must lie at its place.
- A loop's turn begins with what is there both before the loop and after a turn, and with its arguments at their places:
  turns are walked until that does not change. What a turn has made is unknown in the next, but for what is carried.
- What a loop exchanges after each turn changes its content with it.
- Nothing writes to a constant, or to an argument that was not given away.
- Of steps of one wave none writes what another touches.

By induction over the steps in the order in which they run, each kernel is then given what the program gives it: the
program's values are the same whatever the plan. What the proof takes on trust is that kernels touch their bindings only,
as IREE verifies, and that the plan is written into the module as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from .contents import agree, contents_of, joined, part
from .plan import FLAT, READ, WRITE, Buffer, Plan, Range, Step, line
from .program import walk as operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contents import Content
    from .program import Op, Program, Value


class PlanError(Exception):
    """A plan in which a step would find other values than the program's."""


_UNKNOWN = ("unknown", 0, 1)
"""The origin of bytes of which nothing is known: equal to no other."""


class _Bytes:
    """What lies in a buffer: pieces one after the other, by their first byte."""

    __slots__ = ("origins", "starts")

    def __init__(self, starts: list[int], origins: list[tuple[int, object, int]]) -> None:
        self.starts = starts
        self.origins = origins  # (length, origin, offset)

    def copy(self) -> _Bytes:
        return _Bytes(list(self.starts), list(self.origins))

    def read(self, start: int, length: int) -> Content:
        """What lies in a range."""
        first = bisect_right(self.starts, start) - 1
        out: list[tuple[int, object, int]] = []
        end = start + length
        for i in range(max(first, 0), len(self.starts)):
            at, (size, origin, offset) = self.starts[i], self.origins[i]
            if at >= end:
                break
            low, high = max(start, at), min(end, at + size)
            if low < high:
                out.append((high - low, origin, offset + low - at))
        return joined(out)  # pyright: ignore[reportArgumentType]

    def write(self, start: int, content: Content) -> None:
        """Put pieces there."""
        length = sum(n for n, _, _ in content)
        if not length:
            return
        end = start + length
        first = bisect_right(self.starts, start) - 1
        last = bisect_left(self.starts, end)
        starts: list[int] = []
        origins: list[tuple[int, object, int]] = []
        at, (size, origin, offset) = self.starts[first], self.origins[first]
        if at < start:
            starts.append(at)
            origins.append((start - at, origin, offset))
        place = start
        for n, o, k in content:
            starts.append(place)
            origins.append((n, o, k))
            place += n
        at, (size, origin, offset) = self.starts[last - 1], self.origins[last - 1]
        if at + size > end:
            starts.append(end)
            origins.append((at + size - end, origin, offset + end - at))
        self.starts[first:last] = starts
        self.origins[first:last] = origins


class _Memory:
    """What lies in all buffers."""

    def __init__(self, buffers: dict[Buffer, _Bytes]) -> None:
        self.buffers = buffers

    def copy(self) -> _Memory:
        return _Memory({b: x.copy() for b, x in self.buffers.items()})

    def read(self, place: Range) -> Content:
        return self.buffers[place.buffer].read(place.offset, place.length) if place.length else ()

    def write(self, place: Range, content: Content) -> None:
        self.buffers[place.buffer].write(place.offset, content)

    def meet(self, other: _Memory) -> bool:
        """Forget what the other does not say too; whether there was such."""
        changed = False
        for buffer, mine in self.buffers.items():
            theirs = other.buffers[buffer]
            if mine.starts == theirs.starts and mine.origins == theirs.origins:
                continue
            for at, (size, origin, offset) in list(zip(mine.starts, mine.origins)):
                if origin == _UNKNOWN:
                    continue
                place = at
                for n, o, k in theirs.read(at, size):
                    if o != origin or k != joined([(n, origin, offset + place - at)])[0][2]:  # pyright: ignore[reportArgumentType]
                        mine.write(place, ((n, _UNKNOWN, 0),))
                        changed = True
                    place += n
        return changed


def check(program: Program, plan: Plan) -> None:
    """Prove a plan.

    Raises:
        PlanError: it is not proved; the message names the step and what lies where it should find something else.
    """
    _Check(program, plan).run()


class _Check:
    def __init__(self, program: Program, plan: Plan) -> None:
        self.program, self.plan = program, plan
        self.contents = contents_of(program)
        self.done: set[int] = set()
        """The loads, gifts and host's steps met, by the identity of their operations."""
        self.order = {id(op): i for i, op in enumerate(operations(program.region))}
        self.exchanged: dict[Buffer, Step] = {}
        """The loop that exchanges a buffer's memory: one only."""
        self.given: set[Buffer] = set()
        """Buffers that the caller has been given, which must stay as they are."""

    def run(self) -> None:
        buffers: dict[Buffer, _Bytes] = {}
        for buffer in self.plan.buffers:
            if buffer.size:
                known = buffer.kind in ("argument", "constant") and buffer.op is not None and not buffer.op.late
                content = self.contents[buffer.op.results[0]] if known and buffer.op else ()
                size = sum(n for n, _, _ in content)
                pieces: list[tuple[int, object, int]] = [
                    *content,
                    *(((buffer.size - size, _UNKNOWN, 0),) if size < buffer.size else ()),
                ]
                starts = [sum(n for n, _, _ in pieces[:i]) for i in range(len(pieces))]
                buffers[buffer] = _Bytes(starts, pieces)
            else:
                buffers[buffer] = _Bytes([0], [(0, _UNKNOWN, 0)])
        self.steps(self.plan.steps, _Memory(buffers))
        for op in operations(self.program.region):
            if op.kind in ("load", "export", "store", "call", "host") and id(op) not in self.done:
                raise PlanError(f"the plan of @{self.plan.name} leaves out {op.kind} {op.name}")

    # -- steps

    def steps(self, steps: Sequence[Step], memory: _Memory) -> None:
        wave: list[Step] = []
        latest = -1
        for step in steps:
            if step.kind in ("call", "host"):  # what they do besides is seen: it is done in the program's order
                number = self.order[id(step.op)]
                if number < latest:
                    raise PlanError(f"{line(step)}: comes after another call in the plan, and before it in the program")
                latest = number
            for place in (*step.ranges, *step.slots):
                self.within(step, place)
            if step.kind in FLAT:
                if wave and wave[-1].wave != step.wave:
                    wave = []
                self.apart(step, wave)
                wave.append(step)
            else:
                wave = []
            getattr(self, "_" + step.kind)(step, memory)

    def apart(self, step: Step, wave: Sequence[Step]) -> None:
        """What a step writes is touched neither by another binding of its own nor by the rest of its wave."""
        mine = list(step.touched())
        for place, written in mine:
            if written and (place.buffer in self.given or not self.may_write(place.buffer)):
                why = "which has been handed over" if place.buffer in self.given else f"which is {place.buffer.kind}"
                raise PlanError(f"{line(step)}: writes to {place.buffer.name}, {why}")
        for i, (place, written) in enumerate(mine):
            for other, other_written in mine[:i]:
                if (written or other_written) and place.overlaps(other):
                    raise PlanError(f"{line(step)}: {place} and {other} overlap")
        for earlier in wave:
            for place, written in mine:
                for other, other_written in earlier.touched():
                    if (written or other_written) and place.overlaps(other):
                        raise PlanError(f"{line(step)}: may run together with {line(earlier)}, which is in its way")

    @staticmethod
    def within(step: Step, place: Range) -> None:
        if place.offset < 0 or place.length < 0 or place.offset + place.length > place.buffer.size:
            raise PlanError(f"{line(step)}: {place} is not within a buffer of {place.buffer.size} bytes")

    @staticmethod
    def may_write(buffer: Buffer) -> bool:
        given = buffer.kind == "argument" and buffer.op is not None and buffer.op.donated
        return given or buffer.kind in ("transient", "alternating", "result", "staging")

    def expect(self, step: Step, memory: _Memory, place: Range, content: Content, what: str) -> None:
        """That a range holds a content."""
        found = memory.read(place)
        if place.length != sum(n for n, _, _ in content) or not agree(content, found):
            raise PlanError(f"{line(step)}: {what} should be at {place}: {content} is expected, {found} is there")

    def _copy(self, step: Step, memory: _Memory) -> None:
        target, source = step.ranges
        if step.op is None:
            if target.length != source.length:
                raise PlanError(f"{line(step)}: the lengths differ")
            memory.write(target, memory.read(source))
            return
        op = step.op  # at an offset of the host's: all of both must be in place
        if op.kind == "slice":
            self.expect(step, memory, source, self.contents[op.operands[0]], "what is sliced")
        else:
            self.expect(step, memory, target, self.contents[op.operands[0]], "what is updated")
            self.expect(step, memory, source, self.contents[op.operands[1]], "what is put in")
        self.write(step, memory, target, op.results[0])

    def _fill(self, step: Step, memory: _Memory) -> None:
        target = step.ranges[0]
        if step.op is None:
            memory.write(target, joined([(target.length, step.pattern, 0)]))
            return
        self.expect(step, memory, target, self.contents[step.op.operands[0]], "what is filled")
        self.write(step, memory, target, step.op.results[0])

    def write(self, step: Step, memory: _Memory, place: Range, value: Value) -> None:
        if place.length != self.program.sizes[value]:
            raise PlanError(
                f"{line(step)}: {place} is not the size of value {value}, {self.program.sizes[value]} bytes"
            )
        memory.write(place, self.contents[value])

    def _dispatch(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None
        tied = {tie: r for r, tie in enumerate(op.ties) if tie >= 0}
        new = [r for r, tie in enumerate(op.ties) if tie < 0]
        if len(step.ranges) != len(op.operands) + len(new):
            raise PlanError(
                f"{line(step)}: {len(step.ranges)} bindings for {len(op.operands)} operands, {len(new)} results"
            )
        written: list[tuple[Range, Content]] = []
        for i, (operand, (offset, length)) in enumerate(zip(op.operands, op.ranges)):
            content, place = self.contents[operand], step.ranges[i]
            if offset is not None and length is not None:
                if place.length != length:
                    raise PlanError(f"{line(step)}: binding {i} is not of {length} bytes")
                if i in tied:
                    place = Range(place.buffer, place.offset - offset, self.program.sizes[operand])
                    self.within(step, place)
                else:
                    content = part(content, offset, length)
            if i in tied:  # beyond the binding lies what lay there
                made = self.contents[op.results[tied[i]]]
                start = step.ranges[i].offset - place.offset
                written.append((step.ranges[i], part(made, start, step.ranges[i].length)))
            self.expect(step, memory, place, content, f"operand {i}")
            if (step.access[i] == READ) != (i not in tied):
                raise PlanError(f"{line(step)}: binding {i} is {step.access[i]}")
        for place, made in written:
            memory.write(place, made)
        for place, r, access in zip(step.ranges[len(op.operands) :], new, step.access[len(op.operands) :]):
            if access == READ:
                raise PlanError(f"{line(step)}: a result's binding is {access}")
            self.write(step, memory, place, op.results[r])

    def _call(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None
        self.apart(step, ())
        count = len(op.operands)
        if step.access != [READ] * count + [WRITE] * len(op.results) or len(step.ranges) != len(step.access):
            raise PlanError(f"{line(step)}: {len(op.operands)} operands and {len(op.results)} results are expected")
        for place in step.ranges:
            if place.buffer.kind == "constant":
                raise PlanError(f"{line(step)}: {place.buffer.name} cannot be lent")
        for i, (place, operand) in enumerate(zip(step.ranges, op.operands)):
            self.expect(step, memory, place, self.contents[operand], f"operand {i}")
        for place, result in zip(step.ranges[count:], op.results):
            self.write(step, memory, place, result)
        self.done.add(id(op))

    def _load(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None and op.offset is not None and op.length is not None
        self.expect(
            step, memory, step.ranges[0], part(self.contents[op.operands[0]], op.offset, op.length), "what is read"
        )
        self.done.add(id(op))

    def _give(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None
        place = step.ranges[0]
        self.expect(step, memory, place, self.contents[op.operands[0]], "what is handed over")
        if place.offset or place.length != place.buffer.size:
            raise PlanError(f"{line(step)}: {place} is not a whole buffer")
        kept = place.buffer.kind == "constant" and op.kind == "store"
        if not kept and (not self.may_write(place.buffer) or place.buffer.kind not in ("argument", "result")):
            raise PlanError(f"{line(step)}: {place.buffer.name} cannot be handed over")
        self.given.add(place.buffer)
        self.done.add(id(op))

    def _new(self, step: Step, memory: _Memory) -> None:
        place = step.ranges[0]
        if place.buffer.kind != "result" or place.length != place.buffer.size:
            raise PlanError(f"{line(step)}: not a whole result")
        self.given.discard(place.buffer)
        memory.write(place, ((place.length, _UNKNOWN, 0),) if place.length else ())

    def _take(self, step: Step, memory: _Memory) -> None:
        op, place = step.op, step.ranges[0]
        assert op is not None
        if place.buffer.op is not op or place.length != place.buffer.size:
            raise PlanError(f"{line(step)}: not the whole of what is given")
        self.write(step, memory, place, op.results[0])

    def _host(self, step: Step, memory: _Memory) -> None:
        del memory
        self.done.add(id(step.op))

    # -- control flow

    def _branch(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None
        ends: list[_Memory] = []
        for region, steps in zip(op.regions, step.parts, strict=True):
            end = memory.copy()
            self.steps(steps, end)
            for k, slot in enumerate(step.slots):
                self.expect(step, end, slot, self.contents[region.yields[k]], f"result {k} of a branch")
            ends.append(end)
        for k, slot in enumerate(step.slots):  # each branch's, by its own name
            for end in ends:
                self.write(step, end, slot, op.results[k])
        memory.buffers = ends[0].buffers
        for end in ends[1:]:
            memory.meet(end)

    def _loop(self, step: Step, memory: _Memory) -> None:
        op = step.op
        assert op is not None
        first, count = op.regions[0], len(op.operands)
        for one, other in step.exchanged:
            elsewhere = any(self.exchanged.setdefault(buffer, step) is not step for buffer in (one, other))
            if one is other or one.size != other.size or {one.kind, other.kind} != {"alternating"} or elsewhere:
                raise PlanError(f"{line(step)}: {one} and {other} cannot be exchanged")
        slots = step.slots[:count]
        for k, slot in enumerate(slots):
            self.expect(step, memory, slot, self.contents[op.operands[k]], f"initial value {k}")
        while True:
            head = memory.copy()
            for k, slot in enumerate(slots):
                self.write(step, head, slot, first.arguments[k])
            left, back = self.turn(op, step, head)
            for one, other in step.exchanged:
                back.buffers[one], back.buffers[other] = back.buffers[other], back.buffers[one]
            for k, slot in enumerate(slots):
                self.expect(step, back, slot, self.contents[op.regions[-1].yields[k]], f"the next value {k}")
                # The argument of the next turn is what was checked; what was there before the loop is another value.
                back.write(slot, memory.read(slot))
            if not memory.meet(back):
                break
        if op.kind == "for":  # after no turn too: what is at the slots is the result in both cases
            for k, slot in enumerate(slots):
                self.write(step, memory, slot, op.results[k])
        else:
            memory.buffers = left.buffers

    def turn(self, op: Op, step: Step, memory: _Memory) -> tuple[_Memory, _Memory]:
        """One turn of a loop: memory where it is left, and where it begins anew."""
        self.steps(step.parts[0], memory)
        if op.kind == "for":
            return memory, memory
        before, after = op.regions
        slots = step.slots[len(op.operands) :]
        for k, slot in enumerate(slots):
            self.expect(step, memory, slot, self.contents[before.yields[k]], f"value {k} that the condition passes on")
        left = memory.copy()
        for k, slot in enumerate(slots):
            self.write(step, left, slot, op.results[k])
            self.write(step, memory, slot, after.arguments[k])
        self.steps(step.parts[1], memory)
        return left, memory

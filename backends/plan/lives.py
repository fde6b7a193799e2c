"""What of a plan's memory is held while each step runs: how many bytes, and what made them.

A byte is held from the step that writes it to the last one that reads it. That is found in the steps alone, so a plan that was
read back (`parsing.py`) will do, and it says nothing of how the plan was made. For those who look at plans: neither making nor
checking uses it.

The ranges of a plan are cut at all of their ends into pieces; a set of pieces is an integer with a bit each.
"""

from __future__ import annotations

from .plan import BOTH, READ, Buffer, Plan, Range, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BLOCKS = frozenset(("transient", "alternating"))
"""The kinds of buffers that hold intermediate values and nothing else."""
WRITTEN = frozenset((*BLOCKS, "result", "argument"))
"""The kinds of buffers in which a program's values may lie, the caller's included."""


class Moment:
    """While one step runs.

    Attributes:
        number: of the step, counted from 1 in the order of the plan's text.
        step: the step.
        depth: the loops and branches that it is within.
        within: the number of the loop or branch that it is directly within; 0: none.
        held: bytes of intermediate values in memory of the program's own (`BLOCKS`).
        elsewhere: bytes of values in memory that is or becomes the caller's.
    """

    __slots__ = ("after", "depth", "elsewhere", "held", "number", "pieces", "step", "within")

    def __init__(self, number: int, step: Step, depth: int, within: int) -> None:
        self.number, self.step, self.depth, self.within = number, step, depth, within
        self.held = self.elsewhere = self.pieces = self.after = 0


class Held:
    """A value, or the part of one, that is held at one moment.

    Attributes:
        place: where it lies.
        maker: the number of the step that made it; 0: it was there before.
        scratch: the step itself makes it, and nothing reads it afterwards.
    """

    __slots__ = ("maker", "place", "scratch")

    def __init__(self, place: Range, maker: int, scratch: bool) -> None:
        self.place, self.maker, self.scratch = place, maker, scratch


class Lives:
    """The moments of a plan.

    Attributes:
        moments: one a step, in the order of the text. A loop's own moment, and a branch's, is the most held within it.
        peak: the first moment of those with most bytes of intermediate values; None for a plan without steps.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.moments: list[Moment] = []
        self.number: dict[int, int] = {}
        """Of each step, by identity."""
        self.count(plan.steps, 0, 0)
        self.bits: dict[Buffer, dict[int, int]] = {}
        """Of each buffer, the number of the first piece at or after an offset at which it is cut."""
        self.sizes: list[int] = []
        self.owner: list[tuple[Buffer, int]] = []
        """Of each piece, where it lies."""
        self.cut()
        self.own = self.of_kinds(BLOCKS)
        self.writable = self.of_kinds(WRITTEN)
        self.swaps = self.find_swaps()
        self.defined = 0
        self.known: dict[int, int] = {}
        """Of each step, by number, the pieces that something has written before it."""
        for buffer in plan.buffers:
            if buffer.kind in ("argument", "constant"):
                self.defined |= self.mask(Range(buffer, 0, buffer.size))
        self.follow(plan.steps)
        self.backward(plan.steps, 0)
        self.measure()
        flat = [m for m in self.moments if not m.step.parts]
        self.peak = max(flat, key=lambda m: m.held, default=None)

    # -- pieces

    def count(self, steps: Sequence[Step], depth: int, within: int) -> None:
        """Number the steps in the order of the text, inner ones after the step that they are in."""
        for step in steps:
            moment = Moment(len(self.moments) + 1, step, depth, within)
            self.moments.append(moment)
            self.number[id(step)] = moment.number
            for part in step.parts:
                self.count(part, depth + 1, moment.number)

    def cut(self) -> None:
        """Cut the buffers into pieces at all places where a range of a step begins or ends."""
        ends: dict[Buffer, set[int]] = {b: {0, b.size} for b in self.plan.buffers}
        partner: dict[Buffer, Buffer] = {}
        for moment in self.moments:
            for place in (*moment.step.ranges, *moment.step.slots):
                ends.setdefault(place.buffer, {0, place.buffer.size}).update(
                    (place.offset, place.offset + place.length)
                )
            for one, other in moment.step.exchanged:
                partner[one], partner[other] = other, one
        for buffer, other in partner.items():  # pieces of both change places
            ends[buffer] |= ends[other]
        for buffer, cuts in ends.items():
            places = sorted(cuts)
            self.bits[buffer] = {at: len(self.sizes) + i for i, at in enumerate(places)}
            for start, end in zip(places, places[1:]):
                self.sizes.append(end - start)
                self.owner.append((buffer, start))

    def mask(self, place: Range) -> int:
        """The pieces of a range."""
        if not place.length:
            return 0
        at = self.bits[place.buffer]
        start, end = at[place.offset], at[place.offset + place.length]
        return ((1 << (end - start)) - 1) << start

    def of_kinds(self, kinds: Iterable[str]) -> int:
        """The pieces of all buffers of some kinds."""
        found = 0
        for buffer in self.bits:
            if buffer.kind in kinds:
                found |= self.mask(Range(buffer, 0, buffer.size))
        return found

    def pieces(self, mask: int) -> Iterator[int]:
        """The numbers of the pieces in a set, in order."""
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def size(self, mask: int) -> int:
        """The sum of the sizes of the pieces in a set."""
        return sum(self.sizes[piece] for piece in self.pieces(mask))

    # -- what steps do

    def reads(self, step: Step) -> int:
        """What a step must find."""
        if step.kind in ("dispatch", "call"):
            return self.union(place for place, access in zip(step.ranges, step.access) if access in (READ, BOTH))
        if step.kind == "copy":
            partly = step.op is not None  # somewhere in the target, or from somewhere in the source
            return self.union(step.ranges if partly else step.ranges[1:])
        if step.kind in ("load", "give"):
            return self.union(step.ranges)
        return 0

    def writes(self, step: Step) -> int:
        """What a step writes as a whole."""
        return self.union(written(step))

    def union(self, places: Iterable[Range]) -> int:
        """The pieces of several ranges together."""
        found = 0
        for place in places:
            found |= self.mask(place)
        return found

    def find_swaps(self) -> dict[int, list[tuple[int, int]]]:
        """Of each loop, by identity, the pairs of pieces that change places after a turn."""
        found: dict[int, list[tuple[int, int]]] = {}
        for moment in self.moments:
            for one, other in moment.step.exchanged:
                mine, theirs = self.bits[one], self.bits[other]
                pairs = [(mine[at], theirs[at]) for at in mine if at < one.size]
                found.setdefault(id(moment.step), []).extend(pairs)
        return found

    def swapped(self, step: Step, mask: int) -> int:
        """A set of pieces after a loop's exchange, from what it is before, or the other way."""
        for a, b in self.swaps.get(id(step), ()):
            if (mask >> a ^ mask >> b) & 1:
                mask ^= 1 << a | 1 << b
        return mask

    # -- forward: what there is

    def follow(self, steps: Sequence[Step]) -> None:
        """Note before each step which pieces something has written."""
        for step in steps:
            self.known[self.number[id(step)]] = self.defined
            self.defined |= self.writes(step)
            for part in step.parts:
                self.follow(part)
            self.defined |= self.swapped(step, self.defined)

    # -- backward: what is still wanted

    def backward(self, steps: Sequence[Step], after: int) -> int:
        """What is wanted before some steps, from what is wanted after them; notes what is held during each."""
        for step in reversed(steps):
            moment = self.moments[self.number[id(step)] - 1]
            before = self.before(step, after)
            known = self.known[moment.number]
            moment.after |= after
            moment.pieces |= (before & known) | (after & (known | self.writes(step))) | self.writes(step)
            after = before
        return after

    def before(self, step: Step, after: int) -> int:
        """The pieces that are wanted before one step, from those wanted after it."""
        if step.kind == "branch":
            wanted = 0
            for part in step.parts:
                wanted |= self.backward(part, after)
            return wanted
        if step.kind == "loop":
            return self.loop(step, after)
        if step.kind == "new":
            return after & ~self.union(step.ranges)
        written = self.writes(step) & ~self.reads(step)
        return (after & ~written) | self.reads(step)

    def loop(self, step: Step, after: int) -> int:
        """Turns are walked backwards until nothing more is wanted at their beginning."""
        counted = step.op is None or step.op.kind == "for"
        head = after if counted else 0
        while True:
            if counted:  # the body, the exchange, and then another turn or the end
                wanted = after | self.backward(step.parts[0], self.swapped(step, head | after))
            else:
                back = self.backward(step.parts[1], self.swapped(step, head)) if len(step.parts) > 1 else head
                wanted = self.backward(step.parts[0], after | back)
            if wanted | head == head:
                return head
            head |= wanted

    # -- numbers

    def measure(self) -> None:
        """Count the bytes that are held while each step runs."""
        own = other = before = 0
        elsewhere = self.writable & ~self.own
        for moment in self.moments:
            now = moment.pieces & self.writable
            new, gone = now & ~before, before & ~now
            own += self.size(new & self.own) - self.size(gone & self.own)
            other += self.size(new & elsewhere) - self.size(gone & elsewhere)
            moment.held, moment.elsewhere, before = own, other, now
        for moment in reversed(self.moments):
            if moment.within:
                outer = self.moments[moment.within - 1]
                outer.held, outer.elsewhere = max(outer.held, moment.held), max(outer.elsewhere, moment.elsewhere)

    # -- what is held at one moment

    def held(self, moment: Moment) -> list[Held]:
        """The values in the program's own memory, by their places: what was made by one step and lies side by side is one."""
        return self.values(moment, self.own)

    def held_elsewhere(self, moment: Moment) -> list[Held]:
        """The values in memory that is or becomes the caller's, arguments as they were given left out."""
        return [v for v in self.values(moment, self.writable & ~self.own) if v.maker]

    def values(self, moment: Moment, among: int) -> list[Held]:
        """The values that are held at a moment in a set of pieces: neighbours that one step made are one."""
        makers = self.makers(moment)
        out: list[Held] = []
        before: tuple[int, Buffer, tuple[int, int], bool] | None = None
        for piece in self.pieces(moment.pieces & among):
            buffer, start = self.owner[piece]
            size, maker = self.sizes[piece], makers.get(piece, (0, 0))
            scratch = maker[0] == moment.number and not moment.after >> piece & 1
            if before == (piece - 1, buffer, maker, scratch):
                out[-1].place.length += size
            else:
                out.append(Held(Range(buffer, start, size), maker[0], scratch))
            before = piece, buffer, maker, scratch
        return out

    def makers(self, moment: Moment) -> dict[int, tuple[int, int]]:
        """Of each piece, the number of the step that wrote it last, in the order of the text, up to this moment; and which
        of the ranges that it writes."""
        found: dict[int, tuple[int, int]] = {}
        self.make(self.plan.steps, moment, found)
        return found

    def make(self, steps: Sequence[Step], until: Moment, found: dict[int, tuple[int, int]]) -> bool:
        """Notes the makers; whether the moment was among the steps."""
        for step in steps:
            for which, place in enumerate(written(step)):
                for piece in self.pieces(self.mask(place)):
                    found[piece] = self.number[id(step)], which
            if step is until.step:
                return True
            before = dict(found) if step.kind == "branch" else {}
            for part in step.parts:
                if self.make(part, until, found):
                    if step.kind == "branch":  # the other branches have not run
                        found.clear()
                        found.update(before)
                        self.make(part, until, found)
                    return True
            for a, b in self.swaps.get(id(step), ()):
                found[a], found[b] = found.get(b, (0, 0)), found.get(a, (0, 0))
        return False


def written(step: Step) -> list[Range]:
    """The ranges that a step writes as a whole."""
    if step.kind in ("dispatch", "call"):
        return [place for place, access in zip(step.ranges, step.access) if access != READ]
    return step.ranges[:1] if step.kind in ("copy", "fill", "take") else []

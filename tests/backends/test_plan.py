"""Plans of random programs, run on bytes: they give what the programs give, the check proves them, and finds what harms."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from quire.backends.plan import checking, lives, making, parsing, plan, program
from quire.backends.plan.program import Op, Program, Region, Value

SIZES = (8, 16, 24, 64, 136)


class Random:
    """A random program: straight pieces, loops and branches over some values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = Program()
        self.left = self.random.randint(4, 30)
        r = self.random
        known: list[Value] = []
        ops = self.program.region.operations
        for k in range(r.randint(1, 3)):
            v = self.program.value(r.choice(SIZES))
            ops.append(Op("import", (), (v,), name=f"a{k}", donated=r.random() < 0.5))
            known.append(v)
        if r.random() < 0.5:
            v = self.program.value(r.choice(SIZES))
            ops.append(Op("constant", (), (v,), name="c"))
            known.append(v)
        self.fill(ops, known, 0)
        for k in range(r.randint(1, 4)):
            ops.append(Op("export", (r.choice(known[-8:] if r.random() < 0.7 else known),), (), name=f"r{k}"))

    def value(self, size: int) -> Value:
        return self.program.value(size)

    def fill(self, ops: list[Op], known: list[Value], depth: int) -> None:
        """Some operations; what they make is added to the values that are known."""
        r = self.random
        for _ in range(r.randint(2, 9 if depth == 0 else 5)):
            if self.left <= 0:
                return
            self.left -= 1
            kind = r.choice(
                ("dispatch",) * 5 + ("same", "slice", "update", "update", "copy", "fill", "splat", "alloca", "load", "call", "call")
                + (("for", "while", "if") if depth < 3 else ())
            )  # fmt: skip
            getattr(self, "add_" + kind)(ops, known, depth)

    def size(self, v: Value) -> int:
        return self.program.sizes[v]

    def some(self, size: int) -> tuple[int, int]:
        """All bytes of a value, or a part of them."""
        if self.random.random() < 0.7:
            return 0, size
        start = self.random.randrange(size)
        return start, self.random.randint(1, size - start)

    def add_dispatch(self, ops: list[Op], known: list[Value], depth: int) -> None:
        r = self.random
        operands = [r.choice(known) for _ in range(r.randint(1, 3))]
        results, ties = [], []
        free = [i for i, x in enumerate(operands)]
        for _ in range(r.randint(1, 2)):
            if free and r.random() < 0.4:
                tie = free.pop(r.randrange(len(free)))
                results.append(self.value(self.size(operands[tie])))
                ties.append(tie)
            else:
                results.append(self.value(r.choice(SIZES)))
                ties.append(-1)
        ranges = [self.some(self.size(x)) for x in operands]
        ops.append(Op("dispatch", operands, results, name=f"k{len(self.program.sizes)}", ranges=ranges, ties=ties))
        known += results

    def add_call(self, ops: list[Op], known: list[Value], depth: int) -> None:
        r = self.random
        operands = [r.choice(known) for _ in range(r.randint(0, 3))]
        results = [self.value(r.choice(SIZES)) for _ in range(r.randint(0 if operands else 1, 2))]
        ops.append(Op("call", operands, results, name=f"c{len(self.program.sizes)}"))
        known += results

    def add_same(self, ops: list[Op], known: list[Value], depth: int) -> None:
        x = self.random.choice(known)
        known.append(self.value(self.size(x)))
        ops.append(Op("same", (x,), (known[-1],)))

    def add_slice(self, ops: list[Op], known: list[Value], depth: int) -> None:
        x = self.random.choice(known)
        n = self.random.randint(1, self.size(x))
        known.append(self.value(n))
        ops.append(Op("slice", (x,), (known[-1],), offset=self.random.randint(0, self.size(x) - n)))

    def add_update(self, ops: list[Op], known: list[Value], depth: int) -> None:
        r = self.random
        source = r.choice(known)
        fits = [x for x in known if self.size(x) >= self.size(source)]
        target = r.choice(fits)
        offset = r.randint(0, self.size(target) - self.size(source))
        known.append(self.value(self.size(target)))
        ops.append(Op("update", (target, source), (known[-1],), offset=None if r.random() < 0.2 else offset))

    def add_copy(self, ops: list[Op], known: list[Value], depth: int) -> None:
        r = self.random
        target, source = r.choice(known), r.choice(known)
        n = r.randint(1, min(self.size(target), self.size(source)))
        offset, other = r.randint(0, self.size(target) - n), r.randint(0, self.size(source) - n)
        known.append(self.value(self.size(target)))
        ops.append(Op("copy", (target, source), (known[-1],), offset=offset, source_offset=other, length=n))

    def add_fill(self, ops: list[Op], known: list[Value], depth: int) -> None:
        x = self.random.choice(known)
        n = self.random.randint(1, self.size(x))
        known.append(self.value(self.size(x)))
        pattern = self.random.choice((b"\0", b"\1"))
        ops.append(
            Op("fill", (x,), (known[-1],), offset=self.random.randint(0, self.size(x) - n), length=n, pattern=pattern)
        )

    def add_splat(self, ops: list[Op], known: list[Value], depth: int) -> None:
        known.append(self.value(self.random.choice(SIZES)))
        ops.append(Op("splat", (), (known[-1],), pattern=self.random.choice((b"\0", b"\1\2\3\4"))))

    def add_alloca(self, ops: list[Op], known: list[Value], depth: int) -> None:
        """Bytes of any content, which are written over at once: a program that reads them gives anything."""
        sources = [self.random.choice(known) for _ in range(self.random.randint(1, 3))]
        target = self.value(sum(self.size(s) for s in sources))
        ops.append(Op("alloca", (), (target,)))
        at = 0
        for s in sources:
            following = self.value(self.size(target))
            ops.append(Op("update", (target, s), (following,), offset=at))
            at += self.size(s)
            target = following
        known.append(target)
        if self.random.random() < 0.5:  # the same bytes of no meaning, filled otherwise
            first = ops[-len(sources) - 1].results[0]
            n = self.size(first)
            filled, made = self.value(n), self.value(n)
            ops.append(Op("fill", (first,), (filled,), offset=0, length=n - self.size(sources[-1]), pattern=b"\1"))
            ops.append(Op("update", (filled, sources[-1]), (made,), offset=n - self.size(sources[-1])))
            known.append(made)

    def add_load(self, ops: list[Op], known: list[Value], depth: int) -> None:
        x = self.random.choice(known)
        ops.append(Op("load", (x,), (), offset=self.random.randint(0, self.size(x) - 1), length=1, name="l"))

    def initial(self, known: list[Value]) -> tuple[list[Value], list[Value]]:
        initial = [self.random.choice(known) for _ in range(self.random.randint(1, 3))]
        return initial, [self.value(self.size(x)) for x in initial]

    def like(self, inside: list[Value], wanted: list[Value], ops: list[Op]) -> list[Value]:
        """Values of the sizes of others, of those at hand where there are."""
        out: list[Value] = []
        for w in wanted:
            fits = [x for x in inside if self.size(x) == self.size(w)]
            if fits and self.random.random() < 0.8:
                out.append(self.random.choice(fits[-3:]))
            else:
                x = self.random.choice(inside)
                out.append(self.value(self.size(w)))
                ops.append(Op("dispatch", (x,), (out[-1],), name=f"k{out[-1]}", ranges=[(0, self.size(x))], ties=[-1]))
        return out

    def add_for(self, ops: list[Op], known: list[Value], depth: int) -> None:
        initial, arguments = self.initial(known)
        inside, body = [*known, *arguments], Region(arguments)
        self.fill(body.operations, inside, depth + 1)
        body.yields = self.like(inside, arguments, body.operations)
        results = [self.value(self.size(x)) for x in initial]
        ops.append(Op("for", initial, results, regions=[body]))
        known += results

    def add_while(self, ops: list[Op], known: list[Value], depth: int) -> None:
        initial, arguments = self.initial(known)
        inside, before = [*known, *arguments], Region(arguments)
        self.fill(before.operations, inside, depth + 1)
        before.yields = [self.random.choice(inside[-6:]) for _ in range(self.random.randint(1, 3))]
        after = Region([self.value(self.size(x)) for x in before.yields])
        there = [*known, *after.arguments]
        self.fill(after.operations, there, depth + 1)
        after.yields = self.like(there, arguments, after.operations)
        results = [self.value(self.size(x)) for x in before.yields]
        ops.append(Op("while", initial, results, regions=[before, after]))
        known += results

    def add_if(self, ops: list[Op], known: list[Value], depth: int) -> None:
        results = [self.value(self.random.choice(SIZES)) for _ in range(self.random.randint(1, 2))]
        regions = []
        for _ in range(2):
            inside, region = list(known), Region()
            self.fill(region.operations, inside, depth + 1)
            region.yields = self.like(inside, results, region.operations)
            regions.append(region)
        ops.append(Op("if", (), results, regions=regions))
        known += results


def kernel(name: str, k: int, operands: list[bytes], size: int) -> bytes:
    """What a kernel makes: something of its name and operands."""
    seed = hashlib.blake2b(b"|".join((name.encode(), str(k).encode(), *operands))).digest()
    return (seed * (size // 64 + 1))[:size]


class Chances(dict[int, random.Random]):
    """How often loops turn and where branches lead, of each operation for itself: whatever else is done in between."""

    def __init__(self, of: Program, seed: int) -> None:
        super().__init__((id(op), random.Random(1000 * seed + i)) for i, op in enumerate(program.walk(of.region)))


class Values:
    """Runs a program as it is meant: on values."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.chances = program, Chances(program, seed)
        self.of: dict[Value, bytes] = {}
        self.out: dict[int, list[bytes]] = {}
        self.region(program.region)

    def region(self, region: Region) -> None:
        for op in region.operations:
            getattr(self, op.kind.replace("import", "given").replace("constant", "given").replace("if", "branch")
                    .replace("for", "counted").replace("while", "waiting"))(op)  # fmt: skip

    def given(self, op: Op) -> None:
        self.of[op.results[0]] = kernel(op.name, 0, [], self.program.sizes[op.results[0]])

    def alloca(self, op: Op) -> None:
        self.of[op.results[0]] = bytes(self.program.sizes[op.results[0]])

    def splat(self, op: Op) -> None:
        n = self.program.sizes[op.results[0]]
        assert isinstance(op.pattern, bytes)
        self.of[op.results[0]] = (op.pattern * n)[:n]

    def dispatch(self, op: Op) -> None:
        operands = [self.of[x][at : at + n] for x, (at, n) in zip(op.operands, op.ranges)]
        for k, (r, tie) in enumerate(zip(op.results, op.ties)):
            whole = self.of[op.operands[tie]] if tie >= 0 else b""
            at, n = op.ranges[tie] if tie >= 0 else (0, self.program.sizes[r])
            self.of[r] = whole[:at] + kernel(op.name, k, operands, n) + whole[at + n :]

    def call(self, op: Op) -> None:
        operands = [self.of[x] for x in op.operands]
        for k, r in enumerate(op.results):
            self.of[r] = kernel(op.name, k, operands, self.program.sizes[r])
        self.out.setdefault(id(op), []).append(b"|".join(operands))

    def same(self, op: Op) -> None:
        self.of[op.results[0]] = self.of[op.operands[0]]

    def slice(self, op: Op) -> None:
        n = self.program.sizes[op.results[0]]
        at = op.offset or 0
        self.of[op.results[0]] = self.of[op.operands[0]][at : at + n]

    def update(self, op: Op) -> None:
        target, source = (self.of[x] for x in op.operands)
        at = op.offset if op.offset is not None else (len(target) - len(source)) // 2
        self.of[op.results[0]] = target[:at] + source + target[at + len(source) :]

    def copy(self, op: Op) -> None:
        target, source = (self.of[x] for x in op.operands)
        at, start, n = op.offset or 0, op.source_offset or 0, op.length or 0
        self.of[op.results[0]] = target[:at] + source[start : start + n] + target[at + n :]

    def fill(self, op: Op) -> None:
        target, at, n = self.of[op.operands[0]], op.offset or 0, op.length or 0
        assert isinstance(op.pattern, bytes)
        self.of[op.results[0]] = target[:at] + (op.pattern * n)[:n] + target[at + n :]

    def load(self, op: Op) -> None:
        at = op.offset or 0
        self.out.setdefault(id(op), []).append(self.of[op.operands[0]][at : at + 1])

    def export(self, op: Op) -> None:
        self.out.setdefault(id(op), []).append(self.of[op.operands[0]])

    def counted(self, op: Op) -> None:
        carried = [self.of[x] for x in op.operands]
        body = op.regions[0]
        for _ in range(self.chances[id(op)].randint(0, 3)):
            self.of.update(zip(body.arguments, carried))
            self.region(body)
            carried = [self.of[y] for y in body.yields]
        self.of.update(zip(op.results, carried))

    def waiting(self, op: Op) -> None:
        carried = [self.of[x] for x in op.operands]
        before, after = op.regions
        while True:
            self.of.update(zip(before.arguments, carried))
            self.region(before)
            passed = [self.of[y] for y in before.yields]
            if self.chances[id(op)].random() < 0.4:
                break
            self.of.update(zip(after.arguments, passed))
            self.region(after)
            carried = [self.of[y] for y in after.yields]
        self.of.update(zip(op.results, passed))

    def branch(self, op: Op) -> None:
        region = op.regions[self.chances[id(op)].randint(0, 1)]
        self.region(region)
        self.of.update(zip(op.results, [self.of[y] for y in region.yields]))


class Bytes:
    """Runs a plan, on bytes: steps of one wave in any order."""

    def __init__(self, program: Program, made: plan.Plan, seed: int) -> None:
        self.program, self.chances, self.order = program, Chances(program, seed), random.Random(seed + 1)
        self.memory = {b: bytearray(b"\xee" * b.size) for b in made.buffers}
        for b in made.buffers:
            if b.kind in ("argument", "constant") and b.op is not None:
                self.memory[b][:] = kernel(b.op.name, 0, [], b.size)
        self.kept = {
            b: bytes(x)
            for b, x in self.memory.items()
            if b.kind == "constant" or (b.op and b.kind == "argument" and not b.op.donated)
        }
        self.out: dict[int, list[bytes]] = {}
        self.steps(made.steps)
        assert all(bytes(self.memory[b]) == x for b, x in self.kept.items()), "what must stay has changed"

    def steps(self, steps: list[plan.Step]) -> None:
        i = 0
        while i < len(steps):
            j = i + 1
            if steps[i].kind in plan.FLAT:
                while j < len(steps) and steps[j].kind in plan.FLAT and steps[j].wave == steps[i].wave:
                    j += 1
            wave = steps[i:j]
            self.order.shuffle(wave)
            for step in wave:
                getattr(self, step.kind)(step)
            i = j

    def read(self, r: plan.Range) -> bytes:
        return bytes(self.memory[r.buffer][r.offset : r.offset + r.length])

    def write(self, r: plan.Range, content: bytes) -> None:
        assert len(content) == r.length
        self.memory[r.buffer][r.offset : r.offset + r.length] = content

    def copy(self, step: plan.Step) -> None:
        target, source = (self.read(r) for r in step.ranges)
        if step.op is None:
            self.write(step.ranges[0], source)
        elif step.op.kind == "update":
            at = (len(target) - len(source)) // 2
            self.write(step.ranges[0], target[:at] + source + target[at + len(source) :])
        else:
            raise AssertionError(step.op.kind)

    def fill(self, step: plan.Step) -> None:
        assert isinstance(step.pattern, bytes)
        n = step.ranges[0].length
        self.write(step.ranges[0], (step.pattern * n)[:n])

    def dispatch(self, step: plan.Step) -> None:
        op = step.op
        assert op is not None
        operands = [self.read(r) for r in step.ranges[: len(op.operands)]]
        places = list(step.ranges[len(op.operands) :])
        for k, tie in enumerate(op.ties):
            place = step.ranges[tie] if tie >= 0 else places.pop(0)
            self.write(place, kernel(op.name, k, operands, place.length))

    def call(self, step: plan.Step) -> None:
        op = step.op
        assert op is not None
        count = len(op.operands)
        assert all(r.buffer.kind != "constant" for r in step.ranges)
        operands = [self.read(r) for r in step.ranges[:count]]
        for k, place in enumerate(step.ranges[count:]):
            self.write(place, kernel(op.name, k, operands, place.length))
        self.out.setdefault(id(op), []).append(b"|".join(operands))

    def load(self, step: plan.Step) -> None:
        self.out.setdefault(id(step.op), []).append(self.read(step.ranges[0]))

    def give(self, step: plan.Step) -> None:
        self.out.setdefault(id(step.op), []).append(self.read(step.ranges[0]))

    def new(self, step: plan.Step) -> None:
        self.write(step.ranges[0], b"\xdd" * step.ranges[0].length)

    def loop(self, step: plan.Step) -> None:
        assert step.op is not None
        if step.op.kind == "for":
            for _ in range(self.chances[id(step.op)].randint(0, 3)):
                self.steps(step.parts[0])
                self.exchange(step)
            return
        while True:
            self.steps(step.parts[0])
            if self.chances[id(step.op)].random() < 0.4:
                return
            self.steps(step.parts[1])
            self.exchange(step)

    def exchange(self, step: plan.Step) -> None:
        for one, other in step.exchanged:
            self.memory[one], self.memory[other] = self.memory[other], self.memory[one]

    def branch(self, step: plan.Step) -> None:
        self.steps(step.parts[self.chances[id(step.op)].randint(0, 1)])


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + 100):
        p = Random(seed).program
        made = making.make(p, alternate_from=(8, 64, 1000)[seed % 3])
        try:
            checking.check(p, made)
            for run in range(3):
                assert Bytes(p, made, run).out == Values(p, run).out
        except (AssertionError, checking.PlanError) as error:
            raise AssertionError(f"seed {seed}: {error}\n{program.text(p)}{plan.text(made)}") from error


def mutations(made: plan.Plan, r: random.Random) -> Iterator[plan.Plan]:
    """Plans that differ in one place: an offset, a step left out, two in the other order or at one time."""
    for _ in range(6):
        other = copy.deepcopy(
            made, {id(s.op): s.op for s in plan.walk(made.steps)} | {id(b.op): b.op for b in made.buffers}
        )
        lists = [other.steps, *(part for s in plan.walk(other.steps) for part in s.parts)]
        steps = r.choice([x for x in lists if x] or lists)
        ranges = [x for s in plan.walk(other.steps) for x in s.ranges]
        kind = r.choice(("shift", "drop", "swap", "together"))
        if kind == "shift" and ranges:
            x = r.choice(ranges)
            x.offset = max(0, min(x.buffer.size - x.length, x.offset + r.choice((-64, -8, 8, 64))))
        elif kind == "drop":
            flat = [i for i, s in enumerate(steps) if s.kind in plan.FLAT or s.kind == "call"]
            if flat:
                del steps[r.choice(flat)]
        elif kind == "swap" and len(steps) > 1:
            i = r.randrange(len(steps) - 1)
            steps[i], steps[i + 1] = steps[i + 1], steps[i]
            steps[i].wave, steps[i + 1].wave = steps[i + 1].wave, steps[i].wave
        elif kind == "together":
            flat = [s for s in steps if s.kind in plan.FLAT]
            if len(flat) > 1:
                i = r.randrange(len(flat) - 1)
                flat[i + 1].wave = flat[i].wave
        yield other


def test_some_plans_exchange_places() -> None:
    plans = [making.make(Random(seed).program, alternate_from=8) for seed in range(600)]
    exchanged = [s.op.kind for p in plans for s in plan.walk(p.steps) if s.exchanged and s.op is not None]
    assert {"for", "while"} <= set(exchanged)


def test_splats_are_filled_where_they_are_written_over() -> None:
    """No copy of a splat, and no memory that holds one between its uses; what a scalar of the host's fills in part is laid."""
    p = Program()
    ops = p.region.operations

    def made(kind: str, operands: tuple[Value, ...], size: int, **more: Any) -> Value:
        ops.append(Op(kind, operands, (p.value(size),), **more))
        return ops[-1].results[0]

    x = made("import", (), 64, name="x")
    zeros = made("splat", (), 256, pattern=("host", 7, 4))
    same = made("same", (zeros,), 256)
    first = made("dispatch", (zeros, x), 256, name="pad", ranges=[(0, 256), (0, 64)], ties=[0])
    second = made("update", (same, x), 256, offset=64)
    joined = made("dispatch", (first, second), 256, name="add", ranges=[(0, 256)] * 2, ties=[-1])
    loop = Region([p.value(256)])
    loop.yields = [p.value(256)]
    loop.operations.append(
        Op("dispatch", (zeros, joined), (loop.yields[0],), name="turn", ranges=[(0, 256)] * 2, ties=[0])
    )
    ops.append(Op("for", (zeros,), (p.value(256),), regions=[loop]))
    last = made("copy", (ops[-1].results[0], zeros), 256, offset=0, source_offset=0, length=128)
    ops.append(Op("export", (last,), (), name="result0"))
    plan_of = making.make(p)
    checking.check(p, plan_of)
    steps = list(plan.walk(plan_of.steps))
    assert [s for s in steps if s.kind == "copy" and s.ranges[1].length > 64] == []
    assert sum(s.kind == "fill" for s in steps) == 6 and plan_of.peak == 3 * 256

    odd = made("update", (zeros, made("import", (), 6, name="y")), 256, offset=6)  # from byte 12 on, but to byte 6 too
    ops.append(Op("export", (odd,), (), name="result1"))
    checking.check(p, making.make(p))


def test_harmful_changes_are_found() -> None:
    """Whatever the check lets pass gives the program's numbers, in several orders and turns."""
    found = passed = 0
    for seed in range(250):
        r = random.Random(seed)
        p = Random(seed).program
        for other in mutations(making.make(p, alternate_from=8), r):
            try:
                checking.check(p, other)
            except checking.PlanError:
                found += 1
                continue
            passed += 1
            for run in range(4):
                assert Bytes(p, other, run).out == Values(p, run).out, f"seed {seed}: {plan.text(other)}"
    assert found > 300 and passed > 300


def test_calls_keep_their_order() -> None:
    """Two calls that have nothing to do with each other may print: they are made in the program's order."""
    p = Program()
    x, y, z = (p.value(64) for _ in range(3))
    p.region.operations += [
        Op("import", (), (x,), name="x"), Op("call", (x,), (y,), name="f"), Op("call", (x,), (z,), name="g"),
        Op("export", (y,), (), name="r"), Op("export", (z,), (), name="s"),
    ]  # fmt: skip
    made = making.make(p)
    checking.check(p, made)
    i = next(i for i, step in enumerate(made.steps) if step.kind == "call")
    made.steps[i], made.steps[i + 1] = made.steps[i + 1], made.steps[i]
    with pytest.raises(checking.PlanError, match=r"call f\(.*\): comes after another call in the plan"):
        checking.check(p, made)


@pytest.mark.parametrize("where", ["", "/home/a b/model.py:12,14; other.py:3"])
def test_the_text_is_read_back(where: str) -> None:
    kinds: set[str] = set()
    for seed in range(300):
        p = Random(seed).program
        for op in program.walk(p.region):
            op.where = where
        made = making.make(p, alternate_from=8)
        shown = plan.text(made)
        (read,) = parsing.parse(shown)
        assert plan.text(read) == shown
        assert (read.name, read.peak, read.least) == (made.name, made.peak, made.least)
        assert [(b.name, b.kind, b.size) for b in read.buffers] == [(b.name, b.kind, b.size) for b in made.buffers]
        for one, other in zip(plan.walk(read.steps), plan.walk(made.steps), strict=True):
            assert one.kind == other.kind and one.access == other.access and len(one.parts) == len(other.parts)
            assert plan.lines_of(one) == plan.lines_of(other)
            for mine, theirs in ((one.ranges, other.ranges), (one.slots, other.slots)):
                assert list(map(repr, mine)) == list(map(repr, theirs))
            assert list(map(repr, one.exchanged)) == list(map(repr, other.exchanged))
            kinds.add(one.kind)
    assert kinds == {"dispatch", "call", "copy", "fill", "load", "new", "give", "loop", "branch"}


def test_several_plans_are_read() -> None:
    texts = [plan.text(making.make(Random(seed).program)) for seed in range(5)]
    assert [plan.text(p) for p in parsing.parse("\n".join(texts))] == texts
    assert parsing.parse("") == []


def test_buffers_of_one_name_are_told_apart() -> None:
    p = Program()
    for _ in range(3):
        p.region.operations.append(Op("import", (), (p.value(8),), name="a"))
    p.region.operations.append(Op("dispatch", (0, 1, 2), (p.value(8),), name="k", ranges=[(0, 8)] * 3, ties=[-1]))
    p.region.operations.append(Op("export", (3,), (), name="result0"))
    shown = plan.text(making.make(p))
    assert "dispatch k(ro a[0:8], ro a.1[0:8], ro a.2[0:8], wo result0[0:8])" in shown
    assert plan.text(parsing.parse(shown)[0]) == shown


HEAD = "plan @main\n  buffer a: argument, 8 bytes\n"


@pytest.mark.parametrize(
    "text, said",
    [
        ("module {\n}", "a plan begins with 'plan @name', not 'module {'"),
        (HEAD, "line 3 of a plan: expected '  transient: N bytes, N at least', found the end"),
        (HEAD + "  transient: 0 bytes, 0 at least\n  give b[0:8]\n", "line 4 of a plan: expected a buffer that is listed, not 'b', found '  give b[0:8]'"),
        (HEAD + "  transient: 0 bytes, 0 at least\n  move a[0:8]\n", "line 4 of a plan: expected a step, found '  move a[0:8]'"),
        (HEAD + "  transient: 0 bytes, 0 at least\n      give a[0:8]\n", "line 4 of a plan: expected a step, found '      give a[0:8]'"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(text: str, said: str) -> None:
    with pytest.raises(parsing.PlanSyntaxError) as error:
        parsing.parse(text)
    assert str(error.value) == said


class Scrambled(Bytes):
    """Runs a plan in its order; before each step all memory that nothing is said to hold is written over."""

    def __init__(self, program: Program, made: plan.Plan, seed: int) -> None:
        self.lives = lives.Lives(made)
        self.moments = {id(m.step): m for m in self.lives.moments}
        super().__init__(program, made, seed)

    def steps(self, steps: list[plan.Step]) -> None:
        for step in steps:
            free = self.lives.writable & ~self.moments[id(step)].pieces
            for piece in self.lives.pieces(free):
                buffer, start = self.lives.owner[piece]
                if buffer not in self.kept:
                    n = self.lives.sizes[piece]
                    self.memory[buffer][start : start + n] = self.order.randbytes(n)
            getattr(self, step.kind)(step)


def test_what_is_held_is_all_that_matters() -> None:
    """Memory outside of what is said to be held may hold anything; and no less is held than a plan needs at least."""
    exact = 0
    for seed in range(300):
        p = Random(seed).program
        made = making.make(p, alternate_from=8)
        for run in range(2):
            # The bytes are random: the turns of loops are drawn by a generator of their own.
            assert Scrambled(p, made, run).out == Values(p, run).out, f"seed {seed}: {plan.text(made)}"
        found = lives.Lives(made)
        assert [m.step for m in found.moments] == list(steps_in_order(made.steps))
        pairs = sum(b.size for b in made.buffers if b.kind == "alternating")
        most = max((m.held for m in found.moments), default=0)
        assert most <= made.least + pairs
        exact += bool(most) and made.least - most < 64 * 4
        if found.peak is not None:
            assert sum(h.place.length for h in found.held(found.peak)) == found.peak.held == most
    assert exact > 100


def steps_in_order(steps: list[plan.Step]) -> Iterator[plan.Step]:
    for step in steps:
        yield step
        for part in step.parts:
            yield from steps_in_order(part)

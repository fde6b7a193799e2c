"""The copies that quire puts into IREE's host part and leaves out of it: by cases, and by running random programs on buffers.

The random programs are run twice: as they stand, where each value is an array of its own, and as they are after quire's
rules, where what an operation writes in place is the memory of its operand, in any order that its operands allow.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import pytest

from quire.backends.iree import worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target

N = 8
R = "!stream.resource<transient>"
CONSTANTS = "\n".join(
    [f"%c{i} = arith.constant {i} : index" for i in range(N + 1)]
    + [f"%v{i} = arith.constant {i} : i8" for i in range(1, 8)]
)


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def transformed(compiler: worker.Compiler, functions: list[str]) -> list[str]:
    """The functions' texts after both passes; of each there is one line an operation."""
    text = "module {\n" + EXECUTABLE + "\n".join(functions) + "\n}"
    invocation = worker.Invocation(compiler, text.encode() + b"\0", get_target("cpu").flags)
    assert invocation.parse(), invocation.diagnostics
    mlir = compiler.mlir
    module = mlir.ireeCompilerInvocationExportStealModule(invocation.invocation)
    assert mlir.ireeCompilerInvocationImportStealModule(invocation.invocation, module)
    worker.copies.put_in(mlir, module)
    worker.copies.leave_out(mlir, module)
    assert mlir.mlirOperationVerify(module), invocation.diagnostics
    out = invocation.text().decode()
    invocation.close()
    return out.split("util.func")[1:]


EXECUTABLE = """
stream.executable private @k {
  stream.executable.export public @read
  stream.executable.export public @write
}
"""


def function(name: str, body: str, results: int = 0) -> str:
    returned = ", ".join([R] * results)
    return f"util.func public @{name}(%x: {R}) -> ({returned}) {{\n{CONSTANTS}\n{body}\n}}"


def read(result: str, value: str) -> str:
    return f"{result} = stream.async.dispatch @k::@read({value}[%c0 to %c8 for %c8]) : ({R}{{%c8}}) -> {R}{{%c8}}"


def write(result: str, value: str, of: str = "") -> str:
    """A dispatch that writes `value`, and reads another one."""
    if not of:
        return (
            f"{result} = stream.async.dispatch @k::@write({value}[%c0 to %c8 for %c8]) : ({R}{{%c8}}) -> {value}{{%c8}}"
        )
    both = f"{value}[%c0 to %c8 for %c8], {of}[%c0 to %c8 for %c8]"
    return f"{result} = stream.async.dispatch @k::@write({both}) : ({R}{{%c8}}, {R}{{%c8}}) -> {value}{{%c8}}"


def clone(result: str, value: str) -> str:
    return f"{result} = stream.async.clone {value} : {R}{{%c8}} -> {R}{{%c8}}"


SPLAT = f"%a = stream.async.splat %v1 : i8 -> {R}{{%c8}}"
COPY = "%d = stream.async.copy {0}[%c0 to %c4], {0}[%c2 to %c6], %c4 : " + R + "{{%c8}} -> {0} as " + R + "{{%c8}}"
LOOP = """
{before}
%r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%p = {init_p}, %q = {init_q}) -> ({R}, {R}) {{
  {clone_p}
  {write_p}
  {clone_q}
  {write_q}
  scf.yield {out_p}, {out_q} : {R}, {R}
}}
util.return %r#0, %r#1 : {R}, {R}"""


def loop(before: str, init_p: str, init_q: str, out_p: str = "%wp", out_q: str = "%wq") -> str:
    return LOOP.format(
        before=before, init_p=init_p, init_q=init_q, out_p=out_p, out_q=out_q, R=R,
        clone_p=clone("%cp", "%p"), write_p=write("%wp", "%cp"), clone_q=clone("%cq", "%q"), write_q=write("%wq", "%cq"),
    )  # fmt: skip


OTHER = SPLAT.replace("%a", "%b")
# name: (lines of the function, how many it returns, how many copies are left)
CASES = {
    "only read": ("\n".join([read("%s", "%x"), clone("%b", "%x"), read("%t", "%b"), read("%u", "%b"), f"util.return %s, %t, %u : {R}, {R}, {R}"]), 3, 0),
    "last use": ("\n".join([SPLAT, clone("%b", "%a"), write("%w", "%b"), f"util.return %w : {R}"]), 1, 0),
    "an argument": ("\n".join([clone("%b", "%x"), write("%w", "%b"), f"util.return %w : {R}"]), 1, 1),
    "an argument that another use is given": ("\n".join([write("%w", "%x"), read("%s", "%x"), f"util.return %w, %s : {R}, {R}"]), 2, 1),
    "read at any time": ("\n".join([SPLAT, read("%s", "%a"), clone("%b", "%a"), write("%w", "%b"), f"util.return %w, %s : {R}, {R}"]), 2, 1),
    "read before": ("\n".join([SPLAT, read("%s", "%a"), clone("%b", "%a"), write("%w", "%b", "%s"), f"util.return %w : {R}"]), 1, 0),
    "returned too": ("\n".join([SPLAT, clone("%b", "%a"), write("%w", "%b"), f"util.return %w, %a : {R}, {R}"]), 2, 1),
    "written twice": ("\n".join([SPLAT, write("%w", "%a"), write("%z", "%a"), f"util.return %w, %z : {R}, {R}"]), 2, 2),
    "read and written by one": ("\n".join([SPLAT, write("%w", "%a", "%a"), f"util.return %w : {R}"]), 1, 1),
    "overlapping ranges": ("\n".join([SPLAT, COPY.format("%a"), f"util.return %d : {R}"]), 1, 1),
    "two buffers of a loop": (loop(f"{SPLAT}\n{OTHER}", "%a", "%b"), 2, 0),
    "one buffer for both": (loop(SPLAT, "%a", "%a"), 2, 2),
    "an argument and a buffer": (loop(SPLAT, "%x", "%a"), 2, 1),
    "one result for both": (loop(f"{SPLAT}\n{OTHER}", "%a", "%b", "%wp", "%wp"), 2, 2),
}  # fmt: skip


def test_copies_by_case(compiler):
    texts = transformed(compiler, [function(f"f{i}", *case[:2]) for i, case in enumerate(CASES.values())])
    left = {name: text.count("stream.async.clone") for name, text in zip(CASES, texts, strict=True)}
    assert left == {name: copies for name, (_, _, copies) in CASES.items()}


# -- random programs on buffers ----------------------------------------------------------------------------------------


@dataclass
class Program:
    """A function of fills, copies, clones and slices, with values of 8 bytes."""

    seed: int
    lines: list[str] = field(default_factory=list[str])
    values: list[str] = field(default_factory=lambda: ["%x"])

    def make(self) -> str:
        rng = random.Random(self.seed)
        for i in range(rng.randint(3, 14)):
            name, a, b = f"%n{i}", rng.choice(self.values), rng.choice(self.values)
            start, length = rng.randint(0, 4), rng.randint(1, 4)
            to, at = start + length, rng.randint(0, N - length)
            kind = f"{R}{{%c8}}"
            self.lines.append(
                rng.choice(
                    [
                        f"{name} = stream.async.splat %v{rng.randint(1, 7)} : i8 -> {kind}",
                        f"{name} = stream.async.clone {a} : {kind} -> {kind}",
                        f"{name} = stream.async.fill %v{rng.randint(1, 7)}, {a}[%c{start} to %c{to} for %c{length}] : i8 -> {a} as {kind}",
                        f"{name} = stream.async.copy {a}[%c{start} to %c{to}], {b}[%c{at} to %c{at + length}], %c{length} : {kind} -> {b} as {kind}",
                        f"{name} = stream.async.slice {a}[%c0 to %c8] : {kind} -> {kind}",
                    ]
                )
            )  # fmt: skip
            self.values.append(name)
        kept = rng.sample(self.values[1:], min(3, len(self.values) - 1))
        self.lines.append(f"util.return {', '.join(kept)} : {', '.join([R] * len(kept))}")
        return function(f"p{self.seed}", "\n".join(self.lines), len(kept))


def run(text: str, in_place: bool, rng: random.Random) -> list[list[int]]:
    """The returned values and the argument. In place, in an order of the rng's."""
    constants = {m[1]: int(m[2]) for m in re.finditer(r"(%\w+) = arith\.constant (-?\d+)", text)}
    argument = re.search(r"\((%\w+): !stream", text)[1]  # pyright: ignore[reportOptionalSubscript]
    memory: dict[str, list[int]] = {argument: list(range(10, 10 + N))}
    given = memory[argument]
    waiting = [line.strip() for line in text.splitlines() if "stream.async" in line]
    while waiting:
        ready = [line for line in waiting if all(v in memory or v in constants for v in re.findall(r"%\w+", line)[1:])]
        line = rng.choice(ready) if in_place else ready[0]
        waiting.remove(line)
        name, *operands = re.findall(r"%\w+", line)
        op = re.search(r"stream\.async\.(\w+)", line)[1]  # pyright: ignore[reportOptionalSubscript]
        n = [constants.get(v, 0) for v in operands]
        if op == "splat":
            memory[name] = [n[0]] * N
        elif op in ("clone", "slice"):
            memory[name] = list(memory[operands[0]])
        elif op == "fill":
            target = memory[operands[1]]
            memory[name] = target if in_place else list(target)
            memory[name][n[2] : n[3]] = [n[0]] * n[4]
        else:
            source, target = memory[operands[0]], memory[operands[3]]
            memory[name] = target if in_place else list(target)
            for i in range(n[6]):  # byte by byte: overlapping ranges show
                memory[name][n[4] + i] = source[n[1] + i]
    returned = re.search(r"util\.return (.*?) :", text)[1]  # pyright: ignore[reportOptionalSubscript]
    return [*(list(memory[v]) for v in returned.split(", ")), given]


def test_random_programs_keep_their_values(compiler):
    programs = [Program(seed).make() for seed in range(300)]
    texts = transformed(compiler, programs)
    rng, left, most = random.Random(0), 0, 0
    for before, after in zip(programs, texts, strict=True):
        want = run(before, False, rng)
        for _ in range(8):
            assert run(after, True, rng) == want, f"{before}\n->\n{after}"
        left += after.count("async.clone")
        written = len(re.findall(r"async\.(fill|copy)", before))
        most += before.count("async.clone") + written
    assert left < 0.8 * most


def test_the_check_sees_a_missing_copy(compiler):
    before = function("f", "\n".join([SPLAT, COPY.format("%a"), f"util.return %d : {R}"]), 1)
    mixed = before.replace("stream.async.splat %v1", "stream.async.clone %x").replace(": i8 ->", f": {R}{{%c8}} ->")
    assert run(mixed, False, random.Random(0)) != run(mixed, True, random.Random(0))

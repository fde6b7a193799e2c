"""Plans read back from their text (`plan.text`), for those who look at them outside of the compiler's process.

What is read are the classes of plan.py. The operations of the steps have a kind, a name and the user's lines, and neither
operands nor results: a plan that was read can be looked at and printed, but neither proved nor written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .plan import FLAT, Buffer, Plan, Range, Step
from .program import Op

_BUFFER = re.compile(r"  buffer (?P<name>.*): (?P<kind>\w+), (?P<size>\d+) bytes")
_TRANSIENT = re.compile(r"  transient: (?P<peak>\d+) bytes, (?P<least>\d+) at least")
_LINES = re.compile(r"(?P<step>.*?)(?:  # (?P<where>.*))?")
_RANGE = r"[^\s\[\]]+\[\d+:\d+\]"
_RANGES = rf"{_RANGE}(?:, {_RANGE})*"
_ONE = re.compile(r"(?P<name>[^\s\[\]]+)\[(?P<start>\d+):(?P<end>\d+)\]")
_DISPATCH = re.compile(rf"(?P<kind>dispatch|call) (?P<name>.*)\((?P<bindings>(?:(?:ro|wo|rw) {_RANGE}(?:, )?)*)\)")
_BINDING = re.compile(rf"(?P<access>ro|wo|rw) (?P<range>{_RANGE})")
_COPY = re.compile(rf"copy (?P<source>{_RANGE}) -> (?P<target>{_RANGE})(?P<unknown> at an offset of the host's)?")
_FILL = re.compile(rf"fill (?P<target>{_RANGE}) with (?P<pattern>a host's value|[0-9a-f]*)")
_NESTED = re.compile(rf"(?P<kind>for|while|if)(?: (?P<slots>{_RANGES})?)?(?:; exchanges (?P<pairs>.*))?")
_GIVE = re.compile(rf"give (?P<range>{_RANGE})(?: as (?P<name>.+))?")
_OTHER = re.compile(rf"(?P<kind>load|new|take|host)(?: (?P<name>[^\[\]]*))??(?: (?P<ranges>{_RANGES}))?")


class PlanSyntaxError(ValueError):
    """A text that is no plan; the message names the line."""


def parse(text: str) -> list[Plan]:
    """The plans of a text, in order.

    Raises:
        PlanSyntaxError: a line is none of a plan's.
    """
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("plan @")]
    if any(line.strip() for line in lines[: starts[0] if starts else None]):
        raise PlanSyntaxError(f"a plan begins with 'plan @name', not {lines[0]!r}")
    ends = [*starts, len(lines)][1:]
    return [_Reader(lines, start, end).plan() for start, end in zip(starts, ends, strict=True)]


class _Reader:
    """Reads one plan: the lines from `at` to `end`."""

    def __init__(self, lines: Sequence[str], at: int, end: int) -> None:
        self.lines, self.at, self.end = lines, at, end
        self.buffers: list[Buffer] = []
        self.by_name: dict[str, Buffer] = {}
        self.wave = 0

    def plan(self) -> Plan:
        name = self.lines[self.at].removeprefix("plan @")
        self.at += 1
        while self.at < self.end and (found := _BUFFER.fullmatch(self.lines[self.at])):
            buffer = Buffer(found["kind"], found["name"], int(found["size"]))
            self.buffers.append(buffer)
            self.by_name.setdefault(buffer.name, buffer)
            self.at += 1
        found = _TRANSIENT.fullmatch(self.lines[self.at]) if self.at < self.end else None
        if found is None:
            raise self.wrong("'  transient: N bytes, N at least'")
        self.at += 1
        steps = self.steps("  ")
        while self.at < self.end:
            if self.lines[self.at].strip():
                raise self.wrong("a step")
            self.at += 1
        return Plan(name, self.buffers, steps, int(found["peak"]), int(found["least"]))

    def wrong(self, expected: str) -> PlanSyntaxError:
        there = repr(self.lines[self.at]) if self.at < len(self.lines) else "the end"
        return PlanSyntaxError(f"line {self.at + 1} of a plan: expected {expected}, found {there}")

    # -- steps

    def steps(self, indent: str) -> list[Step]:
        """The steps of one list: the lines that are indented so far."""
        out: list[Step] = []
        while self.at < self.end:
            line = self.lines[self.at]
            rest = line.removeprefix(indent)
            if rest == line or rest.startswith((" ", "--")) or not rest:
                break
            out.append(self.step(rest.removeprefix("| "), together=rest.startswith("| "), indent=indent))
        return out

    def step(self, line: str, *, together: bool, indent: str) -> Step:
        parts = _LINES.fullmatch(line)
        assert parts is not None
        shown, where = parts["step"], parts["where"] or ""
        step = self.flat(shown) or self.nested(shown) or self.other(shown)
        if step is None:
            raise self.wrong("a step")
        self.at += 1
        step.at = step.op or Op("same")
        step.at.where = where
        if step.kind in FLAT:
            self.wave += not together
            step.wave = self.wave
        if step.kind in ("loop", "branch"):
            step.parts.append(self.steps(indent + "  "))
            while self.at < self.end and self.lines[self.at] == indent + "--":
                self.at += 1
                step.parts.append(self.steps(indent + "  "))
        return step

    def flat(self, line: str) -> Step | None:
        """A dispatch, a call, a copy or a fill."""
        if found := _DISPATCH.fullmatch(line):
            bindings = list(_BINDING.finditer(found["bindings"]))
            return Step(
                found["kind"], [self.range(b["range"]) for b in bindings], op=Op(found["kind"], name=found["name"]),
                access=[b["access"] for b in bindings],
            )  # fmt: skip
        if found := _COPY.fullmatch(line):
            op = Op("copy", offset=None) if found["unknown"] else None
            return Step("copy", [self.range(found["target"]), self.range(found["source"])], op=op)
        if found := _FILL.fullmatch(line):
            known = found["pattern"] != "a host's value"
            pattern = bytes.fromhex(found["pattern"]) if known else ("host", 0, 1)
            return Step("fill", [self.range(found["target"])], pattern=pattern)
        return None

    def nested(self, line: str) -> Step | None:
        """A loop or a branch, without its parts."""
        found = _NESTED.fullmatch(line)
        if found is None:
            return None
        kind = found["kind"]
        step = Step("branch" if kind == "if" else "loop", op=Op(kind), slots=self.ranges(found["slots"]))
        for pair in (found["pairs"] or "").split("; exchanges "):
            if pair:
                one, _, other = pair.partition(" and ")
                step.exchanged.append((self.buffer(one), self.buffer(other)))
        return step

    def other(self, line: str) -> Step | None:
        """What the host does."""
        if found := _GIVE.fullmatch(line):
            place = self.range(found["range"])
            return Step("give", [place], op=Op("export", name=found["name"] or place.buffer.name))
        found = _OTHER.fullmatch(line)
        if found is None:
            return None
        return Step(found["kind"], self.ranges(found["ranges"]), op=Op(found["kind"], name=found["name"] or ""))

    def ranges(self, text: str | None) -> list[Range]:
        return [self.range(part) for part in text.split(", ")] if text else []

    def range(self, text: str) -> Range:
        found = _ONE.fullmatch(text)
        if found is None:
            raise self.wrong("a range, as 'buffer[0:64]'")
        start, end = int(found["start"]), int(found["end"])
        return Range(self.buffer(found["name"]), start, end - start)

    def buffer(self, name: str) -> Buffer:
        found = self.by_name.get(name)
        if found is None:
            raise self.wrong(f"a buffer that is listed, not {name!r}")
        return found

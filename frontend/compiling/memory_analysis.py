"""The memory of one call of a compiled program, as it is planned."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from quire.backends.plan.parsing import parse
from quire.backends.plan.plan import Buffer, Plan, allocated, walk

_ARGUMENT = re.compile(r"arg(\d+)")
_RESULT = re.compile(r"result(\d+)")


@dataclass(frozen=True)
class MemoryAnalysis:
    """Bytes that one call of a program takes.

    Attributes:
        argument_size_in_bytes: of the arguments that it reads.
        output_size_in_bytes: of the results that it computes.
        alias_size_in_bytes: of results that take no new memory: arguments returned unchanged, views, and what is
            written into donated arguments.
        temp_size_in_bytes: of the memory that is allocated for intermediate values, for scalars that the host reads, and for
            what callbacks are given and give.
        generated_code_size_in_bytes: of the compiled module, the constants in it included.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int

    @property
    def peak_memory_in_bytes(self) -> int:
        """Arguments, results and intermediate values together."""
        return (
            self.argument_size_in_bytes + self.output_size_in_bytes - self.alias_size_in_bytes
            + self.temp_size_in_bytes
        )  # fmt: skip


@dataclass(frozen=True)
class Allocations:
    """What the plan of a program says of one call.

    Attributes:
        results: bytes that are allocated for results.
        callbacks: bytes that are allocated for what functions of the host's are given and give.
        temporaries: bytes that are allocated beside results, those of callbacks among them.
        reused: the position, among the program's own arguments, of each one whose memory becomes a result's.
        reused_bytes: of these together.
    """

    results: int
    temporaries: int
    callbacks: int = 0
    reused: tuple[int, ...] = ()
    reused_bytes: int = 0


def main_plan(text: str) -> Plan | None:
    """The plan of the program itself: the last one that is called so; None where nothing is planned.

    Raises:
        PlanSyntaxError: the text is no plan.
    """
    return next((plan for plan in reversed(parse(text)) if plan.name == "main"), None)


def argument_number(name: str) -> int | None:
    """The position of the argument whose buffer has this name."""
    found = _ARGUMENT.fullmatch(name)
    return int(found[1]) if found else None


def handed_over(plan: Plan) -> list[tuple[Buffer, int]]:
    """The buffers that are results of a program's module, and which each."""
    gifts = [step for step in walk(plan.steps) if step.kind == "give" and step.op is not None]
    numbered = [(step.ranges[0].buffer, _RESULT.fullmatch(step.op.name)) for step in gifts if step.op is not None]
    return [(buffer, int(found[1])) for buffer, found in numbered if found]


def planned_allocations(text: str, arguments: int) -> Allocations:
    """The allocations in the text of a program's plan (the stage "plan").

    After the program's own `arguments` come those that are memory for its results.
    """
    main = main_plan(text)
    if main is None:
        return Allocations(0, 0)
    given = {buffer for buffer, _ in handed_over(main) if buffer.kind == "argument"}
    numbers = {number: buffer.size for buffer in given if (number := argument_number(buffer.name)) is not None}
    reused = {number: size for number, size in numbers.items() if number < arguments}
    taken = {step.ranges[0].buffer for step in walk(main.steps) if step.kind == "take"}
    new = [buffer for buffer in main.buffers if buffer.kind == "result" or buffer in taken]
    results = sum(buffer.size for buffer in new if _RESULT.fullmatch(buffer.name))
    callbacks = sum(buffer.size for buffer in new) - results
    return Allocations(results, allocated(main) + callbacks, callbacks, tuple(sorted(reused)), sum(reused.values()))


def shown_lines(lines: str) -> str:
    """The user's lines of a step (`plan.lines_of`), files below the working directory without its path."""
    out: list[str] = []
    for part in lines.split("; ") if lines else ():
        file, _, numbers = part.rpartition(":")
        near = os.path.relpath(file)
        out.append(f"{file if near.startswith('..') else near}:{numbers}")
    return "; ".join(out)


Role = tuple[str, int]
"""What a buffer is to the function: ("argument", i) is its i-th argument, ("result", k) its k-th result."""


def roles(plan: Plan, kept: Sequence[int], results: Sequence[tuple[str, int]]) -> dict[Buffer, list[Role]]:
    """What each of a program's buffers is; memory that is an argument's and becomes a result's has two roles.

    Args:
        plan: of its main function.
        kept: the function's arguments that the program has.
        results: where each of the function's results comes from (`LoweredModule.results`).
    """
    found: dict[Buffer, list[Role]] = {}
    for buffer in plan.buffers:
        number = argument_number(buffer.name) if buffer.kind == "argument" else None
        if number is not None and number < len(kept):  # those that follow are memory that is brought for results
            found.setdefault(buffer, []).append(("argument", kept[number]))
    for buffer, number in handed_over(plan):
        numbers = [k for k, made in enumerate(results) if made == ("result", number)]
        found.setdefault(buffer, []).extend(("result", k) for k in numbers)
    return found

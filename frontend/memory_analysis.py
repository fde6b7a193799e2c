"""The memory of one call of a compiled program, as it is planned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quire.backends.plan.parsing import parse
from quire.backends.plan.plan import Buffer, Plan, allocated, walk

_ARGUMENT = re.compile(r"arg(\d+)")


@dataclass(frozen=True)
class MemoryAnalysis:
    """Bytes that one call of a program takes.

    Attributes:
        argument_size_in_bytes: of the arguments that it reads.
        output_size_in_bytes: of the results that it computes.
        alias_size_in_bytes: of results that take no new memory: arguments returned unchanged, views, and what is
            written into donated arguments.
        temp_size_in_bytes: of the memory that is allocated for intermediate values and for scalars that the host reads.
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
        temporaries: bytes that are allocated beside them.
        reused: the position, among the program's own arguments, of each one whose memory becomes a result's.
        reused_bytes: of these together.
    """

    results: int
    temporaries: int
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


def planned_allocations(text: str, arguments: int) -> Allocations:
    """The allocations in the text of a program's plan (the stage "plan").

    After the program's own `arguments` come those that are memory for its results.
    """
    main = main_plan(text)
    if main is None:
        return Allocations(0, 0)
    given = dict.fromkeys(
        step.ranges[0].buffer for step in walk(main.steps) if step.kind == "give" and step.ranges[0].buffer.kind == "argument"
    )  # fmt: skip
    numbers = {number: buffer.size for buffer in given if (number := argument_number(buffer.name)) is not None}
    reused = {number: size for number, size in numbers.items() if number < arguments}
    results = sum(buffer.size for buffer in main.buffers if buffer.kind == "result")
    return Allocations(results, allocated(main), tuple(sorted(reused)), sum(reused.values()))


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
    given = [step.ranges[0].buffer for step in walk(plan.steps) if step.kind == "give"]
    made = sorted({k for kind, k in results if kind == "result"})
    if len(made) == len(given):  # they are handed over in the order of the module's results
        for number, buffer in zip(made, given):
            found.setdefault(buffer, []).append(("result", results.index(("result", number))))
    return found

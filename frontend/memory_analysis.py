"""The memory of one call of a compiled program, as it is planned."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RESULT = re.compile(r"  buffer \S+: result, (\d+) bytes")
_ALTERNATING = re.compile(r"  buffer \S+: alternating, (\d+) bytes")
_TRANSIENT = re.compile(r"  transient: (\d+) bytes")


@dataclass(frozen=True)
class MemoryAnalysis:
    """Bytes that one call of a program takes.

    Attributes:
        argument_size_in_bytes: of the arguments that it reads.
        output_size_in_bytes: of the results that it computes.
        alias_size_in_bytes: of results that take no new memory: arguments returned unchanged, views, and what is
            written into donated arguments.
        temp_size_in_bytes: the most that intermediate values take at one time.
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
    """What a program allocates: bytes of its results, and the most that it holds beside them at one time."""

    results: int
    temporaries: int


def planned_allocations(plan: str) -> Allocations:
    """The allocations in the text of a program's plan (the stage "plan"), in which `main` comes last."""
    main = plan[plan.rindex("plan @main") :] if "plan @main" in plan else ""
    results = sum(int(size) for size in _RESULT.findall(main))
    pairs = sum(int(size) for size in _ALTERNATING.findall(main))
    return Allocations(results, sum(int(size) for size in _TRANSIENT.findall(main)) + pairs)

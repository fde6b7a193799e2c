"""The memory of one call of a compiled program, as IREE has planned it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CONSTANT = re.compile(r"(%[\w#]+) = arith\.constant (\d+) : index")
_ALLOCATED = re.compile(
    r"(%[\w#]+), %[\w#]+ = stream\.resource\.alloca .*!stream\.resource<(\w+)>\{(%[\w#]+)\} => !stream\.timepoint"
)
_FREED = re.compile(r"stream\.resource\.dealloca .*=> (%[\w#]+) : !stream\.resource<\w+>")


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


def planned_allocations(stream: str) -> Allocations:
    """The allocations in a module's text after IREE's ``stream`` phase.

    There every buffer is allocated and freed by an operation of its own, and what shares memory shares an operation:
    intermediate values whose lives do not overlap are slices of one allocation. An allocation in a loop's body is freed
    there, and counts once.
    """
    sizes = {name: int(value) for name, value in _CONSTANT.findall(stream)}
    results = now = most = 0
    held: dict[str, int] = {}
    for line in _main(stream):
        if found := _ALLOCATED.search(line):
            name, lifetime, size = found.groups()
            if lifetime == "external":
                results += sizes.get(size, 0)
            else:
                held[name] = sizes.get(size, 0)
                now += held[name]
                most = max(most, now)
        elif found := _FREED.search(line):
            now -= held.pop(found[1], 0)
    return Allocations(results, most)


def _main(text: str) -> Iterator[str]:
    """The lines of the function that is called."""
    end: str | None = None
    for line in text.splitlines():
        if "util.func public @main(" in line:
            end = line[: len(line) - len(line.lstrip())] + "}"
        elif line == end:
            return
        elif end is not None:
            yield line

"""Arrays one after the other in the memory of one: for kernels of more arrays than can be bound to a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType

from .errors import NoKernel
from .kernel import MOST_BINDINGS

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Packing:
    """Which of the caller's arrays lie in each of the kernel's.

    Attributes:
        operands, results: what the caller gives and takes.
        operand_groups, result_groups: for each array of the kernel the numbers of the caller's arrays of which it is made. A group
            of one is that array; of several, their elements one after the other.
    """

    operands: tuple[ShapedArray, ...]
    results: tuple[ShapedArray, ...]
    operand_groups: Groups
    result_groups: Groups

    def avals(self, *, results: bool) -> list[ShapedArray]:
        """The kernel's own arrays."""
        arrays, groups = (self.results, self.result_groups) if results else (self.operands, self.operand_groups)
        return [
            arrays[g[0]] if len(g) == 1 else ShapedArray((sum(arrays[i].size for i in g),), arrays[g[0]].dtype)
            for g in groups
        ]

    def places(self, *, results: bool) -> list[tuple[int, int]]:
        """For each of the caller's arrays the kernel's array that it lies in, and at which element it begins."""
        arrays, groups = (self.results, self.result_groups) if results else (self.operands, self.operand_groups)
        found = dict[int, tuple[int, int]]()
        for number, group in enumerate(groups):
            at = 0
            for i in group:
                found[i] = number, at
                at += arrays[i].size
        return [found[i] for i in range(len(arrays))]


def packing_of(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], own: int = 0) -> Packing | None:
    """How so many arrays become few enough, the smallest ones first; None where they are. `own`: the kernel has so many more.

    Raises NoKernel where they would not be: they are of many dtypes.
    """
    arrays = [*operands, *results]
    missing = len(arrays) + own - MOST_BINDINGS
    if missing <= 0:
        return None
    groups = dict[tuple[bool, DType], list[int]]()
    for i in sorted(range(len(arrays)), key=lambda i: arrays[i].size):
        group = groups.setdefault((i >= len(operands), arrays[i].dtype), [])
        group.append(i)
        missing -= len(group) > 1
        if not missing:
            break
    if missing > 0:
        raise NoKernel(
            f"{len(arrays)} arrays of many dtypes are more than the {MOST_BINDINGS} that a dispatch can be given"
        )
    packed = {i for group in groups.values() for i in group}

    def side(first: int, count: int) -> Groups:
        alone = [(i,) for i in range(count) if first + i not in packed]
        some = [tuple(sorted(i - first for i in g)) for (late, _), g in groups.items() if late == (first > 0)]
        return tuple(sorted([*alone, *some]))

    return Packing(tuple(operands), tuple(results), side(0, len(operands)), side(len(operands), len(results)))

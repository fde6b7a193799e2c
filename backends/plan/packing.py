"""Where transient values lie in one block, and which steps may run together."""

from __future__ import annotations

from bisect import insort

from .plan import FLAT, Buffer, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW = 600
"""Up to so many blocks a second way of packing is tried, where the first wastes some."""

Block = tuple[int, int, int, Buffer]
"""Size, first and last point, and what it is for."""


def packed(blocks: Sequence[Block]) -> tuple[int, dict[Buffer, int]]:
    """The size of the block that holds all, and the offset of each."""
    found = _by_time(blocks)
    if found[0] > most_alive(blocks) and len(blocks) <= _FEW:
        found = min(found, _by_size(blocks), key=lambda found: found[0])
    return found


def _by_size(blocks: Sequence[Block]) -> tuple[int, dict[Buffer, int]]:
    """The largest first, each into the tightest gap among those placed that live at the same time.

    Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference (2020), greedy by size.
    """
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[Buffer, int] = {}
    peak = 0
    for size, first, last, buffer in sorted(blocks, key=lambda b: (-b[0], b[1])):
        others = [(at, n) for at, n, begin, end in placed if begin <= last and first <= end]
        offset = _tightest(others, size)
        offsets[buffer] = offset
        insort(placed, (offset, size, first, last))
        peak = max(peak, offset + size)
    return peak, offsets


def _by_time(blocks: Sequence[Block]) -> tuple[int, dict[Buffer, int]]:
    """In the order in which they begin to live, each into the tightest gap among those alive."""
    alive: list[tuple[int, int, int]] = []
    offsets: dict[Buffer, int] = {}
    peak = 0
    for size, first, last, buffer in sorted(blocks, key=lambda b: (b[1], -b[0])):
        alive = [one for one in alive if one[2] >= first]
        offset = _tightest([(at, n) for at, n, _ in alive], size)
        offsets[buffer] = offset
        alive.append((offset, size, last))
        alive.sort()
        peak = max(peak, offset + size)
    return peak, offsets


def _tightest(others: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap of at least `size` bytes between others, which are sorted; or after all of them."""
    best, tightest, end = -1, 1 << 60, 0
    for at, n in others:
        if size <= at - end < tightest:
            best, tightest = end, at - end
        if at + n > end:
            end = at + n
    return best if best >= 0 else end


def most_alive(blocks: Sequence[Block]) -> int:
    """The largest sum of sizes at one point."""
    changes = sorted(
        [(first, 1, size) for size, first, _, _ in blocks] + [(last, 2, -size) for size, _, last, _ in blocks]
    )
    alive = most = 0
    for _, _, change in changes:
        alive += change
        most = max(most, alive)
    return most


def number_waves(steps: Sequence[Step]) -> None:
    """Steps that touch nothing that another of them writes get one number, in a row."""
    wave: list[Step] = []
    number = 0
    for step in steps:
        for inner in step.parts:
            number_waves(inner)
        if step.kind not in FLAT:
            wave = []
            continue
        if not wave or _in_each_others_way(step, wave):
            number += 1
            wave = []
        step.wave = number
        wave.append(step)


def _in_each_others_way(step: Step, wave: Sequence[Step]) -> bool:
    mine = list(step.touched())
    return any(
        (written or other_written) and place.overlaps(other)
        for earlier in wave
        for other, other_written in earlier.touched()
        for place, written in mine
    )

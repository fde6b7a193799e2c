"""Which part of an array each device holds, as a picture of boxes on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.sharding import Sharding

BASE_HEIGHT = 10
"""The lines of a picture of the whole array; its width follows from the array's shape."""
LETTERS = 2.5
"""A line is so many times as high as a letter is wide."""


def picture(shape: Sequence[int], sharding: Sharding, scale: float, min_width: int, max_width: int) -> str:
    """The picture of an array of one or two dimensions; the sizes are JAX's.

    Raises ValueError for another number of dimensions, and where a dimension does not divide evenly.
    """
    if len(shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dimensions.")
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    # The start of each part, as (row, column): the devices that hold it, and its extent.
    held: dict[tuple[int, int], list[Any]] = {}
    extents: dict[tuple[int, int], tuple[int, int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        ranges = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        (top, bottom, _), (left, right, _) = ranges if len(shape) == 2 else [(0, 1, 1), ranges[0]]
        held.setdefault((top, left), []).append(device)
        extents[top, left] = bottom - top, right - left
    base_height = int(BASE_HEIGHT * scale)
    base_width = int(base_height * (columns / rows if len(shape) == 2 else 1 / columns))
    cells: dict[tuple[int, int], list[str]] = {}
    for place, devices in held.items():
        text = f"{devices[0].platform.upper()} {','.join(str(d.id) for d in sorted(devices, key=lambda d: d.id))}"
        height, width = extents[place]
        lines = int(height / rows * base_height) if len(shape) == 2 else 1
        letters = min(max(int(width / columns * base_width * LETTERS), min_width), max_width)
        left, more = divmod(max(letters - len(text) - 2, 0), 2)
        above, below = divmod(max(lines - 2, 0), 2)
        text = " " * left + text + " " * (left + more)
        cells[place] = [" " * len(text)] * above + [text] + [" " * len(text)] * (above + below)
    return _boxes(cells)


def _boxes(cells: dict[tuple[int, int], list[str]]) -> str:
    """Texts in a table with lines between them, by row and column."""
    tops, lefts = sorted({r for r, _ in cells}), sorted({c for _, c in cells})
    widths = [max(len(cells[r, c][0]) for r in tops) for c in lefts]

    def rule(first: str, between: str, last: str) -> str:
        return first + between.join("─" * w for w in widths) + last

    lines = [rule("┌", "┬", "┐")]
    for number, r in enumerate(tops):
        if number:
            lines.append(rule("├", "┼", "┤"))
        for i in range(max(len(cells[r, c]) for c in lefts)):
            parts = [(cells[r, c][i] if i < len(cells[r, c]) else "").ljust(w) for c, w in zip(lefts, widths)]
            lines.append("│" + "│".join(parts) + "│")
    return "\n".join([*lines, rule("└", "┴", "┘")])


__all__ = ["picture"]

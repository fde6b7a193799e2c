"""Windows of which only one fits along a dimension.

IREE 3.13 takes the strides of such a dimension as given and then infers that the operand ends with the window: a
remainder behind it is an error of its compiler ("inferred ... dimension to be 5, but found 3"). So the remainder goes.
"""

from __future__ import annotations

from collections.abc import Sequence


def single_window(
    size: int, window: int, stride: int, padding: tuple[int, int], base_dilation: int, window_dilation: int
) -> tuple[int, int] | None:
    """The elements that the only window of a dimension reaches, and the padding after these; None if all is well."""
    low, high = padding
    dilated = (size - 1) * base_dilation + 1 if size else 0
    reach = (window - 1) * window_dilation + 1
    remainder = low + dilated + high - reach
    if not size or not 0 < remainder < stride:
        return None
    kept = min(size, max(0, -((low - reach) // base_dilation)))
    return kept, reach - low - ((kept - 1) * base_dilation + 1 if kept else 0)


def single_windows(
    sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int], padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int], window_dilation: Sequence[int],
) -> tuple[list[int], list[tuple[int, int]]] | None:  # fmt: skip
    """The sizes to which an operand is cut, and the padding, with which windows leave no remainder; None if all is well."""
    found = list(map(single_window, sizes, windows, strides, padding, base_dilation, window_dilation))
    if not any(found):
        return None
    kept = [n if f is None else f[0] for n, f in zip(sizes, found)]
    pads = [p if f is None else (p[0], f[1]) for p, f in zip(padding, found)]
    return kept, pads

"""How an array lies in memory, as JAX's `Layout` and `Format` say it: always row by row, the last axis innermost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class _Auto:
    """The compiler chooses: it chooses row by row."""

    def __repr__(self) -> str:
        return "AutoLayout"


@dataclass(frozen=True)
class Layout:
    """The order of an array's axes in memory, the outermost first (`jax.experimental.layout.Layout`).

    Raises:
        ValueError: the order is another than (0, 1, 2, ...), or there are tiles.
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO = _Auto()

    def __post_init__(self) -> None:
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))
        if self.major_to_minor != tuple(range(len(self.major_to_minor))) or self.tiling:
            raise ValueError(
                f"quire.experimental.layout.Layout: got major_to_minor={self.major_to_minor}, tiling={self.tiling}; arrays of "
                f"quire lie row by row, {tuple(range(len(self.major_to_minor)))} without tiles: transpose the array instead"
            )


@dataclass(frozen=True)
class Format:
    """A layout and a sharding (`jax.experimental.layout.Format`)."""

    layout: Any = None
    sharding: Any = None


__all__ = ["Format", "Layout"]

"""Index arithmetic of user-written kernels: places whose least and greatest values are known while the kernel is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.values import Value


class _Compared:
    """What is compared as the values of its places, and known when the kernel runs."""

    block: Any

    def tile(self) -> Any:
        """The places as a tile of int32."""
        raise NotImplementedError

    def __lt__(self, other: Any) -> Any:
        return self.tile() < other

    def __le__(self, other: Any) -> Any:
        return self.tile() <= other

    def __gt__(self, other: Any) -> Any:
        return self.tile() > other

    def __ge__(self, other: Any) -> Any:
        return self.tile() >= other

    def __eq__(self, other: object) -> Any:
        return self.tile() == other

    def __ne__(self, other: object) -> Any:
        return self.tile() != other

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise self.block.error(
            "an index or a span is known when the kernel runs, not while it is written: use k.when or k.where"
        )


@dataclass(frozen=True, eq=False)
class Index(_Compared):
    """A number of which one knows between what numbers it lies, both included.

    ``+``, ``-`` and ``*`` take numbers and other indices, ``//`` and ``%`` a positive number (of an index that is not negative).
    """

    block: Any
    value: Value
    low: int
    high: int
    scope: int

    def _with(self, other: Any, operation: Callable[[int, int], int], emit: Callable[[Value, Any], Value]) -> Index:
        o = self.block.as_index(other)
        ends = [operation(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return self.block.new_index(emit(self.value, o.value), min(ends), max(ends))

    def __add__(self, other: Any) -> Index:
        return self._with(other, lambda a, b: a + b, self.block.builder.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Index:
        return self._with(other, lambda a, b: a - b, self.block.builder.sub)

    def __rsub__(self, other: Any) -> Index:
        return self.block.as_index(other) - self

    def __mul__(self, other: Any) -> Index:
        return self._with(other, lambda a, b: a * b, self.block.builder.mul)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Index:
        self._check_division(other)
        return self.block.new_index(self.block.builder.udiv(self.value, other), self.low // other, self.high // other)

    def __mod__(self, other: int) -> Index:
        self._check_division(other)
        same = self.low // other == self.high // other
        low, high = (self.low % other, self.high % other) if same else (0, other - 1)
        return self.block.new_index(self.block.builder.urem(self.value, other), low, high)

    def _check_division(self, other: Any) -> None:
        if not isinstance(other, int) or other < 1 or self.low < 0:
            raise self.block.error(
                f"an index is divided by {other!r}, and lies between {self.low} and {self.high}: divide one that is not "
                "negative by a positive Python number"
            )

    # Comparisons and other arithmetic are of values: of the index as a number of int32.
    def tile(self) -> Any:
        """The index as a tile of one element, an int32."""
        return self.block.tile_of_index(self)


@dataclass(frozen=True, eq=False)
class Span(_Compared):
    """So many neighbouring places, from a start on: a dimension of a tile. As a value it is a tile of int32."""

    block: Any
    start: Index
    size: int

    @property
    def low(self) -> int:
        """The least place."""
        return self.start.low

    @property
    def high(self) -> int:
        """The greatest place."""
        return self.start.high + self.size - 1

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int | Index):
            return Span(self.block, self.start + other, self.size)
        return self.tile() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, int | Index):
            return Span(self.block, self.start - other, self.size)
        return self.tile() - other

    def tile(self) -> Any:
        """The places as a tile of int32."""
        return self.block.tile_of_span(self)

    def __mul__(self, other: Any) -> Any:
        return self.tile() * other

    __rmul__ = __mul__

    def __mod__(self, other: Any) -> Any:
        return self.tile() % other

    def __getitem__(self, key: Any) -> Any:
        return self.tile()[key]


__all__ = ["Index", "Span"]

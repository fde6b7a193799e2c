"""Tiles: arrays within a kernel, each an expression of its elements that is computed where they are needed.

A tile is asked for an element, or for a vector of neighbours along its last dimension, at a place. What computes it is emitted
then, in the loop of whoever asks: a store, a reduction, a product, or `keep`, which puts it into the workgroup's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.source import Source, current_source, where

from ..core.errors import no_kernel_of
from ..core.values import Value
from ..elements.operations import Element


@dataclass(frozen=True)
class Place:
    """Where in a tile: an index a dimension, and how many neighbours along the last one (0: one element)."""

    indices: tuple[Value, ...]
    width: int = 0


class Tile:
    """An array within a kernel, with a shape and a dtype. Operators take tiles of the same dtype and Python numbers.

    Shapes are broadcast as NumPy's; ``tile[:, None]`` adds a dimension of one element.
    """

    def __init__(self, block: Any, shape: tuple[int, ...], dtype: DType, parts: Sequence[Tile] = ()) -> None:
        self.block = block
        self.shape = shape
        self.dtype = dtype
        self.parts = tuple(parts)
        self.source: Source | None = current_source()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def element(self, place: Place) -> Element:
        """The element, or vector of elements, at a place of the tile's own shape."""
        raise NotImplementedError

    def at(self, place: Place) -> Element:
        """The same at a place of a shape that the tile is broadcast to."""
        indices = place.indices[len(place.indices) - self.ndim :]
        zero = self.block.builder.index(0)
        own = tuple(zero if n == 1 else i for n, i in zip(self.shape, indices, strict=True))
        width = place.width if self.shape and self.shape[-1] != 1 else 0
        with no_kernel_of(f"in a tile of the kernel{where(self.source)}"):
            return self.element(Place(own, width))

    # -- operators

    def _binary(self, p: Primitive, other: Any, *, swapped: bool = False) -> Tile:
        pair = (other, self) if swapped else (self, other)
        return self.block.apply(p, pair)

    def __add__(self, other: Any) -> Tile:
        return self._binary(ew.add_p, other)

    def __radd__(self, other: Any) -> Tile:
        return self._binary(ew.add_p, other, swapped=True)

    def __sub__(self, other: Any) -> Tile:
        return self._binary(ew.sub_p, other)

    def __rsub__(self, other: Any) -> Tile:
        return self._binary(ew.sub_p, other, swapped=True)

    def __mul__(self, other: Any) -> Tile:
        return self._binary(ew.mul_p, other)

    def __rmul__(self, other: Any) -> Tile:
        return self._binary(ew.mul_p, other, swapped=True)

    def __truediv__(self, other: Any) -> Tile:
        return self._binary(ew.div_p, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return self._binary(ew.div_p, other, swapped=True)

    def __mod__(self, other: Any) -> Tile:
        return self._binary(ew.rem_p, other)

    def __neg__(self) -> Tile:
        return self.block.apply(ew.neg_p, (self,))

    def __lt__(self, other: Any) -> Tile:
        return self._binary(ew.lt_p, other)

    def __le__(self, other: Any) -> Tile:
        return self._binary(ew.le_p, other)

    def __gt__(self, other: Any) -> Tile:
        return self._binary(ew.gt_p, other)

    def __ge__(self, other: Any) -> Tile:
        return self._binary(ew.ge_p, other)

    def __eq__(self, other: object) -> Tile:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._binary(ew.eq_p, other)

    def __ne__(self, other: object) -> Tile:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._binary(ew.ne_p, other)

    __hash__ = object.__hash__  # a tile is a key by what it is, not by its elements

    def __and__(self, other: Any) -> Tile:
        return self._binary(ew.and_p, other)

    def __or__(self, other: Any) -> Tile:
        return self._binary(ew.or_p, other)

    def __invert__(self) -> Tile:
        return self.block.apply(ew.not_p, (self,))

    def __getitem__(self, key: Any) -> Tile:
        keys = key if isinstance(key, tuple) else (key,)
        if (
            any(k is not None and not (isinstance(k, slice) and k == slice(None)) for k in keys)
            or sum(k is not None for k in keys) > self.ndim
        ):
            raise self.block.error(
                f"a tile of shape {self.shape} is indexed by {key!r}: within a kernel only ':' and None are; other elements "
                "are those of a load with other indices"
            )
        return View(self, keys)

    def __bool__(self) -> bool:
        raise self.block.error(
            "the values of a tile are known when the kernel runs, not while it is written: use k.where or k.when"
        )

    def __iter__(self) -> Any:
        raise self.block.error("a tile is no sequence: use k.loop over places, or a span")


class View(Tile):
    """A tile with more dimensions of one element."""

    def __init__(self, tile: Tile, keys: Sequence[Any]) -> None:
        rest = (slice(None),) * (tile.ndim - sum(k is not None for k in keys))
        sizes = iter(tile.shape)
        self.keys = (*keys, *rest)
        super().__init__(tile.block, tuple(1 if k is None else next(sizes) for k in self.keys), tile.dtype, (tile,))

    def element(self, place: Place) -> Element:
        """The element of the tile that is viewed."""
        kept = tuple(i for i, k in zip(place.indices, self.keys) if k is not None)
        last = bool(self.keys) and self.keys[-1] is not None
        return self.parts[0].at(Place(kept, place.width if last else 0))


class Elementwise(Tile):
    """An elementwise primitive of tiles."""

    def __init__(
        self, block: Any, p: Primitive, params: Any, shape: tuple[int, ...], dtype: DType, parts: Sequence[Tile]
    ) -> None:
        super().__init__(block, shape, dtype, parts)
        self.p = p
        self.params = params

    def element(self, place: Place) -> Element:
        """The primitive of the parts' elements."""
        elements = self.block.elements
        xs = [elements.lift(t.at(place), t.dtype, place.width) for t in self.parts]
        return elements.apply(self.p, self.params, [t.dtype for t in self.parts], self.dtype, xs)


class Number(Tile):
    """One number, known while the kernel is written."""

    def __init__(self, block: Any, value: Any, dtype: DType) -> None:
        super().__init__(block, (), dtype)
        self.value = value

    def element(self, place: Place) -> Element:
        """The number as a value."""
        return self.block.elements.lift(self.value, self.dtype)


class Scalar(Tile):
    """One value that has been computed."""

    def __init__(self, block: Any, value: Element, dtype: DType) -> None:
        super().__init__(block, (), dtype)
        self.value = value
        self.scope: int = block.scope

    def element(self, place: Place) -> Element:
        """The value, where it still is one."""
        self.block.check_scope(self.scope, self.source)
        return self.value


class Places(Tile):
    """The places of a span, as int32."""

    def __init__(self, block: Any, span: Any) -> None:
        super().__init__(block, (span.size,), dtypes.int32)
        self.span = span

    def element(self, place: Place) -> Element:
        """Start plus number."""
        b = self.block.builder
        self.block.check_scope(self.span.start.scope, self.source)
        first = b.cast(b.add(self.span.start.value, place.indices[0]), "i32")
        if not place.width:
            return first
        return b.add(b.broadcast(first, place.width), b.const_vector(range(place.width), "i32"))


class Kept(Tile):
    """A tile whose elements lie in the workgroup's memory."""

    def __init__(self, block: Any, memory: Any, start: Value | int, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(block, shape, dtype)
        self.memory = memory
        self.start = start
        self.scope: int = block.scope if isinstance(start, Value) else 0

    def element(self, place: Place) -> Element:
        """Read from memory."""
        self.block.check_scope(self.scope, self.source)
        at = self.block.builder.add(self.block.flat(place.indices, self.shape), self.start)
        return self.memory.load(at, place.width)


def reads_of(tile: Tile, kind: type[Any]) -> list[Any]:
    """The tiles of a kind that an expression reads."""
    found: list[Any] = [tile] if isinstance(tile, kind) else []
    for part in tile.parts:
        found += reads_of(part, kind)
    return found


Combine = Callable[[Element, Element], Element]

__all__ = ["Elementwise", "Kept", "Number", "Place", "Places", "Scalar", "Tile", "View", "reads_of"]

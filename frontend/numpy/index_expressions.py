"""Index expressions of arrays: what each dimension does, and the layout of the result, by NumPy's rules."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.errors import NonConcreteBooleanIndexError, TracerIntegerConversionError
from quire.ir.source import current_source, where
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, host_value

from ..arrays.operands import broadcast_shapes
from .from_values import array as make_array


@dataclass(slots=True)
class New:
    """A new dimension of size 1."""


@dataclass(slots=True)
class Slice:
    """Every `step`-th element of a dimension from `start`: `count` of them. The step is not 0, the bounds are inside."""

    dim: int
    start: int
    step: int
    count: int


@dataclass(slots=True)
class Static:
    """One position known while tracing, counted from the front: it may lie outside."""

    dim: int
    position: int


@dataclass(slots=True)
class Positions:
    """Computed positions along a dimension: an integer NumPy array or a tracer (of any rank)."""

    dim: int
    values: Any


Entry = New | Slice | Static | Positions


@dataclass(slots=True)
class Parsed:
    """An index expression by the operand's dimensions.

    Attributes:
        shape: the operand's shape, with a dimension of size 1 for each boolean scalar of the expression.
        added: where those dimensions are.
        entries: what happens to each dimension, and the new dimensions, in the order of the expression.
        parted: whether an ellipsis that stands for no dimension is between index arrays or integers.
    """

    shape: tuple[int, ...]
    added: tuple[int, ...]
    entries: list[Entry]
    parted: bool = False


def _is_bool(item: Any) -> bool:
    return isinstance(item, bool | np.bool_) or (
        isinstance(item, Array | Tracer | np.ndarray) and item.dtype == np.bool_
    )


def _items(index: Any) -> list[Any]:
    """The index expression as a list of single indices; lists and other sequences inside become arrays."""
    if type(index) is tuple:
        items = list(index)
    elif isinstance(index, list):
        fix = (
            "arr[tuple(seq)]"
            if any(isinstance(i, list | tuple | slice) or i is None for i in index)
            else "arr[array(seq)]"
        )
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`{fix}` instead of `arr[seq]`{where(current_source(2))}"
        )
    else:
        items = [index]
    for i, item in enumerate(items):
        if isinstance(item, list | tuple):
            items[i] = make_array(item) if item else np.zeros(0, np.int32)
        elif hasattr(item, "__jax_array__"):
            items[i] = item.__jax_array__()
    return items


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if _is_bool(item):
        return 0 if isinstance(item, bool | np.bool_) else item.ndim
    return 1


def parse(shape: tuple[int, ...], index: Any, wrap: bool = True) -> Parsed:
    """Align an index expression with an operand of this shape; with `wrap` negative integers count from the end.

    Raises IndexError or TypeError for what is no index, for too many indices, for masks of other shapes.
    """
    items = _items(index)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    taken = sum(map(_dims_taken, items))
    if taken > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {taken} were indexed{where(current_source(2))}"
        )
    ellipsis = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    gap = ellipsis if taken == len(shape) else -1  # where an ellipsis stands for no dimension
    items[ellipsis : ellipsis + 1] = [slice(None)] * (len(shape) - taken)
    before_gap = 0
    entries: list[Entry] = []
    added: list[int] = []
    sizes = list(shape)
    dim = 0  # in the shape with the added dimensions
    for i, item in enumerate(items):
        if i == gap:
            before_gap = len(entries)
        if item is None:
            entries.append(New())
            continue
        if isinstance(item, slice):
            entries.append(_slice(item, dim, sizes[dim], i))
            dim += 1
            continue
        if _is_bool(item):
            mask = _known_mask(item)
            if mask.ndim == 0:
                sizes.insert(dim, 1)
                added.append(dim)
                entries.append(Positions(dim, np.arange(1, dtype=np.int32)[: int(mask)]))
                dim += 1
                continue
            expected = tuple(sizes[dim : dim + mask.ndim])
            if mask.shape != expected:
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {i}: got {mask.shape}, expected {expected}"
                )
            for values in np.nonzero(mask):
                entries.append(Positions(dim, values.astype(np.int32)))
                dim += 1
            continue
        entries.append(_integer(item, dim, sizes[dim], i, wrap))
        dim += 1
    advanced = [isinstance(e, Positions | Static) for e in entries]
    return Parsed(tuple(sizes), tuple(added), entries, any(advanced[:before_gap]) and any(advanced[before_gap:]))


def _known_mask(item: Any) -> np.ndarray[Any, Any]:
    if isinstance(item, Tracer):
        value = item.concrete()
        if value is None:
            raise NonConcreteBooleanIndexError(
                f"Array boolean indices must be concrete; got {item.aval.short()}{where(current_source(2))}.\n"
                f"  {item.owner.describe(item)}.\n"
                f"  The shape of x[mask] depends on the values of the mask, which are not known while {item.owner.name} is "
                "traced:\n  use quire.numpy.where(mask, x, fill), or quire.numpy.nonzero(mask, size=n)."
            )
        item = value
    return host_value(item) if isinstance(item, Array) else np.asarray(item)


def _slice(item: slice, dim: int, n: int, position: int) -> Slice:
    try:
        start, stop, step = slice(
            *[None if v is None else operator.index(v) for v in (item.start, item.stop, item.step)]
        ).indices(n)
    except TracerIntegerConversionError:
        raise IndexError(
            f"Slice entries must be static integers. Got {item} at position {position}{where(current_source(2))}: use "
            "quire.lax.dynamic_slice_in_dim(x, start, size), whose size is static"
        ) from None
    except TypeError:
        raise TypeError(
            f"Slice entries must be integers or None. Got {item} at position {position}{where(current_source(2))}"
        ) from None
    count = len(range(start, stop, step))
    return Slice(dim, start if count else 0, step if count else 1, count)


def _integer(item: Any, dim: int, n: int, i: int, wrap: bool) -> Entry:
    if isinstance(item, Array | np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        item = int(item)
    if isinstance(item, int | np.integer):
        position = int(item)
        if n == 0:
            raise IndexError(f"index {position} is out of bounds for axis {i} with size 0")
        return Static(dim, position + n if wrap and position < 0 else position)
    if isinstance(item, Array | Tracer | np.ndarray):
        if item.dtype.kind not in "iu":
            raise TypeError(
                f"Indexer must have integer or boolean type, got indexer with type {item.dtype} at position {i}"
                f"{where(current_source(2))}"
            )
        if n == 0 and item.ndim == 0:
            raise IndexError(f"index is out of bounds for axis {i} with size 0")
        return Positions(dim, host_value(item) if isinstance(item, Array) else item)
    if isinstance(item, str):
        raise TypeError(f"string indexing is not supported; got {item!r}{where(current_source(2))}")
    if isinstance(item, float | complex | np.inexact):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {type(item).__name__} at position {i}"
            f"{where(current_source(2))}"
        )
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid indices. "
        f"Got {item!r}{where(current_source(2))}"
    )


# -- layout of the result -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Layout:
    """Where the dimensions of an indexed result come from, in order.

    Attributes:
        shape: the result's shape, new dimensions included.
        new: the positions of the new dimensions.
        order: what makes up the other dimensions: a Slice, or "batch" for the block of dimensions of the index arrays.
        batch: the shape to which the index arrays broadcast.
    """

    shape: tuple[int, ...]
    new: tuple[int, ...]
    order: list[Slice | str]
    batch: tuple[int, ...]


def layout(parsed: Parsed) -> Layout:
    """NumPy's rule: the dimensions of index arrays replace theirs where these are neighbours, else they come first.

    Raises ValueError where the shapes of index arrays do not broadcast together.
    """
    entries = parsed.entries
    arrays = [e for e in entries if isinstance(e, Positions)]
    advanced = [i for i, e in enumerate(entries) if isinstance(e, Positions | Static)]
    shapes = [np.shape(e.values) if isinstance(e.values, np.ndarray) else e.values.aval.shape for e in arrays]
    try:
        batch = broadcast_shapes("ndarray indexing", *shapes)
    except TypeError:
        raise ValueError(
            f"index arrays of shapes {', '.join(map(str, shapes))} do not broadcast together{where(current_source(2))}"
        ) from None
    neighbours = not advanced or not parsed.parted and advanced[-1] - advanced[0] == len(advanced) - 1
    first = advanced[0] if neighbours and advanced else 0
    order: list[Slice | str] = []
    shape: list[int] = []
    new: list[int] = []
    if arrays and (not neighbours):
        order.append("batch")
        shape.extend(batch)
    for i, e in enumerate(entries):
        if arrays and neighbours and i == first:
            order.append("batch")
            shape.extend(batch)
        if isinstance(e, New):
            new.append(len(shape))
            shape.append(1)
        elif isinstance(e, Slice):
            order.append(e)
            shape.append(e.count)
    return Layout(tuple(shape), tuple(new), order, batch)

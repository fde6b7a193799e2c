"""Gathers of any dimension numbers as nodes that read at places which others say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from quire.ir import dtypes

from ..elements.operations import HALF, Element
from .nodes import Gather, Iota, Node


class GatherNumbers(Protocol):
    """Which dimensions of the operand, the index vectors and the result belong together (StableHLO's dimension numbers)."""

    @property
    def offset_dims(self) -> tuple[int, ...]:
        """The result's dimensions that windows have."""
        ...

    @property
    def collapsed_slice_dims(self) -> tuple[int, ...]:
        """The operand's dimensions that windows, one element wide there, do not keep."""
        ...

    @property
    def start_index_map(self) -> tuple[int, ...]:
        """The operand's dimension of each component of an index vector."""
        ...

    @property
    def operand_batching_dims(self) -> tuple[int, ...]:
        """The operand's dimensions that go along with the indices'."""
        ...

    @property
    def start_indices_batching_dims(self) -> tuple[int, ...]:
        """The indices' dimensions that go along with the operand's."""
        ...


def gathered(
    x: Node, components: Sequence[Node], d: GatherNumbers, sizes: Sequence[int], shape: tuple[int, ...], fill: Any
) -> Gather:
    """The windows of these sizes of a node: one for each index vector, whose components are nodes of one shape.

    `shape` is the result's. A window that is not wholly inside is moved inside, or is all ``fill`` where that is not None.
    """
    batch = tuple(k for k in range(len(shape)) if k not in d.offset_dims)
    starts: list[Node | None] = [None] * len(x.shape)
    for to, node in zip(d.start_index_map, components):
        starts[to] = node
    places = tuple(shape[k] for k in batch)
    for to, k in zip(d.operand_batching_dims, d.start_indices_batching_dims):
        starts[to] = Iota(places, dtypes.int32, k)
    gone = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    offsets = iter(d.offset_dims)
    window = tuple(None if k in gone else next(offsets) for k in range(len(x.shape)))
    limits = tuple(n - s for n, s in zip(x.shape, sizes))
    other: Element | None = None
    if fill is not None:
        other = np.asarray(fill).astype(np.float64).item() if x.dtype in HALF else np.asarray(fill).item()
    return Gather(shape, x.dtype, x, tuple(starts), batch, window, limits, other)

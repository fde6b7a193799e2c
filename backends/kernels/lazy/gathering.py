"""Gathers of any dimension numbers as nodes that read at places which others say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives.indexing import GatherDimensionNumbers

from ..elements.operations import HALF, Element
from .nodes import ZERO, Gather, Iota, Ix, Node, view


def components(vectors: Node) -> list[Node]:
    """The components of index vectors, which lie along the last dimension of a node: its parts there."""
    rank = len(vectors.shape) - 1
    return [
        view(vectors, vectors.shape[:-1], [*range(rank), None], None, [*[ZERO] * rank, Ix((), k)])
        for k in range(vectors.shape[-1])
    ]


def gathered(
    x: Node, vectors: Sequence[Node], d: GatherDimensionNumbers, sizes: Sequence[int], shape: tuple[int, ...], fill: Any
) -> Gather:
    """The windows of these sizes of a node: one for each index vector, whose components, nodes of one shape, are `vectors`.

    `shape` is the result's. A window that is not wholly inside is moved inside, or is all ``fill`` where that is not None.
    """
    batch = tuple(k for k in range(len(shape)) if k not in d.offset_dims)
    starts: list[Node | None] = [None] * len(x.shape)
    for to, node in zip(d.start_index_map, vectors):
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

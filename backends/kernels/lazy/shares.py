"""Storing a node by several workgroups, each of which takes a share of a dimension."""

from __future__ import annotations

from .nests import Nests
from .nodes import Array, Ix, Node, view


def stored(nests: Nests, node: Node, to: Array, pieces: int, groups: int, owner: int) -> None:
    """Compute a node into memory: in so many pieces of its first long dimension, or by one workgroup, the `owner`."""
    b, shape = nests.b, node.shape
    first = next((d for d, n in enumerate(shape) if n > 1), None)
    pieces = 1 if first is None else min(pieces, groups, shape[first])
    if first is None or pieces <= 1:
        if groups == 1:
            nests.store([(node, to)])
            return
        with b.if_(b.cmp("eq", b.workgroup_id(), owner)):
            nests.store([(node, to)])
        return
    n = shape[first]
    rows = -(-n // pieces)
    with b.distributed(-(-n // rows), groups) as piece:
        begin = Ix.of(b.moved_inside(piece * rows, rows, n))
        sizes = tuple(rows if d == first else m for d, m in enumerate(shape))
        offset = [begin if d == first else Ix() for d in range(len(sizes))]
        nests.store([(view(node, sizes, range(len(sizes)), None, offset), to.part(offset, sizes))])

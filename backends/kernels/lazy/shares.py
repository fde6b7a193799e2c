"""Storing nodes by several workgroups, each of which takes a share of a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .nests import Nests
from .nodes import Array, Elementwise, Ix, Node, view


def stored(nests: Nests, node: Node, to: Array, pieces: int, groups: int, owner: int) -> None:
    """Compute a node into memory: in so many pieces of its first long dimension, or by one workgroup, the `owner`."""
    _shared(nests, [node], to, pieces, groups, owner, lambda nodes, to: nests.store([(nodes[0], to)]))


def interleaved(nests: Nests, nodes: Sequence[Node], to: Array, pieces: int, groups: int, owner: int) -> None:
    """Compute nodes of one shape side by side, as `Nests.interleave` does, shared as by `stored`."""
    _shared(nests, nodes, to, pieces, groups, owner, nests.interleave)


def _shared(
    nests: Nests, nodes: Sequence[Node], to: Array, pieces: int, groups: int, owner: int,
    store: Callable[[Sequence[Node], Array], None],
) -> None:  # fmt: skip
    """Call `store` with the parts of a workgroup's share; `to` may have more dimensions than the nodes, after theirs."""
    b, shape = nests.b, nodes[0].shape
    first = next((d for d, n in enumerate(shape) if n > 1), None)
    pieces = 1 if first is None else min(pieces, groups, shape[first])
    if first is None or pieces <= 1:
        if groups == 1:
            store(nodes, to)
            return
        with b.if_(b.cmp("eq", b.workgroup_id(), owner)):
            store(nodes, to)
        return
    n = shape[first]
    rows = -(-n // pieces)
    with b.distributed(-(-n // rows), groups) as piece:
        begin = Ix.of(b.moved_inside(piece * rows, rows, n))

        def part(of: tuple[int, ...]) -> tuple[list[Ix], tuple[int, ...]]:
            return [begin if d == first else Ix() for d in range(len(of))], tuple(
                rows if d == first else m for d, m in enumerate(of)
            )

        known: dict[Node, Node] = {}
        store([_part(node, *part(shape), known) for node in nodes], to.part(*part(to.shape)))


def _part(node: Node, starts: Sequence[Ix], shape: tuple[int, ...], known: dict[Node, Node]) -> Node:
    """A part of a node, taken of what it is computed of: memory stays memory, whose dimensions may lie together."""
    found = known.get(node)
    if found is None:
        if isinstance(node, Elementwise):
            operands = tuple(_part(x, starts, shape, known) if x.shape else x for x in node.operands)
            found = Elementwise(shape, node.dtype, node.primitive, node.params, operands)
        else:
            found = view(node, shape, range(len(shape)), None, starts)
        known[node] = found
    return found

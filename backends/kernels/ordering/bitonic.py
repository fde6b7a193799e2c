"""A bitonic network over (keys, place), workgroups of threads (GPU).

The place is the last key, so that the order is strict and the sort stable. Rows of up to :data:`BLOCK`
elements are sorted by one workgroup in its shared memory. Longer rows are padded to a power of two in global
memory: blocks are sorted in shared memory, and each doubling of the sorted length takes one dispatch a step
while partners are further apart than a block, then one dispatch that ends it in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ..core.builder import GRID, KernelBuilder
from ..core.kernel import ChainOf, Kernel, KernelChain, Spec
from ..core.values import Buffer, Operand, Value
from .rows_by_threads import Finish, Sorting, finished

#: Elements a workgroup sorts in its shared memory, if they fit.
BLOCK = 1024


@dataclass(frozen=True)
class Network:
    """How rows are padded and cut into blocks."""

    sorting: Sorting

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.sorting.rows.count

    @property
    def length(self) -> int:
        """Elements of a padded row: a power of two."""
        return 1 << max(1, (self.sorting.rows.n - 1).bit_length())

    @property
    def block(self) -> int:
        """Elements of a block."""
        size = sum(int(e[1:]) // 8 for e in self.sorting.elements)
        return min(self.length, BLOCK, 1 << (self.sorting.target.shared_bytes // size).bit_length() - 1)

    @property
    def specs(self) -> list[Spec]:
        """The arrays of padded rows in global memory."""
        return self.sorting.specs(self.length)


def run(s: Sorting, results: Sequence[Spec], count: int, finish: Finish, what: str) -> Kernel | KernelChain:
    """The kernels that sort, and hand the first `count` elements of each row to `finish`."""
    net = Network(s)
    results = list(results)
    if net.block == net.length:
        return _one_block(net, results, count, finish, what)
    chain, n = ChainOf(s.operands), len(s.operands)
    arrays, step, merge = chain.then(_sort_blocks(net), range(n)), _step(net), _merge(net)
    size = 2 * net.block
    while size <= net.length:
        distance = size // 2
        while distance >= net.block:
            arrays = chain.then(step, arrays, [size, distance])
            distance //= 2
        arrays = chain.then(merge, arrays, [size])
        size *= 2
    out = chain.then(finished(s, net.length, results, count, finish, what), [*range(n), arrays[-1]])
    return chain.finished(out, f"{what}: bitonic network, {len(chain.steps)} dispatches")


def _less(b: KernelBuilder, x: Sequence[Value], y: Sequence[Value]) -> Value:
    """Lexicographic order."""
    less = b.cmp("slt", x[-1], y[-1])
    for p, q in reversed(list(zip(x[:-1], y[:-1]))):
        less = b.cmp("slt", p, q) | (b.cmp("eq", p, q) & less)
    return less


def _exchange(
    b: KernelBuilder,
    arrays: Sequence[Buffer],
    base: Operand,
    pair: Value,
    size: Value,
    distance: Value,
    at: Value,
) -> None:
    """Bring one pair into the order of its half: ``at`` is where the memory's first element is in its row."""
    inside = pair & (distance - 1)
    low = (pair - inside) * 2 + inside
    ascending = b.cmp("eq", (at + low) & size, 0)
    low = low + base
    high = low + distance
    x = [b.load(a, low) for a in arrays]
    y = [b.load(a, high) for a in arrays]
    wrong = b.cmp("eq", _less(b, y, x), ascending)
    with b.if_(wrong):
        for a, p, q in zip(arrays, x, y):
            b.store(q, a, low)
            b.store(p, a, high)


def _merge_down(
    b: KernelBuilder, shared: Sequence[Buffer], size: Value, first: Value, steps: Operand, at: Value
) -> None:
    """The steps of one size with distances ``first``, ``first / 2``, ... in shared memory."""
    with b.for_(0, steps) as loop:
        distance = first >> loop.index
        with b.threads(shared[0].shape[0] // 2) as pair:
            _exchange(b, shared, 0, pair, size, distance, at)


def _load_block(b: KernelBuilder, net: Network, shared: Sequence[Buffer], row: Value, at: Value) -> None:
    """Keys and places of one block of a row into shared memory, padded at the end of the row."""
    start = net.sorting.rows.start(b, row)
    with b.threads(net.block) as i:
        place = at + i
        with ExitStack() as guard:
            padded = net.length > net.sorting.rows.n
            real = b.cmp("ult", place, net.sorting.rows.n)
            branch = guard.enter_context(b.if_(real, net.sorting.elements[:-1])) if padded else None
            keys = net.sorting.load(b, start, place)
            if branch is not None:
                branch.yield_(*keys)
                branch.else_()
                branch.yield_(*(b.const((1 << (int(e[1:]) - 1)) - 1, e) for e in net.sorting.elements[:-1]))
        values = branch.results if branch is not None else keys
        for memory, value in zip(shared, [*values, b.cast(place, "i32")]):
            b.store(value, memory, i)


def _sort_block(b: KernelBuilder, net: Network, shared: Sequence[Buffer], at: Value) -> None:
    """All sizes up to the block, in shared memory; odd blocks of a row end up descending."""
    levels = net.block.bit_length() - 1
    with b.for_(0, levels) as level:
        half = b.shl(b.index(1), level.index)
        _merge_down(b, shared, half * 2, half, level.index + 1, at)


def _one_block(net: Network, results: list[Spec], count: int, finish: Finish, what: str) -> Kernel:
    b = KernelBuilder("bitonic", net.sorting.operands, results, net.sorting.target)
    shared = [b.shared((net.block,), e) for e in net.sorting.elements]
    with b.pieces(net.rows) as row:
        _load_block(b, net, shared, row, b.index(0))
        _sort_block(b, net, shared, b.index(0))
        with b.threads(count) as i:
            finish(b, row, i, b.cast(b.load(shared[-1], i), "index"))
    return b.build((min(net.rows, GRID),), f"{what}: bitonic network in one workgroup a row")


def _copy(
    b: KernelBuilder,
    net: Network,
    sources: Sequence[Buffer],
    targets: Sequence[Buffer],
    a: Operand,
    z: Operand,
):
    """A block from ``sources`` at ``a`` to ``targets`` at ``z``."""
    with b.threads(net.block) as i:
        for source, target in zip(sources, targets):
            b.store(b.load(source, i + a), target, i + z)


def _sort_blocks(net: Network) -> Kernel:
    b = KernelBuilder("bitonic_blocks", net.sorting.operands, net.specs, net.sorting.target)
    shared = [b.shared((net.block,), e) for e in net.sorting.elements]
    blocks = net.length // net.block
    with b.pieces(net.rows * blocks) as piece:
        row, number = b.divmod(piece, blocks)
        at = number * net.block
        _load_block(b, net, shared, row, at)
        _sort_block(b, net, shared, at)
        _copy(b, net, shared, [b.result(i) for i in range(len(shared))], 0, piece * net.block)
    return b.build((min(net.rows * blocks, GRID),), "bitonic network: blocks")


def _in_place(net: Network, name: str, scalars: int) -> KernelBuilder:
    tied = {i: i for i in range(len(net.specs))}
    return KernelBuilder(name, net.specs, net.specs, net.sorting.target, tied=tied, scalars=scalars)


def _step(net: Network) -> Kernel:
    b = _in_place(net, "bitonic_step", 2)
    share = net.block // 2  # pairs of one workgroup
    pieces = net.rows * net.length // 2 // share
    size, distance = b.scalar(0), b.scalar(1)
    arrays = [b.operand(i) for i in range(len(net.specs))]
    with b.pieces(pieces) as piece:
        row, number = b.divmod(piece, net.length // 2 // share)
        with b.threads(share) as i:
            _exchange(b, arrays, row * net.length, number * share + i, size, distance, b.index(0))
    return b.build((min(pieces, GRID),), "bitonic network: one step through global memory")


def _merge(net: Network) -> Kernel:
    b = _in_place(net, "bitonic_merge", 1)
    shared = [b.shared((net.block,), e) for e in net.sorting.elements]
    blocks = net.length // net.block
    arrays = [b.operand(i) for i in range(len(net.specs))]
    with b.pieces(net.rows * blocks) as piece:
        at = b.urem(piece, blocks) * net.block
        _copy(b, net, arrays, shared, piece * net.block, 0)
        half = net.block // 2
        _merge_down(b, shared, b.scalar(0), b.index(half), net.block.bit_length() - 1, at)
        _copy(b, net, shared, arrays, 0, piece * net.block)
    return b.build((min(net.rows * blocks, GRID),), "bitonic network: last steps of one size")

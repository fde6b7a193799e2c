"""Which form a matrix product takes: measured rules, by shape, layout and the processor's registers and caches."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.builder import LONGEST_CHAIN, STACK_BYTES
from ..core.target import KernelTarget
from .dot_products import DotProductsPlan
from .gemm import Plan
from .matrices import Product
from .vecmat import VecmatPlan

#: What a block of rows of the left operand may take of the second-level cache, and the right one's of the third.
LHS_BYTES = 160 << 10
RHS_BYTES = 512 << 10
#: Up to here the left operand is read again for every strip; larger ones are packed in blocks, if a part of k takes so much.
REREAD_BYTES = 1 << 20
#: Length of a part of k in blocks, and what a strip of the right operand may take: with AVX-512 parts of 256 are 5 percent
#: quicker than those of 128 whose strips take half of the first-level cache (2048 x 2048, Emerald Rapids).
BLOCK_K = 256
STRIP_BYTES = 32 << 10
#: A workgroup's least work, in multiplications and additions.
GROUP_FLOPS = 1 << 19
UNROLL = 4
#: Cycles an element for packing: copied as it lies, turned, or one by one.
COPY, TURN, SCATTERED = 0.25, 0.8, 3.0
#: Fewer parts than there are workgroups must be so much better: these even out what a busy machine does.
FEWER = 1.25
#: Rows of the left operand that are stored so far apart are packed.
FAR_BYTES = 1 << 10
#: A matrix that is read once may be read in any order up to this size.
CACHED_BYTES = 256 << 10
SUMS_BYTES = 16 << 10
#: Up to so many columns dot products are formed where both operands lie along k.
FEW_COLUMNS = 8


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def tiles(target: KernelTarget) -> Iterator[tuple[int, int]]:
    """(rows, vectors) whose sums, one row of right vectors and one left number fit the registers."""
    for mr in range(1, target.registers):
        for nv in range(1, 9):
            registers = mr * nv + nv + 1
            # More sums than three quarters of the registers leave too few to load ahead; wide tiles only for few rows.
            if 4 * mr * nv <= 3 * target.registers and registers < target.registers and (mr < 4 or nv <= 3):
                yield mr, nv


def tile(m: int, n: int, lanes: int, target: KernelTarget) -> tuple[int, int]:
    """The tile that needs the fewest cycles for an ``m x n`` result: blocks moved back inside compute twice."""

    def cycles(candidate: tuple[int, int]) -> tuple[float, int]:
        mr, nv = candidate
        blocks = _ceil(m, mr) * _ceil(n, nv * lanes)
        # two multiply-adds a cycle, of four cycles' latency; two loads a cycle
        each = max(mr * nv / 2, 4.0, (mr + nv) / 2) + 0.7 + 0.05 * nv
        return blocks * each, -mr * nv

    fitting = [(mr, nv) for mr, nv in tiles(target) if mr <= m and (nv - 1) * lanes < n]
    return min(fitting, key=cycles)


def dot_products_plan(p: Product, total_bytes: int, target: KernelTarget) -> DotProductsPlan | None:
    """The plan by dot products, for few columns and operands that both lie along k; None where another is better."""
    lanes = target.lanes(8 * total_bytes)
    if p.outer or not (p.lhs.column == 1 and p.rhs.row == 1 and p.k >= 4 * lanes and p.n <= FEW_COLUMNS):
        return None
    nr = _ceil(p.n, _ceil(p.n, 3))
    mr = min(p.m, {1: 8, 2: 4, 3: 3}[nr])
    blocks = _ceil(p.m, mr)
    wanted = target.groups(p.flops, GROUP_FLOPS)
    parts = min(blocks, _ceil(wanted, p.batches))
    return DotProductsPlan(mr, nr, parts, min(wanted, p.batches * parts), LONGEST_CHAIN // 4)


def vecmat_plan(p: Product, total_bytes: int, target: KernelTarget) -> VecmatPlan | None:
    """The plan by added rows, for one row times a matrix that does not fit the cache; None where another is better."""
    lanes = target.lanes(8 * total_bytes)
    if p.outer or p.m != 1 or p.rhs.column != 1 or p.n < 4 * lanes or p.n * p.k * total_bytes <= CACHED_BYTES:
        return None
    # Few, wide parts: rows of a part should be long runs of memory.
    wanted = target.groups(p.flops, GROUP_FLOPS, target.workers)
    parts = max(1, min(_ceil(wanted, p.batches), p.n // (4 * lanes)))
    # Parts overlap where the columns do not divide: elements are added in place, so an overlap would be counted twice.
    share = _ceil(_ceil(p.n, parts), lanes)
    while parts > 1 and share * lanes * parts != p.n:
        parts -= 1
        share = _ceil(_ceil(p.n, parts), lanes)
    if share * lanes * parts != p.n or share * lanes * total_bytes > SUMS_BYTES:
        return None
    return VecmatPlan(8, share, parts, min(wanted, p.batches * parts), LONGEST_CHAIN)


def plan(problem: Product, converts: tuple[bool, bool], total_bytes: int, target: KernelTarget) -> Plan:
    """The plan of a product whose sums have elements of so many bytes; ``converts``: the operands are narrower."""
    p, lanes = problem, target.lanes(8 * total_bytes)
    mr, nv = tile(p.m, p.n, lanes, target)
    nr = nv * lanes
    strips, blocks = _ceil(p.n, nr), _ceil(p.m, mr)
    repeats = blocks > 3 and strips > 3
    # Left numbers a page or so apart: each is a line of the cache of its own.
    turned = p.lhs.row == 1 and p.k > 1 and p.lhs.column * total_bytes >= FAR_BYTES
    in_place = (p.rhs.column == 1 or p.n == 1) and not p.outer
    lhs_bytes = p.m * p.sums * total_bytes
    small = p.n * p.sums * total_bytes <= 32 << 10
    if in_place and not any(converts) and (blocks <= 3 or small) and not (turned and repeats):
        kc = _part(p.k, LONGEST_CHAIN)
        return _split(p, Plan(mr, nv, _unroll(p.k), kc, blocks, "direct", False, 1, 1, 1), strips, blocks, target)
    longest = min(STACK_BYTES // (nr * total_bytes), LONGEST_CHAIN)
    kc = _part(p.k, longest)
    large = lhs_bytes > REREAD_BYTES and p.m * kc * total_bytes >= REREAD_BYTES
    blocked = bool(p.outer) or large or ((turned or converts[0]) and repeats)
    if not blocked:
        pack_lhs = converts[0] and strips > 1 and blocks > 1
        chosen = Plan(mr, nv, _unroll(p.k), kc, blocks, "strip", pack_lhs, 1, 1, 1)
        return _split(p, chosen, strips, blocks, target)
    kc = _part(p.k, min(BLOCK_K, STRIP_BYTES // (nr * total_bytes)))
    ko = 1 if kc < p.k else _part(p.sums // p.k, max(1, BLOCK_K // kc), 1)
    mc = max(1, LHS_BYTES // (kc * ko * mr * total_bytes))
    nc = max(1, RHS_BYTES // (kc * ko * nr * total_bytes))
    chosen = Plan(mr, nv, UNROLL, kc, min(mc, blocks), "block", True, _ceil(strips, nc), 1, 1, ko)
    return _split(p, chosen, strips, blocks, target)


def _packing(across: int, along: int) -> float:
    """Cycles an element for packing, by the distances of neighbours across k and along it."""
    return COPY if across == 1 else TURN if along == 1 else SCATTERED


def _unroll(k: int) -> int:
    return UNROLL if k >= 4 * UNROLL else 1


def _part(k: int, longest: int, multiple: int = UNROLL) -> int:
    """The length of equal parts of k that are no longer than ``longest``."""
    if k <= longest:
        return k
    return min(longest // multiple * multiple, _ceil(_ceil(k, _ceil(k, longest)), multiple) * multiple)


def _split(p: Product, chosen: Plan, strips: int, blocks: int, target: KernelTarget) -> Plan:
    """The plan with its products split for the workgroups: by columns first, which shares what is packed."""
    wanted = target.groups(p.flops, GROUP_FLOPS)
    parts, workers = _ceil(wanted, p.batches), min(wanted, target.workers)

    def cost(split: tuple[int, int]) -> float:
        """Cycles for packing again what several parts pack, and for workers that wait for the last one."""
        columns, rows = split
        lhs = p.m * columns * (_packing(p.lhs.row, p.lhs.column) if chosen.pack_lhs else 0.1)
        rhs = p.n * rows * (_packing(p.rhs.column, p.rhs.row) if chosen.rhs != "direct" else 0.1)
        longest = _ceil(p.batches * columns * rows, workers) * _ceil(strips, columns) * _ceil(blocks, rows)
        idle = longest * workers / (p.batches * strips * blocks)
        fewer = FEWER if columns * rows < parts // columns * columns and rows < blocks else 1.0
        return (lhs + rhs + idle * p.m * p.n / 16) * fewer

    def splits() -> Iterator[tuple[int, int]]:
        least = min(chosen.columns, strips)
        for columns in range(least, max(least, min(parts, strips)) + 1):
            for rows in {_ceil(parts, columns): 0, parts // columns: 0, _ceil(parts, 2 * columns): 0, 1: 0}:
                rows = max(1, min(blocks, rows))
                # Parts of one size: the last of them is not left with nothing.
                yield _ceil(strips, _ceil(strips, columns)), _ceil(blocks, _ceil(blocks, rows))

    columns, rows = min(splits(), key=cost)
    pieces = p.batches * columns * rows
    groups = pieces if pieces <= 2 * wanted else wanted
    share = _ceil(blocks, rows)
    mc = min(chosen.mc, share)
    mc = _ceil(share, _ceil(share, mc))
    return Plan(
        chosen.mr, chosen.nv, chosen.unroll, chosen.kc, mc, chosen.rhs, chosen.pack_lhs, columns, rows, groups,
        chosen.ko,
    )  # fmt: skip

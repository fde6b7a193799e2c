"""Random bits: Threefry 2x32 of the numbers 0, 1, 2, ... under each of some keys, a few vectors at a time.

The 20 rounds depend on each other, so several independent vectors go through them together and hide each other's
latency. Rotations are two shifts and an or; the counters are made from the loop's index and are never in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.builder import KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..elements.threefry import threefry

#: Vectors that go through the rounds together: more would not stay in 16 registers.
TOGETHER = 4

#: Elements of one piece: what a workgroup takes at a time.
PIECE = 1 << 14


def check(size: int, itemsize: int, target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless the kernel can make ``size`` elements for each key."""
    if target.kind != "cpu":
        raise NoKernel("the random bits kernel is for CPUs")
    if itemsize != 4:
        raise NoKernel("the random bits kernel makes 32 bits an element")
    if size < TOGETHER * target.lanes(32):
        raise NoKernel("fewer elements for a key than a few vectors hold")


def random_bits(batch: Sequence[int], shape: Sequence[int], dtype: Any, target: KernelTarget) -> Kernel:
    """The kernel of ``shape`` bits for each of the keys whose words are two operands of shape ``[prod(batch)]``.

    Raises :class:`NoKernel`.
    """
    size, keys = math.prod(shape), math.prod(batch)
    check(size, dtype_of(dtype).nbytes, target)
    result = Spec.of((*batch, *shape), dtype)
    b = KernelBuilder("random_bits", [Spec.of((keys,), dtype)] * 2, [result], target)
    words = [b.operand(i) for i in range(2)]
    out = b.result(0, (keys * size,), "i32")
    lanes = target.lanes(32)
    step = TOGETHER * lanes
    pieces = -(-size // PIECE)
    groups = max(1, min(keys * pieces, target.workgroups))
    places = [b.const_vector(range(v * lanes, (v + 1) * lanes), "i32") for v in range(TOGETHER)]
    with b.distributed(keys * pieces, groups) as piece:
        key, part = (piece, b.index(0)) if pieces == 1 else (b.udiv(piece, pieces), b.urem(piece, pieces))
        k = [b.broadcast(b.load(w, key), lanes) for w in words]
        base = key * size
        start = part * PIECE
        # The last step is moved back inside: a few elements are made twice, none needs a mask.
        last = b.index(size - step)
        with b.for_(start, b.smin(start + PIECE, b.index(size)), step) as loop:
            at = b.smin(loop.index, last)
            counter = b.broadcast(b.cast(at, "i32"), lanes)
            counters = [b.add(counter + p, k[1]) for p in places]
            hashes = threefry(b, (k[0], k[1]), [k[0]] * TOGETHER, counters)
            for v, (high, low) in enumerate(hashes):
                b.vstore(b.xor(high, low), out, base + at + v * lanes)
    return b.build((groups,), f"random bits: {TOGETHER} vectors of {lanes} counters together")

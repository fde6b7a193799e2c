"""Threefry 2x32 on values of the builder; several pairs of vectors go through its rounds together."""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir.primitives.random import PARITY, ROTATIONS

from ..core.builder import KernelBuilder
from ..core.values import Value


def threefry(
    b: KernelBuilder, key: tuple[Value, Value], xs: Sequence[Value], ys: Sequence[Value]
) -> list[tuple[Value, Value]]:
    """The hashes of pairs of i32 words ``(xs[i], ys[i])`` to which the words of the key were added already.

    The 20 rounds depend on each other: with several pairs the latency of one hides that of the others.
    """
    keys = (*key, b.xor(b.xor(*key), PARITY))
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            xs = [b.add(x, y) for x, y in zip(xs, ys)]
            ys = [b.xor(x, b.or_(b.shl(y, r), b.shrl(y, 32 - r))) for x, y in zip(xs, ys)]
        later = b.add(keys[(i + 2) % 3], i + 1)
        xs = [b.add(x, keys[(i + 1) % 3]) for x in xs]
        ys = [b.add(y, later) for y in ys]
    return list(zip(xs, ys))

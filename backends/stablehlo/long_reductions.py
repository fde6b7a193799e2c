"""Reductions of many elements to few on GPUs, in two steps.

IREE gives each result of a reduction one workgroup, or one thread where the length has no convenient divisor: the sum of
16 million elements then keeps one workgroup busy. Here the reduced dimension is cut into parts, each of which has a
workgroup of its own, and the parts' results are reduced again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import hlo
from .lowering import Ctx

Value = Any
Body = Callable[..., Sequence[Value]]

#: From so many elements a result on a reduction is done in parts.
LONG = 2048
#: Elements of a part: a workgroup of 256 threads takes four turns.
PART = 1024
#: With so many results there are workgroups enough.
MANY = 4096


def reduce(ctx: Ctx, operands: Sequence[Value], inits: Sequence[Value], axes: Sequence[int], body: Body) -> list[Value]:
    """`hlo.reduce` of an associative, commutative function whose neutral elements are `inits`."""
    shape = hlo.shape_of(operands[0])
    axes = sorted(axes)
    length = math.prod(shape[d] for d in axes)
    kept = [n for d, n in enumerate(shape) if d not in axes]
    neighbours = list(axes) == list(range(axes[0], axes[-1] + 1)) if axes else False
    if not (ctx.target.on_gpu and neighbours and length >= LONG and math.prod(kept) < MANY):
        return hlo.reduce(operands, inits, axes, body)
    before, after = shape[: axes[0]], shape[axes[-1] + 1 :]
    parts = length // PART
    whole, outer = parts * PART, len(before)
    flat = [hlo.reshape(x, [*before, length, *after]) for x in operands]

    def between(start: int, stop: int) -> list[Value]:
        if (start, stop) == (0, length):
            return flat
        low = [*(0 for _ in before), start, *(0 for _ in after)]
        return [hlo.slice(x, low, [*before, stop, *after]) for x in flat]

    rows = [hlo.reshape(x, [*before, parts, PART, *after]) for x in between(0, whole)]
    partial = hlo.reduce(rows, inits, [outer + 1], body)
    results = reduce(ctx, partial, inits, [outer], body) if parts > 1 else [hlo.reshape(x, kept) for x in partial]
    if whole == length:
        return results
    rest = hlo.reduce(between(whole, length), inits, [outer], body)
    return _combined(results, rest, inits, body)


def _combined(x: Sequence[Value], y: Sequence[Value], inits: Sequence[Value], body: Body) -> list[Value]:
    """`body` of arrays: it is written for scalars, so a reduction of two elements applies it."""
    pairs = [hlo.concatenate([hlo.reshape(v, [1, *hlo.shape_of(v)]) for v in both], 0) for both in zip(x, y)]
    return hlo.reduce(pairs, inits, [0], body)

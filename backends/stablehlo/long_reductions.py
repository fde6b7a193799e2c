"""Reductions of many elements in two steps: the reduced dimension is cut into parts, whose results are reduced again.

On GPUs IREE gives each result of a reduction one workgroup, or one thread where the length has no convenient divisor: the sum
of 16 million elements to few then keeps one workgroup busy. Here each part has a workgroup of its own.

On CPUs IREE adds the terms of a sum one after the other, and the rounding errors grow with their number. Sums of floats that
quire's own kernels leave to it are sums of shorter ones, as theirs are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import iree.compiler.ir as mlir

from ..kernels.core.builder import LONGEST_CHAIN
from . import hlo
from .lowering import Ctx

Value = Any
Body = Callable[..., Sequence[Value]]

#: From so many elements a result on a reduction is done in parts.
LONG = 2048
#: Elements of a part on a GPU: a workgroup of 256 threads takes four turns.
PART = 1024
#: With so many results there are workgroups enough.
MANY = 4096
#: Up to so many elements are stored before they are reduced where they are computed from positions, in SPIR-V.
SMALL = 4096


def reduce(
    ctx: Ctx, operands: Sequence[Value], inits: Sequence[Value], axes: Sequence[int], body: Body, rounds: bool = False
) -> list[Value]:
    """`hlo.reduce` of an associative, commutative function whose neutral elements are `inits`.

    With `rounds` it is a sum of floats: each step may change its result by a rounding.
    """
    shape = hlo.shape_of(operands[0])
    if ctx.target.spirv and math.prod(shape) <= SMALL:
        operands = [hlo.optimization_barrier(x)[0] if _of_positions(x) else x for x in operands]
    axes = sorted(axes)
    length = math.prod(shape[d] for d in axes)
    kept = [n for d, n in enumerate(shape) if d not in axes]
    neighbours = list(axes) == list(range(axes[0], axes[-1] + 1)) if axes else False
    if ctx.target.on_gpu:
        part = PART if neighbours and length >= LONG and math.prod(kept) < MANY else 0
    else:
        part = _even_part(length) if rounds and length > LONGEST_CHAIN else 0
    if not part:
        return hlo.reduce(operands, inits, axes, body)
    if not neighbours:  # each run of neighbours for itself, the last ones first
        first = next(d for d in axes if all(e in axes for e in range(d, axes[-1] + 1)))
        run, others = [d for d in axes if d >= first], [d for d in axes if d < first]
        return reduce(ctx, reduce(ctx, operands, inits, run, body, rounds), inits, others, body, rounds)
    before, after = shape[: axes[0]], shape[axes[-1] + 1 :]
    parts = length // part
    whole, outer = parts * part, len(before)
    flat = [hlo.reshape(x, [*before, length, *after]) for x in operands]

    def between(start: int, stop: int) -> list[Value]:
        if (start, stop) == (0, length):
            return flat
        low = [*(0 for _ in before), start, *(0 for _ in after)]
        return [hlo.slice(x, low, [*before, stop, *after]) for x in flat]

    rows = [hlo.reshape(x, [*before, parts, part, *after]) for x in between(0, whole)]
    partial = hlo.reduce(rows, inits, [outer + 1], body)
    results = (
        reduce(ctx, partial, inits, [outer], body, rounds) if parts > 1 else [hlo.reshape(x, kept) for x in partial]
    )
    if whole == length:
        return results
    rest = hlo.reduce(between(whole, length), inits, [outer], body)
    return _combined(results, rest, inits, body)


def _even_part(length: int) -> int:
    """A length of parts that leaves no rest, if there is one; else the longest."""
    return next((n for n in range(LONGEST_CHAIN, LONGEST_CHAIN // 8, -1) if length % n == 0), LONGEST_CHAIN)


def _combined(x: Sequence[Value], y: Sequence[Value], inits: Sequence[Value], body: Body) -> list[Value]:
    """`body` of arrays: it is written for scalars, so a reduction of two elements applies it."""
    pairs = [hlo.concatenate([hlo.reshape(v, [1, *hlo.shape_of(v)]) for v in both], 0) for both in zip(x, y)]
    return hlo.reduce(pairs, inits, [0], body)


_DEPTH = 6


def _of_positions(x: Value, depth: int = _DEPTH) -> bool:
    """Whether x is computed, element by element, from an iota: of these IREE keeps one in workgroup memory, as `index`.

    SPIR-V has no such type ("failed to legalize operation 'memref.alloc'"); it was seen of 32 and of 32 x 32 elements.
    """
    if isinstance(x.owner, mlir.Block) or not depth:
        return False
    shape = hlo.shape_of(x)
    tensors = [v for v in x.owner.operands if isinstance(v.type, mlir.RankedTensorType) and hlo.shape_of(v) == shape]
    return any(hlo.made_by(v, "stablehlo.iota") or _of_positions(v, depth - 1) for v in tensors)

"""StableHLO lowering of random bits, as ordinary integer operations."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import random as rn

from ..kernels.random import bits
from . import hlo
from .elementwise import spread
from .host_calls import emit_host_call
from .kernel_calls import call, chosen
from .lowering import Ctx, lowering

U32, U64 = dtypes.uint32, dtypes.uint64


def _like(x: Any, value: int, dtype: Any = U32) -> Any:
    return hlo.full_like(x, value, dtype)


def _rotate(x: Any, bits: int) -> Any:
    return hlo.or_(hlo.shift_left(x, _like(x, bits)), hlo.shift_right_logical(x, _like(x, 32 - bits)))


def threefry(k1: Any, k2: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """20 rounds of Threefry 2x32 on four values of one shape."""
    keys = (k1, k2, hlo.xor(hlo.xor(k1, k2), _like(k1, rn.PARITY)))
    x1, x2 = hlo.add(x1, k1), hlo.add(x2, k2)
    for i in range(5):
        for r in rn.ROTATIONS[i % 2]:
            x1 = hlo.add(x1, x2)
            x2 = hlo.xor(x1, _rotate(x2, r))
        x1 = hlo.add(x1, keys[(i + 1) % 3])
        x2 = hlo.add(hlo.add(x2, keys[(i + 2) % 3]), _like(x2, i + 1))
    return x1, x2


@lowering(rn.threefry2x32_p)
def threefry2x32(ctx: Ctx, *operands: Any) -> list[Any]:
    return list(threefry(*spread(ctx, *operands)))


@lowering(rn.random_bits_p)
def random_bits(ctx: Ctx, k1: Any, k2: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    size, batch = math.prod(shape), ctx.avals_in[0].shape
    full = (*batch, *shape)
    if not math.prod(full):
        return hlo.full(0, full, dtype)
    kernel = chosen(ctx, lambda target: bits.random_bits(batch, shape, dtype, target))
    if kernel is not None:
        return call(ctx, kernel, [hlo.reshape(k, [math.prod(batch)]) for k in (k1, k2)])[0]
    low = hlo.reshape(hlo.iota((size,), 0, U32), shape)
    inner = tuple(range(len(batch), len(full)))
    k1, k2 = (hlo.broadcast(k, full, tuple(range(len(batch)))) for k in (k1, k2))
    low = hlo.broadcast(low, full, inner)
    high, low = threefry(k1, k2, _like(low, 0), low)
    if dtype.itemsize == 8:
        wide, more = hlo.convert(high, U64), hlo.convert(low, U64)
        return hlo.or_(hlo.shift_left(wide, _like(wide, 32, U64)), more)
    return hlo.convert(hlo.xor(high, low), dtype)


@lowering(rn.use_key_p)
def use_key(ctx: Ctx, key: Any, *, by: str) -> Any:
    return key


def _multiply_high_low(x: Any, factor: int) -> tuple[Any, Any]:
    product = hlo.multiply(hlo.convert(x, U64), _like(x, factor, U64))
    return hlo.convert(hlo.shift_right_logical(product, _like(x, 32, U64)), U32), hlo.convert(product, U32)


def philox(counters: Sequence[Any], k0: Any, k1: Any) -> list[Any]:
    """10 rounds of Philox 4x32 on values of one shape."""
    c0, c1, c2, c3 = counters
    for _ in range(10):
        hi0, lo0 = _multiply_high_low(c0, 0xD2511F53)
        hi1, lo1 = _multiply_high_low(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = hlo.xor(hlo.xor(hi1, c1), k0), lo1, hlo.xor(hlo.xor(hi0, c3), k1), lo0
        k0, k1 = hlo.add(k0, _like(k0, 0x9E3779B9)), hlo.add(k1, _like(k1, 0xBB67AE85))
    return [c0, c1, c2, c3]


def _increment(words: Sequence[Any], by: Any) -> list[Any]:
    """A little-endian number of uint32 words plus a uint32, with carry."""
    out: list[Any] = []
    for w in words:
        total = hlo.add(w, by)
        by = hlo.convert(hlo.compare(total, by, "LT", "UNSIGNED"), U32)
        out.append(total)
    return out


def _interleave(words: Sequence[Any], shape: Sequence[int], dim: int) -> Any:
    """Values of one flat shape, each reshaped to `shape`, alternating along dimension `dim`."""
    wide = [*shape[: dim + 1], 1, *shape[dim + 1 :]]
    joined = hlo.concatenate([hlo.reshape(w, wide) for w in words], dim + 1)
    return hlo.reshape(joined, [*shape[:dim], shape[dim] * len(words), *shape[dim + 1 :]])


def _cut(x: Any, shape: Sequence[int]) -> Any:
    return hlo.slice(x, [0] * len(shape), shape) if hlo.shape_of(x) != tuple(shape) else x


def _words(state: Sequence[Any], shape: tuple[int, ...], algorithm: rn.RandomAlgorithm, wide: bool) -> tuple[Any, int]:
    """Random words, and the number of blocks; `state` is the key's four uint32 scalars. `wide`: pairs of words last."""
    full = (*(shape or (1,)), 2) if wide else shape or (1,)
    if algorithm is rn.RandomAlgorithm.RNG_THREE_FRY:
        dim = len(full) - 1 if wide else rn.split_dimension(full)
        half = (*full[:dim], -(-full[dim] // 2), *full[dim + 1 :])
        blocks, count = math.prod(half), 2
    else:
        blocks, count = -(-math.prod(full) // 4), 4
        dim, half = 0, (blocks,)
    flat = (blocks,)
    s = [hlo.broadcast(w, flat, ()) for w in state]
    index = hlo.iota(flat, 0, U32)
    if count == 2:
        low, high = _increment(s[2:], index)
        out = threefry(s[0], s[1], low, high)
        return _cut(_interleave(out, half, dim), full), blocks
    bits = _interleave(philox(_increment([s[2], s[3], s[0], s[1]], index), s[0], s[1]), half, 0)
    return hlo.reshape(_cut(bits, [math.prod(full)]), full), blocks


@lowering(rn.rng_bit_generator_p)
def rng_bit_generator(
    ctx: Ctx, key: Any, *, shape: tuple[int, ...], dtype: Any, algorithm: rn.RandomAlgorithm
) -> list[Any]:
    if not math.prod(shape):
        return [key, hlo.full(0, shape, dtype)]
    key_dtype = ctx.avals_in[0].dtype
    words = key if key_dtype == U32 else hlo.reshape(_narrow(key), [4])
    state = [hlo.reshape(hlo.slice(words, [i], [i + 1]), []) for i in range(4)]
    bits, blocks = _words(state, shape, algorithm, dtype.itemsize == 8)
    if dtype.itemsize == 8:
        bits = _join_pairs(bits)
    counter = _increment(state[2:], hlo.constant(blocks & 0xFFFFFFFF, U32))
    new = hlo.concatenate([hlo.reshape(w, [1]) for w in (*state[:2], *counter)], 0)
    if key_dtype == U64:
        halves = [hlo.convert(hlo.slice(new, [i], [4], [2]), U64) for i in range(2)]
        new = hlo.or_(halves[0], hlo.shift_left(halves[1], _like(halves[1], 32, U64)))
    return [new, hlo.reshape(hlo.convert(bits, dtype), shape)]


def _join_pairs(words: Any) -> Any:
    """uint32 pairs (low, high) in the last dimension as uint64 (with that dimension of size 1)."""
    *shape, _ = hlo.shape_of(words)
    start = [0] * len(shape)
    low, high = (hlo.convert(hlo.slice(words, [*start, i], [*shape, i + 1]), U64) for i in range(2))
    return hlo.or_(low, hlo.shift_left(high, _like(high, 32, U64)))


def _narrow(key: Any) -> Any:
    """u64[2] as u32[2, 2], low words first."""
    low = hlo.convert(key, U32)
    high = hlo.convert(hlo.shift_right_logical(key, _like(key, 32, U64)), U32)
    return hlo.concatenate([hlo.reshape(low, [2, 1]), hlo.reshape(high, [2, 1])], 1)


def entropy() -> np.ndarray[Any, Any]:
    """Four random uint32 from the operating system."""
    return np.frombuffer(os.urandom(16), np.uint32)


@lowering(rn.rng_uniform_p)
def rng_uniform(ctx: Ctx, a: Any, b: Any, *, shape: tuple[int, ...]) -> Any:
    if not ctx.target.host_functions:
        raise ctx.unsupported("random numbers without a key", "use quire.random.uniform")
    dtype = ctx.avals_in[0].dtype
    if not math.prod(shape):
        return hlo.full(0, shape, dtype)
    (key,) = emit_host_call(ctx, entropy, [], [ShapedArray((4,), U32)], share=True)
    state = [hlo.reshape(hlo.slice(key, [i], [i + 1]), []) for i in range(4)]
    low, high = hlo.broadcast(a, shape, ()), hlo.broadcast(b, shape, ())
    wide = dtype.itemsize == 8
    bits, _ = _words(state, shape, rn.RandomAlgorithm.RNG_PHILOX, wide)
    if wide:
        bits = _join_pairs(bits)
    bits = hlo.reshape(bits, shape)
    if dtypes.is_integer(dtype):
        unsigned = dtypes.UNSIGNED[(1, 2, 4, 8).index(dtype.itemsize)]
        span = hlo.subtract(*(hlo.bitcast(v, unsigned) for v in (high, low)))
        offset = hlo.remainder(hlo.convert(bits, unsigned), hlo.maximum(span, _like(span, 1, unsigned)))
        return hlo.bitcast(hlo.add(hlo.bitcast(low, unsigned), offset), dtype)
    wide_dtype = dtypes.float64 if wide else dtypes.float32
    mantissa = 52 if wide else 23
    one = np.ones((), wide_dtype).view(U64 if wide else U32)
    shifted = hlo.shift_right_logical(bits, _like(bits, (64 if wide else 32) - mantissa, one.dtype))
    unit = hlo.bitcast(hlo.or_(shifted, _like(bits, int(one), one.dtype)), wide_dtype)
    unit = hlo.convert(hlo.subtract(unit, _like(unit, 1, wide_dtype)), dtype)
    return hlo.add(low, hlo.multiply(unit, hlo.subtract(high, low)))

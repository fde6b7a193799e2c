"""Reference rules of random bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir.primitives import random as rn

from .rules import reference

Array = np.ndarray[Any, Any]


def _threefry(k1: Array, k2: Array, x1: Array, x2: Array) -> tuple[Array, Array]:
    keys = (k1, k2, k1 ^ k2 ^ np.uint32(rn.PARITY))
    x1, x2 = x1 + k1, x2 + k2
    for i in range(5):
        for r in rn.ROTATIONS[i % 2]:
            x1 = x1 + x2
            x2 = (x2 << np.uint32(r)) | (x2 >> np.uint32(32 - r))
            x2 = x1 ^ x2
        x1 = x1 + keys[(i + 1) % 3]
        x2 = x2 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x1, x2


@reference(rn.threefry2x32_p)
def threefry2x32(k1: Array, k2: Array, x1: Array, x2: Array) -> tuple[Array, Array]:
    k1, k2, x1, x2 = np.broadcast_arrays(k1, k2, x1, x2)
    return _threefry(k1, k2, x1, x2)


@reference(rn.random_bits_p)
def random_bits(k1: Array, k2: Array, *, shape: tuple[int, ...], dtype: Any) -> Array:
    low = np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)
    k1, k2 = (k.reshape((*k.shape, *[1] * len(shape))) for k in (np.asarray(k1), np.asarray(k2)))
    x1, x2 = _threefry(k1, k2, np.zeros_like(low), low)
    return _join(x2, x1) if dtype.itemsize == 8 else (x1 ^ x2).astype(dtype)


@reference(rn.use_key_p)
def use_key(key: Array, *, by: str) -> Array:
    return key


def _mulhilo(a: Array, m: int) -> tuple[Array, Array]:
    product = a.astype(np.uint64) * np.uint64(m)
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def _philox(counters: list[Array], k0: Array, k1: Array) -> list[Array]:
    c0, c1, c2, c3 = counters
    for _ in range(10):
        hi0, lo0 = _mulhilo(c0, 0xD2511F53)
        hi1, lo1 = _mulhilo(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = hi1 ^ c1 ^ k0, lo1, hi0 ^ c3 ^ k1, lo0
        k0, k1 = k0 + np.uint32(0x9E3779B9), k1 + np.uint32(0xBB67AE85)
    return [c0, c1, c2, c3]


def _halves(x: Array) -> tuple[Array, Array]:
    """The low and the high half of uint64s."""
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _join(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _counters(state: Array, blocks: int) -> Array:
    """The successive values of the counter, the state's second word."""
    return state[1] + np.arange(blocks, dtype=np.uint64)


def _threefry_bits(state: Array, shape: tuple[int, ...], wide: bool) -> tuple[Array, int]:
    """Random uint64s or uint32s, and the number of blocks."""
    if wide:
        blocks = math.prod(shape)
        return _join(*_threefry(*_halves(state[0]), *_halves(_counters(state, blocks)))).reshape(shape), blocks
    full = shape or (1,)
    d = rn.split_dimension(full)
    half = (*full[:d], -(-full[d] // 2), *full[d + 1 :])
    blocks = math.prod(half)
    words = _threefry(*_halves(state[0]), *_halves(_counters(state, blocks)))
    pairs = np.stack([w.reshape(half) for w in words], axis=d + 1)
    joined = pairs.reshape(*full[:d], 2 * half[d], *full[d + 1 :])
    return np.take(joined, range(full[d]), axis=d).reshape(shape), blocks


def _philox_bits(state: Array, shape: tuple[int, ...], wide: bool) -> tuple[Array, int]:
    """Random uint64s or uint32s, and the number of blocks."""
    n = math.prod(shape) * (2 if wide else 1)
    blocks = -(-n // 4)
    low = _counters(state, blocks)
    high = state[0] + (low < state[1])  # the state is both the key and, with carry, the counter's upper half
    bits = np.stack(_philox([*_halves(low), *_halves(high)], *_halves(state[0])), axis=1).reshape(-1)[:n]
    return (_join(bits[0::2], bits[1::2]) if wide else bits).reshape(shape), blocks


@reference(rn.rng_bit_generator_p)
def rng_bit_generator(key: Array, *, shape: tuple[int, ...], dtype: Any, algorithm: rn.RandomAlgorithm) -> Any:
    state = key if key.dtype == np.uint64 else np.ascontiguousarray(key).view(np.uint64)
    generate = _threefry_bits if algorithm is rn.RandomAlgorithm.RNG_THREE_FRY else _philox_bits
    bits, blocks = generate(state, shape, np.dtype(dtype).itemsize == 8)
    new = np.array([state[0], state[1] + np.uint64(blocks)], np.uint64)
    return (new if key.dtype == np.uint64 else new.view(np.uint32)), bits.astype(dtype)


@reference(rn.rng_uniform_p)
def rng_uniform(a: Array, b: Array, *, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng()
    if a.dtype.kind in "iu":
        return generator.integers(a, b, shape, a.dtype) if a < b else np.full(shape, a, a.dtype)
    return np.asarray(a + (b - a) * generator.random(shape, np.float32)).astype(a.dtype)

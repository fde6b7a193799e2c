"""Random bits: the threefry hash, the generators of rng_bit_generator, and rng_uniform."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import ShapedArray
from ..dtypes import DType
from ..primitive import primitive
from .common import FLOAT, INTEGER, check_dtype, check_same_dtype, elementwise_shape, match_scalars

Value = Any


class RandomAlgorithm(enum.IntEnum):
    """The generators of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""By how many bits the rounds of Threefry 2x32 rotate: four rounds of the one row, four of the other, and so on."""
PARITY = 0x1BD11BDA
"""What the third key word of Threefry is, beside the exclusive or of the first two."""


@primitive("threefry2x32", multiple_results=True)
def threefry2x32_p(
    key1: ShapedArray, key2: ShapedArray, x1: ShapedArray, x2: ShapedArray
) -> tuple[ShapedArray, ShapedArray]:
    """The Threefry 2x32 hash with 20 rounds of the pairs (x1, x2) under the keys (key1, key2), all uint32.

    Elementwise; scalars go with any shape. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    for name, a in (("key1", key1), ("key2", key2), ("x1", x1), ("x2", x2)):
        check_dtype("threefry2x32", a, (dtypes.uint32,), name)
    out = ShapedArray(elementwise_shape("threefry2x32", key1, key2, x1, x2), dtypes.uint32)
    return out, out


@primitive("random_bits")
def random_bits_p(key1: ShapedArray, key2: ShapedArray, *, shape: tuple[int, ...], dtype: DType) -> ShapedArray:
    """Random bits of an unsigned dtype: for each key of (key1, key2) an array of `shape`, whose element i is the
    Threefry hash of the 64-bit number i, its two words joined (64 bits) or combined by exclusive or and truncated.

    The keys' words are uint32 of one shape; that comes first in the result's.

    Raises:
        TypeError: the keys are not uint32, or `dtype` is not unsigned.
        ValueError: the shapes of the keys' words differ.
    """
    for name, a in (("key1", key1), ("key2", key2)):
        check_dtype("random_bits", a, (dtypes.uint32,), name)
    if key1.shape != key2.shape:
        raise ValueError(f"random_bits: key1 and key2 must have one shape, got {key1.short()} and {key2.short()}")
    if dtype not in dtypes.UNSIGNED:
        raise TypeError(f"random_bits: dtype {dtype} must be an unsigned integer dtype")
    return ShapedArray((*key1.shape, *shape), dtype)


@primitive("use_key")
def use_key_p(key: ShapedArray, *, by: str) -> ShapedArray:
    """The key itself: marks that the function `by` uses it up, for `config.debug_key_reuse`."""
    check_dtype("use_key", key, (dtypes.uint32,))
    return key


@primitive("rng_bit_generator", multiple_results=True)
def rng_bit_generator_p(
    key: ShapedArray, *, shape: tuple[int, ...], dtype: DType, algorithm: RandomAlgorithm
) -> tuple[ShapedArray, ShapedArray]:
    """Uniform random bits of an unsigned dtype, and the key's next state.

    The key is u32[4] or u64[2]. RNG_THREE_FRY is the counter mode of Threefry 2x32, RNG_PHILOX and RNG_DEFAULT that of
    Philox 4x32 with 10 rounds; the values are XLA's on the CPU.

    Raises:
        TypeError: the key has another type, or `dtype` is not unsigned.
    """
    if (key.shape, key.dtype) not in (((4,), dtypes.uint32), ((2,), dtypes.uint64)):
        raise TypeError(f"rng_bit_generator: expected a key u32[4] or u64[2], got {key.short()}")
    if dtype not in dtypes.UNSIGNED:
        raise TypeError(f"rng_bit_generator: dtype {dtype} must be an unsigned integer dtype")
    return ShapedArray(key.shape, key.dtype), ShapedArray(shape, dtype)


@primitive("rng_uniform", apart=True)
def rng_uniform_p(a: ShapedArray, b: ShapedArray, *, shape: tuple[int, ...]) -> ShapedArray:
    """Random numbers uniform in [a, b), from a generator without a key: not reproducible.

    Raises:
        ValueError: a or b is no scalar.
        TypeError: the dtypes differ or are neither float nor integer.
    """
    check_same_dtype("rng_uniform", a, b)
    check_dtype("rng_uniform", a, (*FLOAT, *INTEGER))
    if a.shape or b.shape:
        raise ValueError(f"rng_uniform: a and b must be scalars, got {a.short()} and {b.short()}")
    return ShapedArray(shape, a.dtype)


def split_dimension(shape: tuple[int, ...]) -> int:
    """The dimension along which the two words of a Threefry block alternate: the first even one, else the largest."""
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=lambda i: (shape[i], -i))


def threefry2x32(key1: Value, key2: Value, x1: Value, x2: Value) -> tuple[Value, Value]:
    """The Threefry hash of pairs of uint32; see `threefry2x32_p`."""
    a, b = threefry2x32_p.bind(key1, key2, x1, x2)
    return a, b


def random_bits(key1: Value, key2: Value, shape: Sequence[int], dtype: Any = dtypes.uint32) -> Value:
    """Random bits of each key; see `random_bits_p`."""
    return random_bits_p.bind(key1, key2, shape=tuple(int(n) for n in shape), dtype=dtypes.as_dtype(dtype))


def rng_bit_generator(
    key: Value, shape: Sequence[int], dtype: Any = dtypes.uint32, algorithm: Any = RandomAlgorithm.RNG_DEFAULT
) -> tuple[Value, Value]:
    """The key's next state and random bits; see `rng_bit_generator_p`."""
    if isinstance(algorithm, str):
        algorithm = RandomAlgorithm[algorithm.upper()]
    new_key, bits = rng_bit_generator_p.bind(
        key, shape=tuple(int(n) for n in shape), dtype=dtypes.explicit(dtypes.as_dtype(dtype)),
        algorithm=RandomAlgorithm(int(algorithm)),
    )  # fmt: skip
    return new_key, bits


def rng_uniform(a: Value, b: Value, shape: Sequence[int]) -> Value:
    """Random numbers uniform in [a, b); see `rng_uniform_p`."""
    return rng_uniform_p.bind(*match_scalars(a, b), shape=tuple(int(n) for n in shape))

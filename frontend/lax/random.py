"""Random bits from an explicit key (rng_bit_generator), and rng_uniform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.primitives import random as rn

from ..arrays.explicit import placed_as
from ..arrays.operands import lax_dtype

RandomAlgorithm = rn.RandomAlgorithm


def rng_bit_generator(
    key: Any, shape: Sequence[int], dtype: Any = np.uint32, algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *, out_sharding: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Random bits of a counter-based generator: (new_key, bits).

    Args:
        key: u32[4] or u64[2].
        dtype: an unsigned integer dtype.
        algorithm: RNG_DEFAULT (Philox), RNG_THREE_FRY or RNG_PHILOX; the values are XLA's on the CPU.

    `out_sharding` says how the bits are divided. Raises TypeError for another key or dtype. Prefer `quire.random`.

    Example: ``key, bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (8,))``
    """
    new, bits = rn.rng_bit_generator(key, shape, lax_dtype("rng_bit_generator", dtype), algorithm)
    return new, placed_as(bits, out_sharding, "rng_bit_generator")


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Any:
    """Random numbers uniform in [a, b) without a key: each run gives others. Prefer `quire.random.uniform`."""
    return rn.rng_uniform(a, b, shape)


__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]

"""Inputs with edge values, and JAX as an oracle, for the tests of primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from quire.ir import dtypes

Array = np.ndarray[Any, Any]


def under_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of jax.lax that gets and returns NumPy arrays, with 64-bit dtypes.

    `tests.helpers.check` computes those of a table in one program: JAX spends some 10 ms on any program.
    """

    def run(*args: Any) -> Any:
        return together([(run, args)])[0]

    run.under_jax = f  # type: ignore[attr-defined]
    run.together = together  # type: ignore[attr-defined]
    return run


def together(calls: Sequence[tuple[Any, Sequence[Any]]]) -> list[Any]:
    """The results of several functions made by `under_jax`, each with its arguments."""
    with jax.enable_x64(True):
        out = jax.jit(lambda arguments: [f.under_jax(*a) for (f, _), a in zip(calls, arguments)])(
            [tuple(np.asarray(a) for a in args) for _, args in calls]
        )
    return jax.tree.map(np.asarray, out)


def edge_array(dtype: Any, shape: Sequence[int], seed: int = 0, *, nan: bool = True) -> Array:
    """Values of a dtype with its edge values among them: 0, -0, infinities, NaN, the least and the largest."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    size = int(np.prod(shape))
    if dtypes.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(bool)
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        z = np.empty(shape, dtype)
        z.real, z.imag = edge_array(part, shape, seed, nan=nan), edge_array(part, shape, seed + 1, nan=nan)
        return z
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        pool = np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1], dtype)
        small = rng.integers(max(info.min, -9), 9, size).astype(dtype)
    else:
        specials = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, *([np.nan] if nan else [])]
        pool = np.array(specials, dtype)
        small = rng.normal(size=size).astype(dtype)
    out = np.where(rng.random(size) < 0.4, pool[rng.integers(0, len(pool), size)], small)
    return out.astype(dtype).reshape(shape)


def tame_array(dtype: Any, shape: Sequence[int], seed: int = 0) -> Array:
    """Small finite values, with which sums and products are exact or well conditioned."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtypes.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(bool)
    if dtypes.is_integer(dtype):
        low = 0 if dtypes.is_unsigned(dtype) else -3
        return rng.integers(low, 4, shape).astype(dtype)
    if dtypes.is_complex(dtype):
        return (tame_array(np.float64, shape, seed) + 1j * tame_array(np.float64, shape, seed + 1)).astype(dtype)
    return (rng.integers(1, 17, shape) / 8).astype(dtype)

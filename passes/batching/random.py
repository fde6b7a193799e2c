"""Batching rules of random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import random as rn
from quire.ir.primitives import structural as st

from .rules import Axis, Dim, Value, batching, broadcast_batch, to_front

Dims = list[int]


@batching(rn.threefry2x32_p)
def threefry2x32(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim]) -> tuple[list[Value], Dims]:
    ranks = [aval_of(x).ndim - (d is not None) for x, d in zip(operands, dims)]
    rank = max(ranks)
    shape: tuple[int, ...] = ()
    for x, d, r in zip(operands, dims, ranks):
        if r == rank:
            shape = tuple(n for i, n in enumerate(aval_of(x).shape) if i != d)
    out: list[Value] = []
    for x, d, r in zip(operands, dims, ranks):
        if d is not None or r:
            x = to_front(x, d, axis.size)
            if r < rank:
                x = st.broadcast_in_dim(x, (axis.size, *shape), (0,))
        out.append(x)
    return rn.threefry2x32_p.bind(*out), [0, 0]


@batching(rn.random_bits_p)
def random_bits(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, shape: tuple[int, ...], dtype: Any
) -> tuple[Value, int]:
    keys = [
        broadcast_batch(x, axis.size, 0) if d is None else to_front(x, d, axis.size) for x, d in zip(operands, dims)
    ]
    return rn.random_bits_p.bind(*keys, shape=shape, dtype=dtype), 0


@batching(rn.use_key_p)
def use_key(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, by: str) -> tuple[Value, Dim]:
    return rn.use_key_p.bind(*operands, by=by), dims[0]


@batching(rn.rng_bit_generator_p)
def rng_bit_generator(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, shape: tuple[int, ...], dtype: Any,
    algorithm: rn.RandomAlgorithm,
) -> tuple[list[Value], Dims]:  # fmt: skip
    """One stream from the first key serves the whole batch, as in JAX: not the values of each key alone."""
    (key,), (dim,) = operands, dims
    keys = to_front(key, dim, axis.size)
    if not axis.size:
        return [keys, st.zeros((0, *shape), dtype)], [0, 0]
    n = aval_of(keys).shape[1]
    first = st.reshape(st.slice(keys, (0, 0), (1, n)), (n,))
    new, bits = rn.rng_bit_generator_p.bind(first, shape=(axis.size, *shape), dtype=dtype, algorithm=algorithm)
    rest = st.slice(keys, (1, 0), (axis.size, n))
    return [st.concatenate([st.reshape(new, (1, n)), rest], 0), bits], [0, 0]


@batching(rn.rng_uniform_p)
def rng_uniform(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, shape: tuple[int, ...]
) -> tuple[Value, int]:
    a, b = operands
    dtype = aval_of(a).dtype
    full = (axis.size, *shape)
    low, high = (st.broadcast_in_dim(x, full, () if d is None else (0,)) for x, d in zip((a, b), dims))
    if dtypes.is_integer(dtype):
        raise NotImplementedError("rng_uniform: integer bounds cannot be batched: use quire.random.randint")
    unit = rn.rng_uniform_p.bind(np.zeros((), dtype)[()], np.ones((), dtype)[()], shape=full)
    return ew.add(low, ew.mul(unit, ew.sub(high, low))), 0

"""Derivative rules of random bits: there is nothing to differentiate, except the bounds of rng_uniform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitives import random as rn

from .rules import Value, Zero, define_zero_jvp, jvp, transpose

define_zero_jvp(rn.threefry2x32_p, rn.random_bits_p, rn.use_key_p, rn.rng_bit_generator_p)
transpose.absent(
    "not linear", rn.threefry2x32_p, rn.random_bits_p, rn.use_key_p, rn.rng_bit_generator_p, rn.rng_uniform_p
)


@jvp(rn.rng_uniform_p)
def rng_uniform(primals: Sequence[Value], tangents: Sequence[Any], *, shape: tuple[int, ...]) -> tuple[Value, Any]:
    out = rn.rng_uniform_p.bind(*primals, shape=shape)
    return out, Zero(aval_of(out).tangent())

"""Factors of random bits: the same bits however they are divided, since each is a hash of its element's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import random as rn
from quire.ir.primitives import structural as st

from .rules import Builder, Factors, Params, Shapes, alike, emission, factors

Avals = Sequence[ShapedArray]


@factors(rn.threefry2x32_p, rn.use_key_p)
def _alike(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    return alike(in_avals, out_avals)


@factors(rn.random_bits_p)
def _random_bits(in_avals: Avals, out_avals: Avals, *, shape: Sequence[int], dtype: Any) -> Factors:
    b = Builder()
    keys = b.dims(in_avals[0].shape)
    # Elements of 64 bits are not numbered anew here; those of numbers above 32 bits neither.
    whole = dtype.itemsize == 8 or math.prod(shape) >= 1 << 32

    def local(ins: Shapes, outs: Shapes) -> Params:
        return {"shape": outs[0][len(keys) :]}

    return b.done([keys, keys], [[*keys, *b.dims(shape, whole=whole)]], local)


@emission(rn.random_bits_p)
def _emit_random_bits(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    dtype, shape = eqn.params["dtype"], eqn.params["shape"]
    batch = len(eqn.inputs[0].aval.shape)
    if not any(place.result_specs[0][batch:]):
        return place.bind()
    local = place.result_shapes[0]
    number: Any = st.full(local, dtypes.uint32.type(0))
    for d in range(batch, len(local)):
        step = math.prod(shape[d - batch + 1 :])
        along = st.iota_p.bind(dtype=dtypes.uint32, shape=local, dimension=d)
        if place.result_specs[0][d]:
            start = ew.convert_element_type(place.start(0, d), dtypes.uint32)
            along = ew.add(along, st.broadcast_in_dim(start, local, ()))
        number = ew.add(number, ew.mul(along, dtypes.uint32.type(step)))
    key1, key2 = (st.broadcast_in_dim(k, local, tuple(range(batch))) for k in operands)
    a, b = rn.threefry2x32(key1, key2, st.full(local, dtypes.uint32.type(0)), number)
    return [ew.convert_element_type(ew.bitwise_xor(a, b), dtype)]


factors.absent(
    "the generator's state runs through all elements: every device makes all of them",
    rn.rng_bit_generator_p,
)
factors.absent("not reproducible: every device would make others", rn.rng_uniform_p)

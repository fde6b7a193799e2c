"""Counterparts of JAX's primitives on keys. Keys are their words here: uint32 with a last dimension of 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.errors import UnsupportedError
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..numpy import asarray
from ..random import gamma as gamma_samples
from ..random import keys as rk
from ..random import loggamma as loggamma_samples
from ..transforms.vectorization import vmap
from .counterparts import Context, counterpart, place_of

Value = Any


def _each(f: Callable[..., Value], dims: int) -> Callable[..., Value]:
    """The function of one key, for arrays of keys with so many dimensions."""
    for _ in range(dims):
        f = vmap(f)
    return f


def _check_impl(eqn: Any) -> None:
    impl = eqn.params["impl"]
    if getattr(impl, "tag", "fry") != "fry":
        raise UnsupportedError(f"from_jax: keys of {impl}: quire has Threefry's{place_of(eqn)}")


@counterpart("random_seed", keys=True)
def random_seed(context: Context, eqn: Any, seeds: Value) -> Value:
    _check_impl(eqn)
    return rk._seed_words(seeds)  # pyright: ignore[reportPrivateUsage]


@counterpart("random_wrap", keys=True)
def random_wrap(context: Context, eqn: Any, words: Value) -> Value:
    _check_impl(eqn)
    return words


@counterpart("random_unwrap", "random_clone", keys=True)
def random_unwrap(context: Context, eqn: Any, words: Value) -> Value:
    return words


@counterpart("random_split", keys=True)
def random_split(context: Context, eqn: Any, words: Value) -> Value:
    shape = tuple(eqn.params["shape"])
    return _each(lambda k: rk.split(k, shape), aval_of(words).ndim - 1)(words)


@counterpart("random_fold_in", keys=True)
def random_fold_in(context: Context, eqn: Any, words: Value, data: Value) -> Value:
    shape = tuple(eqn.outvars[0].aval.shape)
    words = st.broadcast_to(words, (*shape, 2))
    data = st.broadcast_to(asarray(data), shape)
    return _each(rk.fold_in, len(shape))(words, data)


@counterpart("random_bits", keys=True)
def random_bits(context: Context, eqn: Any, words: Value) -> Value:
    width, shape = eqn.params["bit_width"], tuple(eqn.params["shape"])
    return _each(lambda k: rk.random_bits(k, width, shape), aval_of(words).ndim - 1)(words)


@counterpart("random_gamma", keys=True)
def random_gamma(context: Context, eqn: Any, words: Value, alpha: Value) -> Value:
    sample = loggamma_samples if eqn.params["log_space"] else gamma_samples
    a = aval_of(alpha)
    dims = aval_of(words).ndim - 1
    return _each(lambda k, x: sample(k, x, aval_of(x).shape, a.dtype), dims)(words, asarray(alpha))


@counterpart("iota_2x32_shape")
def iota_2x32_shape(context: Context, eqn: Any) -> list[Value]:
    """The two words of each element's 64-bit row-major index. Raises UnsupportedError for 2**32 elements or more."""
    shape = tuple(eqn.params["shape"])
    size = int(np.prod(shape, dtype=np.int64))
    if size >= 1 << 32:
        raise UnsupportedError(f"from_jax: random numbers of shape {shape} are 2**32 or more{place_of(eqn)}")
    low = st.reshape(st.iota(dtypes.uint32, size), shape)
    return [ew.mul(low, 0), low]

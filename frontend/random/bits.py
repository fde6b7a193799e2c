"""Random bits, uniform numbers, integers, booleans and signs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.operands import user_dtype
from .keys import UINT, dtype_of, float_dtype, int_dtype, parameters, random_bits, sampler, scalar, shape_of, split_raw

Array = Any


@sampler
def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Uniform random bits, as an array of an unsigned integer dtype (uint32 by default). Follows `jax.random.bits`.

    Raises ValueError for another dtype.

    >>> quire.random.bits(quire.random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    default = dtypes.uint64 if config.options.enable_x64 else dtypes.uint32
    dt = dtype_of("bits", dtype, default, dtypes.UNSIGNED, "an unsigned")
    return random_bits(key, 8 * dt.itemsize, shape_of("bits", shape))


@sampler
def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding: Any = None
) -> Array:
    """Random numbers uniform in [minval, maxval); the bounds broadcast to `shape`. Follows `jax.random.uniform`.

    Args:
        dtype: a float dtype; the default float if None.

    A bound of one element and of more dimensions than `shape` = () gives a result of its shape, as in JAX.

    Raises ValueError for another dtype or bounds that do not broadcast.

    >>> quire.random.uniform(quire.random.key(0), (2,), minval=-1.0)
    Array([0.895334  , 0.95715976], dtype=float32)
    """
    dt = float_dtype("uniform", dtype)
    shape = shape_of("uniform", shape)
    width, mantissa = 8 * dt.itemsize, int(ml_dtypes.finfo(dt).nmant)
    # A mantissa of fewer than 8 bits is filled from 8 random ones.
    random_width = 8 if mantissa < 8 else width
    uint = UINT[width]
    words = ew.convert_element_type(random_bits(key, random_width, shape), uint)
    one = np.ones((), dt).view(uint)[()]
    exponent_1 = ew.bitwise_or(ew.shift_right_logical(words, scalar(random_width - mantissa, uint)), one)
    unit = ew.sub(ew.bitcast_convert_type(exponent_1, dt), np.ones((), dt)[()])
    lone = shape if shape else max((np.shape(b) for b in (minval, maxval) if np.size(b) == 1), key=len, default=())
    unit = st.reshape(unit, lone) if lone != shape else unit
    low, high = (_bound(b, dt, lone, n) for n, b in (("minval", minval), ("maxval", maxval)))
    span = ew.sub(high, low)
    return ew.max(low, ew.add(ew.mul(unit, span), low))


def _bound(value: Any, dt: DType, shape: tuple[int, ...], name: str) -> Array:
    """A bound in a dtype: a scalar, or broadcast to the shape."""
    if isinstance(value, bool | int | float | np.generic):
        return np.asarray(value).astype(dt)[()]
    if aval_of(value).shape:
        return parameters("uniform", shape, dt, **{name: value})[1][0]
    return ew.convert_element_type(value, dt)


@sampler
def randint(
    key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """Random integers uniform in [minval, maxval); minval where that is empty. Follows `jax.random.randint`.

    Args:
        minval, maxval: integers or arrays of them that broadcast to `shape`; clipped to the dtype's range. Numbers of
            Python must be ones that the dtype or the default int holds; maxval may be one more.
        dtype: an integer dtype; the default int if None.

    Raises ValueError for another dtype, TypeError for bounds that are no integers, OverflowError for numbers of Python that are
    too large.

    >>> quire.random.randint(quire.random.key(0), (5,), 0, 10)
    Array([9, 0, 2, 3, 1], dtype=int32)
    """
    dt = int_dtype("randint", dtype)
    _check_bounds(dt, minval, maxval)
    shape = shape_of("randint", shape)
    width = 8 * dt.itemsize
    if width < 32:  # drawn as int32, as in JAX
        info = np.iinfo(dt)
        low, high = (_clip_to(b, int(info.min), int(info.max) + i) for i, b in enumerate((minval, maxval)))
        return ew.convert_element_type(randint(key, shape, low, high, np.int32), dt)
    uint = UINT[width]
    low, high, beyond = _clip(minval, dt)[0], *_clip(maxval, dt)
    pair = [random_bits(k, width, shape) for k in split_raw(key)]
    low, high, beyond = (st.broadcast_to(x, shape) for x in (low, high, beyond))
    span = ew.convert_element_type(ew.sub(high, low), uint)
    one = st.full(shape, 1, uint)
    span = ew.select_n(ew.le(high, low), span, one)
    # Where maxval is one more than the dtype holds; the whole range wraps to 0, and x % 0 is x.
    span = ew.select_n(ew.bitwise_and(beyond, ew.gt(high, low)), span, ew.add(span, one))
    half = ew.rem(st.full(shape, 1 << (width // 2), uint), span)
    multiplier = ew.rem(ew.mul(half, half), span)  # 2**width % span
    offset = ew.add(ew.mul(ew.rem(pair[0], span), multiplier), ew.rem(pair[1], span))
    return ew.add(low, ew.convert_element_type(ew.rem(offset, span), dt))


def _check_bounds(dt: DType, minval: Any, maxval: Any) -> None:
    """Raise OverflowError for a bound of Python that neither the dtype nor the default int holds."""
    infos = [np.iinfo(d) for d in (dt, dtypes.canonicalize(dtypes.int64))]
    low, high = min(int(i.min) for i in infos), max(int(i.max) for i in infos)
    for name, bound, more in (("minval", minval, 0), ("maxval", maxval, 1)):
        if isinstance(bound, int) and not low <= bound <= high + more:
            raise OverflowError(
                f"quire.random.randint: {name} {bound} must be from {low} to {high + more} for dtype {dt}: clip it, or draw in a "
                "wider dtype"
            )


def _clip_to(value: Any, low: int, high: int) -> Array:
    """An integer bound as int32 within [low, high]."""
    value, _ = _clip(value, dtypes.int32)
    return ew.clamp(np.int32(low), value, np.int32(high))


def _clip(value: Any, dt: DType) -> tuple[Array, Array]:
    """An integer bound clipped to a dtype's range, and whether it was above it."""
    info = np.iinfo(dt)
    if isinstance(value, int | np.integer):
        v = int(value)
        return np.asarray(min(max(v, int(info.min)), int(info.max)), dt)[()], np.bool_(v > info.max)
    source = aval_of(value).dtype
    if not dtypes.is_integer(source):
        raise TypeError(f"quire.random.randint: minval and maxval must be integers, got {aval_of(value).short()}")
    limits = np.iinfo(source)
    low, high = max(int(info.min), int(limits.min)), min(int(info.max), int(limits.max))
    clipped = ew.clamp(scalar(low, source), value, scalar(high, source))
    return ew.convert_element_type(clipped, dt), ew.gt(value, st.full(aval_of(value).shape, high, source))


@sampler
def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """Random booleans, True with probability p. Follows `jax.random.bernoulli`.

    Args:
        p: a float or an array of floats.
        shape: that of the result, to which p broadcasts; that of p if None.
        mode: "low", or "high", which resolves small probabilities better, at twice the cost.

    Raises TypeError for a p that is no float, ValueError for another mode or a p that does not broadcast.

    >>> quire.random.bernoulli(quire.random.key(0), 0.75, (4,))
    Array([False, False,  True,  True], dtype=bool)
    """
    if mode not in ("low", "high"):
        raise ValueError(f"quire.random.bernoulli: unknown mode {mode!r}, expected 'low' or 'high'")
    if isinstance(p, float):
        p = np.asarray(p, dtypes.canonicalize(dtypes.float64))[()]
    aval = aval_of(p)
    dt = aval.dtype
    if dt not in dtypes.FLOATS:
        raise TypeError(f"quire.random.bernoulli: p must be a float, got {aval.short()}")
    shape, (p,) = parameters("bernoulli", shape, dt, p=p)
    if mode == "low":
        return ew.lt(uniform(key, shape, dt), p)
    first, second = pair_of_uniforms(key, shape, dt)
    second = ew.mul(second, np.asarray(2.0 ** -int(ml_dtypes.finfo(dt).nmant), dt)[()])
    return ew.lt(second, ew.sub(p, first))


def pair_of_uniforms(key: Array, shape: tuple[int, ...], dt: DType) -> list[Array]:
    """Two uniform arrays from one key."""
    u = uniform(key, (2, *shape), dt)
    rest = [0] * len(shape)
    return [st.reshape(st.slice(u, (i, *rest), (i + 1, *shape)), shape) for i in range(2)]


@sampler
def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random signs, -1 or 1 with equal probability, in any dtype that has them. Follows `jax.random.rademacher`.

    >>> quire.random.rademacher(quire.random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int32)
    """
    dt = user_dtype("rademacher", int if dtype is None else dtype)
    coin = ew.convert_element_type(bernoulli(key, 0.5, shape_of("rademacher", shape)), dtypes.int32)
    return ew.convert_element_type(ew.sub(ew.mul(coin, 2), 1), dt)

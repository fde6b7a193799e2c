"""Random numbers from explicit keys: bit for bit those of JAX's threefry2x32.

A key is a uint32 array of shape (2,), made from a seed by `PRNGKey` or `key`. A key is used once: `split` makes new
ones. With `config.threefry_partitionable` (the default) element i of an array is a hash of i alone, so that a sharded
array needs no communication; without it the older scheme of JAX is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import random as rn
from quire.ir.primitives import structural as st

Array = Any
_UINT = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
_U32 = np.uint32


# -- keys -----------------------------------------------------------------------------------------------------------------


def PRNGKey(seed: Any, *, impl: str | None = None) -> Array:
    """A key from an integer seed: uint32 of shape (2,), or (..., 2) for an array of seeds.

    Raises TypeError for a seed that is no integer.

    Example: ``key = quire.random.PRNGKey(0)``
    """
    _check_impl(impl)
    if isinstance(seed, int) and not isinstance(seed, bool):
        seed = np.asarray(seed & 0xFFFFFFFFFFFFFFFF, np.uint64).view(np.int64)
        if not config.options.enable_x64:
            seed = seed.astype(np.int32)
    aval = aval_of(seed)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"PRNGKey: the seed must be an integer, got {aval.short()}")
    return _seed(seed)


def key(seed: Any, *, impl: str | None = None) -> Array:
    """A key from an integer seed; see `PRNGKey`."""
    return PRNGKey(seed, impl=impl)


def _check_impl(impl: str | None) -> None:
    if impl not in (None, "threefry2x32", "fry"):
        raise ValueError(f"random: unknown generator {impl!r}, expected 'threefry2x32'")


def _seed(seed: Array) -> Array:
    aval = aval_of(seed)
    if aval.dtype.itemsize == 8:
        high = ew.convert_element_type(ew.shift_right_logical(seed, _scalar(32, aval.dtype)), _U32)
        low = ew.convert_element_type(ew.bitwise_and(seed, _scalar(0xFFFFFFFF, aval.dtype)), _U32)
    else:
        low = ew.convert_element_type(seed, _U32)
        high = st.full(aval.shape, 0, _U32)
    return _stack(high, low)


def _scalar(value: int, dtype: Any) -> Any:
    return np.asarray(value, dtype)[()]


def _stack(a: Array, b: Array) -> Array:
    """Two arrays of one shape as the halves of a new last dimension."""
    n = aval_of(a).ndim
    return st.concatenate([st.expand_dims(a, (n,)), st.expand_dims(b, (n,))], n)


def _halves(key: Array) -> tuple[Array, Array]:
    """The two words of a key, as scalars."""
    aval = aval_of(key)
    if aval.shape != (2,) or aval.dtype != dtypes.uint32:
        raise TypeError(
            f"random: expected a key, uint32 of shape (2,), got {aval.short()}: use quire.vmap for many keys"
        )
    return tuple(st.reshape(st.slice(key, (i,), (i + 1,)), ()) for i in range(2))  # type: ignore[return-value]


def split(key: Array, num: int | Sequence[int] = 2) -> Array:
    """New keys from one: uint32 of shape (num, 2), or (\\*num, 2).

    Example: ``key, subkey = quire.random.split(key)``
    """
    shape = (num,) if isinstance(num, int | np.integer) else tuple(num)
    shape = tuple(int(n) for n in shape)
    if config.options.threefry_partitionable:
        return _stack(*_hash_of_indices(key, shape))
    count = st.iota(_U32, 2 * math.prod(shape))
    return st.reshape(_hash_pairs(key, count), (*shape, 2))


def fold_in(key: Array, data: Any) -> Array:
    """A new key from a key and an integer (taken modulo 2**32)."""
    if isinstance(data, int | np.integer):
        data = _U32(int(data) & 0xFFFFFFFF)
    aval = aval_of(data)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"fold_in: data must be an integer scalar, got {aval.short()}")
    return _hash_pairs(key, _seed(ew.convert_element_type(data, _U32)))


def key_data(key: Array) -> Array:
    """The words of a key: for keys of this kind the key itself."""
    return key


# -- bits -----------------------------------------------------------------------------------------------------------------


def _hash_of_indices(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The hash of each element's 64-bit row-major index: the two words, each of `shape`."""
    size = math.prod(shape)
    if size >= 1 << 32:
        raise ValueError(f"random: shape {shape} has {size} elements, at most 2**32 - 1 are supported")
    k1, k2 = _halves(key)
    low = st.reshape(st.iota(_U32, size), shape)
    return rn.threefry2x32(k1, k2, _U32(0), low)


def _hash_pairs(key: Array, count: Array) -> Array:
    """The hash of a flat array, its first half paired with its second (JAX's older scheme)."""
    k1, k2 = _halves(key)
    n = aval_of(count).size
    half = -(-n // 2)
    if n % 2:
        count = st.concatenate([count, np.zeros(1, _U32)], 0)
    x1, x2 = st.slice(count, (0,), (half,)), st.slice(count, (half,), (2 * half,))
    out = st.concatenate(list(rn.threefry2x32(k1, k2, x1, x2)), 0)
    return st.slice(out, (0,), (n,)) if n % 2 else out


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    dtype = _UINT[width]
    if config.options.threefry_partitionable:
        high, low = _hash_of_indices(key, shape)
        if width == 64:
            high, low = ew.convert_element_type(high, dtype), ew.convert_element_type(low, dtype)
            return ew.bitwise_or(ew.shift_left(high, _scalar(32, dtype)), low)
        return ew.convert_element_type(ew.bitwise_xor(high, low), dtype)
    size = math.prod(shape)
    words = -(-width * size // 32)
    if words >= 1 << 32:
        raise ValueError(f"random: shape {shape} is too large without config.threefry_partitionable")
    bits = _hash_pairs(key, st.iota(_U32, words))
    if width == 64:
        high, low = (ew.convert_element_type(st.slice(bits, (i * size,), ((i + 1) * size,)), dtype) for i in range(2))
        bits = ew.bitwise_or(ew.shift_left(high, _scalar(32, dtype)), low)
    elif width < 32:
        parts = 32 // width
        spread = st.broadcast_in_dim(bits, (words, parts), (0,))
        shifts = ew.mul(st.broadcasted_iota(_U32, (words, parts), 1), _U32(width))
        masked = ew.bitwise_and(ew.shift_right_logical(spread, shifts), _U32((1 << width) - 1))
        bits = st.slice(st.reshape(ew.convert_element_type(masked, dtype), (parts * words,)), (0,), (size,))
    return st.reshape(bits, shape)


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)


def _dtype(name: str, dtype: Any, default: DType, kinds: tuple[DType, ...], expected: str) -> DType:
    out = dtypes.canonicalize(default if dtype is None else dtypes.as_dtype(dtype))
    if out not in kinds:
        raise ValueError(f"{name}: dtype {out} must be {expected} dtype")
    return out


def bits(key: Array, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Uniform random bits, as an array of an unsigned integer dtype (uint32 by default)."""
    dt = _dtype(
        "bits", dtype, dtypes.uint64 if config.options.enable_x64 else dtypes.uint32, dtypes.UNSIGNED, "an unsigned"
    )
    return _random_bits(key, 8 * dt.itemsize, _shape(shape))


# -- distributions ----------------------------------------------------------------------------------------------------------


def uniform(key: Array, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Random numbers uniform in [minval, maxval); the bounds broadcast to `shape`.

    Example: ``quire.random.uniform(key, (3,))``
    """
    dt = _dtype("uniform", dtype, dtypes.float64, dtypes.FLOATS, "a float")
    shape = _shape(shape)
    width, mantissa = 8 * dt.itemsize, int(_finfo(dt).nmant)
    # A mantissa of fewer than 8 bits is filled from 8 random ones.
    random_width = 8 if mantissa < 8 else width
    uint = _UINT[width]
    words = ew.convert_element_type(_random_bits(key, random_width, shape), uint)
    one = np.ones((), dt).view(uint)[()]
    exponent_1 = ew.bitwise_or(ew.shift_right_logical(words, _scalar(random_width - mantissa, uint)), one)
    unit = ew.sub(ew.bitcast_convert_type(exponent_1, dt), np.ones((), dt)[()])
    low, high = (_bound(b, dt, shape) for b in (minval, maxval))
    span = ew.sub(high, low)
    return ew.max(low, ew.add(ew.mul(unit, span), low))


def _finfo(dt: DType) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dt)


def _bound(value: Any, dt: DType, shape: tuple[int, ...]) -> Array:
    """A bound in a dtype: a scalar, or broadcast to the shape."""
    if isinstance(value, bool | int | float | np.generic):
        return np.asarray(value).astype(dt)[()]
    value = ew.convert_element_type(value, dt)
    return st.broadcast_to(value, shape) if aval_of(value).shape else value


def normal(key: Array, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the standard normal distribution; complex ones have variance 1 in all."""
    dt = _dtype("normal", dtype, dtypes.float64, (*dtypes.FLOATS, *dtypes.COMPLEX), "a float or complex")
    shape = _shape(shape)
    if dtypes.is_complex(dt):
        part = dtypes.real_dtype(dt)
        keys = split(key)
        re, im = (normal(st.reshape(st.slice(keys, (i, 0), (i + 1, 2)), (2,)), shape, part) for i in range(2))
        return ew.div(ew.complex(re, im), np.asarray(np.sqrt(2), dt)[()])
    low = np.nextafter(np.array(-1, dt), np.array(0, dt), dtype=dt)[()]
    u = uniform(key, shape, dt, low, np.ones((), dt)[()])
    return ew.mul(np.array(np.sqrt(2), dt)[()], ew.erf_inv(u))


def randint(key: Array, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Random integers uniform in [minval, maxval); minval where that is empty. The bounds broadcast to `shape`."""
    dt = _dtype("randint", dtype, dtypes.int64, (*dtypes.SIGNED, *dtypes.UNSIGNED), "an integer")
    shape = _shape(shape)
    width = 8 * dt.itemsize
    if width < 32:  # drawn as int32, as in JAX
        info = np.iinfo(dt)
        low, high = (_clip_to(b, int(info.min), int(info.max) + i) for i, b in enumerate((minval, maxval)))
        return ew.convert_element_type(randint(key, shape, low, high, np.int32), dt)
    uint = _UINT[width]
    low, high, beyond = _clip(minval, dt)[0], *_clip(maxval, dt)
    keys = split(key)
    pair = [_random_bits(st.reshape(st.slice(keys, (i, 0), (i + 1, 2)), (2,)), width, shape) for i in range(2)]
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
        raise TypeError(f"randint: minval and maxval must be integers, got {aval_of(value).short()}")
    limits = np.iinfo(source)
    low, high = max(int(info.min), int(limits.min)), min(int(info.max), int(limits.max))
    clipped = ew.clamp(_scalar(low, source), value, _scalar(high, source))
    return ew.convert_element_type(clipped, dt), ew.gt(value, st.full(aval_of(value).shape, high, source))


def bernoulli(key: Array, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Array:
    """Random booleans, True with probability p.

    mode "high" resolves small probabilities better, at twice the cost.
    """
    if mode not in ("low", "high"):
        raise ValueError(f"bernoulli: unknown mode {mode!r}, expected 'low' or 'high'")
    if isinstance(p, bool | int | float):
        p = np.asarray(p, dtypes.canonicalize(dtypes.float64))[()]
    aval = aval_of(p)
    dt = aval.dtype
    if dt not in dtypes.FLOATS:
        raise TypeError(f"bernoulli: p must be a float, got {aval.short()}")
    shape = aval.shape if shape is None else _shape(shape)
    p = st.broadcast_to(p, shape)
    if mode == "low":
        return ew.lt(uniform(key, shape, dt), p)
    u = uniform(key, (2, *shape), dt)
    rest = [0] * len(shape)
    first, second = (st.reshape(st.slice(u, (i, *rest), (i + 1, *shape)), shape) for i in range(2))
    second = ew.mul(second, np.asarray(2.0 ** -int(_finfo(dt).nmant), dt)[()])
    return ew.lt(second, ew.sub(p, first))

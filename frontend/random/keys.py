"""Keys: made from seeds, split, folded, and taken apart; and what every sampler does with the key it is given.

A key is typed (an array of dtype ``key<fry>``, see `quire.arrays.key_array`) or raw (uint32 of shape (2,)). Functions that
make keys from keys give the kind that they got.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import random as rn
from quire.ir.primitives import structural as st
from quire.ir.sharding import says_nothing

from .. import numpy as qnp
from ..arrays.explicit import placed_as, told
from ..arrays.key_array import GENERATORS, THREEFRY, KeyDType, PRNGKeyArray, is_keys
from ..arrays.operands import user_dtype, usual_promotion
from ..watching import key_reuse

Array = Any
F = TypeVar("F", bound=Callable[..., Any])
U32 = np.uint32
IMPLEMENTATION = THREEFRY


# -- making keys ----------------------------------------------------------------------------------------------------------


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A raw key from an integer seed: uint32 of shape (2,), or (4,) for the generators "rbg" and "unsafe_rbg".

    Follows `jax.random.PRNGKey`; `key` is the newer form.

    Raises TypeError for a seed that is no scalar integer.

    >>> quire.random.PRNGKey(5)
    Array([0, 5], dtype=uint32)
    """
    return _from_seed("PRNGKey", seed, impl)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> PRNGKeyArray:
    """A typed key from an integer seed: an array of shape () and dtype ``key<fry>``. Follows `jax.random.key`.

    Args:
        seed: an integer; only its low 32 bits count without `enable_x64`.
        impl: the generator: "threefry2x32", "rbg" or "unsafe_rbg"; that of `config.default_prng_impl` for None. Keys
            of the last two make bits by `lax.rng_bit_generator`; under `vmap` bits differ from those without it.
        dtype: the same as the dtype of keys, ``quire.random.key_dtype()``.

    Raises ValueError where both impl and dtype are given.

    >>> k = quire.random.key(5)
    >>> k.dtype, k.shape
    (key<fry>, ())
    """
    if impl is not None and dtype is not None:
        raise ValueError(f"quire.random.key: give impl or dtype, not both, got {impl!r} and {dtype!r}")
    impl = generator("key", dtype if impl is None else impl)
    return PRNGKeyArray(_from_seed("key", seed, impl), impl)


def _from_seed(name: str, seed: Any, impl: Any) -> Array:
    impl = generator(name, impl)
    if is_keys(seed):
        raise TypeError(
            f"quire.random.{name}: the seed must be an integer, got a key: use split or fold_in for new keys"
        )
    if isinstance(seed, int):
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"quire.random.{name}: the seed {seed} is no integer of 64 bits")
        seed = np.asarray(seed, np.int64)
        if not config.options.enable_x64:
            seed = seed.astype(np.int32)
    aval = aval_of(seed)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"quire.random.{name}: the seed must be an integer, got {aval.short()}")
    if aval.shape:
        raise TypeError(f"quire.random.{name}: the seed must be a scalar, got {aval.short()}: use quire.vmap for many")
    return _words_of_seed(seed, impl)


def _words_of_seed(seed: Array, impl: str) -> Array:
    words = _seed_words(seed)
    return words if impl == THREEFRY else st.concatenate([words, words], 0)


def generator(name: str, impl: Any) -> str:
    """The name of a generator that an argument names, by its name, tag or dtype; the default one for None.

    Raises ValueError for any other, TypeError for what names none.
    """
    if impl is None:
        return config.options.default_prng_impl
    found = getattr(impl, "impl", None) or getattr(impl, "name", impl)  # a dtype, or a description of a generator
    for known, (tag, _) in GENERATORS.items():
        if found in (known, tag):
            return known
    error = ValueError if isinstance(found, str) else TypeError
    raise error(f"quire.random.{name}: unknown generator {impl!r}, expected one of {', '.join(map(repr, GENERATORS))}")


def _seed_words(seed: Array) -> Array:
    aval = aval_of(seed)
    if aval.dtype.itemsize == 8:
        high = ew.convert_element_type(ew.shift_right_logical(seed, scalar(32, aval.dtype)), U32)
        low = ew.convert_element_type(ew.bitwise_and(seed, scalar(0xFFFFFFFF, aval.dtype)), U32)
    else:
        low = ew.convert_element_type(seed, U32)
        high = st.full(aval.shape, 0, U32)
    return stack_words(high, low)


def scalar(value: int, dtype: Any) -> Any:
    """An integer as a scalar of a dtype."""
    return np.asarray(value, dtype)[()]


def stack_words(a: Array, b: Array) -> Array:
    """Two arrays of one shape as the halves of a new last dimension."""
    n = aval_of(a).ndim
    return st.concatenate([st.expand_dims(a, (n,)), st.expand_dims(b, (n,))], n)


# -- using keys -----------------------------------------------------------------------------------------------------------


def raw_key(name: str, k: Any) -> Any:
    """The words of one key, typed or raw; a typed key if its generator has four words. TypeError or ValueError for what is none."""
    if is_keys(k):
        if k.shape:
            raise ValueError(
                f"quire.random.{name}: takes a single key, got an array of keys of shape {k.shape}: use quire.vmap for "
                "many keys"
            )
        return k.base if k.impl == THREEFRY else k
    try:
        aval = aval_of(k)
    except TypeError:
        given = type(k).__name__
    else:
        if aval.shape == (2,) and aval.dtype == dtypes.uint32:
            return k
        if aval.shape == (4,) and aval.dtype == dtypes.uint32:
            return PRNGKeyArray(k, _of_four_words())
        given = aval.short()
        if aval.dtype == dtypes.uint32 and aval.shape[-1:] in ((2,), (4,)):
            given += ": use quire.vmap for many keys"
    raise TypeError(
        f"quire.random.{name}: expected a key (quire.random.key(seed), or uint32 of shape (2,)), got {given}"
    )


def _of_four_words() -> str:
    """The generator of a raw key of four words: the default one, if that has four."""
    default = config.options.default_prng_impl
    return "rbg" if default == THREEFRY else default


def used_key(name: str, k: Any) -> Array:
    """`raw_key`, for a function that uses the key up: with `config.debug_key_reuse` a typed key is used once."""
    raw = raw_key(name, k)
    if is_keys(k) and not is_keys(raw) and config.options.debug_key_reuse:
        return key_reuse.used(raw, name)
    return raw


def like(k: Any, raw: Array) -> Any:
    """New keys in the form of the key they were made from."""
    return PRNGKeyArray(raw, k.impl) if is_keys(k) else raw


def sampler(f: F) -> F:
    """A function of a raw key first, as users call it: with either kind of key, and with JAX's `out_sharding`."""
    name = f.__name__
    f = usual_promotion(f)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "out_sharding" in kwargs and not says_nothing(wanted := kwargs.pop("out_sharding")):
            with told():
                return placed_as(wrapper(*args, **kwargs), wanted, f"quire.random.{name}")
        if args:
            return f(used_key(name, args[0]), *args[1:], **kwargs)
        if "key" in kwargs:
            kwargs["key"] = used_key(name, kwargs["key"])
        return f(**kwargs)

    return wrapper  # type: ignore[return-value]


def halves(raw: Array) -> tuple[Array, Array]:
    """The two words of a raw key, as scalars."""
    return tuple(st.reshape(st.slice(raw, (i,), (i + 1,)), ()) for i in range(2))  # type: ignore[return-value]


def split_raw(raw: Array, count: int = 2) -> list[Array]:
    """Several raw keys from one."""
    keys = split(raw, count)
    if is_keys(keys):
        return [keys[i] for i in range(count)]
    return [st.reshape(st.slice(keys, (i, 0), (i + 1, 2)), (2,)) for i in range(count)]


# -- keys from keys -------------------------------------------------------------------------------------------------------


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """New keys from one: an array of `num` keys (uint32[num, 2] for a raw one), or of the shape `num`.

    The key must not be used any more. Follows `jax.random.split`.

    >>> key, subkey = quire.random.split(quire.random.key(0))
    >>> quire.random.split(subkey, (2, 3)).shape
    (2, 3)
    """
    shape = shape_of("split", num)
    raw = used_key("split", key)
    if is_keys(raw):
        words = _split_four(raw, shape)
        return PRNGKeyArray(words, raw.impl) if is_keys(key) else words
    if config.options.threefry_partitionable:
        words = stack_words(*hash_of_indices(raw, shape))
    else:
        words = st.reshape(hash_pairs(raw, st.iota(U32, 2 * math.prod(shape))), (*shape, 2))
    return like(key, words)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer from 0 to 2**32 - 1. Follows `jax.random.fold_in`.

    Different integers give independent keys; the key may be folded with more of them. Arrays of integers are taken
    modulo 2**32, bools are 0 and 1.

    Raises TypeError for data that are no integer scalar, OverflowError for an integer of Python that is negative or above.

    >>> k = quire.random.key(0)
    >>> bool(quire.random.fold_in(k, 1) == quire.random.fold_in(k, 2))
    False
    """
    raw = raw_key("fold_in", key)
    if isinstance(data, int) and not 0 <= data < 1 << 32:
        raise OverflowError(
            f"quire.random.fold_in: data must be from 0 to 2**32 - 1, got {data}: {data & 0xFFFFFFFF} would give the same key"
        )
    if isinstance(data, int | np.integer):
        data = U32(int(data) & 0xFFFFFFFF)
    aval = aval_of(data)
    if aval.shape or not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise TypeError(f"quire.random.fold_in: data must be an integer scalar, got {aval.short()}")
    seed = ew.convert_element_type(data, U32)
    if is_keys(raw):
        words = _fold_four(raw, seed)
        return PRNGKeyArray(words, raw.impl) if is_keys(key) else words
    return like(key, hash_pairs(raw, _seed_words(seed)))


def _pairs(words: Array) -> list[Array]:
    """The two halves of a key of four words, each as the words of a key of two."""
    return [st.slice(words, (i,), (i + 2,)) for i in (0, 2)]


def _split_four(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if key.impl == "rbg":  # each half by Threefry
        parts = [st.reshape(split(half, count), (count, 2)) for half in _pairs(key.base)]
        return st.reshape(st.concatenate(parts, 1), (*shape, 4))
    bits = rn.rng_bit_generator(key.base, (10 * count, 4))[1]  # every tenth of what the key gives
    return st.reshape(st.slice(bits, (0, 0), (10 * count, 4), (10, 1)), (*shape, 4))


def _fold_four(key: PRNGKeyArray, seed: Array) -> Array:
    if key.impl == "rbg":
        return st.concatenate([hash_pairs(half, _seed_words(seed)) for half in _pairs(key.base)], 0)
    bits = rn.rng_bit_generator(_words_of_seed(seed, key.impl), (10, 4))[1]
    return ew.bitwise_xor(key.base, st.reshape(st.slice(bits, (9, 0), (10, 4)), (4,)))


def clone(key: Any) -> Any:
    """The same key again: for using a key twice on purpose under `config.debug_key_reuse`. Follows `jax.random.clone`.

    >>> k = quire.random.key(0)
    >>> bool(quire.random.clone(k) == k)
    True
    """
    if is_keys(key):
        return PRNGKeyArray(ew.copy(key.base), key.impl)
    raw = raw_key("clone", key)
    return raw.base if is_keys(raw) else raw


# -- the two forms --------------------------------------------------------------------------------------------------------


def _keys_or_raw(name: str, keys: Any) -> Any:
    if is_keys(keys):
        return keys
    aval = aval_of(keys)
    if aval.dtype != dtypes.uint32 or aval.shape[-1:] not in ((2,), (4,)):
        raise TypeError(
            f"quire.random.{name}: expected keys, or their words: uint32 with a last dimension of 2, got {aval.short()}"
        )
    return keys


def key_data(keys: Any) -> Array:
    """The words of keys: uint32 of the keys' shape and one more dimension of 2. Follows `jax.random.key_data`.

    >>> quire.random.key_data(quire.random.key(5))
    Array([0, 5], dtype=uint32)
    """
    keys = _keys_or_raw("key_data", keys)
    return keys.base if is_keys(keys) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> PRNGKeyArray:
    """Typed keys from their words, uint32[..., 2]: the inverse of `key_data`. Follows `jax.random.wrap_key_data`.

    Raises:
        ValueError: both `impl` and `dtype` are given.
        TypeError: another dtype or last dimension.

    >>> quire.random.wrap_key_data(quire.random.PRNGKey(0)).dtype
    key<fry>
    """
    if impl is not None and dtype is not None:
        raise ValueError(
            f"quire.random.wrap_key_data: give impl or dtype, not both: got impl={impl!r} and dtype={dtype!r}"
        )
    name = generator("wrap_key_data", dtype if impl is None else impl)
    if is_keys(key_bits_array):
        raise TypeError("quire.random.wrap_key_data: expected the words of keys (uint32), got keys")
    words = qnp.asarray(_keys_or_raw("wrap_key_data", key_bits_array))
    if words.shape[-1] != GENERATORS[name][1]:
        raise TypeError(
            f"quire.random.wrap_key_data: keys of {name} have {GENERATORS[name][1]} words, got {aval_of(words).short()}"
        )
    return PRNGKeyArray(words, name)


def key_impl(keys: Any) -> str:
    """The name of the keys' generator. Follows `jax.random.key_impl`.

    >>> quire.random.key_impl(quire.random.key(0))
    'threefry2x32'
    """
    found = _keys_or_raw("key_impl", keys)
    if is_keys(found):
        return found.impl
    return THREEFRY if aval_of(found).shape[-1] == 2 else _of_four_words()


def key_dtype(impl_spec: Any = None) -> KeyDType:
    """The dtype of typed keys. Follows `jax.random.key_dtype`.

    >>> quire.random.key_dtype() == quire.random.key(0).dtype
    True
    """
    return KeyDType(generator("key_dtype", impl_spec))


# -- the hash -------------------------------------------------------------------------------------------------------------


def hash_of_indices(raw: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The hash of each element's 64-bit row-major index: the two words, each of `shape`.

    Raises ValueError for a shape of 2**32 elements or more.
    """
    size = math.prod(shape)
    if size >= 1 << 32:
        raise ValueError(f"quire.random: shape {shape} has {size} elements, at most 2**32 - 1 are supported")
    k1, k2 = halves(raw)
    return rn.threefry2x32(k1, k2, U32(0), st.reshape(st.iota(U32, size), shape))


def hash_pairs(raw: Array, count: Array) -> Array:
    """The hash of a flat array, its first half paired with its second (JAX's older scheme)."""
    k1, k2 = halves(raw)
    n = aval_of(count).size
    half = -(-n // 2)
    if n % 2:
        count = st.concatenate([count, np.zeros(1, U32)], 0)
    x1, x2 = st.slice(count, (0,), (half,)), st.slice(count, (half,), (2 * half,))
    out = st.concatenate(list(rn.threefry2x32(k1, k2, x1, x2)), 0)
    return st.slice(out, (0,), (n,)) if n % 2 else out


def random_bits(raw: Any, width: int, shape: tuple[int, ...]) -> Array:
    """Random bits of an unsigned dtype of `width` bits.

    Raises ValueError for a shape of 2**32 elements or more; without `config.threefry_partitionable`, for one that
    takes 2**32 words of 32 bits or more.
    """
    dtype = UINT[width]
    size = math.prod(shape)
    if is_keys(raw):
        return rn.rng_bit_generator(raw.base, shape, dtype)[1]
    if config.options.threefry_partitionable:
        if size >= 1 << 32:
            raise ValueError(f"quire.random: shape {shape} has {size} elements, at most 2**32 - 1 are supported")
        return rn.random_bits(*halves(raw), shape, dtype)
    words = -(-width * size // 32)
    if words >= 1 << 32:
        raise ValueError(f"quire.random: shape {shape} is too large without config.threefry_partitionable")
    bits = hash_pairs(raw, st.iota(U32, words))
    if width == 64:
        high, low = (ew.convert_element_type(st.slice(bits, (i * size,), ((i + 1) * size,)), dtype) for i in range(2))
        bits = ew.bitwise_or(ew.shift_left(high, scalar(32, dtype)), low)
    elif width < 32:
        parts = 32 // width
        spread = st.broadcast_in_dim(bits, (words, parts), (0,))
        shifts = ew.mul(st.broadcasted_iota(U32, (words, parts), 1), U32(width))
        masked = ew.bitwise_and(ew.shift_right_logical(spread, shifts), U32((1 << width) - 1))
        bits = st.slice(st.reshape(ew.convert_element_type(masked, dtype), (parts * words,)), (0,), (size,))
    return st.reshape(bits, shape)


UINT = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


# -- arguments of samplers ------------------------------------------------------------------------------------------------


def shape_of(name: str, shape: Any) -> tuple[int, ...]:
    """A shape argument: an int or a sequence of ints, none negative.

    Raises TypeError for anything else, ValueError for a negative length.
    """
    try:
        one = _is_int(shape) or isinstance(shape, np.ndarray) and not shape.ndim
        found = (operator.index(shape),) if one else tuple(operator.index(n) for n in shape)
    except TypeError as error:
        if hasattr(error, "__notes__") or "traced" in str(error):
            raise
        raise TypeError(f"quire.random.{name}: shape must be an int or a sequence of ints, got {shape!r}") from None
    if any(n < 0 for n in found):
        raise ValueError(f"quire.random.{name}: shape {found} has a negative length")
    return found


def _is_int(x: Any) -> bool:
    return isinstance(x, int | np.integer) or (hasattr(x, "aval") and not x.aval.shape)


def dtype_of(name: str, dtype: Any, default: DType, kinds: Sequence[DType], expected: str) -> DType:
    """A dtype argument, which must be among `kinds`.

    Raises ValueError for another one.
    """
    out = dtypes.canonicalize(default) if dtype is None else user_dtype(f"quire.random.{name}", dtype)
    if out not in kinds:
        raise ValueError(f"quire.random.{name}: dtype {out} must be {expected} dtype")
    return out


def float_dtype(name: str, dtype: Any) -> DType:
    """A dtype argument that must be a float's; the default float if None."""
    return dtype_of(name, dtype, dtypes.float64, dtypes.FLOATS, "a float")


def int_dtype(name: str, dtype: Any) -> DType:
    """A dtype argument that must be an integer's; the default int if None."""
    return dtype_of(name, dtype, dtypes.int64, (*dtypes.SIGNED, *dtypes.UNSIGNED), "an integer")


def parameters(name: str, shape: Any, dtype: Any, **given: Any) -> tuple[tuple[int, ...], list[Array]]:
    """The result's shape, and the parameters of a distribution in a dtype, each broadcast to it.

    Raises ValueError if they do not broadcast to the shape that is asked for, TypeError for complex or no numbers.
    """
    avals = {}
    for label, value in given.items():
        try:
            avals[label] = aval_of(value)
        except TypeError as error:
            raise TypeError(f"quire.random.{name}: {label}: {error}; lists must be made arrays first") from None
        if dtypes.is_complex(avals[label].dtype):
            raise TypeError(f"quire.random.{name}: {label} must be real, got {avals[label].short()}")
    texts = ", ".join(f"{label} {a.short()}" for label, a in avals.items())
    try:
        common = np.broadcast_shapes(*(a.shape for a in avals.values()))
        full = common if shape is None else shape_of(name, shape)
        if np.broadcast_shapes(common, full) != full:
            raise ValueError
    except ValueError as error:
        if str(error).startswith("quire.random"):
            raise
        wanted = "" if shape is None else f" to the shape {shape}"
        raise ValueError(f"quire.random.{name}: the parameters do not broadcast{wanted}: {texts}") from None
    return full, [st.broadcast_to(as_float(v, dtype), full) for v in given.values()]


def as_float(value: Any, dtype: Any) -> Array:
    """A parameter in a dtype."""
    if isinstance(value, bool | int | float):
        return np.asarray(value).astype(dtype)[()]
    return ew.convert_element_type(value, dtype)

"""The generators behind random keys (`jax.extend.random`)."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives.random import threefry2x32_p

from ..absent_names import module_getattr
from ..arrays.key_array import PRNGKeyArray
from ..random import keys


class PRNGImpl:
    """A generator, as `random.key(seed, impl=...)` takes it and libraries ask it for its shape."""

    __slots__ = ("name", "tag", "key_shape")

    def __init__(self, name: str, tag: str, key_shape: tuple[int, ...]) -> None:
        self.name = name
        self.tag = tag
        self.key_shape = key_shape

    def seed(self, seed: Any) -> Any:
        """The words of a key made of a number."""
        return keys.PRNGKey(seed, impl=self.name)

    def split(self, words: Any, shape: Any) -> Any:
        """The words of several keys."""
        return keys.key_data(keys.split(self._typed(words), shape))

    def fold_in(self, words: Any, data: Any) -> Any:
        """The words of a key and a number."""
        return keys.key_data(keys.fold_in(self._typed(words), data))

    def random_bits(self, words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
        """Random bits as unsigned integers."""
        return keys.random_bits(keys.raw_key("random_bits", self._typed(words)), bit_width, tuple(shape))

    def _typed(self, words: Any) -> PRNGKeyArray:
        return keys.wrap_key_data(words, impl=self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGImpl) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"PRNGImpl({self.name})"


threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = (
    PRNGImpl(name, tag, (words,)) for name, (tag, words) in keys.GENERATORS.items()
)


def seed_with_impl(impl: Any, seed: Any) -> PRNGKeyArray:
    """A typed key of a generator. Raises ValueError for one that quire does not have."""
    return keys.key(seed, impl=getattr(impl, "name", impl))


def random_seed(seeds: Any, impl: Any = None) -> PRNGKeyArray:
    """A typed key made of a number, as `seed_with_impl`."""
    return seed_with_impl(keys.IMPLEMENTATION if impl is None else impl, seeds)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """The hash of counting numbers by the two words of a key: as many words as `count` has."""
    import quire.numpy as qnp

    k1, k2 = (qnp.asarray(k, "uint32") for k in keypair)
    flat = qnp.ravel(count).astype("uint32")
    odd = flat.shape[0] % 2
    padded = qnp.concatenate([flat, qnp.zeros(odd, flat.dtype)]) if odd else flat
    x1, x2 = qnp.split(padded, 2)
    out = qnp.concatenate(threefry2x32_p.bind(k1, k2, x1, x2))
    return qnp.reshape(out[: flat.shape[0]], qnp.shape(count))


__all__ = [
    "PRNGImpl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p", "threefry_2x32", "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]  # fmt: skip

__getattr__ = module_getattr("quire.extend.random", globals())

"""`PRNGKeyArray`: an array of typed random keys, which behaves as one array of dtype ``key<fry>``.

It wraps the keys' words, ``uint32[..., 2]``. The wrapper is taken off where values enter or leave a traced function
(`tree_util.flatten_arrays`), so that no jaxpr holds another dtype than numbers; for users' pytrees it is a leaf.
What computes with keys is attached (`quire.numpy.key_methods`): it needs `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.errors import TypePromotionError
from quire.ir.sharding import NamedSharding
from quire.runtime.array import holds_all

from .. import tree_util
from ..watching import key_reuse

THREEFRY = "threefry2x32"
# The generators of keys: their tag in the dtype's name, and the words of a key.
GENERATORS = {THREEFRY: ("fry", 2), "rbg": ("rbg", 4), "unsafe_rbg": ("urbg", 4)}


class extended(np.generic):
    """The kind of dtypes that NumPy does not have; for `issubdtype`."""


class prng_key(extended):
    """The kind of the dtypes of random keys; for ``issubdtype(k.dtype, quire.dtypes.prng_key)``."""


class KeyDType:
    """The dtype of typed keys: ``key<fry>`` for Threefry 2x32, ``key<rbg>`` and ``key<urbg>`` for the others."""

    type = prng_key
    kind = "V"

    def __init__(self, impl: str = THREEFRY) -> None:
        self.impl = impl
        tag, self.words = GENERATORS[impl]
        self.name = f"key<{tag}>"
        self.itemsize = 4 * self.words

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType) and self.impl == other.impl

    def __hash__(self) -> int:
        return hash((KeyDType, self.impl))


_DTYPES = {impl: KeyDType(impl) for impl in GENERATORS}
KEY_DTYPE = _DTYPES[THREEFRY]
ADVICE = "keys are used by quire.random only; quire.random.key_data(keys) gives their words"


def is_keys(x: Any) -> bool:
    """Whether x is an array of typed keys."""
    return type(x) is PRNGKeyArray


def hidden_dimensions(tree: Any) -> list[int]:
    """How many dimensions users do not see of each array that `tree_util.flatten_arrays` gives: 1, the words, of keys; else 0.

    What users say of dimensions (axes, entries of a PartitionSpec) is about the others.
    """
    return [int(is_keys(x)) for x in tree_util.flatten_arrays(tree, is_keys)[0]]


def key_dtype_of(args: Sequence[Any]) -> KeyDType | None:
    """The dtype that arrays of keys, or dtypes of such, have together; None where there are none among the arguments.

    Raises:
        TypePromotionError: there are others beside them, or they are of different generators.
    """
    found = [x if isinstance(x, KeyDType) else x.dtype if is_keys(x) else None for x in args]
    if not any(found):
        return None
    if any(d != found[0] for d in found):
        names = ", ".join(str(d or type_text(x)) for d, x in zip(found, args))
        raise TypePromotionError(f"result_type: keys have no dtype in common with anything else, got {names}")
    return found[0]


class PRNGKeyArray:
    """An array of random keys. Make one with `quire.random.key` or `quire.random.split`, not with this class."""

    __slots__ = ("base", "impl", "__weakref__")
    # Read by messages about values that are no arrays of numbers.
    why_no_array = f"it is an array of keys (dtype key<fry>); {ADVICE}"
    __array_priority__ = 1000

    def __init__(self, base: Any, impl: str) -> None:
        self.base = base
        self.impl = impl  # words alone do not tell the two generators of four words apart

    # -- facts

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension of keys."""
        return tuple(self.base.shape)[:-1]

    @property
    def dtype(self) -> Any:
        """``key<fry>``."""
        return _DTYPES[self.impl]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """The bytes of one key."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all keys."""
        return self.size * self.itemsize

    @property
    def weak_type(self) -> bool:
        """False: a key's dtype does not give way."""
        return False

    @property
    def sharding(self) -> Any:
        """How the keys are divided over devices: of their words the last dimension is no dimension of keys."""
        found = self.base.sharding
        if not isinstance(found, NamedSharding) or len(found.spec) <= self.ndim:
            return found
        return found.update(spec=found.spec.update(partitions=tuple(found.spec)[: self.ndim]))

    def __getattr__(self, name: str) -> Any:
        if name in _FORWARDED:
            return getattr(self.base, name)
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"an array of keys (dtype {self.dtype}) has no attribute {name!r}: {ADVICE}")

    def block_until_ready(self) -> PRNGKeyArray:
        """Wait until the keys have been computed; returns the array."""
        self.base.block_until_ready()
        return self

    # -- elements

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: the key array is 0-dimensional")
        return self.shape[0]

    def __iter__(self) -> Iterator[PRNGKeyArray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d key array")
        return iter([self._row((i, Ellipsis), row) for i, row in enumerate(self.base)])

    def __getitem__(self, index: Any) -> PRNGKeyArray:
        parts = index if isinstance(index, tuple) else (index,)
        used = sum(1 for i in parts if i is not None and i is not Ellipsis and not _is_mask(i))
        if used > self.ndim:
            raise IndexError(f"Too many indices: array of keys is {self.ndim}-dimensional, but {used} were indexed")
        if not any(i is Ellipsis for i in parts):
            parts = (*parts, Ellipsis)
        return self._row(parts, self.base[(*parts, slice(None))])

    def _row(self, index: Any, words: Any) -> PRNGKeyArray:
        return PRNGKeyArray(key_reuse.sliced(self.base, index, words), self.impl)

    # -- what keys refuse

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"an array of keys (dtype {self.dtype}) cannot be converted to a NumPy array: use "
            "quire.random.key_data(keys) for the underlying integers"
        )

    def __bool__(self) -> NoReturn:
        raise TypeError(f"key array cannot be converted to boolean: {ADVICE}")

    def __hash__(self) -> NoReturn:
        raise TypeError("unhashable type: 'PRNGKeyArray': use a tuple of quire.random.key_data(key)")

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> PRNGKeyArray:
        """The keys themselves, for their own dtype; TypeError for another."""
        if dtype != self.dtype:
            raise TypeError(f"astype: an array of keys (dtype {self.dtype}) has no conversion to {dtype}: {ADVICE}")
        return self

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.shape)) + ("," if self.ndim == 1 else "")
        if hasattr(self.base, "owner"):
            return f"Traced<{self.dtype}[{','.join(map(str, self.shape))}]>"
        if not hasattr(self.base, "_host"):
            return f"ShapeDtypeStruct(shape=({shape}), dtype={self.dtype})"
        if not holds_all(self.base):
            return f"Array(shape=({shape}), dtype={self.dtype})"
        return f"Array(({shape}), dtype={self.dtype}) overlaying:\n{np.asarray(self.base)}"


_FORWARDED = frozenset(
    (
        "copy_to_host_async",
        "device",
        "devices",
        "committed",
        "is_fully_addressable",
        "is_fully_replicated",
        "is_deleted",
        "delete",
        "is_ready",
    )
)


def _is_mask(index: Any) -> bool:
    return isinstance(index, bool) or str(getattr(index, "dtype", "")) == "bool"


def _refusing(symbol: str) -> Callable[..., NoReturn]:
    def operator(self: PRNGKeyArray, *others: Any) -> NoReturn:
        given = ", ".join(type_text(x) for x in (self, *others))
        raise TypeError(f"{symbol} does not accept dtypes {given}: {ADVICE}")

    return operator


def type_text(x: Any) -> str:
    """The dtype of an operand for a message."""
    if isinstance(x, PRNGKeyArray):
        return x.dtype.name
    try:
        return str(aval_of(x).dtype)
    except TypeError:
        return type(x).__name__


for _symbol in ("add sub mul truediv floordiv mod divmod pow and or xor lshift rshift matmul").split():
    setattr(PRNGKeyArray, f"__{_symbol}__", _refusing(_symbol))
    setattr(PRNGKeyArray, f"__r{_symbol}__", _refusing(_symbol))
for _symbol in "lt le gt ge neg pos abs invert int float complex index".split():
    setattr(PRNGKeyArray, f"__{_symbol}__", _refusing(_symbol))


def _unwrap(keys: PRNGKeyArray) -> tuple[tuple[Any, ...], str]:
    return (keys.base,), keys.impl


def _wrap(impl: str, children: Sequence[Any]) -> Any:
    (base,) = children
    if hasattr(base, "made_keys"):  # it stands for the words
        return base.made_keys(impl)
    if getattr(base, "dtype", None) == dtypes.float0:  # a cotangent: it carries nothing
        return np.zeros(base.shape[:-1], dtypes.float0)
    return PRNGKeyArray(base, impl)


tree_util.register_boundary_node(PRNGKeyArray, _unwrap, _wrap)

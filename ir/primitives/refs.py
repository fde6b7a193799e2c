"""References: making, reading, writing and freeing them. Equations of these have effects, which keep them in order.

The pass `discharge` replaces all of them by values; what comes after it sees none. An index is a tuple of indexers, each of
which looks at what the one before it selects (``ref.at[1:].at[0]`` has two); none at all is the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray
from ..jaxpr import Effects
from ..primitive import primitive
from ..references import ADD_EFFECT, FREE_EFFECT, NEW_EFFECT, READ_EFFECT, WRITE_EFFECT, AbstractRef

Value = Any


@dataclass(frozen=True)
class Slice:
    """`size` positions of a dimension from `start` on, `stride` apart."""

    start: int
    size: int
    stride: int = 1

    def covers(self, n: int) -> bool:
        """Whether it is all of a dimension of length n."""
        return self.start == 0 and self.stride == 1 and self.size == n

    def text(self, n: int) -> str:
        """As it is written for a dimension of length n: ``:``, ``1:``, ``0:3:2``."""
        stop = self.start + (self.size - 1) * self.stride + 1 if self.size else self.start
        if self.stride != 1:
            return f"{self.start}:{stop}:{self.stride}"
        return f"{self.start or ''}:{'' if stop == n and self.size else stop}"

    @staticmethod
    def written(start: int | None, stop: int | None, stride: int | None, n: int) -> Slice:
        """That of ``start:stop:stride``, for a dimension of length n."""
        first, last, step = start or 0, n if stop is None else stop, stride or 1
        return Slice(first, len(range(first, last, step)), step)


@dataclass(frozen=True)
class Indexer:
    """What is selected of each dimension: a `Slice`, or None where an integer operand, scalar or array, selects.

    Those operands are broadcast together; the result has their dimensions where NumPy puts them: in place of the selected
    ones if these are adjacent, else first.
    """

    entries: tuple[Slice | None, ...]

    @property
    def count(self) -> int:
        """How many operands it takes."""
        return sum(e is None for e in self.entries)

    @property
    def position(self) -> int:
        """Which dimension of the result is the first of the operands' ones."""
        chosen = [i for i, e in enumerate(self.entries) if e is None]
        adjacent = chosen == list(range(chosen[0], chosen[0] + len(chosen))) if chosen else True
        return chosen[0] if chosen and adjacent else 0

    def shape(self, indices: Sequence[Any]) -> tuple[int, ...]:
        """The shape of what is selected; `indices` are the types of the operands, which can be broadcast together."""
        kept = [e.size for e in self.entries if e is not None]
        at = self.position
        return (*kept[:at], *np.broadcast_shapes(*(a.shape for a in indices)), *kept[at:])


def indexed_shape(
    name: str, shape: tuple[int, ...], indexers: Sequence[Indexer], indices: Sequence[Any]
) -> tuple[int, ...]:
    """The shape of what the indexers select of an array of a shape; `indices` are the types of their operands.

    Raises:
        TypeError: there are more or fewer operands than the indexers take, or one is no integer.
        ValueError: an indexer has not one entry a dimension or reaches outside, or the operands cannot be broadcast.
    """
    given = list(indices)
    for indexer in indexers:
        if len(indexer.entries) != len(shape):
            raise ValueError(f"{name}: an index of {len(indexer.entries)} entries for an array of shape {shape}")
        own, given = given[: indexer.count], given[indexer.count :]
        if len(own) < indexer.count:
            raise TypeError(f"{name}: the index takes more operands than the {len(indices)} that are given")
        for a in own:
            if not dtypes.is_integer(a.dtype):
                raise TypeError(f"{name}: an index of a reference must be an integer or a slice, got {a.short()}")
        for e, n in zip(indexer.entries, shape):
            if e is None:
                continue
            if e.start < 0 or e.stride < 1 or e.size < 0 or (e.size and e.start + (e.size - 1) * e.stride >= n):
                raise ValueError(f"{name}: {e} reaches outside a dimension of length {n}")
        try:
            shape = indexer.shape(own)
        except ValueError:
            shapes = ", ".join(a.short() for a in own)
            raise ValueError(f"{name}: the indices cannot be broadcast to one shape: {shapes}") from None
    if given:
        raise TypeError(f"{name}: {len(given)} operands more than the index takes")
    return shape


def _check_ref(name: str, ref: Any) -> AbstractRef:
    if type(ref) is not AbstractRef:
        raise TypeError(f"{name}: expected a reference, got {ref.short()}: make one with new_ref")
    return ref


def _check_value(name: str, ref: AbstractRef, shape: tuple[int, ...], value: ShapedArray) -> None:
    if value.dtype != ref.dtype:
        raise ValueError(
            f"{name}: the reference {ref.short()} holds {ref.dtype}, the value is {value.short()}: convert it, "
            "with astype"
        )
    if value.shape != shape:
        raise ValueError(
            f"{name}: the index selects {ref.inner_aval.update(shape=shape).short()} of the reference {ref.short()}, the "
            f"value is {value.short()}: it is not broadcast, give it that shape (quire.numpy.broadcast_to)"
        )


def _new_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((NEW_EFFECT,))


@primitive("new_ref", effects=_new_effects, apart=True)
def new_ref_p(init: ShapedArray, *, kind: str | None, memory_space: None) -> AbstractRef:
    """A new reference, which holds `init`.

    Raises:
        ValueError: there is no such kind of references.
    """
    if kind not in (None, "no_grad_no_remat"):
        raise ValueError(f"new_ref: kind must be None or 'no_grad_no_remat', got {kind!r}")
    return AbstractRef(init, kind)


@primitive("empty_ref", effects=_new_effects, apart=True)
def empty_ref_p(*, ty: ShapedArray, memory_space: None) -> AbstractRef:
    """A new reference to an array of type `ty`, which holds zeros until it is written."""
    return AbstractRef(ty)


def _read_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((READ_EFFECT,))


@primitive("get", effects=_read_effects)
def get_p(ref: AbstractRef, *indices: ShapedArray, indexers: tuple[Indexer, ...]) -> ShapedArray:
    """What the reference holds at an index; written ``a:f32[] <- r[i]``.

    An index beyond the end means the last element; a negative one counts from the end.
    """
    ref = _check_ref("get", ref)
    return ref.inner_aval.update(shape=indexed_shape("get", ref.shape, indexers, indices))


def _swap_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((READ_EFFECT, WRITE_EFFECT))


@primitive("swap", effects=_swap_effects)
def swap_p(ref: AbstractRef, value: ShapedArray, *indices: ShapedArray, indexers: tuple[Indexer, ...]) -> ShapedArray:
    """Write a value at an index and give what was there; written ``r[i] <- v`` where the result is not used.

    Where an index of scalars is beyond the end, the last element is written; positions of an array of indices that are
    outside are not written.

    Raises:
        ValueError: the value has not the shape that the index selects, or another dtype than the reference.
    """
    ref = _check_ref("swap", ref)
    shape = indexed_shape("swap", ref.shape, indexers, indices)
    _check_value("swap", ref, shape, value)
    return ref.inner_aval.update(shape=shape)


def _add_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((ADD_EFFECT,))


@primitive("addupdate", multiple_results=True, effects=_add_effects)
def addupdate_p(
    ref: AbstractRef, value: ShapedArray, *indices: ShapedArray, indexers: tuple[Indexer, ...]
) -> tuple[ShapedArray, ...]:
    """Add a value to what the reference holds at an index; written ``r[i] += v``. Equal positions are added one by one.

    Raises:
        ValueError: the value has not the shape that the index selects, or another dtype than the reference.
    """
    ref = _check_ref("addupdate", ref)
    _check_value("addupdate", ref, indexed_shape("addupdate", ref.shape, indexers, indices), value)
    return ()


def _freeze_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((READ_EFFECT, FREE_EFFECT))


@primitive("freeze", effects=_freeze_effects)
def freeze_p(ref: AbstractRef) -> ShapedArray:
    """What the reference holds; it must not be used afterwards."""
    return _check_ref("freeze", ref).inner_aval


def _free_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((FREE_EFFECT,))


@primitive("free_ref", multiple_results=True, effects=_free_effects)
def free_ref_p(ref: AbstractRef) -> tuple[ShapedArray, ...]:
    """End a reference; it must not be used afterwards."""
    _check_ref("free_ref", ref)
    return ()


REF_PRIMITIVES = (new_ref_p, empty_ref_p, get_p, swap_p, addupdate_p, freeze_p, free_ref_p)

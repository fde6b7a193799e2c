"""Reference rules of references: a place is an array that is written to. They share nothing with the pass `discharge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.primitives import refs
from quire.ir.primitives.refs import Indexer

from .engine import Place
from .rules import reference


def _positions(shape: tuple[int, ...], indexers: Sequence[Indexer], indices: Sequence[Any]) -> tuple[Any, Any]:
    """The number of each element that an index selects, and which of them are inside."""
    numbers = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    inside = np.ones(shape, bool)
    given = list(indices)
    for indexer in indexers:
        own, given = given[: indexer.count], given[indexer.count :]
        scalars = all(np.ndim(i) == 0 for i in own) and all(e is None or e.stride == 1 for e in indexer.entries)
        key: list[Any] = []
        valid: Any = np.True_
        rest = iter(own)
        for e, n in zip(indexer.entries, numbers.shape):
            if e is not None:
                key.append(slice(e.start, e.start + e.size * e.stride, e.stride))
                continue
            i = np.asarray(next(rest)).astype(np.int64)
            i = np.where(i < 0, i + n, i)
            valid = valid & (scalars | ((i >= 0) & (i < n)))
            key.append(np.clip(i, 0, n - 1))
        numbers, inside = numbers[tuple(key)], inside[tuple(key)]
        if own:  # the operands' dimensions, where the result has them
            shape_of = list(np.shape(numbers))
            at, rank = indexer.position, np.ndim(valid)
            chosen = np.broadcast_shapes(*(np.shape(i) for i in own))
            spread = np.broadcast_to(valid, chosen).reshape(
                (*(1 for _ in range(at)), *chosen, *(1 for _ in range(len(shape_of) - at - len(chosen))))
            )
            assert rank <= len(chosen)
            inside = inside & spread
    return np.asarray(numbers), np.asarray(inside)


@reference(refs.new_ref_p)
def new_ref(init: Any, *, kind: str | None, memory_space: None) -> Any:
    return Place(np.array(init))


@reference(refs.empty_ref_p)
def empty_ref(*, ty: ShapedArray, memory_space: None) -> Any:
    return Place(np.zeros(ty.shape, ty.dtype))


@reference(refs.get_p)
def get(ref: Place, *indices: Any, indexers: tuple[Indexer, ...]) -> Any:
    numbers, _ = _positions(ref.array.shape, indexers, indices)
    return ref.array.reshape(-1)[numbers] if ref.array.size else np.zeros(numbers.shape, ref.array.dtype)


@reference(refs.swap_p)
def swap(ref: Place, value: Any, *indices: Any, indexers: tuple[Indexer, ...]) -> Any:
    old = get(ref, *indices, indexers=indexers)
    numbers, inside = _positions(ref.array.shape, indexers, indices)
    new = ref.array.reshape(-1).copy()
    new[numbers[inside]] = np.asarray(value)[inside]
    ref.write(new)
    return old


@reference(refs.addupdate_p)
def addupdate(ref: Place, value: Any, *indices: Any, indexers: tuple[Indexer, ...]) -> Any:
    numbers, inside = _positions(ref.array.shape, indexers, indices)
    new = ref.array.reshape(-1).copy()
    np.add.at(new, numbers[inside], np.asarray(value, ref.array.dtype)[inside])
    ref.write(new)
    return []


@reference(refs.freeze_p)
def freeze(ref: Place) -> Any:
    return ref.array.copy()


@reference(refs.free_ref_p)
def free_ref(ref: Place) -> Any:
    return []

"""Reading and writing an array at an index of a reference: what `get`, `swap` and `addupdate` are on values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.jaxpr import Literal
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import refs
from quire.ir.primitives import structural as st
from quire.ir.primitives.refs import Indexer, Slice

Value = Any


def read(x: Value, indexers: Sequence[Indexer], indices: Sequence[Value]) -> Value:
    """What the indexers select of x. An index that is outside means the nearest position."""
    for indexer in indexers:
        own, indices = indices[: indexer.count], indices[indexer.count :]
        x = _read(x, indexer, own)
    return x


def write(x: Value, indexers: Sequence[Indexer], indices: Sequence[Value], value: Value, *, add: bool = False) -> Value:
    """x with a value at what the indexers select, or with `add` the sum of both.

    An index of scalars that is outside means the nearest position; of arrays of indices what is outside is left out.
    """
    if not indexers:
        return _sum(x, value) if add else _typed(value)
    first, *rest = indexers
    own, indices = indices[: first.count], indices[first.count :]
    if rest:
        return _write(x, first, own, write(_read(x, first, own), rest, indices, value, add=add), False)
    return _write(x, first, own, value, add)


def _typed(x: Value) -> Value:
    return x.python_value if isinstance(x, Literal) else x


def _sum(a: Value, b: Value) -> Value:
    return ew.bitwise_or(a, b) if dtypes.is_bool(aval_of(a).dtype) else ew.add(a, b)


def _known(index: Value) -> int | None:
    """The number of a scalar index that is written in the program."""
    return int(index.value) if isinstance(index, Literal) else None


def _position(index: Value, n: int) -> Value:
    """An index as int32, a negative one counted from the end."""
    known = _known(index)
    if known is not None:
        return np.int32(known + n if known < 0 else known)
    signed = dtypes.is_signed(aval_of(index).dtype)
    index = ew.convert_element_type(index, np.int32)
    if not signed:
        return index
    return ew.select_n(ew.lt(index, np.int32(0)), index, ew.add(index, np.int32(n)))


def _by_scalars(indexer: Indexer, indices: Sequence[Value]) -> bool:
    """Whether what is selected is one box of adjacent elements."""
    return all(not aval_of(i).shape for i in indices) and all(e is None or e.stride == 1 for e in indexer.entries)


def _box(shape: tuple[int, ...], indexer: Indexer, indices: Sequence[Value]) -> tuple[list[Value], list[int]]:
    """Where a box starts, and its sizes."""
    given = iter(indices)
    starts: list[Value] = []
    sizes: list[int] = []
    for e, n in zip(indexer.entries, shape):
        starts.append(_position(next(given), n) if e is None else np.int32(e.start))
        sizes.append(1 if e is None else e.size)
    return starts, sizes


def _read(x: Value, indexer: Indexer, indices: Sequence[Value]) -> Value:
    x = _typed(x)
    shape = aval_of(x).shape
    slices = [Slice(0, n) if e is None else e for e, n in zip(indexer.entries, shape)]
    if not indices:
        return _cut(x, slices)
    result = refs.indexed_shape("get", shape, (indexer,), [aval_of(i) for i in indices])
    if _by_scalars(indexer, indices):
        starts, sizes = _box(shape, indexer, indices)
        if all(type(s) is np.int32 and 0 <= s <= n - m for s, n, m in zip(starts, shape, sizes)):
            box = _cut(x, [Slice(int(s), m) for s, m in zip(starts, sizes)])
        else:
            box = ix.dynamic_slice(x, starts, sizes)
        return st.reshape(box, result)
    # The slices first, then what the indices select of it.
    x = _cut(x, slices)
    chosen = [d for d, e in enumerate(indexer.entries) if e is None]
    vectors, batch = _vectors(indices, [shape[d] for d in chosen])
    at, rank = indexer.position, len(result)
    numbers = ix.GatherDimensionNumbers(
        tuple(d for d in range(rank) if not at <= d < at + len(batch)), tuple(chosen), tuple(chosen)
    )
    sizes = [1 if e is None else n for e, n in zip(indexer.entries, aval_of(x).shape)]
    return ix.gather(x, vectors, numbers, sizes, mode="clip")


def _cut(x: Value, slices: Sequence[Slice]) -> Value:
    """Slices of every dimension."""
    shape = aval_of(x).shape
    if all(s.covers(n) for s, n in zip(slices, shape)):
        return x
    return st.slice(
        x, [s.start for s in slices], [s.start + max((s.size - 1) * s.stride + 1, 0) if s.size else s.start for s in slices],
        [s.stride for s in slices],
    )  # fmt: skip


def _vectors(indices: Sequence[Value], lengths: Sequence[int]) -> tuple[Value, tuple[int, ...]]:
    """Indices, broadcast together, as index vectors along a last dimension; and the shape of what they select."""
    batch = np.broadcast_shapes(*(aval_of(i).shape for i in indices))
    columns = [
        st.reshape(st.broadcast_to(_position(i, n), batch), (*batch, 1)) for i, n in zip(indices, lengths, strict=True)
    ]
    return st.concatenate(columns, len(batch)), batch


def _write(x: Value, indexer: Indexer, indices: Sequence[Value], value: Value, add: bool) -> Value:
    x, value = _typed(x), _typed(value)
    shape = aval_of(x).shape
    if not indices and all(e is not None and e.covers(n) for e, n in zip(indexer.entries, shape)):
        return _sum(x, value) if add else value
    if 0 in aval_of(value).shape:
        return x
    if _by_scalars(indexer, indices):
        starts, sizes = _box(shape, indexer, indices)
        if add:
            value = _sum(_read(x, indexer, indices), value)
        return ix.dynamic_update_slice(x, st.reshape(value, sizes), starts)
    return _scatter(x, indexer, indices, value, add)


def _scatter(x: Value, indexer: Indexer, indices: Sequence[Value], value: Value, add: bool) -> Value:
    """A write at arrays of indices, or at slices with strides: of these the positions are index vectors too."""
    shape = aval_of(x).shape
    whole = [d for d, (e, n) in enumerate(zip(indexer.entries, shape)) if e is not None and e.covers(n)]
    cut = [d for d, e in enumerate(indexer.entries) if e is not None and d not in whole]
    chosen = [d for d, e in enumerate(indexer.entries) if e is None]
    batch = np.broadcast_shapes(*(aval_of(i).shape for i in indices))
    # The dimensions of the index vectors: those of the indices, then one for each slice.
    parts: dict[int, Value] = {}
    for d, i in zip(chosen, indices, strict=True):
        own = st.broadcast_to(_position(i, shape[d]), batch)
        parts[d] = st.reshape(own, (*batch, *(1 for _ in cut)))
    for k, d in enumerate(cut):
        e = indexer.entries[d]
        assert e is not None
        numbers = ew.add(ew.mul(st.iota(np.int32, e.size), np.int32(e.stride)), np.int32(e.start))
        parts[d] = st.reshape(numbers, (*(1 for _ in batch), *(e.size if j == k else 1 for j in range(len(cut)))))
    order = sorted(parts)
    sizes = (*batch, *(s.size for d in cut if (s := indexer.entries[d]) is not None))
    rank = len(sizes)
    vectors = st.concatenate([st.reshape(st.broadcast_to(parts[d], sizes), (*sizes, 1)) for d in order], rank)
    # The value's dimensions in that order, those of whole slices last.
    at = indexer.position
    slices = [d for d, e in enumerate(indexer.entries) if e is not None]
    place = {d: k if k < at else k + len(batch) for k, d in enumerate(slices)}
    permutation = [*range(at, at + len(batch)), *(place[d] for d in cut), *(place[d] for d in whole)]
    value = st.transpose(value, permutation) if permutation != sorted(permutation) else value
    numbers = ix.ScatterDimensionNumbers(tuple(range(rank, rank + len(whole))), tuple(order), tuple(order))
    if not add:
        return ix.scatter(x, vectors, value, numbers, mode="drop")
    if dtypes.is_bool(aval_of(x).dtype):  # counted, as booleans have no sum
        count = ew.convert_element_type(x, np.int32)
        more = ew.convert_element_type(value, np.int32)
        return ew.convert_element_type(ix.scatter_add(count, vectors, more, numbers, mode="drop"), np.bool_)
    return ix.scatter_add(x, vectors, value, numbers, mode="drop")

"""Arrays as data and indices: the layout of BCOO, and the ways from and to whole arrays.

`data` has the shape (*batch, nse, *dense) and `indices` (*batch, nse, n_sparse); a batch dimension of either may be 1, which
stands for all. Indices outside of the array stand for nothing, and elements that are listed twice are summed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import lax
from ... import numpy as qnp
from .util import SparseInfo, along, known_count, positions, size_of, stored

Value = Any


class Layout(NamedTuple):
    """The numbers of a sparse array's dimensions of each kind, and of its stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int

    def split(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """A shape's batch, sparse and dense sizes."""
        at = self.n_batch + self.n_sparse
        return shape[: self.n_batch], shape[self.n_batch : at], shape[at:]


def layout_of(data: Value, indices: Value, shape: tuple[int, ...]) -> Layout:
    """The layout of data and indices. Raises ValueError where their shapes, or the whole shape, do not fit."""
    given, places = tuple(np.shape(data)), tuple(np.shape(indices))
    if len(places) < 2:
        raise ValueError(f"Invalid indices.shape={places}, expected (*batch, nse, n_sparse)")
    (*_, nse, n_sparse), n_batch = places, len(places) - 2
    n_dense = len(shape) - n_batch - n_sparse
    if n_dense < 0:
        raise ValueError(f"Invalid indices.shape={places} for shape={shape}: n_batch={n_batch}, n_sparse={n_sparse}")
    layout = Layout(n_batch, n_sparse, n_dense, nse)
    batch, _, dense = layout.split(shape)
    fits = len(given) == n_batch + 1 + n_dense and given[n_batch] == nse and given[n_batch + 1 :] == dense
    if not fits or not _repeats(given[:n_batch], batch):
        raise ValueError(
            f"Invalid data.shape={given} for nse={nse}, n_batch={n_batch}, n_dense={n_dense}, shape={shape}"
        )
    if not _repeats(places[:n_batch], batch):
        raise ValueError(f"Invalid indices.shape={places} for nse={nse}, n_batch={n_batch}, shape={shape}")
    return layout


def _repeats(sizes: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return all(n in (1, m) for n, m in zip(sizes, whole, strict=True))


def columns(indices: Value) -> list[Value]:
    """The coordinates along each sparse dimension, each of shape (*batch, nse)."""
    return [indices[..., k] for k in range(indices.shape[-1])]


def stacked(cols: list[Value], like: Value) -> Value:
    """Columns as indices; of no sparse dimensions where there are none, of the batch and number of `like`."""
    return qnp.stack(cols, axis=-1) if cols else qnp.zeros((*like.shape[:-1], 0), like.dtype)


def outside(cols: list[Value], sizes: tuple[int, ...]) -> Value:
    """Which elements stand for nothing, as one of their coordinates is outside; of shape (*batch, nse)."""
    out: Value = cols[0] >= sizes[0]
    for col, n in zip(cols[1:], sizes[1:]):
        out = out | (col >= n)
    return out


def masked(data: Value, keep: Value, n_batch: int) -> Value:
    """Data with zeros where an element, of `keep` (*batch, nse), is not kept."""
    keep = keep.reshape((*keep.shape, *(1,) * (data.ndim - n_batch - 1)))
    return qnp.where(keep, data, qnp.zeros((), data.dtype))


def with_batch(x: Value, batch: tuple[int, ...]) -> Value:
    """Data or indices with all batch dimensions of their full sizes."""
    want = (*batch, *x.shape[len(batch) :])
    return x if tuple(x.shape) == want else qnp.broadcast_to(x, want)


def joint_batch(data: Value, indices: Value, n_batch: int) -> tuple[int, ...]:
    """The batch sizes that data and indices have together."""
    return np.broadcast_shapes(data.shape[:n_batch], indices.shape[:n_batch])


def _bcoo_todense(data: Value, indices: Value, *, spinfo: SparseInfo) -> Value:
    """The whole array of data and indices: zeros to which the elements are added. Raises ValueError for shapes that do not fit."""
    data, indices = qnp.asarray(data), qnp.asarray(indices)
    shape = tuple(spinfo.shape)
    layout = layout_of(data, indices, shape)
    if not layout.n_sparse:
        one = qnp.any(data, axis=layout.n_batch) if data.dtype == bool else data.sum(layout.n_batch, dtype=data.dtype)
        return qnp.broadcast_to(one, shape)
    if size_of(shape) == 0 or layout.nse == 0:
        return qnp.zeros(shape, data.dtype)
    places = (*positions(shape[: layout.n_batch], layout.n_batch + 1), *columns(indices))
    return qnp.zeros(shape, data.dtype).at[places].add(data, mode="drop")


def _bcoo_extract(indices: Value, arr: Value, *, assume_unique: bool = True) -> Value:
    """An array's elements at indices, zeros for those outside: data of shape (*batch, nse, *dense).

    Unless the indices are taken to be unique, a place that is listed again gives zeros, so that the sum is the array's element.

    Raises ValueError where the array has fewer dimensions than the indices tell.
    """
    indices, arr = qnp.asarray(indices), qnp.asarray(arr)
    n_batch, n_sparse, nse = indices.ndim - 2, indices.shape[-1], indices.shape[-2]
    if arr.ndim < n_batch + n_sparse:
        raise ValueError(f"bcoo_extract: indices of shape {indices.shape} for an array of shape {arr.shape}")
    if not n_sparse:
        whole = qnp.expand_dims(arr, n_batch)
        data = qnp.broadcast_to(whole, (*arr.shape[:n_batch], nse, *arr.shape[n_batch:]))
    elif size_of(tuple(arr.shape)) == 0:
        data = qnp.zeros((*arr.shape[:n_batch], nse, *arr.shape[n_batch + n_sparse :]), arr.dtype)
    else:
        places = (*positions(tuple(arr.shape[:n_batch]), n_batch + 1), *columns(indices))
        data = arr.at[places].get(mode="fill", fill_value=0)
    return data if assume_unique or nse < 2 else masked(data, _first_of_each(indices), n_batch)


def _first_of_each(indices: Value) -> Value:
    """Which elements are the first that are listed for their place."""
    n_batch = indices.ndim - 2
    if not indices.shape[-1]:
        return qnp.broadcast_to(qnp.arange(indices.shape[-2]) == 0, indices.shape[:-1])
    cols, order = sorted_places(indices)
    first = starts(cols)
    places = (*positions(tuple(indices.shape[:n_batch]), n_batch + 1), order)
    return qnp.zeros(first.shape, bool).at[places].set(first)


def sorted_places(indices: Value) -> tuple[list[Value], Value]:
    """The columns in the order of the places, and the order: which element comes where; elements of one place keep theirs."""
    number = lax.broadcasted_iota(qnp.int32, indices.shape[:-1], indices.ndim - 2)
    n = indices.shape[-1]
    *cols, order = lax.sort([*columns(indices), number], dimension=indices.ndim - 2, is_stable=True, num_keys=n)
    return cols, order


def starts(cols: list[Value]) -> Value:
    """Where, in sorted columns, another place begins than the one before."""
    changed: Value = cols[0][..., 1:] != cols[0][..., :-1]
    for col in cols[1:]:
        changed = changed | (col[..., 1:] != col[..., :-1])
    return qnp.concatenate([qnp.ones((*changed.shape[:-1], 1), bool), changed], axis=-1)


def _bcoo_fromdense(
    mat: Value, *, nse: int, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> tuple[Value, Value]:
    """Data and indices of the first `nse` elements of each batch entry that are not zero, in their order, and padding."""
    mat = qnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    batch, sizes = tuple(mat.shape[:n_batch]), tuple(mat.shape[n_batch : n_batch + n_sparse])
    if not n_sparse:
        indices = qnp.zeros((*batch, nse, 0), index_dtype)
        one = qnp.expand_dims(mat, n_batch)
        rest = qnp.zeros((*batch, max(nse - 1, 0), *mat.shape[n_batch:]), mat.dtype)
        return (qnp.concatenate([one, rest], axis=n_batch) if nse else rest), indices
    total = size_of(sizes)
    mask = stored(mat, n_batch, n_dense).reshape((*batch, total))
    if not n_batch:
        flat = qnp.nonzero(mask, size=nse, fill_value=total)[0]
    elif 0 in (total, nse, *batch):
        flat = qnp.full((*batch, nse), total)
    else:
        slot = qnp.where(mask, qnp.cumsum(mask, axis=-1) - 1, nse)
        number = lax.broadcasted_iota(qnp.int32, (*batch, total), n_batch)
        places = (*positions(batch, n_batch + 1), slot)
        flat = qnp.full((*batch, nse), total, qnp.int32).at[places].set(number, mode="drop")
    indices = qnp.stack(_coordinates(flat, sizes), axis=-1).astype(index_dtype)
    return _bcoo_extract(indices, mat), indices


def _coordinates(flat: Value, sizes: tuple[int, ...]) -> list[Value]:
    """The coordinates of positions in row-major order; positions past the end are outside in all dimensions."""
    inside = flat < size_of(sizes)
    cols: list[Value] = []
    for k, n in enumerate(sizes):
        stride = max(size_of(sizes[k + 1 :]), 1)
        cols.append(qnp.where(inside, (flat // stride) % max(n, 1), n))
    return cols


def sort_parts(data: Value, indices: Value) -> tuple[Value, Value]:
    """Data and indices in the order of the places."""
    n_batch = indices.ndim - 2
    if not indices.shape[-1] or indices.shape[-2] < 2:
        return with_batch(data, joint_batch(data, indices, n_batch)), indices
    cols, order = sorted_places(indices)
    return along(data, order, n_batch), qnp.stack(cols, axis=-1)


def merge_parts(
    data: Value, indices: Value, shape: tuple[int, ...], *, nse: int | None, remove_zeros: bool = False, name: str
) -> tuple[Value, Value]:
    """Data and indices with each place listed once, in order, as `nse` elements, or as many as are needed.

    Raises ValueError where `nse` is None and the indices are traced.
    """
    n_batch, n = indices.ndim - 2, indices.shape[-1]
    sizes = shape[n_batch : n_batch + n]
    batch = joint_batch(data, indices, n_batch)
    data = with_batch(data, batch)
    if not n:
        wanted = min(1, data.shape[n_batch]) if nse is None else nse
        one = data.sum(n_batch, keepdims=True, dtype=data.dtype)
        padding = [(0, max(wanted - 1, 0)) if d == n_batch else (0, 0) for d in range(data.ndim)]
        merged = qnp.pad(one, padding) if wanted else qnp.zeros((*batch, 0, *data.shape[n_batch + 1 :]), data.dtype)
        return merged, qnp.zeros((*indices.shape[:n_batch], wanted, 0), indices.dtype)
    dead = outside(columns(indices), sizes)
    if remove_zeros:
        empty = data == 0
        rest = tuple(range(n_batch + 1, data.ndim))
        repeated = tuple(d for d in range(n_batch) if indices.shape[d] == 1 != data.shape[d])
        dead = dead | qnp.all(qnp.all(empty, axis=rest), axis=repeated, keepdims=True)
    end = qnp.asarray(sizes, indices.dtype).reshape((*(1,) * (n_batch + 1), n))
    indices = qnp.where(dead[..., None], end, indices)
    if not indices.shape[-2]:
        wanted = nse or 0
        data = qnp.zeros((*batch, wanted, *data.shape[n_batch + 1 :]), data.dtype)
        return data, qnp.broadcast_to(end, (*indices.shape[:n_batch], wanted, n))
    cols, order = sorted_places(indices)
    first, valid = starts(cols), cols[0] < sizes[0]
    if nse is None:
        counts = (first & valid).sum(-1)
        nse = known_count(
            counts.max(initial=0),
            f"{name}: nse must be specified when using the function within jit, vmap, and other transformations requiring "
            "abstract evaluation.",
            ValueError,
        )
    slot = qnp.where(valid, qnp.cumsum(first, axis=-1) - 1, nse)
    within = positions(tuple(indices.shape[:n_batch]), n_batch + 1)
    found = qnp.broadcast_to(end, (*indices.shape[:n_batch], nse, n))
    found = found.at[(*within, slot)].set(qnp.stack(cols, axis=-1), mode="drop")
    merged = qnp.zeros((*batch, nse, *data.shape[n_batch + 1 :]), data.dtype)
    places = (*positions(batch, n_batch + 1), slot)
    return merged.at[places].add(along(data, order, n_batch), mode="drop"), found

"""The shapes of BCOO arrays: sums along axes, parts, and changes of the dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import lax
from ... import numpy as qnp
from .bcoo_array import BCOO
from .layout import columns, joint_batch, masked, merge_parts, outside, stacked, with_batch
from .relayout import bcoo_transpose, bcoo_update_layout, full_batch
from .util import size_of

Value = Any


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum along axes, of the same dtype; a sparse array of the dimensions that are left. Raises ValueError for other axes."""
    given = [int(a) for a in axes]
    if any(not 0 <= a < mat.ndim for a in given) or len(set(given)) != len(given):
        raise ValueError(f"bcoo_reduce_sum: axes {tuple(given)} of an array of {mat.ndim} dimensions")
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = mat.data, mat.indices
    dense = tuple(a - mat.n_sparse + 1 for a in given if a >= end)
    if dense:
        data = data.sum(dense, dtype=data.dtype)
    gone = [a - n_batch for a in given if n_batch <= a < end]
    if gone:
        cols = columns(indices)
        inside = ~outside([cols[k] for k in gone], tuple(mat.shape[n_batch + k] for k in gone))
        data = masked(with_batch(data, joint_batch(data, indices, n_batch)), inside, n_batch)
        indices = stacked([c for k, c in enumerate(cols) if k not in gone], indices)
    summed = [a for a in given if a < n_batch]
    kept = [d for d in range(n_batch) if d not in summed]
    if shared := [a for a in summed if indices.shape[a] == 1]:  # all entries have the same places
        repeats = size_of(tuple(mat.shape[a] for a in shared if data.shape[a] == 1))
        data = data.sum(shared, dtype=data.dtype, keepdims=True)
        data = data if repeats == 1 else data * qnp.asarray(repeats, data.dtype)
    if summed == shared:
        gone_at = tuple(summed)
        data, indices = lax.squeeze(data, gone_at), lax.squeeze(indices, gone_at)
    else:  # entries of these are more elements of the others
        sizes = tuple(1 if d in shared else mat.shape[d] for d in range(n_batch))
        data, indices = (with_batch(x, sizes) for x in (data, indices))
        lead = tuple(sizes[d] for d in kept)
        nse = size_of(tuple(sizes[d] for d in summed)) * mat.nse
        order = (*kept, *sorted(summed))
        data = qnp.transpose(data, (*order, *range(n_batch, data.ndim)))
        data = data.reshape((*lead, nse, *data.shape[n_batch + 1 :]))
        indices = qnp.transpose(indices, (*order, n_batch, n_batch + 1)).reshape((*lead, nse, indices.shape[-1]))
    shape = tuple(n for d, n in enumerate(mat.shape) if d not in given)
    return BCOO((data, indices), shape=shape)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array with more dimensions, as `lax.broadcast_in_dim`.

    New dimensions before the sparse ones are batches, those after the dense ones are dense, and those between have the size 1.

    Raises:
        ValueError: the dimensions do not fit.
        NotImplementedError: a sparse dimension would be repeated, or `sharding` is given.
    """
    if sharding is not None:
        raise NotImplementedError("bcoo_broadcast_in_dim: sharding is not supported")
    new, to = tuple(int(n) for n in shape), tuple(int(d) for d in broadcast_dimensions)
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    if len(to) != mat.ndim or any(a >= b for a, b in zip(to, to[1:])) or any(not 0 <= d < len(new) for d in to):
        raise ValueError(f"bcoo_broadcast_in_dim: broadcast_dimensions={to} of shape {mat.shape} in shape {new}")
    first_dense = to[end] if mat.n_dense else len(new)
    first_sparse = to[n_batch] if mat.n_sparse else first_dense
    repeated = [d for d in range(n_batch, end) if new[to[d]] != mat.shape[d]]
    if repeated or any(new[d] != 1 for d in range(first_sparse, first_dense) if d not in to):
        raise NotImplementedError("Adding sparse dimensions with lengths != 1")
    if any(mat.shape[d] not in (1, new[to[d]]) for d in range(mat.ndim)):
        raise ValueError(f"bcoo_broadcast_in_dim: shape {mat.shape} along {to} in shape {new}")

    def batch_of(x: Value) -> tuple[int, ...]:
        return tuple(x.shape[to.index(d)] if d in to else new[d] for d in range(first_sparse))

    data = lax.broadcast_in_dim(
        mat.data,
        (*batch_of(mat.data), mat.nse, *new[first_dense:]),
        (*to[:n_batch], first_sparse, *(d - first_dense + first_sparse + 1 for d in to[end:])),
    )
    indices = lax.broadcast_in_dim(
        mat.indices, (*batch_of(mat.indices), mat.nse, mat.n_sparse), (*to[:n_batch], first_sparse, first_sparse + 1)
    )
    if first_dense - first_sparse != mat.n_sparse:
        cols, zero = columns(indices), qnp.zeros(indices.shape[:-1], indices.dtype)
        placed = {to[n_batch + k]: c for k, c in enumerate(cols)}
        indices = stacked([placed.get(d, zero) for d in range(first_sparse, first_dense)], indices)
    return BCOO((data, indices), shape=new)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays behind one another along a batch or a sparse dimension.

    Raises:
        TypeError: the sizes, or the dimension, do not fit.
        ValueError: no arrays are given, or their batch or dense dimensions differ.
        NotImplementedError: along a dense dimension.
    """
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    shapes = [m.shape for m in operands]
    first, dimension = operands[0], int(dimension)
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {', '.join(map(str, shapes))}."
        )
    if len({len(s) for s in shapes}) > 1 or len({(*s[:dimension], *s[dimension + 1 :]) for s in shapes}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: "
            f"concatenating along dimension {dimension} for shapes {', '.join(map(str, shapes))}."
        )
    if any(m.n_batch != first.n_batch for m in operands):
        raise ValueError("bcoo_concatenate requires inputs to have matching batch dimensions.")
    if any(m.n_sparse != first.n_sparse for m in operands):
        raise ValueError("bcoo_concatenate requires inputs to have matching sparse and dense dimensions.")
    n_batch, total = first.n_batch, sum(s[dimension] for s in shapes)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    if dimension >= n_batch + first.n_sparse:
        raise NotImplementedError("Concatenation along dense dimensions.")
    parts = [full_batch(m) for m in operands]
    if dimension < n_batch:
        nse = max(m.nse for m in operands)
        sizes = shape[n_batch : n_batch + first.n_sparse]
        padded = [_padded(data, indices, nse, sizes) for data, indices in parts]
        data, indices = (qnp.concatenate(xs, axis=dimension) for xs in zip(*padded))
        return BCOO((data, indices), shape=shape)
    moved: list[tuple[Value, Value]] = []
    offset, k = 0, dimension - n_batch
    for (data, indices), m in zip(parts, operands):
        cols = columns(indices)
        data = masked(data, cols[k] < m.shape[dimension], n_batch)  # what was outside may be inside of the whole
        cols[k] = cols[k] + qnp.asarray(offset, indices.dtype)
        moved.append((data, stacked(cols, indices)))
        offset += m.shape[dimension]
    data, indices = (qnp.concatenate(xs, axis=n_batch) for xs in zip(*moved))
    return BCOO((data, indices), shape=shape)


def _padded(data: Value, indices: Value, nse: int, sizes: tuple[int, ...]) -> tuple[Value, Value]:
    n_batch = indices.ndim - 2
    more = nse - indices.shape[-2]
    if not more:
        return data, indices
    zeros = qnp.zeros((*data.shape[:n_batch], more, *data.shape[n_batch + 1 :]), data.dtype)
    end = qnp.broadcast_to(qnp.asarray(sizes, indices.dtype), (*indices.shape[:n_batch], more, len(sizes)))
    return qnp.concatenate([data, zeros], axis=n_batch), qnp.concatenate([indices, end], axis=n_batch)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """The array with another shape, of as many elements; batch, sparse and dense dimensions are not mixed.

    Args:
        mat: the array.
        new_sizes: the shape.
        dimensions: the order of the dimensions in which the elements are read, as `bcoo_transpose`.
        sharding: None.

    Raises:
        TypeError: the sizes do not fit.
        ValueError: dimensions of different kinds would be mixed.
        NotImplementedError: batch dimensions of data or indices are 1 for all, or `sharding` is given.
    """
    if sharding is not None:
        raise NotImplementedError("bcoo_reshape: sharding is not supported")
    new = tuple(int(n) for n in new_sizes)
    if size_of(mat.shape) != size_of(new):
        raise TypeError(
            f"cannot reshape array of shape {mat.shape} (size {size_of(mat.shape)}) into shape {new} (size {size_of(new)})"
        )
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    n_batch = mat.n_batch
    batch, sizes, dense = mat.layout.split(mat.shape)
    if any(tuple(x.shape[:n_batch]) != batch for x in (mat.data, mat.indices)):
        raise NotImplementedError("reshape of arrays with broadcasted batch dimensions.")
    to_batch = _prefix(new, size_of(batch))
    if to_batch is None:
        raise ValueError(
            f"bcoo_reshape: new shape cannot mix batch and sparse dimensions; got shape={mat.shape} new_shape={new} with "
            f"n_batch={n_batch}"
        )
    to_sparse = len(new) - to_batch if not mat.n_dense else _prefix(new[to_batch:], size_of(sizes))
    if to_sparse is None:
        raise ValueError(
            f"bcoo_reshape: new shape cannot mix sparse and dense dimensions; got shape={mat.shape} new_shape={new} with "
            f"n_dense={mat.n_dense}"
        )
    data = mat.data.reshape((*new[:to_batch], mat.nse, *new[to_batch + to_sparse :]))
    indices = mat.indices.reshape((*new[:to_batch], mat.nse, mat.n_sparse))
    cols = columns(indices)
    to = new[to_batch : to_batch + to_sparse]
    if to != sizes:
        at: Value = qnp.zeros(indices.shape[:-1], indices.dtype)
        for c, n in zip(cols, sizes):
            at = at * n + c
        gone = outside(cols, sizes) if cols else qnp.zeros(at.shape, bool)
        found: list[Value] = []
        for k, n in enumerate(to):
            stride = max(size_of(to[k + 1 :]), 1)
            found.append(qnp.where(gone, n, (at // stride) % max(n, 1)).astype(indices.dtype))
        indices = stacked(found, indices)
    return BCOO((data, indices), shape=new)


def _prefix(sizes: tuple[int, ...], product: int) -> int | None:
    """How many of the first sizes have a product."""
    return next((n for n in range(len(sizes) + 1) if size_of(sizes[:n]) == product), None)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some dimensions of size 1. Raises ValueError for dimensions that have another size, or are not there."""
    given = [int(d) for d in dimensions]
    if any(not -arr.ndim <= d < arr.ndim for d in given) or len({d % arr.ndim for d in given}) != len(given):
        raise ValueError(f"bcoo_squeeze: dimensions {tuple(given)} of an array of {arr.ndim} dimensions")
    gone = {d % arr.ndim for d in given}
    if any(arr.shape[d] != 1 for d in gone):
        raise ValueError(
            f"cannot select an axis to squeeze out which has size not equal to one, got shape={arr.shape} and "
            f"dimensions={tuple(dimensions)}"
        )
    n_batch, end = arr.n_batch, arr.n_batch + arr.n_sparse
    batch = tuple(d for d in gone if d < n_batch)
    dense = tuple(d - arr.n_sparse + 1 for d in gone if d >= end)
    sparse = [d - n_batch for d in gone if n_batch <= d < end]
    data, indices = arr.data, arr.indices
    if sparse:
        cols = columns(indices)
        inside = ~outside([cols[k] for k in sparse], (1,) * len(sparse))
        data = masked(with_batch(data, joint_batch(data, indices, n_batch)), inside, n_batch)
        indices = stacked([c for k, c in enumerate(cols) if k not in sparse], indices)
    return BCOO(
        (lax.squeeze(data, (*batch, *dense)), lax.squeeze(indices, batch)),
        shape=tuple(n for d, n in enumerate(arr.shape) if d not in gone),
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with some dimensions reversed. Raises TypeError for dimensions that are not there."""
    given = {int(d) for d in dimensions}
    if any(not 0 <= d < operand.ndim for d in given):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {tuple(dimensions)} for operand ndim "
            f"{operand.ndim}."
        )
    n_batch, end = operand.n_batch, operand.n_batch + operand.n_sparse
    batch = tuple(d for d in given if d < n_batch)
    data = lax.rev(operand.data, (*batch, *(d - operand.n_sparse + 1 for d in given if d >= end)))
    indices = lax.rev(operand.indices, batch) if batch else operand.indices
    if any(n_batch <= d < end for d in given):
        cols = columns(indices)
        for d in given:
            if n_batch <= d < end:
                n, c = operand.shape[d], cols[d - n_batch]
                cols[d - n_batch] = qnp.where(c < n, n - 1 - c, c).astype(indices.dtype)
        indices = stacked(cols, indices)
    return BCOO((data, indices), shape=operand.shape)


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:
    """A part of the array, as `lax.slice`, of the same layout; no more elements are stored than the part has.

    Raises ValueError where the numbers do not fit the array.
    """
    start, limit = [int(n) for n in start_indices], [int(n) for n in limit_indices]
    steps = [1] * mat.ndim if strides is None else [int(n) for n in strides]
    if not len(start) == len(limit) == len(steps) == mat.ndim:
        raise ValueError(
            f"bcoo_slice: expected {mat.ndim} start_indices, limit_indices and strides; got {start}, {limit}, {steps}"
        )
    if any(not 0 <= a <= b <= n for a, b, n in zip(start, limit, mat.shape)) or any(s < 1 for s in steps):
        raise ValueError(
            f"bcoo_slice: invalid indices. Got start_indices={start}, limit_indices={limit} and shape={mat.shape}"
        )
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(start, limit, steps))
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    parts = [slice(a, b, s) for a, b, s in zip(start, limit, steps)]

    def within(x: Value) -> tuple[Any, ...]:
        return tuple(parts[d] if x.shape[d] == mat.shape[d] else slice(None) for d in range(n_batch))

    data = mat.data[(*within(mat.data), slice(None), *parts[end:])]
    indices = mat.indices[within(mat.indices)]
    inside: Value = None
    cols = columns(indices)
    for d in range(n_batch, end):
        if shape[d] == mat.shape[d]:
            continue
        at = cols[d - n_batch] - start[d]
        found = (at >= 0) & (at % steps[d] == 0) & (cols[d - n_batch] < limit[d])
        inside = found if inside is None else inside & found
        cols[d - n_batch] = at // steps[d]
    return _part(data, indices, cols, inside, shape, mat)


def _part(data: Value, indices: Value, cols: list[Value], inside: Value, shape: tuple[int, ...], mat: BCOO) -> BCOO:
    """The elements that are inside, at new places, at most as many as there are places."""
    n_batch = mat.n_batch
    sizes = shape[n_batch : n_batch + mat.n_sparse]
    if inside is not None:
        whole = [c < mat.shape[n_batch + k] for k, c in enumerate(cols) if shape[n_batch + k] == mat.shape[n_batch + k]]
        for w in whole:
            inside = inside & w
        data = masked(with_batch(data, joint_batch(data, indices, n_batch)), inside, n_batch)
        cols = [qnp.where(inside, c, n).astype(indices.dtype) for c, n in zip(cols, sizes)]
        indices = stacked(cols, indices)
    if mat.nse > size_of(sizes):
        data, indices = merge_parts(data, indices, shape, nse=size_of(sizes), name="bcoo_slice")
    return BCOO((data, indices), shape=shape)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of the array that begins where it is only known when the program runs, as `lax.dynamic_slice`.

    Args:
        mat: the array.
        start_indices: a number for each dimension, an integer or a scalar array; the part is moved to be inside.
        slice_sizes: the part's shape.

    Raises:
        ValueError: there are not as many numbers as dimensions.
        TypeError: the part is larger than the array.
    """
    starts = [qnp.asarray(s) for s in start_indices]
    sizes = tuple(int(n) for n in slice_sizes)
    if len(starts) != mat.ndim or len(sizes) != mat.ndim:
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(starts)} vs {mat.shape})"
        )
    if any(not 0 <= n <= m for n, m in zip(sizes, mat.shape)):
        raise TypeError(
            f"slice slice_sizes must be less than or equal to operand shape, got slice_sizes {sizes} for operand shape {mat.shape}."
        )
    starts = [
        qnp.clip(qnp.where(s < 0, s + m, s), 0, m - n).astype(qnp.int32) for s, n, m in zip(starts, sizes, mat.shape)
    ]
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    zero = qnp.zeros((), qnp.int32)

    def cut(x: Value, dense: bool) -> Value:
        own = [x.shape[d] == mat.shape[d] for d in range(n_batch)]
        at = [s if o else zero for s, o in zip(starts, own)] + [zero] + (starts[end:] if dense else [zero])
        to = [n if o else 1 for n, o in zip(sizes, own)]
        to += [mat.nse, *(sizes[end:] if dense else x.shape[-1:])]
        return lax.dynamic_slice(x, at, to)

    data = cut(mat.data, True)
    indices = cut(mat.indices, False) if n_batch else mat.indices
    cols, inside = columns(indices), None
    for d in range(n_batch, end):
        if sizes[d] == mat.shape[d]:
            continue
        at = cols[d - n_batch] - starts[d].astype(indices.dtype)
        found = (at >= 0) & (at < sizes[d]) & (cols[d - n_batch] < mat.shape[d])
        inside = found if inside is None else inside & found
        cols[d - n_batch] = at
    return _part(data, indices, cols, inside, sizes, mat)


def bcoo_gather(
    operand: BCOO, start_indices: Any, dimension_numbers: Any, slice_sizes: Sequence[int], *, unique_indices: bool = False,
    indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """Parts of the array at places that are given as an array, as `lax.gather`; the dimensions of these places are batches.

    Raises NotImplementedError where places have batches of the operand, or come between its dense dimensions.
    """
    from ...transforms.vectorization import vmap

    dims = dimension_numbers
    if tuple(getattr(dims, "operand_batching_dims", ())):
        raise NotImplementedError("bcoo_gather with operand_batching_dims")
    at = qnp.asarray(start_indices)
    lead, n = tuple(at.shape[:-1]), at.ndim - 1
    kept = [d for d in range(operand.ndim) if d not in dims.collapsed_slice_dims]
    places = [d for d in range(n + len(kept)) if d not in dims.offset_dims]

    def part(where: Value) -> BCOO:
        starts: list[Any] = [qnp.zeros((), qnp.int32)] * operand.ndim
        for k, d in enumerate(dims.start_index_map):
            starts[d] = where[k]
        found = bcoo_dynamic_slice(operand, starts, tuple(slice_sizes))
        return bcoo_squeeze(found, dimensions=tuple(dims.collapsed_slice_dims))

    if not n:
        return part(at)
    found = vmap(part)(at.reshape((size_of(lead), at.shape[-1])))
    if n > 1:
        batch = (*lead, *found.shape[1 : found.n_batch])
        data, indices = full_batch(found)
        data = data.reshape((*batch, *data.shape[found.n_batch :]))
        indices = indices.reshape((*batch, *indices.shape[found.n_batch :]))
        found = BCOO((data, indices), shape=(*lead, *found.shape[1:]))
    if places == list(range(n)):
        return found
    # The dimensions of the places are the first ones: they are put where the result has them.
    order = [0] * found.ndim
    for k, d in enumerate((*places, *sorted(dims.offset_dims))):
        order[d] = k
    if any(d >= found.n_batch for d in order[: found.n_batch]):
        found = bcoo_update_layout(found, n_batch=0)
    return bcoo_transpose(found, permutation=order)


__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reduce_sum", "bcoo_reshape",
    "bcoo_rev", "bcoo_slice", "bcoo_squeeze",
]  # fmt: skip

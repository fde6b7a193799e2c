"""Products of sparse arrays: by gathering, multiplying and scattering, without a whole array of either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ... import lax
from ... import numpy as qnp
from .bcoo_array import BCOO, BCOOProperties
from .layout import columns, layout_of, merge_parts, outside, stacked, with_batch
from .relayout import bcoo_update_layout, full_batch
from .util import SparseInfo, positions, size_of

Value = Any
Dims: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
DotDimensionNumbers: TypeAlias = tuple[Dims, Dims]


def _numbers(dimension_numbers: Any) -> DotDimensionNumbers:
    (lc, rc), (lb, rb) = dimension_numbers
    one = lambda ds: tuple(int(d) for d in ds)  # noqa: E731
    return (one(lc), one(rc)), (one(lb), one(rb))


def _check_sizes(lhs: tuple[int, ...], rhs: tuple[int, ...], numbers: DotDimensionNumbers) -> None:
    for what, (a, b) in zip(("contracting", "batch"), numbers):
        left, right = tuple(lhs[d] for d in a), tuple(rhs[d] for d in b)
        if left != right:
            raise TypeError(f"dot_general requires {what} dimensions to have the same shape, got {left} and {right}.")


def _rest(ndim: int, *used: Sequence[int]) -> list[int]:
    return [d for d in range(ndim) if not any(d in u for u in used)]


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """A product as `lax.dot_general`, of which an operand, or both, are BCOO.

    Args:
        lhs, rhs: arrays or BCOO.
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``.
        precision: accepted; products are computed in the operands' dtype.
        preferred_element_type: the result's dtype.
        out_sharding: None.

    Returns:
        An array; a BCOO where both operands are.

    Raises:
        TypeError: sizes do not fit.
        ValueError: of two sparse arrays, the dimensions that are left cannot be kept in the order that a BCOO needs.
        NotImplementedError: a dense dimension is contracted, or a sparse dimension is a batch; of two sparse arrays, a batch
            dimension is contracted or there are dense ones; `out_sharding` is given.
    """
    if out_sharding is not None:
        raise NotImplementedError("bcoo_dot_general: out_sharding is not supported")
    numbers = _numbers(dimension_numbers)
    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        return lax.dot_general(lhs, rhs, numbers, precision, preferred_element_type)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_by_sparse(lhs, rhs, numbers, preferred_element_type)
    if isinstance(lhs, BCOO):
        return _bcoo_dot_general(
            lhs.data, lhs.indices, rhs, dimension_numbers=numbers, preferred_element_type=preferred_element_type,
            lhs_spinfo=lhs._info,
        )  # fmt: skip
    (lc, rc), (lb, rb) = numbers
    dense = qnp.asarray(lhs)
    swapped = bcoo_dot_general(
        rhs, dense, dimension_numbers=((rc, lc), (rb, lb)), preferred_element_type=preferred_element_type
    )
    n, own = len(lb), rhs.ndim - len(rc) - len(rb)
    return qnp.transpose(swapped, (*range(n), *range(n + own, swapped.ndim), *range(n, n + own)))


def _bcoo_dot_general(
    lhs_data: Value, lhs_indices: Value, rhs: Value, *, dimension_numbers: Any, preferred_element_type: Any = None,
    lhs_spinfo: SparseInfo,
) -> Value:  # fmt: skip
    """The product of data and indices with an array: each element times the parts of the array that it meets."""
    data, indices, rhs = qnp.asarray(lhs_data), qnp.asarray(lhs_indices), qnp.asarray(rhs)
    shape = tuple(lhs_spinfo.shape)
    layout = layout_of(data, indices, shape)
    (lc, rc), (lb, rb) = numbers = _numbers(dimension_numbers)
    _check_sizes(shape, tuple(rhs.shape), numbers)
    n_batch, end = layout.n_batch, layout.n_batch + layout.n_sparse
    if any(d >= end for d in lc):
        raise NotImplementedError("bcoo_dot_general: contracting over dense dimensions.")
    if any(d >= n_batch for d in lb):
        raise NotImplementedError(
            "bcoo_dot_general batch dimensions must be among the batch dimensions in the sparse representation.\n"
            f"got lhs_batch={lb}, n_batch={n_batch}"
        )
    dtype = preferred_element_type or qnp.result_type(data.dtype, rhs.dtype)
    others = _rest(rhs.ndim, rc, rb)
    kept_batch = [d for d in range(n_batch) if d not in lb and d not in lc]
    kept_sparse = [d for d in range(n_batch, end) if d not in lc]
    lead = (*lb, *kept_batch)
    out = (*(shape[d] for d in (*lead, *kept_sparse)), *shape[end:], *(rhs.shape[d] for d in others))
    if not layout.nse or 0 in shape or 0 in rhs.shape:
        return qnp.zeros(out, dtype)
    places = [*positions(shape[:n_batch], n_batch + 1), *columns(indices)]
    table = qnp.transpose(rhs, (*rb, *rc, *others))
    if lb or lc:
        rows = table.at[tuple(places[d] for d in (*lb, *lc))].get(mode="fill", fill_value=0)
    else:
        rows = table.reshape((*(1,) * (n_batch + 1), *table.shape))
    rows = rows.reshape((*rows.shape[: n_batch + 1], *(1,) * layout.n_dense, *rows.shape[n_batch + 1 :]))
    terms = data.reshape((*data.shape, *(1,) * len(others))).astype(dtype) * rows.astype(dtype)
    if not kept_sparse:
        total = terms.sum((*(d for d in lc if d < n_batch), n_batch), dtype=dtype)
        left = [d for d in range(n_batch) if d not in lc]
        order = [left.index(d) for d in lead]
        return qnp.broadcast_to(qnp.transpose(total, (*order, *range(len(left), total.ndim))), out)
    at = [places[d] for d in (*lead, *kept_sparse)]
    of = np.broadcast_shapes(terms.shape[: n_batch + 1], *(p.shape for p in at))
    at[0] = qnp.broadcast_to(at[0], of)
    return qnp.zeros(out, dtype).at[tuple(at)].add(terms, mode="drop")


def _sparse_by_sparse(lhs: BCOO, rhs: BCOO, numbers: DotDimensionNumbers, preferred: Any) -> BCOO:
    """The product of two sparse arrays: all pairs of their elements, summed where there are more than places."""
    (lc, rc), (lb, rb) = numbers
    _check_sizes(lhs.shape, rhs.shape, numbers)
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general: arrays with dense dimensions.")
    if any(d >= lhs.n_batch for d in lb) or any(d >= rhs.n_batch for d in rb):
        raise NotImplementedError(
            "bcoo_spdot_general: batch dimensions must correspond to batch dimensions of the arrays."
        )
    if any(d < lhs.n_batch for d in lc) or any(d < rhs.n_batch for d in rc):
        raise NotImplementedError("bcoo_spdot_general only supports contraction of sparse indices.")
    if rhs.n_batch > len(rb) and lhs.n_sparse > len(lc):
        raise ValueError("bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on lhs.")
    l_rest, r_rest = _rest(lhs.n_batch, lb), _rest(rhs.n_batch, rb)
    l_batch = (*lb, *l_rest)
    l_kept, r_kept = (
        _rest(lhs.n_sparse, [d - lhs.n_batch for d in lc]),
        _rest(rhs.n_sparse, [d - rhs.n_batch for d in rc]),
    )
    batch = (*(lhs.shape[d] for d in l_batch), *(rhs.shape[d] for d in r_rest))
    sizes = (*(lhs.shape[lhs.n_batch + k] for k in l_kept), *(rhs.shape[rhs.n_batch + k] for k in r_kept))
    dtype = preferred or qnp.result_type(lhs.dtype, rhs.dtype)

    def lined_up(x: Value, mat: BCOO, order: Sequence[int], ones_at: int, ones: int) -> Value:
        x = qnp.transpose(x, (*order, *range(mat.n_batch, x.ndim)))
        return x.reshape((*x.shape[:ones_at], *(1,) * ones, *x.shape[ones_at:]))

    def left(x: Value) -> Value:  # (*batch, nse of lhs, 1)
        return qnp.expand_dims(lined_up(x, lhs, l_batch, lhs.n_batch, len(r_rest)), len(batch) + 1)

    def right(x: Value) -> Value:  # (*batch, 1, nse of rhs)
        return qnp.expand_dims(lined_up(x, rhs, (*rb, *r_rest), len(rb), len(l_rest)), len(batch))

    l_cols, r_cols = [left(c) for c in columns(lhs.indices)], [right(c) for c in columns(rhs.indices)]
    l_data, r_data = left(lhs.data).astype(dtype), right(rhs.data).astype(dtype)
    pairs = (*batch, lhs.nse, rhs.nse)
    terms = l_data * r_data
    gone: Value = qnp.zeros((1,) * len(pairs), bool)
    for cols, mat in ((l_cols, lhs), (r_cols, rhs)):
        if cols:
            gone = gone | outside(cols, mat.shape[mat.n_batch :])
    apart = gone
    for a, b in zip(lc, rc):
        apart = apart | (l_cols[a - lhs.n_batch] != r_cols[b - rhs.n_batch])
    terms = qnp.where(apart, qnp.zeros((), dtype), terms)
    number = lhs.nse * rhs.nse
    data = qnp.broadcast_to(terms, pairs).reshape((*batch, number))
    index_dtype = qnp.result_type(lhs.indices.dtype, rhs.indices.dtype)
    kept = [l_cols[k] for k in l_kept] + [r_cols[k] for k in r_kept]
    found = [
        qnp.broadcast_to(qnp.where(gone, n, c).astype(index_dtype), pairs).reshape((*batch, number))
        for c, n in zip(kept, sizes)
    ]
    indices = qnp.stack(found, axis=-1) if found else qnp.zeros((*batch, number, 0), index_dtype)
    shape, most = (*batch, *sizes), size_of(sizes)
    if number > most:
        data, indices = merge_parts(data, indices, shape, nse=most, name="bcoo_spdot_general")
    return BCOO((data, indices), shape=shape)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Value:
    """The elements of a product of two arrays at given places, of which no others are computed.

    Args:
        A, B: arrays.
        indices: (*batch, nse, n_sparse), places in the product, as those of a BCOO.
        dimension_numbers: of the product, as in `lax.dot_general`.

    Returns:
        The data of a BCOO with these indices: (*batch, nse, *dense); zeros for places outside.

    Raises:
        TypeError: the sizes do not fit.
        ValueError: the indices have more dimensions than the product.
    """
    a, b, indices = qnp.asarray(A), qnp.asarray(B), qnp.asarray(indices)
    (ac, bc), (ab, bb) = numbers = _numbers(dimension_numbers)
    _check_sizes(tuple(a.shape), tuple(b.shape), numbers)
    out: list[tuple[int | None, int | None]] = [*zip(ab, bb)]
    out += [(d, None) for d in _rest(a.ndim, ac, ab)] + [(None, d) for d in _rest(b.ndim, bc, bb)]
    n_batch, n_placed = indices.ndim - 2, indices.ndim - 2 + indices.shape[-1]
    if n_placed > len(out):
        raise ValueError(
            f"bcoo_dot_general_sampled: indices of shape {tuple(indices.shape)} for a product of {len(out)} dimensions"
        )
    shape = tuple(b.shape[j] if i is None else a.shape[i] for i, j in out if i is not None or j is not None)
    dtype = qnp.result_type(a.dtype, b.dtype)
    result = (*shape[:n_batch], indices.shape[-2], *shape[n_placed:])
    if 0 in result or 0 in a.shape or 0 in b.shape:
        return qnp.zeros(result, dtype)
    places = [*positions(shape[:n_batch], n_batch + 1), *columns(indices)]

    def rows(x: Value, side: int, contracted: tuple[int, ...]) -> Value:
        """(*batch, nse, *dense or 1, *contracted)."""
        own = [(k, d) for k, dims in enumerate(out) if (d := dims[side]) is not None]
        at = [(k, d) for k, d in own if k < n_placed]
        rest = [d for k, d in own if k >= n_placed]
        table = qnp.transpose(x, (*(d for _, d in at), *rest, *contracted))
        if at:
            found = table.at[tuple(places[k] for k, _ in at)].get(mode="fill", fill_value=0)
        else:
            found = table.reshape((*(1,) * (n_batch + 1), *table.shape))
        slots = [1 if out[k][side] is None else shape[k] for k in range(n_placed, len(out))]
        return found.reshape((*found.shape[: n_batch + 1], *slots, *(x.shape[d] for d in contracted)))

    terms = rows(a, 0, ac).astype(dtype) * rows(b, 1, bc).astype(dtype)
    total = terms.sum(tuple(range(terms.ndim - len(ac), terms.ndim)), dtype=dtype) if ac else terms
    return qnp.broadcast_to(total, result)


def factors(sp_mat: BCOO, v: Any, fill: int = 0) -> Value:
    """What a dense array has at the places of a sparse one, of a shape that broadcasts to its data; `fill` outside.

    Raises NotImplementedError where the array does not broadcast to the sparse one's shape.
    """
    v = qnp.asarray(v)
    given, shape = tuple(v.shape), sp_mat.shape
    n_batch, end = sp_mat.n_batch, sp_mat.n_batch + sp_mat.n_sparse
    if len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given[::-1], shape[::-1])):
        raise NotImplementedError(
            "multiplication between sparse and dense is only implemented for cases where the output shape matches the sparse "
            f"matrix shape. Got shape={shape}, v.shape={given}"
        )
    if not given:
        return v
    sizes = (*(1,) * (len(shape) - len(given)), *given)
    used = [d for d in range(end) if sizes[d] != 1]
    rest = sizes[end:]
    if not used:
        return v.reshape((*(1,) * (n_batch + 1), *rest))
    if 0 in sizes or not sp_mat.nse:
        return qnp.zeros((*(sizes[d] for d in range(n_batch)), sp_mat.nse, *rest), v.dtype)
    places = [*positions(shape[:n_batch], n_batch + 1), *columns(sp_mat.indices)]
    table = v.reshape((*(sizes[d] for d in used), *rest))
    return table.at[tuple(places[d] for d in used)].get(mode="fill", fill_value=fill)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Value:
    """The data of the elementwise product with an array that broadcasts to the sparse one's shape: its layout is the same.

    Raises NotImplementedError where the product would have another shape.
    """
    return sp_mat.data * factors(sp_mat, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays, whose sizes may be 1 where the other's are not.

    Returns:
        A BCOO with a place for each pair of elements; those that met are first, in order.

    Raises:
        TypeError: the numbers of dimensions differ, or the sizes do not fit.
        NotImplementedError: the numbers of dense dimensions differ.
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            f"bcoo_multiply_sparse: arrays must have same number of dimensions, got {lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            "bcoo_multiply_sparse: arrays with differing numbers of dense dimensions: "
            f"{BCOOProperties(*lhs.layout)}, {BCOOProperties(*rhs.layout)}"
        )
    if any(n != m and 1 not in (n, m) for n, m in zip(lhs.shape, rhs.shape)):
        raise TypeError(f"mul got incompatible shapes for broadcasting: {lhs.shape}, {rhs.shape}.")
    n_batch = min(lhs.n_batch, rhs.n_batch)
    a, b = bcoo_update_layout(lhs, n_batch=n_batch), bcoo_update_layout(rhs, n_batch=n_batch)
    shape = np.broadcast_shapes(a.shape, b.shape)
    number = a.nse * b.nse
    left, right = (lambda x: qnp.expand_dims(x, n_batch + 1)), (lambda x: qnp.expand_dims(x, n_batch))
    terms = left(a.data) * right(b.data)  # (*batch, nse, nse, *dense)
    a_cols, b_cols = [left(c) for c in columns(a.indices)], [right(c) for c in columns(b.indices)]
    batch = np.broadcast_shapes(terms.shape[:n_batch], a.indices.shape[:n_batch], b.indices.shape[:n_batch])
    data = with_batch(terms, batch).reshape((*batch, number, *terms.shape[n_batch + 2 :]))
    index_dtype = qnp.result_type(a.indices.dtype, b.indices.dtype)
    if not a_cols:
        indices = qnp.zeros((*batch, number, 0), index_dtype)
        data, indices = merge_parts(data, indices, shape, nse=number, name="bcoo_multiply_sparse")
        return BCOO((data, indices), shape=shape)
    apart = outside(a_cols, a.shape[n_batch:]) | outside(b_cols, b.shape[n_batch:])
    found: list[Value] = []
    for k, (c, d) in enumerate(zip(a_cols, b_cols)):
        n, m = a.shape[n_batch + k], b.shape[n_batch + k]
        if n == m:
            apart = apart | (c != d)
        found.append(c if n >= m else d)
    sizes = shape[n_batch : n_batch + len(found)]
    whole = np.broadcast_shapes(apart.shape, (a.nse, b.nse))
    cols = [
        qnp.broadcast_to(qnp.where(apart, n, c).astype(index_dtype), whole).reshape((*whole[:-2], number))
        for c, n in zip(found, sizes)
    ]
    indices = stacked(cols, qnp.zeros((*whole[:-2], number, 1), index_dtype))
    data, indices = merge_parts(data, indices, shape, nse=number, name="bcoo_multiply_sparse")
    gone = outside(columns(indices), sizes)[..., None]
    return BCOO((data, qnp.where(gone, qnp.asarray(max(shape), index_dtype), indices)), shape=shape)


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None, rhs_dilation: Any = None,
    dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """A convolution in one dimension, of one batch entry and one feature: arrays of the shapes (1, 1, n) and (1, 1, m).

    Args:
        lhs, rhs: arrays or BCOO.
        window_strides: (1,).
        padding: as in `lax.conv_general_dilated`.
        preferred_element_type: the result's dtype.
        lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count, precision, out_sharding: the
            defaults, or what equals them.

    Returns:
        A BCOO of the shape (1, 1, k), with two batch dimensions.

    Raises:
        NotImplementedError: other convolutions.
    """
    operands: list[BCOO] = []
    for x in (lhs, rhs):
        if isinstance(x, BCOO):
            operands.append(bcoo_update_layout(x, n_batch=2, n_dense=0, on_inefficient=None) if x.ndim == 3 else x)
        else:
            x = qnp.asarray(x)
            operands.append(BCOO.fromdense(x, n_batch=min(2, x.ndim), nse=x.shape[-1]))
    a, b = operands
    straight = all(d is None or tuple(d) == (1,) for d in (lhs_dilation, rhs_dilation)) and tuple(window_strides) == (
        1,
    )
    specs = None if dimension_numbers is None else lax.conv_dimension_numbers(a.shape, b.shape, dimension_numbers)
    plain = specs is None or all(tuple(s) == (0, 1, 2) for s in specs)
    if a.shape[:-1] != (1, 1) or b.shape[:-1] != (1, 1) or not (straight and plain) or out_sharding is not None:
        raise NotImplementedError(
            "bcoo_conv_general_dilated: only convolutions in one dimension of arrays of shapes (1, 1, n) and (1, 1, m), without "
            f"strides and dilation; got {a.shape}, {b.shape}, window_strides={tuple(window_strides)}"
        )
    if feature_group_count != 1 or batch_group_count != 1:
        raise NotImplementedError("bcoo_conv_general_dilated: groups are not supported")
    n, m = a.shape[-1], b.shape[-1]
    (low, high), *_ = lax.padtype_to_pads((n,), (m,), (1,), padding) if isinstance(padding, str) else padding
    size = max(0, n + low + high - m + 1)
    dtype = preferred_element_type or qnp.result_type(a.dtype, b.dtype)
    (a_data, a_at), (b_data, b_at) = full_batch(a), full_batch(b)
    at = (a_at[..., 0][..., :, None] + low - b_at[..., 0][..., None, :]).reshape((1, 1, -1))
    terms = (a_data.astype(dtype)[..., :, None] * b_data.astype(dtype)[..., None, :]).reshape((1, 1, -1))
    met = (a_at[..., 0] < n)[..., :, None] & (b_at[..., 0] < m)[..., None, :]
    inside = met.reshape((1, 1, -1)) & (at >= 0) & (at < size)
    indices = qnp.where(inside, at, size)[..., None]
    data = qnp.where(inside, terms, qnp.zeros((), dtype))
    if a.nse * b.nse > size:
        data, indices = merge_parts(data, indices, (1, 1, size), nse=size, name="bcoo_conv_general_dilated")
    return BCOO((data, indices), shape=(1, 1, size))


__all__ = [
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense", "bcoo_multiply_sparse",
]  # fmt: skip

"""Factors of gathers, scatters and dynamic slices.

What is read or written at computed positions may be divided too: each device looks for the positions in its part, and
what others found is added (gather) or left to them (scatter). Updates that are divided are added up (scatter-add).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st

from .rules import Builder, Dims, Factors, Params, Shapes, emission, factors

Avals = Sequence[ShapedArray]
Mode = ix.GatherScatterMode


def _batch(b: Builder, indices: ShapedArray) -> list[tuple[int, ...]]:
    """The factors of the indices' dimensions: the last one holds the index vectors."""
    return [*b.dims(indices.shape[:-1]), *b.dims(indices.shape[-1:], whole=True)]


# -- gather -----------------------------------------------------------------------------------------------------------


@factors(ix.gather_p)
def _gather(
    in_avals: Avals, out_avals: Avals, *, dimension_numbers: ix.GatherDimensionNumbers, slice_sizes: Sequence[int],
    mode: Mode, **_: Any,
) -> Factors:  # fmt: skip
    x, indices = in_avals
    n = dimension_numbers
    b = Builder()
    batch = _batch(b, indices)
    operand: list[tuple[int, ...]] = []
    window: list[tuple[int, ...]] = []
    searched = _searched(x, n, slice_sizes)
    for d, size in enumerate(x.shape):
        if d in n.operand_batching_dims:
            operand.append(batch[n.start_indices_batching_dims[n.operand_batching_dims.index(d)]])
            if slice_sizes[d] != 1:  # 0: nothing is read
                b.whole.add(operand[-1][0])
            continue
        if d == searched:
            operand.append((b.new(size, reduced="or" if dtypes.is_bool(x.dtype) else "add"),))
            b.masked.add(operand[-1][0])
            continue
        whole = d in n.start_index_map or slice_sizes[d] != size
        operand.append((b.new(size, whole=whole),))
        if d not in n.collapsed_slice_dims:
            window.append((b.new(slice_sizes[d], whole=True),) if whole else operand[-1])
    rest, offsets = iter(batch[:-1]), iter(window)
    result = [next(offsets) if i in n.offset_dims else next(rest) for i in range(out_avals[0].ndim)]

    def local(ins: Shapes, outs: Shapes) -> Params:
        sizes = [m if s == whole and d not in n.start_index_map else s
                 for d, (s, whole, m) in enumerate(zip(slice_sizes, x.shape, ins[0]))]  # fmt: skip
        return {"slice_sizes": tuple(1 if d in n.operand_batching_dims and s else s for d, s in enumerate(sizes))}

    return b.done([operand, batch], [result], local)


def _searched(x: ShapedArray, n: ix.GatherDimensionNumbers, slice_sizes: Sequence[int]) -> int | None:
    """The dimension in which single positions are looked up, if it is the only one that is indexed."""
    if len(n.start_index_map) != 1:
        return None
    d = n.start_index_map[0]
    return d if d in n.collapsed_slice_dims and x.shape[d] > 1 else None


def _local_positions(
    place: Any, indices: Any, size: int, local: int, factor: int, clamped: bool
) -> tuple[Any, Any, Any]:
    """Index vectors of one component, counted from where the part begins; whether they are in it, and in the whole."""
    dtype = aval_of(indices).dtype
    if dtype.itemsize < 4:
        indices = ew.convert_element_type(indices, dtypes.int32)
        dtype = dtypes.int32
    number = dtype.type
    valid = ew.bitwise_and(ew.ge(indices, number(0)), ew.lt(indices, number(size)))
    if clamped:
        indices = ew.clamp(number(0), indices, number(size - 1))
    start = ew.convert_element_type(place.begin(factor), dtype)
    end = ew.add(start, number(local))
    # The padding of an uneven part is in no whole.
    here = ew.bitwise_and(ew.ge(indices, start), ew.lt(indices, end))
    here = ew.bitwise_and(here, ew.bitwise_and(ew.ge(indices, number(0)), ew.lt(indices, number(size))))
    return ew.sub(indices, start), here, valid


@emission(ix.gather_p)
def _emit_gather(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, indices = operands
    n: ix.GatherDimensionNumbers = eqn.params["dimension_numbers"]
    mode: Mode = eqn.params["mode"]
    dims: Dims = place.factors.operands[0]
    factor = next((dims[d][0] for d in n.start_index_map if dims[d][0] in place.assignment), None)
    if factor is None:
        return place.bind()
    d = n.start_index_map[0]
    whole = eqn.inputs[0].aval.shape[d]
    local, here, valid = _local_positions(
        place, indices, whole, aval_of(x).shape[d], factor, mode is not Mode.FILL_OR_DROP
    )
    found = place.bind(x, local, mode=Mode.CLIP, fill_value=None)[0]
    shape = aval_of(found).shape
    batch = [i for i in range(len(shape)) if i not in n.offset_dims]

    def over(mask: Any) -> Any:
        return st.broadcast_in_dim(st.squeeze(mask, (-1,)), shape, batch)

    dtype = aval_of(found).dtype
    missing: Any = st.full(shape, np_zero(dtype))
    if mode is Mode.FILL_OR_DROP:  # the first part brings what fills positions outside of the whole
        fill = st.full(shape, ix.fill_scalar(eqn.params["fill_value"], dtype))
        first = ew.eq(place.block(factor), 0)
        outside = ew.bitwise_and(ew.bitwise_not(over(valid)), first)
        missing = ew.select_n(outside, missing, fill)
    return [ew.select_n(over(here), missing, found)]


def np_zero(dtype: Any) -> Any:
    """0 of a dtype, as a NumPy scalar."""
    return dtype.type(0)


# -- scatter ----------------------------------------------------------------------------------------------------------


def _scatter_factors(
    in_avals: Avals, out_avals: Avals, *, dimension_numbers: ix.ScatterDimensionNumbers, adds: bool, **_: Any
) -> Factors:
    x, indices, updates = in_avals
    n = dimension_numbers
    b = Builder()
    batch = _batch(b, indices)
    batching = [batch[d][0] for d in n.scatter_indices_batching_dims]
    for ids in batch[:-1]:
        if ids[0] not in batching:
            if adds:
                b.reduced[ids[0]] = "add"
                b.masked.add(ids[0])
            else:
                b.whole.add(ids[0])
    window = ix.window_dims(x.ndim, n)
    operand: list[tuple[int, ...]] = [()] * x.ndim
    for d, e in zip(n.operand_batching_dims, n.scatter_indices_batching_dims):
        operand[d] = batch[e]
    single = len(n.scatter_dims_to_operand_dims) == 1
    for d in n.inserted_window_dims:
        operand[d] = (b.new(x.shape[d], whole=not (single and d in n.scatter_dims_to_operand_dims)),)
    written: list[tuple[int, ...]] = []
    for d, u in zip(window, n.update_window_dims):
        whole = d in n.scatter_dims_to_operand_dims or updates.shape[u] != x.shape[d]
        operand[d] = (b.new(x.shape[d], whole=whole),)
        written.append((b.new(updates.shape[u], whole=True),) if whole else operand[d])
    rest, windows = iter(batch[:-1]), iter(written)
    update = [next(windows) if i in n.update_window_dims else next(rest) for i in range(updates.ndim)]
    return b.done([operand, batch, update], [operand])


@factors(ix.scatter_add_p, ix.scatter_sub_p)
def _scatter_add(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    return _scatter_factors(in_avals, out_avals, adds=True, **params)


@factors(ix.scatter_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p)
def _scatter(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    return _scatter_factors(in_avals, out_avals, adds=False, **params)


@emission(ix.scatter_p, ix.scatter_add_p, ix.scatter_sub_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p)
def _emit_scatter(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, indices, updates = operands
    f: Factors = place.factors
    n: ix.ScatterDimensionNumbers = eqn.params["dimension_numbers"]
    mode: Mode = eqn.params["mode"]
    summed = [i for i in f.reduced if i in place.assignment]
    if summed:
        # The operand counts once; padding of the updates is not counted.
        for i in summed:
            x = ew.select_n(_everywhere(ew.eq(place.block(i), 0), x), st.full_like(x, np_zero(aval_of(x).dtype)), x)
            d = next(d for d, ids in enumerate(f.operands[2]) if ids == (i,))
            updates = place.masked(updates, 2, d, np_zero(aval_of(updates).dtype))
    if len(n.scatter_dims_to_operand_dims) != 1:
        return place.bind(x, indices, updates)
    (searched,) = n.scatter_dims_to_operand_dims
    factor = f.operands[0][searched][0]
    if factor not in place.assignment:
        return place.bind(x, indices, updates)
    whole: int = eqn.inputs[0].aval.shape[searched]
    size = aval_of(x).shape[searched]
    # What is promised not to occur is dropped, as it is of a whole.
    local, here, _ = _local_positions(place, indices, whole, size, factor, mode is Mode.CLIP)
    if not dtypes.is_signed(aval_of(local).dtype):
        local = ew.convert_element_type(local, dtypes.int32)
    outside = st.full_like(local, aval_of(local).dtype.type(-1))
    return place.bind(x, ew.select_n(here, outside, local), updates, mode=Mode.FILL_OR_DROP)


def _everywhere(which: Any, x: Any) -> Any:
    return st.broadcast_in_dim(which, aval_of(x).shape, ())


# -- dynamic slices -----------------------------------------------------------------------------------------------------


@factors(ix.dynamic_slice_p)
def _dynamic_slice(in_avals: Avals, out_avals: Avals, *, slice_sizes: Sequence[int]) -> Factors:
    # Where all of a dimension is taken the start is clamped to 0, whatever it is. Else each device adds what it has.
    b = Builder()
    kind = "or" if dtypes.is_bool(in_avals[0].dtype) else "add"
    operand: list[tuple[int, ...]] = []
    result: list[tuple[int, ...]] = []
    for m, n in zip(in_avals[0].shape, slice_sizes):
        operand.append((b.new(m, reduced=None if m == n else kind),))
        result.append(operand[-1] if m == n else (b.new(n, whole=True),))
        if m != n:
            b.masked.add(operand[-1][0])

    def local(ins: Shapes, outs: Shapes) -> Params:
        return {"slice_sizes": outs[0]}

    return b.done([operand, *[()] * (len(in_avals) - 1)], [result], local)


@emission(ix.dynamic_slice_p)
def _emit_dynamic_slice(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, *starts = operands
    inside: Any = None
    for d, (m, n) in enumerate(zip(eqn.inputs[0].aval.shape, eqn.params["slice_sizes"])):
        if m == n or not place.operand_specs[0][d]:
            continue
        at = ew.sub(_clamped(starts[d], m - n), place.begin(place.factors.operands[0][d][0]))
        shape = aval_of(x).shape
        x, starts[d] = _bordered(x, d, n), ew.clamp(np.int32(0), ew.add(at, np.int32(n)), np.int32(shape[d] + n))
        size = place.result_shapes[0]
        numbers = ew.add(st.iota_p.bind(dtype=dtypes.int32, shape=size, dimension=d), st.broadcast_in_dim(at, size, ()))
        here = ew.bitwise_and(ew.ge(numbers, np.int32(0)), ew.lt(numbers, np.int32(shape[d])))
        inside = here if inside is None else ew.bitwise_and(inside, here)
    starts = _same_dtype(starts)
    out = place.bind(x, *starts)[0]
    return [out if inside is None else ew.select_n(inside, st.full_like(out, np_zero(aval_of(out).dtype)), out)]


def _clamped(start: Any, most: int) -> Any:
    """A start as dynamic slices take it: an int32 from 0 up to `most`."""
    dtype = aval_of(start).dtype
    if dtype.itemsize < 4:
        start, dtype = ew.convert_element_type(start, dtypes.int32), dtypes.int32
    start = ew.clamp(dtype.type(0), start, dtype.type(most))
    return start if dtype == dtypes.int32 else ew.convert_element_type(start, dtypes.int32)


def _same_dtype(starts: Sequence[Any]) -> list[Any]:
    """Starts of one dtype. One that was not taken apart may be outside of what an int32 holds: it is cut off there."""
    if len({aval_of(s).dtype for s in starts}) < 2:
        return list(starts)
    return [
        _clamped(s, np.iinfo(np.int32).max if aval_of(s).dtype.itemsize >= 4 else np.iinfo(aval_of(s).dtype).max)
        for s in starts
    ]


def _bordered(x: Any, d: int, n: int) -> Any:
    """x with n elements more on both sides of a dimension."""
    shape = aval_of(x).shape
    return st.pad(x, np_zero(aval_of(x).dtype), [(n, n, 0) if i == d else (0, 0, 0) for i in range(len(shape))])


@factors(ix.dynamic_update_slice_p)
def _dynamic_update_slice(in_avals: Avals, out_avals: Avals) -> Factors:
    # Each device writes what is in its part.
    b = Builder()
    x, update = in_avals[:2]
    same = [m == n for m, n in zip(x.shape, update.shape)]
    operand = [(b.new(m),) for m in x.shape]
    new = [d if s else (b.new(n, whole=True),) for d, s, n in zip(operand, same, update.shape)]
    return b.done([operand, new, *[()] * (len(in_avals) - 2)], [operand])


@emission(ix.dynamic_update_slice_p)
def _emit_dynamic_update_slice(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, update, *starts = operands
    cut: list[tuple[int, int, int]] = []
    for d, (m, n) in enumerate(zip(eqn.inputs[0].aval.shape, eqn.inputs[1].aval.shape)):
        if m == n or not place.operand_specs[0][d]:
            continue
        at = ew.sub(_clamped(starts[d], m - n), place.begin(place.factors.operands[0][d][0]))
        size = aval_of(x).shape[d]
        x, starts[d] = _bordered(x, d, n), ew.clamp(np.int32(0), ew.add(at, np.int32(n)), np.int32(size + n))
        cut.append((d, n, size))
    out = place.bind(x, update, *_same_dtype(starts))[0]
    for d, n, size in cut:
        shape = aval_of(out).shape
        out = st.slice(
            out,
            [n if i == d else 0 for i in range(len(shape))],
            [n + size if i == d else m for i, m in enumerate(shape)],
        )
    return [out]

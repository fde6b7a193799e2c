"""StableHLO lowering of gather, scatter and dynamic slices.

IREE neither clamps nor drops the indices of gather and scatter, so every index vector is clamped or tested here, in
the dtype of the indices, before it is used; no value of an index reaches outside a buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from ..kernels import KernelTarget, NoKernel, Spec
from ..kernels import scatter as scatter_kernel
from ..kernels.indexing.gather import gather as gather_kernel
from ..kernels.indexing.index_vectors import ComputedVectors, IndexVectors, StoredVectors
from ..kernels.indexing.scatter import ScatterOp
from . import hlo, origins
from .kernel_calls import attempt, call, chosen, spec
from .loop_kernels import expander
from .lowering import Ctx, lowering
from .reductions import jaxpr_body, monoid_body

Value = Any


def index_dtype(size: int) -> DType:
    """The dtype in which positions up to `size` are computed."""
    return dtypes.int32 if size < 2**31 else dtypes.int64


def _last_starts(shape: Sequence[int], window: Sequence[int], index_map: Sequence[int], dtype: DType) -> list[int]:
    """The last start of each index component at which the window is inside, as far as the index dtype goes."""
    top = int(np.iinfo(dtype).max)
    return [min(max(shape[d] - window[d], 0), top) for d in index_map]


def _per_component(values: Sequence[int], indices: Value, dtype: DType) -> Value:
    """One constant for each component of the index vectors, in the indices' shape."""
    shape = hlo.shape_of(indices)
    return hlo.broadcast(hlo.constant(np.asarray(values, dtype), dtype), shape, [len(shape) - 1])


def clamped(indices: Value, last: Sequence[int], dtype: DType, to: DType) -> Value:
    """Index vectors with each component in [0, last], as dtype `to`."""
    low, high = _per_component([0] * len(last), indices, dtype), _per_component(last, indices, dtype)
    return hlo.convert(hlo.minimum(hlo.maximum(indices, low), high), to)


def all_inside(indices: Value, last: Sequence[int], dtype: DType) -> Value:
    """For each index vector, whether every component is in [0, last]."""
    rank = len(hlo.shape_of(indices))
    low, high = _per_component([0] * len(last), indices, dtype), _per_component(last, indices, dtype)
    each = hlo.and_(hlo.compare(indices, low, "GE"), hlo.compare(indices, high, "LE"))
    if len(last) == 1:
        return hlo.reshape(each, hlo.shape_of(indices)[:-1])
    return hlo.reduce(
        [each], [hlo.constant(True, dtypes.bool_)], [rank - 1], lambda a, b: [hlo.and_(a, b)]
    )[0]  # fmt: skip


def _dims(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


# -- gather -----------------------------------------------------------------------------------------------------------


def _gather_as_kernel(
    ctx: Ctx, x: Value, made_of: Sequence[Value], indices: IndexVectors, target: KernelTarget
) -> Value:
    """The gather that an equation is as a kernel of the operand and what its indices are made of. Raises NoKernel."""
    p = ctx.eqn.params
    dims: GatherDimensionNumbers = p["dimension_numbers"]
    aval = ctx.avals_in[0]
    mode = "fill" if p["mode"] is GatherScatterMode.FILL_OR_DROP else "clip"
    fill = ix.fill_scalar(p["fill_value"], aval.dtype)
    kernel = gather_kernel(spec(aval), indices, dims, p["slice_sizes"], target, mode=mode, fill=fill)
    return call(ctx, kernel, [x, *made_of])[0]


def indexed(ctx: Ctx, body: Jaxpr, operands: Sequence[Value], target: KernelTarget) -> list[Value]:
    """A gather or scatter and what computes its index vectors as one kernel. Raises NoKernel."""
    *made, e = body.eqns
    leaves = body.invars[1 : len(body.invars) - len(e.inputs) + 2]
    indices = ComputedVectors(Jaxpr((), leaves, [e.inputs[1]], made), expander(ctx.target))
    inner = Ctx(
        ctx.module, e, [a.aval for a in e.inputs], [v.aval for v in e.outputs], e.source or ctx.source, ctx.shared
    )
    x, made_of, rest = operands[0], operands[1 : len(leaves) + 1], operands[len(leaves) + 1 :]
    if e.primitive is ix.gather_p:
        return [_gather_as_kernel(inner, x, made_of, indices, target)]
    return [_scatter_as_kernel(inner, x, made_of, indices, rest[0], scatter_op(e), target)]


@lowering(ix.gather_p)
def gather(
    ctx: Ctx,
    x: Value,
    indices: Value,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Value:
    d = dimension_numbers
    (aval, index_aval), out = ctx.avals_in, ctx.avals_out[0]
    if out.size == 0:
        return hlo.aval_full(out, 0)
    made = chosen(ctx, lambda target: _gather_as_kernel(ctx, x, [indices], StoredVectors(spec(index_aval)), target))
    if made is not None:
        return made
    last = _last_starts(aval.shape, slice_sizes, d.start_index_map, index_aval.dtype)
    start = clamped(indices, last, index_aval.dtype, index_dtype(max(aval.shape, default=0)))
    fields = [
        f"offset_dims = {_dims(d.offset_dims)}",
        f"collapsed_slice_dims = {_dims(d.collapsed_slice_dims)}",
        f"operand_batching_dims = {_dims(d.operand_batching_dims)}",
        f"start_indices_batching_dims = {_dims(d.start_indices_batching_dims)}",
        f"start_index_map = {_dims(d.start_index_map)}",
        f"index_vector_dim = {index_aval.ndim - 1}",
    ]
    numbers = ", ".join(f for f in fields if not f.endswith("= []"))
    taken = hlo.gather(x, start, numbers, slice_sizes, out.shape, indices_are_sorted)
    if mode is not GatherScatterMode.FILL_OR_DROP or not d.start_index_map:
        return taken
    batch = [i for i in range(out.ndim) if i not in d.offset_dims]
    inside = hlo.broadcast(all_inside(indices, last, index_aval.dtype), out.shape, batch)
    return hlo.select(inside, taken, hlo.aval_full(out, ix.fill_scalar(fill_value, out.dtype)))


# -- scatter ----------------------------------------------------------------------------------------------------------


def scatter_at(
    ctx: Ctx,
    flat: Value,
    positions: Value,
    values: Value,
    body: Callable[..., Sequence[Value]],
    dtype: DType,
    *,
    op: ScatterOp | None = None,
    is_sorted: bool = False,
    unique: bool = False,
) -> Value:
    """A vector with `values` combined into `positions`, both vectors; the position of its size means nowhere.

    The vector gets one more element, into which updates go that belong nowhere. `op` names the combination (set,
    add, mul, min, max) where it is one of these.
    """
    (n,) = hlo.shape_of(flat)
    (m,) = hlo.shape_of(positions)
    if op is not None:
        operand, places, new = Spec.of([n], dtype), Spec.of([m, 1], index_dtype(n + 1)), Spec.of([m], dtype)
        dims = ScatterDimensionNumbers((), (0,), (0,))
        kernel = attempt(ctx, lambda target: scatter_kernel(op, operand, places, new, dims, target))
        if not isinstance(kernel, NoKernel):
            return call(ctx, kernel, [flat, hlo.reshape(positions, [m, 1]), values])[0]
    # Fused into the scatter, the producers of positions and values would need more stack than IREE allows.
    positions, values = hlo.optimization_barrier(hlo.reshape(positions, [m, 1]), values)
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    padded = _append_one(flat, dtype)
    out = hlo.scatter(padded, positions, values, numbers, body, is_sorted=is_sorted, unique=unique)
    return hlo.slice(out, [0], [n])


def _append_one(flat: Value, dtype: DType) -> Value:
    """The vector with one more element; a copy, so that the scatter may work in place."""
    if dtype == dtypes.complex128:  # IREE cannot pad elements of 128 bits
        zero = hlo.constant(0, dtypes.float64)
        return hlo.complex(hlo.pad(hlo.real(flat), zero, [0], [1], [0]), hlo.pad(hlo.imag(flat), zero, [0], [1], [0]))
    return hlo.pad(flat, hlo.constant(0, dtype), [0], [1], [0])


def update_positions(
    indices: Value,
    shape: Sequence[int],
    updates_shape: Sequence[int],
    d: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    dtype: DType,
) -> Value:
    """The flat position in the operand of each element of the updates; the operand's size if it is dropped."""
    size, rank = math.prod(shape), len(updates_shape)
    window = ix.window_dims(len(shape), d)
    sizes = [1] * len(shape)
    for i, j in zip(window, d.update_window_dims):
        sizes[i] = updates_shape[j]
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    work = index_dtype(size + 1)
    batch_dims = [i for i in range(rank) if i not in d.update_window_dims]
    batch_shape = hlo.shape_of(indices)[:-1]
    start = hlo.full(0, batch_shape, work)
    index_map = d.scatter_dims_to_operand_dims
    last = _last_starts(shape, sizes, index_map, dtype)
    if index_map:
        starts = clamped(indices, last, dtype, work)
        scaled = hlo.multiply(starts, _per_component([strides[i] for i in index_map], starts, work))
        (start,) = hlo.reduce(
            [scaled], [hlo.constant(0, work)], [len(batch_shape)], lambda a, b: [hlo.add(a, b)]
        )  # fmt: skip
    for i, e in zip(d.operand_batching_dims, d.scatter_indices_batching_dims):
        step = hlo.full(strides[i], batch_shape, work)
        start = hlo.add(start, hlo.multiply(hlo.iota(batch_shape, e, work), step))
    flat = hlo.broadcast(start, updates_shape, batch_dims)
    for i, j in zip(window, d.update_window_dims):
        if updates_shape[j] > 1:
            step = hlo.full(strides[i], updates_shape, work)
            flat = hlo.add(flat, hlo.multiply(hlo.iota(updates_shape, j, work), step))
    if index_map and mode is not GatherScatterMode.CLIP:
        inside = hlo.broadcast(all_inside(indices, last, dtype), updates_shape, batch_dims)
        flat = hlo.select(inside, flat, hlo.full(size, updates_shape, work))
    return flat


def _scatter_as_kernel(
    ctx: Ctx,
    x: Value,
    made_of: Sequence[Value],
    indices: IndexVectors,
    updates: Value,
    op: ScatterOp | None,
    target: KernelTarget,
) -> Value:
    """The scatter that an equation is as a kernel of the operand, what its indices are made of and updates.

    Raises NoKernel.
    """
    if op is None:
        raise NoKernel("the combination is a function of the program")
    p = ctx.eqn.params
    dims: ScatterDimensionNumbers = p["dimension_numbers"]
    operand, new = spec(ctx.avals_in[0]), spec(ctx.avals_in[2])
    mode = "clip" if p["mode"] is GatherScatterMode.CLIP else "drop"
    kernel = scatter_kernel(
        op, operand, indices, new, dims, target, mode=mode, keep=ctx.is_kept(x), unique=p["unique_indices"]
    )
    return call(ctx, kernel, [x, *made_of, updates])[0]


_OPS: dict[Primitive, ScatterOp] = {
    p: cast("ScatterOp", rd.monoid_by(p))
    for p in (ix.scatter_add_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p)
}


def scatter_op(e: Eqn) -> ScatterOp | None:
    """How a scatter equation combines elements; None for a function of the program's."""
    if e.primitive is ix.scatter_p:
        return "set" if e.params["update_jaxpr"] is None else None
    return _OPS[e.primitive]


def _scatter(
    ctx: Ctx, x: Value, indices: Value, updates: Value, op: ScatterOp | None, body: Callable[..., Sequence[Value]], *,
    dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode,
) -> Value:  # fmt: skip
    aval, index_aval, update_aval = ctx.avals_in
    if aval.size == 0 or update_aval.size == 0:
        return x
    made = chosen(
        ctx,
        lambda target: _scatter_as_kernel(ctx, x, [indices], StoredVectors(spec(index_aval)), updates, op, target),
    )
    if made is not None:
        return made
    flat = update_positions(indices, aval.shape, update_aval.shape, dimension_numbers, mode, index_aval.dtype)
    m = update_aval.size
    out = scatter_at(
        ctx, hlo.reshape(x, [aval.size]), hlo.reshape(flat, [m]), hlo.reshape(updates, [m]), body, aval.dtype,
        op=op, is_sorted=False, unique=unique_indices,
    )  # fmt: skip
    return hlo.reshape(out, aval.shape)


def _combining(ctx: Ctx, x: Value, indices: Value, updates: Value, op: ScatterOp, params: Mapping[str, Any]) -> Value:
    combine = monoid_body(op, ctx.avals_in[0].dtype)
    return _scatter(ctx, x, indices, updates, op, lambda old, new: [combine(old, new)], **params)


@lowering(ix.scatter_p)
def scatter(
    ctx: Ctx, x: Value, indices: Value, updates: Value, *, update_jaxpr: ClosedJaxpr | None, **params: Any
) -> Value:
    body = (lambda old, new: [new]) if update_jaxpr is None else jaxpr_body(ctx, update_jaxpr)
    return _scatter(ctx, x, indices, updates, scatter_op(ctx.eqn), body, **params)


@lowering(*_OPS)
def scatter_combining(ctx: Ctx, x: Value, indices: Value, updates: Value, **params: Any) -> Value:
    return _combining(ctx, x, indices, updates, _OPS[ctx.eqn.primitive], params)


@lowering(ix.scatter_sub_p)
def scatter_sub(ctx: Ctx, x: Value, indices: Value, updates: Value, **params: Any) -> Value:
    return _combining(ctx, x, indices, hlo.negate(updates), "add", params)


# -- dynamic slices ---------------------------------------------------------------------------------------------------


def _starts(ctx: Ctx, starts: Sequence[Value], shape: Sequence[int], sizes: Sequence[int], first: int) -> list[Value]:
    """Scalar start indices, clamped and of one dtype. What is known now is a constant."""
    work = index_dtype(max(shape, default=0))
    out: list[Value] = []
    for start, aval, n, size in zip(starts, ctx.avals_in[first:], shape, sizes):
        high = min(n - size, int(np.iinfo(aval.dtype).max))
        known = origins.integer(start)
        if known is not None:
            out.append(hlo.constant(min(max(known, 0), high), work))
            continue
        low_c, high_c = hlo.constant(0, aval.dtype), hlo.constant(high, aval.dtype)
        out.append(hlo.convert(hlo.minimum(hlo.maximum(start, low_c), high_c), work))
    return out


@lowering(ix.dynamic_slice_p)
def dynamic_slice(ctx: Ctx, x: Value, *start_indices: Value, slice_sizes: tuple[int, ...]) -> Value:
    if ctx.avals_out[0].size == 0:
        return hlo.aval_full(ctx.avals_out[0], 0)
    if not slice_sizes:
        return x
    return hlo.dynamic_slice(x, _starts(ctx, start_indices, ctx.avals_in[0].shape, slice_sizes, 1), slice_sizes)


@lowering(ix.dynamic_update_slice_p)
def dynamic_update_slice(ctx: Ctx, x: Value, update: Value, *start_indices: Value) -> Value:
    shape, sizes = ctx.avals_in[0].shape, ctx.avals_in[1].shape
    if ctx.avals_in[1].size == 0:
        return x
    if sizes == shape:
        return update
    return hlo.dynamic_update_slice(x, update, _starts(ctx, start_indices, shape, sizes, 2))

"""Derivative rules of gather, scatter and dynamic slices: reading and writing are each other's transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.indexing import GatherDimensionNumbers, ScatterDimensionNumbers

from .rules import Linear, Value, Zero, add_tangents, instantiate, is_zero, jvp, transpose, zeros


def scatter_numbers(d: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The dimension numbers of the scatter that writes where a gather reads."""
    return ScatterDimensionNumbers(
        d.offset_dims, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims, d.start_indices_batching_dims
    )


def gather_numbers(d: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """The dimension numbers of the gather that reads where a scatter writes."""
    return GatherDimensionNumbers(
        d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims, d.operand_batching_dims,
        d.scatter_indices_batching_dims,
    )  # fmt: skip


def read_back(x: Value, indices: Value, updates: ShapedArray, params: dict[str, Any]) -> Value:
    """The elements of x at the positions to which a scatter with these parameters writes; 0 for dropped ones."""
    d: ScatterDimensionNumbers = params["dimension_numbers"]
    rank = aval_of(x).ndim
    sizes = [1] * rank
    for i, j in zip(ix.window_dims(rank, d), d.update_window_dims):
        sizes[i] = updates.shape[j]
    if any(size > n for size, n in zip(sizes, aval_of(x).shape)):  # nothing is large enough to be written to
        return zeros(ShapedArray(updates.shape, aval_of(x).dtype))
    return ix.gather(
        x, indices, gather_numbers(d), sizes, indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"], mode=params["mode"], fill_value=0,
    )  # fmt: skip


# -- gather -----------------------------------------------------------------------------------------------------------


@jvp(ix.gather_p)
def gather(primals: Sequence[Value], tangents: Sequence[Any], *, fill_value: Any, **params: Any) -> tuple[Value, Any]:
    x, indices = primals
    out = ix.gather_p.bind(x, indices, fill_value=fill_value, **params)
    zero: Any = None
    if params["mode"] is ix.GatherScatterMode.FILL_OR_DROP:
        zero = 0j if dtypes.is_complex(aval_of(x).dtype) else 0.0
    return out, ix.gather_p.bind(tangents[0], indices, fill_value=zero, **params)


@transpose(ix.gather_p)
def gather_back(
    ct: Value, x: Any, indices: Value, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...],
    fill_value: Any, **params: Any,
) -> Sequence[Any]:  # fmt: skip
    numbers = scatter_numbers(dimension_numbers)
    return [ix.scatter_add_p.bind(zeros(x.aval.cotangent()), indices, ct, dimension_numbers=numbers, **params), None]


# -- scatter_add, scatter_sub -----------------------------------------------------------------------------------------


def _linear_scatter(p: Primitive, sign: Callable[[Value], Value]) -> None:
    def jvp_rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
        x, indices, updates = primals
        tx, _, tu = tangents
        out = p.bind(x, indices, updates, **params)
        if is_zero(tu):
            return out, tx
        return out, p.bind(instantiate(tx), indices, tu, **params)

    def transpose_rule(ct: Value, x: Any, indices: Value, updates: Any, **params: Any) -> Sequence[Any]:
        ct_updates = None
        if isinstance(updates, Linear):
            ct_updates = sign(read_back(ct, indices, updates.aval, params))
        return [ct if isinstance(x, Linear) else None, None, ct_updates]

    jvp.add(p, jvp_rule)
    transpose.add(p, transpose_rule)


def _same(x: Value) -> Value:
    return x


_linear_scatter(ix.scatter_add_p, _same)
_linear_scatter(ix.scatter_sub_p, ew.neg)


# -- scatter ----------------------------------------------------------------------------------------------------------


@jvp(ix.scatter_p)
def scatter(
    primals: Sequence[Value], tangents: Sequence[Any], *, update_jaxpr: ClosedJaxpr | None, **params: Any
) -> tuple[Value, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    out = ix.scatter_p.bind(x, indices, updates, update_jaxpr=update_jaxpr, **params)
    if update_jaxpr is not None:
        raise NotImplementedError(
            "scatter_apply has no derivative: gather the elements, apply the function and scatter the results"
        )
    if params["unique_indices"]:
        return out, ix.scatter_p.bind(instantiate(tx), indices, instantiate(tu), update_jaxpr=None, **params)
    # Which update each element got is found by scattering the updates' numbers, from 1; 0 means that it got none.
    aval = aval_of(updates)
    numbers = st.reshape(ew.add(st.iota(dtypes.int32, aval.size), 1), aval.shape)
    winner = ix.scatter_p.bind(
        st.zeros(aval_of(x).shape, dtypes.int32), indices, numbers, update_jaxpr=None, **params
    )  # fmt: skip
    total: Any = Zero(aval_of(out).tangent())
    if not is_zero(tx):
        total = ew.where(ew.eq(winner, 0), tx, 0.0)
    if not is_zero(tu):
        won = ew.eq(numbers, read_back(winner, indices, aval, params))
        target = instantiate(total)
        total = ix.scatter_add_p.bind(target, indices, ew.where(won, tu, 0.0), **params)
    return out, total


@transpose(ix.scatter_p)
def scatter_back(
    ct: Value, x: Any, indices: Value, updates: Any, *, update_jaxpr: ClosedJaxpr | None, **params: Any
) -> Sequence[Any]:
    if not params["unique_indices"] or update_jaxpr is not None:
        raise NotImplementedError("scatter can be transposed only with unique_indices=True and without a function")
    ct_x = ct_updates = None
    if isinstance(x, Linear):
        ct_x = ix.scatter_p.bind(ct, indices, zeros(aval_of(updates).strong().cotangent()), update_jaxpr=None, **params)
    if isinstance(updates, Linear):
        ct_updates = read_back(ct, indices, updates.aval, params)
    return [ct_x, None, ct_updates]


# -- scatter_mul, scatter_min, scatter_max ----------------------------------------------------------------------------


@jvp(ix.scatter_mul_p)
def scatter_mul(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    out = ix.scatter_mul_p.bind(x, indices, updates, **params)
    total: Any = Zero(aval_of(out).tangent())
    if not is_zero(tx):
        total = ix.scatter_mul_p.bind(tx, indices, updates, **params)
    if not is_zero(tu):
        if not params["unique_indices"]:
            raise NotImplementedError("scatter_mul: derivatives of the updates need unique_indices=True")
        change = ew.mul(tu, read_back(x, indices, aval_of(updates), params))
        nothing = zeros(aval_of(out).strong())
        total = add_tangents(total, ix.scatter_add_p.bind(nothing, indices, change, **params))
    return out, total


@transpose(ix.scatter_mul_p)
def scatter_mul_back(ct: Value, x: Any, indices: Value, updates: Any, **params: Any) -> Sequence[Any]:
    if isinstance(updates, Linear):
        raise NotImplementedError("scatter_mul is transposed in its operand only")
    return [ix.scatter_mul_p.bind(ct, indices, updates, **params), None, None]


def _extreme_scatter(p: Primitive) -> None:
    def rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
        """The mean of the tangents of the old element and of all updates that attain the result."""
        x, indices, updates = primals
        tx, _, tu = tangents
        out = p.bind(x, indices, updates, **params)
        dtype = aval_of(out).dtype
        old = ew.convert_element_type(ew.eq(x, out), dtype)
        new = ew.convert_element_type(ew.eq(updates, read_back(out, indices, aval_of(updates), params)), dtype)
        count = ix.scatter_add_p.bind(old, indices, new, **params)
        total = instantiate(tx) if is_zero(tx) else ew.mul(tx, old)
        if not is_zero(tu):
            total = ix.scatter_add_p.bind(total, indices, ew.mul(tu, new), **params)
        return out, ew.div(total, count)

    jvp.add(p, rule)


_extreme_scatter(ix.scatter_min_p)
_extreme_scatter(ix.scatter_max_p)
transpose.absent("not linear", ix.scatter_min_p, ix.scatter_max_p)


# -- dynamic slices ---------------------------------------------------------------------------------------------------


@jvp(ix.dynamic_slice_p)
def dynamic_slice(
    primals: Sequence[Value], tangents: Sequence[Any], *, slice_sizes: tuple[int, ...]
) -> tuple[Value, Any]:
    x, *starts = primals
    return ix.dynamic_slice_p.bind(x, *starts, slice_sizes=slice_sizes), ix.dynamic_slice_p.bind(
        tangents[0], *starts, slice_sizes=slice_sizes
    )


@transpose(ix.dynamic_slice_p)
def dynamic_slice_back(ct: Value, x: Any, *starts: Value, slice_sizes: tuple[int, ...]) -> Sequence[Any]:
    return [ix.dynamic_update_slice_p.bind(zeros(x.aval.cotangent()), ct, *starts), *[None] * len(starts)]


@jvp(ix.dynamic_update_slice_p)
def dynamic_update_slice(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
    x, update, *starts = primals
    out = ix.dynamic_update_slice_p.bind(x, update, *starts)
    return out, ix.dynamic_update_slice_p.bind(instantiate(tangents[0]), instantiate(tangents[1]), *starts)


@transpose(ix.dynamic_update_slice_p)
def dynamic_update_slice_back(ct: Value, x: Any, update: Any, *starts: Value) -> Sequence[Any]:
    aval = aval_of(update)
    ct_x = ct_update = None
    if isinstance(x, Linear):
        ct_x = ix.dynamic_update_slice_p.bind(ct, zeros(aval.strong().cotangent()), *starts)
    if isinstance(update, Linear):
        ct_update = ix.dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape)
    return [ct_x, ct_update, *[None] * len(starts)]

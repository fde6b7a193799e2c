"""Lowering of collectives between ranks: functions of the host, which the runtime has (`CollectiveCall`).

Of collectives over other named axes there are none left: batching and the partitioner remove them.
"""

from __future__ import annotations

import math
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitives import collectives as co
from quire.ir.primitives import structural as st
from quire.ir.ranks import RankAxis

from ..collective_call import CollectiveCall
from .host_calls import emit_host_call
from .lowering import Ctx, lowering, traced_rule

Value = Any


def _emit(
    ctx: Ctx, kind: str, operands: tuple[Any, ...], names: tuple[Any, ...], groups: co.Groups = None, detail: Any = None
) -> list[Any]:
    """The call of a collective. Raises NotImplementedError for axes that are not of ranks."""
    wrong = [a for a in names if not isinstance(a, RankAxis)]
    if wrong:
        raise ctx.unsupported(
            f"{ctx.eqn.primitive.name} over axis {wrong[0]!r}",
            "a collective belongs to a named axis: vmap or shard_map over the axis turns it into ordinary operations",
        )
    call = CollectiveCall(kind, names, groups, detail)
    return emit_host_call(ctx, call, operands, [ctx.avals_out[0]], name=kind, share=True, borrow=True, fills=True)


@lowering(co.psum_p)
def psum(ctx: Ctx, x: Any, *, axes: tuple[Any, ...], axis_index_groups: co.Groups = None) -> Any:
    return _emit(ctx, "sum", (x,), axes, axis_index_groups)


@lowering(co.pmax_p)
def pmax(ctx: Ctx, x: Any, *, axes: tuple[Any, ...], axis_index_groups: co.Groups = None) -> Any:
    return _emit(ctx, "max", (x,), axes, axis_index_groups)


@lowering(co.pmin_p)
def pmin(ctx: Ctx, x: Any, *, axes: tuple[Any, ...], axis_index_groups: co.Groups = None) -> Any:
    return _emit(ctx, "min", (x,), axes, axis_index_groups)


@lowering(co.ppermute_p)
def ppermute(ctx: Ctx, x: Any, *, axis_name: Any, perm: tuple[tuple[int, int], ...]) -> Any:
    return _emit(ctx, "permute", (x,), co.names_of(axis_name), None, perm)


@lowering(co.pbroadcast_p)
def pbroadcast(ctx: Ctx, x: Any, *, axis_name: Any, source: int) -> Any:
    return _emit(ctx, "broadcast", (x,), co.names_of(axis_name), None, source)


@lowering(co.axis_index_p)
def axis_index(ctx: Ctx, *, axis_name: Any) -> Any:
    return _emit(ctx, "axis_index", (), co.names_of(axis_name))


lowering.absent("emulate-spmd and the partitioner take it away", co.pvary_p, co.pcast_p)


# -- what moves rows: the ranks' dimension comes first ----------------------------------------------------------------


def _front(x: Value, d: int) -> Value:
    order = [d, *(i for i in range(aval_of(x).ndim) if i != d)]
    return x if d == 0 else st.transpose(x, order)


def _back(x: Value, d: int) -> Value:
    order = list(range(1, aval_of(x).ndim))
    order.insert(d, 0)
    return x if d == 0 else st.transpose(x, order)


def _split(x: Value, d: int, k: int) -> Value:
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:d], k, shape[d] // k, *shape[d + 1 :]))


def _merge(x: Value, d: int) -> Value:
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:d], math.prod(shape[d : d + 2]), *shape[d + 2 :]))


def _all_gather(
    x: Value, *, axis_name: Any, all_gather_dimension: int, axis_size: int, tiled: bool,
    axis_index_groups: co.Groups = None,
) -> Value:  # fmt: skip
    groups: dict[str, Any] = {} if axis_index_groups is None else {"axis_index_groups": axis_index_groups}
    x = co.all_gather_p.bind(x, axis_name=axis_name, all_gather_dimension=0, axis_size=axis_size, tiled=False, **groups)
    x = _back(x, all_gather_dimension)
    return _merge(x, all_gather_dimension) if tiled else x


def _reduce_scatter(
    x: Value, *, axis_name: Any, scatter_dimension: int, axis_size: int, tiled: bool,
    axis_index_groups: co.Groups = None,
) -> Value:  # fmt: skip
    groups: dict[str, Any] = {} if axis_index_groups is None else {"axis_index_groups": axis_index_groups}
    if tiled:
        x = _split(x, scatter_dimension, axis_size)
    x = _front(x, scatter_dimension)
    return co.reduce_scatter_p.bind(
        x, axis_name=axis_name, scatter_dimension=0, axis_size=axis_size, tiled=False, **groups
    )


def _all_to_all(
    x: Value, *, axis_name: Any, split_axis: int, concat_axis: int, axis_size: int, axis_index_groups: co.Groups = None
) -> Value:
    groups: dict[str, Any] = {} if axis_index_groups is None else {"axis_index_groups": axis_index_groups}
    x = _front(_split(x, split_axis, axis_size), split_axis)
    x = co.all_to_all_p.bind(x, axis_name=axis_name, split_axis=0, concat_axis=0, axis_size=axis_size, **groups)
    return _merge(_back(x, concat_axis), concat_axis)


_traced_all_gather = traced_rule(_all_gather)
_traced_reduce_scatter = traced_rule(_reduce_scatter)
_traced_all_to_all = traced_rule(_all_to_all)


@lowering(co.all_gather_p)
def all_gather(ctx: Ctx, x: Any, **params: Any) -> Any:
    if params["all_gather_dimension"] or params["tiled"]:
        return _traced_all_gather(ctx, x, **params)
    return _emit(ctx, "all_gather", (x,), co.names_of(params["axis_name"]), params.get("axis_index_groups"))


@lowering(co.reduce_scatter_p)
def reduce_scatter(ctx: Ctx, x: Any, **params: Any) -> Any:
    if params["scatter_dimension"] or params["tiled"]:
        return _traced_reduce_scatter(ctx, x, **params)
    return _emit(ctx, "reduce_scatter", (x,), co.names_of(params["axis_name"]), params.get("axis_index_groups"))


@lowering(co.all_to_all_p)
def all_to_all(ctx: Ctx, x: Any, **params: Any) -> Any:
    if params["split_axis"] or params["concat_axis"] or ctx.avals_in[0].shape[0] != params["axis_size"]:
        return _traced_all_to_all(ctx, x, **params)
    return _emit(ctx, "all_to_all", (x,), co.names_of(params["axis_name"]), params.get("axis_index_groups"))

"""Counterparts of JAX's primitives on arrays whose parameters or meaning differ from quire's."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.errors import UnsupportedError
from quire.ir.primitives import collectives as co
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wd
from quire.ir.tracing import eval_jaxpr

from ..lax.parallel import all_to_all as lax_all_to_all
from ..lax.ragged import ragged_dot
from .comparators import ordered
from .counterparts import Context, alike, counterpart, dtype_of, params_from, place_of

Value = Any


@counterpart("mul")
def mul(context: Context, eqn: Any, x: Value, y: Value) -> Value:
    wide = eqn.params.get("out_dtype")
    if wide is not None:
        x, y = (ew.convert_element_type(v, dtype_of(wide)) for v in (x, y))
    return ew.mul(*alike(x, y))


@counterpart("add_any")
def add_any(context: Context, eqn: Any, x: Value, y: Value) -> Value:
    return ew.add(x, y)


@counterpart("conj")
def conj(context: Context, eqn: Any, x: Value) -> Value:
    if not dtypes.is_complex(aval_of(x).dtype):  # JAX's gives a complex number for a real one
        return ew.complex(x, ew.mul(x, 0))
    return ew.conj(x)


@counterpart("convert_element_type")
def convert_element_type(context: Context, eqn: Any, x: Value) -> Value:
    return ew.convert_element_type_p.bind(
        x, new_dtype=dtype_of(eqn.params["new_dtype"]), weak_type=bool(eqn.params["weak_type"])
    )


@counterpart("zeros_like")
def zeros_like(context: Context, eqn: Any, x: Value) -> Value:
    return st.full_like(x, 0)


@counterpart("empty")
def empty(context: Context, eqn: Any) -> Value:
    return st.empty(eqn.params["shape"], dtype_of(eqn.params["dtype"]))


@counterpart("eq_to", "le_to", "lt_to")
def total_order(context: Context, eqn: Any, x: Value, y: Value) -> Value:
    compare = {"eq_to": ew.eq, "le_to": ew.le, "lt_to": ew.lt}[eqn.primitive.name]
    d = aval_of(x).dtype
    return compare(ordered(x, d), ordered(y, d))


# -- shapes -----------------------------------------------------------------------------------------------------------------


@counterpart("reshape")
def reshape(context: Context, eqn: Any, x: Value) -> Value:
    if eqn.params.get("dimensions") is not None:
        x = st.transpose(x, eqn.params["dimensions"])
    return st.reshape(x, eqn.params["new_sizes"])


@counterpart("broadcast_to")
def broadcast_to(context: Context, eqn: Any, x: Value) -> Value:
    return st.broadcast_to(x, eqn.params["shape"])


@counterpart("stack")
def stack(context: Context, eqn: Any, *xs: Value) -> Value:
    axis = eqn.params["axis"]
    return st.concatenate([st.expand_dims(x, (axis,)) for x in xs], axis)


@counterpart("unstack")
def unstack(context: Context, eqn: Any, x: Value) -> list[Value]:
    axis, n = eqn.params["axis"], aval_of(x).shape[eqn.params["axis"]]
    return [st.squeeze(st.slice_in_dim(x, i, i + 1, 1, axis), (axis,)) for i in range(n)]


@counterpart("iota")
def iota(context: Context, eqn: Any, *sizes: Value) -> Value:
    """The product of `ragged_dot`.

    Raises UnsupportedError for other dimension numbers than its.
    """
    p = eqn.params
    return st.broadcasted_iota(dtype_of(p["dtype"]), p["shape"], p["dimension"])


@counterpart("device_put")
def device_put(context: Context, eqn: Any, *xs: Value) -> list[Value]:
    """Where values lie in JAX says nothing of where they lie here."""
    return list(xs)


@counterpart("sharding_constraint", "layout_constraint", "reshard", "pvary", "tie")
def as_it_is(context: Context, eqn: Any, *xs: Value) -> Value:
    """JAX's devices are none of quire's: a constraint on where values lie there says nothing here."""
    return xs[-1]


@counterpart("dce_sink")
def dce_sink(context: Context, eqn: Any, *xs: Value) -> list[Value]:
    return []


# -- contractions -------------------------------------------------------------------------------------------------------------


@counterpart("dot_general")
def dot_general(context: Context, eqn: Any, lhs: Value, rhs: Value) -> Value:
    """By the function, and not by the primitive, which has no integers of floats."""
    return ct.dot_general(lhs, rhs, **params_from(eqn, tuple(ct.dot_general_p.params)))


@counterpart("ragged_dot_general")
def ragged_dot_general(context: Context, eqn: Any, lhs: Value, rhs: Value, sizes: Value) -> Value:
    """The product of `ragged_dot`.

    Raises UnsupportedError for other dimension numbers than its.
    """
    p = eqn.params
    numbers = p["ragged_dot_dimension_numbers"]
    usual = ((((1,), (1,)), ((), ())), (0,), (0,))
    given = (
        tuple(tuple(tuple(d) for d in pair) for pair in numbers.dot_dimension_numbers),
        tuple(numbers.lhs_ragged_dimensions),
        tuple(numbers.rhs_group_dimensions),
    )
    if given != usual:
        raise UnsupportedError(
            "from_jax: ragged_dot_general with other dimension numbers than those of ragged_dot has no "
            f"counterpart: {numbers}{place_of(eqn)}"
        )
    return ragged_dot(lhs, rhs, sizes, preferred_element_type=p["preferred_element_type"])


@counterpart("symmetric_product")
def symmetric_product(context: Context, eqn: Any, a: Value, c: Value) -> Value:
    alpha, beta = eqn.params["alpha"], eqn.params["beta"]
    d = aval_of(a).dtype
    product = ct.matmul(a, la.transpose_last(a))
    scale = [np.asarray(v, d)[()] for v in (alpha, beta)]
    return ew.add(ew.mul(product, scale[0]), ew.mul(c, scale[1]))


@counterpart("ormqr")
def ormqr(context: Context, eqn: Any, a: Value, taus: Value, c: Value) -> Value:
    m, k = aval_of(a).shape[-2], aval_of(taus).shape[-1]
    batch = aval_of(a).shape[:-2]
    # The whole of q: the reflectors beyond the given ones are the identity.
    wide = st.pad(a, np.zeros((), aval_of(a).dtype)[()], [(0, 0, 0)] * len(batch) + [(0, 0, 0), (0, m - k, 0)])
    factors = st.pad(taus, np.zeros((), aval_of(a).dtype)[()], [(0, 0, 0)] * len(batch) + [(0, m - k, 0)])
    q = la.householder_product(wide, factors)
    if eqn.params["transpose"]:
        q = la.transpose_last(q, conjugate=True)
    return ct.matmul(q, c) if eqn.params["left"] else ct.matmul(c, q)


# -- reductions, windows, indexing, sorting -----------------------------------------------------------------------------------


@counterpart("reduce")
def reduce(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    return rd.reduce_p.bind(*values, jaxpr=context.scalar(p["jaxpr"]), dimensions=tuple(p["dimensions"]))


@counterpart("reduce_window")
def reduce_window(context: Context, eqn: Any, *values: Value) -> list[Value]:
    params = params_from(eqn, ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"))
    function = context.scalar(eqn.params["jaxpr"], eqn.params.get("consts", ()))

    def combined(*scalars: Value) -> list[Value]:
        return eval_jaxpr(function.jaxpr, function.consts, scalars)

    n = len(values) // 2
    return wd.reduce_window(values[:n], values[n:], combined, **params)


_OVER_DIMENSIONS = {"psum": rd.reduce_sum, "pmax": rd.reduce_max, "pmin": rd.reduce_min}


@counterpart(*_OVER_DIMENSIONS)
def over_axes(context: Context, eqn: Any, x: Value) -> Value:
    """Over named axes as quire's; where JAX's vmap has turned an axis into a dimension, a reduction of that."""
    name, axes = eqn.primitive.name, eqn.params["axes"]
    dims = tuple(int(a) for a in axes if isinstance(a, int | np.integer))
    names = tuple(a for a in axes if not isinstance(a, int | np.integer))
    if dims:
        x = _OVER_DIMENSIONS[name](x, dims)
    groups = eqn.params["axis_index_groups"]
    return getattr(co, name)(x, names, None if groups is None else tuple(map(tuple, groups))) if names else x


@counterpart("all_to_all")
def all_to_all(context: Context, eqn: Any, x: Value) -> Value:
    p = eqn.params
    groups = p["axis_index_groups"]
    return lax_all_to_all(
        x, p["axis_name"], p["split_axis"], p["concat_axis"], tiled=bool(p["tiled"]),
        axis_index_groups=None if groups is None else tuple(map(tuple, groups)),
    )  # fmt: skip


@counterpart("select_and_scatter")
def select_and_scatter(context: Context, eqn: Any, x: Value, source: Value, init: Value) -> Value:
    p = eqn.params
    return wd.select_and_scatter_p.bind(
        x, source, init,
        select_jaxpr=context.scalar(p["select_jaxpr"], p["select_consts"]),
        scatter_jaxpr=context.scalar(p["scatter_jaxpr"], p["scatter_consts"]),
        **params_from(eqn, ("window_dimensions", "window_strides", "padding")),
    )  # fmt: skip


@counterpart("select_and_scatter_add")
def select_and_scatter_add(context: Context, eqn: Any, source: Value, x: Value) -> Value:
    params = params_from(eqn, ("window_dimensions", "window_strides", "padding"))
    return wd.select_and_scatter_add_p.bind(source, x, select_prim=eqn.params["select_prim"].name, **params)


@counterpart("select_and_gather_add")
def select_and_gather_add(context: Context, eqn: Any, tangents: Value, x: Value) -> Value:
    names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    return wd.select_and_gather_add_p.bind(
        tangents, x, select_prim=eqn.params["select_prim"].name, **params_from(eqn, names)
    )


@counterpart("gather")
def gather(context: Context, eqn: Any, x: Value, indices: Value) -> Value:
    params = params_from(eqn, tuple(ix.gather_p.params))
    fill = params["fill_value"]
    if getattr(eqn.params["mode"], "name", "") == "ONE_HOT":
        fill = 0
    return ix.gather(x, indices, **{**params, "fill_value": fill})


@counterpart("scatter")
def scatter(context: Context, eqn: Any, x: Value, indices: Value, updates: Value) -> Value:
    p = eqn.params
    params = params_from(eqn, ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode"))
    update = p.get("update_jaxpr")
    function = None if update is None else context.scalar(update, p.get("update_consts", ()))
    return ix.scatter_p.bind(x, indices, updates, update_jaxpr=function, **params)


@counterpart("approx_top_k")
def approx_top_k(context: Context, eqn: Any, x: Value) -> list[Value]:
    """The exact ones: recall is 1. Raises UnsupportedError where the parts of a division are asked for."""
    p = eqn.params
    largest = bool(p["is_max_k"])
    values, indices = so.top_k(x if largest else ew.neg(x), p["k"], p["reduction_dimension"])
    if not p.get("aggregate_to_topk", True):
        raise UnsupportedError(f"from_jax: approx_top_k with aggregate_to_topk=False has no counterpart{place_of(eqn)}")
    return [values if largest else ew.neg(values), indices]

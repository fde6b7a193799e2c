"""Counterparts of StableHLO's operations that hold regions or call others: reductions, sorts, loops, indexing, calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr, Literal
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import linalg as la
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wd
from quire.ir.tracing import eval_jaxpr, trace_flat

from ..lax.control_flow import cond, scan, switch, while_loop
from .comparators import order_of, sort_by
from .mlir_reading import aval_of_value, flag, integer, ints, ints_in, named_lists, refuse, string, text_of
from .stablehlo_walk import OPERATIONS, Walk, counterpart, scalar_of

Value = Any


def _scalars(values: Sequence[Value]) -> list[ShapedArray]:
    return [ShapedArray((), aval_of(x).dtype) for x in values]


def _combination(walk: Walk, op: Any, values: Sequence[Value]) -> Callable[..., list[Value]]:
    """The region that combines elements, as a function of accumulators and elements."""
    outer = dict(walk.around)

    def combine(*xs: Value) -> list[Value]:
        return walk.region(op.regions[0], xs, outer)

    return combine


# -- reductions and windows -----------------------------------------------------------------------------------------------------


def _extreme(jaxpr: ClosedJaxpr) -> str | None:
    """Whether (value, index) pairs are combined to the largest or the smallest with its first index, as argmax does."""
    avals = jaxpr.in_avals
    if len(avals) != 4 or not dtypes.is_integer(avals[1].dtype):
        return None
    for name, better in (("argmax", ew.gt), ("argmin", ew.lt)):
        for with_nan in (True, False):

            def body(
                x: Value, i: Value, y: Value, j: Value, better: Any = better, with_nan: bool = with_nan
            ) -> list[Value]:
                picked = better(x, y)
                if with_nan:
                    picked = ew.bitwise_or(picked, ew.ne(x, x))
                index = ew.bitwise_or(picked, ew.bitwise_and(ew.eq(x, y), ew.lt(i, j)))
                return [ew.select_n(picked, y, x), ew.select_n(index, j, i)]

            try:
                found, captured, _ = trace_flat(body, avals, name="argmax")
            except TypeError:  # complex numbers
                return None
            if not captured and ClosedJaxpr(found) == jaxpr:
                return name
    return None


@counterpart("reduce")
def reduce(walk: Walk, op: Any, *values: Value) -> list[Value]:
    n = len(values) // 2
    xs, inits = values[:n], [scalar_of(v) for v in values[n:]]
    dims = ints(op, "dimensions")
    if n == 2 and len(dims) == 1 and aval_of(xs[0]).shape[dims[0]]:
        which = _extreme(walk.scalar(op, 0, _scalars(xs) * 2))
        counted = _is_count(op.operands[1], dims[0])
        if which is not None and counted:
            index = (rd.argmax if which == "argmax" else rd.argmin)(xs[0], dims[0], aval_of(xs[1]).dtype)
            best = (rd.reduce_max if which == "argmax" else rd.reduce_min)(xs[0], dims)
            return [best, index]
    return rd.reduce(xs, inits, _combination(walk, op, xs), dims)


def _is_count(value: Any, dim: int) -> bool:
    """Whether a value of the module is the counting numbers along a dimension."""
    owner = value.owner
    op = getattr(owner, "operation", owner)
    return getattr(op, "name", "") in ("stablehlo.iota", "vhlo.iota_v1") and integer(op, "iota_dimension") == dim


_CUMULATIVE = {"add": rd.cumsum, "mul": rd.cumprod, "max": rd.cummax, "min": rd.cummin}


def _cumulative(
    walk: Walk, op: Any, x: Value, init: Value, window: Sequence[int], pads: Any, ones: bool
) -> Value | None:
    """A window that is as long as the only dimension that it has, padded on one side: all prefixes, or suffixes."""
    shape = aval_of(x).shape
    long = [i for i, w in enumerate(window) if w != 1]
    if len(long) != 1 or not ones:
        return None
    (axis,) = long
    rest = [p for i, p in enumerate(pads) if i != axis]
    n = shape[axis]
    if window[axis] != n or any(p != (0, 0) for p in rest) or pads[axis] not in ((n - 1, 0), (0, n - 1)):
        return None
    monoid = rd.monoid_of(walk.scalar(op, 0, _scalars([x]) * 2))
    if monoid not in _CUMULATIVE or not rd.is_identity(monoid, init, aval_of(x).dtype):
        return None
    if dtypes.is_bool(aval_of(x).dtype):
        return None
    return _CUMULATIVE[monoid](x, axis, pads[axis] == (0, n - 1))


@counterpart("reduce_window")
def reduce_window(walk: Walk, op: Any, *values: Value) -> list[Value]:
    n = len(values) // 2
    xs, inits = values[:n], [scalar_of(v) for v in values[n:]]
    rank = aval_of(xs[0]).ndim
    one = (1,) * rank
    window = ints(op, "window_dimensions")
    strides, base = ints(op, "window_strides", one), ints(op, "base_dilations", one)
    dilation = ints(op, "window_dilations", one)
    flat = ints(op, "padding", (0, 0) * rank)
    pads = list(zip(flat[::2], flat[1::2]))
    if n == 1:
        plain = strides == base == dilation == one
        found = _cumulative(walk, op, xs[0], inits[0], window, pads, plain)
        if found is not None:
            return [found]
    return wd.reduce_window(xs, inits, _combination(walk, op, xs), window, strides, pads, base, dilation)


@counterpart("select_and_scatter")
def select_and_scatter(walk: Walk, op: Any, x: Value, source: Value, init: Value) -> Value:
    rank = aval_of(x).ndim
    flat = ints(op, "padding", (0, 0) * rank)
    pads = list(zip(flat[::2], flat[1::2]))
    window = ints(op, "window_dimensions", (1,) * rank)
    strides = ints(op, "window_strides", (1,) * rank)
    pair = _scalars([x]) * 2
    chosen, added = walk.scalar(op, 0, pair), walk.scalar(op, 1, pair)
    init = scalar_of(init)
    select = chosen.eqns[0].primitive.name if len(chosen.eqns) == 1 else ""
    in_order = bool(chosen.eqns) and chosen.eqns[0].inputs == chosen.jaxpr.invars
    monoid = rd.monoid_of(added)
    if select in ("ge", "le") and in_order and monoid == "add" and rd.is_identity("add", init, aval_of(x).dtype):
        return wd.select_and_scatter_add(source, x, select, window, strides, pads)
    return wd.select_and_scatter_p.bind(
        x, source, init, select_jaxpr=chosen, scatter_jaxpr=added, window_dimensions=window, window_strides=strides,
        padding=tuple(pads),
    )  # fmt: skip


@counterpart("map")
def map_(walk: Walk, op: Any, *xs: Value) -> list[Value]:
    """A function of scalars on each element: it is made of elementwise operations, which take whole arrays too."""
    jaxpr = walk.scalar(op, 0, _scalars(xs))
    if any(e.primitive.family != "elementwise" for e in jaxpr.eqns):
        raise refuse(op, "its function is not made of elementwise operations alone")
    shape = aval_of(xs[0]).shape
    return [st.broadcast_to(y, shape) for y in eval_jaxpr(jaxpr.jaxpr, (), xs)]


# -- sorting ----------------------------------------------------------------------------------------------------------------------


@counterpart("sort")
def sort(walk: Walk, op: Any, *xs: Value) -> list[Value]:
    dimension = integer(op, "dimension", -1)
    types = [aval_of(x).dtype for x in xs]
    pairs = [ShapedArray((), d) for d in types for _ in range(2)]
    order = order_of(walk.scalar(op, 0, pairs), types)
    if order is None:
        raise refuse(op, "its comparator is none of an ascending or descending order of the first operands")
    return sort_by(order, xs, types, dimension % max(1, aval_of(xs[0]).ndim))


@counterpart("chlo.top_k")
def top_k(walk: Walk, op: Any, x: Value) -> list[Value]:
    values, indices = so.top_k(x, integer(op, "k"))
    return [values, ew.convert_element_type(indices, aval_of_value(op.results[1], op).dtype)]


# -- indexing ---------------------------------------------------------------------------------------------------------------------


def _indices_last(indices: Value, dim: int) -> Value:
    """Index vectors along the last dimension."""
    n = aval_of(indices).ndim
    if dim == n:
        return st.expand_dims(indices, (n,))
    return st.transpose(indices, (*(i for i in range(n) if i != dim), dim))


def _numbers(op: Any, name: str, fields: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if name in op.attributes:
        return named_lists(text_of(op, name))
    found = {f: ints(op, f) for f in fields}
    return {**found, "index_vector_dim": (integer(op, "index_vector_dim"),)}


@counterpart("gather")
def gather(walk: Walk, op: Any, x: Value, indices: Value) -> Value:
    fields = (
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    )
    found = _numbers(op, "dimension_numbers", fields)
    dim = found.get("index_vector_dim", (0,))[0]
    numbers = ix.GatherDimensionNumbers(*(found.get(f, ()) for f in fields))
    return ix.gather(
        x, _indices_last(indices, dim), numbers, ints(op, "slice_sizes"),
        indices_are_sorted=flag(op, "indices_are_sorted"), mode="clip",
    )  # fmt: skip


_SCATTERS = {
    "add": (ix.scatter_add, ()), "mul": (ix.scatter_mul, ()), "min": (ix.scatter_min, ()), "max": (ix.scatter_max, ()),
}  # fmt: skip


@counterpart("scatter")
def scatter(walk: Walk, op: Any, *values: Value) -> Value:
    if len(values) != 3:
        raise refuse(op, "of several arrays at once it has no counterpart")
    x, indices, updates = values
    fields = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
              "scatter_indices_batching_dims")  # fmt: skip
    found = _numbers(op, "scatter_dimension_numbers", fields)
    numbers = ix.ScatterDimensionNumbers(*(found.get(f, ()) for f in fields))
    indices = _indices_last(indices, found.get("index_vector_dim", (0,))[0])
    params: dict[str, Any] = {
        "indices_are_sorted": flag(op, "indices_are_sorted"), "unique_indices": flag(op, "unique_indices"), "mode": "drop",
    }  # fmt: skip
    jaxpr = walk.scalar(op, 0, _scalars([x]) * 2)
    if not jaxpr.eqns and jaxpr.jaxpr.outvars[0] is jaxpr.jaxpr.invars[1]:
        return ix.scatter(x, indices, updates, numbers, **params)
    monoid = rd.monoid_of(jaxpr)
    if monoid in _SCATTERS and not dtypes.is_bool(aval_of(x).dtype):
        return _SCATTERS[monoid][0](x, indices, updates, numbers, **params)
    return ix.scatter_p.bind(
        x, indices, updates, dimension_numbers=numbers, update_jaxpr=jaxpr,
        **{**params, "mode": ix.GatherScatterMode.FILL_OR_DROP},
    )  # fmt: skip


@counterpart("dynamic_slice")
def dynamic_slice(walk: Walk, op: Any, x: Value, *starts: Value) -> Value:
    return ix.dynamic_slice(x, [scalar_of(s) for s in starts], ints(op, "slice_sizes"))


@counterpart("dynamic_update_slice")
def dynamic_update_slice(walk: Walk, op: Any, x: Value, update: Value, *starts: Value) -> Value:
    return ix.dynamic_update_slice(x, update, [scalar_of(s) for s in starts])


# -- control flow -----------------------------------------------------------------------------------------------------------------


def _trips(walk: Walk, op: Any, values: Sequence[Value]) -> tuple[int, int] | None:
    """Of a loop that counts from a known number to a known one: the counter's place in the carry, and the turns."""
    avals = [aval_of(x).strong() for x in values]
    outer = dict(walk.around)
    test, captured, _ = trace_flat(lambda *xs: walk.region(op.regions[0], xs, outer), avals, name="condition")
    if captured or len(test.eqns) != 1 or test.eqns[0].primitive is not ew.lt_p:
        return None
    counter, bound = test.eqns[0].inputs
    if not isinstance(bound, Literal) or counter not in test.invars or list(test.outvars) != list(test.eqns[0].outputs):
        return None
    place = test.invars.index(counter)
    start = scalar_of(values[place])
    if not isinstance(start, np.generic | int):
        return None
    body, captured, _ = trace_flat(lambda *xs: walk.region(op.regions[1], xs, outer), avals, name="body")
    mine, after = body.invars[len(captured) + place], body.outvars[place]
    for eqn in body.eqns:
        if eqn.outputs[0] is after and eqn.primitive is ew.add_p:
            one = [a for a in eqn.inputs if a is not mine]
            if len(one) == 1 and isinstance(one[0], Literal) and one[0].value == 1:
                return place, max(0, int(bound.value) - int(start))
    return None


@counterpart("while")
def while_(walk: Walk, op: Any, *values: Value) -> list[Value]:
    """A loop that counts known turns is a scan, which has a derivative in reverse."""
    outer = dict(walk.around)
    counted = _trips(walk, op, values)

    def turn(carry: Sequence[Value]) -> list[Value]:
        return walk.region(op.regions[1], carry, outer)

    if counted is not None:
        out = scan(lambda c, _: (turn(c), None), list(values), None, counted[1])[0]
    else:
        out = while_loop(lambda c: walk.region(op.regions[0], c, outer)[0], turn, list(values))
    walk.around = outer
    return list(out)


@counterpart("if")
def if_(walk: Walk, op: Any, pred: Value) -> list[Value]:
    outer = dict(walk.around)
    out = cond(pred, *(lambda r=r: walk.region(r, [], outer) for r in op.regions))
    return list(out)


@counterpart("case")
def case(walk: Walk, op: Any, index: Value) -> list[Value]:
    """An index out of range, a negative one too, takes the last branch."""
    outer = dict(walk.around)
    last = np.int32(len(op.regions) - 1)
    known = ew.bitwise_and(ew.ge(index, np.int32(0)), ew.le(index, last))
    out = switch(ew.select_n(known, last, index), [lambda r=r: walk.region(r, [], outer) for r in op.regions])
    return list(out)


@counterpart("func.call")
def call(walk: Walk, op: Any, *values: Value) -> list[Value]:
    outer = walk.around
    out = walk.call(string(op, "callee"), values, op)
    walk.around = outer
    return out


@counterpart("composite")
def composite(walk: Walk, op: Any, *values: Value) -> list[Value]:
    """An operation of CHLO by its name, where quire has it; else what it is made of."""
    name = string(op, "name")
    if name == "chlo.top_k":
        found = re.search(r'\bk(?:">)? = (?:integer<)?(-?\d+)', text_of(op, "composite_attributes"))
        if found and [aval_of_value(r, op).dtype for r in op.results][1] == dtypes.int32:
            return list(so.top_k(values[0], int(found[1])))
    elif name in OPERATIONS and name.startswith("chlo.") and len(op.results) == 1:
        return [OPERATIONS[name](walk, op, *values)]
    return walk.call(string(op, "decomposition"), values, op)


# -- custom calls -----------------------------------------------------------------------------------------------------------------

_AS_IT_IS = (
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint",
    "xla.sdy.FuncResultSharding",
    "MoveToHost", "MoveToDevice",
)  # fmt: skip


def _letter(op: Any, name: str) -> str:
    """A character that LAPACK is told, of a custom call's configuration (``uplo = 76 : ui8``)."""
    found = re.search(rf"\b{name} = (\d+)", text_of(op, "mhlo.backend_config"))
    return chr(int(found[1])) if found else ""


def _done(op: Any, place: int) -> Value:
    """LAPACK's report of success for each matrix: failures are NaN in quire's results."""
    aval = aval_of_value(op.results[place], op)
    return st.zeros(aval.shape, aval.dtype)


def _potrf(op: Any, x: Value) -> list[Value]:
    lower = _letter(op, "uplo") == "L"
    factor = la.cholesky(x) if lower else la.transpose_last(la.cholesky(la.transpose_last(x, True)), True)
    return [factor, _done(op, 1)]


def _getrf(op: Any, x: Value) -> list[Value]:
    lu, pivots, _ = la.lu(x)
    return [lu, ew.add(pivots, np.int32(1)), _done(op, 2)]


def _geqrf(op: Any, x: Value) -> list[Value]:
    return [*la.geqrf(x), *([_done(op, 2)] if len(op.results) > 2 else [])]


def _orgqr(op: Any, a: Value, taus: Value) -> list[Value]:
    return [la.householder_product(a, taus), *([_done(op, 1)] if len(op.results) > 1 else [])]


def _syevd(op: Any, x: Value) -> list[Value]:
    return [*la.eigh(x, lower=_letter(op, "uplo") == "L"), _done(op, 2)]


def _gesdd(op: Any, x: Value) -> list[Value]:
    mode = _letter(op, "mode")
    if mode not in "ASN":
        raise refuse(op, f"mode {mode!r} of LAPACK's gesdd has no counterpart")
    found = la.svd(x, full_matrices=mode == "A", compute_uv=mode != "N")
    rest = [found[1], found[2]] if mode != "N" else [st.zeros(aval_of_value(r, op).shape, aval_of_value(r, op).dtype)
                                                   for r in list(op.results)[2:4]]  # fmt: skip
    return [x, found[0], *rest, _done(op, 4)]


def _trsm(op: Any, a: Value, b: Value) -> list[Value]:
    how = _letter(op, "trans_x")
    return [
        la.triangular_solve(
            a, b, left_side=_letter(op, "side") == "L", lower=_letter(op, "uplo") == "L", transpose_a=how in "TC",
            conjugate_a=how == "C", unit_diagonal=_letter(op, "diag") == "U",
        )
    ]  # fmt: skip


_LAPACK: dict[str, Callable[..., list[Value]]] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "orgqr": _orgqr, "ungqr": _orgqr, "syevd": _syevd,
    "heevd": _syevd, "gesdd": _gesdd, "trsm": _trsm,
}  # fmt: skip


@counterpart("custom_call")
def custom_call(walk: Walk, op: Any, *values: Value) -> list[Value]:
    target = string(op, "call_target_name")
    if target in _AS_IT_IS:
        return list(values)[: len(op.results)]
    if target == "shape_assertion":
        return []
    if target.startswith("mhlo.") and f"chlo.{target[5:]}" in OPERATIONS:
        found = OPERATIONS[f"chlo.{target[5:]}"](walk, op, *values)
        return found if isinstance(found, list) else [found]
    if target == "mhlo.topk":
        k = integer(op, "k") or int(ints_in(text_of(op, "mhlo.attributes"))[0])
        return list(so.top_k(values[0], k))
    lapack = re.fullmatch(r"(?:lapack|blas)_[sdcz](\w+?)(?:_ffi)?", target)
    if lapack and lapack[1] in _LAPACK:
        return _LAPACK[lapack[1]](op, *values)
    raise refuse(op, f"the custom call @{target} has no counterpart")

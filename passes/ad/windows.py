"""Derivative rules of windowed reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wd
from quire.ir.primitives.reductions import reducer_jaxpr

from .rules import Linear, Value, Zero, define_jvp, define_linear, instantiate, is_zero, jvp, transpose, zeros


def _sum_back(ct: Value, aval: ShapedArray, **p: Any) -> Value:
    """Every cotangent added to all elements of its window: a windowed sum over cotangents, spread by the strides."""
    if not aval_of(ct).size or not aval.size:
        return zeros(aval)
    config: list[tuple[int, int, int]] = []
    for n, m, w, s, (lo, _), b, d in zip(
        aval.shape, aval_of(ct).shape, p["window_dimensions"], p["window_strides"], p["padding"], p["base_dilation"],
        p["window_dilation"],
    ):  # fmt: skip
        base, reach, spread = (n - 1) * b + 1, (w - 1) * d + 1, (m - 1) * s + 1
        before = reach - lo - 1
        config.append((before, base + reach - 1 - spread - before, s - 1))
    if all(before >= 0 and after >= 0 for before, after, _ in config):
        return wd.reduce_window_sum(
            ct, p["window_dimensions"], p["base_dilation"], [c[:2] for c in config], p["window_strides"],
            p["window_dilation"],
        )  # fmt: skip
    padded = st.pad(ct, np.zeros((), aval_of(ct).dtype)[()], config)
    return wd.reduce_window_sum(
        padded, p["window_dimensions"], p["base_dilation"], [(0, 0)] * aval.ndim, None, p["window_dilation"]
    )


define_linear(wd.reduce_window_sum_p, _sum_back)


def _max(t: Value, ans: Value, x: Value, **params: Any) -> Value:
    return wd.select_and_gather_add(t, x, "ge", **params)


def _min(t: Value, ans: Value, x: Value, **params: Any) -> Value:
    return wd.select_and_gather_add(t, x, "le", **params)


define_jvp(wd.reduce_window_max_p, _max)
define_jvp(wd.reduce_window_min_p, _min)
transpose.absent("not linear", wd.reduce_window_max_p, wd.reduce_window_min_p)
jvp.absent("its function may be any: use the gradient of a maximum or minimum over windows", wd.select_and_scatter_p)
transpose.absent("not linear", wd.reduce_window_p, wd.select_and_scatter_p)


@jvp(wd.reduce_window_p)
def reduce_window(
    primals: Sequence[Value], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[list[Value], list[Value]]:
    """Values and tangents are reduced together, by the function and its derivative; integers have no tangents."""
    from .jvp import jvp_eval

    n = len(primals) // 2
    none = [Zero(aval_of(x).tangent()) for x in primals]
    moving = [i for i in range(n) if none[i].aval.dtype != dtypes.float0]

    def tangents_of(given: Sequence[Value]) -> list[Any]:
        return [given[moving.index(i)] if i in moving else none[n + i] for i in range(n)]

    def combine(*args: Value) -> list[Value]:
        half = n + len(moving)
        a, b = args[:half], args[half:]
        out, out_ts = jvp_eval(jaxpr.jaxpr, [*a[:n], *b[:n]], [*tangents_of(a[n:]), *tangents_of(b[n:])])
        return [*out, *(instantiate(out_ts[i]) for i in moving)]

    arrays = [*primals[:n], *(instantiate(tangents[i]) for i in moving)]
    inits = [*primals[n:], *(instantiate(tangents[n + i]) for i in moving)]
    reducer = reducer_jaxpr("reduce_window", combine, [aval_of(x) for x in arrays])
    out = wd.reduce_window_p.bind(*arrays, *inits, jaxpr=reducer, **params)
    found = dict(zip(moving, out[n:], strict=True))
    return out[:n], [found[i] if i in moving else Zero(aval_of(x).tangent()) for i, x in enumerate(out[:n])]


# -- selection: linear in the first operand, the selection itself has no derivative -------------------------


@jvp(wd.select_and_gather_add_p)
def gather_jvp(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
    out = wd.select_and_gather_add_p.bind(*primals, **params)
    if is_zero(tangents[0]):
        return out, Zero(aval_of(out).tangent())
    return out, wd.select_and_gather_add_p.bind(tangents[0], primals[1], **params)


@jvp(wd.select_and_scatter_add_p)
def scatter_jvp(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
    out = wd.select_and_scatter_add_p.bind(*primals, **params)
    if is_zero(tangents[0]):
        return out, Zero(aval_of(out).tangent())
    return out, wd.select_and_scatter_add_p.bind(tangents[0], primals[1], **params)


@transpose(wd.select_and_gather_add_p)
def gather_back(
    ct: Value, tangents: Linear, x: Value, *, select_prim: str, base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...], **params: Any,
) -> Sequence[Any]:  # fmt: skip
    if all(d == 1 for d in (*base_dilation, *window_dilation)):
        return [wd.select_and_scatter_add_p.bind(ct, x, select_prim=select_prim, **params), None]
    at = _selected(x, select_prim, base_dilation=base_dilation, window_dilation=window_dilation, **params)
    size = aval_of(x).size
    numbers = ix.ScatterDimensionNumbers((), (0,), (0,))
    flat = st.zeros((size,), aval_of(ct).dtype)
    count = aval_of(ct).size
    out = ix.scatter_add(flat, st.reshape(at, (count, 1)), st.reshape(ct, (count,)), numbers)
    return [st.reshape(out, aval_of(x).shape), None]


@transpose(wd.select_and_scatter_add_p)
def scatter_back(ct: Value, source: Linear, x: Value, **params: Any) -> Sequence[Any]:
    ones = (1,) * aval_of(x).ndim
    return [wd.select_and_gather_add_p.bind(ct, x, base_dilation=ones, window_dilation=ones, **params), None]


def _selected(x: Value, select_prim: str, **params: Any) -> Value:
    """For each window the flat position in x of its extreme element; the size of x for windows without elements."""
    aval = aval_of(x)
    positions = st.reshape(st.iota(dtypes.int32, aval.size), aval.shape)
    beats = ew.gt if select_prim == "ge" else ew.lt
    worst = np.asarray(-np.inf if select_prim == "ge" else np.inf, aval.dtype)[()]

    def pick(a: Value, i: Value, b: Value, j: Value) -> tuple[Value, Value]:
        take = ew.bitwise_or(beats(b, a), ew.bitwise_and(ew.eq(a, b), ew.lt(j, i)))
        return ew.select_n(take, a, b), ew.select_n(take, i, j)

    # Which element is selected has no derivative: without this, the reduction would carry tangents that nothing reads.
    return wd.reduce_window([ew.stop_gradient(x), positions], [worst, np.int32(aval.size)], pick, **params)[1]

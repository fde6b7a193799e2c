"""StableHLO lowering of windowed reductions.

IREE takes select_and_scatter only without overlap and padding, so where there is no kernel the positions that windows
select are found by a windowed reduction of (value, position) pairs; then they are gathered or scattered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import windows as wd

from ..kernels import Kernel, KernelTarget, Spec
from ..kernels.windows import pooling, pooling_grad
from ..kernels.windows.window_loops import Op, Windows
from . import hlo
from .indexing import scatter_at
from .kernel_calls import call, chosen, spec
from .lowering import Ctx, lower_jaxpr, lowering
from .reductions import arg_body, jaxpr_body, monoid_body, wide
from .structural import signed_dtype

Value = Any
Template = Callable[[Op, Spec, Windows, KernelTarget], Kernel]


@lowering(wd.reduce_window_p)
def reduce_window(ctx: Ctx, *operands: Value, jaxpr: ClosedJaxpr, **params: Any) -> list[Value]:
    n = len(operands) // 2
    shape = ctx.avals_out[0].shape
    _check_width(ctx)
    return hlo.reduce_window(operands[:n], operands[n:], jaxpr_body(ctx, jaxpr), shape, **params)


def _check_width(ctx: Ctx) -> None:
    if any(a.dtype == dtypes.complex128 for a in ctx.avals_in):
        raise ctx.unsupported("windows of complex128", "IREE has no elements of 128 bits; only sums are done")


def _windowed(monoid: str) -> Callable[..., Value]:
    def rule(ctx: Ctx, x: Value, **params: Any) -> Value:
        dtype, shape = ctx.avals_in[0].dtype, ctx.avals_out[0].shape
        kernel = _as_kernel(ctx, ctx.avals_in[0], pooling.pooling, monoid, params)
        if kernel is not None:
            return call(ctx, kernel, [x])[0]
        if dtypes.is_complex(dtype) and monoid == "add":
            part = dtypes.real_dtype(dtype)
            return hlo.complex(_sum(hlo.real(x), part, shape, params), _sum(hlo.imag(x), part, shape, params))
        _check_width(ctx)
        work = signed_dtype(wide(dtype) if monoid == "add" else dtype)
        unsigned = dtypes.is_unsigned(dtype)
        x = hlo.bitcast(x, work) if unsigned else hlo.convert(hlo.widened(x), work)
        # Unsigned numbers have the order of signed ones whose first bit is flipped.
        flip = np.iinfo(work).min if unsigned and monoid != "add" else None
        x = x if flip is None else hlo.xor(x, hlo.full_like(x, flip, work))
        init = hlo.constant(rd.identity_of(monoid, work), work)
        combine = monoid_body(monoid, work)
        (out,) = hlo.reduce_window([x], [init], lambda a, b: [combine(a, b)], shape, **params)
        out = out if flip is None else hlo.xor(out, hlo.full_like(out, flip, work))
        return hlo.bitcast(out, dtype) if unsigned else hlo.convert(out, dtype)

    return rule


_OPS: dict[str, Op] = {"add": "sum", "max": "max", "min": "min"}


def _as_kernel(
    ctx: Ctx, operand: ShapedArray, template: Template, monoid: str, params: dict[str, Any]
) -> Kernel | None:
    """The kernel of a template for the windows of an operand; None, with the reason recorded, where there is none."""
    ones = (1,) * operand.ndim
    windows = Windows(
        params["window_dimensions"], params["window_strides"], params["padding"], params.get("window_dilation", ones),
        params.get("base_dilation", ones),
    )  # fmt: skip
    return chosen(ctx, lambda target: template(_OPS[monoid], spec(operand), windows, target))


def _sum(x: Value, dtype: DType, shape: Sequence[int], params: dict[str, Any]) -> Value:
    """The sums of the windows of one part of complex numbers."""
    zero = hlo.constant(0, dtype)
    return hlo.reduce_window([x], [zero], lambda a, b: [hlo.add(a, b)], shape, **params)[0]


for _p in (wd.reduce_window_sum_p, wd.reduce_window_max_p, wd.reduce_window_min_p):
    lowering.add(_p, _windowed(rd.monoid_by(_p)))


def _selected(
    ctx: Ctx, x: Value, dtype: DType, body: Callable[..., Sequence[Value]], init: Value, params: dict[str, Any],
    elementwise: bool = False,
) -> Value:  # fmt: skip
    """For each window the flat position in x that it selects, as a vector; the size of x for none.

    `elementwise`: `body` may be given arrays, too.
    """
    shape = hlo.shape_of(x)
    size = math.prod(shape)
    ones = (1,) * len(shape)
    params = {"base_dilation": ones, "window_dilation": ones} | params
    out = wd.window_shape(
        ctx.eqn.primitive.name, ctx.avals_in[0].update(shape=shape), params["window_dimensions"],
        params["window_strides"], params["padding"], params["base_dilation"], params["window_dilation"],
    )  # fmt: skip
    positions = hlo.reshape(hlo.iota([size], 0, dtypes.int32), shape)
    nowhere = hlo.constant(size, dtypes.int32)
    if elementwise and math.prod(params["window_dimensions"]) <= _FEW:
        at = _by_elements([x, positions], [init, nowhere], body, out, **params)[1]
    else:
        _, at = hlo.reduce_window([x, positions], [init, nowhere], body, out, **params)
    return hlo.reshape(at, [math.prod(out)])


_FEW = 128


def _by_elements(
    operands: Sequence[Value], inits: Sequence[Value], body: Callable[..., Sequence[Value]], out_shape: Sequence[int], *,
    window_dimensions: Sequence[int], window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int], window_dilation: Sequence[int],
) -> list[Value]:  # fmt: skip
    """As `hlo.reduce_window`, place by place of the window: each is a slice with strides, and `body` combines arrays.

    For GPUs, where IREE's window reductions of several operands do not compile for CUDA ("failed to bufferize op").
    """
    low, high = zip(*padding)
    padded = [hlo.pad(x, i, low, high, [n - 1 for n in base_dilation]) for x, i in zip(operands, inits)]
    padded = hlo.optimization_barrier(*padded)
    total: list[Value] = []
    for place in np.ndindex(*window_dimensions):
        start = [p * d for p, d in zip(place, window_dilation)]
        limit = [s + (n - 1) * t + 1 for s, n, t in zip(start, out_shape, window_strides)]
        part = [hlo.slice(x, start, limit, window_strides) for x in padded]
        total = part if not total else list(body(*total, *part))
    return total


def _extreme_at(ctx: Ctx, x: Value, dtype: DType, select_prim: str, params: dict[str, Any]) -> Value:
    work = wide(dtype)
    worst = hlo.constant(rd.identity_of("max" if select_prim == "ge" else "min", work), work)
    return _selected(
        ctx,
        hlo.convert(hlo.widened(x), work),
        work,
        arg_body(work, select_prim == "ge"),
        worst,
        params,
        ctx.target.on_gpu,
    )


@lowering(wd.select_and_scatter_add_p)
def select_and_scatter_add(ctx: Ctx, source: Value, x: Value, *, select_prim: str, **params: Any) -> Value:
    aval = ctx.avals_out[0]
    if aval.size == 0 or ctx.avals_in[0].size == 0:
        return hlo.aval_full(aval, 0)
    work = wide(aval.dtype)
    monoid = "max" if select_prim == "ge" else "min"
    kernel = _as_kernel(ctx, aval, pooling_grad.pooling_grad, monoid, params)
    if kernel is not None:
        return hlo.convert(call(ctx, kernel, [source, x])[0], aval.dtype)
    at = _extreme_at(ctx, x, aval.dtype, select_prim, params)
    values = hlo.reshape(hlo.convert(hlo.widened(source), work), hlo.shape_of(at))
    zeros = hlo.full(0, [aval.size], work)
    out = scatter_at(ctx, zeros, at, values, lambda a, b: [hlo.add(a, b)], work, op="add")
    return hlo.convert(hlo.reshape(out, aval.shape), aval.dtype)


@lowering(wd.select_and_gather_add_p)
def select_and_gather_add(ctx: Ctx, tangents: Value, x: Value, *, select_prim: str, **params: Any) -> Value:
    aval, size = ctx.avals_out[0], ctx.avals_in[0].size
    if aval.size == 0 or size == 0:
        return hlo.aval_full(aval, 0)
    at = _extreme_at(ctx, x, aval.dtype, select_prim, params)
    last = hlo.full(size - 1, hlo.shape_of(at), dtypes.int32)
    taken = hlo.take(hlo.reshape(tangents, [size]), hlo.minimum(at, last))
    inside = hlo.compare(at, last, "LE")
    return hlo.reshape(hlo.select(inside, taken, hlo.full_like(taken, 0, aval.dtype)), aval.shape)


@lowering(wd.select_and_scatter_p)
def select_and_scatter(
    ctx: Ctx, x: Value, source: Value, init_value: Value, *, select_jaxpr: ClosedJaxpr, scatter_jaxpr: ClosedJaxpr,
    **params: Any,
) -> Value:  # fmt: skip
    aval = ctx.avals_out[0]
    filled = hlo.broadcast(init_value, [aval.size], ())
    if aval.size == 0 or ctx.avals_in[1].size == 0:
        return hlo.reshape(filled, aval.shape)
    nowhere = aval.size

    def body(a: Value, i: Value, b: Value, j: Value) -> Sequence[Value]:
        (stays,) = lower_jaxpr(ctx.module, select_jaxpr.jaxpr, (), [a, b], ctx.source)
        no = hlo.constant(nowhere, dtypes.int32)
        empty_a, empty_b = hlo.compare(i, no, "EQ"), hlo.compare(j, no, "EQ")
        take_b = hlo.and_(hlo.not_(empty_b), hlo.or_(empty_a, hlo.not_(stays)))
        return [hlo.select(take_b, b, a), hlo.select(take_b, j, i)]

    at = _selected(ctx, x, aval.dtype, body, hlo.constant(0, aval.dtype), params)
    values = hlo.reshape(source, hlo.shape_of(at))
    out = scatter_at(ctx, filled, at, values, jaxpr_body(ctx, scatter_jaxpr), aval.dtype)
    return hlo.reshape(out, aval.shape)

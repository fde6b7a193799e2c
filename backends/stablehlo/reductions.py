"""StableHLO lowering of reductions over dimensions, arg-reductions and cumulative reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import reductions as rd

from ..kernels import Kernel, KernelChain
from ..kernels import cumulative as cumulative_kernel
from ..kernels.elements.combiner import Op
from . import hlo, long_reductions
from .kernel_calls import call, chosen, spec
from .lowering import Ctx, lower_jaxpr, lowering
from .structural import signed_dtype

Value = Any


def wide(dtype: DType) -> DType:
    """The dtype in which sums and products accumulate: f32 for f16 and bf16."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


# -- scalar functions of the reduction bodies -----------------------------------------------------------------------


def is_nan(x: Value) -> Value:
    """Where x is NaN."""
    return hlo.compare(x, x, "NE")


def greater(a: Value, b: Value, dtype: DType) -> Value:
    """a > b; complex numbers compare lexicographically."""
    if not dtypes.is_complex(dtype):
        return hlo.compare(a, b, "GT")
    ar, br = hlo.real(a), hlo.real(b)
    later = hlo.compare(hlo.imag(a), hlo.imag(b), "GT")
    return hlo.or_(hlo.compare(ar, br, "GT"), hlo.and_(hlo.compare(ar, br, "EQ"), later))


def has_nan(x: Value, dtype: DType) -> Value | None:
    """Whether a value is NaN, or has a NaN part; None for dtypes that have no NaN."""
    if dtypes.is_complex(dtype):
        return hlo.or_(is_nan(hlo.real(x)), is_nan(hlo.imag(x)))
    return is_nan(x) if dtypes.is_float(dtype) else None


def _extreme(a: Value, b: Value, dtype: DType, larger: bool) -> Value:
    """max or min of two scalars; the first NaN if there is one."""
    if not dtypes.is_complex(dtype):
        return (hlo.maximum if larger else hlo.minimum)(a, b)
    nan_a, nan_b = has_nan(a, dtype), has_nan(b, dtype)
    assert nan_a is not None and nan_b is not None
    b_wins = greater(b, a, dtype) if larger else greater(a, b, dtype)
    return hlo.select(hlo.and_(hlo.or_(b_wins, nan_b), hlo.not_(nan_a)), b, a)


Combine = Callable[[Value, Value], Value]


def monoid_body(monoid: str, dtype: DType) -> Combine:
    """The scalar function of add, mul, max, min, and, or, xor."""
    if monoid in ("max", "min"):
        return lambda a, b: _extreme(a, b, dtype, monoid == "max")
    return {"add": hlo.add, "mul": hlo.multiply, "and": hlo.and_, "or": hlo.or_, "xor": hlo.xor}[monoid]


def jaxpr_body(ctx: Ctx, jaxpr: ClosedJaxpr) -> Callable[..., Sequence[Value]]:
    """A nested jaxpr of scalars as the body of a reduction."""

    def body(*scalars: Value) -> Sequence[Value]:
        outside, ctx.module.of_elements = ctx.module.of_elements, True
        try:
            return lower_jaxpr(ctx.module, jaxpr.jaxpr, (), scalars, ctx.source)
        finally:
            ctx.module.of_elements = outside

    return body


# -- reductions over dimensions ---------------------------------------------------------------------------------------


def _reduction(monoid: str) -> Callable[..., Value]:
    def rule(ctx: Ctx, x: Value, *, axes: tuple[int, ...]) -> Value:
        dtype = ctx.avals_in[0].dtype
        work = wide(dtype) if monoid in ("add", "mul") else dtype
        combine = monoid_body(monoid, work)
        init = hlo.constant(rd.identity_of(monoid, work), work)
        negated = monoid == "add" and ctx.target.on_gpu and hlo.made_by(x, "stablehlo.negate")
        # IREE makes a subtraction of the sum of what is negated, of which its GPU code does not know the neutral element.
        out = hlo.convert(hlo.widened(x.owner.operands[0] if negated else x), work)
        for some in _steps(x, axes) if monoid == "add" else [axes]:
            (out,) = long_reductions.reduce(
                ctx, [out], [init], some, lambda a, b: [combine(a, b)], monoid == "add" and dtypes.is_inexact(work)
            )
        return hlo.convert(hlo.negate(out) if negated else out, dtype)

    return rule


_DEPTH = 6
_MOVES = frozenset(
    f"stablehlo.{name}" for name in ("slice", "dynamic_slice", "pad", "concatenate", "reverse", "transpose", "reshape")
)
"""The operations that only move elements: a part of rows that are all the same is such rows too."""


def _is_spread(x: Value, depth: int = _DEPTH) -> bool:
    """Whether x is computed, element by element or by moving them, from an array of fewer dimensions or from positions."""
    owner = x.owner
    if isinstance(owner, mlir.Block) or not depth:
        return False
    if owner.name == "stablehlo.broadcast_in_dim":
        return bool(hlo.shape_of(owner.operands[0]))
    if owner.name == "stablehlo.iota":
        return True
    if owner.name == "stablehlo.gather":  # of one row IREE makes a broadcast, wherever its indices clamp them to 0
        return math.prod(hlo.shape_of(owner.operands[0])) < math.prod(hlo.shape_of(x)) or _is_spread(
            owner.operands[0], depth - 1
        )
    if owner.name in ("stablehlo.case", "stablehlo.if"):  # of branches that give the same IREE takes it
        number = mlir.OpResult(x).result_number
        given = [list(region.blocks[0].operations)[-1].operands[number] for region in owner.regions]
        return any(_is_spread(v, depth - 1) for v in given)
    size = math.prod(hlo.shape_of(x))
    # Operands of a kernel's dispatch are not all tensors: sizes are of type index.
    tensors = [v for v in owner.operands if isinstance(v.type, mlir.RankedTensorType)]
    moved = owner.name in _MOVES
    return any(_is_spread(v, depth - 1) for v in tensors if moved or math.prod(hlo.shape_of(v)) == size)


def _steps(x: Value, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The axes of a sum, in steps.

    IREE 3.13 makes a vector.contract of the sum of a product over several dimensions, and fails ("invalid accumulator/result
    vector shape") where a factor is a row for all of them: then the last dimension is summed first.
    """
    owner = x.owner
    if len(axes) < 2 or isinstance(owner, mlir.Block) or owner.name != "stablehlo.multiply":
        return [axes]
    if not any(_is_spread(v) for v in owner.operands):
        return [axes]
    return [(max(axes),), tuple(a for a in axes if a != max(axes))]


for _monoid in rd.MONOIDS.values():
    lowering.add(_monoid.reduction, _reduction(_monoid.name))


@lowering(rd.reduce_p)
def reduce(ctx: Ctx, *operands: Value, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]) -> list[Value]:
    n = len(operands) // 2
    return hlo.reduce(operands[:n], operands[n:], dimensions, jaxpr_body(ctx, jaxpr))


def arg_body(dtype: DType, larger: bool) -> Callable[..., Sequence[Value]]:
    """(value, index) pairs to the pair that wins: extreme value, NaN before all, then the lower index."""

    def body(a: Value, i: Value, b: Value, j: Value) -> Sequence[Value]:
        b_wins = greater(b, a, dtype) if larger else greater(a, b, dtype)
        a_wins = greater(a, b, dtype) if larger else greater(b, a, dtype)
        nan_a, nan_b = has_nan(a, dtype), has_nan(b, dtype)
        if nan_a is not None and nan_b is not None:
            b_wins = hlo.or_(hlo.and_(b_wins, hlo.not_(nan_a)), hlo.and_(nan_b, hlo.not_(nan_a)))
            a_wins = hlo.or_(hlo.and_(a_wins, hlo.not_(nan_b)), hlo.and_(nan_a, hlo.not_(nan_b)))
        tie = hlo.not_(hlo.or_(a_wins, b_wins))
        take_b = hlo.or_(b_wins, hlo.and_(tie, hlo.compare(j, i, "LT")))
        return [hlo.select(take_b, b, a), hlo.select(take_b, j, i)]

    return body


def _arg_reduction(larger: bool) -> Callable[..., Value]:
    def rule(ctx: Ctx, x: Value, *, axes: tuple[int, ...], index_dtype: DType) -> Value:
        aval = ctx.avals_in[0]
        work = wide(aval.dtype)
        positions = hlo.iota(aval.shape, axes[0], dtypes.int32)
        worst = hlo.constant(rd.identity_of("max" if larger else "min", work), work)
        # The initial index is beyond all others, so that it never wins a tie.
        beyond = hlo.constant(np.iinfo(np.int32).max, dtypes.int32)
        operands = [hlo.convert(hlo.widened(x), work), positions]
        _, at = long_reductions.reduce(ctx, operands, [worst, beyond], axes, arg_body(work, larger))
        return hlo.convert(at, index_dtype)

    return rule


lowering.add(rd.argmax_p, _arg_reduction(True))
lowering.add(rd.argmin_p, _arg_reduction(False))


# -- cumulative -------------------------------------------------------------------------------------------------------


def shifted(x: Value, axis: int, by: int, fill: Value, reverse: bool) -> Value:
    """x moved by some places along an axis, away from its start (its end if `reverse`); `fill` comes in."""
    rank = len(hlo.shape_of(x))
    low, high = [0] * rank, [0] * rank
    low[axis], high[axis] = (-by, by) if reverse else (by, -by)
    return hlo.pad(x, fill, low, high, [0] * rank)


def _pad_along(x: Value, dtype: DType, axis: int, by: int, fill: Any, reverse: bool) -> Value:
    """`shifted` for any dtype: the parts of complex numbers one by one, since IREE cannot pad complex128."""
    if not dtypes.is_complex(dtype):
        return shifted(x, axis, by, hlo.constant(fill, dtype), reverse)
    part = dtypes.real_dtype(dtype)
    return hlo.complex(
        shifted(hlo.real(x), axis, by, hlo.constant(np.real(fill), part), reverse),
        shifted(hlo.imag(x), axis, by, hlo.constant(np.imag(fill), part), reverse),
    )


def scan_by_doubling(x: Value, dtype: DType, axis: int, reverse: bool, fill: Any, combine: Combine) -> Value:
    """Cumulative reduction in log2(n) steps: after step k every element holds 2^k of them."""
    by, n = 1, hlo.shape_of(x)[axis]
    while by < n:
        x = combine(_pad_along(x, dtype, axis, by, fill, reverse), x)
        by *= 2
    return x


def scan_by_window(x: Value, axis: int, reverse: bool, init: Value, combine: Combine) -> Value:
    """Cumulative reduction as a windowed one as long as the axis, which IREE recognises: O(n). Not for unsigned."""
    shape = hlo.shape_of(x)
    n, rank = shape[axis], len(shape)
    ones = [1] * rank
    window, padding = list(ones), [(0, 0)] * rank
    window[axis] = n
    padding[axis] = (0, n - 1) if reverse else (n - 1, 0)
    return hlo.reduce_window(
        [x], [init], lambda a, b: [combine(a, b)], shape, window_dimensions=window, window_strides=ones,
        padding=padding, base_dilation=ones, window_dilation=ones,
    )[0]  # fmt: skip


_KERNEL_OPS: dict[str, Op] = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _cumulative_kernel(ctx: Ctx, op: Op, axis: int, reverse: bool) -> Kernel | KernelChain | None:
    operand = spec(ctx.avals_in[0])
    return chosen(ctx, lambda target: cumulative_kernel(op, operand, axis, target, reverse=reverse))


def _cumulative(monoid: str) -> Callable[..., Value]:
    def rule(ctx: Ctx, x: Value, *, axis: int, reverse: bool) -> Value:
        aval = ctx.avals_in[0]
        dtype = aval.dtype
        if aval.size == 0 or aval.shape[axis] == 1:
            return x
        # The kernel orders complex numbers with -0 below 0, unlike JAX.
        if monoid not in ("max", "min") or not dtypes.is_complex(dtype):
            kernel = _cumulative_kernel(ctx, _KERNEL_OPS[monoid], axis, reverse)
            if kernel is not None:
                return call(ctx, kernel, [x])[0]
        if dtypes.is_complex(dtype):
            init = rd.identity_of(monoid, dtype)
            return scan_by_doubling(x, dtype, axis, reverse, init, monoid_body(monoid, dtype))
        if dtypes.is_unsigned(dtype):
            return _unsigned_scan(x, dtype, axis, reverse, monoid)
        work = wide(dtype)
        init = hlo.constant(rd.identity_of(monoid, work), work)
        return hlo.convert(
            scan_by_window(hlo.convert(hlo.widened(x), work), axis, reverse, init, monoid_body(monoid, work)), dtype
        )

    return rule


def _unsigned_scan(x: Value, dtype: DType, axis: int, reverse: bool, monoid: str) -> Value:
    """The scan on signed numbers of the same bits; for max and min their order is that of flipped sign bits."""
    signed = signed_dtype(dtype)
    x = hlo.bitcast(x, signed)
    init = hlo.constant(rd.identity_of(monoid, signed), signed)
    flip = hlo.full_like(x, np.iinfo(signed).min, signed) if monoid in ("max", "min") else None
    x = x if flip is None else hlo.xor(x, flip)
    x = scan_by_window(x, axis, reverse, init, monoid_body(monoid, signed))
    return hlo.bitcast(x if flip is None else hlo.xor(x, flip), dtype)


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p):
    lowering.add(_p, _cumulative(rd.monoid_by(_p)))


def _log_add_exp(a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)) of real tensors: the larger one plus log1p(exp(the difference))."""
    top, low = hlo.maximum(a, b), hlo.minimum(a, b)
    return hlo.select(hlo.is_finite(top), hlo.add(top, hlo.log_plus_one(hlo.exponential(hlo.subtract(low, top)))), top)


def _log_add_exp_complex(a: Value, b: Value, dtype: DType) -> Value:
    part = dtypes.real_dtype(dtype)
    zero = hlo.full(0, hlo.shape_of(a), part)
    top = hlo.maximum(hlo.real(a), hlo.real(b))
    top = hlo.complex(hlo.select(hlo.is_finite(top), top, zero), zero)
    total = hlo.add(hlo.exponential(hlo.subtract(a, top)), hlo.exponential(hlo.subtract(b, top)))
    return hlo.add(hlo.log(total), top)


@lowering(rd.cumlogsumexp_p)
def cumlogsumexp(ctx: Ctx, x: Value, *, axis: int, reverse: bool) -> Value:
    dtype = ctx.avals_in[0].dtype
    if ctx.avals_in[0].size == 0:
        return x
    kernel = _cumulative_kernel(ctx, "logsumexp", axis, reverse)
    if kernel is not None:
        return call(ctx, kernel, [x])[0]
    if dtypes.is_complex(dtype):

        def combine(a: Value, b: Value) -> Value:
            return _log_add_exp_complex(a, b, dtype)

        return scan_by_doubling(x, dtype, axis, reverse, rd.lowest(dtype), combine)
    work = wide(dtype)
    out = scan_by_doubling(hlo.convert(hlo.widened(x), work), work, axis, reverse, rd.lowest(work), _log_add_exp)
    return hlo.convert(out, dtype)

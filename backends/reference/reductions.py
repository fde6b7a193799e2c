"""Reference rules of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import reductions as rd

from .rules import reference
from .scalar_functions import apply_scalar


def widened(x: Any) -> Any:
    """f16 and bf16 as f32, in which they accumulate; others unchanged."""
    return x.astype(np.float32) if x.dtype in (dtypes.float16, dtypes.bfloat16) else x


@reference(rd.reduce_sum_p)
def reduce_sum(x: Any, *, axes: tuple[int, ...]) -> Any:
    x = widened(x)
    return np.add.reduce(x, axis=axes, dtype=x.dtype)  # np.sum itself, without its wrappers: 1 us


@reference(rd.reduce_prod_p)
def reduce_prod(x: Any, *, axes: tuple[int, ...]) -> Any:
    x = widened(x)
    return np.multiply.reduce(x, axis=axes, dtype=x.dtype)


def signed_zeros(out: Any, x: Any, largest: bool, anywhere: Callable[[Any], Any]) -> Any:
    """Extrema with zeros of the sign that they have in IEEE 754: of two zeros the positive one is larger.

    NumPy's reductions take either. `anywhere` tells of a mask like x where it is true among the elements of each extremum.
    """
    if x.dtype.kind != "f" or out.all():
        return out
    minus = np.signbit(x)
    winning = anywhere((x == 0) & (~minus if largest else minus))
    zeros = np.where(winning, 0.0, -0.0) if largest else np.where(winning, -0.0, 0.0)
    return np.where(out == 0, zeros.astype(out.dtype), out)


@reference(rd.reduce_max_p)
def reduce_max(x: Any, *, axes: tuple[int, ...]) -> Any:
    x = widened(x)
    out = np.maximum.reduce(x, axis=axes, initial=rd.lowest(x.dtype))
    return signed_zeros(out, x, True, lambda mask: np.logical_or.reduce(mask, axis=axes))


@reference(rd.reduce_min_p)
def reduce_min(x: Any, *, axes: tuple[int, ...]) -> Any:
    x = widened(x)
    out = np.minimum.reduce(x, axis=axes, initial=rd.highest(x.dtype))
    return signed_zeros(out, x, False, lambda mask: np.logical_or.reduce(mask, axis=axes))


def _bitwise(ufunc: np.ufunc) -> Callable[..., Any]:
    def rule(x: Any, *, axes: tuple[int, ...]) -> Any:
        return ufunc.reduce(x, axis=axes)

    return rule


reference.add(rd.reduce_and_p, _bitwise(np.bitwise_and))
reference.add(rd.reduce_or_p, _bitwise(np.bitwise_or))
reference.add(rd.reduce_xor_p, _bitwise(np.bitwise_xor))


@reference(rd.reduce_p)
def reduce(*operands: Any, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]) -> Any:
    n = len(operands) // 2
    kept = [i for i in range(operands[0].ndim) if i not in dimensions]
    shape = [operands[0].shape[i] for i in kept]
    elements = [x.transpose((*dimensions, *kept)).reshape(-1, *shape) for x in operands[:n]]
    accumulators = [np.broadcast_to(init, shape) for init in operands[n:]]
    for i in range(elements[0].shape[0]):
        accumulators = apply_scalar(jaxpr, *accumulators, *(x[i] for x in elements))
    return accumulators


@reference(rd.argmax_p)
def argmax(x: Any, *, axes: tuple[int, ...], index_dtype: Any) -> Any:
    return np.argmax(widened(x), axis=axes[0])


@reference(rd.argmin_p)
def argmin(x: Any, *, axes: tuple[int, ...], index_dtype: Any) -> Any:
    return np.argmin(widened(x), axis=axes[0])


def _cumulative(accumulate: Callable[..., Any]) -> Callable[..., Any]:
    def rule(x: Any, *, axis: int, reverse: bool) -> Any:
        wide = widened(x)
        wide = np.flip(wide, axis) if reverse else wide
        out = accumulate(wide, axis)
        return np.flip(out, axis) if reverse else out

    return rule


def _running_sum(x: Any, axis: int) -> Any:
    return np.cumsum(x, axis, dtype=x.dtype) + x.dtype.type(0)  # a sum starts with 0: none is -0


def _running_extremum(ufunc: np.ufunc) -> Callable[[Any, int], Any]:
    def accumulate(x: Any, axis: int) -> Any:
        out = ufunc.accumulate(x, axis)
        return signed_zeros(out, x, ufunc is np.maximum, lambda mask: np.logical_or.accumulate(mask, axis))

    return accumulate


def _log_sum_exp(x: Any, axis: int) -> Any:
    if not dtypes.is_complex(x.dtype):
        return np.logaddexp.accumulate(x, axis)
    out = np.moveaxis(x.copy(), axis, 0)
    for i in range(1, len(out)):
        a, b = out[i - 1], out[i]
        top = np.maximum(a.real, b.real)
        top = np.where(np.isfinite(top), top, 0)
        out[i] = np.log(np.exp(a - top) + np.exp(b - top)) + top
    return np.moveaxis(out, 0, axis)


reference.add(rd.cumsum_p, _cumulative(_running_sum))
reference.add(rd.cumprod_p, _cumulative(lambda x, axis: np.cumprod(x, axis, dtype=x.dtype)))
reference.add(rd.cummax_p, _cumulative(_running_extremum(np.maximum)))
reference.add(rd.cummin_p, _cumulative(_running_extremum(np.minimum)))
reference.add(rd.cumlogsumexp_p, _cumulative(_log_sum_exp))

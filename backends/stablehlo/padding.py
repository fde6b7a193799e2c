"""Padding of what is in memory as one kernel, which writes each element once.

IREE fills the result and copies what is padded into it. What it computes itself it writes into the filled array, so that there
is nothing to gain; and what is computed element by element is padded by the kernel that computes it (`passes/fusion/stencils`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Jaxpr, Literal, Var
from quire.ir.primitives import structural as st

from ..kernels import NoKernel
from ..kernels.fused.stencils import stencil_kernel
from . import hlo
from .kernel_calls import attempt, call
from .loop_kernels import expander
from .lowering import Ctx

#: Elements of a result, and of its rows, from which the kernel is quicker.
LEAST, LEAST_ROW = 16384, 16


def pad(
    ctx: Ctx, x: Any, dtype: DType, value: Any, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Any:
    """`hlo.pad` of x, of a dtype, with `value`, a number or a scalar: by a kernel if that is worth it."""
    plain = not any(interior) and min((*low, *high, 0)) == 0 and (any(low) or any(high))
    # IREE writes short rows one element after another: what is computed is stored first.
    apart = plain and (_is_stored(x) or hlo.shape_of(x)[-1] < LEAST_ROW)
    padded = _by_kernel(ctx, x, dtype, value, low, high) if apart else None
    if padded is not None:
        return padded
    return hlo.pad(x, hlo.constant(value, dtype) if isinstance(value, np.ndarray) else value, low, high, interior)


def _by_kernel(ctx: Ctx, x: Any, dtype: DType, value: Any, low: Sequence[int], high: Sequence[int]) -> Any:
    """x padded by a kernel; None where there is none, or it is not worth it."""
    shape = hlo.shape_of(x)
    rows, low_rows, high_rows = _in_rows(shape, low, high)
    out = [lo + n + hi for n, lo, hi in zip(rows, low_rows, high_rows)]
    if not math.prod(rows) or math.prod(out) < LEAST or out[-1] < LEAST_ROW:
        return None
    number = isinstance(value, np.ndarray)
    body = _padding(ShapedArray(tuple(rows), dtype), value if number else None, low_rows, high_rows)
    kernel = attempt(ctx, lambda target: stencil_kernel(body, target, expander(ctx.target), 1))
    if isinstance(kernel, NoKernel):
        return None
    (padded,) = call(ctx, kernel, [hlo.reshape(x, rows)] + ([] if number else [value]))
    return hlo.reshape(padded, [lo + n + hi for n, lo, hi in zip(shape, low, high)])


def _is_stored(x: Any) -> bool:
    """Whether x is in memory: an argument, or what a kernel has made."""
    owner = hlo.base_of(x).owner
    return isinstance(owner, mlir.Block) or owner.name == "flow.dispatch"


def _in_rows(shape: Sequence[int], low: Sequence[int], high: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """The shape and padding with each dimension that is not padded as part of the one before it."""
    rows, low_rows, high_rows = list(shape[:1]), list(low[:1]), list(high[:1])
    for n, lo, hi in zip(shape[1:], low[1:], high[1:]):
        if lo or hi:
            rows, low_rows, high_rows = [*rows, n], [*low_rows, lo], [*high_rows, hi]
        else:
            rows[-1], low_rows[-1], high_rows[-1] = rows[-1] * n, low_rows[-1] * n, high_rows[-1] * n
    return rows, low_rows, high_rows


def _padding(aval: ShapedArray, fill: np.ndarray[Any, Any] | None, low: Sequence[int], high: Sequence[int]) -> Jaxpr:
    """One equation that pads an array, with a number or with its second argument."""
    x, of = Var(aval), Var(ShapedArray((), aval.dtype))
    out = Var(ShapedArray(tuple(lo + n + hi for n, lo, hi in zip(aval.shape, low, high)), aval.dtype))
    value = of if fill is None else Literal(fill, of.aval)
    params = {"padding_config": tuple((lo, hi, 0) for lo, hi in zip(low, high))}
    eqn = Eqn([x, value], [out], st.pad_p, params, st.pad_p.effects(params))
    return Jaxpr((), [x, of] if fill is None else [x], [out], [eqn])


__all__ = ["pad"]

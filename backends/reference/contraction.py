"""Reference rules of contractions: NumPy's matmul over operands brought to (batch, rows, inner) form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitives import contraction as ct

from .rules import reference

Array = np.ndarray[Any, Any]


def accumulation_dtype(operands: DType, preferred: DType | None) -> DType:
    """The dtype in which products are summed: f32 for f16 and bf16, the result's otherwise."""
    out = operands if preferred is None else preferred
    if out in (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32 if operands.itemsize <= 4 else operands
    return out


def _common(x: Array, y: Array, preferred: DType | None) -> tuple[Array, Array]:
    wider = x.dtype if x.dtype == y.dtype or ct.dtype_rank(x.dtype) >= ct.dtype_rank(y.dtype) else y.dtype
    dtype = accumulation_dtype(wider, preferred)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


@reference(ct.dot_general_p)
def dot_general(
    x: Array, y: Array, *, dimension_numbers: ct.DotDimensionNumbers, precision: Any, preferred_element_type: Any
) -> Array:
    (lc, rc), (lb, rb) = dimension_numbers
    if preferred_element_type is not None or x.dtype != y.dtype or x.dtype.itemsize < 4:
        x, y = _common(x, y, preferred_element_type)
    if not lb and lc == (x.ndim - 1,) and rc == (0,) and x.ndim <= 2 and y.ndim <= 2:
        return x @ y
    x_free, y_free = ct.dot_free_dims(x.ndim, lc, lb), ct.dot_free_dims(y.ndim, rc, rb)
    batch = [x.shape[i] for i in lb]
    inner = math.prod(x.shape[i] for i in lc)
    rows, columns = [x.shape[i] for i in x_free], [y.shape[i] for i in y_free]
    b = math.prod(batch)
    left = x.transpose((*lb, *x_free, *lc)).reshape(b, math.prod(rows), inner)
    right = y.transpose((*rb, *rc, *y_free)).reshape(b, inner, math.prod(columns))
    return (left @ right).reshape((*batch, *rows, *columns))


def _spread(x: Array, dilations: tuple[int, ...], pads: ct.Pads) -> Array:
    """x (batch, feature, spatial ...) with holes of zeros between neighbours, padded or cut at its borders."""
    sizes = [ct.dilated(n, d) for n, d in zip(x.shape[2:], dilations)]
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    out[(..., *(slice(None, None, d) for d in dilations))] = x
    out = np.pad(out, [(0, 0), (0, 0), *((max(lo, 0), max(hi, 0)) for lo, hi in pads)])
    cut = (slice(max(-lo, 0), max(n - max(-hi, 0), 0)) for (lo, hi), n in zip(pads, out.shape[2:]))
    return out[(slice(None), slice(None), *cut)]


def _windows(x: Array, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Array:
    """View of x: (batch, feature, out spatial ..., kernel spatial ...)."""
    outs = [max((n - ct.dilated(k, d)) // s + 1, 0) for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)]
    if not all(outs):
        return np.zeros((*x.shape[:2], *outs, *kernel), x.dtype)
    step = x.strides[2:]
    strides_out = tuple(b * s for b, s in zip(step, strides))
    strides_kernel = tuple(b * d for b, d in zip(step, dilations))
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *outs, *kernel), (*x.strides[:2], *strides_out, *strides_kernel), writeable=False
    )


@reference(ct.conv_general_dilated_p)
def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    *,
    window_strides: tuple[int, ...],
    padding: ct.Pads,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ct.ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
) -> Array:
    lhs, rhs = _common(lhs, rhs, preferred_element_type)
    x, k = lhs.transpose(dimension_numbers.lhs_spec), rhs.transpose(dimension_numbers.rhs_spec)
    n = x.ndim - 2
    groups = max(feature_group_count, batch_group_count)
    patches = _windows(_spread(x, lhs_dilation, padding), k.shape[2:], window_strides, rhs_dilation)
    split = 1 if feature_group_count > 1 else 0
    outs = []
    for part, kernel in zip(np.split(patches, groups, axis=split), np.split(k, groups, axis=0)):
        contract = [1, *range(2 + n, 2 + 2 * n)]
        outs.append(_tensordot(part, kernel, contract, list(range(1, n + 2))))  # batch, out spatial, features
    out = np.moveaxis(np.concatenate(outs, axis=-1), -1, 1)
    return out.transpose(np.argsort(dimension_numbers.out_spec))


def _tensordot(x: Array, y: Array, x_dims: list[int], y_dims: list[int]) -> Array:
    x_free = [i for i in range(x.ndim) if i not in x_dims]
    inner = math.prod(x.shape[i] for i in x_dims)
    rows = [x.shape[i] for i in x_free]
    left = x.transpose((*x_free, *x_dims)).reshape(math.prod(rows), inner)
    right = y.transpose((*y_dims, 0)).reshape(inner, y.shape[0])
    return (left @ right).reshape((*rows, y.shape[0]))

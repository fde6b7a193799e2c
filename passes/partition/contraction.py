"""Factors of contractions: batch dimensions, free ones, and those summed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import contraction as ct

from .rules import Builder, Factors, factors

Avals = Sequence[ShapedArray]


def _sum(out: ShapedArray) -> str:
    return "or" if dtypes.is_bool(out.dtype) else "add"


@factors(ct.dot_general_p)
def _dot_general(in_avals: Avals, out_avals: Avals, *, dimension_numbers: ct.DotDimensionNumbers, **_: Any) -> Factors:
    (lc, rc), (lb, rb) = dimension_numbers
    x, y = in_avals
    b = Builder()
    left = b.dims(x.shape)
    right = b.dims(y.shape)
    for i, j in (*zip(lc, rc), *zip(lb, rb)):
        right[j] = left[i]
    for i in lc:
        b.reduced[left[i][0]] = _sum(out_avals[0])
    result = [left[i] for i in lb]
    result += [left[i] for i in ct.dot_free_dims(x.ndim, lc, lb)]
    result += [right[i] for i in ct.dot_free_dims(y.ndim, rc, rb)]
    return b.done([left, right], [result])


@factors(ct.conv_general_dilated_p)
def _conv(
    in_avals: Avals, out_avals: Avals, *, dimension_numbers: ct.ConvDimensionNumbers, feature_group_count: int,
    batch_group_count: int, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int], **_: Any,
) -> Factors:  # fmt: skip
    spec = dimension_numbers
    x, y = in_avals
    out = out_avals[0]
    b = Builder()
    left = b.dims(x.shape, whole=True)
    right = b.dims(y.shape, whole=True)
    result = b.dims(out.shape, whole=True)
    if batch_group_count == 1:
        batch = (b.new(x.shape[spec.lhs_spec[0]]),)
        left[spec.lhs_spec[0]] = result[spec.out_spec[0]] = batch
        if feature_group_count == 1:
            features = (b.new(y.shape[spec.rhs_spec[0]]),)
            right[spec.rhs_spec[0]] = result[spec.out_spec[1]] = features
            summed = (b.new(x.shape[spec.lhs_spec[1]], reduced=_sum(out)),)
            left[spec.lhs_spec[1]] = right[spec.rhs_spec[1]] = summed
    for d, (i, j, k) in enumerate(zip(spec.lhs_spec[2:], spec.rhs_spec[2:], spec.out_spec[2:])):
        # A kernel of one element that steps by one moves no element.
        if y.shape[j] == 1 and window_strides[d] == lhs_dilation[d] == 1 and tuple(padding[d]) == (0, 0):
            left[i] = result[k] = (b.new(x.shape[i]),)
    return b.done([left, right], [result])

"""Factors of contractions: batch dimensions, free ones, and those summed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import contraction as ct

from .halos import Slide, Window, dilated, extended, offset_within, spread_out
from .rules import Builder, Factors, emission, factors

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
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], **_: Any,
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
        n, w, m = x.shape[i], y.shape[j], out.shape[k]
        # A kernel of one element that steps by one moves no element.
        if w == 1 and window_strides[d] == lhs_dilation[d] == 1 and tuple(padding[d]) == (0, 0):
            left[i] = result[k] = (b.new(n),)
        elif min(n, w, m) > 0 and max(m, w) > 1 and n > 1:
            axis = Along(m, w, window_strides[d], padding[d][0], lhs_dilation[d], rhs_dilation[d])
            if axis.by_kernel:
                right[j] = left[i] = (b.new(w, reduced=_sum(out)),)
            else:
                left[i] = result[k] = (b.new(m),)
            b.slides.append(Slide(0, i, left[i][0], 0, n, axis.spans))
    return b.done([left, right], [result])


@dataclass(frozen=True)
class Along:
    """A convolution along one dimension: the sizes of result and kernel, the step, what is before, the dilations.

    Where the result is smaller than the kernel, as in the derivative by a kernel, it is divided by elements of the kernel,
    whose products are added up; else by elements of the result.
    """

    size: int
    kernel: int
    step: int
    low: int
    dilation: int
    kernel_dilation: int

    @property
    def by_kernel(self) -> bool:
        """Whether parts are those of the kernel."""
        return self.size < self.kernel

    def reads(self, count: int) -> tuple[int, int, int]:
        """What the r-th of `count` devices reads of the dilated operand: (step, first, length)."""
        reach = (self.kernel - 1) * self.kernel_dilation
        if self.by_kernel:
            part = -(-self.kernel // count)
            return (
                part * self.kernel_dilation,
                -self.low,
                (part - 1) * self.kernel_dilation + (self.size - 1) * self.step + 1,
            )
        part = -(-self.size // count)
        return part * self.step, -self.low, (part - 1) * self.step + reach + 1

    def spans(self, count: int) -> tuple[Window, int]:
        """The same of the operand itself."""
        return dilated(count, *self.reads(count), self.dilation)


@emission(ct.conv_general_dilated_p)
def _emit_conv(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, y = operands
    p = eqn.params
    spec: ct.ConvDimensionNumbers = p["dimension_numbers"]
    padding, dilation = list(p["padding"]), list(p["lhs_dilation"])
    for s in place.slides(0):
        d = spec.lhs_spec.index(s.dim) - 2
        m, w = eqn.outputs[0].aval.shape[spec.out_spec[2 + d]], eqn.inputs[1].aval.shape[spec.rhs_spec[2 + d]]
        axis = Along(m, w, p["window_strides"][d], padding[d][0], dilation[d], p["rhs_dilation"][d])
        step, first, length = axis.reads(place.count(s.factor))
        offset = offset_within(place, s.factor, step, first, dilation[d])
        zero = aval_of(x).dtype.type(0)
        if isinstance(offset, int):
            x = extended(place, x, s, zero)
            padding[d] = (-offset, length + offset - (aval_of(x).shape[s.dim] - 1) * dilation[d] - 1)
        else:
            x = spread_out(place, x, s, (step, first, length), dilation[d], zero)
            padding[d], dilation[d] = (0, 0), 1
    return place.bind(x, y, padding=tuple(padding), lhs_dilation=tuple(dilation))

"""Lowering of fft: to quire's kernels, one for each dimension, or to the forms of `fft_forms` where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir as mlir

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import fft as ff
from quire.ir.primitives.fft import FftType

from ..kernels import REASON, KernelTarget, NoKernel, Spec
from ..kernels.fourier import fft as kernels
from ..kernels.fourier.fft import Kind
from . import fft_forms, hlo
from .kernel_calls import attempt, call
from .lowering import Ctx, lowering


def _checked(x: ShapedArray, out: ShapedArray, count: int, target: KernelTarget) -> KernelTarget:
    """The target, whose kernels can transform the last `count` dimensions. Raises NoKernel."""
    widest = Spec.of(max(x.shape, out.shape), dtypes.complex_dtype(dtypes.real_dtype(out.dtype)))
    for d in range(x.ndim - count, x.ndim):
        kernels.check(widest, widest.shape[d], target)
    return target


def _real_operand(z: Any) -> Any | None:
    """The real numbers that z was made of by setting imaginary parts of zero."""
    made = z.owner
    if not isinstance(made, mlir.Operation | mlir.OpView) or made.name != "stablehlo.complex":
        return None
    re, im = made.operands
    constant = im.owner
    if not isinstance(constant, mlir.Operation | mlir.OpView) or constant.name != "stablehlo.constant":
        return None
    value = mlir.DenseElementsAttr(constant.attributes["value"])
    return re if value.is_splat and not np.asarray(mlir.FloatAttr(value.get_splat_value()).value) else None


class _Transforms:
    """The transforms of an operand along its dimensions, one after another."""

    def __init__(self, ctx: Ctx, target: KernelTarget, dtype: Any) -> None:
        self.ctx, self.target, self.dtype = ctx, target, dtype

    def along(self, x: Any, dim: int, kind: Kind, inverse: bool, length: int = 0) -> Any:
        """`x` transformed along dimension `dim`."""
        shape = hlo.shape_of(x)
        real = kind in (Kind.HALF, Kind.WHOLE)
        n = length or shape[dim]
        if n == 1:
            if kind is Kind.COMPLEX:
                return x
            return hlo.complex(x, hlo.full_like(x, 0, self.dtype)) if real else hlo.real(x)
        operand = Spec.of(shape, self.dtype if real else dtypes.complex_dtype(self.dtype))
        kernel, table = kernels.fft(operand, dim, kind, self.target, length=n, inverse=inverse)
        return call(self.ctx, kernel, [x, hlo.constant(table, self.dtype)])[0]

    def each(self, x: Any, dims: Sequence[int], inverse: bool) -> Any:
        """Complex numbers transformed along several dimensions."""
        for d in dims:
            x = self.along(x, d, Kind.COMPLEX, inverse)
        return x


@lowering(ff.fft_p)
def fft(ctx: Ctx, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    out = ctx.avals_out[0]
    if not out.size or not ctx.avals_in[0].size:
        return hlo.full(0, out.shape, out.dtype)
    target = attempt(ctx, lambda target: _checked(ctx.avals_in[0], out, len(fft_lengths), target))
    if isinstance(target, NoKernel):
        result = fft_forms.transform(x, out, fft_type, fft_lengths, ctx.target.backend == "llvm-cpu")
        result.owner.attributes[REASON] = mlir.StringAttr.get(f"no kernel: {target.reason}")
        return result
    transforms = _Transforms(ctx, target, dtypes.real_dtype(out.dtype))
    *others, last = range(out.ndim - len(fft_lengths), out.ndim)
    if fft_type is FftType.IRFFT:
        return transforms.along(transforms.each(x, others, True), last, Kind.REAL, True, fft_lengths[-1])
    if fft_type is FftType.RFFT:
        return transforms.each(transforms.along(x, last, Kind.HALF, False), others, False)
    # Complex numbers are transformed where they lie: moving a dimension to the end and back is left out.
    x, order = hlo.transposed(x) or (x, list(range(out.ndim)))
    dims = [order[d] for d in (last, *others)]
    real = _real_operand(x) if fft_type is FftType.FFT and out.ndim - 1 in dims else None
    if real is not None:
        dims.remove(out.ndim - 1)
        x = transforms.along(real, out.ndim - 1, Kind.WHOLE, False)
    return hlo.transpose(transforms.each(x, dims, fft_type is FftType.IFFT), order)

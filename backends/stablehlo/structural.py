"""StableHLO lowering of structural primitives."""

from __future__ import annotations

from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Literal
from quire.ir.primitives import structural as st

from ..kernels import NoKernel
from ..kernels.indexing.reversal import reversed_groups
from . import hlo, padding
from .kernel_calls import attempt, call, spec
from .lowering import Ctx, constant_for, lowering


@lowering(st.broadcast_in_dim_p)
def broadcast_in_dim(ctx: Ctx, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    return hlo.broadcast(x, shape, broadcast_dimensions)


@lowering(st.reshape_p)
def reshape(ctx: Ctx, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
    return hlo.reshape(x, new_sizes)


@lowering(st.transpose_p)
def transpose(ctx: Ctx, x: Any, *, permutation: tuple[int, ...]) -> Any:
    if ctx.target.backend != "cuda":
        return hlo.transpose(x, permutation)
    # IREE's code for CUDA transposes no complex numbers, nor what it reads from any: its compiler crashes.
    if dtypes.is_complex(ctx.avals_in[0].dtype):
        parts = hlo.optimization_barrier(hlo.real(x), hlo.imag(x))
        return hlo.complex(*(hlo.transpose(part, permutation) for part in parts))
    return hlo.transpose(hlo.optimization_barrier(x)[0] if _of_complex(x) else x, permutation)


def _of_complex(x: Any, depth: int = 8) -> bool:
    """Whether x is computed, element by element, of complex numbers."""
    if isinstance(x.owner, mlir.Block) or not depth:
        return False
    for v in x.owner.operands:
        if isinstance(v.type, mlir.RankedTensorType) and hlo.shape_of(v) == hlo.shape_of(x):
            if isinstance(v.type.element_type, mlir.ComplexType) or _of_complex(v, depth - 1):
                return True
    return False


@lowering(st.squeeze_p)
def squeeze(ctx: Ctx, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return hlo.reshape(x, ctx.avals_out[0].shape)


def as_signed(x: Any, dtype: DType) -> Any:
    """x with an unsigned dtype reinterpreted as signed (IREE does not reverse or scan unsigned tensors)."""
    return hlo.bitcast(x, signed_dtype(dtype)) if dtypes.is_unsigned(dtype) else x


def signed_dtype(dtype: DType) -> DType:
    """The signed dtype as wide as an unsigned one; other dtypes unchanged."""
    return np.dtype(f"int{8 * dtype.itemsize}") if dtypes.is_unsigned(dtype) else dtype


@lowering(st.rev_p)
def rev(ctx: Ctx, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    (aval,) = ctx.avals_in
    dtype, dims = aval.dtype, sorted(d for d in dimensions if aval.shape[d] > 1)
    if dims and aval.size and dims == list(range(dims[0], dims[-1] + 1)):
        kernel = attempt(ctx, lambda target: reversed_groups(spec(aval), dims[0], dims[-1] + 1, target))
        if not isinstance(kernel, NoKernel):
            return call(ctx, kernel, [x])[0]
    return hlo.bitcast(hlo.reverse(as_signed(x, dtype), dimensions), dtype)


@lowering(st.concatenate_p)
def concatenate(ctx: Ctx, *operands: Any, dimension: int) -> Any:
    return operands[0] if len(operands) == 1 else hlo.concatenate(operands, dimension)


@lowering(st.pad_p)
def pad(ctx: Ctx, x: Any, padding_value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> Any:
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    if ctx.avals_in[0].dtype == dtypes.complex128:  # IREE cannot pad elements of 128 bits
        return hlo.complex(
            hlo.pad(hlo.real(x), hlo.real(padding_value), low, high, interior),
            hlo.pad(hlo.imag(x), hlo.imag(padding_value), low, high, interior),
        )
    fill = ctx.eqn.inputs[1]
    value = fill.value if isinstance(fill, Literal) else padding_value
    return padding.pad(ctx, x, ctx.avals_in[0].dtype, value, low, high, interior)


@lowering(st.slice_p)
def slice(
    ctx: Ctx, x: Any, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...], strides: tuple[int, ...] | None
) -> Any:
    return hlo.slice(x, start_indices, limit_indices, strides)


@lowering(st.iota_p)
def iota(ctx: Ctx, *, dtype: DType, shape: tuple[int, ...], dimension: int) -> Any:
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        return hlo.complex(hlo.iota(shape, dimension, part), hlo.full(0, shape, part))
    n = shape[dimension]
    if ctx.target.spirv and 1 < n <= MOST_POSITIONS:
        return hlo.broadcast(constant_for(np.arange(n).astype(dtype), dtype, ctx.target), shape, [dimension])
    if dtype == dtypes.bfloat16:
        return hlo.broadcast(_bf16_iota(n), shape, [dimension])
    return hlo.iota(shape, dimension, dtype)


MOST_POSITIONS = 4096
"""Positions along a dimension of so many elements are a constant in SPIR-V: where they meet a reduction in one dispatch IREE keeps
them in workgroup memory, as `index`, a type that SPIR-V has not ("failed to legalize operation 'memref.alloc'")."""


def _bf16_iota(n: int) -> Any:
    """The vector 0, 1, ... in bf16, rounded by integer operations: IREE's code calls a function it does not link."""
    bits = hlo.bitcast(hlo.iota([n], 0, dtypes.float32), dtypes.int32)
    half, one, sixteen = (hlo.full(v, [n], dtypes.int32) for v in (0x7FFF, 1, 16))
    odd = hlo.and_(hlo.shift_right_logical(bits, sixteen), one)
    rounded = hlo.shift_right_logical(hlo.add(hlo.add(bits, half), odd), sixteen)
    return hlo.bitcast(hlo.convert(rounded, dtypes.int16), dtypes.bfloat16)


@lowering(st.split_p)
def split(ctx: Ctx, x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    shape = ctx.avals_in[0].shape
    out: list[Any] = []
    start = 0
    for n in sizes:
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = start, start + n
        out.append(hlo.slice(x, low, high))
        start += n
    return out


@lowering(st.tile_p)
def tile(ctx: Ctx, x: Any, *, reps: tuple[int, ...]) -> Any:
    shape = ctx.avals_in[0].shape
    spread = [n for pair in zip(reps, shape) for n in pair]
    return hlo.reshape(hlo.broadcast(x, spread, range(1, len(spread), 2)), ctx.avals_out[0].shape)


@lowering(st.optimization_barrier_p)
def optimization_barrier(ctx: Ctx, *operands: Any) -> Any:
    return hlo.optimization_barrier(*operands)

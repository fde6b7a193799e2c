"""Contractions: dot, dot_general, batch_matmul, and the convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import lax_dtype

Array = Any
ConvDimensionNumbers = ct.ConvDimensionNumbers
Precision = ct.Precision
conv_dimension_numbers = ct.conv_dimension_numbers
padtype_to_pads = ct.padtype_to_pads


@takes_out_sharding
def dot_general(
    lhs: Array, rhs: Array, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    *, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Sum of products over contracting dimensions.

    Args:
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``, sequences of dimensions.
        precision: None, a `lax.Precision`, its name, or a pair of these.
        preferred_element_type: the dtype in which to sum and return; f16 and bf16 are always summed in f32.

    Returns the batch dimensions, then lhs's other dimensions, then rhs's. Operands of two dtypes give the larger one.

    Raises TypeError when sizes of paired dimensions differ or a dimension appears twice.

    Example: ``lax.dot_general(x, w, (((1,), (0,)), ((), ())))`` is ``x @ w``.
    """
    dtype = lax_dtype("dot_general", preferred_element_type)
    return ct.dot_general(lhs, rhs, dimension_numbers, precision, dtype)


@takes_out_sharding
def dot(
    lhs: Array, rhs: Array, *, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Vector-vector, matrix-vector and matrix-matrix products; `dot_general` with dimension_numbers.

    Raises TypeError when the inner sizes differ or an operand has neither 1 nor 2 dimensions.

    Example: ``lax.dot(x, w)``
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)
    dtype = lax_dtype("dot", preferred_element_type)
    x, y = aval_of(lhs), aval_of(rhs)
    if x.ndim not in (1, 2) or y.ndim not in (1, 2) or x.shape[-1] != y.shape[0]:
        raise TypeError(
            f"dot: incompatible shapes, got {x.short()} and {y.short()}, expected 1 or 2 dimensions with the last of lhs "
            "as long as the first of rhs"
        )
    return ct.dot_general(lhs, rhs, (((x.ndim - 1,), (0,)), ((), ())), precision, dtype)


def batch_matmul(lhs: Array, rhs: Array, precision: Any = None) -> Array:
    """Matrix products over the same leading dimensions: (..., m, k) times (..., k, n).

    Raises ValueError when the ranks differ or are below 2.
    """
    x, y = aval_of(lhs), aval_of(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ValueError(f"batch_matmul: operands must have one rank, at least 2, got {x.short()} and {y.short()}")
    return ct.matmul(lhs, rhs, precision=precision)


# -- convolutions -------------------------------------------------------------------------------------------------------------


@takes_out_sharding
def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """General convolution (cross-correlation) over any number of spatial dimensions.

    Args:
        lhs, rhs: input and kernel, of one dtype and rank.
        padding: ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair (low, high) for each spatial dimension; negative
            padding cuts.
        lhs_dilation, rhs_dilation: holes of zeros between neighbours (transposed and atrous convolution).
        dimension_numbers: a `ConvDimensionNumbers`, or three strings such as ``("NHWC", "HWIO", "NHWC")``; None is
            NCHW, OIHW, NCHW.
        feature_group_count, batch_group_count: how many groups features (the batch) fall into.

    Raises ValueError when features, groups or the numbers of strides do not fit, or padding is a name and lhs_dilation not 1.

    Example: ``lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))``
    """
    return ct.conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
        batch_group_count, precision, lax_dtype("conv_general_dilated", preferred_element_type),
    )  # fmt: skip


def conv(
    lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str, precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """Convolution of NCHW inputs with OIHW kernels; padding is ``"SAME"`` or ``"VALID"``.

    Example: ``lax.conv(images, kernel, (1, 1), "SAME")``
    """
    return ct.conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=lax_dtype("conv", preferred_element_type),
    )


def conv_with_general_padding(
    lhs: Array, rhs: Array, window_strides: Sequence[int], padding: Any, lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None, precision: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """Convolution of NCHW inputs with OIHW kernels, with explicit padding and dilations."""
    return ct.conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=lax_dtype("conv_with_general_padding", preferred_element_type),
    )  # fmt: skip


def _transpose_pads(k: int, stride: int, padding: str) -> tuple[int, int]:
    """The pads of a transposed convolution whose forward convolution has "SAME" or "VALID" padding."""
    if padding.upper() == "SAME":
        total = k + stride - 2
        low = k - 1 if stride > k - 1 else -(-total // 2)
    elif padding.upper() == "VALID":
        total = k + stride - 2 + max(k - stride, 0)
        low = k - 1
    else:
        raise ValueError(f"conv_transpose: padding {padding!r} must be 'SAME', 'VALID' or pairs (low, high)")
    return low, total - low


_CHANNELS_LAST = {
    0: ("NC", "IO", "NC"), 1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC"),
}  # fmt: skip


def conv_transpose(
    lhs: Array, rhs: Array, strides: Sequence[int], padding: Any, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, precision: Any = None,
    preferred_element_type: Any = None, use_consistent_padding: bool = False,
) -> Array:  # fmt: skip
    """Transposed convolution ("deconvolution"): lhs is dilated by the strides. Channels are last by default.

    Args:
        padding: ``"SAME"``, ``"VALID"``, or pairs: of the dilated input or, with use_consistent_padding, of the
            forward convolution.
        transpose_kernel: flip the kernel and exchange its features: the exact transpose of a convolution.

    Raises ValueError when the ranks of lhs and rhs differ or are below 2, or there are no dimension_numbers for more
    than 3 spatial dimensions.

    Example: ``lax.conv_transpose(x, k, (2, 2), "SAME")`` doubles the spatial sizes.
    """
    x, k = aval_of(lhs), aval_of(rhs)
    n = x.ndim - 2
    if n < 0 or x.ndim != k.ndim:
        raise ValueError(f"conv_transpose: operands must have one rank, at least 2, got {x.short()} and {k.short()}")
    if dimension_numbers is None:
        if n not in _CHANNELS_LAST:
            raise ValueError(f"conv_transpose: {n} spatial dimensions need explicit dimension_numbers")
        dimension_numbers = _CHANNELS_LAST[n]
    spec = ct.conv_dimension_numbers(x.shape, k.shape, dimension_numbers)
    dilation = (1,) * n if rhs_dilation is None else tuple(rhs_dilation)
    sizes = [ct.dilated(k.shape[d], r) for d, r in zip(spec.rhs_spec[2:], dilation)]
    if isinstance(padding, str):
        pads = [_transpose_pads(size, s, padding) for size, s in zip(sizes, strides)]
    elif use_consistent_padding:
        pads = [(size - 1 - lo, size - 1 - hi) for size, (lo, hi) in zip(sizes, padding)]
    else:
        pads = list(padding)
    if transpose_kernel:
        rhs = st.rev(rhs, spec.rhs_spec[2:])
        order = list(range(k.ndim))
        o, i = spec.rhs_spec[:2]
        order[o], order[i] = i, o
        rhs = st.transpose(rhs, order)
    return ct.conv_general_dilated(
        lhs, rhs, (1,) * n, pads, strides, dilation, spec, precision=precision,
        preferred_element_type=lax_dtype("conv_with_general_padding", preferred_element_type),
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: Array, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, precision: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """The windows that a convolution sees, in its feature dimension: channel by channel, each in row-major order.

    Example: ``lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME")`` has 9 times x's channels.
    """
    x = aval_of(lhs)
    window = tuple(int(n) for n in filter_shape)
    spec = ct.conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    channels, size = x.shape[spec.lhs_spec[1]], math.prod(window)
    row, column = (st.broadcasted_iota(dtypes.int32, (size, size), i) for i in range(2))
    identity = ew.convert_element_type(ew.eq(row, column), x.dtype)
    kernel = st.reshape(st.broadcast_in_dim(identity, (channels, size, size), (1, 2)), (channels * size, 1, *window))
    kernel = st.transpose(kernel, [spec.rhs_spec.index(i) for i in range(x.ndim)])
    return ct.conv_general_dilated(
        lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, spec, channels,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: Array, rhs: Array, window_strides: Sequence[int], padding: Any, filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, precision: Any = None,
) -> Array:  # fmt: skip
    """Convolution with a kernel of its own for each window: rhs has an entry for each spatial position of the result.

    rhs's input features are channels times the window's size, in the order of `conv_general_dilated_patches`.
    """
    x = aval_of(lhs)
    spec = ct.conv_dimension_numbers(x.shape, aval_of(rhs).shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, spec, precision
    )
    dims = ((spec.out_spec[1],), (spec.rhs_spec[1],)), (spec.out_spec[2:], spec.rhs_spec[2:])
    out = ct.dot_general(patches, rhs, dims, precision)  # spatial ..., batch, feature
    n = x.ndim - 2
    now = (n, n + 1, *range(n))  # where batch, feature and the spatial dimensions are
    order = [0] * x.ndim
    for source, d in zip(now, spec.out_spec):
        order[d] = source
    return st.transpose(out, order)


__all__ = [
    "ConvDimensionNumbers", "Precision", "batch_matmul", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_local", "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "dot",
    "dot_general", "padtype_to_pads",
]  # fmt: skip

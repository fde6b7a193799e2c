"""Shapes of results without computing them, and the types that annotate arguments of contractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.tracing import trace_flat

from . import contraction
from .contraction import ConvDimensionNumbers, Precision, conv_dimension_numbers, padtype_to_pads

Shape: TypeAlias = tuple[int, ...]
DotDimensionNumbers: TypeAlias = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
PrecisionLike: TypeAlias = None | str | Precision | tuple[str, str] | tuple[Precision, Precision]
ConvGeneralDilatedDimensionNumbers: TypeAlias = tuple[str, str, str] | ConvDimensionNumbers | None


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of an array or a number, or the one that a dtype or scalar type names (`jax.lax.dtype`).

    >>> quire.lax.dtype(1.0)
    dtype('float32')
    """
    return dtypes.canonicalize(x) if isinstance(x, (type, np.dtype, str)) else aval_of(x).dtype


def _shape_of(f: Callable[..., Any], *shapes: Sequence[int]) -> Shape:
    avals = [ShapedArray(tuple(int(n) for n in s), np.dtype(np.float32)) for s in shapes]
    jaxpr, _, _ = trace_flat(lambda *xs: [f(*xs)], avals, name="shape")
    return jaxpr.out_avals[0].shape


def conv_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int], pads: Any, batch_group_count: int = 1
) -> Shape:
    """The shape of a convolution of (N, C, ...) by (O, I, ...) (`jax.lax.conv_shape_tuple`).

    `pads` is "SAME", "VALID" or pairs. Raises TypeError as `conv_general_dilated`.

    >>> quire.lax.conv_shape_tuple((1, 3, 10, 10), (8, 3, 3, 3), (1, 1), [(0, 0), (1, 1)])
    (1, 8, 8, 10)
    """
    return _shape_of(
        lambda x, w: contraction.conv_general_dilated(x, w, strides, pads, batch_group_count=batch_group_count),
        lhs_shape, rhs_shape,
    )  # fmt: skip


def conv_general_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    dimension_numbers: Any,
) -> Shape:  # fmt: skip
    """The shape of `conv_general_dilated` (`jax.lax.conv_general_shape_tuple`).

    >>> quire.lax.conv_general_shape_tuple((1, 9, 9, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (1, 5, 5, 8)
    """
    return _shape_of(
        lambda x, w: contraction.conv_general_dilated(x, w, window_strides, padding, dimension_numbers=dimension_numbers),
        lhs_shape, rhs_shape,
    )  # fmt: skip


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    dimension_numbers: Any,
) -> Shape:  # fmt: skip
    """The shape of `conv_transpose` (`jax.lax.conv_transpose_shape_tuple`).

    >>> quire.lax.conv_transpose_shape_tuple((1, 5, 5, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (1, 10, 10, 8)
    """
    return _shape_of(
        lambda x, w: contraction.conv_transpose(x, w, window_strides, padding, dimension_numbers=dimension_numbers),
        lhs_shape, rhs_shape,
    )  # fmt: skip


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """What brings operands and result to (N, C, ...), (O, I, ...), (N, C, ...) (`jax.lax.conv_general_permutations`).

    >>> quire.lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    n = len(dimension_numbers[0])
    numbers = conv_dimension_numbers((1,) * n, (1,) * n, tuple(dimension_numbers))
    return tuple(numbers.lhs_spec), tuple(numbers.rhs_spec), tuple(numbers.out_spec)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int], window_dimensions: Sequence[int], window_strides: Sequence[int], padding: Any,
    base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None,
) -> Shape:  # fmt: skip
    """The shape of `reduce_window` (`jax.lax.reduce_window_shape_tuple`); `padding` is pairs, "SAME" or "VALID".

    >>> quire.lax.reduce_window_shape_tuple((10, 10), (3, 3), (2, 2), [(0, 0), (1, 1)])
    (4, 5)
    """
    n = len(operand_shape)
    base = base_dilation if base_dilation is not None else (1,) * n
    inner = window_dilation if window_dilation is not None else (1,) * n
    sizes = [0 if s == 0 else (s - 1) * d + 1 for s, d in zip(operand_shape, base)]
    windows = [(w - 1) * d + 1 for w, d in zip(window_dimensions, inner)]
    pads = padtype_to_pads(sizes, windows, window_strides, padding) if isinstance(padding, str) else padding
    return tuple(
        0 if s + low + high < w else (s + low + high - w) // step + 1
        for s, w, step, (low, high) in zip(sizes, windows, window_strides, pads, strict=True)
    )


__all__ = [
    "ConvGeneralDilatedDimensionNumbers", "DotDimensionNumbers", "PrecisionLike", "conv_general_permutations",
    "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose_shape_tuple", "dtype", "reduce_window_shape_tuple",
]  # fmt: skip

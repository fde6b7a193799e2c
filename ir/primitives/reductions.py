"""Reductions over dimensions, arg-reductions, cumulative and windowed reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..avals import ShapedArray
from ..primitive import primitive
from .common import NUMBER, check_axes, check_dtype

Value = Any


def _reduced(name: str, x: ShapedArray, axes: tuple[int, ...]) -> ShapedArray:
    check_axes(name, x.ndim, axes)
    return x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


@primitive("reduce_sum")
def reduce_sum_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Sum over `axes`; 0 over no elements. f16 and bf16 accumulate in f32."""
    check_dtype("reduce_sum", x, NUMBER)
    return _reduced("reduce_sum", x, axes)


def reduce_sum(x: Value, axes: Sequence[int]) -> Value:
    """Sum over `axes`; x itself for no axes."""
    return reduce_sum_p.bind(x, axes=tuple(axes)) if axes else x

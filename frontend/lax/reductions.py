"""Reductions of `quire.lax`: over dimensions, cumulative, windowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import windows as wd

from .. import tree_util
from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import lax_dtype

Value = Any


@takes_out_sharding
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduce an array, or a pytree of arrays of one shape together, over `dimensions`.

    `computation(accumulator, element)` is associative and `init_values` its neutral values; both have the operands'
    tree.

    Raises ValueError when operands and init_values have different trees.

    >>> import quire.numpy as qnp
    >>> quire.lax.reduce(qnp.arange(4), 0, lambda a, b: a + b, (0,)).item()
    6
    """
    leaves, tree = tree_util.tree_flatten(operands)
    inits, init_tree = tree_util.tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(f"reduce: operands and init_values must have one tree structure, got {tree} and {init_tree}")
    return tree_util.tree_unflatten(tree, rd.reduce(leaves, inits, _flat(computation, tree, len(leaves)), dimensions))


def _flat(computation: Callable[[Any, Any], Any], tree: Any, n: int) -> Callable[..., list[Any]]:
    """A computation on pytrees as one on flat accumulators and elements."""

    def flat(*args: Any) -> list[Any]:
        out = computation(tree_util.tree_unflatten(tree, args[:n]), tree_util.tree_unflatten(tree, args[n:]))
        return tree_util.tree_flatten(out)[0]

    return flat


@takes_out_sharding
def reduce_sum(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Sum over axes."""
    return rd.reduce_sum(operand, axes)


@takes_out_sharding
def reduce_prod(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Product over axes."""
    return rd.reduce_prod(operand, axes)


@takes_out_sharding
def reduce_max(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Maximum over axes; NaN if any is."""
    return rd.reduce_max(operand, axes)


@takes_out_sharding
def reduce_min(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Minimum over axes; NaN if any is."""
    return rd.reduce_min(operand, axes)


@takes_out_sharding
def reduce_and(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Bitwise (logical for bool) and over axes."""
    return rd.reduce_and(operand, axes)


@takes_out_sharding
def reduce_or(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Bitwise (logical for bool) or over axes."""
    return rd.reduce_or(operand, axes)


@takes_out_sharding
def reduce_xor(operand: Value, axes: Sequence[int], *, out_sharding: Any = None) -> Value:
    """Bitwise (logical for bool) exclusive or over axes."""
    return rd.reduce_xor(operand, axes)


def argmax(operand: Value, axis: int, index_dtype: Any = dtypes.int32) -> Value:
    """Index of the maximum along an axis; the first of equal ones; NaN counts as the maximum."""
    return rd.argmax(operand, axis, lax_dtype("argmax", index_dtype))


def argmin(operand: Value, axis: int, index_dtype: Any = dtypes.int32) -> Value:
    """Index of the minimum along an axis; the first of equal ones; NaN counts as the minimum."""
    return rd.argmin(operand, axis, lax_dtype("argmin", index_dtype))


def cumsum(operand: Value, axis: int = 0, reverse: bool = False) -> Value:
    """Cumulative sum along an axis."""
    return rd.cumsum(operand, axis, reverse)


def cumprod(operand: Value, axis: int = 0, reverse: bool = False) -> Value:
    """Cumulative product along an axis."""
    return rd.cumprod(operand, axis, reverse)


def cummax(operand: Value, axis: int = 0, reverse: bool = False) -> Value:
    """Cumulative maximum along an axis."""
    return rd.cummax(operand, axis, reverse)


def cummin(operand: Value, axis: int = 0, reverse: bool = False) -> Value:
    """Cumulative minimum along an axis."""
    return rd.cummin(operand, axis, reverse)


def cumlogsumexp(operand: Value, axis: int = 0, reverse: bool = False) -> Value:
    """Cumulative log(sum(exp)) along an axis."""
    return rd.cumlogsumexp(operand, axis, reverse)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce each window of an array (or of a pytree of arrays of one shape together).

    `padding` is "VALID", "SAME", "SAME_LOWER" or pairs (low, high). Each window is `init_value` combined with the
    elements that it has: padding and the gaps of `base_dilation` are none.

    Raises ValueError when operand and init_value have different trees.
    """
    leaves, tree = tree_util.tree_flatten(operand)
    inits, init_tree = tree_util.tree_flatten(init_value)
    if tree != init_tree:
        raise ValueError(
            f"reduce_window: operand and init_value must have one tree structure, got {tree} and {init_tree}"
        )
    out = wd.reduce_window(
        leaves, inits, _flat(computation, tree, len(leaves)), window_dimensions, window_strides, padding,
        base_dilation, window_dilation,
    )  # fmt: skip
    return tree_util.tree_unflatten(tree, out)


__all__ = [
    "argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce", "reduce_and", "reduce_max",
    "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_window", "reduce_xor",
]  # fmt: skip

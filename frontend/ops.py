"""Sums, products and extrema of the segments of an array, as those of jax.ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.errors import ConcretizationTypeError

from . import numpy as jnp
from .absent_names import module_getattr
from .arrays.explicit import takes_out_sharding
from .arrays.operands import Value, array_of, as_int, concrete

_DOC = """{what} of the elements of each segment of an array.

    Args:
        data: an array; its first dimensions (as many as `segment_ids` has) are reduced. A scalar, or one element along such a
            dimension, stands for all.
        segment_ids: integers: the segment of each element of data along these dimensions. They need not be sorted, and may
            repeat. Elements of a negative or too large segment are dropped.
        num_segments: how many segments the result has; for None max(segment_ids) + 1, which must be known when tracing.
        indices_are_sorted, unique_indices: promises that permit faster programs.
        bucket_size: combine so many elements at a time, and then the results: more accurate for large segments.
        mode: what a segment outside does: "drop" (or None), "clip" or "promise_in_bounds".

    Returns an array of shape (num_segments, ...) with the dtype of data. A segment without elements is {empty}.

    Raises:
        TypeError: segment_ids are not integers.
        ValueError: the shapes do not fit, or num_segments is negative.
        ConcretizationTypeError: num_segments is None and segment_ids are traced.

    Follows `jax.ops.{name}`.

    >>> quire.ops.{name}(quire.numpy.array([5, 1, 3]), quire.numpy.array([0, 2, 0]), num_segments=3)
    Array({example}, dtype=int32)
    """


def _least(d: np.dtype[Any]) -> Any:
    return False if dtypes.is_bool(d) else np.iinfo(d).min if dtypes.is_integer(d) else -math.inf


def _greatest(d: np.dtype[Any]) -> Any:
    return True if dtypes.is_bool(d) else np.iinfo(d).max if dtypes.is_integer(d) else math.inf


def _number(name: str, segment_ids: Value, num_segments: Any) -> int:
    if num_segments is None:
        known = concrete(segment_ids)
        if known is None:
            raise ConcretizationTypeError(
                f"quire.ops.{name}: the result's shape depends on the values of segment_ids, which are traced: give "
                "num_segments"
            )
        return int(known.max()) + 1 if known.size else 0
    n = as_int(f"quire.ops.{name}", num_segments, "num_segments")
    if n < 0:
        raise ValueError(f"quire.ops.{name}: num_segments must not be negative, got {n}")
    return n


def _segments(
    name: str, how: str, neutral: Callable[[np.dtype[Any]], Any], reducer: Any, what: str, empty: str, example: str
) -> Any:
    def f(
        data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
        unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None, out_sharding: Any = None,
    ) -> Value:  # fmt: skip
        x, ids = array_of(f"quire.ops.{name}", data, "data"), array_of(f"quire.ops.{name}", segment_ids, "segment_ids")
        if not dtypes.is_integer(ids.dtype):
            raise TypeError(f"quire.ops.{name}: segment_ids must be integers, got {ids.aval.short()}")
        first, rest = x.shape[: ids.ndim], x.shape[ids.ndim :]
        if first and (len(first) != ids.ndim or any(m not in (n, 1) for m, n in zip(first, ids.shape))):
            raise ValueError(
                f"quire.ops.{name}: segment_ids {ids.aval.short()} must have the first dimensions of data {x.aval.short()}"
            )
        n = _number(name, ids, num_segments)
        options = {
            "mode": "drop" if mode is None else mode, "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices, "wrap_negative_indices": False,
        }  # fmt: skip
        # The sum of bool is "or", which is their maximum, and the product "and".
        method = {"add": "max", "multiply": "min"}.get(how, how) if dtypes.is_bool(x.dtype) else how
        if bucket_size is None:
            return getattr(jnp.full((n, *rest), neutral(x.dtype), x.dtype).at[ids], method)(x, **options)
        size = as_int(f"quire.ops.{name}", bucket_size, "bucket_size")
        if ids.ndim != 1 or size < 1:
            raise ValueError(
                f"quire.ops.{name}: bucket_size {size} must be positive, and segment_ids of 1 dimension, got {ids.aval.short()}"
            )
        buckets = jnp.full((-(-ids.shape[0] // size), n, *rest), neutral(x.dtype), x.dtype)
        filled = getattr(buckets.at[jnp.arange(ids.shape[0]) // size, ids], method)(x, **options)
        return reducer(filled, axis=0).astype(x.dtype)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _DOC.format(name=name, what=what, empty=empty, example=example)
    return takes_out_sharding(f)


segment_sum = _segments("segment_sum", "add", lambda d: 0, jnp.sum, "The sum", "0", "[8, 0, 1]")
segment_prod = _segments("segment_prod", "multiply", lambda d: 1, jnp.prod, "The product", "1", "[15,  1,  1]")
segment_max = _segments(
    "segment_max",
    "max",
    _least,
    jnp.max,
    "The largest",
    "the least value of the dtype",
    "[          5, -2147483648,           1]",
)
segment_min = _segments(
    "segment_min",
    "min",
    _greatest,
    jnp.min,
    "The least",
    "the largest value of the dtype",
    "[         3, 2147483647,          1]",
)

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

__getattr__ = module_getattr("quire.ops", globals())

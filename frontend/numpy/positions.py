"""Positions: of the elements that are true, and between indices of dimensions and of the flattened array."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.operands import (
    Value,
    as_int,
    as_shape,
    broadcast_to,
    cast,
    concrete_array,
    ensure,
    known_shape_operand,
    promote_dtypes,
    result_type,
    user_dtype,
)
from ._ops import add_, lt_, mul_
from ._ops import select as _choice
from .arithmetic import clip, remainder
from .creation import filled
from .elementwise import add, as_bool
from .joining import stack
from .ranges import iota
from .reductions import cumsum
from .reductions import sum as sum_
from .shapes import ravel
from .sorting import searchsorted


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Value, ...]:
    """The indices of the elements that are not 0, one array a dimension.

    Args:
        a: an array.
        size: the result's length, which must be given where the values are traced: excess is cut off.
        fill_value: what missing indices are (0 by default), and a number whose dtype the indices are promoted with; a
            tuple gives one a dimension.

    Raises:
        ConcretizationTypeError: the values are traced and no size is given.
        ValueError: fill_value is a tuple and has not as many values as `a` has dimensions, or is an array that is no scalar.

    Follows `numpy.nonzero`.

    >>> quire.numpy.nonzero(quire.numpy.array([0, 5, 6]))
    (Array([1, 2], dtype=int32),)
    """
    x = ensure("nonzero", a)
    if x.aval.ndim == 0:
        x = st.reshape(x, (1,))
    index = dtypes.canonicalize(dtypes.int64)
    fills = _fills(fill_value, x.aval.ndim)
    if size is None:
        known = known_shape_operand("nonzero", x, "give size=n, the number of indices")
        places = (concrete_array(v.astype(index)) for v in np.nonzero(known))
        return tuple(p if f is None else promote_dtypes(p, f)[0] for p, f in zip(places, fills))
    n = as_int("nonzero", size, "size")
    total = x.aval.size
    shape = x.aval.shape
    if n == 0:
        return tuple(filled((0,), 0, index) for _ in fills)
    if total == 0:
        nothing = filled((n,), 0, index)
        return tuple(nothing if f is None else broadcast_to(promote_dtypes(nothing, f)[1], (n,)) for f in fills)
    mask = st.reshape(as_bool(x), (total,))
    running = cumsum(cast(mask, dtypes.int32))
    ordinal = ew.add_p.bind(iota((n,), 0, dtypes.int32), np.int32(1))
    flat = cast(searchsorted(running, ordinal, side="left"), dtypes.int32)
    inside = lt_(flat, total)
    flat = ew.min_p.bind(flat, np.int32(total - 1))
    out: list[Value] = []
    stride = total
    for k, f in zip(shape, fills):
        stride //= k
        values = cast(ew.rem_p.bind(ew.div_p.bind(flat, np.int32(stride)), np.int32(k)), index)
        out.append(_choice(inside, *promote_dtypes(values, cast(ensure("nonzero", 0), index) if f is None else f)))
    return tuple(out)


def _fills(fill_value: Any, ndim: int) -> list[Value | None]:
    """What missing indices are, for each dimension; None where nothing is said."""
    each = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim
    scalars = all(f is None or np.shape(f) == () for f in each)
    if len(each) != ndim or not scalars:
        given = f"{len(each)} values" if scalars else f"{fill_value!r}"
        raise ValueError(
            f"quire.numpy.nonzero: fill_value must be a scalar, or a tuple of {ndim}, one for each dimension; got {given}"
        )
    return [None if f is None else ensure("nonzero", f, "fill_value") for f in each]


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The indices of the elements of the flattened array that are not 0; arguments as `nonzero`.

    Follows `numpy.flatnonzero`.

    >>> quire.numpy.flatnonzero(quire.numpy.array([[0, 5], [6, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(ensure("flatnonzero", a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The indices of the elements that are not 0, as rows; arguments as `nonzero`. Follows `numpy.argwhere`.

    >>> quire.numpy.argwhere(quire.numpy.array([[0, 5], [6, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    x = ensure("argwhere", a)
    if x.aval.ndim == 0:
        return filled((sum_(as_bool(x)).item(), 0), 0, dtypes.canonicalize(dtypes.int64))
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def unravel_index(indices: Any, shape: Any) -> tuple[Value, ...]:
    """Positions in the flattened array as indices of each dimension; those outside are clamped.

    Where the shape has no elements, all are 0.

    Raises TypeError for indices that are no integers.

    Follows `numpy.unravel_index`.

    >>> [int(i) for i in quire.numpy.unravel_index(5, (2, 3))]
    [1, 2]
    """
    sizes = as_shape("unravel_index", shape)
    index = ensure("unravel_index", indices)
    if not dtypes.is_integer(index.aval.dtype):
        raise TypeError(f"quire.numpy.unravel_index: indices must be integers, got {index.aval.short()}")
    weak = index.aval.weak_type
    total = math.prod(sizes)
    if not total:
        zeros = filled(index.aval.shape, 0, index.aval.dtype, weak)
        return (zeros,) * len(sizes)
    index = ew.clamp_p.bind(
        index.aval.dtype.type(-total if dtypes.is_signed(index.aval.dtype) else 0),
        index,
        index.aval.dtype.type(total - 1),
    )
    index = _choice(lt_(index, 0), add_(index, total), index) if dtypes.is_signed(index.aval.dtype) else index
    out: list[Value] = []
    stride = total
    for k in sizes:
        stride //= k
        part = ew.rem_p.bind(ew.div_p.bind(index, index.aval.dtype.type(stride)), index.aval.dtype.type(k))
        out.append(ew.convert_element_type_p.bind(part, new_dtype=part.aval.dtype, weak_type=True) if weak else part)
    return tuple(out)


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Value:
    """Indices of each dimension as positions in the flattened array.

    `mode`: "clip", "wrap", "ignore" (nothing is checked), or "raise" (which needs known values). `dtype`: by default that of
    the indices. Follows `numpy.ravel_multi_index`.

    Raises ValueError where there are not as many indices as dims, for another mode, for a dtype that cannot hold the last
    position, and, with "raise", for an index outside; TypeError for indices that are no integers.

    >>> int(quire.numpy.ravel_multi_index((1, 2), (2, 3)))
    5
    """
    sizes = [as_int("ravel_multi_index", k, "each of dims") for k in dims]
    indices = [ensure("ravel_multi_index", i, n) for n, i in enumerate(multi_index)]
    if len(indices) != len(sizes):
        raise ValueError(f"quire.numpy.ravel_multi_index: {len(indices)} indices for {len(sizes)} dimensions")
    d = result_type(0, *indices)[0] if dtype is None else user_dtype("ravel_multi_index", dtype)
    if not dtypes.is_integer(d) or math.prod(sizes) - 1 > np.iinfo(d).max:
        raise ValueError(
            f"quire.numpy.ravel_multi_index: dtype {d} must be of integers that hold the positions of {tuple(sizes)}: give "
            "a wider one, dtype="
        )
    for i in indices:
        if not dtypes.is_integer(i.aval.dtype):
            raise TypeError(f"quire.numpy.ravel_multi_index: indices must be integers, got {i.aval.short()}")
    if mode == "raise":
        for i, k in zip(indices, sizes):
            known = known_shape_operand("ravel_multi_index", i, "give mode='clip' or mode='wrap'")
            if ((known < 0) | (known >= k)).any():
                raise ValueError(f"quire.numpy.ravel_multi_index: invalid entry: indices must be within {tuple(sizes)}")
    elif mode == "clip":
        indices = [clip(i, 0, k - 1) for i, k in zip(indices, sizes)]
    elif mode == "wrap":
        indices = [remainder(i, k) for i, k in zip(indices, sizes)]
    elif mode != "ignore":
        raise ValueError(
            f"quire.numpy.ravel_multi_index: mode must be 'raise', 'clip', 'wrap' or 'ignore', got {mode!r}"
        )
    strides = np.cumprod([1, *(sizes[:0:-1] if order == "C" else sizes[:-1])])
    strides = strides[::-1] if order == "C" else strides

    terms = [mul_(cast(i, d), d.type(s)) for i, s in zip(indices, strides)]
    return functools.reduce(add, terms, filled((), 0, d))


__all__ = ["argwhere", "flatnonzero", "nonzero", "ravel_multi_index", "unravel_index"]

"""Counting: histograms, and the bins to which values belong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import (
    Value,
    as_int,
    broadcast_to,
    cast,
    ensure,
    inexact,
    known_shape_operand,
    promote_dtypes,
    promote_inexact,
)
from . import reductions as rd
from ._ops import add_, div_, mul_, select, sub_
from .creation import filled
from .from_values import asarray
from .joining import stack
from .ranges import linspace
from .selection import where
from .shapes import ravel
from .sorting import searchsorted


@takes_out_sharding
def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None, out_sharding: Any = None
) -> Value:
    """How often each non-negative integer occurs, or the sum of its weights.

    Args:
        x: a vector of integers; negative ones count as 0.
        weights: a number for each.
        minlength: the least length of the result.
        length: the length, needed where x is traced; larger integers are not counted.

    Raises:
        TypeError: x holds other numbers than integers and bool.
        ValueError: x is not 1-dimensional, or weights have another shape than x.
        ConcretizationTypeError: x is traced and no length is given.

    Follows `numpy.bincount`.

    >>> quire.numpy.bincount(quire.numpy.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    v = ensure("bincount", x)
    if not (dtypes.is_integer(v.aval.dtype) or dtypes.is_bool(v.aval.dtype)):
        raise TypeError(f"quire.numpy.bincount: x must be integers, got {v.aval.short()}")
    if v.aval.ndim != 1:
        raise ValueError(f"quire.numpy.bincount: only 1-dimensional input is supported, got {v.aval.short()}")
    if length is None:
        known = known_shape_operand("bincount", v, "give length=n")
        length = int(max(minlength, int(known.max()) + 1 if known.size else 0))
    n = as_int("bincount", length, "length")
    if weights is None:
        w: Value = filled(v.aval.shape, 1, dtypes.canonicalize(dtypes.int64))
    else:
        w = ensure("bincount", weights, "weights")
        if w.aval.shape != v.aval.shape:
            raise ValueError(
                f"quire.numpy.bincount: weights {w.aval.short()} and x {v.aval.short()} must have one shape"
            )
    v = bind(ew.max_p, (cast(v, dtypes.int32), np.int32(0)), {})
    return filled((n,), 0, w.aval.dtype).at[v].add(w, mode="drop")


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Value:
    """The index of the bin to which each value belongs; bins rise or fall. Follows `numpy.digitize`.

    Raises ValueError for bins that are not 1-dimensional.

    >>> quire.numpy.digitize(quire.numpy.array([0.5, 2.5]), quire.numpy.array([0., 1., 2.]))
    Array([1, 3], dtype=int32)
    """
    v, edges = ensure("digitize", x), ensure("digitize", bins, "bins")
    if edges.aval.ndim != 1:
        raise ValueError(f"quire.numpy.digitize: bins must be 1-dimensional, got {edges.aval.short()}")
    side = "left" if right else "right"
    if edges.aval.shape[0] == 0:
        return filled(v.aval.shape, 0, dtypes.int32)
    rising = searchsorted(edges, v, side=side)
    falling = sub_(edges.aval.shape[0], searchsorted(st.rev(edges, (0,)), v, side=side))
    return where(edges[-1] >= edges[0], rising, falling)  # the operator, which orders complex numbers too


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Value:
    """The edges of the bins of `histogram`. Follows `numpy.histogram_bin_edges`.

    Raises NotImplementedError for bins that are the name of a method.

    >>> quire.numpy.histogram_bin_edges(quire.numpy.array([0., 2.]), bins=2)
    Array([0., 1., 2.], dtype=float32)
    """
    x = ravel(ensure("histogram_bin_edges", a))
    if isinstance(bins, str):
        raise NotImplementedError("quire.numpy.histogram_bin_edges: bins must be a number or an array of edges")
    edges = asarray(bins)
    float_ = inexact(x.aval.dtype)
    if edges.aval.ndim == 1:
        return cast(edges, float_)
    if range is None:
        low, high = (rd.min(x), rd.max(x)) if x.aval.size else (filled((), 0, float_), filled((), 1, float_))
    else:
        low, high = (ensure("histogram_bin_edges", v, "range") for v in range)
    low, high = cast(low, float_), cast(high, float_)
    flat = bind(ew.eq_p, (low, high), {})
    low, high = select(flat, sub_(low, 0.5), low), select(flat, add_(high, 0.5), high)
    n = known_shape_operand("histogram_bin_edges", edges, "give a static number of bins")
    return linspace(low, high, int(n) + 1, dtype=float_)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: Any = None
) -> tuple[Value, Value]:
    """How many elements lie in each of some bins.

    Args:
        a: an array.
        bins: the number of equal bins, or their edges.
        range: the first and the last edge; by default the least and the largest element.
        weights: a number for each element.
        density: whether to divide by the number of elements and the widths of the bins.

    Returns:
        The counts, and the edges, one more.

    Raises:
        ValueError: there are not as many weights as elements.

    Follows `numpy.histogram`.

    >>> quire.numpy.histogram(quire.numpy.array([0., 1., 1.5, 2.]), bins=2)[0]
    Array([1., 3.], dtype=float32)
    """
    x = ensure("histogram", a)
    if weights is not None:
        w = ravel(ensure("histogram", weights, "weights"))
        if w.aval.size != x.aval.size:
            raise ValueError(f"quire.numpy.histogram: weights {w.aval.short()} must have the shape of {x.aval.short()}")
        x, w = promote_inexact(x, w)
        w = cast(w, w.aval.dtype)
    else:
        (x,) = promote_inexact(x)
        w = filled((x.aval.size,), 1, x.aval.dtype)
    x = ravel(cast(x, x.aval.dtype))
    edges = histogram_bin_edges(x, bins, range)
    n = edges.aval.shape[0] - 1
    counts = filled((n + 2,), 0, w.aval.dtype).at[_bins_of(x, edges)].add(w)[1 : n + 1]
    if density:
        widths = cast(sub_(edges[1:], edges[:-1]), counts.aval.dtype)
        counts = div_(div_(counts, widths), rd.sum(counts))
    return counts, edges


def _bins_of(x: Value, edges: Value) -> Value:
    """The bin of each value, from 1; 0 below the first edge, the number of edges above the last one."""
    bin_ = searchsorted(edges, x, side="right")
    last = bind(ew.eq_p, (x, broadcast_to(cast(edges[-1], x.aval.dtype), x.aval.shape)), {})
    return select(last, edges.aval.shape[0] - 1, bin_)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Value, Value, Value]:
    """How many points of the plane lie in each of some rectangles.

    Args:
        x, y: the points' coordinates, vectors of one size.
        bins: the number of equal bins along each axis, or the edges for both; or a pair of these.
        range: the first and the last edge of x, and of y.
        weights: a number for each point.
        density: whether to divide by the number of points and the areas.

    Returns:
        The counts, the edges of x and those of y.

    Raises:
        ValueError: x is not 1-dimensional, or y has another shape than x.

    Follows `numpy.histogram2d`.

    >>> x = quire.numpy.array([0., 1., 2.])
    >>> quire.numpy.histogram2d(x, x, bins=2)[0]
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    u, v = ensure("histogram2d", x), ensure("histogram2d", y, "y")
    if u.ndim != 1 or u.aval.shape != v.aval.shape:
        raise ValueError(
            f"quire.numpy.histogram2d: x {u.aval.short()} and y {v.aval.short()} must be vectors of one size"
        )
    try:
        several = len(bins)
    except TypeError:
        several = 1
    if several not in (1, 2):
        bins = [asarray(bins)] * 2

    counts, edges = histogramdd(stack(promote_dtypes(u, v), 1), bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Value, list[Value]]:
    """How many points lie in each of some boxes.

    Args:
        sample: a matrix with a point in each row.
        bins: the number of equal bins along every axis; or for each axis that number or its edges.
        range: for each axis the first and the last edge, or None.
        weights: a number for each point.
        density: whether to divide by the number of points and the volumes.

    Returns:
        The counts, and a list of the edges of each axis.

    Raises:
        ValueError: the shapes do not fit, or there are not as many bins or ranges as axes.

    Follows `numpy.histogramdd`.

    >>> quire.numpy.histogramdd(quire.numpy.array([[0., 0.], [1., 1.]]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    name = "histogramdd"
    x = ensure(name, sample)
    if x.ndim != 2:
        raise ValueError(f"quire.numpy.{name}: sample must be a matrix with a point in each row, got {x.aval.short()}")
    n, axes = x.aval.shape
    if weights is None:
        (x,) = promote_inexact(x)
        w = None
    else:
        x, w = promote_inexact(x, ensure(name, weights, "weights"))
        if w.aval.shape != (n,):
            raise ValueError(
                f"quire.numpy.{name}: weights must have shape ({n},), one for each point, got {w.aval.short()}"
            )
    if range is not None and (len(range) != axes or any(r is not None and len(r) != 2 for r in range)):
        raise ValueError(f"quire.numpy.{name}: range must hold {axes} pairs or None, one for each axis, got {range!r}")
    try:
        each = list(bins)
    except TypeError:
        each = [bins] * axes
    if len(each) != axes:
        raise ValueError(f"quire.numpy.{name}: bins must hold {axes} entries, one for each axis, got {len(each)}")
    place: Value = np.int32(0)
    edges: list[Value] = []
    sizes: list[int] = []
    for i, b in enumerate(each):
        column = x[:, i]
        edges.append(histogram_bin_edges(column, b, None if range is None else range[i]))
        sizes.append(edges[i].aval.shape[0] + 1)
        place = add_(mul_(place, sizes[i]) if i else place, cast(_bins_of(column, edges[i]), np.dtype(np.int32)))
    counts = bincount(place, w, length=math.prod(sizes))
    counts = st.reshape(counts, sizes)[(slice(1, -1),) * axes]
    if density:
        counts = div_(cast(counts, x.aval.dtype), rd.sum(cast(counts, x.aval.dtype)))
        for i, e in enumerate(edges):
            widths = cast(sub_(e[1:], e[:-1]), x.aval.dtype)
            counts = div_(counts, st.broadcast_in_dim(widths, counts.aval.shape, (i,)))
    return counts, edges


__all__ = ["bincount", "digitize", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

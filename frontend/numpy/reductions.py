"""Reductions: sum, prod, max, min, all, any, mean, variance, arg-reductions, cumulative sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind

from ..arrays.operands import (
    INEXACT,
    Value,
    as_axes,
    as_axis,
    broadcast_shapes,
    broadcast_to,
    cast,
    ensure,
    inexact,
    no_out,
    user_dtype,
)
from ._ops import add_, div_, mul_, select, sub_
from .creation import filled
from .elementwise import as_bool

Axis = Any


def _axes(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axis is None else as_axes(name, axis, ndim)


def _kept(x: Value, axes: tuple[int, ...], out: Value, keepdims: bool) -> Value:
    """The result of a reduction, with the reduced dimensions at size 1 if they are kept."""
    if not keepdims:
        return out
    return st.reshape(out, tuple([1 if i in axes else n for i, n in enumerate(aval_of(x).shape)]))


def _masked(name: str, x: Value, where: Any, fill: Any) -> Value:
    """x with `fill` where the mask is false; the mask broadcasts against x."""
    mask = ensure(name, where, "where")
    if not dtypes.is_bool(mask.dtype):
        raise ValueError(f"quire.numpy.{name}: where must be None or a boolean array, got {mask.aval.short()}")
    shape = broadcast_shapes(name, x.aval.shape, mask.aval.shape)
    return select(broadcast_to(mask, shape), broadcast_to(x, shape), fill)


def _strong(x: Value) -> Value:
    return cast(x, x.aval.dtype) if x.aval.weak_type else x


def _accumulator(dtype: DType, promote_integers: bool) -> DType:
    """The dtype of sums and products: bool and narrow integers become the default integer of their sign."""
    if dtypes.is_bool(dtype):
        return dtypes.canonicalize(dtypes.int64) if promote_integers else dtypes.canonicalize(dtypes.int64)
    if promote_integers and dtypes.is_integer(dtype):
        wide = dtypes.canonicalize(dtypes.uint64 if dtypes.is_unsigned(dtype) else dtypes.int64)
        return wide if wide.itemsize > dtype.itemsize else dtype
    return dtype


def _arithmetic(name: str, p: Primitive, neutral: int, combine: Callable[[Value, Value], Value], doc: str) -> Any:
    def apply(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Value:
        x = ensure(name, a)
        if out is not None:
            no_out(name, out)
        axes = _axes(name, axis, x.aval.ndim)
        target = _accumulator(x.aval.dtype, promote_integers) if dtype is None else user_dtype(name, dtype)
        if dtypes.is_bool(target) and dtype is not None:
            x = cast(as_bool(x), dtypes.int32)
            result = apply(x, axis, None, None, keepdims, initial, where)
            return as_bool(result)
        x = cast(x, target)
        if where is not None:
            x = _masked(name, x, where, neutral)
            axes = _axes(name, axis, x.aval.ndim)
        result = bind(p, (x,), {"axes": axes}) if axes else _strong(x)
        if initial is not None:
            start = ensure(name, initial, "initial")
            if start.ndim:
                raise ValueError(f"quire.numpy.{name}: initial must be a scalar, got {start.aval.short()}")
            result = combine(result, cast(start, target))
        return _kept(x, axes, result, keepdims)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "quire.numpy"
    apply.__doc__ = doc
    return apply


_REDUCTION_ARGS = """
    Args:
        a: an array.
        axis: an axis, several, or None for all.
        dtype: the dtype in which to accumulate, and of the result; by default that of `a`, where bool and integers
            narrower than the default one become that (unless promote_integers is False).
        out: not supported.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a scalar to start with.
        where: a boolean array that broadcasts to `a`: which elements count.
"""

sum = _arithmetic(
    "sum", rd.reduce_sum_p, 0, add_,
    f"""The sum of the elements over some axes.
{_REDUCTION_ARGS}
    Follows `numpy.sum`.

    >>> quire.numpy.sum(quire.numpy.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """,
)  # fmt: skip
prod = _arithmetic(
    "prod", rd.reduce_prod_p, 1, mul_,
    f"""The product of the elements over some axes.
{_REDUCTION_ARGS}
    Follows `numpy.prod`.

    >>> quire.numpy.prod(quire.numpy.array([[1, 2], [3, 4]]), axis=0)
    Array([3, 8], dtype=int32)
    """,
)  # fmt: skip


def _extremum(name: str, p: Primitive, combine: Primitive, neutral: Callable[[DType], Any], doc: str) -> Any:
    def apply(
        a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Value:
        x = ensure(name, a)
        if out is not None:
            no_out(name, out)
        axes = _axes(name, axis, x.aval.ndim)
        x = _strong(x)
        if where is not None:
            if initial is None:
                raise ValueError(f"quire.numpy.{name}: with a where mask give initial, the value over no elements")
            x = _masked(name, x, where, neutral(x.aval.dtype))
            axes = _axes(name, axis, x.aval.ndim)
        if initial is None and any_zero(x.aval.shape, axes):
            raise ValueError(
                f"quire.numpy.{name}: zero-size array {x.aval.short()} over axes {axes}: {name} has no identity, give initial"
            )
        result = bind(p, (x,), {"axes": axes}) if axes else x
        if initial is not None:
            start = cast(ensure(name, initial, "initial"), x.aval.dtype)
            result = bind(combine, (result, start), {})
        return _kept(x, axes, result, keepdims)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "quire.numpy"
    apply.__doc__ = doc
    return apply


def any_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether a reduced dimension is empty."""
    for i in axes:
        if shape[i] == 0:
            return True
    return False


_EXTREMUM_ARGS = """
    Args:
        a: an array; NaN wins, complex numbers compare by real, then imaginary part.
        axis: an axis, several, or None for all.
        out: not supported.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a scalar to start with, needed for empty arrays and with `where`.
        where: a boolean array that broadcasts to `a`: which elements count.
"""

max = amax = _extremum(
    "max", rd.reduce_max_p, ew.max_p, rd.lowest,
    f"""The largest element over some axes.
{_EXTREMUM_ARGS}
    Follows `numpy.max`.

    >>> quire.numpy.max(quire.numpy.array([[1, 5], [3, 4]]), axis=0)
    Array([3, 5], dtype=int32)
    """,
)  # fmt: skip
min = amin = _extremum(
    "min", rd.reduce_min_p, ew.min_p, rd.highest,
    f"""The smallest element over some axes.
{_EXTREMUM_ARGS}
    Follows `numpy.min`.

    >>> quire.numpy.min(quire.numpy.array([[1, 5], [3, 4]]), axis=0)
    Array([1, 4], dtype=int32)
    """,
)  # fmt: skip


def _logical(name: str, p: Primitive, neutral: bool, doc: str) -> Any:
    def apply(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Value:
        x = ensure(name, a)
        if out is not None:
            no_out(name, out)
        x = cast(as_bool(x), dtypes.bool_)
        if where is not None:
            x = _masked(name, x, where, np.bool_(neutral))
        axes = _axes(name, axis, x.aval.ndim)
        return _kept(x, axes, bind(p, (x,), {"axes": axes}) if axes else x, keepdims)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "quire.numpy"
    apply.__doc__ = doc
    return apply


_LOGICAL_ARGS = """
    Args:
        a: an array; numbers count as true unless they are 0.
        axis: an axis, several, or None for all.
        out: not supported.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: a boolean array that broadcasts to `a`: which elements count.
"""

all = _logical(
    "all", rd.reduce_and_p, True,
    f"""Whether all elements over some axes are true.
{_LOGICAL_ARGS}
    Follows `numpy.all`.

    >>> quire.numpy.all(quire.numpy.array([1, 0])).item()
    False
    """,
)  # fmt: skip
any = _logical(
    "any", rd.reduce_or_p, False,
    f"""Whether any element over some axes is true.
{_LOGICAL_ARGS}
    Follows `numpy.any`.

    >>> quire.numpy.any(quire.numpy.array([1, 0])).item()
    True
    """,
)  # fmt: skip


def count(x: Value, axes: tuple[int, ...], where: Any, dtype: DType, name: str, keepdims: bool = False) -> Value:
    """How many elements a reduction over `axes` takes, as a scalar or an array of the dtype."""
    if where is None:
        return dtype.type(math.prod([x.aval.shape[i] for i in axes]))
    mask = broadcast_to(ensure(name, where, "where"), x.aval.shape)
    return sum(mask, axis=axes, dtype=dtype, keepdims=keepdims)


def _mean_dtypes(name: str, dtype: DType, requested: Any) -> tuple[DType, DType]:
    """The dtypes in which a mean is computed and returned: half precision accumulates in float32."""
    if requested is not None:
        result = user_dtype(name, requested)
        return result, result
    result = inexact(dtype)
    return (dtypes.float32 if result in (dtypes.float16, dtypes.bfloat16) else result), result


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Value:
    """The mean of the elements over some axes.

    Args:
        a: an array.
        axis: an axis, several, or None for all.
        dtype: the dtype in which to compute; by default inexact (float16 and bfloat16 are summed in float32).
        keepdims: whether the reduced dimensions stay, with size 1.
        where: a boolean array that broadcasts to `a`: which elements count.

    Raises:
        TypeError: dtype is bool.

    Follows `numpy.mean`.

    >>> quire.numpy.mean(quire.numpy.array([1, 2, 4]))
    Array(2.3333333, dtype=float32)
    """
    x = ensure("mean", a)
    no_out("mean", out)
    compute, result = _mean_dtypes("mean", x.aval.dtype, dtype)
    if dtypes.is_bool(result):
        raise TypeError(
            "quire.numpy.mean: dtype must be of numbers, got bool: quire.numpy.any tells whether an element is not 0"
        )
    axes = _axes("mean", axis, x.aval.ndim)
    total = sum(x, axis=axes, dtype=compute, keepdims=keepdims, where=where)
    if dtypes.is_integer(compute):
        n = count(x, axes, where, dtypes.canonicalize(dtypes.float64), "mean", keepdims)
        return cast(div_(cast(total, n.dtype), n), result)
    return cast(div_(total, count(x, axes, where, compute, "mean", keepdims)), result)


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Value:
    """The variance of the elements over some axes.

    Args:
        a: an array.
        axis: an axis, several, or None for all.
        dtype: the dtype in which to compute, and of the result; by default inexact (real for complex `a`).
        ddof, correction: what is subtracted from the number of elements in the divisor; not both.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: a boolean array that broadcasts to `a`: which elements count.
        mean: the mean, if it is known; it broadcasts against `a`.

    Follows `numpy.var`.

    >>> quire.numpy.var(quire.numpy.array([1., 3.])).item()
    1.0
    """
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _variance(
    name: str,
    a: Any,
    axis: Axis,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: bool,
    where: Any,
    mean_: Any,
    correction: Any,
) -> Value:
    x = ensure(name, a)
    no_out(name, out)
    if correction is not None:
        if ddof:
            raise ValueError(f"quire.numpy.{name}: give ddof or correction, not both")
        ddof = correction
    compute, result = _mean_dtypes(name, x.aval.dtype, dtype)
    if dtypes.is_complex(x.aval.dtype) and dtype is not None and not dtypes.is_complex(compute):
        raise ValueError(f"quire.numpy.{name}: dtype {compute} has no imaginary part for that of {x.aval.short()}")
    if compute not in INEXACT:
        compute = dtypes.canonicalize(dtypes.float64)
    if compute in (dtypes.float16, dtypes.bfloat16):  # squares of halves are soon beyond them, whatever was asked for
        compute = dtypes.float32
    result = dtypes.real_dtype(result) if dtype is None else result
    if dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(compute):
        compute = dtypes.complex_dtype(compute)
    axes = _axes(name, axis, x.aval.ndim)
    x = cast(x, compute)
    center = ensure(name, mean_, "mean") if mean_ is not None else mean(x, axes, keepdims=True, where=where)
    center = cast(center, compute)
    centered = sub_(x, broadcast_to(center, broadcast_shapes(name, x.aval.shape, center.aval.shape)))
    if dtypes.is_complex(compute):
        squares = add_(ew.square_p.bind(ew.real_p.bind(centered)), ew.square_p.bind(ew.imag_p.bind(centered)))
    else:
        squares = ew.square_p.bind(centered)
    real = dtypes.real_dtype(compute)
    n = sub_(count(x, axes, where, real, name, keepdims), real.type(ddof))
    total = sum(squares, axes, keepdims=keepdims, where=where)
    if isinstance(n, np.generic):
        value = div_(total, n) if n.item() > 0 else mul_(total, math.nan)
    else:
        positive = ew.gt_p.bind(n, real.type(0))
        value = div_(total, n)
        value = select(positive, value, math.nan)
    return cast(value, result)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Value:
    """The standard deviation, the square root of `var`, whose arguments it takes. Follows `numpy.std`.

    Raises ValueError for a dtype that is neither float nor complex, and as `var`.

    >>> quire.numpy.std(quire.numpy.array([1., 5.])).item()
    2.0
    """
    variance = _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    if variance.aval.dtype not in INEXACT:
        raise ValueError(f"quire.numpy.std: dtype must be inexact, got {variance.aval.dtype}")
    return ew.sqrt_p.bind(variance)


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Value:
    """The largest element minus the smallest over some axes. Follows `numpy.ptp`.

    >>> quire.numpy.ptp(quire.numpy.array([3, 7, 4])).item()
    4
    """
    no_out("ptp", out)
    x = ensure("ptp", a)
    return sub_(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Value:
    """How many elements over some axes are not 0. Follows `numpy.count_nonzero`.

    >>> quire.numpy.count_nonzero(quire.numpy.array([3, 0, 4])).item()
    2
    """
    x = as_bool(ensure("count_nonzero", a))
    return sum(x, axis=axis, dtype=dtypes.canonicalize(dtypes.int64), keepdims=keepdims)


# -- arg-reductions -----------------------------------------------------------------------------------------------------


def _arg(name: str, p: Primitive, doc: str) -> Any:
    def apply(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Value:
        x = ensure(name, a)
        no_out(name, out)
        shape = x.aval.shape
        flat = x
        if axis is None:
            flat, d = st.reshape(x, (x.aval.size,)), 0
        else:
            d = as_axis(name, axis, x.aval.ndim)
        if flat.aval.shape[d] == 0:
            raise ValueError(f"quire.numpy.{name}: attempt to get {name} of an empty sequence, {x.aval.short()}")
        try:
            result = bind(p, (flat,), {"axes": (d,), "index_dtype": dtypes.canonicalize(dtypes.int64)})
        except TypeError as error:
            raise TypeError(f"quire.numpy.{name}: {error}") from None
        if not keepdims:
            return result
        kept = (1,) * len(shape) if axis is None else tuple(1 if i == d else n for i, n in enumerate(shape))
        return st.reshape(result, kept)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "quire.numpy"
    apply.__doc__ = doc
    return apply


_ARG_ARGS = """
    Args:
        a: an array; the first NaN wins, of equal elements the first.
        axis: the axis; None for the flattened array.
        keepdims: whether the dimension stays, with size 1.
"""

argmax = _arg(
    "argmax", rd.argmax_p,
    f"""The index of the largest element along an axis.
{_ARG_ARGS}
    Follows `numpy.argmax`.

    >>> quire.numpy.argmax(quire.numpy.array([1, 5, 3])).item()
    1
    """,
)  # fmt: skip
argmin = _arg(
    "argmin", rd.argmin_p,
    f"""The index of the smallest element along an axis.
{_ARG_ARGS}
    Follows `numpy.argmin`.

    >>> quire.numpy.argmin(quire.numpy.array([1, 5, 3])).item()
    0
    """,
)  # fmt: skip


# -- cumulative -----------------------------------------------------------------------------------------------------------


def cumulate(name: str, p: Primitive, x: Value, axis: int | None, dtype: Any, promote_integers: bool = False) -> Value:
    """A cumulative operation along an axis, or along the flattened array."""
    if axis is None or x.aval.ndim == 0:
        if axis is not None:
            as_axis(name, axis, 1)
        x, d = st.reshape(x, (x.aval.size,)), 0
    else:
        d = as_axis(name, axis, x.aval.ndim)
    if dtype is None:
        narrow = dtypes.is_bool(x.aval.dtype) or promote_integers
        target = _accumulator(x.aval.dtype, True) if narrow else x.aval.dtype
    else:
        target = user_dtype(name, dtype)
    if dtypes.is_bool(target):
        return as_bool(bind(p, (cast(as_bool(x), dtypes.int32),), {"axis": d, "reverse": False}))
    return bind(p, (cast(x, target),), {"axis": d, "reverse": False})


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Value:
    """Sums of the elements up to each one.

    Args:
        a: an array.
        axis: the axis; None for the flattened array.
        dtype: the dtype of the sums; by default that of `a` (the default integer for bool).

    Follows `numpy.cumsum`.

    >>> quire.numpy.cumsum(quire.numpy.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    no_out("cumsum", out)
    return cumulate("cumsum", rd.cumsum_p, ensure("cumsum", a), axis, dtype)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Value:
    """Products of the elements up to each one; arguments as `cumsum`. Follows `numpy.cumprod`.

    >>> quire.numpy.cumprod(quire.numpy.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    no_out("cumprod", out)
    return cumulate("cumprod", rd.cumprod_p, ensure("cumprod", a), axis, dtype)


def _cumulative(
    name: str, p: Primitive, x: Any, axis: int | None, dtype: Any, include_initial: bool, initial: int, widened: bool
) -> Value:
    x = ensure(name, x)
    if x.aval.ndim == 0:
        raise ValueError(f"quire.numpy.{name}: the input must be at least 1-dimensional")
    if axis is None:
        if x.aval.ndim > 1:
            raise ValueError(
                f"quire.numpy.{name}: axis must be given for {x.aval.short()}, which has several dimensions"
            )
        axis = 0
    d = as_axis(name, axis, x.aval.ndim)
    out = cumulate(name, p, x, d, dtype, promote_integers=widened)
    if include_initial:
        shape = tuple(1 if i == d else n for i, n in enumerate(out.aval.shape))
        out = st.concatenate([filled(shape, initial, out.aval.dtype), out], d)
    return out


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Value:
    """`cumsum` of the array API: narrow integers are widened; optionally with a leading 0.

    Follows `numpy.cumulative_sum`.

    >>> quire.numpy.cumulative_sum(quire.numpy.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    return _cumulative("cumulative_sum", rd.cumsum_p, x, axis, dtype, include_initial, 0, widened=True)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Value:
    """`cumprod` of the array API, optionally with a leading 1. Narrow integers stay so, as in JAX: give a `dtype`.

    Follows `numpy.cumulative_prod`.

    >>> quire.numpy.cumulative_prod(quire.numpy.array([3, 2]), include_initial=True)
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumulative_prod", rd.cumprod_p, x, axis, dtype, include_initial, 1, widened=False)


__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip

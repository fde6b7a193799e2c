"""Reductions that leave NaN out, and fmax, fmin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import bind

from ..arrays.operands import INEXACT, Value, broadcast_shapes, broadcast_to, cast, ensure, no_out
from . import reductions as rd
from ._ops import and_, div_, select
from .elementwise import as_bool, greater, less, named, operands
from .selection import where

Axis = Any


def _is_nan(x: Value) -> Value:
    return bind(ew.ne_p, (x, x), {})


def _without_nan(name: str, a: Any, fill: Any) -> tuple[Value, Value | None]:
    """The array with `fill` for NaN, and where it was no number (None where the dtype has no NaN)."""
    x = ensure(name, a)
    if x.aval.dtype not in INEXACT:
        return x, None
    bad = _is_nan(x)
    return select(bad, cast(fill, x.aval.dtype), x), bad


def fmax(x1: Any, x2: Any) -> Value:
    """The larger of x1 and x2; the other one where one is NaN. Follows `numpy.fmax`.

    >>> quire.numpy.fmax(1., float("nan")).item()
    1.0
    """
    return _pick("fmax", greater, x1, x2)


def fmin(x1: Any, x2: Any) -> Value:
    """The smaller of x1 and x2; the other one where one is NaN. Follows `numpy.fmin`.

    >>> quire.numpy.fmin(1., float("nan")).item()
    1.0
    """
    return _pick("fmin", less, x1, x2)


def _pick(name: str, before: Callable[..., Value], x1: Any, x2: Any) -> Value:
    """x1 where it comes before x2 or x2 is NaN. So x2 has the whole derivative where they are equal, as in JAX."""
    try:
        x, y = operands(name, x1, x2)
    except (TypeError, ValueError) as error:
        named(error, name)
        raise

    first = before(x, y)
    return where(first if ensure(name, y).aval.dtype not in INEXACT else ew.or_p.bind(first, _is_nan(y)), x, y)


_DOC = """{what} Arguments as those of `{base}`. Follows `numpy.{name}`.

    >>> quire.numpy.{name}(quire.numpy.array([1., float("nan"), 4.])).item()
    {example}
    """


def _named(f: Callable[..., Value], name: str, base: str, what: str, example: str) -> Callable[..., Value]:
    f.__name__ = f.__qualname__ = name
    f.__module__ = "quire.numpy"
    f.__doc__ = _DOC.format(name=name, base=base, what=what, example=example)
    return f


def _total(name: str, base: Callable[..., Value], fill: int) -> Callable[..., Value]:
    def apply(
        a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None,
    ) -> Value:  # fmt: skip
        no_out(name, out)
        x, _ = _without_nan(name, a, fill)
        return base(x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return apply


nansum = _named(_total("nansum", rd.sum, 0), "nansum", "sum", "The sum of the elements that are not NaN.", "5.0")
nanprod = _named(
    _total("nanprod", rd.prod, 1), "nanprod", "prod", "The product of the elements that are not NaN.", "4.0"
)


def _extremum(name: str, base: Callable[..., Value], fill: float) -> Callable[..., Value]:
    def apply(
        a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Value:
        no_out(name, out)
        x, bad = _without_nan(name, a, fill)
        result = base(x, axis=axis, keepdims=keepdims, initial=initial, where=where)
        if bad is None:
            return result
        # NaN where there is nothing else.
        nothing = rd.all(bad, axis=axis, keepdims=keepdims)
        if initial is not None:
            return result
        return select(nothing, math.nan, result)

    return apply


nanmax = _named(_extremum("nanmax", rd.max, -math.inf), "nanmax", "max", "The largest element that is not NaN.", "4.0")
nanmin = _named(_extremum("nanmin", rd.min, math.inf), "nanmin", "min", "The smallest element that is not NaN.", "1.0")


def _arg(name: str, base: Callable[..., Value], fill: float) -> Callable[..., Value]:
    def apply(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Value:
        no_out(name, out)
        x, bad = _without_nan(name, a, fill)
        result = base(x, axis=axis, keepdims=keepdims)
        if bad is None:
            return result
        return select(rd.all(bad, axis=axis, keepdims=bool(keepdims)), -1, result)

    return apply


nanargmax = _named(
    _arg("nanargmax", rd.argmax, -math.inf), "nanargmax", "argmax",
    "The index of the largest element that is not NaN; -1 if all are.", "2",
)  # fmt: skip
nanargmin = _named(
    _arg("nanargmin", rd.argmin, math.inf), "nanargmin", "argmin",
    "The index of the smallest element that is not NaN; -1 if all are.", "0",
)  # fmt: skip


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Value:
    """Cumulative sums in which NaN counts as 0; arguments as those of `cumsum`. Follows `numpy.nancumsum`.

    >>> quire.numpy.nancumsum(quire.numpy.array([1., float("nan"), 4.]))
    Array([1., 1., 5.], dtype=float32)
    """
    return rd.cumsum(_without_nan("nancumsum", a, 0)[0], axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Value:
    """Cumulative products in which NaN counts as 1; arguments as those of `cumprod`. Follows `numpy.nancumprod`.

    >>> quire.numpy.nancumprod(quire.numpy.array([1., float("nan"), 4.]))
    Array([1., 1., 4.], dtype=float32)
    """
    return rd.cumprod(_without_nan("nancumprod", a, 1)[0], axis, dtype, out)


def _mask(name: str, x: Value, where: Any) -> Value:
    good = ew.not_p.bind(_is_nan(x))
    if where is None:
        return good
    mask = ensure(name, where, "where")
    shape = broadcast_shapes(name, good.aval.shape, mask.aval.shape)
    return and_(broadcast_to(good, shape), broadcast_to(as_bool(mask), shape))


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Value:
    """The mean of the elements that are not NaN; arguments as those of `mean`. Follows `numpy.nanmean`.

    >>> quire.numpy.nanmean(quire.numpy.array([1., float("nan"), 4.])).item()
    2.5
    """
    no_out("nanmean", out)
    x = ensure("nanmean", a)
    if x.aval.dtype not in INEXACT:
        return rd.mean(x, axis, dtype, None, keepdims, where=where)
    good = _mask("nanmean", x, where)
    real = dtypes.real_dtype(x.aval.dtype)
    total = nansum(x, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    n = rd.sum(good, axis=axis, dtype=np.int32, keepdims=keepdims)
    return div_(total, cast(n, total.aval.dtype if total.aval.dtype in INEXACT else real))


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: Any = None, mean: Any = None,
) -> Value:  # fmt: skip
    """The variance of the elements that are not NaN; arguments as those of `var`. Follows `numpy.nanvar`.

    >>> quire.numpy.nanvar(quire.numpy.array([1., float("nan"), 3.])).item()
    1.0
    """
    x = ensure("nanvar", a)
    if x.aval.dtype in INEXACT:
        where = _mask("nanvar", x, where)
        x = select(where, broadcast_to(x, where.aval.shape), 0.0)
    return rd.var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean)


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: Any = None, mean: Any = None,
) -> Value:  # fmt: skip
    """The standard deviation of the elements that are not NaN; arguments as those of `std`. Follows `numpy.nanstd`.

    >>> quire.numpy.nanstd(quire.numpy.array([1., float("nan"), 3.])).item()
    1.0
    """
    return ew.sqrt_p.bind(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


__all__ = [
    "fmax", "fmin", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]  # fmt: skip

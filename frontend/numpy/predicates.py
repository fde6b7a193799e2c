"""Questions about values: finite, infinite, real, close, equal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.tracing import bind
from quire.runtime.array import Array

from ..arrays.operands import INEXACT, Value, cast, check_arraylike, ensure, promote_all_shapes, promote_dtypes
from ._ops import add_, and_, eq_, mul_, or_, select, sub_
from .creation import filled
from .dtype_info import finfo
from .from_values import asarray
from .reductions import all as all_
from .reductions import any as any_
from .sorting import searchsorted, sort


def isfinite(x: Any, /) -> Value:
    """Whether x is neither infinite nor NaN. Follows `numpy.isfinite`.

    >>> quire.numpy.isfinite(quire.numpy.array([1., float("inf")]))
    Array([ True, False], dtype=bool)
    """
    x = ensure("isfinite", x)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        return and_(ew.is_finite_p.bind(ew.real_p.bind(x)), ew.is_finite_p.bind(ew.imag_p.bind(x)))
    if dtype in INEXACT:
        return ew.is_finite_p.bind(x)
    return filled(x.aval.shape, True, dtypes.bool_)


def isinf(x: Any, /) -> Value:
    """Whether x is infinite (for complex x, in either part). Follows `numpy.isinf`.

    >>> quire.numpy.isinf(quire.numpy.array([1., -float("inf")]))
    Array([False,  True], dtype=bool)
    """
    x = ensure("isinf", x)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        return or_(isinf(ew.real_p.bind(x)), isinf(ew.imag_p.bind(x)))
    if dtype in INEXACT:
        return _equals(ew.abs_p.bind(x), math.inf)
    return filled(x.aval.shape, False, dtypes.bool_)


def _equals(x: Value, value: float) -> Value:
    """Whether a float is a number: of no weak type, whatever x is."""
    return bind(ew.eq_p, (x, aval_of(x).dtype.type(value)), {})


def _signed_infinity(name: str, x: Any, value: float) -> Value:
    x = ensure(name, x)
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        raise ValueError(f"quire.numpy.{name}: not defined for complex numbers")
    return _equals(x, value) if dtype in INEXACT else filled(x.aval.shape, False, dtypes.bool_)


def isposinf(x: Any, /, out: None = None) -> Value:
    """Whether x is +inf. Follows `numpy.isposinf`.

    >>> quire.numpy.isposinf(float("inf")).item()
    True
    """
    return _signed_infinity("isposinf", x, math.inf)


def isneginf(x: Any, /, out: None = None) -> Value:
    """Whether x is -inf. Follows `numpy.isneginf`.

    >>> quire.numpy.isneginf(float("inf")).item()
    False
    """
    return _signed_infinity("isneginf", x, -math.inf)


def iscomplex(x: Any) -> Value:
    """Whether the imaginary part is not 0. Follows `numpy.iscomplex`.

    >>> quire.numpy.iscomplex(quire.numpy.array([1j, 1]))
    Array([ True, False], dtype=bool)
    """
    x = ensure("iscomplex", x)
    if not dtypes.is_complex(x.aval.dtype):
        return filled(x.aval.shape, False, dtypes.bool_)
    imag = ew.imag_p.bind(x)
    return bind(ew.ne_p, (imag, imag.aval.dtype.type(0)), {})


def isreal(x: Any) -> Value:
    """Whether the imaginary part is 0. Follows `numpy.isreal`.

    >>> quire.numpy.isreal(quire.numpy.array([1j, 1]))
    Array([False,  True], dtype=bool)
    """
    return ew.not_p.bind(iscomplex(x))


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Value:
    """Whether abs(a - b) <= atol + rtol * abs(b), element by element.

    Args:
        a, b: arrays of shapes that broadcast.
        rtol, atol: the relative and the absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Follows `numpy.isclose`.

    >>> quire.numpy.isclose(1., 1. + 1e-7).item()
    True
    """
    check_arraylike("isclose", a, b)
    x, y = promote_all_shapes("isclose", *promote_dtypes(a, b))
    dtype = aval_of(x).dtype
    if dtypes.is_bool(dtype):
        return ensure("isclose", bind(ew.eq_p, (x, y), {}))
    if dtypes.is_integer(dtype):
        x, y = cast(x, dtypes.canonicalize(dtypes.float64)), cast(y, dtypes.canonicalize(dtypes.float64))
        dtype = aval_of(x).dtype
    real = dtypes.real_dtype(dtype)
    rtol, atol = (cast(ensure("isclose", t, n), real) for t, n in ((rtol, "rtol"), (atol, "atol")))
    x, y = ensure("isclose", x), ensure("isclose", y)
    distance = ew.abs_p.bind(sub_(x, y))
    close = bind(ew.le_p, (distance, add_(mul_(ew.abs_p.bind(y), rtol), atol)), {})
    both_finite = and_(isfinite(x), isfinite(y))
    result = select(both_finite, close, bind(ew.eq_p, (x, y), {}))
    if equal_nan:
        result = or_(result, and_(bind(ew.ne_p, (x, x), {}), bind(ew.ne_p, (y, y), {})))
    return result


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Value:
    """Whether all elements are close, as `isclose` says. Follows `numpy.allclose`.

    >>> quire.numpy.allclose(quire.numpy.ones(2), 1.).item()
    True
    """
    return all_(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Value:
    """Whether shapes and all elements are equal. Follows `numpy.array_equal`.

    >>> quire.numpy.array_equal(quire.numpy.arange(2), quire.numpy.array([0, 1])).item()
    True
    """
    if isinstance(a1, list | tuple | np.ndarray) or isinstance(a2, list | tuple | np.ndarray):
        a1, a2 = asarray(a1), asarray(a2)
    x, y = ensure("array_equal", a1), ensure("array_equal", a2)
    if x.aval.shape != y.aval.shape:
        return filled((), False, dtypes.bool_)
    return all_(_equal(x, y, equal_nan))


def _equal(x: Value, y: Value, equal_nan: bool) -> Value:
    x, y = promote_dtypes(x, y)
    same = bind(ew.eq_p, (x, y), {})
    if equal_nan:
        same = or_(same, and_(bind(ew.ne_p, (x, x), {}), bind(ew.ne_p, (y, y), {})))
    return same


def array_equiv(a1: Any, a2: Any) -> Value:
    """Whether the arrays broadcast to one shape and are equal there. Follows `numpy.array_equiv`.

    >>> quire.numpy.array_equiv(quire.numpy.ones(2), 1.).item()
    True
    """
    x, y = ensure("array_equiv", a1), ensure("array_equiv", a2)
    try:
        x, y = promote_all_shapes("array_equiv", x, y)
    except TypeError:
        return filled((), False, dtypes.bool_)
    return all_(_equal(x, y, False))


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    """NaN and infinities replaced by numbers.

    Args:
        x: an array; integers are returned as they are.
        nan: what NaN becomes.
        posinf, neginf: what the infinities become: by default the largest and the least finite number.

    Follows `numpy.nan_to_num`.

    >>> quire.numpy.nan_to_num(quire.numpy.array([1., float("nan")]))
    Array([1., 0.], dtype=float32)
    """
    x = ensure("nan_to_num", x)
    dtype = x.aval.dtype
    if dtype not in INEXACT:
        return x
    if dtypes.is_complex(dtype):
        return ew.complex_p.bind(
            nan_to_num(ew.real_p.bind(x), copy, nan, posinf, neginf),
            nan_to_num(ew.imag_p.bind(x), copy, nan, posinf, neginf),
        )

    info = finfo(dtype)
    high = dtype.type(info.max) if posinf is None else posinf
    low = dtype.type(info.min) if neginf is None else neginf
    for which, value in ((bind(ew.ne_p, (x, x), {}), nan), (eq_(x, math.inf), high), (eq_(x, -math.inf), low)):
        x = select(which, cast(value if isinstance(value, Array) else ensure("nan_to_num", value), dtype), x)
    return x


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Value:
    """Whether each element is one of the test elements.

    Args:
        element, test_elements: arrays.
        assume_unique: a promise that is not needed.
        invert: whether to return the opposite.
        method: ignored: all elements are compared where there are few, else searched for in the sorted ones.

    Follows `numpy.isin`.

    >>> quire.numpy.isin(quire.numpy.array([1, 2, 3]), quire.numpy.array([2]))
    Array([False,  True, False], dtype=bool)
    """
    x, t = ensure("isin", element, "element"), ensure("isin", test_elements, "test_elements")
    x, t = promote_dtypes(x, t)

    n = t.aval.size
    t = st.reshape(t, (n,))
    if n == 0:
        found = filled(x.aval.shape, False, dtypes.bool_)
    elif n <= 32 or dtypes.is_complex(t.aval.dtype) or dtypes.is_bool(t.aval.dtype):
        wide = (*x.aval.shape, n)
        column = st.broadcast_in_dim(x, wide, tuple(range(x.aval.ndim)))
        found = any_(bind(ew.eq_p, (column, st.broadcast_in_dim(t, wide, (x.aval.ndim,))), {}), axis=-1)
    else:
        ordered = sort(t)
        place = ew.min_p.bind(searchsorted(ordered, x), np.int32(n - 1))
        found = bind(ew.eq_p, (ordered[place], x), {})
    return ew.not_p.bind(found) if invert else found


__all__ = [
    "allclose", "array_equal", "array_equiv", "isclose", "iscomplex", "isfinite", "isin", "isinf", "isneginf", "isposinf",
    "isreal", "nan_to_num",
]  # fmt: skip

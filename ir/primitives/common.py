"""Helpers of the type rules: checks whose messages speak the user's terms, and the families of elementwise rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..dtypes import DType
from ..primitive import Primitive, Rounding, primitive

# Sets of dtypes that operands may have, and how messages call them.
ANY = dtypes.ALL
NUMBER = (*dtypes.SIGNED, *dtypes.UNSIGNED, *dtypes.FLOATS, *dtypes.COMPLEX)
REAL = (*dtypes.SIGNED, *dtypes.UNSIGNED, *dtypes.FLOATS)
ORDERED = (dtypes.bool_, *REAL)
FLOAT = dtypes.FLOATS
INEXACT = (*dtypes.FLOATS, *dtypes.COMPLEX)
INTEGER = (*dtypes.SIGNED, *dtypes.UNSIGNED)
BITS = (dtypes.bool_, *INTEGER)
COMPLEX = dtypes.COMPLEX

_NAMES: dict[tuple[DType, ...], str] = {
    ANY: "any dtype", NUMBER: "a number dtype (integer, float or complex)", REAL: "an integer or float dtype",
    ORDERED: "a bool, integer or float dtype", FLOAT: "a float dtype", INEXACT: "a float or complex dtype",
    INTEGER: "an integer dtype", BITS: "a bool or integer dtype", COMPLEX: "a complex dtype",
}  # fmt: skip


def check_dtype(name: str, x: ShapedArray, allowed: tuple[DType, ...], argument: str = "operand") -> None:
    """Raise TypeError unless the operand's dtype is allowed."""
    if x.dtype not in allowed:
        want = _NAMES.get(allowed) or "one of " + ", ".join(dtypes.SHORT[d] for d in allowed)
        raise TypeError(f"{name}: {argument} {x.short()} has dtype {x.dtype}, expected {want}")


def check_same_dtype(name: str, *avals: ShapedArray) -> None:
    """Raise TypeError unless the operands have one dtype."""
    if len({a.dtype for a in avals}) > 1:
        given = ", ".join(a.short() for a in avals)
        raise TypeError(
            f"{name}: the operands must have one dtype, got {given}: convert with lax.convert_element_type or "
            "use quire.numpy, which promotes"
        )


def check_axes(name: str, ndim: int, axes: Sequence[int]) -> None:
    """Raise ValueError unless the axes are distinct and within [0, ndim)."""
    bad = [a for a in axes if not 0 <= a < ndim]
    if bad or len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axes {tuple(axes)} must be distinct and within [0, {ndim}), the operand's rank")


def canonical_axes(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The axes with negative ones counted from the end; ValueError for one out of range."""
    out = tuple(int(a) for a in axes)
    if not all(-ndim <= a < ndim for a in out):
        raise ValueError(f"{name}: axes {out} must be within [-{ndim}, {ndim}) for an operand of rank {ndim}")
    return tuple(a + ndim if a < 0 else a for a in out)


def elementwise_shape(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    """The shape of an elementwise operation: all equal, except that scalars go with any shape.

    Raises:
        TypeError: two operands that are no scalars have different shapes.
    """
    shapes = {a.shape for a in avals if a.shape}
    if len(shapes) > 1:
        given = ", ".join(a.short() for a in avals)
        raise TypeError(
            f"{name}: the operands must have one shape or be scalars, got {given}: broadcast with "
            "lax.broadcast_in_dim or use quire.numpy, which broadcasts"
        )
    return shapes.pop() if shapes else ()


def elementwise(
    name: str,
    arity: int,
    operands: tuple[DType, ...],
    doc: str,
    *,
    result: Callable[[DType], DType] | None = None,
    weight: int = 1,
    complex_weight: int | None = None,
    rounding: Rounding = "exact",
    commutative: bool = False,
    numpy: str = "",
    stablehlo: str = "",
) -> Primitive:
    """Declare an elementwise primitive: equal dtypes among `operands`, equal shapes or scalars.

    `result` maps the operands' dtype to the result's (the same by default). Weak types are kept.
    The others are facts of the primitive (see `quire.ir.primitive.Primitive`).
    """

    def type_rule(*avals: ShapedArray) -> ShapedArray:
        if len(avals) != arity:
            raise TypeError(f"{name}: expected {arity} operands, got {len(avals)}")
        for i, a in enumerate(avals):
            check_dtype(name, a, operands, "operand" if arity == 1 else f"operand {i}")
        check_same_dtype(name, *avals)
        dtype = avals[0].dtype if result is None else result(avals[0].dtype)
        weak = all(a.weak_type for a in avals)
        return ShapedArray(elementwise_shape(name, *avals), dtype, weak)

    type_rule.__doc__ = doc
    type_rule.__module__ = "quire.ir.primitives.elementwise"
    declared = primitive(
        name, weight=weight, complex_weight=complex_weight, rounding=rounding, commutative=commutative, numpy=numpy,
        stablehlo=stablehlo,
    )(type_rule)  # fmt: skip
    declared.arity = arity
    return declared


def to_bool(_: DType) -> DType:
    """bool, whatever the operands' dtype: the result's dtype of comparisons."""
    return dtypes.bool_


_SCALARS = (bool, int, float, complex)
_KINDS = {bool: 0, int: 1, float: 2, complex: 3}


def _kind(d: DType) -> int:
    return 0 if dtypes.is_bool(d) else 1 if dtypes.is_integer(d) else 2 if dtypes.is_float(d) else 3


def match_scalars(*args: Any) -> list[Any]:
    """Give Python scalars the dtype of the array operands, where that loses nothing of their kind.

    ``mul(x, 2)`` works for any number dtype of x; ``mul(x_i32, 2.5)`` and ``mul(x, True)`` leave the scalar alone, and the
    type rule then reports the dtypes. Beside an operand of weak type a number of its dtype stays as weak as it is.
    """
    aval: ShapedArray | None = None
    for a in args:
        if type(a) not in _SCALARS:
            aval = aval_of(a)
            break
    if aval is None:
        return list(args)
    dtype = aval.dtype
    kind = _kind(dtype)
    out: list[Any] = []
    for a in args:
        fits = type(a) in _SCALARS and (kind == 0 if type(a) is bool else _KINDS[type(a)] <= kind)
        if fits and not (aval.weak_type and aval_of(a).dtype == dtype):
            scalar: Any = np.asarray(a).astype(dtype) if type(a) is not int else _int_scalar(a, dtype)
            out.append(scalar[()])
        else:
            out.append(a)
    return out


def scalar_as(name: str, value: Any, dtype: DType) -> Any:
    """A number as a scalar of a dtype, converted as `convert_element_type` converts arrays.

    Integers wrap; floats lose their fraction, stop at the ends of an integer dtype's range, and NaN becomes 0.

    Raises TypeError for a complex number of Python where the dtype is real and not bool.
    """
    if type(value) is complex and not dtypes.is_complex(dtype) and not dtypes.is_bool(dtype):
        raise TypeError(
            f"{name}: expected a real number for dtype {dtype}, got the complex {value}: give its real part"
        )
    host = np.asarray(value)
    if (dtypes.is_integer(dtype) or dtype in dtypes.NARROW_INTEGERS) and dtypes.is_float(host.dtype):
        info, number = ml_dtypes.iinfo(dtype), float(host)
        whole = (
            0 if number != number else info.max if number > info.max else info.min if number < info.min else int(number)
        )
        return np.asarray(whole).astype(dtype)[()]
    with np.errstate(all="ignore"):
        return host.astype(dtype)[()]


def _int_scalar(value: int, dtype: DType) -> np.ndarray[Any, Any]:
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise OverflowError(f"Python int {value} does not fit dtype {dtype}")
    return np.asarray(value).astype(dtype)

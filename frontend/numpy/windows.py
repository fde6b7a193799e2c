"""Window functions, and the Bessel function i0 that one of them takes."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew

from ..arrays.operands import Value, as_int, cast, ensure
from ..transforms.custom_derivatives import custom_jvp
from .creation import filled
from .elementwise import inexact_operand
from .ranges import iota


def _positions(name: str, M: Any) -> tuple[int, Value | None]:
    """M, and 0 .. M-1 in the default float dtype; None for the windows of one element or none, which are ones."""
    n = as_int(name, M, "M")
    if n < 0:
        raise ValueError(f"quire.numpy.{name}: M must not be negative, got {n}")
    return n, iota((n,), 0, _float()) if n > 1 else None


def _float() -> Any:
    return dtypes.canonicalize(dtypes.float64)


def _cosines(name: str, M: Any, *coefficients: float) -> Value:
    """The sum of c[k] * cos(2 pi k n / (M - 1))."""
    n, at = _positions(name, M)
    if at is None:
        return filled((n,), 1, _float())
    out = coefficients[0] + coefficients[1] * ew.cos_p.bind(at * (2 * math.pi / (n - 1)))
    return out + coefficients[2] * ew.cos_p.bind(at * (4 * math.pi / (n - 1))) if len(coefficients) > 2 else out


def bartlett(M: Any) -> Value:
    """The triangular window of M points that is 0 at its ends. Follows `numpy.bartlett`.

    >>> quire.numpy.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    n, at = _positions("bartlett", M)
    return filled((n,), 1, _float()) if at is None else 1 - ew.abs_p.bind(2 * at + (1 - n)) / (n - 1)


def blackman(M: Any) -> Value:
    """The window of M points made of three cosines that leaks little. Follows `numpy.blackman`.

    >>> round(quire.numpy.blackman(5)[1].item(), 4)
    0.34
    """
    return _cosines("blackman", M, 0.42, -0.5, 0.08)


def hamming(M: Any) -> Value:
    """A cosine of M points on a pedestal of 0.08. Follows `numpy.hamming`.

    >>> round(quire.numpy.hamming(3)[0].item(), 4)
    0.08
    """
    return _cosines("hamming", M, 0.54, -0.46)


def hanning(M: Any) -> Value:
    """A cosine of M points that is 0 at its ends. Follows `numpy.hanning`.

    >>> quire.numpy.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _cosines("hanning", M, 0.5, -0.5)


def kaiser(M: Any, beta: Any) -> Value:
    """The window of M points made of the Bessel function i0; `beta` sets its shape, 0 a rectangle.

    Follows `numpy.kaiser`.

    >>> quire.numpy.kaiser(3, 0.)
    Array([1., 1., 1.], dtype=float32)
    """
    n, at = _positions("kaiser", M)
    if at is None:
        return filled((n,), 1, _float())
    middle = 0.5 * (n - 1)
    ratio = (at - middle) / middle
    return i0(beta * ew.sqrt_p.bind(1 - ratio * ratio)) / i0(beta)


def i0(x: Any) -> Value:
    """The modified Bessel function of the first kind and order 0.

    Args:
        x: an array or a number, not complex.

    Raises:
        ValueError: x is complex.

    Follows `numpy.i0`.

    >>> quire.numpy.i0(0.).item()
    1.0
    """
    v = ensure("i0", inexact_operand("i0", x))
    if dtypes.is_complex(v.aval.dtype):
        raise ValueError(f"quire.numpy.i0: not defined for complex numbers, got {v.aval.short()}")
    return _i0()(cast(v, v.aval.dtype, v.aval.weak_type))


@cache
def _i0() -> Any:
    """i0 with its derivative i1: the composition's own derivative would lose it to cancellation near 0."""

    def bessel(x: Value) -> Value:
        return ew.exp_p.bind(ew.abs_p.bind(x)) * ew.bessel_i0e_p.bind(x)

    def bessel_jvp(primals: tuple[Value], tangents: tuple[Value]) -> tuple[Value, Value]:
        (x,), (t,) = primals, tangents
        return bessel(x), t * (ew.exp_p.bind(ew.abs_p.bind(x)) * ew.bessel_i1e_p.bind(x))

    bessel.__name__ = "i0"
    f = custom_jvp(bessel)
    f.defjvp(bessel_jvp)
    return f


__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]

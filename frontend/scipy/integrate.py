"""quire.scipy.integrate: integration of samples."""

from __future__ import annotations

from typing import Any

from ..absent_names import module_getattr
from ..arrays.operands import Value
from ..numpy.statistics import trapezoid as _trapezoid


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Value:
    """The integral of samples by the trapezoidal rule.

    Args:
        y: the samples. x: their places; None for equal distances `dx`. axis: the axis along which to integrate.

    Returns:
        An array of y's shape without the axis.

    Follows `scipy.integrate.trapezoid`.

    >>> quire.scipy.integrate.trapezoid(quire.numpy.array([1., 2., 3.])).item()
    4.0
    """
    return _trapezoid(y, x, dx, axis)


__all__ = ["trapezoid"]
__getattr__ = module_getattr("quire.scipy.integrate", globals())

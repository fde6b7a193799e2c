"""What the functions of quire.scipy begin with: checks and promotion of arguments, half precision, Chebyshev series."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from ..numpy._util import Value, cast, ensure, promote_all_shapes, promote_dtypes, promote_inexact

HALF = (dtypes.float16, dtypes.bfloat16)


def renamed(error: Exception, name: str) -> Exception:
    """The error of a helper of quire.numpy with this function's name."""
    error.args = (str(error).replace(f"quire.numpy.{name}", f"quire.scipy.{name}"), *error.args[1:])
    return error


def array(name: str, x: Any, position: int | str = 0) -> Value:
    """An argument as an array; TypeError names the function, quire.scipy.`name`."""
    try:
        return ensure(name, x, position)
    except TypeError as error:
        raise renamed(error, name) from None


def operands(name: str, *args: Any, complex_ok: bool = False, integers: bool = False) -> list[Value]:
    """The arguments as arrays of one dtype and shape: inexact unless `integers`, and real unless `complex_ok`."""
    xs = [array(name, x, i) for i, x in enumerate(args)]
    xs = promote_dtypes(*xs) if integers else promote_inexact(*xs)
    if not complex_ok and dtypes.is_complex(aval_of(xs[0]).dtype):
        raise ValueError(f"quire.scipy.{name}: takes real numbers, got {_listed(args)}")
    try:
        return promote_all_shapes(name, *xs)
    except (TypeError, ValueError) as error:
        raise renamed(error, name) from None


def _listed(args: tuple[Any, ...]) -> str:
    return ", ".join(aval_of(x).short() for x in args)


def float_operands(name: str, *args: Any) -> list[Value]:
    """The arguments as arrays of one shape that are float32 or float64 already, as JAX demands for some functions."""
    xs = promote_dtypes(*[array(name, x, i) for i, x in enumerate(args)])
    dtype = aval_of(xs[0]).dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"quire.scipy.{name}: takes float32 or float64, got {_listed(args)}: convert it with astype")
    try:
        return promote_all_shapes(name, *xs)
    except (TypeError, ValueError) as error:
        raise renamed(error, name) from None


def widened(f: Callable[..., Any], *args: Value) -> Any:
    """``f(*args)``, with float16 and bfloat16 computed in float32 and rounded at the end."""
    dtype = aval_of(args[0]).dtype
    if dtype not in HALF:
        return f(*args)
    out = f(*(cast(x, dtypes.float32) for x in args))
    return tuple(cast(x, dtype) for x in out) if isinstance(out, tuple) else cast(out, dtype)


def epsilon(x: Value) -> float:
    """The relative spacing of the numbers of x's dtype (of its parts for a complex x)."""
    return float(np.finfo(dtypes.real_dtype(aval_of(x).dtype)).eps)


def is_double(x: Value) -> bool:
    return dtypes.real_dtype(aval_of(x).dtype) == dtypes.float64


def horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    """The polynomial with these coefficients, the highest power's first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


@dataclass(frozen=True)
class Chebyshev:
    """A smooth real function on [low, high] by its Chebyshev series (Clenshaw 1962; Numerical Recipes 5.8).

    The coefficients are found when first needed, from the values of `function` (of NumPy arrays) at Chebyshev nodes in
    double precision. Those below the rounding errors of the argument's dtype are left out.
    """

    function: Callable[[Any], Any]
    low: float
    high: float
    degree: int

    @functools.cached_property
    def coefficients(self) -> tuple[float, ...]:
        n = self.degree + 1
        order, node = np.arange(n), 2 * np.arange(n) + 1
        cosines = np.cos(np.pi / (2 * n) * (np.outer(order, node) % (4 * n)))
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        series = 2 / n * (cosines @ self.function(middle + half * cosines[1]))
        series[0] /= 2
        return tuple(float(c) for c in series)

    def __call__(self, x: Value) -> Value:
        """The function at x, which must lie within [low, high]: elsewhere the result means nothing."""
        series = self.coefficients
        least = max(map(abs, series)) * (epsilon(x) / 4)
        n = max(i for i, c in enumerate(series) if abs(c) > least) + 1
        u = (x - (self.high + self.low) / 2) * (2 / (self.high - self.low))
        twice = u + u
        last: Any = 0.0
        total: Any = 0.0
        for c in series[n - 1 : 0 : -1]:
            last, total = total, twice * total - last + c
        return u * total - last + series[0]

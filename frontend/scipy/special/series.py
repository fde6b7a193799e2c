"""Polynomials and series that the special functions are computed by."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays.operands import Value, epsilon


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
        """The coefficients of the series, that of order 0 first."""
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

"""The incomplete gamma functions of large parameters, and their factor x^a e^-x / gamma(a), without cancellation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..gamma_coefficients import ABOVE, BELOW, LEAST, STIRLING, coefficients
from .formulas import Num, const, exp, log1p, polynomial, sqrt, where

# (1 + 2z) erfcx(z) for z >= 0 by Chebyshev polynomials of (z - 3.75) / (z + 3.75), the highest first: the discrete
# cosine transform of its values at 80 nodes, in 60 digits (M. Shepherd and J. Laframboise, Math. Comp. 36, 1981).
_ERFCX = (
    5.068148904796114e-17, 7.418235256624047e-17, -1.2507950530688646e-15, -1.864562880419313e-15,
    3.3478119482868056e-14, 3.25254814814874e-14, -9.65469674843344e-13, 1.9455868545777347e-13, 2.86879501093067e-11,
    -6.318088340886684e-11, -7.754400208831351e-10, 4.521959811218287e-09, 1.076499946567091e-08, -2.1886401049234397e-07,
    7.74038306619849e-07, 4.13902798607301e-06, -6.916973302501207e-05, 0.0004907758365258086, -0.002413163540417608,
    0.009074997670705265, -0.026658668435305753, 0.05920993999819189, -0.08424913336651792, -0.004590054580646478,
    2.3551578691348034,
)  # fmt: skip

STIRLING_LEAST = 20.0
"""From this parameter on, eight terms of Stirling's series are exact to a double's last digits."""


def chebyshev(x: Num, series: tuple[float, ...]) -> Num:
    """Clenshaw's recurrence in 2x' = x; the highest order first."""
    least = 0.0 if x.dtype == np.float64 else 1e-9
    kept = [c for i, c in enumerate(series) if any(abs(b) > least for b in series[: i + 1])]
    b0: Any = const(kept[0], x)
    b1: Any = const(0, x)
    b2: Any = const(0, x)
    for c in kept[1:]:
        b0, b1, b2 = x * b0 - b1 + c, b0, b1
    return 0.5 * (b0 - b2)


def _erfcx(z: Num) -> Num:
    """exp(z^2) erfc(z) for z >= 0."""
    return chebyshev(2.0 * ((z - 3.75) / (z + 3.75)), _ERFCX) / (1.0 + 2.0 * z)


def _log_excess(mu: Num) -> Num:
    """mu - log(1 + mu), by s = mu / (2 + mu) where they are nearly one: log(1 + mu) is 2 artanh(s), and mu - 2s is mu s."""
    near = abs(mu) < 0.4
    m = where(near, mu, const(0, mu))
    s = m / (2.0 + m)
    series = polynomial(s * s, tuple(1.0 / (2 * k + 1) for k in range(15, 0, -1)))
    return where(near, s * (m - 2.0 * s * s * series), mu - log1p(mu))


def _stirling(a: Num) -> Num:
    """log gamma(a) less (a - 1/2) log a - a + log(2 pi)/2."""
    inverse = 1.0 / a
    return inverse * polynomial(inverse * inverse, tuple(float(c) for c in reversed(STIRLING)))


def gamma_factor(a: Num, x: Num) -> Num:
    """x^a e^-x / gamma(a) for a of 20 or more: a log x, x and log gamma(a) are large, their sum is not."""
    exponent = a * _log_excess((x - a) / a) + _stirling(a)
    return sqrt(a * (0.5 / math.pi)) * exp(-exponent)


class Expansion:
    """What the expansion gives for a of `LEAST` or more and x near to it: `applies` says where that is.

    Elsewhere its values are finite and mean nothing.
    """

    def __init__(self, a: Num, x: Num) -> None:
        mu = (x - a) / a
        self.applies = (a >= LEAST) & (mu > BELOW) & (mu < ABOVE)
        self.a, mu = where(self.applies, a, const(LEAST, a)), where(self.applies, mu, const(0, a))
        self.mu, self.above = mu, mu >= 0
        self._half_square = _log_excess(mu)
        size = sqrt(2.0 * self._half_square)
        self.eta = where(self.above, size, -size)
        self.series = tuple(tuple(reversed(row)) for row in coefficients())

    def _by_inverse(self, terms: list[Any]) -> Any:
        """The sum of terms[k] / a^k."""
        return polynomial(1.0 / self.a, tuple(reversed(terms)))

    def smaller(self) -> Num:
        """P(a, x) for x < a, else Q(a, x)."""
        sums = self._by_inverse([polynomial(self.eta, row) for row in self.series])
        tail = 0.5 * _erfcx(abs(self.eta) * sqrt(0.5 * self.a))
        share = sums / sqrt(2.0 * math.pi * self.a)
        return exp(-(self.a * self._half_square)) * (tail + where(self.above, share, -share))

    def sample_slope(self) -> Num:
        """-(dP/da) / (dP/dx) over x: the expansion differentiated, where eta's derivative by a is -mu / (a eta)."""
        a, eta, logarithm = self.a, self.eta, log1p(self.mu)
        centre = eta.eq(0)
        safe = where(centre, const(1, eta), eta)
        one = const(1, eta)
        log_by_eta, mu_by_eta = where(centre, one, logarithm / safe), where(centre, one, self.mu / safe)
        terms = [polynomial(eta, row) for row in self.series]
        rises = [
            polynomial(eta, tuple((len(row) - 1 - i) * c for i, c in enumerate(row[:-1])))
            if len(row) > 1
            else 0.0 * eta
            for row in self.series
        ]
        by_a = self._by_inverse([0.0 * eta, *(-float(k) * term for k, term in enumerate(terms) if k)])
        total = (
            log_by_eta
            + self._by_inverse(terms) * (logarithm - 0.5 / a)
            + (by_a - self._by_inverse(rises) * mu_by_eta) / a
        )
        return total * exp(_stirling(a)) / a

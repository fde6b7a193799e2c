"""Coefficients of the uniform expansion of the incomplete gamma functions for large parameters (NIST DLMF 8.12).

With mu = x/a - 1 and eta of mu's sign, eta^2 / 2 = mu - log(1 + mu), this is

    Q(a, x) = erfc(eta sqrt(a/2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) S,    S = the sum of C_k(eta) / a^k.
"""

from __future__ import annotations

import functools
from fractions import Fraction

LEAST = 200.0
"""The least parameter for which the expansion is used."""
BELOW, ABOVE = -0.5, 0.9
"""The bounds of mu within which it is used: series and continued fractions need few terms outside of them."""
_ETA = 0.72  # what eta is at most within these bounds
_TERMS = 40

# Of 1/a, 1/a^3, ...: B_2k / (2k (2k - 1)), log gamma(a) less its leading terms (DLMF 5.11.1).
STIRLING = tuple(
    Fraction(*c)
    for c in ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400))
)


def _mu_by_eta(n: int) -> list[Fraction]:
    """The series of mu by eta: eta = mu/(1 + mu) dmu/deta, power by power."""
    series = [Fraction(0), Fraction(1)]
    for k in range(2, n):
        products = sum((series[i] * (k + 1 - i) * series[k + 1 - i] for i in range(2, k)), Fraction(0))
        series.append((series[k - 1] - products) / (k + 1))
    return series


def _gamma_series(n: int) -> list[Fraction]:
    """The exponential of Stirling's series, by powers of 1/a."""
    logarithm = [Fraction(0)] * (n + 1)
    for k, c in enumerate(STIRLING):
        if 2 * k + 1 <= n:
            logarithm[2 * k + 1] = c
    series = [Fraction(1)]
    for k in range(1, n + 1):
        series.append(sum((j * logarithm[j] * series[k - j] for j in range(1, k + 1)), Fraction(0)) / k)
    return series


@functools.cache
def coefficients() -> tuple[tuple[float, ...], ...]:
    """Of each C_k, the coefficients of 1, eta, eta^2, ... (DLMF 8.12.8 to 8.12.14), as far as doubles notice them."""
    mu, gamma = _mu_by_eta(_TERMS), _gamma_series(8)
    row = [Fraction(-1, 3), *((n + 2) * mu[n + 2] for n in range(1, _TERMS - 2))]
    first, rows = row, [row]
    for k in range(1, 8):
        row = [(-1) ** k * gamma[k] * first[n] + (n + 2) * row[n + 2] for n in range(len(row) - 2)]
        rows.append(row)
    kept = [[n for n, c in enumerate(row) if abs(c) * _ETA**n > 1e-17 * LEAST**k] for k, row in enumerate(rows)]
    return tuple(tuple(float(c) for c in row[: n[-1] + 1]) for row, n in zip(rows, kept) if n)

"""Kernel density estimation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from ... import numpy as qnp
from ... import random, tree_util
from ...arrays.operands import Value, array, promote_inexact
from ..special.entropy import logsumexp
from ..special.error_functions import ndtr_
from ._factor import cholesky, inverse, log_determinant, solved

_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


class gaussian_kde:  # noqa: N801 - SciPy's name
    """A density estimated as a sum of normal densities about the points of a sample; a pytree.

    Args:
        dataset: the sample, of shape (dimensions, points) or (points,).
        bw_method: the width of the kernels relative to the sample's: "scott", "silverman", a number, or a function of
            the estimate that returns one.
        weights: a vector of the points' weights, or None for equal ones.

    Attributes:
        dataset, weights: the sample of shape (d, n), and its weights, of sum 1.
        neff: the effective number of points, 1 / sum(weights**2).
        covariance, inv_cov: the kernels' covariance matrix and its inverse.

    Follows `scipy.stats.gaussian_kde`.

    >>> kde = quire.scipy.stats.gaussian_kde(quire.numpy.array([0., 1., 3.]))
    >>> round(kde(1.0)[0].item(), 4)
    0.2149
    """

    __slots__ = _FIELDS
    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        (points,) = promote_inexact(qnp.atleast_2d(array("stats.gaussian_kde", dataset)))
        if dtypes.is_complex(aval_of(points).dtype):
            raise NotImplementedError("quire.scipy.stats.gaussian_kde: the dataset must be real numbers")
        d, n = _matrix("dataset", points)
        if n < 2:
            raise ValueError(f"quire.scipy.stats.gaussian_kde: dataset must have 2 or more points, got {n}")
        if weights is None:
            w = qnp.full(n, 1.0 / n, dtype=aval_of(points).dtype)
        else:
            points, w = promote_inexact(points, array("stats.gaussian_kde", weights, "weights"))
            if aval_of(w).shape != (n,):
                raise ValueError(
                    f"quire.scipy.stats.gaussian_kde: weights must be a vector of {n} numbers, one for each point, got "
                    f"{aval_of(w).short()}"
                )
            w = w / qnp.sum(w)
        self.dataset, self.weights = points, w
        self.neff = 1.0 / qnp.sum(w * w)
        factor = self._bandwidth(bw_method)
        data_covariance = qnp.atleast_2d(qnp.cov(points, aweights=w))
        self.covariance = data_covariance * (factor * factor)
        self.inv_cov = inverse(cholesky(data_covariance)) / (factor * factor)

    def _bandwidth(self, method: Any) -> Any:
        if method is None or method == "scott":
            return qnp.power(self.neff, -1.0 / (self.d + 4))
        if isinstance(method, str):
            if method != "silverman":
                raise ValueError(
                    "quire.scipy.stats.gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, "
                    f"got {method!r}"
                )
            return qnp.power(self.neff * (self.d + 2) / 4.0, -1.0 / (self.d + 4))
        if isinstance(method, Callable):  # type: ignore[arg-type]
            return method(self)
        factor = array("stats.gaussian_kde", method, "bw_method")
        if aval_of(factor).ndim:
            raise ValueError(
                f"quire.scipy.stats.gaussian_kde: bw_method must be one number, got {aval_of(factor).short()}"
            )
        return factor

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: Any) -> Value:
        """The density at points of shape (d, m), (m,) for d = 1, or (d,) for one point: a vector of m numbers."""
        return qnp.exp(self.logpdf(points))

    def __call__(self, points: Any) -> Value:
        return self.evaluate(points)

    def pdf(self, x: Any) -> Value:
        """The density at points: `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Value:
        """The logarithm of the density at points, a vector."""
        points = self._points(x)
        factor = cholesky(self.covariance)
        here, sample = solved(factor, points.T), solved(factor, self.dataset.T)
        size = self.d * 0.5 * math.log(2 * math.pi) + log_determinant(factor)
        return logsumexp(_exponents(here, sample), axis=1, b=self.weights[None]) - size

    def _points(self, x: Any) -> Value:
        points, _ = promote_inexact(qnp.atleast_2d(array("stats.gaussian_kde", x)), self.dataset)
        d, m = _matrix("points", points)
        if d != self.d:
            if (d, m) != (1, self.d):
                raise ValueError(
                    f"quire.scipy.stats.gaussian_kde: points have {d} dimensions, the dataset has {self.d}: give an "
                    f"array of shape ({self.d}, number of points)"
                )
            points = qnp.reshape(points, (self.d, 1))
        return points

    def integrate_gaussian(self, mean: Any, cov: Any) -> Value:
        """The integral of the density times a normal density with this mean (d numbers) and covariance (d, d).

        Raises:
            ValueError: `mean` does not have d numbers, or `cov` not the shape (d, d).
        """
        centre = qnp.atleast_1d(qnp.squeeze(array("stats.gaussian_kde", mean)))
        spread = qnp.atleast_2d(array("stats.gaussian_kde", cov, 1))
        if centre.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ValueError(
                f"quire.scipy.stats.gaussian_kde.integrate_gaussian: mean must be {self.d} numbers and cov of shape "
                f"({self.d}, {self.d}), got {aval_of(centre).short()} and {aval_of(spread).short()}"
            )
        factor = cholesky(self.covariance + spread)
        z = solved(factor, self.dataset.T - centre)
        size = self.d * 0.5 * math.log(2 * math.pi) + log_determinant(factor)
        return qnp.sum(self.weights * qnp.exp(-0.5 * qnp.sum(z * z, axis=-1) - size))

    def integrate_box_1d(self, low: Any, high: Any) -> Value:
        """The integral of the density from `low` to `high`; for one dimension only.

        Raises:
            ValueError: the dataset has more than one dimension, or a bound is not one number.
        """
        if self.d != 1:
            raise ValueError(
                f"quire.scipy.stats.gaussian_kde.integrate_box_1d: the dataset must have 1 dimension, it has {self.d}"
            )
        for name, value in (("low", low), ("high", high)):
            if np.ndim(value):
                raise ValueError(
                    f"quire.scipy.stats.gaussian_kde.integrate_box_1d: {name} must be one number, got {value!r}"
                )
        width = qnp.sqrt(self.covariance[0, 0])
        sample = self.dataset[0]
        return qnp.sum(self.weights * (ndtr_((high - sample) / width) - ndtr_((low - sample) / width)))

    def integrate_kde(self, other: gaussian_kde) -> Value:
        """The integral of the product of two estimated densities.

        Raises:
            ValueError: the dimensions of the two differ.
        """
        if other.d != self.d:
            raise ValueError(
                f"quire.scipy.stats.gaussian_kde.integrate_kde: the estimates have {self.d} and {other.d} dimensions"
            )
        factor = cholesky(self.covariance + other.covariance)
        mine, theirs = solved(factor, self.dataset.T), solved(factor, other.dataset.T)
        size = self.d * 0.5 * math.log(2 * math.pi) + log_determinant(factor)
        terms = qnp.exp(_exponents(mine, theirs) - size)
        return qnp.sum(self.weights[:, None] * terms * other.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Value:
        """Random points from the estimated density, of shape (d, *shape)."""
        where, noise = random.split(key)
        sums = qnp.cumsum(self.weights)
        chance = sums[-1] * (1.0 - random.uniform(where, shape, dtype=sums.dtype))
        centres = self.dataset[:, qnp.searchsorted(sums, chance)]
        normal = random.normal(noise, (*shape, self.d), dtype=self.dataset.dtype)
        steps = qnp.matmul(normal[..., None, :], cholesky(self.covariance).T)[..., 0, :]
        return centres + qnp.moveaxis(steps, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Value:
        """Not supported: there is no closed form in several dimensions.

        Raises:
            NotImplementedError: always; `integrate_box_1d` is the integral in one dimension.
        """
        raise NotImplementedError(
            "quire.scipy.stats.gaussian_kde.integrate_box: only integrate_box_1d is supported, for one dimension"
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not supported: estimates are immutable; make a new one with bw_method.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "quire.scipy.stats.gaussian_kde.set_bandwidth: estimates are immutable: make a new one, "
            "gaussian_kde(dataset, bw_method=...)"
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays of the pytree."""
        return tuple(getattr(self, name) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate with these arrays."""
        made = cls.__new__(cls)
        for name, value in zip(_FIELDS, children, strict=True):
            setattr(made, name, value)
        return made


def _matrix(name: str, x: Value) -> tuple[int, int]:
    if aval_of(x).ndim != 2:
        raise ValueError(
            f"quire.scipy.stats.gaussian_kde: {name} must have at most 2 dimensions, got {aval_of(x).short()}"
        )
    d, n = aval_of(x).shape
    return d, n


def _exponents(a: Value, b: Value) -> Value:
    """-|a_i - b_j|**2 / 2 for rows of whitened points."""
    difference = a[:, None, :] - b[None, :, :]
    return -0.5 * qnp.sum(difference * difference, axis=-1)


tree_util.register_pytree_node_class(gaussian_kde)

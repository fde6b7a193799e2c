"""quire.scipy.interpolate: interpolation on grids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from .. import numpy as qnp
from ..absent_names import module_getattr
from ..arrays.operands import Value, array, cast, concrete, inexact, promote_inexact

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolation between values on a rectangular grid, whose lines may lie at unequal distances.

    Args:
        points: the places of the grid's lines in each dimension: increasing vectors.
        values: the values on the grid; further dimensions hold vectors, matrices, ...
        method: "linear" or "nearest".
        bounds_error: must be False: the places are not known while a function is traced.
        fill_value: the value outside of the grid, or None to extrapolate.

    Called with an array of shape (..., dimensions), or with a tuple of arrays, one a dimension, it returns the values
    there, of shape (..., *values.shape[dimensions:]).

    Follows `scipy.interpolate.RegularGridInterpolator`.

    >>> q = quire.numpy
    >>> f = quire.scipy.interpolate.RegularGridInterpolator((q.arange(2.), q.arange(2.)), q.array([[0., 1.], [2., 3.]]))
    >>> f(q.array([[0.5, 0.25]])).tolist()
    [1.25]
    """

    def __init__(
        self, points: Sequence[Any], values: Any, method: str = "linear", bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:  # fmt: skip
        name = "interpolate.RegularGridInterpolator"
        self._check_method(method)
        if bounds_error:
            raise NotImplementedError(
                f"quire.scipy.{name}: bounds_error=True is not supported: places are not known while a function is traced"
            )
        (self.values,) = promote_inexact(array(name, values, "values"))
        self.grid = tuple(array(name, p, f"points[{i}]") for i, p in enumerate(points))
        shape = aval_of(self.values).shape
        if len(self.grid) > len(shape):
            raise ValueError(
                f"quire.scipy.{name}: {len(self.grid)} vectors of points, but values {aval_of(self.values).short()}"
            )
        for i, p in enumerate(self.grid):
            if aval_of(p).shape != (shape[i],):
                raise ValueError(
                    f"quire.scipy.{name}: points[{i}] must be a vector of {shape[i]} numbers for values "
                    f"{aval_of(self.values).short()}, got {aval_of(p).short()}"
                )
            known = concrete(p)
            if known is not None and not np.all(np.diff(known) > 0):
                raise ValueError(f"quire.scipy.{name}: points[{i}] must increase: sort them, and the values with them")
        if fill_value is not None:
            kind = aval_of(array(name, fill_value, "fill_value")).dtype
            if dtypes.is_complex(kind) and not dtypes.is_complex(aval_of(self.values).dtype):
                raise ValueError(f"quire.scipy.{name}: fill_value must be real for real values, got {fill_value!r}")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    def _check_method(self, method: str) -> None:
        if method not in _METHODS:
            raise ValueError(
                f"quire.scipy.interpolate.RegularGridInterpolator: method must be 'linear' or 'nearest', got {method!r}"
            )

    def __call__(self, xi: Any, method: str | None = None) -> Value:
        method = self.method if method is None else method
        self._check_method(method)
        name, n = "interpolate.RegularGridInterpolator", len(self.grid)
        if isinstance(xi, tuple):
            parts = qnp.broadcast_arrays(*[array(name, x, f"xi[{i}]") for i, x in enumerate(xi)])
            xi = qnp.stack(parts, axis=-1)
        places = array(name, xi)
        if aval_of(places).ndim <= 1:  # one point, or several on a line
            if aval_of(places).size % n:
                raise ValueError(
                    f"quire.scipy.{name}: xi must be points of {n} coordinates each, got {aval_of(places).short()}"
                )
            places = places.reshape(-1, n)
        if aval_of(places).shape[-1] != n:
            raise ValueError(
                f"quire.scipy.{name}: xi must have {n} coordinates along its last dimension, as the grid has "
                f"dimensions, got {aval_of(places).short()}"
            )
        places = cast(places, dtypes.real_dtype(inexact(aval_of(places).dtype)))
        lines = [_position(self.grid[i], places[..., i]) for i in range(n)]
        rest = (None,) * (aval_of(self.values).ndim - n)
        if method == "nearest":
            out = self.values[tuple(qnp.where(w <= 0.5, i, i + 1) for i, w, _ in lines)]
        else:
            out: Any = 0.0
            for corner in itertools.product((0, 1), repeat=n):
                weight: Any = 1.0
                for up, (_, w, _) in zip(corner, lines):
                    weight = weight * (w if up else 1.0 - w)
                value = self.values[tuple(i + up for up, (i, _, _) in zip(corner, lines))]
                out = out + value * weight[(..., *rest)]
            out = cast(out, aval_of(self.values).dtype)
        if self.fill_value is not None:
            outside: Any = False
            for _, _, beyond in lines:
                outside = outside | beyond
            out = qnp.where(outside[(..., *rest)], self.fill_value, out)
        return out


def _position(line: Value, x: Value) -> tuple[Value, Value, Value]:
    """The interval of each place, its share of it, and whether it is outside of the grid."""
    n = aval_of(line).shape[0]
    line = cast(line, aval_of(x).dtype)
    index = qnp.clip(qnp.searchsorted(line, x) - 1, 0, max(n - 2, 0))
    if n == 1:
        return index, qnp.zeros_like(x), x != line[0]
    low, high = line[index], line[index + 1]
    return index, (x - low) / (high - low), (x < line[0]) | (x > line[-1])


__all__ = ["RegularGridInterpolator"]
__getattr__ = module_getattr("quire.scipy.interpolate", globals())

"""quire.scipy.ndimage: values of an image between its points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from .. import numpy as qnp
from ..absent_names import module_getattr
from ..arrays.operands import INEXACT, Value, array, cast, promote_dtypes, promote_inexact

_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


def _mirrored(index: Value, size: int) -> Value:
    """... 2 1 0 1 2 ...: about the centres of the end points."""
    period = 2 * max(size - 1, 1)
    return qnp.abs((index + period // 2) % period - period // 2) if size > 1 else qnp.zeros_like(index)


def _fixed(index: Value, size: int, mode: str) -> Value:
    """An index within the image in place of one that may be outside."""
    if mode == "wrap":
        return index % size
    if mode == "mirror":
        return _mirrored(index, size)
    if mode == "reflect":
        return (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2
    return qnp.clip(index, 0, size - 1)


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0  # noqa: A002
) -> Value:  # fmt: skip
    """The values of an image at any coordinates.

    Args:
        input: the image, an array. coordinates: an array of coordinates for each of its dimensions.
        order: 0 for the nearest point's value, 1 for linear interpolation.
        mode: beyond the edges: "constant" (`cval`), "nearest", "wrap", "mirror" (about the last point) or "reflect"
            (about the edge half a point beyond it). Points outside are replaced one by one, as JAX does; SciPy's "wrap"
            differs from that.
        cval: the value outside for "constant".

    Returns:
        An array of the broadcast shape of the coordinates and of the image's dtype; interpolated integers are rounded.

    Raises:
        NotImplementedError: `order` is neither 0 nor 1, or `mode` is none of these.
        ValueError: the number of coordinate arrays is not that of the image's dimensions.

    Follows `scipy.ndimage.map_coordinates`.

    >>> image = quire.numpy.array([[0., 1.], [2., 3.]])
    >>> quire.scipy.ndimage.map_coordinates(image, [quire.numpy.array([0.5]), quire.numpy.array([0.5])], 1).tolist()
    [1.5]
    """
    name = "ndimage.map_coordinates"
    image = array(name, input)
    if order not in (0, 1):
        raise NotImplementedError(f"quire.scipy.{name}: order must be 0 or 1, got {order!r}")
    if mode not in _MODES:
        raise NotImplementedError(f"quire.scipy.{name}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    places = [array(name, c, f"coordinates[{i}]") for i, c in enumerate(coordinates)]
    shape, dtype = aval_of(image).shape, aval_of(image).dtype
    if len(places) != len(shape):
        raise ValueError(
            f"quire.scipy.{name}: coordinates must be one array for each of the {len(shape)} dimensions of "
            f"{aval_of(image).short()}, got {len(places)}"
        )
    places = promote_dtypes(*places) if places else []
    per_axis = [_nodes(c, n, order, mode) for c, n in zip(places, shape)]
    outside = cast(array(name, cval, "cval"), dtype)
    total: Any = None
    for corner in itertools.product(*per_axis):
        value = image[tuple(index for index, _, _ in corner)]
        if mode == "constant":
            inside: Any = True
            for _, valid, _ in corner:
                inside = inside & valid
            value = qnp.where(inside, value, outside)
        if order == 1:
            weight: Any = 1.0
            for _, _, w in corner:
                weight = weight * w
            value, weight = promote_inexact(value, weight)
            value = value * weight
        total = value if total is None else total + value
    if order == 1 and dtype not in INEXACT:
        total = ew.round(total, 0)  # ties away from zero
    return cast(total, dtype)


def _nodes(place: Value, size: int, order: int, mode: str) -> list[tuple[Value, Value, Value | float]]:
    """The points that contribute along one dimension: (index, whether it was inside, weight)."""
    place = place if aval_of(place).dtype in INEXACT else cast(place, dtypes.canonicalize(dtypes.float64))
    if order == 0:
        below = ew.round(place, 0)  # halves go away from zero
        places: list[tuple[Value, Value | float]] = [(below, 1.0)]
    else:
        below = qnp.floor(place)
        upper = place - below
        places = [(below, 1.0 - upper), (below + 1.0, upper)]
    out: list[tuple[Value, Value, Value | float]] = []
    for where, weight in places:
        index = cast(where, np.dtype(np.int32))
        out.append((_fixed(index, size, mode), (index >= 0) & (index < size), weight))
    return out


__all__ = ["map_coordinates"]
__getattr__ = module_getattr("quire.scipy.ndimage", globals())

"""Resizing of images, as that of jax.image: an image is an array of any number of dimensions."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.tracing import Tracer
from quire.runtime.array import host_value

from . import lax
from . import numpy as jnp
from .absent_names import module_getattr
from .arrays.operands import Value, array_of, as_axis, as_shape, common_inexact, inexact_of


class ResizeMethod(enum.Enum):
    """How values between the pixels are computed."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of that name; ValueError for an unknown one.

        >>> quire.image.ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
        """
        for method, names in _NAMES.items():
            if s in names:
                return method
        known = ", ".join(name for names in _NAMES.values() for name in names)
        raise ValueError(f"quire.image: unknown resize method {s!r}: expected one of {known}")


_NAMES = {
    ResizeMethod.NEAREST: ("nearest",),
    ResizeMethod.LINEAR: ("linear", "bilinear", "trilinear", "triangle"),
    ResizeMethod.LANCZOS3: ("lanczos3",),
    ResizeMethod.LANCZOS5: ("lanczos5",),
    ResizeMethod.CUBIC: ("cubic", "bicubic", "tricubic"),
    ResizeMethod.CUBIC_PYTORCH: ("cubic-pytorch", "bicubic-pytorch"),
    ResizeMethod.AREA: ("area",),
}


def _method(method: Any) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise TypeError(f"quire.image: method must be a ResizeMethod or its name, got {method!r}")
    return ResizeMethod.from_string(method)


# -- kernels ------------------------------------------------------------------------------------------------------------------
# Functions of distances, which are not negative. `xp` is numpy where the scale is known, quire.numpy where it is traced.


def _triangle(xp: Any, x: Any) -> Any:
    return xp.maximum(0, 1 - x)


def _lanczos(radius: float) -> Callable[[Any, Any], Any]:
    def kernel(xp: Any, x: Any) -> Any:
        waves = radius * xp.sin(math.pi * x) * xp.sin(math.pi * x / radius)
        safe = xp.where(x != 0, math.pi**2 * x**2, 1)
        return xp.where(x > radius, 0, xp.where(x > 1e-3, waves / safe, 1))

    return kernel


def _cubic(a: float) -> Callable[[Any, Any], Any]:
    """The convolution kernel of Keys (1981)."""

    def kernel(xp: Any, x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return xp.where(x >= 2, 0, xp.where(x >= 1, far, near))

    return kernel


_KERNELS: dict[ResizeMethod, tuple[int, Callable[[Any, Any], Any] | None]] = {
    ResizeMethod.LINEAR: (1, _triangle),
    ResizeMethod.LANCZOS3: (3, _lanczos(3.0)),
    ResizeMethod.LANCZOS5: (5, _lanczos(5.0)),
    ResizeMethod.CUBIC: (2, _cubic(-0.5)),
    ResizeMethod.CUBIC_PYTORCH: (2, _cubic(-0.75)),
    ResizeMethod.AREA: (1, None),
}


def _overlaps(xp: Any, m: int, n: int, inverse: Any, shift: Any, dtype: Any) -> Any:
    """How much of each input pixel each output pixel covers."""
    left = xp.arange(n, dtype=dtype) * inverse - shift
    first = xp.arange(m, dtype=dtype)[:, None]
    return xp.maximum(0, xp.minimum((left + inverse)[None, :], first + 1) - xp.maximum(left[None, :], first))


def _weights(m: int, n: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool) -> Any:
    """The matrix (m, n) that maps m input pixels to n output pixels."""
    xp: Any = jnp if isinstance(scale, Tracer) or isinstance(translation, Tracer) else np
    dtype = np.float64 if np.dtype(scale.dtype) == np.float64 else np.float32
    scale, translation = scale.astype(dtype), translation.astype(dtype)  # pyright: ignore
    inverse = 1 / scale
    shift = translation * inverse
    radius, kernel = _KERNELS[method]
    border = radius if method is ResizeMethod.CUBIC_PYTORCH else 0
    centers = (xp.arange(n, dtype=dtype) + 0.5) * inverse - shift - 0.5
    pixels = xp.arange(-border, m + border, dtype=dtype)
    if kernel is None:
        weights = _overlaps(xp, m, n, inverse, shift, dtype)
    else:
        # A smaller image is a mean of more pixels: without that high frequencies would fold.
        width = xp.maximum(inverse, 1) if antialias else 1
        weights = kernel(xp, xp.abs(centers[None, :] - pixels[:, None]) / width)
    if border:
        # Pixels outside of the image are those of its border.
        low, high = (part.sum(0, keepdims=True) for part in (weights[:border], weights[m + border :]))
        at_first, at_last = (np.arange(m)[:, None] == i for i in (0, m - 1))
        weights = weights[border : m + border] + xp.where(at_first, low, 0) + xp.where(at_last, high, 0)
    total = weights.sum(0, keepdims=True)
    tiny = 1000 * float(np.finfo(np.float32).eps)
    weights = xp.where(xp.abs(total) > tiny, weights / xp.where(total != 0, total, 1), 0)
    if border:
        return weights
    return xp.where(((centers >= -0.5) & (centers <= m - 0.5))[None, :], weights, 0)


def _resampled(
    x: Value, shape: tuple[int, ...], dims: Sequence[int], scale: Any, translation: Any, method: ResizeMethod,
    antialias: bool, precision: Any,
) -> Value:  # fmt: skip
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    for i, d in enumerate(dims):
        w = _weights(x.shape[d], shape[d], scale[i], translation[i], method, antialias)
        w = jnp.asarray(w.astype(x.dtype))
        x = jnp.moveaxis(lax.dot_general(x, w, (((d,), (0,)), ((), ())), precision=precision), -1, d)
    return x


def _new_shape(function: str, image: Value, shape: Any) -> tuple[int, ...]:
    shape = as_shape(function, shape)
    if len(shape) != image.ndim:
        raise ValueError(
            f"{function}: shape {shape} must have as many sizes as the image {image.aval.short()} has dimensions"
        )
    return shape


def resize(
    image: Any, shape: Any, method: Any, antialias: bool = True, precision: Any = lax.Precision.HIGHEST
) -> Value:
    """An image with another number of pixels.

    Args:
        image: an array.
        shape: that of the result: a size for each dimension of the image, those of batch and channels being unchanged.
        method: a `ResizeMethod` or its name: "nearest"; "linear" ("bilinear", "trilinear", "triangle"); "cubic" ("bicubic",
            "tricubic"); "cubic-pytorch" ("bicubic-pytorch"); "lanczos3"; "lanczos5"; "area".
        antialias: whether a smaller image is made of means of all pixels (not for "nearest").
        precision: that of the products with the weights.

    Returns an array of that shape, of the image's dtype for "nearest"; integers become the default float otherwise.

    Raises:
        ValueError: an unknown method, or another number of dimensions.

    Follows `jax.image.resize`.

    >>> quire.image.resize(quire.numpy.array([1., 3.]), (4,), "linear")
    Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    name = "quire.image.resize"
    x, kind = array_of(name, image, "image"), _method(method)
    shape = _new_shape(name, x, shape)
    dims = [d for d in range(x.ndim) if x.shape[d] != shape[d]]
    if kind is ResizeMethod.NEAREST:
        for d in dims:
            m, n = np.float32(x.shape[d]), np.float32(shape[d])
            x = jnp.take(x, np.floor((np.arange(shape[d], dtype=np.float32) + 0.5) * m / n).astype(np.int32), axis=d)
        return x
    x = inexact_of(name, x, "image")
    # Not of a size 0, which has no pixels to weigh.
    real = (
        np.float64 if dtypes.real_dtype(x.dtype) == np.float64 else np.float32
    )  # weights are of the image's precision
    scale = [real(1.0 if not shape[d] or not x.shape[d] else shape[d] / x.shape[d]) for d in dims]
    return _resampled(x, shape, dims, scale, [real(0)] * len(dims), kind, antialias, precision)


def scale_and_translate(
    image: Any, shape: Any, spatial_dims: Sequence[int], scale: Any, translation: Any, method: Any,
    antialias: bool = True, precision: Any = lax.Precision.HIGHEST,
) -> Value:  # fmt: skip
    """An image scaled and moved: the point x of the image comes to x * scale + translation in the result.

    Pixel i covers the points from i to i + 1. What comes from outside of the image is 0.

    Args:
        image: an array.
        shape: that of the result.
        spatial_dims: the dimensions that are scaled.
        scale, translation: vectors with a number for each of these; they may be traced and are differentiable.
        method: a `ResizeMethod` or its name, as those of `resize`, but not "nearest".
        antialias: whether a smaller image is made of means of all pixels.
        precision: that of the products with the weights.

    Raises:
        ValueError: method "nearest" or an unknown one, or numbers of dimensions that do not fit.

    Follows `jax.image.scale_and_translate`.

    >>> x = quire.numpy.array([1., 2., 3.])
    >>> quire.image.scale_and_translate(x, (3,), [0], quire.numpy.ones(1), quire.numpy.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    name = "quire.image.scale_and_translate"
    x = inexact_of(name, image, "image")
    shape, kind = _new_shape(name, x, shape), _method(method)
    if kind is ResizeMethod.NEAREST:
        raise ValueError(f"{name}: method 'nearest' is not supported: use quire.image.resize")
    dims = [as_axis(name, d, x.ndim, "spatial dimension") for d in spatial_dims]
    scales, moves = common_inexact(name, scale=scale, translation=translation)
    for what, v in (("scale", scales), ("translation", moves)):
        if v.shape != (len(dims),):
            raise ValueError(
                f"{name}: {what} must have shape ({len(dims)},), one number for each of spatial_dims, got {v.aval.short()}"
            )
    for d, n in enumerate(shape):
        if d not in dims and n != x.shape[d]:
            raise ValueError(
                f"{name}: size {n} of dimension {d}, which is not scaled, must be that of {x.aval.short()}"
            )
    # Weights of known numbers are computed now; traced ones may be differentiated.
    parts = (
        [v[i] for i in range(len(dims))] if isinstance(v, Tracer) else list(host_value(v))  # pyright: ignore
        for v in (scales, moves)
    )
    return _resampled(x, shape, dims, *parts, kind, antialias, precision)  # pyright: ignore


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

__getattr__ = module_getattr("quire.image", globals())

"""quire.scipy.fft: discrete cosine transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from .. import lax
from .. import numpy as qnp
from ..absent_names import module_getattr
from ..arrays.operands import HALF, Value, array, as_axes, as_axis, cast, promote_inexact, usual_promotion


def _operand(name: str, x: Any, type_: int, norm: str | None) -> Value:
    if type_ != 2:
        raise NotImplementedError(f"quire.scipy.fft.{name}: only type 2 is supported, got {type_!r}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"quire.scipy.fft.{name}: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}")
    (value,) = promote_inexact(array(f"fft.{name}", x))
    return cast(value, dtypes.float32) if aval_of(value).dtype in HALF else value


def _resized(name: str, x: Value, n: int | None, axis: int) -> Value:
    """x cut or filled up with zeros to n elements along an axis."""
    size = aval_of(x).shape[axis]
    if n is None or n == size:
        return x
    if n < 1:
        raise ValueError(f"quire.scipy.fft.{name}: the length must be at least 1, got {n}")
    if n < size:
        return lax.slice_in_dim(x, 0, n, axis=axis)
    rest = tuple(n - size if i == axis else m for i, m in enumerate(aval_of(x).shape))
    return qnp.concatenate([x, qnp.zeros(rest, dtype=aval_of(x).dtype)], axis=axis)


def _scales(n: int, norm: str | None, inverse: bool, dtype: Any) -> np.ndarray[Any, Any] | float:
    """What the coefficients of the unscaled transform, sum of 2 x cos, are multiplied by."""
    if norm == "ortho":
        scale = np.full(n, math.sqrt(1 / (2 * n)))
        scale[0] = math.sqrt(1 / (4 * n))
        return (scale if not inverse else 1.0 / scale).astype(dtype)
    if norm == "forward":
        return 1 / (2 * n) if not inverse else 2.0 * n
    return 1.0


def _along(x: Value, axis: int, values: Any) -> Value:
    """A vector in the shape in which it multiplies x along an axis."""
    shape = [1] * aval_of(x).ndim
    shape[axis] = -1
    return qnp.reshape(qnp.asarray(values), shape)


def _twiddle(n: int, sign: float, dtype: Any) -> np.ndarray[Any, Any]:
    """exp(sign i pi k / (2 n)), to multiply a transform of complex numbers of this dtype."""
    return np.exp(sign * 0.5j * np.pi * np.arange(n) / n).astype(dtype)


def _dct(x: Value, axis: int, norm: str | None) -> Value:
    """J. Makhoul, A fast cosine transform in one and two dimensions, 1980: one FFT of the reordered samples."""
    dtype = aval_of(x).dtype
    if dtypes.is_complex(dtype):
        return ew.complex(_dct(ew.real(x), axis, norm), _dct(ew.imag(x), axis, norm))
    n = aval_of(x).shape[axis]
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])
    wide = dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64
    samples = qnp.moveaxis(cast(qnp.take(x, order, axis=axis), wide), axis, -1)
    spectrum = lax.fft(samples, "fft", (n,))
    turned = 2.0 * ew.real(spectrum * qnp.asarray(_twiddle(n, -1.0, wide)))
    return qnp.moveaxis(turned * _scales(n, norm, False, dtype), -1, axis)


def _idct(x: Value, axis: int, norm: str | None) -> Value:
    dtype = aval_of(x).dtype
    if dtypes.is_complex(dtype):
        return ew.complex(_idct(ew.real(x), axis, norm), _idct(ew.imag(x), axis, norm))
    n = aval_of(x).shape[axis]
    wide = dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64
    rows = qnp.moveaxis(x, axis, -1) * _scales(n, norm, True, dtype)
    # The spectrum of the reordered samples: (X[k] - i X[n - k]) exp(i pi k / 2 n) / 2
    mirrored = qnp.concatenate([qnp.zeros_like(rows[..., :1]), rows[..., :0:-1]], axis=-1)
    spectrum = 0.5 * ew.complex(rows, -mirrored) * qnp.asarray(_twiddle(n, 1.0, wide))
    samples = ew.real(lax.fft(spectrum, "ifft", (n,)))
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])
    return qnp.moveaxis(qnp.take(samples, np.argsort(order), axis=-1), -1, axis)


@usual_promotion
def _one(name: str, x: Any, type_: int, n: int | None, axis: int, norm: str | None) -> Value:
    value = _operand(name, x, type_, norm)
    d = as_axis(f"quire.scipy.fft.{name}", axis, aval_of(value).ndim)
    value = _resized(name, value, n, d)
    return (_dct if name == "dct" else _idct)(value, d, norm)


@usual_promotion
def _several(
    name: str, x: Any, type_: int, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Value:
    value = _operand(name, x, type_, norm)
    ndim = aval_of(value).ndim
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    dims = as_axes(f"quire.scipy.fft.{name}", tuple(axes), ndim, "axes")
    if s is not None and len(s) != len(dims):
        raise ValueError(f"quire.scipy.fft.{name}: s and axes must have one length, got {tuple(s)} and {tuple(axes)}")
    for i, d in enumerate(dims):
        value = _resized(name, value, None if s is None else int(s[i]), d)
        value = (_dct if name == "dctn" else _idct)(value, d, norm)
    return value


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:  # noqa: A002
    """The discrete cosine transform of type 2 along an axis.

    Args:
        x: an array; integers become the default float, float16 and bfloat16 float32.
        type: must be 2. n: the length to which x is cut or filled up with zeros. axis: the axis.
        norm: None or "backward" for sums of 2 x cos(...), "ortho" for an orthonormal transform, or "forward".

    Follows `scipy.fft.dct`.

    >>> quire.scipy.fft.dct(quire.numpy.array([1., 1.])).tolist()
    [4.0, 0.0]
    """
    return _one("dct", x, type, n, axis, norm)


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:  # noqa: A002
    """The inverse of `dct`; arguments as its. Follows `scipy.fft.idct`.

    >>> quire.scipy.fft.idct(quire.numpy.array([4., 0.])).tolist()
    [1.0, 1.0]
    """
    return _one("idct", x, type, n, axis, norm)


def dctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None  # noqa: A002
) -> Value:  # fmt: skip
    """`dct` along several axes: all, or the last len(s).

    Args:
        x: an array. type: must be 2. s: the length for each axis. axes: the axes. norm: as that of `dct`.

    Follows `scipy.fft.dctn`.

    >>> quire.scipy.fft.dctn(quire.numpy.ones((2, 2))).tolist()
    [[16.0, 0.0], [0.0, 0.0]]
    """
    return _several("dctn", x, type, s, axes, norm)


def idctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None  # noqa: A002
) -> Value:  # fmt: skip
    """The inverse of `dctn`; arguments as its. Follows `scipy.fft.idctn`.

    >>> quire.scipy.fft.idctn(quire.numpy.array([[16., 0.], [0., 0.]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _several("idctn", x, type, s, axes, norm)


__all__ = ["dct", "dctn", "idct", "idctn"]
__getattr__ = module_getattr("quire.scipy.fft", globals())

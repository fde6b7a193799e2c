"""quire.scipy.signal: convolutions and spectra, as jax.scipy.signal has them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes

from .. import lax
from .. import numpy as jnp
from ..absent_names import module_getattr
from ..arrays.operands import Value, array_of, as_axis, as_int, common_inexact, inexact_of, one_of, usual_promotion
from ..numpy import fft as _fft

_MODULE = "quire.scipy.signal"
_MODES = ("full", "same", "valid")


# -- convolution --------------------------------------------------------------------------------------------------------------


def _pair(
    name: str, in1: Any, in2: Any, mode: Any, ndim: int | None = None, nothing: bool = False
) -> tuple[Value, Value]:
    """The operands of a convolution, of one dtype and number of dimensions; without elements where `nothing` allows it."""
    one_of(f"{_MODULE}.{name}", mode, "mode", _MODES)
    x, y = common_inexact(f"{_MODULE}.{name}", in1=in1, in2=in2)
    if x.ndim != y.ndim or ndim not in (None, x.ndim):
        wanted = "one number of dimensions" if ndim is None else f"{ndim} dimensions"
        raise ValueError(f"{_MODULE}.{name}: in1 and in2 must have {wanted}, got {x.aval.short()} and {y.aval.short()}")
    if not nothing and (not x.size or not y.size):
        raise ValueError(f"{_MODULE}.{name}: arrays without elements, got {x.aval.short()} and {y.aval.short()}")
    return x.astype(x.dtype), y.astype(y.dtype)


def _larger_first(name: str, x: Value, y: Value) -> tuple[Value, Value]:
    if all(n <= m for n, m in zip(x.shape, y.shape)):
        x, y = y, x
    if any(n < m for n, m in zip(x.shape, y.shape)):
        raise ValueError(
            f"{_MODULE}.{name}: one of in1 and in2 must be the larger one in every dimension, got {x.aval.short()} and "
            f"{y.aval.short()}"
        )
    return x, y


def _direct(name: str, in1: Value, in2: Value, mode: str, precision: Any) -> Value:
    size = in2.shape
    x, y = _larger_first(name, in1, in2)
    pads = {
        "valid": [(0, 0) for _ in size],
        "same": [(n - 1 - (m - 1) // 2, n - m + (m - 1) // 2) for n, m in zip(y.shape, size)],
        "full": [(n - 1, n - 1) for n in y.shape],
    }[mode]
    if not size:
        return x * y
    out = lax.conv_general_dilated(x[None, None], jnp.flip(y)[None, None], (1,) * y.ndim, pads, precision=precision)
    return out[0, 0]


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Value:
    """The convolution of two arrays over all dimensions.

    Args:
        in1, in2: arrays with one number of dimensions; one is at least as large as the other in every dimension.
        mode: "full", all of it; "same", the middle part with the shape of in1; "valid", what needs no zeros around.
        method: "direct" ("auto") or "fft".
        precision: that of the products of method "direct".

    Returns an array of the common dtype; integers become the default float.

    Raises:
        ValueError: an unknown mode or method, or shapes that do not fit.

    Follows `scipy.signal.convolve`.

    >>> quire.scipy.signal.convolve(quire.numpy.array([1., 2., 3.]), quire.numpy.array([1., 1.]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    return _convolved("convolve", in1, in2, mode, method, precision)


def _convolved(name: str, in1: Any, in2: Any, mode: str, method: str, precision: Any) -> Value:
    one_of(f"{_MODULE}.{name}", method, "method", ("auto", "direct", "fft"))
    x, y = _pair(name, in1, in2, mode, nothing=method == "fft")
    if method == "fft":
        return _by_fft(name, x, y, mode, tuple(range(x.ndim)))
    return _direct(name, x, y, mode, precision)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Value:
    """The cross-correlation of two arrays: the convolution with in2 reversed and conjugate; arguments as `convolve`.

    Follows `scipy.signal.correlate`.

    >>> quire.scipy.signal.correlate(quire.numpy.array([1., 2., 3.]), quire.numpy.array([0., 1.]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    y = array_of(f"{_MODULE}.correlate", in2, "in2")
    return _convolved("correlate", in1, jnp.flip(jnp.conj(y)), mode, method, precision)


def _only_zeros(name: str, boundary: Any, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{_MODULE}.{name}: only boundary='fill' with fillvalue=0 is supported, got {boundary!r} and {fillvalue!r}: pad "
            "in1 by quire.numpy.pad and take mode='valid'"
        )


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0, precision: Any = None
) -> Value:
    """The convolution of two matrices; arguments as those of `convolve`. Only zeros lie around in1.

    Follows `scipy.signal.convolve2d`.

    >>> x = quire.numpy.array([[1., 2.], [3., 4.]])
    >>> quire.scipy.signal.convolve2d(x, quire.numpy.ones((2, 2)), mode="valid")
    Array([[10.]], dtype=float32)
    """
    _only_zeros("convolve2d", boundary, fillvalue)
    return _direct("convolve2d", *_pair("convolve2d", in1, in2, mode, 2), mode, precision)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0, precision: Any = None
) -> Value:
    """The cross-correlation of two matrices; arguments as those of `convolve`. Only zeros lie around in1.

    Follows `scipy.signal.correlate2d`.

    >>> x = quire.numpy.array([[1., 2.], [3., 4.]])
    >>> quire.scipy.signal.correlate2d(x, quire.numpy.array([[0., 1.]]), mode="valid")
    Array([[2.],
           [4.]], dtype=float32)
    """
    name = "correlate2d"
    _only_zeros(name, boundary, fillvalue)
    x, y = _pair(name, in1, in2, mode, 2)
    if mode == "same":
        # The middle of the reversed result: it differs from the middle of the result where the sizes are even.
        return jnp.flip(_direct(name, jnp.flip(x), jnp.conj(y), mode, precision))
    if mode == "valid" and any(n < m for n, m in zip(x.shape, y.shape)):
        # SciPy exchanges the two and reverses the result: the conjugate one is then the smaller.
        return _direct(name, jnp.conj(x), jnp.flip(y), mode, precision)
    return _direct(name, x, jnp.flip(jnp.conj(y)), mode, precision)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Value:
    """The convolution of two arrays by Fourier transforms, for large ones.

    Args:
        in1, in2: arrays with one number of dimensions.
        mode: as that of `convolve`.
        axes: the dimensions over which they are convolved, all for None; the others are equal.

    Raises:
        ValueError: an unknown mode, or shapes that do not fit.

    Follows `scipy.signal.fftconvolve`.

    >>> quire.scipy.signal.fftconvolve(quire.numpy.array([1., 2., 3.]), quire.numpy.array([1., 1.])).round(4)
    Array([1., 3., 5., 3.], dtype=float32)
    """
    name = f"{_MODULE}.fftconvolve"
    x, y = _pair("fftconvolve", in1, in2, mode, nothing=True)
    if axes is None:
        axes = range(x.ndim)
    dims = tuple(as_axis(name, a, x.ndim, "axes") for a in (axes if isinstance(axes, Sequence | range) else (axes,)))
    for d in set(range(x.ndim)) - set(dims):
        if x.shape[d] != y.shape[d]:
            raise ValueError(
                f"{name}: in1 {x.aval.short()} and in2 {y.aval.short()} must have the same size in dimension {d}, which is "
                "not among axes"
            )
    return _by_fft("fftconvolve", x, y, mode, dims)


def _by_fft(name: str, x: Value, y: Value, mode: str, axes: tuple[int, ...]) -> Value:
    dtype = x.dtype
    full = [x.shape[d] + y.shape[d] - 1 for d in axes]
    size = list(x.shape)
    if mode == "valid":
        x, y = _larger_first(name, x, y)
        size = [n - m + 1 if d in axes else n for d, (n, m) in enumerate(zip(x.shape, y.shape))]
    elif mode == "full":
        for d, n in zip(axes, full):
            size[d] = n
    if not x.size or not y.size:
        return _of_nothing(name, x, y, mode, size)
    if all(x.shape[d] == 1 or y.shape[d] == 1 for d in axes):
        out = x * y
    elif dtypes.is_complex(dtype):
        out = _fft.ifftn(_fft.fftn(x, full, axes) * _fft.fftn(y, full, axes), full, axes)
    else:
        out = _fft.irfftn(_fft.rfftn(x, full, axes) * _fft.rfftn(y, full, axes), full, axes)
    starts = [(n - m) // 2 for n, m in zip(out.shape, size)]
    return lax.slice(out, starts, [s + m for s, m in zip(starts, size)]).astype(dtype)


def _of_nothing(name: str, x: Value, y: Value, mode: str, size: Sequence[int]) -> Value:
    """The convolution of arrays of which one has no elements, a sum of none: zeros, where it has a size at all."""
    if mode == "valid" or min(size) < 0 or any(n > k + m for n, k, m in zip(size, x.shape, y.shape)):
        raise ValueError(
            f"{_MODULE}.{name}: arrays without elements, got {x.aval.short()} and {y.aval.short()}, have no part of mode "
            f"{mode!r}"
        )
    return jnp.zeros(size, x.dtype)


# -- detrend ------------------------------------------------------------------------------------------------------------------


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None) -> Value:
    """The data less its mean, or less the line (or lines) nearest to it.

    Args:
        data: an array. axis: the axis of the data.
        type: "linear" or "constant".
        bp: positions at which a new line begins.

    Raises:
        ValueError: another type, or a position outside of the data.
        NotImplementedError: overwrite_data is given: arrays are immutable.

    Follows `scipy.signal.detrend`.

    >>> quire.scipy.signal.detrend(quire.numpy.array([1., 3., 2.]), type="constant")
    Array([-1.,  1.,  0.], dtype=float32)
    """
    name = f"{_MODULE}.detrend"
    if overwrite_data is not None:
        raise NotImplementedError(f"{name}: overwrite_data is not supported, arrays are immutable: use the result")
    one_of(name, type, "type", ("linear", "constant"))
    x = inexact_of(name, data, "data")
    d = as_axis(name, axis, x.ndim)
    if type == "constant":
        return x - jnp.mean(x, axis=d, keepdims=True)
    n = x.shape[d]
    ends = np.unique(np.r_[0, np.asarray(bp), n]).astype(int)
    if ends[0] < 0 or ends[-1] > n:
        raise ValueError(f"{name}: bp must be positions within [0, {n}], got {bp!r}")
    rows = jnp.moveaxis(x, d, -1)
    parts = [_without_line(rows[..., a:b]) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist())]
    return jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, d)


def _without_line(x: Value) -> Value:
    """x less the line of least squares along the last axis; the normal equations are those of known numbers."""
    n = x.shape[-1]
    basis = np.stack([np.ones(n), np.arange(1, n + 1) / n])
    fit, line = (jnp.asarray(m.astype(x.dtype)) for m in (np.linalg.pinv(basis), basis))
    highest = lax.Precision.HIGHEST
    return x - jnp.matmul(jnp.matmul(x, fit, precision=highest), line, precision=highest)


# -- windows and segments -------------------------------------------------------------------------------------------------------


def _window(name: str, window: Any, nperseg: Any, length: int, dtype: Any) -> tuple[Value, int]:
    """The window and its length."""
    size = None if nperseg is None else as_int(name, nperseg, "nperseg")
    if size is not None and size < 1:
        raise ValueError(f"{name}: nperseg must be positive, got {size}")
    real = dtypes.real_dtype(np.dtype(dtype))
    if isinstance(window, str) or (isinstance(window, tuple) and window and isinstance(window[0], str)):
        size = 256 if size is None else size
        if size > length:
            warnings.warn(
                f"{name}: nperseg = {size} is greater than the length of the input, {length}, which is used instead",
                UserWarning,
                stacklevel=4,
            )
            size = length
        from scipy.signal import get_window  # slow to import

        return jnp.asarray(get_window(window, size).astype(real)), size  # pyright: ignore
    win = inexact_of(name, jnp.asarray(window) if isinstance(window, list | tuple) else window, "window")
    if win.ndim != 1:
        raise ValueError(f"{name}: window must be a name or have 1 dimension, got {win.aval.short()}")
    if win.shape[0] > length:
        raise ValueError(f"{name}: window {win.aval.short()} is longer than the input, {length}")
    if size not in (None, win.shape[0]):
        raise ValueError(f"{name}: nperseg {size} must be the length of the window {win.aval.short()}")
    return (win if dtypes.is_complex(win.dtype) else win.astype(real)), win.shape[0]


def _lengths(name: str, nperseg: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    """The steps between segments, and the length of the transforms."""
    overlap = nperseg // 2 if noverlap is None else as_int(name, noverlap, "noverlap")
    length = nperseg if nfft is None else as_int(name, nfft, "nfft")
    if length < nperseg:
        raise ValueError(f"{name}: nfft {length} must not be less than nperseg {nperseg}")
    if overlap >= nperseg:
        raise ValueError(f"{name}: noverlap {overlap} must be less than nperseg {nperseg}")
    return nperseg - overlap, length


#: Up to so many steps in a segment, segments are made of, and added as, slices; more need indices.
_SLICES = 32


def _segments(x: Value, size: int, step: int) -> Value:
    """The segments of the last axis: (..., number of segments, size)."""
    count = (x.shape[-1] - size) // step + 1
    if size % step or size // step > _SLICES:
        return x[..., np.arange(count)[:, None] * step + np.arange(size)[None, :]]
    steps = size // step
    rows = x[..., : (count + steps - 1) * step].reshape(*x.shape[:-1], count + steps - 1, step)
    return jnp.concatenate([rows[..., i : i + count, :] for i in range(steps)], axis=-1)


def _added(x: Value, step: int) -> Value:
    """The sum of overlapping segments (..., number of segments, size): the transpose of `_segments`."""
    *lead, count, size = x.shape
    length = (count - 1) * step + size
    if size % step or size // step > _SLICES:
        where = np.arange(count)[:, None] * step + np.arange(size)[None, :]
        return jnp.zeros((*lead, length), x.dtype).at[..., where].add(x)
    steps = size // step
    out = None
    for i in range(steps):
        part = x[..., i * step : (i + 1) * step].reshape(*lead, count * step)
        part = lax.pad(part, x.dtype.type(0), [(0, 0, 0)] * len(lead) + [(i * step, (steps - 1 - i) * step, 0)])
        out = part if out is None else out + part
    return out


def _odd(x: Value, n: int) -> Value:
    """x extended by its reflections through its ends."""
    left, right = 2 * x[..., :1] - x[..., n:0:-1], 2 * x[..., -1:] - x[..., -2 : -n - 2 : -1]
    return jnp.concatenate([left, x, right], axis=-1)


def _even(x: Value, n: int) -> Value:
    return jnp.concatenate([x[..., n:0:-1], x, x[..., -2 : -n - 2 : -1]], axis=-1)


def _constant(x: Value, n: int) -> Value:
    ends = (jnp.broadcast_to(e, (*x.shape[:-1], n)) for e in (x[..., :1], x[..., -1:]))
    left, right = ends
    return jnp.concatenate([left, x, right], axis=-1)


def _zeros(x: Value, n: int) -> Value:
    return lax.pad(x, x.dtype.type(0), [(0, 0, 0)] * (x.ndim - 1) + [(n, n, 0)])


_BOUNDARIES: dict[Any, Callable[[Value, int], Value]] = {
    "even": _even, "odd": _odd, "constant": _constant, "zeros": _zeros,
}  # fmt: skip


def _extended(name: str, x: Value, n: int, boundary: Any) -> Value:
    if n < 1:
        return x
    if boundary in ("even", "odd") and n >= x.shape[-1]:
        raise ValueError(f"{name}: boundary {boundary!r} needs more than {n} elements, got {x.shape[-1]}")
    return _BOUNDARIES[boundary](x, n)


def _filled_up(x: Value, n: int) -> Value:
    return lax.pad(x, x.dtype.type(0), [(0, 0, 0)] * (x.ndim - 1) + [(0, n, 0)]) if n else x


# -- spectra ------------------------------------------------------------------------------------------------------------------


def _detrended(name: str, x: Value, kind: Any) -> Value:
    if kind is False or kind is None:
        return x
    if callable(kind):
        return kind(x)
    return detrend(x, type=one_of(name, kind, "detrend", ("linear", "constant")))


@usual_promotion
def _spectrum(
    name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, kind: Any, onesided: bool,
    scaling: str, axis: Any, boundary: Any, padded: bool, short_time: bool,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Frequencies, times, and for each segment (last axis of the result) its transform or the cross spectrum."""
    one_of(name, scaling, "scaling", ("density", "spectrum"))
    one_of(name, boundary, "boundary", (*_BOUNDARIES, None))
    signals = [inexact_of(name, x)] if y is None else common_inexact(name, x=x, y=y)
    x = signals[0]
    d = as_axis(name, axis, x.ndim)
    if len({v.ndim for v in signals}) > 1:
        raise ValueError(
            f"{name}: x and y must have one number of dimensions, got {x.aval.short()} and {signals[1].aval.short()}"
        )
    complex_ = dtypes.complex_dtype(x.dtype)
    real = dtypes.real_dtype(complex_)
    if any(not v.size for v in signals):
        empty = jnp.zeros(x.shape, real)
        return empty, empty, empty if y is None and not short_time else empty.astype(complex_)
    win, size = _window(name, window, nperseg, x.shape[d], x.dtype)
    step, length = _lengths(name, size, noverlap, nfft)
    signals = [jnp.moveaxis(v, d, -1) for v in signals]
    longest = max(v.shape[-1] for v in signals)
    signals = [_filled_up(v, longest - v.shape[-1]) for v in signals]
    if boundary is not None:
        signals = [_extended(name, v, size // 2, boundary) for v in signals]
    if padded:
        signals = [_filled_up(v, -(v.shape[-1] - size) % step % size) for v in signals]
    if onesided and any(dtypes.is_complex(v.dtype) for v in (*signals, win)):
        warnings.warn(f"{name}: the input is complex: return_onesided=False is used", UserWarning, stacklevel=3)
        onesided = False

    rate = jnp.asarray(fs)
    scale = 1 / (rate * (win * win).sum()) if scaling == "density" else 1 / win.sum() ** 2
    transform = _fft.rfft if onesided else _fft.fft
    parts = [transform(win * _detrended(name, _segments(v, size, step), kind), n=length) for v in signals]
    if short_time:
        out = parts[0] * jnp.sqrt(scale).astype(complex_)
    else:
        product = jnp.conj(parts[0]) * parts[-1] if y is not None else parts[0].real ** 2 + parts[0].imag ** 2
        if onesided:
            # The other half of the frequencies; 0, and the highest of an even number, have no partner.
            double = np.full(product.shape[-1], 2.0)
            double[0] = 1
            if length % 2 == 0:
                double[-1] = 1
            product = product * double.astype(real)
        out = product * scale.astype(product.dtype)
    frequencies = (_fft.rfftfreq if onesided else _fft.fftfreq)(length, 1 / rate, dtype=real)
    times = (np.arange(out.shape[-2]) * step + (0 if boundary is not None else size / 2)).astype(real)
    return frequencies, jnp.asarray(times) / rate.astype(real), jnp.moveaxis(out, -1, d)


def stft(
    x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros",
    padded: bool = True, axis: int = -1,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """The short-time Fourier transform: the spectra of overlapping segments of a signal.

    Args:
        x: an array.
        fs: the number of samples in a unit of time.
        window: a name (or a tuple of a name and parameters) that `scipy.signal.get_window` knows, or a vector.
        nperseg: the length of a segment. noverlap: of its overlap with the next one; half of it for None.
        nfft: the length of the transforms; nperseg for None.
        detrend: "constant", "linear" or a function, applied to each segment; or False.
        return_onesided: whether only frequencies that are not negative are returned; complex x has all.
        boundary: how x goes on at its ends: "zeros", "even", "odd", "constant", or None: not at all.
        padded: whether zeros at the end fill the last segment.
        axis: the axis of time in x.

    Returns frequencies, times, and the transform: its frequencies are at `axis`, its times come last.

    Raises:
        ValueError: lengths that do not fit, or unknown names.

    Follows `scipy.signal.stft`.

    >>> f, t, z = quire.scipy.signal.stft(quire.numpy.ones(8), nperseg=4)
    >>> f, t, z.shape
    (Array([0.  , 0.25, 0.5 ], dtype=float32), Array([0., 2., 4., 6., 8.], dtype=float32), (3, 5))
    """
    return _spectrum(
        f"{_MODULE}.stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis,
        boundary, padded, True,
    )  # fmt: skip


def csd(
    x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Value, Value]:  # fmt: skip
    """The cross power spectral density of two signals, by Welch's method.

    Args:
        x, y: arrays; the shorter one is filled up with zeros. None for y is x.
        nperseg: the length of a segment; 256 for None.
        scaling: "density", power in a unit of frequency, or "spectrum", power.
        average: of the segments: "mean" or "median".

        The others as those of `stft`.

    Returns frequencies and densities, at `axis`; complex numbers unless y is None.

    Follows `scipy.signal.csd`.

    >>> x = quire.numpy.arange(8.) % 2
    >>> f, p = quire.scipy.signal.csd(x, x, nperseg=4, window="boxcar")
    >>> p.real
    Array([0., 0., 1.], dtype=float32)
    """
    name = f"{_MODULE}.csd"
    return _averaged(name, x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def _averaged(
    name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, kind: Any, onesided: bool,
    scaling: str, axis: int, average: str,
) -> tuple[Value, Value]:  # fmt: skip
    one_of(name, average, "average", ("mean", "median"))
    frequencies, _, power = _spectrum(
        name, x, y, fs, window, nperseg, noverlap, nfft, kind, onesided, scaling, axis, None, False, False
    )
    if not power.size:
        return frequencies, power
    if average == "mean":
        return frequencies, power.mean(axis=-1)
    # The median of n squares of normal numbers is less than their mean, by this factor.
    n = power.shape[-1]
    even = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (even + 1) - 1 / even)
    if dtypes.is_complex(power.dtype):
        middle = lax.complex(jnp.median(power.real, axis=-1), jnp.median(power.imag, axis=-1))
    else:
        middle = jnp.median(power, axis=-1)
    return frequencies, middle / float(bias)


def welch(
    x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Value, Value]:  # fmt: skip
    """The power spectral density of a signal, by Welch's method; arguments as those of `csd`.

    Follows `scipy.signal.welch`.

    >>> f, p = quire.scipy.signal.welch(quire.numpy.arange(8.) % 2, nperseg=4, window="boxcar")
    >>> f, p
    (Array([0.  , 0.25, 0.5 ], dtype=float32), Array([0., 0., 1.], dtype=float32))
    """
    return _averaged(
        f"{_MODULE}.welch",
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


@usual_promotion
def istft(
    Zxx: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Value, Value]:  # fmt: skip
    """The inverse of `stft`.

    Args:
        Zxx: the transform.
        fs, window, nperseg, noverlap, nfft: as those of the `stft`; nperseg and nfft follow from the frequencies for None.
        input_onesided: whether it has only frequencies that are not negative.
        boundary: whether the signal was extended at its ends.
        time_axis, freq_axis: which axes are the times and the frequencies.

    Returns times and the signal. The times are counted along the first axis, as SciPy and JAX do, also of several signals.

    Raises:
        ValueError: lengths or axes that do not fit.

    Follows `scipy.signal.istft`.

    >>> f, t, z = quire.scipy.signal.stft(quire.numpy.arange(8.), nperseg=4)
    >>> quire.scipy.signal.istft(z, nperseg=4)[1].round(3)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    name = f"{_MODULE}.istft"
    z = inexact_of(name, Zxx, "Zxx")
    if z.ndim < 2:
        raise ValueError(f"{name}: Zxx must have at least 2 dimensions, got {z.aval.short()}")
    z = z.astype(dtypes.complex_dtype(z.dtype))
    time, frequency = (as_axis(name, a, z.ndim, w) for a, w in ((time_axis, "time_axis"), (freq_axis, "freq_axis")))
    if time == frequency:
        raise ValueError(f"{name}: time_axis and freq_axis are both {time}")
    natural = 2 * (z.shape[frequency] - 1) if input_onesided else z.shape[frequency]
    size = natural if nperseg is None else as_int(name, nperseg, "nperseg")
    if nfft is None and input_onesided and size == natural + 1:
        nfft = size  # of an odd length
    elif nfft is None:
        nfft = natural
    step, length = _lengths(name, size, noverlap, nfft)
    win, _ = _window(name, window, size, size, z.dtype)
    z = jnp.moveaxis(z, (time, frequency), (-2, -1))
    parts = (_fft.irfft if input_onesided else _fft.ifft)(z, n=length)[..., :size]
    signal = _added(parts * win * win.sum(), step)
    weight = _added(jnp.broadcast_to(win * win, (parts.shape[-2], size)), step)
    if boundary and size // 2:
        signal, weight = (v[..., size // 2 : -(size // 2)] for v in (signal, weight))
    signal = signal / jnp.where(abs(weight) > 1e-10, weight, 1)
    if signal.ndim > 1 and time != z.ndim - 1:
        signal = jnp.moveaxis(signal, -1, time - (frequency < time))
    count = signal.shape[0]
    real = dtypes.real_dtype(signal.dtype)
    return jnp.asarray(np.arange(count).astype(real)) / jnp.asarray(fs).astype(real), signal


__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip

__getattr__ = module_getattr(_MODULE, globals())

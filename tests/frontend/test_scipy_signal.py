"""quire.scipy.signal against scipy.signal: values over modes, shapes and options; derivatives; compiled; errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import quire
from quire.scipy import signal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 50)).astype(np.float32)
Y = RNG.normal(size=(2, 50)).astype(np.float32)
Z = (X + 1j * Y).astype(np.complex64)
A = RNG.normal(size=(5, 6)).astype(np.float32)
B = RNG.normal(size=(3, 4)).astype(np.float32)
C = (B + 1j * B[::-1]).astype(np.complex64)


def close(got, want, rtol=1e-4, atol=2e-5):
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    for g, w in zip(got, want, strict=True):
        kind = np.complex64 if np.iscomplexobj(w) else np.float32
        assert (g.shape, g.dtype) == (w.shape, kind)
        np.testing.assert_allclose(g, w.astype(kind), rtol=rtol, atol=atol)


# -- convolutions -------------------------------------------------------------------------------------------------------------

PAIRS = [(A, B), (B, A), (A, C), (A[:4], A), (A[0], B[0]), (A[None], B[None, :2]), (A, A)]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(mode):
    for x, y in PAIRS:
        for name in ("convolve", "correlate"):
            if mode != "valid" or name == "convolve" or x.size >= y.size:
                want = getattr(scipy.signal, name)(x, y, mode, method="direct")
                close(getattr(signal, name)(x, y, mode), want)
                close(getattr(signal, name)(x, y, mode, method="fft"), want)
        close(signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
        if x.ndim == 2:
            for name in ("convolve2d", "correlate2d"):
                for c, d in ((1, 1), (1, 1 - 0.5j), (2j, 1), (1 + 1j, 3j)):
                    close(getattr(signal, name)(x * c, y * d, mode), getattr(scipy.signal, name)(x * c, y * d, mode))
    close(signal.fftconvolve(X, Y[:, :7], mode, axes=1), scipy.signal.fftconvolve(X, Y[:, :7], mode, axes=1))
    close(signal.fftconvolve(A[:1], B[:, :1], "full"), scipy.signal.fftconvolve(A[:1], B[:, :1], "full"))
    integers = signal.convolve(np.arange(4), np.arange(3), mode)
    close(integers, scipy.signal.convolve(np.arange(4.0), np.arange(3.0), mode))


# -- detrend and spectra --------------------------------------------------------------------------------------------------------


def test_detrend():
    for x in (X, Z):
        for kw in ({}, {"type": "constant"}, {"bp": [10, 30]}, {"axis": 0, "bp": 1}, {"axis": 0}):
            close(signal.detrend(x, **kw), scipy.signal.detrend(x, **kw), atol=1e-4)


SPECTRA = [
    {"nperseg": 16}, {"nperseg": 15, "noverlap": 10, "fs": 4.0}, {"nperseg": 16, "nfft": 20, "window": "boxcar"},
    {"nperseg": 16, "axis": 0}, {"nperseg": 16, "return_onesided": False}, {"nperseg": 12, "detrend": "linear"},
    {"nperseg": 16, "noverlap": 15}, {"window": np.hanning(9)}, {"nperseg": 16, "window": ("tukey", 0.25)},
]  # fmt: skip


def test_spectra():
    for kw in SPECTRA:
        x, y = (X.T, Y.T) if kw.get("axis") == 0 else (X, Y)
        close(signal.welch(x, **kw), scipy.signal.welch(x, **kw))
        close(signal.csd(x, y, **kw), scipy.signal.csd(x, y, **kw))
        kw = {"nperseg": None, **kw}
        close(signal.stft(x, **kw), scipy.signal.stft(x, **kw))
    for kw in ({"scaling": "spectrum"}, {"average": "median"}, {"average": "median", "noverlap": 14}):
        close(signal.welch(X, nperseg=16, **kw), scipy.signal.welch(X, nperseg=16, **kw))
        close(signal.csd(X, Y[:, :40], nperseg=16, **kw), scipy.signal.csd(X, Y[:, :40], nperseg=16, **kw))
    for boundary in ("even", "odd", "constant", None):
        kw = {"nperseg": 14, "boundary": boundary, "padded": boundary != "odd"}
        close(signal.stft(X, **kw), scipy.signal.stft(X, **kw))
    assert signal.csd(X, None, nperseg=16)[1].dtype == np.float32
    with pytest.warns(UserWarning, match="the input is complex: return_onesided=False is used"):
        close(signal.stft(Z, nperseg=16), scipy.signal.stft(Z, nperseg=16, return_onesided=False))
    with pytest.warns(UserWarning, match="nperseg = 256 is greater than the length of the input, 50"):
        close(signal.welch(X), scipy.signal.welch(X, nperseg=50))


def test_inverse():
    for kw in (
        {"nperseg": 16},
        {"nperseg": 15, "noverlap": 12},
        {"nperseg": 16, "noverlap": 11, "fs": 2.0},
        {"nperseg": 40, "noverlap": 39},
    ):
        z = scipy.signal.stft(X, **kw)[2].astype(np.complex64)
        close(signal.istft(z, **kw)[1], scipy.signal.istft(z, **kw)[1], atol=1e-4)
        np.testing.assert_allclose(signal.istft(signal.stft(X, **kw)[2], **kw)[1][:, :50], X, atol=1e-4)
    z = scipy.signal.stft(X, nperseg=16, return_onesided=False)[2].astype(np.complex64)
    close(signal.istft(z, input_onesided=False)[1], scipy.signal.istft(z, input_onesided=False)[1])
    z = scipy.signal.stft(X, nperseg=16)[2].astype(np.complex64)
    for axes in ((0, 1), (0, 2), (1, 0), (2, 0)):
        kw = dict(zip(("time_axis", "freq_axis"), axes))
        moved = np.moveaxis(z, (2, 1), axes)
        close(signal.istft(moved, **kw)[1], scipy.signal.istft(moved, **kw)[1])
    close(
        signal.istft(z, boundary=False, window="boxcar")[1], scipy.signal.istft(z, boundary=False, window="boxcar")[1]
    )
    # Of several signals SciPy counts the first axis, which is not that of time.
    close(signal.istft(z[0], fs=2.0), scipy.signal.istft(z[0], fs=2.0))
    close(signal.istft(z, fs=2.0)[0], scipy.signal.istft(z, fs=2.0)[0])


# -- transformations ------------------------------------------------------------------------------------------------------------


def everything(x, y, a, b):
    s = signal
    z = s.stft(x, nperseg=16, noverlap=12)[2]
    return [
        s.convolve(a, b), s.correlate(a, b, "same"), s.convolve2d(a, b, "valid"), s.correlate2d(a, b, "same"),
        s.fftconvolve(a, b, "same"), s.detrend(x, bp=[20]), z, s.istft(z, nperseg=16, noverlap=12)[1],
        s.istft(s.stft(x, nperseg=15, noverlap=10)[2], nperseg=15, noverlap=10)[1], s.csd(x, y, nperseg=16)[1],
        s.welch(x, nperseg=14, noverlap=3, average="median")[1],
    ]  # fmt: skip


def loss(x, y, a, b):
    return sum((abs(v) ** 2).sum() for v in everything(x, y, a, b))


def test_compiled():
    got = quire.compile(everything)(X, Y, A, B)
    for g, w in zip(got, everything(X, Y, A, B), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)


def test_derivatives_and_batches():
    data = [v.astype(np.float64) for v in (X, Y, A, B)]
    quire.config.update("enable_x64", True)
    try:
        directions, h = [RNG.normal(size=v.shape) for v in data], 1e-5
        gradient = quire.grad(loss, argnums=(0, 1, 2, 3))(*data)
        slope = (
            loss(*(v + h * d for v, d in zip(data, directions))) - loss(*(v - h * d for v, d in zip(data, directions)))
        ) / (2 * h)
        np.testing.assert_allclose(
            sum((np.asarray(g) * d).sum() for g, d in zip(gradient, directions)), slope, rtol=1e-6
        )
    finally:
        quire.config.update("enable_x64", False)
    rows = quire.vmap(lambda x: signal.welch(x, nperseg=16)[1])(X)
    np.testing.assert_allclose(rows, signal.welch(X, nperseg=16)[1], rtol=1e-5)
    images = np.stack([A, -A])
    np.testing.assert_allclose(
        quire.vmap(lambda a: signal.convolve2d(a, B))(images)[1],
        -np.asarray(signal.convolve2d(A, B)),
        rtol=1e-5,
        atol=1e-6,
    )


ERRORS = [
    (lambda s: s.convolve([1.0], A), TypeError, r"quire\.scipy\.signal\.convolve: in1 must be an array or a number, got list"),
    (lambda s: s.convolve(A, A[0]), ValueError, r"signal\.convolve: in1 and in2 must have one number of dimensions, got f32\[5,6\] and f32\[6\]"),
    (lambda s: s.convolve(A, B, "most"), ValueError, r"mode must be one of 'full', 'same', 'valid', got 'most'"),
    (lambda s: s.correlate(A, B, method="slow"), ValueError, r"signal\.correlate: method must be one of 'auto', 'direct', 'fft'"),
    (lambda s: s.convolve(A, A.T), ValueError, r"one of in1 and in2 must be the larger one in every dimension, got f32\[5,6\] and f32\[6,5\]"),
    (lambda s: s.convolve(A, A[:0]), ValueError, r"arrays without elements, got f32\[5,6\] and f32\[0,6\]"),
    (lambda s: s.convolve2d(A[0], A[0]), ValueError, r"signal\.convolve2d: in1 and in2 must have 2 dimensions"),
    (lambda s: s.convolve2d(A, B, boundary="wrap"), NotImplementedError, r"only boundary='fill' with fillvalue=0 is supported, got 'wrap'"),
    (lambda s: s.correlate2d(A, B, fillvalue=1), NotImplementedError, r"signal\.correlate2d: only boundary='fill'"),
    (lambda s: s.fftconvolve(A, B, axes=1), ValueError, r"must have the same size in dimension 0, which is not among axes"),
    (lambda s: s.detrend(X, type="cubic"), ValueError, r"signal\.detrend: type must be one of 'linear', 'constant', got 'cubic'"),
    (lambda s: s.detrend(X, bp=99), ValueError, r"bp must be positions within \[0, 50\], got 99"),
    (lambda s: s.detrend(X, overwrite_data=True), NotImplementedError, r"overwrite_data is not supported"),
    (lambda s: s.stft(X, nperseg=0), ValueError, r"signal\.stft: nperseg must be positive, got 0"),
    (lambda s: s.stft(X, nperseg=8, nfft=4), ValueError, r"nfft 4 must not be less than nperseg 8"),
    (lambda s: s.stft(X, nperseg=8, noverlap=8), ValueError, r"noverlap 8 must be less than nperseg 8"),
    (lambda s: s.stft(X, window=A), ValueError, r"window must be a name or have 1 dimension, got f32\[5,6\]"),
    (lambda s: s.stft(X, window=np.ones(99)), ValueError, r"window f32\[99\] is longer than the input, 50"),
    (lambda s: s.stft(X, window=np.ones(9), nperseg=8), ValueError, r"nperseg 8 must be the length of the window f32\[9\]"),
    (lambda s: s.stft(X, boundary="wrap", nperseg=8), ValueError, r"boundary must be one of 'even', 'odd', 'constant', 'zeros', None"),
    (lambda s: s.stft(X[:, :3], boundary="odd", window=np.ones(3), axis=0), ValueError, r"window f32\[3\] is longer than the input, 2"),
    (lambda s: s.welch(X, scaling="power"), ValueError, r"signal\.welch: scaling must be one of 'density', 'spectrum'"),
    (lambda s: s.welch(X, average="mode"), ValueError, r"average must be one of 'mean', 'median'"),
    (lambda s: s.welch(X, detrend="cubic", nperseg=8), ValueError, r"signal\.welch: detrend must be one of 'linear', 'constant'"),
    (lambda s: s.csd(X, X[0], nperseg=8), ValueError, r"signal\.csd: x and y must have one number of dimensions"),
    (lambda s: s.istft(X[0]), ValueError, r"signal\.istft: Zxx must have at least 2 dimensions, got f32\[50\]"),
    (lambda s: s.istft(Z, time_axis=0), ValueError, r"time_axis and freq_axis are both 0"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f(signal)


def test_every_name_of_jax_is_there():
    theirs = pytest.importorskip("jax.scipy.signal")
    assert all(getattr(signal, n).__doc__ for n in dir(theirs) if not n.startswith("_"))

"""quire.numpy.fft against numpy.fft: values, sizes, axes, norms; derivatives, batches, compiled; errors."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 5, 6)).astype(np.float32)
Z = (X + 1j * RNG.normal(size=X.shape)).astype(np.complex64)
REAL_INPUT = ("rfft", "rfft2", "rfftn", "ihfft")
REAL_OUTPUT = ("irfft", "irfft2", "irfftn", "hfft")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
CALLS = [
    *((n, kw) for n in ONE for kw in ({}, {"n": 4}, {"n": 9, "axis": 0}, {"axis": 1, "norm": "ortho"}, {"n": 5, "norm": "forward"}, {"norm": "backward"})),
    *((n, kw) for n in MANY for kw in ({}, {"s": (4, 7)}, {"axes": (0, 2), "norm": "ortho"}, {"s": (4, 3), "axes": (2, 0), "norm": "forward"})),
    *((n, {"axes": (1,)}) for n in ("fftn", "irfftn")),
]  # fmt: skip


def operand(name):
    return X if name in REAL_INPUT else Z


def close(got, want):
    """In single precision what NumPy gives in double."""
    kind = np.complex64 if np.iscomplexobj(want) else np.float32
    assert got.dtype == kind and got.shape == want.shape
    np.testing.assert_allclose(got, want.astype(kind), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_against_numpy(name):
    for _, kw in (c for c in CALLS if c[0] == name):
        x = operand(name)
        if name in REAL_OUTPUT or name not in REAL_INPUT:
            close(getattr(qnp.fft, name)(X, **kw), getattr(np.fft, name)(X.astype(np.float64), **_axes(kw)))
        close(getattr(qnp.fft, name)(x, **kw), getattr(np.fft, name)(x, **_axes(kw)))


def _axes(kw):
    """NumPy wants axes beside s."""
    return kw if "s" not in kw or "axes" in kw else {**kw, "axes": (-2, -1)}


def test_more_than_three_axes():
    x = RNG.normal(size=(2, 3, 4, 3, 2)).astype(np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    for name, v in (("fftn", z), ("ifftn", z), ("rfftn", x), ("irfftn", z)):
        close(getattr(qnp.fft, name)(v), getattr(np.fft, name)(v))
        close(getattr(qnp.fft, name)(v, axes=(0, 1, 2, 4)), getattr(np.fft, name)(v, axes=(0, 1, 2, 4)))


def test_dtypes():
    for d in (np.int32, np.bool_, np.float16):
        assert qnp.fft.fft(np.ones(4, d)).dtype == np.complex64
        assert qnp.fft.rfft(np.ones(4, d)).dtype == np.complex64
    assert qnp.fft.irfft(np.ones(4, np.float32)).dtype == np.float32


def test_frequencies_and_shifts():
    for n in (0, 1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            if n:
                close(getattr(qnp.fft, name)(n), getattr(np.fft, name)(n))
                close(getattr(qnp.fft, name)(n, d=0.1), getattr(np.fft, name)(n, d=0.1))
    assert qnp.fft.fftfreq(4, dtype=np.float16).dtype == np.float16
    for axes in (None, 1, (0, 2)):
        np.testing.assert_array_equal(qnp.fft.fftshift(X, axes), np.fft.fftshift(X, axes))
        np.testing.assert_array_equal(qnp.fft.ifftshift(X, axes), np.fft.ifftshift(X, axes))
    slope = quire.grad(lambda d: qnp.fft.fftfreq(4, d)[1])(2.0)
    np.testing.assert_allclose(slope, -1 / 16)


def loss(x):
    """Through all kinds, cutting and filling."""
    f = qnp.fft
    y = f.fftn(x, s=(4, 7), axes=(2, 0), norm="ortho")
    z = f.rfft(x, 8) + f.ihfft(x, 8) + f.fft(x, 5)
    return abs(y).sum() + (abs(z) ** 2).sum() + (f.irfft2(y) ** 2).sum() + (f.hfft(y, 6) ** 3).sum()


def test_derivatives():
    x, h = X[:, :2, :4].astype(np.float64), 1e-5
    quire.config.update("enable_x64", True)
    try:
        gradient = np.asarray(quire.grad(loss)(x))
        v = RNG.normal(size=x.shape)
        slope = (loss(x + h * v) - loss(x - h * v)) / (2 * h)
        np.testing.assert_allclose((gradient * v).sum(), slope, rtol=1e-6)
        np.testing.assert_allclose(quire.jvp(loss, (x,), (v,))[1], slope, rtol=1e-6)
    finally:
        quire.config.update("enable_x64", False)


def test_compiled_and_batched():
    calls = [*CALLS[::6], ("fftshift", {}), ("ifftshift", {"axes": 1})]

    def everything(x, z):
        return [getattr(qnp.fft, n)(x if n in REAL_INPUT else z, **kw) for n, kw in calls]

    # Two modules: IREE fails on both in one ("'stream.yield' op used resource not listed in explicit captures").
    for f, args in ((everything, (X, Z)), (lambda x: [quire.grad(loss)(x)], (X,))):
        for got, want in zip(quire.compile(f)(*args), f(*args), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    for name in ONE:
        f, x = getattr(qnp.fft, name), operand(name)
        np.testing.assert_allclose(quire.vmap(f, in_axes=1, out_axes=1)(x), f(x), rtol=1e-4, atol=1e-5)


ERRORS = [
    (lambda f: f.fft([1.0]), TypeError, r"quire\.numpy\.fft\.fft: requires ndarray or scalar arguments, got <class 'list'>"),
    (lambda f: f.rfft(Z), ValueError, r"quire\.numpy\.fft\.rfft: only real input is supported, got c64\[3,5,6\]: use fft"),
    (lambda f: f.fft(X, n=0), ValueError, r"quire\.numpy\.fft\.fft: the sizes s must be positive, got \(0,\)"),
    (lambda f: f.fft(X, n=2.5), TypeError, r"quire\.numpy\.fft\.fft: the sizes s must be integers known when tracing"),
    (lambda f: f.fft(X, axis=3), ValueError, r"quire\.numpy\.fft\.fft: axis 3 is out of bounds for array of dimension 3"),
    (lambda f: f.ifft(X, axis=(0, 1)), ValueError, r"quire\.numpy\.fft\.ifft: axis must be one integer, got \(0, 1\): use ifftn"),
    (lambda f: f.fft(X, norm="unit"), ValueError, r"norm must be one of 'backward', 'ortho', 'forward', got 'unit'"),
    (lambda f: f.fft2(X, axes=(0,)), ValueError, r"quire\.numpy\.fft\.fft2: axes must be two, got \(0,\): use fftn"),
    (lambda f: f.fftn(X, s=(3,), axes=(0, 1)), ValueError, r"s \(3,\) and axes \(0, 1\) have different lengths"),
    (lambda f: f.fftn(X, axes=(0, 0)), ValueError, r"quire\.numpy\.fft\.fftn: duplicate value in axes \(0, 0\)"),
    (lambda f: f.fftfreq(2.5), ValueError, r"quire\.numpy\.fft\.fftfreq: n must be an integer known when tracing, got 2\.5"),
    (lambda f: f.rfftfreq(-1), ValueError, r"quire\.numpy\.fft\.rfftfreq: n must not be negative, got -1"),
    (lambda f: f.fftt, AttributeError, r"module 'quire\.numpy\.fft' has no attribute 'fftt'; did you mean quire\.numpy\.fft\.fft"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f(qnp.fft)


def test_every_name_of_jax_is_there():
    jax_fft = pytest.importorskip("jax.numpy.fft")
    assert all(getattr(qnp.fft, n).__doc__ for n in dir(jax_fft) if not n.startswith("_"))

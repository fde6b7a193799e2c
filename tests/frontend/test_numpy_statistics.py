"""Averages, quantiles, covariance, histograms, differences and interpolation of quire.numpy against jax.numpy."""

from __future__ import annotations

import numpy as np
import pytest

import quire.numpy as qnp

from .numpy_cases import array_of, call, check_calls, shown

X = array_of("float32", 2, 3, 4)
I = array_of("int32", 3, 4)
W = np.abs(array_of("float32", 3, 4, seed=5)) + 0.5
NAN = np.where(array_of("float32", 3, 4, seed=9) > 1, np.float32(np.nan), array_of("float32", 3, 4, seed=8))
METHODS = ["linear", "lower", "higher", "midpoint", "nearest"]


def test_average():
    calls = [call("average", x, axis=a) for x in (X, I, X.astype("float16")) for a in (None, 0, -1)]
    calls += [call("average", I, weights=W), call("average", I, axis=1, weights=W[0]), call("average", I, 0, W)]
    calls += [call("average", I, axis=0, weights=W, returned=True), call("average", I, returned=True)]
    calls += [call("average", X, axis=1, keepdims=True), call("average", X, axis=(0, 1)), call("average", 3)]
    calls += [call("average", array_of("complex64", 3)), call("average", array_of("bool", 4))]
    check_calls(calls, rtol=2e-3)


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
def test_quantiles(name):
    scale = 100 if "percentile" in name else 1
    qs = [0.5 * scale, np.array([0, 0.3, 1], np.float32) * scale]
    calls = [call(name, x, qs[0], axis=a) for x in (X, I, NAN) for a in (None, 0, -1)]
    calls += [call(name, x, qs[1], axis=a, keepdims=k) for x in (I, NAN) for a, k in ((None, False), (0, True))]
    calls += [call(name, X, qs[1], axis=(0, 2)), call(name, X, qs[1], axis=(0, -1), keepdims=True)]
    calls += [call(name, X, qs[1], axis=1, method=m) for m in METHODS]
    calls += [call(name, X.astype("float16"), qs[1].astype("float16"), axis=0), call(name, X[0, 0, 0], 0.3 * scale)]
    beyond = np.array([-0.1, 1.2, 0.4, np.nan], np.float32) * scale
    calls += [call(name, x, beyond, axis=0, method=m) for x in (I, NAN) for m in METHODS]
    middles = np.array([0.125, 0.375, 0.625], np.float32) * scale  # of five elements, right between two
    calls += [call(name, np.array([4, 1, 5, 3, 2], np.float32), middles, method=m) for m in METHODS]
    check_calls(calls, rtol=2e-3, atol=1e-5)


def test_medians():
    calls = [
        call(n, x, axis=a)
        for n in ("median", "nanmedian")
        for x in (X, I, array_of("float16", 5, 3))
        for a in (None, 0, -1)
    ]
    calls += [call(n, NAN, axis=a, keepdims=True) for n in ("median", "nanmedian") for a in (None, 0, 1)]
    calls += [call("median", X, axis=(0, 1)), call("median", 3.0), call("median", array_of("int8", 3))]
    check_calls(calls, rtol=2e-3)


def test_covariance():
    y, c = array_of("float32", 3, 4, seed=4), array_of("complex64", 3, 4)
    weights = [
        {"fweights": np.array([1, 2, 1, 3])},
        {"aweights": W[0]},
        {"fweights": np.array([1, 2, 1, 3]), "aweights": W[0]},
    ]
    calls = [call("cov", W, **k) for k in ({}, {"rowvar": False}, {"bias": True}, {"ddof": 0}, *weights)]
    calls += [call("cov", W[0]), call("cov", W, y), call("cov", W, y, rowvar=False), call("cov", c), call("cov", I)]
    calls += [call("corrcoef", W), call("corrcoef", W, y), call("corrcoef", W, rowvar=False), call("corrcoef", c)]
    calls += [call("corrcoef", W[0]), call("cov", W[0], y[0]), call("cov", W, dtype="float16")]
    check_calls(calls, rtol=5e-3, atol=1e-4)


def test_counting():
    n = np.array([1, 1, 3, 0, 7, 3], np.int32)
    bins = np.array([-1.0, 0.0, 0.5, 2.0], np.float32)
    calls = [call("bincount", n), call("bincount", n, length=4), call("bincount", n, minlength=12)]
    calls += [call("bincount", n, weights=W.ravel()[:6]), call("bincount", n, W.ravel()[:6], length=9)]
    calls += [call("bincount", np.zeros(0, np.int32)), call("bincount", np.array([-1, 2], np.int32), length=3)]
    calls += [call("bincount", n.astype("uint8"))]
    calls += [call("digitize", x, bins, right=r) for x in (X, NAN, I) for r in (False, True)]
    calls += [call("digitize", X, bins[::-1].copy(), right=r) for r in (False, True)] + [call("digitize", 0.3, bins)]
    calls += [call("histogram", X, b) for b in (3, 10, bins)] + [call("histogram", I), call("histogram", X, 4, (-1, 1))]
    calls += [
        call("histogram", I, 3, weights=W),
        call("histogram", X, 4, density=True),
        call("histogram", I, bins, weights=W, density=True),
    ]
    calls += [call("histogram_bin_edges", X, b) for b in (4, bins)] + [call("histogram_bin_edges", X * 0, 3)]
    calls += [call("histogram_bin_edges", I, 4, range=(0, 8)), call("histogram_bin_edges", I, 2, range=(3, 3))]
    check_calls(calls)


def test_differences_and_integrals():
    calls = [
        call("diff", x, **k) for x in (X, I, array_of("uint8", 3, 4)) for k in ({}, {"n": 2}, {"axis": 0}, {"n": 0})
    ]
    calls += [
        call("diff", I, prepend=0),
        call("diff", I, append=np.array([[1], [2], [3]]), axis=1),
        call("diff", I, n=9),
    ]
    calls += [
        call("diff", array_of("bool", 2, 5)),
        call("diff", I, prepend=2.5, append=1),
        call("diff", array_of("complex64", 3)),
    ]
    calls += [call("ediff1d", x) for x in (I, X, array_of("int8", 4))]
    calls += [call("ediff1d", I, to_end=9), call("ediff1d", I, to_begin=np.array([1, 2]), to_end=np.array([3]))]
    calls += [call("trapezoid", X), call("trapezoid", X, axis=0), call("trapezoid", X, dx=0.5), call("trapezoid", I)]
    calls += [call("trapezoid", I, np.array([0.0, 1.0, 3.0, 4.0], np.float32)), call("trapezoid", I, W, axis=1)]
    calls += [call("trapezoid", X, np.array([0, 1, 3], np.int32), axis=1)]
    check_calls(calls)


def test_interpolation():
    xp, fp = np.array([0.0, 1.0, 3.0, 3.5], np.float32), np.array([1.0, 2.0, -1.0, 4.0], np.float32)
    x = np.linspace(-1, 5, 13, dtype=np.float32)
    calls = [call("interp", v, xp, fp) for v in (x, x.reshape(13, 1), 0.3, np.array([0, 2], np.int32))]
    calls += [call("interp", x, xp, fp, left=-9, right=9), call("interp", x, xp, fp, period=4.0)]
    calls += [call("interp", x, xp, fp, left="extrapolate", right="extrapolate"), call("interp", x, xp, fp + 1j)]
    calls += [call("interp", x, xp, np.array([1, 2, 3, 4], np.int32)), call("interp", np.float32(np.nan), xp, fp)]
    calls += [call("interp", x, np.array([0, 1, 1, 2], np.float32), fp)]
    check_calls(calls)


V = np.ones(3, np.float32)
ERRORS = [
    (call("cov", V, fweights=V), TypeError, r"quire.numpy.cov: fweights must be integers, got f32\[3\]: aweights may be"),
    (call("average", V, weights=np.ones(4)), (ValueError, TypeError), "quire.numpy.average: "),
    (call("average", I, weights=np.ones(3)), (ValueError, TypeError), "quire.numpy.average: .*axis"),
    (call("quantile", V, 0.5, method="no"), ValueError, "quire.numpy.quantile: .*method"),
    (call("quantile", [1.0], 0.5), TypeError, "quire.numpy.quantile: .*list"),
    (call("quantile", V.astype(np.complex64), 0.5), (ValueError, TypeError), "quire.numpy.quantile: .*complex"),
    (call("percentile", V, np.ones((2, 2))), ValueError, "quire.numpy.percentile: "),
    (call("median", [1.0]), TypeError, "quire.numpy.median: .*list"),
    (call("median", V, axis=3), ValueError, "quire.numpy.median: axis 3"),
    (call("cov", X), ValueError, "quire.numpy.cov: .*2"),
    (call("cov", V, aweights=np.ones(9)), (ValueError, TypeError), "quire.numpy.cov: "),
    (call("bincount", V), TypeError, "quire.numpy.bincount: "),
    (call("bincount", I), ValueError, "quire.numpy.bincount: .*1-dim"),
    (call("bincount", np.array([1]), np.ones(3)), ValueError, "quire.numpy.bincount: "),
    (call("digitize", V, I), ValueError, "quire.numpy.digitize: .*1-dim"),
    (call("histogram", V, weights=np.ones(4)), ValueError, "quire.numpy.histogram: "),
    (call("histogram_bin_edges", V, "auto"), (NotImplementedError, TypeError, ValueError), "quire.numpy.histogram_bin_edges: "),
    (call("diff", V, n=-1), ValueError, "quire.numpy.diff: .*-1"),
    (call("diff", np.float32(1)), ValueError, "quire.numpy.diff: "),
    (call("diff", V, axis=4), ValueError, "quire.numpy.diff: axis 4"),
    (call("interp", V, V, np.ones(4)), ValueError, "quire.numpy.interp: "),
    (call("interp", V, I, I), ValueError, "quire.numpy.interp: "),
    (call("interp", V, V, V, period=0), ValueError, "quire.numpy.interp: .*period"),
    (call("trapezoid", [1.0]), TypeError, "quire.numpy.trapezoid: .*list"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)

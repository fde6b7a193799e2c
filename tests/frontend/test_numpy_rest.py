"""Padding, polynomials, windows, index helpers, packed bits, convolution and slopes of quire.numpy against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.test_util import check_grads

from .numpy_cases import array_of, call, check_calls, same, shown

V, W = array_of("float32", 5, seed=1), array_of("float32", 3, seed=2)
X, N, B, C = array_of("float32", 3, 4), array_of("int32", 3, 4), array_of("bool", 9), array_of("complex64", 4)


# -- padding ----------------------------------------------------------------------------------------------------------


def test_pad():
    widths = [2, (1, 0), ((0, 3), (2, 1)), np.array([[1, 2]])]
    calls = [call("pad", x, w) for x in (X, N) for w in widths]
    calls += [call("pad", X, 1, constant_values=7), call("pad", N, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4)))]
    calls += [
        call("pad", N, 2, constant_values=(8, 9)),
        call("pad", N, 1, constant_values=2.5),
        call("pad", np.float32(3), 0),
    ]
    calls += [
        call("pad", x, w, mode=m)
        for m in ("edge", "wrap", "reflect", "symmetric")
        for x in (X, N)
        for w in (1, ((2, 9), (0, 7)))
    ]
    calls += [call("pad", X[:1], 3, mode=m) for m in ("edge", "wrap", "reflect", "symmetric")]
    calls += [
        call("pad", x, ((2, 9), (1, 7)), mode=m, reflect_type="odd") for m in ("reflect", "symmetric") for x in (X, N)
    ]
    calls += [
        call("pad", x, 2, mode="linear_ramp", **k)
        for x in (X, N)
        for k in ({}, {"end_values": 9}, {"end_values": ((1, 2), (3, 4))})
    ]
    calls += [
        call("pad", x, ((1, 0), (2, 2)), mode=m, **k)
        for m in ("maximum", "minimum", "mean", "median")
        for x in (X, N)
        for k in ({}, {"stat_length": 2}, {"stat_length": ((1, 9), (2, 3))})
    ]
    calls += [call("pad", X, 1, mode="empty"), call("pad", B, 2), call("pad", C, (0, 2), mode="edge")]
    check_calls(calls)


def test_pad_by_a_function():
    def border(vector, widths, axis, keywords):
        return vector.at[: widths[0]].set(keywords["value"]).at[vector.shape[0] - widths[1] :].set(axis)

    got = qnp.pad(qnp.asarray(X), ((1, 2), (2, 1)), border, value=7.0)
    assert not same(got, jnp.pad(X, ((1, 2), (2, 1)), border, value=7.0))


# -- polynomials ------------------------------------------------------------------------------------------------------


def test_polynomials():
    p, q = [np.array(c, np.float32) for c in ([2, -1, 0, 3], [1, 2])]
    i = np.array([3, 0, 1], np.int32)
    calls = [
        call(f, a, b)
        for f in ("polyadd", "polysub", "polymul", "polydiv")
        for a, b in ((p, q), (q, p), (i, q), (i, i), (C, q))
    ]
    calls += [
        call("polymul", np.array([0, 1, 2]), np.array([0, 3]), trim_leading_zeros=True),
        call("polymul", q[:0], q),
    ]
    calls += [call("polydiv", p, q, trim_leading_zeros=True)]
    calls += [call("polyder", a, *m) for a in (p, i, C) for m in ((), (0,), (2,), (3,))]
    calls += [call("polyint", a, *m) for a in (p, i, C) for m in ((), (0,), (2,))] + [
        call("polyint", p, 2, np.array([3.0, 5.0], np.float32)),
        call("polyint", p, 3, 2),
    ]
    calls += [call("polyval", p, x) for x in (X, N, 2.0, C)] + [
        call("polyval", np.stack([p, p + 1], 1), q),
        call("polyval", i, N),
        call("polyval", np.arange(20, dtype=np.float32), W / 4),
    ]
    calls += [call("poly", a) for a in (W, i, C, W[:0], np.float32(3))]
    check_calls(calls, rtol=1e-4, atol=1e-4)


def close(got, want, rtol=1e-4):
    assert not same(got, want, rtol=rtol, atol=rtol), f"{got} {want}"


def test_roots_and_characteristic_polynomials():
    for p in (
        np.array([1, -6, 11, -6], np.float32),
        np.array([1, 0, 4], np.int32),
        np.array([0, 0, 2, -2, 0], np.float32),
        np.array([5.0], np.float32),
    ):
        got = np.sort_complex(np.asarray(qnp.roots(qnp.asarray(p))))
        close(got, np.sort_complex(np.roots(p)).astype(np.complex64), rtol=1e-3)
        assert qnp.roots(qnp.asarray(p)).dtype == np.complex64
    kept = np.asarray(qnp.roots(qnp.array([0.0, 0.0, 2.0, -2.0, 0.0]), strip_zeros=False))
    assert np.isnan(kept).tolist() == [False, False, True, True]
    close(np.sort_complex(kept[:2]), np.array([0, 1], np.complex64))
    close(qnp.poly(qnp.array([[2.0, 0.0], [0.0, 3.0]])), np.array([1, -5, 6], np.complex64))


def test_polyfit():
    x, y = np.linspace(-1, 2, 9).astype(np.float32), np.cos(np.linspace(0, 3, 9)).astype(np.float32)
    both, w = np.stack([y, 2 * y - x], 1), np.linspace(1, 2, 9).astype(np.float32)
    mine = [qnp.asarray(v) for v in (x, y, both, w)]
    for deg in (0, 2, 3):
        close(qnp.polyfit(mine[0], mine[1], deg), np.polyfit(x, y, deg).astype(np.float32), 1e-3)
    close(qnp.polyfit(mine[0], mine[2], 2), np.polyfit(x, both, 2).astype(np.float32), 1e-3)
    close(qnp.polyfit(mine[0], mine[1], 2, w=mine[3]), np.polyfit(x, y, 2, w=w).astype(np.float32), 1e-3)
    for cov in (True, "unscaled"):
        for i, values in ((1, y), (2, both)):
            got, want = qnp.polyfit(mine[0], mine[i], 2, cov=cov), np.polyfit(x, values, 2, cov=cov)
            close(list(got), [v.astype(np.float32) for v in want], 2e-3)
            assert [v.shape for v in got] == [
                v.shape for v in jax.eval_shape(lambda v, cov=cov: jnp.polyfit(x, v, 2, cov=cov), values)
            ]
    got, want = qnp.polyfit(mine[0], mine[1], 2, full=True), np.polyfit(x, y, 2, full=True)
    close(got[0], want[0].astype(np.float32), 1e-3)
    close(got[1], want[1].astype(np.float32), 1e-3)
    assert got[2].item() == want[2] == 3
    close(got[3], want[3].astype(np.float32), 1e-3)
    described = jax.eval_shape(lambda: jnp.polyfit(x, y, 2, full=True))
    assert [(v.shape, v.dtype) for v in got] == [(v.shape, v.dtype) for v in described]


# -- windows, indices, bits -------------------------------------------------------------------------------------------


def test_windows():
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        for n in (0, 1, 2, 5, 8):
            close(getattr(qnp, name)(n), getattr(np, name)(n).astype(np.float32), 1e-5)
    for n, beta in ((0, 1.0), (1, 2.0), (2, 3.0), (7, 0.0), (7, 8.6)):
        close(qnp.kaiser(n, beta), np.kaiser(n, beta).astype(np.float32), 1e-5)
    x = np.array([0.0, -1.5, 3.0, 20.0], np.float32)
    close(qnp.i0(qnp.asarray(x)), np.i0(x).astype(np.float32), 1e-5)
    slope = quire.grad(lambda v: qnp.i0(v).sum())(qnp.array([0.0, 1e-4, 2.0]))
    close(slope, np.array([0.0, 5e-5, 1.5906369], np.float32), 1e-5)


def test_index_helpers():
    calls = [call("diag_indices", 3), call("diag_indices", 2, 3), call("diag_indices_from", X[:, :3])]
    calls += [call(f, *a) for f in ("tril_indices", "triu_indices") for a in ((3,), (3, 1), (3, -1, 4), (4, 2, 2))]
    calls += [call(f, X, k) for f in ("tril_indices_from", "triu_indices_from") for k in (0, 1)]
    calls += [call("ix_", np.array([0, 2]), np.array([1, 3, 0])), call("ix_", np.array([], np.int32), np.array([1]))]
    check_calls(calls)
    assert not same(
        qnp.mask_indices(3, qnp.tril, -1), tuple(v.astype(np.int32) for v in np.mask_indices(3, np.tril, -1))
    )
    assert not same(
        qnp.mask_indices(3, qnp.triu, size=2), tuple(v[:2].astype(np.int32) for v in np.mask_indices(3, np.triu))
    )


S = np.s_
GRIDS = [
    S[:3:0.5], S[0:1:4j], S[2:9:3], S[:2, :3], S[-1:2, 0:1:2j, :2],
]  # fmt: skip


@pytest.mark.parametrize("name", ["mgrid", "ogrid"])
def test_grids(name):
    for key in GRIDS:
        assert not same(getattr(qnp, name)[key], getattr(jnp, name)[key]), key


JOINED = {
    "r_": [S[1:4], S[0:1:3j, 7], S[V, 1:3, 2], S["0,2", V, V], S["0,2,0", V, V], S["1,3,1", V, V], S["-1", X, X], S["0,3,-1", V, V]],
    "c_": [S[1:4], S[V, V], S[X, X], S["0,2,-1", V, V], S["0", V, W], S[V, 0:5], S["1,3,0", X, X]],
}  # fmt: skip


@pytest.mark.parametrize("name", ["r_", "c_"])
def test_joined_ranges(name):
    """NumPy's values; the dtypes of Python numbers and ranges are ours."""
    for key in JOINED[name]:
        want = np.asarray(getattr(np, name)[key])
        got = getattr(qnp, name)[key]
        assert not same(got, want.astype(got.dtype)) and got.dtype == (
            "int32" if want.dtype.kind == "i" else "float32"
        ), key
    row = getattr(qnp, name)["r", qnp.asarray(V), 1.0 if name == "r_" else qnp.asarray(V)]
    assert row.shape == ((1, 6) if name == "r_" else (5, 2)) and qnp.r_["c", V, W].shape == (8, 1)
    assert repr(getattr(qnp, name)) == f"quire.numpy.{name}" and len(getattr(qnp, name)) == 0
    assert qnp.s_ is np.s_ and qnp.index_exp is np.index_exp


def test_packed_bits():
    u = array_of("uint8", 2, 3, high=250)
    calls = [
        call("packbits", x, axis=a, bitorder=o)
        for x in (array_of("bool", 3, 9), array_of("int32", 2, 16))
        for a in (None, 0, -1)
        for o in ("big", "little")
    ]
    calls += [call("unpackbits", u, axis=a, bitorder=o) for a in (None, 0, 1) for o in ("big", "little")]
    calls += [call("unpackbits", u, count=c) for c in (5, 60, -3)] + [call("unpackbits", u, 1, 30)]
    check_calls(calls)


# -- sequences --------------------------------------------------------------------------------------------------------


def test_convolutions():
    calls = [
        call(f, a, b, m)
        for f in ("convolve", "correlate")
        for m in ("full", "same", "valid")
        for a, b in ((V, W), (W, V), (V, V))
    ]
    calls += [
        call(f, a, b)
        for f in ("convolve", "correlate")
        for a, b in ((C, W), (N[0], N[1]), (V.astype("float16"), W), (V[:1], W))
    ]
    calls += [call(f, N[0], N[1], preferred_element_type="int32") for f in ("convolve", "correlate")]
    check_calls(calls, rtol=2e-3)


def test_slopes():
    x = np.array([0.0, 0.5, 2.0, 3.0], np.float32)
    calls = [call("gradient", a, axis=d) for a in (X, N) for d in (None, 0, 1, (0, 1))] + [
        call("gradient", V),
        call("gradient", C),
    ]
    calls += [
        call("gradient", X, 0.5),
        call("gradient", X, 2.0, 0.5),
        call("gradient", X, x, axis=1),
        call("gradient", X, x[:3], x),
        call("gradient", X, x[:3], 2.0),
    ]
    check_calls(calls, rtol=1e-5)


def test_unwrap():
    rng = np.random.default_rng(0)
    p = np.cumsum(rng.uniform(-2, 2, (2, 9)).astype(np.float32), 1) % 6
    calls = [call("unwrap", p), call("unwrap", p, axis=0), call("unwrap", p, 4.0), call("unwrap", p, period=5.0)]
    calls += [call("unwrap", (p * 2).astype("int32"), period=7), call("unwrap", p[:, :1])]
    check_calls(calls, rtol=1e-5)


def test_slices():
    f = qnp.apply_along_axis
    for axis in (0, 1, -1):
        assert not same(f(qnp.sort, axis, qnp.asarray(X)), np.sort(X, axis))
        assert not same(
            f(lambda v: v[:2] * v.sum(), axis, qnp.asarray(X)), np.apply_along_axis(lambda v: v[:2] * v.sum(), axis, X)
        )
    cube = array_of("float32", 2, 3, 4)
    close(
        f(lambda v, k, b: qnp.outer(v, v) * k + b, 1, qnp.asarray(cube), 2.0, b=1.0),
        np.apply_along_axis(lambda v: np.outer(v, v) * 2 + 1, 1, cube),
    )
    for axes in (0, (0, -1), [1, 2]):
        assert not same(qnp.apply_over_axes(qnp.sum, qnp.asarray(cube), axes), np.apply_over_axes(np.sum, cube, axes))


def test_histograms_of_several_dimensions():
    x, y = array_of("float32", 20, seed=3), array_of("float32", 20, seed=4)
    w, edges = np.abs(array_of("float32", 20, seed=5)), np.array([-2, -1, 0, 2], np.float32)
    calls = [call("histogram2d", x, y, b) for b in (4, (3, 5), edges)] + [call("histogram2d", x, y, 3, weights=w)]
    calls += [call("histogram2d", x, y, 3, range=((-1, 1), (0, 2))), call("histogram2d", x, y, (2, 3), density=True)]
    sample = np.stack([x, y, w], 1)
    calls += [call("histogramdd", sample, 3), call("histogramdd", sample, (2, 3, 4), range=(None, (-1, 1), None))]
    calls += [call("histogramdd", sample, (edges, 2, edges), weights=w, density=True)]
    check_calls(calls)


# -- compiled, derivatives --------------------------------------------------------------------------------------------

EXPRESSIONS = """
pad(x, ((1, 2), (0, 1))) | pad(x, 2, "reflect") | pad(x, 3, "wrap") | pad(v, 2, "symmetric", reflect_type="odd") | pad(x, 1, "mean")
pad(v, 1, "linear_ramp", end_values=4) | polyval(v, x) | polymul(v, w) | polydiv(v, w)[0] | polyder(v, 2) | polyint(v, 2) | poly(w)
polyadd(v, w) | correlate(v, w, "full") | gradient(x)[1] | gradient(v, v ** 2 + arange(5)) | unwrap(v * 3)
packbits(b) | unpackbits(u, count=11) | kaiser(5, v[0]) | r_[v, 0:3] | c_[w, w] | mgrid[:2, :3] | x[ix_(k, k)]
histogram2d(v, v, 3)[0] | apply_along_axis(cumsum, 0, x) | apply_over_axes(sum, x, (0, 1)) | tril_indices(3)[0] * k[0]
setdiff1d(n, k, size=5) | unique(n, size=6, return_counts=True)[1] | diag_indices(3)[0] + k[0] | hamming(5) * v
"""
TEXTS = [t.strip() for line in EXPRESSIONS.strip().split("\n") for t in line.split(" | ")]
GIVEN = {"x": X, "v": V, "w": W, "n": N, "b": B, "u": array_of("uint8", 2), "k": np.array([2, 0], np.int32)}


@pytest.fixture(scope="module")
def compiled():
    codes = [compile(text, text, "eval") for text in TEXTS]

    @quire.jit
    def everything(given):
        return [eval(code, vars(qnp), given) for code in codes]

    return dict(zip(TEXTS, everything(GIVEN), strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_compiled_as_eager(text, compiled):
    want = eval(text, vars(qnp), {name: qnp.asarray(x) for name, x in GIVEN.items()})
    assert not same(compiled[text], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: qnp.convolve(x, x[:2]), lambda x: qnp.correlate(x, x[1:3]), lambda x: qnp.gradient(x, x**2 + qnp.arange(5) * 3),
        lambda x: qnp.polyval(x, x[:2]), lambda x: qnp.unwrap(x * 5), lambda x: qnp.polydiv(x, x[:2] + 3)[0], lambda x: qnp.kaiser(4, x[0]),
        *(lambda x, m=m: qnp.pad(x, 3, m) for m in ("wrap", "reflect", "linear_ramp", "mean", "maximum", "edge")),
        lambda x: qnp.pad(x, (2, 3), "symmetric", reflect_type="odd"), lambda x: qnp.poly(x[:3]),
        lambda x: qnp.polyfit(qnp.arange(5.0) / 5, x, 2), lambda x: qnp.roots(x[:3] + qnp.array([3.0, 9.0, 1.0])).real,
    ],
)  # fmt: skip
def test_derivatives(f):
    check_grads(f, (qnp.array([0.3, -1.2, 0.8, 2.0, -0.4]),), order=1, atol=2e-2, rtol=2e-2)


def test_of_batches():
    batch = array_of("float32", 3, 5)
    for f, want in ((lambda v: qnp.convolve(v, qnp.asarray(W)), lambda v: np.convolve(v, W)), (lambda v: qnp.pad(v, 2, "reflect"), lambda v: np.pad(v, 2, "reflect")),
                    (lambda v: qnp.unique(v, size=5, fill_value=99), lambda v: np.pad(u := np.unique(v), (0, 5 - u.size), constant_values=99)),
                    (lambda v: qnp.polyval(v, 2.0), lambda v: np.polyval(v, np.float32(2)))):  # fmt: skip
        close(quire.vmap(f)(qnp.asarray(batch)), np.stack([want(v) for v in batch]))


ERRORS = [
    (call("pad", V, -1), ValueError, "quire.numpy.pad: pad_width must not be negative"),
    (call("pad", V, 1.5), TypeError, "quire.numpy.pad: pad_width must hold integers"),
    (call("pad", V, ((1, 2), (3, 4))), ValueError, "quire.numpy.pad: pad_width of shape .*1 pairs"),
    (call("pad", X, ((1,), (3, 4))), TypeError, "quire.numpy.pad: the entries of pad_width must have one shape"),
    (call("pad", V, 1, mode="mirror"), NotImplementedError, "quire.numpy.pad: unknown mode 'mirror': expected constant"),
    (call("pad", V, 1, mode="edge", constant_values=1), ValueError, "mode 'edge' takes no further argument, got constant_values"),
    (call("pad", V, 1, mode="reflect", reflect_type="x"), ValueError, "reflect_type must be 'even' or 'odd'"),
    (call("pad", V[:0], 1, mode="wrap"), ValueError, "mode 'wrap' cannot extend dimension 0 of"),
    (call("pad", V, 1, mode="mean", stat_length=0), ValueError, "stat_length must be positive"),
    (call("pad", [1.0], 1), TypeError, "quire.numpy.pad: .*list"),
    (call("convolve", X, V), ValueError, "quire.numpy.convolve: takes vectors with elements, got"),
    (call("convolve", V, V, "some"), ValueError, "quire.numpy.convolve: mode must be"),
    (call("correlate", V[:0], V), ValueError, "quire.numpy.correlate: takes vectors with elements"),
    (call("gradient", V, edge_order=2), NotImplementedError, "quire.numpy.gradient: .*edge_order"),
    (call("gradient", V[:1]), ValueError, "quire.numpy.gradient: needs 2 elements"),
    (call("gradient", X, 1.0, 2.0, 3.0), TypeError, "quire.numpy.gradient: 3 spacings for 2 axes"),
    (call("gradient", V, W), ValueError, "quire.numpy.gradient: a spacing must be a number or 5 coordinates"),
    (call("unwrap", C), ValueError, "quire.numpy.unwrap: not defined for complex"),
    (call("packbits", V), TypeError, "quire.numpy.packbits: takes integers or bool"),
    (call("packbits", B, bitorder="x"), ValueError, "quire.numpy.packbits: bitorder must be"),
    (call("unpackbits", N), TypeError, "quire.numpy.unpackbits: takes uint8"),
    (call("i0", C), ValueError, "quire.numpy.i0: not defined for complex"),
    (call("hanning", 2.5), TypeError, "quire.numpy.hanning: M must be an integer"),
    (call("ix_", X), ValueError, "quire.numpy.ix_: arguments must be 1-dimensional"),
    (call("ix_", B), NotImplementedError, "quire.numpy.ix_: boolean arguments .*flatnonzero"),
    (call("diag_indices", -1), ValueError, "quire.numpy.diag_indices: n must not be negative"),
    (call("diag_indices_from", X), ValueError, "quire.numpy.diag_indices_from: "),
    (call("tril_indices_from", V), ValueError, "quire.numpy.tril_indices_from: takes a matrix"),
    (call("polyval", np.float32(1), V), ValueError, "quire.numpy.polyval: p must have a dimension"),
    (call("polyadd", X, V), ValueError, "quire.numpy.polyadd: a1 must be a vector"),
    (call("polyder", V, -1), ValueError, "quire.numpy.polyder: m must not be negative"),
    (call("polyint", V, 2, W), ValueError, "quire.numpy.polyint: k must be a number or 2 numbers"),
    (call("polydiv", V, V[:0]), ValueError, "quire.numpy.polydiv: the divisor has no coefficients"),
    (call("poly", X), ValueError, "quire.numpy.poly: takes a vector of roots or a square matrix"),
    (call("roots", X), ValueError, "quire.numpy.roots: p must be a vector"),
    (call("polyfit", V, V, -1), ValueError, "quire.numpy.polyfit: deg must not be negative"),
    (call("polyfit", X, V, 1), TypeError, "quire.numpy.polyfit: x must be a vector"),
    (call("polyfit", V, W, 1), TypeError, "quire.numpy.polyfit: y must have 5 elements"),
    (call("polyfit", V, V, 1, w=W), TypeError, "quire.numpy.polyfit: w must be 5 weights"),
    (call("polyfit", V, V, 5, cov=True), ValueError, 'quire.numpy.polyfit: 5 points are too few .*cov="unscaled"'),
    (call("histogramdd", V), ValueError, "quire.numpy.histogramdd: sample must be a matrix"),
    (call("histogramdd", X, (1, 2)), ValueError, "quire.numpy.histogramdd: bins must hold 4 entries"),
    (call("histogramdd", X, range=((0, 1),)), ValueError, "quire.numpy.histogramdd: range must hold 4 pairs"),
    (call("histogramdd", X, weights=V), ValueError, "quire.numpy.histogramdd: weights must have shape"),
    (call("histogram2d", V, W), ValueError, "quire.numpy.histogram2d: x .* and y .* must be vectors of one size"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)


def test_errors_of_index_expressions():
    with pytest.raises(ValueError, match="quire.numpy.r_: unknown directive 'q': expected 'r', 'c'"):
        qnp.r_["q", V]
    with pytest.raises(ValueError, match="quire.numpy.c_: the directive 'r' must come first"):
        qnp.c_[V, "r"]
    with pytest.raises(ValueError, match="quire.numpy.apply_over_axes: the function must keep the 2 dimensions"):
        qnp.apply_over_axes(lambda x, axis: x.sum(), X, 0)


def test_traced_values_that_decide_a_shape():
    for f, text in (
        (lambda x: qnp.roots(x), "quire.numpy.roots: .*strip_zeros=False"),
        (lambda x: qnp.polymul(x, x, trim_leading_zeros=True), "quire.numpy.trim_zeros: "),
        (lambda x: qnp.mgrid[: x[0]], "quire.numpy.mgrid: "),
        (lambda x: qnp.pad(x, x), "quire.numpy.pad: .*pad_width"),
    ):
        with pytest.raises(quire.errors.ConcretizationTypeError, match=text):
            quire.make_jaxpr(f)(qnp.asarray(V))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_linspace_between_whole_numbers_is_rounded_once(dtype):
    """As NumPy's, which computes in double precision; eager as compiled."""
    ends = [(0, 200, 201), (-5, 5, 1001), (1, 10, 10), (0, 1, 101), (3, 3, 4), (10, 0, 11), (0, 7, 1)]
    wanted = [np.linspace(*e, endpoint=last, dtype=qnp.dtype(dtype)) for e in ends for last in (True, False)]
    eager = [qnp.linspace(*e, endpoint=last, dtype=dtype) for e in ends for last in (True, False)]
    traced = quire.jit(lambda: [qnp.linspace(*e, endpoint=last, dtype=dtype) for e in ends for last in (True, False)])()
    for want, a, b in zip(wanted, eager, traced):
        np.testing.assert_array_equal(np.asarray(a), want)
        np.testing.assert_array_equal(np.asarray(b), np.asarray(a))

"""quire.scipy.special against SciPy (values over edges and random arguments), JAX (names, dtypes) and finite differences."""

from __future__ import annotations

import importlib
import inspect
import itertools

import numpy as np
import pytest
import scipy.special as sp

import quire
import quire.numpy as qnp
import quire.scipy.special as S
from quire.ir.config import config

from ..helpers import Case
from ..helpers import check as check_cases

R = np.random.default_rng(0)
EDGES = [
    0,
    -0.0,
    1,
    -1,
    2,
    -2,
    3,
    0.5,
    -0.5,
    -1.5,
    2.5,
    10,
    -10,
    30,
    100,
    -100,
    1e-3,
    -1e-3,
    1e-10,
    1e10,
    np.inf,
    -np.inf,
    np.nan,
]
X = np.concatenate([EDGES, R.uniform(-6, 6, 60), R.uniform(-50, 50, 40)])
P = np.abs(X)
UNIT = np.concatenate(
    [[0, 1, -0.1, 1.1, 0.5, 0.125, 1e-10, 1e-30, 1 - 1e-6, np.nan], R.uniform(0, 1, 60), 10 ** R.uniform(-30, 0, 20)]
)
WHOLE = np.round(X)
ORDERS = R.integers(0, 60, X.size).astype(float)


def mixed(*pools):
    """Arguments drawn from pools, so that all kinds of edges meet."""
    return [R.choice(pool, 150) for pool in pools]


# name: (arguments, tolerance in units of the dtype's spacing, relative to the value)
TABLE = {
    "erf": ([X], 4), "erfc": ([X], 4), "erfinv": ([UNIT * 2 - 1], 4), "erfcx": ([X[np.abs(X) != 0]], 600), "dawsn": ([X], 60),
    "ndtr": ([np.where(X < -30, -3, X)], 700), "ndtri": ([UNIT], 60), "log_ndtr": ([np.where(np.abs(X) > 30, 3, X)], 700),
    "gamma": ([np.where(X < -30, 0.3, X)], 30), "gammasgn": ([X], 0), "gammaln": ([P], 4), "digamma": ([X[X != 0]], 8),
    "expi": ([X], 120), "exp1": ([X], 30), "spence": ([X], 30), "fresnel": ([X], 40), "entr": ([X], 4), "expit": ([X], 4),
    "logit": ([UNIT], 8), "i0": ([X], 8), "i1": ([X], 8), "i0e": ([X], 8), "i1e": ([X], 8), "factorial": ([X], 30),
    "xlogy": (mixed(X, X), 4), "xlog1py": (mixed(X, X), 4), "rel_entr": (mixed(X, X), 8), "boxcox": (mixed(P[P < 40], np.clip(X, -9, 9)), 600),
    "boxcox1p": (mixed(P[P < 40], np.clip(X, -9, 9)), 600), "betaln": (mixed(P[P < np.inf], P[P < np.inf]), 2000), "gammainc": (mixed(P, P), 4),
    "gammaincc": (mixed(P, P), 4), "betainc": (mixed(P, P, UNIT), 4), "owens_t": (mixed(np.clip(X, -9, 9), X[np.abs(X) > 1e-6]), 300),
    "expn": ([ORDERS, P], 80), "zeta": ([X[X > -20]], 4000), "poch": (mixed(X[np.abs(X) < 20], np.round(np.clip(X, -9, 9))), 40),
    "comb": (mixed(WHOLE[np.abs(WHOLE) < 60], WHOLE[np.abs(WHOLE) < 20]), 60),
    "hyp1f1": ([R.uniform(-4, 4, 60), R.uniform(0.3, 5, 60), R.uniform(-30, 30, 60)], 20000),
}  # fmt: skip


def close(name, got, want, units):
    """NaN and infinities equal; else within so many units of the last place, or below the least normal number."""
    got = np.asarray(got)
    info = np.finfo(got.dtype)
    with np.errstate(over="ignore"):
        want = np.asarray(want).astype(got.dtype)
    np.testing.assert_allclose(got, want, rtol=(units + 1) * info.eps, atol=float(info.tiny), err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_values(name, dtype):
    arguments, units = TABLE[name]
    arguments = [a.astype(dtype) for a in arguments]
    with config.override(enable_x64=dtype == "float64", disable_jit=True), np.errstate(all="ignore"):
        got = getattr(S, name)(*map(qnp.asarray, arguments))
        want = getattr(sp, name)(*(a.astype("float64") for a in arguments))
    if not isinstance(got, tuple):
        got, want = [got], [want]
    for g, w in zip(got, want, strict=True):
        assert np.asarray(g).dtype == dtype
        close(name, g, w, units)


def test_values_where_scipy_and_jax_differ():
    """gammaln and digamma at their poles, loggamma of 0 and Ci of -inf are JAX's; beta, comb, kl_div are compared apart."""
    q = qnp.asarray
    assert S.gammaln(-np.inf).item() == np.inf
    assert np.isnan(S.digamma(0.0).item()) and np.isnan(S.loggamma(q([0.0, -1.5]))).all()
    a, b = mixed(P[P < 100], P[P < 100])
    np.testing.assert_allclose(
        S.beta(q(a), q(b)), sp.beta(*(v.astype("f4").astype(float) for v in (a, b))), rtol=1e-4, atol=1e-37
    )
    np.testing.assert_allclose(S.beta(q([-1.5, 2.0]), q([2.0, np.inf])), [4 / 3, 0], rtol=1e-6)
    si, ci = S.sici(q(np.append(X, np.inf), np.float32))
    want = sp.sici(np.append(X, np.inf).astype("f4").astype(float))
    np.testing.assert_allclose(si, want[0], rtol=1e-6)
    finite = ~np.isnan(want[1]) & (np.append(X, 1) > 0)
    np.testing.assert_allclose(np.asarray(ci)[finite], want[1][finite], rtol=1e-6, atol=4e-7)
    x, y = mixed(X[np.isfinite(X)], X[np.isfinite(X)])
    np.testing.assert_allclose(S.kl_div(q(x), q(y)), sp.kl_div(x, y), rtol=1e-4, atol=1e-4)
    assert S.comb(q([5, 5, -3, 4]), q([2, -1, 2, 5])).tolist() == [10, 0, 0, 0]
    n, k = np.arange(1.0, 60), np.round(np.arange(1.0, 60) / 3)
    np.testing.assert_allclose(S.comb(q(n), q(k), repetition=True), sp.comb(n, k, repetition=True), rtol=2e-5)
    assert S.comb(4, 2, repetition=True).item() == 10.0
    # Exact where numbers are small, and Riemann's zeta at the negative integers.
    assert S.gamma(qnp.arange(1, 11)).tolist() == [float(sp.factorial(i, exact=True)) for i in range(10)]
    assert S.zeta(q([-2.0, -4.0, 1.0])).tolist() == [0, 0, np.inf]
    np.testing.assert_allclose(S.zeta(q([0.0, -1.0, 0.5])), [-0.5, -1 / 12, -1.4603545], rtol=2e-6)


def test_multigammaln_bernoulli_polygamma():
    a = np.array([3.0, 4.5, 20.0])
    for d in (1, 2, 5):
        np.testing.assert_allclose(S.multigammaln(qnp.asarray(a), d), sp.multigammaln(a, d), rtol=2e-6)
    np.testing.assert_allclose(S.bernoulli(30), sp.bernoulli(30), rtol=1e-6)
    assert S.bernoulli(0).tolist() == [1.0]
    np.testing.assert_allclose(S.polygamma(qnp.array([0, 1, 2, 5]), 1.5), sp.polygamma([0, 1, 2, 5], 1.5), rtol=1e-6)
    np.testing.assert_allclose(S.zeta(qnp.array([1.5, 3.0]), 2.5), sp.zeta([1.5, 3.0], 2.5), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype):
    z = R.uniform(-6, 6, (120, 2)) @ [1, 1j]
    z = np.concatenate(
        [z, [0.5, -0.5 + 1e-6j, 3j, -3j, 1e6 + 1j, 1 + 1e4j], R.uniform(-40, 40, (30, 2)) @ [1, 1j]]
    ).astype(dtype)
    tolerance = 3e-5 if dtype == "complex64" else 2e-11
    with config.override(enable_x64=dtype == "complex128"):
        for name in ("loggamma", "gamma", "wofz", "erfcx"):
            points = z[np.abs(z) < 8] if name in ("gamma", "erfcx") else z
            if name in ("wofz", "erfcx"):  # in the other half-plane exp(-z**2) exceeds the range or is ill-conditioned
                points = points[(points.imag if name == "wofz" else points.real) > -2]
                points = points[np.abs(points.real) < 20] if name == "erfcx" else points
            got, want = (
                np.asarray(getattr(S, name)(qnp.asarray(points))),
                getattr(sp, name)(points.astype("complex128")),
            )
            assert got.dtype == dtype
            assert np.all(
                np.abs(got - want) <= tolerance * np.maximum(np.abs(want), 1.0 if name == "loggamma" else 0)
            ), name
        assert np.asarray(S.wofz(qnp.asarray([0.0, 1.0], "float32"))).dtype == "complex64"


# -- Bessel functions and spherical harmonics -------------------------------------------------------------------------


def test_bessel_jn():
    z = np.array([0.0, 1e-6, 1e-3, 0.1, 1.0, 2.5, 10.0, -3.0, 25.0])
    with config.override(disable_jit=True):
        got = S.bessel_jn(qnp.asarray(z), v=4)
        slope = quire.jacfwd(lambda v: S.bessel_jn(v, v=3))(1.3)
        at_zero = quire.grad(lambda v: S.bessel_jn(v, v=2)[1])(0.0)
    assert got.shape == (5, 9)
    np.testing.assert_allclose(got, [sp.jv(n, z) for n in range(5)], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(slope, [sp.jvp(n, 1.3) for n in range(4)], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(at_zero, 0.5)
    for bad, error, text in (
        ({"v": -1}, ValueError, "v must be at least 0, got -1"),
        ({"v": 1.5}, TypeError, "v must be a Python integer"),
    ):
        with pytest.raises(error, match=rf"quire.scipy.special.bessel_jn: {text}"):
            S.bessel_jn(1.0, **bad)


def test_sph_harm_y():
    n, m = np.array([(i, j) for i in range(5) for j in range(-i, i + 1)]).T
    theta, phi = R.uniform(0, np.pi, n.size), R.uniform(-3, 3, n.size)
    got = S.sph_harm_y(qnp.asarray(n), qnp.asarray(m), qnp.asarray(theta), qnp.asarray(phi))
    assert np.asarray(got).dtype == "complex64"
    harmonics = getattr(sp, "sph_harm_y", None) or (lambda n, m, t, p: sp.sph_harm(m, n, p, t))
    np.testing.assert_allclose(got, harmonics(n, m, theta, phi), rtol=1e-4, atol=1e-5)
    assert S.sph_harm_y(1, 2, 0.3, 0.2).item() == 0
    with pytest.raises(
        NotImplementedError, match="sph_harm_y: diff_n is not supported: take derivatives with quire.jvp"
    ):
        S.sph_harm_y(1, 1, 0.3, 0.2, diff_n=1)
    with pytest.raises(TypeError, match="sph_harm_y: m must be integers, got f32"):
        S.sph_harm_y(1, 1.0, 0.3, 0.2)
    with pytest.raises(
        quire.errors.ConcretizationTypeError,
        match="sph_harm_y: the largest degree must be known while tracing: give it as n_max",
    ):
        quire.make_jaxpr(lambda d: S.sph_harm_y(d, 0, 0.3, 0.2))(1)


# -- hypergeometric ---------------------------------------------------------------------------------------------------

GAUSS = np.array([
    (a, b, c, x)
    for a, b, c in ((0.5, 1.5, 2.2), (1, 1, 2), (1, 2, 2.5), (-2, 1.3, 0.7), (2, 3, 4), (0.3, 0.4, 2.7), (1.5, 2.5, 3))
    for x in (0, 0.3, -0.4, -0.7, -3, -20, 0.85, 0.93, 0.97, -60)
]).T  # fmt: skip


def test_hyp2f1(x64):
    with config.override(disable_jit=True):
        got = S.hyp2f1(*map(qnp.asarray, GAUSS))
        np.testing.assert_allclose(got, sp.hyp2f1(*GAUSS), rtol=1e-9)
        edges = [
            (1, 1, 0, 0.5),
            (1, 1, 2, 1.0),
            (1, 1, 3, 1.0),
            (1, 1, 2, 1.5),
            (-2, 1, 2, 3.0),
            (np.nan, 1, 2, 0.5),
            (1, 1, -2, 0.0),
            (-2.5, 2, -1.5, 1.0),
        ]
        got = S.hyp2f1(*(qnp.asarray(v) for v in np.array(edges, float).T))
    np.testing.assert_allclose(got, [np.inf, np.inf, 2.0, np.inf, 1 - 3 + 3, np.nan, 1.0, -np.inf], rtol=1e-12)


def test_hyp2f1_whose_transformed_series_ends(x64):
    halves = (-1.5, 0.5, 1.0, 1.5, 2.0, 2.5)
    left = [(a, b, c, x) for a, b, c in itertools.product(halves, repeat=3) for x in (-30.0, -1e6)]
    left = [v for v in left if min(v[2] - v[0], v[2] - v[1]) in (0, -1, -2, -3)]
    right = [(1, 1, 1, 2), (1, 2, 1, 3), (2.5, 1, 1.5, 2), (3, 0.5, 0.5, 1.5), (2, 1, 2, 30)]
    given = np.array([*left, *right], float).T
    with config.override(disable_jit=True):
        got = S.hyp2f1(*map(qnp.asarray, given))
        np.testing.assert_allclose(got, sp.hyp2f1(*given), rtol=1e-9)
        assert S.hyp2f1(1.5, 1.0, 1.0, 2.0).item() == np.inf  # a power of -1 that is not real
        a, b, c, x = 1.5, 1.3, 0.5, -0.8  # c - a = -1: the parameters change places
        slopes = quire.grad(S.hyp2f1, argnums=(0, 1, 2, 3))(a, b, c, x)
        step = 1e-6
        for i, slope in enumerate(slopes):
            low, high = [a, b, c, x], [a, b, c, x]
            low[i] -= step
            high[i] += step
            np.testing.assert_allclose(slope, (sp.hyp2f1(*high) - sp.hyp2f1(*low)) / (2 * step), rtol=1e-7)
        np.testing.assert_allclose(quire.grad(S.hyp2f1, argnums=3)(1.0, 1.0, 1.0, 3.0), 0.25)


def test_derivatives_of_hyp2f1_where_its_series_ends(x64):
    """The derivative's series does not end there. The numbers are mpmath's."""
    for (a, b, c, x), by_a, by_x in [
        ((0.0, 1.0, 1.0, -3.0), -np.log(4.0), 0.0),
        ((0.0, 0.5, 1.5, -8.0), -1.0676443287033226, 0.0),
        ((0.0, 0.3, 1.2, -50.0), -1.842002748153441, 0.0),
        ((-1.0, 0.5, 1.5, -3.0), -1.5787217730105447, -1 / 3),
        ((-3.0, 0.5, 2.5, -7.0), -52.589764809581446, -11.2),
        ((-5.0, 0.3, 1.2, -40.0), -29048106.67516186, -995037.4512987011),
        ((0.0, 1.0, 1.0, 0.5), np.log(2.0), 0.0),
        ((0.0, 0.3, 1.2, 3.0), np.nan, 0.0),
    ]:
        np.testing.assert_allclose(quire.grad(S.hyp2f1, 0)(a, b, c, x), by_a, rtol=1e-9)
        np.testing.assert_allclose(quire.grad(S.hyp2f1, 1)(b, a, c, x), by_a, rtol=1e-9)
        np.testing.assert_allclose(quire.grad(S.hyp2f1, 3)(a, b, c, x), by_x, rtol=1e-12)


def test_hyp1f1_far_and_at_poles(x64):
    a, b, x = (
        np.array(v)
        for v in zip((0.5, 1.5, 150.0), (0.5, 1.5, -150.0), (2.5, 0.5, 300.0), (1.2, 3.4, -1e4), (-2.0, 0.7, 200.0))
    )
    with config.override(disable_jit=True):
        np.testing.assert_allclose(
            S.hyp1f1(qnp.asarray(a), qnp.asarray(b), qnp.asarray(x)), sp.hyp1f1(a, b, x), rtol=1e-10
        )
        assert S.hyp1f1(1.0, -2.0, 1.0).item() == np.inf
        assert np.isnan(S.hyp1f1(1.0, 2.0, np.nan).item())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hyp1f1_where_the_asymptotic_series_does_not_converge(dtype):
    """Its terms grow from the first on where (b - a)(1 - a) is larger than x. The numbers are mpmath's."""
    points = [
        (10.0, 20.0, 65.0, 1.04479262429462e21),
        (10.0, 20.0, -65.0, 6.16437108053108e-8),
        (-8.5, 12.0, 60.0, -10281.843564097),
        (0.5, 30.0, 55.0, 2627.75475893115),
    ]
    if dtype == "float64":
        points += [
            (20.0, 40.0, 150.0, 5.56555207890481e49),
            (50.0, 100.0, 300.0, 1.23404741642161e96),
            (-8.5, 12.0, 120.0, -3.13123052371019e22),
            (20.0, 40.0, -150.0, 3.99333703097867e-16),
            (2.0, 100.0, 150.0, 24954259.8025848),
        ]
    a, b, x, want = (np.array(v, dtype) for v in zip(*points))
    with config.override(enable_x64=dtype == "float64"):
        got = quire.jit(S.hyp1f1)(a, b, x)
    np.testing.assert_allclose(got, want, rtol=2e-5 if dtype == "float32" else 1e-12)


def test_derivatives_of_hyp1f1_where_its_series_ends(x64):
    """The derivative's series does not end there: it alternates for negative x. The numbers are mpmath's."""
    points = [
        (-1.0, 0.5, -100.0, -921.302209954279),
        (0.0, 0.5, -300.0, -7.66562164399113),
        (-1.0, 0.5, -80.0, -702.628257527191),
    ]
    a, b, x, want = (np.array(v) for v in zip(*points))
    got = quire.jit(quire.grad(lambda a: S.hyp1f1(a, b, x).sum()))(a)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert quire.grad(S.hyp1f1, 1)(0.0, 0.5, -300.0).item() == 0.0
    np.testing.assert_allclose(quire.grad(S.hyp1f1, 1)(-1.0, 0.5, -100.0), -400.0, rtol=1e-12)


def test_expi_up_to_where_it_overflows(x64):
    """exp overflows before. The numbers are mpmath's."""
    x = np.array([600.0, 650.0, 705.0, 709.0, 715.0])
    want = np.array(
        [6.29888289138793e257, 3.01418271205057e279, 2.13814897568785e303, 1.16079433665726e305, 4.64362567037057e307]
    )
    for run in (lambda f: f, quire.jit):
        np.testing.assert_allclose(run(S.expi)(x), want, rtol=1e-13)


# -- sums of exponentials ---------------------------------------------------------------------------------------------


def test_logsumexp():
    x = R.normal(size=(3, 4)).astype("f4") * 50
    b = R.normal(size=(3, 4)).astype("f4")
    for axis in (None, 0, (0, 1), -1):
        for keep in (False, True):
            np.testing.assert_allclose(
                S.logsumexp(qnp.asarray(x), axis, keepdims=keep), sp.logsumexp(x, axis, keepdims=keep), rtol=1e-6
            )
        got = S.logsumexp(qnp.asarray(x), axis, b=qnp.asarray(b), return_sign=True)
        want = sp.logsumexp(x, axis, b=b, return_sign=True)
        for g, w in zip(got, want):
            np.testing.assert_allclose(g, w, rtol=1e-5)
    inf = np.inf
    for row in ([-inf, -inf], [inf, 1.0], [-inf, 2.0], [np.nan, 1.0]):
        np.testing.assert_allclose(S.logsumexp(qnp.asarray(row)), sp.logsumexp(row))
    assert S.logsumexp(qnp.zeros(0)).item() == -inf
    assert S.logsumexp(qnp.asarray([1.0, 5.0]), where=qnp.asarray([True, False])).item() == 1.0
    assert np.isnan(S.logsumexp(qnp.asarray([1.0, 2.0]), b=qnp.asarray([1.0, -2.0])).item())
    slope = quire.grad(lambda v: S.logsumexp(v, b=qnp.asarray([0.0, 1.0])))(qnp.asarray([inf, 2.0]))
    assert slope.tolist() == [0.0, 1.0]
    size, phase = S.logsumexp(qnp.asarray([1 + 1j, 2.0]), return_sign=True)
    np.testing.assert_allclose(np.exp(size.item()) * phase.item(), np.exp(1 + 1j) + np.exp(2), rtol=1e-6)


def test_softmax():
    x = R.normal(size=(3, 4)).astype("f4") * 30
    for axis in (None, 0, (0, 1)):
        np.testing.assert_allclose(
            S.softmax(qnp.asarray(x), axis=axis), sp.softmax(x, axis=axis), rtol=2e-5, atol=1e-37
        )
        np.testing.assert_allclose(S.log_softmax(qnp.asarray(x), axis=axis), sp.log_softmax(x, axis=axis), rtol=2e-5)
    with pytest.raises(
        TypeError, match=r"quire.scipy.special.softmax: takes numbers, got bool\[2\]: convert it with astype"
    ):
        S.softmax(qnp.asarray([True, False]))


# -- derivatives ------------------------------------------------------------------------------------------------------

U = R.uniform(0.1, 0.9, 8)
Y = np.concatenate([R.uniform(-5, 5, 6), R.uniform(-20, 20, 2)])
Z = np.abs(Y) + 0.1
ZB = Z[::-1]
SLOPES = {
    "erfcx": [Y[:6]], "dawsn": [np.append(Y, [60.0, 200.0])], "ndtr": [Y], "ndtri": [U], "log_ndtr": [Y], "gamma": [Y], "digamma": [Z],
    "loggamma": [Z], "expi": [Y], "exp1": [Z], "spence": [Z], "sici": [Z], "fresnel": [Y], "entr": [Z], "logit": [U], "i0": [Y],
    "i1": [Y], "factorial": [Z], "xlogy": [Y, Z], "xlog1py": [Y, Z], "rel_entr": [Z, ZB], "kl_div": [Z, ZB], "boxcox": [Z, np.append(Y[:-1], 0.01) / 3],
    "boxcox1p": [Z, Y / 3], "beta": [Z, ZB], "betaln": [Z, ZB], "poch": [Y, ZB], "comb": [Z + ZB, Z], "owens_t": [Y, Y[::-1]],
    "zeta": [Z + 1.5, ZB], "hyp1f1": [Y[:6], Z[:6], Y[:6] * 6], "hyp2f1": [Y[:4] / 2, Y[3::-1] / 2, Z[:4], U[:4] * 2 - 1.2],
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives(name, x64):
    """Both modes against finite differences of fourth order, by each argument."""
    arguments, f = SLOPES[name], getattr(S, name)

    def total(*xs):
        out = f(*xs)
        return sum(qnp.sum(o) for o in out) if isinstance(out, tuple) else qnp.sum(out)

    def shifted(i, step):
        moved = [qnp.asarray(a + step if i == j else a) for j, a in enumerate(arguments)]
        out = f(*moved)
        return sum(np.asarray(o) for o in out) if isinstance(out, tuple) else np.asarray(out)

    with config.override(disable_jit=True):
        gradients = quire.grad(total, argnums=tuple(range(len(arguments))))(*map(qnp.asarray, arguments))
        for i, (a, got) in enumerate(zip(arguments, gradients)):
            h = 1e-5 * np.maximum(1, np.abs(a))
            want = (8 * (shifted(i, h) - shifted(i, -h)) - (shifted(i, 2 * h) - shifted(i, -2 * h))) / (12 * h)
            assert np.all(np.abs(np.asarray(got) - want) <= 1e-6 * (1e-3 + np.abs(want))), (i, np.asarray(got), want)


def test_second_derivatives(x64):
    for f, x, want in (
        (S.expi, 1.3, np.exp(1.3) * (1 / 1.3 - 1 / 1.69)),
        (S.ndtri, 0.3, None),
        (S.dawsn, 0.7, -2 * sp.dawsn(0.7) - 1.4 * (1 - 1.4 * sp.dawsn(0.7))),
    ):
        if want is None:
            v = sp.ndtri(x)
            want = 2 * np.pi * np.exp(v * v) * v
        np.testing.assert_allclose(quire.grad(quire.grad(f))(x), want, rtol=1e-10)


def test_derivatives_at_edges():
    """The conventions of JAX where a function has a limit."""
    g = quire.grad
    assert g(S.xlogy, (0,))(0.0, 0.0)[0].item() == -np.inf
    assert g(S.xlogy)(0.0, 2.0).item() == pytest.approx(np.log(2))
    assert g(S.entr)(0.0).item() == np.inf and g(S.logit)(0.0).item() == np.inf
    assert [v.item() for v in g(S.kl_div, (0, 1))(0.0, 1.0)] == [-1.0, 1.0]
    assert [v.item() for v in g(S.rel_entr, (0, 1))(0.0, 1.0)] == [0.0, 0.0]
    assert g(lambda x: S.sici(x)[0])(0.0).item() == 1.0
    assert g(S.log_ndtr)(-30.0).item() == pytest.approx(30.0333, rel=1e-5)
    assert g(S.expn, 0)(2.0, 0.5).item() == 0.0 and g(S.expn, 1)(2.0, 0.5).item() == pytest.approx(
        -sp.exp1(0.5), rel=1e-6
    )
    assert g(S.boxcox, 1)(2.0, 0.0).item() == pytest.approx(np.log(2) ** 2 / 2, rel=1e-6)
    assert g(S.spence)(1.0).item() == -1.0


# -- names, dtypes, errors --------------------------------------------------------------------------------------------


def test_second_derivatives_at_infinity(x64):
    for f, x, want in [
        (S.erfcx, -np.inf, np.inf), (S.erfcx, np.inf, 0.0), (S.erfcx, 60.0, 2 / np.sqrt(np.pi) / 60.0**3 * (1 - 3 / 60.0**2)),
        (S.erfcx, -2.0, 2 * sp.erfcx(-2.0) - 4 * (-4 * sp.erfcx(-2.0) - 2 / np.sqrt(np.pi))), (S.dawsn, np.inf, 0.0), (S.dawsn, -np.inf, 0.0),
    ]:  # fmt: skip
        np.testing.assert_allclose(quire.grad(quire.grad(f))(x), want, rtol=1e-5, err_msg=f"{f.__name__}({x})")


def ends(values):
    """The derivatives of the first, second and third order, by the last argument."""
    f, *args = values
    out = []
    for _ in range(3):
        f = quire.grad(f, len(args) - 1)
        out.append(float(f(*args)))
    return out


@pytest.mark.parametrize("x64", [False, True])
def test_derivatives_of_incomplete_functions_at_the_ends(x64):
    """Those of x^(a-1) and its kin (the densities), which have no logarithm there; JAX's are NaN but for the first ones."""
    inf = np.inf
    with config.override(enable_x64=x64):
        for f, *args, want in [
            (S.gammainc, 0.5, 0.0, [inf, -inf, inf]),
            (S.gammainc, 1.0, 0.0, [1.0, -1.0, 1.0]),
            (S.gammainc, 1.25, 0.0, [0.0, inf, -inf]),
            (S.gammainc, 2.0, 0.0, [0.0, 1.0, -2.0]),
            (S.gammainc, 2.5, 0.0, [0.0, 0.0, inf]),
            (S.gammainc, 3.0, 0.0, [0.0, 0.0, 1.0]),
            (S.gammaincc, 2.0, 0.0, [0.0, -1.0, 2.0]),
            *((f, a, 0.0, [0.0] * 3) for f in (S.gammainc, S.gammaincc) for a in (19.0, 20.0, 30.0, 100.0, 1e6)),
            *((f, a, inf, [0.0] * 3) for f in (S.gammainc, S.gammaincc) for a in (0.5, 1.0, 3.0, 20.0, 100.0)),
            (S.betainc, 1.0, 0.5, 0.0, [0.5, 0.25, 0.375]),
            (S.betainc, 2.0, 0.5, 0.0, [0.0, 0.75, 0.75]),
            (S.betainc, 2.0, 2.0, 0.0, [0.0, 6.0, -12.0]),
            (S.betainc, 3.0, 2.0, 1.0, [0.0, -12.0, -48.0]),
            (S.betainc, 1.0, 1.0, 1.0, [1.0, 0.0, 0.0]),
            (S.betainc, 30.0, 30.0, 0.0, [0.0] * 3),
            (S.betainc, 1000.0, 1000.0, 0.0, [0.0] * 3),
            (S.betainc, 300.0, 50.0, 1.0, [0.0] * 3),
            (S.betainc, 0.5, 2.0, 1.0, [0.0, -0.75, 0.75]),
        ]:
            np.testing.assert_allclose(ends((f, *args)), want, rtol=1e-5, err_msg=f"{f.__name__}{(*args,)}")
            t = quire.jvp(lambda x, f=f, args=args: f(*args[:-1], x), (args[-1],), (1.0,))[1]
            np.testing.assert_allclose(t, want[0], rtol=1e-5)


def along(q, f, by, x, y):
    """The derivative by one of two arguments, forward."""
    g, given = (lambda x: f(x, y), x) if by == 0 else (lambda y: f(x, y), y)
    return np.asarray(q.jvp(g, (given,), (np.ones_like(given),))[1])


def test_derivatives_by_one_argument_where_those_by_another_are_infinite():
    """The tangent of an argument that stays where it is has no part in the sum: its product with infinity is NaN."""
    jax = pytest.importorskip("jax")
    theirs = importlib.import_module("jax.scipy.special")
    tiny, inf = float(np.finfo(np.float32).tiny), np.inf
    points = np.meshgrid((tiny, 0.5, 1.0, 2.0, 10.0, 1e30), (0.0, tiny, 0.5, 2.0, 10.0, inf))
    given = [p.astype(np.float32) for p in points]
    for name in ("xlogy", "xlog1py", "rel_entr", "kl_div", "betaln", "beta", "poch"):
        ours, other = getattr(S, name), getattr(theirs, name)
        for by in (0, 1):
            with np.errstate(all="ignore"):  # JAX computes rules by NumPy where it can
                got, want = along(quire, ours, by, *given), along(jax, other, by, *given)
            assert not np.any(np.isnan(got) & ~np.isnan(want)), (name, by)
    for f, by, point, want in [
        (S.xlogy, 0, (10.0, tiny), np.log(tiny)), (S.kl_div, 1, (1.0, inf), 1.0), (S.rel_entr, 0, (10.0, tiny), np.log(10.0 / tiny) + 1.0),
        (S.betaln, 0, (0.5, tiny), -0.5 * np.pi**2 * tiny), (S.betaln, 0, (tiny, tiny), -0.5 / tiny), (S.beta, 0, (0.5, tiny), -0.5 * np.pi**2),
    ]:  # fmt: skip
        got = quire.grad(f, by)(*point)
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=f"{f.__name__}{point}")


def test_derivatives_of_boxcox_where_the_logarithm_is_infinite():
    inf = np.inf
    for x, power, by_x, by_power in [
        (0.0, 0.0, inf, inf), (0.0, 0.5, inf, 4.0), (0.0, 1.0, 1.0, 1.0), (0.0, 2.0, 0.0, 0.25), (inf, 0.0, 0.0, inf), (inf, -1.0, 0.0, 1.0),
    ]:  # fmt: skip
        for f, argument in ((S.boxcox, x), (S.boxcox1p, x - 1.0)):
            assert quire.grad(f)(argument, power).item() == by_x, (f.__name__, x, power)
            np.testing.assert_allclose(quire.grad(f, 1)(argument, power), by_power, err_msg=f"{f.__name__} {x} {power}")


def test_names_and_signatures_are_those_of_jax():
    jax_special = pytest.importorskip("jax.scipy.special")
    names = [n for n in dir(jax_special) if not n.startswith("_")]
    assert sorted(names) == sorted(S.__all__)
    for name in names:
        got = inspect.signature(getattr(S, name)).parameters.values()
        want = inspect.signature(getattr(jax_special, name)).parameters.values()
        assert [(p.name, p.default, p.kind) for p in got] == [(p.name, p.default, p.kind) for p in want], name


def test_dtypes():
    half = qnp.asarray([0.5, 0.25], "float16")
    for name in (
        "gamma",
        "erfcx",
        "dawsn",
        "expi",
        "sici",
        "fresnel",
        "xlogy",
        "betaln",
        "expn",
        "poch",
        "comb",
        "owens_t",
        "logit",
        "i0",
    ):
        f = getattr(S, name)
        count = len([p for p in inspect.signature(f).parameters.values() if p.default is p.empty])
        for x, dtype in (
            (half, "float16"),
            (qnp.asarray(half, "bfloat16"), "bfloat16"),
            (qnp.asarray([1, 2]), "float32"),
            (qnp.asarray([True]), "float32"),
        ):
            out = f(*[x] * count)
            assert all(np.asarray(o).dtype == dtype for o in (out if isinstance(out, tuple) else [out])), (name, dtype)


ERRORS = [
    (lambda: S.xlogy([1.0], 2.0), TypeError, "quire.scipy.special.xlogy: requires ndarray or scalar arguments, got <class 'list'> at position 0"),
    (lambda: S.xlogy(qnp.ones(2), qnp.ones(3)), TypeError, r"quire.scipy.special.xlogy: incompatible shapes for broadcasting: \(2,\), \(3,\)"),
    (lambda: S.dawsn(1j), ValueError, r"quire.scipy.special.dawsn: takes real numbers, got c64\[\]"),
    (lambda: S.ndtr(1), TypeError, r"quire.scipy.special.ndtr: takes float32 or float64, got i32\[\]: convert it with astype"),
    (lambda: S.spence(qnp.ones(2, "float16")), TypeError, r"quire.scipy.special.spence: takes float32 or float64, got f16\[2\]"),
    (lambda: S.factorial(3, exact=True), NotImplementedError, "factorial: exact=True is not supported, arrays hold no integers of any size: use math.factorial"),
    (lambda: S.bernoulli(-1), ValueError, "bernoulli: n must be at least 0, got -1"),
    (lambda: S.bernoulli(2.0), TypeError, "bernoulli: n must be a Python integer, got 2.0"),
    (lambda: S.polygamma(1.5, 2.0), ValueError, r"polygamma: n must be integers, got f32\[\]"),
    (lambda: S.multigammaln(3.0, 1.5), TypeError, "multigammaln: d must be one integer, got 1.5"),
    (lambda: quire.make_jaxpr(lambda d: S.multigammaln(3.0, d))(2), quire.errors.ConcretizationTypeError, "multigammaln: the dimension d must be known while tracing"),
    (lambda: S.log_ndtr(1.0, 31), ValueError, "log_ndtr: series_order must be from 0 to 30, got 31"),
    (lambda: S.log_ndtr(1.0, 1.5), TypeError, "log_ndtr: series_order must be a Python integer, got 1.5"),
    (lambda: S.gama, AttributeError, "has no attribute 'gama'; did you mean quire.scipy.special.gamma"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# -- compiled ---------------------------------------------------------------------------------------------------------

COMPILED = "erfcx ndtri log_ndtr gamma exp1 spence xlogy boxcox betaln i1".split()


def test_compiled():
    """A sample of all kinds in one module; loops (hyp1f1, bessel_jn, logsumexp) too."""
    cases = [
        Case(name, getattr(S, name), [a[:24].astype("f4") for a in TABLE.get(name, ([X], 0))[0]], rtol=3e-5, atol=1e-37)
        for name in COMPILED
    ]
    a, b, x = (v[:8].astype("f4") for v in TABLE["hyp1f1"][0])
    cases.append(Case("hyp1f1", S.hyp1f1, [a, b, x / 4], rtol=1e-4))
    cases.append(Case("bessel_jn", lambda z: S.bessel_jn(z, v=2), [np.array([0.5, 3.0], "f4")], rtol=1e-5))
    cases.append(Case("logsumexp", S.logsumexp, [np.array([1.0, 200.0], "f4")]))
    slope = quire.grad(lambda v: qnp.sum(S.log_ndtr(v) + S.gamma(v)))
    cases.append(Case("gradient", slope, [np.array([0.5, 3.0, 4.5], "f4")], rtol=1e-5))
    check_cases(cases)


def test_entropies_of_numbers_far_apart():
    p = np.array([1e-30, 1e30, 1.0, 0.0, 0.5, np.nan, 1e-38, -1.0], "float32")
    q = np.array([1e10, 1e-5, 1.0, 2.0, 0.5000001, -1.0, 1e-3, np.nan], "float32")
    wide = [x.astype("float64") for x in (p, q)]
    for f, g in ((S.rel_entr, sp.rel_entr), (S.kl_div, sp.kl_div)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(p, q), g(*wide).astype("float32"), rtol=1e-5, atol=1e-9)
    p, q = (x[[0, 1, 2, 4, 6]] for x in (p, q))
    log = np.log(p.astype("float64")) - np.log(q.astype("float64"))
    by_p, by_q = quire.grad(lambda p, q: S.rel_entr(p, q).sum(), (0, 1))(p, q)
    np.testing.assert_allclose(by_p, log + 1, rtol=1e-5)
    np.testing.assert_allclose(by_q, -p.astype("float64") / q, rtol=1e-5, atol=1e-36)
    by_p, by_q = quire.grad(lambda p, q: S.kl_div(p, q).sum(), (0, 1))(p, q)
    np.testing.assert_allclose(by_p, log, rtol=1e-5)
    np.testing.assert_allclose(by_q, 1 - p.astype("float64") / q, rtol=1e-5)


def test_beta_of_unlike_numbers(x64):
    mpmath = pytest.importorskip("mpmath")
    numbers = [0.3, 1e-6, 5, 30, 1e6 + 0.5, 1e8, -0.4, -20.625, -1e3 - 0.25, -11.25]
    a, b = (x.ravel() for x in np.meshgrid(numbers, numbers))

    def exact(f):
        with mpmath.workdps(40):
            return np.array([float(f(mpmath.mpf(x), mpmath.mpf(y))) for x, y in zip(a, b)])

    want = exact(lambda a, b: mpmath.re(mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)))
    np.testing.assert_allclose(S.betaln(a, b), want, rtol=1e-11, atol=1e-12)
    want = exact(lambda a, b: mpmath.digamma(a) - mpmath.digamma(a + b))
    np.testing.assert_allclose(quire.grad(lambda a: S.betaln(a, b).sum())(a), want, rtol=1e-11, atol=1e-12)
    # Rising factorials, too: gamma(z + m) / gamma(z) for a small m.
    value, slope = quire.value_and_grad(S.poch)(1e8, 0.25)
    np.testing.assert_allclose(value, float(mpmath.rf(10**8, mpmath.mpf(0.25))), rtol=1e-13)
    np.testing.assert_allclose(slope, float(mpmath.diff(lambda z: mpmath.rf(z, 0.25), 10**8)), rtol=1e-7)


def test_zeta_far():
    by_x, by_q = quire.grad(lambda x, q: S.zeta(x, q).sum(), (0, 1))(np.float32([0, 5e3, 200]), np.float32([2.5, 3, 3]))
    np.testing.assert_allclose(by_x[1:], 0)
    np.testing.assert_allclose(by_q, [-1, 0, 0])


def large_gamma(a, x):
    """P(a, x), its derivatives by a and x, Q(a, x), for large a: integrals of the density, in 30 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        a, x = mpmath.mpf(float(a)), mpmath.mpf(float(x))
        width = mpmath.sqrt(a)

        def density(t):
            return mpmath.exp((a - 1) * mpmath.log(t) - t - mpmath.loggamma(a))

        def slope(t):
            return density(t) * (mpmath.log(t) - mpmath.digamma(a))

        low = mpmath.linspace(max(min(a, x) - 14 * width, a / 1000), x, 13)
        high = mpmath.linspace(x, max(a, x) + 16 * width, 13)
        p, by_a, q = mpmath.quad(density, low), mpmath.quad(slope, low), mpmath.quad(density, high)
        return [float(v) for v in (p, by_a, density(x), q)]


def test_incomplete_gamma_far_in_the_tail():
    """Numerators and denominators of the fraction's convergents are as large as x^2."""
    a, x = (v.ravel() for v in np.meshgrid([0.5, 1, 20, 1e5], [2e5, 1e20, 1e150, 1e300]))
    with config.override(enable_x64=True):
        for run in (lambda f: f, quire.jit):
            np.testing.assert_allclose(run(S.gammainc)(a, x), sp.gammainc(a, x), rtol=1e-12)
            np.testing.assert_allclose(run(S.gammaincc)(a, x), sp.gammaincc(a, x), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_gamma_of_large_numbers(dtype):
    a, units = (v.ravel() for v in np.meshgrid([201.0, 6e4, 1e10], [-6.0, -0.5, 0.0, 0.01, 5.0]))
    a, x = (
        np.append(v, far).astype(dtype) for v, far in ((a, [300, 300, 1e3]), (a + units * np.sqrt(a), [400, 200, 1200]))
    )
    p, by_a, by_x, q = (np.array(v) for v in zip(*map(large_gamma, a, x)))
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    with config.override(enable_x64=dtype == "float64"):
        a, x = qnp.asarray(a), qnp.asarray(x)
        for run in (lambda f: f, quire.jit):
            np.testing.assert_allclose(run(S.gammainc)(a, x), p, rtol=tolerance)
            np.testing.assert_allclose(run(S.gammaincc)(a, x), q, rtol=tolerance)
            got = run(quire.grad(lambda a, x: S.gammainc(a, x).sum(), (0, 1)))(a, x)
            np.testing.assert_allclose(got, [by_a, by_x], rtol=tolerance)
            np.testing.assert_allclose(run(quire.lax.random_gamma_grad)(a, x), -by_a / by_x, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_higher_derivatives_where_their_terms_cancel(dtype):
    """log_ndtr in both tails, the Bessel functions near 0, and 1F1 where exp(x) overflows and the function does not."""
    mpmath = pytest.importorskip("mpmath")
    cases = {
        "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), [-1e3, -30.0, -6.5, -5.9, -1.0, 2.0, 13.0]),
        "i1": (lambda x: mpmath.besseli(1, x), [-0.5, 1e-3, 0.9, 1.1, 7.0]),
        "i1e": (lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), [-0.5, 1e-3, 0.9, 1.1, 7.0]),
    }
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    with config.override(enable_x64=dtype == "float64"), mpmath.workdps(60):
        for name, (exact, at) in cases.items():
            f = getattr(S, name)
            at = np.array(at, dtype)
            second = quire.jit(quire.vmap(quire.grad(quire.grad(f))))(at)
            wanted = [float(mpmath.diff(exact, mpmath.mpf(float(x)), 2)) for x in at]
            np.testing.assert_allclose(second, wanted, rtol=tolerance, err_msg=name)
        for f in (S.log_ndtr, S.i1, S.i1e):
            assert np.isfinite(quire.vmap(quire.grad(quire.grad(f)))(np.array([-1e-30, 0, 1e-30, 20, 40], dtype))).all()
        x = 90.0 if dtype == "float32" else 712.0
        value, slope = quire.value_and_grad(S.hyp1f1, 2)(0.5, 4.0, x)
        np.testing.assert_allclose(value, float(mpmath.hyp1f1(0.5, 4, x)), rtol=1e-5 if dtype == "float32" else 1e-12)
        np.testing.assert_allclose(
            slope, float(mpmath.hyp1f1(1.5, 5, x) / 8), rtol=1e-5 if dtype == "float32" else 1e-12
        )

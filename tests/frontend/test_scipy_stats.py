"""quire.scipy.stats against SciPy: every function of every distribution over parameters and points, with edges."""

from __future__ import annotations

import inspect
import types
import warnings

import numpy as np
import pytest
import scipy.stats as st

import quire
import quire.numpy as qnp
import quire.scipy.stats as S
from quire.ir.config import config

from ..helpers import Case
from ..helpers import check as check_cases

R = np.random.default_rng(0)
EDGES = [0, -0.0, 1, -1, 2, 0.5, -0.5, 5, 30, -30, np.nan, 3, 7, 0.01]
X = np.concatenate([EDGES, [-np.inf], R.uniform(-5, 5, 50), R.uniform(-25, 25, 20)])
Q = np.concatenate([[1, 0.5, 0.25, 1e-9, -0.1, 1.1, np.nan], R.uniform(0, 1, 40)])
K = np.concatenate([EDGES, np.arange(-3.0, 40)])
PARAMETERS = {
    "a": [2, 0.5, 7, -1], "b": [3, 0.7, 4], "df": [3, 1, 30, 0], "beta": [1.5, 0.5, 4, -1], "kappa": [2, 0.1, 30, 0],
    "c": [0.5, 0.1, 0.9], "p": [0.3, 1, 0.9, 1.2], "n": [5, 20, 1, 40], "mu": [2, 0.1, 50, -1], "loc": [0, 1, -2],
    "scale": [1, 2, 0.5, -1],
}  # fmt: skip
CUT = {"a": [-1, 0.5, -5, -20, 2], "b": [2, 1.5, -0.5, 20]}
FAMILIES = [
    n
    for n in S.__all__
    if isinstance(getattr(S, n), types.ModuleType) and n not in ("dirichlet", "multinomial", "multivariate_normal")
]


def arguments(family, name, parameters):
    """Random combinations of points and parameters, by name."""
    out = {}
    for i, p in enumerate(parameters):
        pool = CUT[p] if family == "truncnorm" and p in CUT else PARAMETERS.get(p, X)
        if i == 0 and name != "entropy":
            pool = Q if name in ("ppf", "isf") else K if "pmf" in getattr(S, family).__all__ else X
        out[p] = R.choice(np.asarray(pool, float), 150)
    if family == "bernoulli" and name == "ppf":  # SciPy has ppf(0) = -1, JAX 0
        out["q"] = np.where((out["q"] < 1e-6) | (out["q"] == 1), 0.4, out["q"])
    if family == "bernoulli" and "loc" in out:
        out["loc"] = np.abs(np.minimum(out["loc"], 1))
    return out


@pytest.mark.parametrize("family", FAMILIES)
def test_distribution(family):
    module = getattr(S, family)
    for name in module.__all__:
        f = getattr(module, name)
        given = arguments(family, name, inspect.signature(f).parameters)
        for dtype, tolerance in (("float32", 6e-5), ("float64", 2e-12)):
            cast = {k: v.astype(dtype) for k, v in given.items()}
            with config.override(enable_x64=dtype == "float64"):
                got = np.asarray(f(**{k: qnp.asarray(v) for k, v in cast.items()}))
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                want = getattr(getattr(st, family), name)(*[v.astype(float) for v in cast.values()])
            assert got.dtype == dtype
            wrong = ~np.isclose(
                got, want, rtol=tolerance, atol=1e-37 if "log" not in name else tolerance, equal_nan=True
            )
            wrong &= ~(
                np.isnan(want) & ~np.isnan(cast[next(iter(cast))]) & (np.isinf(got) | (got == 0))
            )  # SciPy's inf - inf
            first = {k: v[np.argmax(wrong)] for k, v in cast.items()}
            assert not wrong.any(), (name, dtype, wrong.sum(), first, got[wrong][:3], want[wrong][:3])


def test_names_and_signatures_are_those_of_jax():
    jax_stats = pytest.importorskip("jax.scipy.stats")
    assert sorted(S.__all__) == sorted(n for n in dir(jax_stats) if not n.startswith("_"))
    for family in S.__all__:
        mine, theirs = getattr(S, family), getattr(jax_stats, family)
        if not isinstance(mine, types.ModuleType):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(theirs).parameters)
            continue
        assert sorted(mine.__all__) == sorted(n for n in dir(theirs) if not n.startswith("_"))
        for name in mine.__all__:
            got, want = (inspect.signature(getattr(m, name)).parameters.values() for m in (mine, theirs))
            assert [(p.name, p.default) for p in got] == [(p.name, p.default) for p in want], (family, name)
            assert f"quire.scipy.stats.{family}.{name}(" in getattr(mine, name).__doc__


# -- derivatives ------------------------------------------------------------------------------------------------------

GRADIENTS = [
    ("norm", "logpdf", (0.3, 0.5, 1.5)), ("norm", "logcdf", (-12.0, 0.5, 1.5)), ("norm", "ppf", (0.2, 0.5, 1.5)),
    ("gamma", "logpdf", (1.5, 2.5, 0.5, 1.5)), ("gamma", "cdf", (1.5, 2.5, 0.5, 1.5)), ("chi2", "logpdf", (1.5, 2.5, 0.5, 1.5)),
    ("beta", "logpdf", (0.3, 2.5, 1.5)), ("t", "logpdf", (0.3, 2.5, 0.5, 1.5)), ("truncnorm", "logpdf", (0.3, -1.0, 2.0)),
    ("truncnorm", "logcdf", (0.3, -1.0, 2.0)), ("pareto", "logsf", (2.5, 2.0)), ("gumbel_r", "logsf", (0.3, 0.5, 1.5)),
    ("gumbel_l", "logcdf", (0.3, 0.5, 1.5)), ("gennorm", "logpdf", (0.3, 1.5)), ("vonmises", "logpdf", (0.3, 1.5)),
    ("wrapcauchy", "logpdf", (0.3, 0.5)), ("cauchy", "logpdf", (0.3, 0.5, 1.5)), ("logistic", "logpdf", (0.3, 0.5, 1.5)),
    ("poisson", "logpmf", (3.0, 1.5)), ("poisson", "entropy", (2.5,)), ("binom", "logpmf", (3.0, 7.0, 0.4)),
    ("nbinom", "logpmf", (3.0, 7.0, 0.4)), ("betabinom", "logpmf", (3.0, 7.0, 2.0, 3.0)), ("geom", "logpmf", (3.0, 0.4)),
    ("laplace", "cdf", (0.3, 0.5, 1.5)), ("expon", "logcdf", (0.8, 0.5, 1.5)), ("uniform", "logpdf", (0.8, 0.5, 1.5)),
]  # fmt: skip


def moved(f, point, i, h):
    return f(*[v + h * (i == j) for j, v in enumerate(point)]).item()


def test_derivatives(x64):
    for family, name, point in GRADIENTS:
        f = getattr(getattr(S, family), name)
        discrete = "pmf" in name
        numbers = tuple(range(1 if discrete else 0, len(point)))
        if family in ("binom", "betabinom"):
            numbers = numbers[1:]
        got = [v.item() for v in quire.grad(f, argnums=numbers)(*point)]
        for i, value in zip(numbers, got):
            p1, m1, p2, m2 = (moved(f, point, i, h) for h in (1e-4, -1e-4, 2e-4, -2e-4))
            want = (8 * (p1 - m1) - (p2 - m2)) / 1.2e-3
            assert value == pytest.approx(want, rel=1e-7, abs=1e-9), (family, name, i)


def test_derivatives_outside_of_the_support_are_zero():
    for family, point in (
        ("gamma", (-1.0, 2.0)),
        ("beta", (1.5, 2.0, 3.0)),
        ("pareto", (0.5, 2.0)),
        ("expon", (-1.0,)),
        ("uniform", (2.0,)),
    ):
        gradients = quire.grad(getattr(S, family).pdf, argnums=tuple(range(len(point))))(*point)
        assert [g.item() for g in gradients] == [0.0] * len(point), family


def test_derivatives_at_the_low_end():
    """One-sided: outside, where JAX counts the end, they are 0."""
    for f, shape, want in [
        (S.chi2.cdf, 2.0, 0.5), (S.chi2.sf, 2.0, -0.5), (S.gamma.cdf, 1.0, 1.0), (S.chi2.cdf, 100.0, 0.0), (S.gamma.cdf, 25.0, 0.0),
        (S.gamma.logcdf, 25.0, np.inf), (S.chi2.logcdf, 2.5, np.inf), (S.chi2.logsf, 2.0, -0.5),
    ]:  # fmt: skip
        assert quire.grad(f)(0.0, shape).item() == want, (f.__module__, f.__name__)
    for f, shape, want in [(S.chi2.cdf, 2.0, -0.25), (S.chi2.sf, 2.5, -np.inf), (S.chi2.cdf, 30.0, 0.0)]:
        assert quire.grad(quire.grad(f))(0.0, shape).item() == want, (f.__module__, f.__name__)
    assert quire.grad(lambda mu: S.poisson.cdf(20.0, mu))(0.0).item() == 0.0


def test_derivatives_of_log_densities_at_infinity():
    """Where the slope has a limit it is that one's, as are JAX's; where it has none, or the density is 0 there, they are 0."""
    inf = np.inf
    for f, point, want in [
        (S.norm.logpdf, (inf, 0.5, 2.0), (-inf, inf, inf)), (S.norm.logcdf, (-inf, 0.5, 2.0), (inf, -inf, inf)),
        (S.norm.logsf, (inf, 0.5, 2.0), (-inf, inf, inf)), (S.laplace.logpdf, (-inf, 0.5, 2.0), (0.5, -0.5, inf)),
        (S.logistic.logpdf, (inf, 0.0, 1.0), (-1.0, 1.0, inf)), (S.expon.logpdf, (inf, 0.5, 2.0), (-0.5, 0.5, inf)),
        (S.expon.logsf, (inf, 0.5, 2.0), (-0.5, 0.5, inf)), (S.gumbel_r.logpdf, (inf, 0.5, 2.0), (-0.5, 0.5, inf)),
        (S.gumbel_l.logcdf, (-inf, 0.5, 2.0), (0.5, -0.5, inf)), (S.gumbel_l.logsf, (inf, 0.5, 2.0), (-inf, inf, inf)),
        (S.chi2.logpdf, (inf, 3.0, 0.5, 2.0), (-0.25, 0.0, 0.25, inf)), (S.gamma.logpdf, (inf, 0.5, 0.5, 2.0), (-0.5, 0.0, 0.5, inf)),
        (S.gennorm.logpdf, (-inf, 1.0), (1.0, -inf)), (S.truncnorm.logpdf, (inf, -inf, inf, 0.5, 2.0), (-inf, 0, 0, inf, inf)),
        (S.truncnorm.logpdf, (inf, -1.0, 2.0, 0.5, 2.0), (0, 0, 0, 0, 0)), (S.cauchy.logpdf, (inf, 0.5, 2.0), (0, 0, 0)),
        (S.gumbel_l.logpdf, (inf, 0.5, 2.0), (0, 0, 0)),
    ]:  # fmt: skip
        for run in (lambda f: f, quire.jit):
            got = run(quire.grad(f, argnums=tuple(range(len(point)))))(*point)
            assert [v.item() for v in got] == list(want), (f.__module__, f.__name__, point)


LOCATED = [
    f for f in FAMILIES if hasattr(getattr(S, f), "pdf") and "scale" in inspect.signature(getattr(S, f).pdf).parameters
]


@pytest.mark.parametrize("family", LOCATED)
def test_derivatives_at_infinity_are_numbers(family):
    module = getattr(S, family)
    for name in sorted({*module.__all__} - {"ppf", "isf", "entropy"}):
        f = getattr(module, name)
        shapes = [
            {"beta": 1.5, "a": -1.0 if family == "truncnorm" else 2.0}.get(p, 3.0)
            for p in list(inspect.signature(f).parameters)[1:-2]
        ]
        for x in (np.inf, -np.inf, 1e30):  # the last one is infinite in units of the scale
            located = (0, len(shapes) + 1, len(shapes) + 2)
            got = quire.grad(f, argnums=located)(x, *shapes, 0.5, 1e-30 if x == 1e30 else 2.0)
            assert not np.isnan(got).any(), (name, x, got)


def test_derivatives_of_quantiles_at_the_ends(x64):
    for f, ends in [
        (S.cauchy.ppf, (np.inf, np.inf)), (S.cauchy.isf, (-np.inf, -np.inf)), (S.norm.ppf, (np.inf, np.inf)), (S.norm.isf, (-np.inf, -np.inf)),
        (S.logistic.ppf, (np.inf, np.inf)), (S.gumbel_r.ppf, (np.inf, np.inf)), (S.gumbel_l.ppf, (np.inf, np.inf)),
        (S.expon.ppf, (2.0, np.inf)),
    ]:  # fmt: skip
        for run in (lambda f: f, quire.jit):
            by_chance = run(quire.grad(lambda q, f=f: f(q, 0.5, 2.0).sum()))
            np.testing.assert_array_equal(by_chance(np.array([0.0, 1.0])), ends, err_msg=f.__module__)
            for mode in (quire.grad, quire.jacfwd):
                got = mode(mode(f))(0.3).item()
                want = (f(0.301) - 2 * f(0.3) + f(0.299)).item() / 1e-6
                assert got == pytest.approx(want, rel=1e-4), f.__module__


@pytest.mark.parametrize("q", [np.nan, -1.0, 2.0, np.inf])
def test_what_is_no_chance_has_no_derivatives(q):
    """As in JAX: the value is NaN, and so are the derivatives but for that by loc."""
    for f in (
        S.norm.ppf,
        S.norm.isf,
        S.cauchy.ppf,
        S.cauchy.isf,
        S.logistic.ppf,
        S.expon.ppf,
        S.gumbel_r.ppf,
        S.uniform.ppf,
    ):
        for run in (lambda f: f, quire.jit):
            by_chance, by_loc, by_scale = run(quire.grad(f, argnums=(0, 1, 2)))(q, 0.5, 2.0)
            assert np.isnan(by_chance) and by_loc == 1 and np.isnan(by_scale), f.__module__
    # The others have theirs, whatever stands beside them.
    got = quire.grad(lambda q: S.norm.ppf(q).sum())(np.array([q, 0.5], "f4"))
    np.testing.assert_allclose(got, [np.nan, 2.5066283], rtol=1e-6)
    assert quire.grad(S.bernoulli.ppf)(q, 0.3).item() == 0  # a step


@pytest.mark.parametrize("family", LOCATED)
def test_a_nan_has_no_derivatives(family):
    module = getattr(S, family)
    for name in sorted({*module.__all__} - {"ppf", "isf", "entropy"}):
        f = getattr(module, name)
        shapes = [
            -1.0 if (family, p) == ("truncnorm", "a") else 3.0 for p in list(inspect.signature(f).parameters)[1:-2]
        ]
        by_x, by_loc = quire.grad(f, argnums=(0, len(shapes) + 1))(np.nan, *shapes, 0.5, 2.0)
        assert np.isnan(by_x) and np.isnan(by_loc), name


def test_second_derivatives_of_truncnorm_with_infinite_ends(x64):
    """They are those of ends far away, by the ends' places zero. JAX's are NaN but for a few."""
    inf, far = np.inf, 30.0
    for name in ("cdf", "sf", "logcdf", "logsf", "logpdf"):
        f = getattr(S.truncnorm, name)
        for x, a, b in [
            (0.5, -2.0, inf), (-0.5, -2.0, inf), (-0.5, -inf, 1.0), (0.5, -inf, 1.0), (0.5, -inf, inf), (-0.5, -inf, inf), (3.0, 2.0, inf),
            (-3.0, -inf, -2.0),
        ]:  # fmt: skip
            got, want = (
                np.array(quire.jacfwd(quire.jacrev(f, (0, 1, 2)), (0, 1, 2))(*point))
                for point in ((x, a, b), (x, max(a, -far), min(b, far)))
            )
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=f"{name}{(x, a, b)}")
    assert quire.grad(quire.grad(lambda a: S.truncnorm.cdf(0.5, a, inf)))(-2.0).item() == pytest.approx(
        -0.0368131, abs=1e-6
    )


# -- several dimensions -----------------------------------------------------------------------------------------------


def test_dirichlet_and_multinomial():
    alpha, x = np.array([1.0, 2.0, 3.5]), np.array([[0.2, 0.3], [0.3, 0.3], [0.5, 0.4]])
    np.testing.assert_allclose(
        S.dirichlet.logpdf(qnp.asarray(x), qnp.asarray(alpha)), st.dirichlet.logpdf(x, alpha), rtol=1e-5
    )
    np.testing.assert_allclose(
        S.dirichlet.pdf(qnp.asarray(x[:2]), qnp.asarray(alpha)), st.dirichlet.pdf(x, alpha), rtol=1e-5
    )
    assert S.dirichlet.logpdf(qnp.asarray([0.2, 0.3, 0.6]), qnp.asarray(alpha)).item() == -np.inf
    counts, p = np.array([[1, 2, 0], [0, 3, 0], [1, 1, 1], [2, 2, 0]]), np.array([0.2, 0.8, 0.0])
    got = S.multinomial.logpmf(qnp.asarray(counts), 3, qnp.asarray(p))
    np.testing.assert_allclose(got, [np.log(3 * 0.2 * 0.64), np.log(0.512), -np.inf, -np.inf], rtol=1e-5)
    np.testing.assert_allclose(
        S.multinomial.pmf(qnp.asarray([1, 2]), 3, qnp.asarray([0.25, 0.75])), 0.421875, rtol=1e-5
    )
    with config.override(numpy_dtype_promotion="strict"):  # counts and trials of their own dtypes
        got = S.multinomial.pmf(np.array([1, 2], np.int8), np.array(3, np.int32), np.array([0.25, 0.75], np.float32))
    np.testing.assert_allclose(got, 0.421875, rtol=1e-5)


def test_multivariate_normal():
    A = R.normal(size=(3, 3))
    cov, mean, x = A @ A.T + np.eye(3), R.normal(size=3), R.normal(size=(4, 3))
    want = st.multivariate_normal.logpdf(x, mean, cov)
    q = [qnp.asarray(v) for v in (x, mean, cov)]
    np.testing.assert_allclose(S.multivariate_normal.logpdf(*q), want, rtol=1e-5)
    np.testing.assert_allclose(S.multivariate_normal.pdf(*q), np.exp(want), rtol=1e-4)
    stacked = qnp.stack([q[2], 2 * q[2], q[2], 2 * q[2]])
    got = S.multivariate_normal.logpdf(q[0], q[1], stacked)
    np.testing.assert_allclose(got[1::2], st.multivariate_normal.logpdf(x, mean, 2 * cov)[1::2], rtol=1e-5)
    np.testing.assert_allclose(
        S.multivariate_normal.logpdf(q[0], q[1], 2.0), st.multivariate_normal.logpdf(x, mean, 2 * np.eye(3)), rtol=1e-5
    )
    np.testing.assert_allclose(
        S.multivariate_normal.logpdf(1.0, 0.0, 2.0), st.multivariate_normal.logpdf(1.0, 0.0, 2.0), rtol=1e-6
    )
    slope = quire.grad(lambda m: S.multivariate_normal.logpdf(q[0], m, q[2]).sum())(q[1])
    np.testing.assert_allclose(slope, np.linalg.solve(cov, (x - mean).T).sum(1), rtol=1e-3, atol=1e-4)


# -- summaries --------------------------------------------------------------------------------------------------------


def test_mode():
    x = R.integers(0, 4, (6, 5))
    for axis in (0, 1, None, -1):
        for keep in (False, True):
            got, want = S.mode(qnp.asarray(x), axis, keepdims=keep), st.mode(x, axis, keepdims=keep)
            np.testing.assert_array_equal(got.mode, want.mode)
            np.testing.assert_array_equal(got.count, want.count)
    empty = S.mode(qnp.zeros((0, 2)))
    assert np.isnan(empty.mode).all() and empty.count.tolist() == [0, 0]


def test_rankdata():
    x = R.integers(0, 5, (4, 6)).astype("f4")
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, 1):
            want = st.rankdata(x, method, axis=axis)
            np.testing.assert_array_equal(
                S.rankdata(qnp.asarray(x), method, axis=axis), want.ravel() if axis is None else want
            )
    assert np.isnan(S.rankdata(qnp.asarray([1.0, np.nan]))).all()
    assert S.rankdata(qnp.zeros(0)).shape == (0,)


def test_sem():
    x = R.normal(size=(4, 6)).astype("f4")
    for axis in (None, 0, 1):
        for ddof in (0, 1):
            np.testing.assert_allclose(S.sem(qnp.asarray(x), axis, ddof), st.sem(x, axis, ddof), rtol=1e-5)
    x[1, 2] = np.nan
    np.testing.assert_allclose(S.sem(qnp.asarray(x), nan_policy="omit"), st.sem(x, nan_policy="omit"), rtol=1e-5)
    assert S.sem(qnp.asarray(x), axis=1, keepdims=True).shape == (4, 1)


# -- kernel density ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, "silverman", 0.4])
def test_gaussian_kde(method):
    for data, points in ((R.normal(size=12), R.normal(size=5)), (R.normal(size=(2, 12)), R.normal(size=(2, 5)))):
        weights = R.uniform(0.5, 2, 12)
        mine, theirs = (
            S.gaussian_kde(qnp.asarray(data), method, qnp.asarray(weights)),
            st.gaussian_kde(data, method, weights),
        )
        for name in ("covariance", "inv_cov", "neff", "weights"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(mine(qnp.asarray(points)), theirs(points), rtol=2e-4)
        np.testing.assert_allclose(mine.logpdf(qnp.asarray(points)), theirs.logpdf(points), rtol=1e-4, atol=1e-4)
        centre, spread = np.zeros(mine.d), np.eye(mine.d)
        np.testing.assert_allclose(
            mine.integrate_gaussian(qnp.asarray(centre), qnp.asarray(spread)),
            theirs.integrate_gaussian(centre, spread),
            rtol=1e-4,
        )
        np.testing.assert_allclose(mine.integrate_kde(mine), theirs.integrate_kde(theirs), rtol=1e-4)
        if mine.d == 1:
            np.testing.assert_allclose(mine.integrate_box_1d(-1.0, 2.0), theirs.integrate_box_1d(-1.0, 2.0), rtol=1e-4)


def test_gaussian_kde_is_a_pytree_that_resamples():
    kde = S.gaussian_kde(qnp.asarray(R.normal(size=(2, 40))))
    leaves, tree = quire.tree_util.tree_flatten(kde)
    assert len(leaves) == 5 and quire.tree_util.tree_unflatten(tree, leaves).n == 40
    sample = np.asarray(kde.resample(quire.random.key(0), (4000,)))
    assert sample.shape == (2, 4000)
    np.testing.assert_allclose(sample.mean(1), np.asarray(kde.dataset).mean(1), atol=0.1)
    want = np.cov(np.asarray(kde.dataset), bias=True) + np.asarray(kde.covariance)
    np.testing.assert_allclose(np.cov(sample), want, atol=0.15)


# -- errors -----------------------------------------------------------------------------------------------------------

ERRORS = [
    (lambda: S.norm.pdf([1.0]), TypeError, "quire.scipy.stats.norm.pdf: requires ndarray or scalar arguments, got <class 'list'> at position 0"),
    (lambda: S.norm.pdf(), TypeError, r"quire.scipy.stats.norm.pdf: missing a required argument: 'x': it takes \(x, loc=0, scale=1\)"),
    (lambda: S.gamma.cdf(1.0, 2.0, 3.0, 4.0, 5.0), TypeError, r"quire.scipy.stats.gamma.cdf: too many positional arguments: it takes \(x, a, loc=0, scale=1\)"),
    (lambda: S.norm.pdf(1j), ValueError, "quire.scipy.stats.norm.pdf: takes real numbers"),
    (lambda: S.beta.pdf(qnp.ones(2), qnp.ones(3), 1.0), TypeError, "quire.scipy.stats.beta.pdf: incompatible shapes for broadcasting"),
    (lambda: S.dirichlet.pdf(qnp.ones(2), qnp.ones((2, 3))), ValueError, r"dirichlet.logpdf: alpha must be a vector, got f32\[2,3\]"),
    (lambda: S.dirichlet.pdf(qnp.ones(5), qnp.ones(3)), ValueError, r"the first dimension of x must be 3 or 2 for 3 concentrations, got f32\[5\]"),
    (lambda: S.multinomial.pmf(qnp.ones(2), 2, qnp.ones(2)), ValueError, r"multinomial.logpmf: x must be integers, got f32\[2\]"),
    (lambda: S.multivariate_normal.logpdf(qnp.ones((3, 2)), qnp.ones(2), qnp.eye(3)), ValueError, r"x, mean and cov do not fit, got f32\[3,2\], f32\[2\], f32\[3,3\]"),
    (lambda: S.multivariate_normal.logpdf(1.0, 0.0, 1.0, True), NotImplementedError, "allow_singular is not supported"),
    (lambda: S.mode(qnp.ones(2), nan_policy="omit"), NotImplementedError, "quire.scipy.stats.mode: nan_policy='omit' is not supported: use 'propagate'"),
    (lambda: S.mode(qnp.ones(2), nan_policy="no"), ValueError, "nan_policy must be one of 'propagate', 'omit', 'raise', got 'no'"),
    (lambda: S.rankdata(qnp.ones(2), "no"), ValueError, "quire.scipy.stats.rankdata: unknown method 'no'"),
    (lambda: S.sem(qnp.ones(2), 3), ValueError, "stats.sem: axis 3 is out of bounds"),
    (lambda: S.gaussian_kde(qnp.ones(1)), ValueError, "gaussian_kde: dataset must have 2 or more points, got 1"),
    (lambda: S.gaussian_kde(qnp.arange(4.0), "no"), ValueError, "bw_method must be 'scott', 'silverman', a number or a function, got 'no'"),
    (lambda: S.gaussian_kde(qnp.arange(4.0), weights=qnp.ones(3)), ValueError, r"weights must be a vector of 4 numbers, one for each point, got f32\[3\]"),
    (lambda: S.gaussian_kde(qnp.asarray(R.normal(size=(2, 4))))(qnp.ones((3, 2))), ValueError, "points have 3 dimensions, the dataset has 2"),
    (lambda: S.gaussian_kde(qnp.arange(4.0)).set_bandwidth(1.0), NotImplementedError, "estimates are immutable: make a new one"),
    (lambda: S.gaussian_kde(qnp.arange(4.0)).integrate_box(0, 1), NotImplementedError, "only integrate_box_1d is supported"),
    (lambda: S.gaussian_kde(qnp.asarray(R.normal(size=(2, 4)))).integrate_box_1d(0, 1), ValueError, "the dataset must have 1 dimension, it has 2"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# -- compiled ---------------------------------------------------------------------------------------------------------


def test_compiled():
    x = np.array([-1.0, 0.3, 0.5, 2.0, np.nan], "f4")
    k = np.array([-1, 0, 1, 3, 7], "i4")
    cases = [
        Case("norm", lambda v: [S.norm.logpdf(v, 0.5, 2.0), S.norm.logsf(v), S.norm.ppf(v)], [x], rtol=1e-5),
        Case("gamma", lambda v: S.gamma.logpdf(v, 2.0), [x], rtol=1e-5),
        Case("t", lambda v: S.t.pdf(v, 3.0, 0.5), [x], rtol=1e-5),
        Case("truncnorm", lambda v: S.truncnorm.logpdf(v, -1.0, 1.0), [x], rtol=1e-5),
        Case("binom", lambda v: S.binom.pmf(v, 7, 0.4), [k], rtol=1e-5),
        Case("cauchy", lambda v: S.cauchy.isf(v), [x], rtol=1e-5),
        Case("rankdata", S.rankdata, [x[:4]]),
        Case("mode", lambda v: list(S.mode(v)), [k]),
        Case("multivariate_normal", lambda v: S.multivariate_normal.logpdf(v, qnp.zeros(2), qnp.eye(2)), [x[:2]], rtol=1e-5),
        Case("kde", lambda v: S.gaussian_kde(v)(v), [x[:4]], rtol=1e-4),
        Case("slope", quire.grad(lambda v: qnp.sum(S.norm.logcdf(v) + S.gumbel_r.logsf(v))), [x[:4]], rtol=1e-5),
    ]  # fmt: skip
    check_cases(cases)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16"])
def test_mode_counts_nans_as_one_value(axis, dtype):
    x = np.array([[1, 2, np.nan, 2], [3, 3, np.nan, np.nan], [np.nan, np.nan, np.nan, 1], [1, 1, 2, 3]], dtype)
    got, want = S.mode(x, axis=axis), st.mode(x.real if dtype == "complex64" else x, axis=axis)
    if dtype != "complex64":  # SciPy takes no mode of these
        np.testing.assert_array_equal(got.mode, want.mode)
        np.testing.assert_array_equal(got.count, want.count)
    assert np.isnan(np.atleast_1d(got.mode)[2 if axis is not None else 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_beta_distribution_of_large_parameters(dtype):
    """Its density, also as the derivative of betainc, and where the derivatives of both chances have no limit."""
    mpmath = pytest.importorskip("mpmath")
    at = [(5, 5, 0.3), (500, 400, 0.56), (1e4, 3, 0.9997), (3, 1e6, 2e-6), (1, 1, 0), (1, 1, 1), (2, 1, 1), (1, 30, 0)]
    a, b, x = np.array(at, dtype).T
    with mpmath.workdps(40):
        wanted = [float(v ** (p - 1) * (1 - v) ** (q - 1) / mpmath.beta(p, q)) for p, q, v in map(_exact, zip(a, b, x))]
    tolerance = 1e-5 if dtype == "float32" else 1e-11
    with config.override(enable_x64=dtype == "float64"):
        stats, betainc = quire.scipy.stats, quire.scipy.special.betainc
        for run in (lambda f: f, quire.jit):
            np.testing.assert_allclose(run(stats.beta.pdf)(x, a, b), wanted, rtol=tolerance)
            slope = run(quire.grad(lambda x: betainc(a, b, x).sum()))(x)
            np.testing.assert_allclose(slope, wanted, rtol=tolerance)
        edges = np.array([1e-20, 1e-10], dtype)
        ones = np.ones(2, dtype)
        slope = quire.grad(lambda x: stats.beta.logcdf(x, ones, ones).sum())(edges)
        np.testing.assert_allclose(slope, 1 / edges, rtol=tolerance)
        slope = quire.grad(lambda x: stats.gennorm.cdf(x, 1.5).sum())(np.array([-1e-30, 0, 1e-10], dtype))
        np.testing.assert_allclose(slope, stats.gennorm.pdf(np.zeros(3, dtype), 1.5), rtol=tolerance)
        slope = quire.grad(lambda x: stats.pareto.cdf(x, 2.0).sum())(np.array([200, 2000], dtype))
        np.testing.assert_allclose(slope, [2.5e-7, 2.5e-10], rtol=tolerance)


def _exact(numbers):
    import mpmath

    return [mpmath.mpf(float(v)) for v in numbers]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_beta_distribution_at_points_that_are_lost_beside_one(dtype):
    mpmath = pytest.importorskip("mpmath")
    at = [
        (1e-8, 0.02, 2),
        (1e-8, 0.01, 2),
        (3e-6, 0.3, 0.5),
        (1e-30, 1e-3, 50),
        (0.05, 1, 90),
        (0.4, 0.3, 40),
        (0.7, 0.1, 3),
        (0.03, 8, 250),
    ]
    at += [(1e-300, 0.001, 2), (1e-18, 0.001, 2)] if dtype == "float64" else []
    x, a, b = np.array(at, dtype).T
    with mpmath.workdps(60):
        chances = [mpmath.betainc(p, q, 0, v, regularized=True) for p, q, v in map(_exact, zip(a, b, x))]
        wanted = np.array([[float(v) for v in (1 - c, mpmath.log(c), mpmath.log(1 - c))] for c in chances])
        densities = [v ** (p - 1) * (1 - v) ** (q - 1) / mpmath.beta(p, q) for p, q, v in map(_exact, zip(a, b, x))]
        slopes = [float(d / c) for d, c in zip(densities, chances)]
    tolerance = 1e-5 if dtype == "float32" else 1e-11
    with config.override(enable_x64=dtype == "float64"):
        for run in (lambda f: f, quire.jit):
            for i, f in enumerate((S.beta.sf, S.beta.logcdf, S.beta.logsf)):
                np.testing.assert_allclose(run(f)(x, a, b), wanted[:, i], rtol=tolerance, err_msg=f.__name__)
            slope = run(quire.grad(lambda x: S.beta.logcdf(x, a, b).sum()))(x)
            np.testing.assert_allclose(slope, slopes, rtol=tolerance)

"""The samplers of quire.random: their values against JAX's, their distributions against SciPy's, derivatives, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from scipy import stats

import quire
from quire import random as qr
from quire.backends import reference
from quire.ir.config import config
from tests.helpers import Case, check, trace

jr = jax.random
KEY = np.array([0, 42], np.uint32)
F32 = np.float32


def row(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, F32)


def run(f: Callable[..., Any], *args: Any) -> np.ndarray[Any, Any]:
    """By the reference backend: nothing is compiled."""
    return np.asarray(reference.eval_jaxpr(trace(f, args), *args)[0])


LOGITS = (np.arange(12).reshape(3, 4) / 3).astype(F32)
COV = np.array([[2, 0.5], [0.5, 1]], F32)
TABLE = np.arange(24, dtype=F32).reshape(6, 4)

# Each against JAX: (function of module and key, tolerance; 0 for equal values).
LIKE_JAX: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "truncated_normal": (lambda r, k: r.truncated_normal(k, -1.0, row(1, 2, 3), (9, 3)), 2e-5),
    "lognormal": (lambda r, k: r.lognormal(k, row(1, 0.5), (9, 2)), 1e-6),
    "lognormal default": (lambda r, k: r.lognormal(k), 1e-6),
    "exponential": (lambda r, k: r.exponential(k, (20,)), 1e-6),
    "exponential f16": (lambda r, k: r.exponential(k, (20,), np.float16), 2e-3),
    "laplace": (lambda r, k: r.laplace(k, (20,)), 2e-6),
    "laplace bf16": (lambda r, k: r.laplace(k, (20,), ml_dtypes.bfloat16), 4e-2),
    "logistic": (lambda r, k: r.logistic(k, (20,)), 1e-5),
    "gumbel": (lambda r, k: r.gumbel(k, (20,)), 5e-6),
    "gumbel high": (lambda r, k: r.gumbel(k, (20,), mode="high"), 5e-6),
    "cauchy": (lambda r, k: r.cauchy(k, (20,)), 2e-6),
    "maxwell": (lambda r, k: r.maxwell(k, (20,)), 1e-6),
    "double_sided_maxwell": (lambda r, k: r.double_sided_maxwell(k, 1.0, 2.0, (20,)), 3e-6),
    "double_sided_maxwell arrays": (lambda r, k: r.double_sided_maxwell(k, row(1, 2), 2.0), 3e-6),
    "rayleigh": (lambda r, k: r.rayleigh(k, 2.0, (20,)), 1e-6),
    "pareto": (lambda r, k: r.pareto(k, row(1, 2), (9, 2)), 1e-6),
    "weibull_min": (lambda r, k: r.weibull_min(k, 2.0, 3.0, (20,)), 1e-6),
    "triangular": (lambda r, k: r.triangular(k, 0.0, 1.0, row(2, 3), (9, 2)), 1e-6),
    "wald": (lambda r, k: r.wald(k, 2.0, (20,)), 3e-6),
    "categorical": (lambda r, k: r.categorical(k, LOGITS, shape=(7, 3)), 0),
    "categorical axis": (lambda r, k: r.categorical(k, LOGITS, axis=0), 0),
    "categorical once": (lambda r, k: r.categorical(k, LOGITS, shape=(2, 3), replace=False), 0),
    "geometric": (lambda r, k: r.geometric(k, row(0.1, 0.5), (9, 2)), 0),
    "permutation": (lambda r, k: r.permutation(k, 40), 0),
    "permutation rows": (lambda r, k: r.permutation(k, TABLE), 0),
    "permutation columns": (lambda r, k: r.permutation(k, TABLE, 1), 0),
    "permutation independent": (lambda r, k: r.permutation(k, TABLE, 1, independent=True), 0),
    "permutation long": (lambda r, k: r.permutation(k, 3000), 0),
    "choice": (lambda r, k: r.choice(k, 10, (20,)), 0),
    "choice one": (lambda r, k: r.choice(k, 5), 0),
    "choice rows": (lambda r, k: r.choice(k, TABLE, (2, 3)), 0),
    "choice once": (lambda r, k: r.choice(k, TABLE, (2, 3), replace=False), 0),
    "choice int once": (lambda r, k: r.choice(k, 7, (5,), replace=False), 0),
    "choice weighted": (lambda r, k: r.choice(k, TABLE, (2, 2), p=row(0.1, 0.2, 0.3, 0.4), axis=1), 0),
    "choice weighted once": (
        lambda r, k: r.choice(k, TABLE, (3,), p=row(0.1, 0.2, 0.3, 0.4), axis=1, replace=False), 0
    ),
    "rademacher": (lambda r, k: r.rademacher(k, (20,), np.int8), 0),
    "rademacher of floats": (lambda r, k: r.rademacher(k, (20,), np.float32), 0),
    "multivariate_normal": (lambda r, k: r.multivariate_normal(k, row(1, 2), COV, (9,)), 2e-6),
    "multivariate_normal eigh": (lambda r, k: r.multivariate_normal(k, row(1, 2), COV, (9,), method="eigh"), 5e-5),
    "multivariate_normal svd": (lambda r, k: r.multivariate_normal(k, row(1, 2), COV, (9,), method="svd"), 5e-5),
    "orthogonal": (lambda r, k: r.orthogonal(k, 3, (2,)), 2e-5),
    "orthogonal tall": (lambda r, k: r.orthogonal(k, 3, m=2), 2e-5),
    "orthogonal wide": (lambda r, k: r.orthogonal(k, 2, m=3), 2e-5),
    "orthogonal unitary": (lambda r, k: r.orthogonal(k, 2, (), np.complex64), 2e-5),
}  # fmt: skip


@pytest.fixture(scope="module")
def from_jax() -> dict[str, np.ndarray[Any, Any]]:
    """All of them in one program of JAX."""
    out = jax.jit(lambda k: {name: f(jr, k) for name, (f, _) in LIKE_JAX.items()})(KEY)
    return {name: np.asarray(x) for name, x in out.items()}


@pytest.mark.parametrize("name", LIKE_JAX)
def test_values_are_those_of_jax(name: str, from_jax: dict[str, np.ndarray[Any, Any]]) -> None:
    f, tolerance = LIKE_JAX[name]
    got, want = run(lambda k: f(qr, k), KEY), from_jax[name]
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if tolerance == 0:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.complex64), want.astype(np.complex64), rtol=tolerance, atol=tolerance)


# What JAX 0.10.2 gives for the functions with loops, each of which it takes seconds to compile.
RECORDED: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "gamma": (lambda k: qr.gamma(k, row(0.1, 0.5, 1, 3, 20)), (
        0.01056851539760828, 0.5063273906707764, 2.0072460174560547, 1.991378664970398, 16.76641273498535)),
    "loggamma": (lambda k: qr.loggamma(k, row(0.001, 0.5, 1, 3, 20)), (
        -537.9234008789062, -0.6805716753005981, 0.6967637538909912, 0.6888271570205688, 2.8193776607513428)),
    "beta": (lambda k: qr.beta(k, row(0.2, 2), row(1, 3), (2, 2)), (
        0.17389686405658722, 0.3128182888031006, 0.5872398018836975, 0.6900200843811035)),
    "dirichlet": (lambda k: qr.dirichlet(k, row(0.5, 1, 2), (2,)), (
        0.20680315792560577, 0.06861007958650589, 0.7245867848396301, 0.02570507861673832, 0.1630317121744156,
        0.8112632632255554)),
    "chisquare": (lambda k: qr.chisquare(k, 3.0, (4,)), (
        5.87071418762207, 1.3978509902954102, 5.559423446655273, 1.4829895496368408)),
    "f": (lambda k: qr.f(k, 3.0, 5.0, (4,)), (
        0.7283635139465332, 0.35692548751831055, 0.23560737073421478, 0.15563176572322845)),
    "t": (lambda k: qr.t(k, 3.0, (4,)), (
        0.08987478166818619, -1.7357467412948608, 2.3520190715789795, 1.1635191440582275)),
    "generalized_normal": (lambda k: qr.generalized_normal(k, 1.5, (4,)), (
        -0.8782375454902649, -0.2061624526977539, 1.160470962524414, 0.10202968865633011)),
    "ball": (lambda k: qr.ball(k, 3, 1.5, (2,)), (
        0.3436679542064667, 0.05199319124221802, 0.017910156399011612, 0.37601301074028015, -0.07180140912532806,
        0.28090161085128784)),
    "poisson": (lambda k: qr.poisson(k, row(0, 0.5, 3, 9, 12, 100, 1e4), (2, 7)), (
        0, 1, 2, 7, 7, 90, 9946, 0, 0, 3, 10, 10, 116, 10024)),
    "binomial": (lambda k: qr.binomial(k, row(3, 10, 50, 1000, 1e5), row(0.2, 0.9, 0.3, 0.6, 0.01), (2, 5)), (
        1, 10, 12, 611, 955, 1, 9, 10, 603, 998)),
    "multinomial": (lambda k: qr.multinomial(k, row(20, 5), row(0.1, 0.2, 0.7), shape=(3, 2, 3)), (
        1, 2, 17, 1, 3, 1, 1, 2, 17, 1, 0, 4, 3, 5, 12, 1, 1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_values_recorded_from_jax(name: str) -> None:
    f, want = RECORDED[name]
    np.testing.assert_allclose(run(f, KEY).ravel(), want, rtol=2e-5)


# -- distributions ----------------------------------------------------------------------------------------------------

N = 4000
# (sampler, its distribution function)
CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "uniform": (lambda k: qr.uniform(k, (N,), minval=-1.0, maxval=3.0), stats.uniform(-1, 4)),
    "normal": (lambda k: qr.normal(k, (N,)), stats.norm()),
    "truncated_normal": (lambda k: qr.truncated_normal(k, -0.5, 2.0, (N,)), stats.truncnorm(-0.5, 2)),
    "lognormal": (lambda k: qr.lognormal(k, 0.7, (N,)), stats.lognorm(0.7)),
    "exponential": (lambda k: qr.exponential(k, (N,)), stats.expon()),
    "laplace": (lambda k: qr.laplace(k, (N,)), stats.laplace()),
    "logistic": (lambda k: qr.logistic(k, (N,)), stats.logistic()),
    "gumbel": (lambda k: qr.gumbel(k, (N,)), stats.gumbel_r()),
    "gumbel high": (lambda k: qr.gumbel(k, (N,), mode="high"), stats.gumbel_r()),
    "cauchy": (lambda k: qr.cauchy(k, (N,)), stats.cauchy()),
    "maxwell": (lambda k: qr.maxwell(k, (N,)), stats.maxwell()),
    "rayleigh": (lambda k: qr.rayleigh(k, 2.0, (N,)), stats.rayleigh(scale=2)),
    "pareto": (lambda k: qr.pareto(k, 3.0, (N,)), stats.pareto(3)),
    "weibull_min": (lambda k: qr.weibull_min(k, 2.0, 1.5, (N,)), stats.weibull_min(1.5, scale=2)),
    "triangular": (lambda k: qr.triangular(k, 1.0, 2.0, 5.0, (N,)), stats.triang(0.25, 1, 4)),
    "wald": (lambda k: qr.wald(k, 2.0, (N,)), stats.invgauss(2)),
    "gamma": (lambda k: qr.gamma(k, 2.5, (N,)), stats.gamma(2.5)),
    "gamma below 1": (lambda k: qr.gamma(k, 0.3, (N,)), stats.gamma(0.3)),
    "loggamma": (lambda k: qr.loggamma(k, 0.3, (N,)), stats.loggamma(0.3)),
    "beta": (lambda k: qr.beta(k, 0.7, 2.0, (N,)), stats.beta(0.7, 2)),
    "dirichlet": (lambda k: qr.dirichlet(k, row(1, 2, 3), (N,))[:, 1], stats.beta(2, 4)),
    "chisquare": (lambda k: qr.chisquare(k, 3.0, (N,)), stats.chi2(3)),
    "f": (lambda k: qr.f(k, 3.0, 7.0, (N,)), stats.f(3, 7)),
    "t": (lambda k: qr.t(k, 3.0, (N,)), stats.t(3)),
    "generalized_normal": (lambda k: qr.generalized_normal(k, 1.5, (N,)), stats.gennorm(1.5)),
    "ball radius": (lambda k: (qr.ball(k, 3, shape=(N,)) ** 2).sum(axis=-1) ** 1.5, stats.uniform()),
    "multivariate_normal": (lambda k: qr.multivariate_normal(k, row(0, 0), COV, (N,)).sum(axis=-1), stats.norm(0, 2)),
    "orthogonal": (lambda k: qr.orthogonal(k, 2, (N,))[:, 0, 0], stats.arcsine(-1, 2)),
}
DISCRETE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "randint": (lambda k: qr.randint(k, (N,), 3, 10), stats.randint(3, 10)),
    "bernoulli": (lambda k: qr.bernoulli(k, 0.3, (N,)).astype(int), stats.bernoulli(0.3)),
    "bernoulli high": (lambda k: qr.bernoulli(k, 0.3, (N,), "high").astype(int), stats.bernoulli(0.3)),
    "rademacher": (lambda k: (qr.rademacher(k, (N,)) + 1) // 2, stats.bernoulli(0.5)),
    "geometric": (lambda k: qr.geometric(k, 0.3, (N,)), stats.geom(0.3)),
    "poisson": (lambda k: qr.poisson(k, 3.0, (N,)), stats.poisson(3)),
    "poisson large": (lambda k: qr.poisson(k, 30.0, (N,)), stats.poisson(30)),
    "binomial": (lambda k: qr.binomial(k, 12, 0.3, (N,)), stats.binom(12, 0.3)),
    "binomial many": (lambda k: qr.binomial(k, 80, 0.6, (N,)), stats.binom(80, 0.6)),
    "multinomial": (lambda k: qr.multinomial(k, 12.0, row(0.2, 0.5, 0.3), shape=(N, 3))[:, 1], stats.binom(12, 0.5)),
    "categorical": (
        lambda k: qr.categorical(k, np.log(row(0.1, 0.2, 0.7)), shape=(N,)),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
    "choice": (
        lambda k: qr.choice(k, 3, (N,), p=row(0.1, 0.2, 0.7)), stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
    "first of a permutation": (
        lambda k: qr.permutation(k, np.tile(np.arange(5), (N, 1)), 1, independent=True)[:, 0], stats.randint(0, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    """Kolmogorov and Smirnov's test; the seed is fixed, so that it always passes or always fails."""
    f, distribution = CONTINUOUS[name]
    x = run(f, KEY)
    assert x.shape == (N,) and x.dtype == F32 and np.isfinite(x).all()
    assert stats.kstest(x, distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    """The chi-square test over values, the rare ones together."""
    f, distribution = DISCRETE[name]
    x = run(f, KEY)
    assert x.shape == (N,)
    low, high = int(distribution.ppf(0.002)), int(distribution.ppf(0.998))
    edges = np.arange(low, high + 1)
    want = np.diff(np.concatenate([[0], distribution.cdf(edges[:-1]), [1]])) * N
    seen = np.diff(np.concatenate([[0], [(x <= e).sum() for e in edges[:-1]], [N]]))
    assert stats.chisquare(seen, want).pvalue > 0.01


def test_moments_of_vectors() -> None:
    x = run(lambda k: qr.multivariate_normal(k, row(1, 2), COV, (N,)), KEY)
    np.testing.assert_allclose(x.mean(0), [1, 2], atol=0.1)
    np.testing.assert_allclose(np.cov(x.T), COV, atol=0.15)
    z = run(lambda k: qr.normal(k, (N,), np.complex64), KEY)
    np.testing.assert_allclose([np.mean(abs(z) ** 2), abs(np.mean(z * z))], [1, 0], atol=0.05)
    q = run(lambda k: qr.orthogonal(k, 4, (3,), np.complex64), KEY)
    np.testing.assert_allclose(q @ np.conj(np.swapaxes(q, -1, -2)), np.broadcast_to(np.eye(4), q.shape), atol=1e-5)


def test_edges() -> None:
    def pair(f: Callable[..., Any]) -> list[float]:
        return run(f, KEY).tolist()

    assert pair(lambda k: qr.poisson(k, row(0, np.nan))) == [0, -1]
    out = run(lambda k: qr.binomial(k, row(-1, 5, 5, 5, 0, np.nan), row(0.5, 0, 1, 1.5, 0.5, 0.5)), KEY)
    np.testing.assert_array_equal(out, [np.nan, 0, 5, np.nan, 0, np.nan])
    assert pair(lambda k: qr.categorical(k, row(-np.inf, 0, -np.inf), shape=(3,))) == [1, 1, 1]
    assert run(lambda k: qr.gamma(k, row()), KEY).shape == (0,)
    assert run(lambda k: qr.choice(k, np.zeros((0, 2), F32), (0,)), KEY).shape == (0, 2)
    assert np.isfinite(run(lambda k: qr.loggamma(k, 1e-6, (50,)), KEY)).all()
    assert pair(lambda k: qr.multinomial(k, 7.0, row(0, 1, 0))) == [0, 7, 0]


def test_64_bits() -> None:
    with config.override(enable_x64=True), jax.enable_x64(True):
        for f in (lambda r, k: r.normal(k, (5,)), lambda r, k: r.exponential(k, (5,)), lambda r, k: r.gumbel(k, (5,))):
            got, want = run(lambda k, f=f: f(qr, k), KEY), np.asarray(f(jr, KEY))
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, want, rtol=1e-11)


# -- derivatives, mapping, compiling -----------------------------------------------------------------------------------


def test_derivatives_by_the_shape() -> None:
    """The implicit derivative -(dF/da) / p of the distribution function at the sample, from SciPy by differences."""
    a = np.array([0.3, 1.0, 4.0])

    def implicit(x: np.ndarray[Any, Any], h: float = 1e-4) -> np.ndarray[Any, Any]:
        return -(stats.gamma.cdf(x, a + h) - stats.gamma.cdf(x, a - h)) / (2 * h) / stats.gamma.pdf(x, a)

    for log, f in ((False, qr.gamma), (True, qr.loggamma)):
        tangents = [a.astype(F32), np.ones(3, F32)]
        value, slope = (
            np.asarray(x, np.float64)
            for x in reference.eval_jaxpr(
                trace(lambda p, t, f=f: quire.jvp(lambda q: f(KEY, q), (p,), (t,)), tangents), *tangents
            )
        )
        x = np.exp(value) if log else value
        np.testing.assert_allclose(slope, implicit(x) / (x if log else 1), rtol=2e-3)

    def both(p: Any) -> Any:
        grads = [quire.grad(lambda q, f=f: f(q).sum())(p) for f in (
            lambda q: qr.beta(KEY, q, 2.0), lambda q: qr.dirichlet(KEY, q)[..., 0], lambda q: qr.t(KEY, q),
            lambda q: qr.chisquare(KEY, q))]  # fmt: skip
        return quire.numpy.stack(grads)

    found = run(both, row(0.5, 2.0))
    assert found.shape == (4, 2) and np.isfinite(found).all() and (found[0] > 0).all() and (found[3] > 0).all()


def test_mapped_over_keys_and_parameters() -> None:
    keys = run(lambda k: qr.split(k, 3), KEY)
    for f in (
        lambda k, a: qr.gamma(k, a, (2,)),
        lambda k, a: qr.poisson(k, a, (2,)),
        lambda k, a: qr.pareto(k, a, (2,)),
    ):
        rows = run(quire.vmap(f), keys, row(0.5, 3, 20))
        for i in range(3):
            np.testing.assert_allclose(rows[i], run(f, keys[i], row(0.5, 3, 20)[i]), rtol=1e-6)


def test_compiled() -> None:
    chosen = (
        "laplace",
        "gumbel",
        "triangular",
        "wald",
        "categorical",
        "geometric",
        "permutation",
        "choice weighted once",
    )
    cases = [Case(n, lambda k, n=n: LIKE_JAX[n][0](qr, k), [KEY], None, 5e-5, 5e-6) for n in chosen]
    loops = ("gamma", "poisson", "binomial")
    cases += [Case(n, lambda k, n=n: RECORDED[n][0](k), [KEY], None, 5e-5, 5e-6) for n in loops]
    check(cases)


# -- names and errors --------------------------------------------------------------------------------------------------


def test_names_and_signatures_are_those_of_jax() -> None:
    wanted = [n for n in dir(jr) if not n.startswith("_") and n != "random_gamma_p"]
    assert sorted(set(wanted) - set(qr.__all__)) == []
    for name in wanted:
        ours, theirs = inspect.signature(getattr(qr, name)), inspect.signature(getattr(jr, name))
        assert list(ours.parameters) == list(theirs.parameters), name
        for mine, other in zip(ours.parameters.values(), theirs.parameters.values()):
            assert (mine.kind, mine.default) == (other.kind, other.default), (name, mine.name)


def test_dirichlet_of_no_parameters() -> None:
    for shape in ((0,), (3, 0)):
        assert qr.dirichlet(KEY, np.zeros(shape, F32)).shape == jr.dirichlet(KEY, np.zeros(shape, F32)).shape == shape


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda: qr.gamma(KEY, np.ones(3), (2,)), r"gamma: the parameters do not broadcast to the shape \(2,\): a f32\[3\]"),
        (lambda: qr.beta(KEY, np.ones(3), np.ones(2)), r"beta: the parameters do not broadcast: a f32\[3\], b f32\[2\]"),
        (lambda: qr.gamma(KEY, [1.0]), "gamma: a: .* lists must be made arrays first"),
        (lambda: qr.gamma(KEY, 1j), "gamma: a must be real"),
        (lambda: qr.exponential(KEY, dtype=int), "exponential: dtype int32 must be a float dtype"),
        (lambda: qr.poisson(KEY, 3.0, dtype=float), "poisson: dtype float32 must be an integer dtype"),
        (lambda: qr.binomial(KEY, 3, 0.5, dtype=int), "binomial: dtype int32 must be a float dtype"),
        (lambda: qr.gumbel(KEY, mode="x"), "gumbel: unknown mode 'x', expected 'low', 'high', 'highest' or None"),
        (lambda: qr.dirichlet(KEY, 1.0), r"dirichlet: alpha must be at least 1-dimensional, got f32\[\]"),
        (lambda: qr.categorical(KEY, np.arange(3)), r"categorical: logits must be floats, .*got i32\[3\]: convert them"),
        (lambda: qr.categorical(KEY, [0.0]), "categorical: requires ndarray .*list.* argument logits"),
        (lambda: qr.choice(KEY, 2, p=[0.5, 0.5]), "choice: requires ndarray .*list.* argument p"),
        (lambda: qr.multinomial(KEY, 3, np.ones(3), dtype=bool), "multinomial: dtype bool must be a float or integer dtype"),
        (lambda: qr.multinomial(KEY, 3j, np.ones(3)), "multinomial: n and p must be real"),
        (lambda: qr.categorical(KEY, LOGITS, axis=2), r"categorical: axis 2 is out of bounds for logits f32\[3,4\]"),
        (lambda: qr.categorical(KEY, LOGITS, shape=(2,)), r"categorical: the shape \(2,\) must end with \(3,\)"),
        (lambda: qr.categorical(KEY, LOGITS, shape=(9, 3), replace=False), "9 samples without replacement of 4 categories"),
        (lambda: qr.choice(KEY, 0), "choice: a must not be empty"),
        (lambda: qr.choice(KEY, 1.5), r"choice: expected an integer or an array of at least one dimension, got f32\[\]"),
        (lambda: qr.choice(KEY, 3, (4,), replace=False), "choice: cannot choose 4 of 3 elements without replacement"),
        (lambda: qr.choice(KEY, 3, p=np.ones(4)), "choice: p must be 1-dimensional with one probability for each of the 3"),
        (lambda: qr.choice(KEY, 3, mode="x"), "choice: unknown mode 'x'"),
        (lambda: qr.permutation(KEY, 3.5), "permutation: expected an integer or an array of at least one dimension"),
        (lambda: qr.permutation(KEY, TABLE, 2), "permutation: axis 2 is out of bounds for an array of dimension 2"),
        (lambda: qr.multivariate_normal(KEY, np.zeros(2), np.eye(3)), r"cov must have shape \(..., 2, 2\) for a mean of 2"),
        (lambda: qr.multivariate_normal(KEY, np.zeros(2), COV, method="x"), "multivariate_normal: unknown method 'x'"),
        (lambda: qr.multivariate_normal(KEY, 1.0, COV), "mean must be at least 1-dimensional"),
        (lambda: qr.multivariate_normal(KEY, np.zeros((3, 2)), COV, (2,)), "do not broadcast to the shape"),
        (lambda: qr.multinomial(KEY, 3, 0.5), "multinomial: p must be at least 1-dimensional"),
        (lambda: qr.multinomial(KEY, 3, np.ones(3), shape=(2,)), r"multinomial: n f32\[\] and p f32\[3\] do not fit the shape"),
        (lambda: qr.normal(KEY, dtype=int), "normal: dtype int32 must be a float or complex dtype"),
        (lambda: qr.normal(KEY, out_sharding="x"), "normal: out_sharding: expected a sharding"),
    ],
)  # fmt: skip
def test_errors(f: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        f()

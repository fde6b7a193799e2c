"""Random numbers from explicit keys: bit for bit those of JAX's threefry2x32.

A key is made from a seed by `key` (typed) or `PRNGKey` (uint32 of shape (2,)). A key is used once: `split` makes new
ones; `config.debug_key_reuse` reports one that is used twice. With `config.threefry_partitionable` (the default)
element i of an array is a hash of i alone; without it the older scheme of JAX is used.
"""

from .bits import bernoulli, bits, rademacher, randint, uniform
from .continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    wald,
    weibull_min,
)
from .discrete import binomial, categorical, geometric, multinomial, poisson
from .gamma import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from .keys import PRNGKey, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from .multivariate import multivariate_normal, orthogonal
from .permutations import choice, permutation

__all__ = [
    "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "clone", "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal",
    "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace", "loggamma", "logistic", "lognormal",
    "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson",
    "rademacher", "randint", "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform", "wald",
    "weibull_min", "wrap_key_data",
]  # fmt: skip

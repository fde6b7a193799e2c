"""The gamma distribution and those made from it: beta, Dirichlet, chi-square, F, Student's t, generalised normal.

Samples are differentiable by the shape parameter: the implicit derivative, `lax.random_gamma_grad`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes

from quire.ir.avals import aval_of

from .. import lax
from .. import numpy as qnp
from ..arrays.key_array import is_keys
from ..transforms.custom_derivatives import custom_jvp
from ..transforms.vectorization import vmap
from .bits import rademacher, uniform
from .continuous import exponential, normal, number
from .keys import as_float, float_dtype, parameters, sampler, shape_of, split, split_raw

Array = Any


# -- one sample -----------------------------------------------------------------------------------------------------------


def _one(key: Array, alpha: Array, log_space: bool) -> Array:
    """One gamma sample, or its logarithm, by the method of Marsaglia and Tsang (2000).

    For alpha < 1 a sample of alpha + 1 is multiplied by U^(1 / alpha).
    """
    dt = aval_of(alpha).dtype
    zero, one = number(0, dt), number(1, dt)
    large = alpha >= one
    d = qnp.where(large, alpha, alpha + one) - number(1 / 3, dt)
    c = number(1 / 3, dt) / qnp.sqrt(d)

    def attempt(carry: Any) -> Any:
        key, x_key, u_key = split_raw(carry[0], 3)

        def normal_with_cube(inner: Any) -> Any:
            key, now = split_raw(inner[0])
            x = normal(now, (), dt)
            return key, x, one + x * c

        start = (x_key, zero, number(-1, dt))
        _, x, v = lax.while_loop(lambda inner: inner[2] <= zero, normal_with_cube, start)
        return key, x * x, v * v * v, uniform(u_key, (), dt)

    def refused(carry: Any) -> Any:
        _, x2, v, u = carry
        squeezed = u >= one - number(0.0331, dt) * (x2 * x2)
        return squeezed & (qnp.log(u) >= x2 * number(0.5, dt) + d * ((one - v) + qnp.log(v)))

    key, boost_key = split_raw(key)
    _, _, v, _ = lax.while_loop(refused, attempt, (key, zero, one, number(2, dt)))
    if log_space:
        log_u = -exponential(boost_key, (), dt)
        boost = qnp.where(large | (log_u == zero), zero, log_u * (one / alpha))
        return qnp.log(d) + qnp.log(v) + boost
    u = one - uniform(boost_key, (), dt)
    return d * v * qnp.where(large, one, qnp.power(u, one / alpha))


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _samples(key: Array, alpha: Array, log_space: bool) -> Array:
    aval = aval_of(alpha)
    keys = split(key, math.prod(aval.shape))
    flat = alpha.reshape(-1)
    if not aval.size:
        return flat.reshape(aval.shape)
    if is_keys(keys):  # what such keys give under vmap does not depend on each of them
        flat = lax.map(lambda pair: _one(pair[0], pair[1], log_space), (keys, flat))
    else:
        flat = vmap(lambda k, a: _one(k, a, log_space))(keys, flat)
    return flat.reshape(aval.shape)


@_samples.defjvp
def _samples_jvp(log_space: bool, primals: Any, tangents: Any) -> Any:
    key, alpha = primals
    sample = _samples(key, alpha, log_space)
    if not log_space:
        return sample, tangents[1] * lax.random_gamma_grad(alpha, sample)
    tiny = number(float(ml_dtypes.finfo(aval_of(alpha).dtype).tiny), aval_of(alpha).dtype)
    value = qnp.maximum(qnp.exp(sample), tiny)
    return sample, tangents[1] * (lax.random_gamma_grad(alpha, value) / value)


def _gamma(name: str, key: Array, a: Any, shape: Any, dtype: Any, log_space: bool) -> Array:
    dt = float_dtype(name, dtype)
    shape, (a,) = parameters(name, shape, dt, a=a)
    return _samples(key, qnp.asarray(a), log_space)


@sampler
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the gamma distribution with shape parameter a and scale 1. Follows `jax.random.gamma`.

    Args:
        a: broadcasts to `shape`, which is its shape if None. The samples are differentiable by it.

    Small a give many samples that underflow to 0: `loggamma` does not.

    >>> bool(quire.random.gamma(quire.random.key(0), 2.0, (3,)).min() > 0)
    True
    """
    return _gamma("gamma", key, a, shape, dtype, False)


@sampler
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Logarithms of numbers of the gamma distribution, exact for small a too. Follows `jax.random.loggamma`.

    >>> quire.random.loggamma(quire.random.key(0), 1e-3, (3,)).shape
    (3,)
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


# -- distributions made from it -------------------------------------------------------------------------------------------


@sampler
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the beta distribution. Follows `jax.random.beta`.

    Args:
        a, b: the parameters; they broadcast to `shape`, which is their common shape if None.

    >>> x = quire.random.beta(quire.random.key(0), 2.0, 3.0, (3,))
    >>> bool(((x > 0) & (x < 1)).all())
    True
    """
    dt = float_dtype("beta", dtype)
    shape, (a, b) = parameters("beta", shape, dt, a=a, b=b)
    log_a, log_b = (loggamma(k, x, shape, dt) for k, x in zip(split_raw(key), (a, b)))
    top = qnp.maximum(log_a, log_b)
    x, y = qnp.exp(log_a - top), qnp.exp(log_b - top)
    return x / (x + y)


@sampler
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Vectors of the Dirichlet distribution, along the last dimension. Follows `jax.random.dirichlet`.

    Args:
        alpha: the parameters, at least 1-dimensional.
        shape: that of the result without its last dimension; ``alpha.shape[:-1]`` broadcasts to it.

    Raises ValueError for an alpha that is 0-dimensional or does not broadcast to the shape, and for another dtype.

    >>> x = quire.random.dirichlet(quire.random.key(0), np.ones(3, np.float32), (2,))
    >>> x.shape, bool(abs(x.sum(axis=-1) - 1).max() < 1e-6)
    ((2, 3), True)
    """
    dt = float_dtype("dirichlet", dtype)
    aval = aval_of(alpha)
    if not aval.shape:
        raise ValueError(f"quire.random.dirichlet: alpha must be at least 1-dimensional, got {aval.short()}")
    batch = aval.shape[:-1] if shape is None else shape_of("dirichlet", shape)
    full, (alpha,) = parameters("dirichlet", (*batch, aval.shape[-1]), dt, alpha=alpha)
    logs = loggamma(key, alpha, full, dt)
    weights = qnp.exp(logs - lax.stop_gradient(logs.max(axis=-1, keepdims=True, initial=-math.inf)))
    return weights / weights.sum(axis=-1, keepdims=True)


@sampler
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the chi-square distribution with df degrees of freedom. Follows `jax.random.chisquare`.

    >>> bool(quire.random.chisquare(quire.random.key(0), 3.0, (3,)).min() > 0)
    True
    """
    dt = float_dtype("chisquare", dtype)
    shape, (df,) = parameters("chisquare", shape, dt, df=df)
    return number(2, dt) * qnp.exp(loggamma(key, number(0.5, dt) * df, shape, dt))


@sampler
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of Snedecor's F distribution. Follows `jax.random.f`.

    >>> bool(quire.random.f(quire.random.key(0), 3.0, 5.0, (3,)).min() > 0)
    True
    """
    dt = float_dtype("f", dtype)
    shape, (dfnum, dfden) = parameters("f", shape, dt, dfnum=dfnum, dfden=dfden)
    denominator, numerator = split_raw(key)
    return (chisquare(numerator, dfnum, shape, dt) / dfnum) / (chisquare(denominator, dfden, shape, dt) / dfden)


@sampler
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of Student's t distribution with df degrees of freedom. Follows `jax.random.t`.

    >>> quire.random.t(quire.random.key(0), 3.0, (3,)).shape
    (3,)
    """
    dt = float_dtype("t", dtype)
    shape, (df,) = parameters("t", shape, dt, df=df)
    normals, gammas = split_raw(key)
    half = df / number(2, dt)
    return normal(normals, shape, dt) * qnp.sqrt(half / gamma(gammas, half, shape, dt))


@sampler
def generalized_normal(
    key: Any, p: float, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """Numbers with density proportional to exp(-|x|^p). Follows `jax.random.generalized_normal`.

    >>> quire.random.generalized_normal(quire.random.key(0), 1.5, (3,)).shape
    (3,)
    """
    dt = float_dtype("generalized_normal", dtype)
    shape = shape_of("generalized_normal", shape)
    gammas, signs = split_raw(key)
    exponent = number(1, dt) / as_float(p, dt)
    return rademacher(signs, shape).astype(dt) * qnp.power(gamma(gammas, exponent, shape, dt), exponent)


@sampler
def ball(
    key: Any, d: int, p: float = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """Points uniform in the unit ball of the p-norm in d dimensions (the last one). Follows `jax.random.ball`.

    >>> x = quire.random.ball(quire.random.key(0), 3, shape=(5,))
    >>> bool(((x * x).sum(axis=-1) < 1).all())
    True
    """
    dt = float_dtype("ball", dtype)
    shape = shape_of("ball", shape)
    normals, exponentials = split_raw(key)
    g = generalized_normal(normals, p, (*shape, *shape_of("ball", d)), dt)
    e = exponential(exponentials, shape, dt)
    power = as_float(p, dt)
    return g / qnp.power(qnp.power(qnp.abs(g), power).sum(axis=-1) + e, number(1, dt) / power)[..., None]

"""Continuous distributions made from uniforms and normals by a formula."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.config import config
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew

from .. import numpy as qnp
from .bits import bits, pair_of_uniforms, rademacher, uniform
from .keys import dtype_of, float_dtype, parameters, sampler, shape_of, split_raw

Array = Any
_ONE = np.float32(1)


def number(value: float, dt: DType) -> Any:
    """A constant in a dtype."""
    return np.asarray(value, dt)[()]


def smallest_above(value: float, dt: DType) -> float:
    """The least number of the dtype above `value`."""
    return float(np.nextafter(np.asarray(value, dt), np.asarray(np.inf, dt), dtype=dt))


@sampler
def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random numbers of the standard normal distribution. Follows `jax.random.normal`.

    Complex ones have independent parts and variance 1 in all. Raises ValueError for another dtype.

    >>> [round(x, 4) for x in quire.random.normal(quire.random.key(0), (2,)).tolist()]
    [1.6226, 2.0253]
    """
    dt = dtype_of("normal", dtype, dtypes.float64, (*dtypes.FLOATS, *dtypes.COMPLEX), "a float or complex")
    shape = shape_of("normal", shape)
    if dtypes.is_complex(dt):
        part = dtypes.real_dtype(dt)
        re, im = (normal(k, shape, part) for k in split_raw(key))
        return ew.div(ew.complex(re, im), np.asarray(np.sqrt(2), dt)[()])
    u = uniform(key, shape, dt, smallest_above(-1.0, dt), 1.0)
    return ew.mul(np.array(np.sqrt(2), dt)[()], ew.erf_inv(u))


@sampler
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Standard normal numbers known to lie in (lower, upper). Follows `jax.random.truncated_normal`.

    Args:
        lower, upper: the bounds; they broadcast to `shape`, which is their common shape if None.

    >>> x = quire.random.truncated_normal(quire.random.key(0), -1.0, 1.0, (100,))
    >>> bool((abs(x) < 1).all())
    True
    """
    dt = float_dtype("truncated_normal", dtype)
    shape, (lower, upper) = parameters("truncated_normal", shape, dt, lower=lower, upper=upper)
    root = number(np.sqrt(2), dt)
    a, b = ew.erf(lower / root), ew.erf(upper / root)
    out = root * ew.erf_inv(uniform(key, shape, dt, a, b))
    inf = qnp.full_like(lower, np.inf)
    return qnp.clip(out, ew.nextafter(lower, inf), ew.nextafter(upper, -inf))


@sampler
def lognormal(key: Any, sigma: Any = _ONE, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers whose logarithm is normal with standard deviation sigma. Follows `jax.random.lognormal`.

    >>> bool(quire.random.lognormal(quire.random.key(0), 0.5, (3,)).min() > 0)
    True
    """
    dt = float_dtype("lognormal", dtype)
    shape, (sigma,) = parameters("lognormal", shape, dt, sigma=sigma)
    return qnp.exp(normal(key, shape, dt) * sigma)


@sampler
def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Exponential numbers of mean 1. Follows `jax.random.exponential`.

    >>> bool(quire.random.exponential(quire.random.key(0), (3,)).min() >= 0)
    True
    """
    dt = float_dtype("exponential", dtype)
    return -qnp.log1p(-uniform(key, shape_of("exponential", shape), dt))


@sampler
def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the Laplace distribution of scale 1. Follows `jax.random.laplace`.

    >>> quire.random.laplace(quire.random.key(0), (3,)).shape
    (3,)
    """
    dt = float_dtype("laplace", dtype)
    eps = float(ml_dtypes.finfo(dt).eps)
    u = uniform(key, shape_of("laplace", shape), dt, -1.0 + eps, 1.0)
    return qnp.sign(u) * qnp.log1p(-qnp.abs(u))


@sampler
def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the logistic distribution. Follows `jax.random.logistic`.

    >>> quire.random.logistic(quire.random.key(0), (3,)).shape
    (3,)
    """
    dt = float_dtype("logistic", dtype)
    u = uniform(key, shape_of("logistic", shape), dt, float(ml_dtypes.finfo(dt).tiny), 1.0)
    return qnp.log(u) - qnp.log1p(-u)


@sampler
def gumbel(
    key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None, *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """Numbers of the Gumbel distribution. Follows `jax.random.gumbel`.

    Args:
        mode: "low", "high", which resolves the upper tail better, at twice the cost, or "highest", which for float32 resolves
            both tails, down to uniform numbers of 2**-65. None: "high" if `config.high_dynamic_range_gumbel`, else "low".

    Raises ValueError for another mode or dtype.

    >>> quire.random.gumbel(quire.random.key(0), (3,), mode="high").shape
    (3,)
    """
    dt = float_dtype("gumbel", dtype)
    shape = shape_of("gumbel", shape)
    check_gumbel_mode("gumbel", mode)
    if mode is None:
        mode = "high" if config.options.high_dynamic_range_gumbel else "low"
    if mode == "highest" and dt == dtypes.float32:
        return _gumbel_of_64_bits(key, shape)
    info = ml_dtypes.finfo(dt)
    if mode == "low":
        return -qnp.log(-qnp.log(uniform(key, shape, dt, float(info.tiny), 1.0)))
    high, low = pair_of_uniforms(key, shape, dt)
    # Below 1/2 the second number fills the bits that the first has none for.
    finer = high + number(2.0 ** -int(info.nmant), dt) * low + number(float(info.tiny), dt)
    return -qnp.log(-qnp.log1p(-qnp.where(high >= 0.5, high, finer)))


def check_gumbel_mode(name: str, mode: Any) -> None:
    """Raise ValueError for what is no mode of `gumbel`."""
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"quire.random.{name}: unknown mode {mode!r}, expected 'low', 'high', 'highest' or None")


def _gumbel_of_64_bits(key: Any, shape: tuple[int, ...]) -> Array:
    """Gumbel numbers of uniform ones u of 64 bits, of which the smaller of u and 1 - u is a float32 with all its bits."""
    one, half, width = np.uint32(1), np.uint32(1 << 31), np.uint32(32)
    high, low = bits(key, (2, *shape), "uint32")
    below = high < half
    carry = ew.convert_element_type(low == np.uint32(0), dtypes.uint32)
    high, low = qnp.where(below, high, ~high + carry), qnp.where(below, low, ~low + one)
    zeros, more_zeros = ew.clz(high), ew.clz(low)
    no_high = zeros == width
    leading = qnp.where(no_high, low << more_zeros, (high << zeros) | (low >> (width - zeros)))
    exponent = np.uint32(126) - qnp.where(no_high, width + more_zeros, zeros)
    mantissa = (leading >> np.uint32(8)) & np.uint32((1 << 23) - 1)
    u = ew.bitcast_convert_type((exponent << np.uint32(23)) | mantissa, dtypes.float32)
    return -qnp.log(qnp.where(below, -qnp.log1p(-u), -qnp.log(u)))


@sampler
def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the Cauchy distribution. Follows `jax.random.cauchy`.

    >>> quire.random.cauchy(quire.random.key(0), (3,)).shape
    (3,)
    """
    dt = float_dtype("cauchy", dtype)
    u = uniform(key, shape_of("cauchy", shape), dt, float(ml_dtypes.finfo(dt).eps), 1.0)
    return qnp.tan(number(np.pi, dt) * (u - number(0.5, dt)))


@sampler
def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Lengths of vectors of three standard normal numbers. Follows `jax.random.maxwell`.

    >>> bool(quire.random.maxwell(quire.random.key(0), (3,)).min() > 0)
    True
    """
    dt = float_dtype("maxwell", dtype)
    x = normal(key, (*shape_of("maxwell", shape), 3), dt)
    return qnp.sqrt((x * x).sum(axis=-1))


@sampler
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Numbers whose distance to `loc`, divided by `scale`, is that of `maxwell`. Follows `jax.random.double_sided_maxwell`.

    Args:
        loc, scale: numbers or arrays.
        shape: comes before the common shape of loc and scale in the result's; the result has that shape if it is ().

    >>> quire.random.double_sided_maxwell(quire.random.key(0), 0.0, 1.0, (3,)).shape
    (3,)
    """
    dt = float_dtype("double_sided_maxwell", dtype)
    common, (loc, scale) = parameters("double_sided_maxwell", None, dt, loc=loc, scale=scale)
    shape = (*(shape_of("double_sided_maxwell", shape) or common), *common)
    lengths, signs = split_raw(key)
    return rademacher(signs, shape).astype(dt) * maxwell(lengths, shape, dt) * scale + loc


@sampler
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the Rayleigh distribution. Follows `jax.random.rayleigh`.

    >>> bool(quire.random.rayleigh(quire.random.key(0), 2.0, (3,)).min() > 0)
    True
    """
    dt = float_dtype("rayleigh", dtype)
    shape, (scale,) = parameters("rayleigh", shape, dt, scale=scale)
    return scale * qnp.sqrt(qnp.log(uniform(key, shape, dt)) * number(-2, dt))


@sampler
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the Pareto distribution with exponent b, at least 1. Follows `jax.random.pareto`.

    >>> bool(quire.random.pareto(quire.random.key(0), 3.0, (3,)).min() >= 1)
    True
    """
    dt = float_dtype("pareto", dtype)
    shape, (b,) = parameters("pareto", shape, dt, b=b)
    return qnp.exp(exponential(key, shape, dt) / b)


@sampler
def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Numbers of the Weibull distribution. Follows `jax.random.weibull_min`.

    >>> bool(quire.random.weibull_min(quire.random.key(0), 1.0, 2.0, (3,)).min() >= 0)
    True
    """
    dt = float_dtype("weibull_min", dtype)
    shape, (scale, concentration) = parameters("weibull_min", shape, dt, scale=scale, concentration=concentration)
    return qnp.power(-qnp.log1p(-uniform(key, shape, dt)), number(1, dt) / concentration) * scale


@sampler
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers of the triangular distribution on [left, right] with its peak at `mode`. Follows `jax.random.triangular`.

    >>> x = quire.random.triangular(quire.random.key(0), 1.0, 2.0, 4.0, (3,))
    >>> bool(((x >= 1) & (x <= 4)).all())
    True
    """
    dt = float_dtype("triangular", dtype)
    shape, (left, mode, right) = parameters("triangular", shape, dt, left=left, mode=mode, right=right)
    u = uniform(key, shape, dt)
    width, below, above = right - left, mode - left, right - mode
    return qnp.where(
        u < below / width, left + qnp.sqrt(width * below * u), right - qnp.sqrt(width * above * (number(1, dt) - u))
    )


@sampler
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the inverse Gaussian distribution of shape parameter 1. Follows `jax.random.wald`.

    The method is that of Michael, Schucany and Haas (1976).

    >>> bool(quire.random.wald(quire.random.key(0), 2.0, (3,)).min() > 0)
    True
    """
    dt = float_dtype("wald", dtype)
    shape, (mean,) = parameters("wald", shape, dt, mean=mean)
    normals, uniforms = split_raw(key)
    v, z = normal(normals, shape, dt), uniform(uniforms, shape, dt)
    y, mean2 = v * v, mean * mean
    root = qnp.sqrt(number(4, dt) * mean * y + mean2 * y * y)
    x = mean + mean2 * y / number(2, dt) - mean / number(2, dt) * root
    return qnp.where(z <= mean / (mean + x), x, mean2 / x)

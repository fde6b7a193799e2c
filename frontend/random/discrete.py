"""Discrete distributions: categorical, geometric, Poisson, binomial, multinomial."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew

from .. import lax
from .. import numpy as qnp
from ..arrays.operands import cast, ensure, promote_inexact
from .bits import uniform
from .continuous import gumbel, number
from .keys import dtype_of, float_dtype, int_dtype, parameters, sampler, shape_of, split, split_raw

Array = Any


@sampler
def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True, mode: str | None = None,
    *, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Random indices with probabilities softmax(logits) along an axis. Follows `jax.random.categorical`.

    Args:
        logits: logarithms of probabilities, up to a constant: an array of floats.
        shape: of the result; it ends with the shape of logits without the axis (or broadcasts with it), which it is
            if None. What comes before counts samples.
        replace: with False the samples are different indices (by the Gumbel top-k trick).
        mode: how Gumbel numbers are made: "low", "high", "highest" or None.

    Raises TypeError for logits in a list, ValueError for those that are no floats, shapes that do not fit, or more samples without
    replacement than categories.

    >>> quire.random.categorical(quire.random.key(0), np.array([0.0, -np.inf]), shape=(3,))
    Array([0, 0, 0], dtype=int32)
    """
    name = "quire.random.categorical"
    logits = ensure(name, logits, "logits")
    if not dtypes.is_float(logits.dtype):
        raise ValueError(
            f"{name}: logits must be floats, logarithms of probabilities, got {aval_of(logits).short()}: convert them by astype(float)"
        )
    if not -logits.ndim <= axis < logits.ndim:
        raise ValueError(f"{name}: axis {axis} is out of bounds for logits {aval_of(logits).short()}")
    axis %= logits.ndim
    categories = logits.shape[axis]
    batch = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    full = batch if shape is None else shape_of("categorical", shape)
    prefix, rest = full[: len(full) - len(batch)], full[len(full) - len(batch) :]
    try:
        fits = len(full) >= len(batch) and np.broadcast_shapes(batch, rest) == rest
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name}: the shape {full} must end with {batch}, the shape of the logits {aval_of(logits).short()} without "
            f"axis {axis}, or broadcast with it"
        )
    if replace:
        noise = gumbel(key, (*prefix, *rest[:axis], categories, *rest[axis:]), logits.dtype, mode)
        return qnp.argmax(noise + logits, axis=axis + len(prefix))
    count = math.prod(prefix)
    if count > categories:
        raise ValueError(f"{name}: {count} samples without replacement of {categories} categories")
    logits = qnp.broadcast_to(logits, (*rest[:axis], categories, *rest[axis:]))
    scores = qnp.moveaxis(gumbel(key, logits.shape, logits.dtype, mode) + logits, axis, -1)
    return qnp.moveaxis(lax.top_k(scores, count)[1], -1, 0).reshape(full)


@sampler
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """The numbers of trials until the first success of probability p. Follows `jax.random.geometric`.

    >>> bool(quire.random.geometric(quire.random.key(0), 0.5, (3,)).min() >= 1)
    True
    """
    dt = int_dtype("geometric", dtype)
    real = dtypes.canonicalize(dtypes.float64)
    shape, (p,) = parameters("geometric", shape, real, p=p)
    u = uniform(key, shape, real)
    return (qnp.floor(qnp.log(u) / qnp.log1p(-p)) + number(1, real)).astype(dt)


# -- rejection ------------------------------------------------------------------------------------------------------------


def _until_accepted(
    key: Array, shape: tuple[int, ...], dt: DType, limit: int,
    attempt: Callable[[Array, Array], tuple[Array, Array]],
) -> Array:  # fmt: skip
    """Values of a rejection sampler: ``attempt(u, v) -> (value, accepted)`` of two uniform arrays, repeated."""

    def step(carry: Any) -> Any:
        i, out, done, key = carry
        key, u_key, v_key = split_raw(key, 3)
        value, accepted = attempt(uniform(u_key, shape, dt), uniform(v_key, shape, dt))
        return i + 1, qnp.where(accepted, value, out), done | accepted, key

    def running(carry: Any) -> Any:
        return (~carry[2]).any() & (carry[0] < limit)

    start = (np.int32(0), qnp.full(shape, -1, dt), qnp.zeros(shape, bool), key)
    return lax.while_loop(running, step, start)[1]


_ITERATIONS = 2**31 - 1


def _poisson_small(key: Array, lam: Array, shape: tuple[int, ...], dt: DType) -> Array:
    """Knuth's method (The Art of Computer Programming, volume 2): uniforms are multiplied until they are below e^-lam."""

    def step(carry: Any) -> Any:
        i, k, key, log_product = carry
        key, now = split_raw(key)
        k = qnp.where(log_product > -lam, k + 1, k)
        return i + 1, k, key, log_product + qnp.log(uniform(now, shape, np.float32))

    def running(carry: Any) -> Any:
        return (carry[3] > -lam).any() & (carry[0] < _ITERATIONS)

    start = (np.int32(0), qnp.zeros(shape, dt), key, qnp.zeros(shape, np.float32))
    return lax.while_loop(running, step, start)[1] - np.asarray(1, dt)[()]


def _poisson_large(key: Array, lam: Array, shape: tuple[int, ...], dt: DType) -> Array:
    """Transformed rejection (PTRS; Hoermann, 1993)."""
    real = aval_of(lam).dtype
    log_lam = qnp.log(lam)
    b = 0.931 + 2.53 * qnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def attempt(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        shifted = 0.5 - abs(u)
        k = qnp.floor((2 * a / shifted + b) * u + lam + 0.43)
        s = qnp.log(v * inverse_alpha / (a / (shifted * shifted) + b))
        inside = (shifted >= 0.07) & (v <= v_r)
        refused = (k < 0) | ((shifted < 0.013) & (v > shifted))
        return k, inside | (~refused & (s <= -lam + k * log_lam - ew.lgamma(k + 1)))

    return _until_accepted(key, shape, real, _ITERATIONS, attempt).astype(dt)


@sampler
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers of the Poisson distribution of mean lam. Follows `jax.random.poisson`.

    Args:
        lam: the means, not negative; they broadcast to `shape`. -1 is returned for a NaN.
        dtype: an integer dtype.

    >>> quire.random.poisson(quire.random.key(0), 3.0, (3,)).dtype
    dtype('int32')
    """
    dt = int_dtype("poisson", dtype)
    real = dtypes.float32
    shape, (lam,) = parameters("poisson", shape, real, lam=lam)
    lam = qnp.asarray(lam)
    small = qnp.isnan(lam) | (lam < 10)
    few = _poisson_small(key, qnp.where(small, lam, number(0, real)), shape, dt)
    many = _poisson_large(key, qnp.where(small, number(1e5, real), lam), shape, dt)
    return qnp.where(lam == 0, np.asarray(0, dt)[()], qnp.where(small, few, many))


# -- binomial -------------------------------------------------------------------------------------------------------------

# ln k! minus Stirling's formula for k = 0 .. 9.
_STIRLING = tuple(
    math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)) for k in range(10)
)


def _stirling_tail(k: Array) -> Array:
    """What Stirling's formula for ln k! lacks, in the form of Hoermann's paper."""
    dt = aval_of(k).dtype
    table = qnp.asarray(np.asarray(_STIRLING, dt))
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return qnp.where(k <= 9, table[qnp.clip(k, 0, 9).astype(np.int32)], series)


def _binomial_small(key: Array, count: Array, p: Array, shape: tuple[int, ...], dt: DType) -> Array:
    """Inversion by the waiting times between successes, which are geometric (Devroye, 1986)."""
    log_q = qnp.log1p(-p)

    def step(carry: Any) -> Any:
        i, successes, waited, key = carry
        now, key = split_raw(key)
        successes = qnp.where(waited <= count, successes + 1, successes)
        return i + 1, successes, waited + qnp.ceil(qnp.log(uniform(now, shape, dt)) / log_q), key

    def running(carry: Any) -> Any:
        return (carry[2] <= count).any() & (carry[0] < _ITERATIONS)

    start = (np.int32(0), qnp.zeros(shape, dt), qnp.zeros(shape, dt), key)
    return lax.while_loop(running, step, start)[1] - number(1, dt)


def _binomial_large(key: Array, count: Array, p: Array, shape: tuple[int, ...], dt: DType) -> Array:
    """Transformed rejection with squeeze (BTRS; Hoermann, 1993)."""
    deviation = qnp.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = qnp.floor((count + 1) * p)

    def attempt(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        us = 0.5 - abs(u)
        inside = (us >= 0.07) & (v <= v_r)
        k = qnp.floor((2 * a / us + b) * u + c)
        refused = (k < 0) | (k > count)
        v = qnp.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * qnp.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * qnp.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * qnp.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m) + _stirling_tail(count - m) - _stirling_tail(k) - _stirling_tail(count - k)
        )  # fmt: skip
        return k, inside | (~refused & (v <= bound))

    return _until_accepted(key, shape, dt, _ITERATIONS, attempt)


@sampler
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The numbers of successes in n trials of probability p, as floats. Follows `jax.random.binomial`.

    Args:
        n, p: they broadcast to `shape`. NaN is returned for a negative or NaN n and for a p outside [0, 1].
        dtype: a float dtype.

    >>> x = quire.random.binomial(quire.random.key(0), 10, 0.3, (3,))
    >>> bool(((x >= 0) & (x <= 10)).all())
    True
    """
    result = dt = float_dtype("binomial", dtype)
    if dt.itemsize < 4:  # drawn as what the parameters are
        given = dtypes.promote_types(*(aval_of(x).dtype for x in (n, p)))
        dt = given if dtypes.is_float(given) else dtypes.float32
    shape, (n, p) = parameters("binomial", shape, dt, n=n, p=p)
    n, p = qnp.asarray(n), qnp.asarray(p)
    bad = qnp.isnan(n) | (n < 0) | ~((p >= 0) & (p <= 1))
    q = qnp.where(p < 0.5, p, 1 - p)
    small = bad | (n * q <= 10)
    trials = qnp.floor(n)
    # Elements of the other kind take part with numbers that end quickly.
    few = _binomial_small(
        key, qnp.where(small & ~bad, trials, -number(1, dt)), qnp.where(small & ~bad, q, number(0, dt)), shape, dt
    )
    many = _binomial_large(
        key, qnp.where(small, number(1e4, dt), trials), qnp.where(small, number(0.5, dt), q), shape, dt
    )
    out = qnp.where(small, few, many)
    out = qnp.where((q == 0) | (trials == 0), number(0, dt), out)
    return qnp.where(bad, number(np.nan, dt), qnp.where(p < 0.5, out, trials - out)).astype(result)


@sampler
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1
) -> Array:  # fmt: skip
    """How often each category is met in n trials: one binomial number after the other. Follows `jax.random.multinomial`.

    Args:
        n: trials, (...).
        p: the probabilities of the categories, (..., k).
        shape: of the result, (..., k); the common shape if None.
        dtype: of the result, of floats or integers; the default float if None. Counts are made in that of n and p.
        unroll: steps of the loop over categories that are written out at a time.

    Raises ValueError for a 0-dimensional p, shapes that do not fit or another dtype, TypeError for lists and complex numbers.

    >>> x = quire.random.multinomial(quire.random.key(0), 10, np.array([0.2, 0.3, 0.5]))
    >>> x.shape, float(x.sum())
    ((3,), 10.0)
    """
    numbers = (*dtypes.FLOATS, *dtypes.SIGNED, *dtypes.UNSIGNED)
    result = dtype_of("multinomial", dtype, dtypes.float64, numbers, "a float or integer")
    n, p = promote_inexact(ensure("quire.random.multinomial", n, "n"), ensure("quire.random.multinomial", p, "p"))
    dt = aval_of(p).dtype
    if dtypes.is_complex(dt):
        raise TypeError(
            f"quire.random.multinomial: n and p must be real, got {aval_of(n).short()} and {aval_of(p).short()}"
        )
    n, p = cast(n, dt), cast(p, dt)
    if p.ndim < 1:
        raise ValueError(f"quire.random.multinomial: p must be at least 1-dimensional, got {aval_of(p).short()}")
    k = p.shape[-1]
    wanted: Sequence[int] | None = None
    if shape is not None:
        wanted = shape_of("multinomial", shape)
    try:
        full = np.broadcast_shapes((*n.shape, k), p.shape)
        if wanted is not None and np.broadcast_shapes(full, wanted) != tuple(wanted):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"quire.random.multinomial: n {aval_of(n).short()} and p {aval_of(p).short()} do not fit"
            + ("" if wanted is None else f" the shape {tuple(wanted)}")
        ) from None
    full = full if wanted is None else tuple(wanted)
    n, p = qnp.broadcast_to(n, full[:-1]), qnp.broadcast_to(p, full)
    left = qnp.cumsum(p[..., ::-1], axis=-1)[..., ::-1]
    shares = qnp.where(left == 0, number(0, dt), p / qnp.where(left == 0, number(1, dt), left))

    def step(remainder: Array, given: Any) -> Any:
        share, now = given
        count = binomial(now, remainder, qnp.clip(share, 0, 1), dtype=dt)
        return remainder - count, count

    _, counts = lax.scan(step, n, (qnp.moveaxis(shares, -1, 0), split(key, k)), unroll=unroll)
    return qnp.moveaxis(counts, 0, -1).astype(result)

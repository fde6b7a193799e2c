"""Softmax, logsumexp and their relatives, standardize, one_hot."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.config import config

from .. import lax
from .. import numpy as jnp
from ..arrays.operands import Value, array_of, as_int, common_inexact, inexact_of, no_bool, one_of
from ..lax import stop_gradient
from ..transforms.custom_derivatives import custom_jvp

Axis = int | Sequence[int] | None


def _mask(function: str, where: Any) -> Value | None:
    return None if where is None else array_of(function, where, "where").astype(bool)


# -- softmax ----------------------------------------------------------------------------------------------------------------


def _softmax_value(axis: Axis, x: Value, where: Value | None) -> Value:
    highest = stop_gradient(jnp.max(x, axis, where=where, initial=-jnp.inf, keepdims=True))
    if where is not None:
        x = jnp.where(where, x, -jnp.inf)
    power = jnp.exp(x - highest)
    out = power / jnp.sum(power, axis, where=where, keepdims=True)
    return out if where is None else jnp.where(where, out, 0)


def _tuple(axis: Any) -> Axis:
    if isinstance(axis, np.ndarray) and not axis.ndim:
        return int(axis)
    return axis if axis is None or not isinstance(axis, Sequence | np.ndarray) else tuple(axis)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _softmax(axis: Axis, x: Value, where: Value | None) -> Value:
    return _softmax_value(axis, x, where)


@_softmax.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> tuple[Value, Value]:
    x, where = primals
    t = tangents[0]
    out = _softmax(axis, x, where)
    # One pass over the result, and no derivative of the maximum or the quotient.
    if where is None:
        return out, out * (t - jnp.sum(out * t, axis, keepdims=True))
    # Elements that do not count have no part in it, also where their tangents are NaN.
    t = jnp.where(where, t, 0)
    return out, jnp.where(where, out * (t - jnp.sum(out * t, axis, keepdims=True)), 0)


def _logits(function: str, x: Any, where: Any) -> Value:
    """The argument as floats: bools only beside a mask, whose -inf makes floats of them."""
    return inexact_of(function, no_bool(function, x) if where is None else x)


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Value:
    """exp(x) over its sum along some axes: positive numbers whose sum is 1.

    Args:
        x: a real array; integers become the default float, and so do bools where `where` is given.
        axis: an axis, several, or None for all.
        where: which elements count; the others become 0.

    Follows `jax.nn.softmax`.

    >>> quire.nn.softmax(quire.numpy.array([0., 0., 1000.]))
    Array([0., 0., 1.], dtype=float32)
    """
    x = _logits("quire.nn.softmax", x, where)
    return _softmax(_tuple(axis), x, _mask("quire.nn.softmax", where))


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Value:
    """The logarithm of `softmax`, without underflow; -inf where `where` is false. Follows `jax.nn.log_softmax`.

    >>> quire.nn.log_softmax(quire.numpy.array([0., 1000.]))
    Array([-1000.,     0.], dtype=float32)
    """
    x = _logits("quire.nn.log_softmax", x, where)
    mask = _mask("quire.nn.log_softmax", where)
    axis = _tuple(axis)
    highest = jnp.max(x, axis, where=mask, initial=-jnp.inf, keepdims=True)
    if mask is not None:
        x = jnp.where(mask, x, -jnp.inf)
    shifted = x - stop_gradient(highest)
    out = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, where=mask, keepdims=True))
    return out if mask is None else jnp.where(mask, out, -jnp.inf)


# -- logsumexp --------------------------------------------------------------------------------------------------------------


def logsumexp(
    a: Any, axis: Axis = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))) over some axes, without overflow.

    Args:
        a: an array. axis: an axis, several, or None for all.
        b: factors that broadcast to a's shape; they may be negative or 0.
        keepdims: whether the reduced dimensions stay, with size 1.
        return_sign: also return the sign of the sum, and the logarithm of its absolute value; without it a negative sum
            gives NaN.
        where: which elements count.

    Follows `jax.nn.logsumexp` and `scipy.special.logsumexp`.

    >>> quire.nn.logsumexp(quire.numpy.array([1000., 1000.])).round(2)
    Array(1000.69, dtype=float32)
    """
    return logsumexp_as("quire.nn.logsumexp", a, axis, b, keepdims, return_sign, where)


def logsumexp_as(
    function: str, a: Any, axis: Axis, b: Any, keepdims: bool, return_sign: bool, where: Any
) -> Any:  # fmt: skip
    """`logsumexp` under another name: quire.scipy.special has it too."""
    if b is None:
        (x,) = common_inexact(function, a=a)
        factors = None
    else:
        x, factors = common_inexact(function, a=a, b=b)
        x, factors = jnp.broadcast_arrays(x, factors)
        x = jnp.where(factors != 0, x, -jnp.inf)
    mask = _mask(function, where)
    axis = _tuple(axis)
    initial = None if mask is None and x.size else -jnp.inf
    highest = jnp.max(x.real, axis, where=mask, initial=initial, keepdims=True)
    highest = stop_gradient(jnp.where(jnp.isfinite(highest), highest, jnp.zeros_like(highest)))
    power = jnp.exp((x if mask is None else jnp.where(mask, x, -jnp.inf)) - highest.astype(x.dtype))
    if factors is not None:
        power = factors * power
    total = jnp.sum(power, axis, where=mask, keepdims=True)
    sign = jnp.sign(total)
    if return_sign or not dtypes.is_complex(x.dtype):
        size = jnp.log(jnp.abs(total)) + highest
        if not return_sign and factors is not None:
            size = jnp.where(sign < 0, jnp.nan, size)
        out = size
    else:
        out = jnp.log(total) + highest.astype(x.dtype)
    if not keepdims:
        dropped = tuple(range(x.ndim)) if axis is None else axis
        out, sign = jnp.squeeze(out, dropped), jnp.squeeze(sign, dropped)
    return (out, sign) if return_sign else out


def logmeanexp(x: Any, axis: Axis = None, where: Any = None, keepdims: bool = False) -> Value:
    """log(mean(exp(x))) over some axes, without overflow. Follows `jax.nn.logmeanexp`.

    >>> quire.nn.logmeanexp(quire.numpy.array([1000., 1000.])).item()
    1000.0
    """
    x = inexact_of("quire.nn.logmeanexp", x)
    total = logsumexp_as("quire.nn.logmeanexp", x, axis, None, keepdims, False, where)
    counted = jnp.ones(x.shape, x.dtype)
    number = jnp.sum(counted, _tuple(axis), where=_mask("quire.nn.logmeanexp", where), keepdims=keepdims)
    return total - jnp.log(number)


# -- standardize, one_hot -----------------------------------------------------------------------------------------------------


def standardize(
    x: Any, axis: Axis = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None, *,
    algorithm: str = "fast",
) -> Value:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon), the mean and the variance being those over some axes.

    Args:
        x: an array. axis: an axis, several, or None for all.
        mean, variance: used instead of those of x; they broadcast to x's shape.
        epsilon: keeps the quotient finite.
        where: which elements count for the mean and the variance.
        algorithm: the variance is "fast", mean(x**2) - mean(x)**2 (never below 0), or "stable", mean((x - mean)**2).

    Follows `jax.nn.standardize`.

    >>> quire.nn.standardize(quire.numpy.array([1., 3.]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    name = "quire.nn.standardize"
    x = inexact_of(name, x)
    mask = _mask(name, where)
    one_of(name, algorithm, "algorithm", ("fast", "stable"))
    axis = _tuple(axis)
    center = jnp.mean(x, axis, keepdims=True, where=mask) if mean is None else array_of(name, mean, "mean")
    if variance is not None:
        spread = array_of(name, variance, "variance")
    elif algorithm == "stable":
        spread = jnp.mean(jnp.abs(x - center) ** 2, axis, keepdims=True, where=mask)
    else:
        spread = jnp.mean(_size_squared(x), axis, keepdims=True, where=mask) - _size_squared(center)
        spread = jnp.maximum(spread, 0)
    return (x - center) * lax.rsqrt(spread + epsilon)


def _size_squared(x: Value) -> Value:
    return jnp.square(x.real) + jnp.square(x.imag) if dtypes.is_complex(x.dtype) else jnp.square(x)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Value:
    """Each integer as a vector with 1 at that position and 0 elsewhere; only zeros for an integer out of range.

    Args:
        x: an array of integers.
        num_classes: the size of the new dimension, known when tracing.
        dtype: that of the result; the default float for None.
        axis: where the new dimension comes in the result; or the name of an axis of `vmap`, over which the classes
            are distributed.

    Raises:
        ValueError: `axis` is out of bounds for the result.

    Follows `jax.nn.one_hot`.

    >>> quire.nn.one_hot(quire.numpy.array([0, 2, 5]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    name = "quire.nn.one_hot"
    x = array_of(name, x)
    n = as_int(name, num_classes, "num_classes")
    wanted = dtype if dtype is not None else (np.float64 if config.options.enable_x64 else np.float32)
    if not isinstance(axis, int | np.integer):
        return _one_hot_of_named_axis(name, x, n, wanted, axis)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise ValueError(f"{name}: axis {axis} is out of bounds for a result of dimension {x.ndim + 1}")
    position = int(axis) % (x.ndim + 1)
    wide = jnp.expand_dims(x, position)
    shape = (*x.shape[:position], n, *x.shape[position:])
    classes = lax.broadcasted_iota(_index_dtype(x), shape, position)
    return (wide == classes).astype(wanted)


def _index_dtype(x: Value) -> Any:
    return np.int32 if dtypes.is_bool(x.dtype) else x.dtype


def _one_hot_of_named_axis(name: str, x: Value, n: int, dtype: Any, axis: Any) -> Value:
    size = lax.axis_size(axis)
    if size != n:
        raise ValueError(f"{name}: num_classes {n} must be the size of axis {axis!r}, {size}")
    return (x == lax.axis_index(axis).astype(_index_dtype(x))).astype(dtype)


__all__ = [
    "log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize",
]  # fmt: skip

"""Activation functions, with the values and the derivatives at kinks of `jax.nn`."""

from __future__ import annotations

import math
from typing import Any

from quire.ir import dtypes
from quire.ir.tracing import Tracer

from .. import numpy as jnp
from ..arrays.operands import Value, array_of, as_axis, cast, common_inexact, float_only, inexact_of, no_bool, real_only
from ..lax import erfc, logistic
from ..numpy import tanh as tanh
from ..transforms.custom_derivatives import custom_jvp

# Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _inexact_weak_of_bool(function: str, x: Any) -> Value:
    """An argument as a float or complex array: bools beside a number of Python, which these functions add, are of weak type."""
    x = array_of(function, x)
    return inexact_of(function, x, weak=dtypes.is_bool(x.aval.dtype))


def identity(x: Any) -> Value:
    """x itself, as an array. Follows `jax.nn.identity`.

    >>> quire.nn.identity(2.0).item()
    2.0
    """
    return jnp.asarray(array_of("quire.nn.identity", x))


# -- rectifiers -----------------------------------------------------------------------------------------------------------


@custom_jvp
def _relu(x: Value) -> Value:
    return jnp.maximum(x, 0)


def _relu_tangent(t: Value, ans: Value, x: Value) -> Value:
    return jnp.where(x > 0, t, jnp.zeros_like(t))


_relu.defjvps(_relu_tangent)


def relu(x: Any) -> Value:
    """max(x, 0), elementwise; the derivative at 0 is 0.

    x is an array of any real dtype, and the result has it. Follows `jax.nn.relu`.

    >>> quire.nn.relu(quire.numpy.array([-1., 0., 2.]))
    Array([0., 0., 2.], dtype=float32)
    >>> quire.grad(quire.nn.relu)(0.0).item()
    0.0
    """
    x = array_of("quire.nn.relu", x)
    return _relu(x) if isinstance(x, Tracer) else _relu.fun(x)


@custom_jvp
def _relu6(x: Value) -> Value:
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


def _relu6_tangent(t: Value, ans: Value, x: Value) -> Value:
    return jnp.where((x > 0) & (x < 6), t, jnp.zeros_like(t))


_relu6.defjvps(_relu6_tangent)


def relu6(x: Any) -> Value:
    """min(max(x, 0), 6), elementwise; the derivative at 0 and 6 is 0. Follows `jax.nn.relu6`.

    >>> quire.nn.relu6(quire.numpy.array([-1., 2., 9.]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = array_of("quire.nn.relu6", x)
    return _relu6(x) if isinstance(x, Tracer) else _relu6.fun(x)


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Value:
    """x where x >= 0, negative_slope * x elsewhere. Follows `jax.nn.leaky_relu`.

    >>> quire.nn.leaky_relu(quire.numpy.array([-2., 3.]), 0.5)
    Array([-1.,  3.], dtype=float32)
    """
    x = array_of("quire.nn.leaky_relu", x, "x")
    slope = array_of("quire.nn.leaky_relu", negative_slope, "negative_slope")
    return jnp.where(x >= 0, x, slope * x)


# -- exponential units ----------------------------------------------------------------------------------------------------


def _elu(x: Value, alpha: Any) -> Value:
    positive = x > 0
    # The branch not taken must not overflow: its derivative would be NaN.
    return jnp.where(positive, x, alpha * jnp.expm1(jnp.where(positive, 0.0, x)))


def elu(x: Any, alpha: Any = 1.0) -> Value:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere. Follows `jax.nn.elu`.

    >>> quire.nn.elu(quire.numpy.array([-1., 2.]))
    Array([-0.63212055,  2.        ], dtype=float32)
    """
    return _elu(inexact_of("quire.nn.elu", x, weak=True), array_of("quire.nn.elu", alpha, "alpha"))


def selu(x: Any) -> Value:
    """The scaled `elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017). Follows `jax.nn.selu`.

    >>> quire.nn.selu(quire.numpy.array([-1., 1.]))
    Array([-1.1113307,  1.050701 ], dtype=float32)
    """
    return _SELU_SCALE * _elu(inexact_of("quire.nn.selu", x, weak=True), _SELU_ALPHA)


def celu(x: Any, alpha: Any = 1.0) -> Value:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1), whose derivative is continuous. Follows `jax.nn.celu`.

    >>> quire.nn.celu(quire.numpy.array([-1., 2.]), 2.0)
    Array([-0.78693867,  2.        ], dtype=float32)
    """
    x = inexact_of("quire.nn.celu", x, weak=True)
    alpha = array_of("quire.nn.celu", alpha, "alpha")
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


# -- sigmoids and their relatives -----------------------------------------------------------------------------------------


def sigmoid(x: Any) -> Value:
    """1 / (1 + exp(-x)). Follows `jax.nn.sigmoid`.

    >>> quire.nn.sigmoid(quire.numpy.array([0., 2.]))
    Array([0.5      , 0.8807971], dtype=float32)
    """
    return logistic(float_only("quire.nn.sigmoid", x))


def silu(x: Any) -> Value:
    """x * sigmoid(x); `swish` is the same function. Follows `jax.nn.silu`.

    >>> quire.nn.silu(quire.numpy.array([0., 2.]))
    Array([0.       , 1.7615942], dtype=float32)
    """
    x = float_only("quire.nn.silu", x)
    return x * logistic(x)


swish = silu


def _softplus(x: Value) -> Value:
    return jnp.logaddexp(x, 0.0)


def softplus(x: Any) -> Value:
    """log(1 + exp(x)), without overflow. Follows `jax.nn.softplus`.

    >>> quire.nn.softplus(quire.numpy.array([0., 100.]))
    Array([  0.6931472, 100.       ], dtype=float32)
    """
    return _softplus(_inexact_weak_of_bool("quire.nn.softplus", x))


def log_sigmoid(x: Any) -> Value:
    """log(sigmoid(x)), without underflow. Follows `jax.nn.log_sigmoid`.

    >>> quire.nn.log_sigmoid(quire.numpy.array([0., -100.]))
    Array([  -0.6931472, -100.       ], dtype=float32)
    """
    return -_softplus(-inexact_of("quire.nn.log_sigmoid", no_bool("quire.nn.log_sigmoid", x)))


def mish(x: Any) -> Value:
    """x * tanh(softplus(x)) (Misra, 2019). Follows `jax.nn.mish`.

    >>> quire.nn.mish(quire.numpy.array([0., 1.]))
    Array([0.       , 0.8650984], dtype=float32)
    """
    x = _inexact_weak_of_bool("quire.nn.mish", x)
    return x * jnp.tanh(_softplus(x))


def gelu(x: Any, approximate: bool = True) -> Value:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016).

    Args:
        x: a real array.
        approximate: True for the formula with tanh, False for the exact function.

    Follows `jax.nn.gelu`.

    >>> quire.nn.gelu(quire.numpy.array([0., 1.]), approximate=False)
    Array([0.       , 0.8413447], dtype=float32)
    """
    x = inexact_of("quire.nn.gelu", x)
    x = cast(x, x.aval.dtype)  # JAX's factors have a dtype, so its result is never of weak type
    if approximate:
        return x * (0.5 * (1.0 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x)))))
    return 0.5 * x * erfc(-x * math.sqrt(0.5))


def glu(x: Any, axis: int = -1) -> Value:
    """The first half of x along an axis, gated by the sigmoid of the second half (Dauphin et al., 2017).

    Args:
        x: a real array. axis: an axis of even size; its size in the result is half of that.

    Raises:
        ValueError: the size is odd.

    Follows `jax.nn.glu`.

    >>> quire.nn.glu(quire.numpy.array([3., 5., 0., 100.]))
    Array([1.5, 5. ], dtype=float32)
    """
    x = float_only("quire.nn.glu", x)
    a = as_axis("quire.nn.glu", axis, x.ndim)
    if x.shape[a] % 2:
        raise ValueError(f"quire.nn.glu: axis {axis} of {x.aval.short()} must have an even size")
    left, right = jnp.split(x, 2, axis=a)
    return left * logistic(right)


# -- piecewise and algebraic functions ------------------------------------------------------------------------------------


def soft_sign(x: Any) -> Value:
    """x / (1 + abs(x)). Follows `jax.nn.soft_sign`.

    >>> quire.nn.soft_sign(quire.numpy.array([-1., 3.]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    x = _inexact_weak_of_bool("quire.nn.soft_sign", x)
    return x / (jnp.abs(x) + 1)


def squareplus(x: Any, b: Any = 4) -> Value:
    """(x + sqrt(x**2 + b)) / 2, a smooth rectifier (Barron, 2021). Follows `jax.nn.squareplus`.

    >>> quire.nn.squareplus(quire.numpy.array([0., 1.5]))
    Array([1., 2.], dtype=float32)
    """
    x = array_of("quire.nn.squareplus", x)
    if dtypes.is_bool(x.aval.dtype):
        x = cast(x, dtypes.int32)  # the square of a bool is an integer
    x, b = common_inexact("quire.nn.squareplus", x=x, b=b)
    return 0.5 * (x + jnp.sqrt(jnp.square(x) + b))


def sparse_plus(x: Any) -> Value:
    """0 below -1, x above 1, (x + 1)**2 / 4 between. Follows `jax.nn.sparse_plus`.

    >>> quire.nn.sparse_plus(quire.numpy.array([-2., 0., 3.]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    x = inexact_of("quire.nn.sparse_plus", x, weak=True)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def sparse_sigmoid(x: Any) -> Value:
    """The derivative of `sparse_plus`: 0 below -1, 1 above 1, (x + 1) / 2 between. Follows `jax.nn.sparse_sigmoid`.

    >>> quire.nn.sparse_sigmoid(quire.numpy.array([-2., 0., 3.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * jnp.clip(inexact_of("quire.nn.sparse_sigmoid", x, weak=True) + 1.0, 0.0, 2.0)


def hard_tanh(x: Any) -> Value:
    """x limited to [-1, 1]; the derivative at the ends is 1. Follows `jax.nn.hard_tanh`.

    >>> quire.nn.hard_tanh(quire.numpy.array([-3., 0.5, 3.]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = array_of("quire.nn.hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def hard_sigmoid(x: Any) -> Value:
    """relu6(x + 3) / 6. Follows `jax.nn.hard_sigmoid`.

    >>> quire.nn.hard_sigmoid(quire.numpy.array([-4., 0., 3.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    # Not converted before: to add a number without a width gives integers of 32 bits the default float dtype.
    return _relu6(array_of("quire.nn.hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: Any) -> Value:
    """x * hard_sigmoid(x); `hard_swish` is the same function. Follows `jax.nn.hard_silu`.

    >>> quire.nn.hard_silu(quire.numpy.array([-4., 1., 3.]))
    Array([-0.       ,  0.6666667,  3.       ], dtype=float32)
    """
    x = array_of("quire.nn.hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@custom_jvp
def _log1mexp(x: Value) -> Value:
    # Mächler, "Accurately Computing log(1 - exp(-|a|))" (2012).
    small = x < math.log(2.0)
    return jnp.where(small, jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


def _log1mexp_tangent(t: Value, ans: Value, x: Value) -> Value:
    return t / jnp.expm1(x)


_log1mexp.defjvps(_log1mexp_tangent)


def log1mexp(x: Any) -> Value:
    """log(1 - exp(-x)) for x > 0, accurate near 0 and for large x; NaN for x < 0. Follows `jax.nn.log1mexp`.

    >>> quire.nn.log1mexp(quire.numpy.array([1e-6, 50.]))
    Array([-1.3815511e+01, -1.9287499e-22], dtype=float32)
    """
    return _log1mexp(real_only("quire.nn.log1mexp", inexact_of("quire.nn.log1mexp", no_bool("quire.nn.log1mexp", x))))


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
    "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip

"""Initial values of weights: functions that return an initializer, itself a function ``init(key, shape, dtype)``.

The names, arguments and (with the same key) values are those of `jax.nn.initializers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType

from .. import lax, random
from .. import numpy as jnp
from ..absent_names import module_getattr
from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import Value, as_shape, float_dtype, one_of

Axes = int | Sequence[int]
_MODULE = "quire.nn.initializers"


class Initializer(Protocol):
    """The type of an initializer: a function of a key, a shape and a dtype that returns an array of these."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Value: ...


def _initializer(name: str, make: Callable[[Any, tuple[int, ...], DType], Value], dtype: Any) -> Initializer:
    """An initializer from a function of a key, a checked shape and a checked dtype."""
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Value:
        dt = float_dtype(f"{_MODULE}.{name}", default if dtype is None else dtype)
        return make(key, as_shape(f"quire.nn.initializers.{name}", shape), dt)

    init.__name__ = init.__qualname__ = name
    return takes_out_sharding(init)


def _real(dt: DType) -> DType:
    return dtypes.real_dtype(dt)


# -- constants --------------------------------------------------------------------------------------------------------------


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Value:
    """An initializer: zeros; the key is not used. Follows `jax.nn.initializers.zeros`.

    >>> quire.nn.initializers.zeros(quire.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return constant(0)(key, shape, dtype, out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Value:
    """An initializer: ones; the key is not used. Follows `jax.nn.initializers.ones`.

    >>> quire.nn.initializers.ones(quire.random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return constant(1)(key, shape, dtype, out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that gives `value`, which broadcasts to the shape. Follows `jax.nn.initializers.constant`.

    >>> quire.nn.initializers.constant(-7.)(quire.random.key(0), (2,))
    Array([-7., -7.], dtype=float32)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Value:
        # The only initializers that give integers too.
        return jnp.full(shape, value, dtype=float_dtype(f"{_MODULE}.constant", None) if dtype is None else dtype)

    return takes_out_sharding(init)


# -- simple distributions -----------------------------------------------------------------------------------------------------


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer with numbers uniform in [0, scale). Follows `jax.nn.initializers.uniform`.

    >>> x = quire.nn.initializers.uniform(10.0)(quire.random.key(0), (100,))
    >>> bool(((x >= 0) & (x < 10)).all())
    True
    """

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        return random.uniform(key, shape, dt) * jnp.array(scale, dt)

    return _initializer("uniform", make, dtype)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer with normal numbers of mean 0. Follows `jax.nn.initializers.normal`.

    >>> quire.nn.initializers.normal(5.0)(quire.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        return random.normal(key, shape, dt) * jnp.array(stddev, dt)

    return _initializer("normal", make, dtype)


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """An initializer with normal numbers of mean 0 within [lower, upper] deviations.

    Follows `jax.nn.initializers.truncated_normal`.

    >>> x = quire.nn.initializers.truncated_normal(1.0)(quire.random.key(0), (100,))
    >>> bool((abs(x) <= 2).all())
    True
    """

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        return _truncated(key, lower, upper, shape, dt) * jnp.array(stddev, dt)

    return _initializer("truncated_normal", make, dtype)


def _truncated(key: Any, lower: Any, upper: Any, shape: tuple[int, ...], dt: DType) -> Value:
    """Standard normal numbers within (lower, upper), by inversion of the distribution function."""
    root = jnp.array(math.sqrt(2.0), dt)
    low, high = jnp.array(lower, dt), jnp.array(upper, dt)
    u = random.uniform(key, shape, dt, minval=lax.erf(low / root), maxval=lax.erf(high / root))
    inside = jnp.nextafter(low, jnp.array(np.inf, dt)), jnp.nextafter(high, jnp.array(-np.inf, dt))
    return jnp.clip(root * lax.erf_inv(u), *inside)


def _turned(radius: Value, key: Any, shape: tuple[int, ...], dt: DType) -> Value:
    """Complex numbers of these absolute values and of uniform angles."""
    angle = (2 * math.pi) * random.uniform(key, shape, _real(dt)).astype(dt)
    return radius.astype(dt) * jnp.exp(1j * angle)


def _complex_uniform(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
    """Complex numbers uniform on the disk of radius sqrt(2): their variance is 1."""
    key_radius, key_angle = random.split(key)
    return _turned(jnp.sqrt(2 * random.uniform(key_radius, shape, _real(dt))), key_angle, shape, dt)


def _complex_truncated(key: Any, upper: float, shape: tuple[int, ...], dt: DType) -> Value:
    """Complex normal numbers of absolute value at most `upper`."""
    key_radius, key_angle = random.split(key)
    u = (1 - math.exp(-(upper**2))) * random.uniform(key_radius, shape, _real(dt))
    return _turned(jnp.sqrt(-jnp.log(1 - u)), key_angle, shape, dt)


# -- scaled by the numbers of inputs and outputs ------------------------------------------------------------------------------

_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


def _axes_size(name: str, shape: tuple[int, ...], axes: Axes) -> int:
    chosen = (axes,) if isinstance(axes, int | np.integer) else tuple(axes)
    for a in chosen:
        if not -len(shape) <= a < len(shape):
            if len(shape) <= 1:
                raise ValueError(
                    f"{_MODULE}.{name}: the numbers of inputs and outputs of weights of shape {shape} are not known: it needs at "
                    "least 2 dimensions, or other axes (in_axis=(), out_axis=-1)"
                )
            raise ValueError(f"{_MODULE}.{name}: axis {a} is out of bounds for weights of shape {shape}")
    return math.prod(shape[a] for a in chosen)


def _fans(name: str, shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs each output has, and how many outputs each input."""
    inputs, outputs, batch = (_axes_size(name, shape, a) for a in (in_axis, out_axis, batch_axis))
    receptive = math.prod(shape) / inputs / outputs / batch
    return inputs * receptive, outputs * receptive


def variance_scaling(
    scale: Any, mode: str, distribution: str, in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:  # fmt: skip
    """An initializer with numbers of variance scale / n, n following from the shape.

    Args:
        scale: a positive number.
        mode: n is the number of inputs ("fan_in"), of outputs ("fan_out"), their mean ("fan_avg") or geometric mean
            ("fan_geo_avg").
        distribution: "truncated_normal", "normal" or "uniform", all of mean 0.
        in_axis, out_axis, batch_axis: the axes of inputs, of outputs, and those that are neither; all others are the
            receptive field of a convolution.

    Raises:
        ValueError: another mode or distribution, or a shape of less than 2 dimensions.

    Follows `jax.nn.initializers.variance_scaling`.

    >>> init = quire.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> init(quire.random.key(0), (3, 2)).shape
    (3, 2)
    """
    return _scaling("variance_scaling", scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)


def _scaling(
    name: str, scale: Any, mode: str, distribution: str, in_axis: Axes, out_axis: Axes, batch_axis: Axes, dtype: Any
) -> Initializer:
    one_of(f"{_MODULE}.{name}", mode, "mode", _MODES)
    one_of(f"{_MODULE}.{name}", distribution, "distribution", _DISTRIBUTIONS)

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        fan_in, fan_out = _fans(name, shape, in_axis, out_axis, batch_axis)
        n = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": (fan_in * fan_out) ** 0.5,
        }[mode]
        return _distributed(key, distribution, jnp.array(scale / n, dt), shape, dt)

    return _initializer(name, make, dtype)


def _distributed(key: Any, distribution: str, variance: Value, shape: tuple[int, ...], dt: DType) -> Value:
    is_complex = dtypes.is_complex(dt)
    if distribution == "normal":
        return random.normal(key, shape, dt) * jnp.sqrt(variance)
    if distribution == "uniform":
        if is_complex:
            return _complex_uniform(key, shape, dt) * jnp.sqrt(variance)
        return random.uniform(key, shape, dt, -1) * jnp.sqrt(3 * variance)
    # What the truncation leaves of the deviation: for real numbers within 2, and for complex ones of size up to 2.
    if is_complex:
        return _complex_truncated(key, 2, shape, dt) * (jnp.sqrt(variance) / jnp.array(0.95311164380491208, dt))
    return _truncated(key, -2, 2, shape, dt) * (jnp.sqrt(variance) / jnp.array(0.87962566103423978, dt))


def _family(name: str, scale: float, mode: str, distribution: str, doc: str) -> Any:
    def make(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
        return _scaling(name, scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{doc}

    Args: as those of `variance_scaling`, with scale {scale:g}, mode {mode!r} and distribution {distribution!r}.

    Follows `jax.nn.initializers.{name}`.

    >>> quire.nn.initializers.{name}()(quire.random.key(0), (3, 2)).shape
    (3, 2)
    """
    return make


glorot_uniform = _family(
    "glorot_uniform", 1.0, "fan_avg", "uniform", "The initializer of Glorot and Bengio (2010), uniform."
)
glorot_normal = _family(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "The initializer of Glorot and Bengio (2010), normal."
)
lecun_uniform = _family("lecun_uniform", 1.0, "fan_in", "uniform", "The initializer of LeCun (1998), uniform.")
lecun_normal = _family("lecun_normal", 1.0, "fan_in", "truncated_normal", "The initializer of LeCun (1998), normal.")
he_uniform = _family("he_uniform", 2.0, "fan_in", "uniform", "The initializer of He et al. (2015), uniform.")
he_normal = _family("he_normal", 2.0, "fan_in", "truncated_normal", "The initializer of He et al. (2015), normal.")
xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


# -- orthogonal -----------------------------------------------------------------------------------------------------------------


def _orthogonal_matrix(key: Any, rows: int, columns: int, dt: DType) -> Value:
    """A matrix with orthonormal columns (rows if there are fewer), uniform among them (Mezzadri, 2007)."""
    tall = (rows, columns) if rows > columns else (columns, rows)
    q, r = lax.linalg.qr(random.normal(key, tall, dt), full_matrices=False)
    q = q * jnp.sign(jnp.diagonal(r))[None, :]
    return q.T if rows <= columns else q  # the vectors that QR makes are the rows unless there are more rows


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer with orthogonal matrices, uniform among all.

    Args:
        scale: a factor of the result.
        column_axis: the axis whose slices are the orthonormal vectors (Saxe et al., 2013); the others are flattened.

    Raises:
        ValueError: a shape of less than 2 dimensions.

    Follows `jax.nn.initializers.orthogonal`.

    >>> q = quire.nn.initializers.orthogonal()(quire.random.key(0), (3, 3))
    >>> bool(quire.numpy.allclose(q @ q.T, quire.numpy.eye(3), atol=1e-5))
    True
    """

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        if len(shape) < 2:
            raise ValueError(f"{_MODULE}.orthogonal: the shape must have at least 2 dimensions, got {shape}")
        n = shape[column_axis]
        q = _orthogonal_matrix(key, n, math.prod(shape) // n if n else 0, dt)
        others = tuple(np.delete(shape, column_axis).tolist())
        return jnp.array(scale, dt) * jnp.moveaxis(q.reshape(n, *others), 0, column_axis)

    return _initializer("orthogonal", make, dtype)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolutions: zeros, and an orthogonal matrix in the middle (Xiao et al., 2018).

    The shape has 3 to 5 dimensions, of which the last two are inputs and outputs, not fewer outputs than inputs.

    Raises:
        ValueError: another number of dimensions, or fewer outputs than inputs.

    Follows `jax.nn.initializers.delta_orthogonal`.

    >>> w = quire.nn.initializers.delta_orthogonal()(quire.random.key(0), (3, 2, 2))
    >>> float(abs(w[0]).max()), round(float(abs(quire.numpy.vdot(w[1], w[1]))), 4)
    (0.0, 2.0)
    """
    matrix = orthogonal(scale, column_axis, dtype)

    def make(key: Any, shape: tuple[int, ...], dt: DType) -> Value:
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"{_MODULE}.delta_orthogonal: the shape must have 3, 4 or 5 dimensions, got {shape}")
        if shape[-1] < shape[-2]:
            raise ValueError(
                f"{_MODULE}.delta_orthogonal: there must not be fewer outputs than inputs, got shape {shape}"
            )
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dt).at[middle].set(matrix(key, shape[-2:], dt))

    return _initializer("delta_orthogonal", make, dtype)


__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

__getattr__ = module_getattr(_MODULE, globals())

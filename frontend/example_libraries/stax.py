"""Neural networks of combined layers, with the API of `jax.example_libraries.stax`.

A layer is a pair of functions. ``init(key, input_shape)`` returns the shape of the output and the layer's parameters;
``apply(params, inputs, rng=None)`` returns the output. `serial` and `parallel` combine layers into a layer.

>>> from quire.example_libraries import stax
>>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(3), stax.LogSoftmax)
>>> shape, params = init(quire.random.key(0), (-1, 4))
>>> shape, apply(params, quire.numpy.ones((2, 4))).shape
((-1, 3), (2, 3))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import lax, random
from .. import numpy as jnp
from ..absent_names import module_getattr
from ..arrays.operands import Value
from ..arrays.shape_struct import ShapeDtypeStruct
from ..compiling.api import eval_shape
from ..nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)
from ..nn.initializers import glorot_normal, normal, ones, zeros

# The older names of these functions.
glorot = glorot_normal
randn = normal
logsoftmax = log_softmax

Shape = Any


class Layer(NamedTuple):
    """A layer: its function that makes parameters, and its function that applies them."""

    init: Callable[..., tuple[Any, Any]]
    apply: Callable[..., Any]


def _without_parameters(apply: Callable[..., Any], shape: Callable[[Shape], Any]) -> Layer:
    """A layer that has no parameters: its function, and the shape of its output for that of its input."""

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        return shape(input_shape), ()

    return Layer(init, apply)


def _same(input_shape: Shape) -> Shape:
    return input_shape


def _output_shape(f: Callable[..., Any], input_shape: Sequence[int], batch: int, *others: Sequence[int]) -> Shape:
    """The shape of f's result. The size of the dimension `batch` need not be known: -1 stays -1."""
    one = [1 if i == batch else n for i, n in enumerate(input_shape)]
    shapes = [ShapeDtypeStruct(tuple(s), np.dtype(np.float32)) for s in (one, *others)]
    return list(eval_shape(f, *shapes).shape)


# -- layers with parameters -------------------------------------------------------------------------------------------------


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: B008
    """A dense layer, ``x @ W + b`` over the last dimension.

    Args:
        out_dim: the size of the last dimension of the output.
        W_init, b_init: initializers of W, of shape (inputs, out_dim), and of b, of shape (out_dim,).

    Follows `jax.example_libraries.stax.Dense`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.Dense(3)
    >>> shape, (W, b) = init(quire.random.key(0), (5, 4))
    >>> shape, W.shape, b.shape
    ((5, 3), (4, 3), (3,))
    """

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        key_w, key_b = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(key_w, (input_shape[-1], out_dim)), b_init(key_b, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Value:
        W, b = params
        return jnp.dot(inputs, W) + b

    return Layer(init, apply)


def _convolution(
    name: str,
    convolve: Callable[..., Value],
    dimension_numbers: tuple[str, str, str],
    out_chan: int,
    filter_shape: Sequence[int],
    W_init: Any,
    b_init: Any,
) -> Layer:
    """A layer ``convolve(x, W) + b``."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if len(filter_shape) != len(rhs_spec) - 2:
        raise ValueError(
            f"quire.example_libraries.stax.{name}: filter_shape {tuple(filter_shape)} must have one size for each "
            f"spatial dimension of the kernel {rhs_spec!r}"
        )
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    bias_shape = [out_chan if c == "C" else 1 for c in out_spec]

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel_shape = [channels[c] if c in channels else next(sizes) for c in rhs_spec]
        batch = lhs_spec.index("N")
        out_shape = _output_shape(convolve, input_shape, batch, kernel_shape)
        out_shape[out_spec.index("N")] = input_shape[batch]
        key_w, key_b = random.split(rng)
        return tuple(out_shape), (W_init(key_w, kernel_shape), b_init(key_b, bias_shape))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Value:
        W, b = params
        return convolve(inputs, W) + b

    return Layer(init, apply)


def GeneralConv(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Any = None, b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:  # fmt: skip
    """A convolution.

    Args:
        dimension_numbers: what the dimensions of input, kernel and output are, as those of `lax.conv_general_dilated`.
        out_chan: the number of channels of the output.
        filter_shape: the spatial sizes of the kernel.
        strides, padding: as those of `lax.conv_general_dilated`; strides are 1 for None.
        W_init, b_init: initializers of the kernel and of the bias.

    Raises:
        ValueError: filter_shape and dimension_numbers do not fit.

    Follows `jax.example_libraries.stax.GeneralConv`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.GeneralConv(("NHWC", "HWIO", "NHWC"), 8, (3, 3))
    >>> init(quire.random.key(0), (-1, 10, 10, 3))[0]
    (-1, 8, 8, 8)
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(x: Any, W: Any) -> Value:
        return lax.conv_general_dilated(x, W, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution("GeneralConv", convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Any = None, b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:  # fmt: skip
    """A transposed convolution; arguments as those of `GeneralConv`.

    Follows `jax.example_libraries.stax.GeneralConvTranspose`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.GeneralConvTranspose(("NHC", "HIO", "NHC"), 8, (3,), strides=(2,))
    >>> init(quire.random.key(0), (-1, 10, 3))[0]
    (-1, 21, 8)
    """
    steps = tuple(strides or (1,) * len(filter_shape))

    def convolve(x: Any, W: Any) -> Value:
        return lax.conv_transpose(x, W, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution("GeneralConvTranspose", convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


#: `GeneralConv` for images, NHWC with kernels HWIO.
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
#: `GeneralConvTranspose` for sequences, NHC with kernels HIO.
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
#: `GeneralConvTranspose` for images, NHWC with kernels HWIO.
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
    beta_init: Any = zeros, gamma_init: Any = ones,
) -> Layer:  # fmt: skip
    """Normalization over the batch: mean 0 and variance 1 over some axes, then ``gamma * x + beta``.

    Args:
        axis: the axes over which mean and variance are taken.
        epsilon: added to the variance.
        center, scale: whether there is a beta, and a gamma.
        beta_init, gamma_init: initializers of these.

    Follows `jax.example_libraries.stax.BatchNorm`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.BatchNorm(axis=0)
    >>> shape, params = init(quire.random.key(0), (2, 1))
    >>> apply(params, quire.numpy.array([[1.], [3.]])).ravel().round(2)
    Array([-1.,  1.], dtype=float32)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        key_beta, key_gamma = random.split(rng)
        beta = beta_init(key_beta, shape) if center else ()
        gamma = gamma_init(key_gamma, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply(params: Any, x: Any, **kwargs: Any) -> Value:
        beta, gamma = params
        out = standardize(x, axes, epsilon=epsilon)
        if scale:
            out = jnp.expand_dims(gamma, axes) * out
        return out + jnp.expand_dims(beta, axes) if center else out

    return Layer(init, apply)


# -- layers without parameters ----------------------------------------------------------------------------------------------


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to its input; the keywords are given to it.

    Follows `jax.example_libraries.stax.elementwise`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.elementwise(quire.numpy.clip, min=0, max=1)
    >>> apply((), quire.numpy.array([-1., 2.]))
    Array([0., 1.], dtype=float32)
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return fun(inputs, **fun_kwargs)

    return _without_parameters(apply, _same)


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(
    reducer: Callable[[Any, Any], Any], neutral: float, window_shape: Sequence[int], strides: Sequence[int] | None,
    padding: Any, spec: str | None, averaged: bool = False,
) -> Layer:  # fmt: skip
    window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
    outside = (0, len(window) + 1) if spec is None else (spec.index("N"), spec.index("C"))
    for i in sorted(outside):
        window.insert(i, 1)
        steps.insert(i, 1)

    def pool(x: Any) -> Value:
        return lax.reduce_window(x, neutral, reducer, tuple(window), tuple(steps), padding)

    def shape(input_shape: Shape) -> Shape:
        out = _output_shape(pool, input_shape, outside[0])
        out[outside[0]] = input_shape[outside[0]]
        return tuple(out)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Value:
        out = pool(inputs)
        if not averaged:
            return out
        # Padding does not count: a window at the border has fewer elements.
        return out / pool(jnp.ones([1 if i in outside else n for i, n in enumerate(jnp.shape(inputs))], inputs.dtype))

    return _without_parameters(apply, shape)


def MaxPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The maximum of each window.

    Args:
        window_shape, strides: sizes and steps of the window in the spatial dimensions; steps are 1 for None.
        padding: "VALID", "SAME" or pairs (low, high) for all dimensions.
        spec: what the dimensions are, such as "NCHW"; for None the first is N and the last C.

    Follows `jax.example_libraries.stax.MaxPool`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.MaxPool((2,))
    >>> apply((), quire.numpy.array([[[1.], [5.], [2.]]])).ravel()
    Array([5., 5.], dtype=float32)
    """
    return _pooling(lax.max, -math.inf, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The sum of each window; arguments as those of `MaxPool`. Follows `jax.example_libraries.stax.SumPool`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.SumPool((2,))
    >>> apply((), quire.numpy.array([[[1.], [5.], [2.]]])).ravel()
    Array([6., 7.], dtype=float32)
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The mean of each window, of its elements that are not padding; arguments as those of `MaxPool`.

    Follows `jax.example_libraries.stax.AvgPool`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.AvgPool((2,), padding="SAME")
    >>> apply((), quire.numpy.array([[[1.], [5.], [2.]]])).ravel()
    Array([3. , 3.5, 2. ], dtype=float32)
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec, averaged=True)


def _flatten(params: Any, inputs: Any, **kwargs: Any) -> Value:
    return jnp.reshape(inputs, (inputs.shape[0], -1))


def _identity(params: Any, inputs: Any, **kwargs: Any) -> Any:
    return inputs


def _fan_in_sum(params: Any, inputs: Any, **kwargs: Any) -> Any:
    return sum(inputs)


#: A layer that flattens all dimensions but the first.
Flatten = _without_parameters(_flatten, lambda shape: (shape[0], math.prod(shape[1:])))
#: A layer whose output is its input.
Identity = _without_parameters(_identity, _same)
#: A layer whose output is the sum of its inputs, a sequence.
FanInSum = _without_parameters(_fan_in_sum, lambda shapes: shapes[0])


def FanOut(num: int) -> Layer:
    """A layer whose output is a list of `num` times its input. Follows `jax.example_libraries.stax.FanOut`.

    >>> from quire.example_libraries import stax
    >>> stax.FanOut(2).apply((), 1.0)
    [1.0, 1.0]
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return [inputs] * num

    return _without_parameters(apply, lambda shape: [shape] * num)


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that concatenates its inputs, a sequence. Follows `jax.example_libraries.stax.FanInConcat`.

    >>> from quire.example_libraries import stax
    >>> stax.FanInConcat().init(quire.random.key(0), [(2, 3), (2, 5)])[0]
    (2, 8)
    """

    def shape(shapes: Sequence[Shape]) -> Shape:
        first, a = shapes[0], axis % len(shapes[0])
        return (*first[:a], sum(s[a] for s in shapes), *first[a + 1 :])

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Value:
        return jnp.concatenate(inputs, axis)

    return _without_parameters(apply, shape)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A layer that keeps each element with probability `rate`, divided by it, and sets the others to 0.

    Args:
        rate: the probability with which an element is kept (as in JAX's function of this name).
        mode: "train"; with any other the output is the input.

    Raises:
        ValueError: when applied without ``rng=key``.

    Follows `jax.example_libraries.stax.Dropout`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.Dropout(0.5)
    >>> sorted(set(apply((), quire.numpy.ones(100), rng=quire.random.key(0)).tolist()))
    [0.0, 2.0]
    """

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        if rng is None:
            raise ValueError(
                "quire.example_libraries.stax.Dropout: apply needs a key: apply(params, inputs, rng=quire.random.key(0))"
            )
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, jnp.shape(inputs)), inputs / rate, 0)

    return _without_parameters(apply, _same)


# -- combinations -----------------------------------------------------------------------------------------------------------


def _keys(rng: Any, n: int) -> Sequence[Any]:
    return (None,) * n if rng is None else random.split(rng, n)


def serial(*layers: Any) -> Layer:
    """Layers one after another. The parameters are the list of theirs.

    Follows `jax.example_libraries.stax.serial`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.serial(stax.Identity, stax.Relu)
    >>> apply([(), ()], quire.numpy.array([-1., 2.]))
    Array([0., 2.], dtype=float32)
    """
    inits, applies = _pairs("serial", layers)

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        params = []
        for layer_init in inits:
            rng, key = random.split(rng)
            input_shape, layer_params = layer_init(key, input_shape)
            params.append(layer_params)
        return input_shape, params

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        for layer_apply, layer_params, key in zip(applies, params, _keys(rng, len(applies)), strict=True):
            inputs = layer_apply(layer_params, inputs, rng=key, **kwargs)
        return inputs

    return Layer(init, apply)


def parallel(*layers: Any) -> Layer:
    """Layers beside one another: it takes a sequence of inputs, one for each, and returns the list of outputs.

    Follows `jax.example_libraries.stax.parallel`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.serial(stax.FanOut(2), stax.parallel(stax.Identity, stax.Relu), stax.FanInSum)
    >>> apply([(), [(), ()], ()], quire.numpy.array([-1., 2.]))
    Array([-1.,  4.], dtype=float32)
    """
    inits, applies = _pairs("parallel", layers)

    def init(rng: Any, input_shape: Sequence[Shape]) -> tuple[Any, Any]:
        keys = random.split(rng, len(inits))
        made = [f(key, shape) for f, key, shape in zip(inits, keys, input_shape, strict=True)]
        return tuple(shape for shape, _ in made), tuple(params for _, params in made)

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        keys = _keys(rng, len(applies))
        return [f(p, x, rng=k, **kwargs) for f, p, x, k in zip(applies, params, inputs, keys, strict=True)]

    return Layer(init, apply)


def _pairs(name: str, layers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    for i, layer in enumerate(layers):
        if not (isinstance(layer, tuple) and len(layer) == 2 and all(callable(f) for f in layer)):
            raise TypeError(
                f"quire.example_libraries.stax.{name}: argument {i} must be a layer, a pair of functions (init, apply), "
                f"got {layer!r}"
            )
    return [layer[0] for layer in layers], [layer[1] for layer in layers]


def shape_dependent(make_layer: Callable[[Shape], Any]) -> Layer:
    """The layer ``make_layer(input_shape)``, made when the shape of its input is known.

    Follows `jax.example_libraries.stax.shape_dependent`.

    >>> from quire.example_libraries import stax
    >>> init, apply = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
    >>> init(quire.random.key(0), (2, 7))[0]
    (2, 7)
    """

    def init(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return Layer(init, apply)


__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat",
    "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "Layer", "LeakyRelu",
    "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "elu",
    "gelu", "glorot", "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal", "ones", "parallel", "randn",
    "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus", "standardize", "zeros",
]  # fmt: skip

__getattr__ = module_getattr("quire.example_libraries.stax", globals())
